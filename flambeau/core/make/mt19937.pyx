# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Numbers of PyTorch's stream, drawn one after another on the host (`twister.h`).

Elements are drawn in the order in which they lie in memory, as PyTorch's iterators go over them: the dimension of the smallest
stride first.
"""
from libc.stdint cimport int64_t, uint64_t
from ..base import display
from ..base.dtypes cimport (
    BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, dtype_of,
)
from ..base.tensor cimport MAX_DIMS, TensorBase, alias, bump_version, new_tensor, pointer
from ..call.destination cimport check_memory
from ..views.views cimport compact
from .random cimport (
    Generator, flambeau_twister, flambeau_twister_hold, flambeau_twister_release, generator_for, hold,
)


cdef extern from "twister.h" nogil:
    enum:
        FLAMBEAU_TWISTED_UNIFORM
        FLAMBEAU_TWISTED_NORMAL
        FLAMBEAU_TWISTED_NORMAL_BY_16
        FLAMBEAU_TWISTED_LOG_NORMAL
        FLAMBEAU_TWISTED_EXPONENTIAL
        FLAMBEAU_TWISTED_GEOMETRIC
        FLAMBEAU_TWISTED_CAUCHY
        FLAMBEAU_TWISTED_BERNOULLI
        FLAMBEAU_TWISTED_TRIALS
        FLAMBEAU_TWISTED_RANGE
        FLAMBEAU_TWISTED_MODULUS
        FLAMBEAU_IN_BOOL
        FLAMBEAU_IN_8
        FLAMBEAU_IN_16
        FLAMBEAU_IN_32
        FLAMBEAU_IN_64
        FLAMBEAU_IN_HALF
        FLAMBEAU_IN_BFLOAT
        FLAMBEAU_IN_FLOAT
        FLAMBEAU_IN_DOUBLE
    ctypedef struct flambeau_mt19937_draw:
        int kind
        int dtype
        double a
        double b
        uint64_t span
        int64_t low
        const char* chances
        int wide
    void flambeau_twister_fill(flambeau_twister* t, const flambeau_mt19937_draw* what, char* to, int64_t n)
    int flambeau_twister_reject(flambeau_twister* t, const flambeau_rejection* r)

UNIFORM, NORMAL, LOG_NORMAL = FLAMBEAU_TWISTED_UNIFORM, FLAMBEAU_TWISTED_NORMAL, FLAMBEAU_TWISTED_LOG_NORMAL
EXPONENTIAL, GEOMETRIC, CAUCHY = FLAMBEAU_TWISTED_EXPONENTIAL, FLAMBEAU_TWISTED_GEOMETRIC, FLAMBEAU_TWISTED_CAUCHY
BERNOULLI, RANGE, MODULUS = FLAMBEAU_TWISTED_BERNOULLI, FLAMBEAU_TWISTED_RANGE, FLAMBEAU_TWISTED_MODULUS

cdef enum:
    MANY = 1 << 15             # elements during which other threads may run
    ABSENT = -1

cdef int LAYOUTS[15]           # how a dtype's elements lie in memory
for k in range(15):
    LAYOUTS[k] = ABSENT
LAYOUTS[BOOL], LAYOUTS[U8], LAYOUTS[I8] = FLAMBEAU_IN_BOOL, FLAMBEAU_IN_8, FLAMBEAU_IN_8
LAYOUTS[I16], LAYOUTS[U16], LAYOUTS[I32], LAYOUTS[U32] = FLAMBEAU_IN_16, FLAMBEAU_IN_16, FLAMBEAU_IN_32, FLAMBEAU_IN_32
LAYOUTS[I64], LAYOUTS[U64] = FLAMBEAU_IN_64, FLAMBEAU_IN_64
LAYOUTS[F16], LAYOUTS[BF16], LAYOUTS[F32], LAYOUTS[F64] = (
    FLAMBEAU_IN_HALF, FLAMBEAU_IN_BFLOAT, FLAMBEAU_IN_FLOAT, FLAMBEAU_IN_DOUBLE)


def source(generator, TensorBase like not None):
    """The generator of PyTorch's stream that draws elements of such a tensor; None where they are not drawn from one."""
    cdef Generator g
    if like.storage.on is not None or like.code >= 15:
        return None
    g = generator_for(generator, None, "random")
    return g if g.mt19937 else None


cdef int in_memory(TensorBase t, int* order) noexcept nogil:
    """The dimensions from the largest stride to the smallest; of equal ones the longer is inside."""
    cdef int d, k, n = t.rank
    for d in range(n):
        k = d
        while k > 0 and (t.strides[order[k - 1]] < t.strides[d] or
                         (t.strides[order[k - 1]] == t.strides[d] and t.sizes[order[k - 1]] > t.sizes[d])):
            order[k] = order[k - 1]
            k -= 1
        order[k] = d
    return n


cdef TensorBase turned(TensorBase t, const int* order):
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int d
    for d in range(t.rank):
        sizes[d], strides[d] = t.sizes[order[d]], t.strides[order[d]]
    return alias(t, t.rank, sizes, strides, t.offset)


cdef TensorBase turned_back(TensorBase made, TensorBase like, const int* order):
    cdef int64_t strides[MAX_DIMS]
    cdef int d
    for d in range(like.rank):
        strides[order[d]] = made.strides[d]
    return alias(made, like.rank, like.sizes, strides, 0)


cdef int run(Generator g, const flambeau_mt19937_draw* what, TensorBase t) except -1:
    cdef char* to = pointer(t)
    cdef int64_t n = t.count
    hold(g)
    if n < MANY:
        flambeau_twister_fill(g.twister, what, to, n)
        flambeau_twister_release(g.twister)
    else:
        with nogil:
            flambeau_twister_fill(g.twister, what, to, n)
            flambeau_twister_release(g.twister)
    bump_version(t)
    return 0


def fill(TensorBase t not None, Generator g not None, int kind, double a, double b, uint64_t span, int64_t low, str who not None,
         bint apart=False, TensorBase chances=None):
    """Draw t's elements.  Where they do not lie together, or are to stand apart, they are those of a new tensor, which is returned.

    `chances` are the probabilities of trials: of t's shape, float32 or float64.
    """
    cdef flambeau_mt19937_draw what
    cdef TensorBase at = t, made
    cdef int order[MAX_DIMS]
    what.kind, what.dtype, what.a, what.b, what.span, what.low = kind, LAYOUTS[t.code], a, b, span, low
    if what.dtype == ABSENT:
        raise NotImplementedError(f"{who}(): not implemented for {dtype_of(t.code)}")
    if not apart:
        check_memory(who, t)
    if t.count == 0:
        return None
    if kind == FLAMBEAU_TWISTED_NORMAL and t.contiguous and t.count >= 16:
        what.kind = FLAMBEAU_TWISTED_NORMAL_BY_16
    if not t.contiguous:
        in_memory(t, order)
        at = turned(t, order)
    if chances is not None:
        what.kind, what.wide = FLAMBEAU_TWISTED_TRIALS, chances.code == F64
        if not t.contiguous:
            chances = turned(chances, order)
        chances = compact(chances)
        what.chances = pointer(chances)
    if at.contiguous and not apart:
        run(g, &what, at)
        return None
    made = new_tensor(at.rank, at.sizes, t.code)
    run(g, &what, made)
    return made if t.contiguous else turned_back(made, t, order)


cdef int reject(Generator g, const flambeau_rejection* r) except -1:
    """Draw numbers by rejection; returns how it went."""
    cdef int result
    with nogil:
        flambeau_twister_hold(g.twister)
        result = flambeau_twister_reject(g.twister, r)
        flambeau_twister_release(g.twister)
    return result
