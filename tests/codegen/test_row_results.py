"""Row programs whose results are as long as the row and one value a row, in any order: the costly terms that folds leave behind."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau
from flambeau.codegen import functions as fn
from flambeau.codegen import kernels as kn
from flambeau.operations.declare.registry import REGISTRY
from flambeau.operations.declare.rows import row

RESULTS = {
    "weights": lambda e, s, x: e,
    "shares": lambda e, s, x: e / s,
    "log of the sum": lambda e, s, x: fn.log(s),
    "sum": lambda e, s, x: s,
    "input": lambda e, s, x: x * 2.0,
}
RIGHT = {
    "weights": lambda e, s, x: e,
    "shares": lambda e, s, x: e / s[..., None],
    "log of the sum": lambda e, s, x: np.log(s),
    "sum": lambda e, s, x: s,
    "input": lambda e, s, x: x * 2,
}


@pytest.mark.parametrize("names", list(itertools.permutations(RESULTS, 3)), ids=", ".join)
def test_mixed_results(names):
    """exp(x) is computed by the sum's pass; whatever results are wanted beside it, and in whatever order, each is its own."""

    def mixed_results(x):
        e = fn.exp(x)
        return tuple(RESULTS[n](e, kn.sum(e), x) for n in names)

    try:
        op = row(places=())(mixed_results)
        x = np.random.default_rng(0).standard_normal((3, 37))
        for given, dim in ((flambeau.tensor(x), 1), (flambeau.tensor(x.T.copy()), 0)):
            found = op.over((given,), dim)
            e = np.exp(x)
            for name, result in zip(names, found):
                wanted = RIGHT[name](e, e.sum(-1), x)
                result = result.numpy() if dim == 1 or result.ndim == 1 else result.numpy().T
                np.testing.assert_allclose(result, wanted, rtol=1e-12, err_msg=name)
    finally:
        REGISTRY.pop("mixed_results", None)
