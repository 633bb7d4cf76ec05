"""Runs of plans: apart from each other, whatever happens inside; arguments that share memory; random numbers."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from flambeau.graph.runner import Runner

import flambeau
from flambeau import nn
from flambeau.graph.lower import plan
from flambeau.graph.program import Program
from flambeau.graph.trace import record

F = nn.functional


def planned(function, *tensors, fused=True):
    return plan(Program(record(function, *tensors)[0]), fused)


def numbers(*shape, dtype=flambeau.float32, seed=0):
    return flambeau.tensor(np.random.default_rng(seed).normal(size=shape)).to(dtype)


def held():
    gc.collect()
    return flambeau.cpu.memory_stats()["allocated_bytes"]


# --- results and arguments ---
def test_arguments_come_back_as_they_are_and_views_are_views():
    x, y = numbers(4, 3), numbers(4, 3, seed=1)
    runner = planned(lambda x: (x, x[1:], x + 1, x.T, (x + 1).T), x)
    a, b, c, d, e = runner(y)
    assert a is y
    assert b._base is y and b.data_ptr() == y[1:].data_ptr() and d._base is y and d.shape == (3, 4)
    assert e._base is not None and e.tolist() == c.T.tolist()


def test_results_that_lie_at_one_place_are_one_object():
    def function(x):
        y = x * 2
        return y, y, [y.T, {"same": y}]

    a, b, (c, d) = planned(function, numbers(2, 3))(numbers(2, 3, seed=1))
    assert a is b and d["same"] is a and c._base is a


def test_views_as_arguments_begin_at_their_own_place():
    runner = planned(lambda x: (x.exp() @ x.T).relu(), numbers(4, 4)[1:])
    whole = numbers(9, 4, seed=2)
    for k in (0, 3, 6):
        x = whole[k : k + 3]
        np.testing.assert_allclose(runner(x).numpy(), (x.exp() @ x.T).relu().numpy(), rtol=1e-6)


def test_arguments_over_one_memory():
    function = lambda q, k, v: ((q @ k.T).softmax(-1) @ v, q, k)
    qkv, other = numbers(6, 24), numbers(6, 24, seed=1)
    runner = planned(function, *qkv.chunk(3, 1))
    given = other.chunk(3, 1)
    found = runner(*given)
    np.testing.assert_allclose(found[0].numpy(), function(*given)[0].numpy(), rtol=2e-6)
    assert found[1] is given[0] and found[2] is given[1]
    with pytest.raises(TypeError, match="over the memory of argument 0"):
        runner(*(t.contiguous().T.contiguous().T[:, :8].as_strided((6, 8), (24, 1)) for t in [qkv] * 3))
    with pytest.raises(TypeError, match="over the memory of argument 0"):
        runner(given[0], given[2], given[1])


def test_writes_through_one_argument_are_seen_through_another():
    def function(a, b):
        b.mul_(2)
        return a + 1

    x = flambeau.arange(5.0)
    runner = planned(function, x[:4], x[1:])
    y = flambeau.arange(5.0)
    assert runner(y[:4], y[1:]).tolist() == [1, 3, 5, 7] and y.tolist() == [0, 2, 4, 6, 8]


def test_one_tensor_as_two_arguments():
    x, y = numbers(3), numbers(3, seed=1)
    runner = planned(lambda a, b: a * b, x, x)
    assert runner(y, y).tolist() == (y * y).tolist()
    with pytest.raises(TypeError, match="over the memory"):
        runner(y, y.clone())


def test_inputs_that_calls_write_count_it():
    def function(x, w):
        w.add_(1)
        return x * w

    x, w = numbers(4), numbers(4, seed=1)
    runner = planned(function, x, w.clone())
    given = w.clone()
    version = given._version
    np.testing.assert_array_equal(runner(x, given).numpy(), (x * (w + 1)).numpy())
    assert given._version == version + 1 and given.tolist() == (w + 1).tolist()


def test_a_runner_needs_its_outputs():
    runner = Runner(1, 0)
    with pytest.raises(RuntimeError, match="outputs"):
        runner()
    with pytest.raises(TypeError, match="prepared step"):
        runner.add_step(3)
    runner.set_outputs(())
    assert runner() == ()
    with pytest.raises(RuntimeError, match="outputs"):
        runner.set_outputs(())


def test_many_steps_and_roots():
    def function(x):
        for _ in range(1500):
            x = x + 1
        return x

    x = flambeau.zeros(3)
    assert planned(function, x, fused=False)(x).tolist() == [1500] * 3


# --- apart ---
@flambeau.library.custom_op("runner_tests::visit", mutates_args=())
def visit(x: flambeau.Tensor) -> flambeau.Tensor:
    """What `VISITORS` says, then a copy."""
    for visitor in VISITORS:
        visitor(x)
    return x.clone()


VISITORS: list = []


@pytest.fixture
def visitors():
    yield VISITORS
    VISITORS.clear()


def test_a_call_may_run_the_same_runner(visitors):
    runner = planned(lambda x: visit((x @ x).relu()) @ x + 1, numbers(8, 8))
    x = numbers(8, 8, seed=1)
    expected, inner, depth = runner(x).numpy().copy(), [], [0]

    def again(_):
        if depth[0] < 3:
            depth[0] += 1
            inner.append(runner(x).numpy())

    visitors.append(again)
    np.testing.assert_array_equal(runner(x).numpy(), expected)
    assert len(inner) == 3 and all(np.array_equal(r, expected) for r in inner)


def test_an_error_in_a_call_leaves_nothing_behind(visitors):
    runner = planned(lambda x: visit((x @ x).relu()) @ x + 1, numbers(64, 64))
    x = numbers(64, 64, seed=1)
    expected = runner(x).numpy()

    def refuse(_):
        raise ZeroDivisionError

    visitors.append(refuse)
    before = held()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            runner(x)
    assert held() == before and flambeau.is_grad_enabled()
    visitors.clear()
    np.testing.assert_array_equal(runner(x).numpy(), expected)


def test_an_argument_that_is_set_to_other_memory_meanwhile(visitors):
    runner = planned(lambda x: visit(x * 2) + x, numbers(1000))
    x = numbers(1000, seed=1)
    expected = (x * 3).numpy().copy()

    def replace(_):
        x.data = flambeau.zeros(1000)
        flambeau.full((1000,), 7.0)  # where the former memory would be taken again

    visitors.append(replace)
    np.testing.assert_allclose(runner(x).numpy(), expected, rtol=1e-6)


def test_results_do_not_outlive_their_last_reference():
    runner = planned(lambda x: (x.sort()[0] * 2, x.sort()[1]), numbers(500))
    before = held()
    for _ in range(5):
        runner(numbers(500, seed=1))
    assert held() == before
    dead = weakref.ref(runner(numbers(500))[0])
    assert dead() is None


def test_threads_share_a_runner_whose_calls_are_python():
    runner = planned(lambda x: (x @ x).sort(-1)[0].relu() @ x, numbers(24, 24))
    inputs = [numbers(24, 24, seed=k) for k in range(4)]
    expected = [runner(x).numpy().copy() for x in inputs]
    wrong = []

    def work(k):
        for _ in range(60):
            if not np.array_equal(runner(inputs[k]).numpy(), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def _in_child(runner, x, queue):
    queue.put(runner(x).numpy().tolist())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_runner_goes_on_after_a_fork():
    runner = planned(lambda x: (x @ x).relu().sum(0), numbers(200, 200))
    x = numbers(200, 200, seed=1)
    expected = runner(x).tolist()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(runner, x, queue))
    child.start()
    assert queue.get(timeout=60) == expected
    child.join(60)
    assert child.exitcode == 0 and runner(x).tolist() == expected


# --- signals ---
def long_runner():
    """A plan that takes seconds in one stretch of launches, and its input."""

    def function(x):
        y = x
        for _ in range(400):
            y = y @ x
        return y

    x = numbers(500, 500) * 0.01
    return planned(function, flambeau.zeros(500, 500)), x


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_an_interrupt_in_the_middle_of_a_plan():
    runner, x = long_runner()
    assert all("Product" in repr(step) for step in runner.steps)
    before = held()

    def interrupt(*_):
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, interrupt)
    begin = time.monotonic()
    runner(x)
    whole = time.monotonic() - begin
    try:
        signal.setitimer(signal.ITIMER_REAL, whole / 20)
        with pytest.raises(KeyboardInterrupt):
            runner(x)
            pytest.fail("the run was not interrupted")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert held() == before
    assert (flambeau.ones(3) + 1).tolist() == [2, 2, 2]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_handler_may_run_the_same_runner():
    runner, x = long_runner()
    expected, inside = runner(x).numpy().copy(), []
    former = signal.signal(signal.SIGALRM, lambda *_: inside.append(runner(x).numpy()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        found = runner(x).numpy()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    np.testing.assert_array_equal(found, expected)
    assert len(inside) == 1
    np.testing.assert_array_equal(inside[0], expected)


# --- random numbers ---
def test_random_numbers_are_those_of_eager():
    generator = flambeau.Generator()

    def function(x):
        y = F.dropout(x, 0.3) + flambeau.randn(4, 5)
        z = flambeau.rand_like(x) * flambeau.randint(0, 9, (4, 5))
        return y * 2, z, flambeau.randn(3, generator=generator), flambeau.randperm(6), x.clone().normal_()

    x = numbers(4, 5)
    generator.manual_seed(1)
    flambeau.manual_seed(1)
    runner = planned(function, x)
    for seed in (1, 2):
        y = numbers(4, 5, seed=seed)
        flambeau.manual_seed(seed)
        generator.manual_seed(seed)
        expected = [t for _ in range(3) for t in function(y)]
        flambeau.manual_seed(seed)
        generator.manual_seed(seed)
        found = [t for _ in range(3) for t in runner(y)]
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        state = flambeau.get_rng_state()
        flambeau.manual_seed(seed)
        for _ in range(3):
            function(y)
        assert flambeau.equal(state, flambeau.get_rng_state())


def test_calls_are_not_cast_again():
    function = lambda x, w: F.linear(x, w).sort(-1)[0].matmul(w)
    x, w = numbers(8, 8), numbers(8, 8, seed=1)
    with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
        runner = planned(function, x, w)
        expected = function(x, w)
    for on in (True, False):
        with flambeau.autocast("cpu", dtype=flambeau.bfloat16, enabled=on):
            found = runner(x, w)
        assert found.dtype == flambeau.bfloat16
        np.testing.assert_array_equal(found.float().numpy(), expected.float().numpy())
