"""Few rows of halves by a transposed weight: within a rounding of the sums in float64, whatever the processor has for them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau

UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
SIZES = [(1, 768, 300), (3, 129, 40), (6, 64, 33), (7, 250, 70), (20, 31, 17), (2, 4000, 9), (1, 1, 5)]


def check(name, size):
    m, k, n = size
    random, dtype = np.random.default_rng(sum(size)), getattr(flambeau, name)
    a, w, b = (
        flambeau.from_numpy(random.standard_normal(s).astype("f4")).to(dtype) for s in ((m, k), (n, k), (n,))
    )
    x, y, z = (t.double().numpy() for t in (a, w, b))
    true, size = x @ y.T, np.abs(x) @ np.abs(y).T
    c = flambeau.from_numpy(random.standard_normal((m, n)).astype("f4")).to(dtype)
    old = c.double().numpy()
    for got, wanted, terms in (
        (a @ w.t(), true, size),
        (flambeau.nn.functional.linear(a, w, b), true + z, size + np.abs(z)),
        (flambeau.addmm(c, a, w.t(), beta=0.5, alpha=-2), 0.5 * old - 2 * true, 2 * size + np.abs(old)),
        (a[0] @ w.t(), true[0], size[0]),
        (w @ a[0], true[0], size[0]),
        (a.expand(3, m, k) @ w.t(), np.stack([true] * 3), np.stack([size] * 3)),
    ):
        error = np.abs(got.double().numpy() - wanted)
        assert got.dtype == dtype and (error <= UNITS[name] * np.abs(wanted) + 2e-6 * terms + 1e-7).all()


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("size", SIZES)
def test_sums_are_rounded_once(name, size):
    check(name, size)


def test_sums_are_rounded_once_by_avx2():
    program = """
import sys
sys.path.insert(0, ".")
import test_few_rows_of_halves as t
for name in t.UNITS:
    for size in t.SIZES:
        t.check(name, size)
print("checked")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        env={**os.environ, "FLAMBEAU_CPU_CAPABILITY": "avx2"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout.strip() == "checked", done.stderr
