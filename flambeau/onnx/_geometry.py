"""Views by their geometry alone: which elements of a memory a tensor is, read from and written to the value of that memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..graph.record import Place
from ._writer import Value, Writer
from .errors import UnsupportedOperatorError


def is_contiguous(place: Place) -> bool:
    step = 1
    for n, s in zip(reversed(place.shape), reversed(place.stride)):
        if n != 1 and s != step:
            return False
        step *= n
    return True


def take(g: Writer, value: Value, base: Place, place: Place) -> Value:
    """The elements at `place` of the value that lies at `base`."""
    check(base, place)
    if same_order(base, place):
        return g.reshape(value, place.shape)
    return g.op("Gather", g.flat(value.of(base.shape)), indices(g, base, place), axis=0, shape=place.shape)


def put(g: Writer, value: Value, base: Place, place: Place, new: Value) -> Value:
    """The value at `base` once `new` was written at `place`."""
    check(base, place)
    if same_order(base, place):
        return g.reshape(new, base.shape)
    return g.scatter(value.of(base.shape), indices(g, base, place), new.of(place.shape))


def same_order(base: Place, place: Place) -> bool:
    """Whether both are the same elements in the same order."""
    return (
        base.offset == place.offset
        and math.prod(base.shape) == math.prod(place.shape)
        and is_contiguous(base)
        and is_contiguous(place)
    )


def check(base: Place, place: Place) -> None:
    if base.dtype is not place.dtype:
        raise UnsupportedOperatorError(f"a view of {base.dtype.name} as {place.dtype.name}, which reads bits")


def indices(g: Writer, base: Place, place: Place) -> Value:
    """Where each element at `place` stands among those at `base`, counted in the order of its dimensions."""
    if not (g.varying and is_contiguous(base)):
        return g.constant(_table(base, place), "int64")
    result: Any = g.squeeze(g.ints([place.offset - base.offset]), [0])
    for d, (n, stride) in enumerate(zip(place.shape, place.stride)):
        if n == 1:
            continue
        step = g.op("Mul", g.range(n), g.ints([stride]))
        result = g.op("Add", result, g.unsqueeze(step, list(range(1, len(place.shape) - d))))
    return g.expand(result, place.shape)


def _offsets(place: Place) -> np.ndarray:
    result = np.array(place.offset, np.int64)
    for n, stride in zip(place.shape, place.stride):
        result = result[..., None] + np.arange(n) * stride
    return result


def _table(base: Place, place: Place) -> np.ndarray:
    lies, wanted = _offsets(base).reshape(-1), _offsets(place)
    if is_contiguous(base):
        result = wanted - base.offset
    else:
        order = np.argsort(lies, kind="stable")
        at = np.searchsorted(lies[order], wanted.reshape(-1))
        result = order[np.minimum(at, len(order) - 1)].reshape(wanted.shape) if len(order) else wanted
    outside = (result < 0) | (result >= len(lies))
    if wanted.size and (outside.any() or (lies[np.where(outside, 0, result)] != wanted).any()):
        raise UnsupportedOperatorError(
            "a view of memory that lies outside of the tensor it was made from: copy the tensor before it is given"
        )
    return result


# --- views as slices, turns and broadcasts ------------------------------
END = (1 << 63) - 1  # of a slice that goes on to the end


def viewed(g: Writer, value: Value, source: Place, made: Place) -> Value | None:
    """A view as it was made of a tensor: reshaped, or sliced, turned and broadcast; None where it is neither."""
    if source.dtype is not made.dtype:
        return None
    if keeps_order(source, made):
        return g.reshape(value, made.shape)
    result = _matched(source, made)
    if result is None:
        return None
    cuts, order, dropped = result
    value = _sliced(g, value, source, cuts)
    value = g.squeeze(value, dropped)
    remaining = [d for d in range(len(source.shape)) if d not in dropped]
    sources = [d for d in order if d is not None]
    value = g.transpose(value, [remaining.index(d) for d in sources])
    value = g.unsqueeze(value, [k for k, d in enumerate(order) if d is None])
    expanded = any(n != 1 and s == 0 for n, s in zip(made.shape, made.stride))
    return g.expand(value.of(()) if expanded else value.of(made.shape), made.shape)


def keeps_order(source: Place, made: Place) -> bool:
    """Whether both run over the same elements in the same order, as where a dimension is cut in two."""
    if source.offset != made.offset or math.prod(source.shape) != math.prod(made.shape):
        return False
    if 0 in source.shape:
        return True
    return _merged(source) == _merged(made)


def _merged(place: Place) -> list[tuple[int, int]]:
    """Sizes and strides with dimensions that run on made one."""
    result: list[tuple[int, int]] = []
    for n, s in zip(place.shape, place.stride):
        if n == 1:
            continue
        if result and result[-1][1] == n * s:
            result[-1] = (result[-1][0] * n, s)
        else:
            result.append((n, s))
    return result


def _sliced(g: Writer, value: Value, source: Place, cuts: dict[int, tuple[int, int, int]]) -> Value:
    """`cuts`: by dimension, where to start, how many elements, how far apart."""
    needed = [
        d for d, (start, n, step) in sorted(cuts.items()) if (start, n, step) != (0, source.shape[d], 1)
    ]
    if not needed:
        return value
    starts = [cuts[d][0] for d in needed]
    ends = []
    for d in needed:
        start, n, step = cuts[d]
        end = start + (n - 1) * step + 1
        ends.append(END if end + step > source.shape[d] and n > 1 else end)
    return g.op("Slice", value, starts, ends, needed, [cuts[d][2] for d in needed])


def _matched(
    source: Place, made: Place
) -> tuple[dict[int, tuple[int, int, int]], list[int | None], list[int]] | None:
    """How the view is cut out: the cuts, the dimension that each of its own comes from (None: a new one), and those that are dropped."""
    if 0 in source.shape or 0 in made.shape:
        return None
    delta, starts = made.offset - source.offset, {}
    if delta < 0:
        return None
    moving = [d for d, (n, s) in enumerate(zip(source.shape, source.stride)) if n > 1 and s > 0]
    for d in sorted(moving, key=lambda d: -source.stride[d]):
        starts[d] = min(delta // source.stride[d], source.shape[d] - 1)
        delta -= starts[d] * source.stride[d]
    if delta:
        return None
    cuts = {d: (starts.get(d, 0), 1, 1) for d in range(len(source.shape))}
    free = list(range(len(source.shape)))
    order: list[int | None] = []
    for n, stride in zip(made.shape, made.stride):
        if n == 1:
            order.append(None)
            continue
        result = _dimension(source, free, starts, n, stride)
        if result is None and stride != 0:
            return None
        order.append(result)
        if result is not None:
            free.remove(result)
            step = stride // source.stride[result] if source.stride[result] else 1
            cuts[result] = (starts.get(result, 0), n, step)
    _keep_units(source, made, free, order)
    return cuts, order, free


def _keep_units(source: Place, made: Place, free: list[int], order: list[int | None]) -> None:
    """Dimensions that stay, cut to one element, or have one: where as many are new between the same neighbours as are dropped."""
    if len(source.shape) != len(made.shape):
        return
    for k, d in enumerate(order):
        if d is None and k in free and made.shape[k] == 1:
            order[k] = k
            free.remove(k)
    for k, d in enumerate(order):  # size 1, now broadcast
        if d is None and k in free and source.shape[k] == 1:
            order[k] = k
            free.remove(k)


def _dimension(source: Place, free: list[int], starts: dict[int, int], n: int, stride: int) -> int | None:
    """Which of the free dimensions a dimension of the view runs along."""
    if stride == 0:
        same = [d for d in free if source.stride[d] == 0 and source.shape[d] == n]
        return same[0] if same else None
    for exact in (True, False):
        for d in free:
            own = source.stride[d]
            if source.shape[d] == 1 or own <= 0 or stride % own or (exact and own != stride):
                continue
            if starts.get(d, 0) + (n - 1) * (stride // own) < source.shape[d]:
                return d
    return None
