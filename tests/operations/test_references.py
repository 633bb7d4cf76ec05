"""Every reference that a declaration names is read: here those of operations that are called with more than elements."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import flambeau
from flambeau.operations.declare.registry import REGISTRY

# Read element by element in test_registry.py, test_special.py and test_special_values.py.
ELSEWHERE = ("pointwise", "reduction", "row", "fallback")


def array(*shape: int, seed: int = 0, low: float = -3.0, high: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape)


def whole(*shape: int, seed: int = 0, low: int = -9, high: int = 9) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape)


x, y, row = array(4, 5), array(4, 5, seed=1), array(5, seed=2)
n, d = whole(4, 5), whole(4, 5, seed=1, low=1)
odd = np.array([np.nan, np.inf, -np.inf, 0.5])
regular = array(3, 3) + 4 * np.eye(3)
half = x[::2, ::-1].copy()

# Of each operation: our arguments by position and by name, then NumPy's where they are others.
CALLS: dict[str, list[tuple]] = {
    "round": [((x,),), ((n,),), ((x * 100,), {"decimals": 2}), ((x * 100,), {"decimals": -1})],
    "floor_divide": [((x, y),), ((n, d),), ((x, 2.0),), ((n, 3),)],
    "remainder": [((x, y),), ((n, d),), ((x, -2.0),)],
    "fmod": [((x, y),), ((n, d),), ((x, -2.0),)],
    "div": [((x, y),), ((n, d),), ((x, row),), ((x, 2),)],
    "pow": [((abs(x), y),), ((x, 3),), ((2.0, x),), ((d, 2),), ((d, d),)],
    "prod": [
        ((x,),),
        ((x, 1), {}, (x, 1)),
        ((n, 0), {}, (n, 0)),
        ((x, 1), {"keepdim": True}, (x, 1), {"keepdims": True}),
    ],
    "nan_to_num": [((odd,),), ((odd, 1.0, 2.0, 3.0), {}, (odd,), {"nan": 1.0, "posinf": 2.0, "neginf": 3.0})],
    "logit": [((array(4, 5, low=0.01, high=0.99),),), ((np.array([0.0, 1.0, 0.5]),),)],
    "diff": [((x,),), ((n,),), ((x, 2, 0),), ((x, 1, 1), {"prepend": y, "append": y})],
    "trapezoid": [
        ((x,),),
        ((x, y),),
        ((x,), {"dx": 0.5, "dim": 0}, (x,), {"dx": 0.5, "axis": 0}),
        ((x, row),),
    ],
    "gradient": [
        ((x,),),
        ((x,), {"dim": 1}, (x,), {"axis": 1}),
        ((x,), {"spacing": 0.5, "dim": 0, "edge_order": 2}, (x, 0.5), {"axis": 0, "edge_order": 2}),
        ((x,), {"spacing": (np.sort(row),), "dim": (1,)}, (x, np.sort(row)), {"axis": 1}),
    ],
    "cov": [
        ((x,),),
        ((row,),),
        ((x,), {"correction": 0}, (x,), {"ddof": 0}),
        ((x,), {"fweights": abs(n[0]) + 1, "aweights": abs(row)}),
    ],
    "corrcoef": [((x,),), ((row,),)],
    "ldexp": [((x, n),), ((x, n[0]),)],
    "tensorinv": [((array(2, 3, 6) + 4 * np.eye(6).reshape(2, 3, 6),),)],
    "tensorsolve": [((array(2, 3, 6) + 4 * np.eye(6).reshape(2, 3, 6), array(2, 3)),)],
    "cat": [(([x, y],),), (([x, y, x], 1),), (([x, n], 0),)],
    "stack": [(([x, y],),), (([x, y, x], 1),), (([row, row], -1),)],
    "inv": [((regular,),), ((np.stack([regular, regular.T]),),), ((regular + 1j * array(3, 3),),)],
    "det": [((regular,),), ((np.stack([regular, regular.T]),),), ((regular + 1j * array(3, 3),),)],
    "cumsum": [((x, 0),), ((n, 1),), ((x > 0, 1),), ((x + 1j * y, 0),)],
    "cumprod": [((x, 0),), ((n, 1),), ((x + 1j * y, 0),)],
    "fliplr": [((x,),)],
    "flipud": [((x,),), ((row,),)],
    "rot90": [((x,),), ((x, 2),), ((x, 3, (1, 0)),)],
    "tril": [((x,),), ((x, 1),), ((x, -2),)],
    "triu": [((x,),), ((x, 1),), ((x, -2),)],
    "diag": [((x,),), ((row,),), ((x, 1),), ((row, -2),)],
    "diagflat": [((row,),), ((x, 1),)],
    "trace": [((x,),), ((n,),)],
    "kron": [((x, y),), ((row, x),), ((n, d),)],
    "vander": [((row,),), ((row, 3),), ((row,), {"N": 4, "increasing": True})],
    "fftshift": [((x,),), ((x, 1),), ((row,),)],
    "ifftshift": [((x,),), ((x, 1),), ((row,),)],
}
CASES = [(name, k) for name, calls in CALLS.items() for k in range(len(calls))]


def reference(entry):
    module, _, name = entry.reference.rpartition(".")
    return getattr(importlib.import_module(module), name)


def tensors(value):
    if isinstance(value, np.ndarray):
        return flambeau.from_numpy(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(tensors, value))
    return value


@pytest.mark.parametrize(("name", "case"), CASES, ids=str)
def test_values(name, case):
    args, named, *other = (*CALLS[name][case], {})[: max(2, len(CALLS[name][case]))]
    their_args, their_named = (*other, *(args, named)[len(other) :])
    entry = REGISTRY[name]
    found = entry.function(*tensors(args), **{k: tensors(v) for k, v in named.items()})
    with np.errstate(all="ignore"):
        want = reference(entry)(*their_args, **their_named)
    if not isinstance(found, tuple):
        found, want = (found,), (want,)
    for got, expected in zip(found, want if isinstance(want, (tuple, list)) else [want], strict=True):
        expected = np.asarray(expected)
        assert tuple(got.shape) == expected.shape
        if expected.dtype.kind == "c":
            assert got.is_complex()
        np.testing.assert_allclose(
            got.numpy(), expected, rtol=2e-6 if got.dtype == flambeau.float32 else 1e-12, atol=1e-12
        )


def test_frexp():
    mantissa, exponent = flambeau.frexp(flambeau.from_numpy(x))
    want = reference(REGISTRY["frexp"])(x)
    assert mantissa.tolist() == want[0].tolist() and exponent.tolist() == want[1].tolist()


def test_every_reference_is_read():
    declared = {
        e.name for e in REGISTRY.values() if e.reference and (e.kind not in ELSEWHERE or e.name == "prod")
    }  # a leaf
    assert declared == set(CALLS)
    unseen = [e.name for e in REGISTRY.values() if e.reference and e.kind == "pointwise" and not e.places]
    assert not unseen
