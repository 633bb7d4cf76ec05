"""Scaled products of float8 matrices, and products of groups."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F
from flambeau.nn.functional import ScalingType, SwizzleType

WHOLE, ROWS = ScalingType.TensorWise, ScalingType.RowWise


def float8(*shape, kind="float8_e4m3fn", seed=0):
    return flambeau.from_numpy(np.random.default_rng(seed).normal(size=shape)).to(getattr(flambeau, kind))


@pytest.mark.parametrize("first", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("second", ["float8_e4m3fn", "float8_e5m2"])
def test_scaled_mm(first, second):
    a, b = float8(5, 7, kind=first), float8(7, 3, kind=second, seed=1)
    exact = a.double().numpy() @ b.double().numpy()
    half, third = flambeau.tensor(0.5), flambeau.tensor([0.25])
    found = flambeau._scaled_mm(a, b, half, third, out_dtype=flambeau.float32)
    assert found.dtype == flambeau.float32 and np.allclose(found.numpy(), exact / 8, rtol=1e-6, atol=1e-6)
    assert flambeau._scaled_mm(a, b, half, third).dtype == a.dtype
    again = F.scaled_mm(a, b, half, WHOLE, third, [WHOLE], output_dtype=flambeau.float32)
    assert (
        flambeau.equal(again, found)
        and F.scaled_mm(a, b, half, WHOLE, third, WHOLE).dtype == flambeau.bfloat16
    )
    rows, columns = flambeau.rand(5, 1), flambeau.rand(1, 3)
    bias = flambeau.rand(3)
    found = F.scaled_mm(a, b, rows, ROWS, columns, ROWS, bias=bias, output_dtype=flambeau.float32)
    assert np.allclose(
        found.numpy(), exact * rows.numpy() * columns.numpy() + bias.numpy(), rtol=1e-5, atol=1e-6
    )
    assert flambeau.equal(
        F.scaled_mm(
            a.t(), b, half, WHOLE, third, WHOLE, contraction_dim=(0, 0), output_dtype=flambeau.float32
        ),
        again,
    )


def test_scale_result_divides_float8():
    a = flambeau.ones(2, 2).to(flambeau.float8_e4m3fn)
    one, half = flambeau.tensor(1.0), flambeau.tensor(0.5)
    assert flambeau._scaled_mm(a, a, one, one, scale_result=half)[0, 0].item() == 4
    assert (
        flambeau._scaled_mm(a, a, one, one, scale_result=half, out_dtype=flambeau.float32)[0, 0].item() == 2
    )


def test_scaled_mm_refuses():
    a, one = flambeau.ones(2, 2).to(flambeau.float8_e4m3fn), flambeau.tensor(1.0)
    for x, y, s, t in (
        (a.float(), a, one, one),
        (a, a, one.half(), one),
        (a, a, flambeau.ones(2), flambeau.ones(2)),
        (a, a, flambeau.ones(2, 2), flambeau.ones(2, 2)),
    ):
        with pytest.raises(ValueError, match="Invalid scaling configuration"):
            flambeau._scaled_mm(x, y, s, t)
    with pytest.raises(RuntimeError, match="must be a matrix"):
        flambeau._scaled_mm(a[0], a, one, one)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        flambeau._scaled_mm(a, a[:1], one, one)
    with pytest.raises(RuntimeError, match="bias must be of shape"):
        flambeau._scaled_mm(a, a, one, one, bias=flambeau.ones(3))
    with pytest.raises(NotImplementedError, match="BlockWise1x32 is not implemented"):
        F.scaled_mm(a, a, one, ScalingType.BlockWise1x32, one, WHOLE)
    with pytest.raises(NotImplementedError, match="SWIZZLE_32_4_4 is not implemented"):
        F.scaled_mm(a, a, one, WHOLE, one, WHOLE, swizzle_a=SwizzleType.SWIZZLE_32_4_4)
    with pytest.raises(NotImplementedError, match="scales in levels"):
        F.scaled_mm(a, a, [one, one], [WHOLE, WHOLE], one, WHOLE)


def ends(*values):
    return flambeau.tensor(values, dtype=flambeau.int32)


def test_grouped_mm():
    a, b = flambeau.randn(2, 4, 3), flambeau.randn(2, 3, 5)
    x, y = a.numpy(), b.numpy()

    def close(found, wanted):
        return np.allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)

    assert close(F.grouped_mm(a, b), x @ y)
    found = F.grouped_mm(a[0], b, offs=ends(1, 3))
    assert close(found, np.concatenate([x[0, :1] @ y[0], x[0, 1:3] @ y[1], np.zeros((1, 5))]))
    found = F.grouped_mm(a, b[0], offs=ends(0, 4))
    assert close(found, np.concatenate([x[1] @ y[0][:, :4], np.zeros((4, 1))], 1))
    found = F.grouped_mm(a[0], b[0], offs=ends(2, 3))
    assert close(found, np.stack([x[0][:, :2] @ y[0][:2], x[0][:, 2:] @ y[0][2:]]))
    assert F.grouped_mm(a.bfloat16(), b.bfloat16()).dtype == flambeau.bfloat16
    w = b.clone().requires_grad_()
    F.grouped_mm(a[0], w, offs=ends(1, 4)).sum().backward()
    assert np.allclose(w.grad.numpy()[1], np.repeat(x[0, 1:].sum(0)[:, None], 5, 1), rtol=1e-5, atol=1e-5)


def test_grouped_mm_refuses():
    a, b = flambeau.randn(2, 4, 3), flambeau.randn(2, 3, 5)
    for call, text in (
        (lambda: F.grouped_mm(a[0], b), "Have to provide offsets"),
        (lambda: F.grouped_mm(a, b, offs=ends(1, 2)), "Have to provide offsets"),
        (lambda: F.grouped_mm(a[0], b, offs=flambeau.tensor([1, 2])), "Offsets have to be int32"),
        (lambda: F.grouped_mm(a[0], b, offs=ends(1)), "expected 2 offsets"),
        (lambda: F.grouped_mm(a[0], b, offs=ends(3, 2)), "must not decrease"),
        (lambda: F.grouped_mm(a[0], b, offs=ends(3, 9)), "lie within 0 and 4"),
        (lambda: F.grouped_mm(a, b.double()), "one floating-point dtype"),
        (lambda: F.grouped_mm(a, a), "contraction dimension"),
        (lambda: F.grouped_mm(a, b, bias=a), "Bias not supported"),
        (lambda: F.grouped_mm(a, b, out_dtype=flambeau.float64), "output dtype must match"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


def test_scaled_grouped_mm():
    a, b = float8(2, 4, 3), float8(2, 3, 5, seed=1)
    s, t = flambeau.rand(2, 4), flambeau.rand(2, 5)
    wanted = (a.double().numpy() @ b.double().numpy()) * s.numpy()[:, :, None] * t.numpy()[:, None]
    found = F.scaled_grouped_mm(a, b, s, ROWS, t, ROWS, output_dtype=flambeau.float32)
    assert np.allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)
    parts = F.scaled_grouped_mm(a[0], b, s[0], ROWS, t, ROWS, offs=ends(4, 4), output_dtype=flambeau.float32)
    assert np.allclose(parts.numpy(), wanted[0], rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        F.scaled_grouped_mm(a, b, s[:1], ROWS, t, ROWS)
    with pytest.raises(NotImplementedError, match="expected mat_b to be a stack"):
        F.scaled_grouped_mm(a[0], b[0], s[0], ROWS, t[0], ROWS, offs=ends(1, 3))
