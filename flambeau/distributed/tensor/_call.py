"""A call of an operation on distributed tensors, as rules see it: arguments by name, whole tensors without data, and what may be chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...core.base.tensor import TensorBase
from ...func._rules import Parameters
from .placement_types import Placement, Replicate


class Choice(NamedTuple):
    """One way of computing over one dimension of a mesh: how operands have to lie, and how results lie then."""

    operands: tuple[Placement, ...]
    results: tuple[Placement, ...]


class Call:
    """What a rule is given.

    bound: arguments by name, whole tensors without data in place of distributed ones.
    operands: those tensors, in the order in which they stand in `bound`; names, the names of the arguments in which they stand.
    results: what the operation makes of them: tensors without data.
    adjust: what the arguments for the pieces are, where they differ from those for the whole (`sizes`).
    compute: what computes the pieces of results in place of the operation.
    """

    def __init__(self, op: Any, parameters: Parameters, bound: dict[str, Any]) -> None:
        self.op, self.parameters, self.bound = op, parameters, bound
        result = list(leaves(bound))
        self.names, self.operands = [name for name, _ in result], [x for _, x in result]
        self.results: list[TensorBase] = []
        self.inputs: list[Any] = []  # how operands lie when pieces are computed
        self.adjust: Callable[[dict[str, Any], list[Any]], dict[str, Any]] | None = None
        self.compute: Callable[[dict[str, Any], list[Any]], Any] | None = None
        self.pieces: Callable[[int, int], int] = lambda operand, dim: 1

    def argument(self, name: str) -> Any:
        """An argument, or its default."""
        return self.bound.get(name, self.parameters.defaults.get(name))

    def choice(self, placements: Mapping[str, Placement], *results: Placement) -> Choice:
        """Operands by the names of their arguments, the others whole; as many results as there are, if one is given for all."""
        operands = tuple(placements.get(name, Replicate()) for name in self.names)
        return Choice(operands, results if len(results) != 1 else results * len(self.results))


Rule = Callable[[Call], Iterable[Choice]]


def leaves(bound: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The tensors among arguments, with the names of these."""

    def inside(x: Any) -> Iterator[Any]:
        if isinstance(x, TensorBase):
            yield x
        elif isinstance(x, (tuple, list)):
            for y in x:
                yield from inside(y)

    for name, value in bound.items():
        for x in inside(value):
            yield name, x


def mapped(change: Callable[[Any], Any], x: Any) -> Any:
    """Arguments or results with their tensors changed."""
    if isinstance(x, TensorBase):
        return change(x)
    if isinstance(x, dict):
        return {key: mapped(change, y) for key, y in x.items()}
    if isinstance(x, (tuple, list)):
        made = [mapped(change, y) for y in x]
        return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)
    return x


def tensors_in(x: Any) -> list[Any]:
    """The tensors of arguments or results."""
    result: list[Any] = []

    def note(t: Any) -> Any:
        result.append(t)
        return t

    mapped(note, x)
    return result


def dims_of(dims: Any, rank: int) -> tuple[int, ...]:
    """Dimensions counted from the front; all where none are given."""
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        return tuple(range(rank))
    return tuple(dim % max(rank, 1) for dim in (dims if isinstance(dims, Sequence) else (dims,)))
