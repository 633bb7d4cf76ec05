"""The order of computations of each schedule: pure functions of the numbers of ranks, stages and microbatches."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count

from ._actions import OVERLAP, B, F, I, W, _Action, _ComputationType

Orders = dict[int, list[_Action]]


def _all(stage: int, kind: _ComputationType, microbatches: Sequence[int]) -> list[_Action]:
    return [_Action(stage, kind, m) for m in microbatches]


def gpipe(ranks: int, microbatches: int) -> Orders:
    """All forwards, then all backwards (Huang et al. 2019, "GPipe", section 2.3)."""
    every = range(microbatches)
    return {rank: _all(rank, F, every) + _all(rank, B, every) for rank in range(ranks)}


def one_forward_one_backward(ranks: int, microbatches: int) -> Orders:
    """As many forwards as there are stages from here on, then a backward for each forward (Narayanan et al. 2019, "PipeDream").

    A stage holds the activations of no more microbatches than there are stages.
    """
    every = range(microbatches)
    return {
        rank: _alternated(_all(rank, F, every), _all(rank, B, every), min(microbatches, ranks - rank - 1))
        for rank in range(ranks)
    }


def _alternated(forwards: list[_Action], backwards: list[_Action], ahead: int) -> list[_Action]:
    """`ahead` forwards first, then one of each, then the backwards that are left."""
    order = forwards[:ahead]
    for forward, backward in zip(forwards[ahead:], backwards):
        order += forward, backward
    return order + backwards[len(forwards) - ahead :]


def looped_bfs(ranks: int, local: int, microbatches: int) -> Orders:
    """All microbatches through a stage, then through the rank's next one (Lamy-Poirier 2022, "Breadth-First Pipeline Parallelism")."""
    order: Orders = {}
    for rank in range(ranks):
        stages = range(rank, ranks * local, ranks)
        forwards = [a for stage in stages for a in _all(stage, F, range(microbatches))]
        backwards = [a for stage in stages for a in _all(stage, B, range(microbatches))]
        order[rank] = forwards + backwards[::-1]
    return order


def _rounds(
    rank: int, ranks: int, local: int, microbatches: int, size: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Stages and microbatches of a rank's forwards and backwards: `size` microbatches go through all its stages, then the next."""
    visits = [
        (stage, m)
        for begin in range(0, microbatches, size)
        for stage in range(local)
        for m in range(begin, begin + size)
    ]
    forwards = [(stage * ranks + rank, m) for stage, m in visits]
    backwards = [((local - 1 - stage) * ranks + rank, m) for stage, m in visits]
    return forwards, backwards


def interleaved(ranks: int, local: int, microbatches: int, size: int) -> Orders:
    """1F1B over several stages of a rank, in rounds of `size` microbatches (Narayanan et al. 2021, section 2.2)."""
    order: Orders = {}
    for rank in range(ranks):
        forwards, backwards = _rounds(rank, ranks, local, microbatches, size)
        ahead = min((local - 1) * size + 2 * (ranks - 1 - rank), len(forwards))
        order[rank] = _alternated(
            [_Action(s, F, m) for s, m in forwards], [_Action(s, B, m) for s, m in backwards], ahead
        )
    return order


def zero_bubble(ranks: int, local: int, microbatches: int, size: int) -> Orders:
    """The same with halves of backward: rank r does its weight halves r microbatches late (Qi et al. 2023, "Zero Bubble", ZB-H1)."""
    order: Orders = {}
    for rank in range(ranks):
        forwards, backwards = _rounds(rank, ranks, local, microbatches, size)
        ahead = min((local - 1) * size + (ranks - 1 - rank), len(forwards))
        actions = [_Action(s, F, m) for s, m in forwards[:ahead]]
        for k, (stage, m) in enumerate(backwards):
            if ahead + k < len(forwards):
                actions.append(_Action(forwards[ahead + k][0], F, forwards[ahead + k][1]))
            actions.append(_Action(stage, I, m))
            if k >= rank:
                actions.append(_Action(backwards[k - rank][0], W, backwards[k - rank][1]))
        actions += [_Action(s, W, m) for s, m in backwards[max(len(backwards) - rank, 0) :]]
        order[rank] = actions
    return order


class _Counted:
    """A rank's list that numbers the microbatches of each stage and kind as they come; whole backwards count with input halves."""

    def __init__(self) -> None:
        self.actions: list[_Action] = []
        self._next: dict[tuple[int, _ComputationType], count] = {}
        self._late: deque[_Action] = deque()  # input halves whose weight halves are still to come

    def take(self, stage: int, kind: _ComputationType) -> _Action:
        counted = I if kind is B else kind
        return _Action(stage, kind, next(self._next.setdefault((stage, counted), count())))

    def add(self, stage: int, *kinds: _ComputationType) -> None:
        self.actions += [self.take(stage, kind) for kind in kinds]

    def add_late(self, stage: int, kind: _ComputationType) -> None:
        """Add a backward; if it is an input half, its weight half waits for `add_weight`."""
        self.add(stage, kind)
        if kind is I:
            self._late.append(self.actions[-1])

    def add_weight(self) -> None:
        """Add the weight half that has waited longest, if there is one."""
        if self._late:
            self.actions.append(self._late.popleft()._replace(computation_type=W))

    def add_pair(self, forward: int, backward: int) -> None:
        """Add a forward of one stage and a backward of another that may run beside each other."""
        self.actions.append(_Action(-1, OVERLAP, -1, (self.take(forward, F), self.take(backward, B))))


def zbv(ranks: int, microbatches: int) -> Orders:
    """Two stages a rank, down and back up like a V, with halves of backward (Qi et al. 2023, section 6).

    The list is made for the 2 * ranks - 1 microbatches that fill the pipeline, if there are fewer; those that are too many are left out.
    """
    full = max(2 * ranks - 1, microbatches)
    order: Orders = {}
    for rank in range(ranks):
        down, up, made = rank, 2 * ranks - 1 - rank, _Counted()
        for _ in range(2 * (ranks - rank) - 1):
            made.add(down, F)
        for _ in range(rank):
            made.add(up, F)
            made.add(down, F)
        for _ in range(ranks - rank):
            made.add(up, F, I, W)
        first = 2 * ranks - 1 - rank  # forwards of the stage on the way down
        for k in range(full - ranks):
            if first + k < full:
                made.add(down, F)
            made.add(down, I, W)
            made.add(up, F, I, W)
        # What follows is the cool-down: input halves first, as others wait for them.
        for _ in range(rank):
            made.add(down, I)
            made.add(up, I)
        for _ in range(ranks - rank):
            made.add(down, I, W)
        for _ in range(rank):
            made.add(up, W)
        for _ in range(rank):
            made.add(down, W)
        order[rank] = [a for a in made.actions if a.microbatch_index < microbatches]
    return order


def dual_pipe_v(ranks: int, microbatches: int) -> Orders:
    """Two stages a rank like a V, where forwards of one run beside backwards of the other (DeepSeek-AI 2024, "DeepSeek-V3", section 3.2.1;
    its V form is that of the DualPipe repository).
    """
    order: Orders = {}
    for rank in range(ranks):
        down, up, made = rank, 2 * ranks - 1 - rank, _Counted()
        below = ranks - rank - 1  # ranks under this one in the V
        for _ in range(2 * below):
            made.add(down, F)
        for _ in range(rank + 1):
            made.add(down, F)
            made.add(up, F)
        for _ in range(below):
            made.add_late(up, I)
            made.add_weight()
            made.add(up, F)
        for k in range(microbatches - 2 * ranks + rank + 1):  # the main part
            if k == 0 and below == 0:  # nothing to run beside at the turn of the V
                made.add(down, F)
                made.add(up, B)
            else:
                made.add_pair(down, up)
            made.add_pair(up, down)
        for _ in range(below):
            made.add(up, B)
            made.add_pair(up, down)
        # The cool-down: from its middle on input halves only, as others wait for them.
        halves = [k >= rank + 1 for k in range(2 * (rank + 1))]
        if rank % 2 == 0:
            halves = [k > rank for k in range(2 * (rank + 1))]
        for k, half in enumerate(halves):
            made.add_late(up if k % 2 == 0 else down, I if half else B)
        for _ in range(below):
            made.add_weight()
            made.add_late(down, I)
        for _ in range(rank + 1):
            made.add_weight()
        order[rank] = made.actions
    return order
