"""What the tape refuses and warns of, as PyTorch does; and gradients of results that `backward(inputs=…)` is asked for."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flambeau
from flambeau.autograd import Function, forward_ad


class Doubled(Function):
    """2 x, written over the argument."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def leaf(*shape):
    return flambeau.ones(shape, requires_grad=True)


def test_results_among_the_inputs_of_backward_keep_their_gradients():
    x = leaf(3)
    middle = x * 2
    other = x * 5
    (middle * middle + other).sum().backward(inputs=[middle])
    assert middle.grad.tolist() == [4.0] * 3 and x.grad is None and other.requires_grad
    (middle * 3 + x).sum().backward(inputs=[middle, x])
    assert middle.grad.tolist() == [7.0] * 3 and x.grad.tolist() == [7.0] * 3
    edge = flambeau.autograd.graph.get_gradient_edge(x * 1)
    with pytest.raises(RuntimeError, match="edge"):
        flambeau.autograd.backward((x * 1).sum(), inputs=[edge])


@pytest.mark.parametrize("of_result", (False, True))
@pytest.mark.parametrize(
    ("returned", "error", "said"),
    (
        (lambda g: 1, TypeError, "expected Variable, but hook returned 'int'"),
        (lambda g: g.double(), RuntimeError, "has changed the type of value"),
        (lambda g: g[:2], RuntimeError, "has changed the size of value"),
    ),
)
def test_hooks_of_tensors_return_gradients_of_their_kind(of_result, returned, error, said):
    x = leaf(3)
    y = x * 2 if of_result else x
    y.register_hook(returned)
    with pytest.raises(error, match=said):
        (y * 3).sum().backward()
    assert x.grad is None


def test_a_tensor_is_not_its_own_gradient():
    x = flambeau.ones(3)
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        x.grad = x
    assert x.grad is None


@pytest.mark.parametrize("dtype", ("complex64", "complex128"))
def test_complex_numbers_have_no_implicit_gradient(dtype):
    for shape in ((), (1,), (1, 1)):
        x = flambeau.ones(shape, dtype=getattr(flambeau, dtype), requires_grad=True)
        with pytest.raises(RuntimeError, match="only for real scalar outputs"):
            (x * 2).backward()
        (x * 2).real.sum().backward()
        assert x.grad.reshape(()).item() == 2


def test_a_function_writes_over_no_leaf_that_requires_grad():
    with pytest.raises(
        RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"
    ):
        Doubled.apply(leaf(3))
    x = leaf(3)
    Doubled.apply(x.clone()).sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    with flambeau.no_grad():
        assert Doubled.apply(leaf(3)).tolist() == [2.0] * 3


@pytest.mark.parametrize("mark", ("mark_dirty", "mark_non_differentiable"))
def test_only_tensors_are_marked(mark):
    class Marked(Function):
        @staticmethod
        def forward(ctx, x):
            getattr(ctx, mark)(3)
            return x * 1

    with pytest.raises(RuntimeError, match=f"{mark} only accepts variable arguments, but got int"):
        Marked.apply(leaf(1))


def test_what_is_marked_dirty_is_returned():
    class Forgetful(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.add_(1) * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    with pytest.raises(
        RuntimeError, match="marked as dirty during the forward method were not returned as output"
    ):
        Forgetful.apply(leaf(2).clone())


def test_a_backward_may_be_called_vjp():
    class Tripled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def vjp(ctx, grad):
            return grad * 3

    class Derived(Tripled):
        pass

    class Both(Tripled):
        @staticmethod
        def vjp(ctx, grad):
            return grad

        @staticmethod
        def backward(ctx, grad):
            return grad

    for function in (Tripled, Derived):
        x = leaf(2)
        function.apply(x).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0] and not function.generate_vmap_rule
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(leaf(2)).sum().backward()


def test_functions_are_no_objects():
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        function = Doubled()
    with pytest.raises(RuntimeError, match="Legacy autograd function"):
        function(flambeau.ones(1))


def test_the_gradient_of_a_result_is_warned_of():
    x = leaf(2)
    y = x * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert y.grad is None
    y.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad is None and x.grad is None and flambeau.ones(2).grad is None and y.detach().grad is None
        with forward_ad.dual_level():
            assert forward_ad.make_dual(flambeau.ones(2), flambeau.ones(2)).grad is None
        y.sum().backward()
        assert y.grad.tolist() == [1.0, 1.0]


def test_anomaly_mode_says_that_it_is_slow():
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        flambeau.autograd.detect_anomaly()


def test_dual_tensors_show_their_tangents_and_are_read():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(flambeau.ones(2), flambeau.full((2,), 3.0))
        assert repr(x) == "tensor([1., 1.], tangent=tensor([3., 3.]))"
        np.testing.assert_array_equal(x.numpy(), [1.0, 1.0])
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            forward_ad.make_dual(x, flambeau.ones(2))
        with pytest.raises(RuntimeError, match="requires grad"):
            forward_ad.make_dual(leaf(2), flambeau.ones(2)).numpy()


def test_what_transforms_refuse():
    f = flambeau.func
    ones = flambeau.ones(2)
    with pytest.raises(RuntimeError, match="argnums elements must be unique"):
        f.grad(lambda x, y: (x * y).sum(), argnums=(0, 0))(ones, ones)
    with pytest.raises(RuntimeError, match="argnums elements must be unique"):
        f.jacrev(lambda x, y: x * y, argnums=(1, -1))(ones, ones)
    for transform in (f.grad, f.jacrev, f.jacfwd, lambda g: lambda x: f.jvp(g, (x,), (x,))):
        with pytest.raises(RuntimeError, match="hold Tensors only, got float"):
            transform(lambda x: 3.0)(ones)
    with pytest.raises(RuntimeError, match="pytree structure of cotangents"):
        f.vjp(lambda x: (x * 2, x.sum()), ones)[1](ones)
