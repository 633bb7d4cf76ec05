"""From samples to expressions: what a size is of others, by its values for several sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

from .expressions import Expr, call, number

Values = tuple[int, ...]
More = Callable[
    [], Iterator[tuple[Mapping[str, int], int]]
]  # further samples: sizes of symbols, and the value there


def fitted(
    values: Values, worlds: Sequence[Mapping[str, int]], candidates: Sequence[Expr], more: More
) -> Expr | None:
    """The expression that has these values in the worlds, made of the candidates; None where none is found.

    Simple ones come first: a candidate itself, a x + b, x · y, x + y, (a x + b) // c, the least or largest of two.
    """
    if len(set(values)) == 1:
        return number(values[0])
    known: dict[Values, Expr] = {}
    for e in candidates:
        result = _values(e, worlds)
        if result is not None and len(set(result)) > 1:
            known.setdefault(result, e)
    if values in known:
        return known[values]
    for of, e in known.items():
        if (line := _line(values, of)) is not None:
            return e * line[0] + line[1]
    for (a, x), (b, y) in itertools.combinations_with_replacement(list(known.items()), 2):
        for made, expr in (
            (_each(a, b, lambda p, q: p * q), x * y),
            (_each(a, b, lambda p, q: p + q), x + y),
        ):
            if made == values:
                return expr
            if (line := _line(values, made)) is not None:
                return expr * line[0] + line[1]
        if _each(a, b, lambda p, q: p - q) == values:
            return x - y
        if _each(b, a, lambda p, q: p - q) == values:
            return y - x
    for (a, x), (b, y) in itertools.permutations(list(known.items()), 2):
        if all(b) and _each(a, b, lambda p, q: p // q) == values:
            return x // y
    for of, e in known.items():
        if (floored := _floored(values, of, e, more)) is not None:
            return floored
    return _extreme(values, known)


def _each(a: Values, b: Values, function: Callable[[int, int], int]) -> Values:
    return tuple(map(function, a, b))


def _values(e: Expr, worlds: Sequence[Mapping[str, int]]) -> Values | None:
    try:
        return tuple(e.value(w) for w in worlds)
    except (KeyError, ZeroDivisionError):
        return None


def _line(values: Values, of: Values) -> tuple[int, int] | None:
    """a and b with values = a · of + b."""
    k = next((k for k in range(1, len(of)) if of[k] != of[0]), None)
    if k is None or (values[k] - values[0]) % (of[k] - of[0]):
        return None
    a = (values[k] - values[0]) // (of[k] - of[0])
    b = values[0] - a * of[0]
    return (a, b) if a != 0 and all(v == a * n + b for v, n in zip(values, of)) else None


def _floored(values: Values, of: Values, e: Expr, more: More) -> Expr | None:
    """(a · e + b) // c: a and c by the slope between the samples that are farthest apart, b by all of them and some more."""
    order = sorted(range(len(of)), key=of.__getitem__)
    first, last = order[0], order[-1]
    if of[last] - of[first] < 64 or values[last] == values[first]:
        return None
    slope = Fraction(values[last] - values[first], of[last] - of[first]).limit_denominator(32)
    if slope <= 0 or slope.denominator == 1:
        return None
    a, c = slope.numerator, slope.denominator
    low, high = _offsets(zip(values, of), a, c)
    if low > high:
        return None
    for sizes, value in itertools.islice(more(), 40):
        try:
            low, high = _narrowed(low, high, value, e.value(sizes), a, c)
        except (KeyError, ZeroDivisionError):
            return None
        if low > high:
            return None
    whole = low // c
    return (e * a + (low - whole * c if whole > 0 else low)) // c + (whole if whole > 0 else 0)


def _offsets(pairs: Iterator[tuple[int, int]], a: int, c: int) -> tuple[int, int]:
    low, high = -(1 << 62), 1 << 62
    for v, n in pairs:
        low, high = _narrowed(low, high, v, n, a, c)
    return low, high


def _narrowed(low: int, high: int, v: int, n: int, a: int, c: int) -> tuple[int, int]:
    return max(low, c * v - a * n), min(high, c * v + c - 1 - a * n)


def _extreme(values: Values, known: Mapping[Values, Expr]) -> Expr | None:
    """The least or the largest of a candidate and a number, or of two candidates."""
    for of, e in known.items():
        for kind, function in (("min", min), ("max", max)):
            ends = {v for v, n in zip(values, of) if v != n}
            if len(ends) == 1:
                (end,) = ends
                if all(v == function(n, end) for v, n in zip(values, of)):
                    return call(kind, e, number(end))
    for (a, x), (b, y) in itertools.combinations(list(known.items()), 2):
        for kind, function in (("min", min), ("max", max)):
            if _each(a, b, function) == values:
                return call(kind, x, y)
    return None
