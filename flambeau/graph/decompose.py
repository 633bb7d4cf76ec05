"""Leaves as the operations that they call, where declarations say that those depend on geometry alone (`decomposes`).

A leaf is one node on the tape and one call of a recording, whatever it is made of.  What one kernel computes is decided among the calls of
a program: there the leaf's own function runs once more, on tensors of its arguments' geometry, and what it calls stands in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..autograd.grad_mode import no_grad
from ..core.base.tensor import TensorBase
from ..core.make.create import empty_strided
from ..fx import GraphModule
from .record import Place, Recording, place
from .trace import graph_of, mapped

if TYPE_CHECKING:
    from .program import Value


def decomposed(
    operation: Any, args: tuple, kwargs: dict[str, Any], given: list[Value], places: Any
) -> GraphModule | None:
    """The graph of what a leaf calls, whose arguments are `given`, the distinct values among the leaf's; None where it stays one call.

    The graph's tensors lie where the program's do: over the values' storages, and results at `places`.

    >>> import flambeau as torch
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> graph, _ = record(torch.nn.functional.layer_norm, torch.ones(2, 3), (3,))
    >>> [call.name for call in Program(graph).calls]
    ['normalized_rows']
    """
    entry = getattr(operation, "entry", None)
    if entry is None or not entry.details.get("decomposes"):
        return None
    wheres = ["cpu" if v.device is None else v.device.place for v in given]
    examples = [
        empty_strided(v.shape, v.place.stride, dtype=v.dtype, device=where) for v, where in zip(given, wheres)
    ]
    of = dict(zip(given, examples, strict=True))
    with no_grad(), Recording() as recording:
        result = operation.function(
            *mapped(args, type(given[0]), of.__getitem__), **mapped(kwargs, type(given[0]), of.__getitem__)
        )
    wanted: list[Any] = []
    made: list[Any] = []
    mapped(places, Place, wanted.append)
    mapped(result, TensorBase, lambda t: made.append(place(t)))
    moves = {
        place(t).storage: (v.place.storage, v.place.offset) for t, v in zip(examples, given, strict=True)
    }
    for at, to in zip(made, wanted, strict=True):
        if moves.setdefault(at.storage, (to.storage, to.offset - at.offset))[0] != to.storage:
            return None

    def moved(at: Place) -> Place:
        storage, offset = moves.get(at.storage, (at.storage, 0))
        return at._replace(storage=storage, offset=at.offset + offset)

    if [moved(at) for at in made] != wanted:
        return None
    graph = graph_of(recording, examples, result)
    for node in graph.graph.nodes:
        if "places" in node.meta:
            node.meta["places"] = mapped(node.meta["places"], Place, moved)
    return graph
