"""Calls with the scalar first, as before PyTorch 1.5: still taken, with a warning that is said once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flambeau
from flambeau.operations.declare.registry import REGISTRY
from flambeau.overrides import TorchFunctionMode

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((2, 2)), rng.standard_normal((2, 2)) + 3
V, W = rng.standard_normal(2), rng.standard_normal(2)
B, C = rng.standard_normal((3, 2, 2)), rng.standard_normal((3, 2, 2))

# name: (input, the other tensors, what comes out of (a, beta, alpha, *others))
SUMS = {
    "add": (X, (Y,), lambda x, s, y: x + s * y),
    "sub": (X, (Y,), lambda x, s, y: x - s * y),
    "addcmul": (X, (X, Y), lambda x, s, a, b: x + s * a * b),
    "addcdiv": (X, (X, Y), lambda x, s, a, b: x + s * a / b),
}
PRODUCTS = {
    "addmm": (X, (X, Y), lambda x, beta, alpha, a, b: beta * x + alpha * (a @ b)),
    "addmv": (V, (X, W), lambda x, beta, alpha, a, b: beta * x + alpha * (a @ b)),
    "addr": (X, (V, W), lambda x, beta, alpha, a, b: beta * x + alpha * np.outer(a, b)),
    "baddbmm": (B, (B, C), lambda x, beta, alpha, a, b: beta * x + alpha * (a @ b)),
    "addbmm": (X, (B, C), lambda x, beta, alpha, a, b: beta * x + alpha * (a @ b).sum(0)),
}
t = flambeau.tensor


@pytest.fixture(autouse=True)
def always():
    flambeau.set_warn_always(True)
    yield
    flambeau.set_warn_always(False)


def close(found, wanted):
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-12)


def test_all_operations_with_old_orders_are_tried_here():
    have = {name for name, entry in REGISTRY.items() if getattr(entry.function, "old_orders", ())}
    assert have == {*SUMS, *PRODUCTS}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("scalar", [0.5, 2, True, t(0.5, dtype=flambeau.float64)])
def test_a_scalar_before_the_operands_of_a_sum(name, scalar):
    x, others, formula = SUMS[name]
    wanted = formula(x, float(scalar), *others)
    ours = [t(a) for a in others]
    function = getattr(flambeau, name)
    with pytest.warns(UserWarning, match=f"This overload of {name} is deprecated"):
        close(function(t(x), scalar, *ours), wanted)
    with pytest.warns(UserWarning):
        out = flambeau.empty(0, dtype=flambeau.float64)
        close(function(t(x), scalar, *ours, out=out), wanted)
        close(out, wanted)
    with pytest.warns(UserWarning):
        close(getattr(t(x), name)(scalar, *ours), wanted)
    with pytest.warns(UserWarning, match=f"overload of {name}_ is"):
        held = t(x)
        assert getattr(held, name + "_")(scalar, *ours) is held
        close(held, wanted)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("alpha", [None, 2.0])
def test_scalars_before_the_operands_of_a_product(name, alpha):
    x, others, formula = PRODUCTS[name]
    wanted = formula(x, 0.5, 1.0 if alpha is None else alpha, *others)
    ours, more = [t(a) for a in others], [] if alpha is None else [alpha]
    with pytest.warns(UserWarning, match=f"This overload of {name} is deprecated"):
        close(getattr(flambeau, name)(0.5, t(x), *more, *ours), wanted)
    with pytest.warns(UserWarning):
        close(
            getattr(flambeau, name)(0.5, t(x), *more, *ours, out=flambeau.empty(0, dtype=flambeau.float64)),
            wanted,
        )
    with pytest.warns(UserWarning):
        close(getattr(t(x), name)(0.5, *more, *ours), wanted)
    with pytest.warns(UserWarning):
        close(getattr(t(x), name + "_")(0.5, *more, *ours), wanted)


def test_the_warning_says_both_signatures_at_the_line_of_the_call():
    with pytest.warns(UserWarning) as said:
        flambeau.addmm(0.5, t(X), 2, t(X), t(Y))
    assert str(said[0].message) == (
        "This overload of addmm is deprecated:\n"
        "\taddmm(Number beta, Tensor input, Number alpha, Tensor mat1, Tensor mat2, *, Tensor out = None)\n"
        "Consider using one of the following signatures instead:\n"
        "\taddmm(Tensor input, Tensor mat1, Tensor mat2, *, Number beta = 1, Number alpha = 1, Tensor out = None)"
    )
    assert said[0].filename == __file__
    with pytest.warns(
        UserWarning,
        match=r"add_\(Number alpha, Tensor other\)\n.*\n\tadd_\(Tensor other, \*, Number alpha = 1\)",
    ):
        t(X).add_(0.5, t(Y))


def test_it_is_said_once():
    flambeau.set_warn_always(False)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        t(X).addcmul(0.5, t(X), t(Y))
    with warnings.catch_warnings(record=True) as again:
        warnings.simplefilter("always")
        t(X).addcmul(0.5, t(X), t(Y))
    assert again == []


def test_gradients_keywords_numbers_and_modes():
    x, y = t(X, requires_grad=True), t(Y, requires_grad=True)
    with pytest.warns(UserWarning):
        x.add(0.5, y).sum().backward()
    close(y.grad, np.full((2, 2), 0.5))
    with pytest.warns(UserWarning):
        close(flambeau.add(t(X), 0.5, other=t(Y)), X + 0.5 * Y)
    with pytest.warns(UserWarning):
        close(flambeau.add(t(X), 0.5, 2), X + 1)
    with pytest.warns(UserWarning):
        close(flambeau.addmm(0.5, t(X), 2.0, t(X), mat2=t(Y)), 0.5 * X + 2 * X @ Y)

    class Passing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(len(args))
            return func(*args, **(kwargs or {}))

    seen = []
    with pytest.warns(UserWarning), Passing():
        close(t(X).addmm(0.5, 2.0, t(X), t(Y)), 0.5 * X + 2 * X @ Y)
    assert 5 in seen


def test_under_vmap_and_with_sparse_tensors():
    with pytest.warns(UserWarning):
        close(flambeau.vmap(lambda a, b: a.add(0.5, b))(t(X), t(Y)), X + 0.5 * Y)
    with pytest.warns(UserWarning):
        close(flambeau.vmap(lambda a: flambeau.addmm(0.5, a, 2.0, a, t(Y)))(t(B)), 0.5 * B + 2 * B @ Y)
    with pytest.warns(UserWarning):
        close(flambeau.addmm(0.5, t(X), 2.0, t(X).to_sparse(), t(Y)), 0.5 * X + 2 * X @ Y)


@pytest.mark.parametrize(
    "call",
    [
        lambda: flambeau.add(t(X), t(Y), 2),
        lambda: flambeau.addmm(t(X), 0.5, 2.0, t(X), t(Y)),
        lambda: flambeau.addmm(t(X), t(X), t(Y), 0.5, 2.0),
        lambda: flambeau.addcmul(t(X), t(X), t(Y), 0.5),
        lambda: flambeau.add(t(X), None, t(Y)),
        lambda: flambeau.add(t(X), t(V), t(Y)),
        lambda: flambeau.rsub(t(X), 0.5, t(Y)),
        lambda: t(X).addmm(0.5, t(X), 2.0, t(X), t(Y)),
    ],
)
def test_what_no_order_has_is_an_error(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError):
            call()
