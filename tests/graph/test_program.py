"""Programs: values over roots, calls, and what has to run before what."""

from __future__ import annotations

import flambeau
from flambeau.graph.program import Program
from flambeau.graph.trace import record


def program(function, *tensors):
    return Program(record(function, *tensors)[0])


def names(p):
    return [c.name for c in p.calls]


def test_views_and_what_hands_on_its_argument_are_no_calls():
    p = program(lambda x: x.contiguous().T[1:].detach().exp().unsqueeze(0), flambeau.zeros(2, 3))
    assert names(p) == ["exp"]
    (result,) = p.results()
    assert result.root.call is p.calls[0] and result.shape == (1, 2, 2)
    (read,) = p.calls[0].values()
    assert read.root is p.inputs[0] and read.offset == 1 and read.strides == (1, 3)


def test_a_call_waits_for_what_made_its_memory_and_for_writes():
    def body(x):
        y = x.exp()
        z = y.sin()
        y[0].mul_(2)
        return y.cos(), z

    p = program(body, flambeau.zeros(2, 3))
    exp, sin, mul, cos = p.calls
    assert sin.after == {exp} and mul.after == {exp, sin} and cos.after == {exp, mul}
    assert mul.written == {exp.results[0]}
    assert p.is_current(sin.values()[0], sin) and not p.is_current(cos.values()[0], cos)


def test_a_write_to_an_argument_comes_after_its_readers():
    def body(x):
        y = x + 1
        x.zero_()
        return y

    p = program(body, flambeau.ones(3))
    assert p.calls[-1].written == {p.inputs[0]} and p.calls[0] in p.calls[-1].after


def test_out_is_a_write():
    out = flambeau.empty(3)
    p = program(lambda x: flambeau.exp(x, out=out), flambeau.ones(3))
    assert p.calls[-1].written == {v for v in p.constants()}


def test_it_prints_as_a_program():
    p = program(lambda x: (x.T + 1).max(0), flambeau.zeros(2, 3))
    assert repr(p).splitlines()[0] == "%0: float32[2, 3]"
    assert "= add(%1, 1)" in repr(p) and repr(p).splitlines()[-1].startswith("return")
    assert repr(p).splitlines()[-1].endswith("return_types.max(values='%3', indices='%4')")
