"""`testing.assert_close` against NumPy's allclose, and what its messages say."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.testing import assert_close, make_tensor

DTYPES = ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]


def says(*args, **kwargs) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_close(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_tensors_agree_and_others_do_not(dtype):
    x = make_tensor(4, 5, dtype=getattr(flambeau, dtype), device="cpu")
    assert_close(x, x.clone())
    y = x.clone()
    y[2, 3] = ~y[2, 3] if dtype == "bool" else y[2, 3] + 3
    text = says(y, x)
    assert "Mismatched elements: 1 / 20 (5.0%)" in text
    assert "at index (2, 3)" in text


def test_tolerances_are_those_of_numpy_isclose():
    rng = np.random.default_rng(0)
    expected = rng.normal(size=200)
    actual = expected * (1 + rng.normal(size=200) * 1e-3) + rng.normal(size=200) * 1e-4
    for rtol, atol in ((1e-3, 0), (0, 1e-4), (1e-3, 1e-4), (1e-2, 1e-2)):
        differing = int((~np.isclose(actual, expected, rtol=rtol, atol=atol)).sum())
        ours = (flambeau.from_numpy(actual), flambeau.from_numpy(expected))
        if differing:
            assert f"Mismatched elements: {differing} / 200" in says(*ours, rtol=rtol, atol=atol)
        else:
            assert_close(*ours, rtol=rtol, atol=atol)


def test_special_values():
    inf, nan = float("inf"), float("nan")
    assert_close(flambeau.tensor([inf, -inf]), flambeau.tensor([inf, -inf]))
    assert_close(inf, inf)
    assert "not close" in says(1.0, inf)
    assert "not close" in says(flambeau.tensor([1.0]), flambeau.tensor([inf]))
    x = flambeau.tensor([nan, 1.0])
    assert "Greatest absolute difference: nan at index (0,)" in says(x, x)
    assert_close(x, x, equal_nan=True)
    assert_close(nan, nan, equal_nan=True)
    # Equal infinities hide no other difference.
    text = says(flambeau.tensor([inf, 1.0]), flambeau.tensor([inf, 2.0]))
    assert "Greatest absolute difference: 1.0 at index (1,)" in text


def test_what_is_compared_beside_values():
    x = flambeau.ones(3, 2)
    assert "'shape'" in says(x, x.T)
    assert "'dtype'" in says(x, x.double())
    assert_close(x, x.double(), check_dtype=False)
    assert "'stride()'" in says(x, flambeau.ones(2, 3).T, check_stride=True)
    assert "'device'" in says(x, x.to("meta"))
    assert "NoneType" not in says(None, x)
    assert "(d)types" in says(1, 1.0)
    assert_close(1, 1.0, check_dtype=False)
    assert_close(np.float32(0.5), 0.5)
    assert says(True, False) == "Booleans mismatch: True is not False"


def test_structures_name_the_place():
    x, y = flambeau.zeros(2), flambeau.ones(2)
    assert says([x, {"a": (x, x)}], [x, {"a": (x, y)}]).endswith("The failure occurred for item [1]['a'][1]")
    assert says([x], [x, x]) == "The length of the sequences mismatch: 1 != 2"
    text = says({"a": x}, {"b": x})
    assert "Missing keys in the actual mapping: ['b']" in text
    assert "Additional keys in the actual mapping: ['a']" in text


def test_the_message_may_be_another():
    x, y = flambeau.zeros(2), flambeau.ones(2)
    assert says(x, y, msg="no") == "no"
    assert says(x, y, msg=lambda text: "lo: " + text).startswith("lo: Tensor-likes")


def test_what_cannot_be_compared_is_a_type_error():
    for pair in (("a", "a"), ({1}, {1}), (flambeau.ones(1), 1.0), (object(), object()), ([1, "b"], [1, "b"])):
        with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
            assert_close(*pair)
    weight = flambeau.nn.Parameter(flambeau.ones(2))
    assert_close(weight, flambeau.ones(2))
    with pytest.raises(TypeError):
        assert_close(weight, flambeau.ones(2), allow_subclasses=False)


def test_tolerances_are_checked():
    x = flambeau.ones(1)
    with pytest.raises(ValueError, match="got no atol"):
        assert_close(x, x, rtol=1.0)
    for bad in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="rtol must not be negative"):
            assert_close(x, x, rtol=bad, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_make_tensor_stays_in_its_bounds(dtype):
    kind = getattr(flambeau, dtype)
    x = make_tensor((50, 40), dtype=kind, device="cpu")
    parts = flambeau.view_as_real(x) if kind.is_complex else x
    low, high = (0, 1) if dtype == "bool" else (0, 9) if dtype == "uint8" else (-9, 9)
    seen = parts.double()
    assert low <= seen.min() and seen.max() <= high
    assert seen.max() - seen.min() > 0.8 * (high - low)
    y = make_tensor(6, 4, dtype=kind, device="cpu", noncontiguous=True)
    assert y.shape == (6, 4) and not y.is_contiguous()
    z = make_tensor(500, dtype=kind, device="cpu", low=0, high=2, exclude_zero=True)
    assert bool((z != 0).all())


def test_make_tensor_refuses():
    for wrong in (
        {"low": 5, "high": 3},
        {"low": float("nan")},
        {"low": 300, "high": 400},
        {"requires_grad": True},
        {"noncontiguous": True, "memory_format": flambeau.channels_last},
    ):
        with pytest.raises(ValueError):
            make_tensor(3, dtype=flambeau.int8, device="cpu", **wrong)
    wide = make_tensor(1000, dtype=flambeau.float64, device="cpu", low=float("-inf"), high=float("inf"))
    assert bool(wide.isfinite().all()) and wide.abs().max() > 1e308


def test_assert_allclose_is_the_older_name():
    nan = float("nan")
    with pytest.warns(FutureWarning, match="assert_close"):
        flambeau.testing.assert_allclose(flambeau.tensor([1.0, nan]), np.array([1.0, nan]))
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="mine"):
        flambeau.testing.assert_allclose(flambeau.tensor([1]), [2], msg="mine")


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_wide_unsigned_integers_meet_others(dtype):
    """Though no operation promotes them: as int64, in PyTorch's comparison, too."""
    x = flambeau.tensor([1, 2], dtype=getattr(flambeau, dtype))
    for other in (flambeau.int64, flambeau.float32, flambeau.uint8):
        flambeau.testing.assert_close(x, flambeau.tensor([1, 2], dtype=other), check_dtype=False)
        with pytest.raises(AssertionError):
            flambeau.testing.assert_close(x, flambeau.tensor([1, 3], dtype=other), check_dtype=False)
