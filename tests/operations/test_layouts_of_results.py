"""Results that PyTorch lays out row by row, whatever the input's layout: programs call `view` on them, and dropout draws in their order.

`tools/layouts_on_torch.py` compares the strides of all operations.
"""

from __future__ import annotations

import pytest

import flambeau
from flambeau.nn import functional as F

INDEX = flambeau.zeros(2, 4, 3, 5, dtype=flambeau.int64)
CALLS = {
    "softmax": lambda x: F.softmax(x, 1),
    "softmax of the last": lambda x: F.softmax(x, -1),
    "softmin": lambda x: F.softmin(x, 2),
    "log_softmax": lambda x: F.log_softmax(x, 1),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, dim=1),
    "layer_norm": lambda x: F.layer_norm(x, (5,)),
    "rms_norm": lambda x: F.rms_norm(x, (5,)),
    "weighted rms_norm": lambda x: F.rms_norm(x, (5,), flambeau.ones(5)),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "batch_norm in evaluation": lambda x: F.batch_norm(x, flambeau.zeros(4), flambeau.ones(4)),
    "instance_norm": F.instance_norm,
    "group_norm": lambda x: F.group_norm(x, 2),
    "narrow_copy": lambda x: flambeau.narrow_copy(x.repeat(2, 1, 1, 1), 0, 1, 2),
    "cumsum": lambda x: x.cumsum(1),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "scatter": lambda x: x.scatter(1, INDEX, 1.0),
    "scatter_add": lambda x: x.scatter_add(1, INDEX, flambeau.ones(2, 4, 3, 5)),
    "index_add": lambda x: x.index_add(1, INDEX[0, 0, 0, :1], flambeau.ones(2, 1, 3, 5)),
    "index_copy": lambda x: x.index_copy(1, INDEX[0, 0, 0, :1], flambeau.ones(2, 1, 3, 5)),
    "masked_scatter": lambda x: x.masked_scatter(INDEX == 1, flambeau.ones(3)),
    "scatter_reduce": lambda x: x.scatter_reduce(1, INDEX, flambeau.ones(2, 4, 3, 5), "amax"),
}
ORDERS = [(3, 2, 1, 0), (0, 3, 1, 2), (1, 0, 2, 3), (2, 3, 0, 1)]
EVERY = [*ORDERS, (0, 2, 3, 1)]  # channels last


def laid_out(order):
    x = flambeau.rand(2, 4, 3, 5)
    back = [order.index(d) for d in range(4)]
    return x.permute(order).contiguous().permute(back)


@pytest.mark.parametrize("name", ["median", "nanmedian", "kthvalue", "mode"])
def test_places_of_values_hold_their_own_memory(name):
    x = flambeau.rand(6, 50)
    found = getattr(x, name)(*((7, 1) if name == "kthvalue" else (1,)))
    for t in found:
        assert t.is_contiguous() and t.untyped_storage().nbytes() == 6 * t.itemsize


@pytest.mark.parametrize("name", CALLS)
def test_results_are_row_major(name):
    for order in ORDERS:
        x = laid_out(order).requires_grad_(True)
        assert not x.is_contiguous()
        found = CALLS[name](x)
        assert found.is_contiguous() and found.view(-1).shape == (120,), (name, order)


@pytest.mark.parametrize("name", [n for n in CALLS if n != "gumbel_softmax"])
def test_layouts_change_no_values(name):
    for order in EVERY:
        x = laid_out(order).requires_grad_(True)
        y = x.detach().contiguous().requires_grad_(True)
        a, b = CALLS[name](x), CALLS[name](y)
        assert flambeau.allclose(a, b, rtol=1e-5, atol=1e-6), (name, order)
        weights = flambeau.rand(2, 4, 3, 5)
        to_x, to_y = (flambeau.autograd.grad((r * weights).sum(), t)[0] for r, t in ((a, x), (b, y)))
        assert flambeau.allclose(to_x, to_y, rtol=1e-4, atol=1e-5), (name, order)


@pytest.mark.parametrize("name", ["group_norm", "instance_norm", "layer_norm", "softmax"])
def test_one_image_whose_stride_is_no_images(name):
    x = flambeau.rand(1, 4, 3, 5).contiguous(memory_format=flambeau.channels_last)
    x = x.as_strided(x.shape, (4, *x.stride()[1:]))  # as transposing tokens leaves it
    assert CALLS[name](x).stride() == (60, 15, 5, 1)


def test_channels_last_stays():
    x = flambeau.rand(2, 4, 3, 5).contiguous(memory_format=flambeau.channels_last)
    for name in ("batch_norm", "batch_norm in evaluation"):
        assert CALLS[name](x).is_contiguous(memory_format=flambeau.channels_last), name


def test_one_image_with_channels_last_stays_one():
    x = flambeau.rand(1, 4, 3, 5).contiguous(memory_format=flambeau.channels_last).requires_grad_(True)
    found = F.group_norm(x, 2, flambeau.ones(4), flambeau.zeros(4))
    assert found.stride() == x.stride() == (60, 1, 20, 4)
    y = x.detach().contiguous().requires_grad_(True)
    weights = flambeau.rand(1, 4, 3, 5)
    (to_x,) = flambeau.autograd.grad((found * weights).sum(), x)
    (to_y,) = flambeau.autograd.grad((F.group_norm(y, 2) * weights).sum(), y)
    assert flambeau.allclose(to_x, to_y, atol=1e-5)
