"""Writes into memory that an operand shares: right, or refused as PyTorch refuses them."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import autograd
from flambeau.operations.declare.registry import REGISTRY

N = 4
PARTLY = "unsupported operation: some elements"
REPEATED = "unsupported operation: more than one element"
MODIFIED = "modified by an inplace operation"

# what is written to, and the operand, as functions of a square base
PAIRS = {
    "same tensor": (lambda x: x, lambda x: x),
    "view of all": (lambda x: x, lambda x: x.view(-1).view(N, N)),
    "transpose": (lambda x: x, lambda x: x.t()),
    "row": (lambda x: x, lambda x: x[1]),
    "row repeated": (lambda x: x, lambda x: x[:1].expand(N, N)),
    "same rows": (lambda x: x[1:], lambda x: x[1:]),
    "other rows": (lambda x: x[:2], lambda x: x[2:]),
    "next rows": (lambda x: x[1:], lambda x: x[:-1]),
    "next columns": (lambda x: x[:, 1:], lambda x: x[:, :-1]),
    "other columns": (lambda x: x[:, ::2], lambda x: x[:, 1::2]),
    "same columns": (lambda x: x[:, ::2], lambda x: x[:, ::2]),
    "steps": (lambda x: x.view(-1)[::2], lambda x: x.view(-1)[:8]),
    "windows": (lambda x: x[0], lambda x: x.as_strided((N,), (N + 1,), 0)),
    "column turned": (lambda x: x[:, 0], lambda x: x.t()[0]),
}
IN_PLACE = [
    e
    for e in REGISTRY.values()
    if e.kind == "pointwise" and e.in_place and len(e.details["operands"]) > 1 and "float64" in e.dtypes
]  # fmt: skip


def parameters(entry) -> dict:
    signature = entry.function.__signature__
    names = entry.details["operands"]
    return {n: 0.5 for n, p in signature.parameters.items() if p.default is p.empty and n not in names}


def others(entry, target, place: int) -> list:
    """The other operands than the first and the one at `place`: of their own memory."""
    low, high = entry.domain
    rng = np.random.default_rng(7)
    made = []
    for k, name in enumerate(entry.details["operands"]):
        values = rng.uniform(low, high, tuple(target.shape))
        if name in ("condition", "mask"):
            values = values > (low + high) / 2
        if k not in (0, place):
            made.append(flambeau.tensor(values))
    return made


def written(entry, base, pair, place: int, copies: bool):
    """The base after the operation wrote to a part of it; `copies`: computed from operands of their own memory."""
    target, operand = (f(base) for f in PAIRS[pair])
    given = others(entry, target, place)
    given.insert(place - 1, operand.clone() if copies else operand)
    if not copies:
        entry.in_place(target, *given, **parameters(entry))
        return base
    found = entry.function(target.clone(), *given, **parameters(entry)).to(base.dtype)
    result = base.clone()
    PAIRS[pair][0](result).copy_(found)
    return result


@pytest.mark.parametrize("pair", PAIRS)
def test_every_operation(pair):
    """Values as from copies, gradients as finite differences say; or PyTorch's errors."""
    right = refused = 0
    for entry in IN_PLACE:
        low, high = entry.domain
        for place in range(1, len(entry.details["operands"])):
            if entry.details["operands"][place] in ("condition", "mask"):
                continue
            rng = np.random.default_rng(place)
            start = flambeau.tensor(rng.uniform(low, high, (N, N)))
            expected = written(entry, start.clone(), pair, place, True)
            a = start.clone().requires_grad_(entry.differentiable)
            try:
                got = written(entry, a * 1, pair, place, False)
            except RuntimeError as error:
                assert PARTLY in str(error), (entry.name, place, error)
                assert pair in ("transpose", "row", "row repeated", "next rows"), (entry.name, place)
                refused += 1
                continue
            np.testing.assert_array_equal(
                got.detach().numpy(), expected.numpy(), err_msg=f"{entry.name} {place}"
            )
            if not got.requires_grad:
                continue
            weights, u = flambeau.tensor(rng.normal(size=(2, N, N))).unbind()
            try:
                (g,) = autograd.grad((got * weights).sum(), a, allow_unused=True)
            except RuntimeError as error:
                assert MODIFIED in str(error), (entry.name, place, error)
                refused += 1
                continue
            h = 1e-6
            ahead, behind = (written(entry, start + s * h * u, pair, place, True) for s in (1, -1))
            slope = (((ahead - behind) * weights).sum() / (2 * h)).item()
            found = 0.0 if g is None else (g * u).sum().item()
            assert abs(found - slope) < 1e-4 * (1 + abs(slope)), (entry.name, place, slope)
            right += 1
    assert right + refused > 15
    if pair in (
        "other rows",
        "other columns",
    ):  # they share a storage, no elements: an operand is saved, and refused
        assert right > 5


@pytest.mark.parametrize("pair", PAIRS)
def test_out(pair):
    """Results written over operands."""
    for entry in IN_PLACE:
        for place in range(1, len(entry.details["operands"])):
            if entry.details["operands"][place] in ("condition", "mask"):
                continue
            base = flambeau.tensor(np.random.default_rng(place).uniform(*entry.domain, (N, N)))
            expected = written(entry, base.clone(), pair, place, True)
            target, operand = (f(base) for f in PAIRS[pair])
            given = others(entry, target, place)
            given.insert(place - 1, operand)
            if not expected.dtype == entry.function(target.clone(), *given, **parameters(entry)).dtype:
                continue
            try:
                entry.function(target, *given, **parameters(entry), out=target)
            except RuntimeError as error:
                assert PARTLY in str(error), (entry.name, error)
                continue
            np.testing.assert_array_equal(base.numpy(), expected.numpy(), err_msg=f"{entry.name} {place}")


INDEX = flambeau.tensor([2, 0, 3, 1])
MASK = flambeau.tensor([[True, False, True, False], [False, True, False, True]] * 2)
LIBRARY = {
    "copy_": lambda x, y: x.copy_(y),
    "setitem": lambda x, y: x.__setitem__(slice(None), y),
    "index_put_": lambda x, y: x.index_put_((INDEX,), y),
    "index_put_ accumulate": lambda x, y: x.index_put_((INDEX,), y, accumulate=True),
    "index_add_": lambda x, y: x.index_add_(0, INDEX, y),
    "index_copy_": lambda x, y: x.index_copy_(0, INDEX, y),
    "scatter_": lambda x, y: x.scatter_(0, INDEX.view(N, 1).expand(N, N), y),
    "scatter_add_": lambda x, y: x.scatter_add_(0, INDEX.view(N, 1).expand(N, N), y),
    "scatter_reduce_ sum": lambda x, y: x.scatter_reduce_(0, INDEX.view(N, 1).expand(N, N), y, "sum"),
    "scatter_reduce_ prod": lambda x, y: x.scatter_reduce_(0, INDEX.view(N, 1).expand(N, N), y, "prod"),
    "scatter_reduce_ amax": lambda x, y: x.scatter_reduce_(0, INDEX.view(N, 1).expand(N, N), y, "amax", include_self=False),
    "masked_fill_": lambda x, y: x.masked_fill_(MASK, y[0, 0]),
    "masked_scatter_": lambda x, y: x.masked_scatter_(MASK, y),
    "put_": lambda x, y: x.put_(INDEX, y[0]),
    "fill_": lambda x, y: x.fill_(y[1, 1]),
    "addmm_": lambda x, y: x.addmm_(y, y),
    "addmm_ beta": lambda x, y: x.addmm_(y, y, beta=0.5, alpha=2.0),
    "addmv_": lambda x, y: x[0].addmv_(y, y[1]),
    "addr_": lambda x, y: x.addr_(y[0], y[1]),
    "baddbmm_": lambda x, y: x.unsqueeze(0).baddbmm_(y.unsqueeze(0), y.unsqueeze(0)),
    "cumsum_": lambda x, y: x.cumsum_(0),
    "fill_diagonal_": lambda x, y: x.fill_diagonal_(2.0),
    "tril_": lambda x, y: x.tril_(),
    "index_fill_": lambda x, y: x.index_fill_(0, INDEX[:2], y[0, 0]),
}  # fmt: skip
OPERANDS = {
    "same tensor": lambda x: x,
    "view of all": lambda x: x.view(-1).view(N, N),
    "transpose": lambda x: x.t(),
}


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("name", LIBRARY)
def test_operations_of_libraries(name, operand):
    write, share = LIBRARY[name], OPERANDS[operand]
    rng = np.random.default_rng(3)
    start, weights, u = flambeau.tensor(rng.normal(size=(3, N, N))).unbind()

    def apart(base):
        result = base.clone()
        write(result, share(base.clone()))
        return result

    a = start.clone().requires_grad_()
    x = a * 1
    try:
        write(x, share(x))
        np.testing.assert_allclose(x.detach().numpy(), apart(start).numpy(), rtol=1e-13)
        (g,) = autograd.grad((x * weights).sum(), a)
    except RuntimeError as error:
        assert any(known in str(error) for known in (PARTLY, MODIFIED)), error
        return
    h = 1e-6
    slope = (((apart(start + h * u) - apart(start - h * u)) * weights).sum() / (2 * h)).item()
    assert abs((g * u).sum().item() - slope) < 1e-5 * (1 + abs(slope))


def test_the_real_and_the_imaginary_part():
    """A complex tensor is written through a real view of it, and read through the other one."""
    rng = np.random.default_rng(5)
    start, u, w = (flambeau.tensor(rng.normal(size=(3, 2))) for _ in range(3))

    def through(pairs, inside):
        z = flambeau.view_as_complex(pairs if not inside else pairs * 1)
        z = z * 1
        if inside:
            z.real.mul_(2.0)
            z.imag.add_(z.real.detach())
            flambeau.view_as_real(z)[0].sin_()
            return (flambeau.view_as_real(z) * w).sum()
        real, imag = z.real * 2.0, z.imag
        both = flambeau.stack([real, imag + real.detach()], -1)
        return (flambeau.cat([both[:1].sin(), both[1:]]) * w).sum()

    a, b = start.clone().requires_grad_(), start.clone().requires_grad_()
    inside, outside = through(a, True), through(b, False)
    np.testing.assert_allclose(inside.item(), outside.item(), rtol=1e-14)
    (g,), (expected,) = autograd.grad(inside, a), autograd.grad(outside, b)
    np.testing.assert_allclose(g.numpy(), expected.numpy(), rtol=1e-12)
    base = start.clone().requires_grad_()
    x = base * 1
    flambeau.view_as_complex(x).mul_(1j)
    (g,) = autograd.grad((x * w).sum(), base)
    turned = np.stack([w.numpy()[:, 1], -w.numpy()[:, 0]], -1)
    np.testing.assert_allclose(g.numpy(), turned, rtol=1e-14)


WRITES = {
    "setitem": lambda x: x.__setitem__(..., 1.0),
    "copy_": lambda x: x.copy_(flambeau.ones(3)),
    "add_": lambda x: x.add_(1),
    "exp_": lambda x: x.exp_(),
    "random_": lambda x: x.random_(),
    "uniform_": lambda x: x.uniform_(),
    "normal_": lambda x: x.normal_(),
    "exponential_": lambda x: x.exponential_(),
    "bernoulli_": lambda x: x.bernoulli_(),
    "cumsum_": lambda x: x.cumsum_(0),
    "scatter_": lambda x: x.scatter_(0, flambeau.tensor([0]), 1.0),
    "scatter_add_": lambda x: x.scatter_add_(0, flambeau.tensor([0]), flambeau.ones(1)),
    "scatter_reduce_": lambda x: x.scatter_reduce_(0, flambeau.tensor([0]), flambeau.ones(1), "amax"),
    "index_add_": lambda x: x.index_add_(0, flambeau.tensor([0]), flambeau.ones(1)),
    "index_copy_": lambda x: x.index_copy_(0, flambeau.tensor([0]), flambeau.ones(1)),
    "put_": lambda x: x.put_(flambeau.tensor([0]), flambeau.ones(1)),
    "masked_scatter_": lambda x: x.masked_scatter_(flambeau.ones(3) > 0, flambeau.ones(3)),
    "out of add": lambda x: flambeau.add(flambeau.ones(3), 1, out=x),
    "out of sum": lambda x: flambeau.sum(flambeau.ones(3, 2), 1, out=x),
    "out of cumsum": lambda x: flambeau.cumsum(flambeau.ones(3), 0, out=x),
    "out of sort": lambda x: flambeau.sort(
        flambeau.ones(3), out=(x, flambeau.zeros(3, dtype=flambeau.int64))
    ),
    "out of arange": lambda x: flambeau.arange(3.0, out=x),
    "out of rand": lambda x: flambeau.rand(3, out=x),
    "out of cat": lambda x: flambeau.cat([flambeau.ones(3)], out=x),
    "out of mv": lambda x: flambeau.mv(flambeau.ones(3, 3), flambeau.ones(3), out=x),
    "addmv_": lambda x: x.addmv_(flambeau.ones(3, 3), flambeau.ones(3)),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_into_expanded_tensors(name):
    """Several elements in one place cannot be written: the error comes before anything is."""
    x = flambeau.zeros(1).expand(3)
    with pytest.raises(RuntimeError, match=REPEATED):
        WRITES[name](x)
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_one_number_may_be_written_everywhere():
    """As in PyTorch, `fill_` and `zero_` may meet a place more than once."""
    x = flambeau.zeros(1).expand(3)
    assert x.fill_(2.0).tolist() == [2.0] * 3 and x.zero_().tolist() == [0.0] * 3
    x[0] = 5.0
    assert x.tolist() == [5.0] * 3
