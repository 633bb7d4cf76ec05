"""Backward graphs for calls of which some results have no gradient: PyTorch calls it undefined.

The gradient of a result that a program does not use is no zero: 0 times the infinite slope of a logarithm is NaN, and the tape never asks
for that slope.  So what depends on undefined gradients alone is undefined as well; a sum of gradients is what is left of it; and any other
call that also reads a gradient that is there reads zeros, as on the tape.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.make.create import empty_strided
from ..fx import GraphModule, Node
from ..operations.declare.registry import REGISTRY
from .program import written_by
from .record import Place, place
from .subgraph import Subgraph


def without(
    graph: GraphModule, cotangents: int, missing: Sequence[int]
) -> tuple[GraphModule, list[int]] | None:
    """The graph of a backward pass without these of its `cotangents`, which are its first inputs, and the number that each of its results
    has among the new one's: -1 for one that is undefined.

    None where the graph writes in place, or where nothing is left.

    >>> import flambeau as torch
    >>> from flambeau.graph.trace import record
    >>> from flambeau.graph.undefined import without
    >>> graph, _ = record(lambda a, b, x: (a * 2 + b / x,), torch.ones(2), torch.ones(2), torch.ones(2))
    >>> small, numbers = without(graph, 2, [1])
    >>> print(small.code.strip())
    def forward(self, arg_0, arg_2):
        mul = flambeau.mul(arg_0, 2);  arg_0 = None
        return (mul,)
    >>> numbers
    [0]
    """
    nodes = list(graph.graph.nodes)
    placeholders = [n for n in nodes if n.op == "placeholder"]
    gone, there = {placeholders[k] for k in missing}, set(placeholders[:cotangents])
    there -= gone
    part = _Rest(graph)
    for n in nodes[:-1]:
        inputs = n.all_input_nodes
        if n.op == "call_function" and written_by(n.target, n.args, n.kwargs, Node):
            return None
        if n in gone:
            continue
        if any(m in gone for m in inputs) and not any(m in there for m in inputs):
            gone.add(n)
            continue
        if any(m in there for m in inputs):
            there.add(n)
        left = [m for m in inputs if m not in gone]
        if len(left) < len(inputs) and _adds(n) and len(left) == 1 and _alike(left[0], n):
            part.made[n] = part.made[left[0]]
            continue
        part.fill([m for m in inputs if m in gone])
        part.take(n)
    (results,) = nodes[-1].args
    given = [n for n in results if n not in gone]
    if not given:
        return None
    numbers = {n: k for k, n in enumerate(given)}
    return part.finish(given), [numbers.get(n, -1) for n in results]


class _Rest(Subgraph):
    """What is left of a backward graph."""

    def fill(self, undefined: Sequence[Node]) -> None:
        """Let calls read zeros in place of these."""
        for n in undefined:
            if n not in self.made:
                name = f"_zeros{len(self.made)}"
                at = n.meta["places"]
                where = "cpu" if at.device is None else at.device.place
                zeros = empty_strided(at.shape, at.stride, dtype=at.dtype, device=where).zero_()
                self.root.register_buffer(name, zeros)
                node = self.graph.get_attr(name)
                node.meta["places"] = place(zeros)
                self.made[n] = node


def _adds(n: Node) -> bool:
    """Whether it is the sum of two tensors, and nothing else."""
    return n.target is REGISTRY["add"].function and len(n.args) == 2 and not n.kwargs


def _alike(m: Node, n: Node) -> bool:
    """Whether two nodes have values of the same shape and dtype."""
    a, b = m.meta.get("places"), n.meta.get("places")
    return isinstance(a, Place) and isinstance(b, Place) and a.shape == b.shape and a.dtype == b.dtype
