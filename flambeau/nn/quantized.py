"""Functions as modules, so that tools can observe or replace what they compute: `FloatFunctional`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._compat.absent import refusing
from .._tensor import Tensor
from ..core.lib.products.products import matmul
from ..operations.moving.joining import cat
from ..operations.neural.activations import relu
from ..operations.pointwise.arithmetic import add, mul
from .modules import Identity, Module

__all__ = ["FloatFunctional"]


class FloatFunctional(Module):
    """Sums, products and joins as methods of a module, whose results go through `activation_post_process`.

    That is an `Identity`, which a tool may replace by a module that watches. `forward` is a RuntimeError. Quantised tensors
    are not supported.

    Shape:
        arguments and results: as of the operation of that name

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.quantized.FloatFunctional().add_relu(flambeau.tensor([1.0, -5.0]), flambeau.tensor([1.0, 1.0]))
    tensor([2., 0.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Any) -> Any:
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the underlying operation"
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """`x + y`, observed."""
        return self.activation_post_process(add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """`x + y` for a number, not observed."""
        return add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """`x * y`, observed."""
        return self.activation_post_process(mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """`x * y` for a number, not observed."""
        return mul(x, y)

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Tensor:
        """Tensors joined along a dimension, observed."""
        return self.activation_post_process(cat(x, dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """max(x + y, 0), observed."""
        return self.activation_post_process(relu(add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """`x @ y`, observed."""
        return self.activation_post_process(matmul(x, y))


__getattr__ = refusing("nn.quantized")
