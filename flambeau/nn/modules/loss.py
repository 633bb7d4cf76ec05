"""Loss layers; the formulas stand with their functions in `flambeau.nn.functional`.

All take `reduction`: 'mean' (the default), 'sum', or 'none' for one loss an element or sample. The arguments
`size_average` and `reduce` are PyTorch's deprecated forms of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..._tensor import Tensor
from ...core.base.lazily import lazily
from ...operations.neural.losses.losses import legacy_reduction
from .. import functional as F
from .distance import PairwiseDistance
from .module import Module

__getattr__, __dir__ = lazily(
    __name__,
    names=dict.fromkeys(("LinearCrossEntropyLoss", "LinearCrossEntropyOptions"), ".linear_cross_entropy"),
)

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class _Loss(Module):
    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        legacy = size_average is not None or reduce is not None
        self.reduction = legacy_reduction(size_average, reduce) if legacy else reduction


class _WeightedLoss(_Loss):
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """|input - target|.

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.nn.L1Loss()(flambeau.tensor([1.0, 2.0]), flambeau.tensor([3.0, 2.0]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """(input - target)².

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.MSELoss()(flambeau.tensor([1.0, 2.0]), flambeau.tensor([1.0, 4.0]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """(input - target)² / (2 beta) where that difference is below `beta`, else its modulus less beta / 2
    (Girshick, 2015).

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        RuntimeError: `beta` is negative

    >>> import flambeau
    >>> flambeau.nn.SmoothL1Loss(reduction="none")(flambeau.tensor([0.5, 3.0]), flambeau.zeros(2))
    tensor([0.1250, 2.5000])
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the squared error below `delta`, and linear above (Huber, 1964).

    Raises:
        TypeError: `delta` is no number.

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    >>> import flambeau
    >>> flambeau.nn.HuberLoss(reduction="none")(flambeau.tensor([0.5, 3.0]), flambeau.zeros(2))
    tensor([0.1250, 2.5000])
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_WeightedLoss):
    """-input[n, target[n]] for log-probabilities (N, C, ...) and class indices (N, ...).

    Args:
        weight: a factor for each class, of shape (C,).
        ignore_index: targets of this value count for nothing.

    Shape:
        input: (N, C, *) or (C,); target: (N, *) or (); result: () or, for reduction "none", as target

    Raises:
        IndexError: there is no such class

    >>> import flambeau
    >>> logs = flambeau.tensor([[0.5, 0.5], [0.25, 0.75]]).log()
    >>> flambeau.nn.NLLLoss(reduction="none")(logs, flambeau.tensor([0, 1]))
    tensor([0.6931, 0.2877])
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CrossEntropyLoss(_WeightedLoss):
    """The cross entropy between softmax(input) over the classes and the target.

    Input (N, C, ...) or (C); target either class indices (N, ...) or (), or probabilities of the input's
    shape.

    Args:
        weight: a factor for each class, of shape (C,).
        ignore_index: target indices of this value count for nothing.
        label_smoothing: how much of the target is spread evenly over the classes, 0 to 1 (Szegedy et al.,
            2015).

    Raises:
        IndexError: there is no such class
        RuntimeError: `label_smoothing` lies outside [0, 1]

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.CrossEntropyLoss()(flambeau.zeros(3, 4), flambeau.tensor([0, 1, 3]))
    tensor(1.3863)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(_WeightedLoss):
    """-(y log x + (1 - y) log(1 - x)) for probabilities x, whose logarithms are cut off at -100.
    `weight` is a
    factor.

    Shape:
        input, target: one shape; result: () or, for reduction "none", that shape

    Raises:
        RuntimeError: a probability is outside [0, 1]
        ValueError: the shapes differ

    >>> import flambeau
    >>> flambeau.nn.BCELoss()(flambeau.tensor([0.5, 1.0]), flambeau.tensor([1.0, 1.0]))
    tensor(0.3466)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """The binary cross entropy of sigmoid(input), computed without overflow.

    Args:
        weight: a factor for each element.
        pos_weight: a factor for positive targets, broadcast against them.

    Shape:
        input, target: one shape; result: () or, for reduction "none", that shape

    Raises:
        ValueError: the shapes differ

    >>> import flambeau
    >>> flambeau.nn.BCEWithLogitsLoss()(flambeau.tensor([0.0, 100.0]), flambeau.tensor([1.0, 1.0]))
    tensor(0.3466)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """target · (log target - input) for input log-probabilities; with `log_target` the target holds
    logarithms too.

    `reduction='batchmean'` divides the sum by the first size, which is what the mathematics wants; 'mean'
    divides it by the number of elements.

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> loss = flambeau.nn.KLDivLoss(reduction="batchmean")
    >>> loss(flambeau.tensor([[0.5, 0.5]]).log(), flambeau.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class NLLLoss2d(NLLLoss):
    """`NLLLoss`, of the same arguments and shapes, under its old name; it warns when it is made.

    Raises:
        ValueError: input and target are of different batches

    >>> import warnings
    >>> import flambeau
    >>> with warnings.catch_warnings(action="ignore"):
    ...     loss = flambeau.nn.NLLLoss2d()
    >>> image = flambeau.tensor([[[[-1.0, -2.0]], [[-3.0, -4.0]]]])  # log-probabilities (N, C, H, W)
    >>> loss(image, flambeau.tensor([[[0, 1]]]))  # -1 of class 0 at the left, -4 of class 1 at the right
    tensor(2.5000)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement and see "
            "https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class PoissonNLLLoss(_Loss):
    """exp(input) - target · input, for counts; with `log_input=False` the input is the rate itself.

    `full` adds Stirling's approximation of log(target!); `eps` keeps log(0) away without `log_input`.

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.nn.PoissonNLLLoss()(flambeau.tensor([0.0]), flambeau.tensor([3.0]))
    tensor(1.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """(log var + (input - target)² / var) / 2 with the variance `var` not below `eps` (Nix and Weigend,
    1994).

    `full` adds the constant log(2·pi) / 2.

    Shape:
        input, target: one shape; var: the same, with size 1 at the end, or without the last dimension;
            result: () or, for reduction "none", that of input

    Raises:
        ValueError: a variance is negative

    >>> import flambeau
    >>> flambeau.nn.GaussianNLLLoss()(flambeau.tensor([1.0]), flambeau.tensor([3.0]), flambeau.tensor([4.0]))
    tensor(1.1931)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target · input)), targets being 1 or -1.

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.nn.SoftMarginLoss()(flambeau.tensor([0.0]), flambeau.tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """The input, a distance, where the target is 1; max(0, margin - input) where it is -1.

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.nn.HingeEmbeddingLoss(reduction="none")(flambeau.tensor([0.3, 0.3]), flambeau.tensor([1.0, -1.0]))
    tensor([0.3000, 0.7000])
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """1 - cos(input1, input2) where the target is 1; max(0, cos - margin) where it is -1.

    Shape:
        input1, input2: (N, D) or (D,); target: (N,) or (); result: () or, for reduction "none", as target

    Raises:
        RuntimeError: the shapes do not fit

    >>> import flambeau
    >>> a = flambeau.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> flambeau.nn.CosineEmbeddingLoss(reduction="none")(a, a, flambeau.tensor([1.0, -1.0]))
    tensor([0., 1.])
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """max(0, -target · (input1 - input2) + margin): target 1 wants input1 to be the larger, -1 input2.

    Shape:
        input1, input2, target: shapes that broadcast; result: () or, for reduction "none", the shape they
            broadcast to

    Raises:
        RuntimeError: the numbers of dimensions differ

    >>> import flambeau
    >>> loss = flambeau.nn.MarginRankingLoss(reduction="none")
    >>> loss(flambeau.tensor([2.0, 1.0]), flambeau.tensor([1.0, 2.0]), flambeau.ones(2))
    tensor([0., 1.])
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """The mean over the other classes i of max(0, margin - x[target] + x[i])^p.

    Raises:
        ValueError: `p` is neither 1 nor 2, or `weight` is not 1-dimensional.

    Shape:
        input: (N, C) or (C,); target: (N,) or (); result: () or, for reduction "none", as target

    >>> import flambeau
    >>> flambeau.nn.MultiMarginLoss()(flambeau.tensor([[0.2, 0.8]]), flambeau.tensor([0]))
    tensor(0.8000)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead"
            )
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(_Loss):
    """Σ max(0, 1 - x[y] + x[k]) / C over target classes y and all others k; a sample's targets end at the
    first
    -1.

    Shape:
        input, target: (N, C) or (C,); result: () or, for reduction "none", (N,) or ()

    Raises:
        RuntimeError: the shapes differ

    >>> import flambeau
    >>> loss = flambeau.nn.MultiLabelMarginLoss()
    >>> loss(flambeau.tensor([[0.1, 0.2, 0.9]]), flambeau.tensor([[2, -1, 0]]))
    tensor(0.1667)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over the classes of the binary cross entropy of sigmoid(input).

    Shape:
        input, target: (N, C); result: () or, for reduction "none", (N,)

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.nn.MultiLabelSoftMarginLoss()(flambeau.zeros(1, 2), flambeau.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d being the p-norm distance (Balntas et
    al., 2016).

    With `swap` the distance from positive to negative is used where it is the smaller.

    Raises:
        ValueError: `margin` is not positive.

    Shape:
        anchor, positive, negative: (N, D) or (D,); result: () or, for reduction "none", (N,) or ()

    >>> import flambeau
    >>> a, far = flambeau.tensor([[0.0, 0.0]]), flambeau.tensor([[3.0, 4.0]])
    >>> flambeau.nn.TripletMarginLoss()(a, far, a)
    tensor(6.0000)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with any distance function of two tensors; `PairwiseDistance()` by default.

    Raises:
        ValueError: `margin` is not positive.

    Shape:
        anchor, positive, negative: (N, *); result: () or, for reduction "none", the shape of distances

    >>> import flambeau
    >>> loss = flambeau.nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(-1))
    >>> a, far = flambeau.tensor([[0.0, 0.0]]), flambeau.tensor([[3.0, 4.0]])
    >>> loss(a, far, a)
    tensor(8.)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = distance_function if distance_function is not None else PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """The connectionist temporal classification loss (Graves et al., 2006).

    Args:
        blank: the index of the blank label.
        zero_infinity: whether infinite losses, of targets longer than their input, count as 0.

    Shape:
        log_probs: (T, N, C) or (T, C); targets: (N, S) or (Σ lengths,); lengths: (N,) or (); result: () or,
            for reduction "none", (N,) or ()

    Raises:
        RuntimeError: the blank is no class

    >>> import flambeau
    >>> logs = flambeau.full((2, 1, 2), 0.5).log()
    >>> flambeau.nn.CTCLoss()(logs, flambeau.tensor([[1]]), [2], [1])
    tensor(0.2877)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
