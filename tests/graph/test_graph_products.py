"""Products in plans: what declarations say of them, and prepared launches with the bits of calls."""

from __future__ import annotations

import numpy as np
import pytest
from flambeau.graph.runner import ProductStep

import flambeau
from flambeau.graph.lower import plan
from flambeau.graph.products import product_of
from flambeau.graph.program import Program
from flambeau.graph.trace import record
from flambeau.operations.declare.registry import REGISTRY

F = flambeau.nn.functional


def numbers(*shape, seed=0, dtype=flambeau.float32):
    return flambeau.tensor(np.random.default_rng(seed).normal(size=shape)).to(dtype)


CALLS = {
    "mm": (flambeau.mm, (3, 4), (4, 5)),
    "matmul": (flambeau.matmul, (2, 3, 4), (4, 5)),
    "matmul of stacks": (flambeau.matmul, (2, 1, 3, 4), (5, 4, 2)),
    "bmm": (flambeau.bmm, (2, 3, 4), (2, 4, 5)),
    "linear": (F.linear, (3, 4), (5, 4)),
    "linear of a stack": (F.linear, (2, 3, 4), (5, 4), (5,)),
    "linear with a bias": (F.linear, (3, 4), (5, 4), (5,)),
    "addmm": (lambda c, a, b: flambeau.addmm(c, a, b, beta=0.5, alpha=2), (3, 5), (3, 4), (4, 5)),
    "addmm of a row": (lambda c, a, b: flambeau.addmm(c, a, b, alpha=2), (5,), (3, 4), (4, 5)),
    "baddbmm": (lambda c, a, b: flambeau.baddbmm(c, a, b, beta=2), (2, 3, 5), (2, 3, 4), (2, 4, 5)),
    "transposed": (lambda a, b: a.T @ b.T, (4, 3), (5, 4)),
    "sliced": (lambda a, b: a[:, 1:] @ b[1:, ::2], (3, 5), (5, 6)),
    "one row": (flambeau.mm, (1, 4), (4, 1)),
    "no terms": (flambeau.mm, (3, 0), (0, 5)),
    "no rows": (F.linear, (0, 4), (5, 4), (5,)),
    "large": (flambeau.mm, (130, 70), (70, 90)),
}


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.bfloat16])
@pytest.mark.parametrize("name", CALLS)
def test_a_product_has_the_bits_of_the_call(name, dtype):
    function, *shapes = CALLS[name]
    runner = plan(Program(record(function, *(numbers(*s, dtype=dtype) for s in shapes))[0]))
    given = [numbers(*s, seed=k + 1, dtype=dtype) for k, s in enumerate(shapes)]
    a, b = runner(*given), function(*given)
    assert a.shape == b.shape and a.stride() == b.stride()
    np.testing.assert_array_equal(a.double().numpy(), b.double().numpy())
    if dtype is flambeau.float32:
        assert [type(step) for step in runner.steps] == [ProductStep]


def test_gradients_of_products_are_products():
    def step(x, w, g):
        y = F.linear(x, w)
        return flambeau.autograd.grad(y, (x, w), g)

    def made(seed):
        x, w = numbers(6, 4, seed=seed).requires_grad_(), numbers(5, 4, seed=seed + 1).requires_grad_()
        return x, w, numbers(6, 5, seed=seed + 2)

    runner = plan(Program(record(step, *made(0))[0]))
    assert sum(type(s) is ProductStep for s in runner.steps) >= 2
    for a, b in zip(runner(*made(7)), step(*made(7)), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("shape", [(3, 6, 4), (2, 3, 7, 4), (1, 5, 4), (16, 64, 96)])
@pytest.mark.parametrize("turned", [False, True])
def test_gradients_of_weights_of_stacks_are_one_product_with_the_bits_of_calls(shape, turned):
    """Where the stacked matrices lie one after another; a call where they do not."""

    def step(x, w, g):
        y = F.linear(x.mT if turned else x, w)
        return flambeau.autograd.grad(y, (w,), g)

    rows, columns = shape[-2:]
    if turned:
        rows, columns = columns, rows

    def made(seed):
        w = numbers(5, columns, seed=seed + 1).requires_grad_()
        return numbers(*shape, seed=seed), w, numbers(*shape[:-2], rows, 5, seed=seed + 2)

    program = Program(record(step, *made(0))[0])
    (gradient,) = [c for c in program.calls if c.name == "product_as"]
    assert (product_of(gradient) is None) == turned
    for a, b in zip(plan(program)(*made(7)), step(*made(7)), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize(
    "function, shapes",
    [
        (flambeau.matmul, [(4,), (4, 5)]),
        (flambeau.matmul, [(4,), (4,)]),
        (lambda a, b: flambeau.mm(a, b, out=flambeau.empty(3, 5)), [(3, 4), (4, 5)]),
        (lambda a, b: a.addmm_(a[:, :4], b), [(3, 5), (4, 5)]),
    ],
)
def test_other_calls_stay_calls(function, shapes):
    tensors = [numbers(*s) for s in shapes]
    program = Program(record(function, *(t.clone() for t in tensors))[0])
    assert [product_of(c) for c in program.calls if c.operation.entry.details.get("product")] == [None]
    np.testing.assert_array_equal(
        plan(program)(*(t.clone() for t in tensors)).numpy(), function(*(t.clone() for t in tensors)).numpy()
    )


def test_what_declarations_say_is_what_operations_compute():
    said = {name: e.details["product"] for name, e in REGISTRY.items() if e.details.get("product")}
    assert set(said) >= {"mm", "matmul", "bmm", "linear", "addmm", "baddbmm", "product_as"}
    a, b, c = numbers(3, 4, dtype=flambeau.float64), numbers(4, 5, dtype=flambeau.float64), numbers(5)
    given = {
        "mm": (a, b),
        "matmul": (a, b),
        "bmm": (a[None], b[None]),
        "linear": (a, b.T, c.double()),
        "addmm": (c.double(), a, b),
        "baddbmm": (c.double()[None, None], a[None], b[None]),
        "product_as": (a, 0, b, 0, (3, 5), 0, (2.0, 0.0, 2)),
    }
    for name, args in given.items():
        left, right, addend, alpha, beta = said[name](*args)
        expected = alpha * (left.numpy() @ right.numpy()) + (0 if addend is None else beta * addend.numpy())
        np.testing.assert_allclose(REGISTRY[name].function(*args).numpy(), expected, rtol=1e-12)
