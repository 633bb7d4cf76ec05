"""Products of halves that no instruction multiplies: by the tiles of float32, of blocks that a task converts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau

SIZES = [
    (1, 1, 1), (1, 300, 70), (3, 5, 4), (33, 17, 65), (40, 256, 256), (191, 257, 33), (192, 512, 256), (193, 513, 259),
    (400, 100, 1), (5, 700, 600),
]  # fmt: skip
UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def halves(generator, shape, dtype):
    return flambeau.tensor(generator.standard_normal(shape).astype("f4")).to(getattr(flambeau, dtype))


def wide(t):
    return t.float().numpy().astype("f8")


def close(found, wanted, terms, dtype):
    """As near as float32 sums, rounded once, are."""
    error = np.abs(wide(found) - wanted)
    smallest = 2.0**-25 if dtype == "float16" else 0.0
    assert (error <= UNITS[dtype] * np.abs(wanted) + 1e-6 * terms + smallest).all(), error.max()


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_products(size, turned):
    m, k, n = size
    generator = np.random.default_rng(0)
    a = halves(generator, (k, m) if "a" in turned else (m, k), "float16")
    b = halves(generator, (n, k) if "b" in turned else (k, n), "float16")
    a, b = a.t() if "a" in turned else a, b.t() if "b" in turned else b
    x, y = wide(a), wide(b)
    terms = np.abs(x) @ np.abs(y)
    found = a @ b
    assert found.dtype is flambeau.float16
    close(found, x @ y, terms, "float16")
    c = halves(generator, (m, n), "float16")
    close(
        flambeau.addmm(c, a, b, alpha=0.5, beta=-2.0),
        0.5 * x @ y - 2 * wide(c),
        terms + 2 * np.abs(wide(c)),
        "float16",
    )
    row = c[:1].clone().squeeze(0)
    close(flambeau.addmm(row, a, b), x @ y + wide(row), terms + np.abs(wide(row)), "float16")
    before = wide(c)
    c.addmm_(a, b, alpha=0.25)
    close(c, before + 0.25 * x @ y, terms + np.abs(before), "float16")


def test_stacks_and_views():
    generator = np.random.default_rng(1)
    a, b = halves(generator, (3, 2, 50, 40), "float16"), halves(generator, (2, 40, 37), "float16")
    close(a @ b, wide(a) @ wide(b), np.abs(wide(a)) @ np.abs(wide(b)), "float16")
    a, b = a[:, :, ::2, 3:20], b[:, 3:20, ::3]
    close(a @ b, wide(a) @ wide(b), np.abs(wide(a)) @ np.abs(wide(b)), "float16")
    one = a[:, :1].expand(3, 4, 25, 17)
    other = halves(generator, (4, 17, 33), "float16")
    close(one @ other, wide(one) @ wide(other), np.abs(wide(one)) @ np.abs(wide(other)), "float16")
    for shape in ((0, 5, 7), (5, 0, 7), (5, 7, 0)):
        m, k, n = shape
        found = flambeau.ones(m, k, dtype=flambeau.float16) @ flambeau.ones(k, n, dtype=flambeau.float16)
        assert found.shape == (m, n) and (found == 0).all()
    skipped = halves(generator, (60, 1, 40, 2), "float16")[
        ..., 0
    ]  # rows of one dimension of size 1, with gaps
    right = halves(generator, (40, 33), "float16")
    close(
        skipped @ right, wide(skipped) @ wide(right), np.abs(wide(skipped)) @ np.abs(wide(right)), "float16"
    )


def test_numbers_that_are_not_usual():
    a = flambeau.full((40, 300), 2.0**-24, dtype=flambeau.float16)  # subnormal
    assert ((a @ flambeau.ones(300, 50, dtype=flambeau.float16)).float() == 300 * 2.0**-24).all()
    large = flambeau.full((40, 300), 300.0, dtype=flambeau.float16)
    assert (large @ large.t()).isinf().all()  # 27 million is rounded once, at the end
    assert ((large @ large.t().neg()) == -np.inf).all()
    eye = flambeau.eye(300, dtype=flambeau.float16)[:, :60]
    special = large.clone()
    special[3, 5], special[4, 6] = float("nan"), float("inf")
    found = special @ eye
    assert found[3].isnan().all() and found[4].isnan().sum() == 59 and found[4, 6] == float("inf")
    assert flambeau.equal(found[5:], large[5:, :60])
    c = flambeau.full((40, 60), float("nan"), dtype=flambeau.float16)
    assert flambeau.equal(flambeau.addmm(c, large, eye, beta=0), large @ eye)


def test_bits_do_not_depend_on_threads():
    generator = np.random.default_rng(2)
    a, b = halves(generator, (500, 600), "float16"), halves(generator, (600, 530), "float16")
    before, results = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            flambeau.set_num_threads(threads)
            results.append(a @ b)
    finally:
        flambeau.set_num_threads(before)
    assert all(flambeau.equal(results[0], r) for r in results[1:])


def test_gradients():
    generator = np.random.default_rng(3)
    x, w = (halves(generator, s, "float16").requires_grad_() for s in ((70, 90), (45, 90)))
    bias = halves(generator, (45,), "float16").requires_grad_()
    grad = halves(generator, (70, 45), "float16")
    flambeau.nn.functional.linear(x, w, bias).backward(grad)
    g = wide(grad)
    close(x.grad, g @ wide(w.detach()), np.abs(g) @ np.abs(wide(w.detach())), "float16")
    close(w.grad, g.T @ wide(x.detach()), np.abs(g).T @ np.abs(wide(x.detach())), "float16")
    close(bias.grad, g.sum(0), np.abs(g).sum(0), "float16")


def test_with_the_registers_of_avx2():
    """bfloat16, too, which such processors do not multiply."""
    program = """
import sys
sys.path.insert(0, ".")
import numpy as np
from test_widened import SIZES, close, halves, wide
generator = np.random.default_rng(4)
for dtype in ("float16", "bfloat16"):
    for m, k, n in SIZES:
        for turned in (False, True):
            a = halves(generator, (m, k), dtype)
            b = halves(generator, (n, k), dtype).t() if turned else halves(generator, (k, n), dtype)
            close(a @ b, wide(a) @ wide(b), np.abs(wide(a)) @ np.abs(wide(b)), dtype)
print("checked")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        env={**os.environ, "FLAMBEAU_CPU_CAPABILITY": "avx2"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.strip() == "checked", done.stderr
