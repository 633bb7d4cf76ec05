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
    with pytest.raises(RuntimeError, match="zero"):
        gradcheck(lambda t: t.detach(), (leaf([1.0]),))
    assert not gradcheck(lambda t: t.detach(), (leaf([1.0]),), raise_exception=False)
    assert gradcheck(lambda t: t.detach().sign(), (leaf([1.0]),))
    with pytest.raises(RuntimeError, match="The 1th input has a dimension with stride 0"):
        gradcheck(flambeau.mul, (leaf([1.0]), leaf([1.0]).expand(2)))
    with pytest.raises(ValueError, match="at least one of"):
        gradcheck(flambeau.exp, (leaf([1.0]),), check_backward_ad=False)


def test_single_precision_is_warned_of():
    """And checked all the same, with a step and tolerances that suit it."""
    x = flambeau.tensor([0.5, 2.0], requires_grad=True)
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        assert gradcheck(flambeau.exp, (x,), eps=1e-2, atol=1e-2, rtol=1e-2)
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradcheck(lambda t: t * t.detach(), (x,), eps=1e-2, atol=1e-2)


def test_gradients_that_are_sent_back_at_once(monkeypatch):
    x = leaf([0.5, 2.0])
    assert gradcheck(flambeau.exp, (x,), check_batched_grad=True)
    assert gradgradcheck(flambeau.exp, (x,), gen_non_contig_grad_outputs=True, check_batched_grad=True)
    whole = flambeau.autograd.gradcheck.__globals__["grad"]

    def wrong(*args, is_grads_batched=False, **named):
        result = whole(*args, is_grads_batched=is_grads_batched, **named)
        return tuple(g + 1 for g in result) if is_grads_batched else result

    monkeypatch.setitem(flambeau.autograd.gradcheck.__globals__, "grad", wrong)
    with pytest.raises(RuntimeError, match="batched"):
        gradcheck(flambeau.exp, (x,), check_batched_grad=True)
