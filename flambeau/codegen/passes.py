"""What the schedules of row kernels share: folds, or prefixes, that one walk over the row computes side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from . import expr as ex
from .expr import Expr
from .irtext import Value
from .kernels import FoldRule
from .lower import Lowering


class Together:
    """Folds, or prefixes; each of `groups` holds those that are states of one.  All states are in one list."""

    def __init__(self, groups: Sequence[Sequence[Expr]]):
        self.groups = groups
        self.rules: list[FoldRule] = [members[0].value for members in groups]
        self.elements = [x for members in groups for x in members[0].args]
        self.dtypes = [v.dtype for rule in self.rules for v in rule.init]

    def start(self, low: Lowering) -> list[Value]:
        """The states of nothing."""
        return [low.constant(v.value, v.dtype) for rule in self.rules for v in rule.init]

    def parts(self, states: Sequence[Value]) -> Iterator[tuple[FoldRule, list[Value]]]:
        """Each rule with its own states."""
        position = 0
        for rule in self.rules:
            yield rule, list(states[position : position + len(rule.init)])
            position += len(rule.init)

    def combined(self, low: Lowering, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """The states of two parts of the row as those of both."""
        pairs = zip(self.parts(left), self.parts(right))
        return [v for (rule, a), (_, b) in pairs for v in combined(low, rule, a, b)]

    def values(self, states: Sequence[Value]) -> dict[Expr, Value]:
        """What each fold, or prefix, is."""
        return {
            e: own[e.value.which]
            for members, (_, own) in zip(self.groups, self.parts(states))
            for e in members
        }


def combined(low: Lowering, rule: FoldRule, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    """The states of one fold combined."""
    leaves: dict[Expr, Value] = {}
    for root in rule.combine:
        for e in ex.walk([root]):
            if e.op == "state":
                leaves[e] = (list(left) + list(right))[e.value]
    return low.values(list(rule.combine), leaves)


def rounds(rule: FoldRule) -> bool:
    """Whether combining loses digits: then the order of the terms decides how many."""
    return any(e.op in ("add", "sub") and ex.is_float(e.dtype) for e in ex.walk(rule.combine))
