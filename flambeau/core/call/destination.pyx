# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Where a result goes, and what may be written there.

A result is a new tensor, a tensor that the caller gives (`out=`), or is written over the first operand (in place).  Every operation
that writes to a tensor checks it here, before it computes anything: its dtype, its device, its history, its shape, its memory.
"""
import sys
import warnings
from libc.stdint cimport int64_t
from cpython.object cimport PyObject
from ..base.dtypes cimport (
    BF16, BOOL, C64, C128, CATEGORY, F16, F32, F64, I8, I16, I32, I64, U8, dtype_of, size_from,
)
from ..base.tensor cimport MAX_DIMS, TensorBase, check_no_internal_overlap, check_writable, parse_sizes, same_shape
from ..tape.inplace cimport check_in_place
from ..tape.modes cimport grad_enabled, wants_grad
from ..tape.modes import tracked
from .kernels cimport Operand, one_device
from .layout cimport dense, fits
from .overlap cimport meet, same_steps

cdef dict CPP_NAMES = {F16: "c10::Half", BF16: "c10::BFloat16", F32: "float", F64: "double", BOOL: "bool", U8: "unsigned char",
                       I8: "signed char", I16: "short int", I32: "int", I64: "long int", C64: "c10::complex<float>",
                       C128: "c10::complex<double>"}


def cpp_name(d) -> str:
    """What PyTorch's messages call a dtype."""
    return CPP_NAMES.get(d.code, str(d))


cdef str LIBRARY = __name__.partition(".")[0] + "."


cdef inline str form(str who, Where where):
    """The name of an operation's form, for messages."""
    return who + "_" if where == OVER and not who.endswith("_") else who


cdef int check_cast(str who, TensorBase out, Where where, Cast cast, int code) except -1:
    """RuntimeError where a result of dtype `code` cannot be written to `out`."""
    if cast == SAME and out.code != code:
        raise RuntimeError(f"{form(who, where)}(): Expected out tensor to have dtype {cpp_name(dtype_of(code))}, but got "
                           f"{cpp_name(dtype_of(out.code))} instead")
    if cast == KIND and CATEGORY[code] > CATEGORY[out.code]:
        raise RuntimeError(f"{form(who, where)}(): result type {dtype_of(code)} can't be cast to the desired output type "
                           f"{dtype_of(out.code)}")
    return 0


cdef int check_unrecorded(str who, TensorBase out, bint is_tracked) except -1:
    """RuntimeError where the tape would have to record a write to `out=`."""
    if grad_enabled() and (is_tracked or wants_grad(out)):
        raise RuntimeError(f"{who}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                           "arguments requires grad.")
    return 0


cdef int callers_level() except -1:
    """Which of the frames on the stack is the first outside of this library: where a warning belongs."""
    cdef int level = 1
    frame = sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(LIBRARY):
        frame, level = frame.f_back, level + 1
    return level


cdef int fit(str who, TensorBase out, Where where, int rank, const int64_t* sizes) except -1:
    """`out=` gets the result's shape, with a warning where it held elements; a tensor that is written over has it already."""
    if fits(out, rank, sizes):
        return 0
    if where == OVER:
        raise RuntimeError(f"{form(who, where)}(): output with shape {list(out.shape)} doesn't match the broadcast shape "
                           f"{list(size_from(rank, sizes))}")
    if out.count:
        warnings.warn(f"{who}(): an output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
                      f"match the required output shape {list(size_from(rank, sizes))}.", stacklevel=callers_level())
    out.resize_(size_from(rank, sizes))
    return 0


cdef int check_destination(str who, TensorBase out, Where where, Cast cast, int code, int rank, const int64_t* sizes,
                           bint is_tracked) except -1:
    """RuntimeError where a result of that dtype and shape cannot be written to `out`; `out=` gets the shape.

    `is_tracked`: an operand wants a gradient.
    """
    check_cast(who, out, where, cast, code)
    if where == GIVEN:
        check_unrecorded(who, out, is_tracked)
    elif grad_enabled():
        check_in_place(out, who)
    fit(who, out, where, rank, sizes)
    return check_memory(who, out)


cdef int check_memory(str who, TensorBase out) except -1:
    """RuntimeError where `out` must not be written to, or two of its elements lie in one place."""
    check_no_internal_overlap(out, who)
    return check_writable(out, who)


cdef int check_written(str who, TensorBase t, bint repeated=False) except -1:
    """RuntimeError where an operation must not write over t; `repeated`: it may write to an element more than once."""
    if grad_enabled():
        check_in_place(t, who)
    return check_writable(t, who) if repeated else check_memory(who, t)


# --- memory that is read while it is written ------------------------------
cdef object partly_below(str who):
    return RuntimeError(f"{who}(): unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                        "memory location. Please clone() the tensor before performing the operation.")


cdef int check_overlap(str who, TensorBase out, Operand* operands, int n, bint casts) except -1:
    """RuntimeError where an input of the same order in memory lies partly below the output; other inputs are copied if they have to."""
    cdef int k
    cdef TensorBase t
    cdef int64_t low, high, first, last
    for k in range(n):
        if operands[k].tensor == NULL:
            continue
        t = <TensorBase>operands[k].tensor
        if t.storage is not out.storage or t is out or t.count == 0 or out.count == 0:
            continue
        if not dense(t) or not dense(out) or (casts and not same_shape(t, out)):  # a copy of what is repeated
            continue
        low, high = out.offset * out.width, (out.offset + out.count) * out.width
        first, last = t.offset * t.width, (t.offset + t.count) * t.width
        if first < high and low < last and not (
                first == low and last == high and t.rank == out.rank and same_steps(t, out)):
            raise partly_below(who)
    return 0


cdef bint apart_from(TensorBase out, TensorBase t) noexcept nogil:
    """Whether a kernel may write to `out` while it reads `t` in any order."""
    return <PyObject*>t.storage != <PyObject*>out.storage or not meet(t, out)


# --- for functions in Python ------------------------------
def check_out(str who not None, out, arguments, bint apart=False) -> None:
    """What can be said of `out=` before a function computes: TypeError where it is no tensor, RuntimeError where it or a tensor among
    the arguments takes part in the tape or is on another device, where it must not be written to, and, with `apart`, where it shares
    memory with an argument.
    """
    cdef TensorBase to, t
    cdef PyObject* pair[2]
    cdef bint is_tracked = False
    if out is None:
        return
    if not isinstance(out, TensorBase):
        raise TypeError(f"{who}(): argument 'out' must be Tensor, not {type(out).__name__}")
    to = <TensorBase>out
    for x in arguments:
        if not isinstance(x, TensorBase):
            continue
        t = <TensorBase>x
        is_tracked = is_tracked or tracked(t)
        if t.rank:                    # one number may be on the host
            pair[0], pair[1] = <PyObject*>to, <PyObject*>t
            one_device(who, pair, 2)
        if apart and not apart_from(to, t):
            raise partly_below(who)
    if grad_enabled() and (is_tracked or tracked(to)):
        check_unrecorded(who, to, True)
    check_memory(who, to)


def prepare_out(str who not None, TensorBase out not None, arguments, d not None, shape, bint exact=False) -> None:
    """`check_out`, and the rest for a function that knows its result's dtype and shape, which `out=` gets."""
    cdef int64_t sizes[MAX_DIMS]
    cdef int rank = parse_sizes(shape, sizes, who)
    cdef PyObject* pair[2]
    check_out(who, out, arguments)
    for t in arguments:
        pair[0], pair[1] = <PyObject*>out, <PyObject*><TensorBase?>t
        one_device(who, pair, 2)
    check_destination(who, out, GIVEN, SAME if exact else KIND, d.code, rank, sizes, False)


def check_over(str who not None, TensorBase t not None) -> None:
    """RuntimeError where a function must not write over a tensor, or where two of its elements lie in one place."""
    check_written(who, t)


def set_decomposition(str who not None, TensorBase out not None, TensorBase result not None, bint exact=False, apart=()) -> TensorBase:
    """A result that a function has computed, written to `out=`, which passed `check_out`; with its shape, too, it shares no memory
    with the tensors in `apart`.
    """
    cdef PyObject* pair[2]
    pair[0], pair[1] = <PyObject*>out, <PyObject*>result
    one_device(who, pair, 2)
    check_destination(who, out, GIVEN, SAME if exact else KIND, result.code, result.rank, result.sizes, wants_grad(result))
    for t in apart:
        if isinstance(t, TensorBase) and not apart_from(out, <TensorBase>t):
            raise partly_below(who)
    return (<object>out).copy_(result)


def replace(str who not None, TensorBase input not None, TensorBase result not None) -> TensorBase:
    """A result that a function has computed, written over its input: a tensor of its shape and a dtype that holds it."""
    check_destination(who, input, OVER, KIND, result.code, result.rank, result.sizes, False)
    return (<object>input).copy_(result)
