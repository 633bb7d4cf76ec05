"""Small methods and older names: one line each over other operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...core.base.dtypes import dtype, get_default_dtype
from ...core.base.tensor import TensorBase
from ...core.make.bridge import from_numpy
from ...core.make.create import arange
from ..declare.registry import library, register
from ..declare.results import into
from ..linalg.matrices import matrix_norm
from ..pointwise import arithmetic, special
from ..rows import summaries as reduced


def _written(function: Callable) -> None:
    """`x.name_(…)`: the result of the function written over the tensor."""

    def in_place(self: TensorBase, *args: Any, **named: Any) -> TensorBase:
        return arithmetic.overwrite(self, function, *args, **named)

    name = f"{function.__name__}_"
    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = f"`{function.__name__}` in place."
    register(name, "composite", in_place, places=(name, f"Tensor.{name}"))


for _function in (
    arithmetic.round,
    reduced.nan_to_num,
    reduced.logit,
    reduced.float_power,
    special.mvlgamma,
):
    _written(_function)


@library("composite", "fill_diagonal_", "Tensor.fill_diagonal_")
def fill_diagonal_(self: TensorBase, fill_value: float, wrap: bool = False) -> TensorBase:
    """The main diagonal set to a number, in place; `wrap` starts it again below the square part of a tall matrix.

    RuntimeError for a vector, and for more than two dimensions unless all are of one size.
    """
    if self.ndim < 2:
        raise RuntimeError(f"fill_diagonal_(): dimensions must larger than 1, got {self.ndim}")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError(
            f"fill_diagonal_(): all dimensions of input must be of equal length, got {list(self.shape)}"
        )
    if self.ndim > 2:
        place = arange(self.shape[0], device=self.device)
        self[(place,) * self.ndim] = fill_value
        return self
    rows, columns = self.shape
    self.diagonal().fill_(fill_value)
    if wrap:
        for start in range(columns + 1, rows, columns + 1):
            self[start:].diagonal().fill_(fill_value)
    return self


@library("question", "is_same_size", "Tensor.is_same_size", differentiable=False)
def is_same_size(input: TensorBase, other: TensorBase) -> bool:
    """Whether two tensors have one shape."""
    return tuple(input.shape) == tuple(other.shape)


@library("question", "is_nonzero", "Tensor.is_nonzero", differentiable=False)
def is_nonzero(input: TensorBase) -> bool:
    """Whether a tensor's only element is not zero; RuntimeError unless there is just one."""
    if input.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with no values is ambiguous"
            if input.numel() == 0
            else "Boolean value of Tensor with more than one value is ambiguous"
        )
    return bool(input)


@library("question", "is_set_to", "Tensor.is_set_to", differentiable=False)
def is_set_to(input: TensorBase, tensor: TensorBase) -> bool:
    """Whether both lie over the same storage at the same place with the same shape and strides."""
    return (
        input.untyped_storage() is tensor.untyped_storage()
        and input.storage_offset() == tensor.storage_offset()
        and tuple(input.shape) == tuple(tensor.shape)
        and tuple(input.stride()) == tuple(tensor.stride())
    )


@library("question", "is_signed", name="is_signed_of", differentiable=False)
def is_signed(input: TensorBase) -> bool:
    """Whether the tensor's dtype has negative numbers."""
    return input.is_signed()


@library("question", "Tensor.dim_order", differentiable=False)
def dim_order(self: TensorBase) -> tuple[int, ...]:
    """The dimensions from the outermost in memory to the innermost."""
    return tuple(sorted(range(self.ndim), key=lambda d: (-self.stride()[d], d)))


def _mapped(who: str, self: TensorBase, others: tuple, function: Callable) -> TensorBase:
    import numpy as np

    values = [t.expand(self.shape).reshape(-1).tolist() for t in (self, *others)]
    found = np.array([function(*v) for v in zip(*values)], dtype=object).reshape(tuple(self.shape))
    return self.copy_(from_numpy(found.astype(self.detach().numpy().dtype)))


@library("composite", "Tensor.map_")
def map_(self: TensorBase, tensor: TensorBase, callable: Callable) -> TensorBase:
    """Each element replaced by `callable` of it and of the other tensor's (a Python call for each: slow)."""
    return _mapped("map_", self, (tensor,), callable)


@library("composite", "Tensor.map2_")
def map2_(self: TensorBase, x: TensorBase, y: TensorBase, callable: Callable) -> TensorBase:
    """Each element replaced by `callable` of it and of two other tensors' (a Python call for each: slow)."""
    return _mapped("map2_", self, (x, y), callable)


@library("composite", "narrow_copy", "Tensor.narrow_copy")
def narrow_copy(input: TensorBase, dim: int, start: int, length: int) -> TensorBase:
    """A copy of `narrow`."""
    return input.narrow(dim, start, length).clone()


@library("composite", "unsafe_split", "Tensor.unsafe_split")
def unsafe_split(tensor: TensorBase, split_size: int, dim: int = 0) -> tuple:
    """`split`."""
    return tensor.split(split_size, dim)


@library("composite", "unsafe_chunk", "Tensor.unsafe_chunk")
def unsafe_chunk(input: TensorBase, chunks: int, dim: int = 0) -> tuple:
    """`chunk`."""
    return input.chunk(chunks, dim)


@library("composite", "frobenius_norm")
def frobenius_norm(input: TensorBase, dim: Any, keepdim: bool = False) -> TensorBase:
    """Root of the sum of squares over `dim`."""
    return reduced.vector_norm(input, 2, dim, keepdim)


@library("composite", "nuclear_norm")
def nuclear_norm(input: TensorBase, dim: Any = (-2, -1), keepdim: bool = False) -> TensorBase:
    """Sum of the singular values of matrices."""
    return matrix_norm(input, "nuc", dim, keepdim)


@library("creation", "range", name="closed_range", differentiable=False)
def closed_range(
    start: float,
    end: float,
    step: float = 1,
    *,
    out: TensorBase | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> TensorBase:
    """Numbers from `start` to `end`, both included, `step` apart, as floating-point numbers; `arange` leaves out the end."""
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(
            f"range(): upper bound and lower bound inconsistent with step sign: {start} to {end} by {step}"
        )
    count = math.floor((end - start) / step) + 1
    found = arange(count, dtype=dtype or get_default_dtype(), layout=layout, device=device) * step + start
    return into(out, found, "range").requires_grad_(requires_grad)
