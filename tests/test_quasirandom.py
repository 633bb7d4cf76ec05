"""Sobol' sequences: digits by the definition, balance, and the same points however they are drawn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import flambeau
from flambeau.quasirandom import SobolEngine


def test_the_first_dimension_is_van_der_corput_in_gray_order():
    found = SobolEngine(1).draw(64, dtype=flambeau.float64).numpy()[:, 0]
    gray = [k ^ (k >> 1) for k in range(64)]
    reversed_bits = [sum((g >> b & 1) / 2 ** (b + 1) for b in range(6)) for g in gray]
    np.testing.assert_array_equal(found, reversed_bits)


@pytest.mark.parametrize("scramble", [False, True])
def test_every_dimension_is_balanced(scramble):
    points = SobolEngine(40, scramble, seed=3).draw_base2(8, dtype=flambeau.float64).numpy()
    assert points.shape == (256, 40) and points.min() >= 0 and points.max() < 1
    for column in points.T:
        assert sorted(np.floor(column * 256).astype(int)) == list(range(256))


@pytest.mark.parametrize("scramble", [False, True])
def test_points_do_not_depend_on_how_they_are_drawn(scramble):
    engine = SobolEngine(5, scramble, seed=7)
    whole = engine.draw(20)
    engine.reset()
    assert flambeau.equal(flambeau.cat([engine.draw(), engine.draw(6), engine.draw(13)]), whole)
    assert engine.num_generated == 20
    assert flambeau.equal(engine.reset().fast_forward(7).draw(5), whole[7:12])
    assert flambeau.equal(pickle.loads(pickle.dumps(engine.reset().fast_forward(3))).draw(2), whole[3:5])
    assert engine.reset().draw(0).shape == (0, 5)


def test_the_default_generator_scrambles():
    flambeau.manual_seed(0)
    first, second = SobolEngine(3, True).draw(4), SobolEngine(3, True).draw(4)
    flambeau.manual_seed(0)
    assert flambeau.equal(SobolEngine(3, True).draw(4), first) and not flambeau.equal(first, second)
    assert flambeau.equal(SobolEngine(3, True, seed=-1).draw(4), SobolEngine(3, True, seed=-1).draw(4))


def test_scrambled_points_are_those_of_the_seed_s_bits():
    """Digits times a lower triangular matrix with ones on its diagonal, modulo 2, plus a shift: by hand, bit by bit."""
    plain, made = (
        SobolEngine(2).draw(9, dtype=flambeau.float64),
        SobolEngine(2, True, seed=11).draw(9, dtype=flambeau.float64),
    )
    bits, source = 30, flambeau.Generator().manual_seed(11)
    shift = flambeau.randint(2, (2, bits), generator=source).numpy()
    lower = flambeau.randint(2, (2, bits, bits), generator=source).numpy()
    for d in range(2):
        matrix = np.tril(lower[d], -1) + np.eye(bits, dtype=int)
        for x, y in zip(plain[:, d].tolist(), made[:, d].tolist()):
            digits = np.array([int(x * 2**bits) >> (bits - 1 - p) & 1 for p in range(bits)])
            found = (matrix @ digits + shift[d, ::-1]) % 2
            assert y == sum(int(b) << (bits - 1 - p) for p, b in enumerate(found)) / 2**bits


def test_results_go_where_they_are_told():
    out = flambeau.empty(1, dtype=flambeau.float16)
    assert SobolEngine(2).draw(3, out=out) is out and out.dtype is flambeau.float16 and out.shape == (3, 2)
    assert repr(SobolEngine(2, True, 5)) == "SobolEngine(dimension=2, scramble=True, seed=5)"


def test_what_is_refused():
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match="dimensionality"):
            SobolEngine(dimension)
    engine = SobolEngine(1)
    for bad in (-1, 2**30 + 1):
        with pytest.raises(ValueError, match="points"):
            engine.draw(bad)
    engine.draw(3)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(3)
