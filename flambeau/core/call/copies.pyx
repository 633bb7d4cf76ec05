# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Copies and conversions on the tape: one kernel, the identity."""
from cpython.object cimport PyObject
from ..base import display
from ..base.dtypes cimport as_dtype, dtype, dtype_of, is_stored
from ..base.formats import contiguous_format, memory_format as Format, preserve_format
from ..base.callbacks import callbacks
from ..base.tensor cimport TensorBase
from ..tape.modes cimport grad_enabled, wants_grad
from .kernels cimport Operand, device_launcher
from .operands cimport common_code, read_operand
from .destination cimport OVER
from .pointwise cimport convert, copied, identity, run_general, run_into


def contiguous(TensorBase input, memory_format=None) -> TensorBase:
    """The tensor itself where its elements stand in row-major order (or the one of `memory_format`) without gaps, else a copy
    where they do.

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: `memory_format` is none

    >>> import flambeau
    >>> x = flambeau.tensor([[1, 2], [3, 4]]).t()
    >>> x.is_contiguous(), x.contiguous().is_contiguous()
    (False, True)
    """
    if memory_format is not None and not plain(memory_format, "contiguous"):
        return input if (<object>input).is_contiguous(memory_format=memory_format) else clone(input, memory_format=memory_format)
    return input if input.contiguous else copied(input, input.code, True)


def clone(TensorBase input, *, memory_format=None) -> TensorBase:
    """A copy with its own memory, on the tape: with the strides of the input where it has no gaps, or in `memory_format`.

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> x = flambeau.tensor([1, 2])
    >>> y = x.clone()
    >>> x[0] = 9
    >>> y
    tensor([1, 2])
    """
    if memory_format is None:
        return copied(input, input.code, False)
    if plain(memory_format, "clone"):
        return copied(input, input.code, memory_format is contiguous_format)
    return copy_(callbacks["empty_like"](input, memory_format=memory_format), input)


cdef bint plain(object memory_format, str who) except -1:
    """Whether a memory format is none of those with channels last."""
    if not isinstance(memory_format, Format):
        raise TypeError(f"{who}(): argument 'memory_format' must be {display.public('memory_format')}, not {type(memory_format).__name__}")
    return memory_format is contiguous_format or memory_format is preserve_format


def to_dtype(TensorBase input, d: dtype, copy: bool = False) -> TensorBase:
    """The tensor itself where it has that dtype (and no copy is requested), else a copy that has."""
    cdef int code = as_dtype(d, "to").code
    return input if code == input.code and not copy else copied(input, code, False)


def copy_(TensorBase input, src, non_blocking: bool = False) -> TensorBase:
    """Overwrite the elements by those of `src` (a tensor that broadcasts to the shape, of any dtype, or a
    number).

    Shape:
        input: any, which stays; src: a shape that broadcasts to it

    Raises:
        RuntimeError: the shape does not broadcast

    >>> import flambeau
    >>> flambeau.zeros(2).copy_(flambeau.tensor([1, 2]))
    tensor([1., 2.])
    """
    cdef Operand operand
    cdef PyObject* given[1]
    if not read_operand(src, &operand):
        raise TypeError(f"copy_(): argument 'other' must be Tensor, not {type(src).__name__}")
    if operand.tensor != NULL and (<TensorBase>src).storage.on is not input.storage.on:
        src = device_launcher.moved(<TensorBase>src, input.storage.on)
        operand.tensor = <PyObject*>src
    if src is input:
        return input
    if operand.tensor == NULL and is_stored(input.code):
        return (<object>input).fill_(src)
    if operand.tensor != NULL and (<TensorBase>src).code != input.code and (is_stored(input.code) or is_stored((<TensorBase>src).code)):
        src = copied(<TensorBase>src, input.code, False)
        operand.tensor = <PyObject*>src
    given[0] = <PyObject*>input
    return run_into(identity, &operand, NULL, given, OVER, src_code(&operand), wants_grad(<TensorBase>src) and grad_enabled()
                     if operand.tensor != NULL else False)


cdef int src_code(Operand* operand):
    return (<TensorBase>operand.tensor).code if operand.tensor != NULL else common_code(operand, 1, 0)


cdef int copy_elements(TensorBase to, TensorBase source) except -1:
    """Copy with broadcasting, on one device, not recorded."""
    cdef Operand operand
    cdef PyObject* given[1]
    operand.tensor = <PyObject*>source
    given[0] = <PyObject*>to
    if is_stored(to.code) or is_stored(source.code):
        return convert(to, source)
    run_general(identity, &operand, NULL, source.code, given)
    return 0


device_launcher.copy = copy_elements
