"""ONNX forms of activations, convolutions, pooling, resizing, normalisation, embeddings, recurrent layers and losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..declare import taps
from ..declare.onnx import onnx_form


# --- activations ------------------------------
def _one(kind: str, since: int = 0, **names: str) -> Any:
    """One operator of ONNX for floats; `names`: its attributes, and the parameters that they are."""

    def form(g: Any, input: Any, *args: Any, **params: Any) -> Any:
        if g.opset < since or input.dtype not in ("float32", "float16") or args:
            return NotImplemented
        return g.op(kind, input, **{attribute: float(params[p]) for attribute, p in names.items() if p in params})

    return form


def _declare(name: str, kind: str, since: int = 0, **names: str) -> None:
    onnx_form(name)(_one(kind, since, **names))


_declare("relu", "Relu")
_declare("elu", "Elu", alpha="alpha")
_declare("selu", "Selu")
_declare("softsign", "Softsign")
_declare("mish", "Mish")
_declare("hardswish", "HardSwish")


@onnx_form("leaky_relu")
def _(g: Any, input: Any, negative_slope: float = 0.01) -> Any:
    return g.op("LeakyRelu", input, alpha=float(negative_slope)) if input.dtype == "float32" else NotImplemented


@onnx_form("celu")
def _(g: Any, input: Any, alpha: float = 1.0) -> Any:
    return g.op("Celu", input, alpha=float(alpha)) if input.dtype == "float32" and alpha != 0 else NotImplemented


@onnx_form("softplus")
def _(g: Any, input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return g.Softplus(input) if input.dtype == "float32" and beta == 1.0 and threshold >= 20 else NotImplemented


@onnx_form("hardsigmoid")
def _(g: Any, input: Any) -> Any:
    return g.op("HardSigmoid", input, alpha=1 / 6, beta=0.5) if input.dtype == "float32" else NotImplemented


@onnx_form("gelu_erf")
def _(g: Any, input: Any) -> Any:
    return g.Gelu(input) if g.opset >= 20 and input.dtype == "float32" else NotImplemented


@onnx_form("gelu_tanh")
def _(g: Any, input: Any) -> Any:
    return g.op("Gelu", input, approximate="tanh") if g.opset >= 20 and input.dtype == "float32" else NotImplemented


# --- convolutions ------------------------------
def _ends(size: int, out: int, kernel: int, stride: int, before: int, dilation: int) -> int:
    """The padding behind a line, from how many windows there are: that in front, where this gives as many."""
    reach = dilation * (kernel - 1) + 1
    if (size + 2 * before - reach) // stride + 1 == out:
        return before
    return max((out - 1) * stride + reach - size - before, 0)


@onnx_form("convolution")
def _(g: Any, input: Any, weight: Any, bias: Any, geometry: Any, out: Any, transposed: bool) -> Any:
    stride, before, dilation, groups = geometry
    sizes, kernel = input.shape[2:], weight.shape[2:]
    if 0 in input.shape or 0 in weight.shape:
        return NotImplemented
    shared = {"strides": list(stride), "dilations": list(dilation), "group": groups, "kernel_shape": list(kernel)}
    if transposed:
        rest = [
            o - ((n - 1) * s - 2 * p + d * (k - 1) + 1)
            for o, n, s, p, d, k in zip(out, sizes, stride, before, dilation, kernel)
        ]
        given = [max(r, 0) for r in rest]
        if all(0 <= r < max(s, d) for r, s, d in zip(rest, stride, dilation)) and all(
            r < s for r, s in zip(rest, stride)
        ):
            return g.op(
                "ConvTranspose", input, weight, bias, pads=[*before, *before], output_padding=rest, **shared
            )
        behind = [p - r for p, r in zip(before, given)]
        if any(p < 0 for p in behind):
            found = g.op("ConvTranspose", input, weight, None, pads=[*before, *([0] * len(out))], **shared)
            ends = [r - p for p, r in zip(before, given)]
            short = [max(e, 0) for e in ends]
            found = g.Pad(found, [0] * (len(out) + 2) + [0, 0, *short], g.number(0, input.dtype))
            dims = list(range(2, 2 + len(out)))
            found = g.op("Slice", found, [0] * len(out), list(out), dims)
            line = None if bias is None else g.unsqueeze(bias, list(range(1, len(out) + 1)))
            return found if line is None else g.Add(found, line)
        return g.op("ConvTranspose", input, weight, bias, pads=[*before, *behind], **shared)
    ends = [_ends(*numbers) for numbers in zip(sizes, out, kernel, stride, before, dilation)]
    return g.op("Conv", input, weight, bias, pads=[*before, *ends], **shared)


@onnx_form("blocks_of")
def _(g: Any, input: Any, way: Any, sizes: Any) -> Any:
    """Gathers along each padded dimension: (N, C, k, places, …), then the kernel's dimensions in front."""
    dims = len(sizes)
    pads = [0, 0, *way.padding] * 2
    x = g.Pad(input, pads, g.number(0, input.dtype)) if any(way.padding) else input
    places = way.places(sizes)
    for d in range(dims):
        at = np.arange(way.kernel[d])[:, None] * way.dilation[d] + np.arange(places[d]) * way.stride[d]
        x = g.op("Gather", x, at, axis=2 + 2 * d)
    order = [0, 1, *(2 + 2 * d for d in range(dims)), *(3 + 2 * d for d in range(dims))]
    return g.op("Transpose", x, perm=order)


@onnx_form("sum_of_blocks")
def _(g: Any, input: Any, way: Any, sizes: Any) -> Any:
    if len(sizes) != 2 or input.dtype != "float32":
        return NotImplemented
    n, c = input.shape[:2]
    columns = g.reshape(input, [n, c * math.prod(way.kernel), math.prod(way.places(sizes))])
    return g.op(
        "Col2Im",
        columns,
        list(sizes),
        list(way.kernel),
        dilations=list(way.dilation),
        pads=[*way.padding, *way.padding],
        strides=list(way.stride),
    )


# --- pooling ------------------------------
def _max_pool(g: Any, input: Any, w: Any, outputs: int) -> Any:
    ends = [_ends(*n) for n in zip(w.sizes, w.out, w.kernel, w.stride, w.padding, w.dilation)]
    return g.op(
        "MaxPool",
        g.unsqueeze(input, [0]),
        outputs=outputs,
        kernel_shape=list(w.kernel),
        strides=list(w.stride),
        pads=[*w.padding, *ends],
        dilations=list(w.dilation),
    )


@onnx_form("max_pool_values")
def _(g: Any, input: Any, windows: Any) -> Any:
    if not input.floating:
        return NotImplemented
    return g.squeeze(_max_pool(g, input, windows, 1), [0])


@onnx_form("max_pool1d_places", "max_pool2d_places", "max_pool3d_places")
def _(g: Any, input: Any, windows: Any, short: bool) -> Any:
    if not input.floating:
        return NotImplemented
    values, places = _max_pool(g, input, windows, 2)
    places.dtype = "int64"
    places = g.op("Mod", places, g.size(math.prod(windows.sizes), "int64"))
    return g.squeeze(values, [0]), g.squeeze(places, [0])


@onnx_form("adaptive_max_places")
def _(g: Any, input: Any, parts: Any) -> Any:
    sizes = input.shape[1:]
    lines = []
    for n, k in zip(sizes, parts):
        begins = [i * n // k for i in range(k)]
        ends = [-(-(i + 1) * n // k) for i in range(k)]
        reach = max(e - b for b, e in zip(begins, ends))
        lines.append(np.array([[min(b + j, e - 1) for j in range(reach)] for b, e in zip(begins, ends)]))
    at = np.zeros((1,) * (2 * len(sizes)), np.int64)
    for d, line in enumerate(lines):
        shape = [1] * (2 * len(sizes))
        shape[d], shape[len(sizes) + d] = line.shape
        at = at * sizes[d] + line.reshape(shape)
    at = at.reshape(math.prod(parts), -1)
    flat = g.reshape(input, [input.shape[0], math.prod(sizes)])
    best = g.op("ArgMax", g.op("Gather", flat, at, axis=1), axis=2, keepdims=0)
    found = g.GatherElements(g.constant(at, "int64"), g.transpose(best.of((0, 0)), [1, 0]), axis=1)
    return g.reshape(g.transpose(found.of((0, 0)), [1, 0]), g.results[0].shape)


def _matrix(table: Any) -> np.ndarray:
    """What each element of a line gives to each place, (size, out)."""
    found = np.zeros((table.size, table.out))
    for j, row in enumerate(table.rows_of()):
        for i, weight in row:
            found[i, j] += weight
    return found


def _by_tables(g: Any, input: Any, tables: Any) -> Any:
    """Each of the last dimensions gathered, or multiplied by its table's matrix."""
    x, rank = input, input.rank
    first = rank - len(tables)
    for d, table in enumerate(tables):
        if table is None:
            continue
        rows = table.rows_of()
        if table.moves and all(len(row) == 1 for row in rows):
            x = g.op("Gather", x, np.array([row[0][0] for row in rows], np.int64), axis=first + d)
            continue
        matrix, axis = g.constant(_matrix(table).astype(input.dtype), input.dtype), first + d
        if axis == rank - 1:
            x = g.MatMul(x, matrix)
        else:
            perm = list(range(rank))
            perm[axis], perm[-1] = perm[-1], perm[axis]
            x = g.op("Transpose", g.MatMul(g.op("Transpose", x, perm=perm), matrix), perm=perm)
    return x


def _window(table: Any, include: bool) -> tuple[int, int, int, int] | None:
    """Kernel, stride, and padding in front and behind of the means that a table makes; None where it is no pooling."""
    rows = table.rows_of()
    if not rows or not all(rows):
        return None
    begins, ends = [r[0][0] for r in rows], [r[-1][0] + 1 for r in rows]
    kernel = round(1 / min(r[0][1] for r in rows)) if include else max(len(r) for r in rows)
    inner = [(j, b) for j, (b, r) in enumerate(zip(begins, rows)) if len(r) == kernel]
    if len(inner) >= 2:
        stride = (inner[-1][1] - inner[0][1]) // max(inner[-1][0] - inner[0][0], 1)
        before = inner[0][0] * stride - inner[0][1]
    elif inner and len(rows) == 1:
        stride, before = kernel, -inner[0][1]
    elif inner:
        j, b = inner[0]
        stride = begins[j + 1] - b if j + 1 < len(rows) else b - (ends[j - 1] - kernel)
        before = j * stride - b
    else:
        return None
    behind = (len(rows) - 1) * stride + kernel - table.size - before
    if stride < 1 or not 0 <= before < kernel:
        return None
    behind = max(behind, 0)
    if behind >= kernel:
        return None
    for j, row in enumerate(rows):
        low, high = j * stride - before, j * stride - before + kernel
        inside = list(range(max(low, 0), min(high, table.size)))
        share = 1 / (kernel if include else max(len(inside), 1))
        if [i for i, _ in row] != inside or any(abs(w - share) > 1e-6 for _, w in row):
            return None
    if include and behind > before:
        return None
    return kernel, stride, before, before if _same_count(table, kernel, stride, before) else behind


def _same_count(table: Any, kernel: int, stride: int, before: int) -> bool:
    return bool((table.size + 2 * before - kernel) // stride + 1 == table.out)


@onnx_form("avg_pool1d_tables", "avg_pool2d_tables", "avg_pool3d_tables")
def _(g: Any, input: Any, tables: Any) -> Any:
    dims = len(tables)
    for include in (False, True):
        found = [None if t is None else _window(t, include) for t in tables]
        if all(w is not None for w in found) and input.rank in (dims + 1, dims + 2) and 0 not in input.shape:
            kernel, stride, before, behind = zip(*found)
            x = g.unsqueeze(input, [0]) if input.rank == dims + 1 else input
            pooled = g.op(
                "AveragePool",
                x,
                kernel_shape=list(kernel),
                strides=list(stride),
                pads=[*before, *behind],
                count_include_pad=int(include),
            )
            return g.squeeze(pooled, [0]) if input.rank == dims + 1 else pooled
    return _by_tables(g, input, tables)


def _resize(mode: str, rule: Any, **options: Any) -> Any:
    """Resize, where its coordinates give the tables; else their matrices."""

    def form(g: Any, input: Any, tables: Any) -> Any:
        for coordinates, table_of in rule.items():
            same = [t is None or _same(t, table_of(t.size, t.out)) for t in tables]
            if all(same) and input.dtype in ("float32", "float16") and 0 not in input.shape:
                sizes = list(g.results[0].shape)
                none = g.constant(np.zeros(0, np.float32), "float32")
                return g.op(
                    "Resize",
                    input,
                    none,
                    none,
                    sizes,
                    mode=mode,
                    coordinate_transformation_mode=coordinates,
                    **options,
                )
        return _by_tables(g, input, tables)

    return form


def _same(a: Any, b: Any) -> bool:
    return len(a.rows_of()) == len(b.rows_of()) and np.allclose(_matrix(a), _matrix(b), atol=1e-6)


def _half(rule: Any) -> dict[str, Any]:
    return {
        "half_pixel": lambda n, m: rule(n, m, n / m, False),
        "align_corners": lambda n, m: rule(n, m, n / m, True),
    }


_NEAREST = {"asymmetric": lambda n, m: taps.nearest(n, m, n / m, False)}
_EXACT = {"half_pixel": lambda n, m: taps.nearest(n, m, n / m, True)}
for _d in (1, 2, 3):
    onnx_form(f"upsample_nearest{_d}d_tables")(_resize("nearest", _NEAREST, nearest_mode="floor"))
    onnx_form(f"upsample_nearest_exact{_d}d_tables")(_resize("nearest", _EXACT, nearest_mode="round_prefer_ceil"))
    onnx_form(f"adaptive_avg_pool{_d}d_tables")(_by_tables)
    for _mode in ("reflection", "replication", "circular"):
        onnx_form(f"{_mode}_pad{_d}d_tables")(_by_tables)
for _name in ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"):
    onnx_form(f"{_name}_tables")(_resize("linear", _half(taps.linear)))
onnx_form("upsample_bicubic2d_tables")(_resize("cubic", _half(taps.cubic), cubic_coeff_a=-0.75))


@onnx_form("grid_taps")
def _(g: Any, grid: Any, shape: Any, mode: str, padding: str, aligned: bool) -> Any:
    """What the sum over the grid is told: GridSample does both at once."""
    made = g.absent()
    g.notes[made[0].name] = "grid", grid, shape, mode, padding, aligned
    return made


@onnx_form("channels_together")
def _(g: Any, input: Any) -> Any:
    """Rows of channels, one row of zeros behind them; the sum over the grid is told the images as they were."""
    n, c, *shape = input.shape
    flat = g.reshape(input, [n, c, math.prod(shape)])
    rows = g.Pad(g.op("Transpose", flat, perm=[0, 2, 1]), [0, 0, 0, 0, 1, 0], g.number(0, input.dtype))
    g.notes[rows.name] = "channels", input
    return rows


@onnx_form("grid_summed_2d", "grid_summed_3d")
def _(g: Any, image: Any, at: Any, weight: Any, places: int, planes: bool) -> Any:
    note, rows = g.notes.get(at.name), g.notes.get(image.name)
    if note is None or note[0] != "grid":
        return NotImplemented
    _, grid, shape, mode, padding, aligned = note
    if len(shape) == 3 and g.opset < 20:
        raise g.unsupported("volumes are sampled from opset 20 on")
    n, count, rank = grid.shape
    image = rows[1] if rows is not None else g.reshape(image, [n, image.shape[1], *shape])
    points = g.reshape(grid, [n, count, *([1] * (rank - 1)), rank])
    kinds = {"bilinear": "linear", "bicubic": "cubic"} if g.opset >= 20 else {}
    found = g.op(
        "GridSample",
        image,
        points,
        mode=kinds.get(mode, mode),
        padding_mode=padding,
        align_corners=int(aligned),
    )
    channels = g.reshape(found.of(()), [n, image.shape[1], count])
    return channels if planes else g.op("Transpose", channels, perm=[0, 2, 1])


# --- normalisation ------------------------------
@onnx_form("layer_norm_rows")
def _(g: Any, input: Any, weight: Any, bias: Any, rank: int, eps: float) -> Any:
    if not rank or 0 in input.shape:
        return NotImplemented
    shape = input.shape[input.rank - rank :]
    scale = g.expand(g.number(1, input.dtype), shape) if weight is None else weight
    found, mean, inverse = g.op(
        "LayerNormalization", input, scale, bias, outputs=3, axis=-rank, epsilon=float(eps)
    )
    return found, mean, inverse


@onnx_form("rms_norm_rows")
def _(g: Any, input: Any, weight: Any, rank: int, eps: float) -> Any:
    x = input if input.dtype in ("float32", "float64") else g.cast(input, "float32")
    squares = g.reduce("ReduceMean", g.Mul(x, x), list(range(-rank, 0)), True)
    inverse = g.Reciprocal(g.Sqrt(g.Add(squares, g.number(eps, x.dtype))))
    if g.opset >= 23 and input.dtype == "float32":
        return g.op("RMSNormalization", input, weight, axis=-rank, epsilon=float(eps)), inverse
    return g.Mul(g.Mul(x, inverse), g.cast(weight, x.dtype)), inverse


@onnx_form("batch_norm_channels")
def _(g: Any, input: Any, mean: Any, inverse: Any, weight: Any, bias: Any, eps: Any) -> Any:
    """BatchNormalization, where the reciprocal of the deviation is seen to be made of a variance."""
    channels = input.shape[1]
    variance = _variance_of(g, inverse)
    if eps is not None or variance is None or input.dtype not in ("float32", "float16"):
        return NotImplemented
    value, epsilon = variance
    scale = g.expand(g.number(1, input.dtype), [channels]) if weight is None else weight
    shift = g.expand(g.number(0, input.dtype), [channels]) if bias is None else bias
    moments = [g.reshape(v, [channels]) for v in (mean, value.of(mean.shape))]
    return g.op("BatchNormalization", input, scale, shift, *moments, epsilon=epsilon)


def _variance_of(g: Any, inverse: Any) -> tuple[Any, float] | None:
    """v and e, where a value is 1 / √(v + e)."""
    kinds, node = [], g.maker(inverse)
    for kind in ("Div", "Sqrt", "Add"):
        if node is None or node.kind != kind:
            return None
        kinds.append(node)
        name = node.inputs[1] if kind == "Div" else node.inputs[0]
        if kind != "Add":
            node = g.maker(type(inverse)(name, inverse.dtype))
    number = g.constants.get(kinds[-1].inputs[1])
    if number is None or number.shape:
        return None
    return type(inverse)(kinds[-1].inputs[0], inverse.dtype), float(number)


@onnx_form("group_norm_channels")
def _(
    g: Any, input: Any, mean: Any, inverse: Any, rest: Any, weight: Any, bias: Any, eps: float
) -> Any:
    given = [g.cast(v, mean.dtype) for v in (input, weight, bias)]
    x, scale, shift = given
    return g.Add(g.Mul(g.Mul(g.Sub(x, mean), inverse), scale), shift)


@onnx_form("centred_moments")
def _(g: Any, *given: Any, **_: Any) -> Any:
    (x,), dim, keepdim, _, _, _ = given
    wide = g.cast(x, g.results[0].dtype)
    mean = g.reduce("ReduceMean", wide, list(dim), True)
    far = g.Sub(wide, mean)
    variance = g.reduce("ReduceMean", g.Mul(far, far), list(dim), True)
    return variance, mean, g.Sub(mean, mean)


# --- embeddings ------------------------------
@onnx_form("embedding_rows")
def _(g: Any, weight: Any, flat: Any, rows: int, padding_idx: Any, shared: bool) -> Any:
    return g.op("Gather", weight, flat, axis=0)


def _bags(g: Any, input: Any, offsets: Any, include_last: bool, padding: int) -> Any:
    """Which numbers are in which bag, (bags, numbers) of bools, and the numbers in a row."""
    count = math.prod(input.shape)
    flat = g.reshape(input, [count])
    bags = g.results[0].shape[0]
    if offsets is None:
        each = count // max(bags, 1)
        member = g.constant(np.repeat(np.eye(bags, dtype=bool), each, axis=1), "bool")
    else:
        at = np.arange(count)[None]
        begins = g.cast(offsets, "int64")
        if not include_last:
            begins = g.op("Concat", begins, [count], axis=0)
        begins = g.unsqueeze(begins, [1])
        lower = g.LessOrEqual(g.slice(begins, 0, 0, bags), at)
        member = g.And(lower, g.Less(at, g.slice(begins, 0, 1, bags + 1)))
    if padding >= 0:
        member = g.And(member, g.Not(g.Equal(flat, g.number(padding, flat.dtype))))
    return member, flat


@onnx_form("embedding_bag_rows")
def _(
    g: Any,
    weight: Any,
    input: Any,
    offsets: Any,
    rows: int,
    mode: str,
    include_last_offset: bool,
    padding: int,
    sparse: bool,
    by_frequency: bool,
) -> Any:
    if not math.prod(input.shape):
        return g.expand(g.number(0, weight.dtype), g.results[0].shape)
    member, flat = _bags(g, input, offsets, include_last_offset, padding)
    share = g.cast(member, weight.dtype)
    found = g.MatMul(share, g.op("Gather", weight, flat, axis=0))
    if mode == "mean":
        found = g.Div(found, g.Max(g.reduce("ReduceSum", share, [1], True), 1))
    return found


@onnx_form("embedding_bag_weighted")
def _(
    g: Any,
    weight: Any,
    scale: Any,
    input: Any,
    offsets: Any,
    include_last_offset: bool,
    padding: int,
    sparse: bool,
    by_frequency: bool,
) -> Any:
    if not math.prod(input.shape):
        return g.expand(g.number(0, weight.dtype), g.results[0].shape)
    member, flat = _bags(g, input, offsets, include_last_offset, padding)
    factors = g.reshape(scale, [math.prod(input.shape)])
    share = g.Where(member, factors, g.number(0, weight.dtype))
    return g.MatMul(share, g.op("Gather", weight, flat, axis=0))


@onnx_form("embedding_bag_largest")
def _(
    g: Any, weight: Any, input: Any, offsets: Any, rows: int, include_last_offset: bool, padding: int
) -> Any:
    if not math.prod(input.shape):
        return NotImplemented
    member, flat = _bags(g, input, offsets, include_last_offset, padding)
    each = g.op("Gather", weight, flat, axis=0)
    inside = g.unsqueeze(member, [2])
    shown = g.Where(inside, each, g.number(-math.inf, weight.dtype))
    empty = g.Not(g.cast(g.reduce("ReduceMax", g.cast(inside, "int32"), [1]), "bool"))
    values = g.Where(empty, g.number(0, weight.dtype), g.reduce("ReduceMax", shown, [1]))
    at = g.op("Gather", g.cast(flat, "int64"), g.op("ArgMax", shown, axis=1, keepdims=0), axis=0)
    return values, g.Where(empty, g.number(-1, "int64"), at)


# --- recurrent layers ------------------------------
def _turned(g: Any, x: Any, order: tuple[int, ...], size: int) -> Any:
    """Blocks of so many rows in another order, behind a new first dimension."""
    if len(order) == 1:
        return g.unsqueeze(x, [0])
    parts = g.op("Split", x, [size] * len(order), outputs=len(order), axis=0)
    return g.unsqueeze(g.op("Concat", *[parts[k] for k in order], axis=0), [0])


def _layer(
    g: Any,
    kind: str,
    gates: Any,
    weight: Any,
    states: list[Any],
    order: tuple[int, ...],
    bias: Any,
    turned: bool,
    **options: Any,
) -> Any:
    """A layer of ONNX along a sequence, over the input that the gates are made of where that is seen."""
    size = weight.shape[1]
    note = g.notes.get(gates.name)
    if note is not None and note[0] == "linear" and note[1].rank == 3:
        _, x, to_gates, added = note
    else:
        x, to_gates, added = gates, g.constant(np.eye(gates.shape[2], dtype=gates.dtype), gates.dtype), None
    zero = g.expand(g.number(0, weight.dtype), [len(order) * size])
    both = [zero if b is None else b for b in (added, bias)]
    biases = None
    if added is not None or bias is not None:
        biases = g.op("Concat", *[_turned(g, b, order, size) for b in both], axis=1)
    begin = [g.unsqueeze(s, [0]) for s in states]
    given = (x, _turned(g, to_gates, order, size), _turned(g, weight, order, size), biases, None, *begin)
    outputs = 3 if kind == "LSTM" else 2
    direction = "reverse" if turned else "forward"
    found = g.op(kind, *given, outputs=outputs, hidden_size=size, direction=direction, **options)
    return [g.squeeze(found[0], [1]), *(g.squeeze(v, [0]) for v in found[1:])]


def _one_length(g: Any, sizes: Any) -> None:
    if sizes is not None:
        raise g.unsupported("packed sequences: pad them, and mask what is behind their ends")


@onnx_form("lstm_sequence")
def _(
    g: Any, gates: Any, hidden: Any, cell: Any, weight: Any, sizes: Any, turned: bool, keep: bool
) -> Any:
    _one_length(g, sizes)
    if keep:
        return NotImplemented
    outputs, _, last = _layer(g, "LSTM", gates, weight, [hidden, cell], (0, 3, 1, 2), None, turned)
    return outputs, last, *g.absent()[2:]  # what backward reads


@onnx_form("gru_sequence")
def _(
    g: Any, gates: Any, hidden: Any, weight: Any, bias: Any, sizes: Any, turned: bool, keep: bool
) -> Any:
    _one_length(g, sizes)
    if keep:
        return NotImplemented
    found = _layer(g, "GRU", gates, weight, [hidden], (1, 0, 2), bias, turned, linear_before_reset=1)
    return found[0]


@onnx_form("rnn_sequence")
def _(
    g: Any, gates: Any, hidden: Any, weight: Any, sizes: Any, turned: bool, kind: str, keep: bool
) -> Any:
    _one_length(g, sizes)
    if keep:
        return NotImplemented
    name = "Relu" if kind == "rnn_relu" else "Tanh"
    return _layer(g, "RNN", gates, weight, [hidden], (0,), None, turned, activations=[name])[0]


# --- losses ------------------------------
@onnx_form("class_entropy")
def _(g: Any, input: Any, target: Any, ignore_index: int, how: str) -> Any:
    x = g.cast(input, "float32") if input.dtype in ("float16", "bfloat16") else input
    top = g.reduce("ReduceMax", x, [1], True)
    total = g.Log(g.reduce("ReduceSum", g.Exp(g.Sub(x, top)), [1], True))
    counts = g.Not(g.Equal(target, g.number(ignore_index, target.dtype)))
    kept = g.reduce("ReduceSum", g.cast(counts, x.dtype), [0])
    loss = g.op("SoftmaxCrossEntropyLoss", x, target, reduction=how, ignore_index=ignore_index)
    return loss, top, total, kept


@onnx_form("linear_cross_entropy_rows")
def _(
    g: Any,
    input: Any,
    linear_weight: Any,
    linear_bias: Any,
    target: Any,
    weight: Any,
    steps: int,
    dtype: Any,
    how: str,
    ignore_index: int,
) -> Any:
    given = [None if v is None else g.cast(v, "float32") for v in (input, linear_weight, linear_bias, weight)]
    x, w, b, of_class = given
    scores = g.MatMul(x, g.op("Transpose", w, perm=[1, 0]))
    scores = scores if b is None else g.Add(scores, b)
    options = {"reduction": how, "ignore_index": ignore_index}
    return g.op("SoftmaxCrossEntropyLoss", scores, target, of_class, **options)
