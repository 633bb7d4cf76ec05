"""Masked tensors against NumPy's masked arrays, and against the elements that are there alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

NAN = float("nan")


def example(shape=(3, 4), seed=0, **kwargs):
    """A masked tensor with a column of nothing and NaN where nothing is, and NumPy's masked array of the same."""
    draw = np.random.default_rng(seed)
    data = draw.uniform(0.5, 2.0, shape)
    mask = draw.random(shape) < 0.6
    mask[..., 1] = False
    poisoned = np.where(mask, data, NAN)
    x = masked_tensor(flambeau.tensor(poisoned), flambeau.tensor(mask), **kwargs)
    return x, np.ma.array(data, mask=~mask)


def same(found, wanted):
    """A masked tensor's elements, where they are, and where they are."""
    wanted = np.ma.asarray(wanted)
    there = ~np.ma.getmaskarray(wanted)
    np.testing.assert_array_equal(found.get_mask().numpy(), there)
    np.testing.assert_allclose(found._elements.detach().numpy()[there], wanted.data[there], rtol=1e-12)


def test_construction():
    data, mask = flambeau.tensor([1.0, 2.0]), flambeau.tensor([True, False])
    x = masked_tensor(data, mask)
    data[0], mask[1] = 5.0, True
    assert x.tolist() == [1.0, None] and is_masked_tensor(x) and not is_masked_tensor(data)
    assert x.get_data().tolist() == [1.0, 2.0] and x.get_mask().tolist() == [True, False]
    assert x.to_tensor(7.0).tolist() == [1.0, 7.0] and x.to_dense() is x
    assert x.shape == (2,) and x.stride() == (1,) and x.layout is flambeau.strided and not x.is_sparse_coo()
    assert isinstance(MaskedTensor(data, mask), MaskedTensor)
    with pytest.warns(UserWarning, match="not recommended"):
        assert not masked_tensor(data.requires_grad_(), mask).requires_grad


@pytest.mark.parametrize(
    ("data", "mask", "error", "match"),
    [
        ([1.0], flambeau.tensor([True]), TypeError, "data must be a Tensor, got list"),
        (flambeau.ones(1), [True], TypeError, "mask must be a Tensor, got list"),
        (flambeau.ones(1), flambeau.ones(1), TypeError, "mask must have dtype bool, got flambeau.float32"),
        (
            flambeau.ones(1, 2),
            flambeau.tensor([True, True]),
            ValueError,
            r"data.dim\(\) must equal mask.dim\(\)",
        ),
        (
            flambeau.ones(3),
            flambeau.tensor([True, True]),
            ValueError,
            r"data.size\(\) must equal mask.size\(\)",
        ),
        (
            flambeau.eye(2).to_sparse(),
            flambeau.eye(2).bool(),
            TypeError,
            "data layout of flambeau.sparse_coo",
        ),
        (flambeau.eye(2), flambeau.eye(2).to_sparse(), TypeError, "mask layout of flambeau.sparse_coo"),
        (flambeau.ones(1, device="meta"), flambeau.tensor([True]), ValueError, "one device"),
    ],
)
def test_parts_that_do_not_fit(data, mask, error, match):
    for make in (masked_tensor, as_masked_tensor, MaskedTensor):
        with pytest.raises(error, match=match):
            make(data, mask)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amin", "amax", "var", "std"])
@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions(name, dim, keepdim):
    x, reference = example()
    fold = {"amin": np.ma.min, "amax": np.ma.max}.get(name, getattr(np.ma, name, None))
    more = {"ddof": 1} if name in ("var", "std") else {}
    if dim is None and keepdim:
        return
    found = getattr(x, name)() if dim is None else getattr(x, name)(dim, keepdim=keepdim)
    wanted = (
        fold(reference, axis=dim, keepdims=keepdim, **more) if dim is not None else fold(reference, **more)
    )
    if name in ("var", "std") and dim is not None:  # NumPy masks out those of one element
        there = ~np.ma.getmaskarray(np.ma.asarray(wanted))
        np.testing.assert_allclose(found._elements.numpy()[there], wanted.data[there], rtol=1e-10)
        assert (found.get_mask().numpy() >= there).all()
    else:
        same(found, wanted)


def test_more_reductions():
    x, reference = example()
    same((x > 1).all(0), (reference > 1).all(0))
    same((x > 1).any(1), (reference > 1).any(1))
    there = ~reference.mask
    wanted = [row[m].argmax() for row, m in zip(reference.data, there)]
    places = [np.flatnonzero(m)[k] for m, k in zip(there, wanted)]
    assert x.argmax(1).tolist() == places
    assert x.argmin().item() == int(np.ma.argmin(reference))
    assert x.sum((0, 1)).item() == pytest.approx(reference.sum())
    assert flambeau.norm(x).item() == pytest.approx(math.sqrt((reference**2).sum()))
    with pytest.raises(NotImplementedError, match=r"cholesky\(\): not available for masked tensors"):
        flambeau.linalg.cholesky(x)


def test_nothing_at_all():
    x = masked_tensor(flambeau.full((2,), NAN), flambeau.zeros(2).bool(), requires_grad=True)
    for f in (x.sum, x.mean, x.amax, x.prod, x.std):
        y = f()
        assert y.get_mask().item() is False and repr(y) == "MaskedTensor(--, False)"
        with pytest.raises(ValueError, match="masked out"):
            y.item()
    x.sum().backward()
    assert x.grad._elements.tolist() == [0.0, 0.0]
    empty = masked_tensor(flambeau.zeros(2, 0), flambeau.zeros(2, 0).bool())
    assert repr(empty) == "MaskedTensor(\n  [\n    [],\n    []\n  ]\n)" and empty.sum().tolist() is None


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin", "cumsum", "cumprod"])
def test_along_rows(name):
    x, reference = example(requires_grad=True)
    f = getattr(flambeau.nn.functional, name, None) or getattr(flambeau, name)
    y = f(x, 1)
    for k, (row, mask) in enumerate(zip(reference.data, reference.mask)):
        some = flambeau.tensor(row[~mask])
        np.testing.assert_allclose(y._elements[k].detach().numpy()[~mask], f(some, 0).numpy(), rtol=1e-12)
    same(y.detach() * 0, reference * 0)
    (y * y).sum().backward()
    plain = flambeau.tensor(reference.data[0][~reference.mask[0]]).requires_grad_()
    (f(plain, 0) ** 2).sum().backward()
    np.testing.assert_allclose(
        x.grad._elements[0].numpy()[~reference.mask[0]], plain.grad.numpy(), rtol=1e-10
    )
    assert not x.grad._elements.isnan().any()


def test_two_operands():
    x, reference = example()
    y = masked_tensor(flambeau.full((3, 4), 2.0, dtype=flambeau.float64), x.get_mask().clone())
    same(x * y - 1, reference * 2 - 1)
    same(1 / x, 1 / reference)
    same(x + flambeau.arange(4), reference + np.arange(4))
    same(flambeau.maximum(x, y), np.ma.maximum(reference, 2.0))
    same(x + flambeau.ones(2, 3, 4), reference + np.ones((2, 3, 4)))  # the mask follows
    with pytest.raises(ValueError, match=r"add\(\): Input masks must match"):
        x + masked_tensor(x.get_data(), ~x.get_mask())
    with pytest.raises(ValueError, match="Input masks must match"):
        x[0] + x
    with pytest.raises(TypeError, match="cannot be written to a dense tensor"):
        flambeau.ones(3, 4).add_(x)
    with pytest.raises(NotImplementedError, match="out="):
        flambeau.exp(x, out=x)


VIEWS = {
    "select": lambda x: x[1],
    "slice": lambda x: x[:, 1:3],
    "mask": lambda x: x[[0, 2]],
    "transpose": lambda x: x.T,
    "reshape": lambda x: x.reshape(2, 6),
    "none": lambda x: x[None],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_take_the_mask_along(view):
    x, reference = example()
    same(view(x), view(reference))


def test_cuts_and_joins():
    x, reference = example()
    same(flambeau.cat([x, x], 1), np.ma.concatenate([reference, reference], 1))
    same(flambeau.stack([x, x]), np.ma.stack([reference, reference]))
    for found, wanted in zip(x, reference):
        same(found, wanted)
    for found, wanted in zip(x.split(2, 1), np.split(reference, 2, 1)):
        same(found, wanted)
    same(x.expand(2, 3, 4), np.ma.stack([reference, reference]))
    same(x.permute(1, 0).flatten(), reference.T.flatten())
    same(flambeau.ones_like(x), reference * 0 + 1)
    x[0].mul_(0)  # a view of the elements
    assert x[0].sum().item() == 0
    with pytest.raises(TypeError, match="all tensors masked, got Tensor at place 1"):
        flambeau.cat([x, flambeau.ones(3, 4)])


def test_where_takes_elements_and_masks():
    x = masked_tensor(
        flambeau.tensor([-1.0, 2.0, 800.0]), flambeau.tensor([True, True, False]), requires_grad=True
    )
    choice = flambeau.tensor([True, False, True])
    y = flambeau.where(choice, x.exp(), flambeau.zeros(3))
    assert y.tolist() == [pytest.approx(math.exp(-1)), 0.0, None]
    y.sum().backward()
    assert x.grad.tolist() == [pytest.approx(math.exp(-1)), 0.0, None]
    with pytest.raises(TypeError, match="condition"):
        flambeau.where(x > 0, x, x)


def test_no_nan_behind_the_other_branch():
    """`where(b, a / 0, c)`: NaN is the gradient of a plain tensor, for 0 · ∞ arrives."""
    a = masked_tensor(flambeau.tensor(3.0), flambeau.tensor(True), requires_grad=True)
    (g,) = flambeau.autograd.grad(flambeau.where(flambeau.tensor(False), a / 0, flambeau.ones(())), a)
    assert g.item() == 0.0


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.log().sum(),
        lambda x: (x.sqrt() / x).sum(),
        lambda x: (1 / (x - x)).sum() * 0 + x.sum(),
        lambda x: x.mean(1).sum(),
        lambda x: x.std(0).sum(),
        lambda x: x.amax(1).sum(),
        lambda x: x.prod(0).sum(),
        lambda x: x.norm(),
        lambda x: x.get_data().sum(),
        lambda x: x.to_tensor(1.0).log().sum(),
        lambda x: x.t().reshape(-1)[3:].exp().sum(),
        lambda x: (x * 1).mul_(x).sum(),
    ],
)
def test_gradients_never_hold_what_is_not_there(f):
    x, reference = example(requires_grad=True)
    y = f(x)
    y.backward()
    assert is_masked_tensor(x.grad) and (x.grad.get_mask() == x.get_mask()).all()
    assert (x.grad._elements[flambeau.tensor(reference.mask)] == 0).all()


def test_gradients_against_differences():
    x, reference = example(requires_grad=True)
    ((x * x).softmax(1) * x.log()).sum().backward()
    there = ~reference.mask

    def value(data):
        total = 0.0
        for row, m in zip(data, there):
            e = np.exp(row[m] ** 2)
            total += (e / e.sum() * np.log(row[m])).sum()
        return total

    for at in zip(*np.nonzero(there)):
        step = np.zeros_like(reference.data)
        step[at] = 1e-6
        slope = (value(reference.data + step) - value(reference.data - step)) / 2e-6
        assert x.grad._elements[at].item() == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_history_is_kept_or_not():
    data, mask = flambeau.tensor([1.0, 2.0], requires_grad=True), flambeau.tensor([True, False])
    x = as_masked_tensor(data, mask)
    assert not x.is_leaf and x.requires_grad
    for _ in range(2):  # twice
        (x * x).sum().backward(retain_graph=True)
    assert data.grad.tolist() == [4.0, 0.0]
    (g,) = flambeau.autograd.grad((x * x * x).sum(), data, create_graph=True)
    (second,) = flambeau.autograd.grad(g.sum(), data)
    assert second.tolist() == [6.0, 0.0]


def test_functions_of_masked_tensors():
    """`flambeau.masked.sum` and kin take masked tensors and give dense ones, as PyTorch's do."""
    x, reference = example()
    found = flambeau.masked.sum(x, 1)
    assert not is_masked_tensor(found)
    np.testing.assert_allclose(found.numpy(), reference.sum(1))
    more = flambeau.tensor([True, True, True, False])
    np.testing.assert_allclose(
        flambeau.masked.amax(x, 1, mask=more).numpy(), reference[:, :3].max(1).filled(-np.inf)
    )
    with pytest.raises(NotImplementedError, match=r"masked\.normalize\(\): not available"):
        flambeau.masked.normalize(x, 2.0, 1)


def test_masks_of_the_functions():
    """They broadcast; what is no bool mask, or is sparse, is refused by name."""
    x = flambeau.arange(6.0).reshape(2, 3)
    assert flambeau.masked.sum(x, 1, mask=flambeau.tensor([True, False, True])).tolist() == [2.0, 8.0]
    assert flambeau.masked.mean(x, mask=flambeau.tensor([[True], [False]])).item() == 1.0
    with pytest.raises(RuntimeError, match="mask must be a bool tensor, got flambeau.float32"):
        flambeau.masked.sum(x, mask=x)
    with pytest.raises(IndexError, match="expected a mask that broadcasts"):
        flambeau.masked.sum(x, mask=flambeau.ones(1, 2, 3).bool())
    for sparse in (flambeau.eye(3).to_sparse(), flambeau.eye(3).to_sparse_csr()):
        for refused in (lambda m: flambeau.masked.sum(x, mask=m), lambda m: flambeau.masked.softmax(m, 0)):
            with pytest.raises(NotImplementedError, match=r"masked\.(sum|softmax)\(\): .*sparse"):
                refused(sparse)


def test_medians():
    x = flambeau.tensor([[5.0, 1.0, NAN], [2.0, 3.0, 9.0]])
    mask = flambeau.tensor([[True, True, False], [True, True, True]])
    assert flambeau.masked.median(x, 1, mask=mask).tolist() == [1.0, 3.0]
    assert flambeau.masked.median(x, None, mask=mask).tolist() == [2.0, 1.0, 9.0]
    assert flambeau.masked.median(masked_tensor(x, mask), 1).tolist() == [1.0, 3.0]
    whole = flambeau.tensor([[5, 1, 7], [2, 3, 9]])
    assert flambeau.masked.median(whole, 1, mask=mask).tolist() == [1, 3]
    with pytest.raises(ValueError, match="a row of flambeau.int64 has no true element"):
        flambeau.masked.median(whole, 1, mask=flambeau.tensor([[False], [True]]))
    with pytest.raises(ValueError, match="must not hold NaN"):
        flambeau.masked.median(x, 1)
    with pytest.raises(ValueError, match="expects real numbers"):
        flambeau.masked.median(x.to(flambeau.complex64), 1)


def test_repr():
    x = masked_tensor(
        flambeau.tensor([[1.0, -2.5], [NAN, 100000.0]]), flambeau.tensor([[True, True], [False, True]])
    )
    assert repr(x) == (
        "MaskedTensor(\n  [\n    [  1.0000,  -2.5000],\n    [         --, 100000.0000]\n  ]\n)"
    )
    assert repr(x[0, 0]) == "MaskedTensor(  1.0000, True)"
    assert repr(masked_tensor(flambeau.tensor([1, 2]), flambeau.tensor([True, False]))) == (
        "MaskedTensor(\n  [1,       --]\n)"
    )


def test_conversions():
    x, reference = example()
    assert x.float().dtype == flambeau.float32 and x.to(flambeau.float64) is x
    assert (x.float().get_mask() == x.get_mask()).all()
    assert not x.t().is_contiguous() and x.t().contiguous().is_contiguous()
    same(x.t().contiguous(), reference.T)
    assert x.new_zeros(2).tolist() == [0.0, 0.0] and not is_masked_tensor(x.new_zeros(2))
    assert float(x[0].sum()) == pytest.approx(reference[0].sum())
