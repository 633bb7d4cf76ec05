"""Pooling: maxima, means and power means over windows of an input (N, C, *) or (C, *).

Each is an indexed kernel over (plane, *place): forward a loop over the window, backward, for every element of the input,
a loop over the windows that hold it, so that no two threads write to one place.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....codegen import expr as ex
from ....codegen import indexed as ix
from ....codegen.kernels import lowest
from ....core import tape
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.call.leaf import LeafOp
from ....core.lib.resampling import samples
from ...declare import checks, taps
from ...declare.dtype_groups import BOOL, FLOATING, LONG, NUMERIC
from ...declare.examples import of_call
from ...declare.half_types import FLOAT32, HALF_TYPES, in_float32
from ...declare.indexed import indexed
from ...declare.registry import leaf, register
from ..activations import relu


# --- kernels ------------------------------
def _within(x, place):
    """Whether a place is inside of the input's spatial dimensions."""
    result = ix.inside(place[0], x.size(1))
    for d in range(1, len(place)):
        result = result & ix.inside(place[d], x.size(1 + d))
    return result


def _flat(place, x):
    """A place as one number."""
    result = place[0]
    for d in range(1, len(place)):
        result = result * x.size(1 + d) + place[d]
    return result


def _larger(best, new):
    """The first of the largest; a later NaN wins, and so does anything over nothing yet (-1)."""
    (value, at), (v, i) = best, new
    take = (v > value) | (at < 0)
    take = take | ex.isnan(v) if ex.is_float(v.dtype) else take
    return ex.where(take, v, value), ex.where(take, i, at)


def _window_max(at, x, *, kernel, stride, padding, dilation):
    plane, *out = at

    def element(*k):
        place = [o * s - p + i * d for o, s, p, i, d in zip(out, stride, padding, k, dilation)]
        valid = _within(x, place)
        value = ex.where(valid, x.load((plane, *place), valid), lowest(x.dtype))
        return value, ex.where(valid, _flat(place, x), -1)

    low = element(*(at.number(0) for _ in kernel))[0].dtype
    return at.fold(kernel, element, _larger, (ex.const(lowest(low), low), at.number(-1)))


_WINDOW = ("kernel", "stride", "padding", "dilation")
window_max = indexed(static=_WINDOW, dtypes=(None, by_name["int64"]), effort=8)(_window_max)
window_max_short = indexed(static=_WINDOW, dtypes=(None, by_name["int32"]), effort=8)(_window_max)


@indexed(static=_WINDOW, effort=8)
def window_max_only(at, x, *, kernel, stride, padding, dilation):
    """The largest of each window without its place."""
    plane, *out = at

    def element(*k):
        place = [o * s - p + i * d for o, s, p, i, d in zip(out, stride, padding, k, dilation)]
        valid = _within(x, place)
        return (ex.where(valid, x.load((plane, *place), valid), lowest(x.dtype)),)

    low = element(*(at.number(0) for _ in kernel))[0].dtype
    start = (ex.const(lowest(low), low),)
    return at.fold(kernel, element, lambda a, b: (ex.maximum(a[0], b[0]),), start)


def _above(i, step: int):
    """i // step of a number that is not negative."""
    if step & (step - 1) == 0:
        return i >> (step.bit_length() - 1)
    return ex.cast(ex.div(ex.bitcast(i, "u" + i.dtype), step), i.dtype)


@indexed(static=_WINDOW, effort=8)
def window_max_back(at, grad, where, *, kernel, stride, padding, dilation):
    """For each element of the input, the gradients of the windows whose largest it is.

    `where` (planes, *out) has the flat places; the input's size is that of the result.
    """
    plane, *place = at
    own = place[0]
    for d in range(1, len(place)):
        own = own * at.size(1 + d) + place[d]
    last = [_above(i + p, s) for i, p, s in zip(place, padding, stride)]

    def element(*k):
        o = [a - j for a, j in zip(last, k)]
        valid = _within(grad, o)
        mine = valid & (ex.cast(where.load((plane, *o), valid), own.dtype) == own)
        value = grad.load((plane, *o), mine)
        return ex.where(mine, value, 0)

    turns = [-(-(d * (k - 1) + 1) // s) for k, s, d in zip(kernel, stride, dilation)]
    return at.sum(turns, element)


def _share(x_size, o, kernel, stride, padding, include: bool, divisor, number):
    """What the mean of window `o` divides by."""
    if divisor is not None:
        return number(divisor)
    count = None
    for d, place in enumerate(o):
        start = place * stride[d] - padding[d]
        end = ex.minimum(start + kernel[d], x_size(1 + d) + padding[d])
        if not include:
            start, end = ex.maximum(start, 0), ex.minimum(end, x_size(1 + d))
        count = end - start if count is None else count * (end - start)
    return count


_MEAN = ("kernel", "stride", "padding", "include", "divisor", "whole")


@indexed(static=_MEAN, effort=8)
def window_mean(at, x, *, kernel, stride, padding, include, divisor, whole):
    """`whole`: all windows have all their elements, so that the divisor is one number."""
    plane, *out = at

    def element(*k):
        place = [o * s - p + i for o, s, p, i in zip(out, stride, padding, k)]
        return x.load((plane, *place), _within(x, place) if any(padding) or not whole else None)

    total = at.sum(kernel, element)
    known = math.prod(kernel) if whole and divisor is None else divisor
    share = _share(x.size, out, kernel, stride, padding, include, known, at.number)
    return total / ex.cast(share, total.dtype)


@indexed(static=_MEAN, effort=8)
def window_mean_back(at, grad, *, kernel, stride, padding, include, divisor, whole):
    """For each element of the input, its shares of the gradients of its windows."""
    plane, *place = at
    last = [_above(i + p, s) for i, p, s in zip(place, padding, stride)]
    known = math.prod(kernel) if whole and divisor is None else divisor

    def element(*k):
        o = [a - j for a, j in zip(last, k)]
        valid = _within(grad, o)
        for i, p, s, w, window in zip(place, padding, stride, o, kernel):
            if window % s:
                valid = valid & (i + p - w * s < window)
        value = grad.load((plane, *o), valid)
        if known is not None:
            return value
        share = _share(at.size, o, kernel, stride, padding, include, None, at.number)
        return ex.where(valid, value / ex.cast(share, value.dtype), 0)

    total = at.sum([-(-k // s) for k, s in zip(kernel, stride)], element)
    return total if known is None else total / ex.const(known, total.dtype)


def _parts(o, size, count):
    """Where part `o` of `count` equal parts of a dimension begins and ends; neighbours overlap by one element."""
    return ex.div(o * size, count), ex.div((o + 1) * size + count - 1, count)


@indexed(effort=32)
def parts_mean(at, x, **longest):
    """The mean of each part; `longest{d}` bounds the length of the parts."""
    plane, *out = at
    bounds = [_parts(o, x.size(1 + d), at.size(1 + d)) for d, o in enumerate(out)]

    def element(*k):
        valid = None
        for (start, end), i in zip(bounds, k):
            fits = start + i < end
            valid = fits if valid is None else valid & fits
        return x.load((plane, *(start + i for (start, _), i in zip(bounds, k))), valid)

    count = at.number(1)
    for start, end in bounds:
        count = count * (end - start)
    total = at.sum([longest[f"longest{d}"] for d in range(len(out))], element)
    return total / ex.cast(count, total.dtype)


@indexed(effort=32)
def parts_mean_back(at, grad, **longest):
    """For each element of the input, its shares of the gradients of the parts that hold it."""
    plane, *place = at
    firsts = [ex.div(i * grad.size(1 + d), at.size(1 + d)) for d, i in enumerate(place)]

    def element(*k):
        o = [first + j for first, j in zip(firsts, k)]
        valid, share = _within(grad, o), at.number(1)
        for d, (i, part) in enumerate(zip(place, o)):
            start, end = _parts(part, at.size(1 + d), grad.size(1 + d))
            valid, share = valid & (start <= i) & (i < end), share * (end - start)
        value = grad.load((plane, *o), valid)
        return ex.where(valid, value / ex.cast(share, value.dtype), 0)

    return at.sum([longest[f"longest{d}"] for d in range(len(place))], element)


@indexed(dtypes=(by_name["int64"],), effort=32)
def parts_largest(at, x, **longest):
    """Where the largest element of each part is, as a flat place."""
    plane, *out = at
    bounds = [_parts(o, x.size(1 + d), at.size(1 + d)) for d, o in enumerate(out)]

    def element(*k):
        place = [start + i for (start, _), i in zip(bounds, k)]
        valid = place[0] < bounds[0][1]
        for i, (_, end) in zip(place[1:], bounds[1:]):
            valid = valid & (i < end)
        value = ex.where(valid, x.load((plane, *place), valid), lowest(x.dtype))
        return value, ex.where(valid, _flat(place, x), -1)

    low = element(*(at.number(0) for _ in out))[0].dtype
    extents = [longest[f"longest{d}"] for d in range(len(out))]
    return at.fold(extents, element, _larger, (ex.const(lowest(low), low), at.number(-1)))[1]


# --- arguments ------------------------------
def ntuple(name: str, argument: str, value, n: int) -> tuple[int, ...]:
    """One number for each of n dimensions."""
    if isinstance(value, int):
        return (value,) * n
    result = tuple(int(v) for v in value)
    if len(result) == 1:
        return result * n
    if len(result) != n:
        raise RuntimeError(f"{name}(): {argument} should be a single int or a tuple of {n} ints, got {value}")
    return result


def positive(name: str, argument: str, values: Sequence[int], least: int = 1) -> None:
    if any(v < least for v in values):
        what = "non-positive" if least else "negative"
        raise RuntimeError(f"{name}(): {what} {argument} is not supported, got {tuple(values)}")


def addressable(name: str, extents: Sequence[int]) -> None:
    """RuntimeError where padded sizes are beyond what 64 bits address."""
    if any(n >= 1 << 62 for n in extents):
        raise RuntimeError(
            f"{name}(): expected padded sizes to be at most {(1 << 62) - 1}, got {list(extents)}"
        )


def planes(name: str, shape: Sequence[int], n: int, without_channels: bool = False) -> tuple[int, ...]:
    """(N, C, *) or (C, *) as (planes, *); whether there may be no channels."""
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D (unbatched) or {n + 2}D (batched) input, but got input of size: {list(shape)}"
        )
    if 0 in shape[-n if without_channels else len(shape) - n - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got input of size: {list(shape)}"
        )
    return (math.prod(shape[:-n]), *shape[-n:])


class Plan(NamedTuple):
    """One call's numbers: the input as (planes, *), the windows, and the output's shapes."""

    flat: tuple[int, ...]
    window: tuple[tuple[int, ...], ...]
    out: tuple[int, ...]
    shape: tuple[int, ...]


def _plan(name: str, n: int, x, kernel, stride, padding, dilation, ceil_mode) -> Plan:
    numbers = [tuple(v) if isinstance(v, list) else v for v in (kernel, stride, padding, dilation)]
    return _planned(name, n, x.shape, *numbers, bool(ceil_mode))


@functools.lru_cache(maxsize=512)
def _planned(name: str, n: int, shape, kernel, stride, padding, dilation, ceil_mode: bool) -> Plan:
    flat = planes(name, shape, n)
    kernel = ntuple(name, "kernel_size", kernel, n)
    stride = kernel if stride is None or stride == () else ntuple(name, "stride", stride, n)
    padding, dilation = ntuple(name, "padding", padding, n), ntuple(name, "dilation", dilation, n)
    positive(name, "kernel_size", kernel)
    positive(name, "stride", stride)
    positive(name, "dilation", dilation)
    out = []
    for size, k, s, p, d in zip(flat[1:], kernel, stride, padding, dilation):
        if p < 0 or 2 * p > k:
            raise RuntimeError(
                f"{name}(): pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}"
            )
        free = size + 2 * p - d * (k - 1) - 1
        count = (-(-free // s) if ceil_mode else free // s) + 1
        if ceil_mode and (count - 1) * s >= size + p:
            count -= 1  # the last window must start inside the input or its left padding
        if count < 1:
            raise RuntimeError(
                f"{name}(): Given input size: ({'x'.join(map(str, flat))}). Calculated output size: {count}. Output size is too small"
            )
        if count == 1:
            stride = (
                *stride[: len(out)],
                min(s, size + p),
                *stride[len(out) + 1 :],
            )  # one window has no next
        out.append(count)
    addressable(name, [n + 2 * p + d * k for n, p, k, d in zip(flat[1:], padding, kernel, dilation)])
    return Plan(flat, (kernel, stride, padding, dilation), (flat[0], *out), (*shape[:-n], *out))


# --- maxima ------------------------------
class Windows(NamedTuple):
    """How windows lie on inputs of such sizes, a number a dimension, and how many there are."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    out: tuple[int, ...]

    def numbers(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
        }


@leaf("library", batching="images")
def max_pool_values(input: TensorBase, windows: Windows) -> TensorBase:
    """The largest of each window of (planes, *): (planes, *out)."""
    return window_max_only((len(input), *windows.out), input, **windows.numbers())


def _largest_with_places(input: TensorBase, windows: Windows, short: bool) -> tuple[TensorBase, TensorBase]:
    """The largest of each window of (planes, *), and its flat place, int32 where `short`: (planes, *out)."""
    result = window_max_short if short else window_max
    return result((len(input), *windows.out), input, **windows.numbers())


def _to_places(grad: TensorBase, places: TensorBase, windows: Windows) -> TensorBase:
    return max_pool_backward(grad, places, windows)


@leaf("library", inputs=("grad_output",), label="MaxPoolBackwardBackward0", batching="images")
def max_pool_backward(grad_output: TensorBase, places: TensorBase, windows: Windows) -> TensorBase:
    """The gradient of each window at its largest element, (planes, *sizes); where windows do not overlap, each is written once."""
    sizes = windows.sizes
    shape = (len(grad_output), *sizes)
    if _on_host(grad_output) and grad_output.dtype.name in (
        "float32",
        "float64",
        *(t.name for t in HALF_TYPES),
    ):
        kind = grad_output.dtype
        grads = grad_output.to(FLOAT32) if kind in HALF_TYPES else grad_output
        result = samples.added(grads.flatten(1).contiguous(), places.flatten(1), math.prod(sizes))
        return result.to(kind).reshape(shape)
    apart = zip(windows.stride, windows.dilation, windows.kernel)
    if all(s >= d * (k - 1) + 1 for s, d, k in apart):
        result = grad_output.new_zeros((shape[0], math.prod(sizes)))
        return result.scatter_(1, _flat_places(places), grad_output.flatten(1)).reshape(shape)
    return window_max_back(shape, grad_output, places, **windows.numbers())


def _on_host(x: TensorBase) -> bool:
    return x.is_cpu


@max_pool_backward.derivative
def _picked(grad: TensorBase, places: TensorBase) -> TensorBase:
    """The elements at the windows' places."""
    return grad.flatten(1).gather(1, _flat_places(places)).reshape(places.shape)


def _flat_places(places: TensorBase) -> TensorBase:
    return places.flatten(1).to(by_name["int64"])


def _max_pool(n: int, x, kernel, stride, padding, dilation, ceil_mode: bool, indices: bool) -> Any:
    if x.dtype.name == "bool" or x.is_complex():
        checks.dtypes(f"max_pool{n}d", checks.FLOATS | checks.INTEGERS, input=x)
    plan = _plan(f"max_pool{n}d", n, x, kernel, stride, padding, dilation, ceil_mode)
    kernel, stride, padding, dilation = plan.window
    flat = x.reshape(plan.flat)
    windows = Windows(plan.flat[1:], kernel, stride, padding, dilation, plan.out[1:])
    if not indices and not tape.tracked(x):  # a gradient reads the places
        return max_pool_values(flat, windows).reshape(plan.shape)
    short = not indices and math.prod(plan.flat[1:]) < 1 << 31
    values, places = _LARGEST[n](flat, windows, short)
    values = values.reshape(plan.shape)
    return (values, places.reshape(plan.shape)) if indices else values


def with_or_without(parameters: str, more: str = "") -> tuple[str, ...]:
    """The signatures of a maximum that gives its places where `return_indices`; `more` parameters come after that."""
    return (
        f"(input: Tensor, {parameters}, return_indices: Literal[False] = False{more}) -> Tensor",
        f"(input: Tensor, {parameters}, *, return_indices: Literal[True]{more}) -> tuple[Tensor, Tensor]",
        f"(input: Tensor, {parameters}, return_indices: bool = False{more}) -> Tensor | tuple[Tensor, Tensor]",
    )


@leaf("library", batching="images")
def adaptive_max_places(input: TensorBase, parts: tuple[int, ...]) -> TensorBase:
    """The flat place of the largest of each of so many equal parts of (planes, *)."""
    sizes = tuple(input.shape[1:])
    reach = _parts_reach(sizes, parts)
    return parts_largest((len(input), *parts), input, most=reach, **_longest(sizes, parts))


_LARGEST: dict[int, LeafOp] = {}  # by dimension: the largest of windows, and its place


def _declare_maxima(n: int) -> None:
    _LARGEST[n] = leaf(
        "library",
        name=f"max_pool{n}d_places",
        results=("values", "places"),
        label=f"MaxPool{n}DWithIndicesBackward0",
        batching="images",
    )(_largest_with_places)
    _LARGEST[n].derivative(_to_places)

    def max_pool(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices=False
    ):
        return _max_pool(n, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    def max_pool_with_indices(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices=True
    ) -> tuple[TensorBase, TensorBase]:
        return _max_pool(n, input, kernel_size, stride, padding, dilation, ceil_mode, True)

    def largest(input, output_size, return_indices=False):
        name = f"adaptive_max_pool{n}d"
        sizes, wanted = _divided(name, n, input, output_size)
        flat, shape = input.reshape(sizes), (*input.shape[:-n], *wanted)
        if all(p == 1 for p in wanted):
            values, at = flat.flatten(1).max(1)
            return (values.reshape(shape), at.reshape(shape)) if return_indices else values.reshape(shape)
        if _equal(flat.shape[1:], wanted):  # windows side by side
            size = tuple(s // p for s, p in zip(flat.shape[1:], wanted))
            return _max_pool(n, input, size, None, 0, 1, False, return_indices)
        at = adaptive_max_places(flat, tuple(wanted))
        values = flat.flatten(1).gather(1, at.flatten(1)).reshape(shape)
        return (values, at.reshape(shape)) if return_indices else values

    def largest_with_indices(input, output_size, return_indices=False) -> tuple[TensorBase, TensorBase]:
        return largest(input, output_size, True)

    window = "kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, "
    window += "padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False"
    parts = "output_size: int | None | Sequence[int | None]"
    _enter(
        n,
        f"max_pool{n}d",
        max_pool,
        "max(window) for each window",
        "2)",
        ("1., 3.", "5., 7.", "13., 15."),
        with_or_without(window),
        dtypes=NUMERIC,
        autocast=("float32", "fallthrough") if n == 3 else None,
    )
    _enter(
        n,
        f"max_pool{n}d_with_indices",
        max_pool_with_indices,
        "max(window) for each window and its flat place",
        "2)[1]",
        ("1, 3", "5, 7", "13, 15"),
        dtypes=NUMERIC,
    )
    _enter(
        n,
        f"adaptive_max_pool{n}d",
        largest,
        "max(part) for each of `output_size` equal parts",
        "1)",
        ("3.", "7.", "15."),
        with_or_without(parts),
        autocast=("float32", "fallthrough") if n == 3 else None,
    )
    _enter(
        n,
        f"adaptive_max_pool{n}d_with_indices",
        largest_with_indices,
        "max(part) for each of `output_size` equal parts and its flat place",
        "1)[1]",
        ("3", "7", "15"),
        autocast=("float32", "fallthrough") if n == 3 else None,
        aten=f"adaptive_max_pool{n}d",
    )


# --- means ------------------------------
_AVERAGED = checks.FLOATS | {"int64"}


def _avg_pool(
    n: int, x, kernel, stride, padding, ceil_mode: bool, include: bool, divisor: int | None
) -> TensorBase:
    name = f"avg_pool{n}d"
    if divisor == 0:
        raise RuntimeError(f"{name}(): divisor must be not zero")
    if x.dtype.name not in _AVERAGED:
        checks.dtypes(name, _AVERAGED, input=x)
    plan = _plan(name, n, x, kernel, stride, padding, 1, ceil_mode)
    kernel, stride, padding, _ = plan.window
    result = _mean_by_tables(x, plan, bool(include), divisor, _BY_TABLES[n])
    if result is not None:
        return result
    whole = not ceil_mode and (include or not any(padding))
    windows = Means(plan.flat[1:], plan.out[1:], kernel, stride, padding, bool(include), divisor, whole)
    return _MEANS[n](x.reshape(plan.flat), windows).reshape(plan.shape)


def _mean_by_tables(x, plan: Plan, include: bool, divisor: int | None, op: LeafOp) -> TensorBase | None:
    """Means of windows dimension by dimension, where they have tables."""
    tables = []
    for size, out, k, s, p in zip(plan.flat[1:], plan.out[1:], *plan.window[:3]):
        if not taps.fits(size, out, k):
            return None
        tables.append(taps.windows(size, out, k, s, p, include, divisor is None))
    result = taps.taken(x, tables, op)
    if result is None:
        return None
    result = result.contiguous() if len(tables) == 3 else result  # as PyTorch lays volumes
    return result if divisor is None else result / divisor


class Means(NamedTuple):
    """How windows lie on inputs of such sizes, how many there are, and what their means divide by."""

    sizes: tuple[int, ...]
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    include: bool
    divisor: int | None
    whole: bool

    def numbers(self) -> dict[str, Any]:
        return dict(zip(_MEAN, self[2:]))


def _mean(input: TensorBase, windows: Means) -> TensorBase:
    """The mean of each window of (planes, *): (planes, *out)."""
    return window_mean((len(input), *windows.out), input, **windows.numbers())


def _to_mean(grad: TensorBase, windows: Means) -> TensorBase:
    return avg_pool_backward(grad, windows)


@leaf("library", label="AvgPoolBackwardBackward0", batching="images")
def avg_pool_backward(grad_output: TensorBase, windows: Means) -> TensorBase:
    """For each element of the input, its shares of the gradients of its windows: (planes, *sizes)."""
    return window_mean_back((len(grad_output), *windows.sizes), grad_output, **windows.numbers())


@avg_pool_backward.derivative
def _from_mean(grad: TensorBase, windows: Means) -> TensorBase:
    return _MEANS[len(windows.sizes)](grad, windows)


# By dimension: means of windows, and means of windows and of equal parts by tables.
_MEANS: dict[int, LeafOp] = {}
_BY_TABLES: dict[int, LeafOp] = {}
_PARTS_BY_TABLES: dict[int, LeafOp] = {}


def _divided(name: str, n: int, x, output_size, without_channels: bool = False):
    """The input's shape as (planes, *sizes), and how many parts each dimension has."""
    single = isinstance(output_size, int) or output_size is None
    given = (output_size,) * n if single else tuple(output_size)
    if n > 1 and not single and x.ndim <= len(given):
        raise ValueError(
            f"{name}(): Input dimension should be at least {len(given) + 1} for output_size={given}, got input of size: "
            f"{list(x.shape)}"
        )
    if len(given) != n:
        raise RuntimeError(f"{name}(): output_size must be {n} ints, got {output_size}")
    if not x.is_floating_point():
        checks.floating(name, input=x)
    flat = planes(name, x.shape, n, without_channels)
    if len(given) != n or any(s is not None and s < 0 for s in given):
        raise RuntimeError(f"{name}(): output_size must be {n} non-negative ints, got {output_size}")
    return flat, [flat[1 + d] if s is None else int(s) for d, s in enumerate(given)]


def _equal(sizes, parts) -> bool:
    """Whether the parts of each dimension are of one length."""
    return all(p and s % p == 0 for s, p in zip(sizes, parts))


@functools.lru_cache(maxsize=512)
def _longest(sizes: tuple[int, ...], parts: tuple[int, ...]) -> dict[str, int]:
    """The length of the longest part of each dimension; with the arguments exchanged, the most parts that hold an
    element.
    """
    lengths = []
    for s, p in zip(sizes, parts):
        whole, rest = divmod(s, p) if p else (0, 0)
        uneven = (
            rest // math.gcd(rest, p) if rest else 0
        )  # parts begin between elements where this is above 1
        lengths.append(whole + min(uneven, 2))
    return {f"longest{d}": n for d, n in enumerate(lengths)}


def _parts_reach(sizes: Sequence[int], parts: Sequence[int]) -> int:
    """The largest number that `_parts` computes; RuntimeError where 64 bits do not hold it."""
    most = max((p + 1) * s + p for s, p in zip(sizes, parts))
    if most >= 1 << 63:
        raise RuntimeError(
            f"adaptive pooling: {list(parts)} parts of sizes {list(sizes)} are more than 64 bits count"
        )
    return most


@leaf("library", label="AdaptiveAvgPoolBackward0", batching="images")
def adaptive_avg_pool_parts(input: TensorBase, sizes: tuple[int, ...], parts: tuple[int, ...]) -> TensorBase:
    """The means of so many equal parts of (planes, *sizes): (planes, *parts)."""
    reach = _parts_reach(sizes, parts)
    return parts_mean((len(input), *parts), input, most=reach, **_longest(sizes, parts))


@adaptive_avg_pool_parts.derivative
def _to_parts(grad: TensorBase, sizes: tuple[int, ...], parts: tuple[int, ...]) -> TensorBase:
    return adaptive_avg_pool_backward(grad, sizes, parts)


@leaf("library", label="AdaptiveAvgPoolBackwardBackward0", batching="images")
def adaptive_avg_pool_backward(
    grad_output: TensorBase, sizes: tuple[int, ...], parts: tuple[int, ...]
) -> TensorBase:
    """For each element of the input, its shares of the gradients of its parts: (planes, *sizes)."""
    reach = _parts_reach(sizes, parts)
    return parts_mean_back((len(grad_output), *sizes), grad_output, most=reach, **_longest(parts, sizes))


@adaptive_avg_pool_backward.derivative
def _from_parts(grad: TensorBase, sizes: tuple[int, ...], parts: tuple[int, ...]) -> TensorBase:
    return adaptive_avg_pool_parts(grad, sizes, parts)


def _adaptive_mean(n: int, input, output_size) -> TensorBase:
    (count, *sizes), wanted = _divided(
        f"adaptive_avg_pool{n}d", n, input, output_size, without_channels=n < 3
    )
    result = None
    if any(p != 1 for p in wanted) and all(map(taps.fits, sizes, wanted)):
        tables = [None if s == p else taps.parts(s, p) for s, p in zip(sizes, wanted)]
        result = taps.taken(input, tables, _PARTS_BY_TABLES[n])
    if result is not None:
        return result.contiguous() if n == 3 else result
    if _equal(sizes, wanted):
        split = [m for s, p in zip(sizes, wanted) for m in (p, s // p)]
        result = input.reshape(count, *split).mean([2 + 2 * d for d in range(n)])
    else:
        result = adaptive_avg_pool_parts(input.reshape(count, *sizes), tuple(sizes), tuple(wanted))
    return result.reshape(*input.shape[:-n], *wanted)


def _declare_means(n: int) -> None:
    label = f"AvgPool{n}DBackward0"
    _MEANS[n] = leaf("library", name=f"avg_pool{n}d_windows", label=label, batching="images")(_mean)
    _MEANS[n].derivative(_to_mean)
    _BY_TABLES[n] = taps.leaf_of(f"avg_pool{n}d_tables", label)
    _PARTS_BY_TABLES[n] = taps.leaf_of(f"adaptive_avg_pool{n}d_tables", f"AdaptiveAvgPool{n}DBackward0")

    def avg_pool(
        input,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override=None,
    ) -> TensorBase:
        return _avg_pool(
            n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )

    def adaptive(input, output_size) -> TensorBase:
        return _adaptive_mean(n, input, output_size)

    @in_float32()
    def lp_pool(input, norm_type, kernel_size, stride=None, ceil_mode: bool = False) -> TensorBase:
        kernel = ntuple(f"lp_pool{n}d", "kernel_size", kernel_size, n)
        powers = _avg_pool(n, input**norm_type, kernel, stride, 0, ceil_mode, True, None)
        size = relu(powers.abs())  # which lets nothing through where a window is 0, and its root has no slope
        return (powers.sign() * size * math.prod(kernel)) ** (1.0 / norm_type)

    _enter(
        n,
        f"avg_pool{n}d",
        avg_pool,
        "Σ window / size: the mean of each window",
        "2)",
        ("0.5000, 2.5000", "2.5000, 4.5000", "6.5000, 8.5000"),
        dtypes=FLOATING | LONG,
        autocast=("float32", "fallthrough") if n == 3 else None,
    )
    _enter(
        n,
        f"adaptive_avg_pool{n}d",
        adaptive,
        "Σ part / size: the means of `output_size` equal parts",
        "1)",
        ("1.5000", "3.5000", "7.5000"),
        autocast=("float32", "fallthrough") if n == 3 else None,
    )
    _enter(
        n,
        f"lp_pool{n}d",
        lp_pool,
        "(Σ window^p)^(1/p) for each window",
        "1, 2)",
        ("1., 5.", "10., 18.", "52., 68."),
        dtypes=FLOATING | LONG | BOOL,
        autocast=("float32" if n == 3 else "fallthrough", "float32"),
        batching="images",
    )


# What stands in the flat namespace, too, with the same arguments.
_FLAT = {
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool1d_with_indices",
    "avg_pool1d",
    "adaptive_avg_pool1d",
}


def _enter(
    n: int,
    name: str,
    function,
    what: str,
    given: str,
    elements: tuple[str, str, str],
    overloads: tuple[str, ...] = (),
    autocast: Any = None,
    batching: str | None = None,
    aten: str | None = None,
    dtypes: frozenset[str] = FLOATING,
) -> None:
    """Name and describe a function; `given` ends a call of it, for which `elements` are the result's in 1, 2 and 3 dimensions."""
    function.__name__ = function.__qualname__ = name
    sizes = "(N, C, L)" if n == 1 else "(N, C, *)"
    shape = ", ".join(["1", *["2"] * (n - 1), "4"])
    function.__doc__ = (
        f"{what} of an input {sizes} or {'(C, L)' if n == 1 else '(C, *)'}.\n\n"
        f"Shape:\n    input: {sizes} or without N; result: the same with a size for each place of a window or part\n\n"
        f"Raises:\n    RuntimeError: the dimensions, or the sizes of windows, do not fit"
        + of_call(
            f"nn.functional.{name}(flambeau.arange({4 * 2 ** (n - 1)}.0).reshape({shape}), {given}",
            f"tensor({'[' * (n + 1)}{elements[n - 1]}{']' * (n + 1)})",
        )
    )
    places = (f"nn.functional.{name}", name) if name in _FLAT else (f"nn.functional.{name}",)
    batching = batching or f"images {n}d"
    register(
        name,
        "composite",
        function,
        places=places,
        overloads=overloads,
        autocast=autocast,
        batching=batching,
        aten=aten,
        dtypes=dtypes,
    )


for _n in (1, 2, 3):
    _declare_maxima(_n)
    _declare_means(_n)
