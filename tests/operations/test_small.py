"""Small methods and older names."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau


def test_in_place_forms():
    x = flambeau.tensor([0.3, 2.6])
    assert x.clone().round_().tolist() == [0.0, 3.0]
    assert x.clone().logit_(0.1)[0].item() == pytest.approx(np.log(0.3 / 0.7), rel=1e-6)
    assert flambeau.tensor([float("nan"), 1.0]).nan_to_num_(2.0).tolist() == [2.0, 1.0]
    assert flambeau.tensor([4.0], dtype=flambeau.float64).float_power_(0.5).tolist() == [2.0]
    assert (x + 2).mvlgamma_(1).tolist() == (x + 2).lgamma().tolist()


@pytest.mark.parametrize(
    "shape, wrap", [((3, 3), False), ((7, 3), False), ((7, 3), True), ((2, 4), True), ((2, 2, 2), False)]
)
def test_fill_diagonal(shape, wrap):
    expected = np.zeros(shape)
    np.fill_diagonal(expected, 5.0, wrap=wrap)
    np.testing.assert_array_equal(flambeau.zeros(shape).fill_diagonal_(5.0, wrap).numpy(), expected)
    with pytest.raises(RuntimeError):
        flambeau.zeros(3).fill_diagonal_(1.0)
    with pytest.raises(RuntimeError):
        flambeau.zeros(2, 3, 4).fill_diagonal_(1.0)


def test_questions():
    x = flambeau.zeros(2, 3)
    assert flambeau.is_same_size(x, flambeau.ones(2, 3)) and not x.is_same_size(x.t())
    assert flambeau.is_nonzero(flambeau.tensor([2])) and not flambeau.tensor(0.0).is_nonzero()
    for bad in (x, flambeau.ones(0)):
        with pytest.raises(RuntimeError, match="ambiguous"):
            bad.is_nonzero()
    assert x.is_set_to(x.view(2, 3)) and not x.is_set_to(x.t()) and not x.is_set_to(x.clone())
    assert flambeau.is_signed(x) and not flambeau.is_signed(x.byte())
    assert x.permute(1, 0).dim_order() == (1, 0) and x.dim_order() == (0, 1)


def test_maps_and_copies():
    x = flambeau.tensor([1.0, 2.0])
    assert x.clone().map_(flambeau.tensor([3.0]), lambda a, b: a * b + 1).tolist() == [4.0, 7.0]
    assert x.clone().map2_(x, x, lambda a, b, c: a + b + c).tolist() == [3.0, 6.0]
    part = x.narrow_copy(0, 1, 1)
    part.zero_()
    assert x.tolist() == [1.0, 2.0]
    assert [t.tolist() for t in flambeau.unsafe_split(x, 1)] == [t.tolist() for t in x.unsafe_chunk(2)]


def test_norms_and_range():
    a = np.random.default_rng(0).standard_normal((2, 3, 3))
    x = flambeau.tensor(a)
    np.testing.assert_allclose(flambeau.frobenius_norm(x, (1, 2)).numpy(), np.linalg.norm(a, axis=(1, 2)))
    np.testing.assert_allclose(
        flambeau.nuclear_norm(x, (1, 2)).numpy(), np.linalg.norm(a, "nuc", axis=(1, 2))
    )
    assert flambeau.range(1, 4).tolist() == [1.0, 2.0, 3.0, 4.0] and flambeau.range(0, 1, 0.5).tolist() == [
        0.0,
        0.5,
        1.0,
    ]
    with pytest.raises(RuntimeError):
        flambeau.range(1, 0)
