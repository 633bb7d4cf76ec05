"""What a compiled function reads from outside and writes there by Python's own means, beside the same calls without compilation.

Each function runs six times while the state that it reads changes between the calls.
"""

from __future__ import annotations

import bisect
import collections
import copy
import dataclasses
import enum
import fractions
import functools
import heapq
import itertools
import json
import math
import operator
import os
import re
import string
import struct
import threading
import types

import pytest

import flambeau as torch


class Slots:
    __slots__ = ("v",)


class Kind(enum.Enum):
    A = 1
    B = 2


@dataclasses.dataclass
class Data:
    v: float


class Held:
    count = 0

    def __init__(self):
        self.v = self.looked = 1.0

    @property
    def looks(self):
        self.looked += 1
        return self.looked

    def __getattr__(self, name):
        if name == "twice":
            return self.v * 2
        raise AttributeError(name)

    def __str__(self):
        return str(self.v)

    def __len__(self):
        return int(self.v)

    def __contains__(self, value):
        return value == self.v

    def __call__(self, x):
        self.v += 1
        return x * self.v

    def __enter__(self):
        self.v += 1
        return self

    def __exit__(self, *error):
        self.v += 1

    def __iter__(self):
        return iter([self.v] * 2)

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return self.v == other.v

    def __bool__(self):
        return self.v > 2

    def __index__(self):
        return int(self.v)

    def __float__(self):
        return self.v

    def __iadd__(self, other):
        self.v += other
        return self


s = types.SimpleNamespace()  # the state


def reset():
    s.list, s.heap, s.number = [1.0, 2.0], [3.0, 1.0, 2.0], 1.0
    s.dict, s.ordered = {"a": 1.0}, collections.OrderedDict(a=1.0, b=2.0)
    s.counter, s.deque = collections.Counter("aab"), collections.deque([1.0, 2.0, 3.0])
    s.chain, s.default = collections.ChainMap({"a": 1.0}, {"b": 2.0}), collections.defaultdict(float)
    s.set, s.fraction, s.bytes = {1, 2}, fractions.Fraction(1, 2), bytearray(b"ab")
    s.user, s.users = collections.UserDict(a=1.0), collections.UserList([1.0, 2.0])
    s.count, s.iterator = itertools.count(), iter([float(k) for k in range(20)])
    s.generator = (float(k) for k in range(20))
    s.held, s.data, s.kind, s.slots, s.local = Held(), Data(1.0), Kind.A, Slots(), threading.local()
    s.slots.v = s.local.v = 1.0
    os.environ["FLAMBEAU_TEST"] = "a"
    Held.count = 0
    with_default.__defaults__[0].clear()
    cached.cache_clear()


def change():
    if s.list:
        s.list[0] += 3
    s.dict["a"] = s.dict.get("a", 0) + 3
    s.counter["a"] += 3
    s.deque.append(3.0)
    s.deque[0] += 3
    s.chain.maps[0]["a"] += 3
    s.set.add(100)
    s.fraction += 1
    s.number += 3
    s.user["a"] += 3
    s.users[0] += 3
    s.heap[0] += 3
    s.bytes[0] += 3
    s.kind = Kind.B
    for held in (s.slots, s.local, s.held, s.data):
        held.v += 3
    os.environ["FLAMBEAU_TEST"] += "bc"
    Held.count += 3
    cached.cache_clear()


def with_default(x, seen=[]):  # noqa: B006
    seen.append(1)
    return x * len(seen)


@functools.lru_cache
def cached(factor):
    return s.number * factor


@functools.singledispatch
def dispatched(value):
    return value


@dispatched.register
def _(value: float):
    return value * s.number


def writes_a_class(x):
    Held.count += 1
    return x * Held.count


def writes_an_attribute(x):
    s.held.v += 1
    return x * s.held.v


def enters(x):
    with s.held as held:
        x = x * held.v
    return x * s.held.v


FUNCTIONS = {
    "operator.setitem": lambda x: (operator.setitem(s.list, 0, s.list[0] + 1), x * s.list[0])[1],
    "operator.iadd": lambda x: (operator.iadd(s.list, [1.0]), x * len(s.list))[1],
    "operator.iconcat": lambda x: (operator.iconcat(s.list, [1.0]), x * sum(s.list))[1],
    "operator.delitem": lambda x: (operator.delitem(s.list, -1) if s.list else 0, x * len(s.list))[1],
    "operator.call": lambda x: operator.call(s.held, x),
    "operator.methodcaller": lambda x: operator.methodcaller("__call__", x)(s.held),
    "operator.itemgetter": lambda x: x * operator.itemgetter(0)(s.list),
    "operator.getitem": lambda x: x * operator.getitem(s.list, 0),
    "operator.length_hint": lambda x: x * operator.length_hint(s.iterator),
    "operator.contains": lambda x: x * operator.contains(s.list, 4.0),
    "operator.countOf": lambda x: x * operator.countOf(s.list, 1.0),
    "operator.index": lambda x: x * operator.index(s.held),
    "operator.truth": lambda x: x * operator.truth(s.held),
    "operator.iadd of an object": lambda x: (operator.iadd(s.held, 1), x * s.held.v)[1],
    "count": lambda x: x * next(s.count),
    "iterator": lambda x: x * next(s.iterator),
    "generator": lambda x: x * next(s.generator),
    "Counter.update": lambda x: (s.counter.update("a"), x * s.counter["a"])[1],
    "Counter": lambda x: x * s.counter["a"],
    "Counter.most_common": lambda x: x * s.counter.most_common(1)[0][1],
    "deque.rotate": lambda x: (s.deque.rotate(1), x * s.deque[0])[1],
    "deque": lambda x: x * s.deque[0],
    "sum of a deque": lambda x: x * sum(s.deque),
    "ChainMap": lambda x: x * s.chain["a"],
    "defaultdict": lambda x: (operator.setitem(s.default, "k", s.default["k"] + 1), x * s.default["k"])[1],
    "sum of a set": lambda x: x * sum(s.set),
    "set.add": lambda x: (s.set.add(len(s.set) + 5), x * len(s.set))[1],
    "move_to_end": lambda x: (s.ordered.move_to_end("a"), x * list(s.ordered.values())[0])[1],
    "Fraction": lambda x: x * float(s.fraction),
    "slots": lambda x: x * s.slots.v,
    "write to slots": lambda x: (setattr(s.slots, "v", s.slots.v + 1), x * s.slots.v)[1],
    "property": lambda x: x * s.held.looks,
    "__getattr__": lambda x: x * s.held.twice,
    "f-string": lambda x: x * float(f"{s.held}"),
    "str.format": lambda x: x * float("{}".format(s.held)),  # noqa: UP032
    "percent": lambda x: x * float("%s" % s.held),  # noqa: UP031
    "percent of a tuple": lambda x: x * float("%s%s" % (s.held, "0")),  # noqa: UP031
    "str": lambda x: x * float(str(s.held)),
    "len": lambda x: x * len(s.held),
    "in": lambda x: x * (4.0 in s.held),
    "call": lambda x: s.held(x),
    "float": lambda x: x * float(s.held),
    "sum of an object": lambda x: x * sum(s.held),
    "list of an object": lambda x: x * list(s.held)[0],
    "truth": lambda x: x * 2 if s.held else x * 3,
    "with": enters,
    "UserDict": lambda x: x * s.user["a"],
    "UserList": lambda x: x * s.users[0],
    "heapq.nsmallest": lambda x: x * heapq.nsmallest(1, s.heap)[0],
    "heapq.heappush": lambda x: (heapq.heappush(s.heap, 0.5), x * len(s.heap))[1],
    "bisect": lambda x: x * bisect.bisect(s.list, 1.5),
    "copy of an object": lambda x: x * copy.copy(s.held).v,
    "copy of a list": lambda x: x * copy.copy(s.list)[0],
    "deepcopy": lambda x: x * copy.deepcopy(s.held).v,
    "local": lambda x: x * s.local.v,
    "dataclass": lambda x: x * s.data.v,
    "dataclasses.replace": lambda x: x * dataclasses.replace(s.data).v,
    "dataclasses.asdict": lambda x: x * dataclasses.asdict(s.data)["v"],
    "enum": lambda x: x * s.kind.value,
    "environ": lambda x: x * len(os.environ["FLAMBEAU_TEST"]),
    "getenv": lambda x: x * len(os.getenv("FLAMBEAU_TEST")),
    "bytearray": lambda x: x * s.bytes[0],
    "struct": lambda x: x * struct.unpack("B", bytes(s.bytes[:1]))[0],
    "json": lambda x: x * json.loads(json.dumps(s.list))[0],
    "re.sub": lambda x: x * len(re.sub("a", "bb", "".join(s.dict))),
    "Template": lambda x: x * float(string.Template("$a").substitute(s.dict)),
    "format_map": lambda x: x * float("{a}".format_map(s.dict)),
    "mutable default": with_default,
    "lru_cache": lambda x: x * cached(2),
    "singledispatch": lambda x: x * dispatched(2.0),
    "class": writes_a_class,
    "attribute": writes_an_attribute,
    "vars": lambda x: x * vars(s.held)["v"],
    "sorted": lambda x: x * sorted(s.list)[0],
    "max": lambda x: x * max(s.dict.values()),
    "zip": lambda x: x * sum(a * b for a, b in zip(s.list, s.heap)),
    "map": lambda x: x * sum(map(float, s.list)),
    "enumerate": lambda x: x * sum(v for _, v in enumerate(s.heap)),
    "reversed": lambda x: x * list(reversed(s.list))[-1],
    "slice": lambda x: x * s.list[:1][0],
    "unpacked": lambda x: x * [*s.list][0],
    "unpacked dict": lambda x: x * {**s.dict}["a"],
    "arguments": lambda x: x * max(*s.list),
    "accumulate": lambda x: x * list(itertools.accumulate(s.list))[-1],
    "itertools.chain": lambda x: x * sum(itertools.chain(s.list, s.heap)),
    "itertools.product": lambda x: x * sum(a for a, b in itertools.product(s.list, s.heap)),
    "reduce": lambda x: x * functools.reduce(lambda a, b: a + b, s.list),
    "math.fsum": lambda x: x * math.fsum(s.list),
    "math.prod": lambda x: x * math.prod(s.list),
    "math.dist": lambda x: x * math.dist(s.list, s.heap[:2]),
    "repr": lambda x: x * len(repr(s.list)),
    "hash": lambda x: x * (hash(tuple(s.list)) % 7),
    "equality": lambda x: x * (s.list == [4.0, 2.0]),
    "order": lambda x: x * (s.list < [1.5]),
    "union": lambda x: x * len(s.set | {9}),
    "list.pop": lambda x: x * (s.list.pop() if s.list else 0),
    "dict.pop": lambda x: x * s.dict.pop("a", 0.0),
    "popitem": lambda x: x * s.ordered.popitem()[1] if s.ordered else x,
    "clear": lambda x: (s.list.clear(), x * len(s.list))[1],
    "sort": lambda x: (s.heap.sort(), x * s.heap[0])[1],
    "reverse": lambda x: (s.list.reverse(), x * s.list[0])[1],
    "extend": lambda x: (s.list.extend([1.0]), x * len(s.list))[1],
    "append": lambda x: (s.list.append(1.0), x * sum(s.list) * len(s.list))[1],
    "insert": lambda x: (s.list.insert(0, 5.0), x * s.list[0] * len(s.list))[1],
    "setdefault": lambda x: x * s.dict.setdefault("z", 3.0) + len(s.dict),
    "update": lambda x: (s.dict.update(a=s.dict["a"] + 1), x * s.dict["a"])[1],
}


def left():
    """What the state is, as text."""
    return repr(
        [
            s.list,
            s.heap,
            s.dict,
            s.ordered,
            s.counter,
            s.deque,
            s.default,
            s.set,
            s.held.v,
            s.held.looked,
            Held.count,
            s.slots.v,
        ]
    )


def run(function):
    reset()
    found = []
    for k in range(6):
        found.append((function(torch.ones(1, dtype=torch.float64)).item(), left()))
        if k in (2, 4):
            change()
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reads_and_writes_of_state_from_outside(name):
    expected = run(FUNCTIONS[name])
    assert run(torch.compile(FUNCTIONS[name])) == expected
