"""Checkpointed regions in compiled functions: captured whole, with the numbers of plain calls, and with no more memory."""

from __future__ import annotations

import functools
import gc

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.backends import random as streams
from flambeau.graph.drawing import drawn_again, state_before
from flambeau.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

torch.manual_seed(0)
NET = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 6), nn.LayerNorm(6))
DEEP = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.2)) for _ in range(4)))
W = torch.randn(6, 6, requires_grad=True)
PARAMETERS = [*NET.parameters(), *DEEP.parameters(), W]
again = functools.partial(checkpoint, use_reentrant=False)
kept = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])


class Entered:
    """A context of the program's own."""

    def __init__(self, scale):
        self.scale = scale

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def in_context(x):
    return again(lambda a: a.sin(), x, context_fn=lambda: (Entered(1), Entered(2)))


def inner(x):
    return again(NET, x).tanh()


CHECKPOINTED = {
    "function": lambda x: again(torch.sin, x),
    "module": lambda x: again(NET, x).square(),
    "numbers that are not preserved": lambda x: again(lambda t: (t @ W).exp(), x, preserve_rng_state=False),
    "one in another": lambda x: again(inner, x) * 2,
    "one after another": lambda x: again(NET, again(NET, x)),
    "keywords": lambda x: again(lambda a, b=1: a.sin() * b, x, b=3.0),
    "several results": lambda x: again(lambda a: (a.sin(), [a.cos()]), x)[1][0],
    "segments": lambda x: checkpoint_sequential(DEEP, 3, x, use_reentrant=False),
    "reentrant": lambda x: checkpoint(NET, x, use_reentrant=True),
    "selective": lambda x: again(lambda a: (a @ W).exp().sin(), x, context_fn=kept),
    "contexts": in_context,
    "not recorded": lambda x: torch.no_grad()(lambda: again(NET, x))(),
    "written in place": lambda x: again(lambda a: (a * 2).mul_(a).add_(1).relu_(), x),
    "views": lambda x: again(lambda a: a.exp().T.reshape(-1).sin()[3:].cos(), x),
    "sorted": lambda x: again(lambda a: a.sort(-1).values.cumsum(-1), x),
    "parts": lambda x: again(lambda a: sum(c.exp() for c in (a @ W).chunk(2, -1)), x),
    "draws": lambda x: again(lambda a: (a * torch.rand_like(a)).exp() + torch.randn(6), x),
    "draws between draws": lambda x: torch.rand(6) * again(NET, x) + torch.rand(6) * again(NET, x).exp(),
}


def numbers_of(function, seed, required):
    """Result, gradients, and where the generator stands behind forward and behind backward."""
    torch.manual_seed(seed)
    for p in PARAMETERS:
        p.grad = None
    x = (torch.arange(30.0).reshape(5, 6) / 7 + seed).requires_grad_(required)
    y = function(x)
    states = [torch.get_rng_state()]
    if y.requires_grad:
        y.square().sum().backward()
    return [y, x.grad, *(p.grad for p in PARAMETERS), *states, torch.get_rng_state()]


def same(found, plain):
    for a, b in zip(plain, found, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.requires_grad == b.requires_grad
            torch.testing.assert_close(b, a)


@pytest.mark.parametrize("name", CHECKPOINTED)
@pytest.mark.parametrize("required", [False, True])
def test_is_captured_whole(name, required):
    function = CHECKPOINTED[name]
    required = required or name == "reentrant"
    compiled = torch.compile(function, fullgraph=True)
    for k in range(3):
        same(numbers_of(compiled, k, required), numbers_of(function, k, required))
    assert compiled.captures == 1 and compiled.entries[0].hits == 2 and compiled.entries[0].why is None


@pytest.mark.parametrize("name", ["module", "segments", "draws"])
def test_the_stream_of_numbers_may_change_behind_the_capture(name):
    function, before = CHECKPOINTED[name], streams.get_stream()
    compiled = torch.compile(function, fullgraph=True)
    try:
        for k, stream in enumerate(("philox", "pytorch", "philox", "pytorch")):
            streams.set_stream(stream)
            same(numbers_of(compiled, k, True), numbers_of(function, k, True))
    finally:
        streams.set_stream(before)
    assert compiled.captures == 1


def test_a_gradient_is_taken_twice():
    function = CHECKPOINTED["module"]
    compiled = torch.compile(function, fullgraph=True)
    torch.manual_seed(3)
    x = torch.randn(5, 6, requires_grad=True)
    for _ in range(2):
        loss = compiled(x).square().sum()
        first = torch.autograd.grad(loss, x, retain_graph=True)[0]
        torch.rand(7)
        assert torch.equal(torch.autograd.grad(loss, x)[0], first)


def test_warnings_and_errors_are_those_of_plain_calls():
    compiled = torch.compile(lambda x: checkpoint(torch.sin, x))
    for _ in range(2):
        with pytest.warns(UserWarning, match="use_reentrant parameter"):
            assert torch.equal(compiled(torch.ones(2, requires_grad=True)), torch.ones(2).sin())
    wrong = torch.compile(lambda x: again(torch.sin, x, determinism_check="all"), fullgraph=True)
    with pytest.raises(ValueError, match="determinism_check"):
        wrong(torch.ones(2))


def test_a_draw_is_made_again_where_the_generator_stood():
    for stream in ("philox", "pytorch"):
        before = streams.get_stream()
        try:
            streams.set_stream(stream)
            torch.manual_seed(1)
            torch.rand(3)
            state = state_before()
            drawn = torch.randn(5)
            now = torch.get_rng_state()
            assert torch.equal(drawn_again(state, torch.randn, 5), drawn)
            with pytest.raises(RuntimeError):
                drawn_again(state, torch.randn, -1)
            assert torch.equal(torch.get_rng_state(), now)
        finally:
            streams.set_stream(before)


# --- memory -------------------------------------------------------------------
def peak_of(function):
    for _ in range(3):
        function()
    gc.collect()
    torch.cpu.reset_peak_memory_stats()
    before = torch.cpu.memory_stats()["allocated_bytes"]
    function()
    return torch.cpu.memory_stats()["peak_allocated_bytes"] - before


def layer(dropout):
    wide = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Dropout(dropout))
    return nn.Sequential(*wide, nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 64))


def transformer(dropout):
    return nn.TransformerEncoderLayer(64, 4, 256, dropout=dropout, batch_first=True, norm_first=True)


@pytest.mark.parametrize("make", [layer, transformer])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("whole", [False, True])
def test_memory_is_no_more_than_that_of_plain_calls(make, dropout, whole):
    torch.manual_seed(0)
    layers = nn.ModuleList(make(dropout) for _ in range(4))
    x = torch.randn(16, 64, 64)
    optimizer = torch.optim.SGD(layers.parameters(), lr=1e-3)

    def loss_of(x, checkpointed):
        for block in layers:
            x = x + (again(block, x) if checkpointed else block(x))
        return x.square().mean()

    def step_with(loss_of, checkpointed):
        def step():
            optimizer.zero_grad()
            loss = loss_of(x, checkpointed)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    compiled = torch.compile(loss_of, fullgraph=True)
    plain = peak_of(step_with(loss_of, True))
    if whole:
        found, without = (
            peak_of(torch.compile(step_with(loss_of, c), fullgraph=True)) for c in (True, False)
        )
    else:
        found, without = (peak_of(step_with(compiled, c)) for c in (True, False))
    assert found <= 1.02 * plain and found < 0.6 * without
