"""A graph that is made of nodes of another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..core.base.tensor import TensorBase
from ..fx import Graph, GraphModule, Node
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.node import map_arg
from ..nn import Module
from ..operations.declare.registry import REGISTRY


class Subgraph:
    """Some nodes of a graph; `made` has the copy of each."""

    def __init__(self, root: GraphModule) -> None:
        self.source, self.root, self.graph = root, Module(), Graph()
        self.made: dict[Node, Node] = {}

    def enter(self, n: Node, copy: Node, meta: dict) -> None:
        copy.meta = dict(meta)
        self.made[n] = copy

    def take(self, n: Node) -> None:
        if n.op == "get_attr":
            held = getattr(self.source, str(n.target))
            if isinstance(held, TensorBase):
                self.root.register_buffer(str(n.target), held)
            else:
                setattr(self.root, str(n.target), held)
        self.made[n] = self.graph.node_copy(n, self.made.__getitem__)

    def call(self, n: Node, target: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> None:
        """A node by another call, of nodes of the source."""
        args, kwargs = map_arg((args, kwargs), self.made.__getitem__)
        self.enter(n, self.graph.call_function(target, args, kwargs), n.meta)

    def view(self, n: Node, root: Node) -> None:
        """A node as a view of the memory that it lies in."""
        at = n.meta["places"]
        made = self.graph.call_function(
            REGISTRY["as_strided"].function, (self.made[root], at.shape, at.stride, at.offset)
        )
        self.enter(n, made, n.meta)

    def finish(self, results: Iterable[Node]) -> GraphModule:
        self.graph.output(tuple(self.made[n] for n in results))
        return _LazyGraphModule(self.root, self.graph)
