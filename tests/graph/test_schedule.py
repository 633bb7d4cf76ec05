"""The order of steps: no more is held than in the program's own, and everything runs after what it waits for."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import flambeau as torch
from flambeau.graph import schedule
from flambeau.graph.lower import plan
from flambeau.graph.program import Program
from flambeau.graph.trace import record


def numbers(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape)).to(torch.float32)


@pytest.fixture
def whatever_is_held(monkeypatch):
    """Small plans, too."""
    monkeypatch.setattr(schedule, "FROM", 0)


@pytest.fixture
def as_written(monkeypatch):
    def switch(on):
        monkeypatch.setattr(schedule, "FROM", 1 << 60 if on else 0)

    return switch


def planned(function, *tensors):
    return plan(Program(record(function, *tensors)[0]))


def names(runner):
    return [c.name for s in runner.report.steps for c in s.calls]


def test_what_is_made_long_before_it_is_read_is_made_later(as_written):
    def function(x):
        early = (x @ x).softmax(-1)  # which waits
        y = x
        for _ in range(3):
            y = (y.T @ y).softmax(-1)
        return y @ early.sum(-1), early.mean()

    x, peaks = numbers(200, 200), []
    for on in (True, False):
        as_written(on)
        runner = planned(function, x)
        peaks.append(runner.memory.peak)
        for a, b in zip(runner(x), function(x), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4)
    assert peaks[1] < peaks[0]


def test_an_operand_is_read_for_the_last_time_before_more_is_made(as_written):
    """The small product of a large value, before the large one."""

    def function(x, w):
        y = (x @ w).relu()
        large = (y @ y.T).softmax(-1)
        small = x.T @ y
        return large.sum(-1), small

    given, peaks = (numbers(300, 200), numbers(200, 200, seed=1)), []
    for on in (True, False):
        as_written(on)
        runner = planned(function, *given)
        peaks.append(runner.memory.peak)
        for a, b in zip(runner(*given), function(*given), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-4)
    assert peaks[1] <= peaks[0]


def test_writes_stay_where_they_are(whatever_is_held):
    def function(x, state):
        before = (state @ x).sort(-1)[0]
        state.mul_(2)
        after = (state @ x).sort(-1)[0]
        state.add_(x)
        return before - after, (state @ x).sum(-1)

    states = [numbers(64, 64, seed=1), numbers(64, 64, seed=1)]
    x = numbers(64, 64)
    runner = planned(function, x, states[0].clone())
    for a, b in zip(runner(x, states[0]), function(x, states[1]), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(states[0].numpy(), states[1].numpy())


def test_random_numbers_are_drawn_in_their_order(whatever_is_held):
    def function(x):
        first = (torch.rand(80, 80) @ x).sort(-1)[0]
        second = (torch.rand(80, 80) @ x).softmax(-1)
        third = torch.randn(80, 80) @ second
        return first.sum() + third.sum(), second.sum(0)

    x = numbers(80, 80)
    runner = planned(function, x)
    found = []
    for f in (runner, function):
        torch.manual_seed(3)
        found.append(f(x))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-4)


def drawn(random, x, w):
    """A program of products, rows, sorts and writes, each of earlier values."""
    values, out = [x, w], []
    for _ in range(14):
        a, b = (values[int(k)] for k in random.integers(0, len(values), 2))
        what = int(random.integers(0, 6))
        if what == 0:
            made = a @ b * 0.05
        elif what == 1:
            made = a.T.softmax(-1)
        elif what == 2:
            made = a.sort(-1)[0]
        elif what == 3:
            made = (a + b).tanh()
        elif what == 4:
            made = a[:, :1] * b
        else:
            made = a.clone()
            made.mul_(0.5)
        values.append(made)
        if random.random() < 0.2:
            out.append(made)
    return (*out, values[-1])


@pytest.mark.parametrize("seed", range(25))
def test_drawn_programs(seed, as_written):
    x, w = numbers(64, 64), numbers(64, 64, seed=1)
    function = lambda x, w: drawn(np.random.default_rng(seed), x, w)
    expected, runners = function(x, w), []
    for on in (True, False):
        as_written(on)
        runners.append(planned(function, x, w))
        for a, b in zip(runners[-1](x, w), expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)
    assert sorted(names(runners[0])) == sorted(names(runners[1]))


def test_the_order_is_the_same_each_time(whatever_is_held):
    function = partial(drawn, np.random.default_rng(5))
    graph, _ = record(function, numbers(64, 64), numbers(64, 64, seed=1))
    assert names(plan(Program(graph))) == names(plan(Program(graph)))
