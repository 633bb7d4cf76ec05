"""Recording modes: no_grad, enable_grad, set_grad_enabled, inference_mode; as contexts, decorators, in threads."""

from __future__ import annotations

import threading

import pytest

import flambeau


def test_a_generator_keeps_its_mode_to_itself():
    @flambeau.no_grad()
    def counting():
        seen = [flambeau.is_grad_enabled()]
        try:
            sent = yield seen[0]
            seen.append((sent, flambeau.is_grad_enabled()))
            yield 1
        except KeyError:
            yield flambeau.is_grad_enabled()
        return seen

    steps = counting()
    assert next(steps) is False and flambeau.is_grad_enabled()
    assert steps.send("x") == 1 and flambeau.is_grad_enabled()
    assert steps.throw(KeyError()) is False and flambeau.is_grad_enabled()
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value == [False, ("x", False)]


def test_set_grad_enabled_three_ways():
    flambeau.set_grad_enabled(False)
    assert not flambeau.is_grad_enabled()
    flambeau.set_grad_enabled(True)
    with flambeau.set_grad_enabled(False):
        assert not flambeau.is_grad_enabled()

    @flambeau.set_grad_enabled(False)
    def inside():
        return flambeau.is_grad_enabled()

    assert flambeau.is_grad_enabled() and inside() is False and flambeau.is_grad_enabled()


def test_a_decorated_function_may_call_itself():
    @flambeau.no_grad()
    def depth(n):
        return [flambeau.is_grad_enabled()] + (depth(n - 1) if n else [])

    assert depth(3) == [False] * 4 and flambeau.is_grad_enabled()


def test_modes_belong_to_their_thread():
    seen = []
    with flambeau.inference_mode():
        thread = threading.Thread(
            target=lambda: seen.append((flambeau.is_grad_enabled(), flambeau.is_inference_mode_enabled()))
        )
        thread.start()
        thread.join()
    assert seen == [(True, False)]


def test_inference_tensors():
    x = flambeau.ones(2, requires_grad=True)
    with flambeau.inference_mode():
        assert flambeau.is_inference_mode_enabled() and not flambeau.is_grad_enabled()
        y = x * 2
        y.add_(1)
        part = x[0]
        with flambeau.inference_mode(False):
            assert (x * 2).requires_grad and not flambeau.ones(1).is_inference()
    assert y.is_inference() and y[0].is_inference() and not part.is_inference() and not y.requires_grad
    with pytest.raises(RuntimeError, match="cannot be saved for backward"):
        x * y
    assert (x + y).requires_grad  # a sum saves nothing
    for write in (
        lambda: y.add_(1),
        lambda: y.zero_(),
        lambda: y.__setitem__(0, 3.0),
        lambda: y.copy_(x.detach()),
    ):
        with pytest.raises(RuntimeError, match="outside InferenceMode"):
            write()
    assert y.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="requires_grad"):
        y.requires_grad_()
    with pytest.raises(RuntimeError, match="version counter"):
        _ = y._version
    assert (x * y.clone()).requires_grad


@flambeau.inference_mode
def bare(x):
    return x * 2


@flambeau.inference_mode()
def called(x):
    return x * 2


def test_inference_mode_decorates():
    x = flambeau.ones(2, requires_grad=True)
    assert bare(x).is_inference() and called(x).is_inference() and not flambeau.is_inference_mode_enabled()
