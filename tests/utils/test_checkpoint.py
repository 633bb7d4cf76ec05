"""Checkpoints: the gradients of the plain call, with less memory, and errors where the two computations differ."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)


def leaf(values):
    return flambeau.tensor(values, dtype=flambeau.float64, requires_grad=True)


def part(x, w):
    return (x @ w).tanh().exp().softmax(-1) * x


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_are_those_of_the_plain_call(reentrant):
    x, w = leaf([[0.5, 1.0], [2.0, -1.0]]), leaf([[1.0, 0.3], [-0.2, 0.8]])
    part(x, w).square().sum().backward()
    expected = x.grad, w.grad
    x.grad = w.grad = None
    checkpoint(part, x, w, use_reentrant=reentrant).square().sum().backward()
    assert x.grad.tolist() == expected[0].tolist() and w.grad.tolist() == expected[1].tolist()


@pytest.mark.parametrize("reentrant", [True, False])
def test_random_numbers_are_the_same_twice(reentrant):
    x = flambeau.ones(200, requires_grad=True)
    y = checkpoint(lambda t: nn.functional.dropout(t, 0.5) * t, x, use_reentrant=reentrant)
    before = flambeau.get_rng_state()
    y.sum().backward()
    assert x.grad.tolist() == (2 * y.detach()).tolist()
    assert flambeau.get_rng_state().tolist() == before.tolist()


def test_nothing_is_kept_and_each_part_is_computed_twice():
    calls, middle = [], []

    def function(x):
        calls.append(0)
        y = x.exp()
        middle.append(weakref.ref(y))
        return y.sin()

    x = leaf([1.0, 2.0])
    out = checkpoint(function, x, use_reentrant=False)
    assert middle[0]() is None
    out.sum().backward()
    assert len(calls) == 2
    np.testing.assert_allclose(x.grad.numpy(), np.cos(np.exp([1.0, 2.0])) * np.exp([1.0, 2.0]), rtol=1e-14)


def test_grad_retained_graphs_second_derivatives_and_nesting():
    x = leaf([0.3, 0.7])

    def inner(t):
        return t.sin() * t

    def outer(t):
        return checkpoint(inner, t.exp(), use_reentrant=False).square()

    (plain,) = flambeau.autograd.grad((x.exp().sin() * x.exp()).square().sum(), x, create_graph=True)
    (second,) = flambeau.autograd.grad(plain.sum(), x)
    out = checkpoint(outer, x, use_reentrant=False).sum()
    for _ in range(2):
        (g,) = flambeau.autograd.grad(out, x, create_graph=True)
        np.testing.assert_allclose(g.detach().numpy(), plain.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(flambeau.autograd.grad(g.sum(), x)[0].numpy(), second.numpy(), rtol=1e-12)


def test_early_stop():
    ends = []

    def function(x):
        y = x.exp()
        ends.append(0)
        return y + 1

    x = leaf([1.0])
    checkpoint(function, x, use_reentrant=False).backward()
    assert len(ends) == 1
    with set_checkpoint_early_stop(False):
        out = checkpoint(function, x, use_reentrant=False)
    out.backward()
    assert len(ends) == 3


def test_two_computations_that_differ():
    state = []

    def shapes(x):
        state.append(0)
        return (x if len(state) == 1 else x[:1]).exp().sum()

    def numbers(x):
        state.append(0)
        return x.exp().exp().sum() if len(state) % 2 else x.exp().sum()

    x = leaf([1.0, 2.0])
    out = checkpoint(shapes, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="different metadata"):
        out.backward()
    state.clear()
    out = checkpoint(numbers, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="different number"):
        out.backward()


def test_arguments_that_changed():
    x, b = leaf([1.0]), flambeau.ones(1, dtype=flambeau.float64)
    out = checkpoint(lambda t, s: t.exp() * s, x, b, use_reentrant=False)
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        out.backward()


def test_contexts_keywords_and_refusals():
    entered = []

    class Context:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            entered.append(self.name)

        def __exit__(self, *exception):
            entered.append("end")

    x = leaf([1.0])
    out = checkpoint(
        lambda t, *, power: t**power,
        x,
        power=3,
        use_reentrant=False,
        context_fn=lambda: (Context("first"), Context("second")),
    )
    out.backward()
    assert x.grad.item() == 3.0 and entered == ["first", "end", "second", "end"]
    with pytest.raises(ValueError, match="Unexpected keyword"):
        checkpoint(part, x, x, use_reentrant=True, power=3)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(part, x, x, use_reentrant=False, determinism_check="maybe")
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(lambda t: t, x)
    with pytest.warns(UserWarning, match="None of the inputs"):
        checkpoint(lambda t: t, x.detach(), use_reentrant=True)


@pytest.mark.parametrize("reentrant", [True, False])
def test_sequential(reentrant):
    flambeau.manual_seed(0)
    layers = nn.Sequential(*[nn.Linear(3, 3) for _ in range(5)])
    x = flambeau.randn(2, 3, requires_grad=True)
    layers(x).sum().backward()
    expected = [p.grad.clone() for p in layers.parameters()]
    layers.zero_grad()
    checkpoint_sequential(layers, 2, x, use_reentrant=reentrant).sum().backward()
    for p, e in zip(layers.parameters(), expected):
        np.testing.assert_allclose(p.grad.numpy(), e.numpy(), rtol=1e-6)


def test_no_cycles():
    def train():
        x = leaf([1.0])
        checkpoint(lambda t: t.exp().sin(), x, use_reentrant=False).backward()

    train()
    gc.collect()
    gc.disable()
    try:
        train()
        assert gc.collect() == 0
    finally:
        gc.enable()
