"""Linear maps: Identity, Linear, Bilinear."""

from __future__ import annotations

import math
from typing import Any

from ..._tensor import Tensor
from ...core.base.lazily import lazily
from ...core.make.create import empty
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__getattr__, __dir__ = lazily(__name__, names={"LazyLinear": ".lazy"})

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """The input itself; any arguments are accepted and ignored.

    Shape:
        input: any; the result is the input

    Raises:
        TypeError: there is no input

    >>> import flambeau
    >>> flambeau.nn.Identity(54, unused=True)(flambeau.tensor([1, 2]))
    tensor([1, 2])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """`x @ weight.T + bias` over the last dimension: (*, in_features) to (*, out_features).

    `weight` of shape (out_features, in_features) and `bias` of shape (out_features,) begin uniform in
    ±1/sqrt(in_features).

    Raises:
        RuntimeError: the last size is not `in_features`

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Linear(20, 30)(flambeau.zeros(128, 20)).shape == (128, 30)
    True
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        # A gain for this slope makes the bound of kaiming_uniform_ exactly 1/sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear` under the name that the output projection of `MultiheadAttention` has in PyTorch."""


class Bilinear(Module):
    """`x1 @ weight[k] @ x2 + bias[k]` for each output feature k: (*, in1) and (*, in2) to (*, out).

    `weight` of shape (out_features, in1_features, in2_features) and `bias` of shape (out_features,) begin
    uniform in ±1/sqrt(in1_features).

    Raises:
        ValueError: `in1_features` is not positive.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Bilinear(2, 3, 4)(flambeau.zeros(5, 2), flambeau.zeros(5, 3)).shape == (5, 4)
    True
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
