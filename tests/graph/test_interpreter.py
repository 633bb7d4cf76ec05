"""The interpreter of bytecode beside CPython: results, exceptions, side effects, what is read and what is refused.

Assertions stand as they are written, for the interpreter runs some of them: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import inspect
import itertools
import math
import operator
import re
import types

import pytest
from flambeau.graph.guards import Guards

from flambeau.graph.interpreter import Machine
from flambeau.graph.sources import (
    Arguments,
    Attribute,
    ClassIs,
    Computed,
    Equals,
    Is,
    Item,
    Keys,
    Lacks,
    Length,
    Namespace,
    Object,
    Same,
)

GLOBAL = [1, 2, {"a": (3, 4)}]
NUMBER = 7
events = []


class Point:
    kind = "point"
    __match_args__ = ("x", "y")

    def __init__(self, x, y=2):
        self.x, self.y = x, y

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y) if isinstance(other, Point) else NotImplemented

    def __radd__(self, other):
        return Point(self.x + other, self.y + other)

    def __eq__(self, other):
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    def __hash__(self):
        return hash((self.x, self.y))

    def __lt__(self, other):
        return self.x < other.x

    def __bool__(self):
        return self.x != 0

    def __len__(self):
        return 2

    def __getitem__(self, k):
        return (self.x, self.y)[k]

    def __iter__(self):
        yield self.x
        yield self.y

    def __contains__(self, value):
        return value in (self.x, self.y)

    def __call__(self, *args, **kwargs):
        return (self.x, args, kwargs)

    def __repr__(self):
        return f"Point({self.x}, {self.y})"

    @property
    def norm(self):
        return math.hypot(self.x, self.y)

    @norm.setter
    def norm(self, value):
        self.x = value

    @classmethod
    def of(cls, x):
        return cls(x)

    @staticmethod
    def double(x):
        return 2 * x

    def __getattr__(self, name):
        if name.startswith("no"):
            raise AttributeError(name)
        return name


class Deep(Point):
    def __init__(self, x):
        super().__init__(x, 5)
        self.z = super().double(1)

    @classmethod
    def of(cls, x):
        return super().of(x)


class Slots:
    __slots__ = ("a",)

    def __init__(self):
        self.a = 3


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Data:
    a: int
    b: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int = 4


Pair = collections.namedtuple("Pair", "first second")


@contextlib.contextmanager
def managed(log, swallow=False):
    log.append("in")
    try:
        yield len(log)
    except ValueError as error:
        log.append(str(error))
        if not swallow:
            raise
    finally:
        log.append("out")


class Manager:
    def __init__(self, swallow=False):
        self.swallow, self.log = swallow, []

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append((kind, str(value)))
        return self.swallow


# --- functions that are run in both ways --------------------------------------------------------------------------------
def arithmetic(a=7, b=3):
    return (
        a + b,
        a - b,
        a * b,
        a / b,
        a // b,
        a % b,
        a**b,
        a << b,
        a >> b,
        a & b,
        a | b,
        a ^ b,
        -a,
        +a,
        ~a,
        not a,
    )


def in_place(a=7):
    x = [a]
    x += [1]
    x *= 2
    a -= 1
    a **= 2
    s = "a"
    s += "b"
    return x, a, s


def comparisons(a=1, b=2.0):
    return (
        a < b,
        a <= b,
        a == b,
        a != b,
        a > b,
        a >= b,
        a is b,
        a is not b,
        0 < a < 2,
        a in (1, 2),
        a not in [3],
    )


def logic(a=0, b=5):
    return (a or b, a and b, b if a else a, not (a and b), a or (b and "x"))


def loops(n=5):
    found = []
    for k in range(n):
        if k == 1:
            continue
        if k == 4:
            break
        found.append(k)
    else:
        found.append("else")
    while n:
        n -= 1
        if n == 2:
            break
    else:
        found.append("never")
    for a, (b, *c) in [(1, (2, 3, 4)), (5, (6,))]:
        found.append((a, b, c))
    return found, n


def containers():
    a = [1, *range(3), 2]
    b = {"k": 1, **{"l": 2}}
    c = {1, *a}
    t = (*a, 1)
    a[1:3] = [9]
    del a[0]
    b["m"] = a[-1]
    del b["k"]
    x, *y, z = a
    return a, b, c, t, a[::-1], t[1:2], x, y, z, (lambda *a, **k: (a, k))(*a, **b)


def comprehensions(n=4):
    m = 3
    return (
        [k * m for k in range(n) if k % 2],
        {k: [j for j in range(k)] for k in range(n)},
        {k % 2 for k in range(n)},
        list(k + m for k in range(n)),
        sum(j for i in range(3) for j in range(i)),
        [[k for k in range(j)] for j in range(2)],
    )


def closures():
    count = 0

    def step(by=1, *, times=2):
        nonlocal count
        count += by * times
        return count

    def outer(x):
        return lambda y: (x, y, count)

    step()
    step(2, times=3)
    return count, outer(1)(2), [f() for f in [lambda k=k: k for k in range(3)]]


def arguments():
    def f(a, b=2, /, c=3, *args, d, e=5, **rest):
        return a, b, c, args, d, e, rest

    return f(1, d=4), f(1, 2, 3, 4, 5, d=1, z=2), f(*[1, 2], **{"d": 3, "c": 4}), f(1, d=1, a=7)


def bad_arguments():
    def f(a, *, b):
        return a

    found = []
    for call in (
        lambda: f(),
        lambda: f(1),
        lambda: f(1, 2, b=3),
        lambda: f(1, b=2, c=3),
        lambda: f(1, a=2, b=3),
    ):
        try:
            call()
        except TypeError as error:
            found.append(str(error))
    return found


def strings(a=3.14159, b="x"):
    return (
        f"{a:.2f} {b!r:>5} {a!s} {b}{{}}",
        "%s %d" % (b, 4),  # noqa: UP031
        f"{1}-{b}",
        "a,b".split(","),
        "-".join(["a", b]),
        b * 3,
    )


def exceptions():
    log = []

    def inner(kind):
        try:
            if kind == 1:
                raise ValueError("one")
            if kind == 2:
                {}["k"]
            if kind == 3:
                return "early"
            log.append("fine")
        except ValueError as error:
            log.append(str(error))
            raise RuntimeError("two") from error
        except (KeyError, IndexError) as error:
            log.append(repr(error))
        else:
            log.append("else")
        finally:
            log.append("finally")
        return kind

    for k in range(4):
        try:
            log.append(inner(k))
        except RuntimeError as error:
            log.append((str(error), repr(error.__cause__), error.__suppress_context__))
    try:
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            raise
    except ArithmeticError as error:
        log.append(str(error))
    try:
        try:
            raise KeyError("a")
        finally:
            log.append([].pop)
            del log[-1]
            raise IndexError("b")
    except IndexError as error:
        log.append(repr(error.__context__))
    try:
        assert not log, "message"
    except AssertionError as error:
        log.append(str(error))
    return log


def nested_returns():
    def f():
        for k in range(3):
            try:
                if k == 1:
                    return k
            finally:
                events_of.append(k)

    events_of = []
    return f(), events_of


def names_after_except():
    try:
        raise ValueError
    except ValueError as error:
        del error
    try:
        return error  # noqa: F821
    except UnboundLocalError as found:
        return str(found)


def withs():
    log = []
    with managed(log) as n, managed(log) as k:
        log.append((n, k))
    with managed(log, swallow=True):
        raise ValueError("inside")
    try:
        with managed(log):
            raise ValueError("through")
    except ValueError:
        log.append("caught")
    m = Manager(swallow=True)
    with m as same:
        raise KeyError("a")
    with contextlib.suppress(KeyError):
        {}["a"]
    with contextlib.nullcontext(3) as three:
        pass
    return log, m.log, same is m, three


def generators():
    def count(n):
        got = []
        for k in range(n):
            got.append((yield k))
        return got

    def delegate():
        result = yield from count(2)
        yield result
        yield from [7, 8]

    g = delegate()
    first = [next(g), g.send("a"), g.send("b"), next(g), next(g), next(g, "end")]

    def guarded():
        try:
            while True:
                try:
                    yield 1
                except ValueError as error:
                    yield str(error)
        finally:
            log.append("closed")

    log = []
    h = guarded()
    second = [next(h), h.throw(ValueError("x")), next(h)]
    h.close()

    def outer():
        yield from guarded()

    i = outer()
    third = [next(i), i.throw(ValueError("y"))]
    i.close()
    try:
        list(k for k in [1] if next(iter([])))
    except RuntimeError as error:
        third.append(str(error))
    return (
        first,
        second,
        third,
        log,
        isinstance(g, types.GeneratorType),
        g.__name__,
        any(x > 1 for x in (1, 2, 3)),
    )


def objects():
    p = Point(1) + Point(2, 3)
    q = 5 + p
    d = Deep(4)
    d.norm = 6
    d.extra = 1
    del d.extra
    s = Slots()
    s.a += 1
    return (
        p, q, p == Point(3, 5), p != q, p < q, bool(Point(0)), len(p), p[1], list(p), 3 in p, p(1, k=2), p.norm, Point.of(3),
        Point.double(4), p.anything, hasattr(p, "nope"), getattr(p, "nope", 3), d, d.z, d.kind, Deep.of(1), s.a, [*p],
        max(p, q), p in [Point(3, 5)], str(p), f"{p}", isinstance(d, Point), type(d).__name__, callable(p),
    )  # fmt: skip


def classes_of_the_library():
    a = Data(1)
    a.b.append(2)
    o = collections.OrderedDict(a=1)
    o["b"] = 2
    d = collections.defaultdict(list)
    d["x"].append(1)
    p = Pair(1, second=2)
    return (
        a,
        a == Data(1, [2]),
        Frozen(),
        Frozen(5) == Frozen(5),
        p.first,
        p._replace(first=3),
        o,
        d,
        collections.deque([1], 3),
        Colour.RED,
        Colour(2),
        Colour["RED"].value,
        [c.name for c in Colour],
    )


def frozen():
    try:
        Frozen().a = 3
    except dataclasses.FrozenInstanceError as error:
        return str(error)


def functions_of_the_library():
    return (
        list(map(lambda a, b: a + b, [1, 2], [3, 4])),
        list(filter(None, [0, 1, 2])),
        sorted([3, 1, 2], key=lambda x: -x),
        sorted("bca", reverse=True),
        max([1, 5, 2], key=lambda x: -x),
        min((4, "a"), (3, "b")),
        functools.reduce(lambda a, b: a * b, [1, 2, 3], 2),
        functools.partial(lambda a, b: (a, b), 1)(b=2),
        list(zip("ab", [1, 2])),
        list(enumerate("ab", 1)),
        list(reversed([1, 2])),
        list(itertools.chain([1], (2,))),
        math.prod([2, 3]),
        operator.add(4, 5),
        dict(a=1, b=2),
        dict([("a", 1)]),
        {**dict.fromkeys("ab", 0)},
        isinstance(3, (int, str)),
        all(x for x in [1, 0]),
        divmod(7, 3),
        round(2.567, 1),
        abs(-3),
        list(iter([1, 2])),
        int is int,
        int("3"),
        tuple(x for x in "ab"),
        set("a"),
        "".join(str(x) for x in range(3)),
    )


def local_names(a=1):
    b = 2

    def inner():
        return b

    return sorted(locals()), inner()


def matches():
    def f(x):
        match x:
            case 1 | 2:
                return "small"
            case [a, b, *rest] if a:
                return a, b, rest
            case {"k": v, **more}:
                return v, more
            case Point(x=0):
                return "zero"
            case Point(a, b):
                return a, b
            case str(s):
                return s
            case None:
                return "none"
            case _:
                return "other"

    return [f(x) for x in (1, [1, 2, 3], [0, 1], {"k": 1, "l": 2}, Point(0), Point(3, 4), "abc", None, 2.5)]


def imports():
    import json.decoder
    import os.path as path
    from math import floor

    return path.join("a", "b"), floor(2.5), json.decoder.__name__


def walrus_and_ternaries(n=3):
    return [y := n, y**2, (z := y + 1) if y else 0, z]


def lambdas_and_defaults(a=1, *, k=[]):  # noqa: B006
    return (lambda x, y=a: x + y)(2), k


def recursion(n=6):
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return fib(n)


def error_context():
    def inner():
        raise ValueError("inner")

    try:
        try:
            inner()
        except ValueError:
            raise KeyError("outer")  # noqa: B904
    except KeyError as error:
        return repr(error.__context__), error.__cause__


@functools.lru_cache
def cached(n):
    return n + NUMBER


def uses_cached():
    return cached(3)


QUEUE = collections.deque([1])
NAMES, ONE, FROZEN, PATTERN = {1, 2}, {"one"}, frozenset("ab"), re.compile(r"\d+")


class Text(enum.StrEnum):
    A = "a"
    B = "b"


def writes_an_item_of(of, key, value=GLOBAL):
    of[key] = value


class Making(collections.OrderedDict):
    """A dict whose items are made when they are read, by what lies there."""

    def __getitem__(self, key):
        return super().__getitem__(key)(len(key))

    def __iter__(self):
        raise AssertionError("nobody iterates")


MAKING = Making(ab=float, c=str)


def items_made_by_a_class():
    return MAKING["ab"], MAKING["c"], "ab" in MAKING, MAKING.get("none", 3), dict.get(MAKING, "c")


def signatures(of=MAKING):
    return list(inspect.signature(writes_an_item).parameters), "q" in inspect.signature(
        Point(1).__init__
    ).parameters


def bound_by_a_signature(of=inspect.signature(writes_an_item_of)):  # noqa: B008
    found = of.bind(3, key=(4, 5))
    found.apply_defaults()
    return found.args, found.kwargs, of.parameters["value"].default


def compares_members_of_enumerations():
    return (
        Colour.RED in (Colour.BLUE, Colour.RED),
        {Colour.RED: 1}[Colour.RED],
        Text.A == "a",
        Text.A != Text.B,
        [Text.A, 1] == ["a", 1],
    )


def looks_into_sets():
    found = [
        2 in NAMES,
        bool(NAMES),
        len(NAMES),
        sorted(NAMES),
        max(NAMES),
        NAMES == {1, 2},
        [*ONE],
        {1}.issubset(NAMES),
    ]
    return found, [*FROZEN], FROZEN | {7}, "a" in FROZEN


def patterns(text="v12.3"):
    found = re.match(r"v(\d+)\.(\d+)", text)
    return found.groups(), PATTERN.fullmatch(text) is None, PATTERN.sub("x", text), re.split("[.v]", text)


class Settings:
    def __init__(self):
        self.sizes, self.kind, self.inner = [1, 2], "plain", {"a": None}


SETTINGS = Settings()
SETTINGS.deeper = Settings()


def copies_settings_deeply():
    made = copy.deepcopy(SETTINGS)
    made.deeper.sizes.append(made.kind)
    return made.deeper.sizes, SETTINGS.deeper.sizes, type(made) is Settings


def copies_deeply(of={"a": [1, (2, "b")]}):  # noqa: B006
    made = copy.deepcopy(of)
    made["a"].append(3)
    return made, of


def decorated():
    def twice(f):
        @functools.wraps(f)
        def inner(*args):
            return f(f(*args))

        return inner

    @twice
    def add(x):
        return x + 1

    return add(1), add.__name__


CAPTURED = [
    arithmetic,
    in_place,
    comparisons,
    logic,
    loops,
    containers,
    comprehensions,
    closures,
    arguments,
    bad_arguments,
    strings,
    exceptions,
    nested_returns,
    names_after_except,
    withs,
    generators,
    objects,
    classes_of_the_library,
    frozen,
    functions_of_the_library,
    local_names,
    matches,
    imports,
    walrus_and_ternaries,
    lambdas_and_defaults,
    recursion,
    error_context,
    uses_cached,
    items_made_by_a_class,
    signatures,
    bound_by_a_signature,
    compares_members_of_enumerations,
    copies_deeply,
    copies_settings_deeply,
    looks_into_sets,
    patterns,
    decorated,
]


@pytest.mark.parametrize("function", CAPTURED, ids=lambda f: f.__name__)
def test_functions_do_what_cpython_does(function):
    machine = Machine()
    machine.reads.hold(function)
    assert repr(machine.call(function, (), {})) == repr(function())
    assert machine.refusal is None, str(machine.refusal)
    assert machine.frame is None and machine.depth == 0 and machine.handled is None


# --- what is read -------------------------------------------------------------------------------------------------------
def guards_of(function, *args):
    """The guards of a call whose arguments are sources."""
    machine = Machine()
    machine.reads.hold(function)
    for k, value in enumerate(args):
        machine.reads.read(value, Item(Arguments(), k))
    machine.call(function, args, {})
    assert machine.refusal is None, str(machine.refusal)
    return machine.reads.guards


FIRST, SECOND = Item(Arguments(), 0), Item(Arguments(), 1)
HERE = Object(globals())


def test_guards_of_globals():
    def f():
        return NUMBER + len(GLOBAL)

    assert guards_of(f) == [
        Equals(Item(HERE, "NUMBER"), 7),
        Lacks(HERE, "len"),
        Is(
            Item(
                Object(vars(__builtins__) if isinstance(__builtins__, types.ModuleType) else __builtins__),
                "len",
            ),
            len,
        ),
        ClassIs(Item(HERE, "GLOBAL"), list),
        Length(Item(HERE, "GLOBAL"), 3),
    ]


def test_guards_are_on_what_is_used_alone():
    assert guards_of(lambda config: config["size"], {"size": 3, "unused": 4}) == [
        ClassIs(FIRST, dict),
        Equals(Item(FIRST, "size"), 3),
    ]
    assert guards_of(lambda config: config.get("none", 2), {"size": 3}) == [
        ClassIs(FIRST, dict),
        Lacks(FIRST, "none"),
    ]
    assert guards_of(lambda a: "x" in a, {"x": 1}) == [ClassIs(FIRST, dict), Equals(Item(FIRST, "x"), 1)]
    assert guards_of(lambda a: a[-1], [3, 4]) == [
        ClassIs(FIRST, list),
        Length(FIRST, 2),
        Equals(Item(FIRST, 1), 4),
    ]
    assert guards_of(lambda a: [*a], {"k": 1}) == [
        ClassIs(FIRST, dict),
        Keys(FIRST, ("k",)),
        Equals(Item(FIRST, "k"), 1),
    ]
    assert guards_of(lambda a: None, [1, 2]) == []


def test_guards_of_attributes():
    point = Point(1, 2)
    assert guards_of(lambda p: p.x, point) == [ClassIs(FIRST, Point), Equals(Item(Namespace(FIRST), "x"), 1)]
    assert guards_of(lambda p: p.kind, point) == [ClassIs(FIRST, Point), Lacks(Namespace(FIRST), "kind")]
    assert guards_of(lambda s: s.a, Slots()) == [ClassIs(FIRST, Slots), Equals(Attribute(FIRST, "a"), 3)]


def test_a_function_with_a_cache_is_asked_again():
    @functools.lru_cache
    def named(n, sign=1):
        return [n * sign * NUMBER]

    def f():
        return named(3, sign=-1)[0] + named(3, sign=-1)[0] + named(2)[0]

    guards = guards_of(f)
    (one, other) = {g.source.of: None for g in guards if isinstance(g, Equals) and isinstance(g.source, Item)}
    assert (
        isinstance(one, Computed)
        and Equals(Item(one, 0), -21) in guards
        and Equals(Item(other, 0), 14) in guards
    )
    checked = Guards(guards)
    assert checked.check((), {}) == []
    named(2)[0] = 15
    assert "15, captured with 14" in checked.explain((), {})
    named.cache_clear()
    assert checked.check((), {}) == []


def test_sets_are_guarded_by_what_is_in_them():
    names = {1, 2}
    checked = Guards(guards_of(lambda names: 2 in names, names))
    assert checked.check(({2, 1},), {}) == [] and checked.check((names,), {}) == []
    names.add(3)
    assert checked.check((names,), {}) is None and checked.check((frozenset({1, 2}),), {}) is None
    frozen = frozenset({1, 2})
    assert guards_of(lambda names: [*names], frozen) == [ClassIs(FIRST, frozenset), Is(FIRST, frozen)]


def test_what_a_deep_copy_reads_is_guarded():
    settings = Settings()
    checked = Guards(guards_of(lambda of: copy.deepcopy(of).kind, settings))
    assert checked.check((Settings(),), {}) == []
    settings.inner["a"] = 1
    assert "inner" in checked.explain((settings,), {})
    other = Settings()
    other.more = 1
    assert "keys" in checked.explain((other,), {})


def test_guards_of_identity():
    a, b = Point(1), Point(2)
    assert Same(SECOND, FIRST) in guards_of(lambda a, b: a.x, a, a)
    assert guards_of(lambda a, b: a is b, a, b) == [Is(FIRST, a), Is(SECOND, b)]
    assert guards_of(lambda f: f is None, len) == [Is(FIRST, len)]


# --- what is refused ----------------------------------------------------------------------------------------------------
def writes_an_attribute(p):
    p.x = 5


def iterates_over_a_set(p):
    return [*NAMES]


def adds_sets(p):
    return NAMES | {4}


def adds_deques(p):
    return QUEUE + QUEUE


def writes_an_item(p):
    GLOBAL[2]["a"] = (3, 4)


def extends(p):
    events.extend([1])


def writes_a_global(p):
    global NUMBER
    NUMBER = 7


def prints(p):
    print(p.x)


def makes_a_class(p):
    class A:
        pass

    return A.__name__


def adds_in_place(p):
    e = events
    e += [1]


def sets_by_name(p, name="x"):
    setattr(p, name, 5)


def advances(p):
    return next(COUNTER)


COUNTER = itertools.count()


@pytest.mark.parametrize(
    "function",
    [
        extends,
        prints,
        makes_a_class,
        adds_in_place,
        advances,
        iterates_over_a_set,
        adds_sets,
        adds_deques,
    ],
    ids=lambda f: f.__name__,
)
def test_side_effects_are_refused_and_happen_once(function, capsys):
    events.clear()
    machine, point = Machine(), Point(1)
    machine.reads.hold(function)
    machine.reads.read(point, FIRST)
    function(Point(1))
    plain, plain_events = capsys.readouterr().out, len(events)
    events.clear()
    machine.call(function, (point,), {})
    assert capsys.readouterr().out == plain and len(events) == plain_events
    assert machine.refusal.filename == __file__
    first = function.__code__.co_firstlineno
    assert first < machine.refusal.line <= first + 3


@pytest.mark.parametrize(
    "function, value",
    [(writes_an_attribute, 5), (writes_an_item, (3, 4)), (writes_a_global, 7), (sets_by_name, 5)],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_writes_are_noted_and_happen_once(function, value):
    machine, point = Machine(), Point(1)
    machine.reads.hold(function)
    machine.reads.read(point, FIRST)
    machine.call(function, (point,), {})
    assert machine.refusal is None
    assert list(machine.reads.written.values()) == [value]


def test_own_objects_may_be_written():
    def f():
        p, d, s = Point(1), {}, set()
        p.x, d["k"] = 3, p
        s.add(2)
        d.update(a=1)
        return p, d, s

    machine = Machine()
    machine.reads.hold(f)
    assert repr(machine.call(f, (), {})) == repr(f()) and machine.refusal is None


def test_after_a_refusal_the_program_goes_on():
    seen = []

    def f(n):
        for k in range(n):
            seen.append(k)
            if k == 2:
                raise ValueError(k)

    machine = Machine()
    machine.reads.hold(f)
    with pytest.raises(ValueError, match="2"):
        machine.call(f, (5,), {})
    assert seen == [0, 1, 2]
