"""Truth values of tensors that a compiled function looks at: guessed, found wrong, and what then happens."""

from __future__ import annotations

import math

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.distributions import Bernoulli, Categorical, MultivariateNormal, Normal


def branches(x):
    if x.sum() > 0:
        return x * 2
    return x * 3


def test_two_branches_are_two_captures():
    compiled = torch.compile(branches)
    for value in (1.0, 1.0, -1.0, -2.0, 3.0, -4.0):
        x = torch.full((2,), value)
        assert torch.equal(compiled(x), branches(x))
    assert compiled.captures == 2 and all(entry.looks for entry in compiled.entries)


def test_python_runs_where_guesses_are_often_wrong():
    def counts(x):
        k = 0
        while x.sum() > k and k < 8:
            k += 1
        return x + k

    compiled = torch.compile(counts)
    for value in (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0) * 6:
        x = torch.full((1,), value)
        assert torch.equal(compiled(x), counts(x))
    assert compiled.captures <= 16 and compiled.calls_of_python > 0


def test_a_guess_is_checked_before_anything_is_left_elsewhere():
    seen, state = [], {"k": 0}

    def f(x, y):
        state["k"] += 1
        seen.append(x)
        z = x * 2
        if (z > 0).all():
            state["z"] = z
            return z + y
        return z - y

    compiled, calls = torch.compile(f), [1.0, 2.0, -1.0, 3.0, -1.0, -2.0, 4.0, 5.0, -6.0]
    for number, value in enumerate(calls):
        x = torch.full((2,), value)
        assert compiled(x, torch.ones(2)).tolist() == [2 * value + math.copysign(1, value)] * 2
        assert state["k"] == len(seen) == number + 1 and seen[-1] is x
        assert state["z"].tolist() == [2 * max(v for v in calls[: number + 1] if v > 0)] * 2 or value < 5


def test_a_call_that_is_made_again_finds_gradients_as_they_were():
    weight = torch.ones(2, requires_grad=True)

    def f(x):
        had = weight.grad is not None
        weight.grad = None
        y = x * weight.detach()
        return (y * 2, had) if y.sum() > 0 else (y * 3, had)

    compiled = torch.compile(f)
    for value in (1.0, 2.0, -1.0, -2.0, 3.0):
        weight.grad = torch.ones(2)
        y, had = compiled(torch.full((2,), value))
        assert had and weight.grad is None and y.tolist() == [value * (2 if value > 0 else 3)] * 2


def test_gradients_of_a_guessed_branch():
    layer = nn.Linear(3, 3)

    def f(x):
        y = layer(x)
        return y.relu().sum() if y.sum() > 0 else (y * y).sum()

    compiled = torch.compile(f)
    for seed in range(8):
        torch.manual_seed(seed)
        x = torch.randn(4, 3)
        layer.zero_grad()
        f(x).backward()
        expected = layer.weight.grad.clone()
        layer.zero_grad()
        compiled(x).backward()
        assert torch.allclose(layer.weight.grad, expected, rtol=1e-5, atol=1e-6)


def test_an_error_of_the_wrong_branch_is_nobodys():
    table = torch.arange(4.0)

    def f(k):
        return table[k] if k.max() < 4 else table.sum()

    compiled = torch.compile(f)
    for values in ([1, 2], [3, 0], [1, 9], [7, 7], [0, 0]):
        k = torch.tensor(values)
        assert torch.equal(compiled(k), f(k))


def test_a_failing_assertion_is_raised_at_each_call():
    def f(x):
        assert not x.isnan().any(), "a NaN"
        return x + 1

    compiled = torch.compile(f)
    compiled(torch.ones(2))
    for _ in range(5):
        with pytest.raises(AssertionError, match="a NaN"):
            compiled(torch.full((2,), math.nan))
        assert compiled(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize(
    "distribution",
    [
        lambda x: Categorical(logits=x).entropy().sum(),
        lambda x: Normal(x, x.exp()).log_prob(x * 2).sum(),
        lambda x: Bernoulli(logits=x).entropy().sum(),
        lambda x: MultivariateNormal(x, torch.eye(3)).log_prob(x * 2).sum(),
    ],
)
def test_arguments_of_distributions_are_checked_in_a_whole_capture(distribution):
    compiled = torch.compile(distribution, fullgraph=True)
    for _ in range(3):
        x = torch.randn(2, 3)
        assert torch.allclose(compiled(x), distribution(x))
        with pytest.raises(ValueError, match="Expected (parameter|value)"):
            compiled(torch.full((2, 3), math.nan))


def test_the_programs_own_looks_are_no_whole_capture():
    with pytest.raises(torch._dynamo.exc.Unsupported, match=rf"{__file__}:\d+: looks at a value of a tensor"):
        torch.compile(branches, fullgraph=True)(torch.ones(2))


def test_a_value_overwritten_after_the_look_is_refused():
    def f(x):
        flag = x > 0
        chosen = 2 if flag.all() else 3
        flag.logical_not_()
        return x * chosen + flag

    compiled = torch.compile(f)
    for value in (1.0, -1.0, 2.0, -2.0):
        x = torch.full((2,), value)
        assert torch.equal(compiled(x), f(x))
