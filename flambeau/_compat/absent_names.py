"""Names of absent modules that libraries mention as they are imported; `tools/absent_names.py` writes it.

By module: `Name(Base)` is a class, `Name[A=1,B=2]` an enumeration, `Name=module.Name` what another module has, `Name` a function.
"""

# ruff: noqa: E501
NAMES = {
    "_C": """
        DisableTorchFunction() LoggerBase() Node() ScriptMethod() StorageBase()
    """,
    "_C._onnx": """
        OperatorExportTypes[ONNX=0,ONNX_ATEN=1,ONNX_ATEN_FALLBACK=2,ONNX_FALLTHROUGH=3]
        TensorProtoDataType[UNDEFINED=0,FLOAT=1,UINT8=2,INT8=3,UINT16=4,INT16=5,INT32=6,INT64=7,STRING=8,BOOL=9,FLOAT16=10,DOUBLE=11,UINT32=12,UINT64=13,COMPLEX64=14,COMPLEX128=15,BFLOAT16=16,FLOAT8E4M3FN=17,FLOAT8E4M3FNUZ=18,FLOAT8E5M2=19,FLOAT8E5M2FNUZ=20]
        TrainingMode[EVAL=0,PRESERVE=1,TRAINING=2]
    """,
    "_C._profiler": """
        ActiveProfilerType[NONE=0,LEGACY=1,KINETO=2,NVTX=3,ITT=4,PRIVATEUSE1=5] CapturedTraceback()
        ProfilerActivity[CPU=0,XPU=1,MTIA=4,CUDA=2,HPU=3,PrivateUse1=5] ProfilerConfig()
        ProfilerState[Disabled=0,CPU=1,CUDA=2,NVTX=3,ITT=4,PRIVATEUSE1=5,KINETO=6,KINETO_GPU_FALLBACK=7,KINETO_PRIVATEUSE1_FALLBACK=8,KINETO_PRIVATEUSE1=9]
        RecordScope[FUNCTION=0,BACKWARD_FUNCTION=1,TORCHSCRIPT_FUNCTION=2,KERNEL_FUNCTION_DTYPE=3,CUSTOM_CLASS=4,BUILD_FEATURE=5,LITE_INTERPRETER=6,USER_SCOPE=7,STATIC_RUNTIME_OP=8,STATIC_RUNTIME_MODEL=9]
        _ExperimentalConfig()
    """,
    "_decomp": """
        core_aten_decompositions
    """,
    "_dynamo._trace_wrapped_higher_order_op": """
    """,
    "_dynamo.backends.common": """
        AotAutograd() aot_autograd
    """,
    "_dynamo.config": """
    """,
    "_dynamo.eval_frame": """
        DisableContext() DynamoStance() DynamoTLS() ExportResult()
        FlattenInputOutputSignature(fx.interpreter.Transformer) OptimizeContext() RunOnlyContext()
        TorchPatcher() Unset[token=0]
    """,
    "_functorch._aot_autograd.functional_utils": """
        MetadataKey() ViewMetaSequence() from_fun to_fun
    """,
    "_functorch.partitioners": """
        InvalidNodeBase() MinCutOptions() NodeInfo() OpTypes() _is_primal _is_tangent default_partition
    """,
    "_inductor": """
        aoti_compile_and_package=export._package.aoti_compile_and_package aoti_load_package=export._package.aoti_load_package
        list_mode_options=graph.options.list_mode_options list_options=graph.options.list_options
    """,
    "_inductor.config": """
    """,
    "_ops": """
        HigherOrderOperator(_ops.OperatorBase)
    """,
    "_subclasses.fake_tensor": """
        DataDependentOutputException(RuntimeError) DispatchCacheInfo()
        DynamicOutputShapeException(RuntimeError) FakeCopyMode(overrides.TorchFunctionMode)
        FakeTensor(Tensor) FakeTensorConfig() FakeTensorConverter()
        FakeTensorDeviceMismatchError(RuntimeError) FakeTensorMode(utils._python_dispatch.TorchDispatchMode)
        FakeTensorTLS() IncrementRecursionCount() MetadataMismatchError(RuntimeError) SingletonConstant()
        SymNumberMemoDescriptor() TensorMetadata() UnsupportedFakeTensorException(RuntimeError)
        UnsupportedMutationAliasingException(RuntimeError) UnsupportedOperatorException(RuntimeError)
        _is_tensor_constructor unset_fake_temporarily
    """,
    "_subclasses.functional_tensor": """
        BaseFunctionalizeAPI() CppFunctionalizeAPI(_subclasses.functional_tensor.BaseFunctionalizeAPI)
        FunctionalTensor(Tensor) FunctionalTensorMode(utils._python_dispatch.TorchDispatchMode)
        FunctorchFunctionalizeAPI(_subclasses.functional_tensor.BaseFunctionalizeAPI)
        PythonFunctionalizeAPI(_subclasses.functional_tensor.BaseFunctionalizeAPI) disable_functional_mode
    """,
    "ao.quantization.fake_quantize": """
        FakeQuantize=ao.quantization.FakeQuantize FakeQuantizeBase=ao.quantization.FakeQuantizeBase
        FixedQParamsFakeQuantize=ao.quantization.FixedQParamsFakeQuantize
        FusedMovingAvgObsFakeQuantize=ao.quantization.FusedMovingAvgObsFakeQuantize
        default_dynamic_fake_quant=ao.quantization.default_dynamic_fake_quant
        default_embedding_fake_quant=ao.quantization.default_embedding_fake_quant
        default_embedding_fake_quant_4bit=ao.quantization.default_embedding_fake_quant_4bit
        default_fake_quant=ao.quantization.default_fake_quant
        default_fixed_qparams_range_0to1_fake_quant=ao.quantization.default_fixed_qparams_range_0to1_fake_quant
        default_fixed_qparams_range_neg1to1_fake_quant=ao.quantization.default_fixed_qparams_range_neg1to1_fake_quant
        default_fused_act_fake_quant=ao.quantization.default_fused_act_fake_quant
        default_fused_per_channel_wt_fake_quant=ao.quantization.default_fused_per_channel_wt_fake_quant
        default_fused_wt_fake_quant=ao.quantization.default_fused_wt_fake_quant
        default_per_channel_weight_fake_quant=ao.quantization.default_per_channel_weight_fake_quant
        default_weight_fake_quant=ao.quantization.default_weight_fake_quant
        disable_fake_quant=ao.quantization.disable_fake_quant
        disable_observer=ao.quantization.disable_observer
        enable_fake_quant=ao.quantization.enable_fake_quant enable_observer=ao.quantization.enable_observer
    """,
    "ao.quantization.observer": """
        FixedQParamsObserver=ao.quantization.FixedQParamsObserver
        HistogramObserver=ao.quantization.HistogramObserver MinMaxObserver=ao.quantization.MinMaxObserver
        MovingAverageMinMaxObserver=ao.quantization.MovingAverageMinMaxObserver
        MovingAveragePerChannelMinMaxObserver=ao.quantization.MovingAveragePerChannelMinMaxObserver
        NoopObserver=ao.quantization.NoopObserver ObserverBase=ao.quantization.ObserverBase
        PerChannelMinMaxObserver=ao.quantization.PerChannelMinMaxObserver
        PlaceholderObserver=ao.quantization.PlaceholderObserver
        ReuseInputObserver=ao.quantization.ReuseInputObserver
        UniformQuantizationObserverBase=ao.quantization.UniformQuantizationObserverBase
        default_dynamic_quant_observer=ao.quantization.default_dynamic_quant_observer
        default_fixed_qparams_range_0to1_observer=ao.quantization.default_fixed_qparams_range_0to1_observer
        default_fixed_qparams_range_neg1to1_observer=ao.quantization.default_fixed_qparams_range_neg1to1_observer
        default_float_qparams_observer=ao.quantization.default_float_qparams_observer
        default_float_qparams_observer_4bit=ao.quantization.default_float_qparams_observer_4bit
        default_histogram_observer=ao.quantization.default_histogram_observer
        default_observer=ao.quantization.default_observer
        default_per_channel_weight_observer=ao.quantization.default_per_channel_weight_observer
        default_placeholder_observer=ao.quantization.default_placeholder_observer
        default_weight_observer=ao.quantization.default_weight_observer
        per_channel_weight_observer_range_neg_127_to_127=ao.quantization.per_channel_weight_observer_range_neg_127_to_127
        weight_observer_range_neg_127_to_127=ao.quantization.weight_observer_range_neg_127_to_127
    """,
    "ao.quantization.qconfig": """
        QConfig=ao.quantization.QConfig
        default_activation_only_qconfig=ao.quantization.default_activation_only_qconfig
        default_dynamic_qat_qconfig=ao.quantization.default_dynamic_qat_qconfig
        default_dynamic_qconfig=ao.quantization.default_dynamic_qconfig
        default_embedding_qat_qconfig=ao.quantization.default_embedding_qat_qconfig
        default_embedding_qat_qconfig_4bit=ao.quantization.default_embedding_qat_qconfig_4bit
        default_per_channel_qconfig=ao.quantization.default_per_channel_qconfig
        default_per_channel_symmetric_qnnpack_qconfig=ao.quantization.default_per_channel_symmetric_qnnpack_qconfig
        default_qat_qconfig=ao.quantization.default_qat_qconfig
        default_qat_qconfig_v2=ao.quantization.default_qat_qconfig_v2
        default_qconfig=ao.quantization.default_qconfig
        default_symmetric_qnnpack_qconfig=ao.quantization.default_symmetric_qnnpack_qconfig
        default_weight_only_qconfig=ao.quantization.default_weight_only_qconfig
        float_qparams_weight_only_qconfig=ao.quantization.float_qparams_weight_only_qconfig
        float_qparams_weight_only_qconfig_4bit=ao.quantization.float_qparams_weight_only_qconfig_4bit
        get_default_qat_qconfig=ao.quantization.get_default_qat_qconfig
        get_default_qconfig=ao.quantization.get_default_qconfig
        per_channel_dynamic_qconfig=ao.quantization.per_channel_dynamic_qconfig
        qconfig_equals=ao.quantization.qconfig_equals
    """,
    "ao.quantization.qconfig_mapping": """
        QConfigMapping=ao.quantization.QConfigMapping
        get_default_qat_qconfig_mapping=ao.quantization.get_default_qat_qconfig_mapping
        get_default_qconfig_mapping=ao.quantization.get_default_qconfig_mapping
    """,
    "ao.quantization.quant_type": "QuantType=ao.quantization.QuantType",
    "ao.quantization.quantization_mappings": """
        get_default_dynamic_quant_module_mappings=ao.quantization.get_default_dynamic_quant_module_mappings
        get_default_qat_module_mappings=ao.quantization.get_default_qat_module_mappings
        get_default_qconfig_propagation_list=ao.quantization.get_default_qconfig_propagation_list
        get_default_static_quant_module_mappings=ao.quantization.get_default_static_quant_module_mappings
        get_embedding_qat_module_mappings=ao.quantization.get_embedding_qat_module_mappings
        get_embedding_static_quant_module_mappings=ao.quantization.get_embedding_static_quant_module_mappings
    """,
    "ao.quantization.quantize": """
        add_quant_dequant=ao.quantization.add_quant_dequant convert=ao.quantization.convert
        prepare=ao.quantization.prepare prepare_qat=ao.quantization.prepare_qat
        propagate_qconfig_=ao.quantization.propagate_qconfig_ quantize=ao.quantization.quantize
        quantize_dynamic=ao.quantization.quantize_dynamic quantize_qat=ao.quantization.quantize_qat
        swap_module=ao.quantization.swap_module
    """,
    "ao.quantization.stubs": """
        DeQuantStub=ao.quantization.DeQuantStub QuantStub=ao.quantization.QuantStub
        QuantWrapper=ao.quantization.QuantWrapper
    """,
    "cuda": """
    """,
    "distributed": """
        QueueEmptyError(distributed.DistStoreError)
    """,
    "distributed._composable.fsdp": """
        CPUOffloadPolicy=distributed.fsdp.CPUOffloadPolicy FSDPModule=distributed.fsdp.FSDPModule
        MixedPrecisionPolicy=distributed.fsdp.MixedPrecisionPolicy OffloadPolicy=distributed.fsdp.OffloadPolicy
        UnshardHandle=distributed.fsdp.UnshardHandle fully_shard=distributed.fsdp.fully_shard
        register_fsdp_forward_method=distributed.fsdp.register_fsdp_forward_method
    """,
    "distributed._shard.sharded_tensor": """
        Shard() ShardMetadata() ShardedTensor(Tensor)
    """,
    "distributed._shard.sharding_spec": """
        ChunkShardingSpec()
    """,
    "distributed._shard.sharding_spec._internals": """
        _check_shard_metadata_pair_overlap
    """,
    "distributed._tensor": """
        DTensor=distributed.tensor.DTensor DeviceMesh=distributed.device_mesh.DeviceMesh
        Replicate=distributed.tensor.Replicate Shard=distributed.tensor.Shard
        Placement=distributed.tensor.Placement distribute_tensor=distributed.tensor.distribute_tensor
        distribute_module=distributed.tensor.distribute_module
        init_device_mesh=distributed.device_mesh.init_device_mesh
    """,
    "distributed._tensor.device_mesh": """
        DeviceMesh=distributed.device_mesh.DeviceMesh
        init_device_mesh=distributed.device_mesh.init_device_mesh
    """,
    "distributed._tensor.experimental": """
        implicit_replication=distributed.tensor.experimental.implicit_replication
    """,
    "distributed._tensor.placement_types": """
        DTensorSpec=distributed.tensor._dtensor_spec.DTensorSpec
        TensorMeta=distributed.tensor._dtensor_spec.TensorMeta Shard=distributed.tensor.Shard
        Replicate=distributed.tensor.Replicate Partial=distributed.tensor.Partial
        Placement=distributed.tensor.Placement _StridedShard=distributed.tensor.placement_types._StridedShard
    """,
    "distributed.checkpoint.optimizer": """
        load_sharded_optimizer_state_dict
    """,
    "distributed.checkpoint.state_dict": """
        _init_optim_state=distributed.checkpoint.state_dict.make_state
    """,
    "distributed.distributed_c10d": """
        AllToAllOptions() AllreduceCoalescedOptions() AllreduceOptions() BackendConfig() BarrierOptions()
        BroadcastOptions() GatherOptions() ProcessGroupGloo() ReduceOptions() ReduceScatterOptions()
        ScatterOptions()
    """,
    "distributed.fsdp": """
        DataParallelMeshDims()
    """,
    "distributed.fsdp._common_utils": """
        HandleTrainingState[IDLE=1,FORWARD=2,BACKWARD_PRE=3,BACKWARD_POST=4,SUMMON_FULL_PARAMS=5]
        TrainingState[IDLE=1,FORWARD_BACKWARD=2,SUMMON_FULL_PARAMS=3]
        clean_tensor_name=distributed.fsdp._states.clean
    """,
    "distributed.fsdp._runtime_utils": """
        _post_backward_final_callback
    """,
    "distributed.rpc": """
        AllGatherStates()
    """,
    "export": """
        AdditionalInputs() CustomDecompTable()
    """,
    "fx.experimental.proxy_tensor": """
        DecompositionInterpreter(fx.interpreter.Interpreter) _ProxyTensor() _SymNodeDict() decompose
        fetch_object_proxy fetch_sym_proxy get_proxy_slot track_tensor_tree
    """,
    "fx.experimental.symbolic_shapes": """
        ConvertIntKey() ShapeEnv() Specialization()
        StatefulSymbolicContext(fx.experimental.symbolic_shapes.StatelessSymbolicContext)
        StatelessSymbolicContext(fx.experimental.symbolic_shapes.SymbolicContext)
        SubclassSymbolicContext(fx.experimental.symbolic_shapes.StatefulSymbolicContext) SymIntEqByExpr()
        SymIntSymbolicContext(fx.experimental.symbolic_shapes.SymbolicContext) SymbolicContext()
        TrackedFake() ValueRangesSLoc()
    """,
    "jit": """
        CompilationUnit() _get_trace_graph strict_fusion()
    """,
    "jit.annotations": """
        AnyType=AnyType ComplexType=ComplexType DictType=DictType FloatType=FloatType IntType=IntType
        ListType=ListType Module=nn.Module StringType=StringType TensorType=TensorType TupleType=TupleType
    """,
    "nn.intrinsic": """
        BNReLU2d=ao.nn.intrinsic.BNReLU2d BNReLU3d=ao.nn.intrinsic.BNReLU3d
        ConvBn1d=ao.nn.intrinsic.ConvBn1d ConvBn2d=ao.nn.intrinsic.ConvBn2d
        ConvBn3d=ao.nn.intrinsic.ConvBn3d ConvBnReLU1d=ao.nn.intrinsic.ConvBnReLU1d
        ConvBnReLU2d=ao.nn.intrinsic.ConvBnReLU2d ConvBnReLU3d=ao.nn.intrinsic.ConvBnReLU3d
        ConvReLU1d=ao.nn.intrinsic.ConvReLU1d ConvReLU2d=ao.nn.intrinsic.ConvReLU2d
        ConvReLU3d=ao.nn.intrinsic.ConvReLU3d LinearReLU=ao.nn.intrinsic.LinearReLU
    """,
    "nn.qat": """
        Conv2d=ao.nn.qat.Conv2d Conv3d=ao.nn.qat.Conv3d Embedding=ao.nn.qat.Embedding
        EmbeddingBag=ao.nn.qat.EmbeddingBag Linear=ao.nn.qat.Linear
    """,
    "nn.quantized": """
        BatchNorm2d=ao.nn.quantized.BatchNorm2d BatchNorm3d=ao.nn.quantized.BatchNorm3d
        Conv1d=ao.nn.quantized.Conv1d Conv2d=ao.nn.quantized.Conv2d Conv3d=ao.nn.quantized.Conv3d
        ConvTranspose1d(nn.modules.module.Module) ConvTranspose2d(nn.modules.module.Module)
        ConvTranspose3d(nn.modules.module.Module) DeQuantize=ao.nn.quantized.DeQuantize
        Dropout=ao.nn.quantized.Dropout ELU=ao.nn.quantized.ELU Embedding=ao.nn.quantized.Embedding
        EmbeddingBag=ao.nn.quantized.EmbeddingBag FXFloatFunctional(nn.modules.module.Module)
        GroupNorm(nn.modules.normalization.GroupNorm) Hardswish=ao.nn.quantized.Hardswish
        InstanceNorm1d(nn.modules.instancenorm.InstanceNorm1d)
        InstanceNorm2d(nn.modules.instancenorm.InstanceNorm2d)
        InstanceNorm3d(nn.modules.instancenorm.InstanceNorm3d) LSTM(nn.modules.module.Module)
        LayerNorm(nn.modules.normalization.LayerNorm) LeakyReLU=ao.nn.quantized.LeakyReLU
        Linear=ao.nn.quantized.Linear MultiheadAttention(nn.modules.activation.MultiheadAttention)
        PReLU(nn.modules.module.Module) QFunctional=ao.nn.quantized.QFunctional
        Quantize=ao.nn.quantized.Quantize ReLU6=ao.nn.quantized.ReLU6
        Sigmoid(nn.modules.activation.Sigmoid) Softmax(nn.modules.activation.Softmax)
    """,
    "onnx": """
        ExportableModule(nn.modules.module.Module) InputObserver() OperatorExportTypes=_C._onnx.OperatorExportTypes
        TensorProtoDataType=_C._onnx.TensorProtoDataType
    """,
    "onnx._constants": """
    """,
    "onnx.symbolic_helper": """
    """,
    "onnx.utils": """
        _decide_input_format _export _model_to_graph
    """,
    "profiler._memory_profiler": """
        Action[PREEXISTING=1,CREATE=2,INCREMENT_VERSION=3,DESTROY=4] CategoryDict() CategoryElement()
        DataFlowEdge() DataFlowGraph() DataFlowNode() Key() MemoryProfile() MemoryProfileTimeline() OpTree()
        SchemaMatcher() SizeMap() TensorKey(profiler._memory_profiler.Key)
    """,
    "quantization": """
        QuantType[DYNAMIC=0,STATIC=1,QAT=2,WEIGHT_ONLY=3]
    """,
    "quantization.observer": """
        HistogramObserver=ao.quantization.HistogramObserver MinMaxObserver=ao.quantization.MinMaxObserver
        PerChannelMinMaxObserver=ao.quantization.PerChannelMinMaxObserver
    """,
    "quantization.qconfig": """
        QConfig=ao.quantization.QConfig
    """,
    "utils.data": """
        IterDataPipe=utils.data.datapipes.datapipe.IterDataPipe
        MapDataPipe=utils.data.datapipes.datapipe.MapDataPipe
    """,
    "utils.data.dataloader": """
        _sharding_worker_init_fn
    """,
    "utils.data.datapipes.datapipe": """
        DFIterDataPipe(utils.data.datapipes.datapipe.IterDataPipe) DataChunk()
        IterDataPipe(utils.data.dataset.IterableDataset) MapDataPipe(utils.data.dataset.Dataset)
        _IterDataPipeSerializationWrapper(utils.data.datapipes.datapipe.IterDataPipe)
        _MapDataPipeSerializationWrapper(utils.data.datapipes.datapipe.MapDataPipe)
    """,
    "utils.data.graph_settings": """
    """,
}
