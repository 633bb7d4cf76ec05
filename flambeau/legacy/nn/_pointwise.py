"""Modules of one element, or of one row: activations and arithmetic."""

from __future__ import annotations

from typing import Any

from ...core.make.create import empty
from ...nn import functional as F
from ._module import Computed, Factor


class Identity(Computed):
    """The input: any table.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Identity().forward(flambeau.tensor([1.0]))
    tensor([1.])
    """

    _parameters = ()

    def updateOutput(self, input: Any) -> Any:
        self.output = input
        return input

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        self.gradInput = gradOutput
        return gradOutput


class _Pointwise(Computed):
    _parameters = ()


class Abs(_Pointwise):
    """|x|.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Abs().forward(flambeau.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """

    def compute(self, input: Any) -> Any:
        return input.abs()


class Square(_Pointwise):
    """x².

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Square().forward(flambeau.tensor([-1.0, 2.0]))
    tensor([1., 4.])
    """

    def compute(self, input: Any) -> Any:
        return input * input


class Sqrt(_Pointwise):
    """√(x + `eps`).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Sqrt().forward(flambeau.tensor([1.0, 4.0]))
    tensor([1., 2.])
    """

    eps: Factor = 0

    def __init__(self, b: Factor = 0) -> None:
        super().__init__()
        self.eps = b

    def compute(self, input: Any) -> Any:
        return (input + self.eps).sqrt() if self.eps else input.sqrt()


class Power(_Pointwise):
    """x to the power `p`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Power(3).forward(flambeau.tensor([1.0, 2.0]))
    tensor([1., 8.])
    """

    def __init__(self, p: Factor) -> None:
        super().__init__()
        self.pow = p

    def compute(self, input: Any) -> Any:
        return input**self.pow


class Exp(_Pointwise):
    """e to the power x.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Exp().forward(flambeau.tensor([0.0]))
    tensor([1.])
    """

    def compute(self, input: Any) -> Any:
        return input.exp()


class Log(_Pointwise):
    """The natural logarithm of x.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Log().forward(flambeau.tensor([1.0]))
    tensor([0.])
    """

    def compute(self, input: Any) -> Any:
        return input.log()


class AddConstant(_Pointwise):
    """x + `constant_scalar`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.AddConstant(3).forward(flambeau.tensor([1.0]))
    tensor([4.])
    """

    def __init__(self, constant_scalar: Factor, inplace: bool = False) -> None:
        super().__init__()
        self.constant_scalar = constant_scalar
        self.inplace = inplace

    def compute(self, input: Any) -> Any:
        return input + self.constant_scalar


class MulConstant(_Pointwise):
    """x · `constant_scalar`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.MulConstant(3).forward(flambeau.tensor([2.0]))
    tensor([6.])
    """

    def __init__(self, constant_scalar: Factor, inplace: bool = False) -> None:
        super().__init__()
        self.constant_scalar = constant_scalar
        self.inplace = inplace

    def compute(self, input: Any) -> Any:
        return input * self.constant_scalar


class GradientReversal(_Pointwise):
    """x, but gradients become `-lambd` times themselves.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net, x = nn.GradientReversal(), flambeau.tensor([1.0])
    >>> net.forward(x), net.backward(x, flambeau.tensor([5.0]))
    (tensor([1.]), tensor([-5.]))
    """

    _in_lua = {"lambd": "lambda"}
    _version = 2
    lambd: Factor = 1

    def __init__(self, lambd: Factor = 1) -> None:
        super().__init__()
        self.lambd = lambd

    def setLambda(self, lambd: Factor) -> None:
        """Change the factor."""
        self.lambd = lambd

    def compute(self, input: Any) -> Any:
        return input.view_as(input)

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        self.gradInput = gradOutput * -self.lambd
        return self.gradInput


class Threshold(_Pointwise):
    """x where it is greater than `threshold`, else `value`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Threshold(1, -7).forward(flambeau.tensor([0.5, 2.0]))
    tensor([-7.,  2.])
    """

    _in_lua = {"value": "val"}

    def __init__(self, threshold: Factor = 0, value: Factor = 0, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def compute(self, input: Any) -> Any:
        return F.threshold(input, self.threshold, self.value)


class ReLU(Threshold):
    """max(x, 0).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.ReLU().forward(flambeau.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0, 0, inplace)


class ReLU6(_Pointwise):
    """x between 0 and 6.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.ReLU6().forward(flambeau.tensor([-1.0, 2.0, 9.0]))
    tensor([0., 2., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def compute(self, input: Any) -> Any:
        return F.relu6(input)


class HardTanh(_Pointwise):
    """x between `min_value` and `max_value`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.HardTanh().forward(flambeau.tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    def __init__(self, min_value: Factor = -1, max_value: Factor = 1, inplace: bool = False) -> None:
        super().__init__()
        if max_value <= min_value:
            raise ValueError(f"HardTanh: max_value {max_value} is not greater than min_value {min_value}")
        self.min_val = min_value
        self.max_val = max_value
        self.inplace = inplace

    def compute(self, input: Any) -> Any:
        return F.hardtanh(input, self.min_val, self.max_val)


class Clamp(HardTanh):
    """x between `min_value` and `max_value`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Clamp(0, 2).forward(flambeau.tensor([-3.0, 5.0]))
    tensor([0., 2.])
    """

    def __init__(self, min_value: Factor, max_value: Factor) -> None:
        super().__init__(min_value, max_value)


class ELU(_Pointwise):
    """x where it is positive, else `alpha` · (eˣ - 1).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.ELU().forward(flambeau.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """

    alpha: Factor = 1

    def __init__(self, alpha: Factor = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def compute(self, input: Any) -> Any:
        return F.elu(input, self.alpha)

    def _shown(self) -> str:
        return f"(alpha={self.alpha})"


class LeakyReLU(_Pointwise):
    """x where it is positive, else `negval` · x.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.LeakyReLU(0.5).forward(flambeau.tensor([-2.0, 2.0]))
    tensor([-1.,  2.])
    """

    negval: Factor = 0.01

    def __init__(self, negval: Factor = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negval = negval
        self.inplace = inplace

    def compute(self, input: Any) -> Any:
        return F.leaky_relu(input, self.negval)

    def _shown(self) -> str:
        return f"({self.negval})"


class RReLU(_Pointwise):
    """x where it is positive, else x times a random number between `lower` and `upper`: another one for each element in
    training, their mean in evaluation.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.RReLU(0.5, 0.5)
    >>> net.forward(flambeau.tensor([-2.0, 2.0]))
    tensor([-1.,  2.])
    """

    noise: Any = None

    def __init__(self, lower: Factor = 1 / 8, upper: Factor = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= lower <= upper:
            raise ValueError(f"RReLU: 0 <= lower <= upper is needed, not {lower} and {upper}")
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def prepare(self, input: Any) -> None:
        self.noise = input.new_empty(input.shape).uniform_(self.lower, self.upper) if self.train else None

    def compute(self, input: Any) -> Any:
        if not self.train:
            return F.leaky_relu(input, (self.lower + self.upper) / 2)
        return input.clamp(min=0) + input.clamp(max=0) * self.noise

    def clearState(self) -> Any:
        self.noise = None
        return super().clearState()

    def _to_lua(self) -> dict[str, Any]:
        return {"noise": empty(0)} | super()._to_lua()

    def _shown(self) -> str:
        return f"({self.lower:.4f}, {self.upper:.4f})"


class PReLU(Computed):
    """x where it is positive, else x times the weight, 0.25 at first: one for all, or one for each of `nOutputPlane` planes.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.PReLU().forward(flambeau.tensor([-2.0, 2.0]))
    tensor([-0.5000,  2.0000])
    """

    _parameters = ("weight",)

    def __init__(self, nOutputPlane: int = 0) -> None:
        super().__init__()
        self.nOutputPlane = nOutputPlane
        self._has(weight=(nOutputPlane or 1,))
        self.weight.fill_(0.25)

    def compute(self, input: Any, weight: Any) -> Any:
        if weight.numel() == 1 or input.dim() > 1 and input.dim() % 2 == 0:
            return F.prelu(input, weight)
        slope = weight.view(-1, *(1,) * (input.dim() - 1))  # one sample without a batch
        return input.clamp(min=0) + input.clamp(max=0) * slope

    def _shown(self) -> str:
        return f"({self.nOutputPlane})"


class HardShrink(_Pointwise):
    """x where |x| is greater than `lambd`, else 0.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.HardShrink().forward(flambeau.tensor([0.25, 2.0]))
    tensor([0., 2.])
    """

    _in_lua = {"lambd": "lambda"}

    def __init__(self, lambd: Factor = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def compute(self, input: Any) -> Any:
        return F.hardshrink(input, self.lambd)


class SoftShrink(_Pointwise):
    """x brought nearer to 0 by `lambd`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SoftShrink().forward(flambeau.tensor([0.25, 2.0]))
    tensor([0.0000, 1.5000])
    """

    _in_lua = {"lambd": "lambda"}

    def __init__(self, lambd: Factor = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def compute(self, input: Any) -> Any:
        return F.softshrink(input, self.lambd)


class Sigmoid(_Pointwise):
    """1 / (1 + e⁻ˣ).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Sigmoid().forward(flambeau.tensor([0.0]))
    tensor([0.5000])
    """

    def compute(self, input: Any) -> Any:
        return input.sigmoid()


class LogSigmoid(_Pointwise):
    """-log(1 + e⁻ˣ).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.LogSigmoid().forward(flambeau.tensor([0.0]))
    tensor([-0.6931])
    """

    def compute(self, input: Any) -> Any:
        return F.logsigmoid(input)


class Tanh(_Pointwise):
    """The hyperbolic tangent.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Tanh().forward(flambeau.tensor([0.0]))
    tensor([0.])
    """

    def compute(self, input: Any) -> Any:
        return input.tanh()


class TanhShrink(_Pointwise):
    """x - tanh x.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.TanhShrink().forward(flambeau.tensor([0.0]))
    tensor([0.])
    """

    def compute(self, input: Any) -> Any:
        return F.tanhshrink(input)


class SoftPlus(_Pointwise):
    """log(1 + e to the power `beta` · x) / `beta`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SoftPlus().forward(flambeau.tensor([0.0]))
    tensor([0.6931])
    """

    threshold = 20

    def __init__(self, beta: Factor = 1) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = 20

    def compute(self, input: Any) -> Any:
        return F.softplus(input, self.beta, self.threshold)


class SoftSign(_Pointwise):
    """x / (1 + |x|).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SoftSign().forward(flambeau.tensor([1.0]))
    tensor([0.5000])
    """

    def compute(self, input: Any) -> Any:
        return F.softsign(input)


def _classes(input: Any) -> int:
    """The dimension of the classes: the first one of a sample (1 or 3 dimensions), the second of a batch (2 or 4)."""
    if input.dim() not in (1, 2, 3, 4):
        raise RuntimeError(f"1D, 2D, 3D or 4D tensor expected, got {input.dim()}D")
    return 0 if input.dim() in (1, 3) else 1


class SoftMax(_Pointwise):
    """eˣ over the sum of them: over the first dimension of 1-D and 3-D inputs, the second of 2-D and 4-D ones.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SoftMax().forward(flambeau.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def compute(self, input: Any) -> Any:
        return input.softmax(_classes(input))


class SpatialSoftMax(SoftMax):
    """`SoftMax` over the planes of (planes, height, width) or of a batch of them.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialSoftMax().forward(flambeau.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """


class SoftMin(_Pointwise):
    """`SoftMax` of -x.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SoftMin().forward(flambeau.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def compute(self, input: Any) -> Any:
        return (-input).softmax(_classes(input))


class LogSoftMax(_Pointwise):
    """The logarithm of `SoftMax`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.LogSoftMax().forward(flambeau.zeros(1, 2))
    tensor([[-0.6931, -0.6931]])
    """

    def compute(self, input: Any) -> Any:
        return input.log_softmax(_classes(input))


class L1Penalty(_Pointwise):
    """The input, with a penalty on it: `loss` is `l1weight` times the sum of |x| (`sizeAverage`: the mean), whose gradient
    is added to that of the output (`provideOutput=False`: takes its place).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net, x = nn.L1Penalty(2), flambeau.tensor([-1.0, 3.0])
    >>> net.forward(x), net.loss, net.backward(x, flambeau.zeros(2))
    (tensor([-1.,  3.]), 8.0, tensor([-2.,  2.]))
    """

    def __init__(self, l1weight: Factor, sizeAverage: bool = False, provideOutput: bool = True) -> None:
        super().__init__()
        self.l1weight = l1weight
        self.sizeAverage = sizeAverage
        self.provideOutput = provideOutput

    def _weight(self, input: Any) -> Factor:
        return self.l1weight / input.numel() if self.sizeAverage else self.l1weight

    def prepare(self, input: Any) -> None:
        self.loss = self._weight(input) * input.abs().sum().item()

    def compute(self, input: Any) -> Any:
        return input.view_as(input)

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        self.gradInput = input.sign() * self._weight(input)
        if self.provideOutput:
            self.gradInput = self.gradInput + gradOutput
        return self.gradInput
