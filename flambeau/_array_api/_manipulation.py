"""Shapes, and the order of elements."""

from __future__ import annotations

from typing import Any

from ..core.base.tensor import TensorBase
from ._axes import axes_of
from ._dtypes import all_arrays, flat

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """Arrays as views of the shape that they broadcast to.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> [x.shape for x in xp.broadcast_arrays(xp.ones((2, 1)), xp.ones(3))]
    [flambeau.Size([2, 3]), flambeau.Size([2, 3])]
    """
    return list(flat.broadcast_tensors(*arrays))


def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    """`x` as a view of that shape.

    ValueError where `x` does not broadcast to it, or it has a negative size.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.broadcast_to(xp.asarray([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    shape = tuple(shape)
    fits = len(shape) >= x.ndim and all(
        have in (1, want) for have, want in zip(x.shape[::-1], shape[::-1], strict=False)
    )
    if not fits or any(size < 0 for size in shape):
        raise ValueError(f"broadcast_to(): an array of shape {tuple(x.shape)} cannot be broadcast to {shape}")
    return flat.broadcast_to(x, shape)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Arrays joined along an axis, or flattened and joined if it is None; of their common dtype.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.concat([xp.asarray([1], dtype=xp.int8), xp.asarray([2, 3])])
    tensor([1, 2, 3])
    """
    parts = all_arrays("concat", arrays)
    if axis is None:
        return flat.cat([x.reshape(-1) for x in parts], 0)
    (axis,) = axes_of("concat", axis, parts[0].ndim)
    for x in parts:  # PyTorch's skips what has the shape (0,)
        rest = tuple(size for k, size in enumerate(x.shape) if k != axis)
        if x.ndim != parts[0].ndim or rest != tuple(n for k, n in enumerate(parts[0].shape) if k != axis):
            raise ValueError(
                f"concat(): shapes {tuple(parts[0].shape)} and {tuple(x.shape)} differ in other axes than {axis}"
            )
    return flat.cat(parts, axis)


def expand_dims(x: Any, /, axis: int = 0) -> Any:
    """A view with an axis of size 1 inserted at `axis`.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().expand_dims(flambeau.ones(2), axis=0).shape
    flambeau.Size([1, 2])
    """
    (axis,) = axes_of("expand_dims", axis, x.ndim + 1)
    return flat.unsqueeze(x, axis)


def flip(x: Any, /, *, axis: Any = None) -> Any:
    """The elements in reverse order along axes, all for None.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().flip(flambeau.arange(3))
    tensor([2, 1, 0])
    """
    return flat.flip(x, axes_of("flip", axis, x.ndim))


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """A view in which axes `source` stand at `destination`, and the others follow in their order.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().moveaxis(flambeau.ones(2, 3, 4), 0, -1).shape
    flambeau.Size([3, 4, 2])
    """
    return flat.movedim(x, axes_of("moveaxis", source, x.ndim), axes_of("moveaxis", destination, x.ndim))


def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    """A view with the axes in another order.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().permute_dims(flambeau.ones(2, 3, 4), (2, 0, 1)).shape
    flambeau.Size([4, 2, 3])
    """
    return flat.permute(x, tuple(axes))


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Each element (or each part along `axis`) so many times in a row; `repeats` is an int or an array of them.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.repeat(xp.asarray([1, 2]), xp.asarray([1, 3]))
    tensor([1, 2, 2, 2])
    """
    if axis is None:
        x, axis = x.reshape(-1), 0
    (axis,) = axes_of("repeat", axis, x.ndim)
    if isinstance(repeats, TensorBase):
        repeats = flat.broadcast_to(repeats, (x.shape[axis],)).long()
    return flat.repeat_interleave(x, repeats, axis)


def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    """The elements in another shape; a size of -1 is inferred.

    `copy` true always copies, None where it must be, false never: ValueError where a copy would be needed.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().reshape(flambeau.arange(4), (2, -1))
    tensor([[0, 1],
            [2, 3]])
    """
    shape = tuple(shape)
    if copy is None:
        return flat.reshape(x, shape)
    if copy:
        return flat.reshape(x.clone(), shape)
    try:
        return x.view(shape)
    except RuntimeError as error:
        raise ValueError(f"reshape(): copy=False, and {error}") from None


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """The elements moved along axes, those that leave at the end coming back at the start; of the flattened array for None.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().roll(flambeau.arange(4), 1)
    tensor([3, 0, 1, 2])
    """
    if axis is None:
        return flat.roll(x, shift)
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    return flat.roll(x, shifts, axes)


def squeeze(x: Any, /, axis: Any) -> Any:
    """A view without axes of size 1.

    ValueError for an axis of another size.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().squeeze(flambeau.ones(1, 2, 1), (0, 2)).shape
    flambeau.Size([2])
    """
    axes = axes_of("squeeze", axis, x.ndim)
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze(): axis {a} has size {x.shape[a]}, not 1")
    return flat.squeeze(x, axes) if axes else x


def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """Arrays of one shape joined along a new axis; of their common dtype.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.stack([xp.asarray([1, 2]), xp.asarray([3, 4])], axis=1)
    tensor([[1, 3],
            [2, 4]])
    """
    return flat.stack(all_arrays("stack", arrays), axis)


def tile(x: Any, repetitions: tuple[int, ...], /) -> Any:
    """`x` repeated along each axis, from the last one on.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().tile(flambeau.arange(2), (2, 2))
    tensor([[0, 1, 0, 1],
            [0, 1, 0, 1]])
    """
    return flat.tile(x, tuple(repetitions))


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts along an axis, which they lack.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().unstack(flambeau.arange(2))
    (tensor(0), tensor(1))
    """
    return tuple(flat.unbind(x, axis))
