"""Attention forward in float16 and bfloat16 by warpgroups: softmax(score(Q Kᵀ)) V with `wgmma`, for sm_90a.

Two warpgroups of a block take 64 queries of one head each, and go over the keys, KEYS at a time (Shah et al., FlashAttention-3, 2024).
Maxima, weights, masks and results are those of `schedule_gpu_attention_mma.py`: the sums of a wgmma lie in a warp as those of mma.sync.

    scores = Q Kᵀ          both operands in shared memory, a line a row
    sums += weights · V    weights in registers, as they came from the scores; V in shared memory, its columns side by side

**Shared memory** holds the keys and values of BUFFERS turns.  In turn n the sums of n - 1 may still be on their way, which read buffer
n - 1, those of n - 2 are there, and the copies of turn n + 1 go where these were: one barrier a turn, and the tensor core goes from the
sums of one turn to the scores of the next without a pause.  While a warpgroup computes its weights, the other one's products run.
"""

from __future__ import annotations

from collections.abc import Callable

from .irtext import Module, Value, i64
from .schedule_gpu_attention_halves import IN_LINE
from .schedule_gpu_attention_mma import TensorCoreAttention, Writer
from .schedule_gpu_copies import LINE, PATTERN, Operand
from .schedule_gpu_mma import DEEP, WIDE
from .schedule_gpu_wgmma import GROUP_BYTES, UNIT, Warpgroups

BUFFERS = 3


class WarpgroupAttention(TensorCoreAttention):
    """As `TensorCoreAttention`; `columns` is a multiple of 64, so that V's lines are whole."""

    __slots__ = ()
    instruction = "wgmma"
    warps = 8  # two warpgroups
    keys = 128
    high = 1

    @property
    def buffer(self) -> int:
        """Bytes of the keys and values of a turn."""
        return LINE * self.keys * sum(self.segments)

    @property
    def shared(self) -> int:
        return LINE * self.queries * self.segments[0] + BUFFERS * self.buffer + PATTERN

    def text(self) -> str:
        return "by warpgroups: " + super().text()

    def module(self, target: str) -> Module:
        return _Writer(self).module


class _Writer(Warpgroups, Writer):
    kernel: WarpgroupAttention
    ahead = WarpgroupAttention.keys, WarpgroupAttention.keys
    buffer: Value  # how many bytes after the first one the buffer begins that is copied to
    read: Value  # the same of the one that is read, in units of descriptors

    # --- memory ---
    def place_operands(self, row: Value) -> None:
        f, self.buffer = self.f, i64(0)
        begin, group = f.op("i64", f"ptrtoint {self.memory} to i64"), self.group_number()
        self.q_at = self.described(f.add(begin, self.times(group, GROUP_BYTES)), PATTERN)
        self.k_at = self.described(f.add(begin, i64(self.k_place)), PATTERN)
        self.v_at = self.described(f.add(begin, i64(self.v_place)), LINE * self.keys)

    def place_lines_anew(self) -> None:
        super().place_lines_anew()
        self.target = self.bytes(self.target, self.buffer)

    def copy_first(self, keys: Operand, values: Operand) -> None:
        self.copy(keys, "width")
        self.copy(values, "columns")

    def places_of_copies(self) -> list[Value]:
        return [i64(0)]

    def arrived(self) -> None:
        self.all_copied()
        self.visible()
        self.threads.barrier()

    # --- a turn ---
    def turn(
        self, first: Value, state: list[Value], bounded: bool, copy: Callable[[int], Value]
    ) -> tuple[list[Value], list[Value]]:
        """Some keys more, from the buffer that begins at `state[0]`."""
        f, here = self.f, state[0]
        tops_and_totals, sums = state[1:5], state[5:]
        self.arrived()
        following = f.add(here, i64(self.kernel.buffer))
        last = self.test("eq", following, i64(BUFFERS * self.kernel.buffer))
        self.buffer = self.low.select(last, i64(0), following)
        self.target = self.bytes(self.target, self.buffer)
        sources = [copy(0), copy(1)]
        self.read = f.binary("lshr", here, i64(UNIT.bit_length() - 1))
        scores = self.issue_scores()
        both = self.waited_for([*scores, *sums])  # the sums of the turn before are there before the scores
        tiles, sums = [both[n : n + 4] for n in range(0, len(scores), 4)], both[len(scores) :]
        return sources, [self.buffer, *self.step(first, [tiles], [*tops_and_totals, *sums], bounded)]

    def waited_for(self, sums: list[Value]) -> list[Value]:
        """The sums when they are there."""
        return self.in_place("wgmma.wait_group.sync.aligned 0;", sums)

    def settled(self, state: list[Value]) -> list[Value]:
        return [*state[:5], *self.waited_for(state[5:])]

    # --- products ---
    def issue_scores(self) -> list[Value]:
        """Q Kᵀ: the sums of a thread, which are not there yet."""
        f, count = self.f, self.keys // 2
        long = self.kernel.queries * LINE, self.keys * LINE  # a segment of Q, and of K
        lines = [".reg .pred p;", ".reg .b64 a, b;", "wgmma.fence.sync.aligned;"]
        for step in range(self.steps):
            segment, part = divmod(step, IN_LINE)
            for n in range(2):
                further = segment * long[n] + part * 2 * DEEP
                lines.append(f"add.s64 {'ab'[n]}, ${count + n}, {further // UNIT};")
            if step < 2:  # the first one begins with zeros
                lines.append(f"setp.ne.b32 p, {step}, 0;")
            lines.append(f"{self.instruction_of(self.keys)} {self.registers(count)}, a, b, p, 1, 1, 0, 0;")
        lines.append("wgmma.commit_group.sync.aligned;")
        kind = "{ " + ", ".join(["float"] * count) + " }"
        constraints = ",".join(["=f"] * count + ["l", "l", "~{memory}"])
        text, operands = "{ " + " ".join(lines) + " }", f"{self.q_at}, {f.add(self.k_at, self.read)}"
        scores = f.op(kind, f'call {kind} asm sideeffect "{text}", "{constraints}"({operands})')
        return [f.op("float", f"extractvalue {scores}, {n}") for n in range(count)]

    def add_values(self, weights: list[list[Value]], sums: list[Value]) -> list[Value]:
        """The sums with those of some keys more, which are not there yet."""
        count, steps = len(sums), self.keys // DEEP
        left = [value for step in range(steps) for value in self.fragment(weights, 0, step)]
        lines = [".reg .pred p;", ".reg .b64 b;", "setp.ne.b32 p, 1, 0;", "wgmma.fence.sync.aligned;"]
        for step in range(steps):
            four = ", ".join(f"${2 * count + 4 * step + n}" for n in range(4))
            lines.append(f"add.s64 b, ${2 * count + len(left)}, {step * DEEP * LINE // UNIT};")
            name = self.instruction_of(WIDE * self.across)
            lines.append(f"{name} {self.registers(count)}, {{{four}}}, b, p, 1, 1, 1;")
        lines.append("wgmma.commit_group.sync.aligned;")
        return self.in_place("{ " + " ".join(lines) + " }", sums, *left, self.f.add(self.v_at, self.read))
