"""Calls that compute the same are one, and only these."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.graph.lower import _is_pure, plan
from flambeau.graph.passes import rematerialize as passes
from flambeau.graph.passes.common import share
from flambeau.graph.program import Program
from flambeau.graph.trace import mapped, record


def names(function, *tensors):
    program = Program(record(function, *(t.clone() for t in tensors))[0])
    share(program, _is_pure)
    return [c.name for c in program.calls]


def tensors(result):
    found = []
    mapped(result, torch.Tensor, found.append)
    return found


def same(function, *given):
    """A plan gives what calls do, twice, and as many memories as they do; what it returns can be written to."""
    runner = plan(Program(record(function, *(t.clone() for t in given))[0]))
    for scale in (1.0, 0.5):
        here, there = ([t * scale if t.is_floating_point() else t.clone() for t in given] for _ in range(2))
        found, expected = tensors(runner(*here)), tensors(function(*there))
        for a, b in zip((*found, *here), (*expected, *there), strict=True):
            assert (a.dtype, a.stride()) == (b.dtype, b.stride())
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
        memories = [len({t.untyped_storage().data_ptr() for t in ts}) for ts in (found, expected)]
        assert memories[0] == memories[1]
        for t in found:
            kept = [
                u.clone() for u in found if u.untyped_storage().data_ptr() != t.untyped_storage().data_ptr()
            ]
            t.fill_(7)
            now = [u for u in found if u.untyped_storage().data_ptr() != t.untyped_storage().data_ptr()]
            assert all(u.equal(k) for u, k in zip(now, kept, strict=True))
    return runner


X = torch.arange(16.0).reshape(4, 4).sub(7.5).div(8)
K = torch.arange(16).reshape(4, 4)


def check(function, wanted, *given):
    assert names(function, *given) == wanted
    same(function, *given)


def test_one_operation_on_the_same_operands():
    check(lambda x: (x @ x).exp() + (x @ x), ["matmul", "exp", "add"], X)
    check(
        lambda x: x.softmax(-1) * x.sum(-1) + x.softmax(-1).T * x.sum(-1),
        ["softmax", "sum", "mul", "mul", "add"],
        X,
    )
    check(lambda x: x.sort().values + x.sort().indices, ["sort", "add"], X)
    check(lambda x, k: x.gather(1, k % 4) + x.gather(1, k % 4), ["remainder", "gather", "add"], X, K)


def test_what_follows_from_the_same_is_the_same():
    check(lambda x: ((x @ x) @ x).sum() + ((x @ x) @ x).mean(), ["matmul", "matmul", "sum", "mean", "add"], X)
    check(lambda x: (x * 2).exp().sum() + (x * 2).exp().sum(), ["mul", "exp", "sum", "add"], X)


def test_equal_views_of_one_memory():
    check(lambda x: x.T @ x + x.mT @ x, ["matmul", "add"], X)
    check(lambda x: x[1:] @ x + x[:3] @ x, ["matmul", "matmul", "add"], X)
    check(lambda x: (x @ x)[0].exp() + (x @ x)[0].exp(), ["matmul", "exp", "add"], X)
    check(lambda x: x.T.exp() @ x + x.exp() @ x, ["exp", "matmul", "exp", "matmul", "add"], X)


def test_views_of_what_is_gone_are_views_of_what_stays():
    check(lambda x: (x @ x)[1:, ::2].sum(0) + (x @ x).T[::2, 1:].sum(1), ["matmul", "sum", "sum", "add"], X)
    check(lambda x: ((x @ x).sum(), (x @ x)[1:]), ["matmul", "sum"], X)


def test_short_elementwise_calls_are_computed_where_they_are_read():
    check(lambda x: ((x * 2).sum(0), (x * 2).sum(1)), ["mul", "sum", "mul", "sum"], X)
    check(lambda x: ((x.exp()).sum(0), (x.exp()).sum(1)), ["exp", "sum", "sum"], X)


def test_unless_they_are_in_memory_anyway():
    check(lambda x: (x.half() @ x.half()).float(), ["half", "matmul", "float"], X)
    check(lambda x: (x.double().sum(1), x.double()), ["double", "sum"], X)


def test_results_stay_two():
    check(lambda x: (x @ x, x @ x), ["matmul", "matmul"], X)
    check(lambda x: (x @ x, (x @ x).T), ["matmul", "matmul"], X)
    check(lambda x: (x.exp(), x.exp(), x.exp().sum()), ["exp", "exp", "sum"], X)


def test_writes_between_keep_calls_apart():
    def to_an_operand(x):
        before = (x @ x).sum()
        x.add_(1)
        return before + (x @ x).sum()

    def to_the_first(x):
        a = x @ x
        a.mul_(2)
        return a + x @ x

    def to_the_second(x):
        a, b = x @ x, x @ x
        b.mul_(2)
        return a + b

    def through_a_view(x):
        a, b = x @ x, x @ x
        b[0].zero_()
        return a + b

    def after_both_are_read(x):
        y = (x @ x) + (x @ x)
        x.zero_()
        return y

    for function in (to_an_operand, to_the_first, to_the_second, through_a_view):
        assert names(function, X).count("matmul") == 2
        same(function, X)
    check(after_both_are_read, ["matmul", "add", "zero_"], X)


@pytest.mark.parametrize(
    "a, b",
    [(True, 1), (1, 1.0), (0.0, -0.0), (2, 2.5), (float("inf"), float("-inf"))],
)
def test_arguments_of_other_classes_or_bits_are_others(a, b):
    check(
        lambda k: (k * a).double().cumsum(0) + (k * b).double().cumsum(0),
        ["mul", "double", "cumsum"] * 2 + ["add"],
        K,
    )
    check(lambda x: (x + a).cumsum(0) / (x + b).cumsum(0), ["add", "cumsum"] * 2 + ["div"], X)


def test_equal_arguments_are_equal():
    nan = float("nan")
    check(lambda x: x.nan_to_num(nan) @ x + x.nan_to_num(nan) @ x, ["nan_to_num", "matmul", "add"], X)
    check(lambda x: x.sum((0, 1), keepdim=True) + x.sum((0, 1), keepdim=True), ["sum", "add"], X)
    check(lambda x: x.sum(0, keepdim=True) + x.sum(0), ["sum", "sum", "add"], X)
    check(lambda x: x.sum(0, dtype=torch.float64) + x.sum(0), ["sum", "sum", "add"], X)


def test_random_calls_stay():
    function = lambda x: x + torch.rand_like(x) + torch.rand_like(x)
    assert names(function, X).count("rand_like") == 2
    dropped = lambda x: torch.nn.functional.dropout(x, 0.5) + torch.nn.functional.dropout(x, 0.5)
    drawing = [n for n in names(dropped, X) if n not in ("add", "mul", "div")]
    assert len(drawing) == 2
    runner = plan(Program(record(dropped, X)[0]))
    torch.manual_seed(3)
    wanted = dropped(X)
    torch.manual_seed(3)
    assert runner(X).equal(wanted)


def test_numbers_that_vary():
    """One that is read at each call is equal to itself alone."""

    def function(x, a, b):
        return (x * a).exp().sum(0) + (x * b).exp().sum(0) + (x * a).exp().sum(1)

    compiled = torch.compile(function)
    for a, b in ((1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (3.0, 4.0), (0.5, 0.25)):
        torch.testing.assert_close(compiled(X, a, b), function(X, a, b))
    assert [s.name for s in compiled.entries[-1].launch.report.steps].count("kernel: exp") <= 1
    assert len(compiled.entries) <= 3


def test_gradients_are_those_of_calls():
    x = X.clone().requires_grad_()
    function = lambda x: ((x @ x).softmax(-1) * (x @ x).softmax(-1).T).sum() + (x @ x).exp().sum()
    compiled = torch.compile(function)
    for _ in range(2):
        a, b = (torch.autograd.grad(f(x), x)[0] for f in (function, compiled))
        torch.testing.assert_close(a, b)


def test_what_backward_computes_again_stays(monkeypatch):
    """`rematerialize` comes after: calls that it doubles are not made one again."""
    monkeypatch.setattr(passes, "WORTH", 0)

    def step(x, w):
        w.grad = None
        hidden = (x @ w).tanh().exp()
        (hidden.sin() * hidden.cos()).sum().backward()
        return w.grad.clone()

    w = torch.linspace(-1, 1, 64 * 64).reshape(64, 64).requires_grad_()
    x = torch.linspace(0, 1, 64 * 64).reshape(64, 64)
    compiled = torch.compile(step, fullgraph=True)
    wanted = step(x, w)
    for _ in range(3):
        torch.testing.assert_close(compiled(x, w), wanted)
    calls = [c for s in compiled.entries[-1].launch.report.steps for c in s.calls]
    assert any(c.again for c in calls)
