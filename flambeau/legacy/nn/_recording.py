"""Formulas over tables of tensors, and their gradients from the tape.

A table is a tensor, or a list of tables: what modules take and give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..._tensor import Tensor
from ...autograd import enable_grad, grad


def each(function: Callable[..., Any], *tables: Any) -> Any:
    """The table of `function` of what stands at the same places of tables of one form."""
    if not isinstance(tables[0], (list, tuple)):
        return function(*tables)
    if any(not isinstance(t, (list, tuple)) or len(t) != len(tables[0]) for t in tables):
        raise ValueError(f"tables of different forms: {', '.join(map(form, tables))}")
    return [each(function, *parts) for parts in zip(*tables)]


def tensors(table: Any) -> list[Tensor]:
    """The tensors of a table, from left to right."""
    if isinstance(table, (list, tuple)):
        return [x for part in table for x in tensors(part)]
    return [table] if isinstance(table, Tensor) else []


def form(table: Any) -> str:
    """A table as messages show it."""
    if isinstance(table, (list, tuple)):
        return f"[{', '.join(map(form, table))}]"
    return f"{tuple(table.shape)}" if isinstance(table, Tensor) else type(table).__name__


def zeros_like(table: Any) -> Any:
    """Zeros of a table's form."""
    return each(lambda x: x.new_zeros(x.shape) if isinstance(x, Tensor) else 0, table)


def leaf(x: Any) -> Any:
    """The same elements as an end of the tape, if they can have a gradient."""
    if not isinstance(x, Tensor):
        return x
    return x.detach().requires_grad_(x.is_floating_point() or x.is_complex())


def detached(table: Any) -> Any:
    """The same elements without a history."""
    return each(lambda x: x.detach() if isinstance(x, Tensor) else x, table)


class Recording:
    """`function(input, *parameters)` on a tape of its own, which is kept for the gradients."""

    def __init__(self, function: Callable[..., Any], input: Any, parameters: Iterable[Any]) -> None:
        parameters = list(parameters)
        self.inputs = [*tensors(input), *parameters]
        self.input = each(leaf, input)
        self.parameters = [leaf(p) for p in parameters]
        with enable_grad():
            self.output = function(self.input, *self.parameters)
        self.look()

    def look(self) -> None:
        """Note what has been written so far."""
        self.versions = [_version(x) for x in self.inputs]

    def is_of(self, input: Any, parameters: Iterable[Any]) -> bool:
        """Whether this is of these very tensors, and they were not written since."""
        inputs = [*tensors(input), *parameters]
        return (
            len(inputs) == len(self.inputs)
            and all(a is b for a, b in zip(inputs, self.inputs))
            and self.versions == [_version(x) for x in inputs]
        )

    def gradients(self, of: list[Any], output: Any) -> list[Any]:
        """Gradients of the leaves in `of`, where `output` has those of what was computed; zeros where there is no way."""
        ends: list[tuple[Tensor, Tensor]] = []
        each(
            lambda x, g: ends.append((x, g)) if isinstance(x, Tensor) and x.requires_grad else None,
            self.output,
            output,
        )
        wanted = [x for x in of if isinstance(x, Tensor) and x.requires_grad]
        result: list[Any] = [None] * len(wanted)
        if ends and wanted:
            starts, args = zip(*ends)
            result = list(grad(starts, wanted, args, retain_graph=True, allow_unused=True))
        by_leaf = {id(x): g for x, g in zip(wanted, result)}
        return [zeros_like(x) if by_leaf.get(id(x)) is None else by_leaf[id(x)] for x in of]

    def gradients_of_input(self, output: Any) -> Any:
        """A table of the form of the input."""
        result = iter(self.gradients(tensors(self.input), output))
        return each(lambda x: next(result) if isinstance(x, Tensor) else 0, self.input)


def _version(x: Any) -> int:
    return x._version if isinstance(x, Tensor) else 0
