"""What must hold of sizes where an operation does not take all of them: equal sizes, multiples, bounds, or one size alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from .environment import LEAST, Symbols
from .expressions import Expr, symbol

Works = Callable[[Mapping[str, int]], bool]
_CHECKS = ("least", "large", "drawn", "drawn", "drawn", "drawn")


def explain(symbols: Symbols, sizes: Sequence[Expr], works: Works, why: str) -> None:
    """Learn what must hold so that `works` does; `sizes` are those of the operands.  It works for the example's."""
    names = sorted(
        set().union(*(e.symbols() for e in sizes)) & set(symbols.free()), key=list(symbols.symbols).index
    )
    for name in reversed(names):
        if name in symbols.replaced or _holds(symbols, works, [name]):
            continue
        learned = next(
            (f for f in _facts(symbols, name, sizes, works, why) if _check(symbols, f, works, name)), None
        )
        if learned is None and (learned := _all_equal(symbols, name, names, works, why)) is None:
            learned = _fixed(name, symbols, why)
        learned(symbols)
    rest = [n for n in names if n not in symbols.replaced]
    if not _holds(symbols, works, rest):
        for name in rest:
            _fixed(name, symbols, why)(symbols)


Fact = Callable[[Symbols], object]


def _fixed(name: str, symbols: Symbols, why: str) -> Fact:
    hint = symbols.symbols[name].hint
    return lambda s: s.learn(symbol(name) - hint, "eq", why)


def _all_equal(symbols: Symbols, name: str, names: Sequence[str], works: Works, why: str) -> Fact | None:
    """That several symbols with the example's size of this one are equal, as few as it takes; None where that is not enough."""
    hint = symbols.symbols[name].hint
    others = [n for n in names if n != name and symbols.symbols[n].hint == hint and n not in symbols.replaced]

    def fact(equal: Sequence[str]) -> Fact:
        return lambda s: [s.learn(symbol(n) - symbol(name), "eq", why) for n in equal]

    def holds(equal: Sequence[str]) -> bool:
        trial = symbols.copy()
        fact(equal)(trial)
        return _holds(trial, works, [n for n in (name, *others) if n not in trial.replaced])

    if len(others) < 2 or not holds(others):
        return None
    equal = list(others)
    for n in others:
        if holds([e for e in equal if e != n]):
            equal.remove(n)
    return fact(equal)


def _holds(symbols: Symbols, works: Works, varied: Sequence[str]) -> bool:
    rng = random.Random(1)
    for kind in _CHECKS:
        sizes = symbols.sample(kind, rng, varied)
        if sizes is not None and not works(sizes):
            return False
    return True


def _check(symbols: Symbols, fact: Fact, works: Works, name: str) -> bool:
    """Whether it works for all sizes with a fact, this symbol varying and those that the fact ties it to."""
    trial = symbols.copy()
    if fact(trial) is False:
        return False
    varied = {name} | (trial.replaced[name][0].symbols() if name in trial.replaced else set())
    varied |= {n for n, (by, _) in trial.replaced.items() if name in by.symbols()}
    varied &= set(trial.free())
    return bool(varied) and _holds(trial, works, sorted(varied))


def _fact(e: Expr, relation: str, why: str) -> Fact:
    return lambda s: s.learn(e, relation, why)


def _facts(symbols: Symbols, name: str, sizes: Sequence[Expr], works: Works, why: str) -> Iterator[Fact]:
    hints = symbols.hints()
    own = [e for e in dict.fromkeys(sizes) if name in e.symbols()]
    others = [e for e in dict.fromkeys(sizes) if e.symbols() and name not in e.symbols()]
    for e in own:
        for other in others:
            if e.value(hints) == other.value(hints):
                yield _fact(e - other, "eq", why)
    for e, other in [(a, b) for a in own for b in own if a is not b]:
        if e.value(hints) == other.value(hints):
            yield _fact(e - other, "eq", why)
    low, high = _ends(symbols, name, works)
    if low is not None:
        yield _fact(symbol(name) - low, "ge", why)
    if high is not None:
        yield _fact(symbol(name) - high, "le", why)
    for e in own:
        hint = e.value(hints)
        for k in (k for k in range(2, min(hint, 4096) + 1) if hint % k == 0):
            yield _fact(e % k, "eq", why)
    if low is not None and high is not None:
        yield lambda s: (s.learn(symbol(name) - low, "ge", why), s.learn(symbol(name) - high, "le", why))


def _ends(symbols: Symbols, name: str, works: Works) -> tuple[int | None, int | None]:
    """The least and the largest size of a symbol alone that works, where those of its range do not."""
    hints = symbols.hints()
    low, high = symbols.ranges[name]

    def alone(n: int) -> bool:
        return works(symbols.complete({**hints, name: n}))

    hint = symbols.symbols[name].hint
    least, most = int(max(low, LEAST)), int(min(high, max(4 * hint, 1 << 14)))
    return (
        None if least >= hint or alone(least) else _last(alone, hint, least),
        None if most <= hint or alone(most) else _last(alone, hint, most),
    )


def _last(works: Callable[[int], bool], good: int, bad: int) -> int:
    """The size farthest from `good` that works, towards `bad`, which does not."""
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if works(middle) else (good, middle)
    return good
