"""`out=`: written and returned, resized with a warning, refused where dtypes or the tape forbid it."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import linalg

X = flambeau.tensor([[4.0, 1.0], [1.0, 3.0]])
CALLS = {
    "add": (flambeau.add, (X, X)),
    "mean": (flambeau.mean, (X, 1)),
    "var": (flambeau.var, (X, 1)),
    "amax": (flambeau.amax, (X, 1)),
    "logsumexp": (flambeau.logsumexp, (X, 1)),
    "softmax": (flambeau.softmax, (X, 1)),
    "cumsum": (flambeau.cumsum, (X, 1)),
    "nansum": (flambeau.nansum, (X, 1)),
    "nan_to_num": (flambeau.nan_to_num, (X,)),
    "kron": (flambeau.kron, (X, X)),
    "mm": (flambeau.mm, (X, X)),
    "inv": (linalg.inv, (X,)),
    "norm": (linalg.norm, (X,)),
    "igamma": (flambeau.igamma, (X, X)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_tensor(name):
    function, args = CALLS[name]
    expected = function(*args)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for out in (flambeau.empty(0), flambeau.empty_like(expected)):
            assert function(*args, out=out) is out
            np.testing.assert_array_equal(out.numpy(), expected.numpy())
    with pytest.warns(UserWarning, match="resized"):
        function(*args, out=flambeau.empty(7))
    if name not in ("nansum", "cumsum"):  # a cumsum is computed in the dtype of out, as a sum
        with pytest.raises(RuntimeError):
            function(*args, out=flambeau.empty_like(expected, dtype=flambeau.int64))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        function(*args, out=flambeau.empty_like(expected).requires_grad_())


@pytest.mark.parametrize(
    "function", [flambeau.aminmax, linalg.slogdet, linalg.qr, flambeau.svd, linalg.eigh, linalg.inv_ex]
)
def test_several_tensors(function):
    expected = function(X)
    outs = tuple(flambeau.empty(0, dtype=e.dtype) for e in expected)
    found = function(X, out=outs)
    assert type(found) is type(expected) and all(f is o for f, o in zip(found, outs))
    for f, e in zip(found, expected):
        np.testing.assert_array_equal(f.numpy(), e.numpy())
    assert "out" in inspect.signature(function).parameters
    with pytest.raises(TypeError):
        function(X, out=flambeau.empty(0))


@pytest.mark.parametrize("name, value", [("max", 3.0), ("min", 1.0)])
def test_out_of_an_extreme_of_all_elements(name, value):
    out = flambeau.empty(())
    assert getattr(flambeau, name)(flambeau.tensor([1.0, 3.0, 2.0]), out=out) is out
    assert out.item() == value


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_out_that_nothing_would_be_written_to_is_refused(name):
    with pytest.raises(TypeError, match="'out' goes with a dim"):
        getattr(flambeau, name)(flambeau.tensor([1.0, 3.0, 2.0]), out=flambeau.empty(()))
