"""Cross-entropy on top of a linear layer, as one module."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from .. import functional as F
from .linear import Linear
from .loss import _WeightedLoss

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` takes its rows apart, so that the scores (N, C) are never held at once.

    Args:
        allow_retain_graph: accepted as PyTorch's. The derivative is computed from the inputs each time, so that a graph
            may always be kept, and differentiated again.
        batch_chunk_size: rows at a time; all by default.
        chunking_method: what chooses the rows where `batch_chunk_size` is None. "aspect_ratio": about so many that their
            scores take the memory of the input (N, in_features), rounded up to a power of 2; "aspect_ratio:K": a K-th of
            that; "auto": "aspect_ratio:2"; None: all rows.
        acc_policy: "auto", "accurate", "balanced" or "compact". PyTorch's trades memory for accuracy; here all of them
            compute in `acc_dtype`.
        acc_dtype: what scores and sums are computed in: the input's dtype or, for float16 and bfloat16, float32 if
            `acc_policy` is "auto".

    Raises:
        ValueError: an unknown policy or method, rows that are no positive int, or a dtype that is not a float's.

    >>> from flambeau import nn
    >>> nn.LinearCrossEntropyOptions(batch_chunk_size=64).batch_chunk_size
    64
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = self.chunking_method.partition(":")
            if name != "aspect_ratio" or (colon and not (factor.isdigit() and int(factor) > 0)):
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        rows = self.batch_chunk_size
        if rows is not None and not (isinstance(rows, int) and rows > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {rows!r}")
        floats = [by_name[name] for name in ("float16", "bfloat16", "float32", "float64")]
        if self.acc_dtype is not None and self.acc_dtype not in floats:
            raise ValueError(f"acc_dtype must be None or one of {floats}, got {self.acc_dtype!r}")


class LinearCrossEntropyLoss(_WeightedLoss):
    """`CrossEntropyLoss` of what a linear layer, its attribute `linear`, makes of the input.

    Args:
        in_features: the size of the input's last dimension.
        num_classes: the number of classes C.
        out_features: the sizes (d1, …) where each input has that many places to classify.
        bias: whether the layer has one.
        weight: a factor for each class, of shape (C,).
        reduction: 'mean', 'sum' or 'none'.
        ignore_index: targets of this value count for nothing; -100 by default. Only for class numbers.
        label_smoothing: in [0, 1], how much of the uniform distribution is mixed into the target.
        options: `LinearCrossEntropyOptions`, so that the scores are computed a few rows at a time; None for all at once.

    The input is (N, in_features) or (in_features,); the target holds class numbers, (N, d1, …), or probabilities,
    (N, C, d1, …).

    Raises:
        RuntimeError: `weight` has another shape, `label_smoothing` is out of range; in `forward`, shapes do not fit.
        IndexError: in `forward`, a class number that there is not.

    >>> import flambeau
    >>> from flambeau import nn
    >>> loss = nn.LinearCrossEntropyLoss(5, 10, out_features=(4, 3))
    >>> loss(flambeau.zeros(2, 5), flambeau.zeros(2, 4, 3, dtype=flambeau.int64))
    tensor(2.3026, grad_fn=<DivBackward0>)
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0.0 <= label_smoothing <= 1.0:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        # Its weight has two dimensions, as those of all linear layers.
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = self.num_classes, *self.out_features
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*shape, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        )
