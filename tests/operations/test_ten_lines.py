"""What a new operation costs: these lines, in one file."""

from __future__ import annotations

import importlib
import pathlib
import sys

import numpy as np
import pytest

import flambeau
from flambeau.codegen import kernels as kn
from flambeau.codegen import schedule_gpu
from flambeau.codegen import target as tg
from flambeau.operations.declare.registry import REGISTRY, published

LINES = '''\
from flambeau.codegen import functions as fn
from flambeau.operations.declare.pointwise import FLOATING, pointwise

@pointwise(reference="numpy.arcsinh", dtypes=FLOATING)
def symlog(input):
    """Logarithm on both sides of 0: the inverse of the hyperbolic sine, element by element.

    >>> flambeau.symlog(flambeau.zeros(1))
    tensor([0.])"""
    return fn.asinh(input)
'''


@pytest.fixture
def entry():
    names = {}
    exec(LINES, names)
    yield REGISTRY["symlog"]
    del REGISTRY["symlog"]


def test_at_most_ten_lines():
    assert len(LINES.splitlines()) <= 10


def test_function_method_and_in_place(entry):
    x = flambeau.tensor([[-1.0, 0.5], [2.0, 3.0]])
    expected = np.arcsinh(x.numpy())
    np.testing.assert_allclose(published("")["symlog"](x).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(published("Tensor.")["symlog"](input=x).numpy(), expected, rtol=1e-6)
    out = flambeau.empty(2, 2)
    assert entry.function(x, out=out) is out
    assert published("")["symlog_"](x) is x
    np.testing.assert_array_equal(out.numpy(), x.numpy())
    assert entry.function(flambeau.ones(3, dtype=flambeau.bfloat16)).dtype == flambeau.bfloat16
    with pytest.raises(NotImplementedError, match="symlog.*not implemented for 'int64'"):
        entry.function(flambeau.arange(3))
    with pytest.raises(TypeError, match="symlog"):
        entry.function("text")


def test_gradients_of_any_order(entry):
    x = flambeau.tensor([-1.5, 0.3, 2.0], dtype=flambeau.float64, requires_grad=True)
    assert flambeau.autograd.gradcheck(entry.function, (x,))
    assert flambeau.autograd.gradgradcheck(entry.function, (x,))


@pytest.mark.parametrize("target", ["nvptx", "amdgcn", "spirv"])
def test_kernels_of_other_devices(entry, target):
    declared = entry.function.declaration
    results, memory, tensors, scalars = declared.instance([(flambeau.float32.code, 0)], flambeau.float32.code)
    kernel = kn.Pointwise("symlog", tuple(results), (kn.CONTIGUOUS,), tuple(tensors), scalars)
    assert len(tg.image(str(schedule_gpu.module_for(kernel, target)), target)) > 500


def test_its_line_in_the_table_and_in_the_stub(entry, monkeypatch):
    monkeypatch.syspath_prepend(pathlib.Path(__file__).parent.parent.parent / "tools")
    for name in ("stubs", "interface"):  # anew: they look at the registry when they are imported
        monkeypatch.delitem(sys.modules, name, raising=False)
    interface, stubs = importlib.import_module("interface"), importlib.import_module("stubs")
    row = next(line for line in interface.table().splitlines() if "`symlog`" in line)
    assert row.startswith("| `symlog` … | pointwise | floats | yes | Logarithm on both sides of 0")
    found = stubs.definition("symlog", entry.function)
    assert found.startswith("def symlog(input: Tensor, *, out: Tensor")
    assert ') -> Tensor:\n    """Logarithm on both sides of 0' in found
