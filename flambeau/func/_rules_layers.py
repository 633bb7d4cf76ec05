"""Rules of windows and images, transforms, solvers and layers."""

from __future__ import annotations

from typing import Any

from ..autograd import forward_ad
from ..core.base.tensor import TensorBase
from ..operations.linalg import distances
from ..operations.moving import padding
from ..operations.neural import flat
from ..operations.neural.attention import attention, flash_attention
from ..operations.neural.convolution import convolution
from ..operations.neural.embedding import embedding
from ..operations.neural.losses import losses
from ..operations.neural.normalization import normalization, normalized_rows
from ..operations.neural.normalization.gradients import scale_of
from ..operations.neural.recurrent import recurrent
from ..operations.neural.resampling import resizing
from ..operations.signal import spectral
from ._batched import Level, Rule, Running
from ._rules import (
    NAMED,
    along,
    decomposed,
    leading,
    like,
    looped,
    made,
    mapped,
    operation,
    parameters,
    rule,
    with_rank,
)
from ._rules_products import shared

Result = Any


# --- windows and images -----------------------------
def folded(spatial: int, *tensors: str) -> Rule:
    """The rule of an operation on (N, C, …) or (C, …), where … are so many dimensions: slices are more of the N."""

    def folding(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
        bound = parameters(op).bind(args, kwargs)
        names = [n for n, x in bound.items() if isinstance(x, TensorBase)]
        rank = bound[parameters(op).names[0]].ndim
        many = spatial < 0 or rank == spatial + 2
        for n in names:
            x = level.broadcast(bound[n])
            bound[n] = x.flatten(0, 1) if many else x
        result = parameters(op).call(op, bound)
        if many:
            result = mapped(result, lambda t: t.reshape(level.size, -1 if level.size else 0, *t.shape[1:]))
        return level.wrapped(result)

    return folding


NAMED.update({"images": folded(-1), "images 1d": folded(1), "images 2d": folded(2), "images 3d": folded(3)})


@rule(resizing.affine_grid, flat.affine_grid_generator)
def _grid(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    count, *sizes = bound["size"]
    return folded(-1)(level, op, [], {**bound, "size": (level.size * count, *sizes)}, running)


@rule(padding.pad, padding.constant_pad_nd)
def _padded(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    x = bound["input"]
    if bound.get("mode", "constant") == "constant" or x.ndim < 2:
        if bound.get("mode", "constant") == "constant":
            return level.wrapped(parameters(op).call(op, {**bound, "input": level.inside(x)}))
    n = len(bound["pad"]) // 2
    return folded(n if x.ndim in (n + 1, n + 2) else -1)(level, op, args, kwargs, running)


def _real(x: Any, w: Any) -> bool:
    return bool(x.numel()) and x.dtype == w.dtype and x.dtype.name in ("float32", "float64")


@rule(convolution.convolution)
def _convolution(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    x, w, bias, geometry, out, transposed = args
    b, inside, weights = level.size, level.inside(x), level.inside(w)
    terms = None if bias is None else level.inside(bias)
    if weights is None:
        own = bias if terms is None else None
        result = op(x if inside is None else inside.flatten(0, 1), w, own, geometry, out, transposed)
        if inside is not None:
            result = level.tensor(result.unflatten(0, (b, x.shape[0])))
        bias = None if own is bias else bias
    elif inside is not None and shared(weights) and not transposed and _real(x, w):
        result = level.tensor(convolution.sliced_convolution(inside, weights, geometry, out))
    else:  # a slice is one group more
        apart = geometry._replace(groups=b * geometry.groups)
        terms = None if bias is None else level.broadcast(bias).reshape(-1)
        made = op(
            convolution.in_groups(level.broadcast(x)), weights.flatten(0, 1), terms, apart, out, transposed
        )
        return level.tensor(convolution.out_of_groups(made, b))
    return result if bias is None else result + bias.reshape(-1, *(1,) * len(out))


@rule(convolution.convolution_backward)
def _convolution_backward(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    grad, x, w, geometry, transposed, wanted = args
    b, of_x, of_w = level.size, None, None
    groups = convolution.in_groups, convolution.out_of_groups
    sent, read, weights = map(level.broadcast, (grad, x, w))
    if wanted[0] and level.inside(w) is None:
        result, _, _ = op(
            sent.flatten(0, 1), read.flatten(0, 1), w, geometry, transposed, (True, False, False)
        )
        of_x = level.tensor(result.unflatten(0, (b, x.shape[0])))
    if wanted[1] or (wanted[0] and of_x is None):
        apart = geometry._replace(groups=b * geometry.groups)
        now = (of_x is None and wanted[0], wanted[1], False)
        made = op(groups[0](sent), groups[0](read), weights.flatten(0, 1), apart, transposed, now)
        of_x = level.tensor(groups[1](made[0], b)) if now[0] else of_x
        of_w = level.tensor(made[1].unflatten(0, (b, w.shape[0]))) if wanted[1] else None
    return of_x, of_w, grad.sum([0, *range(2, grad.ndim)]) if wanted[2] else None


@made(convolution.sliced_convolution)
def _sliced_convolution(input: Any, weight: Any, geometry: Any, out: Any) -> Any:
    b = weight.shape[0]
    apart = geometry._replace(groups=b * geometry.groups)
    result = convolution.convolution(
        convolution.in_groups(input), weight.flatten(0, 1), None, apart, out, False
    )
    return convolution.out_of_groups(result, b)


@made(convolution.sliced_convolution_backward)
def _sliced_convolution_backward(grad: Any, input: Any, weight: Any, geometry: Any) -> Any:
    b, groups = weight.shape[0], convolution.in_groups
    apart, wanted = geometry._replace(groups=b * geometry.groups), (True, True, False)
    of_input, of_weight, _ = convolution.convolution_backward(
        groups(grad), groups(input), weight.flatten(0, 1), apart, False, wanted
    )
    return convolution.out_of_groups(of_input, b), of_weight.unflatten(0, weight.shape[:2])


# --- transforms and solvers --------------------------
@rule(spectral.istft)
def _signal(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    if level.inside(bound.get("window")) is not None:
        return looped(level, op, args, kwargs, running)
    elements = level.broadcast(bound["input"])
    result = parameters(op).call(op, {**bound, "input": elements.flatten(0, -3)})
    return level.wrapped(result.unflatten(0, elements.shape[:-2]))


@rule(spectral.stft)
def _spectrum(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    x, window = bound["input"], bound.get("window")
    if level.inside(window) is not None:
        return looped(level, op, args, kwargs, running)
    elements = level.inside(x)
    result = parameters(op).call(op, {**bound, "input": elements.flatten(0, -2)})
    return level.tensor(result.reshape(level.size, *x.shape[:-1], *result.shape[1:]))


def _transformed(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    if bound.get("dim") is None and bound.get("s") is not None:
        bound["dim"] = tuple(range(-len(bound["s"]), 0))
    return along("all")(level, op, [], bound, running)


NAMED["transforms"] = _transformed


def _is_column(a: Any, b: Any) -> bool:
    """Whether `solve` reads the right-hand side as vectors."""
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and tuple(b.shape) == tuple(a.shape[:-1]))


def _solving(trailing: dict[str, int]) -> Rule:
    """The rule of solvers: so many dimensions of a problem for each tensor, those before count problems."""

    def solving(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
        bound = parameters(op).bind(args, kwargs)
        column = op.__name__ in ("solve", "solve_ex") and _is_column(bound["A"], bound["B"])
        if column:
            bound["B"] = bound["B"].unsqueeze(-1)
        given = {n: k for n, k in trailing.items() if isinstance(bound.get(n), TensorBase)}
        most = max(bound[n].ndim - k for n, k in given.items())
        for n, k in given.items():
            bound[n] = with_rank(level, level.tensor(level.broadcast(bound[n])), most + k)
        result = parameters(op).call(op, bound)
        if not column:
            return level.wrapped(result)
        if isinstance(result, tuple):
            return level.wrapped(like(result, [result[0].squeeze(-1), *result[1:]]))
        return level.wrapped(result.squeeze(-1))

    return solving


NAMED["solving"] = _solving({"A": 2, "B": 2})
NAMED["solving LU"] = _solving({"LU": 2, "pivots": 1, "B": 2})
NAMED["solving tolerances"] = _solving({"A": 2, "atol": 0, "rtol": 0})
NAMED["solving LD"] = _solving({"LD": 2, "pivots": 1, "B": 2})


@rule(distances.cdist_forward)
def _distances(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    """Slices are more matrices."""
    a, b, p = args
    result = op(level.broadcast(a).flatten(0, 1), level.broadcast(b).flatten(0, 1), p)
    return level.wrapped(result.reshape(level.size, a.shape[0], *result.shape[1:]))


# --- layers -----------------------------------------
@rule(embedding.embedding)
def _embedded(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    index, weight = bound["input"], bound["weight"]
    if level.inside(weight) is None:
        return level.wrapped(parameters(op).call(op, {**bound, "input": level.inside(index)}))
    if bound.get("max_norm") is not None or bound.get("scale_grad_by_freq"):
        return looped(level, op, args, kwargs, running)
    padding = bound.get("padding_idx")
    result = weight[index]
    if padding is None:
        return result
    constant = (index == padding % weight.shape[0]).unsqueeze(-1)
    kept = forward_ad.renewed(result, lambda primal: primal.detach())
    return operation("where")(constant, kept, result)


@rule(attention.scaled_dot_product_attention)
def _attention(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    if bound.get("dropout_p"):
        return decomposed(level, op, args, kwargs, running)
    return leading(level, op, args, kwargs, running)


@rule(
    flash_attention.scaled_dot_product_flash_attention_for_cpu,
    flash_attention.scaled_dot_product_flash_attention_for_cpu_backward,
)
def _in_tiles(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    """Slices are more of the batch; numbers of dropout and masks belong to places in it."""
    bound = parameters(op).bind(args, kwargs)
    if bound["dropout_p"] or bound["mask"] is not None:
        return looped(level, op, args, kwargs, running)
    n = bound["query"].shape[0]
    folded = {
        k: level.broadcast(x).flatten(0, 1) if isinstance(x, TensorBase) else x for k, x in bound.items()
    }
    result = parameters(op).call(op, folded)
    return level.wrapped(tuple(t if t is None else t.unflatten(0, (level.size, n)) for t in result))


@rule(losses.class_entropy)
def _classes(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    """Slices are more rows, whose losses are reduced afterwards."""
    bound = parameters(op).bind(args, kwargs)
    ignore, how = bound["ignore_index"], bound["how"]
    x, target = level.broadcast(bound["input"]), level.broadcast(bound["target"])
    sizes = x.shape[:2]
    losses, *others = op(x.flatten(0, 1), target.flatten(0, 1), ignore, "none")
    kept = (target != ignore).to(x.dtype).sum(1)
    losses = losses.unflatten(0, sizes)
    result = losses if how == "none" else losses.sum(1) if how == "sum" else losses.sum(1) / kept
    return level.wrapped((result, *(t.unflatten(0, sizes) for t in others[:2]), kept))


@made(losses.class_entropy_backward)
def _classes_back(
    grad: Any, input: Any, target: Any, top: Any, total: Any, kept: Any, ignore: int, how: str
) -> Any:
    column = target.unsqueeze(1)
    hit = input.new_zeros(input.shape).scatter(1, column.masked_fill(column == ignore, 0), 1.0)
    grad = grad / kept if how == "mean" else grad.unsqueeze(1) if how == "none" else grad
    return grad.expand(column.shape).masked_fill(column == ignore, 0.0) * (input.softmax(1) - hit)


@rule(normalization.batch_norm)
def _normalized(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    known = parameters(op)
    bound = known.bind(args, kwargs)
    x = bound["input"]
    if x.ndim < 2:
        return looped(level, op, args, kwargs, running)
    training = bound.get("training", False)
    for n in ("running_mean", "running_var"):
        if training and bound.get(n) is not None and level.inside(bound[n]) is None:
            raise RuntimeError(
                "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, "
                "were not batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be "
                "False.If you are using a prebuilt module and do not need eval mode, please see "
                "`func.replace_all_batch_norm_modules_`"
            )
    b, sizes = level.size, x.shape
    flat = level.broadcast(x).movedim(0, 1).reshape(sizes[0], b * sizes[1], *sizes[2:])
    given: dict[str, Any] = {n: bound.get(n) for n in ("running_mean", "running_var", "weight", "bias")}
    given = {n: None if t is None else level.broadcast(t).reshape(-1) for n, t in given.items()}
    result = known.call(op, {**bound, **given, "input": flat})
    if training:
        for n in ("running_mean", "running_var"):
            if bound.get(n) is not None:
                level.inside(bound[n]).copy_(given[n].reshape(b, -1))
    return level.tensor(result.reshape(sizes[0], b, *sizes[1:]).movedim(1, 0))


@rule(normalized_rows.layer_norm_rows, normalized_rows.instance_norm_rows, normalized_rows.rms_norm_rows)
def _rows_normalized(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    """Slices are more rows; weights that differ from slice to slice are multiplied afterwards."""
    bound = parameters(op).bind(args, kwargs)
    weight, bias = bound.get("weight"), bound.get("bias")
    bound["input"] = level.broadcast(bound["input"])
    if level.inside(weight) is None and level.inside(bias) is None:
        return level.wrapped(parameters(op).call(op, bound))
    rms, shape = op.__name__ == "rms_norm_rows", bound["input"].shape[-bound["rank"] :]
    bound["weight"] = bound["input"].new_ones(shape) if rms else None
    if not rms:
        bound["bias"] = None
    result, *others = level.wrapped(parameters(op).call(op, bound))
    result = result if weight is None else result * weight
    return result if bias is None else result + bias, *others


def _normalized_by(input: Any, dims: tuple[int, ...], eps: float) -> Any:
    x = input - input.mean(dims, True)
    return x * scale_of(x.square().mean(dims, True), eps)


@made(normalization.batch_norm_channels)
def _of_channels(input: Any, mean: Any, inverse: Any, weight: Any, bias: Any, eps: float | None) -> Any:
    ndim = input.ndim
    y = (input - mean) * inverse if eps is None else _normalized_by(input, (0, *range(2, ndim)), eps)
    y = y if weight is None else y * weight.unflatten(0, (-1, *[1] * (ndim - 2)))
    return y if bias is None else y + bias.unflatten(0, (-1, *[1] * (ndim - 2)))


@made(normalization.group_norm_channels)
def _of_groups(input: Any, mean: Any, inverse: Any, rest: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _normalized_by(input, (2, 3), eps) * weight + bias


def _back(
    grad: Any, input: Any, mean: Any, inverse: Any, weight: Any, dims: tuple[int, ...], eps: float | None
) -> tuple:
    """The gradients of a normalised input, and of weight and bias where they broadcast to it; no mean: of RMS norm.

    Moments are those of the input, by which second derivatives go, too; without `eps` they are given.
    """
    if eps is not None:
        mean = None if mean is None else input.mean(dims, True)
        inverse = scale_of((input if mean is None else input - mean).square().mean(dims, True), eps)
    y = input * inverse if mean is None else (input - mean) * inverse
    scaled = grad if weight is None else grad * weight
    result = scaled - y * (scaled * y).mean(dims, True)
    result = result if mean is None else result - scaled.mean(dims, True)
    return result * inverse, grad * y, grad


def _some(result: tuple, wanted: Any) -> tuple:
    return tuple(x if some else None for x, some in zip(result, wanted))


@made(normalized_rows.layer_norm_rows_backward)
def _rows_back(
    grad: Any, input: Any, mean: Any, inverse: Any, weight: Any, rank: int, eps: float, wanted: Any
) -> Any:
    lead, dims = tuple(range(input.ndim - rank)), tuple(range(input.ndim - rank, input.ndim))
    of_input, *others = _back(grad, input, mean, inverse, weight, dims, eps)
    return _some((of_input, *(x.sum(lead) if lead else x for x in others)), wanted)


@made(normalized_rows.rms_norm_rows_backward)
def _rms_back(grad: Any, input: Any, inverse: Any, weight: Any, rank: int, eps: float, wanted: Any) -> Any:
    return _rows_back(grad, input, None, inverse, weight, rank, eps, wanted)


@made(normalization.batch_norm_channels_backward)
def _channels_back(
    grad: Any, input: Any, mean: Any, inverse: Any, weight: Any, eps: float | None, wanted: Any
) -> Any:
    ndim = input.ndim
    dims = (0, *range(2, ndim))
    weight = None if weight is None else weight.unflatten(0, (-1, *[1] * (ndim - 2)))
    of_input, *others = _back(grad, input, mean, inverse, weight, dims, eps)
    if eps is None:
        of_input = grad * inverse if weight is None else grad * (inverse * weight)
    return _some((of_input, *(x.sum(dims) for x in others)), wanted)


@made(normalization.group_norm_channels_backward)
def _groups_back(grad: Any, input: Any, mean: Any, inverse: Any, weight: Any, eps: float) -> Any:
    of_input, *others = _back(grad, input, mean, inverse, weight, (2, 3), eps)
    return of_input, *(x.sum((0, 3), True) for x in others)


@rule(recurrent.lstm_layer, recurrent.gru_layer, recurrent.rnn_layer)
def _recurrent(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    own = any(
        bound.get(name) is not None and level.inside(bound[name]) is not None for name in ("weight", "bias")
    )
    if own or bound.get("sizes") is not None:
        return looped(level, op, args, kwargs, running)
    b, n = level.size, bound["hidden"].shape[0]
    for name in (
        "gates",
        "hidden",
        *(["cell"] if "cell" in bound else []),
    ):  # (L, B N, …) and (B N, …): slices are more sequences
        x = level.broadcast(bound[name]).movedim(0, -3)
        bound[name] = x.reshape(*x.shape[:-3], b * n, x.shape[-1])
    result = parameters(op).call(op, bound)
    apart = [t.reshape(*t.shape[:-2], b, n, t.shape[-1]).movedim(-3, 0) for t in _several(result)]
    return level.wrapped(like(result, apart) if isinstance(result, tuple) else apart[0])


def _several(result: Any) -> tuple:
    return result if isinstance(result, tuple) else (result,)
