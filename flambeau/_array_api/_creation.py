"""Arrays from nothing, from numbers and from other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.base.dtypes import by_name, dtype
from ..core.base.tensor import TensorBase
from ._dtypes import flat

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: dtype | None = None,
    device: Any = None,
) -> Any:
    """Numbers from `start` (or 0, if `stop` is not given) up to but without `stop`; none where the step leads away from it.

    ValueError for a step of 0.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.arange(3, -3, -2), xp.arange(3, 0)
    (tensor([ 3,  1, -1]), tensor([], dtype=flambeau.int64))
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange(): step must not be 0")
    if (stop - start) / step <= 0:
        if dtype is None and all(isinstance(n, int) for n in (start, stop, step)):
            dtype = by_name["int64"]
        return flat.empty(0, dtype=dtype, device=device)
    return flat.arange(start, stop, step, dtype=dtype, device=device)


def asarray(obj: Any, /, *, dtype: dtype | None = None, device: Any = None, copy: bool | None = None) -> Any:
    """An array of what an array, a number, a nested sequence of numbers, or an object with DLPack, buffer or array interface
    holds.

    `copy` true always copies, None where it must be, false never: ValueError where a copy would be needed.  OverflowError for
    an int that no int64 holds, without a dtype.

    >>> import flambeau, numpy
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.asarray([[1, 2], [3, 4]], dtype=xp.float32)
    tensor([[1., 2.],
            [3., 4.]])
    >>> xp.asarray(numpy.arange(3)[::-1])  # copied, for no tensor has negative strides
    tensor([2, 1, 0])
    """
    if isinstance(obj, TensorBase):
        device = obj.device if device is None else device
    elif copy is None and hasattr(obj, "__array_interface__"):
        obj = _fit_to_share(obj)
    elif copy and hasattr(obj, "__array_interface__"):
        obj, copy = _copied(obj), None
    elif dtype is None and isinstance(obj, int) and not -(2**63) <= obj < 2**63:
        raise OverflowError(f"asarray(): {obj} does not fit {by_name['int64']}, the dtype of integers")
    return flat.asarray(obj, dtype=dtype, device=device, copy=copy)


def _copied(obj: Any) -> Any:
    """An array of NumPy with memory of its own, in C's order and the processor's order of bytes."""
    import numpy

    array = numpy.asarray(obj)
    return numpy.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=True)


def _fit_to_share(obj: Any) -> Any:
    """An array of NumPy, copied where no tensor can lie over its memory and write there."""
    import numpy

    array = numpy.asarray(obj)
    steps = all(step >= 0 and step % max(array.itemsize, 1) == 0 for step in array.strides)
    return array if array.dtype.isnative and array.flags.writeable and steps else _copied(array)


def empty(shape: Any, *, dtype: dtype | None = None, device: Any = None) -> Any:
    """An array whose elements are not set.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().empty((2, 3)).shape
    flambeau.Size([2, 3])
    """
    return flat.empty(shape, dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: dtype | None = None, device: Any = None) -> Any:
    """An array of zeros.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().zeros(2)
    tensor([0., 0.])
    """
    return flat.zeros(shape, dtype=dtype, device=device)


def ones(shape: Any, *, dtype: dtype | None = None, device: Any = None) -> Any:
    """An array of ones.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().ones(2)
    tensor([1., 1.])
    """
    return flat.ones(shape, dtype=dtype, device=device)


def full(shape: Any, fill_value: complex, *, dtype: dtype | None = None, device: Any = None) -> Any:
    """An array of one number, of that number's default dtype if none is given.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().full((2,), 7)
    tensor([7, 7])
    """
    shape = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    return flat.full(shape, fill_value, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: dtype | None = None, device: Any = None) -> Any:
    """An array of `x`'s shape whose elements are not set.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().empty_like(flambeau.ones(2, 3)).shape
    flambeau.Size([2, 3])
    """
    return flat.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Any, /, *, dtype: dtype | None = None, device: Any = None) -> Any:
    """An array of `x`'s shape, of zeros.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().zeros_like(flambeau.ones(2))
    tensor([0., 0.])
    """
    return flat.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: dtype | None = None, device: Any = None) -> Any:
    """An array of `x`'s shape, of ones.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().ones_like(flambeau.zeros(2))
    tensor([1., 1.])
    """
    return flat.ones_like(x, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: complex, *, dtype: dtype | None = None, device: Any = None) -> Any:
    """An array of `x`'s shape, of one number.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().full_like(flambeau.ones(2), 3)
    tensor([3., 3.])
    """
    return flat.full_like(x, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: dtype | None = None,
    device: Any = None,
) -> Any:
    """A matrix with ones on its `k`th diagonal and zeros elsewhere.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().eye(2, 3, k=1)
    tensor([[0., 1., 0.],
            [0., 0., 1.]])
    """
    made = flat.zeros((n_rows, n_rows if n_cols is None else n_cols), dtype=dtype, device=device)
    if -n_rows <= k <= made.shape[1]:
        made.diagonal(k).fill_(1)
    return made


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    endpoint: bool = True,
) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`, or up to the place before it if `endpoint` is false.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linspace(0, 1, 4, endpoint=False)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    if num < 0:
        raise ValueError(f"linspace(): num must not be negative, got {num}")
    if endpoint:
        return flat.linspace(start, stop, num, dtype=dtype, device=device)
    return flat.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    """The coordinates of a grid over 1-dimensional arrays, along the second and first dimension ("xy") or in order ("ij").

    ValueError for another indexing, and for arrays of different dtypes.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> [x.shape for x in xp.meshgrid(xp.arange(2), xp.arange(3))]
    [flambeau.Size([3, 2]), flambeau.Size([3, 2])]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f'meshgrid(): indexing must be "xy" or "ij", got {indexing!r}')
    if len({x.dtype for x in arrays}) > 1:
        raise ValueError("meshgrid(): arrays must be of one dtype")
    return list(flat.meshgrid(*arrays, indexing=indexing)) if arrays else []


def tril(x: Any, /, *, k: int = 0) -> Any:
    """The lower triangles of matrices: elements above the `k`th diagonal are zero.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().tril(flambeau.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return flat.tril(x, k)


def triu(x: Any, /, *, k: int = 0) -> Any:
    """The upper triangles of matrices: elements below the `k`th diagonal are zero.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().triu(flambeau.ones(2, 2), k=1)
    tensor([[0., 1.],
            [0., 0.]])
    """
    return flat.triu(x, k)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array over the memory of another library's array, or a copy of it.

    BufferError where memory cannot be shared: another device, a dtype without an equal, negative strides.

    >>> import flambeau, numpy
    >>> flambeau.ones(1).__array_namespace__().from_dlpack(numpy.ones(2))
    tensor([1., 1.], dtype=flambeau.float64)
    """
    return flat.from_dlpack(x, device=device, copy=copy)
