"""Arrays of NumPy, which implements the standard, and the same ones here: shared by the tests of the namespace."""

from __future__ import annotations

import itertools

import numpy as np

import flambeau

xp = flambeau.ones(1).__array_namespace__()

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
REALS = ("float32", "float64")
COMPLEXES = ("complex64", "complex128")
NUMERIC = INTEGERS + REALS + COMPLEXES
ALL = ("bool", *NUMERIC)
SHAPES = ((), (0,), (1,), (5,), (2, 3), (0, 3), (2, 0, 3), (3, 1, 4))


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0, low: int = -5, high: int = 6) -> np.ndarray:
    """Small numbers of both signs, where the dtype has them."""
    draw = np.random.default_rng([seed, len(shape), *shape])
    if dtype == "bool":
        return draw.integers(0, 2, shape).astype(bool)
    if dtype.startswith("uint"):
        return draw.integers(0, high, shape).astype(dtype)
    if dtype.startswith("int"):
        return draw.integers(low, high, shape).astype(dtype)
    made = draw.normal(size=shape) * 2
    if dtype.startswith("complex"):
        made = made + 1j * draw.normal(size=shape)
    return np.asarray(made, dtype=dtype)


def ours(array: np.ndarray):
    return xp.asarray(array, copy=True)


def same(found, wanted, loose: float = 1.0) -> None:
    """Equal in dtype, shape and value; floats up to rounding."""
    wanted = np.asarray(wanted)
    assert isinstance(found, flambeau.Tensor)
    assert str(found.dtype).rpartition(".")[2] == wanted.dtype.name, (found.dtype, wanted.dtype)
    assert tuple(found.shape) == wanted.shape
    if wanted.dtype.kind in "fc":
        eps = np.finfo(wanted.dtype).eps
        np.testing.assert_allclose(found.numpy(), wanted, rtol=64 * loose * eps, atol=16 * loose * eps)
    else:
        np.testing.assert_array_equal(found.numpy(), wanted)


def pairs(dtypes: tuple[str, ...]):
    """Pairs of dtypes that the standard promotes."""
    for a, b in itertools.product(dtypes, repeat=2):
        signed = {a, b} & {"int8", "int16", "int32", "int64"}
        if not ({a, b} >= {"uint64"} and signed) and kind(a) == kind(b):
            yield a, b


def kind(dtype: str) -> str:
    return "bool" if dtype == "bool" else "integer" if "int" in dtype else "floating"
