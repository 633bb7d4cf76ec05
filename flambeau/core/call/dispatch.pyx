# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""From a call to a kernel: arguments, dtypes, iteration plans, launches.

Here is the way of every pointwise call: `call_pointwise` reads the arguments, `run` finds the common dtype,
the shape and the kernel (asking the compiler when it is new), launches it and, where a gradient is wanted,
puts a node on the tape.
"""
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_DECREF
from ..base.dtypes cimport BOOL, I64, F32, F64, C64, C128, CODES, NO_CODE, dtype, dtype_of, PROMOTED, CATEGORY, ITEMSIZE, size_from, \
    default_code
from ..base.device cimport Device
from ..base.tensor cimport TensorBase, MAX_DIMS, alias, bare, set_rank, new_tensor, new_strided, new_tensor_on, new_strided_on, pointer, place_of, wrote, same_shape, late, read_item, check_apart, check_writable
from ..tape.tape cimport Node, Slot, keep, kept, clear_slot, grad_enabled, set_grad, wants_grad, attach, rebase, check_in_place, before_write, after_write
from ..base.parallel cimport parallel_for, num_threads
from ..base import display
from ..base.formats import contiguous_format, memory_format as Format, preserve_format
from ..base.provided import provided
cimport cython

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    PyObject* PyVectorcall_Call(PyObject* callable, PyObject* args, PyObject* kwargs)
    ctypedef struct RawType "PyTypeObject":
        Py_ssize_t tp_vectorcall_offset
        unsigned long tp_flags
        void* tp_call
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    unsigned long Py_TPFLAGS_METHOD_DESCRIPTOR
    void PyType_Modified(PyTypeObject* t)
    object PyMethod_New(object function, object instance)
    bint PyFloat_Check(object o)
    bint PyLong_Check(object o)
    bint PyBool_Check(object o)
    bint PyComplex_Check(object o)
    long long PyLong_AsLongLongAndOverflow(object o, int* overflow) except? -1
    int PyUnicode_Compare(object a, object b)

cdef enum: PARALLEL_FROM = 32768     # elements from which threads and giving up the GIL pay off


# --- operations as callables ------------------------------
@cython.binding(False)
cdef class Op:
    """What every operation has: a name, a signature, a compiled call.

    An operation is a function and, as an attribute of Tensor, a method: `__get__` binds it, and CPython skips
    even that for types flagged as method descriptors.
    """

    @property
    def __name__(self):
        return self.name

    @property
    def __qualname__(self):
        return self.name

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __repr__(self):
        return f"<{display.NAME} operation {self.name}>"

    def __reduce__(self):
        return getattr(self, "public_name", self.name)


cdef void make_callable(type cls, Op example) noexcept:
    """Let instances be called through their `call` field."""
    cdef RawType* raw = <RawType*>cls
    raw.tp_vectorcall_offset = <char*>&example.call - <char*><void*>example
    raw.tp_call = <void*>PyVectorcall_Call
    raw.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR
    PyType_Modified(<PyTypeObject*>cls)


cdef void prepare_op(Op op, str name, vectorcall_t call):
    op.name = name
    op.call = call
    setattr(op, "__module__", display.NAME)


def rename(Op op, str name) -> None:
    """What an operation is called in messages and on the tape, where its declaration had to have a name of its own."""
    op.name = op.declaration.name = name


# --- tables of kernels ------------------------------
cdef inline uint64_t mixed(uint64_t a, uint64_t b) noexcept nogil:
    cdef uint64_t h = (a ^ (b * <uint64_t>0x9E3779B97F4A7C15)) * <uint64_t>0xD6E8FEB86659FD93
    return h ^ (h >> 32)


cdef Kernel* look_up(Table* table, uint64_t key0, uint64_t key1) noexcept nogil:
    cdef int i
    if table.room == 0:
        return NULL
    i = mixed(key0, key1) & (table.room - 1)
    while table.entries[i].run != NULL:
        if table.entries[i].key0 == key0 and table.entries[i].key1 == key1:
            return &table.entries[i]
        i = (i + 1) & (table.room - 1)
    return NULL


cdef Kernel* insert(Table* table, uint64_t key0, uint64_t key1, kernel_t run, tuple codes) except NULL:
    """Open addressing, at most half full."""
    cdef Kernel* old = table.entries
    cdef int i, k, room = table.room
    if (table.used + 1) * 2 > room:
        table.entries = <Kernel*>calloc(max(room * 2, 8), sizeof(Kernel))
        if table.entries == NULL:
            table.entries = old
            raise MemoryError
        table.room = max(room * 2, 8)
        for k in range(room):
            if old[k].run != NULL:
                i = mixed(old[k].key0, old[k].key1) & (table.room - 1)
                while table.entries[i].run != NULL:
                    i = (i + 1) & (table.room - 1)
                table.entries[i] = old[k]
        # the old entries stay: a thread without the GIL may be reading one
    i = mixed(key0, key1) & (table.room - 1)
    while table.entries[i].run != NULL:
        i = (i + 1) & (table.room - 1)
    table.entries[i].key0, table.entries[i].key1 = key0, key1
    for k in range(len(codes)):
        table.entries[i].codes[k] = codes[k]
    table.entries[i].run = run
    table.used += 1
    return &table.entries[i]


# --- other devices than the host ------------------------------
cdef class Family:
    """A kernel for all devices and in all forms; see `launch.pyx`."""

    def __cinit__(self, kernel):
        self.kernel, self.loaded = kernel, {}
        self.checks = hasattr(kernel, "checks") and kernel.checks()
        self.narrow = [d in ("float32", "float16", "bfloat16") for d in kernel.params]  # not read by indexed kernels


cdef Kernel* insert_family(Table* table, uint64_t key0, uint64_t key1, object kernel, tuple codes) except NULL:
    """Enter a kernel that is compiled when a device has to run it."""
    family = Family(kernel)
    Py_INCREF(family)         # tables live as long as the process
    return insert(table, key0, key1, <kernel_t><void*>family, codes)


cdef Device one_device(str who, PyObject** tensors, int n):
    """Where all those tensors are (some may be NULL): None for the host; RuntimeError where they are apart."""
    cdef TensorBase t
    cdef Device device = None
    cdef int k
    cdef bint first = True
    for k in range(n):
        if tensors[k] != NULL:
            t = <TensorBase>tensors[k]
            if first:
                device, first = t.storage.on, False
            elif t.storage.on is not device:
                raise apart(who, [(<TensorBase>tensors[i]).device for i in range(n) if tensors[i] != NULL])
    return device


cdef object apart(str who, list places):
    """The error for tensors on several devices; other devices are named before the CPU."""
    names = sorted({str(p) for p in places}, key=lambda name: name == "cpu")
    return RuntimeError(f"{who}(): Expected all tensors to be on the same device, but found at least two devices, {names[0]} and "
                        f"{names[1]}!")


cdef int bring_scalars(Operand* operands, int n, Device device, list held) except -1:
    """0-dim tensors of the host may be mixed with a device's tensors: replace them by copies there (which `held` keeps)."""
    cdef int k
    cdef TensorBase t
    for k in range(n):
        if operands[k].tensor != NULL:
            t = <TensorBase>operands[k].tensor
            if t.rank == 0 and t.storage.on is None:
                t = away.moved(t, device)
                held.append(t)
                operands[k].tensor = <PyObject*>t
    return 0


# --- operands and dtypes ------------------------------
cdef int read_operand(object x, Operand* o) except -1:
    """A tensor or a Python number; 0 for anything else."""
    cdef int overflow = 0
    if isinstance(x, TensorBase):
        o.tensor = <PyObject*>x
        return 1
    o.tensor = NULL
    if PyFloat_Check(x):
        o.category, o.real = 2, x
        o.whole = 0
    elif PyBool_Check(x):
        o.category, o.whole, o.real = 0, x is True, x is True
    elif PyLong_Check(x):
        o.whole = PyLong_AsLongLongAndOverflow(x, &overflow)
        if overflow:
            raise OverflowError("a Python int that does not fit 64 bits met a tensor")
        o.category, o.real = 1, <double>o.whole
    elif PyComplex_Check(x):
        o.category, o.real, o.imag = 3, x.real, x.imag
    elif hasattr(x, "dtype") and hasattr(x, "item") and getattr(x, "ndim", 1) == 0:  # a NumPy scalar
        return read_operand(x.item(), o)
    else:
        return 0
    return 1


cdef inline int combine(int higher, int lower) noexcept nogil:
    """Dimensioned tensors outrank 0-dim ones, those outrank numbers: the lower matters only where its
    category is higher.
    """
    if higher < 0:
        return lower
    if lower < 0:
        return higher
    if CATEGORY[higher] == 3:
        return higher
    if CATEGORY[higher] == 2:
        if CATEGORY[lower] == 3:
            return C128 if higher == F64 else C64
        return higher
    if higher == BOOL or CATEGORY[lower] >= 2:
        return PROMOTED[higher][lower]
    return higher


cdef int common_code(Operand* operands, int n, unsigned int raw) except -1:
    """The dtype that the operands are computed in, by PyTorch's rules of type promotion."""
    cdef int full = -1, single = -1, number = -1, k, code
    cdef TensorBase t
    for k in range(n):
        if raw >> k & 1:
            continue
        if operands[k].tensor != NULL:
            t = <TensorBase>operands[k].tensor
            if t.rank > 0:
                full = t.code if full < 0 else PROMOTED[full][t.code]
            else:
                single = t.code if single < 0 else PROMOTED[single][t.code]
        else:
            code = operands[k].category
            code = BOOL if code == 0 else I64 if code == 1 else default_code() if code == 2 else (
                C128 if default_code() == F64 else C64)
            number = code if number < 0 else PROMOTED[number][code]
    return combine(combine(full, single), number)


cdef int pack(Operand* o, int code, uint64_t* slot) noexcept:
    """A number as the kernel takes it: a double, an int64, or two doubles; how many slots that takes."""
    cdef double real = o.real
    cdef int64_t whole = o.whole
    if CATEGORY[code] >= 2:
        memcpy(slot, &real, 8)
        if CATEGORY[code] == 3:
            real = o.imag if o.category == 3 else 0.0
            memcpy(slot + 1, &real, 8)
            return 2
    else:
        if o.category == 2:
            whole = <int64_t>real
        memcpy(slot, &whole, 8)
    return 1


def result_type(a, b) -> dtype:
    """The dtype of an arithmetic operation on `a` and `b` (tensors or numbers)."""
    cdef Operand operands[2]
    if not read_operand(a, &operands[0]) or not read_operand(b, &operands[1]):
        raise TypeError(f"result_type(): arguments must be Tensors or numbers, not {type(a).__name__} and {type(b).__name__}")
    return dtype_of(common_code(operands, 2, 0))


def common_dtype(values) -> dtype:
    """The dtype that operands are computed in."""
    cdef Operand operands[64]
    cdef int n = 0
    for v in values:
        if n == 64 or not read_operand(v, &operands[n]):
            raise TypeError(f"Tensors or numbers expected, not {type(v).__name__}")
        n += 1
    return dtype_of(common_code(operands, n, 0))


# --- iteration plans ------------------------------
cdef int broadcast(str who, int64_t* sizes, int* rank, TensorBase t, tuple names) except -1:
    """Widen the shape so far by t's; RuntimeError where a size is neither equal nor 1."""
    cdef int d, k, larger = t.rank if t.rank > rank[0] else rank[0]
    cdef int64_t a, b
    for k in range(larger):
        d = larger - 1 - k
        a = sizes[rank[0] - 1 - k] if k < rank[0] else 1
        b = t.sizes[t.rank - 1 - k] if k < t.rank else 1
        if a != b and a != 1 and b != 1:
            raise RuntimeError(f"{who}(): The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton "
                               f"dimension {d}: got shapes {list(size_from(rank[0], sizes))} and {list(t.shape)}")
    cdef int64_t merged[MAX_DIMS]
    for k in range(larger):
        a = sizes[rank[0] - 1 - k] if k < rank[0] else 1
        b = t.sizes[t.rank - 1 - k] if k < t.rank else 1
        merged[larger - 1 - k] = b if a == 1 else a
    memcpy(sizes, merged, larger * sizeof(int64_t))
    rank[0] = larger
    return 0


cdef int make_plan(Plan* plan, int rank, const int64_t* sizes, PyObject** tensors, int n) except -1:
    """Order the dimensions by the first tensor's strides, innermost first, and merge those that lie one after
    another.
    """
    cdef int order[MAX_DIMS]
    cdef int64_t key[MAX_DIMS]
    cdef int used = 0, d, k, i, out = 0
    cdef TensorBase t = <TensorBase>tensors[0]
    cdef int64_t stride
    plan.count = 1
    for d in range(rank - 1, -1, -1):
        plan.count *= sizes[d]
        if sizes[d] == 1:
            continue
        stride = t.strides[d]
        i = used
        while i > 0 and key[i - 1] > stride:
            key[i], order[i] = key[i - 1], order[i - 1]
            i -= 1
        key[i], order[i] = stride, d
        used += 1
    for i in range(used):
        d = order[i]
        plan.sizes[out] = sizes[d]
        for k in range(n):
            if tensors[k] == NULL:
                continue
            t = <TensorBase>tensors[k]
            stride = 0
            if d - (rank - t.rank) >= 0 and t.sizes[d - (rank - t.rank)] != 1:
                stride = t.strides[d - (rank - t.rank)]
            plan.strides[k][out] = stride
        if out > 0 and mergeable(plan, out, tensors, n):
            plan.sizes[out - 1] *= sizes[d]
        else:
            out += 1
    if out == 0:
        plan.sizes[0] = 1
        for k in range(n):
            plan.strides[k][0] = 1
        out = 1
    plan.rank = out
    if out > 2:
        turn_beside(plan, tensors, n)
    return 0


cdef void turn_beside(Plan* plan, PyObject** tensors, int n) noexcept nogil:
    """Where an input is strided along the innermost dimension, move the one along which it is contiguous next to
    that: kernels turn tiles of those two in registers.
    """
    cdef int k, d, i
    for k in range(1, n):
        if tensors[k] == NULL or plan.strides[k][0] <= 1:
            continue
        for d in range(2, plan.rank):
            if plan.strides[k][d] == 1:
                plan.sizes[1], plan.sizes[d] = plan.sizes[d], plan.sizes[1]
                for i in range(n):
                    if tensors[i] != NULL:
                        plan.strides[i][1], plan.strides[i][d] = plan.strides[i][d], plan.strides[i][1]
                return


cdef inline bint mergeable(Plan* plan, int d, PyObject** tensors, int n) noexcept nogil:
    cdef int k
    for k in range(n):
        if tensors[k] != NULL and plan.strides[k][d] != plan.strides[k][d - 1] * plan.sizes[d - 1]:
            return False
    return True


cdef void launch_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Run the plan with its outermost dimension restricted to [begin, end)."""
    cdef Launch* launch = <Launch*>context
    cdef Plan* plan = launch.plan
    cdef int n = launch.operands, last = plan.rank - 1, k, d
    cdef int64_t geometry[3 + 2 * (MAX_OPERANDS + MAX_OUTPUTS)]
    cdef int64_t place[MAX_DIMS]
    cdef char* data[MAX_OPERANDS + MAX_OUTPUTS]
    cdef int64_t inner = 1
    for d in range(last):
        inner *= plan.sizes[d]
    for k in range(n):
        data[k] = launch.data[k] + begin * plan.strides[launch.plan_index[k]][last] * launch.width[k]
        geometry[3 + k] = plan.strides[launch.plan_index[k]][0]
        geometry[3 + n + k] = plan.strides[launch.plan_index[k]][1] if last >= 1 else 0
    geometry[0] = plan.sizes[0] if last > 0 else end - begin
    geometry[1] = 1 if last == 0 else plan.sizes[1] if last > 1 else end - begin
    geometry[2] = begin * inner
    if last < 2:
        launch.run(data, geometry, launch.scalars)
        return
    for d in range(2, plan.rank):
        place[d] = 0
    while True:
        launch.run(data, geometry, launch.scalars)
        geometry[2] += geometry[0] * geometry[1]
        d = 2
        while d <= last:  # an odometer over the outer dimensions
            place[d] += 1
            for k in range(n):
                data[k] += plan.strides[launch.plan_index[k]][d] * launch.width[k]
            if place[d] < (plan.sizes[d] if d < last else end - begin):
                break
            for k in range(n):
                data[k] -= plan.strides[launch.plan_index[k]][d] * launch.width[k] * place[d]
            place[d] = 0
            d += 1
        if d > last:
            return


cdef void launch_plan(Launch* launch) noexcept:
    """On the pool where there is work enough."""
    cdef Plan* plan = launch.plan
    cdef int64_t outer = plan.sizes[plan.rank - 1], grain
    if plan.count == 0:
        return
    if plan.count < PARALLEL_FROM:
        launch_range(launch, 0, outer)
        return
    grain = PARALLEL_FROM * outer // plan.count
    if plan.rank == 1:
        grain = (grain + 1023) // 1024 * 1024
    elif plan.rank == 2:
        grain = (grain + 15) // 16 * 16  # whole tiles
    elif grain < 1:
        grain = 1
    with nogil:
        parallel_for(launch_range, launch, outer, grain)


# --- pointwise operations ------------------------------
@cython.binding(False)
cdef class PointwiseOp(Op):
    """n operands (tensors or numbers), named scalar parameters, m results; see `operations/declare/pointwise.py`."""

    def __cinit__(self, str name, tuple operands, tuple params, tuple defaults, int outputs, declaration,
                  bint differentiable=True, unsigned int raw=0):
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
        self.raw = raw
        self.derivations = {}

    def foreach(self, list inputs, *, list out, **params):
        """The operation over lists of tensors of equal length: `inputs` holds a list for each operand, `out`
        a list for each result, which is overwritten.  Nothing is recorded.
        """
        cdef Operand operands[MAX_OPERANDS]
        cdef PyObject* given[MAX_OUTPUTS]
        cdef double values[MAX_PARAMS]
        cdef Py_ssize_t i
        cdef int k
        cdef bint before = grad_enabled()
        self.read_params(params, values)
        if len(inputs) != self.operands or len(out) != self.outputs:
            raise TypeError(f"{self.name}.foreach(): {self.operands} lists of inputs and {self.outputs} of results expected, "
                            f"got {len(inputs)} and {len(out)}")
        for column in inputs + out:
            if len(column) != len(inputs[0]):
                raise ValueError(f"{self.name}.foreach(): lists of one length expected, got {[len(c) for c in inputs + out]}")
        set_grad(False)
        try:
            for i in range(len(inputs[0])):
                for k in range(self.operands):
                    if not read_operand((<list>inputs[k])[i], &operands[k]):
                        raise TypeError(f"{self.name}.foreach(): a Tensor expected in list {k}")
                for k in range(self.outputs):
                    given[k] = <PyObject*>(<list>out[k])[i]
                run(self, operands, values, given, True)
        finally:
            set_grad(before)

    cdef int read_params(self, dict params, double* values) except -1:
        cdef int k
        for k in range(self.params):
            values[k] = self.defaults[k]
        for key, value in params.items():
            if key not in self.names[self.operands:]:
                raise TypeError(f"{self.name}() got an unexpected keyword argument '{key}'")
            values[self.names.index(key) - self.operands] = value
        if len(params) < self.required - self.operands:
            raise TypeError(f"{self.name}() needs {self.names[self.operands:self.required]}, got {tuple(params)}")
        return 0


cdef class InPlaceOp(Op):
    """`x.op_(…)`: the same operation, its result written over the first operand."""

    cdef PointwiseOp op

    def __cinit__(self, PointwiseOp op, str name):
        prepare_op(self, name, call_in_place)
        self.op = op

    @property
    def __signature__(self):
        """The operation's own, without `out`."""
        whole = self.op.__signature__
        return whole.replace(parameters=[p for name, p in whole.parameters.items() if name != "out"])


cdef object call_pointwise(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    return parse(<PointwiseOp>callable, args, PyVectorcall_NARGS(flagged), names, False, (<PointwiseOp>callable).name)


cdef object call_in_place(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    return parse((<InPlaceOp>callable).op, args, PyVectorcall_NARGS(flagged), names, True, (<InPlaceOp>callable).name)


cdef object parse(PointwiseOp op, PyObject** args, Py_ssize_t nargs, PyObject* names, bint in_place, str who):
    cdef Operand operands[MAX_OPERANDS]
    cdef double params[MAX_PARAMS]
    cdef PyObject* given[MAX_OUTPUTS]
    cdef PyObject* found[MAX_OPERANDS + MAX_PARAMS]
    cdef int k, total = op.operands + op.params
    cdef object out = None, value
    if nargs > total:
        raise TypeError(f"{who}() takes at most {total} positional arguments but {nargs} were given")
    for k in range(total):
        found[k] = args[k] if k < nargs else NULL
    if names != NULL:
        for k in range(len(<tuple>names)):
            place_keyword(op, <object>(<tuple>names)[k], <object>args[nargs + k], found, who, &given[0])
            if (<tuple>names)[k] == "out":
                out = <object>args[nargs + k]
    for k in range(op.operands):
        if found[k] == NULL:
            raise TypeError(f'{who}() missing 1 required positional argument: "{op.names[k]}"')
        if not read_operand(<object>found[k], &operands[k]):
            raise TypeError(f"{who}(): argument '{op.names[k]}' (position {k + 1}) must be Tensor or number, not "
                            f"{type(<object>found[k]).__name__}")
    for k in range(op.params):
        if found[op.operands + k] == NULL:
            if op.operands + k < op.required:
                raise TypeError(f'{who}() missing 1 required argument: "{op.names[op.operands + k]}"')
            params[k] = op.defaults[k]
        else:
            value = <object>found[op.operands + k]
            if isinstance(value, float) and op.names[op.operands + k] == "alpha" and CATEGORY[common_code(operands, op.operands, op.raw)] < 2:
                raise RuntimeError(f"{who}(): For integral input tensors, argument alpha must not be a floating point number, got {value}")
            try:
                params[k] = value
            except TypeError:
                raise TypeError(f"{who}(): argument '{op.names[op.operands + k]}' must be Number, not "
                                f"{type(value).__name__}") from None
    if in_place:
        if not isinstance(<object>found[0], TensorBase):
            raise TypeError(f"{who}(): a Tensor expected, not {type(<object>found[0]).__name__}")
        given[0] = found[0]
        return run(op, operands, params, given, True)
    if out is None:
        return run(op, operands, params, NULL, False)
    results = out if isinstance(out, (tuple, list)) else (out,)
    if len(results) != op.outputs:
        raise TypeError(f"{who}(): out= takes {op.outputs} tensors, got {len(results)}")
    for k in range(op.outputs):
        if not isinstance(results[k], TensorBase):
            raise TypeError(f"{who}(): argument 'out' must be Tensor, not {type(results[k]).__name__}")
        given[k] = <PyObject*>results[k]
    return run(op, operands, params, given, False)


cdef int place_keyword(PointwiseOp op, str key, object value, PyObject** found, str who, PyObject** given) except -1:
    cdef int k
    for k in range(op.operands + op.params):
        if key == <str>op.names[k]:
            if found[k] != NULL:
                raise TypeError(f"{who}() got multiple values for argument '{key}'")
            found[k] = <PyObject*>value
            return 0
    if key != "out":
        raise TypeError(f"{who}() got an unexpected keyword argument '{key}'")
    return 0


cdef object run(PointwiseOp op, Operand* operands, double* params, PyObject** given, bint in_place):
    """Compute; `given` holds tensors to write to, or is NULL."""
    cdef TensorBase first = None, t, out
    cdef int k, n = op.operands, m = op.outputs, common, tensors = 0
    cdef bint simple = True, taped = False
    cdef bint taping = grad_enabled()
    cdef Device device = None
    cdef list held
    for k in range(n):
        if operands[k].tensor != NULL:
            t = <TensorBase>operands[k].tensor
            tensors += 1
            if t.storage.on is not None:
                device = t.storage.on
            if taping and (t.requires or (t.base is not None and wants_grad(t))):
                taped = True
            if first is None:
                first = t
                if not t.contiguous:
                    simple = False
            elif simple and not (t.contiguous and same_shape(t, first)):
                simple = False
    if device is not None:
        simple = False
        if tensors > 1:
            held = []
            bring_scalars(operands, n, device, held)
    if tensors == 1 and first.rank and op.raw == 0 and (n == 1 or numbers_fit(operands, n, first.code)):
        common = first.code
    else:
        common = common_code(operands, n, op.raw)
    if given != NULL:
        return run_given(op, operands, params, given, in_place, common, taped)
    if first is None:
        raise TypeError(f"{op.name}(): argument '{op.names[0]}' (position 1) must be Tensor, not a number")
    if simple:
        results = run_simple(op, operands, params, common, first)
    else:
        results = run_general(op, operands, params, common, NULL)
    if taped and op.differentiable:
        record_pointwise(op, operands, params, results, common, None)
    return results


cdef inline bint numbers_fit(Operand* operands, int n, int code) noexcept nogil:
    """Whether no number has a higher category than the one tensor."""
    cdef int k
    for k in range(n):
        if operands[k].tensor == NULL and operands[k].category > CATEGORY[code]:
            return False
    return True


cdef inline int fill_scalars(PointwiseOp op, Operand* operands, double* params, int common, uint64_t* scalars) noexcept:
    """Numbers among the operands come first, then the parameters."""
    cdef int k, count = 0
    for k in range(op.operands):
        if operands[k].tensor == NULL:
            count += pack(&operands[k], common, &scalars[count])
    for k in range(op.params):
        memcpy(&scalars[count], &params[k], 8)
        count += 1
    return count


cdef object run_simple(PointwiseOp op, Operand* operands, double* params, int common, TensorBase first):
    """All tensors contiguous and of one shape: one loop."""
    cdef uint64_t key0 = 0, key1 = common
    cdef int k, n = op.operands, m = op.outputs, memory = m
    cdef uint64_t scalars[MAX_SLOTS]
    cdef char* data[MAX_OPERANDS + MAX_OUTPUTS]
    cdef int64_t geometry[3 + 2 * (MAX_OPERANDS + MAX_OUTPUTS)]
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
    if count >= PARALLEL_FROM:
        return run_general(op, operands, params, common, NULL)
    fill_scalars(op, operands, params, common, scalars)
    if m == 1:
        out = new_tensor(first.rank, first.sizes, kernel.codes[0])
        data[0] = out.storage.data
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
    geometry[0], geometry[1], geometry[2] = count, 1, 0
    for k in range(memory):
        geometry[3 + memory + k] = 0
    if count:
        kernel.run(data, geometry, scalars)
    return results


cdef object run_general(PointwiseOp op, Operand* operands, double* params, int common, PyObject** given):
    """Broadcasting, strides, results that exist already, threads."""
    cdef Plan plan
    cdef Launch launch
    cdef int64_t sizes[MAX_DIMS]
    cdef int rank = 0, k, n = op.operands, m = op.outputs, access
    cdef uint64_t key0 = 0, key1 = common
    cdef uint64_t scalars[MAX_SLOTS]
    cdef PyObject* tensors[MAX_OPERANDS + MAX_OUTPUTS]
    cdef TensorBase t, out
    cdef Kernel* kernel
    cdef Device device
    if given != NULL:
        out = <TensorBase>given[0]
        rank = out.rank
        memcpy(sizes, out.sizes, rank * sizeof(int64_t))
    for k in range(n):
        tensors[m + k] = operands[k].tensor
        if operands[k].tensor != NULL and given == NULL:
            broadcast(op.name, sizes, &rank, <TensorBase>operands[k].tensor, op.names)
    cdef list results = []
    cdef int64_t strides[MAX_DIMS]
    if given == NULL:
        device = one_device(op.name, tensors + m, n)
    else:
        for k in range(m):
            tensors[k] = given[k]
        device = one_device(op.name, tensors, m + n)
    if device is not None:
        key0 = AWAY >> 6 * n  # the operands' bits shift it to its place
    if given == NULL:
        layout(strides, rank, sizes, operands, n)
        out = new_geometry(rank, sizes, strides)  # dtype and storage follow when the kernel is known
        for k in range(m):
            tensors[k] = <PyObject*>out
    make_plan(&plan, rank, sizes, tensors, m + n)
    launch.operands = 0
    for k in range(m + n):
        if tensors[k] == NULL:
            key0 = key0 << 6 | (operands[k - m].category << 2) | NUMBER
            continue
        t = <TensorBase>tensors[k]
        access = CONTIGUOUS if plan.strides[k][0] == 1 else BROADCAST if plan.strides[k][0] == 0 and k >= m else STRIDED
        if k >= m:
            key0 = key0 << 6 | (t.code << 2) | access
        else:
            key1 = key1 << 6 | ((NO_CODE if given == NULL else t.code) << 2) | access
        launch.plan_index[launch.operands] = k
        launch.width[launch.operands] = t.width
        launch.operands += 1
    kernel = look_up(&op.table, key0, key1)
    if kernel == NULL:
        kernel = compile_kernel(op, key0, key1)
    launch.run = kernel.run
    if given == NULL:
        for k in range(m):
            out = new_strided_on(device, rank, sizes, strides, kernel.codes[k])
            results.append(out)
            tensors[k] = <PyObject*>out
            launch.width[k] = out.width
    launch.plan = &plan
    launch.operands = 0
    for k in range(m + n):
        if tensors[k] != NULL:
            t = <TensorBase>tensors[k]
            launch.data[launch.operands] = place_of(t)
            launch.operands += 1
    fill_scalars(op, operands, params, common, scalars)
    launch.scalars = scalars
    if device is None:
        launch_plan(&launch)
    else:
        away.pointwise(device, <Family><object><void*>launch.run, &launch)
    if given != NULL:
        return None
    return results[0] if m == 1 else tuple(results)


cdef TensorBase new_geometry(int rank, const int64_t* sizes, const int64_t* strides):
    cdef TensorBase t = bare()
    set_rank(t, rank)
    memcpy(t.sizes, sizes, rank * sizeof(int64_t))
    memcpy(t.strides, strides, rank * sizeof(int64_t))
    return t


cdef bint dense(TensorBase t) noexcept nogil:
    """Whether the elements fill their stretch of memory without gaps, each once, in any order of dimensions."""
    cdef int64_t step = 1
    cdef int d, found, left = 0
    cdef uint64_t used = 0
    if t.contiguous or t.count == 0:
        return True
    for d in range(t.rank):
        left += t.sizes[d] > 1
    while left:
        found = -1
        for d in range(t.rank):
            if t.sizes[d] > 1 and t.strides[d] == step and not used >> d & 1:
                found = d
        if found < 0:
            return False
        used |= <uint64_t>1 << found
        step *= t.sizes[found]
        left -= 1
    return True


cdef bint channels_last(int rank, const int64_t* sizes, int64_t* strides, bint given) noexcept nogil:
    """Whether the strides given are those of the channels_last format (of images, or volumes); else fill them in."""
    cdef int64_t step = 1
    cdef int i, d
    for i in range(rank):
        d = 1 if i == 0 else 0 if i == rank - 1 else rank - i
        if not given:
            strides[d] = step
        elif sizes[d] != 1 and strides[d] != step:
            return False
        step *= sizes[d]
    return True


cdef bint one_layout(int rank, const int64_t* sizes, Operand* operands, int n) noexcept:
    """Whether all operands have the result's shape and the same dense strides."""
    cdef TensorBase first = None, t
    cdef int k
    for k in range(n):
        if operands[k].tensor == NULL:
            return False
        t = <TensorBase>operands[k].tensor
        if not fits(t, rank, sizes) or not dense(t):
            return False
        if first is None:
            first = t
        elif memcmp(t.strides, first.strides, rank * sizeof(int64_t)) != 0:
            return False
    return first is not None


cdef inline int64_t stride_at(TensorBase t, int d, int rank, const int64_t* sizes) noexcept nogil:
    d -= rank - t.rank
    return 0 if d < 0 or (t.sizes[d] == 1 and sizes[d + rank - t.rank] != 1) else t.strides[d]


cdef int outer_first(int a, int b, int rank, const int64_t* sizes, Operand* operands, int n) noexcept:
    """Which of two dimensions lies further out: 1 for a, -1 for b, by the first operand that tells; 0 where none does."""
    cdef int64_t at_a, at_b
    cdef int k
    for k in range(n):
        if operands[k].tensor == NULL:
            continue
        at_a = stride_at(<TensorBase>operands[k].tensor, a, rank, sizes)
        at_b = stride_at(<TensorBase>operands[k].tensor, b, rank, sizes)
        if at_a == 0 or at_b == 0:
            continue
        if at_a != at_b:
            return 1 if at_a > at_b else -1
        if sizes[a] > sizes[b]:
            return 1
    return 0


cdef void layout(int64_t* strides, int rank, const int64_t* sizes, Operand* operands, int n) noexcept:
    """Strides of a new result, as PyTorch chooses them: the operands' own where they agree, else dense, with the
    dimensions in the order in which the operands hold them.
    """
    cdef int order[MAX_DIMS]
    cdef int d, i, at, sign
    cdef int64_t step = 1
    if n and one_layout(rank, sizes, operands, n):
        memcpy(strides, (<TensorBase>operands[0].tensor).strides, rank * sizeof(int64_t))
        if (rank == 4 or rank == 5) and not (<TensorBase>operands[0].tensor).contiguous and (
                channels_last(rank, sizes, strides, True)):
            channels_last(rank, sizes, strides, False)  # dimensions of size 1 get the format's strides, too
        return
    for i in range(rank):
        order[i] = rank - 1 - i       # innermost first
    for i in range(1, rank):
        at = i
        for d in range(i - 1, -1, -1):
            sign = outer_first(order[d], order[at], rank, sizes, operands, n)
            if sign < 0:
                break
            if sign > 0:
                order[d], order[at] = order[at], order[d]
                at = d
    for i in range(rank):
        strides[order[i]] = step
        if sizes[order[i]] > 1:
            step *= sizes[order[i]]


cdef int fit_out(str who, TensorBase out, int rank, const int64_t* sizes) except -1:
    """Give `out=` the shape of the result; a warning where that changes a tensor with elements."""
    if fits(out, rank, sizes):
        return 0
    if out.count:
        import warnings

        warnings.warn(f"{who}(): an output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
                      f"match the required output shape {list(size_from(rank, sizes))}.", stacklevel=2)
    out.resize_(size_from(rank, sizes))
    return 0


cdef object run_given(PointwiseOp op, Operand* operands, double* params, PyObject** given, bint in_place, int common, bint taped):
    """Results go into tensors that exist: checks, then the same way."""
    cdef TensorBase out, t
    cdef int64_t sizes[MAX_DIMS]
    cdef int rank = 0, k, j, code, n = op.operands, m = op.outputs
    cdef list stand_ins = None
    cdef bint differentiable = op.differentiable
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
        if CATEGORY[code] > CATEGORY[out.code] and not op.casts:
            raise RuntimeError(f"{op.name}(): result type {dtype_of(code)} can't be cast to the desired output type {dtype_of(out.code)}")
        if grad_enabled():
            if in_place:
                check_in_place(out, op.name)
                taped = taped or wants_grad(out)
            elif taped or wants_grad(out):
                raise RuntimeError(f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but "
                                   "one of the arguments requires grad.")
        if not fits(out, rank, sizes):
            if in_place:
                raise RuntimeError(f"{op.name}_(): output with shape {list(out.shape)} doesn't match the broadcast shape "
                                   f"{list(size_from(rank, sizes))}")
            fit_out(op.name, out, rank, sizes)
        check_overlap(op, out, operands, n)
        check_writable(out, op.name)
    cdef TensorBase original = None
    cdef Operand apart[MAX_OPERANDS]
    cdef Operand* read = operands
    cdef list held
    if taped and in_place and differentiable and m == 1:
        original = overwritten_input(op, operands, <TensorBase>given[0])
    for k in range(m):
        if shares(<TensorBase>given[k], operands, n):
            if read == operands:
                held, read = [], apart
                memcpy(apart, operands, n * sizeof(Operand))
            set_apart(<TensorBase>given[k], apart, n, held)
    run_general(op, read, params, common, given)
    for k in range(m):
        wrote(<TensorBase>given[k])
    if taped and in_place and differentiable and m == 1:
        record_pointwise(op, operands, params, <object>given[0], common, <TensorBase>given[0], original)
    return <object>given[0] if m == 1 else tuple([<object>given[k] for k in range(m)])


# --- copies ------------------------------
cdef PointwiseOp identity = None


def set_identity(PointwiseOp op) -> None:
    """The operation that copies: `clone`, `to`, `copy_`, `contiguous` are this one."""
    global identity
    identity = op
    op.casts = True


cdef void keep_dense(int64_t* strides, TensorBase source) noexcept:
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
        keep_dense(strides, source)
        out = new_strided_on(source.storage.on, source.rank, source.sizes, strides, code)
    given[0] = <PyObject*>out
    run_general(identity, &operand, NULL, source.code, given)
    if grad_enabled() and wants_grad(source) and CATEGORY[code] >= 2:
        record_pointwise(identity, &operand, NULL, out, source.code, None)
    return out


def contiguous(TensorBase input, memory_format=None) -> TensorBase:
    """The tensor itself where its elements stand in row-major order (or the one of `memory_format`) without gaps, else a copy
    where they do.
    """
    if memory_format is not None and not plain(memory_format, "contiguous"):
        return input if (<object>input).is_contiguous(memory_format=memory_format) else clone(input, memory_format=memory_format)
    return input if input.contiguous else copied(input, input.code, True)


def clone(TensorBase input, *, memory_format=None) -> TensorBase:
    """A copy with its own memory, on the tape: with the strides of the input where it has no gaps, or in `memory_format`."""
    if memory_format is None:
        return copied(input, input.code, False)
    if plain(memory_format, "clone"):
        return copied(input, input.code, memory_format is contiguous_format)
    return copy_(provided["empty_like"](input, memory_format=memory_format), input)


cdef bint plain(object memory_format, str who) except -1:
    """Whether a memory format is none of those with channels last."""
    if not isinstance(memory_format, Format):
        raise TypeError(f"{who}(): argument 'memory_format' must be {display.public('memory_format')}, not {type(memory_format).__name__}")
    return memory_format is contiguous_format or memory_format is preserve_format


def to_dtype(TensorBase input, d: dtype, copy: bool = False) -> TensorBase:
    """The tensor itself where it has that dtype (and no copy is asked for), else a copy that has."""
    cdef int code = (<dtype?>d).code
    return input if code == input.code and not copy else copied(input, code, False)


def copy_(TensorBase input, src, non_blocking=False) -> TensorBase:
    """Overwrite the elements by those of `src` (a tensor that broadcasts to the shape, of any dtype, or a
    number).
    """
    cdef Operand operand
    cdef PyObject* given[1]
    if not read_operand(src, &operand):
        raise TypeError(f"copy_(): argument 'other' must be Tensor, not {type(src).__name__}")
    if operand.tensor != NULL and (<TensorBase>src).storage.on is not input.storage.on:
        src = away.moved(<TensorBase>src, input.storage.on)
        operand.tensor = <PyObject*>src
    if src is input:
        return input
    given[0] = <PyObject*>input
    return run_given(identity, &operand, NULL, given, True, src_code(&operand), wants_grad(<TensorBase>src) and grad_enabled()
                     if operand.tensor != NULL else False)


cdef int src_code(Operand* operand):
    return (<TensorBase>operand.tensor).code if operand.tensor != NULL else common_code(operand, 1, 0)


cdef TensorBase overwritten_input(PointwiseOp op, Operand* operands, TensorBase out):
    """A copy of what an in-place operation is about to overwrite, where its derivative reads that."""
    cdef Derivation how = derivation_for(op, operands)
    cdef int k
    for k in range(how.count):
        if how.kinds[k] == 1 and operands[how.numbers[k]].tensor == <PyObject*>out:
            return copied(out, out.code, False)
    return None


cdef bint fits(TensorBase t, int rank, const int64_t* sizes) noexcept nogil:
    cdef int d
    if t.rank != rank:
        return False
    for d in range(rank):
        if t.sizes[d] != sizes[d]:
            return False
    return True


cdef bint same_steps(TensorBase a, TensorBase b) noexcept nogil:
    cdef int d
    for d in range(a.rank):
        if a.sizes[d] != b.sizes[d] or (a.strides[d] != b.strides[d] and a.sizes[d] > 1):
            return False
    return True


cdef int check_overlap(PointwiseOp op, TensorBase out, Operand* operands, int n) except -1:
    """Each element is written once, and no input is partly under the output."""
    cdef int k
    cdef TensorBase t
    cdef int64_t low, high, first, last
    check_apart(out, op.name)
    for k in range(n):
        if operands[k].tensor == NULL:
            continue
        t = <TensorBase>operands[k].tensor
        if t.storage is not out.storage or t is out or t.count == 0 or out.count == 0:
            continue
        if not dense(t) or not dense(out) or (op.casts and not same_shape(t, out)):  # a copy of what is repeated
            continue
        low, high = out.offset * out.width, (out.offset + out.count) * out.width
        first, last = t.offset * t.width, (t.offset + t.count) * t.width
        if first < high and low < last and not (
                first == low and last == high and t.rank == out.rank and same_steps(t, out)):
            raise RuntimeError(f"{op.name}(): unsupported operation: some elements of the input tensor and the written-to tensor "
                               "refer to a single memory location. Please clone() the tensor before performing the operation.")
    return 0


cdef bint shares(TensorBase out, Operand* operands, int n) noexcept:
    """Whether another tensor among the operands lies in the same storage."""
    cdef int k
    for k in range(n):
        if operands[k].tensor != NULL and operands[k].tensor != <PyObject*>out and (
                (<TensorBase>operands[k].tensor).storage is out.storage):
            return True
    return False


cdef int set_apart(TensorBase out, Operand* operands, int n, list held) except -1:
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
            t = copied_plain(t)
            held.append(t)
            operands[k].tensor = <PyObject*>t
    return 0


cdef TensorBase copied_plain(TensorBase t):
    """A copy that the tape does not see."""
    cdef int modes = grad_enabled()
    set_grad(False)
    try:
        return copied(t, t.code, False)
    finally:
        set_grad(modes)


cdef bint meet(TensorBase a, TensorBase b) noexcept nogil:
    """Whether two tensors over one storage share bytes; True also where that would take long to find out."""
    cdef int64_t steps[2 * MAX_DIMS + 2]
    cdef int64_t counts[2 * MAX_DIMS + 2]
    cdef int64_t distance = b.offset * b.width - a.offset * a.width, step, count
    cdef int n = 0, d, i, budget = 4096
    if a.count == 0 or b.count == 0:
        return False
    steps[0], counts[0], steps[1], counts[1] = 1, a.width - 1, 1, b.width - 1
    n = 2
    distance += b.width - 1  # b is walked through from its last byte down, so that all steps are counted upwards
    for d in range(a.rank):
        if a.strides[d] and a.sizes[d] > 1:
            steps[n], counts[n] = a.strides[d] * a.width, a.sizes[d] - 1
            n += 1
    for d in range(b.rank):
        if b.strides[d] and b.sizes[d] > 1:
            steps[n], counts[n] = b.strides[d] * b.width, b.sizes[d] - 1
            distance += steps[n] * counts[n]
            n += 1
    for i in range(1, n):  # the largest steps first
        step, count = steps[i], counts[i]
        d = i
        while d > 0 and steps[d - 1] < step:
            steps[d], counts[d] = steps[d - 1], counts[d - 1]
            d -= 1
        steps[d], counts[d] = step, count
    return reaches(distance, steps, counts, n, &budget)


cdef bint reaches(int64_t distance, const int64_t* steps, const int64_t* counts, int n, int* budget) noexcept nogil:
    """Whether distance is a sum of steps, each taken at most so many times."""
    cdef int64_t rest = 0, k, least, most
    cdef int i
    if n == 0 or distance <= 0:
        return distance == 0
    budget[0] -= 1
    if budget[0] < 0:
        return True
    for i in range(1, n):
        rest += steps[i] * counts[i]
    most = min(distance // steps[0], counts[0])
    least = 0 if distance <= rest else (distance - rest + steps[0] - 1) // steps[0]
    for k in range(most, least - 1, -1):
        if reaches(distance - k * steps[0], steps + 1, counts + 1, n - 1, budget):
            return True
    return False


cdef tuple result_codes(PointwiseOp op, Operand* operands, int common):
    """The dtypes that the results would have of themselves."""
    cdef uint64_t key0 = 0, key1 = <uint64_t>common << 6 * op.outputs
    cdef int k
    for k in range(op.operands):
        if operands[k].tensor != NULL:
            key0 = key0 << 6 | ((<TensorBase>operands[k].tensor).code << 2)
        else:
            key0 = key0 << 6 | (operands[k].category << 2) | NUMBER
    known = op.declaration.codes.get((key0, common))
    if known is None:
        known = op.declaration.result_codes(*describe(op, key0, key1))
        op.declaration.codes[(key0, common)] = known
    return known


cdef tuple describe(PointwiseOp op, uint64_t key0, uint64_t key1):
    """A key spelled out: inputs as (code, access), outputs as (code or NO_CODE, access), the common code."""
    cdef int k
    inputs = [((key0 >> 6 * (op.operands - 1 - k)) >> 2 & 15, (key0 >> 6 * (op.operands - 1 - k)) & 3) for k in range(op.operands)]
    outputs = [((key1 >> 6 * (op.outputs - 1 - k)) >> 2 & 15, (key1 >> 6 * (op.outputs - 1 - k)) & 3) for k in range(op.outputs)]
    return inputs, outputs, key1 >> 6 * op.outputs


cdef Kernel* compile_kernel(PointwiseOp op, uint64_t key0, uint64_t key1) except NULL:
    """Ask the compiler; it answers with the kernel's address and the results' dtypes."""
    cdef uintptr_t address
    if key0 & AWAY:
        kernel, codes = op.declaration.program_for(*describe(op, key0, key1))
        return insert_family(&op.table, key0, key1, kernel, codes)
    address, codes = op.declaration.kernel(*describe(op, key0, key1))
    return insert(&op.table, key0, key1, <kernel_t><void*>address, codes)


# --- operators of Tensor ------------------------------
cdef object binary_operator(object op, object a, object b):
    cdef Operand operands[2]
    cdef double params[MAX_PARAMS]
    cdef PyObject* given[1]
    cdef PointwiseOp pointwise
    cdef int k
    if isinstance(op, PointwiseOp):
        pointwise = <PointwiseOp>op
        if not read_operand(a, &operands[0]) or not read_operand(b, &operands[1]):
            return NotImplemented
        for k in range(pointwise.params):
            params[k] = pointwise.defaults[k]
        return run(pointwise, operands, params, NULL, False)
    if isinstance(op, InPlaceOp):
        pointwise = (<InPlaceOp>op).op
        if not read_operand(a, &operands[0]) or not read_operand(b, &operands[1]):
            return NotImplemented
        for k in range(pointwise.params):
            params[k] = pointwise.defaults[k]
        given[0] = <PyObject*>a
        return run(pointwise, operands, params, given, True)
    if not read_operand(a, &operands[0]) or not read_operand(b, &operands[1]):
        return NotImplemented
    return op(a, b)


cdef object unary_operator(object op, object a):
    cdef Operand operand
    if isinstance(op, PointwiseOp):
        operand.tensor = <PyObject*>a
        return run(<PointwiseOp>op, &operand, (<PointwiseOp>op).defaults, NULL, False)
    return op(a)


cdef int copy_elements(TensorBase to, TensorBase source) except -1:
    """Copy with broadcasting, on one device, not recorded."""
    cdef Operand operand
    cdef PyObject* given[1]
    operand.tensor = <PyObject*>source
    given[0] = <PyObject*>to
    run_general(identity, &operand, NULL, source.code, given)
    return 0


away.copy = copy_elements
late.binary = binary_operator
late.unary = unary_operator


# --- the tape ------------------------------
cdef class Derivation:
    """How an operation's gradients are computed for one choice of inputs: which results are the incoming
    gradient itself, and the operation that computes the others from gradients, inputs, outputs and
    parameters.
    """

    cdef PointwiseOp op
    cdef int count
    cdef int kinds[MAX_OPERANDS]       # of op's operands: 0 gradient, 1 input, 2 output
    cdef int numbers[MAX_OPERANDS]
    cdef int params[MAX_PARAMS]        # op's parameters: which parameter of the forward operation
    cdef tuple direct                  # for each input: the number of the gradient that it is, -1 computed, -2 none

    def __cinit__(self, op, tuple sources, tuple params, tuple direct):
        cdef int k
        self.op, self.direct, self.count = op, direct, len(sources)
        for k in range(len(sources)):
            self.kinds[k], self.numbers[k] = sources[k]
        for k in range(len(params)):
            self.params[k] = params[k]


@cython.no_gc
@cython.freelist(64)
@cython.binding(False)
cdef class PointwiseNode(Node):
    """A recorded pointwise operation."""

    cdef PointwiseOp op
    cdef Derivation how
    cdef int slots
    cdef Slot* slot
    cdef Slot few[3]
    cdef Operand* numbers_          # operands that were numbers, by position in how.op's operands
    cdef double* params
    cdef object shapes              # for each input: None, or the shape its gradient is summed to
    cdef signed char codes[MAX_OPERANDS]

    def name(self):
        return "".join([part.capitalize() for part in self.op.name.split("_")]) + "Backward0"

    cdef list run(self, list grads):
        cdef Operand operands[MAX_OPERANDS]
        cdef double params[MAX_PARAMS]
        cdef Derivation how = self.how
        cdef list held = [], found = []
        cdef int k, slot = 0, computed = 0
        cdef TensorBase t
        cdef object results = None, g
        if how.op is not None:
            for k in range(how.count):
                if how.kinds[k] == 0:
                    t = <TensorBase>grads[how.numbers[k]]
                    if t is None:
                        operands[k].tensor, operands[k].category, operands[k].real, operands[k].whole = NULL, 1, 0.0, 0
                    else:
                        operands[k].tensor = <PyObject*>t
                elif self.numbers_ != NULL and self.numbers_[k].category >= 0:
                    operands[k] = self.numbers_[k]
                else:
                    t = kept(&self.slot[slot], self)
                    slot += 1
                    held.append(t)
                    operands[k].tensor = <PyObject*>t
            for k in range(how.op.params):
                params[k] = self.params[how.params[k]]
            results = run(how.op, operands, params, NULL, False)
        for k in range(self.op.operands):
            number = <int>how.direct[k]
            if number == -2:
                g = None
            elif number >= 0:
                g = grads[number]
            else:
                g = results if how.op.outputs == 1 else (<tuple>results)[computed]
                computed += 1
            if g is not None:
                if self.shapes is not None and self.shapes[k] is not None:
                    g = sum_to(<TensorBase>g, self.shapes[k])
                if (<TensorBase>g).code != self.codes[k]:
                    g = g.to(dtype_of(self.codes[k]))
            found.append(g)
        results = None
        return found

    cdef object push(self, int number, list tangents, TensorBase out):
        """By a kernel of its own where the result is of a real dtype."""
        cdef Operand operands[MAX_OPERANDS]
        cdef double params[MAX_PARAMS]
        cdef Derivation how = self.how
        cdef PointwiseOp op
        cdef list held = []
        cdef int k, mask = 0, n = 0, slot = 0, moving = 0
        cdef TensorBase t
        for k in range(self.edges):
            mask |= (self.targets[k] != NULL) << k
            moving += self.targets[k] != NULL
        if CATEGORY[out.code] != 2 or moving + how.count > MAX_OPERANDS:
            return Node.push(self, number, tangents, out)
        known = self.op.derivations.get((mask, number))
        if known is None:
            known = self.op.derivations[mask, number] = self.op.declaration.tangent(mask, number)
        if known[0] is None:
            return (<object>out).new_zeros((<object>out).shape)
        op = known[0]
        for k in known[1]:
            if tangents[k] is None:
                operands[n].tensor, operands[n].category, operands[n].real, operands[n].whole = NULL, 1, 0.0, 0
            else:
                t = <TensorBase>tangents[k]
                if t.code != out.code:
                    t = <TensorBase>copied(t, out.code, False)
                    held.append(t)
                operands[n].tensor = <PyObject*>t
            n += 1
        for k in range(how.count):
            if how.kinds[k] == 0:
                continue
            if self.numbers_ != NULL and self.numbers_[k].category >= 0:
                operands[n] = self.numbers_[k]
            else:
                t = kept(&self.slot[slot], self)
                slot += 1
                held.append(t)
                operands[n].tensor = <PyObject*>t
            n += 1
        for k in range(op.params):
            params[k] = self.params[how.params[k]]
        t = <TensorBase>run(op, operands, params, NULL, False)
        if t.code != out.code:
            t = copied(t, out.code, False)
        if not same_shape(t, out):
            t = (<object>t).expand((<object>out).shape)
        return t

    cdef void drop(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])

    def __dealloc__(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])
        if self.slot != self.few:
            free(self.slot)
        self.slots = 0
        free(self.numbers_)
        free(self.params)


cdef inline int wanted_inputs(PointwiseOp op, Operand* operands):
    """Bit k: operand k wants a gradient; bit 16 + k: it is complex."""
    cdef int k, mask = 0
    cdef TensorBase t
    for k in range(op.operands):
        if operands[k].tensor != NULL:
            t = <TensorBase>operands[k].tensor
            if CATEGORY[t.code] >= 2:
                if t.requires:
                    mask |= 1 << k
                if CATEGORY[t.code] == 3:
                    mask |= 1 << (16 + k)
        elif operands[k].category == 3:
            mask |= 1 << (16 + k)
    return mask


cdef Derivation derivation_for(PointwiseOp op, Operand* operands):
    cdef int mask = wanted_inputs(op, operands)
    known = op.derivations.get(mask)
    if known is None:
        known = op.declaration.derivation(mask & 0xFFFF, mask >> 16)
        op.derivations[mask] = known
    return <Derivation>known


cdef int record_pointwise(PointwiseOp op, Operand* operands, double* params, object results, int common, TensorBase written,
                          TensorBase original=None) except -1:
    """Put the call on the tape, keeping just what its derivative reads."""
    cdef PointwiseNode node
    cdef Derivation how
    cdef TensorBase t, out
    cdef int k, mask, slot = 0, saved = 0
    out = <TensorBase>results if op.outputs == 1 else <TensorBase>results[0]
    if op.outputs == 1 and CATEGORY[out.code] < 2:
        return 0
    mask = wanted_inputs(op, operands)
    how = derivation_for(op, operands)
    node = PointwiseNode.__new__(PointwiseNode)
    node.op, node.how, node.outputs = op, how, op.outputs
    node.set_edges(op.operands)
    shapes = None
    if written is not None:
        before_write(written)
    for k in range(op.operands):
        if mask >> k & 1:
            t = <TensorBase>operands[k].tensor
            node.codes[k] = t.code
            node.connect(k, t)
            if not same_shape(t, out):
                if shapes is None:
                    shapes = [None] * op.operands
                shapes[k] = size_from(t.rank, t.sizes)
    if written is not None:
        after_write(written)
    node.shapes = shapes
    for k in range(how.count):
        saved += how.kinds[k] != 0
    if saved:
        if saved <= 3:
            node.slot = node.few
        else:
            node.slot = <Slot*>calloc(saved, sizeof(Slot))
            if node.slot == NULL:
                raise MemoryError
        node.slots = saved  # empty ones too are cleared, should a hook on saved tensors raise
        for k in range(how.count):
            if how.kinds[k] == 1:
                if operands[how.numbers[k]].tensor == NULL:
                    if node.numbers_ == NULL:
                        node.numbers_ = no_numbers(how.count)
                    node.numbers_[k] = operands[how.numbers[k]]
                    continue
                t = <TensorBase>operands[how.numbers[k]].tensor
                keep(&node.slot[slot], original if t is written else t, -1, written)
                slot += 1
            elif how.kinds[k] == 2:
                keep(&node.slot[slot], <TensorBase>(results if op.outputs == 1 else results[how.numbers[k]]), how.numbers[k])
                slot += 1
        node.slots = slot
    if op.params and params != NULL:
        node.params = <double*>calloc(op.params, sizeof(double))
        memcpy(node.params, params, op.params * sizeof(double))
    if written is not None:
        rebase(written, node, 0)
    elif op.outputs == 1:
        attach(out, node, 0)
    else:
        for k in range(op.outputs):
            if CATEGORY[(<TensorBase>results[k]).code] >= 2:
                attach(<TensorBase>results[k], node, k)
    return 0


cdef Operand* no_numbers(int n) except NULL:
    cdef Operand* made = <Operand*>calloc(n, sizeof(Operand))
    cdef int k
    if made == NULL:
        raise MemoryError
    for k in range(n):
        made[k].category = -1
    return made


cdef object sum_to_function = None


def set_sum_to(function) -> None:
    """The operation that sums a gradient to the shape of a broadcast operand."""
    global sum_to_function
    sum_to_function = function


cdef object sum_to(TensorBase grad, object sizes):
    return sum_to_function(grad, sizes)


make_callable(PointwiseOp, PointwiseOp("", (), (), (), 1, None))
make_callable(InPlaceOp, InPlaceOp(PointwiseOp("", (), (), (), 1, None), ""))

