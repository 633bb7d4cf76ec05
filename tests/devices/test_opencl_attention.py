"""flex_attention on a device: the same kernels, the same numbers."""

from __future__ import annotations

import os

import numpy as np
import pytest

import flambeau
from flambeau.nn.attention.flex_attention import create_block_mask, create_mask, flex_attention

TYPE = os.environ.get("FLAMBEAU_TEST_DEVICE", "opencl")
if not getattr(flambeau, TYPE).is_available():
    pytest.skip(f"no {TYPE} device", allow_module_level=True)


def both_ways(device: str, arrays) -> list:
    q, k, v, slope, table = (flambeau.tensor(x, device=device, requires_grad=True) for x in arrays)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 40, 40, device=device, BLOCK_SIZE=16)
    score = lambda s, b, h, i, j: s * slope[h] + table[h, i - j + 40]
    out = flex_attention(q, k, v, score, mask)
    assert out.device.type == device
    grads = flambeau.autograd.grad(out.square().sum(), (q, k, v, slope, table))
    whole = create_mask(lambda b, h, i, j: (i >= j) & (h > 0), 1, 2, 5, 6, device=device)
    return [x.detach().cpu().numpy() for x in (out, *grads, whole)]


def test_flex_attention():
    rng = np.random.default_rng(0)
    shapes = ((1, 2, 40, 8), (1, 2, 40, 8), (1, 2, 40, 8), (2,), (2, 90))
    arrays = [rng.standard_normal(s).astype("float32") for s in shapes]
    for actual, wanted in zip(both_ways(TYPE, arrays), both_ways("cpu", arrays)):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)
