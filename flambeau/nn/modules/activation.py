"""Activation layers; the formulas stand with the functions of the same name in `flambeau.nn.functional`."""

from __future__ import annotations

import warnings
from typing import Any

from ..._tensor import Tensor
from ...core.base.lazily import lazily
from ...core.make.create import empty
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__getattr__, __dir__ = lazily(
    __name__, names={"MultiheadAttention": ".attention", "NonDynamicallyQuantizableLinear": ".linear"}
)

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _InPlace(Module):
    """An activation with no option other than to overwrite its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(0, x), element by element; with `inplace` it overwrites the input.

    Shape:
        input: any; the result has the same

    Raises:
        NotImplementedError: the dtype is complex

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.ReLU()(flambeau.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)


class SiLU(_InPlace):
    """x · sigmoid(x), also known as swish (Elfwing et al., 2017).

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.nn.SiLU()(flambeau.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.2689,  0.0000,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, inplace=self.inplace)


class Mish(_InPlace):
    """x · tanh(softplus(x)) (Misra, 2019).

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.nn.Mish()(flambeau.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.3034,  0.0000,  1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, inplace=self.inplace)


class SELU(_InPlace):
    """scale · (max(0, x) + min(0, α · (exp(x) - 1))), of self-normalizing networks (Klambauer et al.,
    2017).

    Shape:
        input: any; the result has the same

    Raises:
        NotImplementedError: the dtype is complex

    >>> import flambeau
    >>> flambeau.nn.SELU()(flambeau.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardsigmoid(_InPlace):
    """min(max(x + 3, 0), 6) / 6.

    Shape:
        input: any; the result has the same

    Raises:
        NotImplementedError: the dtype is no floating-point one

    >>> import flambeau
    >>> flambeau.nn.Hardsigmoid()(flambeau.tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """x · hardsigmoid(x) (Howard et al., 2019).

    Shape:
        input: any; the result has the same

    Raises:
        NotImplementedError: the dtype is no floating-point one

    >>> import flambeau
    >>> flambeau.nn.Hardswish()(flambeau.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.3333,  0.0000,  3.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Threshold(Module):
    """x where it is above `threshold`, else `value`.

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.nn.Threshold(1.0, -1.0)(flambeau.tensor([0.5, 2.0]))
    tensor([-1.,  2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}{_inplace(self)}"


def _inplace(module: Any) -> str:
    return ", inplace=True" if module.inplace else ""


class Hardtanh(Module):
    """min(max(x, min_val), max_val): x cut off at `min_val` and `max_val`.

    Raises:
        AssertionError: `max_val` is not greater than `min_val`.

    Shape:
        input: any; the result has the same

    >>> import flambeau
    >>> flambeau.nn.Hardtanh(-2.0, 2.0)(flambeau.tensor([-3.0, 0.5, 3.0]))
    tensor([-2.0000,  0.5000,  2.0000])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None:
            warnings.warn(
                "keyword argument `min_value` is deprecated and renamed to `min_val`",
                FutureWarning,
                stacklevel=2,
            )
            min_val = min_value
        if max_value is not None:
            warnings.warn(
                "keyword argument `max_value` is deprecated and renamed to `max_val`",
                FutureWarning,
                stacklevel=2,
            )
            max_val = max_value
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}{_inplace(self)}"


class ReLU6(Hardtanh):
    """min(max(0, x), 6).

    Shape:
        input: any; the result has the same

    Raises:
        NotImplementedError: the dtype is complex

    >>> import flambeau
    >>> flambeau.nn.ReLU6()(flambeau.tensor([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class RReLU(Module):
    """LeakyReLU whose slope is drawn for each element from U(lower, upper); their mean in eval mode (Xu et
    al., 2015).

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.nn.RReLU(0.25, 0.25)(flambeau.tensor([-12.0, 3.0]))
    tensor([-3.,  3.])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}{_inplace(self)}"


class LeakyReLU(Module):
    """x where it is positive, else `negative_slope` · x.

    Shape:
        input: any; the result has the same

    Raises:
        NotImplementedError: the dtype is complex

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.LeakyReLU(0.5)(flambeau.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}{_inplace(self)}"


class PReLU(Module):
    """LeakyReLU with a learned slope `weight`, one for all or one a channel, the second dimension (He et al.,
    2015).

    Args:
        num_parameters: 1, or the number of channels.
        init: what the slopes begin with.

    Shape:
        input: (N, C, *) or, for one slope, any; the result has the same

    Raises:
        RuntimeError: the number of slopes is neither 1 nor that of channels

    >>> import flambeau
    >>> flambeau.nn.PReLU()(flambeau.tensor([-4.0, 2.0])).detach()
    tensor([-1.,  2.])
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all slopes to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class ELU(Module):
    """x where it is positive, else `alpha` · (exp(x) - 1) (Clevert et al., 2015).

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: the input is of integers

    >>> import flambeau
    >>> flambeau.nn.ELU()(flambeau.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{_inplace(self)}"


class CELU(ELU):
    """x where it is positive, else `alpha` · (exp(x / alpha) - 1) (Barron, 2017).

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: `alpha` is 0

    >>> import flambeau
    >>> flambeau.nn.CELU()(flambeau.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class GELU(Module):
    """x · Phi(x) with the normal distribution function Phi (Hendrycks and Gimpel, 2016).

    `approximate="tanh"` takes the cheaper formula of the paper.

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: `approximate` is neither "none" nor "tanh"

    >>> import flambeau
    >>> flambeau.nn.GELU()(flambeau.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta · x)) / beta, and x itself where beta · x is above `threshold`.

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.nn.Softplus()(flambeau.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardshrink(Module):
    """x where it is outside of ±`lambd`, else 0.

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.nn.Hardshrink()(flambeau.tensor([-0.3, 0.5, 2.0]))
    tensor([0., 0., 2.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    """sign(x) · max(|x| - lambd, 0): x moved towards zero by `lambd`, and 0 within ±`lambd`.

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: `lambd` is negative

    >>> import flambeau
    >>> flambeau.nn.Softshrink()(flambeau.tensor([0.3, 2.0, -2.0]))
    tensor([ 0.0000,  1.5000, -1.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.nn.Sigmoid()(flambeau.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class Tanh(Module):
    """(e^x - e^-x) / (e^x + e^-x), the hyperbolic tangent.

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.nn.Tanh()(flambeau.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class LogSigmoid(Module):
    """log(1 / (1 + exp(-x))).

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.nn.LogSigmoid()(flambeau.tensor([0.0, -100.0]))
    tensor([  -0.6931, -100.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|).

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.nn.Softsign()(flambeau.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.nn.Tanhshrink()(flambeau.tensor([0.0, 2.0]))
    tensor([0.0000, 1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class GLU(Module):
    """a · sigmoid(b) for the halves a and b of the input along `dim` (Dauphin et al., 2016).

    Shape:
        input: (*, 2n, *); result: (*, n, *)

    Raises:
        RuntimeError: the size along `dim` is odd

    >>> import flambeau
    >>> flambeau.nn.GLU()(flambeau.tensor([3.0, 5.0, 0.0, 100.0]))
    tensor([1.5000, 5.0000])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(Module):
    """exp(x) / sum(exp(x)) along `dim`; without `dim` it is guessed, which is deprecated.

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Softmax(dim=1)(flambeau.zeros(1, 4))
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(Softmax):
    """exp(-x) / Σ exp(-x) along `dim`: the softmax of -x.

    Shape:
        input: any; the result has the same

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.nn.Softmin(dim=0)(flambeau.tensor([0.0, 1.0]))
    tensor([0.7311, 0.2689])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)


class LogSoftmax(Softmax):
    """x - log Σ exp(x), the logarithm of the softmax along `dim`.

    Shape:
        input: any; the result has the same

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.nn.LogSoftmax(dim=1)(flambeau.tensor([[0.0, 0.0]]))
    tensor([[-0.6931, -0.6931]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """The softmax over the channels of (N, C, H, W) or (C, H, W).

    Raises:
        ValueError: the input has other than 3 or 4 dimensions.

    >>> import flambeau
    >>> flambeau.nn.Softmax2d()(flambeau.zeros(2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)
