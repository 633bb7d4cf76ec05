"""Forward mode within compiled functions: captured whole, with the values and the gradients of plain calls."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.autograd import forward_ad, functional
from flambeau.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vmap

F = nn.functional
NET = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
NORMED = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.GELU(), nn.Linear(4, 2))


def dual_level(x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x.cos())
        value, tangent = forward_ad.unpack_dual((dual * dual).softmax(-1))
    return value, tangent


def in_place(a):
    b = a * 2
    b[0] = a[1] * a[0]
    part = b[:, 1]
    b.mul_(a)
    part.exp_()
    return b, part * 1


def along_parameters(x):
    given = {name: p.detach() for name, p in NET.named_parameters()}
    ones = {name: torch.ones_like(p) for name, p in given.items()}
    return jvp(lambda p: functional_call(NET, p, (x,)), (given,), (ones,))


def with_buffers(x):
    given = {name: t.detach().clone() for name, t in NORMED.state_dict().items()}
    return jvp(lambda t: functional_call(NORMED, given, (t,)), (x,), (x.sin(),))


def linear_twice(x):
    out, along = linearize(lambda t: t.sin() * t, x)
    return out, along(x), along(x + 1)


def along(function):
    return lambda x: jvp(function, (x,), (x.cos(),))


def attention(x):
    return F.scaled_dot_product_attention(x[None], x[None], x[None])


FORWARD = {
    "along": along(torch.sin),
    "rows and products": along(lambda t: (t.softmax(-1) @ t.T).logsumexp(0)),
    "along twice": along(lambda u: jvp(lambda t: (t**3).sin(), (u,), (u,))[1]),
    "with more results": lambda x: jvp(lambda t: (t.exp(), t.sum()), (x,), (x,), has_aux=True),
    "columns": jacfwd(lambda x: x.sin() * x[0]),
    "few columns": lambda x: jacfwd(torch.sin)(x[0, :2]),
    "columns of two": lambda x: jacfwd(lambda a, b: a * b.sum(), argnums=(0, 1))(x, x + 1),
    "columns and more": jacfwd(lambda a: (a.exp(), a.sin()), has_aux=True),
    "second derivatives": hessian(lambda x: (x**3).sum()),
    "few second derivatives": lambda x: hessian(lambda t: (t**3).sum())(x[0, :2]),
    "of a network": hessian(lambda x: NET(x).square().sum()),
    "columns of columns": jacfwd(jacfwd(lambda x: (x**3).sum())),
    "rows of columns": jacrev(jacfwd(lambda x: (x**3).sum())),
    "linear": linear_twice,
    "dual level": dual_level,
    "written in place": along(in_place),
    "parameters": along_parameters,
    "buffers": with_buffers,
    "slices": vmap(lambda row: jvp(torch.tanh, (row,), (row * 2,))),
    "second derivatives of slices": vmap(hessian(lambda row: (row.sin() * row).sum())),
    "columns of slices": vmap(jacfwd(lambda row: row.cumsum(0) * row)),
    "over slices": along(vmap(lambda row: row.softmax(0))),
    "gradient over it": grad(lambda x: jvp(lambda t: (t**3).sum(), (x,), (x,))[1]),
    "over a gradient": along(grad(lambda t: (t**3).sum())),
    "singular values": along(torch.linalg.svdvals),
    "solutions": along(lambda t: torch.linalg.solve(t @ t.T + torch.eye(2), t)),
    "turned complex": along(lambda t: torch.complex(t, t * t).mH.abs()),
    "convolution": along(lambda t: F.conv1d(t[None], t[None, :, :2])),
    "sorted": along(lambda t: t.sort(-1).values.cummax(-1).values),
    "dtypes": along(lambda t: t.double() * t + t.half()),
    "norm": along(lambda t: F.layer_norm(t, (3,))),
    "attention": along(attention),
    "functional": lambda x: functional.jvp(torch.sin, x, x.cos()),
    "functional Jacobian": lambda x: functional.jacobian(
        torch.sin, x, strategy="forward-mode", vectorize=True
    ),
}


def leaves(tree):
    return torch.utils._pytree.tree_leaves(tree)


def made_by(function, number, required):
    """Results of a call, and gradients of their squares and of what these lead to."""
    x = (torch.arange(6.0).reshape(2, 3) / 5 + number / 8).requires_grad_(required)
    NET.zero_grad()
    results = leaves(function(x))
    back = [t for t in results if t.requires_grad]
    if back:
        sum(t.square().sum() for t in back).backward()
    return results, [x.grad, *(p.grad for p in NET.parameters())]


@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("required", [False, True])
def test_is_captured_whole(name, required):
    function = FORWARD[name]
    compiled = torch.compile(function, fullgraph=True)
    for k in range(3):
        (plain, gradients), (found, others) = (made_by(f, k, required) for f in (function, compiled))
        assert [t.requires_grad for t in found] == [t.requires_grad for t in plain]
        for a, b in zip((*plain, *gradients), (*found, *others), strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(b, a)
    assert compiled.captures == 1 and compiled.entries[0].hits == 2 and compiled.entries[0].why is None


@pytest.mark.parametrize("name", ["along", "columns", "second derivatives", "linear", "dual level"])
def test_derivatives_go_on_from_it(name):
    function, results = FORWARD[name], []
    compiled = torch.compile(function, fullgraph=True)
    for f in (function, compiled, compiled):
        x = torch.linspace(0.1, 1.0, 6).reshape(2, 3).requires_grad_()
        once = torch.autograd.grad(sum(t.square().sum() for t in leaves(f(x))), x, create_graph=True)
        results.append([*once, *torch.autograd.grad(once[0].square().sum(), x)])
    for found in results[1:]:
        for a, b in zip(results[0], found, strict=True):
            torch.testing.assert_close(b, a)


def test_other_shapes_are_captured_anew():
    compiled = torch.compile(hessian(lambda x: (x**3).sum()), fullgraph=True)
    for shape in ((2,), (5,), (2, 3), (5,), (0,)):
        x = torch.arange(1.0, 7.0)[: torch.Size(shape).numel()].reshape(shape)
        if x.numel():
            torch.testing.assert_close(compiled(x), hessian(lambda x: (x**3).sum())(x))
    assert compiled.captures <= 4


def test_a_function_that_writes_to_its_argument_gets_it_as_it_was():
    def writes(x):
        return x.mul_(2).sum(0)

    compiled = torch.compile(lambda x: jacfwd(writes)(x * 1), fullgraph=True)
    for k in range(2):
        x = torch.arange(6.0).reshape(2, 3) + k
        torch.testing.assert_close(compiled(x), jacfwd(writes)(x * 1))


def test_levels_are_closed_behind_errors_and_refusals():
    def fails(x):
        return jvp(lambda t: t @ t.new_ones(x.shape[0] + 1), (x,), (x,))

    def opens(x):
        forward_ad.enter_dual_level()
        return x + 1

    compiled = torch.compile(fails)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            compiled(torch.ones(3))
        assert forward_ad.unpack_dual(torch.ones(2)).tangent is None
        with pytest.raises(RuntimeError, match="no level exists"):
            forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert torch.equal(jvp(torch.sin, (torch.zeros(2),), (torch.ones(2),))[1], torch.ones(2))
    compiled = torch.compile(opens, fullgraph=True)
    with pytest.raises(RuntimeError, match="state of the thread"):
        compiled(torch.ones(3))
    forward_ad.exit_dual_level()


def test_leaves_that_are_made_within_are_no_inputs():
    def of_its_own(x, returned):
        w = torch.ones(3, requires_grad=True)
        y = (x * w).sum()
        return (y, w) if returned else y

    compiled = torch.compile(of_its_own)
    for returned in (False, False, True, True):
        x = torch.arange(3.0, requires_grad=True)
        result = compiled(x, returned)
        (result[0] if returned else result).backward()
        assert torch.equal(x.grad, torch.ones(3))
        if returned:
            assert result[1].is_leaf and torch.equal(result[1].grad, x.detach())
    alone = torch.compile(lambda x: of_its_own(x, False))
    for _ in range(2):
        result = alone(torch.arange(3.0))
        assert result.requires_grad
        result.backward()
