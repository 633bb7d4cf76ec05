"""Forward mode: tangents against finite differences, mixed with reverse mode, in place, through Functions."""

from __future__ import annotations

import gc
import threading
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
        with pytest.raises(RuntimeError, match="different size than that of the original Tensor"):
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


# --- levels ------------------------------
def test_levels_nest():
    """Tangents of tangents are those of the level around, whatever the functions write and view."""
    functions = [
        lambda x: (x.exp() * x).sin().sum(),
        lambda x: _written(x).sum(),
        lambda x: (x * 1).mul_(x).add_(1).prod(),
        lambda x: x.softmax(0)[1:].norm() * Cube.apply(x, 2.0).sum(),
    ]
    for function in functions:
        once = lambda x, function=function: flambeau.func.jvp(function, (x,), (vector(DIRECTION),))[1]
        twice = lambda x, once=once: flambeau.func.jvp(once, (x,), (vector(DIRECTION),))[1]
        third = flambeau.func.jvp(twice, (vector(POINT),), (vector(DIRECTION),))[1]
        expected = difference(once, vector(POINT), vector(DIRECTION))
        np.testing.assert_allclose(twice(vector(POINT)).item(), expected.item(), rtol=1e-7, atol=1e-7)
        expected = difference(twice, vector(POINT), vector(DIRECTION))
        np.testing.assert_allclose(third.item(), expected.item(), rtol=1e-6, atol=1e-6)


def test_a_constant_of_the_level_around():
    """The derivative of x · (d(x + y)/dy) is 1: tangents of two levels are not taken for each other."""
    inner = lambda x: flambeau.func.jvp(lambda y: x + y, (flambeau.ones(()),), (flambeau.ones(()),))[1]
    found = flambeau.func.jvp(lambda x: x * inner(x), (flambeau.tensor(5.0),), (flambeau.ones(()),))
    assert [t.item() for t in found] == [5.0, 1.0]


def test_transforms_inside_of_a_level():
    x, v = vector(POINT), vector(DIRECTION)
    with fwAD.dual_level():
        d = fwAD.make_dual(x, v)
        value, slope = flambeau.func.jvp(flambeau.sin, (d,), (flambeau.ones_like(x),))
        value, tangent = fwAD.unpack_dual(slope)
        assert fwAD.unpack_dual(d).tangent is v and not slope.requires_grad
    np.testing.assert_allclose(value.numpy(), np.cos(POINT))
    np.testing.assert_allclose(tangent.numpy(), -np.sin(POINT) * DIRECTION)
    assert not any(t.requires_grad or t.grad_fn for t in (slope, value, tangent, d))
    assert fwAD.unpack_dual(slope).tangent is None and (slope * 2).tolist()


def test_levels_of_reverse_mode():
    """Gradients of what two levels compute, and levels over gradients."""
    x, v = vector(POINT).requires_grad_(), vector(DIRECTION)
    once = lambda x: flambeau.func.jvp(lambda t: (t**3).sum(), (x,), (v,))[1]
    twice = flambeau.func.jvp(once, (x,), (v,))[1]
    np.testing.assert_allclose(autograd.grad(twice, x)[0].numpy(), 6 * np.square(DIRECTION))
    third = flambeau.func.jvp(
        lambda t: flambeau.func.hessian(lambda s: (s**3).sum())(t), (x.detach(),), (v,)
    )[1]
    np.testing.assert_allclose(third.numpy(), np.diag(6 * np.array(DIRECTION)))


def test_levels_of_threads():
    """Each thread has its own."""
    found, ready = [], threading.Barrier(2)

    def run(scale):
        def function(t):
            ready.wait(20)
            return (t * scale).sin()

        found.append((scale, flambeau.func.jvp(function, (vector(POINT),), (vector(DIRECTION),))[1]))
        ready.wait(20)

    threads = [threading.Thread(target=run, args=(scale,)) for scale in (1.0, 2.0)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for scale, tangent in found:
        expected = scale * np.cos(scale * np.array(POINT)) * DIRECTION
        np.testing.assert_allclose(tangent.numpy(), expected)
    assert len(found) == 2


def test_a_level_that_raises_is_closed():
    def fails(x):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        flambeau.func.jvp(lambda x: flambeau.func.jvp(fails, (x,), (x,)), (vector(POINT),), (vector(POINT),))
    assert fwAD.unpack_dual(vector(POINT)).tangent is None
    with fwAD.dual_level():
        assert fwAD.unpack_dual(fwAD.make_dual(vector(POINT), vector(DIRECTION)) * 2).tangent is not None


def test_nothing_outlives_inner_levels():
    ends = []

    def inner(x):
        y = Cube.apply(x.exp().softmax(0), 2.0)
        ends.append(weakref.ref(y))
        return y

    def run():
        once = lambda x: flambeau.func.jvp(inner, (x,), (vector(DIRECTION),))[1]
        return flambeau.func.jvp(once, (vector(POINT),), (vector(DIRECTION),))

    run()
    gc.collect()
    gc.disable()
    try:
        kept = run()
        assert ends[1]() is None and not kept[1].requires_grad
        del kept
        assert gc.collect() == 0
    finally:
        gc.enable()


class TwoLists(autograd.Function):
    """x² y, which keeps other tensors for forward mode than for backward, and its result for both."""

    @staticmethod
    def forward(ctx, x, y):
        found = x * x * y
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(found, None, y, x)
        return found

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * 2 * x * y, grad * x * x

    @staticmethod
    def jvp(ctx, x_t, y_t):
        found, nothing, y, x = ctx.saved_tensors
        assert nothing is None
        return 2 * x * y * x_t + found / y * y_t


@pytest.mark.parametrize("constant", [False, True])
def test_functions_that_keep_other_tensors_for_forward_mode(constant):
    def function(x):
        return TwoLists.apply(x, vector(POINT) if constant else x.sin()).square().sum()

    for outer in (flambeau.func.jacfwd, flambeau.func.jacrev):
        for inner in (flambeau.func.jacfwd, flambeau.func.jacrev):
            gradient = flambeau.func.grad(function)
            found = outer(inner(function))(vector(POINT))
            expected = [
                difference(gradient, vector(POINT), e) for e in flambeau.eye(3, dtype=flambeau.float64)
            ]
            np.testing.assert_allclose(found.numpy(), flambeau.stack(expected).numpy(), rtol=1e-6, atol=1e-6)
