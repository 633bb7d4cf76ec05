"""Where values of plans lie: places that do not overlap, in the memory of results and of what is given up, in place of what dies."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from flambeau.graph.record import Recording
from flambeau.graph.region import Region

import flambeau
from flambeau import nn
from flambeau.graph.lower import plan
from flambeau.graph.memory import Arena, Spot
from flambeau.graph.partition import region_of
from flambeau.graph.program import Program
from flambeau.graph.trace import record

F = nn.functional


def planned(function, *tensors, fused=True, donated=()):
    return plan(Program(record(function, *tensors)[0]), fused, donated)


def numbers(*shape, dtype=flambeau.float32, seed=0):
    return flambeau.tensor(np.random.default_rng(seed).normal(size=shape)).to(dtype)


def peak_of(function):
    """The most bytes that a call holds beside what was held before."""
    flambeau.cpu.reset_peak_memory_stats()
    before = flambeau.cpu.memory_stats()["allocated_bytes"]
    result = function()
    peak = flambeau.cpu.memory_stats()["peak_allocated_bytes"] - before
    del result
    return peak


def check_places(arena, lives, spots, lent):
    """Values alive at once do not overlap; those in others' memory live while that is free."""
    capacity = {key: nbytes for key, (nbytes, _, _) in lent.items()}
    for a, spot in spots.items():
        size, first, last = lives[a]
        assert spot.at % 64 == 0 and spot.at + size <= capacity.get(spot.home, arena.size)
        if spot.home is not None:
            _, after, before = lent[spot.home]
            assert after < first and last < before
        for b, other in spots.items():
            if a < b and first <= lives[b][2] and lives[b][1] <= last and spot.home == other.home:
                assert spot.at + size <= other.at or other.at + lives[b][0] <= spot.at


def test_places_do_not_overlap_while_both_live():
    random = np.random.default_rng(0)
    for _ in range(100):
        arena, lives, lent = Arena(), {}, {}
        for key in range(30):
            first = int(random.integers(0, 30))
            lives[key] = (int(random.integers(1, 1000)), first, first + int(random.integers(0, 10)))
        for key in range(30, 34):
            step = int(random.integers(0, 30))
            lent[key] = (
                (int(random.integers(1, 2000)), -1, step)
                if key % 2
                else (int(random.integers(1, 2000)), step, 99)
            )
        for step in range(40):
            for key, (nbytes, first, last) in lives.items():
                if step in (first, last):
                    arena.touch(key, nbytes, step)
        for key, (nbytes, after, before) in lent.items():
            arena.lend(key, nbytes, after, before)
        spots = arena.solve()
        assert set(spots) == set(lives)
        check_places(arena, lives, spots, lent)
        assert arena.bound() <= arena.size + sum(-(-n // 64) * 64 for n, _, _ in lent.values())


def test_a_value_takes_the_place_of_one_that_dies():
    arena = Arena()
    for step, (read, made) in enumerate([("x", "a"), ("a", "b"), ("b", "c")]):
        if step:
            arena.touch(read, 100, step)
        arena.touch(made, 100, step)
    arena.touch("c", 100, 3)
    assert arena.replace("b", "a") and arena.replace("c", "b")
    assert not arena.replace("c", "a")
    assert arena.solve() == {"a": Spot(None, 0), "b": Spot(None, 0), "c": Spot(None, 0)}
    assert arena.size == arena.bound() == 128


def test_what_dies_lies_where_the_result_will():
    arena = Arena()
    arena.touch("a", 100, 0)
    arena.touch("a", 100, 1)
    arena.touch("result", 100, 1)
    arena.lend("result", 100, before=1)
    assert arena.replace("result", "a")
    assert arena.solve() == {"a": Spot("result", 0)} and arena.size == 0


def test_a_value_that_is_larger_than_the_result_lies_elsewhere():
    arena = Arena()
    arena.touch("a", 200, 0)
    arena.touch("a", 200, 1)
    arena.touch("result", 100, 1)
    arena.lend("result", 100, before=1)
    assert not arena.replace("result", "a")
    assert arena.solve() == {"a": Spot(None, 0)} and arena.size == 256


def test_sizes_beyond_32_bits_and_empty_ones():
    arena = Arena()
    for key, nbytes in [("large", 3 << 31), ("empty", 0), ("other", 5 << 31)]:
        arena.touch(key, nbytes, 0)
    spots = arena.solve()
    assert spots["other"].at == 0 and spots["large"].at == 5 << 31 and spots["empty"].at == 8 << 31
    assert arena.size == (8 << 31) + 64


def test_a_chain_of_loops_needs_its_results_memory_alone():
    def chain(x):
        for _ in range(5):
            x = (x * 1.5).tanh()
        return x

    runner = planned(chain, numbers(300, 50), fused=False)
    assert len(runner.steps) == 10 and runner.nbytes == 0
    assert runner.memory.own == runner.memory.arena == 0
    x = numbers(300, 50, seed=1)
    np.testing.assert_array_equal(runner(x).numpy(), chain(x).numpy())
    assert peak_of(partial(runner, x)) == runner.memory.peak == runner.memory.results >= 60000


def test_a_result_of_another_geometry_or_width_is_not_in_place():
    function = lambda x: ((x + 1).T * 2, (x - 1).double() * 2)
    runner = planned(function, numbers(40, 60), fused=False)
    x = numbers(40, 60, seed=1)
    for a, b in zip(runner(x), function(x), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_an_operand_that_is_read_elsewhere_too_is_not_written_over():
    def shifted(x):
        y = x + 1
        return y[1:] * y[:-1] + y.sum()

    def twice(x):
        y = x * 2
        return y * y.T, y

    for function in (shifted, twice):
        runner = planned(function, numbers(30, 30), fused=False)
        x = numbers(30, 30, seed=1)
        expected = function(x)
        found = runner(x)
        for a, b in zip(
            found if isinstance(found, tuple) else (found,),
            expected if isinstance(expected, tuple) else (expected,),
        ):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_run_holds_what_the_plan_says():
    def function(x, w):
        y = (x @ w).relu()
        z = (y @ w).sort(-1)[0]
        return (z @ w).softmax(-1), z

    x, w = numbers(128, 128, seed=1), numbers(128, 128, seed=2)
    for fused in (False, True):
        runner = planned(function, x, w, fused=fused)
        runner(x, w)
        use, peak = runner.memory, peak_of(partial(runner, x, w))
        assert use.bound <= use.peak
        assert abs(peak - use.peak) <= 0.2 * use.peak + runner.workspace + 128 * 128 * 8  # indices of sort


def test_what_calls_return_dies_with_its_last_reader():
    def function(x):
        for _ in range(6):
            x = x.sort(-1)[0].flip(0)
        return x

    x = numbers(200, 200)
    runner = planned(function, x)
    runner(x)
    peak = peak_of(lambda: runner(x))
    assert runner.memory.calls <= peak <= 5 * 200 * 200 * 4


def test_inputs_that_are_given_up_hold_what_comes_after():
    function = lambda x, w: ((x @ w) @ w) @ w
    x, w = numbers(64, 64, seed=1), numbers(64, 64, seed=2)
    plain, runner = planned(function, x, w), planned(function, x, w, donated=[0])
    assert runner.nbytes < plain.nbytes
    expected, version = function(x, w).numpy(), x._version
    np.testing.assert_array_equal(runner(x, w).numpy(), expected)
    assert x._version == version + 1  # written over
    with pytest.raises(ValueError, match="donated"):
        planned(lambda x: (x + 1, x), x, donated=[0])


def test_results_lie_apart_from_the_arena_and_outlive_the_runner():
    function = lambda x: (((x @ x) @ x).exp(), (x @ x).sum(0))
    x = numbers(48, 48) * 0.1
    runner = planned(function, x)
    expected = [t.numpy() for t in function(x)]
    results = [runner(x) for _ in range(3)]
    del runner
    for found in results:
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=2e-6)
    assert len({t.data_ptr() for found in results for t in found}) == 6


def test_what_is_given_up_is_written_over_in_place_and_freed_where_nothing_holds_it():
    function = lambda x, y, w: (((x * 2).tanh() * 3) @ w, y.sum(0))
    x, y, w = numbers(64, 64), numbers(64, 64, seed=1), numbers(64, 64, seed=2)
    runner = planned(function, x, y, w, fused=False, donated=[0, 1])
    assert runner.nbytes == 0 < planned(function, x, y, w, fused=False).nbytes
    expected = [t.numpy() for t in function(x, y, w)]
    given, before = [x.clone(), y.clone(), w], flambeau.cpu.memory_stats()["allocated_bytes"]
    found = runner.consume(given)
    assert given == []
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    sizes = sum(t.numel() * 4 for t in found)
    assert flambeau.cpu.memory_stats()["allocated_bytes"] == before - 2 * 64 * 64 * 4 + sizes
    with pytest.raises(TypeError, match="takes 3 tensors"):
        runner.consume([x])


def test_backward_frees_what_the_region_saved_as_it_goes():
    def loss_of(x, *weights):
        for w in weights:
            x = (x @ w).tanh()
        return x.square().sum()

    x, weights = numbers(256, 64), [(numbers(64, 64, seed=k) * 0.2).requires_grad_() for k in range(8)]
    with Recording() as recording:
        loss = loss_of(x, *weights)
    region = region_of(recording, [x, *weights], [loss])
    assert isinstance(region, Region)
    eager = flambeau.autograd.grad(loss_of(x, *weights), weights)
    for retain in (True, False):  # what is kept is not written over
        (result,) = region(x, *weights)
        found = flambeau.autograd.grad(result, weights, retain_graph=retain)
        if retain:
            found = flambeau.autograd.grad(result, weights)
        for a, b in zip(found, eager, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    del found, eager, result, loss, recording
    compiled = peak_of(lambda: flambeau.autograd.grad(region(x, *weights)[0], weights))
    assert compiled < peak_of(lambda: flambeau.autograd.grad(loss_of(x, *weights), weights))


def test_saved_tensors_that_hooks_hold_are_not_written_over():
    x = numbers(40, 40).requires_grad_()
    with Recording() as recording:
        y = ((x @ x).tanh() @ x).exp().sum()
    region = region_of(recording, [x], [y])
    held: list = []

    def pack(t):
        held.append(t)
        return t

    with flambeau.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        (result,) = region(x)
    before = [t.clone() for t in held]
    flambeau.autograd.grad(result, x)
    assert held and all(flambeau.equal(a, b) for a, b in zip(held, before, strict=True))
