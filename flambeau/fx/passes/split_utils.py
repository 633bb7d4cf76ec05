"""`split_by_tags`: a graph as submodules, by an attribute of its nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import getitem
from typing import Any

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from ._parts import Part, as_module, close, connect, fill

__all__ = ["Component", "getattr_recursive", "setattr_recursive", "split_by_tags"]


@dataclass
class Component:
    """A submodule of a split: its graph, and what it takes and gives.

    Raises nothing.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.split_utils import Component
    >>> Component(torch.fx.Graph(), 0, "first").orig_inputs
    []
    """

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


def getattr_recursive(obj: Any, name: str) -> Any:
    """An attribute by its dotted name; AttributeError where there is none.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.split_utils import getattr_recursive
    >>> getattr_recursive(torch.nn.Sequential(torch.nn.ReLU()), "0")
    ReLU()
    """
    for part in name.split("."):
        obj = getattr(obj, part)
    return obj


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Set an attribute by its dotted name; AttributeError where a name on the way is none.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.split_utils import setattr_recursive
    >>> net = torch.nn.Sequential(torch.nn.ReLU())
    >>> setattr_recursive(net, "0.limit", 3)
    >>> net[0].limit
    3
    """
    *path, name = attr.split(".")
    setattr(getattr_recursive(obj, ".".join(path)) if path else obj, name, value)


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> GraphModule | tuple[GraphModule, dict[str, str]]:
    """A module of submodules of these names, which are called in this order; each node's attribute `tag` says in which one it is.

    Nodes of a submodule use values of itself, of earlier ones and of inputs.  `return_fqn_mapping` returns former names by the new ones,
    too; `return_tuple` lets submodules of one result return a tuple.

    AssertionError where a node has no tag, or one that is not among `tags`, or uses a value of a later submodule.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.split_utils import split_by_tags
    >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> for node in module.graph.nodes:
    ...     node.tag = "first" if node.name == "relu" else "second"
    >>> print(split_by_tags(module, ["first", "second"]).code.strip())
    def forward(self, x):
        first = self.first(x);  x = None
        second = self.second(first);  first = None
        return second
    """
    parts = {tag: Part(tag) for tag in tags}
    of: dict[Node, str] = {}
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        tag = getattr(node, "tag", None)
        if node.op == "get_attr" and tag is None and node.users:
            tag = getattr(next(iter(node.users)), "tag", None)
        if tag not in parts:
            raise AssertionError(
                f"split_by_tags(): node {node.name} has the tag {tag!r}, which is not among {tags}"
            )
        parts[tag].nodes.append(node)
        of[node] = tag
    connect(gm.graph, parts, of)
    seen: set[str] = set()
    for tag, part in parts.items():
        if not seen.issuperset(part.after):
            later = [t for t in part.after if t not in seen]
            raise AssertionError(f"split_by_tags(): {tag} uses values of {later}, which come later in {tags}")
        seen.add(tag)
    base = Graph()
    held: dict[str, Any] = {}
    values: dict[Node, Node] = {}
    names: dict[str, str] = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = base.node_copy(node)
    for part in parts.values():
        if not part.nodes:
            continue
        fill(gm, part, True, True)
        several = close(part, return_tuple)
        held[part.name] = as_module(part, GraphModuleCls)
        names |= {f"{part.name}.{new}": old for old, new in part.names.items()}
        made = base.call_module(part.name, tuple(values[n] for n in part.inputs))
        for k, node in enumerate(part.outputs):
            values[node] = base.call_function(getitem, (made, k)) if several else made
    for node in gm.graph.nodes:
        if node.op == "output":
            base.output(map_arg(node.args[0], lambda n: values[n]), node.type)
    split = GraphModuleCls(held, base)
    return (split, names) if return_fqn_mapping else split
