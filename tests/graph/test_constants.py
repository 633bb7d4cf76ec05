"""What follows from literals is computed once; what might change is not."""

from __future__ import annotations

import gc

import pytest

import flambeau as torch
from flambeau.graph.lower import _is_pure, plan
from flambeau.graph.options import Options
from flambeau.graph.passes import constants
from flambeau.graph.passes.constants import fold
from flambeau.graph.program import Program
from flambeau.graph.trace import mapped, record


def folded(function, *given):
    program = Program(record(function, *(t.clone() for t in given))[0])
    fold(program, _is_pure)
    return program


def names(function, *given):
    return [c.name for c in folded(function, *given).calls]


def kept(function, *given):
    return [tuple(v.shape) for v in folded(function, *given).constants()]


def tensors(result):
    found = []
    mapped(result, torch.Tensor, found.append)
    return found


def check(function, wanted, *given, constants=None):
    """The calls that are left, and results with the bits of calls, twice: what somebody writes to the first is not in the second."""
    assert names(function, *given) == wanted
    if constants is not None:
        assert kept(function, *given) == constants
    runner = plan(
        Program(record(function, *(t.clone() for t in given))[0]), options=Options(eager_numerics=True)
    )
    for _ in range(2):
        here, there = ([t.clone() for t in given] for _ in range(2))
        found, expected = tensors(runner(*here)), tensors(function(*there))
        for a, b in zip((*found, *here), (*expected, *there), strict=True):
            assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
            assert torch.equal(a.nan_to_num(7), b.nan_to_num(7)) and torch.equal(a.isnan(), b.isnan())
        for t in found:
            t.fill_(1)


X = torch.arange(16.0).reshape(4, 4).sub(7.5)


def test_calls_of_their_own_are_constants():
    check(lambda x: x + torch.full((4, 4), float("-inf")).triu(1), ["add"], X, constants=[(4, 4)])
    check(lambda x: x.masked_fill(torch.ones(4, 4).tril() == 0, -1e9), ["masked_fill"], X, constants=[(4, 4)])
    check(lambda x: x @ torch.eye(4), ["matmul"], X, constants=[(4, 4)])
    check(lambda x: x * torch.linspace(0, 1, 4), ["mul"], X, constants=[(4,)])
    check(lambda x: x[torch.arange(3, -1, -1)], ["__getitem__"], X)
    check(lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]).cumsum(0), ["add"], X, constants=[(4,)])
    check(lambda x: x + torch.cat([torch.zeros(2), torch.ones(2)]), ["add"], X, constants=[(4,)])
    check(lambda x: x + torch.arange(8.0).reshape(2, 4).sum(0), ["add"], X, constants=[(4,)])
    check(lambda x: x * torch.arange(8.0).sort(descending=True).values[2:6], ["mul"], X)


def test_positions():
    def encoded(x):
        place, rate = torch.arange(4.0)[:, None], torch.exp(torch.arange(0, 4, 2) * -2.3)
        return x + torch.stack([(place * rate).sin(), (place * rate).cos()], -1).flatten(-2)

    check(encoded, ["add"], X, constants=[(4, 2, 2)])


def test_one_number_is_a_fill():
    check(lambda x: x * torch.full((4, 4), 3.0).log(), ["full", "mul"], X, constants=[])
    check(lambda x: x / (torch.ones(()) / 3), ["full", "div"], X, constants=[])
    check(lambda x: x * torch.full((4,), 0.1, dtype=torch.float16).exp(), ["full", "mul"], X, constants=[])
    check(lambda x: x * (torch.ones(4, dtype=torch.int64) * 3).half(), ["full", "mul"], X, constants=[])
    check(lambda x: torch.maximum(x, -torch.zeros(4)), ["full", "maximum"], X - X, constants=[])
    check(lambda x: x * torch.full((4,), float("nan")).abs(), ["full", "mul"], X, constants=[])
    check(lambda x: torch.where(~(torch.zeros(4) > 0), x, -x), ["full", "neg", "where"], X, constants=[])


def test_fills_stay_fills():
    check(lambda x: x + torch.zeros(4, 4), ["zeros", "add"], X, constants=[])
    check(lambda x: (x + torch.ones_like(x)) @ x, ["ones_like", "add", "matmul"], X, constants=[])


def test_geometry_of_another_is_a_literal():
    check(lambda x: x.sin() * (torch.ones_like(x) / 3), ["sin", "full", "mul"], X, constants=[])
    check(lambda x: x + x.new_ones(4, 4).tril(), ["add"], X, constants=[(4, 4)])
    check(lambda x: x + torch.full_like(x.mT, 2.0).cumsum(1), ["add"], X, constants=[(4, 4)])


def test_gradients_begin_with_a_literal():
    def gradient(x):
        y = x.detach().requires_grad_()
        return torch.autograd.grad(y.sin().mean(), y)[0]

    assert "div" not in names(gradient, X)
    runner = plan(Program(record(gradient, X)[0]))
    assert repr(runner).startswith("Runner(1 kernel,") and runner(X * 2).equal(gradient(X * 2))


def test_results_are_new_at_each_run():
    check(lambda x: torch.eye(4), ["eye"], X, constants=[])
    check(lambda x: (torch.eye(4), x @ torch.eye(4)), ["eye", "matmul"], X)
    check(lambda x: (lambda m: (m, x + m.exp()))(torch.eye(4)), ["eye", "add"], X)
    check(lambda x: (lambda m: (m[1:], x + m))(torch.eye(4).tril()), ["tril", "add"], X)
    check(lambda x: (torch.ones(4).exp(), x), ["full"], X)


def test_what_is_written_to_is_no_constant():
    def written(x):
        mask = torch.ones(4, 4).tril()
        mask[0].add_(x[0])
        return mask * x

    def through_a_view(x):
        line = torch.arange(4.0)
        line[1:].mul_(2)
        return line + x, line.cumsum(0) + x

    def before(x):
        made = torch.zeros(4, 4)
        made.fill_diagonal_(3)
        return made.tril() + x

    for function in (written, through_a_view, before):
        assert kept(function, X) == []
        check(function, names(function, X), X)


def test_what_is_no_literal_is_no_constant():
    captured = torch.eye(4)
    program = folded(lambda x: x + captured.tril(), X)
    assert [c.name for c in program.calls] == ["tril", "add"]
    runner = plan(program)
    captured.fill_(2)
    assert runner(X).equal(X + captured.tril())
    for function in (lambda x: x + torch.rand(4).cumsum(0), lambda x: x + torch.randn_like(x).tril()):
        assert kept(function, X) == []
    torch.manual_seed(0)
    drawn = plan(Program(record(lambda x: x + torch.rand(4).cumsum(0), X)[0]))
    assert not drawn(X).equal(drawn(X))


def test_numbers_that_vary_are_no_literals():
    compiled = torch.compile(lambda x, k: x + torch.arange(4.0) * k)
    for k in (1.0, 2.0, 0.5, 3.0):
        assert compiled(X, k).equal(X + torch.arange(4.0) * k)


def test_what_readers_compute_in_less_time_than_they_load_it(monkeypatch):
    distances = lambda x: x + (torch.arange(4)[:, None] - torch.arange(4)).abs()
    check(distances, ["add"], X, constants=[(4, 4)])
    monkeypatch.setattr(constants, "SMALL", 8)
    check(distances, ["sub", "abs", "add"], X, constants=[(4,), (4,)])
    check(
        lambda x: x + torch.arange(16.0).reshape(4, 4).exp(), ["add"], X, constants=[(4, 4)]
    )  # of as many numbers
    monkeypatch.setattr(constants, "MOST", 8)
    assert kept(lambda x: x + torch.ones(4, 4).tril(), X) == []


def test_the_switch():
    function = lambda x: x + torch.ones(4, 4).tril()
    plain, folding = (
        torch.compile(function, options={"joint_graph_constant_folding": on}) for on in (False, True)
    )
    for compiled, calls in ((plain, 3), (folding, 1)):
        for _ in range(2):
            assert compiled(X).equal(function(X))
        assert len(compiled.entries[0].launch.report.home) == calls


def test_under_no_recording_of_others():
    """What is computed when a plan is made is part of no program, nor does it wait where calls wait."""
    function = lambda x: x * torch.ones(4, 4).tril().cumsum(0)
    with torch.lazy():
        for k in range(4):
            assert function(X + k).tolist() == (X + k).mul(torch.ones(4, 4).tril().cumsum(0)).tolist()
    with torch.inference_mode():
        compiled = torch.compile(function)
        compiled(X)
    x = X.clone().requires_grad_()
    for _ in range(2):
        assert torch.autograd.grad(compiled(x).sum(), x)[0].equal(torch.ones(4, 4).tril().cumsum(0))


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_halves_are_rounded_as_calls_round_them(half):
    dtype = getattr(torch, half)
    check(lambda x: x * (torch.arange(4, dtype=dtype) * 0.3 + 0.1), ["mul"], X.to(dtype), constants=[(4,)])
    check(
        lambda x: x * (torch.full((4,), 0.1, dtype=dtype) * 0.3 + 0.7),
        ["full", "mul"],
        X.to(dtype),
        constants=[],
    )


def test_a_plan_that_is_gone_keeps_nothing():
    compiled = torch.compile(lambda x: x + torch.ones(512, 512).tril())
    x = torch.ones(512, 512)
    for _ in range(2):
        compiled(x)
    gc.collect()
    before = torch.cpu.memory_stats()["allocated_bytes"]
    del compiled
    gc.collect()
    assert before - torch.cpu.memory_stats()["allocated_bytes"] >= 512 * 512 * 4
