"""Where values of a program lie: one arena, places by lifetimes.

A value that neither enters nor leaves a program lies at a place of the arena that nothing alive overlaps: first fit, large values first.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

ALIGN = 64

K = TypeVar("K", bound=Hashable)


class Arena(Generic[K]):
    """Places for values, each alive from one step to another.

    >>> from flambeau.graph.memory import Arena
    >>> arena = Arena()
    >>> for name, first, last in [("a", 0, 1), ("b", 1, 2), ("c", 2, 3)]:
    ...     arena.touch(name, 100, first)
    ...     arena.touch(name, 100, last)
    >>> arena.solve()
    {'a': 0, 'b': 128, 'c': 0}
    >>> arena.size
    256
    """

    def __init__(self) -> None:
        self.lives: dict[K, list[int]] = {}  # bytes, first step, last step
        self.size = 0

    def touch(self, key: K, nbytes: int, step: int) -> None:
        """A step reads or writes the value; steps come in their order."""
        life = self.lives.setdefault(key, [-(-max(nbytes, 1) // ALIGN) * ALIGN, step, step])
        life[2] = step

    def solve(self) -> dict[K, int]:
        """The place of each value, in bytes from where the arena begins."""
        placed: list[tuple[int, int, int, int]] = []
        places: dict[K, int] = {}
        for key, (nbytes, first, last) in sorted(
            self.lives.items(), key=lambda item: (-item[1][0], item[1][1])
        ):
            at = 0
            for begin, end, others_first, others_last in sorted(placed):
                if others_last < first or others_first > last:
                    continue
                if at + nbytes <= begin:
                    break
                at = max(at, end)
            places[key] = at
            placed.append((at, at + nbytes, first, last))
            self.size = max(self.size, at + nbytes)
        return {key: places[key] for key in self.lives}
