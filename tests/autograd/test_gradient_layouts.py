"""Where gradients lie: as their leaves do, as in PyTorch."""

from __future__ import annotations

import pytest

import flambeau

LEAVES = {
    "rows": lambda: flambeau.zeros(3, 4),
    "columns": lambda: flambeau.zeros(4, 3).mT,
    "channels last": lambda: flambeau.zeros(2, 3, 4, 5).to(memory_format=flambeau.channels_last),
    "gaps": lambda: flambeau.zeros(3, 8)[:, ::2],
    "size 1": lambda: flambeau.zeros(3, 1, 4).transpose(0, 1),
    "empty": lambda: flambeau.zeros(0, 4).mT,
}


@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
def test_gradients_lie_as_their_leaves(name, own, dtype):
    """As the leaf where that has no gaps, else row by row, whatever the gradient that arrives is like."""
    leaf = LEAVES[name]().requires_grad_()
    wanted = leaf.detach().clone().stride() if name != "gaps" else flambeau.zeros(leaf.shape).stride()
    turned = tuple(range(leaf.ndim))[::-1]
    for order in (turned, tuple(range(leaf.ndim))):
        sizes = [leaf.shape[d] for d in order]
        given = flambeau.arange(float(leaf.numel())).reshape(sizes).permute(order).to(dtype)
        leaf.grad = None
        if own:
            hold = given.to(leaf.dtype) if dtype != leaf.dtype else given
            flambeau.autograd.backward(leaf, hold)
        else:
            (leaf.to(dtype) * given).sum().backward()
        assert leaf.grad.dtype == leaf.dtype and leaf.grad.tolist() == given.tolist()
        for n, a, b in zip(leaf.shape, leaf.grad.stride(), wanted):
            assert n <= 1 or a == b
        assert not own or leaf.grad.data_ptr() != given.data_ptr() or not leaf.numel()
