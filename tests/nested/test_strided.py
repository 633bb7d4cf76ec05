"""Nested tensors of layout strided: parts of any sizes, against a loop over them in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau import nested

SIZES = ((2, 4), (3, 4), (0, 4), (1, 4))


def parts(sizes=SIZES, seed=0):
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(s) for s in sizes]


def make(arrays, **kwargs):
    return nested.nested_tensor([flambeau.tensor(a) for a in arrays], **kwargs)


def same(actual, wanted, rtol=1e-12):
    assert actual.is_nested and actual.layout is flambeau.strided and len(actual) == len(wanted)
    for x, y in zip(actual.unbind(), wanted, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y, rtol=rtol, atol=1e-14)


def test_what_it_is():
    a = parts(((2, 3), (1, 4)))
    x = make(a, requires_grad=True)
    assert x.is_nested and x.size(0) == len(x) == 2 and x.ndim == 3 and x.numel() == 10 and x.is_leaf
    assert x._nested_tensor_size().tolist() == [[2, 3], [1, 4]] and x.is_contiguous() and x.contiguous() is x
    assert make(parts()).size(-1) == 4
    for ask, match in (
        (lambda: x.size(1), "Given dimension 1 is irregular and does not have a size"),
        (lambda: x.shape, "has no shape"),
        (lambda: x.stride(), "has no strides"),
    ):
        with pytest.raises(RuntimeError, match=match):
            ask()
    same(x, a)
    y = nested.nested_tensor([[1.0, 2.0], [3.0]], requires_grad=True)
    assert repr(y) == "nested_tensor([\n  tensor([1., 2.]),\n  tensor([3.])\n], requires_grad=True)"
    assert repr(y * 2) == "nested_tensor([\n  tensor([2., 4.]),\n  tensor([6.])\n], grad_fn=<MulBackward0>)"
    assert nested.nested_tensor([flambeau.tensor(2.0)]).unbind()[0].item() == 2.0
    empty = nested.nested_tensor([])
    assert len(empty) == 0 and empty.to_padded_tensor(0.0).shape == (0,) and (empty + 1).unbind() == ()
    with pytest.raises(RuntimeError, match="same dimension. Found dimension 1 for Tensor at index 1"):
        make([np.ones((1, 2)), np.ones(3)])


def test_history():
    a = [flambeau.ones(2, 2, requires_grad=True), flambeau.ones(1, 3, requires_grad=True)]
    x = nested.as_nested_tensor(a)
    x.backward(nested.nested_tensor([flambeau.full((2, 2), 2.0), flambeau.zeros(1, 3)]))
    assert a[0].grad.tolist() == [[2, 2], [2, 2]] and a[1].grad.tolist() == [[0, 0, 0]]
    dense = flambeau.arange(6.0).reshape(2, 3).requires_grad_()
    y = nested.as_nested_tensor(dense)
    y[1].sum().backward()
    assert dense.grad.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert nested.as_nested_tensor(dense.detach()).values().data_ptr() == dense.data_ptr()


def test_elements():
    a, b = parts(), parts(seed=1)
    x, y = make(a), make(b)
    same(x * y - 1, [p * q - 1 for p, q in zip(a, b)])
    same(x + flambeau.ones(4), [p + 1 for p in a])
    d = np.random.default_rng(2).standard_normal((4, 1, 4))
    same(x * flambeau.tensor(d), [p * q for p, q in zip(a, d)])
    same(flambeau.where(x > 0, x, 0.0), [np.where(p > 0, p, 0) for p in a])
    assert flambeau.equal(x, make(a)) and not flambeau.equal(x, y) and flambeau.allclose(x, make(a))
    with pytest.raises(RuntimeError, match="other sizes"):
        x + make(a[:2])
    with pytest.raises(RuntimeError, match="cannot be written to a dense tensor"):
        flambeau.ones(4).add_(x)


def test_along_parts():
    a = [p for p in parts() if p.size]
    x = make(a, requires_grad=True)
    for dim in (1, 2, -1):
        axis = dim - 1 if dim > 0 else -1
        e = [np.exp(p) for p in a]
        same(x.softmax(dim), [p / p.sum(axis, keepdims=True) for p in e])
        same(x.sum(dim), [p.sum(axis) for p in a])
        same(x.amax(dim, True), [p.max(axis, keepdims=True) for p in a])
        same(x.cumsum(dim), [p.cumsum(axis) for p in a])
    assert x.sum().item() == pytest.approx(sum(p.sum() for p in a))
    (x.softmax(1) * x).sum().backward()
    for p, g in zip(a, x.grad.unbind()):
        plain = flambeau.tensor(p).requires_grad_()
        (plain.softmax(0) * plain).sum().backward()
        np.testing.assert_allclose(g.numpy(), plain.grad.numpy(), rtol=1e-10)
    with pytest.raises(RuntimeError, match="dim=0"):
        x.softmax(0)


def test_layers_and_products():
    a = parts()
    x = make(a)
    linear = flambeau.nn.Linear(4, 3).double()
    w, b = linear.weight.detach().numpy(), linear.bias.detach().numpy()
    same(linear(x), [p @ w.T + b for p in a])
    same(F.layer_norm(x, (4,)), [F.layer_norm(flambeau.tensor(p), (4,)).numpy() for p in a])
    same(x @ x.transpose(1, 2), [p @ p.T for p in a])
    m = np.random.default_rng(3).standard_normal((4, 4, 2))
    same(x @ flambeau.tensor(m), [p @ q for p, q in zip(a, m)])
    tokens = nested.nested_tensor([[1, 2], [0]])
    table = flambeau.nn.Embedding(3, 2)
    same(table(tokens), [table.weight.detach().numpy()[t] for t in ([1, 2], [0])], rtol=1e-7)
    q = make([p.reshape(-1, 2, 2) for p in a if p.size]).transpose(1, 2)
    result = F.scaled_dot_product_attention(q, q, q)
    for part, of in zip(result.unbind(), q.unbind()):
        np.testing.assert_allclose(
            part.numpy(), F.scaled_dot_product_attention(of, of, of).numpy(), rtol=1e-10
        )


def test_shapes():
    a = parts()
    x = make(a)
    same(x.transpose(1, 2), [p.T for p in a])
    same(x.reshape(4, -1, 2, 2), [p.reshape(len(p), 2, 2) for p in a])
    same(x.unsqueeze(1), [p[None] for p in a])
    same(x.unsqueeze(1).squeeze(1), a)
    same(x[1:3], a[1:3])
    same(x[:, :, 1], [p[:, 1] for p in a])
    np.testing.assert_array_equal(x[1, 2].numpy(), a[1][2])
    for result, k in zip(x.chunk(2, -1), (slice(0, 2), slice(2, 4)), strict=True):
        same(result, [p[:, k] for p in a])
    for result, k in zip(x.chunk(2), (slice(0, 2), slice(2, 4)), strict=True):
        same(result, a[k])
    same(x.select(2, 0), [p[:, 0] for p in a])
    same(
        nested.narrow(flambeau.arange(12.0).reshape(2, 3, 2), 1, 1, 2),
        np.arange(12.0).reshape(2, 3, 2)[:, 1:],
    )
    same(flambeau.zeros_like(x), [p * 0 for p in a])
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 4"):
        x[4]
    with pytest.raises(RuntimeError, match="must stay the first dimension"):
        x.reshape(2, -1)


def test_padding():
    a = parts(((2, 3), (1, 4)))
    x = make(a, requires_grad=True)
    y = x.to_padded_tensor(-1.0)
    wanted = np.full((2, 2, 4), -1.0)
    wanted[0, :2, :3], wanted[1, :1, :4] = a
    np.testing.assert_array_equal(y.detach().numpy(), wanted)
    assert nested.to_padded_tensor(x, 0.0, (2, 3, 5)).shape == (2, 3, 5)
    (y * y).sum().backward()
    same(x.grad, [2 * p for p in a])
    with pytest.raises(RuntimeError, match="Truncation is not supported"):
        x.to_padded_tensor(0.0, (2, 2, 3))
