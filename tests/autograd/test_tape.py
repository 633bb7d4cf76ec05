"""The tape: backward, grad, accumulation, hooks, in-place rules, saved tensors, freeing."""

from __future__ import annotations

import gc
import signal
import threading
import weakref

import numpy as np
import pytest

import flambeau
from flambeau import autograd


def leaf(values, dtype=flambeau.float64):
    return flambeau.tensor(values, dtype=dtype, requires_grad=True)


def test_backward_accumulates():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    (3 * x).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]


def test_a_tensor_used_twice_gets_both_gradients():
    x = leaf(3.0)
    y = x * x
    (y * y + y).backward()
    assert x.grad.item() == 4 * 27 + 6


def test_grad_leaves_dot_grad_alone():
    x = leaf([2.0])
    (g,) = autograd.grad((x**3).sum(), x)
    assert g.tolist() == [12.0] and x.grad is None


def test_grad_of_intermediate_and_unused():
    x, z = leaf(2.0), leaf(1.0)
    y = x * 3
    out = y * y
    gy, gx = autograd.grad(out, [y, x], retain_graph=True)
    assert (gy.item(), gx.item()) == (12.0, 36.0)
    assert autograd.grad(out, [x, z], allow_unused=True, retain_graph=True)[1] is None
    with pytest.raises(RuntimeError, match="allow_unused"):
        autograd.grad(out, [x, z])


def test_second_and_third_derivatives():
    x = leaf(0.7)
    first = autograd.grad(x.sin(), x, create_graph=True)[0]
    second = autograd.grad(first, x, create_graph=True)[0]
    third = autograd.grad(second, x)[0]
    np.testing.assert_allclose(
        [first.item(), second.item(), third.item()], [np.cos(0.7), -np.sin(0.7), -np.cos(0.7)], rtol=1e-14
    )


def test_backward_twice_needs_retain_graph():
    x = leaf(2.0)
    y = x.exp()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


@pytest.mark.parametrize(
    "op", (lambda x: x * 2, lambda x: x / 2, lambda x: 2 / x, lambda x: x**3, lambda x: x.exp())
)
def test_a_number_that_a_derivative_reads_is_freed_with_the_graph(op):
    """As a tensor is, which PyTorch makes of it; what reads nothing may be gone through again."""
    y = op(leaf([1.0, 2.0])).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    x = leaf([1.0, 2.0])
    z = (x + 2).sum() - 1
    z.backward()
    z.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_no_grad_and_detach():
    x = leaf([1.0])
    with flambeau.no_grad():
        y = x * 2
        with flambeau.enable_grad():
            z = x * 2
    assert not y.requires_grad and y.grad_fn is None and z.requires_grad
    assert not (x * 2).detach().requires_grad

    @flambeau.no_grad()
    def double(t):
        return t * 2

    assert not double(x).requires_grad and flambeau.is_grad_enabled()


def test_only_scalars_start_without_a_gradient():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="shape"):
        (x * 2).backward(flambeau.ones(3, dtype=flambeau.float64))
    with pytest.raises(RuntimeError, match="does not require grad"):
        flambeau.ones(1).backward()
    (x * 2).backward(flambeau.tensor([1.0, 10.0], dtype=flambeau.float64))
    assert x.grad.tolist() == [2.0, 20.0]


def test_saved_tensor_modified():
    x = leaf([1.0, 2.0])
    y = x.exp()
    y.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    a = leaf([1.0])
    b = flambeau.ones(1, dtype=flambeau.float64)
    c = a * b
    b.mul_(2)
    with pytest.raises(RuntimeError, match="version"):
        c.backward()


def test_leaf_rules():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x[0].add_(1)
    with pytest.raises(RuntimeError, match="leaf"):
        (x * 2).requires_grad_(False)
    with pytest.raises(RuntimeError, match="floating point"):
        flambeau.tensor([1]).requires_grad_()
    with flambeau.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0, 3.0] and x.requires_grad


def test_in_place_chain():
    x = leaf([1.0, 2.0])
    y = x * 1
    y.mul_(3).add_(x)
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_in_place_on_a_view_reaches_the_base():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 2
    y[0].mul_(10)
    y[1:].add_(x[1:])
    assert y.tolist() == [20.0, 6.0, 9.0]
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 3.0, 3.0]


def test_view_taken_before_its_base_was_written():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    part = y[:2]
    y.mul_(4)
    part.sum().backward()
    assert x.grad.tolist() == [4.0, 4.0, 0.0]


def test_copy_into_part():
    x, value = leaf([1.0, 2.0, 3.0]), leaf([7.0])
    y = x * 1
    y[1:2] = value * 2
    (y * y).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 6.0] and value.grad.tolist() == [56.0]


def test_hooks():
    x = leaf([1.0, 2.0])
    y = x * 2
    seen = []
    x.register_hook(lambda g: seen.append(("leaf", g.tolist())))
    handle = y.register_hook(lambda g: g * 10)
    y.retain_grad()
    y.sum().backward()
    assert seen == [("leaf", [20.0, 20.0])] and x.grad.tolist() == [20.0, 20.0] and y.grad is not None
    handle.remove()
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    after = []
    x.register_post_accumulate_grad_hook(lambda t: after.append(t.grad.tolist()))
    (x * 2).sum().backward()
    assert after == [[4.0, 4.0]]


def test_next_functions_and_names():
    x = leaf([1.0])
    y = (x * 2).exp()
    assert y.grad_fn.name() == "ExpBackward0"
    node, number = y.grad_fn.next_functions[0]
    assert node.name() == "MulBackward0" and number == 0
    assert node.next_functions[0][0].variable is x


def test_a_chain_of_a_million_nodes():
    x = leaf(1.0)
    y = x
    for _ in range(1_000_000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1.0
    del y

    y = x
    for _ in range(200_000):  # every node keeps its input
        y = y * x
    del y


def test_nothing_is_left_behind():
    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0, 2.0])
        y = x.exp()
        z = (y * y).tanh().sum()
        watch = [weakref.ref(t) for t in (y, z)]
        z.backward()
        del y, z
        assert [w() for w in watch] == [None, None]
        y = x * 1
        watch = weakref.ref(y)
        y.mul_(x)
        y.sigmoid_()
        y.sum().backward()
        del y
        assert watch() is None
    finally:
        gc.enable()


def test_function():
    class Scale(autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(x)
            ctx.factor = factor
            return x * factor, x + factor

        @staticmethod
        def backward(ctx, first, second):
            (x,) = ctx.saved_tensors
            return first * ctx.factor + second + 0 * x, None

    x = leaf([1.0, 2.0])
    a, b = Scale.apply(x, 5.0)
    assert a.grad_fn.name() == "ScaleBackward"
    (a + b).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    assert autograd.gradcheck(lambda t: Scale.apply(t, 2.0), (x,))
    x.grad = None
    Scale.apply(x, 5.0)[1].sum().backward()  # the gradient that does not arrive comes as zeros
    assert x.grad.tolist() == [1.0, 1.0]


def test_function_with_a_wrong_number_of_gradients():
    class Wrong(autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        Wrong.apply(x, x).backward()


def test_gradcheck_notices_a_wrong_derivative():
    class Wrong(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = leaf([1.5])
    with pytest.raises(autograd.GradcheckError, match="on the tape"):
        autograd.gradcheck(Wrong.apply, (x,))
    assert not autograd.gradcheck(Wrong.apply, (x,), raise_exception=False)
    assert autograd.gradgradcheck(lambda t: t.exp() * t, (x,))


def test_backward_inside_backward():
    x, w = leaf(2.0), leaf(3.0)
    inner = []

    def hook(g):
        with flambeau.enable_grad():
            inner.append(autograd.grad(w * w, w)[0].item())

    y = x * w
    y.register_hook(hook)
    y.backward()
    assert inner == [6.0] and x.grad.item() == 3.0


def test_threads():
    x = leaf([1.0] * 100)
    results = []

    def work():
        for _ in range(50):
            (g,) = autograd.grad((x * x).sum(), x)
            results.append(g[0].item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [2.0] * 200


def test_an_error_in_a_hook_leaves_the_tape_usable():
    x = leaf([1.0])
    y = (x * 2).exp()

    def fail(g):
        raise ValueError("stop")

    handle = y.register_hook(fail)
    with pytest.raises(ValueError, match="stop"):
        y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), [2 * np.exp(2)])
    assert flambeau.is_grad_enabled()


def test_gradients_in_a_batch():
    x = leaf([1.0, 2.0])
    y = x**2
    rows = flambeau.eye(2, dtype=flambeau.float64)
    assert autograd.grad(y, x, rows, is_grads_batched=True)[0].tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_what_grad_refuses():
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match="materialize_grads"):
        autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True)


def test_an_interrupt_leaves_the_tape_usable(interruptible):
    """SIGINT arrives while the engine works: the next node is not run, and a later pass is whole."""
    x = leaf([1.0])
    y = x * 2
    y.register_hook(lambda grad: signal.raise_signal(signal.SIGINT))
    z = (y * 3).sin()
    with pytest.raises(KeyboardInterrupt):
        z.backward(retain_graph=True)
    assert x.grad is None
    (x * 5).backward()
    assert x.grad.tolist() == [5.0]


def test_threads_share_leaves():
    x = leaf([0.0] * 100)

    def work():
        for _ in range(50):
            (x * 2).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.grad.tolist() == [400.0] * 100


def test_only_inputs_is_ignored_with_a_warning():
    x = flambeau.tensor(3.0, requires_grad=True)
    assert flambeau.autograd.grad(x * x, x, None, None, False, True)[0] == 6.0
    with pytest.warns(FutureWarning, match="only_inputs"):
        assert flambeau.autograd.grad(x * x, x, only_inputs=False)[0] == 6.0
    assert x.grad is None


@pytest.mark.parametrize("held", [False, True])
def test_what_nodes_saved_is_free_for_the_nodes_after_them(held):
    """Each node's values go with it while the pass runs, whoever holds the loss."""
    x = flambeau.ones(1 << 16, requires_grad=True)
    y = x
    for _ in range(10):
        y = y.tanh()
    loss = y.sum()
    del y
    before, seen = flambeau.cpu.memory_stats()["allocated_bytes"], []
    x.register_hook(lambda grad: seen.append(flambeau.cpu.memory_stats()["allocated_bytes"]))
    if held:
        loss.backward()
    else:
        autograd.grad(loss, [x])
    saved = 10 * (1 << 18)
    assert seen[0] <= before - saved + 3 * (1 << 18)
