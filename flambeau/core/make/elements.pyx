# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Python numbers as elements of a tensor, and filling tensors with one.

A number is read into a `Value` once; `store` writes it as an element of any dtype.
"""
from libc.math cimport isnan, isinf, fabs
from libc.string cimport memcpy, memset
from libc.stdint cimport int64_t, uint64_t, uintptr_t, int8_t, int16_t, int32_t, uint8_t, uint16_t, uint32_t
from cpython.object cimport PyObject
from ..base.dtypes cimport (
    BOOL, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, C32, C64, C128, F8_E4M3FN, F8_E4M3FNUZ, F8_E5M2, F8_E5M2FNUZ,
    F8_E8M0FNU, F4_E2M1FN_X2, CATEGORY, ITEMSIZE, dtype_of, default_code, is_stored, is_unsigned,
)
from ..base.float8 cimport from_float8, to_float8
from ..base.tensor cimport TensorBase, MAX_DIMS, pointer, data_address, bump_version
from ..tape.modes cimport grad_enabled, wants_grad
from ..call.destination cimport check_written
from ..tape.formulas import record
from ..base.parallel cimport parallel_for
from ..call.signature cimport MAX_BOUND, TENSOR, Signature
from ..call.operation cimport Op, prepare_op, make_callable
from ..call.kernels cimport device_launcher

cdef extern from *:
    """
    #if defined(__SSE2__)
    #include <emmintrin.h>
    /* 16 bytes again and again from p, which 64 divides, to p + n: 64 divides n too. */
    static void flambeau_stream(char *p, const char *pattern, int64_t n) {
        __m128i v = _mm_loadu_si128((const __m128i *)pattern);
        for (int64_t i = 0; i < n; i += 64) {
            _mm_stream_si128((__m128i *)(p + i), v);
            _mm_stream_si128((__m128i *)(p + i + 16), v);
            _mm_stream_si128((__m128i *)(p + i + 32), v);
            _mm_stream_si128((__m128i *)(p + i + 48), v);
        }
        _mm_sfence();
    }
    #define FLAMBEAU_STREAMS 1
    #else
    #define flambeau_stream(p, pattern, n)
    #define FLAMBEAU_STREAMS 0
    #endif
    #if defined(__x86_64__) && defined(__GNUC__)
    /* The 8 bytes at p again and again from p to p + n, which 8 divides: the processor's own loop writes whole cache lines. */
    static void flambeau_repeat(char *p, int64_t n) {
        int64_t word, words = n / 8;
        memcpy(&word, p, 8);
        __asm__ volatile("rep stosq" : "+D"(p), "+c"(words) : "a"(word) : "memory");
    }
    #define FLAMBEAU_REPEATS 1
    #else
    #define flambeau_repeat(p, n)
    #define FLAMBEAU_REPEATS 0
    #endif
    """
    void flambeau_stream(char* p, const char* pattern, int64_t n) nogil
    bint FLAMBEAU_STREAMS
    void flambeau_repeat(char* p, int64_t n) nogil
    bint FLAMBEAU_REPEATS

cdef extern from "Python.h":
    bint PyFloat_Check(object o)
    bint PyLong_Check(object o)
    bint PyBool_Check(object o)
    bint PyComplex_Check(object o)
    double PyFloat_AS_DOUBLE(object o)
    long long PyLong_AsLongLongAndOverflow(object o, int* overflow) except? -1
    Py_ssize_t PyVectorcall_NARGS(size_t n)

cdef enum: PARALLEL_BYTES = 1 << 20       # from where threads pay off


# --- numbers in ---------------------------------------------------------------
cdef int read_value(object x, Value* v) except -1:
    """A Python or NumPy number; 0 for anything else."""
    cdef int overflow = 0
    v.imag, v.wide = 0, 0
    if PyFloat_Check(x):
        v.category, v.real = 2, PyFloat_AS_DOUBLE(x)
    elif PyBool_Check(x):
        v.category, v.whole, v.real = 0, x is True, x is True
    elif PyLong_Check(x):
        v.category, v.whole = 1, PyLong_AsLongLongAndOverflow(x, &overflow)
        v.real = <double>v.whole
        if overflow:
            v.wide = 1
            if overflow > 0 and x < (<object>1 << 64):
                v.wide, v.whole = 2, <int64_t><uint64_t>x
            try:
                v.real = float(x)
            except OverflowError:
                v.real = float("inf") if overflow > 0 else -float("inf")
    elif PyComplex_Check(x):
        v.category, v.real, v.imag = 3, x.real, x.imag
    elif isinstance(x, TensorBase):
        return 0
    elif hasattr(x, "dtype") and getattr(x, "ndim", 1) == 0:  # a NumPy scalar
        x = x.item()
        return read_value(x, v) if isinstance(x, (bool, int, float, complex)) else 0
    else:
        return 0
    return 1


cdef int read_first(TensorBase t, Value* v) except -1:
    """The first element of a tensor, on whatever device."""
    cdef char buffer[16]
    if t.storage.on is None:
        load(pointer(t), t.code, v)
    elif t.storage.on.blank:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    else:
        t.storage.on.copy_out(buffer, <uintptr_t>data_address(t), t.width, True)
        load(buffer, t.code, v)
    return 0


cdef int read_number(object x, Value* v) except -1:
    """A number, or a 0-dim tensor as one; 0 for anything else."""
    cdef TensorBase t
    if isinstance(x, TensorBase):
        t = <TensorBase>x
        if t.rank:
            return 0
        read_first(t, v)
        return 1
    return read_value(x, v)


cdef int code_of(const Value* v) noexcept nogil:
    """The dtype that a number has of itself."""
    if v.category == 2:
        return default_code()
    if v.category == 1:
        return I64
    return BOOL if v.category == 0 else C128 if default_code() == F64 else C64


cdef double from_half(uint16_t bits) noexcept nogil:
    """IEEE half to double: a half is a float whose exponent is off by 112."""
    cdef uint32_t wide = <uint32_t>(bits & 0x7FFF) << 13
    cdef float f
    if wide >= <uint32_t>0x7C00 << 13:
        wide |= 0x7F800000
        memcpy(&f, &wide, 4)
    else:
        memcpy(&f, &wide, 4)
        f *= 5.192296858534828e33          # 2**112, exact, subnormals too
    return -<double>f if bits >> 15 else <double>f


cdef uint16_t to_half(float f) noexcept nogil:
    """Round to the nearest half, ties to even."""
    cdef uint32_t bits, sign, rest
    cdef float tiny
    memcpy(&bits, &f, 4)
    sign = (bits >> 16) & 0x8000
    bits &= 0x7FFFFFFF
    if bits > 0x7F800000:
        return <uint16_t>(sign | 0x7E00)
    if bits >= 0x47800000:                 # 65536 and above
        return <uint16_t>(sign | 0x7C00)
    # below 2**-14: adding 0.5 makes the FPU round at the last place of a half
    if bits < 0x38800000:
        memcpy(&tiny, &bits, 4)
        tiny += 0.5
        memcpy(&bits, &tiny, 4)
        return <uint16_t>(sign | (bits - 0x3F000000))
    rest = (bits >> 13) & 1
    return <uint16_t>(sign | ((bits - 0x38000000 + 0xFFF + rest) >> 13))


cdef uint16_t to_bfloat(float f) noexcept nogil:
    """Round to the nearest bfloat16, ties to even."""
    cdef uint32_t bits
    memcpy(&bits, &f, 4)
    if (bits & 0x7FFFFFFF) > 0x7F800000:
        return 0x7FC0
    return <uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


cdef void load(const char* p, int code, Value* v) noexcept nogil:
    """The element at p."""
    cdef uint32_t wide
    cdef float f
    v.category, v.imag, v.wide = CATEGORY[code], 0, 0
    if v.category < 2:
        if code == I64:
            v.whole = (<const int64_t*>p)[0]
        elif code == I32:
            v.whole = (<const int32_t*>p)[0]
        elif code == I16:
            v.whole = (<const int16_t*>p)[0]
        elif code == I8:
            v.whole = (<const int8_t*>p)[0]
        elif code == U16:
            v.whole = (<const uint16_t*>p)[0]
        elif code == U32:
            v.whole = (<const uint32_t*>p)[0]
        elif code == U64:
            v.whole = (<const int64_t*>p)[0]
            v.real, v.wide = <double>(<const uint64_t*>p)[0], 2 if v.whole < 0 else 0
            return
        else:
            v.whole = (<const uint8_t*>p)[0]
            if code == BOOL:
                v.whole = v.whole != 0
        v.real = <double>v.whole
    elif code == F32:
        v.real = (<const float*>p)[0]
    elif code == F64:
        v.real = (<const double*>p)[0]
    elif code == F16:
        v.real = from_half((<const uint16_t*>p)[0])
    elif code == BF16:
        wide = <uint32_t>(<const uint16_t*>p)[0] << 16
        memcpy(&f, &wide, 4)
        v.real = f
    elif code == C64:
        v.real, v.imag = (<const float*>p)[0], (<const float*>p)[1]
    elif code == C32:
        v.real, v.imag = from_half((<const uint16_t*>p)[0]), from_half((<const uint16_t*>p)[1])
    elif is_stored(code):
        v.real = from_float8(code, (<const uint8_t*>p)[0])
    else:
        v.real, v.imag = (<const double*>p)[0], (<const double*>p)[1]


cdef void store(char* p, int code, const Value* v) noexcept nogil:
    """Write a number as an element: fractions are cut off, integers wrap around."""
    cdef int64_t whole
    if CATEGORY[code] == 1:
        whole = v.whole
        if v.category >= 2:
            whole = <int64_t><uint64_t>v.real if code == U64 and v.real >= 9223372036854775808.0 else <int64_t>v.real
        if ITEMSIZE[code] == 8:
            (<int64_t*>p)[0] = whole
        elif ITEMSIZE[code] == 4:
            (<int32_t*>p)[0] = <int32_t>whole
        elif ITEMSIZE[code] == 2:
            (<int16_t*>p)[0] = <int16_t>whole
        else:
            (<uint8_t*>p)[0] = <uint8_t>whole
    elif code == F32:
        (<float*>p)[0] = <float>v.real
    elif code == F64:
        (<double*>p)[0] = v.real
    elif code == BOOL:
        (<uint8_t*>p)[0] = v.real != 0 or v.imag != 0
    elif code == F16:
        (<uint16_t*>p)[0] = to_half(<float>v.real)
    elif code == BF16:
        (<uint16_t*>p)[0] = to_bfloat(<float>v.real)
    elif code == C64:
        (<float*>p)[0], (<float*>p)[1] = <float>v.real, <float>v.imag
    elif code == C32:
        (<uint16_t*>p)[0], (<uint16_t*>p)[1] = to_half(<float>v.real), to_half(<float>v.imag)
    elif is_stored(code):
        (<uint8_t*>p)[0] = to_float8(code, <float>v.real)
    else:
        (<double*>p)[0], (<double*>p)[1] = v.real, v.imag


cdef double largest(int code) noexcept nogil:
    """The largest finite number of a dtype."""
    if code == F16:
        return 65504.0
    if code == BF16:
        return 3.3895313892515355e38
    if code == F32 or code == C64:
        return 3.4028234663852886e38
    if code == F8_E4M3FN:
        return 448.0
    if code == F8_E4M3FNUZ:
        return 240.0
    if code == F8_E5M2 or code == F8_E5M2FNUZ:
        return 57344.0
    if code == F8_E8M0FNU:
        return 1.7014118346046923e38
    return 1.7976931348623157e308          # complex32, too: what it cannot hold becomes infinite, as in PyTorch


cdef bint has_infinity(int code) noexcept nogil:
    return code < F8_E4M3FN or code == F8_E5M2


cdef bint fits(const Value* v, int code) noexcept nogil:
    cdef int bits
    cdef double low, high
    if CATEGORY[code] < 3 and v.imag != 0:
        return False
    if code == BOOL:
        return True
    if CATEGORY[code] > 1:
        high = largest(code)
        if isinf(v.real) and not has_infinity(code):
            return False
        return (isinf(v.real) or not fabs(v.real) > high) and (isinf(v.imag) or not fabs(v.imag) > high)
    if isnan(v.real) or (v.wide and not (v.wide == 2 and code == U64)):
        return False
    if v.category < 2 and (code == I64 or code == U64):
        return True
    bits = 8 * ITEMSIZE[code]
    if code == U64:
        return 0 <= v.real < 18446744073709551616.0
    high = <double>((<uint64_t>1 << (bits - 1)) - 1)
    low = -high - 1
    if is_unsigned(code):                  # the int -1 is 255, as in C
        high = <double>((<uint64_t>1 << bits) - 1)
        low = -high if v.category < 2 else 0
    return low <= v.real and (v.real <= high if code != I64 else v.real < high)


cdef int check_fits(const Value* v, int code, str who) except -1:
    """RuntimeError for a number that the dtype cannot hold."""
    if code == F4_E2M1FN_X2:
        raise NotImplementedError(f"{who}(): \"{who}\" not implemented for '{dtype_of(code).name}'")
    if fits(v, code):
        return 0
    shown = complex(v.real, v.imag) if v.category == 3 else v.real if v.category == 2 or v.wide else v.whole
    raise RuntimeError(f"{who}(): value cannot be converted to type {dtype_of(code).name} without overflow: "
                       f"got {shown}")


def check_number(number, TensorBase like not None, str who):
    """RuntimeError for a number that the dtype of a tensor cannot hold."""
    cdef Value v
    if read_number(number, &v):
        check_fits(&v, like.code, who)


def check_filling(TensorBase input not None, TensorBase mask not None, value, str who):
    """RuntimeError where the mask is not bool, and where a value, a number or a 0-dim tensor, has none in the input's dtype."""
    cdef Value v
    if mask.code != BOOL:
        raise RuntimeError(f"{who}(): expected a bool tensor as mask, but got mask with dtype {dtype_of(mask.code)}")
    if isinstance(value, TensorBase):
        if (<TensorBase>value).rank:
            raise RuntimeError(f"{who}(): value must be a number or a 0-dimensional tensor, but got one of shape {list(value.shape)}")
        if CATEGORY[(<TensorBase>value).code] <= CATEGORY[input.code]:
            return
        value = value.item()
    if not read_number(value, &v):
        raise TypeError(f"{who}(): argument 'value' must be Number or Tensor, not {type(value).__name__}")
    check_fits(&v, input.code, who)


# --- filling ------------------------------------------------------------------
cdef enum:
    FILL_BYTES = 2048         # that all others are copied from
    STREAMED_FROM = 1 << 25   # bytes of a tensor from which stores go round the caches, which would not hold it: half the time of others

cdef struct Fill:
    char* data
    int width
    char pattern[16]
    bint streamed             # 64 divides the address


cdef void fill_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Elements [begin, end) of a block: the first ones one by one, all others copied from those by the widest stores there are."""
    cdef Fill* f = <Fill*>context
    cdef char* p = f.data + begin * f.width
    cdef int64_t i, n = (end - begin) * f.width, done = min(n, <int64_t>FILL_BYTES)
    cdef int k
    cdef char whole[16]
    if f.streamed and begin * f.width % 64 == 0 and n >= 64:
        for k in range(16):
            whole[k] = f.pattern[k % f.width]
        flambeau_stream(p, whole, n // 64 * 64)
        for i in range(n // 64 * 64, n):
            p[i] = f.pattern[i % f.width]
        return
    for k in range(1, f.width):
        if f.pattern[k] != f.pattern[0]:
            break
    else:
        memset(p, f.pattern[0], n)
        return
    i = 0
    while i < min(done, <int64_t>64):
        memcpy(p + i, f.pattern, f.width)
        i += f.width
    while i < done:
        memcpy(p + i, p, min(i, done - i))
        i += min(i, done - i)
    if FLAMBEAU_REPEATS and done < n and f.width <= 8:
        i = -<int64_t><uintptr_t>p & 63
        flambeau_repeat(p + i, (n - i) // 8 * 8)
        done = n - (n - i) % 8
        memcpy(p + done, p + done - 8, n - done)
        return
    while done < n:
        i = min(n - done, <int64_t>FILL_BYTES)
        memcpy(p + done, p, i)
        done += i


cdef void fill_strided(TensorBase t, Fill* f) noexcept nogil:
    """Innermost the smallest stride; an odometer over the other dimensions."""
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t place[MAX_DIMS]
    cdef int64_t i
    cdef int rank = 0, d, k
    for d in range(t.rank - 1, -1, -1):
        if t.sizes[d] == 1 or t.strides[d] == 0:
            continue
        k = rank
        while k > 0 and strides[k - 1] > t.strides[d]:
            sizes[k], strides[k] = sizes[k - 1], strides[k - 1]
            k -= 1
        sizes[k], strides[k], place[rank] = t.sizes[d], t.strides[d], 0
        rank += 1
    if rank == 0:
        sizes[0], strides[0], place[0], rank = 1, 1, 0, 1
    while True:
        if strides[0] == 1:
            fill_range(f, 0, sizes[0])
        else:
            for i in range(sizes[0]):
                memcpy(f.data + i * strides[0] * f.width, f.pattern, f.width)
        d = 1
        while d < rank:
            place[d] += 1
            f.data += strides[d] * f.width
            if place[d] < sizes[d]:
                break
            f.data -= strides[d] * f.width * sizes[d]
            place[d] = 0
            d += 1
        if d >= rank:
            return


cdef int fill_with(TensorBase t, const Value* v) except -1:
    """Every element becomes that number, which fits t's dtype."""
    cdef Fill f
    if t.code == F4_E2M1FN_X2 and v.real != 0:
        raise NotImplementedError(f"fill_(): \"fill_\" not implemented for '{dtype_of(t.code).name}'")
    if t.count == 0:
        return 0
    store(f.pattern, t.code, v)
    if t.storage.on is not None:
        return device_launcher.fill(t, f.pattern)
    f.data, f.width, f.streamed = pointer(t), t.width, False
    if not t.contiguous:
        fill_strided(t, &f)
    elif t.count * t.width < PARALLEL_BYTES:
        fill_range(&f, 0, t.count)
    else:
        f.streamed = FLAMBEAU_STREAMS and t.count * t.width >= STREAMED_FROM and <uintptr_t>f.data % 64 == 0
        with nogil:
            parallel_for(fill_range, &f, t.count, PARALLEL_BYTES // (2 * f.width))
    return 0


# --- fill_ and zero_ ----------------------------------------------------------
def _fill_gradients(grad, dtype):
    """The old elements have no part in the result; a tensor's value (of that dtype) is in every element."""
    return grad.new_zeros(grad.shape), (None if dtype is None else grad.sum().to(dtype))


cdef object overwrite(TensorBase t, object value, const Value* v, str who, str label):
    """Fill t; `value` is the tensor that v was read from, or None."""
    cdef bint is_tracked = False
    check_written(who, t, True)
    if grad_enabled():
        is_tracked = wants_grad(t) or (value is not None and wants_grad(<TensorBase>value))
    fill_with(t, v)
    bump_version(t)
    if is_tracked and CATEGORY[t.code] >= 2:
        record(label, _fill_gradients, (t, value), t, (), (None if value is None else value.dtype,), t)
    return t


cdef object call_fill(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef Value v
    cdef PyObject* bound[MAX_BOUND]
    cdef TensorBase t
    cdef object value, tensor_value = None
    (<Op>callable).signature.bind("fill_", args, PyVectorcall_NARGS(flagged), names, bound)
    t, value = <TensorBase>bound[0], <object>bound[1]
    if isinstance(value, TensorBase):
        if (<TensorBase>value).rank:
            raise RuntimeError("fill_ only supports 0-dimension value tensor but got tensor with "
                               f"{(<TensorBase>value).rank} dimensions.")
        tensor_value = value
        read_first(<TensorBase>value, &v)
    else:
        if not read_value(value, &v):
            raise TypeError("fill_(): argument 'value' (position 1) must be Number or Tensor, not "
                            f"{type(value).__name__}")
        check_fits(&v, t.code, "fill_")
    return overwrite(t, tensor_value, &v, "fill_", "FillBackward0")


cdef object call_zero(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef Value v
    cdef PyObject* bound[MAX_BOUND]
    (<Op>callable).signature.bind("zero_", args, PyVectorcall_NARGS(flagged), names, bound)
    v.category, v.wide, v.whole, v.real, v.imag = 1, False, 0, 0, 0
    return overwrite(<TensorBase>bound[0], None, &v, "zero_", "ZeroBackward0")


cdef class FillOp(Op):
    """An operation that overwrites its tensor with one number."""

    @staticmethod
    cdef FillOp made(str name, tuple names, object (*call)(PyObject*, PyObject**, size_t, PyObject*), str doc):
        cdef FillOp op = FillOp.__new__(FillOp)
        prepare_op(op, name, call)
        op.signature = Signature(names, <int>len(names), <int>len(names), (TENSOR,))
        setattr(op, "__doc__", doc)
        return op


fill_ = FillOp.made("fill_", ("input", "value"), call_fill, """fill_(tensor, value) -> the tensor

    Write `value`, a number or a 0-dim tensor, to every element.  RuntimeError for a number that the dtype
    cannot hold and for a tensor with dimensions.

    >>> import flambeau
    >>> flambeau.zeros(2).fill_(3)
    tensor([3., 3.])
    """)
zero_ = FillOp.made("zero_", ("input",), call_zero, """zero_(tensor) -> the tensor

    Write zero to every element, of whatever shape.

    >>> import flambeau
    >>> flambeau.ones(2).zero_()
    tensor([0., 0.])
    """)
make_callable(FillOp, fill_)
