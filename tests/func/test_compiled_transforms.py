"""Transforms of functions within compiled functions: captured whole, with the values and the gradients of plain calls."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.func import functional_call, grad, grad_and_value, jacrev, stack_module_state, vjp, vmap

NET = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
LAYERS = [nn.Linear(3, 2) for _ in range(3)]


def loss(parameters, row):
    return functional_call(NET, parameters, (row,)).square().sum()


def detached():
    return {name: p.detach() for name, p in NET.named_parameters()}


def ensemble(x):
    parameters, buffers = stack_module_state(LAYERS)
    return vmap(lambda p, b, t: functional_call(LAYERS[0], (p, b), (t,)), in_dims=(0, 0, None))(
        parameters, buffers, x
    ).detach()


def meta(x):
    def inner(w, row):
        return w - 0.1 * grad(lambda w: (w * row).sin().sum())(w)

    return grad(lambda w: vmap(lambda row: (inner(w, row) * row).sum())(x).sum())(torch.ones(3))


TRANSFORMED = {
    "slices": vmap(lambda row: row.sum()),
    "two arguments": lambda x: vmap(torch.dot)(x, x + 1),
    "dimensions": lambda x: vmap(lambda a, b: (a * b, a.sum()), in_dims=(1, None), out_dims=(1, 0))(
        x, x[:, 0]
    ),
    "nested": vmap(vmap(lambda e: e * 2 + 1)),
    "outer and inner": lambda x: vmap(lambda a: vmap(lambda b: a * b)(x))(x),
    "chunks": vmap(lambda row: row.softmax(0), chunk_size=1),
    "module": lambda x: vmap(NET)(x),
    "views": vmap(lambda row: row.view(3, 1).expand(3, 2)[1:].flatten()),
    "dicts": lambda x: vmap(lambda d: {"y": d["x"].exp()}, in_dims=({"x": 0},))({"x": x}),
    "gradient": grad(lambda x: (x**2).sum()),
    "value and gradient": lambda x: grad_and_value(lambda a, b: (a**2 * b).sum(), argnums=(0, 1))(x, x + 1),
    "second derivative": lambda x: grad(lambda u: grad(lambda a: (a**3).sum())(u).square().sum())(x),
    "gradients of slices": vmap(grad(lambda row: (row.sin() ** 2).sum())),
    "gradients of parameters": lambda x: vmap(grad(loss), in_dims=(None, 0))(detached(), x),
    "ensemble": ensemble,
    "rows of a Jacobian": jacrev(lambda x: x.sum(0) * x[0]),
    "pulled back": lambda x: vjp(torch.sin, x)[1](x + 1)[0],
    "with more results": lambda x: grad(lambda a: ((a * a).sum(), a.exp()), has_aux=True)(x),
    "inner steps": meta,
    "random numbers": lambda x: vmap(lambda row: row + torch.rand(3), randomness="different")(x),
}


def leaves(tree):
    return torch.utils._pytree.tree_leaves(tree)


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("required", [False, True])
def test_is_captured_whole(name, required):
    function = TRANSFORMED[name]
    compiled = torch.compile(function, fullgraph=not required)
    for k in range(3):
        results = []
        for f in (function, compiled):
            x = (torch.arange(6.0).reshape(2, 3) / 5 + k).requires_grad_(required)
            NET.zero_grad()
            torch.manual_seed(k)
            made = leaves(f(x))
            back = [t for t in made if t.requires_grad]
            if back:
                sum(t.square().sum() for t in back).backward()
            results.append((made, [x.grad, *(p.grad for p in NET.parameters())]))
        (plain, gradients), (found, others) = results
        assert [t.requires_grad for t in found] == [t.requires_grad for t in plain]
        for a, b in zip((*plain, *gradients), (*found, *others), strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(b, a)
    if not required:
        assert compiled.captures == 1 and compiled.entries[0].hits == 2


def test_what_a_mapped_function_reads_is_guarded():
    factor = 2.0

    def scaled(x, flag):
        return vmap(lambda row: row * factor if flag else row + factor)(x)

    compiled = torch.compile(scaled, fullgraph=True)
    x = torch.ones(2, 3)
    for value, flag in ((2.0, True), (3.0, True), (3.0, False), (2.0, True)):
        factor = value
        assert torch.equal(compiled(x, flag), scaled(x, flag))
    assert compiled(torch.ones(4, 2), True).shape == (4, 2)


def test_errors_within_leave_nothing_on():
    def fails(x):
        return vmap(lambda row: row.sum() if row.shape[0] == 3 else row @ row.new_ones(7))(x)

    compiled = torch.compile(fails)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            compiled(torch.ones(2, 4))
        assert torch.equal(compiled(torch.ones(2, 3)), torch.full((2,), 3.0))
        assert torch.rand(2).shape == (2,) and not torch.func._transforms.is_transforming()
    looks = torch.compile(grad(lambda x: x.sum() if x.sum() > 0 else -x.sum()))
    for sign in (1.0, -1.0, 1.0):
        assert torch.equal(looks(torch.full((2,), sign)), torch.full((2,), sign))
    assert not torch.func._transforms.is_transforming()
