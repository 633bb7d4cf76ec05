"""Numbers that are written to elements past their range, and elements that become numbers."""

from __future__ import annotations

import math

import pytest

import flambeau

KEYS = {
    "number": 0,
    "slice": slice(0, 1),
    "ellipsis": (..., slice(0, 1)),
    "none": (None, 0),
    "list": [0],
    "places": flambeau.tensor([0]),
    "mask": flambeau.tensor([True, False]),
    "list of bools": [True, False],
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32", "float64", "float8_e5m2"))
def test_a_number_past_the_range_is_infinite_where_a_key_says(key, dtype):
    """`scores[mask] = -1e9` in a half type, as in PyTorch, whose `fill_` and `masked_fill_` refuse it."""
    if dtype == "float8_e5m2" and key == "mask":
        pytest.skip("masked_fill has no kernel for float8, as in PyTorch")
    kind = getattr(flambeau, dtype)
    most = flambeau.finfo(kind).max
    for number in (-1e9, 2**40, 500, math.inf, 3, -2.5, *(() if dtype == "float32" else (1e39, -1e300))):
        x = flambeau.zeros(2).to(kind)
        x[KEYS[key]] = number
        first, second = x.double().tolist()
        assert (
            second == 0 and first == flambeau.tensor(float(number), dtype=flambeau.float64).to(kind).double()
        )
        assert abs(number) <= most or math.isinf(first)
    if most < 1e9:
        with pytest.raises(RuntimeError, match="without overflow"):
            flambeau.zeros(2).to(kind).fill_(-1e9)


def test_gradients_of_half_scores_that_are_masked_by_key():
    x = flambeau.ones(3, dtype=flambeau.float16, requires_grad=True)
    scores = x * 2
    scores[flambeau.tensor([False, True, False])] = -1e9
    scores.softmax(0)[0].backward()
    assert scores[1].item() == -math.inf and x.grad.tolist() == [0.5, 0.0, -0.5]


def test_complex_elements_become_real_numbers_where_they_are():
    for dtype in (flambeau.complex64, flambeau.complex128):
        x = flambeau.tensor(2 + 0j, dtype=dtype)
        assert float(x) == 2.0 and int(x) == 2 and complex(x) == 2 + 0j
        for convert in (float, int):
            with pytest.raises(RuntimeError, match="without overflow"):
                convert(x + 1j)


def test_powers_have_no_modulus():
    """Which is not left out in silence."""
    x = flambeau.tensor(2)
    with pytest.raises(TypeError):
        pow(x, 3, 5)
    assert pow(x, 3) == 8 and pow(2, x) == 4


def test_isin_wants_a_tensor():
    with pytest.raises(TypeError, match="must be a Tensor"):
        flambeau.isin(1, 1)
