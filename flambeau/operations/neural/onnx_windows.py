"""ONNX forms of pooling, resizing and sampling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..declare import taps
from ..declare.onnx import onnx_form
from .onnx_forms import padding_behind
from .pooling.pooling import adaptive_avg_pool_parts, adaptive_max_places, max_pool_values
from .resampling.resizing import grid_taps
from .resampling.sampling import channels_together


# --- pooling ------------------------------
def _max_pool(g: Any, input: Any, w: Any, outputs: int) -> Any:
    ends = [padding_behind(*n) for n in zip(w.sizes, w.out, w.kernel, w.stride, w.padding, w.dilation)]
    return g.op(
        "MaxPool",
        g.unsqueeze(input, [0]),
        outputs=outputs,
        kernel_shape=list(w.kernel),
        strides=list(w.stride),
        pads=[*w.padding, *ends],
        dilations=list(w.dilation),
    )


@onnx_form(max_pool_values)
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


@onnx_form(adaptive_max_places)
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
    result = g.GatherElements(g.constant(at, "int64"), g.transpose(best.of((0, 0)), [1, 0]), axis=1)
    return g.reshape(g.transpose(result.of((0, 0)), [1, 0]), g.results[0].shape)


def _matrix(table: Any) -> np.ndarray:
    """What each element of a line gives to each place, (size, out)."""
    result = np.zeros((table.size, table.out))
    for j, row in enumerate(table.rows_of()):
        for i, weight in row:
            result[i, j] += weight
    return result


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
        result = [None if t is None else _window(t, include) for t in tables]
        if all(w is not None for w in result) and input.rank in (dims + 1, dims + 2) and 0 not in input.shape:
            kernel, stride, before, behind = zip(*result)
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
    onnx_form(f"upsample_nearest_exact{_d}d_tables")(
        _resize("nearest", _EXACT, nearest_mode="round_prefer_ceil")
    )
    onnx_form(f"adaptive_avg_pool{_d}d_tables")(_by_tables)
    for _mode in ("reflection", "replication", "circular"):
        onnx_form(f"{_mode}_pad{_d}d_tables")(_by_tables)
for _name in ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"):
    onnx_form(f"{_name}_tables")(_resize("linear", _half(taps.linear)))
onnx_form("upsample_bicubic2d_tables")(_resize("cubic", _half(taps.cubic), cubic_coeff_a=-0.75))


@onnx_form(grid_taps)
def _(g: Any, grid: Any, shape: Any, mode: str, padding: str, aligned: bool) -> Any:
    """What the sum over the grid gets: GridSample does both at once."""
    made = g.absent()
    g.notes[made[0].name] = "grid", grid, shape, mode, padding, aligned
    return made


@onnx_form(channels_together)
def _(g: Any, input: Any) -> Any:
    """Rows of channels, one row of zeros behind them; the sum over the grid gets the images as they were."""
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
    result = g.op(
        "GridSample",
        image,
        points,
        mode=kinds.get(mode, mode),
        padding_mode=padding,
        align_corners=int(aligned),
    )
    channels = g.reshape(result.of(()), [n, image.shape[1], count])
    return channels if planes else g.op("Transpose", channels, perm=[0, 2, 1])


# --- where lines are too long for tables ------------------------------
def _line(mode: str, before: int, size: int, out: int) -> np.ndarray:
    """Which element of a line of `size` each place of a longer one shows."""
    at = np.arange(out) - before
    if mode == "reflect":
        return size - 1 - np.abs(size - 1 - np.abs(at))
    return np.clip(at, 0, size - 1) if mode == "replicate" else at % size


def _longer(g: Any, input: Any, sides: Any) -> Any:
    x, first = input, input.rank - len(sides.out)
    for d, (before, size, out) in enumerate(zip(sides.before, sides.sizes, sides.out)):
        if (before, size) != (0, out):
            x = g.op("Gather", x, _line(sides.mode, before, size, out), axis=first + d)
    return x


def _window_means(g: Any, input: Any, windows: Any) -> Any:
    if (
        not windows.whole
        or windows.divisor is not None
        or input.dtype not in ("float32", "float16", "float64")
    ):
        return NotImplemented
    ends = [
        padding_behind(n, o, k, s, p, 1)
        for n, o, k, s, p in zip(windows.sizes, windows.out, windows.kernel, windows.stride, windows.padding)
    ]
    pooled = g.op(
        "AveragePool",
        g.unsqueeze(input, [0]),
        kernel_shape=list(windows.kernel),
        strides=list(windows.stride),
        pads=[*windows.padding, *ends],
        count_include_pad=int(windows.include),
    )
    return g.squeeze(pooled, [0])


for _d in (1, 2, 3):
    onnx_form(f"avg_pool{_d}d_windows")(_window_means)
    for _mode in ("reflection", "replication", "circular"):
        onnx_form(f"{_mode}_pad{_d}d")(_longer)


@onnx_form(adaptive_avg_pool_parts)
def _(g: Any, input: Any, sizes: Any, parts: Any) -> Any:
    x = input
    for d, (n, k) in enumerate(zip(sizes, parts)):
        shares = np.zeros((n, k))
        for i in range(k):
            begin, end = i * n // k, -(-(i + 1) * n // k)
            shares[begin:end, i] = 1 / (end - begin)
        perm = list(range(input.rank))
        perm[d + 1], perm[-1] = perm[-1], perm[d + 1]
        product = g.MatMul(g.transpose(x, perm), g.constant(shares.astype(input.dtype), input.dtype))
        x = g.transpose(product.of((0,) * input.rank), perm)
    return x
