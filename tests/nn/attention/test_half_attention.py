"""Attention in bfloat16 beside the formula in float64: each element within what rounding weights, their gradients and results may do."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau.codegen import tiles
from flambeau.nn import functional as F
from flambeau.nn.attention import SDPBackend, sdpa_kernel

UNIT = 2.0**-8  # of a rounding to bfloat16
SHAPES = [  # batches, heads, heads of keys, queries, keys, width
    (1, 1, 1, 64, 64, 64),
    (2, 4, 2, 150, 333, 64),
    (1, 2, 2, 37, 53, 40),
    (1, 2, 1, 129, 70, 33),
    (1, 1, 1, 200, 1, 16),
    (1, 2, 2, 300, 140, 7),
]
KINDS = ("plain", "causal", "bool", "float", "negative")


def check(shape, kind):
    batches, heads, of_keys, queries, keys, width = shape
    random = np.random.default_rng(sum(shape))
    sizes = [
        (batches, h, n, width)
        for h, n in ((heads, queries), (of_keys, keys), (of_keys, keys), (heads, queries))
    ]
    given = [flambeau.from_numpy(random.standard_normal(s).astype("f4")).bfloat16() for s in sizes]
    mask, scale = None, -0.3 if kind == "negative" else None
    if kind == "bool":
        mask = flambeau.from_numpy(random.random((batches, 1, queries, keys)) < 0.7)
        mask[..., 0] = True
    elif kind == "float":
        mask = flambeau.from_numpy(random.standard_normal((queries, keys)).astype("f4")).bfloat16()
    inputs = [x.requires_grad_() for x in given[:3]]
    options = {"attn_mask": mask, "is_causal": kind == "causal", "scale": scale}
    out = F.scaled_dot_product_attention(*inputs, enable_gqa=heads != of_keys, **options)
    found = [out, *flambeau.autograd.grad(out, inputs, given[3])]

    q, k, v, g = (x.detach().double().numpy() for x in given)
    groups, factor = heads // of_keys, scale or width**-0.5
    k, v = (np.repeat(x, groups, 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * factor
    if kind == "causal":
        scores = np.where(np.tri(queries, keys, dtype=bool), scores, -np.inf)
    elif kind == "bool":
        scores = np.where(mask.numpy(), scores, -np.inf)
    elif kind == "float":
        scores = scores + mask.double().numpy()
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    true = weights @ v
    change = weights * (g @ v.swapaxes(2, 3) - (g * true).sum(-1, keepdims=True))
    turned = weights.swapaxes(2, 3)
    # What rounding the output, which backward reads, and the gradients of scores does to them.
    off = np.abs(change) + weights * (np.abs(g) * np.abs(true)).sum(-1, keepdims=True)
    joined = lambda x: x.reshape(batches, of_keys, groups, keys, width).sum(2)
    size = abs(factor)
    wanted = [
        (true, weights @ np.abs(v)),
        (change @ k * factor, off @ np.abs(k) * size),
        (joined(change.swapaxes(2, 3) @ q * factor), joined(off.swapaxes(2, 3) @ np.abs(q) * size)),
        (joined(turned @ g), joined(turned @ np.abs(g))),
    ]
    for name, got, (value, terms) in zip(("output", "query", "key", "value"), found, wanted):
        assert got.dtype == flambeau.bfloat16 and got.shape == value.shape, name
        error = np.abs(got.detach().double().numpy() - value)
        bound = 1.02 * UNIT * (terms + np.abs(value)) + 1e-5 * (1 + terms)
        assert (error <= bound).all(), f"{name} {shape} {kind}: {(error / bound).max():.3f} of the bound"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_as_the_formula(shape, kind):
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        check(shape, kind)


PAIRS = """
from flambeau.core.base.callbacks import callbacks
from flambeau.codegen.tiles import matrix_unit
assert callbacks["matrix_unit.possible"] is matrix_unit.possible
callbacks["matrix_unit.possible"] = lambda: False
import sys
sys.path.insert(0, ".")
import test_half_attention as t
with t.sdpa_kernel(t.SDPBackend.FLASH_ATTENTION):
    for shape in t.SHAPES:
        for kind in t.KINDS:
            t.check(shape, kind)
print("checked", len(t.SHAPES) * len(t.KINDS))
"""


@pytest.mark.skipif(not tiles.possible(), reason="the processor does not multiply pairs of bfloat16")
def test_as_the_formula_without_a_matrix_unit():
    command = [sys.executable, "-c", PAIRS]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == f"checked {len(SHAPES) * len(KINDS)}", done.stderr


def test_keys_that_nobody_sees_give_zeros():
    q, k, v = (flambeau.randn(1, 2, n, 32).bfloat16().requires_grad_() for n in (70, 140, 140))
    mask = flambeau.ones(70, 140, dtype=flambeau.bool)
    mask[3], mask[:, 130:] = False, False
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        out = F.scaled_dot_product_attention(q, k, v, mask)
    grads = flambeau.autograd.grad(out.float().square().sum(), (q, k, v))
    assert not out[:, :, 3].any() and not grads[0][:, :, 3].any()
    assert not any(g[:, :, 130:].any() for g in grads[1:]) and all(g.isfinite().all() for g in grads)


def test_bits_do_not_depend_on_the_threads():
    x = [flambeau.randn(1, h, n, 64).bfloat16().requires_grad_() for h, n in ((2, 700), (1, 500), (1, 500))]
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 7):
            flambeau.set_num_threads(threads)
            flambeau.manual_seed(1)
            out = F.scaled_dot_product_attention(*x, is_causal=True, enable_gqa=True, dropout_p=0.2)
            found.append((out, *flambeau.autograd.grad(out.float().sin().sum(), x)))
    finally:
        flambeau.set_num_threads(before)
    for other in found[1:]:
        assert all(a.equal(b) for a, b in zip(found[0], other))
