"""Traced values that belong to one trace: what a body returns is made of what it was given, then and there.

A body is called with leaves of its own in place of the expressions that its values stand for.  A leaf of another trace in what it
returns is known by its owner; its own are replaced by the expressions again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..codegen import expr as ex
from ..codegen.expr import Expr


class _Owner:
    """One trace of a function."""

    def __init__(self, where: str):
        self.where = where


class Trace:
    """The values that one call of a traced function is given."""

    def __init__(self, where: str):
        self.owner = _Owner(where)
        self.stands_for: dict[int, Expr] = {}
        self.leaves: list[Expr] = []  # with their ids

    def leaf_of(self, value: Any) -> Any:
        """A leaf for an expression, for each of several; what is none as it is."""
        if type(value) is tuple:
            return tuple(map(self.leaf_of, value))
        if not isinstance(value, Expr) or value.op == "const":
            return value
        leaf = ex.make("given", (), value.dtype, (self.owner, len(self.leaves)))
        self.leaves.append(leaf)
        self.stands_for[id(leaf)] = value
        return leaf

    def resolve(self, value: Any) -> Any:
        """What a leaf of this trace stands for; anything else as it is."""
        return self.stands_for.get(id(value), value)

    def returned(self, roots: Sequence[Expr]) -> list[Expr]:
        """The roots in terms of what the leaves stand for; TypeError where there are leaves of another trace."""
        new: dict[int, Expr] = {}
        for e in ex.walk(roots):
            if e.op == "given":
                new[id(e)] = self.own(e)
                continue
            args = tuple(new[id(a)] for a in e.args)
            value = self.rule(e.value) if hasattr(e.value, "combine") else e.value
            same = value is e.value and all(a is b for a, b in zip(args, e.args))
            if same:
                new[id(e)] = e
            elif value is e.value:
                new[id(e)] = ex.remade(e, args)
            else:
                new[id(e)] = ex.make(e.op, args, e.dtype, value)
        return [new[id(r)] for r in roots]

    def own(self, leaf: Expr) -> Expr:
        owner, _ = leaf.value
        if owner is self.owner:
            return self.stands_for[id(leaf)]
        which = "an earlier call of it" if owner.where == self.owner.where else owner.where
        raise TypeError(
            f"{self.owner.where} uses a traced value of {which}: a traced value means something only while its own function is "
            "traced; make it an operand"
        )

    def rule(self, rule: Any) -> Any:
        """The rule of a fold or of a loop, whose parts are expressions, too."""
        init, combine = self.returned(rule.init), self.returned(rule.combine)
        if all(a is b for a, b in zip((*init, *combine), (*rule.init, *rule.combine))):
            return rule
        return rule._replace(init=tuple(init), combine=tuple(combine))
