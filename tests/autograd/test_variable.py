"""Names of older programs: Variable, InplaceFunction, and derivatives that are not differentiated again."""

from __future__ import annotations

import pytest

import flambeau
from flambeau.autograd import Function, Variable, grad
from flambeau.autograd.function import FunctionCtx, InplaceFunction, once_differentiable


def test_a_variable_is_a_tensor_over_the_same_memory():
    data = flambeau.ones(2, requires_grad=True)
    x = Variable(data)
    assert type(x) is flambeau.Tensor and x.data_ptr() == data.data_ptr()
    assert x.is_leaf and not x.requires_grad and Variable(data, requires_grad=True).requires_grad
    assert isinstance(data, Variable) and not isinstance(3, Variable) and Variable().shape == (0,)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got int"):
        Variable(3)


class Square(Function):
    @staticmethod
    def forward(ctx, x, n):
        assert isinstance(ctx, FunctionCtx)
        ctx.save_for_backward(x)
        return x * x, n

    @staticmethod
    @once_differentiable
    def backward(ctx, g, _):
        """Derivative."""
        (x,) = ctx.saved_tensors
        return g * 2 * x, None


def test_once_differentiable():
    x = flambeau.tensor(3.0, requires_grad=True)
    assert grad(Square.apply(x, 1)[0], x)[0].item() == 6.0
    y = Square.apply(x, 1)[0]
    (first,) = grad(y * y, x, create_graph=True)  # what arrives has a history, and what goes on would have
    assert first.item() == 2 * 9 * 6 and first.requires_grad
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with"):
        grad(first, x)
    assert Square.backward.__doc__ == "Derivative."


def test_an_inplace_function_notes_it():
    assert InplaceFunction(True).inplace and not InplaceFunction().inplace
    assert issubclass(InplaceFunction, Function)


def test_calls_at_the_end_of_a_pass():
    """They run in order when all gradients are there, also those that others add; not after an error, and not outside of a pass."""
    x, seen = flambeau.ones(2, requires_grad=True), []
    engine = Variable._execution_engine

    def first():
        seen.append(x.grad.tolist())
        engine.queue_callback(lambda: seen.append("last"))

    y = x * 2
    y.register_hook(lambda grad: engine.queue_callback(first))
    y.register_hook(lambda grad: engine.queue_callback(lambda: seen.append("second")))
    (y.sum() + x.sum()).backward()
    assert seen == [[3.0, 3.0], "second", "last"]
    with pytest.raises(RuntimeError, match="Final callbacks"):
        engine.queue_callback(first)

    def fails(grad):
        engine.queue_callback(lambda: seen.append("never"))
        raise ValueError("asked to")

    y = x * 2
    y.register_hook(fails)
    with pytest.raises(ValueError, match="asked to"):
        y.sum().backward()
    assert "never" not in seen
    (x * 2).sum().backward()
    assert "never" not in seen
