"""Schedules as data: what each rank computes, sends and receives, in which order, checked before anything runs.

A schedule class makes one list of computations for each rank.  `with_messages` adds the messages that follow from them, `validate` counts,
and `simulate` runs all ranks' lists on a clock, which shows deadlocks and the time that ranks wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from re import compile as _compile
from typing import Any, NamedTuple


class _ComputationType(StrEnum):
    """What an action does."""

    FORWARD = "F"
    BACKWARD_INPUT = "I"  # the gradients of a stage's inputs
    BACKWARD_WEIGHT = "W"  # those of its parameters
    FULL_BACKWARD = "B"  # both
    OVERLAP_F_B = "OVERLAP_F_B"  # a forward and a backward that may run beside each other
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"


F, B = _ComputationType.FORWARD, _ComputationType.FULL_BACKWARD
I, W = _ComputationType.BACKWARD_INPUT, _ComputationType.BACKWARD_WEIGHT  # noqa: E741
OVERLAP = _ComputationType.OVERLAP_F_B
SEND_F, RECV_F = _ComputationType.SEND_F, _ComputationType.RECV_F
SEND_B, RECV_B = _ComputationType.SEND_B, _ComputationType.RECV_B
_WRITTEN = _compile(r"(\d+)(F|I|W|B|SEND_F|RECV_F|SEND_B|RECV_B)(\d+)")
_DURATION = {F: 1, I: 1, W: 1, B: 2}  # of `simulate`: backward takes twice as long as forward


class _Action(NamedTuple):
    """A step of a rank: a stage, what it does, and of which microbatch; "2F0" is the forward of stage 2 for microbatch 0."""

    stage_index: int
    computation_type: _ComputationType
    microbatch_index: int
    sub_actions: tuple[Any, ...] | None = None  # of a pair

    def __str__(self) -> str:
        if self.sub_actions is not None:
            return f"({';'.join(map(str, self.sub_actions))}){self.computation_type}"
        return f"{self.stage_index}{self.computation_type}{self.microbatch_index}"

    def __repr__(self) -> str:
        return str(self)

    @classmethod
    def from_str(cls, text: str) -> Any:
        """The action that a text such as "2F0" stands for, None for an empty one; RuntimeError for another."""
        text = text.strip()
        if not text:
            return None
        if text.startswith("(") and text.endswith(f"){OVERLAP}"):
            inner = text[1 : text.index(")")].split(";")
            return cls(-1, OVERLAP, -1, tuple(a for a in map(cls.from_str, inner) if a is not None))
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise RuntimeError(
                f"Invalid action string: {text}, should be formatted as [stage][action type][(microbatch)] e.g. 2F0"
            )
        return cls(int(match[1]), _ComputationType(match[2]), int(match[3]))


Order = Mapping[int, Sequence[_Action | None]]  # of each rank; None is a step in which it waits
Sources = Mapping[int, Sequence[int]]  # of each stage: the stages whose results it takes


def computations(actions: Sequence[_Action | None]) -> list[_Action]:
    """The single computations of a rank: without steps that wait, pairs taken apart."""
    flat: list[_Action] = []
    for action in actions:
        if action is not None:
            flat += action.sub_actions if action.sub_actions is not None else (action,)
    return flat


def validate(order: Order, ranks: int, stages: int, microbatches: int) -> dict[int, int]:
    """Which rank has which stage; AssertionError that names the action where a computation is missing, comes twice or too early."""
    if sorted(order) != list(range(ranks)):
        raise AssertionError(f"a schedule for {ranks} ranks has lists for ranks {sorted(order)}")
    where: dict[int, int] = {}
    seen: set[_Action] = set()
    for rank in range(ranks):
        for step, action in enumerate(computations(order[rank])):
            place = f"Rank {rank}, step {step}: {action}"
            stage, kind, microbatch = action.stage_index, action.computation_type, action.microbatch_index
            if kind not in _DURATION:
                raise AssertionError(f"{place} is no computation; messages follow from those")
            if not 0 <= stage < stages or not 0 <= microbatch < microbatches:
                raise AssertionError(f"{place} is outside of {stages} stages and {microbatches} microbatches")
            if where.setdefault(stage, rank) != rank:
                raise AssertionError(f"{place}: stage {stage} is on rank {where[stage]}, too")
            rivals = (B, I) if kind in (B, I) else (kind,)
            if any(_Action(stage, other, microbatch) in seen for other in rivals):
                raise AssertionError(f"{place} comes a second time")
            before = {B: F, I: F, W: I}.get(kind)
            if before is not None and _Action(stage, before, microbatch) not in seen:
                raise AssertionError(f"{place} comes without {_Action(stage, before, microbatch)} before it")
            seen.add(action)
    for stage in range(stages):
        for microbatch in range(microbatches):
            if _Action(stage, F, microbatch) not in seen:
                raise AssertionError(f"{_Action(stage, F, microbatch)} is missing")
            last = W if _Action(stage, I, microbatch) in seen else B
            if _Action(stage, last, microbatch) not in seen:
                raise AssertionError(f"{_Action(stage, last, microbatch)} is missing")
    return where


def with_messages(
    order: Order, where: Mapping[int, int], sources: Sources, defer: bool = False
) -> dict[int, list[_Action]]:
    """Add sends and receives between ranks.

    Results are sent as soon as they are there.  A receive stands one computation before the one that reads it, so that the message travels
    while the rank computes.  Two cannot: the first of a stage's inputs, as it waits for their shapes, and gradients of what the computation
    before makes.  With `defer` none does, which takes less memory.
    """
    targets: dict[int, list[int]] = {stage: [] for stage in where}
    for stage, taken in sources.items():
        for source in taken:
            targets[source].append(stage)
    plan: dict[int, list[_Action]] = {}
    for rank, actions in order.items():
        listed: list[_Action] = []
        begin, before = 0, None  # the computation before, and where it stands
        started: set[int] = set()
        for action in computations(actions):
            stage, kind, microbatch = action.stage_index, action.computation_type, action.microbatch_index
            remote_sources = any(where[s] != rank for s in sources[stage])
            remote_targets = any(where[t] != rank for t in targets[stage])
            if kind is F and remote_sources:
                place = begin if stage in started and not defer else len(listed)
                listed.insert(place, _Action(stage, RECV_F, microbatch))
                started.add(stage)
            if kind in (B, I) and remote_targets:
                place = len(listed) if defer or before == _Action(stage, F, microbatch) else begin
                listed.insert(place, _Action(stage, RECV_B, microbatch))
            begin, before = len(listed), action
            listed.append(action)
            if kind is F and remote_targets:
                listed.append(_Action(stage, SEND_F, microbatch))
            if kind in (B, I) and remote_sources:
                listed.append(_Action(stage, SEND_B, microbatch))
        plan[rank] = listed
    return plan


def forward_only(order: Order) -> dict[int, list[_Action]]:
    """The forward computations of an order."""
    return {rank: [a for a in computations(o) if a.computation_type is F] for rank, o in order.items()}


class Timeline(NamedTuple):
    """What `simulate` has seen: when each computation of a rank begins, and when all are done, in times of one forward."""

    begins: dict[int, list[tuple[int, _Action]]]
    length: int
    busy: int  # of all ranks together

    @property
    def bubble(self) -> float:
        """The fraction of the ranks' time in which they wait."""
        total = self.length * len(self.begins)
        return (total - self.busy) / total if total else 0.0


def simulate(order: Order, sources: Sources) -> Timeline:
    """Run all ranks' lists on a clock; RuntimeError that names the actions where ranks would wait for each other for ever.

    A forward, and each half of a backward, takes one unit of time; messages take none.
    """
    stages = len(sources)
    targets = {stage: [t for t in sources if stage in sources[t]] for stage in range(stages)}
    lists = {rank: computations(actions) for rank, actions in order.items()}
    done: dict[_Action, int] = {}  # when
    at, clock = dict.fromkeys(lists, 0), dict.fromkeys(lists, 0)
    begins: dict[int, list[tuple[int, _Action]]] = {rank: [] for rank in lists}

    def needed(action: _Action) -> list[_Action]:
        stage, kind, microbatch = action.stage_index, action.computation_type, action.microbatch_index
        if kind is F:
            return [_Action(source, F, microbatch) for source in sources[stage]]
        if kind is W:
            return [_Action(stage, I, microbatch)]
        required = [_Action(stage, F, microbatch)]
        for target in targets[stage]:
            half = _Action(target, I, microbatch)
            required.append(half if half in halves else _Action(target, B, microbatch))
        return required

    halves = {a for actions in lists.values() for a in actions if a.computation_type is I}
    left = sum(map(len, lists.values()))
    while left:
        moved = 0
        for rank, actions in lists.items():
            while at[rank] < len(actions):
                action = actions[at[rank]]
                needs = needed(action)
                if not all(need in done for need in needs):
                    break
                start = max([clock[rank], *(done[need] for need in needs)])
                begins[rank].append((start, action))
                clock[rank] = done[action] = start + _DURATION[action.computation_type]
                at[rank] += 1
                moved += 1
        left -= moved
        if left and not moved:
            stuck = []
            for rank, actions in lists.items():
                if at[rank] < len(actions):
                    action = actions[at[rank]]
                    missing = next(need for need in needed(action) if need not in done)
                    stuck.append(f"rank {rank} at action {at[rank]}, {action}, waits for {missing}")
            raise RuntimeError(f"the schedule deadlocks: {'; '.join(stuck)}")
    busy = sum(_DURATION[a.computation_type] for actions in lists.values() for a in actions)
    return Timeline(begins, max(clock.values(), default=0), busy)


def format_order(order: Order, sources: Sources) -> str:
    """A table of what each rank (column) computes at which time (row)."""
    timeline = simulate(order, sources)
    rows = [[""] * len(timeline.begins) for _ in range(timeline.length)]
    for column, begun in enumerate(timeline.begins.values()):
        for start, action in begun:
            rows[start][column] = str(action)
    width = max((len(cell) for row in rows for cell in row), default=0)
    width = max(width, len(f"Rank {len(timeline.begins) - 1}"))
    head = " " * 6 + "  ".join(f"{f'Rank {rank}':<{width}}" for rank in timeline.begins)
    lines = [f"{time:>4}: " + "  ".join(f"{cell:<{width}}" for cell in row) for time, row in enumerate(rows)]
    return "\n".join(line.rstrip() for line in [head, *lines])
