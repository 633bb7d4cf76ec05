"""The tangents of every sample call and layer, recorded, are computed of other numbers with the bits of plain calls."""

from __future__ import annotations

import warnings
import zlib

import derivatives
import numpy as np
import pytest

import flambeau
from flambeau.func import jvp
from flambeau.graph.trace import record

CASES = dict(derivatives.all_cases("float64", "contiguous"))
COMPLEX = dict(derivatives.all_cases("complex128", "contiguous"))
# A product that is conjugated within its own call: what its derivative reads of that is no result of the call.
UNKNOWN = {"vdot(v, u)"}


def made(make):
    """A case, or None where there is nothing to differentiate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = make()
        result = None if case is None else derivatives.Derivatives(*case)
    return result if result is not None and result.weights else None


def plays(case, function) -> bool:
    n = len(case.places)
    moved = lambda *xs: jvp(function, xs[:n], xs[n:])
    given = [*case.places, *case.direction]
    others = [derivatives.in_memory_of(x, x * 0.96875) for x in case.places] + [
        v * 0.875 for v in case.direction
    ]
    graph, _ = record(moved, *given)
    flambeau.manual_seed(0)
    found = graph(*others)
    flambeau.manual_seed(0)
    expected = moved(*others)
    return all(
        np.array_equal(a.detach().numpy(), b.detach().numpy(), equal_nan=True)
        for column in zip(found, expected, strict=True)
        for a, b in zip(*column, strict=True)
    )


def half(names, which):
    """Of each case one of two derivatives is taken, as its name has it: kernels for both of all take minutes."""
    return [name for name in names if zlib.crc32(name.encode()) % 2 == which]


@pytest.mark.parametrize("name", half(CASES, 0))
def test_tangents_play(name):
    case = made(CASES[name])
    assert case is None or plays(case, case.function)


@pytest.mark.parametrize("name", half(CASES, 1))
def test_tangents_of_gradients_play(name):
    case = made(CASES[name])
    assert case is None or plays(case, case.gradient)


@pytest.mark.parametrize("name", [name for name in COMPLEX if name not in UNKNOWN])
def test_tangents_of_complex_numbers_play(name):
    try:
        case = made(COMPLEX[name])
    except (RuntimeError, ValueError, TypeError, NotImplementedError):  # it takes none
        return
    assert case is None or plays(case, case.function)
