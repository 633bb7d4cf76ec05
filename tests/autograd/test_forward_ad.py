"""Forward mode: tangents against finite differences, mixed with reverse mode, in place, through Functions."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import flambeau
import flambeau.autograd.forward_ad as fwAD
from flambeau import autograd

POINT = [1.0, 2.0, 3.0]
DIRECTION = [1.0, 0.5, -1.0]

FUNCTIONS = {
    "pointwise": lambda x: (x.exp() * x).sin(),
    "number": lambda x: 2 - x / 3 + x**3,
    "broadcast": lambda x: x + flambeau.ones(2, 3, dtype=flambeau.float64) * x,
    "condition": lambda x: flambeau.where(x > 1.5, x.exp(), x),
    "row": lambda x: x.softmax(0),
    "reduction": lambda x: x.std() + x.sum(),
    "place": lambda x: x.max(0)[0] * x,
    "product": lambda x: x.outer(x) @ x,
    "view": lambda x: x[1:] * x.flip(0)[:2],
    "join": lambda x: flambeau.cat([x, x * x]),
    "split": lambda x: x.split(2)[0] * x.chunk(3)[1],
    "library": lambda x: x.cumprod(0),
    "order": lambda x: (-x).sort()[0] * x,
    "in_place": lambda x: (x * 1).mul_(x).add_(1),
    "written_view": lambda x: _written(x),
    "constant": lambda x: x.clone().zero_() + x,
}


def _written(x):
    y = x * 1
    y[1:].mul_(x[:2])
    return y * y


def vector(values):
    return flambeau.tensor(values, dtype=flambeau.float64)


def pushed(function, x, v):
    with fwAD.dual_level():
        return fwAD.unpack_dual(function(fwAD.make_dual(x, v))).tangent


def difference(function, x, v, eps=1e-6):
    return (function(x + eps * v) - function(x - eps * v)) / (2 * eps)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents(name):
    function, x, v = FUNCTIONS[name], vector(POINT), vector(DIRECTION)
    found = pushed(function, x, v)
    np.testing.assert_allclose(found.numpy(), difference(function, x, v).numpy(), rtol=1e-7, atol=1e-7)
    assert not found.requires_grad


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_over_reverse(name):
    function, v = FUNCTIONS[name], vector(DIRECTION)

    def gradient(x):
        z = x.clone().requires_grad_()
        return autograd.grad(function(z).square().sum(), z)[0]

    x = vector(POINT).requires_grad_()
    with fwAD.dual_level():
        (g,) = autograd.grad(function(fwAD.make_dual(x, v)).square().sum(), x)
        primal, found = fwAD.unpack_dual(g)
    np.testing.assert_allclose(primal.numpy(), gradient(vector(POINT)).numpy(), rtol=1e-12)
    expected = difference(gradient, vector(POINT), v)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"broadcast", "constant"}))
def test_reverse_over_forward(name):
    function, v = FUNCTIONS[name], vector(DIRECTION)
    x = vector(POINT).requires_grad_()
    found = autograd.grad(pushed(lambda t: function(t).square().sum(), x, v), x)[0]

    def scalar(t):
        return pushed(lambda s: function(s).square().sum(), t, v)

    expected = [
        difference(scalar, vector(POINT), e, 1e-5).item() for e in flambeau.eye(3, dtype=flambeau.float64)
    ]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_tangents_that_require_gradients():
    x, v = vector(POINT), vector(DIRECTION).requires_grad_()
    out = pushed(lambda t: t.exp() * 2, x, v)
    assert autograd.grad(out.sum(), v)[0].tolist() == (x.exp() * 2).tolist()


def test_what_a_dual_tensor_is():
    x, v = vector(POINT), vector(DIRECTION)
    with fwAD.dual_level():
        d = fwAD.make_dual(x, v)
        y = d * 2
        assert not d.requires_grad and d.is_leaf and y.grad_fn is None and not y.requires_grad
        assert fwAD.unpack_dual(d).tangent is v and fwAD.unpack_dual(x).tangent is None
        assert fwAD.unpack_dual(d.detach()).tangent is None
        assert fwAD.unpack_dual(y).primal.tolist() == [2.0, 4.0, 6.0]
        leaf = vector(POINT).requires_grad_()
        z = fwAD.make_dual(leaf, v).exp()
        assert z.requires_grad and z.grad_fn.name() == "ExpBackward0"
        with flambeau.no_grad():
            w = fwAD.make_dual(leaf, v) * leaf
            assert not w.requires_grad and fwAD.unpack_dual(w).tangent.tolist() == (v * leaf).tolist()
    assert fwAD.unpack_dual(y).tangent is None and not y.requires_grad and not (y * 2).requires_grad
    z.sum().backward()
    assert leaf.grad.tolist() == leaf.exp().tolist()


def test_refusals():
    x, v = vector(POINT), vector(DIRECTION)
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.make_dual(x, v)
    with pytest.raises(RuntimeError, match="was not the last one"):
        fwAD.exit_dual_level()
    with fwAD.dual_level():
        with pytest.raises(RuntimeError, match="Nested"):
            fwAD.enter_dual_level()
        with pytest.raises(ValueError, match="floating point"):
            fwAD.make_dual(flambeau.ones(3, dtype=flambeau.int64), v)
        with pytest.raises(RuntimeError, match="shape"):
            fwAD.make_dual(x, v[:2])
        with pytest.raises(TypeError, match="dtype"):
            fwAD.make_dual(x, v.float())


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.factor = factor
        return factor * x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.factor * 3 * x * x, None

    @staticmethod
    def jvp(ctx, tangent, factor):
        assert factor is None
        (x,) = ctx.saved_tensors
        return tangent * ctx.factor * 3 * x * x


def test_functions():
    x, v = vector(POINT), vector(DIRECTION)
    found = pushed(lambda t: Cube.apply(t, 2.0), x, v)
    np.testing.assert_allclose(found.numpy(), 6 * np.square(POINT) * DIRECTION, rtol=1e-14)

    class Without(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="jvp"):
        pushed(Without.apply, x, v)
    assert (x * 2).tolist() == [2.0, 4.0, 6.0]


def test_a_recurrent_layer():
    flambeau.manual_seed(0)
    layer = flambeau.nn.LSTM(3, 2).double().requires_grad_(False)
    x, v = vector(POINT).reshape(1, 1, 3), vector(DIRECTION).reshape(1, 1, 3)
    x, v = flambeau.cat([x, -x]), flambeau.cat([v, v])
    found = pushed(lambda t: layer(t)[0], x, v)
    expected = difference(lambda t: layer(t)[0], x, v)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6, atol=1e-8)


def test_nothing_outlives_the_level():
    def run():
        x, v = vector(POINT), vector(DIRECTION)
        with fwAD.dual_level():
            y = Cube.apply(fwAD.make_dual(x, v).exp().softmax(0), 2.0)
            ends.append(weakref.ref(fwAD.unpack_dual(y).tangent))
        return y

    ends = []
    run()
    gc.collect()
    gc.disable()
    try:
        y = run()
        assert ends[1]() is None and y.tolist()
        del y
        assert gc.collect() == 0
    finally:
        gc.enable()
