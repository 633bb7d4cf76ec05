"""Backward passes of compiled functions of which some results have no gradient: what eager calls give, infinite slopes included."""

from __future__ import annotations

import itertools

import pytest

import flambeau as torch
from flambeau.graph.trace import record
from flambeau.graph.undefined import without

F = torch.nn.functional


def slopes(x, w):
    y = x * 2
    return y + 1, y.log(), y.sqrt()


def parted(x, w):
    a, b = (x @ w).chunk(2, 1)
    return a * 2, b.log(), (a / a).sum()


def one_input_each(x, w):
    return x.sin(), (w / w).sum()


def normed(x, w):
    y = x @ w
    return F.layer_norm(y, (4,)), y.log(), y[:, 1].clone(), torch.stack([y.sqrt(), y])


def stacked(x, w):
    y = x * 3
    both = torch.cat([y.log(), y])
    return both[:3].clone(), both[3:].clone(), y.norm()


def halved(x, w):
    y = (x * 2).to(torch.bfloat16)
    return y.float(), y.log(), x.expand(2, 3, 4).sqrt()


def gradients(f, used, dtype):
    x = torch.zeros(3, 4, dtype=dtype, requires_grad=True)
    w = torch.eye(4, dtype=dtype, requires_grad=True)
    for _ in range(2):
        x.grad = w.grad = None
        made = f(x, w)
        sum(made[k].double().mul(k + 1).sum() for k in used).backward()
    return x.grad, w.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "function", [slopes, parted, one_input_each, normed, stacked, halved], ids=lambda f: f.__name__
)
def test_results_that_are_not_used_have_no_gradient(function, dtype):
    compiled = torch.compile(function, fullgraph=True)
    count = len(function(torch.ones(3, 4, dtype=dtype), torch.eye(4, dtype=dtype)))
    for size in range(1, count + 1):
        for used in itertools.combinations(range(count), size):
            for got, want in zip(gradients(compiled, used, dtype), gradients(function, used, dtype)):
                assert (got is None) == (want is None), used
                if want is not None:
                    torch.testing.assert_close(got, want, equal_nan=True, msg=f"{used}: {got} for {want}")


def test_a_pass_may_run_again_without_a_result():
    compiled = torch.compile(slopes)
    x, w = torch.zeros(3, 4, requires_grad=True), torch.eye(4)
    for _ in range(2):
        first, second, _ = compiled(x, w)
        for _ in range(2):
            (got,) = torch.autograd.grad(first.sum(), x, retain_graph=True)
            assert got.tolist() == [[2.0] * 4] * 3
        (got,) = torch.autograd.grad(second.sum(), x)
        assert got.isinf().all()


def test_a_graph_that_writes_keeps_zeros():
    def f(a, b):
        return (a.clone().add_(b),)

    graph, _ = record(f, torch.ones(2), torch.ones(2))
    assert without(graph, 2, [1]) is None


def test_nothing_is_left_where_all_are_undefined():
    graph, _ = record(lambda a, x: (a * x,), torch.ones(2), torch.ones(2))
    assert without(graph, 1, [0]) is None
