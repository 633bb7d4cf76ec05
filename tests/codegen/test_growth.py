"""How long kernels are, in expressions and in lines for the compiler: no longer than in proportion to the body that they come from."""

from __future__ import annotations

import uuid

import numpy as np
import pytest

import flambeau
from flambeau import func, kernels
from flambeau.codegen import expr as ex
from flambeau.codegen import schedule_cpu
from flambeau.codegen.differentiate import gradients
from flambeau.operations.declare import machine

FACTORS = [1.0 + k for k in range(6)]


@pytest.fixture
def lines(monkeypatch):
    """The lines of every kernel that is made, by its name."""
    made: dict[str, int] = {}
    address = machine.address

    def counted(kernel):
        made[kernel.name] = len(str(schedule_cpu.module_for(kernel, "")).splitlines())
        return address(kernel)

    monkeypatch.setattr(machine, "address", counted)
    return made


def added(x, *, n):
    total = x
    for k in range(n):
        total = total + kernels.sin(x * (k + 1.5))
    return total


def nested(x, *, n):
    for k in range(n):
        x = kernels.sin(x * 1.5 + k)
    return x


def of_length(body, n):
    return kernels.pointwise(lambda x: body(x, n=n), name=f"{body.__name__}{n}")


@pytest.mark.parametrize("body", [added, nested])
def test_lines_grow_with_the_body(body, lines):
    counts = {}
    for n in (5, 10):
        op = of_length(body, n)
        x = flambeau.ones(5, requires_grad=True)
        op(x).sum().backward()
        counts[n] = lines[op.name], lines[f"{op.name}_backward"]
    for few, many in zip(counts[5], counts[10]):
        assert many < 2 * few
    assert counts[10][0] < 10 * 170  # a sine alone has 410


def test_a_function_for_what_is_seldom_needed_gives_the_same_bits():
    """Of sines and logarithms of numbers for which the unlikely part is needed, in all lanes and in some."""
    x = np.concatenate([np.logspace(-3, 35, 40), [0.0, -0.0, np.inf, -np.inf, np.nan, -5.0]]).astype("f")
    op = kernels.pointwise(lambda x: tuple(kernels.sin(x * f) for f in FACTORS), name="sines")
    for dtype in (flambeau.float32, flambeau.float64):
        t = flambeau.from_numpy(x).to(dtype)
        for f, found in zip(FACTORS, op(t)):
            np.testing.assert_array_equal(found.numpy(), (t * f).sin().numpy())


@pytest.mark.parametrize("name", ["lgamma", "digamma", "tan", "expm1", "log1p", "erf"])
def test_unlikely_parts_within_unlikely_parts(name):
    """What an unlikely part needs behind a branch of its own is part of it: the logarithm of |Γ| takes a sine where x < 0."""
    x = flambeau.linspace(-9.3, 9.4, 37, dtype=flambeau.float64)
    op = kernels.pointwise(lambda x: tuple(getattr(kernels, name)(x * f) for f in FACTORS), name=f"{name}s")
    for f, found in zip(FACTORS, op(x)):
        np.testing.assert_array_equal(found.numpy(), getattr(x * f, name)().numpy())


def test_expressions_of_derivatives_grow_with_the_body():
    def nodes(n, order):
        x = ex.input(0, "float64")
        e = nested(x, n=n)
        for _ in range(order):
            (e,) = gradients([e], [ex.const(1.0, "float64")], [x])
        return len(list(ex.walk([e])))

    for order in (1, 2):
        assert nodes(16, order) < 2.2 * nodes(8, order)


@pytest.mark.parametrize("name", ["tan", "sqrt", "acos", "log", "sinh"])
def test_second_derivatives_of_complex_functions(name, lines):
    def function(x):
        return getattr(flambeau, name)(flambeau.complex(x, 2 * x)).abs().sum()

    func.hessian(function)(flambeau.tensor([0.3, 0.4]))
    assert f"{name}_backward" in lines
    assert max(lines.values()) < 1500


def test_long_compilations_are_told(monkeypatch):
    monkeypatch.setattr(machine, "LONG", 0.0)
    name = f"told_{uuid.uuid4().hex[:8]}"
    op = kernels.pointwise(lambda x: x * 2, name=name)
    with pytest.warns(UserWarning, match=f"compiling a kernel of '{name}' took .* seconds"):
        op(flambeau.ones(3))
