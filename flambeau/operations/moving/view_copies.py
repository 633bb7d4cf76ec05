"""`X_copy` for the views: what the view shows, in memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._tensor import Tensor
from ...core.base.formats import contiguous_format
from ...core.views import views
from ..declare.registry import library
from .viewing import view_as_complex, view_as_real


def _copied(made: Any) -> Any:
    """A tensor's elements in row-major order, or those of several tensors."""
    if isinstance(made, Tensor):
        return made.clone(memory_format=contiguous_format)
    return tuple(part.clone(memory_format=contiguous_format) for part in made)


def _copy_of(view: Callable) -> Callable[[Callable], Callable]:
    """Declare the copy of a view: its shapes, dtypes and errors are the view's, its gradients those of both."""

    def enter(function: Callable) -> Callable:
        name = function.__name__
        function.__doc__ = f"A copy of `{view.__name__}`, row-major and in memory of its own; shapes and errors are the view's."
        return library("composite", name, out=view not in _SEVERAL)(function)

    return enter


_SEVERAL = (views.split, views.split_with_sizes, views.unbind)


@_copy_of(views.view_as)
def alias_copy(input: Tensor) -> Tensor:
    return _copied(input)


@_copy_of(views.detach)
def detach_copy(input: Tensor) -> Tensor:
    return _copied(input)  # recorded, as PyTorch's is: only the view leaves the tape


@_copy_of(views.as_strided)
def as_strided_copy(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    return _copied(input.as_strided(size, stride, storage_offset))


@_copy_of(views.diagonal)
def diagonal_copy(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    return _copied(input.diagonal(offset, dim1, dim2))


@_copy_of(views.expand)
def expand_copy(input: Tensor, size: Sequence[int]) -> Tensor:
    return _copied(input.expand(size))


@_copy_of(views.permute)
def permute_copy(input: Tensor, dims: Sequence[int]) -> Tensor:
    return _copied(input.permute(dims))


@_copy_of(views.select)
def select_copy(input: Tensor, dim: int, index: int) -> Tensor:
    return _copied(input.select(dim, index))


@_copy_of(views.narrow)
def slice_copy(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    if step <= 0:
        raise RuntimeError(f"slice_copy(): slice step must be positive, got {step}")
    return _copied(input.transpose(dim, 0)[start:end:step].transpose(0, dim))


@_copy_of(views.split)
def split_copy(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    return _copied(tensor.split(split_size, dim))


@_copy_of(views.split_with_sizes)
def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    return _copied(input.split_with_sizes(split_sizes, dim))


@_copy_of(views.squeeze)
def squeeze_copy(input: Tensor, dim: Any = None) -> Tensor:
    return _copied(input.squeeze() if dim is None else input.squeeze(dim))


@_copy_of(views.t)
def t_copy(input: Tensor) -> Tensor:
    return _copied(input.t())


@_copy_of(views.transpose)
def transpose_copy(input: Tensor, dim0: int, dim1: int) -> Tensor:
    return _copied(input.transpose(dim0, dim1))


@_copy_of(views.unbind)
def unbind_copy(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    return _copied(input.unbind(dim))


@_copy_of(views.unfold)
def unfold_copy(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    return _copied(input.unfold(dimension, size, step))


@_copy_of(views.unsqueeze)
def unsqueeze_copy(input: Tensor, dim: int) -> Tensor:
    return _copied(input.unsqueeze(dim))


@_copy_of(views.view)
def view_copy(input: Tensor, size: Any) -> Tensor:
    return _copied(input.view(size))


@_copy_of(views.view_as_complex)
def view_as_complex_copy(input: Tensor) -> Tensor:
    return _copied(view_as_complex(input))


@_copy_of(views.view_as_real)
def view_as_real_copy(input: Tensor) -> Tensor:
    return _copied(view_as_real(input))
