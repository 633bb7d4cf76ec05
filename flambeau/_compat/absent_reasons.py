"""Why single public names are absent, by PyTorch's module; `tools/absent_names.py` writes this file."""

ABSENT = {
    "": {
        "TorchScript's and the dispatcher's types, under the names of the C++ bindings": """
        AVG AggregationType AliasDb Argument ArgumentSpec BenchmarkConfig BenchmarkExecutionStats Block
        BufferDict CallStack Capsule Code CompilationUnit CompleteArgumentSpec ConcreteModuleType
        ConcreteModuleTypeBuilder DeepCopyMemoTable DeserializationStorageContext DisableTorchFunction
        DisableTorchFunctionSubclass DispatchKey DispatchKeySet ErrorReport ExcludeDispatchKeyGuard
        ExecutionPlan FatalError FileCheck FunctionSchema Gradient Graph GraphExecutorState IODescriptor
        JITException LiteScriptModule LockingLogger ModuleDict Node NoopLogger OperatorInfo ParameterDict
        PyTorchFileWriter SUM ScriptClass ScriptClassFunction ScriptDict ScriptDictIterator
        ScriptDictKeyIterator ScriptList ScriptListIterator ScriptMethod ScriptModuleSerializer ScriptObject
        ScriptObjectProperty SerializationStorageContext StaticModule ThroughputBenchmark TracingState Type
        Use Value import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir
        parse_schema parse_type_comment unify_type_list
        """,
        "not there yet": """
        AcceleratorError hash_tensor
        """,
        "steps of SyncBatchNorm between processes": """
        batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
        batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats
        """,
        "kernels of quantised operations by their names": """
        choose_qparams_optimized fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation
        fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight
        fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix fused_moving_avg_obs_fake_quant
        quantized_batch_norm quantized_gru_cell quantized_lstm_cell quantized_max_pool1d
        quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell
        """,
        "numbers of some bits are not computed with": """
        bit
        """,
        "kernels of one vendor's library by its name": """
        cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu
        cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable
        miopen_batch_norm miopen_convolution miopen_convolution_add_relu miopen_convolution_relu
        miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution miopen_rnn
        mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights mkldnn_max_pool2d
        mkldnn_max_pool3d mkldnn_rnn_layer
        """,
        "work on several devices or in other processes that is not here yet": """
        fork wait
        """,
        "internals of views and of old norms": """
        slice_inverse
        """,
        "not part of this compiler of graphs": """
        sym_constrain_range sym_constrain_range_for_size sym_fresh_size
        """,
        "a part of PyTorch's own making": """
        __all__ _amp_update_scale_ _convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu
        _has_compatible_shallow_copy_type
        _int_mm _shape_as_tensor _standard_gamma _weight_int4pack_mm _weight_int4pack_mm_for_cpu
        _weight_int8pack_mm matrix_rank set_vital symeig torch while_loop
        """,
    },
    "Tensor": {
        "removed from PyTorch, where they only raise": """
        eig lstsq reinforce solve symeig
        """,
        "not there yet": """
        grad_dtype hash_tensor
        """,
        "parts of PyTorch's own making": """
        index
        """,
        "devices that are not here": """
        ipu mtia to_mkldnn xpu
        """,
        "deprecated in PyTorch": """
        name resize resize_as volatile
        """,
        "old products and sizes of sparse tensors: functions, or methods of their class": """
        resize_as_sparse_ smm sparse_resize_ sparse_resize_and_clear_ sspaddmm
        """,
        "internals of views and of old norms": """
        slice_inverse
        """,
    },
    "accelerator": {
        "graphs of a device's work are not captured": """
        Graph
        """,
    },
    "accelerator.graphs": {
        "graphs of a device's work are not captured": """
        Graph
        """,
    },
    "autograd": {
        "deprecated in PyTorch": """
        NestedIOFunction
        """,
        "not there yet": """
        enforce_grad_layout_policy
        """,
        "a part of PyTorch's own making": """
        kineto_available
        """,
    },
    "autograd.function": {
        "parts of PyTorch's own making": """
        BackwardCFunction FunctionMeta
        """,
        "deprecated in PyTorch": """
        NestedIOFunction
        """,
    },
    "autograd.grad_mode": {
        "not there yet": """
        enforce_grad_layout_policy
        """,
    },
    "autograd.gradcheck": {
        "parts of PyTorch's own making": """
        get_analytical_jacobian get_numerical_jacobian get_numerical_jacobian_wrt_specific_input
        """,
    },
    "autograd.graph": {
        "not there yet": """
        region_activation_memory_budget
        """,
        "graphs of a device's work are not captured": """
        set_override_stale_capture_stream
        """,
        "parts of PyTorch's own making": """
        set_warn_on_accumulate_grad_stream_mismatch
        """,
    },
    "autograd.profiler": {
        "parts of the profiler's own making": """
        EnforceUnique KinetoStepTracker MemRecordsAcc
        """,
        "Intel's tracing library": """
        emit_itt
        """,
        "deprecated in PyTorch": """
        load_nvprof parse_nvprof_trace
        """,
    },
    "autograd.profiler_util": {
        "parts of the profiler's own making": """
        EventMetadata MemRecordsAcc StringTable
        """,
    },
    "backends": {
        "a part of PyTorch's own making": """
        __allow_nonbracketed_mutation
        """,
    },
    "backends.cuda": {
        "steps of a device's own libraries that nothing here calls": """
        blas_workspace_size cuBLASModule cuFFTPlanCache cuFFTPlanCacheAttrContextProp cuFFTPlanCacheManager
        cublas_workspace_size cublaslt_workspace_size cufft_plan_cache
        preferred_rocm_fa_library
        """,
    },
    "backends.mkl": {
        "steps of a device's own libraries that nothing here calls": """
        verbose
        """,
    },
    "backends.xeon.run_cpu": {
        "steps of a device's own libraries that nothing here calls": """
        create_args main
        """,
    },
    "compiler": {
        "guards are always looked at": """
        keep_portable_guards_unsafe keep_tensor_guards_unsafe set_enable_guard_collectives skip_all_guards_unsafe
        skip_guard_on_all_nn_modules_unsafe skip_guard_on_globals_unsafe skip_guard_on_inbuilt_nn_modules_unsafe
        """,
        "kernels are cached on disk, captures are made anew": """
        load_compiled_function
        """,
        "functions are captured whole": """
        nested_compile_region substitute_in_graph
        """,
    },
    "cuda": {
        "typed storages of devices are deprecated in PyTorch": """
        BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage
        DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage
        """,
        "steps of a device's own libraries that nothing here calls": """
        GreenContext
        """,
        "a part of PyTorch's own making": """
        _initialized _is_in_bad_fork
        """,
    },
    "cuda.green_contexts": {
        "steps of a device's own libraries that nothing here calls": """
        GreenContext
        """,
    },
    "cuda.nccl": {
        "steps of a device's own libraries that nothing here calls": """
        all_gather all_reduce broadcast reduce reduce_scatter
        """,
    },
    "fft": {
        "parts of PyTorch's own making": """
        Tensor
        """,
    },
    "func": {
        "not part of this compiler of graphs": """
        debug_unwrap functionalize rearrange
        """,
    },
    "fx.graph_module": {
        "parts of PyTorch's own packages, compilers and splitters": """
        reduce_package_graph_module
        """,
    },
    "fx.passes.split_module": {
        "parts of PyTorch's own packages, compilers and splitters": """
        Partition split_module_simple
        """,
    },
    "fx.passes.split_utils": {
        "parts of PyTorch's own packages, compilers and splitters": """
        move_non_tensor_nodes_on_boundary
        """,
    },
    "fx.proxy": {
        "parts of PyTorch's own packages, compilers and splitters": """
        MetaProxy
        """,
    },
    "fx.traceback": {
        "parts of PyTorch's own packages, compilers and splitters": """
        NodeSource NodeSourceAction get_graph_provenance_json
        """,
    },
    "masked.maskedtensor.core": {
        "PyTorch's own file; it stands in masked here": """
        MaskedTensor is_masked_tensor
        """,
    },
    "masked.maskedtensor.creation": {
        "PyTorch's own file; it stands in masked here": """
        as_masked_tensor masked_tensor
        """,
    },
    "multiprocessing": {
        "a part of PyTorch's own making": """
        _set_thread_name
        """,
    },
    "multiprocessing.pool": {
        "parts of PyTorch's own making": """
        clean_worker
        """,
    },
    "nn": {
        "parts of PyTorch's own making": """
        factory_kwargs
        """,
    },
    "nn.attention": {
        "kernels of attention by other names cannot be registered": """
        WARN_FOR_UNFUSED_KERNELS activate_flash_attention_impl current_flash_attention_impl
        list_flash_attention_impls register_flash_attention_impl restore_flash_attention_impl
        """,
    },
    "nn.functional": {
        "parts of PyTorch's own making": """
        assert_int_or_pair
        """,
        "a part of PyTorch's own making": """
        _canonical_mask _mha_shape_check _none_or_dtype
        """,
    },
    "nn.init": {
        "a part of PyTorch's own making": """
        _no_grad_uniform_
        """,
    },
    "nn.modules.conv": {
        "a part of PyTorch's own making": """
        _ConvTransposeMixin
        """,
    },
    "nn.modules.module": {
        "a part of PyTorch's own making": """
        _global_forward_hooks _global_forward_pre_hooks
        """,
    },
    "nn.parallel.comm": {
        "work on several devices or in other processes that is not here yet": """
        broadcast broadcast_coalesced reduce_add reduce_add_coalesced
        """,
        "PyTorch's own file; it stands in nn.parallel here": """
        gather scatter
        """,
    },
    "nn.parallel.parallel_apply": {
        "work on several devices or in other processes that is not here yet": """
        get_a_var
        """,
    },
    "nn.utils.stateless": {
        "a part of PyTorch's own making": """
        _reparametrize_module
        """,
    },
    "optim": {
        "parts of PyTorch's own making": """
        swap_in_optimizer_params_and_state
        """,
    },
    "overrides": {
        "parts of PyTorch's own making": """
        enable_reentrant_dispatch redispatch_function
        """,
    },
    "profiler": {
        "traces for replay by other tools": """
        ExecutionTraceObserver
        """,
    },
    "profiler.itt": {
        "Intel's tracing library": """
        is_available mark range range_pop range_push
        """,
    },
    "profiler.profiler": {
        "traces for replay by other tools": """
        ExecutionTraceObserver
        """,
    },
    "return_types": {
        "PyTorch registers named results as trees with it; here all of them are": """
        pytree_register_structseq
        """,
    },
    "serialization": {
        "devices that are not here": """
        validate_hpu_device
        """,
        "a part of PyTorch's own making": """
        _check_dill_version _is_torchscript_zip _is_zipfile _legacy_load _load _open_file_like
        _open_zipfile_reader
        """,
    },
    "signal.windows.windows": {
        "PyTorch's own file; it stands in signal.windows here": """
        bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann kaiser
        nuttall
        """,
    },
    "sparse": {
        "semi-structured sparsity: NVIDIA's tensor cores alone have it": """
        SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS
        to_sparse_semi_structured
        """,
    },
    "sparse.semi_structured": {
        "semi-structured sparsity: NVIDIA's tensor cores alone have it": """
        SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS
        to_sparse_semi_structured
        """,
    },
    "utils": {
        "parts of PyTorch's own making": """
        set_module
        """,
    },
    "utils.backcompat": {
        "warnings of PyTorch's own changes": """
        Warning
        """,
    },
    "utils.benchmark.examples.compare": {
        "parts of PyTorch's own making": """
        FauxTorch main
        """,
    },
    "utils.benchmark.examples.fuzzer": {
        "parts of PyTorch's own making": """
        main
        """,
    },
    "utils.benchmark.examples.op_benchmark": {
        "parts of PyTorch's own making": """
        assert_dicts_equal main run
        """,
    },
    "utils.benchmark.examples.simple_timeit": {
        "parts of PyTorch's own making": """
        main
        """,
    },
    "utils.benchmark.examples.spectral_ops_fuzz_test": {
        "parts of PyTorch's own making": """
        Benchmark run_benchmark
        """,
    },
    "utils.benchmark.op_fuzzers.binary": {
        "parts of PyTorch's own making": """
        BinaryOpFuzzer
        """,
    },
    "utils.benchmark.op_fuzzers.sparse_binary": {
        "parts of PyTorch's own making": """
        BinaryOpSparseFuzzer
        """,
    },
    "utils.benchmark.op_fuzzers.sparse_unary": {
        "parts of PyTorch's own making": """
        UnaryOpSparseFuzzer
        """,
    },
    "utils.benchmark.op_fuzzers.spectral": {
        "parts of PyTorch's own making": """
        SpectralOpFuzzer
        """,
    },
    "utils.benchmark.op_fuzzers.unary": {
        "parts of PyTorch's own making": """
        UnaryOpFuzzer
        """,
    },
    "utils.benchmark.utils.common": {
        "PyTorch's own file; it stands in utils.benchmark here": """
        Measurement TaskSpec ordered_unique select_unit set_torch_threads trim_sigfig unit_to_english
        """,
    },
    "utils.benchmark.utils.compare": {
        "parts of PyTorch's own making": """
        Colorize
        """,
        "PyTorch's own file; it stands in utils.benchmark here": """
        Compare
        """,
    },
    "utils.benchmark.utils.cpp_jit": {
        "parts of PyTorch's own making": """
        compile_callgrind_template compile_timeit_template get_compat_bindings
        """,
    },
    "utils.benchmark.utils.fuzzer": {
        "PyTorch's own file; it stands in utils.benchmark here": """
        FuzzedParameter FuzzedTensor Fuzzer ParameterAlias
        """,
    },
    "utils.benchmark.utils.sparse_fuzzer": {
        "parts of PyTorch's own making": """
        FuzzedSparseTensor
        """,
    },
    "utils.benchmark.utils.timer": {
        "PyTorch's own file; it stands in utils.benchmark here": """
        Language Timer timer
        """,
    },
    "utils.benchmark.utils.valgrind_wrapper.timer_interface": {
        "parts of PyTorch's own making": """
        CallgrindStats CopyIfCallgrind FunctionCount FunctionCounts
        """,
    },
    "utils.collect_env": {
        "parts of PyTorch's own making": """
        check_release_file get_cachingallocator_config get_clang_version get_cmake_version
        get_conda_packages get_cpu_info get_cuda_module_loading_config get_cudnn_version get_gcc_version
        get_gpu_info get_intel_gpu_detected get_intel_gpu_driver_version get_intel_gpu_onboard
        get_libc_version get_linux_pkg_version get_lsb_version get_mac_version get_nvidia_driver_version
        get_nvidia_smi get_os get_pip_packages get_platform get_python_platform get_running_cuda_version
        get_windows_version is_xnnpack_available run_and_parse_first_match run_and_read_all
        run_and_return_first_line
        """,
    },
    "utils.cpp_backtrace": {
        "parts of PyTorch's own making": """
        get_cpp_backtrace
        """,
    },
    "utils.cpp_extension": {
        "the header of extensions is one page, which nobody compiles beforehand": """
        remove_extension_h_precompiler_headers
        """,
    },
    "utils.data": {
        "deprecated in PyTorch": """
        DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation functional_datapipe
        guaranteed_datapipes_determinism non_deterministic runtime_validation runtime_validation_disabled
        """,
    },
    "utils.data._utils": {
        "a part of PyTorch's own making": """
        python_exit_status
        """,
    },
    "utils.data._utils.pin_memory": {
        "a part of PyTorch's own making": """
        _pin_memory_loop
        """,
    },
    "utils.data.backward_compatibility": {
        "deprecated in PyTorch": """
        worker_init_fn
        """,
    },
    "utils.data.graph": {
        "deprecated in PyTorch": """
        traverse traverse_dps
        """,
    },
    "utils.debug_log": {
        "parts of PyTorch's own making": """
        debug_grad_log
        """,
    },
    "utils.file_baton": {
        "parts of PyTorch's own making": """
        FileBaton
        """,
    },
    "utils.hooks": {
        "deprecated in PyTorch": """
        BackwardHook unserializable_hook warn_if_has_hooks
        """,
    },
    "utils.show_pickle": {
        "parts of PyTorch's own making": """
        DumpUnpickler FakeClass FakeObject main
        """,
    },
    "utils.tensorboard": {
        "parts of PyTorch's own making": """
        RecordWriter
        """,
    },
    "utils.tensorboard.summary": {
        "parts of PyTorch's own making": """
        compute_curve draw_boxes half_to_int image_boxes int_to_half make_histogram make_image make_video
        tensor_proto
        """,
    },
}
