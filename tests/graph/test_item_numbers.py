"""Numbers that a compiled function reads of tensors by `item`: captured whole, with the values of plain calls."""

from __future__ import annotations

import math

import pytest

import flambeau as torch
from flambeau import nn

NET = nn.Linear(3, 1)


def step(x):
    NET.zero_grad()
    loss = NET(x).square().mean()
    loss.backward()
    with torch.no_grad():
        for p in NET.parameters():
            p -= 0.1 * p.grad
    return loss.item()


def overwritten(x):
    s = x.sum()
    number = s.item()
    s.add_(1)
    return x * number, s, number


def logged(x):
    mean, most = (x * 2).mean().item(), x.max().item()
    return {"mean": mean, "list": [most, mean * 2 + 1]}, x * (mean / 3 - most) + most


def chained(x):
    mean = x.mean().item()
    return (x * mean + mean).sum().item() * x


def in_a_loop(x):
    for _ in range(3):
        x = x / x.norm().item() + x.mean().item()
    return x


CAPTURED = {
    "factor": lambda x: x.sum().item() * x,
    "result": lambda x: x.sum().item(),
    "integer": lambda x: (x > 2).sum().item() * x,
    "integer as result": lambda x: ((x > 2).sum().item(), (x > 9).sum().item() * 0.5),
    "written over later": overwritten,
    "in containers": logged,
    "of a number of a number": chained,
    "in a loop": in_a_loop,
    "float": lambda x: float(x.sum()) * x,
    "arithmetic": lambda x: x * (1.0 / (x.norm().item() + 1e-6) - -abs(x[0].item())),
    "functions": lambda x: x + math.sqrt(x.sum().item()) * math.exp(-x.mean().item()),
    "greatest": lambda x: x * max(x.mean().item(), 2.5) + min(1.0, x[0].item()),
    "in place": lambda x: x.clone().mul_(x.sum().item()).add_(x[1].item()),
    "half": lambda x: x.half() * x.sum().half().item(),
    "of integers": lambda x: x.long() * x.sum().item() + x.long().sum().item(),
    "chosen": lambda x: torch.where(x > x.mean().item(), x, x.min().item()),
    "clamped": lambda x: x.clamp(max=x.mean().item()),
    "row": lambda x: (x / x.mean().item()).softmax(-1) * x.sum().item(),
    "scaled addend": lambda x: torch.add(x, x, alpha=x.mean().item()),
    "scaled by a scalar tensor": lambda x: x.sum() * x.mean().item() + x[0] * x[1].item(),
    "whole step": step,
    "endless": lambda x: x * (x / 0).sum().item(),
}
LOOKED_AT = {
    "branch": lambda x: x if x.sum().item() > 3 else -x,
    "shape": lambda x: x.new_zeros(int(x.sum().item())),
    "text": lambda x: (f"{x.sum().item()}", x),
    "equality": lambda x: x.sum().item() == 6,
    "power": lambda x: x ** (x.mean().item() ** 0.5),
    "rounded": lambda x: x * round(x.mean().item()),
    "index": lambda x: x[x.argmax().item() - 1],
    "loop": lambda x: sum(x for _ in range(x.argmax().item())),
    "key": lambda x: {x.argmax().item(): x},
    "slice": lambda x: x[: x.argmax().item()],
    "filled": lambda x: torch.full((2,), x.sum().item()),
    "container of numbers": lambda x: x + sorted([x[1].item(), x[0].item()])[0],
    "class of an outcome": lambda x: x * max(x.mean().item(), 3),
}


def calls(function, numbers):
    results = []
    for k in numbers:
        with torch.no_grad():
            for p in NET.parameters():
                p.fill_(0.3)
        NET.zero_grad()
        results.append(function(torch.arange(3.0) + k + 1))
    return results


def same(found, plain):
    assert type(found) is type(plain)
    if isinstance(plain, torch.Tensor):
        torch.testing.assert_close(found, plain, equal_nan=True)
    elif isinstance(plain, dict):
        assert list(found) == list(plain)
        same(list(found.values()), list(plain.values()))
    elif isinstance(plain, (list, tuple)):
        assert len(found) == len(plain)
        for a, b in zip(found, plain):
            same(a, b)
    else:
        assert found == pytest.approx(plain, rel=1e-5) if isinstance(plain, float) else found == plain


@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("eager_numerics", [False, True])
def test_is_captured_whole(name, eager_numerics):
    compiled = torch.compile(CAPTURED[name], fullgraph=True, options={"eager_numerics": eager_numerics})
    same(calls(compiled, range(4)), calls(CAPTURED[name], range(4)))
    assert compiled.captures == 1 and compiled.entries[0].hits == 3


@pytest.mark.parametrize("name", LOOKED_AT)
def test_whoever_looks_at_one_refuses(name):
    same(calls(torch.compile(LOOKED_AT[name]), range(4)), calls(LOOKED_AT[name], range(4)))
    with pytest.raises(RuntimeError, match=r"looks at a value of a tensor|is not captured whole"):
        torch.compile(LOOKED_AT[name], fullgraph=True)(torch.arange(3.0))


@pytest.mark.parametrize("whole", [False, True])
def test_results_on_the_tape_beside_numbers(whole):
    def function(x):
        loss = (x * x).sum()
        return loss, loss.item(), x.detach() * loss.item()

    compiled = torch.compile(function, fullgraph=whole)
    for k in range(3):
        results = []
        for f in (function, compiled):
            x = (torch.arange(3.0) + k).requires_grad_()
            loss, number, scaled = f(x)
            loss.backward()
            results.append((loss.detach(), number, scaled, x.grad))
        same(results[1], results[0])
    assert compiled.captures == 1 and compiled.entries[0].hits == 2


def test_a_number_on_the_tape_is_looked_at():
    function = lambda x: x * x.detach().sum().item()
    compiled = torch.compile(function)
    for k in range(3):
        gradients = []
        for f in (function, compiled):
            x = (torch.arange(3.0) + k).requires_grad_()
            f(x).sum().backward()
            gradients.append(x.grad)
        assert torch.equal(*gradients)


def test_errors_of_arithmetic_are_python_s():
    function = lambda x: x * (1.0 / x.sum().item())
    compiled = torch.compile(function, fullgraph=True)
    for values in ([1.0, 2.0], [1.0, -1.0], [2.0, 2.0]):
        x = torch.tensor(values)
        if x.sum() == 0:
            with pytest.raises(ZeroDivisionError):
                compiled(x)
        else:
            torch.testing.assert_close(compiled(x), function(x))
    with pytest.raises(ZeroDivisionError):
        torch.compile(function)(torch.zeros(2))


def test_beside_numbers_that_vary():
    function = lambda x, scale: (x * scale * x.mean().item(), scale * x.mean().item())
    compiled = torch.compile(function)
    for k in range(6):
        x = torch.arange(3.0) + k
        same(compiled(x, k / 2), function(x, k / 2))


def test_backends_get_a_graph_that_computes_them():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(logged, backend=backend, fullgraph=True)
    same(calls(compiled, range(3)), calls(logged, range(3)))
    assert len(graphs) == 1
