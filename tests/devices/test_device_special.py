"""Special functions of an accelerator against SciPy's, and what is made of bits and integers against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from accelerator import DEVICE, array, same

import flambeau
from flambeau.operations.declare.registry import REGISTRY

S = flambeau.special
RNG = np.random.default_rng(3)
LOG_SPACED = np.concatenate(
    [np.linspace(-30, 30, 301), 10.0 ** RNG.uniform(-8, 2.5, 100), -(10.0 ** RNG.uniform(-8, 2.5, 100))]
)
# Name, SciPy's function, and the error relative to the larger of |result| and the size that is named: Bessel functions of both
# kinds, and Airy's, lose digits where they go through zero, and e^(x²/2) where it is large.
FUNCTIONS = {
    "i0": ("i0", 1e-14, 0),
    "i0e": ("i0e", 1e-14, 0),
    "i1": ("i1", 1e-14, 0),
    "i1e": ("i1e", 1e-14, 0),
    "bessel_j0": ("j0", 1e-13, 0.05),
    "bessel_j1": ("j1", 1e-13, 0.05),
    "bessel_y0": ("y0", 1e-13, 0.05),
    "bessel_y1": ("y1", 1e-13, 0.05),
    "modified_bessel_k0": ("k0", 3e-14, 0),
    "modified_bessel_k1": ("k1", 3e-14, 0),
    "scaled_modified_bessel_k0": ("k0e", 3e-14, 0),
    "scaled_modified_bessel_k1": ("k1e", 3e-14, 0),
    "erfcx": ("erfcx", 2e-13, 0),
    "log_ndtr": ("log_ndtr", 2e-13, 1e-290),
    "airy_ai": (lambda x: scipy.special.airy(x)[0], 1e-12, 0.05),
    "spherical_bessel_j0": (lambda x: scipy.special.spherical_jn(0, x), 1e-14, 1e-3),
}


def close(actual, expected, tolerance, size=0.0):
    actual, expected = array(actual).astype("float64"), np.asarray(expected)
    with np.errstate(all="ignore"):
        scale = np.maximum(np.abs(expected), size)
        wrong = ~((np.abs(actual - expected) <= tolerance * scale) | (actual == expected))
    wrong &= ~(np.isnan(actual) & np.isnan(expected))
    assert not wrong.any(), (actual[wrong][:3], expected[wrong][:3])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_number(name):
    theirs, tolerance, size = FUNCTIONS[name]
    theirs = getattr(scipy.special, theirs) if isinstance(theirs, str) else theirs
    x = np.concatenate([LOG_SPACED, [0.0, np.nan]])
    x = x[np.abs(x) < 80] if name == "airy_ai" else x
    with np.errstate(all="ignore"):
        expected = theirs(x)
    moved = flambeau.from_numpy(x).to(DEVICE)
    function = getattr(S, name)
    close(function(moved), expected, tolerance, size)
    single = flambeau.from_numpy(x).float()
    with np.errstate(all="ignore"):
        close(
            function(single.to(DEVICE)),
            theirs(single.numpy().astype("float64")).astype("float32"),
            3e-7,
            max(size, 1e-37),
        )
    half = single[:40].half()
    assert function(half.to(DEVICE)).dtype == flambeau.float16
    # layouts, no elements, no dimensions
    grid = moved[:300].reshape(20, 15)
    for view in (lambda t: t.t(), lambda t: t[::2, 1::3]):
        np.testing.assert_array_equal(array(function(view(grid))), array(view(function(grid))))
    assert function(moved[:0]).shape == (0,) and function(moved[7]).shape == ()
    assert function(flambeau.ones(2, dtype=flambeau.int64, device=DEVICE)).dtype == flambeau.float32


def test_limits():
    ends = flambeau.tensor([np.inf, -np.inf], dtype=flambeau.float64, device=DEVICE)
    assert S.i0(ends).tolist() == [np.inf, np.inf] and S.i0e(ends).tolist() == [0, 0]
    assert S.i1(ends).tolist() == [np.inf, -np.inf] and S.erfcx(ends).tolist() == [0, np.inf]
    zero = flambeau.zeros(1, device=DEVICE)
    assert S.bessel_y0(zero).item() == -np.inf and S.modified_bessel_k1(zero).item() == np.inf
    assert np.isnan(S.bessel_y1(zero - 1).item())


def test_functions_of_two_numbers():
    a, x = 10.0 ** RNG.uniform(-3, 3, 500), 10.0 ** RNG.uniform(-3, 3, 500)
    a[:7], x[:7] = [0, 0, 1, np.inf, 1, -1, np.nan], [0, 1, 0, 1, np.inf, 1, 1]
    moved = [flambeau.from_numpy(t).to(DEVICE) for t in (a, x)]
    close(flambeau.igamma(*moved), scipy.special.gammainc(a, x), 2e-12, 1e-3)
    close(flambeau.igammac(*moved), scipy.special.gammaincc(a, x), 2e-12, 1e-3)
    s, q = RNG.uniform(1, 30, 300), RNG.uniform(0.01, 50, 300)
    s[:6], q[:6] = [1, 0.5, 2, 3, 2.5, np.nan], [1, 1, -1, -1.5, -1.5, 1]
    close(S.zeta(*(flambeau.from_numpy(t).to(DEVICE) for t in (s, q))), scipy.special.zeta(s, q), 1e-14)
    close(S.zeta(flambeau.from_numpy(s).to(DEVICE), 2.0), scipy.special.zeta(s, 2.0), 1e-14)
    for n in (1, 2, 5):
        y = np.concatenate([RNG.uniform(0.01, 50, 100), [0.0]])
        close(flambeau.polygamma(n, flambeau.from_numpy(y).to(DEVICE)), scipy.special.polygamma(n, y), 1e-14)
    p = np.concatenate(
        [10.0 ** RNG.uniform(-300, 0, 200), RNG.uniform(0, 1, 200), [0, 1, 0.5, -1, 2, np.nan]]
    )
    close(S.ndtri(flambeau.from_numpy(p).to(DEVICE)), scipy.special.ndtri(p), 1e-12, 1e-4)


@pytest.mark.parametrize(
    "entry", [e for e in REGISTRY.values() if "recurrence" in e.details], ids=lambda e: e.name
)
def test_polynomials_have_the_bits_of_the_cpu(entry):
    x = flambeau.from_numpy(RNG.uniform(-1.5, 1.5, (6, 20))).float()
    n = flambeau.from_numpy(RNG.integers(-2, 12, (6, 1))).float()
    for dtype in (flambeau.float32, flambeau.float64):
        given = x.to(dtype), n.to(dtype)
        same(entry.function(*(t.to(DEVICE) for t in given)), entry.function(*given))
    same(entry.function(x.t().to(DEVICE), 3), entry.function(x.t(), 3))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int8"])
def test_common_divisors_and_multiples(dtype):
    i, j = (
        flambeau.from_numpy(RNG.integers(-100, 100, (4, 60))).to(getattr(flambeau, dtype)) for _ in range(2)
    )
    i[0, :4], j[0, :4] = flambeau.tensor([0, 5, 0, 1]), flambeau.tensor([0, 0, 5, 0])
    if dtype in ("int64", "int8"):
        i[1, 0] = -(1 << 63) if dtype == "int64" else -128
    same(flambeau.gcd(i.to(DEVICE), j.to(DEVICE)), flambeau.gcd(i, j))
    same(flambeau.lcm(i.to(DEVICE), j.to(DEVICE)), flambeau.lcm(i, j))
    same(i.to(DEVICE).gcd_(j.to(DEVICE)), i.clone().gcd_(j))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_parts_of_numbers_and_their_neighbours(dtype):
    x = np.concatenate([RNG.standard_normal(60), [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 1e-40, 2.0, -2.0]])
    x = flambeau.from_numpy(x).to(getattr(flambeau, dtype))
    y = x.flip(0).clone()
    y[:9] = x[:9]
    same(flambeau.nextafter(x.to(DEVICE), y.to(DEVICE)), flambeau.nextafter(x, y))
    same(tuple(flambeau.frexp(x.to(DEVICE))), tuple(flambeau.frexp(x)))
