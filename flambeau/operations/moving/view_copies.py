"""`X_copy` for the views: what the view shows, in memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._tensor import Tensor
from ...core.base.formats import contiguous_format
from ...core.views import views
from ..declare.dtype_groups import COMPLEX, FLOATING
from ..declare.examples import of_call
from ..declare.registry import library
from .viewing import view_as_complex, view_as_real


def _copied(made: Any) -> Any:
    """A tensor's elements in row-major order, or those of several tensors."""
    if isinstance(made, Tensor):
        return made.clone(memory_format=contiguous_format)
    return tuple(part.clone(memory_format=contiguous_format) for part in made)


def _copy_of(view: Callable, given: str, shown: str, **facts: Any) -> Callable[[Callable], Callable]:
    """Declare the copy of a view: its shapes, dtypes and errors are the view's, its gradients those of both.

    `given` and `shown` are the arguments and the result of an example.
    """

    def enter(function: Callable) -> Callable:
        name = function.__name__
        function.__doc__ = (
            f"clone({view.__name__}(input, …)): what `{view.__name__}` shows, row-major and in memory of its own; shapes and errors "
            "are the view's." + of_call(f"{name}({given})", shown)
        )
        return library("composite", name, out=view not in _SEVERAL, **facts)(function)

    return enter


_SEVERAL = (views.split, views.split_with_sizes, views.unbind)


@_copy_of(views.view_as, "flambeau.tensor([1, 2])", "tensor([1, 2])")
def alias_copy(input: Tensor) -> Tensor:
    return _copied(input)


@_copy_of(
    views.detach, "flambeau.tensor([1.0], requires_grad=True)", "tensor([1.], grad_fn=<CloneBackward0>)"
)
def detach_copy(input: Tensor) -> Tensor:
    return _copied(input)  # recorded, as PyTorch's is: only the view leaves the tape


@_copy_of(views.as_strided, "flambeau.arange(4), (2, 2), (1, 1)", "tensor([[0, 1],\n        [1, 2]])")
def as_strided_copy(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    return _copied(input.as_strided(size, stride, storage_offset))


@_copy_of(views.diagonal, "flambeau.tensor([[1, 2], [3, 4]])", "tensor([1, 4])")
def diagonal_copy(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    return _copied(input.diagonal(offset, dim1, dim2))


@_copy_of(views.expand, "flambeau.tensor([[1], [2]]), (2, 2)", "tensor([[1, 1],\n        [2, 2]])")
def expand_copy(input: Tensor, size: Sequence[int]) -> Tensor:
    return _copied(input.expand(size))


@_copy_of(views.permute, "flambeau.tensor([[1, 2], [3, 4]]), (1, 0)", "tensor([[1, 3],\n        [2, 4]])")
def permute_copy(input: Tensor, dims: Sequence[int]) -> Tensor:
    return _copied(input.permute(dims))


@_copy_of(views.select, "flambeau.tensor([[1, 2], [3, 4]]), 0, 1", "tensor([3, 4])")
def select_copy(input: Tensor, dim: int, index: int) -> Tensor:
    return _copied(input.select(dim, index))


@_copy_of(views.narrow, "flambeau.arange(5), 0, 1, 4, 2", "tensor([1, 3])")
def slice_copy(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    if step <= 0:
        raise RuntimeError(f"slice_copy(): slice step must be positive, got {step}")
    return _copied(input.transpose(dim, 0)[start:end:step].transpose(0, dim))


@_copy_of(views.split, "flambeau.arange(3), 2", "(tensor([0, 1]), tensor([2]))")
def split_copy(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    return _copied(tensor.split(split_size, dim))


@_copy_of(views.split_with_sizes, "flambeau.arange(3), [1, 2]", "(tensor([0]), tensor([1, 2]))")
def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    return _copied(input.split_with_sizes(split_sizes, dim))


@_copy_of(views.squeeze, "flambeau.tensor([[1, 2]])", "tensor([1, 2])")
def squeeze_copy(input: Tensor, dim: Any = None) -> Tensor:
    return _copied(input.squeeze() if dim is None else input.squeeze(dim))


@_copy_of(views.t, "flambeau.tensor([[1, 2], [3, 4]])", "tensor([[1, 3],\n        [2, 4]])")
def t_copy(input: Tensor) -> Tensor:
    return _copied(input.t())


@_copy_of(views.transpose, "flambeau.tensor([[1, 2], [3, 4]]), 0, 1", "tensor([[1, 3],\n        [2, 4]])")
def transpose_copy(input: Tensor, dim0: int, dim1: int) -> Tensor:
    return _copied(input.transpose(dim0, dim1))


@_copy_of(views.unbind, "flambeau.tensor([[1, 2], [3, 4]])", "(tensor([1, 2]), tensor([3, 4]))")
def unbind_copy(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    return _copied(input.unbind(dim))


@_copy_of(views.unfold, "flambeau.arange(4), 0, 2, 2", "tensor([[0, 1],\n        [2, 3]])")
def unfold_copy(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    return _copied(input.unfold(dimension, size, step))


@_copy_of(views.unsqueeze, "flambeau.tensor([1, 2]), 1", "tensor([[1],\n        [2]])")
def unsqueeze_copy(input: Tensor, dim: int) -> Tensor:
    return _copied(input.unsqueeze(dim))


@_copy_of(views.view, "flambeau.arange(4), (2, 2)", "tensor([[0, 1],\n        [2, 3]])")
def view_copy(input: Tensor, size: Any) -> Tensor:
    return _copied(input.view(size))


@_copy_of(
    views.view_as_complex,
    "flambeau.tensor([[1.0, 2.0]])",
    "tensor([1.+2.j])",
    autocast=("float32", "fallthrough"),
    dtypes=FLOATING - {"bfloat16"},
)
def view_as_complex_copy(input: Tensor) -> Tensor:
    return _copied(view_as_complex(input))


@_copy_of(views.view_as_real, "flambeau.tensor([1 + 2j])", "tensor([[1., 2.]])", dtypes=COMPLEX)
def view_as_real_copy(input: Tensor) -> Tensor:
    return _copied(view_as_real(input))
