"""The weight's gradient by Winograd's F(4 × 4, 3 × 3): the adjoints of what `winograd.py` does to the output and to filters.

A convolution is gather(lift(w) · spread(x)), so its gradient in w is lower(sum over squares of spread(x) · expand(g)), where `expand`
is the adjoint of `gather`, and `lower` that of `lift`: products of matrices (channels × squares) × (squares × filters), one for each of
36 values, take the place of 9 · 16 multiplications a square.
"""

from __future__ import annotations

from typing import NamedTuple

from ..irtext import Value
from . import winograd
from .register import lanes
from .vectors import Vectors, argument, i64, number, text
from .winograd import FAR, NEAR

M, T = 4, 6


def _expand(v: Vectors, d: list[Value]) -> list[Value]:
    """A line of four places of the gradient, to its part in six values."""
    result = [d[0]]
    for point in (NEAR, FAR):
        even, odd = v.fma(point**2, d[2], d[0]), v.fma(point**2, d[3], d[1])
        result += [v.fma(point, odd, even), v.fma(-point, odd, even)]
    return [*result, d[3]]


def _lower(v: Vectors, s: list[Value]) -> list[Value]:
    """A line of six values' gradients, to those of three elements of a filter."""
    matrix = winograd._lift_matrix(M)
    even_near, odd_near, even_far, odd_far = (
        v.add(s[1], s[2]),
        v.sub(s[1], s[2]),
        v.add(s[3], s[4]),
        v.sub(s[3], s[4]),
    )
    first = v.fma(matrix[0][0], s[0], v.fma(matrix[1][0], even_near, v.times(matrix[3][0], even_far)))
    second = v.fma(matrix[1][1], odd_near, v.times(matrix[3][1], odd_far))
    third = v.fma(matrix[1][2], even_near, v.fma(matrix[3][2], even_far, s[5]))
    return [first, second, third]


def _write_expand(v: Vectors) -> None:
    """Squares side by side in a workspace of pixels, each a vector of filters, to planes of values."""

    def one(_, carried: list[Value]) -> list[Value]:
        workspace, to = carried
        d = []
        for a in range(M):
            place = v.at(workspace, v.f.mul(number("row"), i64(a)))
            d.append([v.load(v.at(place, i64(q * v.bytes))) for q in range(M)])
        lines = [_expand(v, [d[a][q] for a in range(M)]) for q in range(M)]
        place = to
        for a in range(T):
            for value in _expand(v, [lines[q][a] for q in range(M)]):
                v.store(value, place)
                place = v.at(place, number("plane"))
        return [v.at(workspace, i64(M * v.bytes)), v.at(to, number("step"))]

    v.f.loop(i64(0), number("squares"), i64(1), [argument("workspace"), argument("to")], one)


def _write_lower(v: Vectors) -> None:
    """Planes of sums, a vector of filters for each channel, to nine taps side by side, channel after channel."""

    def one(_, carried: list[Value]) -> list[Value]:
        place, to = carried
        s, at = [], place
        for _ in range(T * T):
            s.append(v.load(at))
            at = v.at(at, number("plane"))
        lines = [_lower(v, [s[a * T + q] for a in range(T)]) for q in range(T)]
        at = to
        for i in range(3):
            for value in _lower(v, [lines[q][i] for q in range(T)]):
                v.store(value, at)
                at = v.at(at, i64(v.bytes))
        return [v.at(place, number("step")), at]

    v.f.loop(i64(0), number("channels"), i64(1), [argument("from"), argument("to")], one)


_STEPS = {
    "expand": (
        _write_expand,
        "ptr noalias %workspace, i64 %row, ptr noalias %to, i64 %plane, i64 %step, i64 %squares",
    ),
    "lower": (_write_lower, "ptr noalias %from, i64 %plane, i64 %step, ptr noalias %to, i64 %channels"),
}


class Adjoint(NamedTuple):
    """One of the steps "expand", "lower"; all steps in memory are bytes."""

    dtype: str
    step: str

    def text(self, symbol: str) -> str:
        write, arguments = _STEPS[self.step]
        return text(symbol, self.dtype, lanes(self.dtype), arguments, write)
