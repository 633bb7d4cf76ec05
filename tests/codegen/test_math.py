"""Math functions against independent references.

These are NumPy and SciPy in float64 for float32, and mpmath for float64.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import math
import platform
import zlib
from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp
import numpy as np
import pytest
import scipy.special as special

from flambeau.codegen import build
from flambeau.codegen import expr as ex
from flambeau.codegen import kernels as kn
from flambeau.codegen.math import EXPANSIONS

DTYPES = ("float32", "float64")
INF, NAN = math.inf, math.nan
mp.mp.prec = 160


class Function(NamedTuple):
    """References, intervals to look at closely, and bounds of the error in ULP, just above those measured."""

    double: Callable  # on float64 arrays
    exact: Callable  # on mpmath numbers
    intervals: tuple
    bounds: tuple[float, float]


def capped(function: Callable, limit: float) -> Callable:
    """mpmath's function, its argument kept within limits beyond which the result is out of range anyway."""
    return lambda x: function(max(min(x, mp.mpf(limit)), -mp.mpf(limit)))


def exact_pow(x, y):
    if x == 0 or (x < 0 and y != mp.floor(y)):
        raise ValueError("left to the table of special cases")
    power = y * mp.log(abs(x))
    size = mp.exp(max(min(power, mp.mpf(2000)), -mp.mpf(2000)))
    return -size if x < 0 and y % 2 else size


def exact_lgamma(x):
    return mp.loggamma(x) if x > 0 else mp.mpf(NAN)


def exact_cbrt(x):
    return mp.sign(x) * mp.cbrt(abs(x))


def exact_erfc(x):
    return mp.erfc(x) if abs(x) < 40 else mp.mpf(2 * (x < 0))


FUNCTIONS = {
    "exp": Function(np.exp, capped(mp.exp, 2000), ((-110, 90), (-750, 711), (-1, 1)), (1.02, 1.02)),
    "lifted_exp": Function(
        lambda x: np.exp(x) * 2.0**32,
        lambda x: capped(mp.exp, 2000)(x) * 2**64,
        ((-104, 0), (-745, 0), (-1, 0)),
        (1.0, 1.0),
    ),
    "exp2": Function(
        np.exp2, capped(lambda x: mp.mpf(2) ** x, 3000), ((-151, 129), (-1080, 1025), (-1, 1)), (1.0, 1.02)
    ),
    "expm1": Function(
        np.expm1, capped(mp.expm1, 2000), ((-50, 90), (-1, 1), (0.3, 0.5), (709, 710)), (1.6, 1.7)
    ),
    "log": Function(np.log, mp.log, ((0, 10), (0.5, 2), (0.99, 1.01)), (0.85, 0.8)),
    "log1p": Function(np.log1p, mp.log1p, ((-1, 1), (0.3, 0.5), (-0.01, 0.01)), (1.45, 1.4)),
    "log2": Function(np.log2, lambda x: mp.log(x, 2), ((0, 10), (0.5, 2), (0.99, 1.01)), (1.0, 1.1)),
    "log10": Function(np.log10, mp.log10, ((0, 10), (0.5, 2), (0.99, 1.01)), (1.05, 1.0)),
    "pow": Function(
        np.power,
        exact_pow,
        (((0, 10), (-10, 10)), ((-5, 5), (-60, 60)), ((0.99, 1.01), (-8800, 8800))),
        (1.08, 1.06),
    ),
    "sigmoid": Function(
        special.expit,
        capped(lambda x: 1 / (1 + mp.exp(-x)), 2000),
        ((-110, 40), (-750, 40), (-5, 5)),
        (1.65, 1.6),
    ),
    "sin": Function(np.sin, mp.sin, ((-7, 7), (-1e5, 1e5), (-1e9, 1e9)), (1.6, 1.55)),
    "cos": Function(np.cos, mp.cos, ((-7, 7), (-1e5, 1e5), (-1e9, 1e9)), (1.6, 1.5)),
    "tan": Function(np.tan, mp.tan, ((-7, 7), (-1e5, 1e5), (-1e9, 1e9)), (1.65, 1.3)),
    "asin": Function(np.arcsin, mp.asin, ((-1, 1), (0.49, 0.6), (0.99, 1)), (1.15, 1.15)),
    "acos": Function(np.arccos, mp.acos, ((-1, 1), (-0.6, -0.49), (0.99, 1)), (1.2, 1.2)),
    "atan": Function(np.arctan, mp.atan, ((-10, 10), (0.9, 1.1), (-1, 1)), (1.25, 1.25)),
    "atan2": Function(
        np.arctan2, mp.atan2, (((-2, 2), (-2, 2)), ((-1, 1), (0.5, 0.6)), ((0, 1), (-2, 0))), (1.5, 1.5)
    ),
    "sinh": Function(np.sinh, capped(mp.sinh, 2000), ((-1, 1), (-90, 90), (-712, 712)), (1.35, 1.45)),
    "cosh": Function(np.cosh, capped(mp.cosh, 2000), ((-1, 1), (-90, 90), (-712, 712)), (1.15, 1.15)),
    "tanh": Function(np.tanh, capped(mp.tanh, 2000), ((-1, 1), (0.6, 0.7), (-20, 20)), (1.25, 1.2)),
    "asinh": Function(np.arcsinh, mp.asinh, ((-1, 1), (0.5, 0.6), (-50, 50)), (1.5, 1.5)),
    "acosh": Function(np.arccosh, mp.acosh, ((1, 1.1), (1, 2), (1, 50)), (1.8, 1.6)),
    "atanh": Function(np.arctanh, mp.atanh, ((-1, 1), (0.5, 0.6), (0.99, 1)), (0.85, 0.85)),
    "rsqrt": Function(lambda x: 1 / np.sqrt(x), lambda x: 1 / mp.sqrt(x), ((0, 10), (0.9, 1.1)), (1.5, 1.5)),
    "cbrt": Function(np.cbrt, exact_cbrt, ((-10, 10), (7.9, 8.1), (0, 1)), (0.75, 0.65)),
    "hypot": Function(
        np.hypot,
        mp.hypot,
        (((-2, 2), (-2, 2)), ((-1e-20, 1e-20), (-1e-20, 1e-20)), ((1e18, 1e20), (1e18, 1e20))),
        (1.0, 1.0),
    ),
    "erf": Function(special.erf, capped(mp.erf, 40), ((-1, 1), (0.9, 1.1), (-6, 6)), (1.9, 1.15)),
    "erfc": Function(special.erfc, exact_erfc, ((-1, 1), (0.6, 2), (-3, 11), (2, 28)), (1.5, 1.5)),
    "erfinv": Function(special.erfinv, mp.erfinv, ((-1, 1), (0.99, 1), (0.9999, 1)), (1.45, 1.6)),
    "lgamma": Function(
        special.gammaln,
        exact_lgamma,
        ((0, 1), (0.9, 1.1), (1.3, 1.6), (1.9, 2.1), (2, 10), (10, 100)),
        (1.7, 1.8),
    ),
    "digamma": Function(
        special.digamma,
        lambda x: mp.digamma(x) if x > 0 else mp.mpf(NAN),
        ((0, 1), (0.7, 1), (1, 2), (1.46, 1.463), (2, 10), (10, 100)),
        (1.8, 1.8),
    ),
}
EXACT = ("fmod", "remainder")
BINARY = ("pow", "atan2", "hypot", *EXACT)
# SciPy loses relative accuracy near zeros of these, so mpmath is float32's reference too.
MPMATH_ONLY = ("lgamma", "digamma", "erfinv")


# --- running one function ------------------------------
@functools.cache
def compiled(name: str, dtype: str) -> Callable[..., np.ndarray]:
    """The function on contiguous arrays of that dtype, as a kernel of its own."""
    arity = 1 + (name in BINARY)
    body = ex.call(name, *(ex.input(k, dtype) for k in range(arity)))
    operand = kn.Operand(dtype, kn.CONTIGUOUS)
    kernel = kn.Pointwise(f"test_{name}", (body,), (kn.CONTIGUOUS,), (operand,) * arity, ())
    code = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(build.address(kernel))

    def run(*arrays: np.ndarray) -> np.ndarray:
        arrays = tuple(np.ascontiguousarray(a, dtype) for a in arrays)
        out = np.empty_like(arrays[0])
        data = np.array([a.ctypes.data for a in (out, *arrays)], np.uint64)
        geometry = np.array([out.size, 1, 0, out.size] + [1] * (arity + 1) + [0] * (arity + 1), np.int64)
        code(data.ctypes.data, geometry.ctypes.data, np.zeros(1).ctypes.data)
        return out

    return run


# --- points ------------------------------
def any_bits(generator: np.random.Generator, count: int, dtype: str) -> np.ndarray:
    """Numbers of random bits: every exponent is as likely; infinity, NaN, subnormal numbers are included."""
    width = np.dtype(dtype).itemsize
    return np.frombuffer(generator.bytes(count * width), dtype)


def points(name: str, dtype: str, count: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Arguments: random bits, each interval evenly, magnitudes around 1, and neighbourhoods that are hard."""
    generator = np.random.default_rng([zlib.crc32(name.encode()), seed])
    arity = 1 + (name in BINARY)
    intervals = (
        FUNCTIONS[name].intervals if name in FUNCTIONS else (((-10, 10), (-3, 3)), ((-1e6, 1e6), (-1, 1)))
    )
    groups = [[any_bits(generator, count, dtype) for _ in range(arity)]]
    for interval in intervals:
        limits = interval if arity == 2 else (interval,)
        groups.append([generator.uniform(*limit, count).astype(dtype) for limit in limits])
    groups.append(
        [
            (generator.standard_normal(count) * 10 ** generator.uniform(-4, 4, count)).astype(dtype)
            for _ in range(arity)
        ]
    )
    if name in ("sin", "cos", "tan"):
        quarters = np.concatenate([np.arange(count // 2), generator.integers(0, 10**6, count // 2)])
        groups.append([(quarters * (np.pi / 2)).astype(dtype)])
    if name in ("log", "log1p", "log2", "log10", "acosh", "lgamma", "digamma"):
        groups.append(
            [(1 + generator.standard_normal(count) * 10 ** generator.uniform(-16, -2, count)).astype(dtype)]
        )
    if name == "pow":  # results all over the range, and integers
        largest = np.log(np.finfo(dtype).max)
        base = np.exp(generator.uniform(-largest, largest, count)).astype(dtype)
        groups.append(
            [
                base,
                (generator.uniform(-1.05, 1.05, count) * largest / np.log(base.astype(float))).astype(dtype),
            ]
        )
        groups.append(
            [generator.uniform(-9, 9, count).astype(dtype), generator.integers(-30, 30, count).astype(dtype)]
        )
    return tuple(np.concatenate(parts) for parts in zip(*groups))


# --- references and errors ------------------------------
class Reference(NamedTuple):
    """True values, each the sum of two float64 numbers; NaN where there is none."""

    high: np.ndarray
    low: np.ndarray


def from_mpmath(function: Callable, arguments: tuple[np.ndarray, ...]) -> Reference:
    high, low = np.full(len(arguments[0]), NAN), np.zeros(len(arguments[0]))
    for k, values in enumerate(zip(*arguments)):
        if not np.isfinite(values).all():
            continue
        try:
            exact = function(*map(mp.mpf, map(float, values)))
        except (ValueError, ZeroDivisionError):  # outside of the domain, or at a pole
            continue
        if not isinstance(exact, mp.mpc) and mp.isfinite(exact):
            high[k] = float(exact)
            low[k] = float(exact - high[k]) if math.isfinite(high[k]) else 0.0
    return Reference(high, low)


def reference(name: str, dtype: str, arguments: tuple[np.ndarray, ...]) -> Reference:
    if dtype == "float64" or name in MPMATH_ONLY:
        return from_mpmath(FUNCTIONS[name].exact, arguments)
    with np.errstate(all="ignore"):
        high = FUNCTIONS[name].double(*(a.astype(np.float64) for a in arguments))
    return Reference(high, np.zeros_like(high))


def ulp_errors(got: np.ndarray, true: Reference) -> np.ndarray:
    """Distance from the true value in units of its last place; infinity stands next to the largest number."""
    largest = float(np.finfo(got.dtype).max)
    high, low = np.clip(true.high, -largest, largest), np.where(np.abs(true.high) > largest, 0.0, true.low)
    unit = np.spacing(np.abs(high).astype(got.dtype)).astype(np.float64)
    beyond_true = np.where(np.abs(true.high) > largest, np.sign(true.high), 0.0)
    beyond_got = np.where(np.isinf(got), np.sign(got), 0.0)
    finite = np.clip(got, -largest, largest).astype(np.float64)
    return np.abs((finite - high) / unit - low / unit + (beyond_got - beyond_true))


def defined(name: str, dtype: str, arguments: tuple[np.ndarray, ...], true: Reference) -> np.ndarray:
    """Where the reference has a value; elsewhere (NaN, poles, infinities) the tables below speak."""
    keep = np.isfinite(true.high) | (np.isinf(true.high) & np.isfinite(np.stack(arguments)).all(0))
    if name in ("lgamma", "digamma"):
        keep &= arguments[0] > 0
    if name == "lifted_exp":
        keep &= (arguments[0] <= 0) & (arguments[0] >= (-104 if dtype == "float32" else -745))
    return keep


def largest_error(name: str, dtype: str, count: int, seed: int = 0) -> tuple[float, tuple]:
    """The largest error over the points, and where it is."""
    arguments = points(name, dtype, count, seed)
    got = compiled(name, dtype)(*arguments)
    true = reference(name, dtype, arguments)
    with np.errstate(all="ignore"):
        errors = np.where(defined(name, dtype, arguments, true), ulp_errors(got, true), 0.0)
    errors = np.where(np.isnan(errors), INF, errors)
    worst = int(errors.argmax())
    return float(errors[worst]), tuple(a[worst] for a in arguments)


# --- tests ------------------------------
def test_every_function_is_tested():
    assert set(EXPANSIONS) == set(FUNCTIONS) | set(EXACT) | {"trigamma"}  # test_trigamma


@pytest.mark.parametrize("dtype,tolerance", [("float32", 2e-6), ("float64", 1e-14)])
def test_trigamma(dtype, tolerance):
    """A derivative, held to a relative error; the reference is SciPy's polygamma(1, x)."""
    from scipy.special import polygamma

    import flambeau

    x = np.linspace(0.05, 30, 500).astype(dtype)
    t = flambeau.from_numpy(x).requires_grad_()
    (got,) = flambeau.autograd.grad(flambeau.digamma(t).sum(), t)
    expected = polygamma(1, x.astype("float64"))
    assert (np.abs(got.numpy() - expected) / expected).max() < tolerance


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_is_within_its_bound(name, dtype):
    bound = FUNCTIONS[name].bounds[DTYPES.index(dtype)]
    assert bound <= 2
    count = 300 if name in MPMATH_ONLY else 20000 if dtype == "float32" else 400
    error, where = largest_error(name, dtype, count)
    assert error <= bound, f"{name}{where} is {error:.3f} ULP off"


@pytest.mark.parametrize("dtype", DTYPES)
def test_fmod_is_exact(dtype):
    x, y = points("fmod", dtype, 20000)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(compiled("fmod", dtype)(x, y), np.fmod(x, y))


@pytest.mark.parametrize("dtype", DTYPES)
def test_remainder_has_the_sign_of_the_divisor(dtype):
    x, y = points("remainder", dtype, 20000)
    with np.errstate(all="ignore"):
        r = np.fmod(x, y)
        expected = np.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)
    np.testing.assert_array_equal(compiled("remainder", dtype)(x, y), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ("lgamma", "digamma"))
def test_gamma_functions_of_negative_numbers(name, dtype):
    """The error is small against the terms of the reflection formula, not against a value near zero."""
    x = -np.random.default_rng(5).uniform(0, 20, 500).astype(dtype)
    got = compiled(name, dtype)(x)
    exact = {"lgamma": lambda v: mp.log(abs(mp.gamma(v))), "digamma": mp.digamma}[name]
    true = from_mpmath(exact, (x,))
    size = np.maximum(np.abs(true.high), {"lgamma": special.gammaln(2.0 - x), "digamma": 4.0}[name])
    assert (np.abs((got - true.high) - true.low) <= 2 * np.finfo(dtype).eps * np.maximum(size, 1)).all()


POLES = [
    ("log", 0.0, -INF),
    ("log", -0.0, -INF),
    ("log2", 0.0, -INF),
    ("log10", 0.0, -INF),
    ("log1p", -1.0, -INF),
    ("rsqrt", 0.0, INF),
    ("rsqrt", -0.0, -INF),
    ("atanh", 1.0, INF),
    ("atanh", -1.0, -INF),
    ("erfinv", 1.0, INF),
    ("erfinv", -1.0, -INF),
    ("lgamma", 0.0, INF),
    ("lgamma", -3.0, INF),
    ("lgamma", -INF, INF),
    ("digamma", 0.0, -INF),
    ("digamma", -0.0, INF),
]
AT_INFINITY = [
    ("exp", INF, INF),
    ("exp", -INF, 0.0),
    ("exp2", INF, INF),
    ("exp2", -INF, 0.0),
    ("expm1", INF, INF),
    ("expm1", -INF, -1.0),
    ("log", INF, INF),
    ("log2", INF, INF),
    ("log10", INF, INF),
    ("log1p", INF, INF),
    ("sigmoid", INF, 1.0),
    ("sigmoid", -INF, 0.0),
    ("tanh", INF, 1.0),
    ("tanh", -INF, -1.0),
    ("sinh", INF, INF),
    ("sinh", -INF, -INF),
    ("cosh", INF, INF),
    ("cosh", -INF, INF),
    ("asinh", INF, INF),
    ("asinh", -INF, -INF),
    ("acosh", INF, INF),
    ("erf", INF, 1.0),
    ("erf", -INF, -1.0),
    ("erfc", INF, 0.0),
    ("erfc", -INF, 2.0),
    ("rsqrt", INF, 0.0),
    ("cbrt", INF, INF),
    ("cbrt", -INF, -INF),
    ("lgamma", INF, INF),
    ("digamma", INF, INF),
]
OUTSIDE = [
    ("log", -1.0),
    ("log", -INF),
    ("log2", -1.0),
    ("log10", -1.0),
    ("log1p", -2.0),
    ("log1p", -INF),
    ("sin", INF),
    ("sin", -INF),
    ("cos", INF),
    ("tan", INF),
    ("asin", 1.5),
    ("asin", INF),
    ("acos", -1.5),
    ("acosh", 0.5),
    ("acosh", -5.0),
    ("acosh", -INF),
    ("atanh", 1.5),
    ("atanh", INF),
    ("rsqrt", -1.0),
    ("erfinv", 1.5),
    ("erfinv", -INF),
    ("digamma", -2.0),
    ("digamma", -INF),
]
EXACTLY = [
    ("exp", 0.0, 1.0),
    ("exp2", 10.0, 1024.0),
    ("exp2", -1.0, 0.5),
    ("log", 1.0, 0.0),
    ("log2", 8.0, 3.0),
    ("log10", 1.0, 0.0),
    ("cos", 0.0, 1.0),
    ("acos", 1.0, 0.0),
    ("acosh", 1.0, 0.0),
    ("cosh", 0.0, 1.0),
    ("sigmoid", 0.0, 0.5),
    ("erfc", 0.0, 1.0),
    ("lgamma", 1.0, 0.0),
    ("lgamma", 2.0, 0.0),
    ("cbrt", 27.0, 3.0),
    ("rsqrt", 4.0, 0.5),
]
KEEP_ZERO = "expm1 log1p sin tan asin atan sinh tanh asinh atanh erf erfinv cbrt".split()
PAIRS = [
    *(("pow", x, 0.0, 1.0) for x in (0.0, -0.0, 1.0, -2.0, INF, -INF, NAN)),
    *(("pow", 1.0, y, 1.0) for y in (0.0, -3.5, INF, -INF, NAN)),
    ("pow", 0.0, -3.0, INF),
    ("pow", -0.0, -3.0, -INF),
    ("pow", -0.0, -2.0, INF),
    ("pow", -0.0, 3.0, -0.0),
    ("pow", -0.0, 2.0, 0.0),
    ("pow", 0.0, -INF, INF),
    ("pow", -1.0, INF, 1.0),
    ("pow", -1.0, -INF, 1.0),
    ("pow", 0.5, INF, 0.0),
    ("pow", 0.5, -INF, INF),
    ("pow", -2.0, INF, INF),
    ("pow", 2.0, -INF, 0.0),
    ("pow", INF, 2.0, INF),
    ("pow", INF, -2.0, 0.0),
    ("pow", -INF, 3.0, -INF),
    ("pow", -INF, 2.5, INF),
    ("pow", -INF, -3.0, -0.0),
    ("pow", -8.0, 1 / 3, NAN),
    ("pow", -2.0, 3.0, -8.0),
    ("pow", NAN, 1.0, NAN),
    ("pow", 2.0, NAN, NAN),
    ("pow", 10.0, 3.0, 1000.0),
    ("atan2", 0.0, 0.0, 0.0),
    ("atan2", -0.0, 0.0, -0.0),
    ("atan2", 0.0, -0.0, math.pi),
    ("atan2", -0.0, -0.0, -math.pi),
    ("atan2", 0.0, -1.0, math.pi),
    ("atan2", -0.0, -1.0, -math.pi),
    ("atan2", 1.0, 0.0, math.pi / 2),
    ("atan2", -1.0, -0.0, -math.pi / 2),
    ("atan2", -INF, 1.0, -math.pi / 2),
    ("atan2", 1.0, INF, 0.0),
    ("atan2", -1.0, -INF, -math.pi),
    ("atan2", NAN, 1.0, NAN),
    ("atan2", 1.0, NAN, NAN),
    ("atan2", NAN, INF, NAN),
    ("hypot", 3.0, -4.0, 5.0),
    ("hypot", 0.0, -0.0, 0.0),
    ("hypot", INF, NAN, INF),
    ("hypot", NAN, -INF, INF),
    ("hypot", NAN, 1.0, NAN),
    ("fmod", 5.5, INF, 5.5),
    ("fmod", -0.0, 1.0, -0.0),
    ("fmod", 1.0, 0.0, NAN),
    ("fmod", INF, 2.0, NAN),
    ("fmod", INF, INF, NAN),
    ("fmod", 1.0, NAN, NAN),
    ("fmod", -6.0, 3.0, -0.0),
    ("remainder", -1.0, 3.0, 2.0),
    ("remainder", 1.0, -3.0, -2.0),
    ("remainder", -1.0, INF, INF),
    ("remainder", 1.0, 0.0, NAN),
]


def check(name: str, dtype: str, arguments: tuple, expected: float):
    """The value rounded to the dtype, NaN, or zero of the right sign."""
    got = compiled(name, dtype)(*(np.array([a], dtype) for a in arguments))[0]
    wanted = np.dtype(dtype).type(expected)
    if math.isnan(expected):
        assert np.isnan(got), got
    else:
        assert (got, np.signbit(got)) == (wanted, np.signbit(wanted))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name, x, expected", POLES + AT_INFINITY + EXACTLY)
def test_special_values(name, x, expected, dtype):
    check(name, dtype, (x,), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name, x, y, expected", PAIRS)
def test_special_values_of_two_arguments(name, x, y, expected, dtype):
    check(name, dtype, (x, y), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name, x", OUTSIDE)
def test_nan_outside_the_domain(name, x, dtype):
    check(name, dtype, (x,), NAN)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in BINARY])
def test_nan_stays_nan(name, dtype):
    check(name, dtype, (NAN,), NAN)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KEEP_ZERO)
def test_odd_functions_keep_the_sign_of_zero(name, dtype):
    check(name, dtype, (0.0,), 0.0)
    check(name, dtype, (-0.0,), -0.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_atan2_on_the_diagonals_at_infinity(dtype):
    y, x = np.array([INF, INF, -INF, -INF], dtype), np.array([INF, -INF, INF, -INF], dtype)
    expected = np.array([math.pi / 4, 3 * math.pi / 4, -math.pi / 4, -3 * math.pi / 4])
    np.testing.assert_allclose(compiled("atan2", dtype)(y, x), expected, rtol=np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ("sin", "cos", "tan"))
def test_huge_angles(name, dtype):
    """Among them the float64 number nearest to a multiple of pi/2: Muller, "Elementary Functions", ch. 11."""
    x = np.array(
        [1e5, 99999.0, 1e8, 1e9, 1e15, 1e22, 1e30, 3e38, 6381956970095103.0 * 2.0**797, 1e300, 1.7e308]
    )
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    x = x[np.isfinite(x)]
    assert ulp_errors(compiled(name, dtype)(x), from_mpmath(FUNCTIONS[name].exact, (x,))).max() <= 2


@pytest.mark.parametrize("name", ["exp", "exp2", "lifted_exp"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exp_of_what_vanishes_is_zero_without_underflow(name, dtype):
    """A masked softmax is half made of such elements, and products that underflow take some processors a hundred cycles."""
    machine = ctypes.CDLL(ctypes.util.find_library("m"))
    underflow = {"x86_64": 16, "aarch64": 8}[platform.machine()]  # FE_UNDERFLOW
    x = np.array([-np.inf, np.finfo(dtype).min, -1e4, -2e3, -1200.0] * 8, dtype)
    f = compiled(name, dtype)
    f(x)
    machine.feclearexcept(underflow)
    got = f(x)
    assert machine.fetestexcept(underflow) == 0
    assert not got.any() and not np.signbit(got).any()
