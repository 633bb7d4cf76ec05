"""Modules that bring values to one scale, and those that drop some."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ...core.make.create import empty, ones, zeros
from ...nn import functional as F
from ._module import Computed, Factor, own


class BatchNormalization(Computed):
    """(x - mean) / √(variance + eps) · weight + bias over a batch of vectors, with mean and variance of the batch in training
    and running ones in evaluation.

    Args:
        nOutput: the size of the vectors.
        eps: keeps the root away from 0.
        momentum: how much a batch counts in `running_mean` and `running_var`.
        affine: whether there are a weight and a bias.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.BatchNormalization(1, affine=False).forward(flambeau.tensor([[1.0], [3.0]]))
    tensor([[-1.0000],
            [ 1.0000]])
    """

    nDim = 2
    _version = 2
    affine = True

    def __init__(self, nOutput: int, eps: Factor = 1e-5, momentum: Factor = 0.1, affine: bool = True) -> None:
        super().__init__()
        if nOutput == 0:
            raise ValueError(f"{type(self).__name__}: nOutput is 0")
        self.affine = affine
        self.eps = eps
        self.momentum = momentum
        self.train = True
        self.running_mean = zeros(nOutput)
        self.running_var = ones(nOutput)
        if affine:
            self._has(weight=(nOutput,), bias=(nOutput,))
            self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        if self.weight is not None:
            self.weight.uniform_()
            self.bias.zero_()
        self.running_mean.zero_()
        self.running_var.fill_(1)
        return self

    def prepare(self, input: Any) -> None:
        if input.dim() != self.nDim:
            raise RuntimeError(
                f"only mini-batch supported ({self.nDim}D tensor), got {input.dim()}D tensor instead"
            )
        if input.shape[1] != self.running_mean.numel():
            raise RuntimeError(f"got {input.shape[1]}-feature tensor, expected {self.running_mean.numel()}")
        if self.train:
            dims = [d for d in range(input.dim()) if d != 1]
            for running, now in (
                (self.running_mean, input.mean(dims)),
                (self.running_var, input.var(dims, unbiased=input.numel() > input.shape[1])),
            ):
                running.lerp_(now, self.momentum)

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        if self.train:
            return F.batch_norm(input, None, None, weight, bias, True, 0.0, self.eps)
        return F.batch_norm(input, self.running_mean, self.running_var, weight, bias, False, 0.0, self.eps)

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        if version < 2 and isinstance(attributes.get("running_std"), Tensor):
            attributes = dict(attributes)
            attributes["running_var"] = own(attributes.pop("running_std")) ** -2 - attributes.get("eps", 1e-5)
        super()._from_lua(attributes, version)


class SpatialBatchNormalization(BatchNormalization):
    """The same over planes: inputs of (batch, nOutput, height, width).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialBatchNormalization(3).forward(flambeau.rand(2, 3, 4, 4)).shape
    flambeau.Size([2, 3, 4, 4])
    """

    nDim = 4


class VolumetricBatchNormalization(BatchNormalization):
    """The same over volumes: inputs of (batch, nOutput, time, height, width).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.VolumetricBatchNormalization(3).forward(flambeau.rand(2, 3, 2, 4, 4)).shape
    flambeau.Size([2, 3, 2, 4, 4])
    """

    nDim = 5


class Normalize(Computed):
    """The rows of a batch of vectors divided by their norm `p`, which may be `inf`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Normalize(2).forward(flambeau.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """

    _parameters = ()

    def __init__(self, p: Factor, eps: Factor = 1e-10) -> None:
        super().__init__()
        if p <= 0:
            raise ValueError(f"Normalize: p is not positive: {p}")
        self.p = p
        self.eps = eps

    def compute(self, input: Any) -> Any:
        if self.p == float("inf"):
            return input / (input.abs().max(-1, keepdim=True).values + self.eps)
        return input / (input.abs().pow(self.p).sum(-1, keepdim=True) + self.eps) ** (1 / self.p)

    def _shown(self) -> str:
        return f"({self.p})"


class Dropout(Computed):
    """In training, elements are 0 with probability `p`, and the others divided by 1 - p.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.Dropout(0.3)
    >>> net.evaluate()
    >>> net, net.forward(flambeau.ones(2))
    (nn.Dropout(0.3000), tensor([1., 1.]))
    """

    _parameters = ()
    noise: Any = None
    v2: bool  # False: what is kept is not divided, but multiplied in evaluation, as in files of before there was this

    def __init__(self, p: Factor = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = p
        self.inplace = inplace
        self.train = True
        self.v2 = True

    def setp(self, p: Factor) -> None:
        """Change the probability."""
        self.p = p

    def prepare(self, input: Any) -> None:
        if self.train:
            self.noise = input.new_empty(input.shape).bernoulli_(1 - self.p)
            if self.v2 and self.p < 1:
                self.noise /= 1 - self.p

    def compute(self, input: Any) -> Any:
        if self.train and self.p > 0:
            return input * self.noise
        return input.clone() if self.v2 else input * (1 - self.p)

    def _to_lua(self) -> dict[str, Any]:
        return {"noise": empty(0)} | super()._to_lua()

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        super()._from_lua({"v2": False, **attributes}, version)

    def clearState(self) -> Any:
        self.noise = None
        return super().clearState()

    def _shown(self) -> str:
        return f"({self.p:.4f})"


class SpatialDropout(Dropout):
    """In training, whole planes of (batch, planes, height, width) are 0 with probability `p`; in evaluation, all are
    multiplied by 1 - p.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.SpatialDropout(0.5)
    >>> net.evaluate()
    >>> net.forward(flambeau.ones(1, 1, 1, 2))
    tensor([[[[0.5000, 0.5000]]]])
    """

    _dims = 4

    def __init__(self, p: Factor = 0.5) -> None:
        super().__init__(p)

    def prepare(self, input: Any) -> None:
        if input.dim() != self._dims:
            raise RuntimeError(f"Input must be {self._dims}D, a batch, not {input.dim()}D")
        if self.train:
            self.noise = input.new_empty(*input.shape[:2], *(1,) * (self._dims - 2)).bernoulli_(1 - self.p)

    def compute(self, input: Any) -> Any:
        return input * (self.noise if self.train else 1 - self.p)


class VolumetricDropout(SpatialDropout):
    """The same of whole volumes of (batch, planes, time, height, width).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.VolumetricDropout().forward(flambeau.ones(1, 2, 1, 1, 3)).shape
    flambeau.Size([1, 2, 1, 1, 3])
    """

    _dims = 5


class SpatialCrossMapLRN(Computed):
    """x / (k + alpha / size · sum of the squares of `size` planes around) to the power beta, for inputs of (batch, planes,
    height, width).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialCrossMapLRN(1, 1, 1).forward(flambeau.ones(1, 1, 1, 1)).item()
    0.5
    """

    _parameters = ()

    def __init__(self, size: int, alpha: Factor = 1e-4, beta: Factor = 0.75, k: Factor = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def compute(self, input: Any) -> Any:
        if input.dim() != 4:
            raise RuntimeError(f"SpatialCrossMapLRN: 4D tensor expected, got {input.dim()}D")
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class _Local(Computed):
    """What normalises by a weighted mean over the places around, in all planes together."""

    _parameters = ()

    def __init__(self, nInputPlane: int = 1, kernel: Tensor | None = None) -> None:
        super().__init__()
        self.nInputPlane = nInputPlane
        self.kernel = ones(9, 9) if kernel is None else kernel
        if self.kernel.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__} averaging kernel must be 2D or 1D")
        if any(n % 2 == 0 for n in self.kernel.shape):
            raise ValueError(f"{type(self).__name__} averaging kernel must have ODD dimensions")

    def _sums(self, x: Any) -> Any:
        """The weighted sum around each place in all planes, in one plane; the weights' sum is 1, of those inside less."""
        kernel = self.kernel.to(x.dtype)
        kernel = kernel.outer(kernel) if kernel.dim() == 1 else kernel
        weight = (kernel / (kernel.sum() * self.nInputPlane)).expand(1, self.nInputPlane, *kernel.shape)
        return F.conv2d(x, weight, padding=[n // 2 for n in kernel.shape])


class SpatialSubtractiveNormalization(_Local):
    """x less the mean around each place, weighted with a kernel of odd sizes, by default 9 × 9 ones.

    Shape:
        input: (batch, planes, height, width), or without a batch; the result has the same

    Raises:
        ValueError: the kernel has an even size

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialSubtractiveNormalization(1, flambeau.ones(3)).forward(flambeau.ones(1, 1, 2, 2)).abs().max() < 1e-6
    tensor(True)
    """

    def compute(self, input: Any) -> Any:
        return _centered(self, input)


class SpatialDivisiveNormalization(_Local):
    """x over the root of the mean square around each place, or over `thresval` where that is not above `threshold`; near edges
    it is the root of the sum of squares, over the sum of the weights inside.

    Shape:
        input: (batch, planes, height, width), or without a batch; the result has the same

    Raises:
        ValueError: the kernel has an even size

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialDivisiveNormalization(1, flambeau.ones(3)).forward(flambeau.full((1, 3, 3), 4.0))[0, 1, 1].item()
    1.0
    """

    def __init__(
        self,
        nInputPlane: int = 1,
        kernel: Tensor | None = None,
        threshold: Factor = 1e-4,
        thresval: Factor | None = None,
    ) -> None:
        super().__init__(nInputPlane, kernel)
        self.threshold = threshold
        self.thresval = threshold if thresval is None else thresval

    def compute(self, input: Any) -> Any:
        deviation = self._sums(input * input).sqrt() / self._sums(input.new_ones(input.shape))
        return input / F.threshold(deviation, self.threshold, self.thresval)


class SpatialContrastiveNormalization(SpatialDivisiveNormalization):
    """`SpatialSubtractiveNormalization`, and of the result `SpatialDivisiveNormalization`.

    Shape:
        input: (batch, planes, height, width), or without a batch; the result has the same

    Raises:
        ValueError: the kernel has an even size

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialContrastiveNormalization(3).forward(flambeau.rand(2, 3, 8, 8)).shape
    flambeau.Size([2, 3, 8, 8])
    """

    def compute(self, input: Any) -> Any:
        return super().compute(_centered(self, input))


def _centered(module: _Local, input: Any) -> Any:
    return input - module._sums(input) / module._sums(input.new_ones(input.shape))
