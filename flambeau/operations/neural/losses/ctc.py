"""Connectionist temporal classification: losses over all alignments of a sequence with its labels."""

from __future__ import annotations

import math

from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ...declare import checks
from ...declare.dtype_groups import WIDE
from ...declare.registry import library
from ...moving.joining import cat, stack
from ...pointwise.arithmetic import where
from ...rows.softmax import log_sum_exp
from .losses import check_reduction


def _padded_targets(targets: TensorBase, lengths: list[int]) -> TensorBase:
    """Targets as (N, longest), whether they came so or one after another."""
    if targets.ndim == 2:
        if targets.shape[1] < max(lengths, default=0):
            raise RuntimeError(
                f"ctc_loss(): Expected tensor to have size at least {max(lengths)} at dimension 1, but got size {targets.shape[1]} "
                "for argument 'targets'"
            )
        return targets.narrow(1, 0, max(lengths, default=0))
    if targets.numel() != sum(lengths):
        raise RuntimeError(
            f"ctc_loss(): Expected targets of {sum(lengths)} elements, the sum of target_lengths, got {targets.numel()}"
        )
    result = targets.new_zeros([len(lengths), max(lengths, default=0)])
    for k, part in enumerate(targets.split(lengths)):
        result[k, : part.shape[0]] = part
    return result


def _paths(emitted: TensorBase, states: TensorBase, blank: int, lengths: TensorBase) -> TensorBase:
    """log Σ over all paths of the probability that they stand in each state after the last step (N, 2S + 1)."""
    steps, n, width = emitted.shape
    never = emitted.new_full([n, width], -math.inf)
    first = never.clone()
    first[:, 0] = 0.0
    entry = first.clone()
    entry[:, 1:2] = 0.0
    skips = cat([states.new_full([n, min(width, 2)], blank), states[:, 2:]], 1) != blank
    skips[:, 2:] &= states[:, 2:] != states[:, : max(width - 2, 0)]
    result = first
    for t in range(steps):
        if t == 0:
            moved = entry + emitted[0]
        else:
            one = cat([never[:, :1], result[:, : width - 1]], 1)
            two = cat([never[:, :2], result[:, : max(width - 2, 0)]], 1)[:, :width]
            two = two.masked_fill(~skips, -math.inf)
            moved = log_sum_exp(stack([result, one, two]), 0) + emitted[t]
        result = where((lengths > t).unsqueeze(1), moved, result)
    return result


@library(
    "composite", "nn.functional.ctc_loss", autocast=("float32", "fallthrough"), batching="looped", dtypes=WIDE
)
def ctc_loss(
    log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity: bool = False
) -> TensorBase:
    """-log of the probability of `targets` over all alignments (Graves et al. 2006, section 4.1).

    `log_probs` is (T, N, C) or (T, C); `targets` (N, S), or all of them one after another; lengths are tensors
    or sequences.  "mean" divides each loss by its target's length.  `zero_infinity` makes the loss of
    impossible targets 0.  As in PyTorch, the gradient is the one behind a log_softmax: exp(log_probs) is added
    to the derivative.

    Shape:
        log_probs: (T, N, C) or (T, C); targets: (N, S) or (Σ lengths,); lengths: (N,) or (); result: () or,
            for reduction "none", (N,) or ()

    Raises:
        RuntimeError: the blank is no class, or there are no probabilities

    >>> import flambeau
    >>> logs = flambeau.full((2, 1, 2), 0.5).log()
    >>> flambeau.nn.functional.ctc_loss(logs, flambeau.tensor([[1]]), [2], [1], reduction="sum").neg().exp()
    tensor(0.7500)
    """
    reduction = check_reduction("ctc_loss", reduction)
    if log_probs.ndim not in (2, 3):
        raise RuntimeError(f"ctc_loss(): log_probs of 2 or 3 dimensions expected, got {log_probs.ndim}")
    single = log_probs.ndim == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets.ndim == 1 else targets
    checks.dtypes("ctc_loss", ("float32", "float64"), log_probs=log_probs)
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if isinstance(lengths, TensorBase) and lengths.dtype.name not in checks.INTEGERS:
            raise RuntimeError(f"ctc_loss(): {name} must be integral, got {lengths.dtype}")
    steps, n, classes = log_probs.shape
    if not log_probs.numel():
        raise RuntimeError(
            f"ctc_loss(): log_probs tensor must not be empty, got shape {list(log_probs.shape)}"
        )
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss(): blank must be in label range, 0 to {classes - 1}, got {blank}")

    def numbers(lengths, name: str) -> list[int]:
        result = lengths.reshape(-1).tolist() if isinstance(lengths, TensorBase) else lengths
        result = [int(k) for k in (result if isinstance(result, (list, tuple)) else [result])]
        if len(result) != n:
            raise RuntimeError(
                f"ctc_loss(): {name} must be of size batch_size, {n}, got {len(result)} numbers"
            )
        if min(result, default=0) < 0:
            raise RuntimeError(
                f"ctc_loss(): Expected {name} to have value at least 0, but got value {min(result)}"
            )
        return result

    given, wanted = numbers(input_lengths, "input_lengths"), numbers(target_lengths, "target_lengths")
    if max(given, default=0) > steps:
        raise RuntimeError(
            f"ctc_loss(): Expected input_lengths to have value at most {steps}, but got value {max(given)}"
        )
    labels = _padded_targets(targets, wanted).to(by_name["int64"])
    longest = labels.shape[1]
    states = labels.new_full([n, 2 * longest + 1], blank)
    states[:, 1::2] = labels
    ends = labels.new_tensor(wanted).unsqueeze(1) * 2
    emitted = log_probs.gather(2, states.unsqueeze(0).expand(steps, n, 2 * longest + 1))
    lengths = labels.new_tensor(given)
    paths = _paths(emitted, states, blank, lengths)
    before = paths.gather(1, (ends - 1).clamp(min=0)).masked_fill(ends == 0, -math.inf)
    loss = -log_sum_exp(cat([paths.gather(1, ends), before], 1), 1)
    counted = (labels.new_tensor(list(range(steps))).unsqueeze(1) < lengths).unsqueeze(2)
    mass = log_probs.exp().masked_fill(~counted, 0.0).sum((0, 2))
    loss = loss + (mass - mass.detach())
    if zero_infinity:
        loss = loss.masked_fill(loss.detach() == math.inf, 0.0)
    if reduction == "mean":
        return (loss / loss.new_tensor([max(k, 1) for k in wanted])).mean()
    return loss.sum() if reduction == "sum" else loss.squeeze(0) if single else loss
