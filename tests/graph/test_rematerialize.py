"""Values of forward that backward computes again: which, that results stay, and what memory a whole step takes."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.graph import costs
from flambeau.graph.passes import rematerialize as passes


@pytest.fixture
def whatever_waits(monkeypatch):
    """Small steps, too."""
    monkeypatch.setattr(passes, "WORTH", 0)


def plan_of(compiled):
    (entry,) = [e for e in compiled.entries if e.launch is not None][-1:]
    return getattr(entry.launch, "plan", entry.launch), entry


def network():
    torch.manual_seed(0)
    layer = lambda: nn.TransformerEncoderLayer(32, 2, 256, dropout=0.0, batch_first=True, norm_first=True)
    return nn.Sequential(layer(), layer())


def step_of(net, optimizer, clear=True, returns_loss=False):
    def step(x, y):
        if clear:
            optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss if returns_loss else loss.detach()

    return step


def run(compiled, clear=True, steps=4, returns_loss=False, sgd=False):
    net = network()
    make = (
        (lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))
        if sgd
        else (lambda p: torch.optim.AdamW(p, eps=1e-2))
    )
    step = step_of(net, make(net.parameters()), clear, returns_loss)
    step = torch.compile(step, fullgraph=True) if compiled else step
    random = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(steps):
        x, y = torch.randn(4, 16, 32, generator=random), torch.randn(4, 16, 32, generator=random)
        losses.append(step(x, y).item())
    return losses, [p.detach().numpy() for p in net.parameters()], step


@pytest.mark.parametrize("sgd", [False, True])
@pytest.mark.parametrize("returns_loss", [False, True])
@pytest.mark.parametrize("clear", [False, True])
def test_steps_are_those_of_eager(clear, returns_loss, sgd, whatever_waits):
    found, expected = run(True, clear, 4, returns_loss, sgd), run(False, clear, 4, returns_loss, sgd)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)


def test_cheap_values_are_computed_again(whatever_waits):
    net = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64))
    step = torch.compile(step_of(net, torch.optim.SGD(net.parameters(), lr=0.01)), fullgraph=True)
    for _ in range(3):
        step(torch.ones(256, 64), torch.zeros(256, 64))
    runner, _ = plan_of(step)
    assert [c.name for s in runner.report.steps for c in s.calls].count("gelu") == 2


def test_little_is_kept():
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
    step = torch.compile(step_of(net, torch.optim.SGD(net.parameters(), lr=0.01)), fullgraph=True)
    for _ in range(3):
        step(torch.ones(2, 4), torch.zeros(2, 4))
    runner, _ = plan_of(step)
    assert [c.name for s in runner.report.steps for c in s.calls].count("gelu") == 1


def test_what_is_written_to_meanwhile_is_kept(whatever_waits):
    """Backward reads what forward read, not what was written there since."""

    def step(x, w, state):
        y = (x * state).exp()
        state.add_(1)
        z = (y * w).sin().sum()
        w.grad = None
        z.backward()
        state.mul_(2)
        return w.grad.clone(), z.detach()

    compiled = torch.compile(step)
    results = []
    for f in (step, compiled):
        w, state = torch.full((64,), 0.5, requires_grad=True), torch.ones(64)
        results.append(
            [t.tolist() for _ in range(4) for t in f(torch.linspace(0, 0.1, 64), w, state)] + [state.tolist()]
        )
    np.testing.assert_allclose(
        np.concatenate([np.ravel(r) for r in results[1]]),
        np.concatenate([np.ravel(r) for r in results[0]]),
        rtol=1e-5,
    )


def peak(f, *args):
    for _ in range(3):
        f(*args)
    gc.collect()
    torch.cpu.reset_peak_memory_stats()
    before = torch.cpu.memory_stats()["allocated_bytes"]
    f(*args)
    return torch.cpu.memory_stats()["peak_allocated_bytes"] - before


@pytest.mark.parametrize("returns_loss", [False, True])
def test_gradients_that_a_step_clears_are_gone_while_it_runs(returns_loss):
    """Beside what lasts, a step has one set of gradients, not the old one and the new."""
    peaks = []
    for clears in (True, False):
        net = nn.Linear(512, 512, bias=False)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(x, optimizer=optimizer, net=net, clears=clears):
            if clears:
                optimizer.zero_grad()
            loss = net(x).sum()
            loss.backward()
            optimizer.step()
            return loss if returns_loss else loss.detach()

        compiled = torch.compile(step, fullgraph=True)
        peaks.append(peak(compiled, torch.ones(4, 512)))
        assert bool(plan_of(compiled)[1].early) == clears
    assert peaks[0] < 0.5 * 512 * 512 * 4  # the new gradient lies where the old one has been


def test_a_gradient_that_somebody_holds_stays():
    net = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    step = torch.compile(step_of(net, optimizer), fullgraph=True)
    x = torch.ones(2, 16)
    for _ in range(3):
        step(x, x)
        held = net.weight.grad
        seen = held.clone()
        step(x, x * 2)
        assert held is not net.weight.grad and torch.equal(held, seen)


def test_a_step_that_reads_the_old_gradient_before_it_clears_it():
    w = torch.ones(3, requires_grad=True)

    def step(x):
        before = torch.zeros(3) if w.grad is None else w.grad * 2
        w.grad = None
        (w * x).sum().backward()
        return before

    compiled = torch.compile(step)
    found = [compiled(torch.full((3,), float(k))).tolist() for k in range(5)]
    assert found == [[0] * 3, [0] * 3, [2.0] * 3, [4.0] * 3, [6.0] * 3]


def test_a_step_that_returns_the_old_gradient():
    w = torch.ones(3, requires_grad=True)

    def step(x):
        before = w.grad
        w.grad = None
        (w * x).sum().backward()
        return before

    compiled = torch.compile(step)
    found = [compiled(torch.full((3,), float(k))) for k in range(5)]
    assert found[0] is None and [t.tolist() for t in found[1:]] == [
        [0.0] * 3,
        [1.0] * 3,
        [2.0] * 3,
        [3.0] * 3,
    ]


def test_products_are_computed_again_within_a_budget():
    """The highest rate at which they are a small part of all; the lowest one, whatever they are then."""
    asked: list[int] = []

    def cut(rate):
        asked.append(rate)
        return rate

    assert costs.within_budget(costs.SHARE * 100, cut, lambda rate: rate) == 64
    assert asked == [256, 128, 64]
    assert costs.within_budget(0, cut, lambda rate: rate) == costs.RATES[-1]
