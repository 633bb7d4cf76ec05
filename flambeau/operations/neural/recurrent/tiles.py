"""Recurrent layers over whole sequences on a CPU, in tiles (see `codegen/tiles/recurrent.py`), and their derivatives.

The weight is laid out once for all steps, in panels of some hidden units each.  Sequences lie as (L, N, …), or in packed order as
(total, …), whose `sizes` are how many of them have each step, never growing.  Nothing here is on the tape, and all tensors have
been checked.  Halves are computed in float32; bfloat16 is multiplied as it is where the processor can, of some sequences by its
matrix unit.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ....codegen.tiles import kernels, possible
from ....codegen.tiles import recurrent as tiles
from ....core.base import prepacked
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.lib.layers import recurrent as core
from ....core.lib.products.products import addmm, matmul
from ....core.make.create import arange
from ....core.make.literal import tensor
from ...declare import machine
from ...declare.half_types import HALF_TYPES

BFLOAT16 = by_name["bfloat16"]
UNIT_DEPTH = 32  # which a matrix unit takes together
FEWEST = 2  # sequences; of 512 units on a Xeon with AMX 2 take 1.1 times less than by pairs, 8 2.1, 16 2.9
HERE, BEFORE, AFTER, STAYS, BIAS = range(
    5
)  # which step's rows an operand is read at: see core/lib/layers/recurrent.pyx


@functools.cache
def _address(kernel: Any) -> int:
    return machine.address(kernel)


@functools.cache
def _lanes(dtype: str) -> int:
    return kernels.registers().bytes // by_name[dtype].itemsize


class Order(NamedTuple):
    """How many sequences each step has, never growing; and whether their first steps stand last, of sequences of one length."""

    sizes: list[int]
    turned: bool

    @property
    def first(self) -> int:
        """The row of the first step."""
        return sum(self.sizes[1:]) if self.turned else 0


class Blocks(NamedTuple):
    """Blocks of as many vectors of units."""

    vectors: int
    first: int  # vector
    number: int


@functools.lru_cache(maxsize=256)
def blocks(units: int, sums: int, lanes: int) -> tuple[Blocks, ...]:
    """As few blocks as can be, as even as can be: of tiles that have `sums` vectors for each vector of units."""
    vectors = -(-units // lanes)
    count = -(-vectors // max(tiles.MOST_VECTORS // sums, 1))
    small, larger = divmod(vectors, count)
    result = (Blocks(small + 1, 0, larger), Blocks(small, larger * (small + 1), count - larger))
    return tuple(b for b in result if b.number)


@functools.lru_cache(maxsize=256)
def _products(dtype: str, lanes: int, vectors: int, paired: bool) -> tuple[int, ...]:
    rows = range(1, tiles.most_rows(vectors) + 1)
    return tuple(_address(tiles.Products(dtype, lanes, r, vectors, paired)) for r in rows)


@functools.lru_cache(maxsize=256)
def _cells(
    formula: str, dtype: str, lanes: int, writes: int, whole: bool, halves: tuple[int, ...]
) -> tuple[int, int]:
    """The cell for blocks all of whose units exist, and for the last one."""
    first = _address(tiles.Cell(formula, dtype, lanes, writes, False, halves))
    return first, first if whole else _address(tiles.Cell(formula, dtype, lanes, writes, True, halves))


def panels(weight: TensorBase, sums: int, lanes: int) -> tuple[TensorBase, ...]:
    """A weight (sums · units, depth) as (block, depth, vector, sum, lane); units that fill up the last vector are 0.  Halves are
    taken in pairs along the depth.
    """
    if weight.dtype is BFLOAT16:
        weight = weight.contiguous().view(by_name["int32"])
    units, depth = weight.shape[0] // sums, weight.shape[1]
    apart = weight.reshape(sums, units, depth)
    if units % lanes:
        filled = weight.new_zeros((sums, -(-units // lanes) * lanes, depth))
        filled[:, :units] = apart
        apart = filled
    parts = []
    for b in blocks(units, sums, lanes):
        part = apart.narrow(1, b.first * lanes, b.number * b.vectors * lanes)
        parts.append(
            part.reshape(sums, b.number, b.vectors, lanes, depth).permute(1, 4, 2, 0, 3).contiguous()
        )
    return tuple(parts)


def _by_unit(weight: TensorBase, order: Order) -> bool:
    """Whether the matrix unit multiplies by a weight."""
    return (
        weight.dtype is BFLOAT16
        and weight.shape[1] % UNIT_DEPTH == 0
        and order.sizes[0] >= FEWEST
        and core.unit()
    )


def _kinds(weight: TensorBase, sums: int, lanes: int, by_unit: bool) -> tuple[tuple, ...]:
    """What `run_steps` reads of a weight, whose storage keeps the panels from its second use on."""
    paired, dtype = weight.dtype is BFLOAT16, _computed(weight)
    layout = ("recurrent", sums, lanes, tiles.MOST_VECTORS)
    parts = prepacked.prepack(weight, layout, lambda w: panels(w, sums, lanes))
    if parts is None:
        parts = panels(weight, sums, lanes)
    return tuple(
        (
            () if by_unit else _products(dtype, lanes, b.vectors * sums, paired),
            b.vectors * lanes,
            b.first * lanes,
            part,
        )
        for b, part in zip(blocks(weight.shape[0] // sums, sums, lanes), parts)
    )


def _run(
    formula: str,
    weight: TensorBase,
    order: Order,
    state: tuple,
    reads: list,
    writes: list,
    backwards: bool = False,
) -> None:
    """All steps of a formula: (tensor, when, what is read before the first step) for what is multiplied, read and written."""
    sums, dtype = tiles.FORMULAS[formula].sums, _computed(weight)
    lanes, units = _lanes(dtype), weight.shape[0] // sums
    halves = tuple(n for n, (x, *_) in enumerate([*reads, *writes]) if x.dtype is BFLOAT16)
    cells = _cells(formula, dtype, lanes, len(writes), units % lanes == 0, halves)
    by_unit = _by_unit(weight, order)
    kinds, operands = _kinds(weight, sums, lanes, by_unit), [*reads, *writes]
    core.run_steps(
        order.sizes, units, lanes, sums, kinds, cells, state, operands, order.turned, backwards, by_unit
    )


def _computed(x: TensorBase) -> str:
    """What sums and cells are computed in."""
    return "float32" if x.dtype in HALF_TYPES else x.dtype.name


def _plain(*given: TensorBase) -> list[TensorBase]:
    """Contiguous, and in the dtype that is computed in."""
    return [x.to(by_name[_computed(x)]).contiguous() for x in given]


def _multiplied(weight: TensorBase, *given: TensorBase) -> list[TensorBase]:
    """What is multiplied, and goes with it: as it is where the processor multiplies pairs of it, else in what is computed in."""
    whole = (weight, *given)
    if weight.shape[1] % 2 == 0 and all(x.dtype is BFLOAT16 for x in whole) and possible():
        return [x.contiguous() for x in whole]
    return _plain(*whole)


def _like(gates: TensorBase, columns: int, dtype: Any = None) -> TensorBase:
    return gates.new_empty((*gates.shape[:-1], columns), dtype=gates.dtype if dtype is None else dtype)


# --- forwards ------------------------------
def lstm(gates, hidden, cell, weight, order: Order, keep: bool) -> tuple:
    """Outputs and the last cells; with `keep` also all cells and activated gates, for the derivative."""
    weight, gates, hidden = _multiplied(weight, gates, hidden)
    (cell,) = _plain(cell)
    outputs, units = _like(gates, weight.shape[1]), weight.shape[1]
    state, x = (outputs, BEFORE, hidden), (gates, HERE, None)
    if not keep:
        last = cell.clone()
        own = (last, STAYS, None)
        _run("lstm", weight, order, state, [x, own], [(outputs, HERE, None), own])
        return outputs, last, None, None
    cells, activated = _like(gates, units, cell.dtype), _like(gates, 4 * units, cell.dtype)
    writes = [(t, HERE, None) for t in (outputs, cells, activated)]
    _run("lstm", weight, order, state, [x, (cells, BEFORE, cell)], writes)
    return outputs, last_rows(cells, order), cells, activated


def gru(gates, hidden, weight, bias, order: Order, keep: bool) -> tuple:
    """Outputs; with `keep` also r, z, n and what r scales."""
    weight, gates, hidden = _multiplied(weight, gates, hidden)
    exact = by_name[_computed(weight)]
    bias = gates.new_zeros(weight.shape[0], dtype=exact) if bias is None else _plain(bias)[0]
    outputs, units = _like(gates, weight.shape[1]), weight.shape[1]
    state, activated = (outputs, BEFORE, hidden), _like(gates, 4 * units, exact) if keep else None
    writes = [(t, HERE, None) for t in (outputs, activated) if t is not None]
    reads = [(gates, HERE, None), (bias, BIAS, None), state]
    _run("gru", weight, order, state, reads, writes)
    return outputs, activated


def rnn(gates, hidden, weight, order: Order, kind: str) -> TensorBase:
    """Outputs; `kind` is rnn_tanh or rnn_relu."""
    weight, gates, hidden = _multiplied(weight, gates, hidden)
    outputs = _like(gates, weight.shape[1])
    state = (outputs, BEFORE, hidden)
    _run(kind, weight, order, state, [(gates, HERE, None)], [(outputs, HERE, None)])
    return outputs


def last_rows(x: TensorBase, order: Order) -> TensorBase:
    """The last step of each sequence, (N, …)."""
    rows, sizes = x.flatten(0, -2), order.sizes
    if order.turned:
        return rows[: sizes[0]].clone()
    if sizes[0] == sizes[-1]:
        return rows[len(rows) - sizes[0] :].clone()
    ends, at = [0] * sizes[0], 0
    for size, after in zip(sizes, [*sizes[1:], 0]):
        ends[after:size] = range(at + after, at + size)
        at += size
    return rows.index_select(0, tensor(ends, dtype=by_name["int64"], device="cpu"))


# --- backwards ------------------------------
def lstm_gradients(
    to_outputs, to_cell, hidden, cell, weight, outputs, cells, activated, order: Order, wanted
) -> tuple:
    """The gradients of gates, hidden, cell and weight."""
    weight, to_outputs, hidden, outputs = _multiplied(weight, to_outputs, hidden, outputs)
    cell, carried = _plain(cell, to_cell)
    carried, flow = carried.clone(), _like(activated, activated.shape[-1], weight.dtype)
    own = (carried, STAYS, None)
    reads = [
        (to_outputs, HERE, None),
        own,
        (activated, HERE, None),
        (cells, BEFORE, cell),
        (cells, HERE, None),
    ]
    state = (flow, AFTER, None)
    _run("lstm_gradients", weight.t(), order, state, reads, [(flow, HERE, None), own], True)
    to_hidden = matmul(_first(flow, order), weight) if wanted[1] else None
    to_weight = _weight_gradient(flow, hidden, outputs, order) if wanted[3] else None
    return flow, to_hidden, carried, to_weight


def gru_gradients(to_outputs, hidden, weight, outputs, activated, order: Order, wanted) -> tuple:
    """The gradients of gates, hidden, weight and bias."""
    weight, to_outputs, hidden, _ = _multiplied(weight, to_outputs, hidden, outputs)
    flow, to_gates = (_like(activated, weight.shape[0], weight.dtype) for _ in range(2))
    carried = activated.new_zeros(hidden.shape)
    own = (carried, STAYS, None)
    reads = [(to_outputs, HERE, None), own, (activated, HERE, None), (outputs, BEFORE, hidden)]
    writes = [(flow, HERE, None), (to_gates, HERE, None), own]
    _run("gru_gradients", weight.t(), order, (flow, AFTER, None), reads, writes, True)
    to_hidden = carried + matmul(_first(flow, order), weight) if wanted[1] else None
    to_weight = _weight_gradient(flow, hidden, outputs, order) if wanted[2] else None
    return to_gates, to_hidden, to_weight, flow.flatten(0, -2).sum(0) if wanted[3] else None


def rnn_gradients(to_outputs, hidden, weight, outputs, order: Order, wanted, kind: str) -> tuple:
    """The gradients of gates, hidden and weight."""
    weight, to_outputs, hidden, _ = _multiplied(weight, to_outputs, hidden, outputs)
    flow = _like(outputs, weight.shape[1])
    reads = [(to_outputs, HERE, None), (outputs, HERE, None)]
    _run(kind + "_gradients", weight.t(), order, (flow, AFTER, None), reads, [(flow, HERE, None)], True)
    to_hidden = matmul(_first(flow, order), weight) if wanted[1] else None
    return flow, to_hidden, _weight_gradient(flow, hidden, outputs, order) if wanted[2] else None


def _first(flow: TensorBase, order: Order) -> TensorBase:
    """The rows of the first step."""
    return flow.flatten(0, -2).narrow(0, order.first, order.sizes[0])


def _weight_gradient(flow, hidden, outputs, order: Order) -> TensorBase:
    """The sum over all rows of flow times the state that the step began with: multiplied out once."""
    first = matmul(_first(flow, order).t(), hidden)
    sizes, flow, outputs = order.sizes, flow.flatten(0, -2), outputs.flatten(0, -2)
    if len(sizes) == 1:
        return first
    rest = len(flow) - sizes[0]
    if order.turned:
        return addmm(first, flow[:rest].t(), outputs[sizes[0] :])
    if sizes[0] == sizes[-1]:
        return addmm(first, flow[sizes[0] :].t(), outputs[:rest])
    before, after = (tensor(x, dtype=by_name["int64"], device="cpu") for x in (sizes[:-1], sizes[1:]))
    at = arange(sizes[0], len(flow), device="cpu") - before.repeat_interleave(after)
    return addmm(first, flow[sizes[0] :].t(), outputs.index_select(0, at))
