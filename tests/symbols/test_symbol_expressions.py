"""Expressions of sizes against Python's own arithmetic on drawn numbers, and what is learned of symbols."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from flambeau._symbols.environment import Symbol, Symbols
from flambeau._symbols.expressions import call, number, parsed, symbol
from flambeau._symbols.fitting import fitted
from flambeau._symbols.solving import explain

NAMES = ("s0", "s1", "s2")


def drawn(rng, depth):
    """A random expression, and the function of sizes that it stands for."""
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.3:
            n = rng.randint(-4, 9)
            return number(n), lambda sizes: n
        name = rng.choice(NAMES)
        return symbol(name), lambda sizes: sizes[name]
    (a, f), (b, g) = drawn(rng, depth - 1), drawn(rng, depth - 1)
    kind = rng.choice(("+", "-", "*", "//", "%", "min", "max"))
    if kind in ("//", "%"):
        k = rng.randint(1, 6)
        b, g = number(k), lambda sizes: k
    made = {
        "+": lambda: (a + b, lambda s: f(s) + g(s)),
        "-": lambda: (a - b, lambda s: f(s) - g(s)),
        "*": lambda: (a * b, lambda s: f(s) * g(s)),
        "//": lambda: (a // b, lambda s: f(s) // g(s)),
        "%": lambda: (a % b, lambda s: f(s) % g(s)),
        "min": lambda: (call("min", a, b), lambda s: min(f(s), g(s))),
        "max": lambda: (call("max", a, b), lambda s: max(f(s), g(s))),
    }
    return made[kind]()


@pytest.mark.parametrize("seed", range(40))
def test_an_expression_has_the_value_of_what_it_was_made_of(seed):
    rng = random.Random(seed)
    for _ in range(20):
        e, f = drawn(rng, 3)
        again = parsed(str(e))
        ranges = {name: (0, 30) for name in NAMES}
        low, high = e.bounds(ranges)
        for _ in range(12):
            sizes = {name: rng.randint(0, 30) for name in NAMES}
            assert e.value(sizes) == f(sizes) == again.value(sizes), str(e)
            assert low <= e.value(sizes) <= high, str(e)
        by = {"s0": symbol("s1") * 2 + 1}
        sizes = {"s1": 4, "s2": 7}
        assert e.replaced(by).value(sizes) == f({"s0": 9, **sizes})


@pytest.mark.parametrize(
    "text, shown",
    [
        ("s1*3 + 1", "3*s1 + 1"),
        ("s1 - (s1 + 1)//2", "s1 - (((s1 + 1)//2))"),
        ("(s1 - 1)//2 + 1", "(((s1 - 1)//2)) + 1"),
        ("(4*s1) % 12", "4*((s1 % 3))"),
        ("(4*s0*s1)//s1", "4*s0"),
        ("s0 - s0", "0"),
        ("Min(s0, 5)", "Min(5, s0)"),
    ],
)
def test_how_expressions_are_written(text, shown):
    assert str(parsed(text)) == shown


@pytest.mark.parametrize(
    "text", ["", "s0 +", "f(s0)", "s0 if s1 else 2", "s0 / s1", "import os", "s0.real", "1.5"]
)
def test_what_is_no_expression(text):
    with pytest.raises(ValueError, match="no expression"):
        parsed(text)


def known(*hints):
    symbols = Symbols()
    for k, hint in enumerate(hints):
        symbols.add(Symbol(f"s{k}", hint, f"x.size()[{k}]", 0, math.inf))
    return symbols


@pytest.mark.parametrize(
    "function",
    [
        lambda s: s["s0"],
        lambda s: 3 * s["s0"] - 2,
        lambda s: s["s0"] * s["s1"],
        lambda s: 4 * s["s0"] * s["s1"] + 1,
        lambda s: s["s0"] + s["s1"],
        lambda s: s["s0"] - s["s1"],
        lambda s: (s["s0"] + 2 * 1 - 3) // 2 + 1,
        lambda s: (s["s0"] + 2) // 7,
        lambda s: (3 * s["s0"]) // 2,
        lambda s: min(s["s0"], 64),
        lambda s: max(s["s0"], s["s1"]),
        lambda s: 11,
    ],
)
def test_a_size_is_found_from_samples(function):
    """The expression that is found holds for sizes that were no samples."""
    symbols = known(10, 9)
    symbols.sample_worlds(0)
    rng = random.Random(5)

    def more():
        for _ in range(60):
            sizes = symbols.sample("drawn", rng)
            yield sizes, function(sizes)

    values = tuple(function(w) for w in symbols.worlds)
    e = fitted(values, symbols.worlds, [symbol("s0"), symbol("s1")], more)
    assert e is not None
    for a, b in itertools.product(range(2, 90, 7), range(2, 40, 5)):
        assert e.value({"s0": a, "s1": b}) == function({"s0": a, "s1": b}), str(e)


def test_a_size_that_no_expression_gives_is_not_invented():
    symbols = known(10)
    symbols.sample_worlds(0)
    values = tuple(w["s0"] ** 3 % 101 for w in symbols.worlds)
    assert fitted(values, symbols.worlds, [symbol("s0")], lambda: iter(())) is None


@pytest.mark.parametrize(
    "hints, works, holds",
    [
        ((6, 6), lambda s: s["s0"] == s["s1"], ["s1 == s0"]),
        ((6, 6, 6), lambda s: s["s0"] == s["s1"] == s["s2"], ["s1 == s0", "s2 == s0"]),
        ((8,), lambda s: s["s0"] % 4 == 0, ["s0 % 4 == 0"]),
        ((8,), lambda s: s["s0"] >= 5, ["s0 >= 5"]),
        ((8,), lambda s: s["s0"] <= 64, ["s0 <= 64"]),
        ((8,), lambda s: 5 <= s["s0"] <= 64, ["s0 >= 5", "s0 <= 64"]),
        ((8,), lambda s: s["s0"] == 8, ["s0 == 8"]),
        ((8, 4), lambda s: s["s0"] == 8, ["s0 == 8"]),
    ],
)
def test_what_must_hold_is_learned(hints, works, holds):
    symbols = known(*hints)
    explain(symbols, [symbol(f"s{k}") for k in range(len(hints))], works, "test")
    rng = random.Random(3)
    found = set()
    for kind in ("least", "large", *["drawn"] * 60):
        sizes = symbols.sample(kind, rng)
        assert sizes is not None and works(sizes)
        found.add(tuple(sorted(sizes.items())))
    for text in holds:
        assert all(eval(text, {}, dict(sizes)) for sizes in found), text
    free = [n for n in NAMES[: len(hints)] if not any(t.startswith(f"{n} ==") for t in holds)]
    assert len(found) > 3 or not free  # what may vary does


def test_facts_decide_comparisons():
    symbols = known(6, 6)
    s, t = symbol("s0"), symbol("s1")
    assert symbols.known(s - 1, "ge") is True and symbols.known(s, "eq") is False
    assert symbols.known(s - 9, "lt") is None
    assert symbols.learn(s - 9, "lt", "because") and symbols.known(s - 9, "lt") is True
    assert symbols.known(s - t, "eq") is None
    symbols.learn(s - t, "eq", "because")
    assert symbols.known(s - t, "eq") is True and symbols.free() == ["s0"] and symbols.ranges["s0"] == (2, 8)
    symbols.learn(2 * s - 12, "eq", "because")
    assert not symbols.free() and symbols.complete({}) == {"s0": 6, "s1": 6}
