"""Pools, for `shape_search.py`."""

from __future__ import annotations

import itertools
import math

import numpy as np
import shape_references as reference
from shape_convolutions import NUMBERS
from shape_search import LAYOUTS, Case, draw, family

import flambeau as fb

F = fb.nn.functional
BATCH = (None, 0, 1, 2)
SIZES = {
    1: [(n,) for n in (*range(1, 10), 13, 33)],
    2: [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (1, 3),
        (5, 1),
        (2, 4),
        (5, 5),
        (7, 6),
        (4, 9),
        (8, 8),
        (3, 18),
        (13, 12),
    ],
    3: [(1, 1, 1), (2, 2, 2), (3, 3, 3), (1, 2, 3), (4, 1, 2), (3, 4, 5), (5, 5, 5), (2, 3, 9), (4, 6, 7)],
}
KERNELS = {
    1: [(1,), (2,), (3,), (4,), (5,)],
    2: [(1, 1), (2, 2), (3, 3), (1, 2), (3, 1), (2, 3)],
    3: [(1, 1, 1), (2, 2, 2), (3, 3, 3), (1, 2, 3), (2, 1, 2)],
}
COUNTS = {1: 1, 2: 1.2, 3: 0.6}  # of cases of each family, by dimensions


def lead(batch: int | None, channels: int) -> tuple[int, ...]:
    return (channels,) if batch is None else (batch, channels)


def images(x: np.ndarray, n: int) -> np.ndarray:
    return x if x.ndim == n + 2 else x[None]


def _windows(sizes, kernel, stride, padding, dilation, ceil_mode):
    """The output's sizes and the tables; None where there are no windows."""
    if any(2 * p > k for p, k in zip(padding, kernel)):
        return None
    if any(i + 2 * p < d * (k - 1) + 1 for i, p, d, k in zip(sizes, padding, dilation, kernel)):
        return None
    of = list(zip(sizes, kernel, stride, padding, dilation))
    out = tuple(reference.pooled(i, k, s, p, d, ceil_mode) for i, k, s, p, d in of)
    return None if min(out) < 1 else (
        out, [reference.table(o, k, i, s, p, d) for o, (i, k, s, p, d) in zip(out, of)]
    )  # fmt: skip


def _pools(n: int) -> None:
    several = NUMBERS[n]
    shared = dict(
        batch=BATCH, channels=(1, 3, 17), sizes=SIZES[n], kernel=KERNELS[n], layout=LAYOUTS, sent=LAYOUTS
    )

    @family(
        f"max_pool{n}d", int(900 * COUNTS[n]), **shared, stride=[None, *several(1, 2, 3)], padding=several(0, 1), dilation=several(1, 2),
        ceil_mode=(False, True), indices=(False, True),
    )  # fmt: skip
    def largest(
        rng, batch, channels, sizes, kernel, stride, padding, dilation, ceil_mode, dtype, indices, layout, **_
    ):
        made = _windows(sizes, kernel, stride or kernel, padding, dilation, ceil_mode)
        if made is None or layout == "expanded":  # equal elements: whose gradient it is depends on rounding
            return None
        out, tables = made
        if any((t.sum((1, 2)) == 0).any() for t in tables):  # windows of nothing but padding
            return None
        given = kernel, stride, padding, dilation, ceil_mode

        def call(x):
            if not indices:
                return getattr(F, f"max_pool{n}d")(x, *given)
            found, at = getattr(F, f"max_pool{n}d")(x, *given, return_indices=True)
            values = (
                x.detach()
                .reshape(*x.shape[:-n], math.prod(sizes))
                .gather(-1, at.flatten(-n))
                .reshape(found.shape)
            )
            assert (values == found).all(), "the indices are of other elements"
            return found

        def against(x, grad):
            found, _, into = reference.largest(images(x, n), tables, images(grad, n))
            return found.reshape(grad.shape), [into.reshape(x.shape)]

        return Case(
            [draw(rng, (*lead(batch, channels), *sizes), dtype)],
            call,
            (*lead(batch, channels), *out),
            against,
        )

    @family(
        f"avg_pool{n}d", int(800 * COUNTS[n]), **shared, stride=[None, *several(1, 2, 3)], padding=several(0, 1),
        ceil_mode=(False, True), include=(False, True), divisor=(None, None, 3) if n > 1 else (None,),
    )  # fmt: skip
    def mean(rng, batch, channels, sizes, kernel, stride, padding, ceil_mode, include, divisor, dtype, **_):
        stride = stride or kernel
        made = _windows(sizes, kernel, stride, padding, (1,) * n, ceil_mode)
        if made is None:
            return None
        out, tables = made
        counts = np.ones(())
        for i, k, s, p, o in zip(sizes, kernel, stride, padding, out):
            first = np.arange(o) * s - p
            last = np.minimum(first + k, i + p)
            along = last - first if include else np.minimum(last, i) - np.maximum(first, 0)
            counts = counts[..., None] * along
        counts = np.full(out, divisor) if divisor else counts

        def call(x):
            more = (divisor,) if n > 1 else ()
            return getattr(F, f"avg_pool{n}d")(x, kernel, stride, padding, ceil_mode, include, *more)

        def against(x, grad):
            found, into = reference.mean(images(x, n), tables, counts, images(grad, n))
            return found.reshape(grad.shape), [into.reshape(x.shape)]

        return Case(
            [draw(rng, (*lead(batch, channels), *sizes), dtype)],
            call,
            (*lead(batch, channels), *out),
            against,
        )

    @family(
        f"lp_pool{n}d",
        int(250 * COUNTS[n]),
        **shared,
        stride=[None, *several(1, 2)],
        ceil_mode=(False, True),
        norm=(1, 2, 3),
    )
    def powers(rng, batch, channels, sizes, kernel, stride, ceil_mode, norm, dtype, **_):
        stride = stride or kernel
        made = _windows(sizes, kernel, stride, (0,) * n, (1,) * n, ceil_mode)
        if made is None:
            return None
        out, tables = made
        if any((o - 1) * s + k > i for o, s, k, i in zip(out, stride, kernel, sizes)):
            return None  # what is outside counts for the mean that this is made of: `avg_pool` has those

        def against(x, grad):
            sums, _ = reference.mean(images(x, n) ** norm, tables, 1.0, images(grad, n))
            found = sums ** (1 / norm)
            _, into = reference.mean(
                images(x, n), tables, 1.0, images(grad, n) * sums ** (1 / norm - 1) / norm
            )
            return found.reshape(grad.shape), [into.reshape(x.shape) * norm * x ** (norm - 1)]

        x = np.abs(draw(rng, (*lead(batch, channels), *sizes), dtype)) + 0.1
        call = lambda x: getattr(F, f"lp_pool{n}d")(x, norm, kernel, stride, ceil_mode)  # noqa: E731
        return Case([x], call, (*lead(batch, channels), *out), against)

    wanted = [(o,) for o in (1, 2, 3, 5, 7, 16)] if n == 1 else list(itertools.product(*[(1, 2, 3, 7)] * n))
    adaptive = {k: v for k, v in shared.items() if k != "kernel"}

    @family(f"adaptive_avg_pool{n}d", int(400 * COUNTS[n]), **adaptive, out=wanted)
    def parts_mean(rng, batch, channels, sizes, out, dtype, **_):
        tables = [reference.parts(i, o) for i, o in zip(sizes, out)]
        counts = np.ones(())
        for t in tables:
            counts = counts[..., None] * t.sum((1, 2))

        def against(x, grad):
            found, into = reference.mean(images(x, n), tables, counts, images(grad, n))
            return found.reshape(grad.shape), [into.reshape(x.shape)]

        call = lambda x: getattr(F, f"adaptive_avg_pool{n}d")(x, out)  # noqa: E731
        return Case(
            [draw(rng, (*lead(batch, channels), *sizes), dtype)],
            call,
            (*lead(batch, channels), *out),
            against,
        )

    @family(f"adaptive_max_pool{n}d", int(400 * COUNTS[n]), **adaptive, out=wanted)
    def parts_largest(rng, batch, channels, sizes, out, dtype, layout, **_):
        if layout == "expanded":
            return None
        tables = [reference.parts(i, o) for i, o in zip(sizes, out)]

        def against(x, grad):
            found, _, into = reference.largest(images(x, n), tables, images(grad, n))
            return found.reshape(grad.shape), [into.reshape(x.shape)]

        call = lambda x: getattr(F, f"adaptive_max_pool{n}d")(x, out)  # noqa: E731
        return Case(
            [draw(rng, (*lead(batch, channels), *sizes), dtype)],
            call,
            (*lead(batch, channels), *out),
            against,
        )

    @family(
        f"max_unpool{n}d",
        int(200 * COUNTS[n]),
        **shared,
        stride=[None, *several(1, 2)],
        padding=several(0, 1),
    )
    def unpooled(rng, batch, channels, sizes, kernel, stride, padding, dtype, layout, **_):
        stride = stride or kernel
        made = _windows(sizes, kernel, stride, padding, (1,) * n, False)
        if made is None or batch == 0:
            return None
        out, tables = made
        shape = (*lead(batch, channels), *out)
        # windows that lie side by side, so that no two write one place
        if any(s < k for s, k in zip(stride, kernel)) or layout == "expanded":
            return None
        _, at, _ = reference.largest(images(rng.standard_normal((*lead(batch, channels), *sizes)), n), tables)
        at = at.reshape(shape)
        least = tuple((o - 1) * s - 2 * p + k for o, s, p, k in zip(out, stride, padding, kernel))
        if any(not a - s < i < a + s for a, s, i in zip(least, stride, sizes)):
            return None

        def call(x):
            return getattr(F, f"max_unpool{n}d")(x, fb.from_numpy(at), kernel, stride, padding, sizes)

        def against(x, grad):
            flat = np.zeros((*lead(batch, channels), math.prod(sizes)))
            where = at.reshape(*lead(batch, channels), -1)
            np.put_along_axis(flat, where, x.reshape(where.shape), -1)
            into = np.take_along_axis(grad.reshape(flat.shape), where, -1)
            return flat.reshape(grad.shape), [into.reshape(x.shape)]

        return Case([draw(rng, shape, dtype)], call, (*lead(batch, channels), *sizes), against)


for _n in (1, 2, 3):
    _pools(_n)


def _fractional(n: int) -> None:
    @family(
        f"fractional_max_pool{n}d", 250, batch=(None, 1, 2), channels=(1, 3), sizes=SIZES[n], kernel=KERNELS[n],
        out=list(itertools.product(*[(1, 2, 3, 5)] * n)), layout=LAYOUTS, sent=LAYOUTS,
    )  # fmt: skip
    def pooled(rng, batch, channels, sizes, kernel, out, dtype, layout, **_):
        if any(o + k - 1 > i for o, k, i in zip(out, kernel, sizes)) or layout == "expanded":
            return None
        # samples of half a place: no rounding decides where a window begins
        samples = rng.integers(0, 8, (batch or 1, channels, n)) / 8 + 1 / 16
        given = fb.from_numpy(samples.astype(dtype))

        def against(x, grad):
            x4, grad4 = images(x, n), images(grad, n)
            found, into = np.empty(grad4.shape), np.zeros(x4.shape)
            for b, c in np.ndindex(x4.shape[:2]):
                u = samples[b, c][::-1] if n == 2 else samples[b, c]
                tables = []
                for i, k, o, start in zip(sizes, kernel, out, u):
                    alpha = (i - k) / (o - 1) if o > 1 else 0.0
                    first = [int((j + start) * alpha) - int(start * alpha) for j in range(o - 1)] + [i - k]
                    tables.append(np.array([[np.eye(i)[f + t] for t in range(k)] for f in first]))
                one = reference.largest(x4[b : b + 1, c : c + 1], tables, grad4[b : b + 1, c : c + 1])
                found[b, c], into[b, c] = one[0][0, 0], one[2][0, 0]
            return found.reshape(grad.shape), [into.reshape(x.shape)]

        def call(x):
            return getattr(F, f"fractional_max_pool{n}d")(x, kernel, out, _random_samples=given)

        x = draw(rng, (*lead(batch, channels), *sizes), dtype)
        return Case([x], call, (*lead(batch, channels), *out), against)


for _n in (2, 3):
    _fractional(_n)
