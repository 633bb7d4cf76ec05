"""Python's numbers that change between calls: inputs of a plan where operations take them, guards where the program looks at them."""

from __future__ import annotations

import math

import pytest
from flambeau.graph.guards import renewed

import flambeau as torch
from flambeau.codegen import build


def close(a, b):
    assert a.dtype == b.dtype and torch.allclose(a, b, rtol=1e-5, atol=1e-6), (a, b)


class Holder:
    def __init__(self, scale):
        self.scale = scale


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def forward(self, x):
        return (x * self.scale).tanh() + self.scale


HOLDER, STATE, FACTORS = Holder(1.0), {"scale": 1.0}, [1.0, 2.0]
X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


FUNCTIONS = {
    "argument": lambda x, k: (x * k).exp(),
    "on the left": lambda x, k: (k - x) / (k + 2),
    "parameter": lambda x, k: torch.add(x, x, alpha=k),
    "in place": lambda x, k: (x * 1).mul_(k).add_(1),
    "computed": lambda x, k: x * (k**2 + 1) - math.sqrt(abs(k)) * max(k, 0.5),
    "compared": lambda x, k: x * k if k > -1e9 else x,
    "in a list": lambda x, k: sum(x * c for c in [k, 2 * k]),
    "in a closure": lambda x, k: (lambda y: y * k)(x),
    "returned": lambda x, k: (x * k + k).sum(1),
    "of tensors": lambda x, k: torch.where(x > k, x, x.clamp(min=k)),
    "softmax": lambda x, k: (x / k).softmax(-1),
    "product": lambda x, k: (x @ x.T) * k + 1,
    "power": lambda x, k: (x.abs() + 1) ** k,
    "several kernels": lambda x, k: (x * k).sum(0, keepdim=True).cumsum(1) * k,
    "halves": lambda x, k: x.half() * k,
    "ints": lambda x, k: (x > 0).long() * int(k * 10),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_many_values_take_two_captures(name):
    function = FUNCTIONS[name]
    compiled = torch.compile(function, fullgraph=True)
    for n in range(100):
        k = 0.25 + n * 0.37
        close(compiled(X, k), function(X, k))
    assert compiled.captures == 2 and len(compiled.entries) == 2


def test_ints_are_followed_too():
    function = lambda x, k: x * k + 3 * k
    compiled = torch.compile(function, fullgraph=True)
    for k in [*range(50), -1, 2**40, -(2**60)]:
        close(compiled(X, k), function(X, k))
    assert compiled.captures == 2
    for each in (function, compiled):
        with pytest.raises(OverflowError, match="does not fit 64 bits"):
            each(X, 2**63 - 1)
    assert compiled.captures == 3, "an int that 64 bits do not hold"
    close(compiled(X, True), function(X, True))
    assert compiled.captures == 4, "of another class"


SOURCES = {
    "attribute": (lambda x: x * HOLDER.scale, lambda k: setattr(HOLDER, "scale", k)),
    "item": (lambda x: x * STATE["scale"] * FACTORS[0], lambda k: (STATE.update(scale=k), FACTORS.__setitem__(0, k + 1))),
    "global": (lambda x: x * GLOBAL, lambda k: globals().__setitem__("GLOBAL", k)),
}  # fmt: skip
GLOBAL = 1.0


@pytest.mark.parametrize("name", SOURCES)
def test_numbers_of_objects(name):
    function, change = SOURCES[name]
    compiled = torch.compile(function, fullgraph=True)
    for n in range(20):
        change(1.0 + n)
        close(compiled(X), function(X))
    assert compiled.captures <= 3


def test_a_number_of_a_module():
    module = Scaled()
    compiled = torch.compile(module, fullgraph=True)
    for n in range(20):
        module.scale = 1.0 + n / 7
        close(compiled(X), module(X))
    assert compiled._run.captures == 2


def test_what_the_program_looks_at_is_guarded():
    def function(x, k):
        if k > 2:
            return x * k
        return x.repeat(1, 1 + int(k)) - k

    compiled = torch.compile(function, fullgraph=True)
    for k in (0.5, 1.5, 3.0, 2.5, 0.25, 4.0, 1.75, 7.0, 100.0):
        close(compiled(X, k), function(X, k))
    assert compiled.captures == 4, (
        "the first, the same branch with any k but int(k), and another branch, with 0 and 1"
    )


LOOKS = {
    "a shape": lambda x, k: x.repeat(k, 1),
    "a range": lambda x, k: sum((x * i for i in range(k)), x),
    "an index": lambda x, k: x[:, k % 4],
    "a key": lambda x, k: x * {0: 1.0, 1: 2.0}.get(k, 3.0),
    "text": lambda x, k: (x, f"{k:3}"),
    "a set": lambda x, k: x * len({k, 2}),
    "a generator in C": lambda x, k: x * sum(i * k for i in (1, 2)),
    "a list in C": lambda x, k: x * sum([k, k]),
    "a sorted list": lambda x, k: x * sorted([k, 2])[0],
    "membership": lambda x, k: x * (k in (1, 2)),
    "a tensor": lambda x, k: x * torch.tensor([k, 1, 2, 3]),
    "a size": lambda x, k: x.sum() + torch.zeros(k + 1).sum() + torch.full((2,), k).sum(),
    "an attribute": lambda x, k: x * k.bit_length(),
    "identity": lambda x, k: x if k is None else x * k,
    "truth": lambda x, k: x if k else x + 1,
    "an item": lambda x, k: x.clone().index_fill_(0, torch.tensor([k % 3]), 1.0),
    "written": lambda x, k: torch.stack([x, x * 2]).index_select(0, torch.tensor(k % 2)),
    "arguments in a dict": lambda x, k: x.sum(**{"dim": k % 2}),
    "rounded": lambda x, k: x * round(k / 3, 1),
    "divmod": lambda x, k: x * divmod(k, 3)[0],
    "a maximum with a key": lambda x, k: x * max([k, 3], key=lambda v: -v),
    "an exception": lambda x, k: x * float(str(ValueError(k))),
    "zipped": lambda x, k: sum(x * a * b for a, b in zip([k, 1], [2, k])),
}


@pytest.mark.parametrize("name", LOOKS)
def test_looks_of_all_kinds_are_right(name):
    function = LOOKS[name]
    for dynamic in (None, True, False):
        compiled = torch.compile(function, dynamic=dynamic)
        for k in (0, 1, 2, 3, 5, 1, 2, 4):
            found, wanted = compiled(X, k), function(X, k)
            if isinstance(found, tuple):
                assert found[1] == wanted[1]
                found, wanted = found[0], wanted[0]
            close(found, wanted)


def test_what_is_returned_is_the_number_of_the_call():
    compiled = torch.compile(lambda x, k: {"x": x * k, "k": k, "twice": [2 * k]}, fullgraph=True)
    for k in (1.0, 2.0, 3.5, 4.5):
        found = compiled(X, k)
        assert found["k"] == k and found["twice"] == [2 * k] and type(found["k"]) is float
        close(found["x"], X * k)
    assert compiled.captures == 2


def test_special_numbers():
    compiled = torch.compile(lambda x, k: 1 / (x * 0 + k), fullgraph=True)
    for k in (1.0, 2.0, 0.0, -0.0, math.inf, math.nan):
        assert torch.equal(compiled(X, k), 1 / (X * 0 + k)) or math.isnan(k)
    assert compiled.captures == 2 and compiled(X, math.nan).isnan().all()


def test_dynamic():
    always, never = (
        torch.compile(FUNCTIONS["argument"], dynamic=True),
        torch.compile(FUNCTIONS["argument"], dynamic=False),
    )
    for k in (0.5, 1.5, 2.5):
        close(always(X, k), (X * k).exp())
        close(never(X, k), (X * k).exp())
    assert (always.captures, never.captures) == (1, 3)


def test_gradients_are_right():
    function = lambda x, k: (x * k).sin() * k
    compiled = torch.compile(function)
    for k in (0.5, 1.5, 2.5, 3.5):
        a, b = X.clone().requires_grad_(), X.clone().requires_grad_()
        close(compiled(a, k), function(b, k))
        compiled(a, k).sum().backward()
        function(b, k).sum().backward()
        close(a.grad, b.grad)


def test_a_step_without_gradients():
    def step(p, g, lr, beta):
        p.mul_(1 - lr * 0.01).add_(g, alpha=-lr / (1 - beta**2))
        return p

    compiled = torch.compile(step, fullgraph=True)
    p, q = X.clone(), X.clone()
    for n in range(30):
        close(compiled(p, X, 0.1 / (1 + n), 0.9 - n / 100), step(q, X, 0.1 / (1 + n), 0.9 - n / 100))
    assert compiled.captures == 3


def test_no_kernels_are_made_for_further_numbers():
    compiled = torch.compile(lambda x, k: (x * k).cos() - k, fullgraph=True)
    compiled(X, 1.0), compiled(X, 2.0)
    before = dict(build.statistics)
    for n in range(20):
        compiled(X, 3.0 + n)
    assert build.statistics == before


def test_numbers_of_their_own():
    for value in (0, 1, -1, 255, 2**29, 2**30, -(2**30), 2**60, 2**90, -(2**90) + 1, 1.5, -0.0):
        made = renewed(value)
        assert made == value and made is not value and type(made) is type(value) and repr(made) == repr(value)
        assert made + 1 == value + 1 and hash(made) == hash(value)
    with pytest.raises(TypeError, match="a float or an int expected, got bool"):
        renewed(True)
