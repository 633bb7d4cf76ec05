"""Histories that writes in place give: kept gradients, second derivatives through views, geometry, views that are not recorded."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import autograd
from flambeau.operations.declare.registry import REGISTRY

F64 = flambeau.float64


def leaf(values):
    return flambeau.tensor(values, dtype=F64, requires_grad=True)


# --- retain_grad ----------------------------------------------------------------------------------------------------------
def test_a_kept_gradient_is_not_the_one_that_grad_returned():
    x = leaf([1.0, 2.0])
    for make in (lambda y: (y * y).sum(), lambda y: (y * 2).sum(), lambda y: y.sum()):
        y = x.clone()  # which a backward pass leaves as it is
        y.retain_grad()
        (g,) = autograd.grad(make(y), y, retain_graph=True)
        before = g.clone()
        make(y).backward()
        make(y * 1).backward()
        assert g.tolist() == before.tolist() and y.grad.tolist() == (3 * before).tolist()


def test_a_later_pass_makes_a_new_kept_gradient():
    """As in PyTorch, `.grad` of a result is added up out of place: who took it earlier keeps what it was."""
    x = leaf([1.0, 2.0])
    y = x * 1
    y.retain_grad()
    (y * 2).sum().backward(retain_graph=True)
    first = y.grad
    (y * 3).sum().backward()
    assert first.tolist() == [2.0, 2.0] and y.grad.tolist() == [5.0, 5.0]


def test_kept_gradients_go_with_the_newest_value():
    x = leaf([1.0, 2.0])
    y = x * 1
    y.retain_grad()
    z = (y * 2).sum()
    y *= 3
    ((y * 5).sum() + z).backward()
    assert y.grad.tolist() == [5.0, 5.0] and x.grad.tolist() == [17.0, 17.0]


def test_kept_gradients_of_bases_and_views():
    x = leaf([1.0, 2.0])
    y = x * 1
    y.retain_grad()
    part = y[0]
    part *= 3
    (y * 5).sum().backward()
    assert y.grad.tolist() == [5.0, 5.0] and x.grad.tolist() == [15.0, 5.0]
    for write in (lambda base, view: view.mul_(3), lambda base, view: base.mul_(3)):
        base = leaf([1.0, 2.0]) * 1
        view = base[0]
        view.retain_grad()
        write(base, view)
        (view * 5).backward()
        assert view.grad.item() == 5.0


def test_hooks_stay_with_the_value_they_were_hung_on():
    x = leaf([1.0, 2.0])
    y = x * 1
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y *= 3
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * 5).sum().backward()
    assert seen == [[5.0, 5.0], [15.0, 15.0]]


def test_a_kept_gradient_is_what_the_hooks_leave():
    y = leaf([1.0]) * 1
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    assert y.grad.tolist() == [2.0]


# --- whose memory a gradient is ---------------------------------------------------------------------------------------------
GRADIENTS = {
    "passed on": lambda x: x + 0,
    "a view": lambda x: x.view(3, 1),
    "an expanded one": lambda x: x.sum().view(1, 1),
    "for two": lambda x: x + x.view(3),
    "a copy": lambda x: x.clone(),
    "a write": lambda x: (x * 1).mul_(2),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_no_pass_changes_what_somebody_holds(name):
    """Gradients given, returned, seen by hooks or sent to two leaves do not change when a later pass adds to `.grad`."""
    x, other = leaf([1.0, 2.0, 3.0]), leaf([0.0, 0.0, 0.0])
    seen, make = [], GRADIENTS[name]
    handle = x.register_hook(seen.append)
    given = flambeau.ones(make(x).shape, dtype=F64)
    y = make(x)
    y.backward(given, retain_graph=True)
    held = [x.grad.detach().clone(), *[g.clone() for g in seen]]
    y.backward(given, retain_graph=True)
    returned = autograd.grad(y, x, given)[0]
    copy = returned.clone()
    make(x).backward(given)
    assert given.tolist() == flambeau.ones(given.shape).tolist()
    assert seen[0].tolist() == held[1].tolist() and returned.tolist() == copy.tolist()
    assert x.grad.tolist() == (3 * held[0]).tolist()
    handle.remove()
    x.grad = None
    (x + other).backward(flambeau.ones(3, dtype=F64))
    x.grad.mul_(2)
    assert other.grad.tolist() == [1.0] * 3
    array = np.ones(3)
    x.grad = None
    (x * 1).backward(flambeau.from_numpy(array))
    x.sum().backward()
    assert array.tolist() == [1.0] * 3 and x.grad.tolist() == [2.0] * 3


def test_grad_made_with_create_graph_is_not_written_over():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward(create_graph=True)
    first = x.grad
    (x * 3).sum().backward(create_graph=True)
    assert first.tolist() == [2.0, 4.0] and x.grad.tolist() == [5.0, 7.0]


# --- second derivatives through written views -------------------------------------------------------------------------------
UNARY = [
    e
    for e in REGISTRY.values()
    if e.kind == "pointwise" and e.in_place and e.differentiable and len(e.details["operands"]) == 1
    and "float64" in e.dtypes
]  # fmt: skip


@pytest.mark.parametrize("entry", UNARY, ids=lambda e: e.name)
def test_double_backward_through_writes_on_views(entry):
    """The same two derivatives as out of place, whatever view the operation wrote to."""
    low, high = entry.domain
    signature = entry.function.__signature__
    names = entry.details["operands"]
    given = {n: 0.5 for n, p in signature.parameters.items() if p.default is p.empty and n not in names}
    start = flambeau.tensor(np.random.default_rng(1).uniform(low, high, (2, 3)))
    weights = flambeau.tensor(np.random.default_rng(2).normal(size=(2, 3)))

    def derivatives(part, inside):
        x = start.clone().requires_grad_()
        if inside:
            y = x * 1
            entry.in_place(part(y), **given)
        else:
            mark = flambeau.zeros(2, 3, dtype=flambeau.bool)
            part(mark).fill_(True)
            y = flambeau.where(mark, entry.function(x, **given), x)
        (g,) = autograd.grad((y * y * weights).sum(), x, create_graph=True)
        again = autograd.grad((g * weights).sum(), x, allow_unused=True)[0] if g.requires_grad else None
        return g.detach().numpy(), (flambeau.zeros(2, 3) if again is None else again).numpy()

    for part in (
        lambda t: t,
        lambda t: t[0],
        lambda t: t[:, 1:],
        lambda t: t.t()[1],
        lambda t: t.view(-1)[::2],
    ):
        for found, expected in zip(derivatives(part, True), derivatives(part, False)):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


# --- geometry in place --------------------------------------------------------------------------------------------------------
GEOMETRY = {
    "unsqueeze_": lambda t: t.unsqueeze_(0),
    "squeeze_": lambda t: t.squeeze_(0),
    "transpose_": lambda t: t.transpose_(0, 1),
    "swapaxes_": lambda t: t.swapaxes_(0, 1),
    "t_": lambda t: t.t_(),
    "as_strided_": lambda t: t.as_strided_((3,), (1,)),
}


@pytest.mark.parametrize("name", GEOMETRY)
@pytest.mark.parametrize("used_before", [False, True])
def test_a_gradient_has_the_shape_of_its_leaf(name, used_before):
    change = GEOMETRY[name]
    x = leaf([[1.0, 2.0, 3.0]])
    before = (x * 2).sum()
    with flambeau.no_grad():
        change(x)
    if used_before:
        before.backward()
    else:
        (x * x).sum().backward()
    assert x.is_leaf and x.grad.shape == x.shape
    assert x.grad.flatten().tolist() == ([2.0, 2.0, 2.0] if used_before else [2.0, 4.0, 6.0])


def test_a_result_with_another_geometry_sends_gradients_of_the_old_one():
    x = leaf([[1.0, 2.0, 3.0]])
    for make in (lambda: x * 2, lambda: x @ flambeau.eye(3, dtype=F64) * 2, lambda: x.clone().mul_(2)):
        y = make()
        name = y.grad_fn.name()
        with flambeau.no_grad():
            y.unsqueeze_(0)
        assert y.grad_fn.name() == name and y.requires_grad
        (g,) = autograd.grad(y.sum(), x)
        assert g.tolist() == [[2.0, 2.0, 2.0]]
    y = leaf([[1.0, 2.0, 3.0]] * 2) * 2
    with flambeau.no_grad():
        y.t_()
    with pytest.raises(RuntimeError, match="invalid gradient"):
        y.sum().backward()
    y = x * 2
    with flambeau.no_grad():
        y.set_(flambeau.ones(7, dtype=F64))
    with pytest.raises(RuntimeError, match="invalid gradient"):
        y.sum().backward()


def test_resize_of_what_requires_a_gradient():
    x = leaf([1.0, 2.0])
    for t in (x, x * 2):
        with (
            flambeau.no_grad(),
            pytest.raises(RuntimeError, match="cannot resize variables that require grad"),
        ):
            t.resize_(3)
    t = flambeau.zeros(1).expand(3)
    assert t.resize_(3).stride() == (0,)


# --- views that are not recorded --------------------------------------------------------------------------------------------
def test_views_made_unrecorded_say_that_they_require_a_gradient():
    for base in (leaf([1.0, 2.0]), leaf([1.0, 2.0]) * 2):
        with flambeau.no_grad():
            view, copy, cut = base[0], base * 1, base.detach()[0]
        assert view.requires_grad and view.is_leaf and view.grad_fn is None
        assert not copy.requires_grad and not cut.requires_grad
        with flambeau.no_grad():
            assert view.view(1).requires_grad
    with flambeau.no_grad():
        view = flambeau.ones(2)[0]
    assert not view.requires_grad


def test_views_made_unrecorded_may_not_be_written_recorded():
    x = leaf([1.0, 2.0]) * 1
    with flambeau.no_grad():
        view = x[0]
        view.view(1).mul_(1)
    for write in (
        lambda v: v.mul_(2),
        lambda v: v.fill_(0),
        lambda v: v.copy_(v * 1),
        lambda v: v.uniform_(),
    ):
        with pytest.raises(RuntimeError, match="view was created in no_grad mode"):
            write(view)
    assert x.detach().tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="view was created in no_grad mode and its base or another view"):
        view * 2
    with flambeau.no_grad():
        assert (view * 2).item() == 2.0
    assert repr(view) == "tensor(1., dtype=flambeau.float64, grad_fn=<Invalid>)"


def test_writes_through_an_unrecorded_view_of_a_plain_tensor():
    """PyTorch refuses them; here they have the history of any write through a view."""
    base, w = flambeau.ones(2, dtype=F64), leaf([3.0])
    with flambeau.no_grad():
        view = base[:1]
    view.mul_(w)
    (base * flambeau.tensor([5.0, 7.0])).sum().backward()
    assert w.grad.tolist() == [5.0]


class Threefold(autograd.Function):
    @staticmethod
    def forward(ctx, x, whole):
        return x if whole else x[:1]

    @staticmethod
    def backward(ctx, g):
        return 3 * (g if g.numel() == 2 else flambeau.cat([g, flambeau.zeros_like(g)])), None


@pytest.mark.parametrize("whole", [True, False])
def test_views_made_by_a_function_keep_its_derivative(whole):
    x = leaf([1.0, 2.0])
    y = x * 1
    view = Threefold.apply(y, whole)
    with pytest.raises(RuntimeError, match="inside a custom Function"):
        view.mul_(2)
    (view * 5).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [15.0, 15.0 if whole else 0.0]
    y.mul_(2)
    with pytest.raises(RuntimeError, match="inside a custom Function"):
        view.exp()
    x.grad = None
    y = x * 1
    Threefold.apply(y, whole).clone().mul_(2).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0 if whole else 0.0]


class Wrong(autograd.Function):
    @staticmethod
    def forward(ctx, x, shape):
        ctx.shape = shape
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return flambeau.ones(ctx.shape, dtype=F64), None


def test_a_function_gives_gradients_of_the_shape_of_its_inputs():
    """What was broadcast is summed, as in PyTorch; anything else is refused."""
    for x in (leaf([1.0, 2.0]), leaf([1.0, 2.0]) * 1):
        assert autograd.grad(Wrong.apply(x, (3, 2)).sum(), x)[0].tolist() == [3.0, 3.0]
        for shape in ((3,), (2, 1), ()):
            with pytest.raises(RuntimeError, match="invalid gradient at index 0 - got"):
                autograd.grad(Wrong.apply(x, shape).sum(), x)


def test_a_gradient_that_a_function_holds_is_not_taken_over():
    kept = []

    class Hold(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            kept.append(g * 2)
            return kept[-1]

    x = leaf([1.0, 2.0])
    for _ in range(3):
        Hold.apply(x).sum().backward()
    assert [k.tolist() for k in kept] == [[2.0, 2.0]] * 3 and x.grad.tolist() == [6.0, 6.0]
