"""Losses."""

from __future__ import annotations

from ..._tensor import Tensor
from .declare import fl, nn, operator


@operator("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    return _likelihood(input, target, weight, ignore_index, reduction)


def _likelihood(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int | None, reduction: str
) -> Tensor:
    """-weight · the element of the target's class along dimension 1; targets that are ignored count nothing."""
    at = target.long()
    ignored = fl.zeros_like(at, dtype=fl.eq(at, 0).dtype) if ignore_index is None else at == ignore_index
    classes = fl.where(ignored, fl.zeros_like(at), at)
    shares = fl.ones_like(classes, dtype=input.dtype) if weight is None else weight[classes]
    shares = fl.where(ignored, fl.zeros_like(shares), shares)
    result = -fl.squeeze(fl.gather(input, 1, fl.unsqueeze(classes, 1)), 1) * shares
    if reduction == "none":
        return result
    return fl.sum(result) / fl.sum(shares) if reduction == "mean" else fl.sum(result)


@operator("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy_loss(
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    outputs: int = 1,
) -> tuple[Tensor, Tensor]:
    """The loss, and the logarithms of the probabilities."""
    logs = nn.log_softmax(scores, 1)
    return _likelihood(logs, labels, weights, ignore_index, reduction), logs
