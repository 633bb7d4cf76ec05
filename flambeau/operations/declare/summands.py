"""A gradient of more operands than a kernel takes, as a sum of expressions of fewer."""

from __future__ import annotations

from ...codegen import expr as ex
from ...codegen.expr import Expr

KINDS = ("grad", "operand", "out")  # the leaves of a gradient, by the numbers that `Derivation` gives them


def leaves_of(exprs: list[Expr]) -> list[Expr]:
    return [e for e in ex.walk(exprs) if e.op in KINDS]


def place_of(leaf: Expr) -> tuple[int, object]:
    return KINDS.index(leaf.op), leaf.value


class _Counts(dict[int, tuple[Expr, frozenset[Expr]]]):
    """The leaves of expressions, each with the expression, whose number they are found by."""

    def leaves(self, e: Expr) -> frozenset[Expr]:
        waiting = [e]
        while waiting:
            last = waiting[-1]
            new = [a for a in last.args if id(a) not in self]
            if new and id(last) not in self:
                waiting.extend(new)
                continue
            waiting.pop()
            own = (last,) if last.op in KINDS else ()
            self[id(last)] = last, frozenset(own).union(*(self[id(a)][1] for a in last.args))
        return self[id(e)][1]


def summands(e: Expr, most: int) -> list[Expr]:
    """Expressions that add up to this one, of no more than `most` leaves where sums and products allow that."""
    return _summands(e, most, _Counts())


def _summands(e: Expr, most: int, counts: _Counts) -> list[Expr]:
    if len(counts.leaves(e)) <= most:
        return [e]
    result: list[Expr] = []
    for part in _halves(e) or ():
        for term in _summands(part, most, counts):
            if result and len(counts.leaves(result[-1]) | counts.leaves(term)) <= most:
                result[-1] = ex.add(result[-1], term)
            else:
                result.append(term)
    return result or [e]


def _halves(e: Expr) -> list[Expr] | None:
    """Expressions that add up to this one, none where it is no sum and no product of sums."""
    if e.op == "add":
        return list(e.args)
    if e.op == "sub":
        return [e.args[0], ex.neg(e.args[1])]
    if e.op == "fma":
        return [ex.mul(*e.args[:2]), e.args[2]]
    if e.op == "select":
        condition, a, b = e.args
        zero = ex.const(0.0, e.dtype)
        if a is not zero and b is not zero:
            return [ex.where(condition, a, zero), ex.where(condition, zero, b)]
        halves = _halves(a if b is zero else b)
        return halves and [
            ex.where(condition, h, zero) if b is zero else ex.where(condition, zero, h) for h in halves
        ]
    if e.op == "pair":
        a, b = e.args
        zero = ex.const(0.0, a.dtype)
        if a is not zero and b is not zero:
            return [ex.pair(a, zero), ex.pair(zero, b)]
        halves = _halves(a if b is zero else b)
        return halves and [ex.pair(h, zero) if b is zero else ex.pair(zero, h) for h in halves]
    if e.op in ("neg", "real", "imag", "mul", "div"):
        for k, a in enumerate(e.args[:1] if e.op == "div" else e.args):
            halves = _halves(a)
            if halves:
                return [ex.remade(e, (*e.args[:k], h, *e.args[k + 1 :])) for h in halves]
    return None
