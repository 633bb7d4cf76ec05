"""Recurrent layers over whole sequences on a CPU, in tiles (see `codegen/tiles/recurrent.py`), and their derivatives.

The weight is laid out once for all steps, in panels of some hidden units each.  Sequences lie as (L, N, …), or in packed order as
(total, …), whose `sizes` are how many of them have each step, never growing.  Nothing here is on the tape, and all tensors have
been checked; halves are computed in float32.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ...codegen import build
from ...codegen.tiles import recurrent as tiles
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.lib import recurrent as core
from ...core.lib.products import addmm, matmul
from ...core.make.create import arange
from ...core.make.literal import tensor
from ..declare.half_types import HALF_TYPES

HERE, BEFORE, AFTER, STAYS, BIAS = range(5)  # which step's rows an operand is read at: see core/lib/recurrent.pyx


@functools.cache
def _address(kernel: Any) -> int:
    return build.address(kernel)


@functools.cache
def _lanes(dtype: str) -> int:
    return tiles.registers().bytes // by_name[dtype].itemsize


class Blocks(NamedTuple):
    """Blocks of as many vectors of units."""

    vectors: int
    first: int  # vector
    count: int


@functools.lru_cache(maxsize=256)
def blocks(units: int, sums: int, lanes: int) -> tuple[Blocks, ...]:
    """As few blocks as can be, as even as can be: of tiles that have `sums` vectors for each vector of units."""
    vectors = -(-units // lanes)
    count = -(-vectors // max(tiles.MOST_VECTORS // sums, 1))
    small, larger = divmod(vectors, count)
    found = (Blocks(small + 1, 0, larger), Blocks(small, larger * (small + 1), count - larger))
    return tuple(b for b in found if b.count)


@functools.lru_cache(maxsize=256)
def _products(dtype: str, lanes: int, vectors: int) -> tuple[int, ...]:
    rows = range(1, tiles.most_rows(vectors) + 1)
    return tuple(_address(tiles.Products(dtype, lanes, r, vectors)) for r in rows)


@functools.lru_cache(maxsize=256)
def _cells(formula: str, dtype: str, lanes: int, writes: int, whole: bool) -> tuple[int, int]:
    """The cell for blocks all of whose units exist, and for the last one."""
    first = _address(tiles.Cell(formula, dtype, lanes, writes, False))
    return first, first if whole else _address(tiles.Cell(formula, dtype, lanes, writes, True))


def panels(weight: TensorBase, sums: int, lanes: int) -> tuple[tuple, ...]:
    """A weight (sums · units, depth) as (block, depth, vector, sum, lane); units that fill up the last vector are 0."""
    units, depth = weight.shape[0] // sums, weight.shape[1]
    apart = weight.reshape(sums, units, depth)
    if units % lanes:
        filled = weight.new_zeros((sums, -(-units // lanes) * lanes, depth))
        filled[:, :units] = apart
        apart = filled
    found = []
    for b in blocks(units, sums, lanes):
        part = apart.narrow(1, b.first * lanes, b.count * b.vectors * lanes)
        part = part.reshape(sums, b.count, b.vectors, lanes, depth).permute(1, 4, 2, 0, 3).contiguous()
        addresses = _products(weight.dtype.name, lanes, b.vectors * sums)
        found.append((addresses, b.vectors * lanes, b.first * lanes, part))
    return tuple(found)


def _run(
    formula: str, weight: TensorBase, sizes: Any, state: tuple, reads: list, writes: list, backwards: bool
) -> None:
    """All steps of a formula: (tensor, when, what is read before the first step) for what is multiplied, read and written."""
    sums, dtype = tiles.FORMULAS[formula].sums, weight.dtype.name
    lanes, units = _lanes(dtype), weight.shape[0] // sums
    cells = _cells(formula, dtype, lanes, len(writes), units % lanes == 0)
    kinds = panels(weight, sums, lanes)
    core.run_steps(sizes, units, lanes, sums, kinds, cells, state, [*reads, *writes], backwards)


def _sizes(gates: TensorBase, sizes: Any) -> list[int]:
    return [gates.shape[1]] * gates.shape[0] if sizes is None else sizes


def _plain(*given: TensorBase) -> list[TensorBase]:
    """Contiguous, and in the dtype that is computed in."""
    return [(x.to(by_name["float32"]) if x.dtype in HALF_TYPES else x).contiguous() for x in given]


def _like(gates: TensorBase, columns: int) -> TensorBase:
    return gates.new_empty((*gates.shape[:-1], columns))


# --- forwards ------------------------------
def lstm(gates, hidden, cell, weight, sizes, keep: bool) -> tuple:
    """Outputs and the last cells; with `keep` also all cells and activated gates, for the derivative."""
    gates, hidden, cell, weight = _plain(gates, hidden, cell, weight)
    outputs, steps, units = _like(gates, weight.shape[1]), _sizes(gates, sizes), weight.shape[1]
    state, x = (outputs, BEFORE, hidden), (gates, HERE, None)
    if not keep:
        last = cell.clone()
        own = (last, STAYS, None)
        _run("lstm", weight, steps, state, [x, own], [(outputs, HERE, None), own], False)
        return outputs, last, None, None
    cells, activated = _like(gates, units), _like(gates, 4 * units)
    writes = [(t, HERE, None) for t in (outputs, cells, activated)]
    _run("lstm", weight, steps, state, [x, (cells, BEFORE, cell)], writes, False)
    return outputs, last_rows(cells, sizes), cells, activated


def gru(gates, hidden, weight, bias, sizes, keep: bool) -> tuple:
    """Outputs; with `keep` also r, z, n and what r scales."""
    gates, hidden, weight = _plain(gates, hidden, weight)
    bias = gates.new_zeros(weight.shape[0]) if bias is None else _plain(bias)[0]
    outputs, units = _like(gates, weight.shape[1]), weight.shape[1]
    state, activated = (outputs, BEFORE, hidden), _like(gates, 4 * units) if keep else None
    writes = [(t, HERE, None) for t in (outputs, activated) if t is not None]
    _run("gru", weight, _sizes(gates, sizes), state, [(gates, HERE, None), (bias, BIAS, None), state], writes, False)
    return outputs, activated


def rnn(gates, hidden, weight, sizes, kind: str) -> TensorBase:
    """Outputs; `kind` is rnn_tanh or rnn_relu."""
    gates, hidden, weight = _plain(gates, hidden, weight)
    outputs = _like(gates, weight.shape[1])
    state = (outputs, BEFORE, hidden)
    _run(kind, weight, _sizes(gates, sizes), state, [(gates, HERE, None)], [(outputs, HERE, None)], False)
    return outputs


def last_rows(x: TensorBase, sizes: Any) -> TensorBase:
    """The last step of each sequence, (N, …)."""
    if sizes is None:
        return x[len(x) - 1].clone()
    if sizes[0] == sizes[-1]:
        return x[len(x) - sizes[0] :].clone()
    ends, at = [0] * sizes[0], 0
    for size, after in zip(sizes, [*sizes[1:], 0]):
        for k in range(after, size):
            ends[k] = at + k
        at += size
    return x.index_select(0, tensor(ends, dtype=by_name["int64"], device="cpu"))


# --- backwards ------------------------------
def lstm_gradients(to_outputs, to_cell, hidden, cell, weight, outputs, cells, activated, sizes, wanted) -> tuple:
    """The gradients of gates, hidden, cell and weight."""
    to_outputs, hidden, cell, weight = _plain(to_outputs, hidden, cell, weight)
    carried, flow = _plain(to_cell)[0].clone(), _like(activated, activated.shape[-1])
    own = (carried, STAYS, None)
    reads = [(to_outputs, HERE, None), own, (activated, HERE, None), (cells, BEFORE, cell), (cells, HERE, None)]
    steps, state = _sizes(activated, sizes), (flow, AFTER, None)
    _run("lstm_gradients", weight.t(), steps, state, reads, [(flow, HERE, None), own], True)
    to_hidden = matmul(_first(flow, steps), weight) if wanted[1] else None
    to_weight = _weight_gradient(flow, hidden, outputs, steps) if wanted[3] else None
    return flow, to_hidden, carried, to_weight


def gru_gradients(to_outputs, hidden, weight, outputs, activated, sizes, wanted) -> tuple:
    """The gradients of gates, hidden, weight and bias."""
    to_outputs, hidden, weight = _plain(to_outputs, hidden, weight)
    flow, to_gates = _like(activated, weight.shape[0]), _like(activated, weight.shape[0])
    carried = hidden.new_zeros(hidden.shape)
    own, steps = (carried, STAYS, None), _sizes(activated, sizes)
    reads = [(to_outputs, HERE, None), own, (activated, HERE, None), (outputs, BEFORE, hidden)]
    writes = [(flow, HERE, None), (to_gates, HERE, None), own]
    _run("gru_gradients", weight.t(), steps, (flow, AFTER, None), reads, writes, True)
    to_hidden = addmm(carried, _first(flow, steps), weight) if wanted[1] else None
    to_weight = _weight_gradient(flow, hidden, outputs, steps) if wanted[2] else None
    return to_gates, to_hidden, to_weight, flow.flatten(0, -2).sum(0) if wanted[3] else None


def rnn_gradients(to_outputs, hidden, weight, outputs, sizes, wanted, kind: str) -> tuple:
    """The gradients of gates, hidden and weight."""
    to_outputs, hidden, weight = _plain(to_outputs, hidden, weight)
    flow, steps = _like(outputs, weight.shape[1]), _sizes(outputs, sizes)
    reads = [(to_outputs, HERE, None), (outputs, HERE, None)]
    _run(kind + "_gradients", weight.t(), steps, (flow, AFTER, None), reads, [(flow, HERE, None)], True)
    to_hidden = matmul(_first(flow, steps), weight) if wanted[1] else None
    return flow, to_hidden, _weight_gradient(flow, hidden, outputs, steps) if wanted[2] else None


def _first(flow: TensorBase, steps: list[int]) -> TensorBase:
    """The rows of the first step."""
    return flow[0] if flow.ndim == 3 else flow[: steps[0]]


def _weight_gradient(flow, hidden, outputs, steps: list[int]) -> TensorBase:
    """The sum over all rows of flow times the state that the step began with: multiplied out once."""
    first = matmul(_first(flow, steps).t(), hidden)
    if len(steps) == 1:
        return first
    flow, outputs = flow.flatten(0, -2)[steps[0] :], outputs.flatten(0, -2)
    if steps[0] == steps[-1]:
        before = outputs[: len(outputs) - steps[-1]]
    else:
        whole = by_name["int64"]
        back = tensor(steps[:-1], dtype=whole, device="cpu").repeat_interleave(
            tensor(steps[1:], dtype=whole, device="cpu")
        )
        before = outputs.index_select(0, arange(steps[0], sum(steps), device="cpu") - back)
    return addmm(first, flow.t(), before)
