# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Pointwise operations: from a call to a kernel.

Here is the way of every pointwise call: `call_pointwise` reads the arguments, `run` finds the common dtype,
the shape and the kernel (asking the compiler when it is new), launches it and, where a gradient is wanted,
puts a node on the tape.
"""
from libc.string cimport memcpy
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from ..base.device cimport Device
from ..base.dtypes cimport (
    C32, C64, CATEGORY, F4_E2M1FN_X2, F16, F32, ITEMSIZE, NO_CODE, U8, U32, default_code, dtype_of, is_stored,
)
from ..base.tensor cimport (
    MAX_DIMS, TensorBase, alias, runtime, new_strided_on, new_tensor, new_tensor_on, data_address, pointer, same_shape, bump_version,
)
from ..base.profiling cimport OPERATION, begin, end, profiling
from ..tape.inplace cimport check_in_place
from ..tape.modes cimport grad_enabled, set_grad, wants_grad
from .kernels cimport (
    ON_DEVICE, BROADCAST, CONTIGUOUS, MAX_ALL, MAX_OPERANDS, MAX_OUTPUTS, MAX_PARAMS, MAX_SLOTS, NUMBER, PARALLEL_FROM, STRIDED, Family,
    Kernel, Launch, Operand, PointwisePlan, access_of, device_launcher, insert, insert_family, kernel_t, look_up, one_device,
)
from .layout cimport HEAD, align, broadcast, launch_plan, layout, make_plan
from .operands cimport bring_scalars, common_code, pack, read_operand
from .operation cimport Op, dispatch, make_callable, prepare_op
from .interceptors cimport only_recording, operator_of_object, record_leaf
from .interceptors import no_interceptors
from .signature cimport MAX_BOUND, TENSOR, NUMBER as NUMBER_KIND, Signature, mistaken
from .destination cimport GIVEN, KIND, NEW, OVER, ANY, Where, check_destination, check_memory, check_overlap
from .overlap cimport meet, same_steps, shares
cimport cython

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)


# --- pointwise operations ------------------------------
@cython.binding(False)
cdef class PointwiseOp(Op):
    """n operands (tensors or numbers), named scalar parameters, m results; see `operations/declare/pointwise.py`."""

    def __cinit__(self, str name, tuple operands, tuple params, tuple defaults, int outputs, declaration,
                  bint differentiable=True, unsigned int raw=0, bint widens=False, bint pairs=False):
        cdef int k
        if len(operands) > MAX_OPERANDS or outputs > MAX_OUTPUTS or len(params) > MAX_PARAMS:
            raise ValueError(f"{name}: at most {MAX_OPERANDS} operands, {MAX_OUTPUTS} results, {MAX_PARAMS} parameters")
        prepare_op(self, name, call_pointwise)
        self.operands, self.params, self.outputs = len(operands), len(params), outputs
        self.names = operands + params
        self.required = len(operands) + len(params) - len(defaults)
        for k in range(len(defaults)):
            self.defaults[len(params) - len(defaults) + k] = defaults[k]
        self.declaration = declaration
        self.differentiable = differentiable
        self.raw, self.widens, self.pairs = raw, widens, pairs
        self.highest = F16 - 1 if pairs else NO_CODE
        self.derivations, self.old = {}, ()
        self.let_numbers(operands)

    def let_numbers(self, tuple which) -> None:
        """Which operands may be Python numbers; the others are tensors."""
        cdef int k
        cdef list kinds = []
        self.strict = 0
        for k in range(self.operands):
            kinds.append(TENSOR | NUMBER_KIND if self.names[k] in which else TENSOR)
            self.strict |= (self.names[k] not in which) << k
        shown = {self.names[self.required + k]: self.defaults[self.required - self.operands + k]
                 for k in range(len(self.names) - self.required)}
        self.signature = Signature(self.names + ("out",), self.operands + (0 if self.old else self.params), self.required, tuple(kinds),
                                   defaults=shown)
        self.signature.old = self.old

    @property
    def in_place(self):
        """The operation that writes its result over the first operand."""
        if self.written_over is None:
            self.written_over = InPlaceOp(self, self.name + "_")
            if "aten" in vars(self):
                self.written_over.aten = self.aten + "_"
        return self.written_over

    def foreach(self, list inputs, *, list out, **params):
        """The operation over lists of tensors of equal length: `inputs` holds a list for each operand, `out`
        a list for each result, which is overwritten.  Nothing is recorded.
        """
        cdef Operand operands[MAX_OPERANDS]
        cdef PyObject* given[MAX_OUTPUTS]
        cdef double values[MAX_PARAMS]
        cdef Py_ssize_t i
        cdef int k
        cdef bint before = grad_enabled(), dispatched
        self.read_params(params, values)
        if len(inputs) != self.operands or len(out) != self.outputs:
            raise TypeError(f"{self.name}.foreach(): {self.operands} lists of inputs and {self.outputs} of results expected, "
                            f"got {len(inputs)} and {len(out)}")
        for lists in (inputs, out):
            for column in <list>lists:
                if len(<list?>column) != len(<list>inputs[0]):
                    raise ValueError(f"{self.name}.foreach(): lists of one length expected, got "
                                     f"{[len(c) for c in inputs + out]}")
        dispatched = runtime.interceptors and not no_interceptors(inputs + out)
        cdef int64_t entry = begin(self, OPERATION) if profiling.on and not dispatched else -1
        set_grad(False)
        try:
            for i in range(len(inputs[0])):
                if dispatched:
                    self(*[column[i] for column in inputs], out=tuple([column[i] for column in out]), **params)
                    continue
                for k in range(self.operands):
                    if not read_operand((<list>inputs[k])[i], &operands[k]):
                        raise TypeError(f"{self.name}.foreach(): a Tensor expected in list {k}")
                for k in range(self.outputs):
                    given[k] = <PyObject*>(<list>out[k])[i]
                run(self, operands, values, given, OVER)
        finally:
            set_grad(before)
            if entry >= 0:
                end(entry)

    cdef int read_params(self, dict params, double* values) except -1:
        cdef int k, known = 0
        cdef PyObject* value
        for k in range(self.params):
            value = PyDict_GetItem(params, self.names[self.operands + k])
            values[k] = self.defaults[k] if value == NULL else <double><object>value
            known += value != NULL
        if known < len(params):
            for key in params:
                if key not in self.names[self.operands:]:
                    raise TypeError(f"{self.name}() got an unexpected keyword argument '{key}'")
        if len(params) < self.required - self.operands:
            raise TypeError(f"{self.name}() needs {self.names[self.operands:self.required]}, got {tuple(params)}")
        return 0


cdef class InPlaceOp(Op):
    """`x.op_(…)`: the same operation, its result written over the first operand."""

    cdef readonly PointwiseOp op

    def __cinit__(self, PointwiseOp op, str name):
        prepare_op(self, name, call_in_place)
        self.op, self.writes = op, True

    @property
    def __signature__(self):
        """The operation's own, without `out`."""
        whole = self.op.signature.to_python()
        return whole.replace(parameters=[p for name, p in whole.parameters.items() if name != "out"])

    @property
    def old_orders(self):
        return self.op.old


cdef object call_pointwise(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    return parse(<PointwiseOp>callable, args, PyVectorcall_NARGS(flagged), names, False, (<PointwiseOp>callable).name)


cdef object call_in_place(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    return parse((<InPlaceOp>callable).op, args, PyVectorcall_NARGS(flagged), names, True, (<InPlaceOp>callable).name)


cdef int read_call(PointwiseOp op, PyObject** args, Py_ssize_t nargs, PyObject* names, str who, Operand* operands, double* params,
                   PyObject** bound) except -1:
    """The operands and parameters of a call; `found` holds the arguments in the order of the signature, with room for MAX_BOUND."""
    cdef int k
    cdef object value
    op.signature.arrange(who, args, nargs, names, bound)
    for k in range(op.operands):
        if not read_operand(<object>bound[k], &operands[k]) or (op.strict >> k & 1 and operands[k].tensor == NULL):
            raise mistaken(who, op.names[k], k + 1, op.signature.kinds[k], <object>bound[k])
    for k in range(op.params):
        if bound[op.operands + k] == NULL:
            params[k] = op.defaults[k]
            continue
        value = <object>bound[op.operands + k]
        if isinstance(value, float) and op.names[op.operands + k] == "alpha" and CATEGORY[common_code(operands, op.operands, op.raw)] < 2 and (
                dtype_of(common_code(operands, op.operands, op.raw)).name in op.declaration.dtypes):   # else the dtype itself is refused
            raise RuntimeError(f"{who}(): For integral input tensors, argument alpha must not be a floating point number, got {value}")
        try:
            params[k] = value
        except (TypeError, ValueError):
            raise TypeError(f"{who}(): argument '{op.names[op.operands + k]}' must be Number, not "
                            f"{type(value).__name__}") from None
    return 0


cdef object parse(PointwiseOp op, PyObject** args, Py_ssize_t nargs, PyObject* names, bint in_place, str who):
    cdef Operand operands[MAX_OPERANDS]
    cdef double params[MAX_PARAMS]
    cdef PyObject* given[MAX_OUTPUTS]
    cdef PyObject* bound[MAX_BOUND]
    cdef int k, total = op.operands + op.params
    cdef object value
    read_call(op, args, nargs, names, who, operands, params, bound)
    if in_place:
        if operands[0].tensor == NULL:
            raise TypeError(f"{who}(): a Tensor expected, not {type(<object>bound[0]).__name__}")
        given[0] = bound[0]
        return run(op, operands, params, given, OVER)
    if bound[total] == NULL or <object>bound[total] is None:
        return run(op, operands, params, NULL, NEW)
    value = <object>bound[total]
    results = value if isinstance(value, (tuple, list)) else (value,)
    if len(results) != op.outputs:
        raise TypeError(f"{who}(): out= takes {op.outputs} tensors, got {len(results)}")
    for k in range(op.outputs):
        if not isinstance(results[k], TensorBase):
            raise TypeError(f"{who}(): argument 'out' must be Tensor, not {type(results[k]).__name__}")
        given[k] = <PyObject*>results[k]
    return run(op, operands, params, given, GIVEN)


cdef object run(PointwiseOp op, Operand* operands, double* params, PyObject** given, Where where):
    """Compute; `given` holds the tensors to write to, NULL where the results are new."""
    cdef TensorBase first = None, t, out
    cdef int k, n = op.operands, m = op.outputs, common, tensors = 0, codes = 0
    cdef bint simple = True, is_tracked = False, blank = False
    cdef bint taping = grad_enabled()
    cdef Device device = None
    cdef list held
    for k in range(n):
        if operands[k].tensor != NULL:
            t = <TensorBase>operands[k].tensor
            tensors += 1
            codes |= t.code
            if t.storage.on is not None:
                device = t.storage.on
            if taping and (t.requires or (t.base is not None and wants_grad(t))):
                is_tracked = True
            if first is None:
                first = t
                if not t.contiguous:
                    simple = False
            elif simple and not (t.contiguous and same_shape(t, first)):
                simple = False
    if device is not None:
        blank = simple and device.blank and all_on(operands, n, device)
        simple = False
        if tensors > 1 and not blank:
            held = []
            bring_scalars(operands, n, device, held)
    if tensors == 1 and first.rank and op.raw == 0 and (n == 1 or numbers_fit(operands, n, first.code)):
        common = first.code
    else:
        common = common_code(operands, n, op.raw)
    if given != NULL:
        for k in range(m):
            codes |= (<TensorBase>given[k]).code
    if (codes | common) > op.highest and tensors and ((codes | common) > NO_CODE or common == F16):
        return through_others(op, operands, params, given, where, C32 if op.pairs and common == F16 else common)
    if given != NULL:
        if where == OVER and simple and not is_tracked and write_simple(op, operands, params, common, first, <TensorBase>given[0]):
            return <object>given[0]
        return run_into(op, operands, params, given, where, common, is_tracked)
    if first is None:
        raise TypeError(f"{op.name}(): argument '{op.names[0]}' (position 1) must be Tensor, not a number")
    if simple:
        results = run_simple(op, operands, params, common, first, None)
    elif blank:
        results = run_blank(op, operands, common, first, device)
    else:
        results = run_general(op, operands, params, common, NULL)
    if is_tracked and op.differentiable:
        tape_writer.record(op, operands, params, results, common, None, None)
    return results


cdef inline uint64_t common_key(int common) noexcept nogil:
    """The common dtype, and the default one, which results of whole numbers may have, as part of a kernel's key."""
    return <uint64_t>default_code() << 6 | <uint64_t>common


cdef inline bint numbers_fit(Operand* operands, int n, int code) noexcept nogil:
    """Whether no number has a higher category than the one tensor."""
    cdef int k
    for k in range(n):
        if operands[k].tensor == NULL and operands[k].category > CATEGORY[code]:
            return False
    return True


cdef int fill_scalars(PointwiseOp op, Operand* operands, double* params, int common, uint64_t* scalars) except -1:
    """Numbers among the operands come first, then the parameters."""
    cdef int k, count = 0
    for k in range(op.operands):
        if operands[k].tensor == NULL:
            count += pack(&operands[k], common, &scalars[count])
    for k in range(op.params):
        memcpy(&scalars[count], &params[k], 8)
        count += 1
    return count


cdef bint write_simple(PointwiseOp op, Operand* operands, double* params, int common, TensorBase first, TensorBase out) except -1:
    """The same in place, off the tape, where the result is of the tensor's dtype and no other operand lies in its storage; False
    where that is not so and nothing was done."""
    cdef int k
    if out is not first or common != out.code or op.casts or op.outputs != 1 or out.count >= PARALLEL_FROM:
        return False
    for k in range(op.operands):
        if operands[k].tensor != NULL and operands[k].tensor != <PyObject*>out and (
                (<TensorBase>operands[k].tensor).storage is out.storage):
            return False
    if grad_enabled():
        check_in_place(out, op.name)
    check_memory(op.name, out)
    if run_simple(op, operands, params, common, first, out) is None:
        return False
    bump_version(out)
    return True


cdef object run_simple(PointwiseOp op, Operand* operands, double* params, int common, TensorBase first, TensorBase into):
    """All tensors contiguous and of one shape: one loop.  Where the one result is to go `into` a tensor of another dtype, None."""
    cdef uint64_t key0 = 0, key1 = common_key(common)
    cdef int k, n = op.operands, m = op.outputs, memory = m
    cdef uint64_t scalars[MAX_SLOTS]
    cdef char* data[MAX_OPERANDS + MAX_OUTPUTS]
    cdef int64_t geometry[HEAD + 2 * (MAX_OPERANDS + MAX_OUTPUTS)]
    cdef TensorBase out, t
    cdef Kernel* kernel
    cdef int64_t count = first.count
    for k in range(n):
        if operands[k].tensor != NULL:
            key0 = key0 << 6 | ((<TensorBase>operands[k].tensor).code << 2) | CONTIGUOUS
        else:
            key0 = key0 << 6 | (operands[k].category << 2) | NUMBER
    for k in range(m):
        key1 = key1 << 6 | (NO_CODE << 2) | CONTIGUOUS
    kernel = look_up(&op.table, key0, key1)
    if kernel == NULL:
        kernel = compile_kernel(op, key0, key1)
    if into is not None:
        if kernel.codes[0] != into.code:
            return None
    elif count >= PARALLEL_FROM // m:
        return run_general(op, operands, params, common, NULL)
    fill_scalars(op, operands, params, common, scalars)
    if m == 1:
        out = into if into is not None else new_tensor(first.rank, first.sizes, kernel.codes[0])
        data[0] = pointer(out)
        results = out
    else:
        results = []
        for k in range(m):
            out = new_tensor(first.rank, first.sizes, kernel.codes[k])
            data[k] = out.storage.data
            results.append(out)
        results = tuple(results)
    for k in range(n):
        if operands[k].tensor != NULL:
            t = <TensorBase>operands[k].tensor
            data[memory] = pointer(t)
            memory += 1
    geometry[0], geometry[1], geometry[2], geometry[3] = count, 1, 0, count
    for k in range(memory):
        geometry[HEAD + memory + k] = 0
    if count:
        kernel.run(data, geometry, scalars)
    return results


cdef bint all_on(Operand* operands, int n, Device device) noexcept:
    """Whether all tensors among the operands are on that device."""
    cdef int k
    for k in range(n):
        if operands[k].tensor != NULL and (<TensorBase>operands[k].tensor).storage.on is not device:
            return False
    return True


cdef object run_blank(PointwiseOp op, Operand* operands, int common, TensorBase first, Device device):
    """The same on "meta", where results have a geometry and a dtype alone."""
    cdef uint64_t key0 = ON_DEVICE >> 6 * op.operands, key1 = common_key(common)
    cdef int k
    cdef Kernel* kernel
    for k in range(op.operands):
        if operands[k].tensor != NULL:
            key0 = key0 << 6 | ((<TensorBase>operands[k].tensor).code << 2) | CONTIGUOUS
        else:
            key0 = key0 << 6 | (operands[k].category << 2) | NUMBER
    for k in range(op.outputs):
        key1 = key1 << 6 | (NO_CODE << 2) | CONTIGUOUS
    kernel = look_up(&op.table, key0, key1)
    if kernel == NULL:
        kernel = compile_kernel(op, key0, key1)
    if op.outputs == 1:
        return new_tensor_on(device, first.rank, first.sizes, kernel.codes[0])
    return tuple([new_tensor_on(device, first.rank, first.sizes, kernel.codes[k]) for k in range(op.outputs)])


cdef int plan_pointwise(PointwiseOp op, PointwisePlan* plan, Operand* operands, int common, PyObject** given, Device device) except -1:
    """How to walk over operands of these shapes, strides and dtypes, and by which kernel; `given` are results that exist, or NULL."""
    cdef int64_t strides[MAX_ALL * MAX_DIMS]      # of what has memory, along the dimensions of the results
    cdef int rank = 0, k, n = op.operands, m = op.outputs, access, place
    cdef uint64_t key0 = 0 if device is None else ON_DEVICE >> 6 * n, key1 = common_key(common)  # the operands' bits shift it to its place
    cdef TensorBase t
    cdef Kernel* kernel
    if given != NULL:
        t = <TensorBase>given[0]
        rank = t.rank
        memcpy(plan.sizes, t.sizes, rank * sizeof(int64_t))
    else:
        for k in range(n):
            if operands[k].tensor != NULL:
                broadcast(op.name, plan.sizes, &rank, <TensorBase>operands[k].tensor, op.names)
        layout(plan.strides, rank, plan.sizes, operands, n)
    plan.rank, place = rank, m
    for k in range(m):
        if given != NULL:
            align(&strides[k * rank], <TensorBase>given[k], rank)
        else:
            memcpy(&strides[k * rank], plan.strides, rank * sizeof(int64_t))
    for k in range(n):
        if operands[k].tensor != NULL:
            align(&strides[place * rank], <TensorBase>operands[k].tensor, rank)
            place += 1
    plan.loops.strides = plan.stride_buffer
    make_plan(&plan.loops, rank, plan.sizes, strides, place)
    place = 0
    for k in range(m + n):
        if k >= m and operands[k - m].tensor == NULL:
            key0 = key0 << 6 | (operands[k - m].category << 2) | NUMBER
            continue
        access = access_of(plan.stride_buffer[place * plan.loops.pitch])
        if k >= m:
            t = <TensorBase>operands[k - m].tensor
            key0 = key0 << 6 | (t.code << 2) | access
            plan.width[place] = t.width
        else:
            key1 = key1 << 6 | ((NO_CODE if given == NULL else (<TensorBase>given[k]).code) << 2) | (
                STRIDED if access == BROADCAST else access)
        place += 1
    kernel = look_up(&op.table, key0, key1)
    if kernel == NULL:
        kernel = compile_kernel(op, key0, key1)
    plan.run, plan.common = kernel.run, common
    for k in range(m):
        plan.codes[k] = kernel.codes[k]
        plan.width[k] = ITEMSIZE[plan.codes[k]]
    return 0


cdef int launch_pointwise(PointwiseOp op, PointwisePlan* plan, PyObject** results, Operand* operands, double* params,
                          Device device) except -1:
    """Compute as planned, on tensors of the planned geometry."""
    cdef uint64_t scalars[MAX_SLOTS]
    cdef char* data[MAX_ALL]
    cdef Launch launch
    cdef int k, place = op.outputs
    for k in range(op.outputs):
        data[k] = data_address(<TensorBase>results[k])
    for k in range(op.operands):
        if operands[k].tensor != NULL:
            data[place] = data_address(<TensorBase>operands[k].tensor)
            place += 1
    fill_scalars(op, operands, params, plan.common, scalars)
    launch.run, launch.plan, launch.data, launch.width, launch.scalars = plan.run, &plan.loops, data, plan.width, scalars
    launch.outputs = op.outputs
    if device is not None:
        return device_launcher.pointwise(device, <Family><object><void*>launch.run, &launch)
    if plan.loops.count < PARALLEL_FROM // op.outputs:
        launch_plan(&launch)
    else:
        with nogil:
            launch_plan(&launch)
    return 0


cdef Device device_of(PointwiseOp op, Operand* operands, PyObject** given):
    """The one device of all operands and given results; None for the host."""
    cdef PyObject* tensors[MAX_OPERANDS + MAX_OUTPUTS]
    cdef int k, n = op.operands
    for k in range(n):
        tensors[k] = operands[k].tensor
    if given != NULL:
        for k in range(op.outputs):
            tensors[n + k] = given[k]
        n += op.outputs
    return one_device(op.name, tensors, n)


cdef object run_general(PointwiseOp op, Operand* operands, double* params, int common, PyObject** given):
    """Broadcasting, strides, results that exist already, threads."""
    cdef PointwisePlan plan
    cdef PyObject* made[MAX_OUTPUTS]
    cdef TensorBase out
    cdef int k
    cdef Device device = device_of(op, operands, given)
    cdef list results
    plan_pointwise(op, &plan, operands, common, given, device)
    if given != NULL:
        launch_pointwise(op, &plan, given, operands, params, device)
        return None
    results = []
    for k in range(op.outputs):
        out = new_strided_on(device, plan.rank, plan.sizes, plan.strides, plan.codes[k])
        results.append(out)
        made[k] = <PyObject*>out
    launch_pointwise(op, &plan, made, operands, params, device)
    return results[0] if op.outputs == 1 else tuple(results)


cdef object run_into(PointwiseOp op, Operand* operands, double* params, PyObject** given, Where where, int common, bint is_tracked):
    """Results go into tensors that exist: checks, then the same way."""
    cdef TensorBase out, t
    cdef int64_t sizes[MAX_DIMS]
    cdef int rank = 0, k, j, code, n = op.operands, m = op.outputs
    if op.casts:
        rank = (<TensorBase>given[0]).rank
        memcpy(sizes, (<TensorBase>given[0]).sizes, rank * sizeof(int64_t))
    for k in range(n):
        if operands[k].tensor != NULL:
            broadcast(op.name, sizes, &rank, <TensorBase>operands[k].tensor, op.names)
    codes = (common,) if op.casts else result_codes(op, operands, common)
    for k in range(m):
        out = <TensorBase>given[k]
        code = codes[k]
        check_destination(op.name, out, where, ANY if op.casts else KIND, code, rank, sizes, is_tracked)
        check_overlap(op.name, out, operands, n, op.casts)
        is_tracked = is_tracked or (where == OVER and grad_enabled() and wants_grad(out))
    cdef TensorBase original = None
    cdef Operand apart[MAX_OPERANDS]
    cdef Operand* read = operands
    cdef list held
    # What has no derivative, as a comparison, still ends the history of what it overwrites: its gradient is 0.
    if is_tracked and where == OVER and m == 1:
        original = tape_writer.overwritten(op, operands, <TensorBase>given[0])
    for k in range(m):
        if shares(<TensorBase>given[k], operands, n):
            if read == operands:
                held, read = [], apart
                memcpy(apart, operands, n * sizeof(Operand))
            copy_overlapping(<TensorBase>given[k], apart, n, held)
    if is_stored(common):                  # a copy of elements as they are
        copy_bits(<TensorBase>given[0], <TensorBase>read[0].tensor)
    else:
        run_general(op, read, params, common, given)
    for k in range(m):
        bump_version(<TensorBase>given[k])
    if is_tracked and where == OVER and m == 1:
        tape_writer.record(op, operands, params, <object>given[0], common, <TensorBase>given[0], original)
    return <object>given[0] if m == 1 else tuple([<object>given[k] for k in range(m)])


# --- copies ------------------------------
cdef PointwiseOp identity = None


def set_identity(PointwiseOp op) -> None:
    """The operation that copies: `clone`, `to`, `copy_`, `contiguous` are this one."""
    global identity
    identity = op
    op.casts = True


cdef void preserve_strides(int64_t* strides, TensorBase source) noexcept:
    """Where the elements have no gaps, the source's own strides also for dimensions of size 1."""
    cdef int d
    for d in range(source.rank):
        if source.sizes[d] != 1 and strides[d] != source.strides[d]:
            return
    memcpy(strides, source.strides, source.rank * sizeof(int64_t))


cdef TensorBase copied(TensorBase source, int code, bint row_major):
    """A copy of that dtype, on the tape; in the source's order of dimensions unless it is to be row-major."""
    cdef Operand operand
    cdef int64_t strides[MAX_DIMS]
    cdef PyObject* given[1]
    cdef TensorBase out
    operand.tensor = <PyObject*>source
    if row_major:
        out = new_tensor_on(source.storage.on, source.rank, source.sizes, code)
    else:
        layout(strides, source.rank, source.sizes, &operand, 1)
        preserve_strides(strides, source)
        out = new_strided_on(source.storage.on, source.rank, source.sizes, strides, code)
    given[0] = <PyObject*>out
    if source.code > NO_CODE or code > NO_CODE:
        convert(out, source)
    else:
        run_general(identity, &operand, NULL, source.code, given)
    if grad_enabled() and wants_grad(source) and CATEGORY[code] >= 2:
        tape_writer.record(identity, &operand, NULL, out, source.code, None, None)
    return out


# --- dtypes that are stored, and computed in others ------------------------------
# What no kernel sees: complex32 is a pair of float16 in memory, float8 and float4 are bytes.  Copies move their bits, conversions
# are kernels over the bits (`operations/pointwise/storage_dtypes.py`); other operations read copies in a wider dtype, whose
# result is rounded once, or refuse.
cdef list decoders = [None] * 32, encoders = [None] * 32


def set_conversion(d, PointwiseOp decoder, PointwiseOp encoder) -> None:
    """The operations between the bits of a float8 dtype, as uint8, and numbers."""
    decoder.casts = encoder.casts = True
    decoders[d.code], encoders[d.code] = decoder, encoder


cdef TensorBase bits(TensorBase t):
    """The same memory as numbers that kernels see, unrecorded: a float8 as uint8, a complex32 as uint32."""
    cdef TensorBase seen
    if not is_stored(t.code):
        return t
    seen = alias(t, t.rank, t.sizes, t.strides, t.offset)
    seen.code = U32 if t.code == C32 else U8
    return seen


cdef TensorBase halves(TensorBase t):
    """The parts of a complex32 as float16, or of a complex64 as float32, along a last dimension of 2, unrecorded."""
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef TensorBase seen
    cdef int d
    if t.rank == MAX_DIMS:
        raise RuntimeError(f"copy_(): a complex tensor of at most {MAX_DIMS - 1} dimensions expected, got {t.rank}")
    for d in range(t.rank):
        sizes[d], strides[d] = t.sizes[d], 2 * t.strides[d]
    sizes[t.rank], strides[t.rank] = 2, 1
    seen = alias(t, t.rank + 1, sizes, strides, 2 * t.offset)
    seen.code = F16 if t.code == C32 else F32
    seen.width = ITEMSIZE[seen.code]
    return seen


cdef int moved(PointwiseOp op, TensorBase out, TensorBase source) except -1:
    """Run a copy or a conversion from one tensor to another; not recorded."""
    cdef Operand operand
    cdef PyObject* given[1]
    operand.tensor = <PyObject*>source
    given[0] = <PyObject*>out
    run_general(op, &operand, NULL, source.code, given)
    return 0


cdef int copy_bits(TensorBase out, TensorBase source) except -1:
    return moved(identity, bits(out), bits(source))


cdef int convert(TensorBase out, TensorBase source) except -1:
    """Copy with broadcasting where a dtype, or both, is a stored one; not recorded."""
    cdef TensorBase between
    if out.code == source.code:
        return copy_bits(out, source)
    if out.code == F4_E2M1FN_X2 or source.code == F4_E2M1FN_X2:
        raise NotImplementedError(f"copy_(): \"copy_\" not implemented for '{dtype_of(F4_E2M1FN_X2).name}': no conversion between "
                                  f"{dtype_of(source.code)} and {dtype_of(out.code)}")
    if source.code == C32:
        if out.code == C64:
            return moved(identity, halves(out), halves(source))
        between = new_tensor_on(source.storage.on, source.rank, source.sizes, C64)
        moved(identity, halves(between), halves(source))
        return convert(out, between) if is_stored(out.code) else moved(identity, out, between)
    if out.code == C32:
        between = new_tensor_on(source.storage.on, source.rank, source.sizes, C64)
        convert(between, source) if is_stored(source.code) else moved(identity, between, source)
        return moved(identity, halves(out), halves(between))
    if not is_stored(source.code):
        return moved(<PointwiseOp>encoders[out.code], bits(out), source)
    if not is_stored(out.code):
        return moved(<PointwiseOp>decoders[source.code], out, bits(source))
    between = new_tensor_on(source.storage.on, source.rank, source.sizes, F32)
    moved(<PointwiseOp>decoders[source.code], between, bits(source))
    return moved(<PointwiseOp>encoders[out.code], bits(out), between)


cdef int wider(int code) noexcept nogil:
    """The dtype that a stored one is computed in."""
    return C64 if code == C32 else F32


cdef object not_implemented(str who, int code):
    return NotImplementedError(f"{who}(): \"{who}\" not implemented for '{dtype_of(code).name}'")


cdef int refuse_stored(str who, PyObject** tensors, int n) except -1:
    """NotImplementedError where a tensor (some may be NULL) is of a dtype that no kernel sees."""
    cdef int k
    for k in range(n):
        if tensors[k] != NULL and is_stored((<TensorBase>tensors[k]).code):
            raise not_implemented(who, (<TensorBase>tensors[k]).code)
    return 0


cdef object run_stored(PointwiseOp op, Operand* operands, double* params, PyObject** given, Where where, int common):
    """A call with operands or results that are stored in a dtype no kernel sees."""
    cdef Operand read[MAX_OPERANDS]
    cdef list held = [], results = []
    cdef TensorBase t, out
    cdef int64_t sizes[MAX_DIMS]
    cdef int k, n = op.operands, working = wider(common) if is_stored(common) else common, rank = 0
    if op.pairs and common == C32:
        working = F32
    if common == F4_E2M1FN_X2 and given == NULL and (op.name == "eq" or op.name == "ne") and n == 2 and operands[0].tensor != NULL and (
            operands[1].tensor != NULL):
        for k in range(n):                 # two numbers a byte, of which equal ones are the same bits
            t = bits(<TensorBase>operands[k].tensor)
            held.append(t)
            read[k].tensor = <PyObject*>t
        return run(op, read, params, NULL, NEW)
    if is_stored(common) and not (op.pairs or op.declaration.takes("complex64") if common == C32 else op.widens and common != F4_E2M1FN_X2):
        raise not_implemented(op.name, common)
    memcpy(read, operands, n * sizeof(Operand))
    for k in range(n):
        if operands[k].tensor == NULL:
            continue
        t = <TensorBase>operands[k].tensor
        if op.pairs and common == C32 and t.code != F16:
            raise RuntimeError(f"{op.name}(): expected both inputs to be floating-point tensors, got {dtype_of(t.code)} for argument "
                               f"'{op.names[k]}'")
        if op.raw >> k & 1:
            if is_stored(t.code):
                raise not_implemented(op.name, t.code)
            continue
        if t.code != working and (is_stored(common) or is_stored(t.code)):
            t = copied(t, working, False)
            held.append(t)
            read[k].tensor = <PyObject*>t
        broadcast(op.name, sizes, &rank, t, op.names)
    result = run(op, read, params, NULL, NEW)
    for k, value in enumerate((result,) if op.outputs == 1 else <tuple>result):
        t = <TensorBase>value
        if is_stored(common) and CATEGORY[t.code] >= 2:
            t = copied(t, F16 if common == C32 and t.code == F32 else common, False)
        if given != NULL:
            out = <TensorBase>given[k]
            check_destination(op.name, out, where, KIND, t.code, t.rank, t.sizes, wants_grad(t))
            (<object>out).copy_(t)
            t = out
        results.append(t)
    return results[0] if op.outputs == 1 else tuple(results)


# Behind a pointer, so that the compiler leaves it out of `run`, which every call goes through.
ctypedef object (*run_t)(PointwiseOp op, Operand* operands, double* params, PyObject** given, Where where, int common)
cdef run_t through_others = run_stored


cdef int copy_overlapping(TensorBase out, Operand* operands, int n, list held) except -1:
    """Replace operands that the write to `out` would change while they are read by copies (which `held` keeps): what shares
    elements with it without being the same tensor or of its geometry.
    """
    cdef int k
    cdef TensorBase t
    for k in range(n):
        if operands[k].tensor == NULL:
            continue
        t = <TensorBase>operands[k].tensor
        if t is out or t.storage is not out.storage:
            continue
        if t.width == out.width and t.offset == out.offset and t.rank == out.rank and same_steps(t, out):
            continue
        if meet(t, out):
            t = copy_untracked(t)
            held.append(t)
            operands[k].tensor = <PyObject*>t
    return 0


cdef TensorBase copy_untracked(TensorBase t):
    """A copy that the tape does not see."""
    cdef int modes = grad_enabled()
    set_grad(False)
    try:
        return copied(t, t.code, False)
    finally:
        set_grad(modes)


cdef tuple result_codes(PointwiseOp op, Operand* operands, int common):
    """The dtypes that the results would have of themselves."""
    cdef uint64_t key0 = 0, key1 = <uint64_t>common << 6 * op.outputs
    cdef int k
    for k in range(op.operands):
        if operands[k].tensor != NULL:
            key0 = key0 << 6 | ((<TensorBase>operands[k].tensor).code << 2)
        else:
            key0 = key0 << 6 | (operands[k].category << 2) | NUMBER
    known = op.declaration.codes.get((key0, common_key(common)))
    if known is None:
        known = op.declaration.result_codes(*describe(op, key0, key1))
        op.declaration.codes[(key0, common_key(common))] = known
    return known


cdef tuple describe(PointwiseOp op, uint64_t key0, uint64_t key1):
    """A key spelled out: inputs as (code, access), outputs as (code or NO_CODE, access), the common code."""
    cdef int k
    inputs = [((key0 >> 6 * (op.operands - 1 - k)) >> 2 & 15, (key0 >> 6 * (op.operands - 1 - k)) & 3) for k in range(op.operands)]
    outputs = [((key1 >> 6 * (op.outputs - 1 - k)) >> 2 & 15, (key1 >> 6 * (op.outputs - 1 - k)) & 3) for k in range(op.outputs)]
    return inputs, outputs, key1 >> 6 * op.outputs & 63


cdef Kernel* compile_kernel(PointwiseOp op, uint64_t key0, uint64_t key1) except NULL:
    """Ask the compiler; it answers with the kernel's address and the results' dtypes."""
    cdef uintptr_t address
    if key0 & ON_DEVICE:
        kernel, codes = op.declaration.program_for(*describe(op, key0, key1))
        return insert_family(&op.table, key0, key1, kernel, codes)
    address, codes = op.declaration.kernel(*describe(op, key0, key1))
    return insert(&op.table, key0, key1, <kernel_t><void*>address, codes)


# --- operators of Tensor ------------------------------
ctypedef PyObject* (*raw_run_t)(PointwiseOp op, Operand* operands, double* params, PyObject** given, Where where) noexcept


cdef object record_operator(PyObject* recording, Op op, Operand* operands, object a, object b):
    """A binary operation that a recording sees, and nothing else."""
    cdef PyObject* args[2]
    cdef PyObject* raw = NULL
    args[0], args[1] = <PyObject*>a, <PyObject*>b
    if isinstance(op, PointwiseOp) and <PyObject*>recording.ob_type == dispatch.recording and not profiling.on:
        if dispatch.begin_leaf(recording, <PyObject*>op, args, 2):
            raw = (<raw_run_t>run)(<PointwiseOp>op, operands, (<PointwiseOp>op).defaults, NULL, NEW)
        raw = dispatch.end_leaf(recording, raw)
    else:
        raw = record_leaf(recording, <PyObject*>op, args, 2, NULL)
    if raw == NULL:
        return dispatch.on_error(<PyObject*>op, args, 2, NULL)
    result = <object>raw
    Py_DECREF(result)
    return result


cdef object binary_operator(object op, object a, object b):
    cdef Operand operands[2]
    cdef PyObject* given[1]
    cdef PyObject* recording
    cdef PointwiseOp pointwise
    if not read_operand(a, &operands[0]) or not read_operand(b, &operands[1]):
        return operator_of_object(op, a, b)
    if runtime.observers:
        recording = only_recording() if isinstance(op, Op) else NULL
        if recording != NULL:
            return record_operator(recording, <Op>op, operands, a, b)
        return op(a, b) if not isinstance(op, Op) or (<Op>op).method is None else (<Op>op).method(a, b)
    if isinstance(op, PointwiseOp):
        return run(<PointwiseOp>op, operands, (<PointwiseOp>op).defaults, NULL, NEW)
    if isinstance(op, InPlaceOp):
        pointwise = (<InPlaceOp>op).op
        given[0] = <PyObject*>a
        return run(pointwise, operands, pointwise.defaults, given, OVER)
    return op(a, b)


cdef object unary_operator(object op, object a):
    cdef Operand operand
    if isinstance(op, PointwiseOp) and not runtime.observers:
        operand.tensor = <PyObject*>a
        return run(<PointwiseOp>op, &operand, (<PointwiseOp>op).defaults, NULL, NEW)
    return op(a) if not isinstance(op, Op) or (<Op>op).method is None else (<Op>op).method(a)


cdef object sum_to_function = None


def set_sum_to(function) -> None:
    """The operation that sums a gradient to the shape of a broadcast operand."""
    global sum_to_function
    sum_to_function = function


cdef object sum_to(TensorBase grad, object sizes):
    return sum_to_function(grad, sizes)


runtime.binary = binary_operator
runtime.unary = unary_operator


make_callable(PointwiseOp, PointwiseOp("", (), (), (), 1, None))
make_callable(InPlaceOp, InPlaceOp(PointwiseOp("", (), (), (), 1, None), ""))
