"""Gradients of more operands than a kernel takes are sums of kernels: what is cut adds up, and no part is too large."""

from __future__ import annotations

import pytest

import flambeau
from flambeau.codegen import expr as ex
from flambeau.operations.declare.summands import leaves_of, summands

MOST = 5
LEAVES = [ex.make("operand", (), "float32", k) for k in range(12)]
ZERO = ex.const(0.0, "float32")


def total():
    found = LEAVES[0]
    for leaf in LEAVES[1:]:
        found = ex.add(found, leaf)
    return found


BRANCHES = {
    "sum": lambda: total(),
    "negated": lambda: ex.neg(total()),
    "product": lambda: ex.mul(LEAVES[0], total()),
    "quotient": lambda: ex.div(total(), LEAVES[0]),
    "chosen": lambda: ex.where(ex.compare("lt", LEAVES[0], ZERO), total(), LEAVES[1]),
    "chosen or zero": lambda: ex.where(ex.compare("lt", LEAVES[0], ZERO), total(), ZERO),
    "zero or chosen": lambda: ex.where(ex.compare("lt", LEAVES[0], ZERO), ZERO, total()),
    "chosen twice": lambda: ex.where(
        ex.compare("lt", LEAVES[0], ZERO), ex.where(ex.compare("lt", LEAVES[1], ZERO), total(), ZERO), ZERO
    ),
}


def value(e, numbers):
    """What an expression is, its leaves being these numbers."""
    given = [value(a, numbers) for a in e.args]
    match e.op:
        case "operand":
            return numbers[e.value]
        case "const":
            return float(e.value)
        case "add":
            return given[0] + given[1]
        case "sub":
            return given[0] - given[1]
        case "mul":
            return given[0] * given[1]
        case "div":
            return given[0] / given[1]
        case "neg":
            return -given[0]
        case "lt":
            return given[0] < given[1]
        case "select":
            return given[1] if given[0] else given[2]
    raise AssertionError(e.op)


@pytest.mark.parametrize("form", BRANCHES)
@pytest.mark.parametrize("signs", [(1, 1), (-1, 1), (1, -1), (-1, -1)])
def test_parts_add_up_and_are_small(form, signs):
    whole = BRANCHES[form]()
    parts = summands(whole, MOST)
    assert len(leaves_of([whole])) > MOST and max(len(leaves_of([p])) for p in parts) <= MOST
    numbers = [signs[0] * 2.0, signs[1] * 3.0, *map(float, range(5, 15))]
    assert sum(value(p, numbers) for p in parts) == pytest.approx(value(whole, numbers))


def test_fourth_order_of_absolute_values_of_complex_numbers():
    """Each order's loss is the length of the gradient before; the same is computed of real and imaginary parts."""
    z = flambeau.tensor([1 + 2j, 3 - 1j], dtype=flambeau.complex128, requires_grad=True)
    a = flambeau.tensor([1.0, 3.0], dtype=flambeau.float64, requires_grad=True)
    b = flambeau.tensor([2.0, -1.0], dtype=flambeau.float64, requires_grad=True)
    loss, expected = ((z * z).abs() * z.real).sum(), ((a * a + b * b) * a).sum()
    for _ in range(4):
        (slope,) = flambeau.autograd.grad(loss, z, create_graph=True)
        parts = flambeau.autograd.grad(expected, (a, b), create_graph=True)
        flambeau.testing.assert_close(slope.detach(), flambeau.complex(*(p.detach() for p in parts)))
        loss, expected = slope.abs().sum(), (parts[0].square() + parts[1].square()).sqrt().sum()
