"""Winograd's convolutions F(m × m, 3 × 3): three by three filters at (m + 2)² products for m² places of the output.

Filters, and squares of m + 2 by m + 2 of the input that overlap by 2, are taken as polynomials' values at m + 1 points and
infinity; there a convolution is one product for each value.  So (m + 2)² products of matrices (squares × channels) ×
(channels × filters) take the place of 9 m² multiplications: a quarter of them for m = 4, and 4/9 for m = 2.

Values at large points lose bits: F(4 × 4) takes 0, ±5/8 and ±3/2, whose errors are the least of all that are exact in
binary with few digits (about 2 times a direct sum's, where 0, ±1, ±2 have 5).  F(2 × 2) takes 0, ±1.

Transforms run over vectors of channels: `lift` for filters, `spread` for the input, `gather` for the output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..irtext import Value
from .epilogues import Epilogue
from .register import lanes
from .vectors import Vectors, argument, i64, number, text

NEAR, FAR = 5 / 8, 3 / 2


def _lift_matrix(m: int) -> list[list[float]]:
    """Values of a polynomial of three coefficients at all points, scaled so that the others' matrices hold few digits."""
    if m == 2:
        return [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]
    near, far = NEAR**2, FAR**2
    rows: list[list[float]] = [[1 / (near * far), 0, 0]]
    for point, scale in ((NEAR, 2 * near * (near - far)), (FAR, 2 * far * (far - near))):
        for p in (point, -point):
            rows.append([1 / scale, p / scale, p * p / scale])
    return [*rows, [0, 0, 1]]


def _spread(v: Vectors, m: int, d: list[Value]) -> list[Value]:
    """A line of m + 2 elements of the input."""
    if m == 2:
        return [v.sub(d[0], d[2]), v.add(d[1], d[2]), v.sub(d[2], d[1]), v.sub(d[1], d[3])]
    near, far = NEAR**2, FAR**2
    result = [v.fma(near * far, d[0], v.fma(-(near + far), d[2], d[4]))]
    for point, other in ((NEAR, far), (FAR, near)):
        even, odd = v.fma(-other, d[2], d[4]), v.fma(-other, d[1], d[3])
        result += [v.fma(point, odd, even), v.fma(-point, odd, even)]
    return [*result, v.fma(near * far, d[1], v.fma(-(near + far), d[3], d[5]))]


def _gather(v: Vectors, m: int, s: list[Value]) -> list[Value]:
    """A line of m elements of the output."""
    if m == 2:
        return [v.add(v.add(s[0], s[1]), s[2]), v.sub(v.sub(s[1], s[2]), s[3])]
    u, t = v.add(s[1], s[2]), v.sub(s[1], s[2])
    x, y = v.add(s[3], s[4]), v.sub(s[3], s[4])
    return [
        v.add(s[0], v.add(u, x)),
        v.fma(NEAR, t, v.times(FAR, y)),
        v.fma(NEAR**2, u, v.times(FAR**2, x)),
        v.fma(NEAR**3, t, v.fma(FAR**3, y, s[5])),
    ]


def _lift(v: Vectors, m: int, g: list[Value]) -> list[Value]:
    """A line of three elements of a filter."""
    result = []
    for row in _lift_matrix(m):
        terms = [(c, x) for c, x in zip(row, g) if c]
        total = terms[0][1] if terms[0][0] == 1 else v.times(*terms[0])
        for c, x in terms[1:]:
            total = v.fma(c, x, total)
        result.append(total)
    return result


def _write_spread(v: Vectors, m: int) -> None:
    """Squares side by side in a workspace of pixels, each a vector of channels, to planes of values."""
    t = m + 2

    def one(_, carried: list[Value]) -> list[Value]:
        workspace, to = carried
        d = []
        for a in range(t):
            place = v.at(workspace, v.f.mul(number("row"), i64(a)))
            d.append([v.load(v.at(place, i64(q * v.bytes))) for q in range(t)])
        lines = [_spread(v, m, [d[a][q] for a in range(t)]) for q in range(t)]
        place = to
        for a in range(t):
            for value in _spread(v, m, [lines[q][a] for q in range(t)]):
                v.store(value, place)
                place = v.at(place, number("plane"))
        return [v.at(workspace, i64(m * v.bytes)), v.at(to, number("step"))]

    v.f.loop(i64(0), number("squares"), i64(1), [argument("workspace"), argument("to")], one)


def _write_gather(v: Vectors, m: int, epilogue: Epilogue) -> None:
    """Planes of sums to squares side by side in a workspace of pixels, each a vector of filters; so is each of the epilogue's operands,
    `apart` from one another.
    """
    t = m + 2
    operands = [
        v.load(v.at(argument("terms"), v.f.mul(number("apart"), i64(k)))) for k in range(len(epilogue.reads))
    ]

    def ended(value: Value) -> Value:
        given = {leaf: (value, *operands)[leaf.value] for leaf in epilogue.leaves()}
        return v.low.values([epilogue.root], given)[0]

    def one(_, carried: list[Value]) -> list[Value]:
        place, workspace = carried
        s, at = [], place
        for _ in range(t * t):
            s.append(v.load(at))
            at = v.at(at, number("plane"))
        lines = [_gather(v, m, [s[a * t + q] for a in range(t)]) for q in range(t)]
        for a in range(m):
            to = v.at(workspace, v.f.mul(number("row"), i64(a)))
            for q, value in enumerate(_gather(v, m, [lines[q][a] for q in range(t)])):
                v.store(ended(value), v.at(to, i64(q * v.bytes)))
        return [v.at(place, number("step")), v.at(workspace, i64(m * v.bytes))]

    v.f.loop(i64(0), number("squares"), i64(1), [argument("from"), argument("workspace")], one)


def _write_lift(v: Vectors, m: int) -> None:
    """Nine taps of filters, each a vector of them, `tap` apart, channel after channel, to planes of values."""
    t = m + 2

    def one(_, carried: list[Value]) -> list[Value]:
        place, to = carried
        g = [v.load(v.at(place, v.f.mul(number("tap"), i64(k)))) for k in range(9)]
        lines = [_lift(v, m, [g[i * 3 + j] for i in range(3)]) for j in range(3)]
        at = to
        for a in range(t):
            for value in _lift(v, m, [lines[j][a] for j in range(3)]):
                v.store(value, at)
                at = v.at(at, number("plane"))
        return [v.at(place, number("from_step")), v.at(to, number("step"))]

    v.f.loop(i64(0), number("channels"), i64(1), [argument("from"), argument("to")], one)


_STEPS: dict[str, tuple[Callable[..., None], str]] = {
    "spread": (
        _write_spread,
        "ptr noalias %workspace, i64 %row, ptr noalias %to, i64 %plane, i64 %step, i64 %squares",
    ),
    "gather": (
        _write_gather,
        "ptr noalias %from, i64 %plane, i64 %step, ptr noalias %workspace, i64 %row, i64 %squares, ptr %terms, i64 %apart",
    ),
    "lift": (
        _write_lift,
        "ptr noalias %from, i64 %tap, i64 %from_step, ptr noalias %to, i64 %plane, i64 %step, i64 %channels",
    ),
}


class Transform(NamedTuple):
    """One of the three steps "spread", "gather", "lift" of F(m × m, 3 × 3); all steps in memory are bytes."""

    dtype: str
    m: int
    step: str
    epilogue: Epilogue | None = None  # of "gather", of operands read by columns

    def text(self, symbol: str) -> str:
        write, arguments = _STEPS[self.step]
        more = () if self.epilogue is None else (self.epilogue,)
        return text(symbol, self.dtype, lanes(self.dtype), arguments, lambda v: write(v, self.m, *more))
