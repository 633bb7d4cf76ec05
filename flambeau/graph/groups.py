"""Which calls one kernel computes: those whose loops agree, and that nothing else has to run between.

A call joins the groups that make its arguments where their loops are over the same shape and rows along the same dimensions; what has
one element a row (a mean, and what follows from it) lives in the same kernel.  Groups that meet in a call become one.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable

from .expressions import Loop, element_of, loop_of
from .program import Call, Program, Value
from .record import Place

TURNED_FROM = 4096  # elements from which a copy in another order is a step of its own


class Group:
    """Calls that run together; `loop` is None for one call that no generated kernel computes.  One that is `alone` stays as it is."""

    def __init__(self, loop: Loop | None) -> None:
        self.loop, self.calls = loop, list[Call]()
        self.alone = False
        self.before = set[Group]()  # all groups that must have run
        self.made = set[Value]()

    @property
    def name(self) -> str:
        return "_".join(dict.fromkeys(c.name for c in self.calls))[:60]

    def fits(self, loop: Loop) -> bool:
        """Whether loops are this group's, or over one element for each of its rows."""
        assert self.loop is not None
        shape, dims, device = self.loop
        if loop.device is not device:
            return False
        if dims is not None and loop.dims is not None and dims != loop.dims:
            return False
        if loop.shape == shape:
            return True
        return loop.dims is None and dims is not None and loop.shape == per_row(shape, dims)

    def reads(self, value: Value, loop: Loop) -> bool:
        """Whether a call with these loops finds, where it stands, the element of a value that is made here."""
        assert self.loop is not None
        if value not in self.made:  # a view of what is made
            return False
        dims = self.loop.dims or loop.dims or frozenset()
        shape = self.loop.shape
        if value.shape == shape:
            return loop.shape == shape
        return value.shape == per_row(shape, dims) or (value.shape == () and len(dims) == len(shape))

    def __repr__(self) -> str:
        return f"Group({self.name}: {self.loop})"


def per_row(shape: tuple[int, ...], dims: frozenset[int]) -> tuple[int, ...]:
    """The shape of what has one element a row."""
    return tuple(1 if d - len(shape) in dims else n for d, n in enumerate(shape))


def groups_of(program: Program, fused: bool = True, apart: Container[Call] = ()) -> list[Group]:
    """The groups of a program's calls, in an order in which they may run; each call alone where `fused` is false, and those in `apart`."""
    groups: list[Group] = []
    home: dict[Call, Group] = {}
    for call in program.calls:
        loop = loop_of(call)
        needed = {home[c] for c in call.after}
        alone = turns(call) or call in apart
        joins = fused and loop is not None and not alone
        group = _joined(program, call, loop, groups, home, needed) if joins else None  # type: ignore[arg-type]
        if group is None:
            group = Group(loop)
            group.alone = alone
            groups.append(group)
        elif loop is not None and loop.dims is not None and group.loop is not None:
            group.loop = group.loop._replace(dims=loop.dims)
        home[call] = group
        group.calls.append(call)
        group.made.update(call.results)
        wait(groups, group, {home[c] for c in call.after} - {group})
    return in_order(groups)


def turns(call: Call) -> bool:
    """Whether a call of the host copies what lies in another order: by tiles, which only short kernels have, where others would read
    element by element.
    """
    source = element_of(call)
    if not isinstance(source, Value) or source.device is not None or source.shape != call.results[0].shape:
        return False
    inner = [d for d, s in enumerate(call.results[0].strides) if s == 1]
    if not inner or math.prod(source.shape) < TURNED_FROM:
        return False
    return source.strides[inner[-1]] > 1 and 1 in source.strides


def _joined(
    program: Program,
    call: Call,
    loop: Loop,
    groups: list[Group],
    home: dict[Call, Group],
    needed: set[Group],
) -> Group | None:
    """The group that a call becomes part of, with all others that it joins merged into that."""
    result: Group | None = None
    for group in sorted(needed, key=groups.index):
        if group.loop is None or group.alone or group not in needed or not group.fits(loop):
            continue
        if not _may_meet(group.calls, [call]):
            continue
        of_group = [v for v in call.values() if v.call is not None and home[v.call] in (group, result)]
        fits = all(group.reads(v, loop) for v in of_group if home[v.call] is group)  # type: ignore[index]
        if not fits or not all(program.is_current(v, call) for v in of_group):
            continue
        if any(group in other.before for other in needed if other is not result):
            continue
        if not _one_place([*group.calls, *(result.calls if result is not None else ()), call]):
            continue
        if result is None:
            result = group
        elif _can_merge(result, group, groups):
            _merge(result, group, groups, home)
            needed = {result if g is group else g for g in needed}
    if result is not None and any(result in other.before for other in needed):
        return None
    return result


def _can_merge(a: Group, b: Group, groups: Iterable[Group]) -> bool:
    assert a.loop is not None and b.loop is not None
    if (a.loop.shape, a.loop.device) != (b.loop.shape, b.loop.device) or (
        a.loop.dims != b.loop.dims and None not in (a.loop.dims, b.loop.dims)
    ):
        return False
    if not _may_meet(a.calls, b.calls):
        return False
    if a in b.before or b in a.before:  # what one reads of the other would come from memory
        return False
    return not any(g is not a and g is not b and (a in g.before and g in b.before) for g in groups)


def _may_meet(a: Iterable[Call], b: Iterable[Call]) -> bool:
    """Whether a kernel may have both.

    What backward computes again, computed with forward, would be kept for backward after all.  Rows that are computed again are computed
    alone: a kernel with other rows would hold the operands and results of both at once, and might fold in another order than forward.
    """
    return not any(
        any(c.again for c in one)
        and any(not c.backward for c in other)
        or any(c.again and _has_rows(c) for c in one)
        and any(_has_rows(c) for c in other)
        for one, other in ((a, b), (b, a))
    )


def _has_rows(call: Call) -> bool:
    loop = loop_of(call)
    return loop is not None and loop.dims is not None


def _one_place(calls: Iterable[Call]) -> bool:
    """Whether what these calls write to is read and written in one loop: at one place, and read after a write as what that made.

    Rows are walked over more than once, and results may hold what is needed again: they write to new memory alone.
    """
    calls = sorted(calls, key=lambda c: c.number)
    written = {r for c in calls for r in c.written}
    if not written:
        return True
    places: dict[Value, Place] = {}
    latest: dict[Value, Value] = {}
    for c in calls:
        loop = loop_of(c)
        if loop is None or loop.dims is not None:
            return False
        for v in c.values():
            if v.root in written and (
                places.setdefault(v.root, v.place) != v.place or latest.get(v.root, v) is not v
            ):
                return False
        for v in c.results:
            if v.root in written:
                if places.setdefault(v.root, v.place) != v.place:
                    return False
                latest[v.root] = v
    return True


def _merge(group: Group, other: Group, groups: list[Group], home: dict[Call, Group]) -> None:
    assert group.loop is not None and other.loop is not None
    group.calls = sorted(group.calls + other.calls, key=lambda c: c.number)
    group.loop = group.loop._replace(dims=group.loop.dims if group.loop.dims is not None else other.loop.dims)
    group.made |= other.made
    groups.remove(other)
    for call in other.calls:
        home[call] = group
    for g in groups:
        if other in g.before:
            g.before.discard(other)
            g.before.add(group)
    wait(groups, group, other.before)


def wait(groups: Iterable[Group], group: Group, needed: set[Group]) -> None:
    """Enter that a group runs after others, and whatever runs after the group."""
    added = set(needed)
    for g in needed:
        added |= g.before
    for g in groups:
        if g is group or group in g.before:
            g.before |= added
    group.before.discard(group)


def in_order(groups: list[Group]) -> list[Group]:
    """The groups, each after those that it waits for; otherwise in the order of the program."""
    done: set[Group] = set()
    result: list[Group] = []
    left = sorted(groups, key=lambda g: g.calls[0].number)
    while left:
        ready = next((g for g in left if g.before <= done), None)
        if ready is None:
            raise RuntimeError(f"groups wait for each other: {left}")
        result.append(ready)
        done.add(ready)
        left.remove(ready)
    return result
