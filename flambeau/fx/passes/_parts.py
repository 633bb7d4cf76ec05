"""Cutting a graph into parts that are modules of their own, called by one that is left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..graph import Graph
from ..graph_module import GraphModule, _get_attr
from ..node import Node, map_arg


@dataclass
class Part:
    """A part: its nodes, what it takes and gives in terms of the whole graph's nodes, and its own graph."""

    name: str  # of the submodule that it becomes
    nodes: list[Node] = field(default_factory=list)
    inputs: dict[Node, None] = field(default_factory=dict)
    outputs: dict[Node, None] = field(default_factory=dict)
    after: dict[str, None] = field(default_factory=dict)  # keys of the parts whose values it takes
    graph: Graph = field(default_factory=Graph)
    copies: dict[Node, Node] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # of attributes here, by those in the whole module


def connect(graph: Graph, parts: dict[str, Part], of: dict[Node, str]) -> None:
    """Find what the parts take from each other and from the rest, in the order of the graph."""
    for node in graph.nodes:
        here = of.get(node)
        for used in node._input_nodes:
            there = of.get(used)
            if there is not None and there != here:
                parts[there].outputs.setdefault(used)
            if here is not None and there != here:
                parts[here].inputs.setdefault(used)
                if there is not None:
                    parts[here].after.setdefault(there)


def in_order(parts: dict[str, Part]) -> list[str]:
    """The parts such that each comes after those whose values it takes; RuntimeError where they take from each other in a circle."""
    waiting = {key: set(part.after) for key, part in parts.items()}
    result: list[str] = []
    while waiting:
        ready = [key for key, after in waiting.items() if not after]
        if not ready:
            raise RuntimeError("cycle exists between partitions!")
        result.append(ready[0])
        del waiting[ready[0]]
        for after in waiting.values():
            after.discard(ready[0])
    return result


def fill(base: GraphModule, part: Part, input_names: bool, dotted: bool) -> None:
    """Copy a part's nodes into its graph; `dotted` keeps the dotted names of attributes, else each is an attribute of the part itself."""
    for k, used in enumerate(part.inputs):
        name = used.name if input_names else f"arg_{k}"
        has_type = used.op == "placeholder" and input_names
        placeholder = part.graph.placeholder(name, type_expr=used.type if has_type else None)
        placeholder.meta = used.meta.copy()
        part.copies[used] = placeholder
    for node in part.nodes:
        target = node.target
        if node.op in ("call_module", "get_attr"):
            new = str(target) if dotted else str(target).replace(".", "_")
            part.targets[new] = _get_attr(base, str(target))
            part.names[str(target)] = new
            target = new
        args = map_arg(node.args, lambda n: part.copies[n])
        kwargs = map_arg(node.kwargs, lambda n: part.copies[n])
        made = part.graph.create_node(node.op, target, args, kwargs, node.name, node.type)
        made.meta = node.meta.copy()
        part.copies[node] = made


def close(part: Part, always_tuple: bool) -> bool:
    """Give a part its output; whether that is a tuple."""
    values = tuple(part.copies[n] for n in part.outputs)
    several = always_tuple or len(values) != 1
    part.graph.output(values if several else values[0])
    return several


def as_module(part: Part, kind: type[GraphModule] = GraphModule) -> GraphModule:
    """The part as a module."""
    return kind(part.targets, part.graph)  # type: ignore[arg-type]
