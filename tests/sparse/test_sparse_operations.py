"""Operations on sparse tensors of every layout, from one table, beside the same on dense arrays; all others refuse."""

import inspect
import re

import numpy as np
import pytest
from flambeau.core.call.operation import Op
from sparse_samples import (
    BLOCKED,
    COMPRESSED,
    COO,
    CSC,
    CSR,
    LAYOUTS,
    array,
    coordinates,
    dense_array,
    generator,
    sample,
)

import flambeau
from flambeau.nn import functional as F
from flambeau.operations.declare.registry import REGISTRY
from flambeau.sparse import probabilities

RIGHT = flambeau.tensor(dense_array((6, 5), 3, 0.9))
LEFT = flambeau.tensor(dense_array((3, 4), 4, 0.9))
OTHER = flambeau.tensor(dense_array((4, 6), 5, 0.9))
VECTOR = flambeau.tensor(dense_array((6,), 6, 0.9))
ADDEND = flambeau.tensor(dense_array((4, 5), 7, 0.9))

# What is called with a sparse x, and whether the result is sparse (None: a number of its own kind); the same is called with
# the dense x.
EVERYWHERE = {
    "neg": lambda x: -x,
    "mul number": lambda x: x * 3,
    "number mul": lambda x: 3 * x,
    "mul number of a tensor": lambda x: x * flambeau.tensor(2.0),
    "div": lambda x: x / 4,
    "div floor": lambda x: x.div(4, rounding_mode="floor"),
    "floor_divide": lambda x: x // 3,
    "pow": lambda x: x**3,
    "square": lambda x: x.square(),
    "add dense": lambda x: x + OTHER,
    "dense add": lambda x: OTHER + x,
    "dense sub": lambda x: flambeau.sub(OTHER, x, alpha=2),
    "dense add_": lambda x: OTHER.clone().add_(x, alpha=3),
    "dense sub_": lambda x: OTHER.clone().sub_(x),
    "mul dense": lambda x: x * OTHER,
    "dense mul": lambda x: OTHER * x,
    "mul a row": lambda x: x * VECTOR,
    "add itself": lambda x: x + x,
    "sub itself": lambda x: flambeau.sub(x, x, alpha=3),
    "mul itself": lambda x: x * x,
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "float": lambda x: x.float(),
    "to": lambda x: x.to(flambeau.complex128),
    "mm": lambda x: x.mm(RIGHT),
    "matmul": lambda x: x @ RIGHT,
    "mm on the right": lambda x: LEFT @ x,
    "matmul of a turned matrix": lambda x: x @ RIGHT.t().contiguous().t(),
    "mv": lambda x: x.mv(VECTOR),
    "matmul with a vector": lambda x: x @ VECTOR,
    "vector matmul": lambda x: LEFT[0] @ x,
    "addmm": lambda x: flambeau.addmm(ADDEND, x, RIGHT, beta=2, alpha=3),
    "addmm without addend": lambda x: flambeau.addmm(ADDEND, x, RIGHT, beta=0),
    "addmm_": lambda x: ADDEND.clone().addmm_(x, RIGHT),
    "addmv": lambda x: flambeau.addmv(ADDEND[:, 0], x, VECTOR, beta=0.5),
    "linear": lambda x: F.linear(OTHER, x),
    "linear, sparse input": lambda x: F.linear(x, RIGHT.t(), RIGHT[0]),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "transpose": lambda x: x.transpose(0, -1),
    "permute": lambda x: x.permute(1, 0),
    "sum": lambda x: x.sum(),
    "any": lambda x: x.any(),
    "norm": lambda x: x.norm(),
    "norm 1": lambda x: x.norm(1),
    "select": lambda x: x.select(1, 2),
    "index": lambda x: x[3],
    "index twice": lambda x: x[1, 2],
    "unbind": lambda x: flambeau.stack([y.to_dense() for y in x.unbind(1)]),
    "copy_": lambda x: flambeau.zeros(4, 6).double().copy_(x),
    "zeros_like": lambda x: flambeau.zeros_like(x),
    "isnan": lambda x: x.isnan(),
    "sparse @ sparse": lambda x: x @ x.t(),
    "abs": abs,
}
IN_COORDINATES = {
    "sum 0": lambda x: x.sum(0),
    "sum 0, 1": lambda x: x.sum((0, 1)),
    "sum kept": lambda x: x.sum(1, keepdim=True),
    "sum both kept": lambda x: x.sum((0, 1), keepdim=True),
    "slice": lambda x: x[1:3],
    "slice of columns": lambda x: x[:, 1::2],
    "ellipsis": lambda x: x[..., 2:4],
    "none": lambda x: x[:, None, 1],
    "narrow": lambda x: x.narrow(1, 2, 3),
    "index_select": lambda x: x.index_select(1, flambeau.tensor([5, 0, 0, 2])),
    "list": lambda x: x[[2, 0, 2]],
    "mask": lambda x: x[flambeau.tensor([True, False, True, False])],
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(),
    "cat": lambda x: flambeau.cat([x, x * 2], 1),
    "stack": lambda x: flambeau.stack([x, x], 1),
    "transpose_": lambda x: x.clone().transpose_(0, 1),
    "t_": lambda x: x.clone().t_(),
    "narrow_copy": lambda x: x.narrow_copy(1, 2, 3),
    "bmm": lambda x: flambeau.stack([x, x * 2]).bmm(RIGHT.expand(2, 6, 5)),
    "add of other places": lambda x: x + x.t()[:4].t()[:4].unsqueeze(0).squeeze(0)[:, [0, 1, 2, 3, 0, 1]],
}
IN_ROWS = {
    "sum kept": lambda x: x.sum(1, keepdim=True),
    "sum 0 kept": lambda x: x.sum(0, keepdim=True),
    "cat": lambda x: flambeau.cat([x, x * 2], 1),
}
CASES = [
    *[(name, layout, f) for name, f in EVERYWHERE.items() for layout in LAYOUTS],
    *[(name, COO, f) for name, f in IN_COORDINATES.items()],
    *[(name, layout, f) for name, f in IN_ROWS.items() for layout in (CSR, CSC)],
]


@pytest.mark.parametrize(
    "name, layout, call", CASES, ids=[f"{n}-{str(x).split('_')[-1]}" for n, x, _ in CASES]
)
def test_beside_dense(name, layout, call):
    x = sample(layout)
    actual, expected = call(x), call(flambeau.tensor(array(x)))
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    assert np.allclose(array(actual), expected.numpy(), rtol=1e-12)


def takes_one(entry):
    """Whether an operation works on each element of one tensor, and needs nothing else."""
    op = entry.function
    if not op.elementwise or op.writes or entry.kind == "random":
        return False
    needed = [p for p in inspect.signature(op).parameters.values() if p.default is p.empty]
    return len(needed) == 1


ELEMENTS = {e.name: e for e in REGISTRY.values() if isinstance(e.function, Op) and takes_one(e)}


def test_what_works_on_each_element_of_one_tensor():
    assert len(ELEMENTS) > 100 and {"neg", "sin", "exp", "relu", "nan_to_num", "gelu"} <= {*ELEMENTS}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", ELEMENTS)
def test_functions_of_elements(name, layout):
    """Those that make zero of zero work on the values, all others refuse by name."""
    op, x = ELEMENTS[name].function, sample(layout)
    dense = flambeau.tensor(array(x))
    try:
        zero = op(flambeau.zeros((), dtype=x.dtype))
    except (RuntimeError, TypeError) as error:
        with pytest.raises(type(error)):
            op(x)
        return
    if not isinstance(zero, flambeau.Tensor) or zero != 0:
        with pytest.raises(
            NotImplementedError, match=rf"^{op.__name__}\(\): not available for tensors of layout"
        ):
            op(x)
        return
    actual, expected = op(x), op(dense)
    assert actual.layout is layout
    assert np.allclose(array(actual), expected.numpy(), rtol=1e-12, equal_nan=True)
    in_place = ELEMENTS[name].in_place
    if in_place is not None and expected.dtype == dense.dtype:
        assert in_place(x) is x
        assert np.allclose(array(x), expected.numpy(), rtol=1e-12, equal_nan=True)


def test_other_arguments_decide_what_becomes_of_zero():
    x = sample(COO)
    dense = x.to_dense()
    for call in (
        lambda x: x.clamp(-1.0, 2.0),
        lambda x: F.hardtanh(x, -0.5, 0.5),
        lambda x: F.relu(x, inplace=False),
        lambda x: x.round(decimals=1),
        lambda x: x.ne(0),
        lambda x: flambeau.fmod(x, 2.0),
    ):
        result = call(x)
        assert result.layout is COO and result.to_dense().tolist() == call(dense).tolist()
    for refused in (
        lambda x: x.clamp(min=1.0),
        lambda x: x.eq(0),
        lambda x: x.maximum(x),
        lambda x: x.bernoulli(),
    ):
        with pytest.raises(NotImplementedError, match="not available for tensors of layout"):
            refused(x)
    state = flambeau.get_rng_state()
    with pytest.raises(NotImplementedError):
        F.dropout(x)
    assert flambeau.equal(state, flambeau.get_rng_state())
    y = x.clone()
    assert F.relu(y, inplace=True) is y and y.to_dense().tolist() == dense.relu().tolist()
    assert x.to_dense().tolist() == dense.tolist()


def test_additive_functions_leave_places_listed_twice():
    x = flambeau.sparse_coo_tensor([[1, 1]], [1.0, 2.0], (3,))
    assert x.neg()._nnz() == 2 and x.square()._nnz() == 1
    assert x.neg().to_dense().tolist() == [0, -3, 0] and x.square().to_dense().tolist() == [0, 9, 0]


def test_what_is_no_sparse_tensor():
    x, dense = sample(COO), flambeau.ones(2)
    for call, error, match in (
        (
            lambda: flambeau.native_norm(dense),
            NotImplementedError,
            r"native_norm\(\): expected a sparse input",
        ),
        (lambda: flambeau.native_norm(1), TypeError, r"native_norm\(\): argument 'input' .*not int"),
        (lambda: flambeau.resize_as_sparse_(dense, x), RuntimeError, "resize_as_sparse_.*sparse input"),
        (
            lambda: flambeau.resize_as_sparse_(x, dense),
            RuntimeError,
            "resize_as_sparse_.*sparse the_template",
        ),
        (
            lambda: flambeau.resize_as_sparse_(x, 1),
            TypeError,
            r"resize_as_sparse_\(\): argument 'the_template'",
        ),
        (lambda: dense.sparse_mask(1), TypeError, r"sparse_mask\(\): argument 'mask' .*not int"),
        (lambda: dense.sparse_mask(dense), NotImplementedError, r"sparse_mask\(\): expected a sparse mask"),
    ):
        with pytest.raises(error, match=match):
            call()


@pytest.mark.parametrize("name", ["erfinv", "asin", "sqrt", "log1p"])
def test_functions_of_small_elements(name):
    x = sample(CSR) / 9
    x = x if name in ("asin", "erfinv") else x.abs()
    assert np.allclose(array(getattr(x, name)()), getattr(flambeau.tensor(array(x)), name)().numpy())


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_two_sparse_tensors(layout):
    """Of different places."""
    a, b = sample(layout, seed=1), sample(layout, seed=2)
    for call in (
        lambda a, b: a + b,
        lambda a, b: flambeau.add(a, b, alpha=-2),
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a @ b.t(),
    ):
        actual, expected = call(a, b), call(*(flambeau.tensor(array(x)) for x in (a, b)))
        assert actual.layout is layout or layout in BLOCKED
        assert np.allclose(array(actual), expected.numpy())


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_in_place(layout):
    x, y = sample(layout, seed=1), sample(layout, seed=2)
    a, b = array(x), array(y)
    assert x.add_(y, alpha=2) is x and np.allclose(array(x), a + 2 * b)
    assert x.mul_(3) is x and np.allclose(array(x), 3 * (a + 2 * b))
    assert x.div_(2) is x and x.sub_(y) is x and np.allclose(array(x), 1.5 * (a + 2 * b) - b)
    assert x.copy_(y) is x and np.allclose(array(x), b)
    x.mul_(2)
    assert np.allclose(array(y), b)
    assert x.zero_() is x and x._nnz() == 0 and not array(x).any() and x.shape == y.shape
    with pytest.raises(RuntimeError, match="cast"):
        sample(layout, dtype="int64").mul_(1.5)


def test_layouts_that_do_not_go_together_are_both_named():
    for a in LAYOUTS:
        for b in LAYOUTS:
            if a is b:
                continue
            both = re.escape(str(a)) + ".*" + re.escape(str(b))
            for call in (flambeau.add, flambeau.mul, lambda x, y: flambeau.cat([x, y])):
                with pytest.raises(RuntimeError, match=both):
                    call(sample(a), sample(b))
            if COO in (a, b):
                with pytest.raises(RuntimeError, match=both):
                    sample(a).mm(sample(b, (6, 4)))


REFUSED = [
    "exp",
    "cos",
    "cumsum",
    "argmax",
    "sort",
    "flip",
    "reshape",
    "view",
    "tolist",
    "sort",
    "mean",
    "max",
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_operation_layout_and_what_to_do(name, layout):
    with pytest.raises(NotImplementedError, match=rf"{name}.*{layout}.*to_dense"):
        getattr(sample(layout), name)()


@pytest.mark.parametrize("layout", COMPRESSED, ids=str)
def test_operations_of_coordinates_alone(layout):
    for call in (
        lambda x: x.unsqueeze(0),
        lambda x: x.narrow(0, 0, 1),
        lambda x: flambeau.stack([x, x]),
        lambda x: x[0:2],
    ):
        with pytest.raises(NotImplementedError, match=str(layout)):
            call(sample(layout))
    with pytest.raises(RuntimeError, match="coordinate"):
        sample(layout).coalesce()


def test_shapes_and_dtypes_that_do_not_fit():
    for layout in LAYOUTS:
        x = sample(layout)
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            x @ LEFT
        with pytest.raises(RuntimeError, match="same dtype"):
            x @ RIGHT.float()
        with pytest.raises(RuntimeError, match="same size|broadcast"):
            x * RIGHT
        with pytest.raises(RuntimeError, match="zero-dim"):
            x / OTHER
        with pytest.raises(RuntimeError, match="zeroth power"):
            x**0
        with pytest.raises(IndexError, match="select"):
            x[4]
    with pytest.raises(RuntimeError, match="sparse_dim=1"):
        coordinates((4, 6), 1) @ RIGHT


# --- dense dimensions ------------------------------
@pytest.mark.parametrize("sparse_dim", [1, 2, 3])
def test_dense_dimensions(sparse_dim):
    shape = (3, 4, 2, 5)
    x = coordinates(shape, sparse_dim)
    a = array(x)
    n = sparse_dim
    for actual, expected in (
        (x.coalesce(), a),
        (x + x, 2 * a),
        (x.sum(0), a.sum(0)),
        (x.sum(3), a.sum(3)),
        (x.sum((0, 3)), a.sum((0, 3))),
        (x.sum(3, keepdim=True), a.sum(3, keepdims=True)),
        (x[1], a[1]),
        (x[:, 2], a[:, 2]),
        (x[..., 1:3], a[..., 1:3]),
        (x[2, 1, 0, 4], a[2, 1, 0, 4]),
        (x.select(3, 1), a[..., 1]),
        (flambeau.cat([x, x], 0), np.concatenate([a, a], 0)),
        (flambeau.cat([x, 2 * x], 3), np.concatenate([a, 2 * a], 3)),
        (x.unsqueeze(4), a[..., None]),
        (x.unsqueeze(0), a[None]),
        (x * flambeau.tensor(a), a * a),
        (x * x.coalesce(), a * a),
        (x.index_select(3, flambeau.tensor([4, 0])), a[..., [4, 0]]),
        (
            x.sparse_mask(coordinates(shape, n, seed=3)),
            np.where(array(pattern_of(coordinates(shape, n, seed=3))), a, 0),
        ),
    ):
        assert np.allclose(array(actual), expected)


def pattern_of(x):
    """Ones where x lists something."""
    x = x.coalesce()
    return flambeau.sparse_coo_tensor(x.indices(), flambeau.ones_like(x.values()), x.shape)


@pytest.mark.parametrize("layout", COMPRESSED, ids=str)
def test_dense_dimensions_and_batches_of_compressed_layouts(layout):
    """One mask for all matrices of the batch, since each lists as many elements."""
    rng = np.random.default_rng(0)
    mask = np.kron(rng.random((2, 3)) < 0.6, np.ones((2, 2)))[None, None, :, :, None]
    a = rng.integers(1, 9, size=(2, 3, 4, 6, 2)) * mask.astype("float64")
    block = (2, 2) if layout in BLOCKED else None
    x = flambeau.tensor(a).to_sparse(layout=layout, blocksize=block, dense_dim=1)
    assert x.shape == a.shape and x.dense_dim() == 1 and x.sparse_dim() == 2
    for actual, expected in (
        (x, a),
        (x.to_sparse_coo(), a),
        (x * 2, 2 * a),
        (x + x, 2 * a),
        (x * x, a * a),
        (x.transpose(2, 3), a.swapaxes(2, 3)),
        (x[1], a[1]),
        (x[1, 2], a[1, 2]),
        (x.to_sparse_coo().to_sparse(layout=layout, blocksize=block), a),
        (x * flambeau.tensor(a), a * a),
        (x.sum(), a.sum()),
        (flambeau.tensor(a).sparse_mask(x), a),
    ):
        assert np.allclose(array(actual), expected)
    uneven = a.copy()
    uneven[0, 0] = 0
    with pytest.raises(RuntimeError, match="same number of specified elements per batch"):
        flambeau.tensor(uneven).to_sparse(layout=layout, blocksize=block, dense_dim=1)


# --- along a dimension ------------------------------
@pytest.mark.parametrize(
    "shape, sparse_dim", [((4, 6), 2), ((3, 4, 5), 3), ((3, 4, 5), 2), ((5,), 1), ((0, 3), 2)]
)
def test_softmax_of_what_is_listed(shape, sparse_dim):
    x = coordinates(shape, sparse_dim).coalesce()
    listed = np.broadcast_to(array(pattern_of(x)) != 0, shape)
    a = np.where(listed, array(x), -np.inf)
    for dim in range(len(shape)):
        top = a.max(dim, keepdims=True, initial=-1e9)
        e = np.exp(a - top)
        expected = np.where(listed, e / np.maximum(e.sum(dim, keepdims=True), 1e-300), 0)
        assert np.allclose(array(flambeau.sparse.softmax(x, dim)), expected)
        logs = flambeau.sparse.log_softmax(x, dim - len(shape))
        assert np.allclose(np.exp(logs.values().numpy()), flambeau.sparse.softmax(x, dim).values().numpy())
    with pytest.raises(IndexError, match="softmax"):
        flambeau.sparse.softmax(x, len(shape))
    with pytest.raises(RuntimeError, match="sparse_csr"):
        probabilities.softmax(sample(CSR), 1)


# --- functions of their own ------------------------------
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_products_with_reductions(reduce):
    x = sample(CSR)
    a, b = array(x), RIGHT.numpy()
    terms = np.where(a[:, :, None] != 0, a[:, :, None] * b, np.nan)
    with np.errstate(all="ignore"):
        expected = np.nan_to_num(
            {"sum": np.nansum, "mean": np.nanmean, "amax": np.nanmax, "amin": np.nanmin}[reduce](terms, 1)
        )
    assert np.allclose(flambeau.sparse.mm(x, RIGHT, reduce).numpy(), expected)


def test_products_of_their_own():
    x = sample(COO)
    a, b = array(x), RIGHT.numpy()
    assert np.allclose(array(flambeau.smm(x, RIGHT)), a @ b)
    rows = flambeau.hspmm(x, RIGHT)
    assert rows.sparse_dim() == 1 and np.allclose(array(rows), a @ b)
    input = sample(COO, (4, 5), 3)
    result = flambeau.sspaddmm(input, x, RIGHT, beta=2, alpha=3)
    assert result.is_sparse and np.allclose(array(result), 2 * array(input) + 3 * a @ b)
    assert np.allclose(array(input.sspaddmm(x, RIGHT, beta=2, alpha=3)), array(result))
    assert np.allclose(array(x.smm(RIGHT)), a @ b)
    for call in (
        lambda: flambeau.smm(ADDEND, RIGHT),
        lambda: flambeau.sspaddmm(ADDEND, x, RIGHT),
        lambda: input.sspaddmm(x.to_dense(), RIGHT),
        lambda: sample(CSR).smm(RIGHT),
    ):
        with pytest.raises(RuntimeError, match="expected a sparse tensor in coordinates, got the layout"):
            call()
    assert np.allclose(flambeau.sparse.addmm(ADDEND, x, RIGHT).numpy(), ADDEND.numpy() + a @ b)
    assert np.allclose(flambeau.spmm(x, RIGHT).numpy(), a @ b)
    sampled = flambeau.sparse.sampled_addmm(sample(CSR), ADDEND, RIGHT.t().contiguous(), beta=2, alpha=0.5)
    c = array(sample(CSR))
    assert np.allclose(array(sampled), 2 * c + 0.5 * (c != 0) * (ADDEND.numpy() @ RIGHT.numpy().T))
    square = array(sample(COO, (4, 4))) + 9 * np.eye(4)
    matrix = flambeau.tensor(square).to_sparse_csr()
    for right in (ADDEND, ADDEND[:, 0]):
        assert np.allclose(
            flambeau.sparse.spsolve(matrix, right).numpy(), np.linalg.solve(square, right.numpy())
        )
    with pytest.raises(RuntimeError, match="singular"):
        flambeau.sparse.spsolve(flambeau.tensor([[1.0, 0.0], [0.0, 0.0]]).to_sparse_csr(), flambeau.ones(2))


def test_diagonals():
    from scipy import sparse as ss

    diagonals = np.arange(1.0, 13).reshape(3, 4)
    for shape in ((4, 4), (3, 6), (6, 3)):
        expected = ss.spdiags(diagonals, [0, -1, 2], *shape).toarray()
        for layout in (None, CSR, CSC):
            actual = flambeau.sparse.spdiags(
                flambeau.tensor(diagonals), flambeau.tensor([0, -1, 2]), shape, layout
            )
            assert actual.layout is (layout or COO) and np.allclose(array(actual), expected)
    with pytest.raises(RuntimeError, match="duplicate"):
        flambeau.sparse.spdiags(flambeau.ones(2, 2), flambeau.tensor([1, 1]), (2, 2))
    with pytest.raises(RuntimeError, match="number of offsets"):
        flambeau.sparse.spdiags(flambeau.ones(3, 2), flambeau.tensor([1, 0]), (2, 2))


@pytest.mark.parametrize(
    "kind", ["float16", "bfloat16", "float32", "int32", "int64", "complex64", "complex128"]
)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_dtypes(kind, layout):
    dtype = getattr(flambeau, kind)
    x, right = sample(layout).to(dtype), RIGHT.to(dtype)
    a, b = array(x.to(flambeau.complex128)), RIGHT.numpy()
    for actual, expected in (
        (x @ right, a @ b),
        (x @ right[:, 0], a @ b[:, 0]),
        (x + x, 2 * a),
        (x.sum(), a.sum()),
    ):
        assert np.allclose(
            array(actual.to(flambeau.complex128)), expected, rtol=1e-2 if "16" in kind else 1e-6
        )


def test_results_given_and_inference():
    x, out = sample(CSR), flambeau.empty(0).double()
    assert flambeau.mm(x, RIGHT, out=out) is out and np.allclose(out.numpy(), array(x) @ RIGHT.numpy())
    y, given = sample(COO), flambeau.sparse_coo_tensor((1, 1), dtype=flambeau.float64)
    assert flambeau.add(y, y, out=given) is given and np.allclose(array(given), 2 * array(y))
    for wrong in (flambeau.empty(0).double(), sample(CSR)):
        with pytest.raises(RuntimeError, match="layout"):
            flambeau.add(y, y, out=wrong)
    with pytest.raises(RuntimeError, match="out="):
        flambeau.mm(x.requires_grad_(), RIGHT, out=out)
    with flambeau.inference_mode():
        z = sample(COO)
        assert (
            np.allclose((z @ RIGHT).numpy(), (z.to_sparse_csr() @ RIGHT).numpy())
            and z.coalesce().is_coalesced()
        )
        z._indices()[1] = 0  # what was kept of the indices is made anew
        assert np.allclose((z @ RIGHT).numpy(), array(z) @ RIGHT.numpy())


WIDTHS = (0, 1, 2, 3, 4, 5, 8, 16, 19, 70)


def rows_of_all_lengths(entries, kind, index):
    """A CSR matrix of some 10 entries a row, with empty rows among them, long ones, and one of thousands."""
    rng = generator(entries)
    lengths = rng.poisson(10, size=entries // 10)
    lengths[::50], lengths[7::90], lengths[13] = 0, rng.integers(20, 90), 3000
    starts = np.concatenate([[0], np.cumsum(lengths)])
    columns = rng.integers(0, 4000, size=starts[-1])
    values = rng.standard_normal(len(columns)).astype(kind)
    return starts.astype(index), columns.astype(index), values


def csr_matrix(starts, columns, values):
    parts = (flambeau.tensor(x) for x in (starts, columns, values))
    return flambeau.sparse_csr_tensor(*parts, (len(starts) - 1, 4000), check_invariants=False)


@pytest.mark.parametrize("entries", [2_000, 40_000, 400_000])
@pytest.mark.parametrize("kind, index", [("float32", "int64"), ("float64", "int32")])
def test_products_of_every_width_beside_numpy(entries, kind, index):
    starts, columns, values = rows_of_all_lengths(entries, kind, index)
    x, before = csr_matrix(starts, columns, values), flambeau.get_num_threads()
    for width in WIDTHS if entries < 400_000 else (0, 1, 2, 8):
        dense = generator(width).standard_normal((4000, width) if width else 4000).astype(kind)
        terms = dense[columns].astype("float64") * (values[:, None] if width else values)
        sums = np.concatenate([np.zeros((1, *terms.shape[1:])), np.cumsum(terms, 0)])
        expected, actual = sums[starts[1:]] - sums[starts[:-1]], []
        try:
            for threads in (1, 3):
                flambeau.set_num_threads(threads)
                actual.append((x @ flambeau.tensor(dense)).numpy())
        finally:
            flambeau.set_num_threads(before)
        assert np.allclose(actual[0], expected, rtol=0, atol=1e-3 if kind == "float32" else 1e-9)
        assert (actual[0] == actual[1]).all()
        if width > 1:
            apart = flambeau.tensor(np.concatenate([dense, dense], 1))[:, :width]  # rows with gaps
            assert np.allclose((x @ apart).numpy(), expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("entries", [2_000, 400_000])
def test_an_index_outside_is_refused_whatever_the_width(entries):
    for kind, index in (("float32", "int32"), ("float64", "int64")):
        starts, columns, values = rows_of_all_lengths(entries, kind, index)
        for bad in (4000, -1, np.iinfo(index).max, np.iinfo(index).min):
            for part, at in (
                (columns, 0),
                (columns, len(columns) // 2),
                (columns, -1),
                (starts, len(starts) // 2),
            ):
                part = part.copy()
                part[at] = bad if part.shape == columns.shape else starts[0] - 1 if bad == 4000 else bad
                given = (starts, part) if part.shape == columns.shape else (part, columns)
                x = csr_matrix(*given, values)
                for width in (0, 2, 4, 8, 3) if entries < 400_000 else (0,):
                    right = flambeau.ones(4000, width) if width else flambeau.ones(4000)
                    with pytest.raises(IndexError, match="outside"):
                        x @ right.to(x.dtype)


def test_any_number_of_threads_gives_the_same_bits():
    before = flambeau.get_num_threads()
    x = coordinates((3000, 2000), nnz=60000, dtype="float32")
    right, result = flambeau.randn(2000, 19), []
    try:
        for threads in (1, 2, 5):
            flambeau.set_num_threads(threads)
            rows = x.coalesce().to_sparse_csr()
            result.append([(rows @ right).numpy(), (x @ right[:, 0]).numpy(), rows.values().numpy()])
    finally:
        flambeau.set_num_threads(before)
    for other in result[1:]:
        assert all((a == b).all() for a, b in zip(result[0], other))
