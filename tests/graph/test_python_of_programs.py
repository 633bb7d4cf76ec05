"""Python that programs write around tensors, compiled whole: getters, fields of named tuples, dicts that grow, stacks of contexts, and what
is seen of exceptions that are handled.
"""

from __future__ import annotations

import collections
import contextlib
import operator
import random
import sys
import traceback
from typing import Any, NamedTuple

import pytest

import flambeau as torch

Pair = collections.namedtuple("Pair", "a b")


class Scaled(NamedTuple):
    value: Any
    factor: float = 2.0

    def scaled(self):
        return self.value * self.factor


def swapped(p, x):
    return Pair(p.b * 2, p.a)._replace(b=p.a + x)


def nested_fields(p, x):
    return p.a.value + p.b[0], p.a.scaled(), p._asdict()["a"].factor, len(p), p.a[1]


def getters(d, x):
    first, both = operator.itemgetter("u"), operator.itemgetter("u", "v")
    ranked = sorted({"p": 2, "q": 1}.items(), key=operator.itemgetter(1))
    rows = max([(1, "a"), (3, "b")], key=operator.itemgetter(0))
    return first(d) + x, sum(both(d)), ranked, rows, operator.itemgetter(slice(1, 2))(x)


def methods(d, x):
    total = operator.methodcaller("sum", 0, keepdim=True)(x)
    return total, operator.methodcaller("exp")(d["u"]), operator.attrgetter("shape", "mT.shape")(x[None])


PICK, CALL = operator.itemgetter("v", "u"), operator.methodcaller("mul", 3.0)


def getters_from_outside(d, x):
    return CALL(PICK(d)[0]) + x


def grows(d, x):
    d["w"] = d["u"] + x
    d["u"] = x
    return {k: v * 2 for k, v in d.items()}, list(d), len(d), sum(d.values())


def grows_from_nothing(d, x):
    d["n"] = {}
    d["n"]["x"] = x
    return [*d["n"].items()], {**d}.keys() == d.keys()


def stacked(d, x):
    seen = []
    with contextlib.ExitStack() as stack:
        stack.callback(seen.append, "left")
        stack.enter_context(torch.no_grad())
        stack.enter_context(contextlib.suppress(KeyError))
        y = d["u"] * x
        raise KeyError("k")
    return y, seen, sys.exc_info()


@pytest.mark.parametrize(
    "function, make",
    [
        (swapped, lambda k: Pair(torch.ones(2) * k, torch.arange(2.0))),
        (nested_fields, lambda k: Pair(Scaled(torch.ones(2) * k, 3.0), [torch.ones(2)])),
        *(
            (f, lambda k: {"u": torch.ones(2) * k, "v": torch.arange(2.0)})
            for f in (getters, methods, getters_from_outside, grows, grows_from_nothing, stacked)
        ),
    ],
)
def test_is_compiled_whole(function, make):
    compiled = torch.compile(function, fullgraph=True)
    x = torch.tensor([3.0, 4.0])
    for k in range(1, 5):
        given, other = make(k), make(k)
        found, wanted = compiled(given, x), function(other, x)
        assert str(found) == str(wanted)
        assert str(given) == str(other)
    assert len(compiled.entries) == 1 and compiled.entries[0].hits == 3


def test_fields_and_keys_are_guarded():
    tuples = torch.compile(lambda p: p.b * p.a.factor, fullgraph=True)
    for factor in (2.0, 5.0, 7.0):
        for x in (torch.ones(2), torch.ones(3)):
            assert torch.equal(tuples(Pair(Scaled(None, factor), x)), x * factor)

    def grown(d):
        d["z"] = d["a"] * 2
        return list(d), sum(d.values())

    dicts = torch.compile(grown, fullgraph=True)
    for names in ("a", "ab", "za", "a", "az", "ba"):
        given = {name: torch.ones(2) for name in names}
        assert str(dicts(dict(given))) == str(grown(given))


# --- exceptions that are handled -----------------------------------------------------------------------------------------
def fails(x):
    with contextlib.suppress(KeyError):
        return int("z")


def formatted(x):
    try:
        fails(x)
    except ValueError as error:
        return traceback.format_exc(), sys.exc_info()[1] is error
    return None


def raised_again(x):
    try:
        try:
            fails(x)
        except TypeError:
            return None
        finally:
            x = x + 1
    except ValueError:
        raise


def caught_outside(x):
    try:
        raised_again(x)
    except ValueError:
        return traceback.format_exc()


def chained(x):
    try:
        try:
            raised_again(x)
        except ValueError as error:
            raise TypeError("of another class") from error
    except TypeError as error:
        return traceback.format_exc(), repr(error.__cause__)


def in_context(x):
    try:
        try:
            {}["k"]
        except KeyError:
            int("q")
    except ValueError as error:
        return repr(error.__context__), "".join(traceback.format_exception(error)), sys.exc_info()[0]


def without_marks(text):
    """Without the lines that point at parts of lines."""
    return "\n".join(line for line in text.split("\n") if set(line) - set(" ^~"))


@pytest.mark.parametrize("function", [formatted, caught_outside, chained, in_context])
@pytest.mark.parametrize("refused", [False, True])
def test_what_is_handled_is_seen_as_cpython_shows_it(function, refused):
    def call(x):
        if refused:  # from here on calls run by themselves
            random.random()
        return function(x), sys.exc_info()

    found, wanted = torch.compile(call)(torch.ones(1)), call(torch.ones(1))
    assert without_marks(str(found).replace("\\n", "\n")) == without_marks(str(wanted).replace("\\n", "\n"))


def test_the_exception_of_whoever_calls_is_seen():
    compiled = torch.compile(lambda x: repr(sys.exc_info()[1]))
    try:
        raise LookupError("outside")
    except LookupError:
        assert [compiled(torch.ones(1)) for _ in range(3)] == ["LookupError('outside')"] * 3
    assert compiled(torch.ones(1)) == "None"
