"""Powers by numbers: the ways round `power` give its answer, rounded once."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau


@pytest.mark.parametrize("exponent", [2, 3, 1, 0.5, -1, -0.5, 2.0, 1.5])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_out_and_result_have_the_same_bits(exponent, dtype):
    x = flambeau.from_numpy(np.linspace(0.1, 7, 50)).to(getattr(flambeau, dtype))
    out = flambeau.empty(50, dtype=x.dtype)
    assert flambeau.pow(x, exponent, out=out) is out
    assert (out == x**exponent).all()


def test_the_cube_of_a_half_is_rounded_once():
    x = np.linspace(0.1, 7, 500).astype("float16")
    expected = (x.astype("float64") ** 3).astype("float16")
    np.testing.assert_array_equal((flambeau.from_numpy(x) ** 3).numpy(), expected)


def test_a_negative_power_of_integers_is_refused_with_out_too():
    with pytest.raises(RuntimeError, match="negative integer powers"):
        flambeau.pow(flambeau.tensor([2, 3]), -1, out=flambeau.empty(2, dtype=flambeau.int64))
