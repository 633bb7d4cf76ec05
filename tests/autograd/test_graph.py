"""Edges and nodes of the tape; hooks on saved tensors, nodes and several tensors."""

from __future__ import annotations

import gc

import pytest

import flambeau
from flambeau import autograd
from flambeau.autograd import graph


def leaf(values):
    return flambeau.tensor(values, dtype=flambeau.float64, requires_grad=True)


def lists():
    return graph.saved_tensors_hooks(
        lambda t: t.tolist(), lambda v: flambeau.tensor(v, dtype=flambeau.float64)
    )


OPERATIONS = {
    "pointwise": lambda x: x * x.exp(),
    "rows": lambda x: x.softmax(-1) * x,
    "product": lambda x: x @ x.t() @ x,
    "library": lambda x: x.cumprod(0),
    "view": lambda x: x.t()[0] * x[:, 1],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_saved_tensors_come_back_through_hooks(name):
    function = OPERATIONS[name]
    x = leaf([[0.5, 2.0], [1.5, -1.0]])
    expected = autograd.grad(function(x).sum(), x)[0]
    with lists():
        y = function(x).sum()
    assert autograd.grad(y, x)[0].tolist() == expected.tolist()


def test_hooks_and_second_derivatives():
    x = leaf([0.5, 2.0])
    with lists():
        y = (x**3 * x.exp()).sum()
    (g,) = autograd.grad(y, x, create_graph=True)
    z = leaf([0.5, 2.0])
    (h,) = autograd.grad((z**3 * z.exp()).sum(), z, create_graph=True)
    assert autograd.grad(g.sum(), x)[0].tolist() == autograd.grad(h.sum(), z)[0].tolist()


def test_hooks_of_a_function_and_nesting():
    class Cube(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad

    seen = []
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        with graph.saved_tensors_hooks(lambda t: seen.append(t.tolist()) or t, lambda t: 2 * t):
            x = leaf([2.0])
            y = Cube.apply(x)
    y.backward()
    assert seen == [[2.0]] and x.grad.tolist() == [3 * 4.0 * 4.0]


def test_what_hooks_may_not_do():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="modifying its input in place"):
        with graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
            x.detach().clone().requires_grad_().exp()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack_hook"):
        y.sum().backward()
    with graph.disable_saved_tensors_hooks("no hooks here"):
        with pytest.raises(RuntimeError, match="no hooks here"), lists():
            x.exp()
    with lists():
        pass


def test_a_failing_pack_hook_leaves_nothing_behind():
    class Heavy:
        alive = 0

        def __init__(self):
            Heavy.alive += 1

        def __del__(self):
            Heavy.alive -= 1

    calls = []

    def pack(t):
        calls.append(0)
        if len(calls) == 2:
            raise KeyError("enough")
        return Heavy()

    x, y = leaf([1.0]), leaf([2.0])
    with pytest.raises(KeyError), graph.saved_tensors_hooks(pack, lambda h: h):
        x * y
    gc.collect()
    assert Heavy.alive == 0 and (x * y).requires_grad


def test_save_on_cpu_and_mutation_of_saved_tensors():
    x = leaf([1.0, 2.0])
    with graph.save_on_cpu():
        y = x.exp().sin()
    (g,) = autograd.grad(y.sum(), x)
    assert g.tolist() == (x.exp().cos() * x.exp()).tolist()
    with graph.allow_mutation_on_saved_tensors():
        a = x * 1
        z = a.exp()
        a.zero_()
        z.sum().backward()
    assert x.grad.tolist() == x.exp().tolist()


def test_node_hooks():
    x = leaf([1.0, 2.0])
    y = x * 3
    seen = []
    handle = y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].tolist(), outputs[0].tolist())))
    y.sum().backward(retain_graph=True)
    assert seen == [([30.0, 30.0], [10.0, 10.0])]
    handle.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and isinstance(y.grad_fn, graph.Node)


def test_hooks_of_the_node_that_accumulates():
    x = leaf([1.0, 2.0])
    node = (x * 2).grad_fn.next_functions[0][0]
    assert isinstance(node, graph.Node) and node.variable is x and node == graph.get_gradient_edge(x).node
    seen = []
    node.register_prehook(lambda grads: (grads[0] * 5,))
    handle = node.register_hook(
        lambda inputs, outputs: seen.append((inputs, outputs[0].tolist(), x.grad.tolist()))
    )
    (x * 2).sum().backward()
    assert seen == [((), [10.0, 10.0], [10.0, 10.0])]
    handle.remove()
    (x * 2).sum().backward()
    assert len(seen) == 1 and x.grad.tolist() == [20.0, 20.0]


def test_edges_stand_for_tensors():
    x = leaf([1.0, 2.0])
    y = x * x
    edge, start = graph.get_gradient_edge(x), graph.get_gradient_edge(y)
    z = y.sum()
    assert autograd.grad(z, [edge, start], retain_graph=True)[0].tolist() == [2.0, 4.0]
    autograd.backward(start, flambeau.tensor([1.0, 10.0], dtype=flambeau.float64), inputs=[edge])
    assert x.grad.tolist() == [2.0, 40.0]
    total, several = graph.get_gradient_edge((x * 3).sum()), graph.get_gradient_edge(x * 3)
    assert autograd.grad(total, x)[0].tolist() == [3.0, 3.0]
    for given, message in ((None, "only for scalar outputs"), (flambeau.ones(3), "Mismatch in shape")):
        with pytest.raises(RuntimeError, match=message):
            autograd.grad(several, x, given)
    with pytest.raises(RuntimeError, match="gradient edge"):
        graph.get_gradient_edge(flambeau.ones(1))


def test_hooks_on_several_tensors():
    a, b, c = leaf([1.0]), leaf([2.0]), leaf([3.0])
    every, first = [], []
    handle = graph.register_multi_grad_hook([a, b, c], every.append)
    graph.register_multi_grad_hook([a, b], first.append, mode="any")
    (a * b).backward()
    assert [None if g is None else g.item() for g in every[0]] == [2.0, 1.0, None] and len(first) == 1
    (a * b * c).backward()
    assert [g.item() for g in every[1]] == [6.0, 3.0, 2.0] and len(first) == 2
    handle.remove()
    (a * b * c).backward()
    assert len(every) == 2
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook([a], every.append, mode="some")


def test_increment_version():
    x, b = leaf([1.0]), flambeau.ones(1, dtype=flambeau.float64)
    y = x * b
    graph.increment_version(b)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.backward()


def test_post_accumulate_hooks_and_retained_gradients():
    x = leaf([1.0, 2.0])
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    assert seen == [[8.0, 16.0]] and y.grad.tolist() == [4.0, 8.0] and y.retains_grad
    with pytest.raises(RuntimeError, match="non-leaf"):
        y.register_post_accumulate_grad_hook(print)


def test_an_error_in_a_hook_leaves_the_tape_usable():
    x = leaf([1.0, 2.0])
    y = (x.exp() * 2).sin()

    def fail(grad):
        raise ZeroDivisionError

    handle = x.register_hook(fail)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward(retain_graph=True)
    assert x.grad is None and autograd.graph is graph
    handle.remove()
    y.sum().backward()
    assert x.grad is not None


def test_no_cycles():
    def train():
        x = leaf([1.0, 2.0])
        with lists():
            y = x.exp().softmax(0)
        y.retain_grad()
        y.register_hook(lambda g: g)
        x.register_hook(lambda g: g)
        y.sum().backward()

    train()  # compiles
    gc.collect()
    gc.disable()
    try:
        train()
        assert gc.collect() == 0
    finally:
        gc.enable()
