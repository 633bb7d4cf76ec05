"""Orders, searches and counts on devices.

Rows are put in order by merging runs: in each pass every place finds by bisection which elements of two neighbouring runs come before
it (O. Green, R. McColl, D. Bader, "GPU merge path", 2012), so that a row of n elements takes ⌈log₂ n⌉ launches and equal elements keep
their order.  What is compared are integers in the order of the elements, of two widths: one kernel each serves all dtypes.
"""

from __future__ import annotations

from typing import Any

from ...codegen import functions as fn
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.make.create import arange, empty, zeros
from ...core.places.join import cat
from ...core.tape.contexts import unrecorded
from ..declare.indexed import indexed

INT32, INT64, BOOL = (by_name[n] for n in ("int32", "int64", "bool"))
WIDE = frozenset(("float64", "int64", "uint64", "uint32"))


# --- keys ------------------------------
def _key(at, x, dtype: str, down: bool) -> tuple:
    """An integer of that dtype in the order of the element; NaN comes last, and all zeros are equal."""
    value = x[at]
    if fn.is_float(value.dtype):
        bits = fn.bitcast(value + 0.0, dtype)
        width = 64 if dtype == "int64" else 32
        ordered = fn.where(bits < 0, bits ^ ((1 << width - 1) - 1), bits)
        key = fn.where(fn.isnan(value), fn.like(bits, (1 << width - 1) - 1), ordered)
    elif value.dtype == "uint64":
        key = fn.bitcast(value ^ (1 << 63), dtype)
    else:
        key = fn.cast(value, dtype)
    return (~key if down else key,)


@indexed(static=("down",), dtypes=(INT32,))
def _short_key(at, x, *, down):
    return _key(at, x, "int32", down)


@indexed(static=("down",), dtypes=(INT64,))
def _long_key(at, x, *, down):
    return _key(at, x, "int64", down)


# --- merging ------------------------------
@indexed(dtypes=(None, INT64), effort=64)
def _merged(at, keys, places, *, level):
    """The element that comes to a place when runs of 2^level are merged in pairs, and where it stood."""
    row, p, n = at[:-1], at[-1], at.size(keys.rank - 1)
    run = fn.cast(fn.like(level, 1) << level, p.dtype)
    begin = p & ~(run + run - 1)
    q = p - begin
    first = fn.minimum(run, n - begin)
    second = fn.minimum(run + run, n - begin) - first
    low, high = fn.maximum(q - second, 0), fn.minimum(q, first)

    def step(low, high):
        middle = (low + high) >> 1
        before = keys[(*row, begin + middle)] <= keys[(*row, begin + first + (q - 1 - middle))]
        return fn.where(before, middle + 1, low), fn.where(before, high, middle)

    i, _ = at.repeat((low, high), lambda low, high: low < high, step)
    j = q - i
    mine = keys.load((*row, begin + i), i < first)
    other = keys.load((*row, begin + first + j), j < second)
    takes = (j >= second) | ((i < first) & (mine <= other))
    source = fn.where(takes, begin + i, begin + first + j)
    return fn.where(takes, mine, other), places[(*row, source)]


def order(x: TensorBase, descending: bool = False, first: int = -1) -> TensorBase:
    """Indices that put each row (the last dimension) in order, or the first of them; equal elements keep theirs."""
    with unrecorded():
        n = x.shape[-1]
        key = _long_key if x.dtype.name in WIDE else _short_key
        keys = key(x.shape, x, down=bool(descending))
        places = arange(n, device=x.device).expand(x.shape)
        for level in range(max(n - 1, 0).bit_length() if x.numel() else 0):
            keys, places = _merged(x.shape, keys, places, level=level)
        return (places if first < 0 else places.narrow(-1, 0, first)).contiguous()


# --- where numbers belong ------------------------------
@indexed(static=("behind", "one"), dtypes=(INT64,), effort=32)
def _place(at, values, bounds, *, behind, one):
    """How many bounds of the row come before the value, by halving as the CPU does it (`histograms.pyx`), so that rows that are not
    ascending give the same; `one` row serves all, else the value's own.
    """
    value, n = values[at], bounds.size(bounds.rank - 1)

    def comes_before(k):
        bound = bounds[(k,) if one else (*at[:-1], k)]
        return ~((bound > value) if behind else (bound >= value))

    def step(low, left):
        half = left >> 1
        return fn.where(comes_before(low + (half - 1)), low + half, low), left - half

    low, left = at.repeat((fn.like(n, 0), n), lambda low, left: left > 1, step)
    _, low = at.repeat(
        (left > 0, low), lambda go, _: go, lambda go, k: (False, fn.where(comes_before(k), k + 1, k))
    )
    return (fn.cast(low, "int64"),)


def search(bounds: TensorBase, values: TensorBase, behind: bool = False) -> TensorBase:
    """Where values belong in ascending rows, of one dtype: before equal elements, or behind them."""
    with unrecorded():
        return _place(values.shape, values, bounds, behind=bool(behind), one=bounds.ndim == 1)


# --- counts ------------------------------
@indexed(dtypes=(None,), effort=16)
def _sum_of_run(at, weights, order, starts):
    """The sum of the weights of one run, in order."""
    (k,) = at
    zero = fn.like(weights[(at.number(0),)], 0)

    def step(i, total):
        return i + 1, total + weights[(fn.cast(order[(i,)], at.integer),)]

    end = fn.cast(starts[(k + 1,)], at.integer)
    first = fn.cast(starts[(k,)], at.integer)
    return (at.repeat((first, zero), lambda i, _: i < end, step)[1],)


def counts(places: TensorBase, size: int, weights: TensorBase | None = None) -> TensorBase:
    """How many elements of a vector of int64 are 0, 1, … `size` - 1, or the sums of their weights in order; others are left out."""
    with unrecorded():
        if not places.numel():
            kind = INT64 if weights is None else weights.dtype
            return zeros(size, dtype=kind, device=places.device)
        ranked = order(places)
        ordered = places.gather(0, ranked)
        starts = search(ordered, arange(size + 1, device=places.device))
        if weights is None:
            return starts.diff()
        return _sum_of_run((size,), weights.contiguous(), ranked, starts)


def parts(x: TensorBase, low: float, high: float, number: int) -> TensorBase:
    """How many elements lie in each of so many equal parts of [low, high], in int64."""
    with unrecorded():
        x = x.reshape(-1)
        lower = x.new_full((), low)
        width = x.new_full((), high) - lower
        part = ((x - lower) / width * number).clamp(0, number - 1).nan_to_num(0).to(INT64)
        return counts(part.masked_fill(~((x >= low) & (x <= high)), -1), number)


def among(elements: TensorBase, tested: TensorBase, invert: bool) -> TensorBase:
    """Whether each element is one of those that are tested for, of one dtype; NaN is none."""
    with unrecorded():
        tested = tested.reshape(-1)
        if not tested.numel():
            return empty(elements.shape, dtype=BOOL, device=elements.device).fill_(invert)
        ordered = tested[order(tested)]
        nearest = ordered[search(ordered, elements).clamp(max=len(ordered) - 1)]
        return (nearest != elements) if invert else (nearest == elements)


# --- runs of equal elements ------------------------------
def _starts(lines: TensorBase) -> TensorBase:
    """Which rows of a matrix differ from the row before (bool); the first does."""
    n = lines.shape[0]
    differ = (lines.narrow(0, 1, n - 1) != lines.narrow(0, 0, n - 1)).any(1) if n > 1 else None
    head = empty(min(n, 1), dtype=BOOL, device=lines.device).fill_(True)
    return head if differ is None else cat([head, differ])


def _ordered_rows(lines: TensorBase) -> TensorBase:
    """Indices that put the rows of a matrix in order, the first column first."""
    if lines.is_complex():
        lines = lines.view_as_real().flatten(1)
    places = arange(lines.shape[0], device=lines.device)
    for column in reversed(range(lines.shape[1])):
        places = places[order(lines.select(1, column)[places])]
    return places


def distinct(
    input: TensorBase, dim: int | None, sort: bool, return_inverse: bool, return_counts: bool
) -> Any:
    """`unique` (where `sort`) and `unique_consecutive`."""
    with unrecorded():
        x = input.detach()
        if dim is None:
            lines = x.reshape(-1, 1)
        else:
            lines = x.movedim(dim, 0)
            lines = lines.reshape(lines.shape[0], lines.numel() // max(lines.shape[0], 1))
        ranked = _ordered_rows(lines) if sort else None
        ordered = lines if ranked is None else lines[ranked]
        new = _starts(ordered)
        starts = new.nonzero().reshape(-1)
        if dim is None:
            values = ordered.reshape(-1)[starts]
        else:
            values = x.index_select(dim, starts if ranked is None else ranked[starts])
        result = [values]
        if return_inverse:
            numbers = new.cumsum(0) - 1
            if ranked is not None:
                numbers = empty(numbers.shape, dtype=INT64, device=x.device).scatter_(0, ranked, numbers)
            result.append(numbers.reshape(input.shape) if dim is None else numbers)
        if return_counts:
            end = starts.new_full((1,), lines.shape[0])
            result.append(cat([starts, end]).diff())
        return result[0] if len(result) == 1 else tuple(result)


def most_frequent(rows: TensorBase, ranked: TensorBase) -> TensorBase:
    """Where the most frequent element of each row last stands (a last dimension of 1); `ranked` puts the rows in order."""
    with unrecorded():
        ordered = rows.gather(-1, ranked)
        n = rows.shape[-1]
        place = arange(n, device=rows.device).expand(rows.shape)
        same = ordered.narrow(-1, 1, n - 1) == ordered.narrow(-1, 0, n - 1)
        same = cat([empty((*rows.shape[:-1], 1), dtype=BOOL, device=rows.device).fill_(False), same], -1)
        first = place.masked_fill(same, 0).cummax(-1).values
        best = (place - first).argmax(-1, True)
        return ranked.gather(-1, best)
