"""Convolutions in plans: prepared steps with the bits of calls, and what follows them in their tiles."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from flambeau.graph.convolution_step import ConvolutionStep
from flambeau.graph.runner import CallStep, LoopStep

import flambeau
from flambeau.graph.lower import plan
from flambeau.graph.program import Program
from flambeau.graph.trace import record

F = flambeau.nn.functional


def numbers(*shape, seed=0, dtype=flambeau.float32):
    return flambeau.tensor(np.random.default_rng(seed).normal(size=shape)).to(dtype)


def like(t):
    return flambeau.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t + 1)


def planned(function, *tensors):
    return plan(Program(record(function, *map(like, tensors))[0]))


def kinds(runner):
    return [type(s) for s in runner.steps]


WAYS = {  # input, filters, window, and how
    "winograd 4": ((1, 32, 14, 14), 32, 3, {"padding": 1}),
    "direct": ((2, 8, 9, 7), 16, 3, {"padding": 1}),
    "direct, in strides": ((1, 12, 11, 10), 24, 3, {"stride": 2, "padding": 1}),
    "direct, apart": ((1, 9, 12, 12), 20, 3, {"dilation": 2}),
    "direct, an uneven window": ((2, 6, 8, 8), 7, (1, 5), {"padding": (0, 2)}),
    "planes": ((8, 32, 28, 28), 32, 1, {}),
    "one pixel of many channels": ((3, 40, 5, 5), 33, 5, {"padding": 2}),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
@pytest.mark.parametrize("name", WAYS)
def test_a_convolution_has_the_bits_of_the_call(name, dtype, biased, last):
    shape, filters, window, how = WAYS[name]
    window = window if isinstance(window, tuple) else (window, window)
    x, w = numbers(*shape, dtype=dtype), numbers(filters, shape[1], *window, seed=1, dtype=dtype)
    x = x.contiguous(memory_format=flambeau.channels_last) if last else x
    given = (x, w, numbers(filters, seed=2, dtype=dtype)) if biased else (x, w)
    runner = planned(lambda *t: F.conv2d(*t, **how), *given)
    assert kinds(runner) == [ConvolutionStep]
    a, b = runner(*given), F.conv2d(*given, **how)
    assert a.shape == b.shape and a.stride() == b.stride()
    np.testing.assert_array_equal(a.numpy(), b.numpy())


ENDINGS = {
    "relu": lambda s, a, b: s.relu(),
    "affine": lambda s, a, b: s * a.view(-1, 1, 1) + b.view(1, -1, 1, 1),
    "batch_norm": lambda s, a, b: F.batch_norm(s, a, b.abs(), b, a).relu(),
    "clamped": lambda s, a, b: (s + 3).clamp(0, 6) / 6,
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", WAYS)
def test_what_follows_is_part_of_it(name, ending, last):
    shape, filters, window, how = WAYS[name]
    window = window if isinstance(window, tuple) else (window, window)
    x = numbers(*shape)
    x = x.contiguous(memory_format=flambeau.channels_last) if last else x
    w, bias = numbers(filters, shape[1], *window, seed=1), numbers(filters, seed=2)
    given = (x, w, bias, numbers(filters, seed=3), numbers(filters, seed=4))

    def program(x, w, bias, a, b):
        return ENDINGS[ending](F.conv2d(x, w, bias, **how), a, b)

    runner = planned(program, *given)
    steps = kinds(runner)
    assert steps[-1] is ConvolutionStep and steps.count(ConvolutionStep) == 1 and CallStep not in steps
    a, b = runner(*given), program(*given)
    assert a.stride() == b.stride()
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=1e-6 * max(float(b.abs().max()), 1.0))


@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda x, w: F.conv2d(x, w, groups=2), [(2, 8, 6, 6), (16, 4, 3, 3)]),
        (lambda x, w: F.conv1d(x, w), [(2, 8, 20), (16, 8, 3)]),
        (lambda x, w: F.conv_transpose2d(x, w), [(2, 8, 6, 6), (8, 16, 3, 3)]),
        (lambda x, w: F.conv2d(x, w.transpose(0, 1)), [(2, 8, 6, 6), (8, 16, 3, 3)]),
        (lambda x, w: F.conv2d(x[..., ::2], w), [(2, 8, 6, 12), (16, 8, 3, 3)]),
        (lambda x, w: F.conv2d(x.bfloat16(), w.bfloat16()).float(), [(2, 8, 6, 6), (16, 8, 3, 3)]),
        (lambda x, w: F.conv2d(x, w), [(0, 8, 6, 6), (16, 8, 3, 3)]),
        (lambda x, w: F.gelu(F.conv2d(x, w)), [(2, 8, 6, 6), (16, 8, 3, 3)]),
        (lambda x, w: F.conv2d(x, w) + x[:, :1, 1:-1, 1:-1], [(2, 8, 6, 6), (16, 8, 3, 3)]),
    ],
)
def test_others_are_computed_as_they_were(function, shapes):
    given = [numbers(*s, seed=k) for k, s in enumerate(shapes)]
    runner = planned(function, *given)
    np.testing.assert_array_equal(runner(*given).numpy(), function(*given).numpy())


def test_a_residual_block():
    n = flambeau.nn
    flambeau.manual_seed(3)
    net = n.Sequential(
        n.Conv2d(8, 8, 3, padding=1), n.BatchNorm2d(8), n.ReLU(), n.Conv2d(8, 8, 3, padding=1)
    ).eval()

    def block(x):
        with flambeau.no_grad():
            return (net(x) + x).relu()

    x = numbers(2, 8, 10, 10)
    runner = planned(block, x)
    assert kinds(runner)[-3:] == [ConvolutionStep, ConvolutionStep, LoopStep]
    np.testing.assert_allclose(runner(x).numpy(), block(x).numpy(), rtol=0, atol=1e-5)


def test_threads_of_kernels_and_of_callers():
    x, w = numbers(4, 16, 20, 20), numbers(32, 16, 3, 3, seed=1)
    runner = planned(lambda x, w: F.conv2d(x, w).relu(), x, w)
    before, expected = flambeau.get_num_threads(), runner(x, w).numpy()
    found = []
    try:
        for threads in (1, 2, 5):
            flambeau.set_num_threads(threads)
            callers = [threading.Thread(target=lambda: found.append(runner(x, w).numpy())) for _ in range(3)]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join()
    finally:
        flambeau.set_num_threads(before)
    assert len(found) == 9
    for one in found:
        np.testing.assert_array_equal(one, expected)
