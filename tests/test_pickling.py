"""Pickles and deep copies: values, layouts, attributes, and which tensors share memory."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import flambeau

WAYS = [lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy]
DTYPES = "bool uint8 int16 int64 float16 bfloat16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("way", WAYS, ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("name", DTYPES)
def test_values(way, name):
    x = flambeau.tensor([[0, 1, 2], [3, 4, 5]]).to(flambeau.float32)
    if not name.startswith("complex"):
        x = x.to(getattr(flambeau, name))
    else:
        x = flambeau.tensor(np.arange(6).reshape(2, 3) * (1 + 2j)).numpy().astype(name)
        x = flambeau.from_numpy(x)
    for t in (x, x.t(), x[:, ::2], x[1], x[0, 0], x[:0]):
        y = way(t)
        assert y.dtype == t.dtype and y.stride() == t.stride() and y.tolist() == t.tolist()
        assert y.data_ptr() != t.data_ptr() or not t.numel()


@pytest.mark.parametrize("way", WAYS, ids=["pickle", "deepcopy"])
def test_memory_is_shared_again(way):
    x = flambeau.zeros(4)
    a, b, c = way([x, x[1:3], flambeau.zeros(4)])
    b.fill_(5.0)
    assert a.tolist() == [0.0, 5.0, 5.0, 0.0] and c.tolist() == [0.0] * 4 and x.tolist() == [0.0] * 4
    same = way([x, x])
    assert same[0] is same[1]


@pytest.mark.parametrize("way", WAYS, ids=["pickle", "deepcopy"])
def test_attributes_and_gradients(way):
    x = flambeau.ones(2, requires_grad=True)
    x.label = "mine"
    y = way(x)
    assert y.requires_grad and y.is_leaf and y.label == "mine"
    p = way(flambeau.nn.Parameter(flambeau.ones(2)))
    assert isinstance(p, flambeau.nn.Parameter) and p.requires_grad


def test_a_deep_copy_has_the_gradient():
    x = flambeau.ones(2, requires_grad=True)
    x.sum().backward()
    y = copy.deepcopy(x)
    assert y.grad.tolist() == [1.0, 1.0] and y.grad is not x.grad
    assert copy.copy(x) is not x and copy.copy(x).data_ptr() == x.data_ptr()


def test_comparison_with_arrays():
    x, a = flambeau.tensor([1.0, 3.0]), np.array([1.0, 2.0], "float32")
    assert (x == a).tolist() == [True, False] and (x > a).tolist() == [False, True]
    assert (x != a).dtype == flambeau.bool and (x == None) is False  # noqa: E711


def test_results_are_copied_and_pickled_as_leaves():
    """What plots and logs do with a loss: its history stays behind, that it requires a gradient does not."""
    leaf = flambeau.ones(3, requires_grad=True)
    for made in (leaf * 2, (leaf * 2).to_sparse()):
        for again in (copy.copy(made), pickle.loads(pickle.dumps(made))):
            assert again.is_leaf and again.requires_grad and again.to_dense().tolist() == [2, 2, 2]
    made = leaf * 2
    assert copy.copy(made).data_ptr() == made.data_ptr()
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(made)
