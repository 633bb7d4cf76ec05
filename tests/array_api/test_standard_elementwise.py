"""Functions of elements beside NumPy's: every dtype, shape and special value."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest
from standard_arrays import ALL, COMPLEXES, INTEGERS, NUMERIC, REALS, SHAPES, numbers, ours, pairs, same, xp

FLOATING = REALS + COMPLEXES
OF_ONE = {
    **dict.fromkeys(("abs", "negative", "positive", "sign", "square"), NUMERIC),
    **dict.fromkeys(
        ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1"), FLOATING
    ),
    **dict.fromkeys(
        ("log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh", "reciprocal"), FLOATING
    ),
    **dict.fromkeys(("ceil", "floor", "trunc"), INTEGERS + REALS),
    **dict.fromkeys(("round", "isfinite", "isinf", "isnan", "conj"), NUMERIC),
    **dict.fromkeys(("real", "imag"), COMPLEXES),
    "signbit": REALS,
    "logical_not": ("bool",),
    "bitwise_invert": ("bool", *INTEGERS),
}
OF_TWO = {
    **dict.fromkeys(("add", "subtract", "multiply"), NUMERIC),
    **dict.fromkeys(("equal", "not_equal"), ALL),
    **dict.fromkeys(
        ("greater", "greater_equal", "less", "less_equal", "maximum", "minimum"), INTEGERS + REALS
    ),
    **dict.fromkeys(("floor_divide", "remainder"), INTEGERS + REALS),
    **dict.fromkeys(("atan2", "copysign", "hypot", "logaddexp", "nextafter"), REALS),
    "divide": FLOATING,
    "pow": FLOATING,
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), ("bool", *INTEGERS)),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), INTEGERS),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), ("bool",)),
}
DIVIDES = ("floor_divide", "remainder", "divide")


def test_every_function_of_elements_is_here():
    functions = {n: getattr(xp, n) for n in xp.__all__ if inspect.isfunction(getattr(xp, n))}
    named = {n for n, f in functions.items() if [*inspect.signature(f).parameters] in (["x"], ["x1", "x2"])}
    others = {"matmul", "matrix_transpose", "nonzero"} | {n for n in named if n.startswith("unique")}
    assert named - others == {*OF_ONE, *OF_TWO}


@pytest.mark.parametrize("name", OF_ONE)
def test_of_one(name):
    with np.errstate(all="ignore"):
        for dtype, shape in itertools.product(OF_ONE[name], SHAPES):
            x = numbers(dtype, shape)
            same(getattr(xp, name)(ours(x)), getattr(np, name)(x))


@pytest.mark.parametrize("name", OF_TWO)
def test_of_two(name):
    with np.errstate(all="ignore"):
        for (a, b), (s, t) in itertools.product(
            pairs(OF_TWO[name]), (((2, 3), (2, 3)), ((2, 3), ()), ((), (3,)), ((), ()), ((2, 1), (0,)))
        ):
            x, y = numbers(a, s, 1), numbers(b, t, 2)
            if name in DIVIDES or "shift" in name:
                y = np.where(y == 0, np.asarray(1, y.dtype), np.abs(y)).astype(y.dtype)
            same(getattr(xp, name)(ours(x), ours(y)), getattr(np, name)(x, y), loose=8)


@pytest.mark.parametrize("name", OF_TWO)
def test_python_numbers(name):
    """A number takes the array's dtype, on either side."""
    with np.errstate(all="ignore"):
        for dtype in OF_TWO[name]:
            x = numbers(dtype, (2, 3), 3, low=1)
            number = {"b": True, "i": 2, "u": 2, "f": 2.5, "c": 2.5 - 1j}[x.dtype.kind]
            for s in ((2, 3), ()):
                y = np.abs(x[:1, :1].reshape(s)) if s == () else np.abs(x)
                y = (y if y.dtype == x.dtype else y.astype(x.dtype)) + (
                    dtype != "bool" and np.asarray(1, x.dtype)
                )
                y = y.astype(x.dtype)
                as_array = np.asarray(number, x.dtype)
                same(getattr(xp, name)(ours(y), number), getattr(np, name)(y, as_array), loose=8)
                same(getattr(xp, name)(number, ours(y)), getattr(np, name)(as_array, y), loose=8)


SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    1.5,
    2.5,
    1e30,
    -1e30,
    np.inf,
    -np.inf,
    np.nan,
)


def wanted_of_two(name, x, y):
    """NumPy's results, but the standard's where an infinity is divided by, or divides."""
    wanted = getattr(np, name)(x, y)
    if name == "floor_divide":
        return np.where(np.isinf(x) | np.isinf(y), x / y, wanted)
    return wanted


def identical(found, wanted):
    """The same special values with the same signs of zero; others up to rounding."""
    found = found.numpy()
    assert found.dtype == wanted.dtype
    special = ~np.isfinite(wanted) | (wanted == 0)
    np.testing.assert_array_equal(found[special], wanted[special])
    np.testing.assert_array_equal(np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0]))
    np.testing.assert_allclose(found[~special], wanted[~special], rtol=1e-5)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("name", [n for n in OF_ONE if "float32" in OF_ONE[n]])
def test_special_values_of_one(name, dtype):
    x = np.asarray(SPECIAL, dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x)
    if wanted.dtype == bool:
        same(getattr(xp, name)(ours(x)), wanted)
    else:
        identical(getattr(xp, name)(ours(x)), wanted)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("name", [n for n in OF_TWO if "float32" in OF_TWO[n]])
def test_special_values_of_two(name, dtype):
    x, y = (a.reshape(-1).copy() for a in np.meshgrid(np.asarray(SPECIAL, dtype), np.asarray(SPECIAL, dtype)))
    with np.errstate(all="ignore"):
        wanted = wanted_of_two(name, x, y)
    kept = np.ones(x.shape, bool)
    if name in ("maximum", "minimum"):  # of 0 and -0 either
        kept &= ~((x == 0) & (y == 0))
    if wanted.dtype == bool:
        same(getattr(xp, name)(ours(x), ours(y)), wanted)
    else:
        identical(getattr(xp, name)(ours(x), ours(y))[ours(kept)], wanted[kept])


@pytest.mark.parametrize("dtype", COMPLEXES)
@pytest.mark.parametrize(
    "name",
    ["isfinite", "isinf", "isnan", "abs", "real", "imag", "conj", "negative", "positive", "round", "square"],
)
def test_complex_special_values(name, dtype):
    parts = np.asarray([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan])
    x = np.empty((6, 6), dtype)
    x.real, x.imag = parts[:, None], parts
    if name == "square":
        x = x[np.isfinite(x)]
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x)
    np.testing.assert_allclose(getattr(xp, name)(ours(x)).numpy(), wanted, rtol=1e-6)


def test_sign_of_complex_numbers():
    for dtype in COMPLEXES:
        x = np.asarray([0, 3 + 4j, -2, 1j], dtype)
        same(xp.sign(ours(x)), np.sign(x))


CLIPS = [(None, None), (-1, None), (None, 2), (-1, 2), (3, 1)]


@pytest.mark.parametrize("dtype", INTEGERS + REALS)
@pytest.mark.parametrize("bounds", CLIPS)
def test_clip(dtype, bounds):
    if dtype.startswith("uint"):
        bounds = tuple(b if b is None else abs(b) for b in bounds)
    for shape in SHAPES:
        x = numbers(dtype, shape)
        found = xp.clip(ours(x), *bounds)
        same(found, np.clip(x, *bounds) if any(b is not None for b in bounds) else x)
        arrays = [None if b is None else np.full(shape[-1:], b, dtype) for b in bounds]
        same(xp.clip(ours(x), *(None if b is None else ours(b) for b in arrays)), found.numpy())


def test_clip_meets_nan_and_copies():
    x = xp.asarray([1.0, xp.nan, 3.0])
    same(xp.clip(x, 2.0), np.asarray([2.0, np.nan, 3.0], "float32"))
    same(xp.clip(x, xp.asarray(xp.nan), 5.0), np.full(3, np.nan, "float32"))
    kept = xp.clip(x)
    kept += 1
    same(x, np.asarray([1.0, np.nan, 3.0], "float32"))
    same(xp.clip(xp.zeros((1, 3)), xp.ones((2, 1))), np.ones((2, 3), "float32"))


@pytest.mark.parametrize("wrong", [[1, 2], None, "1", np.float32])
def test_other_operands_are_refused(wrong):
    with pytest.raises(TypeError, match="add"):
        xp.add(xp.ones(2), wrong)
    with pytest.raises(TypeError, match="at least one"):
        xp.add(1, 2)


INF, NAN = np.inf, np.nan
# The standard's special cases of expm1 for complex numbers (2024.12); None: a zero of either sign.
EXPM1 = [
    ((0.0, 0.0), (0.0, 0.0)),
    ((-0.0, 0.0), (0.0, 0.0)),
    ((1.5, INF), (NAN, NAN)),
    ((1.5, NAN), (NAN, NAN)),
    ((INF, 0.0), (INF, 0.0)),
    ((-INF, 2.0), (-1.0, 0.0)),
    ((-INF, 4.0), (-1.0, -0.0)),
    ((INF, 2.0), (-INF, INF)),
    ((INF, 1.0), (INF, INF)),
    ((INF, 4.0), (-INF, -INF)),
    ((-INF, INF), (-1.0, None)),
    ((INF, INF), (INF, NAN)),
    ((-INF, NAN), (-1.0, None)),
    ((INF, NAN), (INF, NAN)),
    ((NAN, 0.0), (NAN, 0.0)),
    ((NAN, 1.5), (NAN, NAN)),
    ((NAN, NAN), (NAN, NAN)),
]


@pytest.mark.parametrize("dtype", COMPLEXES)
@pytest.mark.parametrize("repeated", [1, 19])
def test_special_cases_of_expm1_of_complex_numbers(dtype, repeated):
    for (re, im), wanted in EXPM1:
        for sign in (1.0, -1.0):  # expm1(conj(z)) is conj(expm1(z))
            found = xp.expm1(ours(np.full(repeated, complex(re, sign * im), dtype))).numpy()[-1]
            for part, value in zip((found.real, sign * found.imag), wanted):
                if value is None or re == 0:
                    assert part == 0
                else:
                    np.testing.assert_equal(
                        float(part), value, err_msg=f"expm1({re} + {sign * im}j) is {found}"
                    )


def test_sign_of_zeros_is_zero():
    for dtype in COMPLEXES:
        x = np.asarray([complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)], dtype)
        found = xp.sign(ours(x)).numpy()
        assert not found.any() and not np.signbit(found.real).any() and not np.signbit(found.imag).any()
        assert xp.sign(ours(np.asarray([np.nan, 3 - 4j], dtype))).numpy()[1] == np.asarray(0.6 - 0.8j, dtype)
