"""Vectors of elements of 16 bytes: as lanes of 8, or LLVM takes them one by one, in a branch each."""

from __future__ import annotations

import re

import numpy as np
import pytest

import flambeau
from flambeau.codegen import schedule_cpu
from flambeau.operations.declare import machine


@pytest.fixture
def modules(monkeypatch):
    """The LLVM modules of the kernels that calls ask for, compiled before or not."""
    made: list[str] = []
    address = machine.address

    def seen(kernel):
        made.append(str(schedule_cpu.module_for(kernel, "")))
        return address(kernel)

    monkeypatch.setattr(machine, "address", seen)
    return made


@pytest.mark.parametrize("step", [1, 2, 3])
def test_complex128_is_moved_in_lanes_of_8_bytes(step, modules):
    @flambeau.kernels.pointwise(dtypes=("complex128",))
    def moved(z, w, *, a):
        return z * w + a

    rng = np.random.default_rng(step)
    for n in (1, 7, 8, 16, 33, 100):
        z, w = (rng.standard_normal(n * step) + 1j * rng.standard_normal(n * step) for _ in range(2))
        found = moved(flambeau.from_numpy(z)[::step], flambeau.from_numpy(w)[::step], a=2.0)
        np.testing.assert_allclose(found.numpy(), z[::step] * w[::step] + 2.0, rtol=1e-14)
    assert modules
    for text in modules:
        assert not re.search(r"@llvm\.masked\.\w+\.v\d+i128", text)


def test_a_strided_result():
    z = np.arange(11) + 1j
    out = flambeau.zeros(33, dtype=flambeau.complex128)
    flambeau.add(flambeau.from_numpy(z), 1.0, out=out[::3])
    np.testing.assert_array_equal(out.numpy()[::3], z + 1)
    assert not out.numpy()[1::3].any() and not out.numpy()[2::3].any()
