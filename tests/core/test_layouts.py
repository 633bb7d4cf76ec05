"""Strides of results, writes that overlap, and histories of views that were written to."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau


@pytest.mark.parametrize(
    "shape, order, expected",
    [  # as torch.exp gives them for torch.empty(shape).permute(order)
        ((2, 3, 4), (2, 0, 1), (1, 12, 4)),
        ((1, 3, 3), (2, 0, 1), (1, 9, 3)),
        ((2, 1, 2), (2, 1, 0), (1, 2, 2)),
        ((4, 1, 5, 1), (3, 2, 1, 0), (20, 1, 20, 5)),
    ],
)
def test_dense_operands_hand_on_their_strides(shape, order, expected):
    x = flambeau.zeros(shape).permute(order)
    assert x.exp().stride() == expected == (x + x).stride()


def test_gaps_close_in_the_order_of_the_strides():
    x = flambeau.zeros(5, 6, 4).transpose(0, 2)[:, ::2, 1:]
    assert x.exp().stride() == (1, 4, 12)


def test_the_first_operand_that_is_not_broadcast_decides():
    a, b = flambeau.zeros(1, 4, 4), flambeau.zeros(4, 4, 4).permute(1, 0, 2)
    assert (a + b).stride() == (4, 16, 1)


def test_a_row_function_of_a_repeated_element_writes_every_element():
    x = flambeau.tensor([0.3]).expand(3, 1)
    np.testing.assert_allclose(flambeau.softmax(x, 0).numpy(), np.full((3, 1), 1 / 3), rtol=1e-6)


def test_an_operand_that_lies_otherwise_under_the_result_is_refused():
    x = flambeau.arange(9.0).reshape(3, 3)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x.add_(x.t())
    assert x.add_(x).sum().item() == 72
    assert x.copy_(x) is x


@pytest.mark.parametrize("write", ["clamp_", "pow_", "fmod_"])
def test_in_place_operations_whose_derivative_reads_what_they_overwrite(write):
    arguments = {"clamp_": (-1.0, 1.0), "pow_": (2,), "fmod_": (2.0,)}[write]
    x = flambeau.tensor([-3.0, 0.5, 2.0], dtype=flambeau.float64, requires_grad=True)
    y = x * 1.0
    getattr(y, write)(*arguments)
    y.sum().backward()
    expected = {"clamp_": [0.0, 1.0, 0.0], "pow_": [-6.0, 1.0, 4.0], "fmod_": [1.0, 1.0, 1.0]}[write]
    assert x.grad.tolist() == expected


def test_a_written_view_asked_for_selected_gradients():
    """The view's node is made anew while its user is being recorded, yet counts as older."""
    x = flambeau.tensor([1.0, -2.0], requires_grad=True)
    y = x + 0.5
    view = y.view(2)
    view.mul_(2.0)
    (found,) = flambeau.autograd.grad(view.sum(), x)
    assert found.tolist() == [2.0, 2.0]


def test_a_view_that_took_part_in_writing_its_base():
    x = flambeau.tensor([2.0], requires_grad=True)
    y = x * 1.5
    view = y.view(1)
    y.add_(view, alpha=0.5)
    (found,) = flambeau.autograd.grad(view.sum(), x)
    assert found.tolist() == [2.25]
