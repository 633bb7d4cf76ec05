"""Where values of a program lie: one arena, the memory of results before they are made, and that of arguments that are given up.

A value that neither enters nor leaves a program lies at a place that nothing alive overlaps: first fit, large values first, in the
smallest memory that is there anyway and free for as long as the value lives, else in the arena.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

ALIGN = 64

K = TypeVar("K", bound=Hashable)


class Spot(NamedTuple, Generic[K]):
    """So many bytes from where a memory begins: that of another value, or the arena where `home` is None."""

    home: K | None
    at: int


class Use(NamedTuple):
    """The bytes that a run takes, beside its arguments and what calls use inside.

    `bound` is the most that is alive at one step: no order of places takes less, but in the memory of donated arguments.
    """

    arena: int
    results: int
    calls: int
    bound: int

    @property
    def peak(self) -> int:
        """The arena, the results, and what calls have returned."""
        return self.arena + self.results + self.calls


class _Block(Generic[K]):
    """Values one after another at one place."""

    __slots__ = ("first", "home", "keys", "last", "nbytes")

    def __init__(self, key: K, nbytes: int, step: int) -> None:
        self.keys, self.nbytes, self.first, self.last = [key], nbytes, step, step
        self.home: K | None = None  # where it has to lie


class _Memory:
    """A memory and what lies in it; nothing may before `begin`, or from `end` on."""

    __slots__ = ("begin", "end", "nbytes", "placed")

    def __init__(self, nbytes: int | None, begin: float, end: float) -> None:
        self.nbytes, self.begin, self.end = nbytes, begin, end
        self.placed: list[tuple[int, int, int, float]] = []  # bytes from, to; first and last step

    def fit(self, nbytes: int, first: int, last: int) -> int | None:
        """The lowest place that is free from the first to the last step."""
        if not self.begin < first <= last < self.end:
            return None
        at = 0
        for begin, end, others_first, others_last in self.placed:
            if others_last < first or others_first > last:
                continue
            if at + nbytes <= begin:
                break
            at = max(at, end)
        return at if self.nbytes is None or at + nbytes <= self.nbytes else None


class Arena(Generic[K]):
    """Places for values, each alive from one step to another.

    >>> from flambeau.graph.memory import Arena
    >>> arena = Arena()
    >>> for name, first, last in [("a", 0, 1), ("b", 1, 2), ("c", 2, 3)]:
    ...     arena.touch(name, 100, first)
    ...     arena.touch(name, 100, last)
    >>> arena.solve()
    {'a': Spot(home=None, at=0), 'b': Spot(home=None, at=128), 'c': Spot(home=None, at=0)}
    >>> arena.size
    256
    """

    def __init__(self) -> None:
        self.blocks: dict[K, _Block[K]] = {}
        self.lives: dict[K, list[int]] = {}  # bytes, first step, last step
        self.memories: dict[K, _Memory] = {}
        self.apart: dict[K, bool] = {}
        self.size = 0

    def touch(self, key: K, nbytes: int, step: int) -> None:
        """A step reads or writes the value; steps come in their order."""
        nbytes = max(nbytes, 1)
        life = self.lives.setdefault(key, [nbytes, step, step])
        life[2] = step
        if key not in self.blocks:
            self.blocks[key] = _Block(key, nbytes, step)
        self.blocks[key].last = step

    def lend(self, key: K, nbytes: int, after: float = -1, before: float = float("inf")) -> None:
        """A value with memory of its own, in which others may lie between two steps, both left out."""
        self.memories[key] = _Memory(nbytes, after, before)

    def keep_apart(self, key: K, lasting: bool) -> None:
        """A value that a call makes, with memory of its own; `lasting`: to the end."""
        self.apart[key] = lasting

    def replace(self, key: K, other: K) -> bool:
        """Let a value lie where another does that dies as it is made; whether that can be."""
        own, lent = self.blocks[key], self.memories.get(key)
        if key in self.apart or other in self.apart or len(own.keys) > 1:
            return False
        if other in self.memories:  # its own memory, which is given up
            given = self.memories[other]
            if lent is not None or given.begin != own.first or own.nbytes > (given.nbytes or 0):
                return False
            own.home = other
            return True
        block = self.blocks[other]
        home = lent if block.home is None else self.memories[block.home]
        most = None if home is None else home.nbytes
        if (
            (block.home is not None and (lent is not None or block.home in self.blocks))
            or block.keys[-1] != other
            or own.first != block.last
            or (most is not None and max(own.nbytes, block.nbytes) > most)
        ):
            return False
        if lent is not None:
            block.home = key
        block.keys.append(key)
        block.last, block.nbytes = own.last, max(block.nbytes, own.nbytes)
        self.blocks[key] = block
        return True

    def solve(self) -> dict[K, Spot[K]]:
        """The place of each value that has no memory of its own."""
        spots: dict[K, Spot[K]] = {}
        common = _Memory(None, -1, float("inf"))
        blocks = list({id(b): b for key, b in self.blocks.items()}.values())
        for block in blocks:
            if block.home is not None:  # until the value whose memory it is takes its place
                self.memories[block.home].placed.append(
                    (0, _aligned(block.nbytes), block.first, float("inf"))
                )
                spots.update((key, Spot(block.home, 0)) for key in block.keys)
        lent = sorted(self.memories.items(), key=lambda item: item[1].nbytes or 0)
        for block in sorted(blocks, key=lambda b: (-_aligned(b.nbytes), b.first)):
            if block.home is not None or block.keys[-1] in self.memories or block.keys[-1] in self.apart:
                continue
            spot = self._spot(block, lent, common)
            spots.update((key, spot) for key in block.keys)
        self.size = max((end for _, end, _, _ in common.placed), default=0)
        return {key: spots[key] for key in self.lives if key in spots and key not in self.memories}

    def _spot(self, block: _Block[K], lent: list[tuple[K, _Memory]], common: _Memory) -> Spot[K]:
        homes: list[tuple[K | None, _Memory]] = [*lent, (None, common)]
        for key, memory in homes:
            at = memory.fit(block.nbytes, block.first, block.last)
            if at is not None:
                insort(memory.placed, (at, at + _aligned(block.nbytes), block.first, block.last))
                return Spot(key, at)
        raise AssertionError("the arena has no end")

    def bound(self) -> int:
        """The most bytes alive at one step, where values in place of others count once."""
        return _most_alive(
            (_aligned(b.nbytes), b.first, float("inf") if self._lasts(b.keys[-1]) else b.last)
            for b in {id(b): b for b in self.blocks.values()}.values()
        )

    def called(self) -> int:
        """The most bytes at one step of values that calls have made."""
        return _most_alive(
            (_aligned(b.nbytes), b.first, float("inf") if self._lasts(key) else b.last)
            for key, b in self.blocks.items()
            if key in self.apart
        )

    def _lasts(self, key: K) -> bool:
        return key in self.memories or self.apart.get(key, False)


def _most_alive(lives: Iterable[tuple[int, int, float]]) -> int:
    """The most of bytes that live from a step to another."""
    changes: dict[float, int] = {}
    for nbytes, first, last in lives:
        changes[first] = changes.get(first, 0) + nbytes
        changes[last + 1] = changes.get(last + 1, 0) - nbytes
    most = now = 0
    for step in sorted(changes):
        now += changes[step]
        most = max(most, now)
    return most


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN
