"""The symbols of one recording: what each stands for, what is known of them, and sample sizes that agree with it.

A recording does not know how an operation's shapes follow from those of its operands.  So every symbol has several sample sizes at once
(*worlds*): that of the example, the least, large ones, and ones drawn at random.  An operation runs in each, on tensors without data;
what it gives there tells the expression, and where it fails, what must hold.  A new fact makes all samples anew (`Again`).
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .expressions import Call, Expr, Number, number, symbol
from .numbers import SymBool, SymFloat, SymInt, SymNumber

LEAST = 2  # sizes of 0 and 1 behave otherwise (broadcasting, contiguity), and are programs of their own
LARGE = 2000
_TRIES = 400


class Again(BaseException):
    """Something new is known of the symbols: record once more."""


class Symbol(NamedTuple):
    """A size that may vary, or a number that is not known before a program runs (`unbacked`)."""

    name: str
    hint: int
    source: str  # where it is found: "L['x'].size()[0]"
    low: int
    high: Number
    label: str | None = None  # the name of the user's `Dim`
    strict: bool = False  # the user demands that it varies
    unbacked: bool = False


class Guard(NamedTuple):
    """What must hold of sizes: `relation` of an expression and 0; and where the program wants it."""

    expr: Expr
    relation: str  # eq, ne, lt, le, gt, ge of the operator module
    why: str

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it holds for sizes; not where it has no value."""
        try:
            return bool(getattr(operator, self.relation)(self.expr.value(sizes), 0))
        except ZeroDivisionError:
            return False

    def __str__(self) -> str:
        sign = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}[self.relation]
        positive = Expr({p: c for p, c in self.expr.terms if c > 0 and p})
        rest = positive - self.expr
        return f"{positive} {sign} {rest}" if positive.terms else f"{self.expr} {sign} 0"


class Known(NamedTuple):
    """What stands behind a `SymInt`: its expression (None for what is none), its values in the worlds, and its node in the graph."""

    expr: Expr | None
    values: tuple[Any, ...]
    node: Any

    def __str__(self) -> str:
        return "?" if self.expr is None else str(self.expr)


class Symbols:
    """The symbols, and all that is known of them; `is_jit` and the methods of a recorder serve numbers that outlive theirs."""

    is_jit = False

    def __init__(self) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.replaced: dict[str, tuple[Expr, str]] = {}  # equal to an expression of others, and why
        self.ranges: dict[str, tuple[Number, Number]] = {}
        self.guards: list[Guard] = []
        self.reasons: dict[str, list[str]] = {}  # why a range is narrower than declared
        self.drawn: dict[
            str, tuple[Number, Number]
        ] = {}  # of numbers out of tensors, as the recording before learned them
        self.worlds: list[dict[str, int]] = []

    # --- symbols ---
    def add(self, result: Symbol) -> Expr:
        """Enter a symbol."""
        self.symbols[result.name] = result
        low = result.low if result.unbacked else max(result.low, LEAST)
        self.ranges[result.name] = (low, result.high)
        return symbol(result.name)

    def add_unbacked(self, result: Symbol) -> Expr:
        """Enter a number that is not known before the program runs."""
        self.symbols[result.name] = result
        self.ranges[result.name] = (result.low, result.high)
        return symbol(result.name)

    def begin(self) -> None:
        """Forget the numbers that come up in a recording, but for the ranges that samples of them are drawn from: another one begins."""
        for name in [n for n, s in self.symbols.items() if s.unbacked]:
            del self.symbols[name]
            self.replaced.pop(name, None)
            self.drawn[name] = self.ranges.pop(name)
        self.guards = [g for g in self.guards if g.expr.symbols() <= self.symbols.keys()]

    def free(self) -> list[str]:
        """Those that are no expressions of others."""
        return [name for name in self.symbols if name not in self.replaced]

    def settled(self, e: Expr) -> Expr:
        """The expression in free symbols."""
        return e.replaced({name: by for name, (by, _) in self.replaced.items()})

    def hints(self) -> dict[str, int]:
        """The sizes of the example."""
        return {name: s.hint for name, s in self.symbols.items()}

    def complete(self, sizes: dict[str, int]) -> dict[str, int]:
        """Sizes of free symbols with those that follow."""
        return {**sizes, **{name: by.value(sizes) for name, (by, _) in self.replaced.items()}}

    # --- facts ---
    def learn_equal(self, name: str, by: Expr, why: str) -> None:
        """A symbol is an expression of others from here on."""
        by = self.settled(by)
        self.replaced = {n: (e.replaced({name: by}), w) for n, (e, w) in self.replaced.items()}
        self.replaced[name] = by, why
        self.guards = [g._replace(expr=g.expr.replaced({name: by})) for g in self.guards]
        low, high = self.ranges[name]
        for end, relation in ((low, "ge"), (high, "le")):
            if not math.isinf(end):
                self.learn(by - int(end), relation, why)

    def learn(self, e: Expr, relation: str, why: str) -> bool:
        """`relation` of an expression and 0 holds from here on; whether that was news."""
        e = self.settled(e)
        if self.known(e, relation) is True:
            return False
        if relation == "eq" and (bound := _of_extreme(e)) is not None:
            return self.learn(*bound, why)
        if relation == "eq" and (result := self._solved(e)) is not None:
            self.learn_equal(*result, why)
            return True
        if relation in ("lt", "le", "gt", "ge") and self._narrow(e, relation, why):
            return True
        guard = Guard(e, relation, why)
        if guard.expr in [g.expr for g in self.guards if g.relation == relation]:
            return False
        self.guards.append(guard)
        return True

    def _solved(self, e: Expr) -> tuple[str, Expr] | None:
        """A symbol for which e = 0 can be solved, and its value; the latest, unless only an earlier one is not demanded to vary."""
        for name in sorted(e.symbols(), key=list(self.symbols).index, reverse=True):
            c = e.linear_in(name)
            if c is None:
                continue
            rest = e - symbol(name) * c
            if all(d % c == 0 for _, d in rest.terms):
                return name, Expr({p: -d // c for p, d in rest.terms})
        return None

    def _narrow(self, e: Expr, relation: str, why: str) -> bool:
        names = e.symbols()
        if len(names) != 1:
            return False
        (name,) = names
        c = e.linear_in(name)
        offset = (e - symbol(name) * c).constant() if c is not None else None
        if c is None or offset is None:
            return False
        if relation in ("lt", "gt"):  # whole numbers
            offset += 1 if relation == "lt" else -1
            relation = {"lt": "le", "gt": "ge"}[relation]
        if c < 0:
            c, offset, relation = -c, -offset, {"le": "ge", "ge": "le"}[relation]
        low, high = self.ranges[name]
        if relation == "ge":
            low = max(low, -(offset // c))
        else:
            high = min(high, -offset // c)
        self.ranges[name] = low, high
        self.reasons.setdefault(name, []).append(why)
        if low == high:
            self.learn_equal(name, number(int(low)), why)
        return True

    def known(self, e: Expr, relation: str) -> bool | None:
        """Whether it holds for all sizes, or for none; None where that is not known."""
        e = self.settled(e)
        low, high = e.bounds(self.ranges)
        if relation in ("eq", "ne"):
            if low == high == 0 or e.constant() == 0:
                return relation == "eq"
            if low > 0 or high < 0 or self._is_unequal(e):
                return relation == "ne"
            return None
        always = {"lt": high < 0, "le": high <= 0, "gt": low > 0, "ge": low >= 0}[relation]
        never = {"lt": low >= 0, "le": low > 0, "gt": high <= 0, "ge": high < 0}[relation]
        if always or never:
            return always
        for g in self.guards:
            if g.relation == relation and g.expr == e:
                return True
        return None

    def _is_unequal(self, e: Expr) -> bool:
        return any(g.relation == "ne" and g.expr in (e, -e) for g in self.guards)

    # --- samples ---
    def sample(
        self, kind: str, rng: random.Random, varied: Iterable[str] | None = None
    ) -> dict[str, int] | None:
        """Sizes that agree with all that is known; the others keep the example's where only some are `varied`."""
        chosen = set(self.free() if varied is None else varied)
        hints = self.hints()
        for attempt in range(_TRIES):
            sizes = {}
            for name in self.free():
                low, high = self.ranges[name]
                low = max(low, LEAST) if not self.symbols[name].unbacked or low >= 0 else LEAST
                if name not in chosen:
                    sizes[name] = hints[name]
                elif kind == "least" and attempt < 20:
                    sizes[name] = int(min(low + attempt, high))
                elif kind == "large":
                    sizes[name] = int(min(max(low, LARGE) + rng.randrange(1 + LARGE // 4), high))
                else:
                    sizes[name] = rng.randint(int(low), int(min(low + 60, high)))
            sizes = self.complete(sizes)
            if all(g.holds(sizes) for g in self.guards):
                return sizes
        return None

    def sample_worlds(self, seed: int) -> None:
        """Sample sizes anew; without symbols the worlds differ by what calls draw that depend on elements."""
        rng = random.Random(seed)
        self.worlds = [self.hints()]
        if not self.free():
            self.worlds += [self.hints(), self.hints()]
            return
        for kind in ("least", "drawn", "drawn", "drawn", "large"):
            result = self.sample(kind, rng)
            if result is not None and result not in self.worlds:
                self.worlds.append(result)

    def copy(self) -> Symbols:
        """One that may learn more by itself."""
        made = Symbols()
        made.symbols, made.replaced, made.ranges = dict(self.symbols), dict(self.replaced), dict(self.ranges)
        made.guards = list(self.guards)
        made.reasons = {name: list(why) for name, why in self.reasons.items()}
        return made

    # --- numbers that no recorder stands behind any more ---
    def number(self, e: Expr) -> Any:
        """An expression as an int or a `SymInt`."""
        e = self.settled(e)
        c = e.constant()
        if c is not None:
            return c
        try:
            hint = e.value(self.hints())
        except (KeyError, ZeroDivisionError):
            hint = 0
        return SymInt(self, Known(e, (hint,), None), hint)

    def computed(self, called: str, function: Callable[..., Any], *operands: Any) -> Any:
        """A number that is computed of such."""
        value = function(*(x.value if isinstance(x, SymNumber) else x for x in operands))
        result = expression_of(called, operands)
        if result is not None:
            return self.number(result)
        if isinstance(value, bool):
            return value
        kind = SymInt if isinstance(value, int) else SymFloat
        return kind(self, Known(None, (value,), None), value)

    def compared(self, called: str, function: Callable[..., Any], a: Any, b: Any) -> Any:
        """The outcome of a comparison of such; that of the example, where it is not known."""
        x, y = as_expr(a), as_expr(b)
        if x is not None and y is not None and (result := self.known(x - y, called)) is not None:
            return result
        return bool(function(*(n.value if isinstance(n, SymNumber) else n for n in (a, b))))

    def decided(self, outcome: SymBool) -> bool:
        """That of the example."""
        return bool(outcome.value)

    def demanded(self, outcome: SymBool, message: str | None) -> None:
        """RuntimeError where it does not hold for the example."""
        if not outcome.value:
            raise RuntimeError(message or "Expected cond to be True, but got False.")

    def require_equal(self, number: SymNumber) -> None:
        """A number that nobody records may be taken as that of the example."""

    def shown(self, number: SymNumber) -> str:
        """The expression."""
        return str(number.name)


def _of_extreme(e: Expr) -> tuple[Expr, str] | None:
    """What x = min(x, y) says, or x = max(x, y): y - x is not negative, or not positive."""
    for product, _ in e.terms:
        if len(product) == 1 and isinstance(product[0], Call) and product[0].kind in ("min", "max"):
            atom = Expr({product: 1})
            for x, y in (product[0].args, product[0].args[::-1]):
                if e in (x - atom, atom - x):
                    return y - x, "ge" if product[0].kind == "min" else "le"
    return None


def as_expr(x: Any) -> Expr | None:
    """A number as an expression; None where it is none."""
    if isinstance(x, SymNumber):
        return x.name.expr if isinstance(x.name, Known) else None
    return number(x) if type(x) is int else None


_ARITHMETIC = ("add", "sub", "mul", "floordiv", "mod")


def expression_of(called: str, operands: tuple[Any, ...]) -> Expr | None:
    """What is computed of numbers, as an expression; None where it is none."""
    given = [as_expr(x) for x in operands]
    if any(e is None for e in given):
        return None
    if called == "neg":
        return -given[0]  # type: ignore[operator]
    if called in ("sym_max", "sym_min"):
        from .expressions import call

        return call(called[4:], *given)  # type: ignore[arg-type]
    return getattr(operator, called)(*given) if called in _ARITHMETIC else None
