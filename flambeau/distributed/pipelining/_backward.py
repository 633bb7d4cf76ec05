"""Backward of a stage in two halves: the gradients of its inputs, which the stage before waits for, and later those of its parameters.

The tape's nodes between a stage's results and its inputs are the *path*.  The first half runs the path alone; on its way it notes the
gradients that arrive at nodes from which an edge leaves the path, such as that of a product to its weight.  The second half computes what
these nodes send off the path, adds up what meets, and goes on from there to the parameters.  So no node computes a gradient twice, and
hooks of parameters run once, in the second half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._tensor import Tensor
from ...autograd.gradients import backward, grad
from ...autograd.graph import GradientEdge, get_gradient_edge
from ...core.tape import free_saved, run_node

Grads = list[Tensor | None]


def backward_input(
    outputs: Sequence[Tensor], grads: Sequence[Tensor | None], inputs: Sequence[Tensor]
) -> tuple[Grads, Callable[[], None]]:
    """The gradients of `inputs`, which are leaves (None for those that the outputs do not depend on), and the other half.

    outputs: tensors with history, or without, which are left out.  grads: of each output; None counts as zeros, or as 1 where the output
    has one element.
    """
    pairs = [(out, _received_grad(out, g)) for out, g in zip(outputs, grads) if out.requires_grad]
    pairs = [(out, g) for out, g in pairs if g is not None]
    wanted = [x for x in inputs if x.requires_grad]
    leaves = {get_gradient_edge(x).node for x in wanted}
    path, order = _path([get_gradient_edge(out).node for out, _ in pairs], leaves)
    edges: dict[Any, list[tuple[int, GradientEdge]]] = {}
    for node in order:
        off = [
            (k, GradientEdge(*edge))
            for k, edge in enumerate(node.next_functions)
            if edge[0] is not None and edge[0] not in path
        ]
        if off:
            edges[node] = off
    on = [(out, g) for out, g in pairs if get_gradient_edge(out).node in path]
    aside = [(get_gradient_edge(out), g) for out, g in pairs if get_gradient_edge(out).node not in path]
    arrived: dict[Any, Sequence[Tensor | None]] = {}
    by_input = dict.fromkeys(map(id, wanted))
    if on:
        handles = [node.register_prehook(_noting(arrived, node)) for node in edges]
        try:
            computed = grad(
                [out for out, _ in on], wanted, [g for _, g in on], retain_graph=True, allow_unused=True
            )
        finally:
            for handle in handles:
                handle.remove()
        by_input.update(zip(map(id, wanted), computed))
        for node in order:
            if node not in edges:
                free_saved(node)

    def backward_weight() -> None:
        sums: dict[tuple[Any, int], tuple[GradientEdge, Tensor]] = {}
        for node, off in edges.items():
            sent = arrived.pop(node, None)
            if sent is None:
                continue
            results = run_node(node, list(sent), [k for k, _ in off])
            free_saved(node)
            for k, edge in off:
                _add(sums, edge, results[k])
        for edge, g in aside:
            _add(sums, edge, g)
        edges.clear()
        aside.clear()
        if sums:
            starts = list(sums.values())
            sums.clear()
            backward([edge for edge, _ in starts], [g for _, g in starts])

    return [by_input.get(id(x)) for x in inputs], backward_weight


def _received_grad(out: Tensor, g: Tensor | None) -> Tensor | None:
    return out.new_ones(out.shape) if g is None and out.numel() == 1 else g


def _noting(arrived: dict[Any, Sequence[Tensor | None]], node: Any) -> Callable[[Any], None]:
    def note(grads: Sequence[Tensor | None]) -> None:
        arrived[node] = tuple(grads)

    return note


def _add(
    sums: dict[tuple[Any, int], tuple[GradientEdge, Tensor]], edge: GradientEdge, g: Tensor | None
) -> None:
    if g is None:
        return
    key = (edge.node, edge.output_nr)
    before = sums.get(key)
    sums[key] = (edge, g if before is None else before[1] + g)


def _path(roots: Sequence[Any], leaves: set[Any]) -> tuple[set[Any], list[Any]]:
    """The nodes that lie between roots and leaves, both included: as a set, and without leaves in the order of a walk from the leaves."""
    on, seen, order = set(leaves), set(), []
    waiting: list[tuple[Any, bool]] = [(root, False) for root in roots]
    while waiting:  # twice at each node: before and after those that follow it
        node, followed = waiting.pop()
        if followed:
            if any(after in on for after, _ in node.next_functions if after is not None):
                on.add(node)
                order.append(node)
        elif node not in seen and node not in leaves:
            seen.add(node)
            waiting.append((node, True))
            waiting += [(after, False) for after, _ in node.next_functions if after is not None]
    return on, order
