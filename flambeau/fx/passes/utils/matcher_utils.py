"""`SubgraphMatcher`: the places of a graph that look like another graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ....core.call.operation import behind
from ...graph import Graph
from ...graph_module import _get_attr
from ...node import Node
from ...operator_schemas import normalize_function

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """A place that looks like a pattern: which node stands for which of the pattern; `anchors` are the pattern's.

    Raises nothing.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
    >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x)).graph
    >>> SubgraphMatcher(graph).match(graph)[0].nodes_map
    {relu: relu, x: x}
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            self.anchors, self.nodes_map.copy(), self.placeholder_nodes.copy(), self.returning_nodes.copy()
        )


class SubgraphMatcher:
    """Finds a pattern in graphs.

    Inputs of the pattern match any value, unless `match_placeholder`; its output matches no node, unless `match_output`; numbers and other
    literals match equal ones, or any with `ignore_literals`.  What the pattern computes on the way must be used nowhere else.

    ValueError for an empty pattern, or one whose nodes do not all lead to its output.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
    >>> pattern = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
    >>> graph = torch.fx.symbolic_trace(lambda x, y: torch.relu(x * y) + 1).graph
    >>> [m.placeholder_nodes for m in SubgraphMatcher(pattern).match(graph)]
    [[mul]]
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.is_impure() and not node.users:
                raise ValueError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = (
            [output] if match_output else [n for n in output.all_input_nodes if len(n.users) == 1]
        )

    def _equal(self, pn: Node, gn: Node) -> bool:
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        if pn.op == "get_attr":
            return self._same_attribute(pn, gn)
        if pn.op == "call_function":
            return behind(pn.target) is behind(gn.target)
        return pn.target == gn.target

    def _same_attribute(self, pn: Node, gn: Node) -> bool:
        """Whether what two nodes read is of one class."""
        mine, other = pn.graph.owning_module, gn.graph.owning_module
        if mine is None or other is None:
            return pn.target == gn.target
        return type(_get_attr(mine, str(pn.target))) is type(_get_attr(other, str(gn.target)))

    def _match_values(self, p: Any, g: Any, match: InternalMatch) -> bool:
        if isinstance(p, Node):
            if isinstance(g, Node):
                return self._match_nodes(p, g, match)
            if p.op != "placeholder" or self.match_placeholder:
                return False
            if p in match.nodes_map:
                return not isinstance(match.nodes_map[p], Node) and bool(match.nodes_map[p] == g)
            match.nodes_map[p] = g
            return True
        if isinstance(p, list | tuple):
            return (
                isinstance(g, list | tuple)
                and len(p) == len(g)
                and all(self._match_values(a, b, match) for a, b in zip(p, g, strict=True))
            )
        if isinstance(p, dict):
            return (
                isinstance(g, dict)
                and p.keys() == g.keys()
                and all(self._match_values(p[k], g[k], match) for k in p)
            )
        if isinstance(p, slice):
            return isinstance(g, slice) and self._match_values(
                (p.start, p.stop, p.step), (g.start, g.stop, g.step), match
            )
        if isinstance(g, Node):
            return False
        return self.ignore_literals or (type(p) is type(g) and bool(p == g))

    def _match_nodes(self, pn: Node, gn: Node, match: InternalMatch) -> bool:
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if pn.op != "placeholder" and any(
            g is gn for p, g in match.nodes_map.items() if p.op != "placeholder"
        ):
            return False
        if not self._equal(pn, gn):
            return False
        before = dict(match.nodes_map)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder" or self._match_arguments(pn, gn, match):
            return True
        match.nodes_map.clear()
        match.nodes_map.update(before)
        return False

    def _match_arguments(self, pn: Node, gn: Node, match: InternalMatch) -> bool:
        pargs, pkwargs, gargs, gkwargs = pn.args, pn.kwargs, gn.args, gn.kwargs
        if (len(pargs) != len(gargs) or pkwargs.keys() != gkwargs.keys()) and pn.op == "call_function":
            mine = normalize_function(pn.target, pargs, pkwargs, None, None, True)  # type: ignore[arg-type]
            other = normalize_function(gn.target, gargs, gkwargs, None, None, True)  # type: ignore[arg-type]
            if mine is None or other is None:
                return False
            pargs, pkwargs, gargs, gkwargs = mine.args, mine.kwargs, other.args, other.kwargs
        return self._match_values(tuple(pargs), tuple(gargs), match) and self._match_values(
            dict(pkwargs), dict(gkwargs), match
        )

    def _contained(self, match: InternalMatch) -> bool:
        """Whether what is computed on the way is used inside of the match alone."""
        inside = {id(g) for p, g in match.nodes_map.items() if p.op != "placeholder"}
        for p, g in match.nodes_map.items():
            if not isinstance(g, Node) or (p.op == "placeholder" and not self.match_placeholder):
                continue
            if p in self.pattern_returning_nodes or p.op in ("output", "get_attr"):
                continue
            if any(id(user) not in inside for user in g.users):
                return False
        return True

    def _candidates(self, graph: Graph) -> Iterator[tuple[tuple[Node, ...], InternalMatch]]:
        choices = [[n for n in graph.nodes if self._equal(a, n)] for a in self.pattern_anchors]
        for chosen in itertools.product(*choices):
            if len(set(chosen)) != len(chosen):
                continue
            match = InternalMatch(list(self.pattern_anchors))
            if all(self._match_nodes(p, g, match) for p, g in zip(self.pattern_anchors, chosen, strict=True)):
                yield chosen, match

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The places where the pattern is found, in the order of the graph; those that overlap earlier ones are left out if that is wanted.

        `node_name_match` restricts anchors to nodes whose names hold this text.

        >>> import flambeau as torch
        >>> from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
        >>> trace = lambda f: torch.fx.symbolic_trace(f).graph
        >>> len(SubgraphMatcher(trace(lambda x: x + 1)).match(trace(lambda x: (x + 1) * (x + 1))))
        2
        """
        result: list[InternalMatch] = []
        used: set[Node] = set()
        for chosen, match in self._candidates(graph):
            if node_name_match and not any(node_name_match in a.name for a in chosen):
                continue
            if any(p not in match.nodes_map for p in self.pattern_returning_nodes) or not self._contained(
                match
            ):
                continue
            match.placeholder_nodes = [match.nodes_map.get(p) for p in self.pattern_placeholder_nodes]
            match.returning_nodes = [match.nodes_map[p] for p in self.pattern_returning_nodes]
            mine = {g for p, g in match.nodes_map.items() if p.op not in ("placeholder", "output")}
            if self.remove_overlapping_matches and mine & used:
                continue
            used |= mine
            result.append(match)
        return result
