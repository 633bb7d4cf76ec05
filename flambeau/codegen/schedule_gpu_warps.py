"""Values that threads of a block pass to each other: by shuffles within a warp where the target has them, else by shared memory.

Sums are trees whose form depends on nothing but how many threads share a row, so results have the same bits in every run, and on targets
with shuffles and without: first the threads of a warp by halves, then the warps by halves.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import target as tg
from .irtext import Value, i64
from .lower import ITEMSIZE, MEMORY, Lowering
from .passes import Together
from .schedule_gpu_threads import BLOCK, SHARED, WARP, Threads


class Exchange:
    """States of folds, each a list of values, between the threads of a block; `threads` says how it reaches the others.

    Threads come here together.
    """

    def __init__(self, threads: Threads, low: Lowering):
        self.threads, self.low, self.f = threads, low, threads.f
        self.shuffles = tg.TARGETS[threads.target].shuffles
        self.thread = threads.thread()
        self.turns = 0

    # --- shared memory ------------------------------
    def array(self, name: str, dtype: str, count: int) -> Value:
        """Room for `count` elements, the same for all who give the same name."""
        line = f"@{name} = internal addrspace({SHARED}) global [{count} x {MEMORY[dtype]}] undef, align 16"
        if line not in self.f.module.globals:
            self.f.module.globals.append(line)
        return Value(f"ptr addrspace({SHARED})", f"@{name}")

    def arrays(self, kind: str, dtypes: Sequence[str], count: int = BLOCK) -> list[tuple[Value, str]]:
        """For each dtype an array of `count` elements, whose users are of one kind."""
        result = []
        for k, dtype in enumerate(dtypes):
            earlier = sum(MEMORY[d] == MEMORY[dtype] for d in dtypes[:k])
            result.append((self.array(f"shared_{kind}_{MEMORY[dtype]}_{earlier}", dtype, count), dtype))
        return result

    def write(self, arrays: Sequence[tuple[Value, str]], place: Value, values: Sequence[Value]) -> None:
        for (array, dtype), value in zip(arrays, values, strict=True):
            at = self.f.gep(MEMORY[dtype], array, place)
            self.f.store(self.low.to_memory(value, dtype), at, ITEMSIZE[dtype])

    def read(self, arrays: Sequence[tuple[Value, str]], place: Value) -> list[Value]:
        result = []
        for array, dtype in arrays:
            at = self.f.gep(MEMORY[dtype], array, place)
            result.append(self.low.from_memory(self.f.load(MEMORY[dtype], at, ITEMSIZE[dtype]), dtype))
        return result

    # --- within a warp ------------------------------
    def from_lane(
        self, states: Sequence[Value], dtypes: Sequence[str], keep: int, put: int = 0, flip: int = 0
    ) -> list[Value]:
        """What the thread ((n & keep) | put) ^ flip of the warp has, for its thread n."""
        if self.shuffles:
            return [self.threads.from_lane(s, keep, put, flip) for s in states]
        # Threads that are a turn ahead write to the other arrays; before they come back to these, all have read them.
        self.turns ^= 1
        arrays = self.arrays(f"lanes{self.turns}", dtypes)
        self.write(arrays, self.thread, states)
        self.threads.barrier()
        number = self.f.binary("and", self.thread, i64(-WARP | keep))
        if put:
            number = self.f.binary("or", number, i64(put))
        return self.read(arrays, self.f.binary("xor", number, i64(flip)) if flip else number)

    def settle(self) -> None:
        """Wait until all have read what `from_lane` left: where a loop's next turn may write to the same arrays."""
        if not self.shuffles:
            self.threads.barrier()

    # --- folds ------------------------------
    def combined(self, together: Together, states: list[Value], width: int) -> list[Value]:
        """The states of a row's `width` neighbouring threads as one, which all of them get."""
        f, low, dtypes = self.f, self.low, together.dtypes
        near = min(width, WARP)
        half = near // 2
        while half:
            states = together.combined(low, states, self.from_lane(states, dtypes, WARP - 1, 0, half))
            half //= 2
        if width <= WARP:  # what the first has: the others have combined in another order
            states = self.from_lane(states, dtypes, WARP - width)
            self.settle()
            return states
        warps, arrays = width // WARP, self.arrays("warps", dtypes, BLOCK // WARP)
        own = f.binary("lshr", self.thread, i64(WARP.bit_length() - 1))
        first = f.op("i1", f"icmp eq {f.binary('and', self.thread, i64(WARP - 1))}, 0")

        def leave() -> list[Value]:
            self.write(arrays, own, states)
            return []

        f.when(first, leave)
        self.threads.barrier()
        begin = f.binary("and", own, i64(-warps))
        some = [self.read(arrays, f.add(begin, i64(k))) for k in range(warps)]
        self.threads.barrier()  # before the next fold, or the next row, writes there
        while len(some) > 1:
            half = len(some) // 2
            some = [together.combined(low, a, b) for a, b in zip(some[:half], some[half:])]
        return some[0]

    def across(self, together: Together, states: list[Value], width: int) -> list[Value]:
        """The same for threads that are BLOCK / width apart, which shared memory joins."""
        f, low, dtypes, apart = self.f, self.low, together.dtypes, BLOCK // width
        lane = f.binary("udiv", self.thread, i64(apart))
        arrays = self.arrays("rows", dtypes)
        self.write(arrays, self.thread, states)
        self.threads.barrier()
        half = width // 2
        while half:

            def meet(states: list[Value] = states, half: int = half) -> list[Value]:
                new = together.combined(low, states, self.read(arrays, f.add(self.thread, i64(half * apart))))
                self.write(arrays, self.thread, new)
                return new

            states = f.when(f.op("i1", f"icmp slt {lane}, {half}"), meet, states)
            self.threads.barrier()
            half //= 2
        states = self.read(arrays, f.binary("sub", self.thread, f.mul(lane, i64(apart))))
        self.threads.barrier()
        return states

    # --- scans ------------------------------
    def prefixes(
        self, together: Together, states: list[Value]
    ) -> tuple[list[Value], list[Value], list[Value]]:
        """The states of all threads of the block before each, those with its own, and those of all: within warps by J. Sklansky,
        Conditional-sum addition logic, 1960.
        """
        f, low, dtypes = self.f, self.low, together.dtypes
        if not self.shuffles:
            return self._by_doubling(together, states)
        before, all_so_far = together.start(low), states
        bit = 1
        while bit < WARP:
            other = self.from_lane(all_so_far, dtypes, (WARP - 1) & -2 * bit, bit - 1)
            upper = f.op("i1", f"icmp ne {f.binary('and', self.thread, i64(bit))}, 0")
            new = [together.combined(low, other, s) for s in (before, all_so_far)]
            before, all_so_far = (
                [low.select(upper, a, b) for a, b in zip(n, old)] for n, old in zip(new, (before, all_so_far))
            )
            bit *= 2
        arrays = self.arrays("warps", dtypes, BLOCK // WARP)
        own = f.binary("lshr", self.thread, i64(WARP.bit_length() - 1))
        last = f.op("i1", f"icmp eq {f.binary('and', self.thread, i64(WARP - 1))}, {WARP - 1}")

        def leave() -> list[Value]:
            self.write(arrays, own, all_so_far)
            return []

        f.when(last, leave)
        self.threads.barrier()
        total, warps_before = together.start(low), together.start(low)
        for k in range(BLOCK // WARP):
            here = f.op("i1", f"icmp eq {own}, {k}")
            warps_before = [low.select(here, t, w) for t, w in zip(total, warps_before)]
            total = together.combined(low, total, self.read(arrays, i64(k)))
        self.threads.barrier()
        before, all_so_far = (together.combined(low, warps_before, s) for s in (before, all_so_far))
        return before, all_so_far, total

    def _by_doubling(
        self, together: Together, states: list[Value]
    ) -> tuple[list[Value], list[Value], list[Value]]:
        """The same in shared memory, which neighbours read side by side (Hillis and Steele, Data parallel algorithms, 1986)."""
        f, low, distance = self.f, self.low, 1
        turns = [self.arrays(f"lanes{k}", together.dtypes) for k in (0, 1)]
        while distance < BLOCK:
            self.turns ^= 1
            self.write(turns[self.turns], self.thread, states)
            self.threads.barrier()

            def later(
                states: list[Value] = states, back: int = distance, turn: int = self.turns
            ) -> list[Value]:
                other = self.read(turns[turn], f.add(self.thread, i64(-back)))
                return together.combined(low, other, states)

            states = f.when(f.op("i1", f"icmp sge {self.thread}, {distance}"), later, states)
            distance *= 2
        self.turns ^= 1
        last = turns[self.turns]
        self.write(last, self.thread, states)
        self.threads.barrier()
        some = f.op("i1", f"icmp sgt {self.thread}, 0")
        before = f.when(some, lambda: self.read(last, f.add(self.thread, i64(-1))), together.start(low))
        total = self.read(last, i64(BLOCK - 1))
        self.threads.barrier()
        return before, states, total
