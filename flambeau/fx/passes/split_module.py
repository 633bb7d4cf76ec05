"""`split_module`: a graph as submodules that one graph calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import getitem as _getitem
from typing import Any

from ...nn.modules.module import Module
from ..graph import Graph
from ..graph_module import GraphModule, _get_attr
from ..node import Node, map_arg
from ._parts import Part, as_module, close, connect, fill, in_order

__all__ = ["split_module"]


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], Hashable],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module of submodules "submod_0", "submod_1" and so on; `split_callback` says of each node in which one it is.

    Inputs, parameters and the output stay outside.  `qualname_map` gets the former names of modules by the new ones.  The submodules run in
    an order that fits, or with `keep_original_order` in that of their first nodes.  `keep_original_input_name` names their inputs as the
    values that they take, else "arg_0" and so on; `keep_original_node_name` names values of the outer graph as they were;
    `partition_affix` stands in the names; `tuple_return` lets submodules of one result return a tuple.

    RuntimeError where submodules would take values from each other in a circle.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.split_module import split_module
    >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> split = split_module(module, module, lambda n: 0 if n.name == "relu" else 1)
    >>> print(split.code.strip())
    def forward(self, x):
        submod_0 = self.submod_0(x);  x = None
        submod_1 = self.submod_1(submod_0);  submod_0 = None
        return submod_1
    """
    affix = "" if partition_affix is None else f"{partition_affix}_"
    parts: dict[str, Part] = {}
    of: dict[Node, str] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        key = str(split_callback(node))
        parts.setdefault(key, Part(f"submod_{affix}{key}")).nodes.append(node)
        of[node] = key
    connect(m.graph, parts, of)
    order = in_order(parts)
    if keep_original_order:
        order = _original_order(parts)
    base = Graph()
    held: dict[str, Any] = {}
    values: dict[Node, Node] = {}
    for node in m.graph.nodes:
        if node.op == "placeholder" or (node.op == "get_attr" and not keep_original_order):
            values[node] = _outside(base, m, node, held)
    for key in order:
        part = parts[key]
        fill(m, part, keep_original_input_name, False)
        several = close(part, tuple_return)
        for used in part.inputs:
            if used not in values:  # an attribute, where it is used first
                values[used] = _outside(base, m, used, held)
        made = base.call_module(part.name, tuple(values[n] for n in part.inputs))
        held[part.name] = as_module(part)
        if qualname_map is not None:
            qualname_map.update({f"{part.name}.{new}": old for old, new in part.names.items()})
        for k, node in enumerate(part.outputs):
            if not several:
                values[node] = made
                continue
            values[node] = base.call_function(
                _getitem, (made, k), name=node.name if keep_original_node_name else None
            )
            values[node].meta = node.meta.copy()
        if not several and keep_original_node_name and part.outputs:
            made._rename(next(iter(part.outputs)).name)
    for node in m.graph.nodes:
        if node.op == "get_attr" and node not in values and node.users:
            values[node] = _outside(base, m, node, held)
        if node.op == "output":
            made = base.output(map_arg(node.args[0], lambda n: values[n]), node.type)
            made.meta = node.meta.copy()
    result = GraphModule(held, base)
    result.training = m.training
    return result


def _outside(base: Graph, module: GraphModule, node: Node, held: dict[str, Any]) -> Node:
    """A node that stays in the outer graph."""
    if node.op == "placeholder":
        made = base.create_node("placeholder", node.target, node.args, name=node.name, type_expr=node.type)
    else:
        held[str(node.target)] = _get_attr(module, str(node.target))
        made = base.create_node("get_attr", node.target, name=node.name, type_expr=node.type)
    made.meta = node.meta.copy()
    return made


def _original_order(parts: dict[str, Part]) -> list[str]:
    """The parts in the order of their first nodes, or RuntimeError where one takes the values of a later one."""
    seen: set[str] = set()
    for key, part in parts.items():
        if not seen.issuperset(part.after):
            raise RuntimeError("cycle exists between partitions!")
        seen.add(key)
    return list(parts)
