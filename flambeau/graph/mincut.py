"""The least costly way to cut a source from a sink (Dinic 1970)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)
ALWAYS = 1 << 60  # the cost of what is never cut


class Network(Generic[V]):
    """Directed edges with costs.

    >>> from flambeau.graph.mincut import Network
    >>> network = Network()
    >>> for edge in [("s", "a", 3), ("a", "b", 1), ("b", "t", 2)]:
    ...     network.add(*edge)
    >>> sorted(network.side("s", "t"))
    ['a', 's']
    """

    def __init__(self) -> None:
        self.left: dict[V, dict[V, int]] = {}  # what may still flow

    def add(self, a: V, b: V, cost: int) -> None:
        """An edge; those between the same two add up."""
        ahead = self.left.setdefault(a, {})
        ahead[b] = ahead.get(b, 0) + cost
        self.left.setdefault(b, {}).setdefault(a, 0)

    def side(self, source: V, sink: V) -> set[V]:
        """What stays with the source in the cheapest cut, that which is nearest to the source."""
        while True:
            levels = self._levels([source])
            if sink not in levels:
                return set(levels)
            self._fill(source, sink, levels)

    def _levels(self, front: Iterable[V]) -> dict[V, int]:
        """How far everything is from the source."""
        front = list(front)
        result = dict.fromkeys(front, 0)
        for a in front:
            for b, capacity in self.left.get(a, {}).items():
                if capacity and b not in result:
                    result[b] = result[a] + 1
                    front.append(b)
        return result

    def _fill(self, source: V, sink: V, levels: dict[V, int]) -> None:
        """Send what fits along shortest paths."""
        ahead = {a: iter(list(edges)) for a, edges in self.left.items()}
        path = [source]
        while path:
            a = path[-1]
            if a == sink:
                flow = min(self.left[x][y] for x, y in zip(path, path[1:]))
                for x, y in zip(path, path[1:]):
                    self.left[x][y] -= flow
                    self.left[y][x] += flow
                full = next(k for k, (x, y) in enumerate(zip(path, path[1:])) if not self.left[x][y])
                del path[full + 1 :]
                continue
            for b in ahead[a]:
                if self.left[a][b] and levels.get(b) == levels[a] + 1:
                    path.append(b)
                    break
            else:
                path.pop()
