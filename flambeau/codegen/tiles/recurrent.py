"""What a step of a recurrent layer computes, for a block of its hidden units.

A step is a product of the state and the weight, and then the same function of the gates for each hidden unit.  Both are done
for a tile of some sequences by one or more vectors of units at a time, while its sums are in the nearest cache: `Products` sums
for all gates of the units into a small workspace, `Cell` reads them there, computes the gates, and writes state and outputs.
Backwards it is the same: the gradients of the gates of the step behind times the weight, then the cell's derivative.

`core/lib/layers/recurrent.pyx` walks over steps and tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .. import expr as ex
from .. import functions as fn
from .._math_base import poly
from .._math_explog import near_power_of_two, reduce_by_ln2
from ..expr import Expr
from ..irtext import Module, Value, i64
from .kernels import Elements, module_of, registers, sources

GROUP = 64  # terms that a sum adds up one after another before it starts anew
MOST_ROWS = 8
MOST_VECTORS = 4
DOT = "llvm.x86.avx512bf16.dpbf16ps.512"
CHAINS = 8  # sums that must be under way at once to keep the multipliers busy


# --- cells ------------------------------
Parts = tuple[Expr, ...]


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x)) within two units in the last place, for -x up to where exp is finite: what a gate needs."""
    least = -87.0 if x.dtype == "float32" else -708.0
    x = fn.where(x > 40.0, 40.0, fn.where(x < least, least, x))
    shifted, r, _ = reduce_by_ln2(-x)
    power = near_power_of_two(shifted)
    return 1.0 / fn.fma(power, fn.fma(r * r, poly(r, "exp"), r), power + 1.0)


def lstm(sums: Parts, x: Parts, cell: Parts) -> tuple[Parts, ...]:
    """h', c' and the gates behind their nonlinearities (Hochreiter and Schmidhuber, 1997)."""
    i, f, g, o = (a + b for a, b in zip(sums, x))
    i, f, g, o = sigmoid(i), sigmoid(f), fn.tanh(g), sigmoid(o)
    new = f * cell[0] + i * g
    return (o * fn.tanh(new),), (new,), (i, f, g, o)


def lstm_gradients(
    sums: Parts, grad: Parts, carried: Parts, gates: Parts, cell: Parts, new: Parts
) -> tuple[Parts, ...]:
    """The gradients of the gates and of c, from those of h' (`sums` through the next step, `grad` otherwise) and c'."""
    i, f, g, o = gates
    squashed, hidden = fn.tanh(new[0]), sums[0] + grad[0]
    flow = carried[0] + hidden * o * (1.0 - squashed * squashed)
    flows = (
        flow * g * i * (1.0 - i),
        flow * cell[0] * f * (1.0 - f),
        flow * i * (1.0 - g * g),
        hidden * squashed * o * (1.0 - o),
    )
    return flows, (flow * f,)


def gru(sums: Parts, x: Parts, bias: Parts, hidden: Parts) -> tuple[Parts, ...]:
    """h' and the gates r, z, n with what r scales (Cho et al., 2014)."""
    of_r, of_z, of_n = (a + b for a, b in zip(sums, bias))
    r, z = sigmoid(x[0] + of_r), sigmoid(x[1] + of_z)
    n = fn.tanh(x[2] + r * of_n)
    return (n + z * (hidden[0] - n),), (r, z, n, of_n)


def gru_gradients(sums: Parts, grad: Parts, carried: Parts, gates: Parts, hidden: Parts) -> tuple[Parts, ...]:
    """The gradients of the input's and of the state's share of the gates, and what reaches h past the gates."""
    r, z, n, of_n = gates
    whole = sums[0] + grad[0] + carried[0]
    to_n = whole * (1.0 - z) * (1.0 - n * n)
    to_z = whole * (hidden[0] - n) * z * (1.0 - z)
    to_r = to_n * of_n * r * (1.0 - r)
    return (to_r, to_z, to_n * r), (to_r, to_z, to_n), (whole * z,)


def rnn_tanh(sums: Parts, x: Parts) -> tuple[Parts, ...]:
    return ((fn.tanh(x[0] + sums[0]),),)


def rnn_tanh_gradients(sums: Parts, grad: Parts, new: Parts) -> tuple[Parts, ...]:
    return (((sums[0] + grad[0]) * (1.0 - new[0] * new[0]),),)


def rnn_relu(sums: Parts, x: Parts) -> tuple[Parts, ...]:
    whole = x[0] + sums[0]
    return ((fn.where(whole < 0.0, 0.0, whole),),)


def rnn_relu_gradients(sums: Parts, grad: Parts, new: Parts) -> tuple[Parts, ...]:
    return ((fn.where(new[0] > 0.0, sums[0] + grad[0], 0.0),),)


class Formula(NamedTuple):
    """A cell's function: of how many sums a unit, and of matrices with so many parts a row, each as long as there are units."""

    compute: Callable[..., tuple[Parts, ...]]
    sums: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]  # those that may be left out stand last


FORMULAS = {
    "lstm": Formula(lstm, 4, (4, 1), (1, 1, 4)),
    "lstm_gradients": Formula(lstm_gradients, 1, (1, 1, 4, 1, 1), (4, 1)),
    "gru": Formula(gru, 3, (3, 3, 1), (1, 4)),
    "gru_gradients": Formula(gru_gradients, 1, (1, 1, 4, 1), (3, 3, 1)),
    "rnn_tanh": Formula(rnn_tanh, 1, (1,), (1,)),
    "rnn_tanh_gradients": Formula(rnn_tanh_gradients, 1, (1, 1), (1,)),
    "rnn_relu": Formula(rnn_relu, 1, (1,), (1,)),
    "rnn_relu_gradients": Formula(rnn_relu_gradients, 1, (1, 1), (1,)),
}


# --- kernels ------------------------------
def most_rows(vectors: int) -> int:
    """How many rows of so many vectors have their sums in registers, beside a row of the weight and an element of the state."""
    return min(MOST_ROWS, (registers().number - vectors - 1) // vectors)


class Products(NamedTuple):
    """workspace[i, v] = sum over k of state[i, k] · panel[k, v], for `rows` rows and `vectors` vectors of columns.

    Data: workspace, state, panel.  Geometry: how many k, elements from row to row of the state.  Where they are `paired`, an element
    of state and panel is two neighbours of bfloat16, whose products are both added to a sum of float32 (AVX512_BF16).
    """

    dtype: str
    lanes: int
    rows: int
    vectors: int
    paired: bool = False

    def text(self) -> str:
        return f"recurrent products {tuple(self)} {sources(__file__)}"

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: _products(Elements(f, self.dtype, self.lanes), self))


class Cell(NamedTuple):
    """A formula for all units of a tile; `masked` where the last vector may have units that do not exist.

    Data: workspace, what the formula reads, what it writes (the first `writes` of that).  Geometry: rows, units, vectors of units that a
    row of the workspace has (each has its sums one after another), elements from part to part of a matrix, and from row to row of each.
    """

    formula: str
    dtype: str
    lanes: int
    writes: int
    masked: bool
    halves: tuple[int, ...] = ()  # which of the matrices, those that are read first, are of bfloat16

    def text(self) -> str:
        return f"recurrent cell {tuple(self)} {sources(__file__)}"

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: _cell(Elements(f, self.dtype, self.lanes), self))


def _products(t: Elements, k: Products) -> None:
    f = t.f
    workspace, state, panel = (t.data(n) for n in range(3))
    depth, step = t.geometry(0), t.geometry(1)
    places = [(i, v) for i in range(k.rows) for v in range(k.vectors)]
    spots = [t.element(workspace, i64(n * k.lanes)) for n in range(len(places))]
    rows = [state]
    while len(rows) < k.rows:
        rows.append(t.element(rows[-1], step))
    for spot in spots:
        t.store(t.zero, spot)
    sets = -(-CHAINS // len(places))  # of sums, which take turns where they are few

    pairs = f"<{2 * k.lanes} x bfloat>"

    def term(at: Value, sums: Sequence[Value]) -> list[Value]:
        line = t.element(panel, f.mul(at, i64(k.vectors * k.lanes)))
        right = [t.load(t.element(line, i64(v * k.lanes))) for v in range(k.vectors)]
        if k.paired:
            right = [f.op(pairs, f"bitcast {r} to {pairs}") for r in right]
        new = []
        for n, (i, v) in enumerate(places):
            if not v:
                left = t.low.splat(f.load(t.scalar, t.element(rows[i], at), t.size))
                left = f.op(pairs, f"bitcast {left} to {pairs}") if k.paired else left
            if k.paired:
                new.append(f.call(t.vector, DOT, sums[n], left, right[v]))
            else:
                new.append(f.call(t.vector, f"llvm.fma.{t.spelled}", left, right[v], sums[n]))
        return new

    def several(at: Value, sums: list[Value]) -> list[Value]:
        new, many = [], len(places)
        for n in range(sets):
            new += term(f.add(at, i64(n)), sums[n * many : (n + 1) * many])
        return new

    def group(begin: Value, _) -> list[Value]:
        end = f.add(begin, i64(GROUP))
        end = t.low.select(f.op("i1", f"icmp slt {end}, {depth.name}"), end, depth)
        sums, many = [t.zero] * (len(places) * sets), len(places)
        if sets > 1:
            whole = f.binary("sub", end, f.binary("srem", f.binary("sub", end, begin), i64(sets)))
            sums = f.loop(begin, whole, i64(sets), sums, several)
            begin = whole
        sums[:many] = f.loop(begin, end, i64(1), sums[:many], term)
        for n, spot in enumerate(spots):
            total = sums[n]
            for other in sums[n + many :: many]:
                total = f.binary("fadd", total, other)
            t.store(f.binary("fadd", t.load(spot), total), spot)
        return []

    f.loop(i64(0), depth, i64(GROUP), [], group)


def _cell(t: Elements, k: Cell) -> None:
    f = t.f
    formula = FORMULAS[k.formula]
    parts = [*formula.reads, *formula.writes[: k.writes]]
    workspace, *matrices = (t.data(n) for n in range(1 + len(parts)))
    steps_at = 4  # in the geometry, after these: elements from row to row of each matrix
    rows, units, pitch, distance = (t.geometry(n) for n in range(steps_at))
    steps = [t.geometry(steps_at + n) for n in range(len(parts))]
    half = Elements(f, "bfloat16", k.lanes)
    kinds = [half if n in k.halves else t for n in range(len(parts))]

    def row(i: Value, _) -> list[Value]:
        own = t.element(workspace, f.mul(f.mul(i, pitch), i64(formula.sums * k.lanes)))
        lines = [kind.element(m, f.mul(i, step)) for kind, m, step in zip(kinds, matrices, steps)]

        def vector(u: Value, _) -> list[Value]:
            mask = t.first(f.binary("sub", units, u)) if k.masked else None
            leaves: dict[Expr, Value] = {}

            def leaf(value: Value) -> Expr:
                result = ex.input(len(leaves), k.dtype)
                leaves[result] = value
                return result

            def places(n: int) -> list[Value]:
                here = kinds[n].element(lines[n], u)
                return [kinds[n].element(here, f.mul(distance, i64(p))) for p in range(parts[n])]

            def load(n: int, place: Value) -> Value:
                return t.low.cast(kinds[n].load(place, mask), kinds[n].dtype, t.dtype)

            sums = t.element(own, f.mul(u, i64(formula.sums)))
            given = [tuple(leaf(t.load(t.element(sums, i64(p * k.lanes)))) for p in range(formula.sums))]
            for n in range(len(formula.reads)):
                given.append(tuple(leaf(load(n, place)) for place in places(n)))
            result = formula.compute(*given)[: k.writes]
            values = t.low.values([e for each in result for e in each], leaves)
            for n in range(len(formula.reads), len(parts)):
                for place in places(n):
                    kinds[n].store(t.low.cast(values.pop(0), t.dtype, kinds[n].dtype), place, mask)
            return []

        f.loop(i64(0), units, i64(k.lanes), [], vector)
        return []

    f.loop(i64(0), rows, i64(1), [], row)
