"""Anomaly mode: errors name the line that recorded the failing operation."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import autograd


class Failing(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise ArithmeticError("no derivative today")


def leaf(value):
    return flambeau.tensor(value, dtype=flambeau.float64, requires_grad=True)


def test_the_error_points_at_the_forward_line():
    x = leaf([1.0])
    with autograd.detect_anomaly():
        y = Failing.apply(x)  # this line
        with pytest.warns(UserWarning, match="Error detected in FailingBackward") as warned:
            with pytest.raises(ArithmeticError, match="today") as caught:
                y.backward()
    assert any(
        "test_anomaly_mode.py" in n and "y = Failing.apply(x)  # this line" in n
        for n in caught.value.__notes__
    )
    assert "this line" in str(warned[0].message)


@pytest.mark.filterwarnings("ignore:Error detected")
def test_nan():
    x = leaf([-1.0, 4.0])
    with autograd.detect_anomaly():
        y = x.sqrt().sum()
        with pytest.raises(RuntimeError, match="SqrtBackward0' returned nan values in its 0th output"):
            y.backward()
    with autograd.detect_anomaly(check_nan=False):
        x.sqrt().sum().backward()
    x.sqrt().sum().backward()


@pytest.mark.filterwarnings("ignore:Error detected")
def test_double_backward_names_both_operations():
    x = leaf([1e-200])
    with autograd.detect_anomaly():
        y = x.log()
        (g,) = autograd.grad(y, x, create_graph=True)
        with pytest.raises(RuntimeError, match="nan") as caught:
            autograd.grad(g * float("inf") * 0.0, x)
    del g
    names = "\n".join(caught.value.__notes__)
    assert "was recorded at" in names and "test_anomaly_mode.py" in names


def test_switching():
    from flambeau.core.tape import is_anomaly_on

    with autograd.set_detect_anomaly(True, check_nan=False):
        assert is_anomaly_on() and not is_anomaly_on(check_nan=True)
        with autograd.set_detect_anomaly(False):
            assert not is_anomaly_on()
        assert is_anomaly_on()
    assert not is_anomaly_on()
    x = leaf(1.0)
    assert "traceback_" not in (x * 2).grad_fn.metadata


def test_anomaly_mode_names_the_line_that_wrote_to_a_saved_tensor():
    x = flambeau.ones(3, requires_grad=True)
    with (
        pytest.warns(UserWarning, match="Error detected in MulBackward0"),
        flambeau.autograd.detect_anomaly(),
    ):
        y = x * 2
        z = y * y
        y.add_(1)  # this line
        with pytest.raises(
            RuntimeError, match=r"Written to since: AddBackward0 was recorded at .*# this line"
        ):
            z.sum().backward()
    z = (y := x * 2) * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="set_detect_anomaly"):
        z.sum().backward()


def test_grad_says_which_inputs_were_not_used():
    x, y = flambeau.ones(3, requires_grad=True), flambeau.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Not used: element 1 of inputs, of shape \[2\]"):
        flambeau.autograd.grad(x.sum(), [x, y])
    with pytest.raises(RuntimeError, match=r"does not require grad: element 1 of inputs, of shape \[4\]"):
        flambeau.autograd.grad(x.sum(), [x, flambeau.ones(4)])
