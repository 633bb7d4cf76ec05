"""Small tensors written in place: by the kernel that makes new ones, with every check of the long way."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch


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
