"""Which strides copies have: those of the input where it has no gaps, else its order of dimensions, or a memory format."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck

LAST = flambeau.channels_last
COPIES = {
    "clone": lambda x: x.clone(),
    "to": lambda x: x.to(flambeau.float64),
    "copy": lambda x: x.to(x.dtype, copy=True),
    "empty_like": flambeau.empty_like,
}


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_strides_of_tensors_without_gaps_are_kept(copy):
    x = flambeau.ones(2, 1, 4)
    for order in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0)]:
        assert copy(x.permute(order)).stride() == x.permute(order).stride()
    assert copy(flambeau.ones(1, 5).t()).stride() == (1, 5)


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_gaps_are_closed(copy):
    assert copy(flambeau.ones(2, 3, 8).permute(2, 0, 1)[::2]).stride() == (1, 12, 4)
    assert copy(flambeau.ones(3, 1).expand(3, 4)).shape == (3, 4)
    assert copy(flambeau.ones(4, 6)[:, ::2]).stride() == (3, 1)


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x.contiguous(memory_format=LAST),
        lambda x: x.clone(memory_format=LAST),
        lambda x: x.to(memory_format=LAST),
        lambda x: x.to(flambeau.float64, memory_format=LAST),
        lambda x: x.double(memory_format=LAST),
    ],
)
def test_channels_last(convert):
    a = np.arange(120.0).reshape(2, 3, 4, 5)
    x = flambeau.tensor(a, requires_grad=True)
    y = convert(x)
    assert y.stride() == (60, 1, 15, 3) and y.is_contiguous(memory_format=LAST) and not y.is_contiguous()
    np.testing.assert_array_equal(y.detach().contiguous().numpy(), a)
    assert (y + 1).is_contiguous(memory_format=LAST) and y.clone().stride() == y.stride()
    assert gradcheck(
        convert, [x[:1, :2, :2, :2].detach().clone(memory_format=flambeau.contiguous_format).requires_grad_()]
    )
    with pytest.raises(RuntimeError, match="rank 4"):
        convert(flambeau.ones(2, 3))


def test_formats():
    x = flambeau.ones(2, 3, 4, 5)
    y = x.contiguous(memory_format=LAST)
    assert y.contiguous(memory_format=LAST) is y and y.contiguous().stride() == x.stride()
    assert y.clone(memory_format=flambeau.contiguous_format).stride() == x.stride()
    assert y.clone(memory_format=flambeau.preserve_format).stride() == y.stride()
    z = flambeau.ones(2, 3, 4, 5, 6).contiguous(memory_format=flambeau.channels_last_3d)
    assert z.stride() == (360, 1, 90, 18, 3) and z.is_contiguous(memory_format=flambeau.channels_last_3d)
    assert flambeau.empty(2, 3, 4, 5, memory_format=LAST).stride() == y.stride()
    with pytest.raises(TypeError, match="memory_format"):
        x.clone(memory_format="channels_last")
