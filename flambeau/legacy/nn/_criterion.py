"""Criterions: what a network's output is measured with."""

from __future__ import annotations

import copy
from typing import Any

from ..._tensor import Tensor
from ...autograd import no_grad
from ...core.make.create import empty, zeros
from ...nn import functional as F
from ._module import Factor, type_of
from ._pointwise import LogSoftMax, Sigmoid
from ._recording import Recording
from .utils import recursiveType


class Criterion:
    """The base of all criterions: `forward` gives and keeps the loss `output`, a number; `backward` gives and keeps its
    gradient `gradInput`.

    One of one's own that is a formula defines `compute(input, target)`; its gradient comes from the tape.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> class Fourth(nn.Criterion):
    ...     def compute(self, input, target):
    ...         return ((input - target) ** 4).sum()
    >>> c, x = Fourth(), flambeau.tensor([2.0])
    >>> c.forward(x, flambeau.zeros(1)), c.backward(x, flambeau.zeros(1))
    (16.0, tensor([32.]))
    """

    _recording: Recording | None = None
    _version = 1
    sizeAverage = True
    weights: Any = None

    def __init__(self) -> None:
        self.gradInput: Any = empty(0)
        self.output: Any = 0
        self._type = empty(0).type()

    def __repr__(self) -> str:
        return f"nn.{self.__class__.__name__}"

    def compute(self, input: Any, target: Any) -> Any:
        """The loss, as a tensor of one element."""
        raise NotImplementedError(
            f"{self.__class__.__name__} has no formula: define compute(self, input, target)"
        )

    def updateOutput(self, input: Any, target: Any) -> Any:
        """Set and return `output`, the loss."""
        self._record(input, target)
        return self.output

    def _record(self, input: Any, target: Any) -> Recording:
        made = Recording(lambda x: self.compute(x, target), input, ())
        made.inputs += _all(target)  # whose elements count, too
        made.look()
        self._recording = made
        self.output = made.output.item()
        return made

    def updateGradInput(self, input: Any, target: Any) -> Any:
        """Set and return `gradInput`, the gradient of the loss."""
        recording = self._recording
        if recording is None or not recording.is_of(input, _all(target)):
            recording = self._record(input, target)
        self.gradInput = recording.gradients_of_input(recording.output.new_ones(recording.output.shape))
        return self.gradInput

    def forward(self, input: Any, target: Any) -> Any:
        """The loss: `updateOutput`."""
        return self.updateOutput(input, target)

    def backward(self, input: Any, target: Any) -> Any:
        """The gradient of the loss: `updateGradInput`."""
        return self.updateGradInput(input, target)

    def clone(self) -> Any:
        """A copy."""
        return copy.deepcopy(self)

    def type(self, type: Any = None, tensorCache: dict | None = None) -> Any:
        """The type of the criterion's tensors, as a name; given one (or a dtype), convert them and return the criterion."""
        if type is None:
            return self._type
        self._recording = None
        cache: dict = {} if tensorCache is None else tensorCache
        for name, value in list(vars(self).items()):
            setattr(self, name, recursiveType(value, type, cache))
        self._type = empty(0).type(type).type()
        return self

    def float(self) -> Any:
        """The criterion in single precision."""
        return self.type("torch.FloatTensor")

    def double(self) -> Any:
        """The criterion in double precision."""
        return self.type("torch.DoubleTensor")

    def cuda(self) -> Any:
        """The criterion on the CUDA device."""
        return self.type("torch.cuda.FloatTensor")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_recording"}

    def _to_lua(self) -> dict[str, Any]:
        made = {name: value for name, value in self.__getstate__().items() if value is not None}
        return made | {"_type": f"torch.{self._type.rpartition('.')[2]}"}

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        vars(self).update(attributes)
        vars(self)["_type"] = type_of(attributes.get("_type"))
        for name, value in (("output", 0), ("gradInput", empty(0))):
            vars(self).setdefault(name, value)

    def _reduction(self) -> str:
        return "mean" if self.sizeAverage else "sum"


def _all(target: Any) -> list[Any]:
    if isinstance(target, (list, tuple)):
        return [x for part in target for x in _all(part)]
    return [target]


class _Averaged(Criterion):
    def __init__(self, sizeAverage: bool = True) -> None:
        super().__init__()
        self.sizeAverage = sizeAverage


class AbsCriterion(_Averaged):
    """The mean of |x - y|; `sizeAverage=False`: the sum.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.AbsCriterion().forward(flambeau.tensor([1.0, -3.0]), flambeau.zeros(2))
    2.0
    """

    def compute(self, input: Any, target: Any) -> Any:
        return F.l1_loss(input, target, reduction=self._reduction())


class MSECriterion(_Averaged):
    """The mean of (x - y)²; `sizeAverage=False`: the sum.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.MSECriterion().forward(flambeau.tensor([1.0, -3.0]), flambeau.zeros(2))
    5.0
    """

    def compute(self, input: Any, target: Any) -> Any:
        return F.mse_loss(input, target, reduction=self._reduction())


class WeightedMSECriterion(_Averaged):
    """The mean of (x - weight · y)², with a weight for each element of a sample, or of the batch.

    Shape:
        input, target: any, the same; weight: that of a sample, or of the batch; the result is a number

    Raises:
        RuntimeError: the shapes differ

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.WeightedMSECriterion(flambeau.tensor([1.0, 0.0])).forward(flambeau.ones(1, 2), flambeau.ones(1, 2))
    0.5
    """

    def __init__(self, weight: Tensor, sizeAverage: bool = True) -> None:
        super().__init__(sizeAverage)
        self.weight = weight.clone()

    def compute(self, input: Any, target: Any) -> Any:
        return F.mse_loss(input, target * self.weight, reduction=self._reduction())


class SmoothL1Criterion(_Averaged):
    """The mean of (x - y)² / 2 where |x - y| < 1, of |x - y| - 1/2 elsewhere; `sizeAverage=False`: the sum.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SmoothL1Criterion().forward(flambeau.tensor([1.0, 3.0]), flambeau.zeros(2))
    1.5
    """

    def compute(self, input: Any, target: Any) -> Any:
        return F.smooth_l1_loss(input, target, reduction=self._reduction())


class DistKLDivCriterion(_Averaged):
    """The mean of y · (log y - x) over the elements with y > 0, for logarithms x; `sizeAverage=False`: the sum.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.DistKLDivCriterion().forward(flambeau.tensor([-1.0, -2.0]), flambeau.tensor([1.0, 0.0]))
    0.5
    """

    def compute(self, input: Any, target: Any) -> Any:
        return F.kl_div(input, target, reduction=self._reduction())


class BCECriterion(_Averaged):
    """The mean of -y · log x - (1 - y) · log(1 - x), with a weight for each of the last elements if given;
    `sizeAverage=False`: the sum.

    Shape:
        input, target: any, the same; the result is a number

    Raises:
        RuntimeError: the shapes differ

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> round(nn.BCECriterion().forward(flambeau.tensor([0.5]), flambeau.ones(1)), 4)
    0.6931
    """

    eps = 1e-12

    def __init__(self, weights: Tensor | None = None, sizeAverage: bool = True) -> None:
        super().__init__(sizeAverage)
        if weights is not None and weights.dim() != 1:
            raise ValueError("weights input should be 1D Tensor")
        self.weights = weights

    def compute(self, input: Any, target: Any) -> Any:
        if input.numel() != target.numel():
            raise RuntimeError("input and target size mismatch")
        target = target.view(input.shape)
        loss = -target * (input + self.eps).log() - (1 - target) * (1 + self.eps - input).log()
        loss = loss if self.weights is None else loss * self.weights
        return loss.mean() if self.sizeAverage else loss.sum()


class _ByClass(_Averaged):
    def __init__(self, weights: Tensor | None = None, sizeAverage: bool = True) -> None:
        super().__init__(sizeAverage)
        if weights is not None and weights.dim() != 1:
            raise ValueError(
                f"{self.__class__.__name__}: weights are a vector, got {weights.dim()} dimensions"
            )
        self.weights = weights


class ClassNLLCriterion(_ByClass):
    """The mean of -x[class], for logarithms x of (classes,) or (batch, classes), weighted by the class if weights are given;
    `sizeAverage=False`: the sum.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.ClassNLLCriterion().forward(flambeau.tensor([[-1.0, -2.0]]), flambeau.tensor([1]))
    2.0
    """

    ignore_index = -100

    def compute(self, input: Any, target: Any) -> Any:
        target = target.long().view(()) if input.dim() == 1 else target.long()
        return F.nll_loss(
            input, target, self.weights, ignore_index=self.ignore_index, reduction=self._reduction()
        )


class SpatialClassNLLCriterion(ClassNLLCriterion):
    """The same over planes: logarithms of (batch, classes, height, width), classes of (batch, height, width), of which
    `ignore_index` does not count.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialClassNLLCriterion().forward(flambeau.full((1, 2, 1, 1), -3.0), flambeau.tensor([[[1]]]))
    3.0
    """

    def __init__(
        self, weights: Tensor | None = None, sizeAverage: bool = True, ignore_index: int = -100
    ) -> None:
        super().__init__(weights, sizeAverage)
        self.ignore_index = ignore_index


class CrossEntropyCriterion(_ByClass):
    """`ClassNLLCriterion` of `LogSoftMax`.

    Shape:
        input: (batch, classes), or (classes,); target: (batch,), or one number

    Raises:
        ValueError: the batches differ

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> round(nn.CrossEntropyCriterion().forward(flambeau.zeros(1, 2), flambeau.tensor([1])), 4)
    0.6931
    """

    def compute(self, input: Any, target: Any) -> Any:
        input, target = input.squeeze(), target.long().squeeze()
        return F.cross_entropy(input, target, self.weights, reduction=self._reduction())

    def _to_lua(self) -> dict[str, Any]:
        """Lua's are made of two parts."""
        return super()._to_lua() | {
            "lsm": LogSoftMax(),
            "nll": ClassNLLCriterion(self.weights, self.sizeAverage),
        }

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        _of_parts(attributes)
        super()._from_lua(attributes, version)


def _of_parts(attributes: dict[str, Any]) -> None:
    """The settings of a criterion that Lua makes of two parts, of which the second has them."""
    attributes.pop("lsm", None)
    settings = getattr(attributes.pop("nll", None), "__dict__", {})
    attributes.update({name: settings[name] for name in ("weights", "sizeAverage") if name in settings})


class MultiLabelSoftMarginCriterion(_ByClass):
    """The mean of -y · log p - (1 - y) · log(1 - p), with p the sigmoid of x.

    Shape:
        input, target: (batch, classes), or (classes,)

    Raises:
        ValueError: the shapes differ

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> round(nn.MultiLabelSoftMarginCriterion().forward(flambeau.zeros(1, 2), flambeau.ones(1, 2)), 4)
    0.6931
    """

    def compute(self, input: Any, target: Any) -> Any:
        return F.binary_cross_entropy_with_logits(input, target, self.weights, reduction=self._reduction())

    def _to_lua(self) -> dict[str, Any]:
        return super()._to_lua() | {"lsm": Sigmoid(), "nll": BCECriterion(self.weights, self.sizeAverage)}

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        _of_parts(attributes)
        super()._from_lua(attributes, version)


class MultiLabelMarginCriterion(_Averaged):
    """The mean of max(0, 1 - (x[y] - x[i])) over the classes y in the target (before the first -1) and the i that are not.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.MultiLabelMarginCriterion().forward(flambeau.tensor([1.0, 0.5]), flambeau.tensor([0, -1]))
    0.25
    """

    def compute(self, input: Any, target: Any) -> Any:
        return F.multilabel_margin_loss(input, target.long(), reduction=self._reduction())


class MultiMarginCriterion(_Averaged):
    """The mean of max(0, margin - x[y] + x[i]) to the power p over the classes i that are not y.

    Shape:
        input: (batch, classes), or (classes,); target: (batch,), or one number

    Raises:
        RuntimeError: the batches differ

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.MultiMarginCriterion().forward(flambeau.tensor([[1.0, 0.5]]), flambeau.tensor([0]))
    0.25
    """

    p = 1
    margin: Factor = 1

    def __init__(
        self, p: int = 1, weights: Tensor | None = None, margin: Factor = 1, sizeAverage: bool = True
    ) -> None:
        super().__init__(sizeAverage)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weights is not None and weights.dim() != 1:
            raise ValueError(f"MultiMarginCriterion: weights are a vector, got {weights.dim()} dimensions")
        self.p = p
        self.margin = margin
        self.weights = weights

    def compute(self, input: Any, target: Any) -> Any:
        target = target.long().view(()) if input.dim() == 1 else target.long()
        return F.multi_margin_loss(
            input, target, self.p, self.margin, self.weights, reduction=self._reduction()
        )


class SoftMarginCriterion(_Averaged):
    """The mean of log(1 + e to the power -y · x), for y of 1 and -1.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> round(nn.SoftMarginCriterion().forward(flambeau.zeros(2), flambeau.ones(2)), 4)
    0.6931
    """

    def compute(self, input: Any, target: Any) -> Any:
        return F.soft_margin_loss(input, target, reduction=self._reduction())


class _WithMargin(_Averaged):
    margin: Factor

    def __init__(self, margin: Factor = 1, sizeAverage: bool = True) -> None:
        super().__init__(sizeAverage)
        self.margin = margin


class MarginCriterion(_WithMargin):
    """The mean of max(0, margin - y · x), for y of 1 and -1.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.MarginCriterion().forward(flambeau.tensor([0.5, 3.0]), flambeau.ones(2))
    0.25
    """

    def compute(self, input: Any, target: Any) -> Any:
        loss = (self.margin - input * target).clamp(min=0)
        return loss.mean() if self.sizeAverage else loss.sum()


class HingeEmbeddingCriterion(_WithMargin):
    """The mean of x where y is 1 and of max(0, margin - x) where it is -1.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.HingeEmbeddingCriterion().forward(flambeau.tensor([0.5, 0.25]), flambeau.tensor([1.0, -1.0]))
    0.625
    """

    def compute(self, input: Any, target: Any) -> Any:
        if not isinstance(target, Tensor):
            target = input.new_full(input.shape, target)
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self._reduction())


class L1HingeEmbeddingCriterion(Criterion):
    """The distance in the 1-norm of the two tensors of a list for y = 1, and max(0, margin - distance) for y = -1.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.L1HingeEmbeddingCriterion(5).forward([flambeau.ones(2), flambeau.zeros(2)], -1)
    3.0
    """

    def __init__(self, margin: Factor = 1) -> None:
        super().__init__()
        self.margin = margin

    def compute(self, input: Any, target: Any) -> Any:
        distance = (input[0] - input[1]).abs().sum()
        return (self.margin - distance).clamp(min=0) if target == -1 else distance


class MarginRankingCriterion(_WithMargin):
    """The mean of max(0, -y · (x₁ - x₂) + margin) for the two tensors of a list.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.MarginRankingCriterion().forward([flambeau.tensor([0.5]), flambeau.tensor([0.25])], 1)
    0.75
    """

    def compute(self, input: Any, target: Any) -> Any:
        loss = (-target * (input[0] - input[1]) + self.margin).clamp(min=0)
        return loss.mean() if self.sizeAverage else loss.sum()


class CosineEmbeddingCriterion(_WithMargin):
    """The mean of 1 - cos(x₁, x₂) where y is 1 and of max(0, cos(x₁, x₂) - margin) where it is -1, for the two tensors of a
    list, vectors or batches of them.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.CosineEmbeddingCriterion().forward([flambeau.ones(1, 2), flambeau.ones(1, 2)], flambeau.tensor([-1]))
    1.0
    """

    def __init__(self, margin: Factor = 0, sizeAverage: bool = True) -> None:
        super().__init__(margin, sizeAverage)

    def compute(self, input: Any, target: Any) -> Any:
        a, b = (x if x.dim() == 2 else x.unsqueeze(0) for x in input)
        squares = ((a * a).sum(1) + 1e-12) * ((b * b).sum(1) + 1e-12)
        cosine = (a * b).sum(1) / squares.sqrt()
        y = target if isinstance(target, Tensor) else cosine.new_full(cosine.shape, target)
        loss = (1 - cosine).where(y == 1, (cosine - self.margin).clamp(min=0))
        return loss.mean() if self.sizeAverage else loss.sum()


class L1Cost(Criterion):
    """The sum of |x|; there is no target.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.L1Cost().forward(flambeau.tensor([1.0, -3.0]))
    4.0
    """

    def forward(self, input: Any, target: Any = None) -> Any:
        return self.updateOutput(input, target)

    def backward(self, input: Any, target: Any = None) -> Any:
        return self.updateGradInput(input, target)

    def compute(self, input: Any, target: Any) -> Any:
        return input.abs().sum()


class ClassSimplexCriterion(MSECriterion):
    """`MSECriterion` between vectors and the vertices of a regular simplex, one for each class (arXiv:1506.08230).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> c = nn.ClassSimplexCriterion(3)
    >>> c.forward(c.simplex, flambeau.tensor([0, 1, 2]))
    0.0
    >>> c.getTopPrediction(c.simplex)
    tensor([0, 1, 2])
    """

    def __init__(self, nClasses: int) -> None:
        super().__init__()
        if nClasses < 2:
            raise ValueError(f"ClassSimplexCriterion: at least 2 classes, not {nClasses}")
        self.nClasses = nClasses
        self.simplex = zeros(nClasses, nClasses)
        self.simplex[:, : nClasses - 1] = _simplex(nClasses - 1)

    def compute(self, input: Any, target: Any) -> Any:
        if target.dim() != 1:
            raise RuntimeError(f"ClassSimplexCriterion: 1D target expected, got {target.dim()}D")
        return super().compute(input, self.simplex.to(input.dtype)[target.long()])

    def getPredictions(self, input: Tensor) -> Tensor:
        """The products with all vertices."""
        return input @ self.simplex.to(input.dtype).T

    def getTopPrediction(self, input: Tensor) -> Tensor:
        """The class whose vertex is nearest, for each vector."""
        return self.getPredictions(input).argmax(-1).view(-1)


def _simplex(n: int) -> Tensor:
    """The n + 1 vertices of a regular simplex around the origin of n dimensions, at distance 1 from it."""
    a = zeros(n + 1, n)
    with no_grad():
        for k in range(n):
            a[k, k] = (1 - (a[k, :k] ** 2).sum()).sqrt()
            a[k + 1 :, k] = (a[k, k] ** 2 - 1 - 1 / n) / a[k, k]  # products of two vertices are -1 / n
    return a
