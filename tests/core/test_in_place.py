"""Small tensors written in place: by the kernel that makes new ones, with every check of the long way."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.operations.declare.registry import REGISTRY


def test_written_as_computed():
    rng = np.random.default_rng(0)
    for shape in ((), (3,), (4, 4), (2, 3, 5), (0, 4)):
        a, b = rng.standard_normal(shape), rng.standard_normal(shape)
        x, y = torch.from_numpy(np.array(a)), torch.from_numpy(np.array(b))
        where, before = x.data_ptr(), x._version
        assert x.mul_(y) is x and x.add_(1.5) is x and x.sub_(y, alpha=2) is x
        np.testing.assert_allclose(x.numpy(), a * b + 1.5 - 2 * b)
        assert x.data_ptr() == where and x._version == before + 3


def test_the_tensor_itself_is_an_operand():
    x = torch.tensor([1.0, 2.0])
    x.add_(x).mul_(x)
    assert x.tolist() == [4.0, 16.0]


def test_parts_of_a_storage():
    whole = torch.arange(6.0)
    part = whole[2:4]
    part.mul_(10.0)
    assert whole.tolist() == [0, 1, 20, 30, 4, 5]
    with pytest.raises(RuntimeError, match="single memory location"):
        whole[1:4].add_(whole[2:5])
    whole[:3].add_(whole[3:])
    assert whole.tolist() == [30, 5, 25, 30, 4, 5]
    square = torch.arange(4.0).reshape(2, 2)
    with pytest.raises(RuntimeError, match="single memory location"):
        square.add_(square.t())
    assert square.flatten().tolist() == [0, 1, 2, 3]


def test_dtypes_stay():
    i = torch.tensor([3, 4])
    for call in (lambda: i.div_(i), lambda: i.sqrt_(), lambda: i.add_(0.5), lambda: i.mul_(torch.ones(2))):
        with pytest.raises(RuntimeError, match="can't be cast"):
            call()
    assert i.tolist() == [3, 4]
    h = torch.ones(2, dtype=torch.bfloat16)
    assert h.add_(torch.ones(2)).dtype is torch.bfloat16 and h.tolist() == [2.0, 2.0]
    mask = torch.tensor([1.0, 5.0])
    assert mask.gt_(2.0).tolist() == [0.0, 1.0] and mask.dtype is torch.float32


def test_shapes_stay():
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.add_(torch.ones(2, 3))
    assert x.add_(torch.ones(1)).tolist() == [2.0, 2.0, 2.0]


def test_what_is_differentiated_is_refused_or_recorded():
    leaf = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.add_(1.0)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        leaf[:1].add_(1.0)
    with torch.no_grad():
        leaf.add_(1.0)
    y = (leaf * 3.0).mul_(2.0).sin_()
    y.sum().backward()
    torch.testing.assert_close(leaf.grad, 6 * torch.cos(torch.full((2,), 12.0)))
    z = torch.ones(2)
    z.mul_(leaf)
    assert z.requires_grad and z.grad_fn is not None


def test_saved_tensors_see_the_write():
    x = torch.ones(2, requires_grad=True)
    kept = torch.ones(2)
    y = x * kept
    kept.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_expanded_and_inference_tensors():
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.ones(1).expand(3).add_(1.0)
    with torch.inference_mode():
        x = torch.ones(2)
    with pytest.raises(RuntimeError, match="[Ii]nference"):
        x.add_(1.0)


IN_PLACE = [e for e in REGISTRY.values() if e.kind == "pointwise" and e.in_place is not None and e.places]


@pytest.mark.parametrize("entry", IN_PLACE, ids=lambda e: e.name)
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[1:, ::2]], ids=["whole", "view"])
def test_gradients_are_those_of_a_new_tensor(entry, view):
    """Of all operations in place: also those that have no derivative, whose gradient is 0, end the history of what they overwrite."""
    if "float64" not in entry.dtypes:
        return
    rng, (low, high) = np.random.default_rng(3), entry.domain
    needed = [
        n
        for n, p in entry.function.__signature__.parameters.items()
        if p.default is p.empty and n not in entry.details["operands"]
    ]
    params = dict.fromkeys(needed, 0.5)
    data = [torch.from_numpy(rng.uniform(low, high, (3, 4))) for _ in entry.details["operands"]]
    others = [
        view(t) > (low + high) / 2 if name in ("condition", "mask") else view(t)
        for name, t in zip(entry.details["operands"][1:], data[1:])
    ]
    wanted, given = data[0].clone().requires_grad_(), data[0].clone().requires_grad_()
    made = entry.function(view(wanted), *others, **params).to(torch.float64)
    written = given * 1
    entry.in_place(view(written), *others, **params)
    assert torch.equal(view(written), made)
    seed = torch.from_numpy(rng.standard_normal(tuple(made.shape)))
    zero = torch.zeros_like(wanted)
    expected = zero
    if made.requires_grad:
        found = torch.autograd.grad(made, wanted, seed, allow_unused=True)[0]
        expected = zero if found is None else found
    result = torch.autograd.grad(view(written), given, seed, allow_unused=True)[0]
    assert torch.equal(zero if result is None else result, expected)
