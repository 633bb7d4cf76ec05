"""What does not change in a loop is computed before it: LLVM's passes for that are not run on kernels of elements and rows."""

from __future__ import annotations

import re

import numpy as np
import pytest

import flambeau
from flambeau import kernels
from flambeau.codegen import expr as ex
from flambeau.codegen import schedule_cpu
from flambeau.codegen.lower import settled
from flambeau.operations.declare import machine


@pytest.fixture
def modules(monkeypatch):
    """The LLVM modules of the kernels that calls ask for, by name."""
    made: dict[str, str] = {}
    address = machine.address

    def seen(kernel):
        made[kernel.name] = str(schedule_cpu.module_for(kernel, ""))
        return address(kernel)

    monkeypatch.setattr(machine, "address", seen)
    return made


def test_the_largest_expressions_that_are_known():
    x, a = ex.input(0, "float32"), ex.param(0, "float32")
    inner = a * a
    outer = inner + 1.0
    assert settled([x * outer], {a}) == [outer]
    assert settled([outer], {a}) == [outer]
    assert settled([x * a, x + 2.0], {a}) == []
    both = settled([(x + inner) / outer], {a})
    assert [id(e) for e in both] == [id(inner), id(outer)]


def test_elements(modules):
    @kernels.pointwise
    def scaled_by_a_root(x, *, a):
        return x / (1.0 + kernels.sqrt(a * 3.0))

    x = np.linspace(-1.0, 1.0, 77)
    found = scaled_by_a_root(flambeau.from_numpy(x), a=5.0)
    np.testing.assert_allclose(found.numpy(), x / (1.0 + np.sqrt(15.0)), rtol=1e-15)
    text = modules["scaled_by_a_root"]
    assert re.search(r"@llvm\.sqrt\.f64\(", text) and not re.search(r"@llvm\.sqrt\.v\d+f64\(", text)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.float16])
@pytest.mark.parametrize("least, most", [(-1.0, 0.5), (float("nan"), 0.5), (-1.0, float("nan")), (0.5, -1.0)])
def test_bounds_that_are_the_same_for_all_elements(dtype, least, most):
    """NaN in a bound makes all results NaN, in an element its own; odd numbers of elements reach the masked rest."""
    x = flambeau.tensor([1.0, -2.0, float("nan"), 0.25, float("inf"), -float("inf"), -0.0] * 11, dtype=dtype)
    values = x.double().numpy()
    expected = np.minimum(np.maximum(values, least), most)
    np.testing.assert_array_equal(x.clamp(least, most).double().numpy(), expected)
    np.testing.assert_array_equal(x.clamp(min=least).double().numpy(), np.maximum(values, least))
    np.testing.assert_array_equal(x.clamp(max=most).double().numpy(), np.minimum(values, most))
