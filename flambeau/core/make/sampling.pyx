# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Random numbers that need a loop for each element, on the host: gamma, beta, Dirichlet, Poisson, binomial and von Mises numbers, and
how gamma and beta numbers move with their parameters.

The loops are in `draws.c`.  A call takes one counter of the generator; each element has a stream of its own under it, so bits
depend neither on the number of threads nor on what other elements do.  Generators of PyTorch's stream draw one element after another
(`twister_rejection.c`), as PyTorch does.
"""
from libc.stdint cimport int64_t, uint64_t
from ..base.dtypes cimport F32, F64, I64, dtype_of
from ..base.device import OutOfMemoryError
from ..base.memory cimport out_of_memory_message
from ..base.parallel cimport parallel_interruptible
from ..base.tensor cimport TensorBase, MAX_DIMS, alias, new_tensor_on, pointer, same_shape
from ..views.views cimport compact
from .random cimport Generator, generator_for, reserve
from .mt19937 cimport (
    FLAMBEAU_TWISTER_BETA, FLAMBEAU_TWISTER_BINOMIAL, FLAMBEAU_TWISTER_CHOICE, FLAMBEAU_TWISTER_DIRICHLET,
    FLAMBEAU_TWISTER_GAMMA, FLAMBEAU_TWISTER_NO_MEMORY, FLAMBEAU_TWISTER_NOTHING, FLAMBEAU_TWISTER_POISSON,
    FLAMBEAU_TWISTER_REFUSED, flambeau_rejection, reject,
)


cdef extern from "draws.h" nogil:
    enum:
        FLAMBEAU_GAMMA
        FLAMBEAU_BETA
        FLAMBEAU_DIRICHLET
        FLAMBEAU_POISSON
        FLAMBEAU_BINOMIAL
        FLAMBEAU_NEGATIVE_BINOMIAL
        FLAMBEAU_VON_MISES
        FLAMBEAU_CHOICE
        FLAMBEAU_GAMMA_GRADIENT
        FLAMBEAU_BETA_GRADIENT
    ctypedef struct flambeau_draws:
        int kind
        int wide
        uint64_t key
        uint64_t first
        const char* given[3]
        int64_t period[3]
        char* to[2]
        int64_t row
        int64_t each
        int refused
        int nothing
        int no_memory
    void flambeau_prepare_draws()
    void flambeau_draw(void* draws, int64_t begin, int64_t end) noexcept


cdef enum:
    GRAIN = 512                # elements that a thread takes at least
    NANOSECONDS_EACH = 60

flambeau_prepare_draws()


cdef TensorBase repeated(TensorBase x):
    """A contiguous tensor of which x's elements, in order, are repetitions: x itself, or what was expanded to x."""
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int d, first = 0
    if x.contiguous or x.count == 0:
        return x
    while first < x.rank and (x.strides[first] == 0 or x.sizes[first] == 1):
        first += 1
    if first == 0:
        return compact(x)
    for d in range(first, x.rank):
        sizes[d - first], strides[d - first] = x.sizes[d], x.strides[d]
    return compact(alias(x, x.rank - first, sizes, strides, x.offset))


cdef int in_turn(int kind) noexcept:
    """What PyTorch's stream calls such numbers; -1 for those that it does not have."""
    return (FLAMBEAU_TWISTER_GAMMA if kind == FLAMBEAU_GAMMA else FLAMBEAU_TWISTER_BETA if kind == FLAMBEAU_BETA else
            FLAMBEAU_TWISTER_DIRICHLET if kind == FLAMBEAU_DIRICHLET else
            FLAMBEAU_TWISTER_POISSON if kind == FLAMBEAU_POISSON else
            FLAMBEAU_TWISTER_BINOMIAL if kind == FLAMBEAU_BINOMIAL else -1)


cdef object draw_in_turn(Generator g, const flambeau_draws* f, int64_t n, TensorBase one, TensorBase two):
    """The same from PyTorch's stream."""
    cdef flambeau_rejection r
    cdef int k, result
    r.kind, r.wide, r.n, r.row = in_turn(f.kind), f.wide, n, f.row
    for k in range(2):
        r.given[k], r.period[k], r.to[k] = f.given[k], f.period[k], f.to[k]
    result = reject(g, &r)
    if result == FLAMBEAU_TWISTER_NO_MEMORY:
        raise OutOfMemoryError(out_of_memory_message(f.row * 8))
    if result == FLAMBEAU_TWISTER_REFUSED:
        return None
    return one if two is None else (one, two)


cdef object draw(int kind, TensorBase a, TensorBase b, TensorBase c, int results, str who, generator):
    """New contiguous tensors in the shape of `a`, which b and c, where they are not None, have, too."""
    cdef flambeau_draws f
    cdef TensorBase one, two = None
    cdef list kept = []
    cdef TensorBase x
    cdef int k = 0
    cdef int64_t n = a.count, rows
    cdef Generator g = None
    if a.code != F32 and a.code != F64:
        raise NotImplementedError(f"{who}(): not implemented for {dtype_of(a.code)}")
    for x in (a, b, c):
        if x is not None and (x.code != a.code or not same_shape(x, a)):
            raise RuntimeError(f"{who}(): operands of one dtype and shape expected")
    one = new_tensor_on(a.storage.on, a.rank, a.sizes, a.code)
    if results == 2:
        two = new_tensor_on(a.storage.on, a.rank, a.sizes, a.code)
    if n > 0 and not (a.storage.on is not None and a.storage.on.blank):
        f.kind, f.wide, f.refused, f.no_memory = kind, a.code == F64, 0, 0
        f.key = f.first = 0
        if kind < FLAMBEAU_GAMMA_GRADIENT:
            g = generator_for(generator, a.storage.on, who)
            if not g.mt19937 or in_turn(kind) < 0:
                f.first = reserve(g, 1, &f.key)
        for x in (a, b, c):
            if x is not None:
                x = repeated(x)
                kept.append(x)
                f.given[k], f.period[k] = pointer(x), x.count
                k += 1
        f.to[0] = pointer(one)
        f.to[1] = NULL if two is None else pointer(two)
        f.row = a.sizes[a.rank - 1] if kind == FLAMBEAU_DIRICHLET else 1
        rows = n // f.row
        if g is not None and g.mt19937 and in_turn(kind) >= 0:
            return draw_in_turn(g, &f, n, one, two)
        with nogil:
            parallel_interruptible(flambeau_draw, &f, rows, GRAIN // f.row + 1, <double>NANOSECONDS_EACH * f.row)
        if f.no_memory:
            raise OutOfMemoryError(out_of_memory_message(f.row * 8))
        if f.refused:
            return None
    return one if two is None else (one, two)


def gamma(TensorBase shape not None, generator=None) -> TensorBase:
    """Numbers of the gamma distributions of these shapes and of rate 1, float32 or float64; never 0."""
    return draw(FLAMBEAU_GAMMA, shape, None, None, 1, "gamma", generator)


def beta(TensorBase a not None, TensorBase b not None, generator=None) -> tuple:
    """Numbers of beta distributions, and what they lack to 1; never 0."""
    return draw(FLAMBEAU_BETA, a, b, None, 2, "beta", generator)


def dirichlet(TensorBase concentration not None, generator=None) -> TensorBase:
    """Rows of Dirichlet distributions, whose concentrations lie along the last dimension."""
    if concentration.rank == 0:
        raise RuntimeError("dirichlet(): at least one dimension expected")
    return draw(FLAMBEAU_DIRICHLET, concentration, None, None, 1, "dirichlet", generator)


def poisson(TensorBase rate not None, generator=None):
    """Numbers of Poisson distributions; None where a rate is negative or NaN."""
    return draw(FLAMBEAU_POISSON, rate, None, None, 1, "poisson", generator)


def binomial(TensorBase count not None, TensorBase probability not None, generator=None) -> TensorBase:
    """Numbers of successes among `count` trials."""
    return draw(FLAMBEAU_BINOMIAL, count, probability, None, 1, "binomial", generator)


def negative_binomial(TensorBase count not None, TensorBase odds not None, generator=None) -> TensorBase:
    """Numbers of successes before `count` failures, for these odds of success: Poisson numbers whose rates are gamma numbers."""
    return draw(FLAMBEAU_NEGATIVE_BINOMIAL, count, odds, None, 1, "negative_binomial", generator)


def von_mises(TensorBase concentration not None, TensorBase place not None, generator=None) -> TensorBase:
    """Angles in [-π, π) around a place."""
    return draw(FLAMBEAU_VON_MISES, concentration, place, None, 1, "von_mises", generator)


def choose(TensorBase weights not None, int64_t each, generator=None):
    """Places (int64, [each] or [rows, each]) in a row of weights, or in rows of them, drawn in proportion to the weights.

    The name of what is wrong where it is: "weight" for a negative, infinite or NaN one, "sum" for a row of zeros.
    """
    cdef flambeau_draws f
    cdef TensorBase given = compact(weights), out
    cdef int64_t sizes[2]
    cdef Generator g
    cdef flambeau_rejection r
    cdef int result
    sizes[0] = given.sizes[0] if given.rank == 2 else each
    sizes[1] = each
    out = new_tensor_on(given.storage.on, given.rank, sizes, I64)
    if out.count == 0 or (given.storage.on is not None and given.storage.on.blank):
        return out
    g = generator_for(generator, given.storage.on, "choose")
    if g.mt19937 and given.sizes[given.rank - 1] > 0:
        r.kind, r.wide, r.row, r.each = FLAMBEAU_TWISTER_CHOICE, given.code == F64, given.sizes[given.rank - 1], each
        r.given[0], r.to[0], r.n = pointer(given), pointer(out), given.count // r.row
        result = reject(g, &r)
        if result == FLAMBEAU_TWISTER_NO_MEMORY:
            raise OutOfMemoryError(out_of_memory_message(r.row * 8))
        return "weight" if result == FLAMBEAU_TWISTER_REFUSED else "sum" if result == FLAMBEAU_TWISTER_NOTHING else out
    f.kind, f.wide, f.refused, f.nothing, f.no_memory = FLAMBEAU_CHOICE, given.code == F64, 0, 0, 0
    f.first = reserve(g, 1, &f.key)
    f.given[0], f.period[0], f.to[0] = pointer(given), given.count, pointer(out)
    f.row, f.each = given.sizes[given.rank - 1], each
    if f.row == 0:
        return "sum"
    with nogil:
        parallel_interruptible(flambeau_draw, &f, out.count, GRAIN, 20.0)
    if f.no_memory:
        raise OutOfMemoryError(out_of_memory_message(f.row * 8))
    return "weight" if f.refused else "sum" if f.nothing else out


def gamma_gradient(TensorBase shape not None, TensorBase number not None) -> TensorBase:
    """How a gamma number moves with its shape while its distribution function stays."""
    return draw(FLAMBEAU_GAMMA_GRADIENT, shape, number, None, 1, "gamma_gradient", None)


def beta_gradient(TensorBase number not None, TensorBase a not None, TensorBase b not None) -> TensorBase:
    """How a beta(a, b) number moves with a while its distribution function stays, over what it lacks to 1."""
    return draw(FLAMBEAU_BETA_GRADIENT, number, a, b, 1, "beta_gradient", None)
