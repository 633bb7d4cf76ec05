"""Recurrent layers on the accelerator of the tests, against the CPU: values, gradients, and how many kernels a step takes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils.rnn import pack_padded_sequence
from flambeau.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parent))

from accelerator import DEVICE, array  # noqa: E402

KINDS = {
    "lstm": lambda **more: nn.LSTM(4, 5, **more),
    "gru": lambda **more: nn.GRU(4, 5, **more),
    "tanh": lambda **more: nn.RNN(4, 5, **more),
    "relu": lambda **more: nn.RNN(4, 5, nonlinearity="relu", **more),
}
SIZES = [6, 4, 4, 1]


def results(module, x, packed):
    """Outputs, last states, and the gradients of all parameters and the input."""
    x = x.detach().requires_grad_()
    module.zero_grad()
    given = pack_padded_sequence(x, flambeau.tensor(SIZES)) if packed else x
    outputs, states = module(given)
    outputs = outputs.data if packed else outputs
    states = states if isinstance(states, tuple) else (states,)
    total = sum(
        (y * flambeau.linspace(-1, 2, y.numel(), dtype=y.dtype).reshape(y.shape).to(y.device)).sum()
        for y in (outputs, *states)
    )
    total.backward()
    return [outputs, *states, x.grad, *(p.grad for p in module.parameters())]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_values_and_gradients(kind, packed):
    for more in ({}, {"num_layers": 2, "bidirectional": True}, {"bias": False}):
        flambeau.manual_seed(0)
        module, x = KINDS[kind](**more).double(), flambeau.randn(6, 4, 4).double()
        wanted = results(module, x, packed)
        actual = results(module.to(DEVICE), x.to(DEVICE), packed)
        for a, b in zip(actual, wanted, strict=True):
            np.testing.assert_allclose(array(a), array(b), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["gru", "tanh", "relu"])
def test_derivatives_of_second_order(kind):
    flambeau.manual_seed(1)
    module = KINDS[kind]().double().to(DEVICE)
    x = flambeau.randn(3, 2, 4).double().to(DEVICE).requires_grad_()

    def gradient(x):
        return flambeau.autograd.grad(module(x)[0].pow(2).sum(), x, create_graph=True)[0]

    (second,) = flambeau.autograd.grad(gradient(x).sum(), x)
    step = flambeau.zeros(3, 2, 4).double()
    step[1, 0, 2] = 1e-5
    step = step.to(DEVICE)
    slope = (gradient(x + step).sum() - gradient(x - step).sum()) / 2e-5
    assert abs(float(slope) - float(second[1, 0, 2])) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_two_kernels_a_step(kind):
    """Forwards and backwards, whatever the number of steps."""
    module, counts = KINDS[kind]().to(DEVICE), []
    for steps in (5, 25):
        module.zero_grad()
        x = flambeau.randn(steps, 2, 4).to(DEVICE)
        with profile(activities=[getattr(ProfilerActivity, DEVICE.type.upper())]) as forwards:
            output, _ = module(x)
        with profile(activities=[getattr(ProfilerActivity, DEVICE.type.upper())]) as backwards:
            output.sum().backward()
        counts.append([sum(not e.name.startswith("Mem") for e in p.events()) for p in (forwards, backwards)])
    assert [b - a for a, b in zip(*counts)] == [40, 40]


def test_no_sequences():
    for kind in KINDS:
        output, _ = KINDS[kind]().to(DEVICE)(flambeau.zeros(3, 0, 4).to(DEVICE))
        assert output.shape == (3, 0, 5)
