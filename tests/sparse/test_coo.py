"""Sparse tensors in coordinates: what they hold, which operations take them, and that all others refuse."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from flambeau.core.call.interceptors import no_interceptors

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.operations.declare.registry import published
from flambeau.overrides import TorchFunctionMode
from flambeau.sparse.methods import OVERRIDES


def sample():
    return flambeau.sparse_coo_tensor([[2, 0, 2], [1, 0, 1]], [3.0, 4.0, 5.0], (3, 2))


DENSE = [[4.0, 0.0], [0.0, 0.0], [0.0, 8.0]]


def test_parts():
    x = sample()
    assert x.is_sparse and x.layout == flambeau.sparse_coo and not x.is_coalesced()
    assert (x.sparse_dim(), x.dense_dim(), x._nnz(), x.ndim) == (2, 0, 3, 2)
    assert x.shape == (3, 2) == tuple(x.size()) and x.dtype == flambeau.float32 and str(x.device) == "cpu"
    assert x.is_cpu and not x.is_meta and isinstance(x, flambeau.Tensor) and len(x) == 3 and x.numel() == 6
    assert x.to_dense().tolist() == DENSE and not x.to_dense().is_sparse
    for read in (x.indices, x.values):
        with pytest.raises(RuntimeError, match="uncoalesced"):
            read()
    whole = x.coalesce()
    assert whole.indices().tolist() == [[0, 2], [0, 1]] and whole.values().tolist() == [4.0, 8.0]
    assert whole.coalesce() is whole and whole.to_dense().tolist() == DENSE


def test_dense_dimensions():
    x = flambeau.sparse_coo_tensor([[1, 1]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    assert (x.sparse_dim(), x.dense_dim()) == (1, 1)
    assert x.to_dense().tolist() == [[0, 0], [4, 6], [0, 0]] and x.coalesce().values().tolist() == [[4, 6]]


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 3), (3, 0)])
def test_there_and_back(shape):
    values = np.random.default_rng(0).integers(-1, 2, size=shape).astype("float64")
    x = flambeau.tensor(values)
    for sparse_dim in range(1, len(shape) + 1):
        there = x.to_sparse(sparse_dim)
        assert there.sparse_dim() == sparse_dim and there.is_coalesced()
        assert there.to_dense().tolist() == values.tolist()
    assert x.to_dense() is x and there.to_sparse() is there


def test_sizes_follow_from_indices():
    assert flambeau.sparse_coo_tensor([[0, 4]], [1.0, 2.0]).shape == (5,)
    empty = flambeau.sparse_coo_tensor((2, 3))
    assert empty.to_dense().tolist() == [[0.0] * 3] * 2 and empty._nnz() == 0
    assert flambeau.sparse_coo_tensor([[], []], [], (2, 2)).coalesce()._nnz() == 0
    assert flambeau.sparse_coo_tensor(size=(2, 3), dtype=flambeau.float64).dtype == flambeau.float64
    for missing in ({}, {"indices": [[0]], "size": (2,)}):
        with pytest.raises(TypeError, match="missing"):
            flambeau.sparse_coo_tensor(**missing)


@pytest.mark.parametrize(
    "indices, values, size, told",
    [
        ([0, 1], [1.0, 2.0], (2,), "matrix"),
        ([[0, 1]], [1.0], (2,), "same nnz"),
        ([[0, 2]], [1.0, 2.0], (2,), "size is 2 but found index 2"),
        ([[0, -1]], [1.0, 2.0], (2,), "negative index -1"),
        ([[0, 1]], [1.0, 2.0], (2, 2), "number of dimensions"),
        ([[0, 1]], [[1.0], [2.0]], (2, 3), "incorrect size"),
        ([[0.5]], [1.0], (2,), "integers"),
    ],
)
def test_parts_that_do_not_fit(indices, values, size, told):
    with pytest.raises(RuntimeError, match=told):
        flambeau.sparse_coo_tensor(indices, values, size)


def test_arithmetic():
    x, dense = sample(), flambeau.ones(3, 2)
    double = (np.array(DENSE) * 2).tolist()
    assert (x + x).is_sparse and (x + x).to_dense().tolist() == double == (x * 2).to_dense().tolist()
    assert (2 * x).to_dense().tolist() == double and (x / 0.5).to_dense().tolist() == double
    assert (-x + x).to_dense().tolist() == [[0.0] * 2] * 3 == (x - x).to_dense().tolist()
    for sum_ in (dense + x, x + dense, dense.add(x, alpha=1)):
        assert not sum_.is_sparse and sum_.tolist() == (np.array(DENSE) + 1).tolist()
    assert dense.sub(x).tolist() == (1 - np.array(DENSE)).tolist() and dense.tolist() == [[1.0] * 2] * 3
    assert dense.add_(x, alpha=2) is dense and dense.tolist() == (1 + 2 * np.array(DENSE)).tolist()
    transposed = flambeau.zeros(2, 3).t()
    assert transposed.add_(x).tolist() == DENSE
    assert x.mul_(2) is x and x.to_dense().tolist() == double and x.add_(x).to_dense()[2, 1].item() == 32
    assert x.double().dtype == flambeau.float64 and x.zero_()._nnz() == 0 and x.shape == (3, 2)
    with pytest.raises(RuntimeError, match="same size"):
        x + flambeau.ones(2, 2)


def test_copies():
    x = sample()
    for other in (x.clone(), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.detach()):
        assert other is not x and other.is_sparse and other.to_dense().tolist() == DENSE
    other = x.clone()
    other._values().zero_()
    assert x.to_dense().tolist() == DENSE and x.detach()._values().data_ptr() == x._values().data_ptr()


def test_repr():
    x = flambeau.sparse_coo_tensor([[0, 1]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    assert repr(x).split("\n") == [
        "tensor(indices=tensor([[0, 1]]),",
        "       values=tensor([[1., 2.],",
        "                      [3., 4.]]),",
        "       size=(3, 2), nnz=2, layout=flambeau.sparse_coo)",
    ]


METHODS = {
    name: op
    for name, op in published("Tensor.").items()
    if op.__name__ not in OVERRIDES and not getattr(op, "elementwise", False)
}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_other_operations_refuse_and_name_themselves(name):
    """No operation finds the zeros or the memory that are not there."""
    with pytest.raises(NotImplementedError, match="sparse_coo.*to_dense"):
        METHODS[name](sample())


def test_memory_is_refused():
    x = sample()
    for read in (x.untyped_storage, x.data_ptr, x.stride, x.tolist):
        with pytest.raises(NotImplementedError):
            read()
    with pytest.raises(NotImplementedError, match="sparse_coo_tensor"):
        flambeau.zeros(3, layout=flambeau.sparse_coo)


# --- gradients ------------------------------


def table(**options):
    made = nn.Embedding(5, 2, dtype=flambeau.float64, **options)
    with flambeau.no_grad():
        made.weight.copy_(flambeau.arange(10.0).reshape(5, 2))
    return made


@pytest.mark.parametrize("options", [{}, {"padding_idx": 3}, {"scale_grad_by_freq": True}], ids=str)
@pytest.mark.parametrize("words", [[[1, 3], [3, 0]], [], 4])
def test_the_gradient_of_an_embedding(options, words):
    words = flambeau.tensor(words, dtype=flambeau.int64)
    sparse, dense = table(sparse=True, **options), table(**options)
    for _ in range(2):  # gradients add up
        for each in (sparse, dense):
            result = each(words)
            (result * flambeau.arange(1.0, result.numel() + 1).reshape(result.shape)).sum().backward()
    assert sparse.weight.grad.is_sparse and not dense.weight.grad.is_sparse
    assert sparse.weight.grad.to_dense().tolist() == dense.weight.grad.tolist()


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_the_gradient_of_bags(mode):
    words, offsets = flambeau.tensor([0, 2, 4, 2]), flambeau.tensor([0, 1])
    results = []
    for sparse in (False, True):
        weight = table().weight
        F.embedding_bag(words, weight, offsets, mode=mode, sparse=sparse).square().sum().backward()
        assert weight.grad.is_sparse == sparse
        results.append(weight.grad.to_dense().tolist())
    assert results[0] == results[1]
    with pytest.raises(ValueError, match="max mode"):
        F.embedding_bag(words, weight, offsets, mode="max", sparse=True)


@pytest.mark.parametrize("first", [True, False])
def test_sparse_and_dense_gradients_of_one_leaf(first):
    """Within a pass and over passes their sum is dense, whichever came first."""
    words, weight = flambeau.tensor([1, 1]), table().weight
    losses = [lambda: F.embedding(words, weight, sparse=True).sum(), lambda: (weight * 2).sum()]
    expected = flambeau.full((5, 2), 2.0).index_fill(0, flambeau.tensor([1]), 4.0).tolist()
    for loss in losses if first else losses[::-1]:
        loss().backward()
    assert not weight.grad.is_sparse and weight.grad.tolist() == expected
    weight.grad = None
    both = losses if first else losses[::-1]
    (both[0]() + both[1]()).backward()
    assert weight.grad.to_dense().tolist() == expected
    seen = []
    weight.grad = None
    weight.register_hook(seen.append)
    (both[0]() + both[1]()).backward()
    assert seen[0].to_dense().tolist() == expected


def test_clearing_gradients():
    made = table(sparse=True)
    made(flambeau.tensor([1])).sum().backward()
    optimizer = flambeau.optim.SGD(made.parameters())
    optimizer.zero_grad(set_to_none=False)
    assert made.weight.grad.is_sparse and made.weight.grad._nnz() == 0
    optimizer.zero_grad()
    assert made.weight.grad is None


def test_gradients_are_freed():
    made = table(sparse=True)
    made(flambeau.tensor([1])).sum().backward()
    gone = weakref.ref(made.weight.grad)
    gc.disable()
    try:
        made.weight.grad = None
        assert gone() is None
    finally:
        gc.enable()


def test_lists_of_plain_tensors_need_nobody_asked():
    """Steps of optimisers go on in one call when a sparse tensor was made; with one in the lists, or a mode on, they ask."""
    plain, weight = flambeau.ones(2), nn.Parameter(flambeau.ones(2))
    assert no_interceptors([[plain, weight], [plain, plain]]) and no_interceptors([])
    assert not no_interceptors([[weight, plain], [plain, sample()]])
    with TorchFunctionMode.__new__(type("Mode", (TorchFunctionMode,), {"__torch_function__": print})):
        assert not no_interceptors([[plain]])
    assert no_interceptors([[plain]])


def test_on_a_device():
    """Places and values lie there, and a step by rows is the CPU's."""
    results = []
    for place in ("cpu", "opencl"):
        x = sample().to(place)
        assert x.device.type == place == x.coalesce().indices().device.type and x.to_dense().tolist() == DENSE
        p = flambeau.ones(3, 2, device=place, requires_grad=True)
        optimizer = flambeau.optim.SparseAdam([p], lr=0.1)
        p.grad = flambeau.tensor(DENSE, device=place).to_sparse(1)
        optimizer.step()
        results.append(p.tolist())
    assert np.allclose(*results, rtol=1e-6)


def test_all_layouts_on_a_device():
    """Indices that only the host's loops work on go there and back."""
    for layout in (flambeau.sparse_coo, flambeau.sparse_csr, flambeau.sparse_csc):
        x = sample().to("opencl").to_sparse(layout=layout)
        right, expected = flambeau.ones(2, 3), np.array(DENSE)
        w = right.to("opencl").requires_grad_()
        assert x.device.type == "opencl" == (x @ w).device.type
        assert np.allclose((x @ w).tolist(), expected @ right.numpy())
        assert (x + x).to_dense().tolist() == (2 * expected).tolist() and (x * x).to_dense().tolist() == (
            expected**2
        ).tolist()
        (x @ w).sum().backward()
        assert np.allclose(w.grad.tolist(), expected.T @ np.ones((3, 3)))
        assert np.allclose((x @ x.t()).to_dense().tolist(), expected @ expected.T)
