"""Modes and classes of tensors: who sees what, and what a recorded program is worth."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from flambeau.core.call.function import shown_derivative as derivative

import flambeau
from flambeau import nn
from flambeau.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "operations"))


def place(t):
    """What a tensor is to a recording: the same elements in the same memory are the same tensor."""
    return id(t.untyped_storage()), t.storage_offset(), tuple(t.shape), t.stride(), t.dtype


def mapped(x, change):
    if isinstance(x, flambeau.Tensor):
        return change(x)
    if isinstance(x, (list, tuple)):
        made = [mapped(y, change) for y in x]
        return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)
    if isinstance(x, dict):
        return {k: mapped(v, change) for k, v in x.items()}
    return x


class Recorder(TorchDispatchMode):
    """Writes down each operation with its arguments and results."""

    def __init__(self):
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = self.decompose(func, args, kwargs or {}) if func is not derivative else NotImplemented
        if found is not NotImplemented:
            return found
        found = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, found))
        return found

    def play(self, inputs, results):
        """The recorded program on other numbers: `inputs` are pairs of a tensor and what stands for it."""
        known = {place(old): new for old, new in inputs}

        def there(t):
            return known.get(place(t), t)

        with flambeau.no_grad():
            for func, args, kwargs, found in self.calls:
                again = func(*mapped(args, there), **mapped(kwargs, there))
                old, new = [], []
                mapped(found, old.append)
                mapped(again, new.append)
                for a, b in zip(old, new):
                    known[place(a)] = b
        return [there(t) for t in results]


def network():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.LayerNorm(5), nn.Linear(5, 3), nn.Softmax(-1))


PROGRAMS = {
    "add": lambda x: (x + 1).sum(),
    "views": lambda x: (x.t()[1:, ::2].reshape(-1) * 3).sum() + x.T.mean(),
    "softmax": lambda x: x.softmax(-1).square().sum(),
    "norm": lambda x: nn.functional.layer_norm(x, (4,)).exp().sum(),
    "products": lambda x: (x @ x.mT).tanh().sum(),
    "cat": lambda x: flambeau.cat([x, x * 2], 0).std(0).sum(),
    "split": lambda x: x.chunk(2, 1)[1].prod(1).sum(),
    "index": lambda x: (
        (x[flambeau.tensor([0, 2])] * x[:2]).sum()
        + x.gather(1, flambeau.zeros(3, 1, dtype=flambeau.int64)).sum()
    ),
    "written": lambda x: (x * 1).mul_(2).add_(x).sum(),
    "cumsum": lambda x: x.cumsum(1).amax(0).sum(),
    "expand": lambda x: (x[:1].expand(3, 4) * x).logsumexp(1).sum(),
    "loss": lambda x: nn.functional.cross_entropy(x, flambeau.tensor([0, 3, 1])),
    "conv": lambda x: nn.functional.conv1d(x[None], flambeau.ones(2, 3, 2)).sin().sum(),
    "pool": lambda x: (
        nn.functional.max_pool1d(x[None], 2).sum() + nn.functional.avg_pool1d(x[None], 2).square().sum()
    ),
}


def with_gradient(program, x):
    y = program(x)
    (g,) = flambeau.autograd.grad(y, x)
    return [y.detach(), g]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_recorded_program_gives_the_same_bits_on_other_numbers(name):
    program = PROGRAMS[name]
    flambeau.manual_seed(1)
    x, other = flambeau.randn(3, 4).requires_grad_(), flambeau.randn(3, 4).requires_grad_()
    recorder = Recorder()
    with recorder:
        results = with_gradient(program, x)
    found = recorder.play([(x, other.detach())], results)
    for a, b in zip(found, with_gradient(program, other)):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
