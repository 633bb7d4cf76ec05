# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Tensors and numbers as a kernel's operands, and the dtype they are computed in."""
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy
from cpython.object cimport PyObject
from ..base.device cimport Device
from ..base.dtypes cimport (
    BOOL, I64, U64, F16, F64, C32, C64, C128, F8_E4M3FN, CATEGORY, PROMOTED, REFUSED, default_code, dtype, dtype_of, no_promotion,
)
from ..base.tensor cimport TensorBase
from .kernels cimport device_launcher

cdef extern from "Python.h":
    bint PyFloat_Check(object o)
    bint PyLong_Check(object o)
    bint PyBool_Check(object o)
    bint PyComplex_Check(object o)
    long long PyLong_AsLongLongAndOverflow(object o, int* overflow) except? -1


cdef int bring_scalars(Operand* operands, int n, Device device, list held) except -1:
    """0-dim tensors of the host may be mixed with a device's tensors: replace them by copies there (which `held` keeps)."""
    cdef int k
    cdef TensorBase t
    for k in range(n):
        if operands[k].tensor != NULL:
            t = <TensorBase>operands[k].tensor
            if t.rank == 0 and t.storage.on is None:
                t = device_launcher.moved(t, device)
                held.append(t)
                operands[k].tensor = <PyObject*>t
    return 0


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
        o.category, o.real = 1, <double>o.whole
        if overflow:                       # uint64 may hold it; see `pack`
            if overflow < 0 or x >= (<object>1 << 64):
                raise too_large()
            o.whole, o.real = <int64_t><uint64_t>x, <double>x
    elif PyComplex_Check(x):
        o.category, o.real, o.imag = 3, x.real, x.imag
    elif not hasattr(x, "__torch_function__") and hasattr(x, "dtype") and hasattr(x, "item") and getattr(x, "ndim", 1) == 0:
        # a NumPy scalar
        return read_operand(x.item(), o)
    else:
        return 0
    return 1


cdef inline int combine(int higher, int lower) noexcept nogil:
    """Dimensioned tensors outrank 0-dim ones, those outrank numbers: the lower matters only where its
    category is higher.  REFUSED where they have no common dtype.
    """
    if higher == REFUSED or lower == REFUSED:
        return REFUSED
    if higher < 0:
        return lower
    if lower < 0:
        return higher
    if CATEGORY[higher] == 3:
        return higher
    if CATEGORY[higher] == 2:
        if CATEGORY[lower] == 3:
            return C128 if higher == F64 else C32 if higher == F16 else C64 if higher < F8_E4M3FN else REFUSED
        return higher
    if CATEGORY[lower] == 3:
        return lower
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
            code = number_code(operands[k].category)
            number = code if number < 0 else PROMOTED[number][code]
    code = combine(combine(full, single), number)
    if code == REFUSED:
        raise apart(operands, n, raw)
    return code


def promoted_dtype(operands) -> dtype:
    """The dtype that operands are computed in: each is a pair of a dtype and a number of dimensions, or a Python number.

    >>> import flambeau
    >>> from flambeau.core.call.operands import promoted_dtype
    >>> promoted_dtype([(flambeau.float16, 2), (flambeau.float32, 0), 1.5])
    flambeau.float16
    """
    cdef int full = -1, single = -1, number = -1, code
    for x in operands:
        if isinstance(x, tuple):
            code = (<dtype?>x[0]).code
            if x[1]:
                full = code if full < 0 else PROMOTED[full][code]
            else:
                single = code if single < 0 else PROMOTED[single][code]
        else:
            code = number_code(0 if isinstance(x, bool) else 1 if isinstance(x, int) else 2 if isinstance(x, float) else 3)
            number = code if number < 0 else PROMOTED[number][code]
    code = combine(combine(full, single), number)
    if code == REFUSED:
        raise RuntimeError("Promotion of these dtypes is not supported")
    return dtype_of(code)


cdef inline int number_code(int category) noexcept:
    """The dtype that a Python number counts as."""
    return BOOL if category == 0 else I64 if category == 1 else default_code() if category == 2 else (
        C128 if default_code() == F64 else C64)


cdef object apart(Operand* operands, int n, unsigned int raw):
    """The error for operands that have no common dtype, naming the first two that have none."""
    cdef int k, other, first = -1
    for k in range(n):
        if raw >> k & 1:
            continue
        if operands[k].tensor != NULL:
            other = (<TensorBase>operands[k].tensor).code
        else:
            other = BOOL if operands[k].category == 0 else I64 if operands[k].category == 1 else (
                default_code() if operands[k].category == 2 else C64)
        if first >= 0 and PROMOTED[first][other] == REFUSED:
            return no_promotion(first, other)
        first = other if first < 0 else PROMOTED[first][other]
    return RuntimeError("Promotion of these dtypes is not supported")


cdef object too_large():
    return OverflowError("a Python int that does not fit 64 bits met a tensor")


cdef int pack(Operand* o, int code, uint64_t* slot) except -1:
    """A number as the kernel takes it: a double, an int64 or uint64, or two doubles; how many slots that takes."""
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
        elif whole < 0 and real > 0 and code != U64:
            raise too_large()
        memcpy(slot, &whole, 8)
    return 1


def result_type(a, b) -> dtype:
    """The dtype of an arithmetic operation on `a` and `b` (tensors or numbers).

    Raises:
        TypeError: an argument is neither a Tensor nor a number

    >>> import flambeau
    >>> flambeau.result_type(flambeau.tensor([1, 2]), 1.5)
    flambeau.float32
    """
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
