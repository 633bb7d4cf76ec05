"""Objects whose operators are functions in C: what a compiled function reads of them is guarded or refused, never taken as it was."""

from __future__ import annotations

import array
import contextvars
import ctypes
import datetime
import decimal
import io
import operator
import random
import threading
import time
import typing
import weakref

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

values = np.array([1.0, 2.0])
numbers = array.array("d", [1.0, 2.0])
octets = bytearray(b"\x01\x02")
cells = (ctypes.c_double * 2)(1.0, 2.0)
moments = {"a": datetime.timedelta(seconds=1), "b": decimal.Decimal(1)}


class Doubles(np.ndarray):
    """A subclass without methods of its own."""


doubles = np.array([1.0, 2.0]).view(Doubles)

READS = {
    "item": lambda x: x * float(values[0] + 1),
    "sum": lambda x: x * (values + 1)[0],
    "product": lambda x: x * float(values @ values),
    "negative": lambda x: x * float((-values)[0]),
    "iteration": lambda x: x * sum(float(v) for v in values),
    "comparison": lambda x: x * 2 if values[0] > 3 else x * 3,
    "truth": lambda x: x * 2 if values[:1] > 3 else x * 3,
    "membership": lambda x: x * 2 if 5.0 in values else x * 3,
    "function": lambda x: x * float(np.max(values)),
    "method": lambda x: x * values.max().item(),
    "transposed": lambda x: x * float(values.T[0]),
    "list": lambda x: x * values.tolist()[0],
    "unpacked": lambda x: x * float([*values][0]),
    "subclass": lambda x: x * float(doubles[0]),
    "array": lambda x: x * numbers[0],
    "array iteration": lambda x: x * sum(numbers),
    "array membership": lambda x: x * 2 if 5.0 in numbers else x * 3,
    "bytes": lambda x: x * octets[0],
    "view": lambda x: x * memoryview(octets)[0],
    "foreign cells": lambda x: x * cells[0],
    "timedelta": lambda x: x * (moments["a"] * 2).total_seconds(),
    "decimal": lambda x: x * int(moments["b"] + 1),
    "decimal truth": lambda x: x * 2 if moments["b"] else x * 3,
}


def put(number):
    values[0] = numbers[0] = cells[0] = doubles[0] = number
    octets[0] = int(number)
    moments["a"], moments["b"] = datetime.timedelta(seconds=number), decimal.Decimal(int(number))


@pytest.mark.parametrize("name", READS)
def test_what_changes_within_an_object_in_c_is_seen(name):
    function, x = READS[name], torch.ones(2)
    compiled = torch.compile(function)
    for number in (1, 1, 5, 0, 5, 1):
        put(number)
        assert compiled(x).tolist() == function(x).tolist(), number


WRITES = {
    "item": lambda x: values.__setitem__(0, values[0] + 1),
    "statement": lambda x: operator.setitem(values, 0, 9.0),
    "in place": lambda x: operator.iadd(values, 1),
    "method": lambda x: values.fill(3.0),
    "out": lambda x: np.add(values, 1, out=values),
    "position": lambda x: np.add(values, 1, values),
    "copyto": lambda x: np.copyto(values, [7.0, 8.0]),
    "at": lambda x: np.add.at(values, 0, 1),
    "slice": lambda x: operator.setitem(values[:1], 0, values[0] + 1),
    "view": lambda x: values.reshape(2, 1).fill(4.0),
    "transposed": lambda x: operator.setitem(values.T, 0, values[0] + 1),
    "view of a view": lambda x: operator.setitem(values[1:].reshape(1, 1).T[0], 0, values[1] + 1),
    "ravelled": lambda x: operator.iadd(np.ravel(values), 1),
    "asarray": lambda x: operator.setitem(np.asarray(values), 0, values[0] + 1),
    "array": lambda x: numbers.__setitem__(0, numbers[0] + 1),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_an_array_from_outside_happens_at_each_call(name):
    def function(x):
        WRITES[name](x)
        return x * 2

    compiled = torch.compile(function)
    put(1)
    values[1] = numbers[1] = 2.0
    expected = []
    for _ in range(3):
        function(torch.ones(2))
        expected.append((values.tolist(), numbers.tolist()))
    put(1)
    values[1] = numbers[1] = 2.0
    found = []
    for _ in range(3):
        compiled(torch.ones(2))
        found.append((values.tolist(), numbers.tolist()))
    values[1] = numbers[1] = 2.0
    assert name in ("statement", "method", "copyto", "view") or expected[0] != expected[1]
    assert found == expected


def test_sizes_computed_by_numpy_are_captured_whole():
    def function(x, stride=(1, 2)):
        sizes, strides = np.array(x.shape), np.array(stride)
        out = np.floor((sizes - 1) / strides).astype(int) + 1
        for k in range(len(sizes)):
            if sizes[k] is None:
                sizes[k] = -1
        out[0] = out[0] + np.int64(1)
        return x * int(np.prod(out)) * np.float32(0.5).item()

    compiled = torch.compile(function, fullgraph=True)
    for shape in ((4, 5), (4, 5), (6, 7), (1, 1)):
        assert torch.equal(compiled(torch.ones(shape)), function(torch.ones(shape)))


def test_a_large_array_is_not_compared_at_each_call():
    large = np.ones(10_000)

    def function(x):
        return x * float(large[0])

    with pytest.raises(torch._dynamo.exc.Unsupported, match="ndarray that was there before"):
        torch.compile(function, fullgraph=True)(torch.ones(1))


drawn, text, lock, again = random.Random(3), io.StringIO(), threading.Lock(), threading.RLock()
variable = contextvars.ContextVar("variable", default=1)
CALLS = {
    "random": lambda x: x * random.random(),
    "integers": lambda x: x * random.randint(0, 1 << 40),
    "bits": lambda x: x * random.getrandbits(40),
    "generator": lambda x: x * drawn.gauss(0, 1),
    "NumPy": lambda x: x * np.random.rand(),
    "its generator": lambda x: x * generator.normal(),
    "time": lambda x: x * time.perf_counter_ns(),
    "file": lambda x: x * text.write("a"),
    "position": lambda x: x * text.tell(),
    "append": lambda x: x * (numbers.append(1.0), len(numbers))[1],
    "lock": lambda x: x * (lock.acquire(blocking=False), lock.release(), 2)[2],
    "variable": lambda x: x * variable.get(),
    "date": lambda x: x * datetime.datetime.now().microsecond,
}
generator = np.random.default_rng(1)


@pytest.mark.parametrize("name", CALLS)
def test_a_method_in_c_of_which_nothing_is_known_is_refused(name):
    with pytest.raises(torch._dynamo.exc.Unsupported, match="of which nothing is known"):
        torch.compile(CALLS[name], fullgraph=True)(torch.ones(1))


def test_what_is_drawn_is_drawn_at_each_call():
    for name in ("random", "integers", "bits", "generator", "NumPy", "its generator"):
        compiled = torch.compile(CALLS[name])
        assert len({compiled(torch.ones(1, dtype=torch.float64)).item() for _ in range(4)}) == 4, name


def test_a_lock_that_is_held_for_a_while_is_no_obstacle():
    def function(x):
        with lock, again:
            return x * 2

    compiled = torch.compile(function, fullgraph=True)
    assert compiled(torch.ones(1)).item() == 2 and compiled(torch.ones(1)).item() == 2 and not lock.locked()


# --- lists that a call appends to --------------------------------------------------------------------------------------------
def test_a_list_is_read_after_it_was_appended_to():
    stack, log, scales = [], [1, 2], [3.0]

    class Scope:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            self.own = not (stack and stack[-1].name == self.name)
            if self.own:
                stack.append(self)

        def __exit__(self, *error):
            if self.own and stack:
                stack.pop()

    def function(x):
        with Scope("a"), Scope("a"), Scope("b"):
            x = x * len("/".join(scope.name for scope in stack))
        log.append(len(log))
        log.append(log[-1] + log[0])
        log[-1] = log[-1] + 10
        log[0] = log[0] + 1
        scales.append(2.0)
        x = x * sum(scales) * len(scales) * scales[-1] * scales[0]
        scales.pop()
        for value in log:
            x = x + value
        return x + (7 in log) + log.index(2)

    def run(called):
        stack.clear()
        log[:], scales[:], found = [1, 2], [3.0], []
        for k in range(5):
            found.append((called(torch.ones(2)).tolist(), list(log), list(scales), len(stack)))
            if k == 2:
                scales[0] = 7.0
            if k == 3:
                scales.append(1.0)
        return found

    compiled = torch.compile(function)
    assert run(compiled) == run(function)
    log[:], scales[:] = [1, 2], [3.0]
    torch.compile(function, fullgraph=True)(torch.ones(2))  # nothing of it is refused


def test_what_was_appended_holds_tensors_of_the_call():
    seen = [torch.zeros(1)]

    def function(x):
        seen.append(x * 2)
        y = seen[-1] + seen[0]
        seen[-1] = y
        return seen.pop() + len(seen)

    compiled = torch.compile(function, fullgraph=True)
    for number in (1.0, 2.0):
        assert compiled(torch.full((1,), number)).item() == 2 * number + 1
        assert len(seen) == 1


# --- functions in C that the interpreter knows -----------------------------------------------------------------------------------
class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.factor = 2
        return made


class Held(metaclass=Meta):
    def __init__(self, value):
        self.value = value


T = typing.TypeVar("T")


class Generic(typing.Generic[T]):
    """A class of annotations."""


class Sized:
    def __init__(self, *parts):
        self.parts = parts

    def __eq__(self, other):
        return self.parts == other.parts

    __hash__ = None


def test_lists_of_objects_with_equality_in_python_are_compared():
    wanted = [Sized(1, Sized(2, 3)), "a"]

    def function(x):
        given = [Sized(1, Sized(2, 3)), "a"]
        return x * 2 if given == wanted and not (given, 1) != (wanted, 1) else x * 3

    compiled = torch.compile(function, fullgraph=True)
    assert compiled(torch.ones(1)).item() == 2
    wanted[0].parts[1].parts = (2, 4)
    assert compiled(torch.ones(1)).item() == function(torch.ones(1)).item() == 3
    wanted.append(3)
    assert compiled(torch.ones(1)).item() == function(torch.ones(1)).item() == 3


def test_getters_references_metaclasses_annotations_and_frozen_sets():
    net = nn.Linear(2, 2)
    net.inner = nn.Linear(2, 2)
    names, state = frozenset([Held(1), Held(2)]), {}
    state["get"], state["ref"] = operator.attrgetter("inner.weight", "bias"), weakref.ref(net.weight)

    def function(x):
        held = Held(x)
        weight, bias = state["get"](net)
        typing.cast(Generic[int], typing.Dict[str, int])  # noqa: UP006
        scale = sum(item.value for item in sorted(names, key=lambda item: item.value)) if names else 0
        return held.value * held.factor * scale + weight.sum() + bias + state["ref"]().sum()

    compiled = torch.compile(function, fullgraph=True)

    def agree():
        for _ in range(2):
            assert torch.allclose(compiled(torch.ones(2)), function(torch.ones(2)))

    agree()
    with torch.no_grad():
        net.weight.add_(1)
    agree()
    net.inner = nn.Linear(2, 2)
    agree()
    net.weight = nn.Parameter(torch.zeros(2, 2))
    state["ref"] = weakref.ref(net.weight)
    agree()
    state["get"] = operator.attrgetter("weight", "bias")
    agree()
