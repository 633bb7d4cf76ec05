"""Operations at computed places, declared here for the test, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fb
from flambeau.codegen import expr as ex
from flambeau.operations.declare.indexed import indexed, scatter

rng = np.random.default_rng(0)
DTYPES = ["bool", "int8", "float16", "float32", "int64", "complex64", "complex128"]


@indexed(static=("dim",), moves=("src",))
def pick(at, src, index, *, dim):
    return src[(*at[:dim], at.checked(index[at], src.size(dim)), *at[dim + 1 :])]


@indexed(static=("step",))
def strided(at, x, *, step, shift):
    """Places before the first and behind the last read as -1."""
    return x.get((at[0], at[1] * step - shift), -1)


@indexed()
def window_sum(at, x, *, length, scale):
    row, i = at
    total = at.sum((length, 2), lambda k, j: x.get((row, i + k + j), 0))
    return total * ex.cast(scale, total.dtype)


@scatter()
def add_rows(at, out, index, src):
    column, i = at
    return out.store((at.checked(index[i], out.size(0)), column), src[i, column], "add")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_elements_at_indices(dtype, dim):
    a = (rng.standard_normal((5, 6, 37)) * 9).astype(dtype)
    index = rng.integers(0, a.shape[dim], (5, 6, 37))
    found = pick(a.shape, fb.from_numpy(a), fb.tensor(index), dim=dim)
    np.testing.assert_array_equal(found.numpy(), np.take_along_axis(a, index, dim))


def test_operands_may_be_strided_and_rows_short():
    a, index = rng.standard_normal((40, 3)), rng.integers(0, 40, (3, 3))
    found = pick((3, 3), fb.tensor(a.T.copy()).t(), fb.tensor(index.T.copy()).t(), dim=0)
    np.testing.assert_array_equal(found.numpy(), np.take_along_axis(a, index, 0))


@pytest.mark.parametrize("bad", [-1, 7])
def test_an_index_out_of_bounds_is_an_error(bad):
    index = np.zeros(50, dtype="int64")
    index[41] = bad
    with pytest.raises(IndexError, match="out of bounds"):
        pick((50,), fb.zeros(7), fb.tensor(index), dim=0)


@pytest.mark.parametrize("step", [1, 2, 3, 7, -1])
@pytest.mark.parametrize("n", [1, 5, 16, 33, 100])
def test_steps_and_bounds(step, n):
    x = rng.standard_normal((3, 47)).astype("float32")
    at = np.arange(n) * step - 4
    want = np.where((at >= 0) & (at < 47), x[:, np.clip(at, 0, 46)], -1)
    np.testing.assert_array_equal(strided((3, n), fb.tensor(x), step=step, shift=4).numpy(), want)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_loops_of_lengths_known_at_run_time(dtype):
    x = rng.integers(-8, 8, (3, 50)).astype(dtype)
    wide = np.pad(x, ((0, 0), (0, 30)))
    want = sum(wide[:, k + j : k + j + 50] for k in range(20) for j in range(2)) * 0.5
    found = window_sum((3, 50), fb.tensor(x), length=20, scale=0.5)
    np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("columns", [1, 3, 70])
def test_sums_at_equal_indices_go_in_order(threads, columns):
    src = rng.standard_normal((5000, columns)).astype("float32")
    index = rng.integers(0, 4, 5000)
    want = np.zeros((4, columns), "float32")
    np.add.at(want, index, src)
    before = fb.get_num_threads()
    fb.set_num_threads(threads)
    try:
        out = add_rows.into(
            fb.zeros(4, columns), (columns, 5000), fb.tensor(index), fb.tensor(src), serial=1, lanes=True
        )
    finally:
        fb.set_num_threads(before)
    np.testing.assert_array_equal(out.numpy(), want)
