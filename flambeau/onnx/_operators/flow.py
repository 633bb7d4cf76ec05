"""Branches and loops: modules over the graphs that their nodes hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from ...nn.modules.module import Module
from .declare import Ints, fl, flow, ints

Captured = Sequence[Sequence[Any]]


@flow("If")
class If(Module):
    """One of two graphs without inputs, by a condition."""

    def __init__(self, *, then_branch: Module, else_branch: Module) -> None:
        super().__init__()
        self.then_branch, self.else_branch = then_branch, else_branch

    def forward(self, cond: Tensor, *, captured: Captured) -> tuple[Any, ...]:
        for_then, for_else = captured
        return self.then_branch(*for_then) if bool(cond) else self.else_branch(*for_else)


@flow("Loop")
class Loop(Module):
    """A body over the number of the turn, a condition and states; what it gives beyond those is stacked, turn by turn."""

    def __init__(self, *, body: Module) -> None:
        super().__init__()
        self.body = body

    def forward(
        self, turns: Ints | None = None, cond: Tensor | None = None, *states: Any, captured: Captured
    ) -> tuple[Any, ...]:
        most = None if turns is None else ints(turns)[0]
        going = fl.tensor(True) if cond is None else cond
        carried, rows = list(states), []
        turn = 0
        while (most is None or turn < most) and bool(going):
            result = self.body(fl.tensor(turn, dtype=by_name["int64"]), going, *carried, *captured[0])
            after, carried, row = result[0], list(result[1 : 1 + len(states)]), result[1 + len(states) :]
            going = after
            rows.append(row)
            turn += 1
        return (*carried, *_stacked(rows, self.body, len(states) + 1, 0))


@flow("Scan", since=9)
class Scan(Module):
    """A body over states and slices of inputs, one after another; what it gives beyond the states is stacked."""

    def __init__(
        self,
        *,
        body: Module,
        num_scan_inputs: int,
        scan_input_axes: list[int] | None = None,
        scan_input_directions: list[int] | None = None,
        scan_output_axes: list[int] | None = None,
        scan_output_directions: list[int] | None = None,
    ) -> None:
        super().__init__()
        self.body, self.count = body, num_scan_inputs
        self.input_axes, self.input_directions = scan_input_axes, scan_input_directions
        self.output_axes, self.output_directions = scan_output_axes, scan_output_directions

    def forward(self, *args: Any, captured: Captured) -> tuple[Any, ...]:
        states, inputs = list(args[: len(args) - self.count]), args[len(args) - self.count :]
        axes = self.input_axes or [0] * self.count
        backwards = self.input_directions or [0] * self.count
        sizes = {x.shape[axis] for x, axis in zip(inputs, axes)}
        if len(sizes) != 1:
            raise ValueError(f"Scan: the inputs must have one size along their axes, got {sorted(sizes)}")
        (size,) = sizes
        count, rows = len(states), []
        for k in range(size):
            slices = [
                fl.select(x, axis, size - 1 - k if back else k)
                for x, axis, back in zip(inputs, axes, backwards)
            ]
            result = self.body(*states, *slices, *captured[0])
            states = list(result[:count])
            rows.append(result[count:])
        outputs = _lists(rows, self.body, count)
        made = []
        for k, parts in enumerate(outputs):
            if self.output_directions and self.output_directions[k]:
                parts = parts[::-1]
            made.append(fl.stack(parts, self.output_axes[k] if self.output_axes else 0))
        return (*states, *made)


@flow("SequenceMap")
class SequenceMap(Module):
    """A body over the elements of sequences at the same place; tensors beside them are the same for all."""

    def __init__(self, *, body: Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, sequence: Any, *others: Any, captured: Captured) -> tuple[Any, ...]:
        rows = []
        for k, x in enumerate(sequence):
            beside = [y[k] if isinstance(y, (list, tuple)) else y for y in others]
            rows.append(self.body(x, *beside, *captured[0]))
        return tuple(_lists(rows, self.body, 0))


def _lists(rows: list[Any], body: Any, skipped: int) -> list[list[Any]]:
    """What the turns gave, output by output; empty lists where there was no turn."""
    if rows:
        return [list(column) for column in zip(*rows)]
    results = next(n for n in reversed(body.graph.nodes) if n.op == "output").args[0]
    return [[] for _ in results[skipped:]]


def _stacked(rows: list[Any], body: Any, skipped: int, dim: int) -> list[Tensor]:
    return [fl.stack(column, dim) if column else fl.zeros(0) for column in _lists(rows, body, skipped)]
