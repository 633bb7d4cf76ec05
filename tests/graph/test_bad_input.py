"""Hostile calls of compiled functions: right, or the error of the eager call, and eager calls are right afterwards."""

from __future__ import annotations

import threading
from collections import namedtuple

import numpy as np
import pytest

import flambeau
from flambeau import nn


def same(a, b):
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    np.testing.assert_allclose(
        a.detach().resolve_conj().numpy(), b.detach().resolve_conj().numpy(), rtol=1e-5, atol=1e-6
    )


@pytest.fixture(autouse=True)
def eager_is_usable_after_each():
    yield
    assert flambeau.is_grad_enabled() and not flambeau.is_autocast_enabled("cpu")
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


def both(function, *calls):
    """A compiled function and the eager one on the same calls, made anew for each by `calls`."""
    compiled = flambeau.compile(function)
    for make in (*calls, *calls):
        a, b = make(), make()
        found, expected = compiled(*a), function(*b)
        same(found, expected)
        for x, y in zip(a, b, strict=True):
            if isinstance(x, flambeau.Tensor):
                same(x, y)


def add_and_read(x, y):
    x.add_(1)
    return y * 2


def aliased():
    x = flambeau.arange(4.0)
    return x, x


def overlapping():
    x = flambeau.arange(5.0)
    return x[:4], x[1:]


def apart():
    return flambeau.arange(4.0), flambeau.arange(4.0)


def test_arguments_that_are_one_tensor():
    both(add_and_read, apart, aliased)
    both(add_and_read, aliased, apart)


def test_arguments_that_overlap():
    both(add_and_read, apart, overlapping)
    both(add_and_read, overlapping, apart)
    both(add_and_read, aliased, overlapping)


def test_an_argument_that_is_a_parameter():
    net = nn.Linear(3, 3)

    def function(x):
        with flambeau.no_grad():
            x.mul_(0.5)
            return net(x)

    compiled = flambeau.compile(function)
    for _ in range(2):
        same(compiled(flambeau.ones(3, 3)), function(flambeau.ones(3, 3)))
    with flambeau.no_grad():
        net.weight.fill_(1)
    found = compiled(net.weight.detach())
    halved = flambeau.full((3, 3), 0.5)
    same(net.weight, halved)
    same(found, halved @ halved.T + net.bias)


def test_a_parameter_that_is_replaced_or_freed_between_calls():
    net = nn.Linear(3, 2)
    compiled = flambeau.compile(net)
    x = flambeau.randn(4, 3)
    same(compiled(x), net(x))
    net.weight = nn.Parameter(flambeau.ones(2, 3))
    same(compiled(x), net(x))
    net.weight.data = flambeau.full((2, 3), 2.0)
    same(compiled(x), net(x))
    net.bias = None
    same(compiled(x), x @ net.weight.T)
    net.load_state_dict({"weight": flambeau.zeros(2, 3)})
    same(compiled(x), flambeau.zeros(4, 2))


def test_a_tensor_that_is_resized_between_calls():
    held = flambeau.ones(2, 3)
    function = lambda x: x + held
    compiled = flambeau.compile(function)
    x = flambeau.randn(2, 3)
    same(compiled(x), function(x))
    held.resize_(1, 3).fill_(5.0)
    same(compiled(x), function(x))
    held.set_(flambeau.arange(3.0))
    same(compiled(x), function(x))


def test_grad_mode_changes_between_calls():
    function = lambda x: (x * 3).sin()
    compiled = flambeau.compile(function)
    x = flambeau.randn(4, requires_grad=True)
    for _ in range(2):
        assert compiled(x).requires_grad
        with flambeau.no_grad():
            assert not compiled(x).requires_grad
        with flambeau.inference_mode():
            assert compiled(x).is_inference()
        (gradient,) = flambeau.autograd.grad(compiled(x).sum(), x)
        same(gradient, 3 * (x * 3).cos())


def test_autocast_changes_between_calls():
    w = flambeau.randn(4, 4)
    compiled = flambeau.compile(lambda x: (x @ w) + 1)
    x = flambeau.randn(3, 4)
    for _ in range(2):
        assert compiled(x).dtype == flambeau.float32
        with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
            assert compiled(x).dtype == flambeau.bfloat16
        with flambeau.autocast("cpu", dtype=flambeau.float16):
            assert compiled(x).dtype == flambeau.float16


def test_the_default_dtype_changes_between_calls():
    compiled = flambeau.compile(lambda x: x + flambeau.ones(2) * 0.5)
    x = flambeau.ones(2, dtype=flambeau.int64)
    assert compiled(x).dtype == flambeau.float32
    flambeau.set_default_dtype(flambeau.float64)
    try:
        assert compiled(x).dtype == flambeau.float64
    finally:
        flambeau.set_default_dtype(flambeau.float32)
    assert compiled(x).dtype == flambeau.float32


def test_ctrl_c_in_a_call():
    def function(x):
        if stop:
            raise KeyboardInterrupt
        return x + 1

    stop = False
    compiled = flambeau.compile(function)
    assert compiled(flambeau.ones(2)).tolist() == [2, 2]
    stop = True
    with pytest.raises(KeyboardInterrupt):
        compiled(flambeau.ones(2))
    stop = False
    assert compiled(flambeau.ones(2)).tolist() == [2, 2]


def test_an_error_in_a_call_leaves_what_eager_leaves():
    def function(x, y):
        x.add_(1)
        return x @ y

    compiled = flambeau.compile(function)
    for shape in [(3, 2), (2, 3), (3, 2)]:
        x, z = flambeau.zeros(2, 3), flambeau.zeros(2, 3)
        try:
            expected = function(z, flambeau.ones(*shape))
        except RuntimeError as error:
            with pytest.raises(type(error)):
                compiled(x, flambeau.ones(*shape))
        else:
            same(compiled(x, flambeau.ones(*shape)), expected)
        same(x, z)


def test_a_backend_that_raises_or_returns_nothing():
    def broken(graph, inputs):
        raise ArithmeticError("no")

    with pytest.raises(Exception, match="no"):
        flambeau.compile(lambda x: x + 1, backend=broken)(flambeau.ones(2))
    with pytest.raises(Exception, match="broken|lambda|NoneType"):
        flambeau.compile(lambda x: x + 1, backend=lambda graph, inputs: None)(flambeau.ones(2))


def test_threads_call_one_function_from_the_start():
    function = lambda x, k: ((x * k).tanh() @ x).softmax(-1)
    compiled = flambeau.compile(function)
    inputs = [(flambeau.randn(8, 8), k % 3) for k in range(6)]
    wrong = []

    def work(x, k):
        expected = function(x, k)
        for _ in range(20):
            if not flambeau.allclose(compiled(x, k), expected, rtol=1e-5, atol=1e-6):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=given) for given in inputs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


class Marked(flambeau.Tensor):
    """A class with a method of its own."""

    def doubled(self):
        return self * 2


def test_subclasses_as_arguments():
    def function(x):
        return (x.doubled() if isinstance(x, Marked) else x) + 1

    compiled = flambeau.compile(function)
    for _ in range(2):
        assert compiled(flambeau.ones(2)).tolist() == [2, 2]
        found = compiled(flambeau.ones(2).as_subclass(Marked))
        assert found.tolist() == [3, 3] and type(found) is Marked


@pytest.mark.parametrize("device", ["meta", "opencl"])
def test_other_devices(device):
    if device != "meta" and not flambeau.opencl.is_available():
        pytest.skip("no OpenCL")
    compiled = flambeau.compile(lambda x: (x * 2).sum(0))
    for where in ("cpu", device, "cpu", device):
        found = compiled(flambeau.ones(2, 3, device=where))
        assert found.device.type == where and found.shape == (3,)


CASES = {
    "complex": lambda: flambeau.randn(3, 4, dtype=flambeau.complex64),
    "empty": lambda: flambeau.ones(0, 4),
    "no columns": lambda: flambeau.ones(3, 0),
    "strided": lambda: flambeau.arange(24.0).reshape(4, 6)[:, ::2],
    "transposed": lambda: flambeau.arange(12.0).reshape(4, 3).T,
    "expanded": lambda: flambeau.arange(3.0)[:, None].expand(3, 4),
    "offset": lambda: flambeau.arange(24.0).reshape(4, 6)[1:, 2:],
    "flipped": lambda: flambeau.arange(12.0).reshape(3, 4).flip(0),
    "integers": lambda: flambeau.arange(12).reshape(3, 4),
    "booleans": lambda: flambeau.ones(3, 4) > 0,
    "halves": lambda: flambeau.ones(3, 4).half(),
    "conjugated": lambda: flambeau.randn(3, 4, dtype=flambeau.complex64).conj(),
}


def test_one_function_of_many_kinds_of_tensors():
    function = lambda x: (x * 2 + 1).sum(-1) * 3
    compiled = flambeau.compile(function)
    for _ in range(2):
        for make in CASES.values():
            flambeau.manual_seed(0)
            x = make()
            same(compiled(x), function(x))


def test_tensors_without_dimensions_and_numbers():
    function = lambda x, k: x * k + 1
    compiled = flambeau.compile(function)
    for k in (2, 2.5, True, flambeau.tensor(3), flambeau.tensor(1.5), np.float64(2.0)):
        for x in (flambeau.tensor(1.0), flambeau.tensor(2), flambeau.ones(2)):
            same(compiled(x, k), function(x, k))


Pair = namedtuple("Pair", "first second")


def test_keywords_and_nested_containers():
    def function(x, *rest, by=1, **more):
        total = x * by
        for y in rest:
            total = total + (y["deep"][0].first if isinstance(y, dict) else y)
        return {"total": [total, (total + 1,)], "more": {k: v * 2 for k, v in more.items()}}

    compiled = flambeau.compile(function)
    x = flambeau.ones(2)
    calls = [
        ((x,), {}),
        ((x, x), {"by": 3}),
        ((x, {"deep": [Pair(x + 4, 5)]}), {"z": x, "y": 2}),
        ((x, {"deep": [Pair(x + 4, 5)]}), {"y": 2, "z": x}),
    ]
    for args, kwargs in calls * 2:
        found, expected = compiled(*args, **kwargs), function(*args, **kwargs)
        same(found["total"][0], expected["total"][0])
        same(found["total"][1][0], expected["total"][1][0])
        assert list(found["more"]) == list(expected["more"])
        assert all(
            bool((found["more"][k] == v).all() if k == "z" else found["more"][k] == v)
            for k, v in expected["more"].items()
        )


def test_wrong_arguments_raise_as_in_python():
    compiled = flambeau.compile(lambda x, y=1: x + y)
    for _ in range(2):
        assert compiled(flambeau.ones(1)).item() == 2
        with pytest.raises(TypeError, match="positional argument"):
            compiled()
        with pytest.raises(TypeError, match="unexpected keyword"):
            compiled(flambeau.ones(1), z=2)


def test_a_result_that_is_an_argument_or_a_view_of_it():
    function = lambda x: (x, x[1:], x.T)
    compiled = flambeau.compile(function)
    for _ in range(2):
        x = flambeau.arange(6.0).reshape(2, 3)
        same_one, rest, turned = compiled(x)
        assert same_one is x
        rest.fill_(9)
        assert x[1].tolist() == [9, 9, 9] and turned[:, 1].tolist() == [9, 9, 9]


def test_results_do_not_share_memory_between_calls():
    held = flambeau.ones(3)
    compiled = flambeau.compile(lambda x: x * 0 + held)
    a = compiled(flambeau.ones(3))
    b = compiled(flambeau.ones(3))
    a.fill_(7)
    assert b.tolist() == [1, 1, 1] == held.tolist() == compiled(flambeau.ones(3)).tolist()


def test_a_backward_pass_after_another_call_and_twice():
    compiled = flambeau.compile(lambda x: (x * x).exp())
    x, y = flambeau.ones(2, requires_grad=True), flambeau.zeros(2, requires_grad=True)
    compiled(x)
    first = compiled(x)
    compiled(y)
    first.sum().backward(retain_graph=True)
    same(x.grad, 2 * flambeau.exp(flambeau.ones(2)))
    first.sum().backward()
    same(x.grad, 4 * flambeau.exp(flambeau.ones(2)))
    with pytest.raises(RuntimeError):
        first.sum().backward()


def test_a_write_to_what_backward_needs_is_seen():
    compiled = flambeau.compile(lambda x, w: (x * w).sum())
    for _ in range(2):
        x, w = flambeau.ones(2, requires_grad=True), flambeau.ones(2)
        loss = compiled(x, w)
        w.add_(1)
        with pytest.raises(RuntimeError, match="inplace|in place|modified"):
            loss.backward()
