"""Losses.  Cross-entropy of class numbers is a fused row program; the others are composed."""

from __future__ import annotations

import warnings
from typing import Any

from ....codegen import functions as fn
from ....codegen import kernels as kn
from ....codegen.differentiate import sign
from ....core.base import display
from ....core.base.tensor import TensorBase
from ....core.call import casting
from ....core.call.operation import rename
from ...declare import checks
from ...declare.dtype_groups import ALL, COMPLEX, NUMBERS, NUMERIC
from ...declare.examples import of_call
from ...declare.half_types import in_float32
from ...declare.host import holds
from ...declare.pointwise import FLOATING, pointwise
from ...declare.registry import leaf, library
from ...declare.rows import reduction, row
from ...pointwise.arithmetic import where
from ...rows.softmax import lifted_log, log_softmax_of, lowered

_REDUCTIONS = ("mean", "sum", "none")


def check_reduction(
    name: str, reduction: str, size_average: Any = None, reduce: Any = None, also: tuple[str, ...] = ()
) -> str:
    """How a loss is reduced, of all that it was given; ValueError for a reduction that there is not."""
    if size_average is not None or reduce is not None:
        return legacy_reduction(size_average, reduce)
    if reduction in _REDUCTIONS or reduction in also:
        return reduction
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=3
        )
        return "mean"
    raise ValueError(
        f"{name}(): {reduction} is not a valid value for reduction; expected one of {_REDUCTIONS + also}"
    )


def legacy_reduction(size_average: Any, reduce: Any) -> str:
    """The reduction that PyTorch's two deprecated arguments mean where one of them is given; warns the caller's caller's
    caller.
    """
    reduction = "none" if reduce is not None and not reduce else "mean"
    if reduction == "mean" and size_average is not None and not size_average:
        reduction = "sum"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
        stacklevel=4,
    )
    return reduction


def reduced(loss: TensorBase, how: str) -> TensorBase:
    """The losses of all elements as they are, added up, or averaged."""
    return loss.mean() if how == "mean" else loss.sum() if how == "sum" else loss


# --- cross-entropy of class numbers ------------------------------
MOST_CLASSES = 1 << 31  # of one kernel


def _here(target):
    """Whether this is the target's place; in 32 bits, which hold `MOST_CLASSES`."""
    return fn.cast(fn.index(1), "int32") == fn.cast(target, "int32")


@row(places=(), name="class_losses", raw=("target",), per_row=("target",))
def class_losses(logits, target, *, ignore=-100.0):
    """For each row: log Σ exp(logits) - logits[target] (0 where ignored), the largest of the logits, and log Σ exp(logits)
    relative to it: their sum would lose the digits of a small loss to large logits.
    """
    top = kn.peak(logits)
    total = lifted_log(kn.sum(fn.lifted_exp(logits - top)))
    chosen = kn.sum(fn.where(_here(target), logits - top, fn.like(logits, 0.0)))
    ignored = fn.cast(target, "int64") == fn.cast(ignore, "int64")
    return fn.where(ignored, fn.like(logits, 0.0), total - chosen), top, total


@reduction(places=(), name="counted_sum", raw=("target",), dtypes=FLOATING)
def counted_sum(losses, target, *, ignore=-100.0, classes=0.0):
    """Sum of the losses, how many are not ignored, and how many targets are no class."""
    target = fn.cast(target, "int64")
    kept = target != fn.cast(ignore, "int64")
    wrong = kept & ((target < 0) | (target >= fn.cast(classes, "int64")))
    one, zero = fn.like(losses, 1.0), fn.like(losses, 0.0)
    return kn.sum(losses), kn.sum(fn.where(kept, one, zero)), kn.any(wrong)


@row(places=(), name="class_gradients", raw=("target",))
def class_gradients(logits, target, top, total, grad, *, ignore=-100.0):
    """grad · (softmax(logits) - the target's indicator), 0 where ignored."""
    hit = fn.where(_here(target), fn.like(logits, 1.0), fn.like(logits, 0.0))
    result = grad * (lowered(fn.lifted_exp((logits - top) - total)) - hit)
    ignored = fn.cast(target, "int64") == fn.cast(ignore, "int64")
    return fn.where(ignored, fn.like(logits, 0.0), result)


@leaf(
    "library",
    results=("loss", "top", "total", "kept"),
    inputs=("input",),
    label="CrossEntropyLossBackward0",
    sharding="cross-entropy",
)
def class_entropy(
    input: TensorBase, target: TensorBase, ignore_index: int, how: str
) -> tuple[TensorBase, TensorBase, TensorBase, TensorBase]:
    """Cross-entropy of logits (N, C) and class numbers (N,), reduced; the largest logits (N, 1), the logarithms of the sums of
    exponentials relative to them, and how many rows count.
    """
    column, params = target.unsqueeze(1), (float(ignore_index),)
    losses, top, total = class_losses.over((input, column), 1, True, params=params)
    added, kept, wrong = counted_sum.over(
        (losses, column), None, False, params=(*params, float(input.shape[1]))
    )
    if not holds(~wrong):
        _refuse_classes("cross_entropy", target, ignore_index, input.shape[1])
    result = losses.squeeze(1) if how == "none" else added if how == "sum" else added / kept
    return result, top, total, kept


@class_entropy.derivative
def _class_entropy_gradient(grad, input, target, top, total, kept, ignore_index, how) -> TensorBase:
    return class_entropy_backward(grad, input, target, top, total, kept, ignore_index, how)


@leaf("library", inputs=("grad_out", "input"), decomposes=True, sharding="cross-entropy gradient")
def class_entropy_backward(
    grad_out: TensorBase,
    input: TensorBase,
    target: TensorBase,
    top: TensorBase,
    total: TensorBase,
    kept: TensorBase,
    ignore_index: int,
    how: str,
) -> TensorBase:
    """The gradient of the logits of `class_entropy`."""
    grad = grad_out / kept if how == "mean" else grad_out.unsqueeze(1) if how == "none" else grad_out
    given = (input, target.unsqueeze(1), top, total, grad)
    return class_gradients.over(given, 1, params=(float(ignore_index),))


@class_entropy_backward.derivative
def _class_entropy_again(grad, grad_out, input, target, kept, ignore_index, how) -> tuple:
    column = target.unsqueeze(1)
    ignored = column == ignore_index
    # Masked before the products: a NaN that an ignored row is given goes no further, at any order.
    arriving = grad.masked_fill(ignored, 0.0)
    weights = input.softmax(1)
    of_rows = (arriving * weights).sum(1, True)
    to_rows = of_rows - arriving.gather(1, column.masked_fill(ignored, 0))
    if how == "mean":  # where no class counts, the derivative of 0 / 0 would be NaN in places that are masked
        many = kept.clamp(min=1.0)
        rows, to_grad = grad_out / many, to_rows.sum() / many
    elif how == "none":
        rows, to_grad = grad_out.unsqueeze(1), to_rows.squeeze(1)
    else:
        rows, to_grad = grad_out, to_rows.sum()
    rows = rows.expand(column.shape).masked_fill(ignored, 0.0)
    return to_grad, rows * (weights * (arriving - of_rows))


def _refuse_classes(name: str, target, ignore_index: int, classes: int) -> None:
    """IndexError for the first class number that there is not."""
    for t in target.reshape(-1).tolist():
        if t != ignore_index and not 0 <= t < classes:
            raise IndexError(f"{name}(): Target {t} is out of bounds.") from None


@library(
    "composite", "nn.functional.cross_entropy", autocast="float32", aten="cross_entropy_loss", dtypes=FLOATING
)
def cross_entropy(
    input: TensorBase,
    target: TensorBase,
    weight: TensorBase | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> TensorBase:
    """Cross-entropy of unnormalised scores and classes: -log softmax(input)[target].

    `input` is (N, C), (C,) or (N, C, d1, …); `target` holds class numbers (int64, without the C) or the probabilities of
    all classes (input's shape).  `weight` weights the classes; `label_smoothing` in [0, 1] mixes in the uniform
    distribution (Szegedy et al. 2016); rows whose target is `ignore_index` do not count.  IndexError for a class number
    that there is not.

    >>> import flambeau
    >>> from flambeau.nn import functional as F
    >>> F.cross_entropy(flambeau.tensor([[0., 0.]]), flambeau.tensor([1]))
    tensor(0.6931)
    """
    reduction = check_reduction("cross_entropy", reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(
            f"cross_entropy(): label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
        )
    if tuple(input.shape) == tuple(target.shape):
        if not target.is_floating_point():
            raise RuntimeError(
                "cross_entropy(): Expected floating point type for target with class probabilities, got "
                f"{target.dtype.name}"
            )
        if ignore_index >= 0:
            raise RuntimeError(
                f"cross_entropy(): ignore_index is not supported for floating point target, got {ignore_index}"
            )
        _check_class_weights("cross_entropy", input, weight)
        return _probability_entropy(input, target, weight, reduction, label_smoothing)
    _check_classes("cross_entropy", input, target, weight)
    plain = (
        weight is None
        and label_smoothing == 0.0
        and input.ndim == 2
        and input.dtype.name in ("float32", "float64")
        and input.shape[1] <= MOST_CLASSES
        and (
            input.is_cpu or input.is_meta
        )  # it asks for wrong classes at once, for which a device would be waited for
    )
    if plain and input.shape[0] and target.dtype.name == "int64":
        return class_entropy(input, target, ignore_index, reduction)[0]
    target = target if target.ndim < input.ndim else target.reshape(())
    axis = 1 if input.ndim > 1 else 0
    scores = log_softmax_of(input, axis)
    loss = nll_loss(scores, target, weight, ignore_index=ignore_index, reduction=reduction)
    if label_smoothing == 0.0:
        return loss
    classes = input.shape[axis]
    kept = target != ignore_index
    weighted = scores if weight is None else scores * _along(weight, axis, scores.ndim)
    smooth = -(weighted.sum(axis)).masked_fill(~kept, 0.0)
    if reduction == "mean":
        counted = kept.to(scores.dtype) if weight is None else class_weights(weight, target, kept)
        smooth = smooth.sum() / counted.sum()
    elif reduction == "sum":
        smooth = smooth.sum()
    return (1.0 - label_smoothing) * loss + (label_smoothing / classes) * smooth


def _along(weight, axis: int, ndim: int):
    return weight.reshape([-1 if d == axis else 1 for d in range(ndim)])


def class_weights(weight, target, kept):
    return weight.index_select(0, target.masked_fill(~kept, 0).reshape(-1)).reshape(target.shape) * kept.to(
        weight.dtype
    )


def _probability_entropy(input, target, weight, how: str, smoothing: float):
    axis = 1 if input.ndim > 1 else 0
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / input.shape[axis]
    scores = log_softmax_of(input, axis)
    if weight is not None:
        scores = scores * _along(weight, axis, scores.ndim)
    loss = -(scores * target).sum(axis)
    rows = input.numel() // max(input.shape[axis], 1)
    return loss.sum() / rows if how == "mean" else loss.sum() if how == "sum" else loss


def _check_classes(name: str, input, target, weight) -> None:
    """Whether `target` has a class number for each row of scores, and `weight` a number for each class.

    As in PyTorch, ValueError is for another number of rows, RuntimeError for all else.
    """
    axis = 1 if input.ndim > 1 else 0
    if input.ndim == 0:
        raise ValueError(f"{name}(): an input with at least 1 dimension expected, got shape ()")
    if not input.is_floating_point():
        raise NotImplementedError(f"{name}(): \"{name}\" not implemented for '{input.dtype.name}'")
    wanted, got = tuple(s for d, s in enumerate(input.shape) if d != axis), tuple(target.shape)
    if got != wanted and not (input.ndim == 1 and got == (1,)):
        what = f"Expected target of shape {wanted} for input of shape {tuple(input.shape)}, got {got}"
        if got and wanted and got[0] != wanted[0]:
            what = f"Expected input batch_size ({wanted[0]}) to match target batch_size ({got[0]}). {what}"
        elif len(wanted) < 2 <= len(got):
            what = f"0D or 1D target tensor expected, multi-target not supported. {what}"
        raise (RuntimeError if got[:1] == wanted[:1] else ValueError)(f"{name}(): {what}")
    if target.dtype.name not in ("int64", "uint8"):
        raise RuntimeError(
            f"{name}(): expected target dtype to be int64 or uint8, but got {target.dtype.name}"
        )
    _check_class_weights(name, input, weight)
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}(): expected weight of dtype {input.dtype.name} but found {weight.dtype.name}"
        )


def _check_class_weights(name: str, input, weight) -> None:
    classes = input.shape[1 if input.ndim > 1 else 0]
    if weight is not None and (weight.numel() != classes or (weight.ndim != 1 and input.ndim <= 2)):
        raise RuntimeError(
            f"{name}(): weight tensor should be defined either for all {classes} classes or no classes but got "
            f"weight tensor of shape: {tuple(weight.shape)}"
        )


@library("composite", "nn.functional.nll_loss", autocast="float32", aten="nll_loss_nd", dtypes=FLOATING)
def nll_loss(
    input: TensorBase,
    target: TensorBase,
    weight: TensorBase | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> TensorBase:
    """-weight[target] · input[target] for log-probabilities (N, C), (C,) or (N, C, d1, …).
    The target holds class numbers.

    "mean" divides by the weights of the rows that count.  IndexError for a class number that there is not.

    >>> import flambeau
    >>> logs = flambeau.tensor([[0.5, 0.5], [0.25, 0.75]]).log()
    >>> flambeau.nn.functional.nll_loss(logs, flambeau.tensor([0, 1]), reduction="none")
    tensor([0.6931, 0.2877])
    """
    reduction = check_reduction("nll_loss", reduction, size_average, reduce)
    _check_classes("nll_loss", input, target, weight)
    if not input.is_floating_point():
        checks.floating("nll_loss", input=input)
    axis = 1 if input.ndim > 1 else 0
    if input.ndim == 1:
        target = target.reshape(())
    kept = target != ignore_index
    inside = where(kept, target, 0)
    try:
        picked = input.gather(axis, inside.long().unsqueeze(axis)).squeeze(axis)
    except (IndexError, RuntimeError):
        _refuse_classes("nll_loss", target, ignore_index, input.shape[axis])
        raise
    weights = None if weight is None else class_weights(weight, inside, kept)
    loss = where(kept, -picked if weights is None else picked * -weights, 0.0)
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    return loss.sum() / (kept.sum().to(input.dtype) if weights is None else weights.sum())


def _sizes_warn(name: str, input, target) -> None:
    if tuple(input.shape) != tuple(target.shape):
        import warnings

        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will likely lead "
            "to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )


def _check_weight(name: str, input, weight) -> None:
    if weight is not None and tuple(weight.shape) != tuple(input.shape):
        raise ValueError(
            f"{name}(): weight and input must have the same size, got {list(weight.shape)} and {list(input.shape)}"
        )


def _elementwise(name: str, what: str, elements: str, dtypes: frozenset[str], of):
    def loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None) -> TensorBase:
        reduction = check_reduction(name, reduction, size_average, reduce)
        _sizes_warn(name, input, target)
        _check_weight(name, input, weight)
        if name == "mse_loss" and not (
            input.is_floating_point() or target.is_floating_point() or input.is_complex()
        ):
            checks.floating(name, input=input, target=target)
        result = of(input, target)
        if weight is None:
            return reduced(result, reduction)
        result = result * weight
        return result.sum() / weight.sum() if reduction == "mean" else reduced(result, reduction)

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = (
        f"{what}\n\nElements are multiplied by `weight`; the mean is the sum over them divided by the sum of `weight`.\n\n"
        'Shape:\n    input, target: shapes that broadcast; weight: as input; result: () or, for reduction "none", the shape '
        "they broadcast to\n\nRaises:\n    ValueError: the reduction is unknown, or the weight has another shape than the input\n"
        "    RuntimeError: the shapes do not broadcast"
        + of_call(
            f'nn.functional.{name}(flambeau.tensor([1.0, 2.0]), flambeau.tensor([3.0, 2.0]), reduction="none")',
            f"tensor([{elements}])",
        )
    )
    return library(
        "composite",
        f"nn.functional.{name}",
        forwards=True,
        autocast="float32",
        loss_of_each=True,
        dtypes=dtypes,
    )(loss)


mse_loss = _elementwise(
    "mse_loss",
    "(input - target)², or the mean or the sum of that.",
    "4., 0.",
    FLOATING | COMPLEX,
    lambda x, y: (x - y).square(),
)
l1_loss = _elementwise(
    "l1_loss",
    "|input - target|, or the mean or the sum of that.",
    "2., 0.",
    NUMBERS,
    lambda x, y: (x - y).abs(),
)


@pointwise(places=("_smooth_distance",), dtypes=FLOATING, in_place=False)
def smooth_distance(input, target, *, beta=1.0):
    """Half the square over `beta` below `beta`, linear above it."""
    gap = fn.absolute(input - target)
    return fn.where(gap < beta, gap * gap * 0.5 / beta, gap - 0.5 * beta)


@smooth_distance.derivative
def _(grad, input, target, beta):
    gap = input - target
    slope = grad * fn.where(fn.absolute(gap) < beta, gap / beta, sign(gap))
    return slope, -slope


@pointwise(places=("_huber_distance",), dtypes=FLOATING, in_place=False)
def huber_distance(input, target, *, delta=1.0):
    """Half the square below `delta`, linear above it."""
    gap = fn.absolute(input - target)
    return fn.where(gap < delta, gap * gap * 0.5, (gap - 0.5 * delta) * delta)


@huber_distance.derivative
def _(grad, input, target, delta):
    gap = input - target
    slope = grad * fn.where(fn.absolute(gap) < delta, gap, sign(gap) * delta)
    return slope, -slope


rename(smooth_distance, "smooth_l1_loss")
rename(huber_distance, "huber_loss")


@library(
    "composite",
    "nn.functional.smooth_l1_loss",
    forwards=True,
    autocast="float32",
    loss_of_each=True,
    dtypes=FLOATING | COMPLEX,
)
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0) -> TensorBase:
    """d² / (2 beta) for |d| < beta, else |d| - beta / 2, of d = input - target (Girshick 2015).

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        RuntimeError: `beta` is negative
        ValueError: the reduction is unknown

    >>> import flambeau
    >>> flambeau.nn.functional.smooth_l1_loss(flambeau.tensor([0.5, 3.0]), flambeau.zeros(2), reduction="none")
    tensor([0.1250, 2.5000])
    """
    reduction = check_reduction("smooth_l1_loss", reduction, size_average, reduce)
    if not beta >= 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    _sizes_warn("smooth_l1_loss", input, target)
    return reduced(smooth_distance(input, target, beta=float(beta)), reduction)


@library(
    "composite",
    "nn.functional.huber_loss",
    forwards=True,
    autocast="float32",
    loss_of_each=True,
    dtypes=FLOATING,
)
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None) -> TensorBase:
    """d² / 2 for |d| < delta, else delta · (|d| - delta / 2), of d = input - target (Huber 1964).

    Elements are multiplied by `weight`; the mean is over their number, as in PyTorch, where `mse_loss` divides by the weights.

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        RuntimeError: `delta` is not above 0
        ValueError: the reduction is unknown

    >>> import flambeau
    >>> flambeau.nn.functional.huber_loss(flambeau.tensor([0.5, 3.0]), flambeau.zeros(2), reduction="none")
    tensor([0.1250, 2.5000])
    """
    reduction = check_reduction("huber_loss", reduction)
    if not delta > 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}")
    _sizes_warn("huber_loss", input, target)
    _check_weight("huber_loss", input, weight)
    if not input.is_floating_point():
        raise RuntimeError(f"huber_loss(): expected floating-point numbers as input, got {input.dtype}")
    result = huber_distance(input, target, delta=float(delta))
    return reduced(result if weight is None else result * weight, reduction)


def _fits_into(shape, whole) -> bool:
    """Whether a tensor of a shape expands to the whole one."""
    lead = len(whole) - len(shape)
    return lead >= 0 and all(n in (1, m) for n, m in zip(shape, whole[lead:]))


@pointwise(
    places=("_binary_entropy",),
    dtypes=FLOATING,
    domain=(0.1, 0.9),
    alike=("input", "target"),
    in_place=False,
    label="BinaryCrossEntropyBackward0",
)
def binary_entropy(input, target):
    """-(y log x + (1 - y) log(1 - x)); logarithms are at least -100."""
    low = fn.like(input, -100.0)
    sure = fn.maximum(fn.log(input), low)
    unsure = fn.maximum(fn.log1p(-input), low)
    return -(target * sure + (1.0 - target) * unsure)


@binary_entropy.derivative
def _(grad, input, target):
    """As in PyTorch, x (1 - x) is at least 1e-12: at 0 and 1 the slope is finite, and 0 where x is y."""
    low = fn.like(input, -100.0)
    slope = (input - target) / fn.maximum((1.0 - input) * input, fn.like(input, 1e-12))
    to_target = fn.maximum(fn.log1p(-input), low) - fn.maximum(fn.log(input), low)
    return grad * slope, grad * to_target


rename(binary_entropy, "binary_cross_entropy")


@library(
    "composite",
    "nn.functional.binary_cross_entropy",
    forwards=True,
    autocast=("float32", "banned"),
    loss_of_each=True,
    dtypes=FLOATING,
)
def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
) -> TensorBase:
    """-(y log x + (1 - y) log(1 - x)) for probabilities x; logarithms are at least -100.

    RuntimeError where a probability is outside [0, 1].

    Shape:
        input, target: one shape; result: () or, for reduction "none", that shape

    Raises:
        RuntimeError: a probability is outside [0, 1]
        ValueError: the shapes differ

    >>> import flambeau
    >>> flambeau.nn.functional.binary_cross_entropy(flambeau.tensor([0.5, 1.0]), flambeau.tensor([1.0, 1.0]))
    tensor(0.3466)
    """
    reduction = check_reduction("binary_cross_entropy", reduction, size_average, reduce)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"binary_cross_entropy(): Using a target size ({target.shape}) that is different to the input size ({input.shape}) "
            "is deprecated. Please ensure they have the same size."
        )
    checks.floating("binary_cross_entropy", input=input)
    checks.same_dtype("binary_cross_entropy", input=input, target=target)
    for name, x in (("input", input), ("target", target)):
        if not holds((x >= 0) & (x <= 1)):
            raise RuntimeError(f"binary_cross_entropy(): all elements of {name} should be between 0 and 1")
    if weight is not None and not _fits_into(weight.shape, input.shape):
        raise RuntimeError(
            f"binary_cross_entropy(): weight must broadcast to the input's shape {list(input.shape)}, got {list(weight.shape)}"
        )
    loss = binary_entropy(input, target)
    return reduced(loss if weight is None else loss * weight, reduction)


@pointwise(places=("_logit_entropy",), dtypes=FLOATING, in_place=False)
def logit_entropy(input, target):
    """(1 - y) x + log(1 + exp(-x)), which is -(y log σ(x) + (1 - y) log(1 - σ(x)))."""
    logarithm = fn.minimum(input, fn.like(input, 0.0)) - fn.log1p(fn.exp(-fn.absolute(input)))
    return (1.0 - target) * input - logarithm


@logit_entropy.derivative
def _(grad, input, target):
    return grad * (fn.sigmoid(input) - target), -grad * input


rename(logit_entropy, "binary_cross_entropy_with_logits")


casting.refuse(
    binary_cross_entropy,
    f"{display.NAME}.nn.functional.binary_cross_entropy and {display.NAME}.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    f"In this case, combine the two layers using {display.NAME}.nn.functional.binary_cross_entropy_with_logits\n"
    f"or {display.NAME}.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast.",
)


@library(
    "composite",
    "nn.functional.binary_cross_entropy_with_logits",
    forwards=True,
    autocast="float32",
    loss_of_each=True,
    dtypes=FLOATING,
)
def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
) -> TensorBase:
    """-(pos_weight · y log σ(x) + (1 - y) log(1 - σ(x))), σ the sigmoid, without overflow.
    It is computed in the target's dtype; `pos_weight` weights the positive examples.

    `pos_weight` weights the positive examples.

    Shape:
        input, target: one shape; result: () or, for reduction "none", that shape

    Raises:
        ValueError: the shapes differ

    >>> import flambeau
    >>> flambeau.nn.functional.binary_cross_entropy_with_logits(flambeau.tensor([0.0, 100.0]), flambeau.tensor([1.0, 1.0]))
    tensor(0.3466)
    """
    reduction = check_reduction("binary_cross_entropy_with_logits", reduction, size_average, reduce)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"binary_cross_entropy_with_logits(): Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    checks.dtypes("binary_cross_entropy_with_logits", checks.FLOATS, RuntimeError, input=input, target=target)
    if pos_weight is None:
        loss = logit_entropy(input, target)
    else:
        from ..activations import logsigmoid

        loss = (1 - target) * input - ((pos_weight - 1) * target + 1) * logsigmoid(input)
    if weight is not None:
        loss = loss * weight
    return reduced(loss if loss.dtype is target.dtype else loss.to(target.dtype), reduction)


@library("composite", "nn.functional.kl_div", autocast="float32", dtypes=FLOATING)
def kl_div(
    input, target, size_average=None, reduce=None, reduction="mean", log_target: bool = False
) -> TensorBase:
    """target · (log target - input): Kullback-Leibler divergence from the log-probabilities `input`.
    "batchmean" divides by the rows.

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        ValueError: the reduction is unknown

    >>> import flambeau
    >>> uniform = flambeau.tensor([[0.5, 0.5]])
    >>> flambeau.nn.functional.kl_div(uniform.log(), flambeau.tensor([[1.0, 0.0]]), reduction="batchmean")
    tensor(0.6931)
    """
    reduction = check_reduction("kl_div", reduction, size_average, reduce, also=("batchmean",))
    checks.dtypes("kl_div", checks.FLOATS, RuntimeError, input=input, target=target)
    return _divergence(input, target, reduction, log_target)


@in_float32()
def _divergence(input, target, reduction, log_target):
    from ...pointwise.elementary import xlogy

    loss = target.exp() * (target - input) if log_target else xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.ndim else loss
    return reduced(loss, reduction)


# --- margins and distances ------------------------------
@library(
    "composite", "nn.functional.soft_margin_loss", autocast="float32", loss_of_each=True, dtypes=FLOATING
)
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean") -> TensorBase:
    """log(1 + exp(-y x)) for targets y of -1 or 1.

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        ValueError: the reduction is unknown

    >>> import flambeau
    >>> flambeau.nn.functional.soft_margin_loss(flambeau.tensor([0.0]), flambeau.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = check_reduction("soft_margin_loss", reduction, size_average, reduce)
    from ..activations import logsigmoid

    checks.dtypes("soft_margin_loss", checks.FLOATS, RuntimeError, input=input)
    return reduced(-logsigmoid(target * input), reduction)


@library(
    "composite",
    "nn.functional.hinge_embedding_loss",
    "hinge_embedding_loss",
    autocast="float32",
    loss_of_each=True,
    dtypes=NUMERIC,
)
def hinge_embedding_loss(
    input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"
) -> TensorBase:
    """x where the target is 1, max(0, margin - x) where it is -1.

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        ValueError: the reduction is unknown

    >>> import flambeau
    >>> x, y = flambeau.tensor([0.3, 0.3]), flambeau.tensor([1.0, -1.0])
    >>> flambeau.nn.functional.hinge_embedding_loss(x, y, reduction="none")
    tensor([0.3000, 0.7000])
    """
    reduction = check_reduction("hinge_embedding_loss", reduction, size_average, reduce)
    near = input.masked_fill(target == -1, 0.0)
    far = (margin - input).clamp(min=0).masked_fill(target == 1, 0.0)
    return reduced(near + far, reduction)


@library(
    "composite",
    "nn.functional.margin_ranking_loss",
    "margin_ranking_loss",
    autocast="float32",
    dtypes=NUMERIC,
)
def margin_ranking_loss(
    input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"
) -> TensorBase:
    """max(0, -y (x1 - x2) + margin).

    Shape:
        input1, input2, target: shapes that broadcast; result: () or, for reduction "none", the shape they
            broadcast to

    Raises:
        RuntimeError: the numbers of dimensions differ
        ValueError: the reduction is unknown

    >>> import flambeau
    >>> a, b = flambeau.tensor([2.0, 1.0]), flambeau.tensor([1.0, 2.0])
    >>> flambeau.nn.functional.margin_ranking_loss(a, b, flambeau.ones(2), reduction="none")
    tensor([0., 1.])
    """
    reduction = check_reduction("margin_ranking_loss", reduction, size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {input1.shape}, "
            f"input2: {input2.shape}, target: {target.shape}"
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


@library(
    "composite",
    "nn.functional.cosine_embedding_loss",
    "cosine_embedding_loss",
    autocast="float32",
    dtypes=ALL,
)
def cosine_embedding_loss(
    input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"
) -> TensorBase:
    """1 - cos for targets of 1, max(0, cos - margin) for targets of -1; inputs (N, D) or (D,).

    Shape:
        input1, input2: (N, D) or (D,); target: (N,) or (); result: () or, for reduction "none", as target

    Raises:
        RuntimeError: the shapes do not fit

    >>> import flambeau
    >>> a = flambeau.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> flambeau.nn.functional.cosine_embedding_loss(a, a, flambeau.tensor([1.0, -1.0]), reduction="none")
    tensor([0., 1.])
    """
    reduction = check_reduction("cosine_embedding_loss", reduction, size_average, reduce)
    checks.rank("cosine_embedding_loss", "target", target, 0, 1)
    if not input1.ndim == input2.ndim == target.ndim + 1:
        raise RuntimeError(
            f"cosine_embedding_loss(): {target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with "
            f"sizes {list(input1.shape)} and {list(input2.shape)}"
        )
    return _cosine_losses(input1, input2, target, margin, reduction)


@in_float32()
def _cosine_losses(input1, input2, target, margin, reduction):
    product = (input1 * input2).sum(-1)
    squares1, squares2 = input1.square().sum(-1) + 1e-12, input2.square().sum(-1) + 1e-12
    cosine = product / (squares1 * squares2).sqrt()
    near = (1 - cosine).masked_fill(target != 1, 0.0)
    far = (cosine - margin).clamp(min=0).masked_fill(target != -1, 0.0)
    return reduced(near + far, reduction)


@library(
    "composite",
    "nn.functional.pairwise_distance",
    "pairwise_distance",
    autocast=("fallthrough", "float32"),
    dtypes=NUMBERS,
)
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim: bool = False) -> TensorBase:
    """(Σ |x1 - x2 + eps|^p)^(1/p) over the last dimension.

    Shape:
        x1, x2: (*, D), which broadcast; result: (*), or (*, 1) under `keepdim`

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.nn.functional.pairwise_distance(flambeau.tensor([[0.0, 0.0]]), flambeau.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """
    from ...rows.norms import vector_norm

    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


@library(
    "composite",
    "nn.functional.triplet_margin_loss",
    "triplet_margin_loss",
    autocast="float32",
    dtypes=NUMBERS,
)
def triplet_margin_loss(
    anchor,
    positive,
    negative,
    margin=1.0,
    p=2.0,
    eps=1e-6,
    swap: bool = False,
    size_average=None,
    reduce=None,
    reduction="mean",
) -> TensorBase:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin); `swap` takes the nearer pair (Balntas et al. 2016).

    Shape:
        anchor, positive, negative: (N, D) or (D,); result: () or, for reduction "none", (N,) or ()

    Raises:
        RuntimeError: the numbers of dimensions differ

    >>> import flambeau
    >>> a, far = flambeau.tensor([[0.0, 0.0]]), flambeau.tensor([[3.0, 4.0]])
    >>> flambeau.nn.functional.triplet_margin_loss(a, far, a)
    tensor(6.0000)
    """
    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=lambda a, b: pairwise_distance(a, b, p, eps), margin=margin, swap=swap,
        reduction=check_reduction("triplet_margin_loss", reduction, size_average, reduce),
    )  # fmt: skip


@library("composite", "nn.functional.triplet_margin_with_distance_loss", autocast="composite", dtypes=NUMBERS)
def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
) -> TensorBase:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) for any distance d of two tensors.

    Shape:
        anchor, positive, negative: (N, *); result: () or, for reduction "none", the shape of distances

    Raises:
        RuntimeError: the numbers of dimensions differ

    >>> import flambeau
    >>> a, far = flambeau.tensor([[0.0, 0.0]]), flambeau.tensor([[3.0, 4.0]])
    >>> taxi = lambda x, y: (x - y).abs().sum(-1)
    >>> flambeau.nn.functional.triplet_margin_with_distance_loss(a, far, a, distance_function=taxi)
    tensor(8.)
    """
    reduction = check_reduction("triplet_margin_loss", reduction)
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss(): margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            f"triplet_margin_loss(): The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            f"but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((margin + near - far).clamp(min=0), reduction)


def _check_scores(name: str, input, target) -> None:
    """Scores (N, C) or (C,) with classes, of floating-point numbers, and class numbers in int64."""
    if input.ndim > 2 or 0 in input.shape[-1:]:
        raise RuntimeError(
            f"{name}(): expected a non-empty vector or matrix with optional 0-dim batch size as input, but got: {list(input.shape)}"
        )
    checks.floating(name, input=input)
    checks.dtypes(name, ("int64",), RuntimeError, target=target)


@library("composite", "nn.functional.multi_margin_loss", autocast="float32", dtypes=FLOATING)
def multi_margin_loss(
    input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"
) -> TensorBase:
    """Σ over the other classes of max(0, margin - x[y] + x[k])^p / C for scores (N, C) or (C,).

    Shape:
        input: (N, C) or (C,); target: (N,) or (); result: () or, for reduction "none", as target

    Raises:
        ValueError: `p` is neither 1 nor 2

    >>> import flambeau
    >>> flambeau.nn.functional.multi_margin_loss(flambeau.tensor([[0.2, 0.8]]), flambeau.tensor([0]))
    tensor(0.8000)
    """
    reduction = check_reduction("multi_margin_loss", reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss(): only p == 1 and p == 2 supported, got {p}")
    if weight is not None:
        checks.rank("multi_margin_loss", "weight", weight, 1, error=ValueError)
    _check_scores("multi_margin_loss", input, target)
    flat = input.ndim < 2
    classes = input.shape[-1] if input.ndim else 1
    if (target.numel() != 1 or target.ndim > 1) if flat else tuple(target.shape) != (input.shape[0],):
        raise RuntimeError(
            f"multi_margin_loss(): target should hold a class for each of {1 if flat else input.shape[0]} rows of the input, got "
            f"shape {list(target.shape)}"
        )
    if weight is not None:
        checks.same_dtype("multi_margin_loss", input=input, weight=weight)
        if weight.shape[0] != classes:
            raise RuntimeError(
                f"multi_margin_loss(): inconsistent weight size, expected {classes} but got {list(weight.shape)}"
            )
    if not holds((target >= 0) & (target < classes)):
        raise RuntimeError(f"multi_margin_loss(): target out of range: expected classes below {classes}")
    x, y = (input.reshape(1, -1), target.reshape(1)) if flat else (input, target)
    column = y.unsqueeze(1)
    gap = (margin - x.gather(1, column) + x).relu()
    gap = gap if p == 1 else gap.square()
    if weight is not None:
        gap = gap * weight.index_select(0, y).unsqueeze(1)
    loss = gap.scatter(1, column, 0.0).sum(1) / x.shape[1]
    return reduced(loss.reshape(()) if flat else loss, reduction)


@library("composite", "nn.functional.multilabel_margin_loss", autocast="float32", dtypes=FLOATING)
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean") -> TensorBase:
    """Σ over a row's classes y and all others k of max(0, 1 - x[y] + x[k]) / C, for scores (N, C) or (C,).

    `target`, of the input's shape, lists the classes of each row up to the first -1.

    Shape:
        input, target: (N, C) or (C,); result: () or, for reduction "none", (N,) or ()

    Raises:
        RuntimeError: the shapes differ

    >>> import flambeau
    >>> scores = flambeau.tensor([[0.1, 0.2, 0.9]])
    >>> flambeau.nn.functional.multilabel_margin_loss(scores, flambeau.tensor([[2, -1, 0]]))
    tensor(0.1667)
    """
    reduction = check_reduction("multilabel_margin_loss", reduction, size_average, reduce)
    if tuple(target.shape) != tuple(input.shape) or input.ndim > 2:
        raise RuntimeError(
            f"multilabel_margin_loss(): a target of the input's shape {tuple(input.shape)}, (N, C) or (C,), expected, got "
            f"{tuple(target.shape)}"
        )
    _check_scores("multilabel_margin_loss", input, target)
    classes = input.shape[-1] if input.ndim else 1
    if not holds(target >= -1):
        raise RuntimeError(
            f"multilabel_margin_loss(): argument #2 'target' is out of range: {int(target.min().item())} is no class of {classes}"
        )
    x, y = (t.reshape(-1, classes) for t in (input, target))
    listed = (y < 0).cumsum(1) == 0
    inside = y.masked_fill(~listed, 0)
    if not holds(inside < classes):
        raise RuntimeError(
            f"multilabel_margin_loss(): argument #2 'target' is out of range: {int(inside.max().item())} is no class of {classes}"
        )
    own = y.new_zeros(y.shape).scatter_add(1, inside, listed.to(y.dtype)) > 0
    gap = (1.0 - x.gather(1, inside).unsqueeze(2) + x.unsqueeze(1)).relu()
    gap = gap.masked_fill(~listed.unsqueeze(2) | own.unsqueeze(1), 0.0)
    loss = gap.sum((1, 2)) / classes
    return reduced(loss if input.ndim > 1 else loss.reshape(()), reduction)


@library("composite", "nn.functional.multilabel_soft_margin_loss", autocast="composite", dtypes=FLOATING)
def multilabel_soft_margin_loss(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
) -> TensorBase:
    """-Σ (y log σ(x) + (1 - y) log(1 - σ(x))) / C over C classes, with 0/1 targets y.
    It is the mean of the binary cross-entropies of sigmoid(x).

    Shape:
        input, target: (N, C); result: () or, for reduction "none", (N,)

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.nn.functional.multilabel_soft_margin_loss(flambeau.zeros(1, 2), flambeau.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    reduction = check_reduction("multilabel_soft_margin_loss", reduction, size_average, reduce)
    from ..activations import logsigmoid

    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if input.ndim == 0:
        raise IndexError(
            "multilabel_soft_margin_loss(): expected an input with a dimension of classes, got shape []"
        )
    return reduced((loss if weight is None else loss * weight).mean(-1), reduction)


@library(
    "composite",
    "nn.functional.poisson_nll_loss",
    "poisson_nll_loss",
    autocast="float32",
    loss_of_each=True,
    dtypes=NUMBERS,
)
def poisson_nll_loss(
    input,
    target,
    log_input: bool = True,
    full: bool = False,
    size_average=None,
    eps=1e-8,
    reduce=None,
    reduction="mean",
) -> TensorBase:
    """exp(x) - y x (or x - y log x); `full` adds Stirling's approximation of log y! for y > 1.

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction "none", the shape they broadcast to

    Raises:
        ValueError: the reduction is unknown

    >>> import flambeau
    >>> flambeau.nn.functional.poisson_nll_loss(flambeau.tensor([0.0]), flambeau.tensor([3.0]))
    tensor(1.)
    >>> flambeau.nn.functional.poisson_nll_loss(flambeau.tensor([2.0]), flambeau.tensor([0.0]), log_input=False)
    tensor(2.)
    """
    reduction = check_reduction("poisson_nll_loss", reduction, size_average, reduce)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * 3.141592653589793 * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0.0)
    return reduced(loss, reduction)


@library("composite", "nn.functional.gaussian_nll_loss", autocast="composite", dtypes=FLOATING)
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean") -> TensorBase:
    """(log var + (x - y)² / var) / 2 with var at least eps (Nix and Weigend 1994); `full` adds log(2π) / 2.

    Shape:
        input, target: one shape; var: the same, with size 1 at the end, or without the last dimension;
            result: () or, for reduction "none", that of input

    Raises:
        ValueError: a variance is negative
        ValueError: the reduction is unknown

    >>> import flambeau
    >>> flambeau.nn.functional.gaussian_nll_loss(flambeau.tensor([1.0]), flambeau.tensor([3.0]), flambeau.tensor([4.0]))
    tensor(1.1931)
    """
    reduction = check_reduction("gaussian_nll_loss", reduction)
    if isinstance(var, (int, float)):
        var = input.new_full(input.shape, float(var))
    if tuple(var.shape) != tuple(input.shape):
        if tuple(var.shape) == tuple(input.shape[:-1]):
            var = var.unsqueeze(-1)
        # One dimension may broadcast.  As in PyTorch, it is the sizes of `var` that differ which must add up to 1.
        elif var.ndim != input.ndim or sum(v for v, n in zip(var.shape, input.shape) if v != n) != 1:
            raise ValueError(
                f"gaussian_nll_loss(): var is of incorrect size {tuple(var.shape)} for input of shape "
                f"{tuple(input.shape)}"
            )
    checks.dtypes("gaussian_nll_loss", checks.FLOATS, RuntimeError, var=var)
    if not holds(var >= 0):
        raise ValueError("gaussian_nll_loss(): var has negative entry/entries")
    floor = var.detach().clamp(min=eps)
    bounded = var + (floor - var.detach())
    loss = 0.5 * (bounded.log() + (input - target).square() / bounded)
    return reduced(loss + 0.9189385332046727 if full else loss, reduction)
