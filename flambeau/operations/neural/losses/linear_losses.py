"""Cross-entropy of a linear layer's scores, whole or a few rows at a time."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.lib.products.products import linear
from ....core.make.create import zeros
from ...declare.dtype_groups import FLOATING
from ...declare.registry import leaf, library
from ...moving.joining import cat
from .losses import class_weights, cross_entropy


@library("composite", "nn.functional.linear_cross_entropy", autocast="composite", dtypes=FLOATING)
def linear_cross_entropy(
    input: TensorBase,
    linear_weight: TensorBase,
    target: TensorBase,
    *,
    linear_bias: TensorBase | None = None,
    weight: TensorBase | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> TensorBase:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target, …)`.

    `input` is (N, in_features) or (in_features,), `linear_weight` (C, in_features) or, for scores (N, C, d1, …), (C, d1, …,
    in_features), `linear_bias` of its shape without the last. `target`, `weight`, `reduction` and `label_smoothing` are those
    of `cross_entropy`; `ignore_index` is -100 by default, and may be given for class numbers only.

    With `options`, a `nn.LinearCrossEntropyOptions`, the scores (N, C) are never held at once: they are computed some rows
    at a time, and again for the derivative. That takes class numbers (int64), no smoothing and scores (N, C); elsewhere it
    warns and computes everything at once.

    RuntimeError for shapes that do not fit; IndexError for a class number that there is not.

    >>> import flambeau
    >>> from flambeau.nn import functional as F
    >>> F.linear_cross_entropy(flambeau.zeros(1, 3), flambeau.zeros(2, 3), flambeau.tensor([1]))
    tensor(0.6931)
    """
    _check_shapes(input, linear_weight, linear_bias)
    classes, *places, features = linear_weight.shape
    scores_shape = (*input.shape[:-1], classes, *places)
    if ignore_index is None:
        ignore_index = -100
    elif tuple(target.shape) == scores_shape:
        raise RuntimeError(
            "linear_cross_entropy(): ignore_index cannot be specified when target contains probabilities"
        )
    if options is not None:
        if (
            not places
            and reduction in ("mean", "sum", "none")
            and label_smoothing == 0.0
            and target.dtype.name == "int64"
        ):
            return _by_rows(
                input, linear_weight, linear_bias, target, weight, reduction, ignore_index, options
            )
        warnings.warn(
            "linear_cross_entropy: `options` ignored; rows are taken apart for reduction 'mean', 'sum' or 'none', "
            "label_smoothing == 0, target.dtype == int64 and a 2-dimensional linear_weight. Got "
            f"reduction={reduction!r}, label_smoothing={label_smoothing}, target.dtype={target.dtype}, "
            f"linear_weight.shape={tuple(linear_weight.shape)}.",
            stacklevel=2,
        )
    if places:
        rows = math.prod(places, start=classes)
        linear_weight = linear_weight.reshape((rows, features))
        linear_bias = None if linear_bias is None else linear_bias.reshape(rows)
    scores = linear(input, linear_weight, linear_bias).reshape(scores_shape)
    return cross_entropy(
        scores,
        target,
        weight=weight,
        reduction=reduction,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
    )


def _check_shapes(input: TensorBase, linear_weight: TensorBase, linear_bias: TensorBase | None) -> None:
    name = "linear_cross_entropy()"
    if input.ndim not in (1, 2):
        raise RuntimeError(f"{name}: expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(
            f"{name}: expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            f"{name}: expected equal input and linear_weight last dimensions (in_features), got {input.shape[-1]} and "
            f"{linear_weight.shape[-1]}, respectively"
        )
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise RuntimeError(
            f"{name}: expected linear_bias shape {tuple(linear_weight.shape[:-1])}, got {tuple(linear_bias.shape)}"
        )
    if linear_weight.ndim > 2 and input.ndim == 1:
        raise RuntimeError(
            f"{name}: K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched "
            f"input, (N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )


# --- some rows at a time ------------------------------
def _by_rows(input, linear_weight, linear_bias, target, weight, how: str, ignore_index: int, options: Any):
    if input.ndim == 1:
        result = _by_rows(
            *(input.unsqueeze(0), linear_weight, linear_bias, target.reshape(1), weight),
            *(how, ignore_index, options),
        )
        return result.squeeze(0) if how == "none" else result
    if tuple(target.shape) != tuple(input.shape[:1]):
        raise (RuntimeError if target.ndim > 1 else ValueError)(
            f"linear_cross_entropy(): expected target of shape {tuple(input.shape[:1])}, got {tuple(target.shape)}"
        )
    classes, features = linear_weight.shape
    steps = _rows_at_a_time(options, classes, features, input.shape[0])
    dtype = _computed_in(options, input.dtype)
    return linear_cross_entropy_rows(
        input, linear_weight, linear_bias, target, weight, steps, dtype, how, ignore_index
    )


@leaf(
    "library",
    label="LinearCrossEntropyBackward0",
    inputs=("input", "linear_weight", "linear_bias"),
    batching="sliced",
)
def linear_cross_entropy_rows(
    input: TensorBase,
    linear_weight: TensorBase,
    linear_bias: TensorBase | None,
    target: TensorBase,
    weight: TensorBase | None,
    steps: int,
    dtype: Any,
    how: str,
    ignore_index: int,
) -> TensorBase:
    """The loss of matrices, the scores of `steps` rows at a time, computed in `dtype`."""
    w = linear_weight.to(dtype)
    b = None if linear_bias is None else linear_bias.to(dtype)
    of_class = None if weight is None else weight.to(dtype)
    losses = [
        cross_entropy(
            linear(input[start : start + steps].to(dtype), w, b),
            target[start : start + steps],
            of_class,
            ignore_index=ignore_index,
            reduction="none",
        )
        for start in range(0, max(input.shape[0], 1), steps)
    ]
    result = losses[0] if len(losses) == 1 else cat(losses)
    if how != "none":
        result = result.sum()
    if how == "mean":
        result = result / _counted(target, weight, dtype, ignore_index).sum()
    return result.to(input.dtype)


def _counted(target: TensorBase, weight: TensorBase | None, dtype: Any, ignore_index: int) -> TensorBase:
    """How much each row counts: its class's weight, or 1; 0 where it is ignored."""
    kept = target != ignore_index
    return kept.to(dtype) if weight is None else class_weights(weight.to(dtype), target, kept)


def _rows_at_a_time(options: Any, classes: int, features: int, rows: int) -> int:
    given, method = options.batch_chunk_size, options.chunking_method
    if method == "auto":
        method = "aspect_ratio:2" if given is None else None
    if method is None:
        return max(rows if given is None else min(given, rows), 1)
    times = max(-(-classes // max(features, 1)), 1)  # how much more memory scores take than the input
    wanted = 1 << max(-(-rows // times) - 1, 0).bit_length()
    result = max(min(wanted // int(method.partition(":")[2] or 1), rows), 1)
    if given is not None and given != result:
        raise ValueError(
            f"linear_cross_entropy(): batch_chunk_size (={given}) and chunking_method ('{method}') give different chunk "
            f"sizes ({given} vs {result}); pass only one."
        )
    return result


def _computed_in(options: Any, dtype: Any) -> Any:
    half = dtype.name in ("float16", "bfloat16")
    wanted = options.acc_dtype
    if wanted is None:
        return by_name["float32"] if half and options.acc_policy == "auto" else dtype
    if wanted is not dtype and not (half and wanted is by_name["float32"]):
        raise RuntimeError(
            "linear_cross_entropy(): acc_dtype float32 is for inputs of float16 and bfloat16, but got acc_dtype "
            f"{wanted} and inputs of {dtype}"
        )
    return wanted


@linear_cross_entropy_rows.derivative
def _by_rows_back(grad, input, linear_weight, linear_bias, target, weight, steps, dtype, how, ignore_index):
    w, b = linear_weight.to(dtype), None if linear_bias is None else linear_bias.to(dtype)
    counted = _counted(target, weight, dtype, ignore_index)
    # What the derivative of each row's loss is multiplied by; rows that do not count have none, whatever they are given.
    factors = grad.to(dtype).expand(target.shape)
    if how == "mean":
        factors = factors / counted.sum()
    factors = (factors * counted).masked_fill(counted == 0, 0.0).unsqueeze(1)
    column = target.masked_fill(counted == 0, 0).unsqueeze(1)
    of_input = []
    of_weight = zeros(w.shape, dtype=dtype, device=input.device)
    of_bias = None if b is None else zeros(b.shape, dtype=dtype, device=input.device)
    for start in range(0, max(input.shape[0], 1), steps):
        part = slice(start, start + steps)
        x = input[part].to(dtype)
        of_scores = linear(x, w, b).softmax(1) * factors[part]
        of_scores = of_scores.scatter_add(1, column[part], -factors[part])
        of_input.append(of_scores @ w)
        of_weight.addmm_(of_scores.t(), x)
        if of_bias is not None:
            of_bias.add_(of_scores.sum(0))
    result = (cat(of_input), of_weight) if of_bias is None else (cat(of_input), of_weight, of_bias)
    return [g.to(input.dtype) for g in result]
