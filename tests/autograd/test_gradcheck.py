"""gradcheck finds wrong derivatives, of every kind that it checks, and passes right ones."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import autograd
from flambeau.autograd import GradcheckError, gradcheck, gradgradcheck


def leaf(values):
    return flambeau.tensor(values, dtype=flambeau.float64, requires_grad=True)


class Square(autograd.Function):
    """x² with derivatives that can be spoilt."""

    back, front, noise = 2.0, 2.0, 0.0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        Square.noise = -Square.noise
        return Square.back * grad * x + Square.noise

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return Square.front * tangent * x


@pytest.mark.parametrize("fast", [False, True])
def test_right_and_wrong(fast, monkeypatch):
    x = leaf([[1.0, -2.0, 0.5]])
    assert gradcheck(Square.apply, (x,), check_forward_ad=True, fast_mode=fast)
    assert gradgradcheck(Square.apply, (x,), fast_mode=fast)
    monkeypatch.setattr(Square, "front", 2.1)
    assert gradcheck(Square.apply, (x,), fast_mode=fast)
    with pytest.raises(GradcheckError, match="forward|tangent"):
        gradcheck(Square.apply, (x,), check_forward_ad=True, fast_mode=fast)
    monkeypatch.setattr(Square, "back", 2.1)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0"):
        gradcheck(Square.apply, (x,), fast_mode=fast)
    assert not gradcheck(Square.apply, (x,), fast_mode=fast, raise_exception=False)
    assert x.tolist() == [[1.0, -2.0, 0.5]]


def test_gradients_that_differ_from_call_to_call(monkeypatch):
    x = leaf([1.0, 2.0])
    monkeypatch.setattr(Square, "noise", 1e-7)
    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(Square.apply, (x,))
    assert gradcheck(Square.apply, (x,), nondet_tol=1e-6)


def test_second_derivatives_in_forward_mode():
    x, y = leaf([0.5, 2.0]), leaf([[1.0], [3.0]])
    assert gradgradcheck(lambda a, b: (a * b).sin(), (x, y), check_fwd_over_rev=True)
    assert gradcheck(
        lambda a, b: (a.softmax(0) * b, a.sum()), (x, y), check_forward_ad=True, check_grad_dtypes=True
    )


def test_strided_and_zero_dim_inputs():
    x = flambeau.arange(6, dtype=flambeau.float64).reshape(2, 3).t().requires_grad_()
    assert not x.is_contiguous()
    assert gradcheck(lambda a: (a * a).sum(0), (x,)) and gradcheck(flambeau.exp, (leaf(0.3),))


def test_refusals():
    with pytest.raises(ValueError, match="require gradient"):
        gradcheck(flambeau.exp, (leaf([1.0]).detach(),))
    with pytest.raises(ValueError, match="float64"):
        gradcheck(flambeau.exp, (flambeau.ones(2, requires_grad=True),))
    with pytest.raises(ValueError, match="no output"):
        gradcheck(lambda t: t.detach(), (leaf([1.0]),))
    with pytest.raises(ValueError, match="at least one of"):
        gradcheck(flambeau.exp, (leaf([1.0]),), check_backward_ad=False)
