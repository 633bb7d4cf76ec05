"""Captures: a call runs once, with Python's results, and says what it depended on."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import nn
from flambeau.graph.capture import capture
from flambeau.graph.sources import (
    Arguments,
    ClassIs,
    Contents,
    Equals,
    Item,
    Keys,
    Lacks,
    Length,
    Object,
    Same,
    TensorLike,
)

FACTOR = 2.0


def operations(captured):
    return [call.operation.__name__ for call in captured.recording.calls()]


def whole(function, *args, **kwargs):
    """A capture that is not refused, with the results of a plain call."""
    captured = capture(function, args, kwargs)
    assert captured.refusal is None, str(captured.refusal)
    return captured


def refused(function, *args, **kwargs):
    captured = capture(function, args, kwargs)
    assert captured.refusal is not None
    return captured.refusal


def test_loop_is_unrolled():
    def f(x, y):
        for _ in range(3):
            x = (x * 1.5 + y).tanh()
        return x

    x, y = flambeau.randn(4), flambeau.randn(4)
    captured = whole(f, x, y)
    assert flambeau.equal(captured.result, f(x, y))
    assert operations(captured) == ["mul", "add", "tanh"] * 3
    assert all(t is u for (_, t), u in zip(captured.inputs, (x, y), strict=True))
    assert len(captured.lines) == 9 and all(line[0] == __file__ for line in captured.lines)


def test_guards_are_what_was_read():
    scale = 3.0
    x = flambeau.ones(2)

    def f(x, unused=1):
        return x * scale * FACTOR

    guards = whole(f, x).guards
    cell = Contents(Object(f.__closure__[0]))
    assert [g for g in guards if not isinstance(g, TensorLike)] == [
        Length(Arguments(), 1),
        Keys(guards[1].source, ()),
        Equals(cell, 3.0),
        Equals(Item(Object(globals()), "FACTOR"), 2.0),
    ]
    (tensor,) = (g for g in guards if isinstance(g, TensorLike))
    assert tensor.source == Item(Arguments(), 0) and tensor.value is x and tensor.index == 0


def test_modules_are_read_through():
    net = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 2))
    captured = whole(net, flambeau.randn(2, 4))
    assert [str(source) for source, _ in captured.inputs] == [
        "args[0]",
        *(
            f"Sequential.__dict__['_modules']['{k}'].__dict__['_parameters']['{n}']"
            for k in "02"
            for n in ("weight", "bias")
        ),
    ]
    classes = [g.value for g in captured.guards if isinstance(g, ClassIs)]
    assert classes == [nn.Sequential, dict, nn.Linear, nn.GELU, nn.Linear]
    assert sum(isinstance(g, Lacks) and g.value == "_hooked" for g in captured.guards) == 4


def test_one_object_by_two_sources():
    x = flambeau.ones(2)
    captured = whole(lambda x, y: x + y, x, x)
    assert len(captured.inputs) == 1
    assert Same(Item(Arguments(), 1), Item(Arguments(), 0)) in captured.guards


def test_write_to_what_was_before_is_refused_and_done_once():
    state = {"k": 0}

    def f(x):
        state["k"] += 1
        return x + state["k"]

    found = refused(f, flambeau.ones(1))
    assert state == {"k": 1}
    assert "writes an item of a dict" in found.why
    assert (found.filename, found.line) == (__file__, f.__code__.co_firstlineno + 1)


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.item(),
        lambda x: float(x),
        lambda x: 1 if x > 0 else 2,
        lambda x: x.tolist(),
        lambda x: flambeau.zeros(x.long()),
        lambda x: x.data_ptr(),
        lambda x: x.nonzero(),
    ],
)
def test_looking_at_values_is_refused(look):
    found = refused(look, flambeau.ones(()))
    assert found.line == look.__code__.co_firstlineno


def test_errors_leave_as_they_are():
    def f(x):
        return x @ flambeau.ones(3)

    with pytest.raises(RuntimeError) as plain:
        f(flambeau.ones(2))
    with pytest.raises(RuntimeError) as captured:
        capture(f, (flambeau.ones(2),), {})
    assert str(plain.value) == str(captured.value)
