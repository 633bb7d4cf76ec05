"""Reductions and row functions over many short rows, where lanes run across the rows, beside NumPy and beside few rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import flambeau

RANDOM = np.random.default_rng(5)
FUNCTIONS = {
    "sum": (lambda x: x.sum(-1), lambda a: a.sum(-1)),
    "prod": (lambda x: x.prod(-1), lambda a: a.prod(-1)),
    "mean": (lambda x: x.mean(-1), lambda a: a.mean(-1)),
    "amax": (lambda x: x.amax(-1), lambda a: a.max(-1)),
    "argmin": (lambda x: x.argmin(-1), lambda a: a.argmin(-1)),
    "max": (lambda x: x.max(-1).indices, lambda a: a.argmax(-1)),
    "any": (lambda x: (x > 0.5).any(-1), lambda a: (a > 0.5).any(-1)),
    "var": (lambda x: x.var(-1, correction=0), lambda a: a.var(-1)),
    "norm": (lambda x: x.norm(dim=-1), lambda a: np.sqrt((a * a).sum(-1))),
    "logsumexp": (lambda x: x.logsumexp(-1), lambda a: special.logsumexp(a, -1)),
    "softmax": (lambda x: x.softmax(-1), lambda a: special.softmax(a, -1)),
    "log_softmax": (lambda x: x.log_softmax(-1), lambda a: special.log_softmax(a, -1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("length", [1, 2, 3, 7, 15, 16])
def test_many_short_rows(name, length):
    ours, theirs = FUNCTIONS[name]
    for rows in (31, 32, 33, 1000):
        a = RANDOM.normal(size=(rows, length))
        x = flambeau.from_numpy(a)
        np.testing.assert_allclose(ours(x).numpy(), theirs(a), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(
            ours(x.float()).numpy(), theirs(a.astype(np.float32)), rtol=2e-5, atol=1e-6
        )
        np.testing.assert_allclose(ours(x[3:9]).numpy(), theirs(a[3:9]), rtol=1e-12, atol=1e-13)
        assert ours(x.bfloat16()).shape == theirs(a).shape


@pytest.mark.parametrize("name", FUNCTIONS)
def test_strides_and_batches(name):
    ours, theirs = FUNCTIONS[name]
    a = RANDOM.normal(size=(4, 40, 6))
    x = flambeau.from_numpy(a)
    for view, array in (
        (x, a),
        (x[:, ::2], a[:, ::2]),
        (x[..., 1:4], a[..., 1:4]),
        (x.transpose(0, 1), a.swapaxes(0, 1)),
    ):
        np.testing.assert_allclose(ours(view).numpy(), theirs(array), rtol=1e-12, atol=1e-13)


def test_nan_and_ties_in_short_rows():
    a = np.zeros((100, 5))
    a[::2, 3] = np.nan
    a[1::2, 1:3] = 2.0
    x = flambeau.from_numpy(a)
    assert x.max(-1).indices.tolist() == [3, 1] * 50 and x.amax(-1).isnan().tolist() == [True, False] * 50


def test_gradients_and_threads():
    x = flambeau.from_numpy(RANDOM.normal(size=(200, 3))).requires_grad_()
    assert flambeau.autograd.gradcheck(
        lambda x: (x.softmax(-1) * x.logsumexp(-1, True)).amax(-1), (x[:40].detach().requires_grad_(),)
    )
    before, found = flambeau.get_num_threads(), []
    wide = flambeau.from_numpy(RANDOM.normal(size=(50_000, 5)).astype(np.float32))
    try:
        for threads in (1, 3):
            flambeau.set_num_threads(threads)
            found.append((wide.softmax(-1), wide.sum(-1), wide.var(-1)))
    finally:
        flambeau.set_num_threads(before)
    assert all(flambeau.equal(a, b) for a, b in zip(*found))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "complex64"])
@pytest.mark.parametrize("length", [2, 3, 7, 31, 63, 64])
def test_a_short_row_that_many_rows_meet(length, dtype):
    """Elements are those of one operand as large as the other, to the last bit, however many rows there are."""
    for rows in (1, 40, 1024, 1025, 5003, 20011):
        a = (RANDOM.normal(size=(rows, length)) * 30).astype(dtype)
        b = (RANDOM.normal(size=length) * 30).astype(dtype)
        wide = np.tile(b, (rows, 1))
        x, row, whole = flambeau.from_numpy(a), flambeau.from_numpy(b), flambeau.from_numpy(wide)
        number = flambeau.tensor(3).to(x.dtype)
        for given in (row, row[None], row.expand(rows, length), row.repeat(2)[::1][length:]):
            assert (given * x).equal(whole * x)
            assert flambeau.where(x == number, given, x).equal(flambeau.where(x == number, whole, x))
        assert (row == x).equal(whole == x)
        padded = flambeau.zeros(rows, length + 1, dtype=x.dtype)
        padded[:, :length] = row
        assert padded[:, :length].equal(whole) and not padded[:, length].any()
        again = x.clone()
        again *= row
        assert again.equal(x * whole)


def test_a_short_row_with_any_number_of_threads():
    x, row, threads = flambeau.randn(50_003, 5), flambeau.randn(5), flambeau.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            flambeau.set_num_threads(count)
            found.append(flambeau.pow(x.abs(), row))
    finally:
        flambeau.set_num_threads(threads)
    assert found[0].equal(found[1]) and found[0].equal(found[2])
    assert found[0].equal(flambeau.pow(x.abs(), row.expand(50_003, 5).contiguous()))
