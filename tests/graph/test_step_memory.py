"""Memory that comes and goes while a plan runs: what whole steps take beside eager ones, and that nothing stays whatever happens."""

from __future__ import annotations

import gc
import signal
import threading
import time

import numpy as np
import pytest
from flambeau.graph.record import Recording

import flambeau as torch
from flambeau import nn
from flambeau.graph import assemble
from flambeau.graph.lower import plan
from flambeau.graph.partition import region_of
from flambeau.graph.passes import rematerialize as passes
from flambeau.graph.program import Program
from flambeau.graph.trace import record


def numbers(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape)).to(torch.float32)


def held():
    gc.collect()
    return torch.cpu.memory_stats()["allocated_bytes"]


def peak_of(function):
    """The most bytes that a call holds beside what was held before."""
    for _ in range(3):
        function()
    before = held()
    torch.cpu.reset_peak_memory_stats()
    function()
    return torch.cpu.memory_stats()["peak_allocated_bytes"] - before


def runner_of(compiled):
    return next(e.launch for e in compiled.entries if e.launch is not None)


def transformer(layers=2, width=128, dropout=0.0):
    torch.manual_seed(0)
    return nn.Sequential(
        *[
            nn.TransformerEncoderLayer(
                width, 4, 4 * width, dropout=dropout, batch_first=True, norm_first=True
            )
            for _ in range(layers)
        ]
    )


def step_of(net, shape):
    """A step of AdamW on numbers of a shape."""
    x, y = numbers(*shape), numbers(*shape, seed=1)
    optimizer = torch.optim.AdamW(net.parameters())

    def step():
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


# --- beside eager steps ---
@pytest.mark.parametrize(
    "make, shape, most",
    [
        (transformer, (8, 64, 128), 0.6),
        (lambda: transformer(dropout=0.1), (8, 64, 128), 0.6),
        (lambda: transformer(1, 256), (8, 128, 256), 0.7),
        (
            lambda: nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(4)]),
            (512, 256),
            0.6,
        ),
        (
            lambda: nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.Tanh()) for _ in range(3)]),
            (64, 512),
            1.01,
        ),
    ],
    ids=["transformer", "dropout", "one layer", "gelu", "weights"],
)
def test_a_compiled_step_takes_less_than_an_eager_one(make, shape, most):
    step = step_of(make(), shape)
    compiled = torch.compile(step, fullgraph=True)
    assert peak_of(compiled) <= most * peak_of(step)


def test_a_plan_says_what_a_step_takes():
    """To the byte: its peak less the gradients of the step before, which are let go of first."""
    net = transformer()
    compiled = torch.compile(step_of(net, (8, 64, 128)), fullgraph=True)
    peak = peak_of(compiled)
    assert peak == runner_of(compiled).memory.peak - sum(p.grad.nbytes for p in net.parameters())


def test_forward_and_backward_take_less_than_eager_ones():
    net, x = transformer(), numbers(8, 64, 128)
    weights = list(net.parameters())
    loss_of = lambda x, *weights: net(x).square().mean()
    with Recording() as recording:
        loss = loss_of(x, *weights)
    region = region_of(recording, [x, *weights], [loss])
    del loss, recording
    eager = lambda: torch.autograd.grad(loss_of(x, *weights), weights)
    compiled = lambda: torch.autograd.grad(region(x, *weights)[0], weights)
    for a, b in zip(compiled(), eager(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert peak_of(compiled) <= 0.7 * peak_of(eager)
    said = region.backward.memory.peak
    assert said <= peak_of(compiled) <= said + 256  # the loss, and its gradient


def test_gradients_are_freed_with_the_loss_still_there():
    """What a region saved is gone after its backward pass, whoever holds the result."""
    net, x = transformer(1), numbers(8, 64, 128)
    weights = list(net.parameters())
    with Recording() as recording:
        loss = net(x).square().mean()
    region = region_of(recording, [x, *weights], [loss])
    del loss, recording
    before = held()
    (result,) = region(x, *weights)
    saved = held() - before
    gradients = torch.autograd.grad(result, weights)
    left = held() - before - sum(g.nbytes for g in gradients)
    assert saved > 1 << 20 and left < 1 << 14


def test_attention_is_computed_again_and_layers_are_not():
    net = transformer()
    compiled = torch.compile(step_of(net, (8, 64, 128)), fullgraph=True)
    compiled()
    compiled()
    calls = [c for s in runner_of(compiled).report.steps for c in s.calls]
    names = [c.name for c in calls if c.again]
    assert names.count("softmax") == names.count("matmul") == 2 and "linear" not in names
    assert [c.name for c in calls].count("softmax") == 4


def test_steps_have_the_bits_of_those_that_keep_everything(monkeypatch):
    results = []
    for worth in (0, 1 << 60):
        monkeypatch.setattr(passes, "WORTH", worth)
        monkeypatch.setattr(assemble, "LARGE", 1 << 60 if worth else 1 << 12)
        net = transformer()
        compiled = torch.compile(step_of(net, (2, 48, 128)), fullgraph=True)
        losses = [compiled().item() for _ in range(3)]
        results.append((losses, [p.detach().numpy() for p in net.parameters()]))
    assert results[0][0] == results[1][0]
    for a, b in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_array_equal(a, b)


# --- runs ---
@torch.library.custom_op("step_memory_tests::visit", mutates_args=())
def visit(x: torch.Tensor) -> torch.Tensor:
    """What `VISITORS` says, then a copy."""
    for visitor in VISITORS:
        visitor(x)
    return x.clone()


VISITORS: list = []


@pytest.fixture
def visitors():
    yield VISITORS
    VISITORS.clear()


def program(x):
    """Values that come and go, a call in the middle, results before and after it."""
    early = (x @ x).tanh()
    y = early @ x
    for _ in range(3):
        y = visit(y.relu() @ x).sin()
    return early, (y @ x).softmax(-1), y.sum(-1)


def late_runner(size=128):
    runner = plan(Program(record(program, numbers(size, size))[0]))
    assert runner.memory.own > 0 and runner.memory.peak < 9 * size * size * 4
    return runner


def test_a_run_holds_what_is_alive(visitors):
    runner, x = late_runner(), numbers(128, 128, seed=1)
    seen = []
    visitors.append(lambda _: seen.append(held()))
    before = held()
    found, expected = runner(x), program(x)
    assert max(seen[:3]) - before <= 3 * (1 << 16)  # a result, an operand, and what the call reads
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=1e-6)
    assert [t.untyped_storage().nbytes() for t in found] == [t.nbytes for t in found]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("at", [0, 2])
def test_an_error_in_the_middle_leaves_nothing(visitors, error, at):
    runner, x = late_runner(), numbers(128, 128, seed=1)
    expected, count = [t.numpy() for t in runner(x)], [0]

    def refuse(_):
        count[0] += 1
        if count[0] % (at + 1) == 0:
            raise error

    visitors.append(refuse)
    before = held()
    for _ in range(3):
        with pytest.raises(error):
            runner(x)
        count[0] = 0
    assert held() == before
    visitors.clear()
    for a, b in zip(runner(x), expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


def test_a_call_that_keeps_its_argument(visitors):
    """Memory that somebody holds is not handed out again."""
    runner, x = late_runner(), numbers(128, 128, seed=1)
    kept = []
    visitors.append(lambda t: kept.append((t, t.numpy().copy())))
    runner(x)
    for t, then in kept:
        np.testing.assert_array_equal(t.numpy(), then)


def test_a_call_may_run_the_plan_that_it_is_in(visitors):
    runner, x = late_runner(), numbers(128, 128, seed=1)
    expected, inner, depth = [t.numpy().copy() for t in runner(x)], [], [0]

    def again(_):
        if depth[0] < 2:
            depth[0] += 1
            inner.append(runner(x))

    visitors.append(again)
    for found in (runner(x), *inner):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)
    assert len(inner) == 2


def test_threads_have_memory_of_their_own():
    runner = late_runner()
    inputs = [numbers(128, 128, seed=k) for k in range(3)]
    expected = [[t.numpy().copy() for t in runner(x)] for x in inputs]
    wrong = []

    def work(k):
        for _ in range(20):
            if not all(map(np.array_equal, [t.numpy() for t in runner(inputs[k])], expected[k])):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_many_short_stretches_look_at_signals():
    """No step takes long, and memory changes hands after each of them."""

    def function(x, w, state):
        a, b, c = x @ w, (x * 2) @ w, (x * 3) @ w
        early = (a.softmax(-1) * b.softmax(-1) * c.softmax(-1)).sum(-1)
        for _ in range(600):
            x = torch.softmax(x.T @ x, -1)
        state.add_(x.sum())
        return early, x.repeat(1, 8)

    given = numbers(128, 128) * 0.1, numbers(128, 1024), torch.zeros(())
    runner = plan(Program(record(function, *given)[0]))
    assert runner.memory.own > 0
    runner(*given)
    begin = time.monotonic()
    runner(*given)
    whole = time.monotonic() - begin

    def interrupt(*_):
        raise KeyboardInterrupt

    former, before, state = signal.signal(signal.SIGALRM, interrupt), held(), given[2].item()
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, whole / 3)
            runner(*given)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert held() == before
    assert given[2].item() == state  # what the run writes at its end
