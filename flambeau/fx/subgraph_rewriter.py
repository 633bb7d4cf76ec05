"""Replacing what looks like a pattern by something else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from .._compat.absent import refusing
from ..nn.modules.module import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _get_attr, _has_attr
from .node import Node
from .passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A place that was replaced: the pattern's node where the match began, and which node stood for which of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """The same with the nodes that came in its place.

    Raises nothing.

    >>> from flambeau.fx.subgraph_rewriter import ReplacedPatterns
    >>> ReplacedPatterns(None, {}, []).replacements
    []
    """

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


Pattern: TypeAlias = Callable[..., Any] | Graph | GraphModule
Filter = Callable[[InternalMatch, Graph, Graph], bool]


def _graph_of(what: Pattern) -> tuple[Graph, GraphModule | None]:
    """The graph of a pattern, and the module whose attributes it means."""
    if isinstance(what, GraphModule):
        return what.graph, what
    if isinstance(what, Graph):
        return what, what.owning_module
    traced = symbolic_trace(what)
    return traced.graph, traced if isinstance(what, Module) else None


def _take_attributes(gm: GraphModule, replacement: Module | None) -> None:
    """Let `gm` have what its graph names and the replacement brought along, and nothing that it names no more."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _has_attr(gm, str(node.target)):
            continue
        if replacement is None or not _has_attr(replacement, str(node.target)):
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target {node.target}, but the referenced attribute '
                "does not exist in the replacement module"
            )
        *path, name = str(node.target).split(".")
        at: Module = gm
        for part in path:
            if not hasattr(at, part):
                at.add_module(part, Module())
            at = getattr(at, part)
        setattr(at, name, copy.deepcopy(_get_attr(replacement, str(node.target))))


def replace_pattern(gm: GraphModule, pattern: Pattern, replacement: Pattern) -> list[Match]:
    """Replace each place of the graph that looks like `pattern` by `replacement`, a function of the same arguments.

    Both are functions, modules or graphs.  Inputs of the pattern match any value; what it computes on the way must not be used elsewhere;
    places that overlap are replaced once.  Returns the matches.

    ValueError for an empty pattern; AssertionError where the replacement takes or gives another number of values.

    >>> import flambeau as torch
    >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> matches = torch.fx.replace_pattern(module, lambda x: torch.relu(x), lambda x: x.clamp(min=0))
    >>> print(len(matches), module.code.strip())
    1 def forward(self, x):
        clamp = x.clamp(min = 0);  x = None
        add = clamp + 1;  clamp = None
        return add
    """
    return [Match(m.anchor, m.nodes_map) for m in _replaced(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Pattern,
    replacement: Pattern | None = None,
    match_filters: list[Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """`replace_pattern` where all of `match_filters`, functions of match, graph and pattern, are true.

    `ignore_literals` lets numbers in the pattern match any; `replacement_callback` makes the replacement of each match.

    ValueError for an empty pattern; AssertionError where the replacement takes or gives another number of values, or is missing.

    >>> import flambeau as torch
    >>> from flambeau.fx.subgraph_rewriter import replace_pattern_with_filters
    >>> module = torch.fx.symbolic_trace(lambda x: torch.add(x, 3))
    >>> done = replace_pattern_with_filters(module, lambda x: torch.add(x, 1), lambda x: torch.neg(x), ignore_literals=True)
    >>> done[0].replacements
    [neg]
    """
    return _replaced(
        gm, pattern, replacement, match_filters or [], ignore_literals, replacement_callback, node_name_match
    )


def _replaced(
    gm: GraphModule,
    pattern: Pattern,
    replacement: Pattern | None,
    filters: list[Filter] = [],  # noqa: B006  never changed
    ignore_literals: bool = False,
    callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    graph, (looked_for, _) = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(looked_for, ignore_literals=ignore_literals)
    matches = [
        m for m in matcher.match(graph, node_name_match) if all(f(m, graph, looked_for) for f in filters)
    ]
    if replacement is not None:
        new, owner = _graph_of(replacement)
    elif callback is None:
        raise AssertionError("replace_pattern(): either a replacement or replacement_callback is needed")
    done: list[ReplacedPatterns] = []
    changed: dict[Node, Node] = {}  # what stands for nodes that earlier matches replaced
    for match in matches:
        if replacement is None:
            assert callback is not None
            new, owner = callback(match, graph, looked_for), None
        done.append(_replace_one(graph, new, match, changed))
    gm.recompile()
    if replacement is not None and done:
        _take_attributes(gm, owner)
        gm.recompile()
    return done


def _replace_one(
    graph: Graph, new: Graph, match: InternalMatch, changed: dict[Node, Node]
) -> ReplacedPatterns:
    def now(value: Any) -> Any:
        while isinstance(value, Node) and value in changed:
            value = changed[value]
        return value

    inputs = [n for n in new.nodes if n.op == "placeholder"]
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(
            f"the replacement takes {len(inputs)} arguments, and the pattern {len(match.placeholder_nodes)}"
        )
    copies: dict[Node, Any] = {
        p: now(value) for p, value in zip(inputs, match.placeholder_nodes, strict=True)
    }
    placeholders = set(copies)
    inner = [g for p, g in match.nodes_map.items() if p.op not in ("placeholder", "output")]
    users = [u for n in match.returning_nodes for u in n.users if u not in inner]
    place = min(users) if users else max(inner)._next
    with graph.inserting_before(place):
        value = graph.graph_copy(new, copies)
    returned = list(value) if isinstance(value, tuple | list) else [value]
    added = [n for old, n in copies.items() if old not in placeholders]
    if len(returned) != len(match.returning_nodes):
        raise AssertionError(
            f"the replacement returns {len(returned)} values, and the pattern {len(match.returning_nodes)}"
        )
    for old, made in zip(match.returning_nodes, returned, strict=True):
        if isinstance(made, Node):
            old.replace_all_uses_with(made)
            changed[old] = made
    for node in sorted(inner, reverse=True):
        if not node.users:
            graph.erase_node(node)
    return ReplacedPatterns(match.anchors[0], match.nodes_map, added)


__getattr__ = refusing("fx.subgraph_rewriter")
