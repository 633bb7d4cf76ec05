"""What each element of a fill, a copy or a conversion is, as declarations say, beside what calls give."""

from __future__ import annotations

import pytest

import flambeau
from flambeau.graph.lower import plan
from flambeau.graph.program import Program
from flambeau.graph.trace import record

X = flambeau.tensor([[1.5, -2.0], [0.25, 3.0]])
CALLS = {
    "zeros": lambda x: flambeau.zeros(2, 3),
    "ones": lambda x: flambeau.ones(size=(2, 3), dtype=flambeau.float16),
    "full": lambda x: (flambeau.full((2,), 2.5), flambeau.full(size=(2,), fill_value=True)),
    "full in half": lambda x: flambeau.full((2,), 0.1, dtype=flambeau.float16),
    "full_like": lambda x: (flambeau.full_like(x, 3), flambeau.full_like(input=x, fill_value=-0.0)),
    "zeros_like": lambda x: flambeau.zeros_like(x, dtype=flambeau.int64),
    "ones_like": lambda x: flambeau.ones_like(input=x.T),
    "new": lambda x: (x.new_zeros(2), x.new_ones((2, 1)), x.new_full((3,), fill_value=2)),
    "fill_": lambda x: (x.clone().fill_(2), x.clone().fill_(value=x[0, 0]), x.clone().zero_()),
    "copies": lambda x: (x.clone(), x.T.contiguous(), x.new_zeros(2, 2).copy_(src=x[0])),
    "conversions": lambda x: (x.half(), x.to(flambeau.int32), x.type(flambeau.float64), x.type_as(x.bool())),
}


@pytest.mark.parametrize("name", CALLS)
def test_plans_give_the_bits_of_calls(name):
    runner = plan(Program(record(CALLS[name], X)[0]))
    found, expected = runner(X * 2), CALLS[name](X * 2)
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        assert a.double().equal(b.double())
    if name != "full in half":  # 0.1 would be rounded twice
        assert all("Call" not in repr(step) for step in runner.steps)
