"""Making sparse tensors of every layout, the rules their parts follow, conversions, copies and SciPy's matrices."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as ss
from sparse_samples import (
    BLOCKED,
    BSC,
    BSR,
    COMPRESSED,
    COO,
    CSC,
    CSR,
    LAYOUTS,
    array,
    coordinates,
    dense_array,
    generator,
    of_layout,
    sample,
)

import flambeau
from flambeau.sparse import check_sparse_tensor_invariants, invariants
from flambeau.testing import assert_close

MAKERS = {
    CSR: flambeau.sparse_csr_tensor,
    CSC: flambeau.sparse_csc_tensor,
    BSR: flambeau.sparse_bsr_tensor,
    BSC: flambeau.sparse_bsc_tensor,
}
SHAPES = [(4, 6), (2, 2), (0, 4), (6, 0), (0, 0), (40, 2)]


def parts(x):
    """Compressed and plain indices."""
    rows = x.layout in (CSR, BSR)
    return (x.crow_indices(), x.col_indices()) if rows else (x.ccol_indices(), x.row_indices())


# --- made of parts ------------------------------
@pytest.mark.parametrize("layout", COMPRESSED, ids=str)
def test_compressed_parts(layout):
    x = sample(layout)
    made = MAKERS[layout](*parts(x), x.values(), x.shape)
    again = flambeau.sparse_compressed_tensor(*parts(x), x.values(), x.shape, layout=layout)
    for y in (made, again):
        assert_close(y, x)
        assert y.layout is layout and y.values().data_ptr() == x.values().data_ptr()
    smallest = MAKERS[layout](*(p.tolist() for p in parts(x)), x.values().tolist(), dtype=flambeau.float32)
    assert smallest.dtype == flambeau.float32 and np.allclose(
        array(smallest), array(x)[tuple(map(slice, smallest.shape))]
    )
    narrow = MAKERS[layout](*(p.int() for p in parts(x)), x.values(), x.shape, requires_grad=True)
    assert parts(narrow)[0].dtype == flambeau.int32 and narrow.requires_grad and narrow.is_leaf
    right = flambeau.tensor(dense_array((6, 3), 1))
    assert np.allclose((narrow.detach() @ right).numpy(), array(x) @ right.numpy())
    with pytest.raises(RuntimeError, match="layout"):
        flambeau.sparse_compressed_tensor(*parts(x), x.values(), layout=COO)


def test_properties():
    for layout in LAYOUTS:
        x = sample(layout)
        assert x.layout is layout and x.is_sparse == (layout is COO) and x.is_sparse_csr == (layout is CSR)
        assert (x.sparse_dim(), x.dense_dim(), x.ndim, x.shape) == (2, 0, 2, (4, 6)) and str(
            x.device
        ) == "cpu"
        assert x._nnz() == x._values().shape[0] and x.dtype == flambeau.float64 and x.numel() == 24
    dense = flambeau.ones(2, 3)
    assert (dense.sparse_dim(), dense.dense_dim(), dense.is_sparse_csr) == (0, 2, False)
    for name in (
        "indices",
        "values",
        "coalesce",
        "is_coalesced",
        "crow_indices",
        "col_indices",
        "ccol_indices",
        "row_indices",
    ):
        with pytest.raises(RuntimeError, match=f"{name} expected sparse .*tensor layout but got Strided"):
            getattr(dense, name)()
    for layout, name in [
        (COO, "crow_indices"),
        (CSR, "indices"),
        (CSR, "row_indices"),
        (BSC, "col_indices"),
        (CSC, "coalesce"),
    ]:
        with pytest.raises(RuntimeError, match=f"{name} expected sparse"):
            getattr(sample(layout), name)()


def test_copies_of_parts():
    for layout, names in [
        (COO, ["indices", "values"]),
        (CSR, ["crow_indices", "col_indices"]),
        (CSC, ["ccol_indices", "row_indices"]),
    ]:
        x = sample(layout)
        x = x.coalesce() if layout is COO else x
        for name in names:
            part = getattr(flambeau, name + "_copy")(x)
            assert part.tolist() == getattr(x, name)().tolist()
            assert part.data_ptr() != getattr(x, name)().data_ptr()


# --- rules ------------------------------
BROKEN = [
    ([1, 1, 2], [0, 1], "crow_indices.*0. == 0.*it is 1"),
    ([0, 1, 3], [0, 1], "crow_indices.*-1. == nnz.*it is 3, nnz is 2"),
    ([0, 3, 2], [0, 1], "crow_indices.*1:.*row 0 has 3 elements"),
    ([0, -1, 2], [0, 1], "crow_indices.*1:.*row 0 has -1 elements"),
    ([0, 1, 2], [0, 3], "0 <= col_indices < ncols.*row 1 has 3, ncols is 3"),
    ([0, 1, 2], [-1, 0], "0 <= col_indices < ncols.*row 0 has -1"),
    ([0, 1, 2], [2**62, 0], "col_indices < ncols"),
    ([0, 1], [0, 1], "number of rows . 1 .=3., but got 2"),
    ([0, 1, 2], [0], "equal to nnz .=2."),
    ([0.5, 1, 2], [0, 1], "same dtype"),
    ([[0, 1, 2]], [0, 1], "dimensionalities must be equal"),
]


@pytest.mark.parametrize("starts, places, told", BROKEN)
def test_broken_rules_are_named(starts, places, told):
    values = [1.0, 2.0]
    for check in (None, True):
        with pytest.raises(RuntimeError, match="sparse_csr_tensor.*" + told):
            flambeau.sparse_csr_tensor(starts, places, values, (2, 3), check_invariants=check)
    turned = (
        told.replace("crow", "c#").replace("col_", "row_").replace("c#", "ccol").replace("ncols", "nrows")
    )
    turned = (
        turned.replace("row 0", "column 0")
        .replace("row 1", "column 1")
        .replace("number of rows", "number of columns")
    )
    with pytest.raises(RuntimeError, match="sparse_csc_tensor.*" + turned):
        flambeau.sparse_csc_tensor(starts, places, values, (3, 2))


UNORDERED = [([0, 2, 2], [1, 0]), ([0, 2, 2], [1, 1]), ([0, 2, 6], [2, 0, 1, 1, 0, 1])]


@pytest.mark.parametrize("starts, places", UNORDERED)
def test_order_is_checked_where_that_is_wanted(starts, places):
    """Columns out of order, repeated, or more than there are: taken as they are, unless all invariants are checked."""
    values = np.arange(1.0, len(places) + 1)
    make = lambda **options: flambeau.sparse_csr_tensor(starts, places, values, (2, 3), **options)  # noqa: E731
    told = "sorted and distinct.*row 0|row 1 has 4 elements"
    with pytest.raises(RuntimeError, match=told):
        make(check_invariants=True)
    with check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match=told):
        make()
    dense = np.zeros((2, 3))
    np.add.at(dense, (np.repeat([0, 1], np.diff(starts)), places), values)
    right, x = np.arange(12.0).reshape(3, 4), make()
    b = flambeau.tensor(right)
    for actual, expected in [
        (x.to_dense(), dense),
        (x @ b, dense @ right),
        (x @ b[:, 1], dense @ right[:, 1]),
        ((x @ b.to_sparse_csr()).to_dense(), dense @ right),
        (x.to_sparse_coo().to_dense(), dense),
        (x.to_sparse_csc().to_dense(), dense),
        (x.t().to_dense(), dense.T),
        ((x + x).to_dense(), dense + dense),
        ((x + b.t()[:2].to_sparse_csr()).to_dense(), dense + right.T[:2]),
        ((x * 2).to_dense(), dense * 2),
        (x.sum(), dense.sum()),
    ]:
        np.testing.assert_allclose(actual.numpy(), expected)


def test_a_claim_to_be_coalesced_is_checked_where_that_is_wanted():
    parts = [[1, 0]], [1.0, 2.0], (2,)
    assert flambeau.sparse_coo_tensor(*parts, is_coalesced=True).to_dense().tolist() == [2.0, 1.0]
    with pytest.raises(RuntimeError, match="is_coalesced to true"):
        flambeau.sparse_coo_tensor(*parts, is_coalesced=True, check_invariants=True)
    with check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="is_coalesced to true"):
        flambeau.sparse_coo_tensor(*parts, is_coalesced=True)


def test_shapes_that_do_not_fit():
    good = [0, 1, 2], [0, 1], [1.0, 2.0]
    for size, told in [
        ((2,), "dimensionality"),
        ((2, 3, 1), "dimensionality"),
        ((-2, 3), "non-negative"),
        ((2, 2**63), "64 bits"),
    ]:
        with pytest.raises(RuntimeError, match=told):
            flambeau.sparse_csr_tensor(*good, size)
    with pytest.raises(RuntimeError, match="divisible with blocksize.1. .=2."):
        flambeau.sparse_bsr_tensor([0, 1], [0], [[[1.0, 2.0]]], (1, 3))
    with pytest.raises(RuntimeError, match="batch dimensions"):
        flambeau.sparse_csr_tensor([[0, 1, 2]] * 2, [[0, 1]] * 2, [[1.0, 2.0]], (2, 2, 3))
    with pytest.raises(RuntimeError, match="dimensionality > 0"):
        flambeau.sparse_csr_tensor([0, 1], [0], 1.0, (1, 1))
    with pytest.raises(RuntimeError, match="blocksize"):
        flambeau.ones(4, 6).to_sparse_bsr((3, 2))
    with pytest.raises(RuntimeError, match="blocksize"):
        flambeau.ones(4, 6).to_sparse(layout=CSR, blocksize=(2, 2))
    with pytest.raises(RuntimeError, match="at least 2"):
        flambeau.ones(4).to_sparse_csr()
    for indices, told in [
        ([[2**63 - 1]], "found index"),
        ([[-(2**63)]], "negative index"),
        ([[2]], "size is 2 but found index 2"),
    ]:
        with pytest.raises(RuntimeError, match=told):
            flambeau.sparse_coo_tensor(indices, [1.0], (2,))
    with pytest.raises(RuntimeError, match="64 bits"):
        flambeau.sparse_coo_tensor([[0], [0]], [1.0], (2**40, 2**40))


def test_switching_checks_off_and_on(monkeypatch):
    monkeypatch.setattr(invariants, "_checking", invariants._checking)
    bad = lambda **options: flambeau.sparse_coo_tensor([[5]], [1.0], (2,), **options)  # noqa: E731
    assert not check_sparse_tensor_invariants.is_enabled()
    with check_sparse_tensor_invariants(False):
        assert not check_sparse_tensor_invariants.is_enabled() and bad().shape == (2,)
        with pytest.raises(RuntimeError):
            bad(check_invariants=True)
        with check_sparse_tensor_invariants(), pytest.raises(RuntimeError):
            assert check_sparse_tensor_invariants.is_enabled()
            bad()
    assert bad(check_invariants=False)._nnz() == 1
    try:
        check_sparse_tensor_invariants.disable()
        assert bad()._nnz() == 1
        check_sparse_tensor_invariants.enable()
        assert check_sparse_tensor_invariants.is_enabled()
    finally:
        monkeypatch.undo()

    @check_sparse_tensor_invariants(False)
    def unchecked():
        return bad()

    assert unchecked()._nnz() == 1
    with pytest.raises(RuntimeError):
        bad()


HOSTILE = """
import flambeau
right = flambeau.ones(3, 4)
calls = [
    lambda x: x @ right, lambda x: x @ right[:, 0], lambda x: x.to_dense(), lambda x: x + x.clone(), lambda x: x * x.clone(),
    lambda x: x.coalesce(), lambda x: x.to_sparse_coo().coalesce(), lambda x: x.to_sparse_csr(), lambda x: x.to_sparse_csc(),
    lambda x: x.t() @ flambeau.ones(2, 4), lambda x: x @ x.t(), lambda x: x.sum(0, keepdim=True), lambda x: x.sparse_mask(x.clone()),
    lambda x: flambeau.sparse.sampled_addmm(x, flambeau.ones(2, 5), flambeau.ones(5, 3)), lambda x: x.to_sparse_bsr((1, 1)),
    lambda x: flambeau.sparse.softmax(x, 1), lambda x: flambeau.ones(2, 3).sparse_mask(x), lambda x: flambeau.ones(2, 3) + x,
    lambda x: flambeau.sparse.sum(x, 0), lambda x: x[1], lambda x: x.index_select(0, flambeau.tensor([0, 1])), lambda x: repr(x),
    lambda x: (x.requires_grad_() @ right.requires_grad_()).sum().backward(), lambda x: flambeau.ones(2, 3).mul(x),
]
for number in (3, -1, 10**9, 2**62, -(2**62), 2**63 - 1):
    made = [
        flambeau.sparse_coo_tensor([[0, number], [1, 1]], [1.0, 2.0], (2, 3), check_invariants=False),
        flambeau.sparse_coo_tensor([[0, 1], [1, number]], [1.0, 2.0], (2, 3), check_invariants=False),
        flambeau.sparse_csr_tensor([0, 1, 2], [number, 1], [1.0, 2.0], (2, 3), check_invariants=False),
        flambeau.sparse_csr_tensor([0, number, 2], [0, 1], [1.0, 2.0], (2, 3), check_invariants=False),
        flambeau.sparse_csr_tensor([0, 1, number], [0, 1], [1.0, 2.0], (2, 3), check_invariants=False),
        flambeau.sparse_csc_tensor([0, 1, number, 2], [0, 1], [1.0, 2.0], (2, 3), check_invariants=False),
        flambeau.sparse_csc_tensor([0, 1, 1, 2], [number, 1], [1.0, 2.0], (2, 3), check_invariants=False),
        flambeau.sparse_bsr_tensor([0, 1, 2], [number, 1], flambeau.ones(2, 1, 1), (2, 3), check_invariants=False),
    ]
    written = flambeau.eye(2, 3).to_sparse_csr()
    written @ right
    written.col_indices()[1] = number  # after it was looked at
    for x in (*made, written):
        for call in calls:
            try:
                call(x)
            except (RuntimeError, IndexError, ValueError, TypeError):
                pass
twice = lambda: flambeau.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], [1.0, 2.0, 3.0], (2, 3))
for make in (twice, lambda: flambeau.eye(2, 3).to_sparse_csr()):
    for call in calls:
        for part in (lambda x: x._values(), lambda x: x._indices() if x.is_sparse else x.col_indices()):
            x = make()
            x @ right, x.to_sparse_coo().coalesce()
            part(x).resize_(0 if part(x).ndim == 1 else (2, 1))  # under the tensor's hands
            try:
                call(x)
            except (RuntimeError, IndexError, ValueError, TypeError):
                pass
print("alive")
"""


def test_indices_that_nobody_checked_are_never_followed():
    """Whatever an operation says or computes, it does not read or write outside of a tensor."""
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "alive", (done.returncode, done.stderr[-2000:])


# --- conversions ------------------------------
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_layout_to_every_other(shape):
    a = dense_array(shape, 3)
    dense = flambeau.tensor(a)
    for source in LAYOUTS:
        x = of_layout(dense, source)
        assert x.shape == shape and array(x).tolist() == a.tolist()
        for target in LAYOUTS:
            block = (2, 2) if target in BLOCKED else None
            y = x.to_sparse(layout=target, blocksize=block)
            assert y.layout is target and array(y).tolist() == a.tolist()
            assert_close(y.to_sparse_coo() * 1.0, y.to_sparse_coo())
            if target not in BLOCKED and source not in BLOCKED:
                assert y._nnz() == np.count_nonzero(a)
    assert dense.to_sparse_csr().to_sparse_csr().layout is CSR
    assert dense.to_sparse_csr().crow_indices().shape[0] == shape[0] + 1
    assert dense.to_sparse_csc().ccol_indices().shape[0] == shape[1] + 1


@pytest.mark.parametrize("seed", range(4))
def test_coalescing_beside_numpy(seed):
    rng = generator(seed)
    for shape, nnz in [
        ((7,), 20),
        ((50, 60), 3000),
        ((5, 4, 6), 300),
        ((2**20, 2**20, 2**20), 100),
        ((1, 1), 9),
        ((3, 2**33), 50),
    ]:
        at = np.array([rng.integers(0, n, size=nnz) for n in shape])
        at[:, nnz // 2 :] = at[:, : nnz - nnz // 2]
        for dtype, rest in [
            ("float32", ()),
            ("float64", (3,)),
            ("int64", ()),
            ("complex64", (2,)),
            ("bool", ()),
        ]:
            values = rng.integers(0, 5, size=(nnz, *rest)).astype(dtype)
            x = flambeau.sparse_coo_tensor(at, values, (*shape, *rest)).coalesce()
            places, inverse = np.unique(at, axis=1, return_inverse=True)
            expected = np.zeros((places.shape[1], *rest), dtype)
            np.add.at(expected, inverse.ravel(), values)
            assert x.is_coalesced() and x.indices().tolist() == places.tolist()
            assert np.array_equal(x.values().numpy(), expected)


def test_places_that_64_bits_do_not_number():
    with pytest.raises(RuntimeError, match="64 bits"):
        flambeau.sparse_coo_tensor(flambeau.zeros(2, 0).long(), flambeau.zeros(0, 0), (2**40, 2**40, 0))
    for call in (flambeau.sparse_coo_tensor, lambda size: sample(COO).sparse_resize_and_clear_(size, 2, 1)):
        with pytest.raises(RuntimeError, match="64 bits"):
            call((2**40, 2**40, 0))


def test_another_size():
    x = flambeau.sparse_coo_tensor([[0, 1]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    assert x.sparse_resize_((5, 4), 1, 1) is x and x.shape == (5, 4)
    assert x.to_dense()[:2].tolist() == [[1, 2, 0, 0], [3, 4, 0, 0]]
    for size, sparse_dim, dense_dim in [((2, 4), 1, 1), ((5, 4), 2, 0), ((5, 4), 1, 2)]:
        with pytest.raises(RuntimeError, match="sparse_resize_"):
            x.sparse_resize_(size, sparse_dim, dense_dim)
    assert x.sparse_resize_and_clear_((2, 3, 4), 2, 1)._nnz() == 0 and x.shape == (2, 3, 4)
    assert flambeau.resize_as_sparse_(x, sample(COO)).shape == (4, 6)


# --- copies ------------------------------
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_copies_of_all_kinds(layout):
    x = sample(layout).requires_grad_()
    x.sum().backward()
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert (
            other is not x
            and other.layout is layout
            and other.requires_grad
            and np.allclose(array(other), array(x))
        )
    assert np.allclose(array(copy.deepcopy(x).grad), array(x.grad))
    clone = x.detach().clone()
    clone._values().zero_()
    assert array(x).any() and not array(clone).any()
    assert x.to(flambeau.float64) is x and x.float().dtype == flambeau.float32
    assert x.to(flambeau.ones(1).float()).dtype == flambeau.float32
    empty = flambeau.empty_like(x)
    assert empty.shape == x.shape and empty.layout is layout and flambeau.zeros_like(x)._nnz() == 0
    assert repr(x).endswith("requires_grad=True)") and str(layout) in repr(x)
    assert pickle.loads(pickle.dumps(x * 2)).is_leaf


def test_texts():
    x = flambeau.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])
    assert repr(x.to_sparse_csr()).split("\n") == [
        "tensor(crow_indices=tensor([0, 2, 3]),",
        "       col_indices=tensor([0, 2, 2]),",
        "       values=tensor([1., 2., 3.]), size=(2, 3), nnz=3,",
        "       layout=flambeau.sparse_csr)",
    ]
    assert repr(x.double().to_sparse_bsc((2, 1))).split("\n") == [
        "tensor(ccol_indices=tensor([0, 1, 1, 2]),",
        "       row_indices=tensor([0, 0]),",
        "       values=tensor([[[1.],",
        "                       [0.]],",
        "",
        "                      [[2.],",
        "                       [3.]]]), size=(2, 3), nnz=2, dtype=flambeau.float64,",
        "       layout=flambeau.sparse_bsc)",
    ]
    assert "indices=tensor([], size=(2, 0))" in repr(flambeau.sparse_coo_tensor((2, 3)))
    assert "grad_fn=<SparseBackward>" in repr(x.requires_grad_().to_sparse())


def test_comparing():
    for layout in LAYOUTS:
        x = sample(layout)
        assert_close(x, x.clone())
        assert_close(x, x.to_dense(), check_layout=False)
        for other in (x * 2, x.to_dense(), sample(layout, seed=5)):
            with pytest.raises(AssertionError):
                assert_close(x, other)


# --- SciPy ------------------------------
@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "bsr"])
@pytest.mark.parametrize("array_or_matrix", ["array", "matrix"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_scipy_shares_memory(kind, array_or_matrix, index):
    a = dense_array((4, 6), 2, dtype="float32")
    theirs = getattr(ss, f"{kind}_{array_or_matrix}")(a)
    if kind != "coo":
        theirs.indptr, theirs.indices = theirs.indptr.astype(index), theirs.indices.astype(index)
    x = flambeau.sparse.from_scipy(theirs)
    assert str(x.layout).endswith(kind) and array(x).tolist() == a.tolist()
    x._values().mul_(2)
    assert theirs.toarray().tolist() == (2 * a).tolist()
    back = x.to_scipy()
    assert back.format == kind and back.toarray().tolist() == (2 * a).tolist()
    assert np.shares_memory(back.data, theirs.data)
    if kind != "coo":
        assert parts(x)[0].dtype == getattr(flambeau, index)
        assert np.shares_memory(back.indices, theirs.indices) and np.shares_memory(back.indptr, theirs.indptr)
    else:
        assert np.shares_memory(back.coords[0], x._indices().numpy())
    back.data[:] = 1
    assert (x._values() == 1).all()


def test_other_matrices_of_scipy():
    a = dense_array((4, 6), 2)
    for kind in ("dok", "lil", "dia"):
        assert array(flambeau.sparse.from_scipy(getattr(ss, f"{kind}_array")(a))).tolist() == a.tolist()
    unsorted = ss.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    assert array(flambeau.sparse.from_scipy(unsorted)).tolist() == [[2, 0, 4]]
    with pytest.raises(TypeError, match="scipy.sparse"):
        flambeau.sparse.from_scipy(np.eye(2))
    bad = ss.csr_array((np.ones(1), np.array([0]), np.array([0, 1])), shape=(1, 1))
    bad.indices[0] = 7
    bad.has_canonical_format = bad.has_sorted_indices = True
    with pytest.raises(RuntimeError, match="col_indices"):
        flambeau.sparse.from_scipy(bad)
    for x in (flambeau.ones(2), sample(BSC), sample(CSR).requires_grad_(), coordinates((3, 4, 2), 2)):
        with pytest.raises(RuntimeError, match="to_scipy"):
            x.to_scipy()


def test_beside_scipy_on_random_structures():
    """Products, sums and turned matrices of matrices with empty rows and columns."""
    for seed in range(6):
        rng = generator(seed)
        rows, columns = rng.integers(1, 60, size=2)
        theirs = ss.random(rows, columns, rng.uniform(0, 0.3), "csr", random_state=seed)
        ours, right = flambeau.sparse.from_scipy(theirs), rng.standard_normal((columns, rng.integers(1, 70)))
        assert np.allclose((ours @ flambeau.tensor(right)).numpy(), theirs @ right)
        assert np.allclose((ours.t() @ flambeau.tensor(theirs @ right)).numpy(), theirs.T @ (theirs @ right))
        assert np.allclose(array(ours @ ours.t()), (theirs @ theirs.T).toarray())
        assert np.allclose(array(flambeau.sparse.sum(ours, 0)), theirs.sum(0))
        assert np.allclose(array(ours.to_sparse_coo() + ours.to_sparse_coo().t().t()), 2 * theirs.toarray())
