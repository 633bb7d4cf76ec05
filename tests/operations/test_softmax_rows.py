"""Softmax computes each exponential once, divides by two products, and looks for no NaN: what must not be lost by that."""

import math

import numpy as np
import pytest
import scipy.special

import flambeau

HALVES = [flambeau.float16, flambeau.bfloat16]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("length", [1, 31, 512, 4095, 4096, 4097, 9000])
def test_half_rows_are_rounded_once(length, dtype):
    """Up to 4096 exponentials stand on the stack between two passes, longer rows are computed twice."""
    x = (flambeau.randn(5, length) * 3).to(dtype)
    assert x.softmax(1).equal(x.float().softmax(1).to(dtype))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_special_rows(name, dtype, dim):
    nan, inf = math.nan, math.inf
    rows = [
        [nan, 1, 2],
        [1, nan, 2],
        [1, 2, nan],
        [nan] * 3,
        [inf, 1, 2],
        [-inf] * 3,
        [-inf, 1, 2],
        [inf, -inf, nan],
    ]
    x = np.array(rows * 5).repeat(12, 1)
    with np.errstate(all="ignore"):
        wanted = getattr(scipy.special, name)(x, 1)
        wanted[[k for k in range(40) if np.isinf(x[k]).all() or (x[k] == inf).any()]] = nan
    t = flambeau.tensor(x).to(getattr(flambeau, dtype))
    got = getattr(t if dim else t.T, name)(dim).double().numpy()
    np.testing.assert_allclose(got if dim else got.T, wanted, rtol=1e-2 if dtype == "bfloat16" else 1e-5)


def test_small_shares_are_rounded_once():
    """Subnormal results come from normal exponentials: they are right to the last of the digits that they have."""
    x = np.zeros((1, 40), "float32")
    x[0, 1:] = -np.linspace(80, 104, 39, dtype="float32")
    true = scipy.special.softmax(x.astype("float64"), 1)
    got = flambeau.from_numpy(x).softmax(1).numpy()
    spacing = np.maximum(np.spacing(true.astype("float32")), np.float32(2.0**-149)).astype("float64")
    assert (np.abs(got - true) <= 1.5 * spacing).all() and (got[0, :30] > 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shares_are_as_good_as_quotients(dtype):
    """Of arguments without rounding, in ULP; the sum of 600 exponentials adds little."""
    x = np.random.default_rng(0).integers(-40, 0, (40, 600)).astype(dtype)
    true = scipy.special.softmax(x.astype(np.longdouble), 1)
    got = flambeau.from_numpy(x).softmax(1).numpy()
    assert (np.abs(got - true) / np.spacing(true.astype(dtype))).max() < 3.0


def test_cross_entropy_of_classes_at_the_ends():
    x = flambeau.randn(6, 1000, dtype=flambeau.float64, requires_grad=True)
    target = flambeau.tensor([0, 999, 31, 32, -100, 500])
    loss = flambeau.nn.functional.cross_entropy(x, target, reduction="none")
    wide = scipy.special.log_softmax(x.detach().numpy(), 1)
    wanted = [-wide[k, t] if t >= 0 else 0.0 for k, t in enumerate(target.tolist())]
    np.testing.assert_allclose(loss.detach().numpy(), wanted, rtol=1e-13)
    loss.sum().backward()
    slopes = np.exp(wide)
    for k, t in enumerate(target.tolist()):
        slopes[k] = 0.0 if t < 0 else slopes[k] - np.eye(1000)[t]
    np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-11, atol=1e-16)
