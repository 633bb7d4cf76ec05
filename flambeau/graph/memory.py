"""Where values of a program lie: in one arena, in memory of their own, in that of results, and in that of arguments that are given up.

A value that neither enters nor leaves a program lies at a place that nothing alive overlaps: first fit, large values first, in the
smallest memory that is there anyway and free for as long as the value lives, else in the arena.  Large ones may have memories of their
own instead, which the first step that touches them takes and the last one frees: then a run holds what is alive, and results are
made when they are written.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from ..core.base.memory import bytes_of_block

ALIGN = 64
NEVER = 1 << 62  # more bytes than a value has

K = TypeVar("K", bound=Hashable)


class Spot(NamedTuple, Generic[K]):
    """So many bytes from where a memory begins: that of `home`, or the arena where that is None.

    One that is `own` is memory that is taken for it, and for values in its place: `home` is the first of them.
    """

    home: K | None
    at: int
    own: bool = False


class Use(NamedTuple):
    """The bytes that a run takes, beside arguments that stay and what calls use inside.

    `peak` is the most that it holds at one step, as the allocator counts: the arena, memories that come and go (`own`), results, what calls
    have returned (each of these alone: the most at one step), workspaces, and arguments that it is given up (`given`).  `bound` is the most
    that is alive at one step, of what it makes: no order of places takes less, but in the memory of such arguments.
    """

    arena: int
    own: int
    results: int
    calls: int
    given: int
    bound: int
    peak: int


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
    {'a': Spot(home=None, at=0, own=False), 'b': Spot(home=None, at=128, own=False), 'c': Spot(home=None, at=0, own=False)}
    >>> arena.size
    256
    >>> arena.solve(own=100)["b"], arena.size
    (Spot(home='b', at=0, own=True), 0)
    """

    def __init__(self) -> None:
        self.blocks: dict[K, _Block[K]] = {}
        self.lives: dict[K, list[int]] = {}  # bytes, first step, last step
        self.memories: dict[K, _Memory] = {}
        self.apart: dict[K, bool] = {}
        self.size = 0
        self.own: int = NEVER

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

    def solve(self, own: int = NEVER) -> dict[K, Spot[K]]:
        """The place of each value that is no result, and not apart.

        From `own` bytes on, values have memory of their own.  Then no others lie in results, which are made when they are written.
        """
        self.own = own
        spots: dict[K, Spot[K]] = {}
        common = _Memory(None, -1, float("inf"))
        for memory in self.memories.values():
            memory.placed = []
        for block in self._blocks():
            if block.home is not None:  # until the value whose memory it is takes its place
                self.memories[block.home].placed.append(
                    (0, _aligned(block.nbytes), block.first, float("inf"))
                )
                spots.update((key, Spot(block.home, 0)) for key in block.keys)
        lent = [(key, m) for key, m in self.memories.items() if own == NEVER]
        lent.sort(key=lambda item: item[1].nbytes or 0)
        for block in sorted(self._blocks(), key=lambda b: (-_aligned(b.nbytes), b.first)):
            if not self._is_placed(block):
                continue
            spot = Spot(block.keys[0], 0, True) if block.nbytes >= own else self._spot(block, lent, common)
            spots.update((key, spot) for key in block.keys)
        self.size = max((end for _, end, _, _ in common.placed), default=0)
        return {key: spots[key] for key in self.lives if key in spots and key not in self.memories}

    def _blocks(self) -> list[_Block[K]]:
        return list({id(b): b for b in self.blocks.values()}.values())

    def _is_placed(self, block: _Block[K]) -> bool:
        """Whether a block is in the arena, or has memory of its own."""
        return block.home is None and block.keys[-1] not in self.memories and block.keys[-1] not in self.apart

    def _spot(self, block: _Block[K], lent: list[tuple[K, _Memory]], common: _Memory) -> Spot[K]:
        homes: list[tuple[K | None, _Memory]] = [*lent, (None, common)]
        for key, memory in homes:
            at = memory.fit(block.nbytes, block.first, block.last)
            if at is not None:
                insort(memory.placed, (at, at + _aligned(block.nbytes), block.first, block.last))
                return Spot(key, at)
        raise AssertionError("the arena has no end")

    def stays(self) -> dict[K, tuple[int, int, int]]:
        """Bytes, first and last step of each memory that comes and goes, by the first value that lies in it."""
        return {
            b.keys[0]: (b.nbytes, b.first, b.last)
            for b in self._blocks()
            if self._is_placed(b) and b.nbytes >= self.own
        }

    def made_at(self, key: K) -> int:
        """The step before which a result is made: that which first touches its memory, or the first one."""
        return self.blocks[key].first if key in self.blocks and self.own != NEVER else 0

    def use(
        self, results: dict[K, int], given: dict[K, int], workspaces: Sequence[int], behind: int = 0
    ) -> Use:
        """What a run takes: the bytes of `results`, what each step needs for itself beside, and what lies `behind` the arena.

        `given` are the values that are given up, each to some step.
        """
        always = float("inf")
        held = [(bytes_of_block(self.memories[key].nbytes or 0), 0, last) for key, last in given.items()]
        arena = [(bytes_of_block(self.size + behind), 0, always)] if self.size + behind else []
        own = [(bytes_of_block(n), first, last) for n, first, last in self.stays().values()]
        made = [(bytes_of_block(n), self.made_at(key), always) for key, n in results.items()]
        called = [
            (
                bytes_of_block(self.lives[key][0]),
                self.lives[key][1],
                always if lasting else self.lives[key][2],
            )
            for key, lasting in self.apart.items()
        ]
        beside = [(bytes_of_block(n), step, step) for step, n in enumerate(workspaces) if n]
        return Use(
            self.size,
            _most_alive(own),
            sum(n for n, _, _ in made),
            _most_alive(called),
            sum(n for n, _, _ in held),
            self.bound(),
            _most_alive([*held, *arena, *own, *made, *called, *beside]),
        )

    def bound(self) -> int:
        """The most bytes alive at one step, where values in place of others count once."""
        return _most_alive(
            (_aligned(b.nbytes), b.first, float("inf") if self._lasts(b.keys[-1]) else b.last)
            for b in self._blocks()
        )

    def _lasts(self, key: K) -> bool:
        return key in self.memories or self.apart.get(key, False)


def _most_alive(lives: Iterable[tuple[int, float, float]]) -> int:
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
