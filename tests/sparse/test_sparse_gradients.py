"""Gradients of sparse tensors: of what they list, against finite differences, and where they go."""

import numpy as np
import pytest
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
    sample,
)

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.sparse import as_sparse_gradcheck

check = as_sparse_gradcheck(gradcheck)
check_twice = as_sparse_gradcheck(gradgradcheck)


def random(*shape, seed=0):
    values = np.random.default_rng(seed).uniform(0.2, 1.5, size=shape)
    return flambeau.tensor(values).requires_grad_()


def leaf(layout, shape=(4, 6), seed=0):
    """A tensor of a layout with values whose functions are smooth there."""
    x = sample(layout, shape, seed)
    x = x.coalesce() if layout is COO else x
    values = np.random.default_rng(seed).uniform(0.2, 0.9, size=tuple(x.values().shape))
    return x._as(flambeau.tensor(values)).requires_grad_()


EVERYWHERE = {
    "to_dense": lambda x: x.to_dense(),
    "values": lambda x: x.values() ** 2,
    "clone": lambda x: x.clone(),
    "mul number": lambda x: x * 3,
    "div": lambda x: x / 4,
    "neg": lambda x: -x,
    "sin": lambda x: x.sin(),
    "sqrt": lambda x: x.sqrt(),
    "pow": lambda x: x**3,
    "add itself": lambda x: x + x,
    "mul itself": lambda x: x * x,
    "sum": lambda x: x.sum(),
    "norm": lambda x: x.norm(),
    "t": lambda x: x.t(),
    "select": lambda x: x[1],
    "to coordinates": lambda x: x.to_sparse_coo(),
    "to csr": lambda x: x.to_sparse_csr(),
    "to csc": lambda x: x.to_sparse_csc(),
    "to bsr": lambda x: x.to_sparse_bsr((2, 2)),
    "to bsc": lambda x: x.to_sparse_bsc((2, 3)),
    "sparse @ sparse": lambda x: (x @ x.t()).to_dense(),
    "sparse_mask": lambda x: x.sparse_mask(x.detach() * 2),
}
IN_COORDINATES = {
    "coalesce": lambda x: x.coalesce(),
    "sum 0": lambda x: flambeau.sparse.sum(x, 0),
    "sum 1 kept": lambda x: x.sum(1, keepdim=True),
    "softmax": lambda x: flambeau.sparse.softmax(x, 1),
    "softmax 0": lambda x: flambeau.sparse.softmax(x, 0),
    "log_softmax": lambda x: flambeau.sparse.log_softmax(x, 1),
    "slice": lambda x: x[1:3, ::2],
    "index_select": lambda x: x.index_select(0, flambeau.tensor([3, 3, 0])),
    "cat": lambda x: flambeau.cat([x, x * 2], 1),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "mask of other places": lambda x: x.sparse_mask(sample(COO, seed=5)),
    "mul": lambda x: x * sample(COO, seed=5),
}
CASES = [
    *[(name, layout, f) for name, f in EVERYWHERE.items() for layout in LAYOUTS],
    *[(name, COO, f) for name, f in IN_COORDINATES.items()],
]


@pytest.mark.parametrize(
    "name, layout, call", CASES, ids=[f"{n}-{str(x).split('_')[-1]}" for n, x, _ in CASES]
)
def test_gradients_of_what_is_listed(name, layout, call):
    x = leaf(layout)
    assert check(call, x)
    result = call(x)
    result.backward(result.detach().clone())
    assert x.grad.layout is layout and x.grad.shape == x.shape and x.grad._nnz() == x._nnz()
    assert x.grad.values().isfinite().all()


PRODUCTS = {
    "mm": (lambda x, y: x @ y, (6, 3)),
    "mm on the right": (lambda x, y: y @ x, (3, 4)),
    "mv": (lambda x, y: x @ y, (6,)),
    "sparse.mm": (lambda x, y: flambeau.sparse.mm(x, y), (6, 3)),
    "addmm": (lambda x, y: flambeau.addmm(y[:4], x, y[:, :3], beta=2, alpha=3), (6, 3)),
    "mul dense": (lambda x, y: x * y, (4, 6)),
    "add dense": (lambda x, y: x + y, (4, 6)),
    "dense sub": (lambda x, y: y - x, (4, 6)),
    "linear": (lambda x, y: flambeau.nn.functional.linear(y, x), (2, 6)),
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_gradients_with_dense_tensors(name, layout):
    call, shape = PRODUCTS[name]
    assert check(call, (leaf(layout), random(*shape)))
    if layout in (COO, CSR, BLOCKED[0]):
        assert check_twice(call, (leaf(layout, seed=2), random(*shape, seed=3)))


def test_gradients_of_functions_of_rows():
    x, y = leaf(CSR), random(6, 3)
    for reduce in ("mean", "amax", "amin"):
        assert check(lambda x, y: flambeau.sparse.mm(x, y, reduce), (x, y))  # noqa: B023
    sampled = lambda x, a, b: flambeau.sparse.sampled_addmm(x, a, b, beta=2, alpha=3)  # noqa: E731
    inputs = x, random(4, 3), random(3, 6, seed=1)
    assert check(sampled, inputs) and check_twice(sampled, inputs)
    square = flambeau.eye(4, dtype=flambeau.float64) * 5 + flambeau.tensor(dense_array((4, 4), 2))
    for right in (random(4, 2), random(4)):
        assert check(flambeau.sparse.spsolve, (square.to_sparse_csr().requires_grad_(), right))
    diagonals, offsets = random(3, 4), flambeau.tensor([0, -1, 2])
    assert gradcheck(lambda d: flambeau.sparse.spdiags(d, offsets, (4, 5)).to_dense(), diagonals)


def test_gradients_of_dense_dimensions_and_places_listed_twice():
    x = coordinates((3, 4, 2), 2, nnz=9)
    values = random(9, 2)
    of_values = lambda v: x._as(v)  # noqa: E731
    for call in (
        lambda v: of_values(v).coalesce(),
        lambda v: of_values(v).to_dense(),
        lambda v: of_values(v).sum(1),
        lambda v: flambeau.sparse.softmax(of_values(v), 1),
        lambda v: flambeau.sparse.log_softmax(of_values(v), 2),
        lambda v: of_values(v).sin(),
        lambda v: of_values(v) * of_values(v),
        lambda v: of_values(v).permute(1, 0, 2),
        lambda v: of_values(v).sum(2),
    ):
        assert check(call, (values,))


def test_a_leaf_whose_places_are_listed_twice_has_one_gradient_at_each():
    x = flambeau.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 3.0], (3,), requires_grad=True)
    (x.to_dense() * flambeau.tensor([5.0, 6.0, 7.0])).sum().backward()
    assert x.grad.to_dense().tolist() == [5, 6, 0] and x.grad.is_coalesced()
    y = flambeau.tensor([1.0, 2.0, 3.0], requires_grad=True)
    made = flambeau.sparse_coo_tensor([[1, 0, 1]], y, (3,))
    (made.to_dense() * flambeau.tensor([5.0, 6.0, 7.0])).sum().backward()
    assert y.grad.tolist() == [6, 5, 6]


def test_where_gradients_of_dense_tensors_go():
    d = flambeau.tensor([[1.0, 0.0], [2.0, 3.0]], requires_grad=True)
    for layout in LAYOUTS:
        d.grad = None
        x = d.to_sparse(layout=layout, blocksize=(1, 1) if layout in BLOCKED else None)
        (x * 2).to_dense().sum().backward()
        assert d.grad.tolist() == [[2, 0], [2, 2]]
    d.grad = None
    d.sparse_mask(flambeau.eye(2).to_sparse()).sum().backward()
    assert d.grad.tolist() == [[1, 0], [0, 1]]


def test_masked_gradients():
    for layout in (COO, CSR, CSC):
        x = sample(layout).detach()
        x = (x.coalesce() if layout is COO else x).requires_grad_()
        x.to_dense().backward(flambeau.ones(4, 6).double())
        assert x.grad._nnz() == x._nnz()
        x.grad = None
        x.to_dense(masked_grad=False).backward(flambeau.ones(4, 6).double())
        assert x.grad.layout is layout and array(x.grad).all()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_as_a_tensor_on_the_tape(layout):
    """Leaves, results, hooks, sums of gradients, and gradients that were kept."""
    x = leaf(layout)
    assert x.is_leaf and x.requires_grad and x.grad is None and x.grad_fn is None
    y = x * 2
    assert not y.is_leaf and y.requires_grad and y.grad_fn is not None
    y.retain_grad()
    seen = []
    hook = x.register_hook(lambda g: seen.append(g) or g * 10)
    y.sum().backward()
    y2 = (x * 3).sum()
    y2.backward()
    assert np.allclose(x.grad.values().numpy(), 50) and np.allclose(y.grad.values().numpy(), 1)
    assert [g.layout for g in seen] == [layout] * 2
    hook.remove()
    (g,) = flambeau.autograd.grad((x * x).sum(), x, create_graph=True)
    assert g.requires_grad and np.allclose(array(g), 2 * array(x))
    with flambeau.no_grad():
        assert not (x * 2).requires_grad and x.detach().requires_grad is False
    with pytest.raises(RuntimeError, match="leaf"):
        x.mul_(2)
    assert (x * 2).detach_().grad_fn is None
    z = x * 2
    z.mul_(3)
    (g,) = flambeau.autograd.grad(z.sum(), x)
    assert np.allclose(g.values().numpy(), 6)


def test_a_graph_layer_learns():
    """Both layouts of the same matrix give the same steps."""
    losses = []
    a = coordinates((30, 30), nnz=90, dtype="float32").coalesce() / 20
    x, target = flambeau.randn(30, 8, generator=flambeau.Generator().manual_seed(0)), flambeau.arange(30) % 3
    for matrix in (a, a.to_sparse_csr(), a.to_sparse_csc(), a.to_sparse_bsr((5, 5))):
        flambeau.manual_seed(1)
        layers = flambeau.nn.Linear(8, 16), flambeau.nn.Linear(16, 3)
        optimizer = flambeau.optim.Adam([p for m in layers for p in m.parameters()], lr=0.05)
        steps = []
        for _ in range(15):
            optimizer.zero_grad()
            hidden = (matrix @ layers[0](x)).relu()
            loss = flambeau.nn.functional.cross_entropy(
                matrix @ layers[1](hidden) + layers[1](hidden), target
            )
            loss.backward()
            optimizer.step()
            steps.append(loss.item())
        losses.append(steps)
    assert losses[0][-1] < 0.8 * losses[0][0]
    assert all(np.allclose(losses[0], other, rtol=1e-3) for other in losses[1:])


def test_compressed_leaves_step():
    """An optimiser that takes the gradient as it comes."""
    for layout in COMPRESSED:
        x = leaf(layout)
        before = array(x)
        (x * x).sum().backward()
        with flambeau.no_grad():
            x.add_(x.grad, alpha=-0.1)
        assert np.allclose(array(x), 0.8 * before)


@pytest.mark.parametrize("shape, dim", [((5,), 0), ((4, 3), 0), ((4, 3), 1), ((2, 3, 4), -2)])
def test_sparse_gradients_of_gather(shape, dim):
    results = []
    index = flambeau.tensor(np.random.default_rng(0).integers(0, shape[dim], size=[min(n, 3) for n in shape]))
    for sparse in (False, True):
        x = flambeau.ones(shape, requires_grad=True)
        (
            x.gather(dim, index, sparse_grad=sparse)
            * (1 + flambeau.arange(index.numel()).reshape(index.shape))
        ).sum().backward()
        assert x.grad.is_sparse == sparse
        results.append(x.grad.to_dense().tolist())
    assert results[0] == results[1]
    one = flambeau.tensor(2.0, requires_grad=True)
    one.gather(0, flambeau.tensor(0), sparse_grad=True).backward()
    assert one.grad.item() == 1
