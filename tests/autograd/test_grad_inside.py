"""Gradients of what stands inside a graph: only what lies between is run, and only that is freed."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn

x = torch.linspace(0.1, 1.2, 12).reshape(3, 4)
KINDS = {
    "pointwise": lambda x: (x * 1.5).exp(),
    "row": lambda x: x.softmax(1),
    "fold": lambda x: x.sum(1).square(),
    "scan": lambda x: x.cumsum(1),
    "product": lambda x: x @ x.T,
    "view": lambda x: x.square().T[1:],
    "indexed": lambda x: nn.functional.conv1d(x[None], torch.ones(2, 3, 3) / 3),
    "scatter": lambda x: x.index_select(0, torch.tensor([2, 0, 2])),
    "joined": lambda x: torch.cat([x, x.sin()]),
    "library": lambda x: torch.linalg.inv(x @ x.T + torch.eye(3)),
    "several": lambda x: x.square().unbind(1)[1],
    "function": lambda x: Doubled.apply(x),
}


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_before_is_neither_run_nor_freed(kind):
    leaf = x.clone().requires_grad_()
    (whole,) = torch.autograd.grad(KINDS[kind](leaf).square().sum(), leaf)
    inner = KINDS[kind](leaf)
    outer = inner.square().sum()
    calls = []
    inner.grad_fn.register_hook(lambda *_: calls.append("ran"))
    (first,) = torch.autograd.grad(outer, inner)
    assert torch.allclose(first, 2 * inner) and not calls
    (second,) = torch.autograd.grad(inner, leaf, first)
    assert torch.allclose(second, whole) and calls == ["ran"]
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(outer, inner)


def test_one_inside_and_one_before():
    """A node whose result is asked for is run where something before it is asked for, too."""
    leaf = x.clone().requires_grad_()
    inner = leaf.exp()
    got = torch.autograd.grad(inner.square().sum(), [inner, leaf])
    assert torch.allclose(got[0], 2 * inner) and torch.allclose(got[1], 2 * inner * inner)


def test_hooks_of_what_is_asked_for_see_its_gradient():
    leaf = x.clone().requires_grad_()
    inner = leaf.exp()
    inner.register_hook(lambda grad: grad * 10)
    (got,) = torch.autograd.grad(inner.sum(), inner)
    assert got.unique().tolist() == [10.0]


@pytest.mark.parametrize("watched", [False, True])
def test_any_iterable_of_tensors(watched):
    if (
        watched
    ):  # from the first tensor on that wants to be asked, arguments are looked at before they are used
        assert torch.nested.nested_tensor([torch.ones(2)]).is_nested
    layer = nn.Linear(4, 2)
    expected = torch.autograd.grad(layer(x).sum(), list(layer.parameters()))
    for given in (
        layer.parameters(),
        dict(layer.named_parameters()).values(),
        iter(expected and list(layer.parameters())),
    ):
        got = torch.autograd.grad(layer(x).sum(), given)
        assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    outputs = (layer(x).sum() for _ in range(2))
    got = torch.autograd.grad(outputs, layer.parameters(), grad_outputs=(torch.tensor(1.0) for _ in range(2)))
    assert all(torch.equal(a, 2 * b) for a, b in zip(got, expected, strict=True))
    torch.autograd.backward(layer(x).sum(), inputs=layer.parameters())
    assert all(torch.equal(p.grad, b) for p, b in zip(layer.parameters(), expected, strict=True))
    for nothing in (3, None, "ab"):
        with pytest.raises(TypeError, match="must be Tensors"):
            torch.autograd.grad(layer(x).sum(), nothing)


@pytest.mark.filterwarnings("error")
def test_several_gradients_at_once_leave_out_what_was_not_used():
    leaf, other = (x.clone().requires_grad_() for _ in range(2))
    sent = torch.eye(3)
    used, unused = torch.autograd.grad(
        leaf.sum(1), [leaf, other], sent, allow_unused=True, is_grads_batched=True
    )
    assert used.shape == (3, 3, 4) and used.sum().item() == 12.0 and unused is None
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(leaf.sum(1), [leaf, other], sent, is_grads_batched=True)
