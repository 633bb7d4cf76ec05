"""Masked reductions against NumPy's masked arrays and the plain functions of what the mask holds."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import flambeau
from flambeau import masked
from flambeau.autograd import gradcheck

RNG = np.random.default_rng(0)
VALUES = RNG.standard_normal((4, 5, 3))
MASK = RNG.random((4, 5, 3)) < 0.6
MASK[1, :, 2] = False  # a row without an element

REDUCTIONS = {
    "sum": lambda v: v.sum(),
    "prod": lambda v: v.prod(),
    "mean": lambda v: v.mean() if v.size else np.nan,
    "amax": lambda v: v.max(initial=-np.inf),
    "amin": lambda v: v.min(initial=np.inf),
    "median": lambda v: np.sort(v)[(v.size - 1) // 2] if v.size else np.nan,
    "var": lambda v: v.var(ddof=1) if v.size > 1 else np.nan,
    "std": lambda v: v.std(ddof=1) if v.size > 1 else np.nan,
    "norm": lambda v: np.sqrt((v * v).sum()),
    "logsumexp": lambda v: scipy.special.logsumexp(v) if v.size else -np.inf,
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions(name, keepdim):
    function = getattr(masked, name)
    x, mask = flambeau.tensor(VALUES), flambeau.tensor(MASK)
    given = {"dim": 1, "keepdim": keepdim, "mask": mask}
    found = function(x, 2.0, **given) if name == "norm" else function(x, **given)
    expected = np.empty((4, 1, 3))
    for i in range(4):
        for j in range(3):
            expected[i, 0, j] = REDUCTIONS[name](VALUES[i, MASK[i, :, j], j])
    np.testing.assert_allclose(found.numpy(), expected if keepdim else expected[:, 0], rtol=1e-12)
    if name == "median":
        return
    everything = {"mask": flambeau.tensor(MASK)}
    whole = function(x, 2.0, **everything) if name == "norm" else function(x, **everything)
    np.testing.assert_allclose(whole.numpy(), REDUCTIONS[name](VALUES[MASK]), rtol=1e-11)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "amax", "var", "logsumexp"])
def test_gradients(name):
    mask = MASK.copy()
    mask[:, :2] = True  # at least two elements a row
    x = flambeau.tensor(VALUES, requires_grad=True)
    assert gradcheck(lambda t: getattr(masked, name)(t, 1, mask=flambeau.tensor(mask)), [x])
    getattr(masked, name)(x, 1, mask=flambeau.tensor(mask)).sum().backward()
    assert (x.grad.numpy()[~mask] == 0).all()


@pytest.mark.parametrize("name, sign", [("softmax", 1.0), ("softmin", -1.0), ("log_softmax", 1.0)])
def test_rows(name, sign):
    found = getattr(masked, name)(flambeau.tensor(VALUES), 1, mask=flambeau.tensor(MASK)).numpy()
    e = np.where(MASK, np.exp(sign * VALUES), 0.0)
    with np.errstate(all="ignore"):
        expected = e / e.sum(1, keepdims=True)
        expected = np.log(expected) if name == "log_softmax" else expected
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_scans_and_places():
    x, mask = flambeau.tensor(VALUES), flambeau.tensor(MASK)
    np.testing.assert_allclose(masked.cumsum(x, 1, mask=mask).numpy(), np.where(MASK, VALUES, 0).cumsum(1))
    np.testing.assert_allclose(masked.cumprod(x, 1, mask=mask).numpy(), np.where(MASK, VALUES, 1).cumprod(1))
    expected = np.where(MASK, VALUES, -np.inf).argmax(1)
    np.testing.assert_array_equal(masked.argmax(x, 1, mask=mask).numpy(), expected)
    np.testing.assert_array_equal(masked.argmin(-x, 1, mask=mask).numpy(), expected)
    found = masked.normalize(x, 2.0, 1, mask=mask).numpy()
    filled = np.where(MASK, VALUES, 0)
    norms = np.sqrt((filled**2).sum(1, keepdims=True))
    np.testing.assert_allclose(found, filled / np.maximum(norms, 1e-12))


def test_integers_and_errors():
    x = flambeau.tensor([[1, 2], [3, 4]])
    mask = flambeau.tensor([[True, False], [False, False]])
    assert masked.sum(x, 1, mask=mask).tolist() == [1, 0]
    assert masked.prod(x, 1, mask=mask).tolist() == [1, 1]
    assert masked.amax(x, 1, mask=mask).tolist() == [1, -(2**63)]
    assert masked.sum(x.bool()).dtype == flambeau.int64
    with pytest.raises(ValueError):
        masked.mean(x)
    with pytest.raises(RuntimeError, match="bool"):
        masked.sum(x, mask=x)
    a, b = flambeau.tensor([0.0, 1.0]), flambeau.tensor([2.0, 3.0])
    only = flambeau.tensor([True, False])
    found = masked.logaddexp(a, b, other_mask=only).numpy()
    np.testing.assert_allclose(found, [np.logaddexp(0.0, 2.0), 1.0], rtol=1e-6)
