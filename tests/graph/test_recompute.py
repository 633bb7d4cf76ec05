"""Small producers are computed where they are read."""

from __future__ import annotations

import flambeau
from flambeau.graph.lower import plan
from flambeau.graph.passes.recompute import recompute
from flambeau.graph.program import Program
from flambeau.graph.trace import record


def names(function, *tensors):
    program = Program(record(function, *tensors)[0])
    recompute(program)
    return [c.name for c in program.calls]


X = flambeau.arange(24.0).reshape(2, 3, 4) - 7.5
MASK = flambeau.ones(3, 4).tril() > 0


def same(function, *tensors, kernels):
    runner = plan(Program(record(function, *tensors)[0]))
    given = [t.clone() for t in tensors]
    assert runner(*given).equal(function(*(t.clone() for t in tensors)))
    assert repr(runner).startswith(f"Runner({kernels} kernel")


def test_a_mask_that_is_shared_is_negated_where_it_is_read():
    function = lambda x, mask: (x * 0.125).masked_fill(~mask, float("-inf")).softmax(-1)
    assert names(function, X, MASK) == ["mul", "masked_fill", "softmax"]
    same(function, X, MASK, kernels=1)


def test_fills_keep_nothing_waiting():
    def gradient(x):
        y = x.detach().requires_grad_()
        return flambeau.autograd.grad((y.sin() * y).sum(), y)[0]

    assert "new_ones" not in names(gradient, X)
    same(gradient, X, kernels=1)


def test_halves_are_rounded_all_the_same():
    w = flambeau.tensor([0.1, 0.2, 0.3, 0.7]).half()
    same(lambda x, w: x * (w * 1.7 - 0.3), X, w, kernels=1)


def test_what_stands_for_itself_stays():
    assert names(lambda x, w: x * w.exp(), X, X[0]) == ["exp", "mul"]  # long
    assert (
        names(lambda x, w: x * (1 / w), X, X[0])[-1] == "mul"
        and len(names(lambda x, w: x * (1 / w), X, X[0])) == 2
    )
    assert names(lambda x: (x * 2).exp(), X) == ["mul", "exp"]  # one kernel in any case

    def written(x, w):
        v = w * 2
        v[0].add_(1)
        return x * v

    assert names(written, X, X[0].clone()) == ["mul", "add_", "mul"]


def test_a_write_between_keeps_the_producer():
    def body(x, w):
        v = w * 2
        w.zero_()
        return x + v

    assert names(body, X, X[0].clone()) == ["mul", "zero_", "add"]
    same(body, X, X[0].clone(), kernels=2)


def test_what_is_returned_is_made_once_more():
    def body(x, mask):
        other = ~mask
        return x * other, other

    assert names(body, X, MASK) == ["bitwise_not", "mul"]


def test_calls_that_no_kernel_computes_find_fills_in_memory():
    runner = plan(Program(record(lambda x: x.cumsum(1) + flambeau.zeros(4).cumsum(0), X)[0]))
    assert runner(X * 2).equal((X * 2).cumsum(1))
    scattered = lambda x: (x + flambeau.ones(2, 3, 2, 3, 2)).sum((0, 2, 4))  # rows in three pieces
    x = flambeau.arange(72.0).reshape(2, 3, 2, 3, 2)
    assert plan(Program(record(scattered, x)[0]))(x * 2).equal(scattered(x * 2))
    assert plan(Program(record(lambda x: flambeau.ones(3, 4).sum(-1) + x, X[:, :, 0])[0]))(X[:, :, 0]).equal(
        X[:, :, 0] + 4
    )


def test_what_no_kernel_computes_again_has_new_memory():
    def filled(x):
        y = flambeau.full_like(x, 2.0)
        row = y.logsumexp(0)  # rows of no tensor: a call
        y.copy_(x)
        return y, row

    def viewed(x):
        y = flambeau.full_like(x, 2.0)
        row = y[1:].logsumexp(0)
        y.copy_(x)
        return y, row, y.mT.logsumexp(0)

    for function in (filled, viewed):
        runner = plan(Program(record(function, flambeau.zeros(3, 4))[0]))
        for a, b in zip(runner(X[0]), function(X[0]), strict=True):
            assert a.equal(b)


def test_random_numbers_stay_in_order_where_producers_are_computed_again():
    def function(x):
        return flambeau.dropout(x, 0.5, True) + flambeau.ones(4) * flambeau.rand_like(x)

    program = Program(record(function, X)[0])
    recompute(program)
    drawing = [c for c in program.calls if c.operation.entry.kind == "random"]
    assert len(drawing) == 2 and drawing[0] in drawing[1].after and drawing[1] not in drawing[0].after
    runner = plan(Program(record(function, X)[0]))
    flambeau.manual_seed(3)
    wanted = function(X)
    flambeau.manual_seed(3)
    assert flambeau.equal(runner(X), wanted)
