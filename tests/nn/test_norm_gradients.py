"""Normalisations with weight and bias have one node, whose derivative is two kernels: against finite differences, to both orders,
and whichever of its inputs want a gradient.
"""

import itertools

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.nn import functional as F

CALLS = {
    "layer_norm": lambda x, w, b: F.layer_norm(x, (4, 3), w, b),
    "rms_norm": lambda x, w, b: F.rms_norm(x, (4, 3), w) + (0 if b is None else b),
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "instance_norm": lambda x, w, b: F.instance_norm(x, None, None, w, b),
    "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
}


def operands(name, lead=(3,)):
    random = flambeau.Generator().manual_seed(7)
    make = lambda *shape: flambeau.randn(*shape, dtype=flambeau.float64, generator=random).requires_grad_()
    per = (4, 3) if name in ("layer_norm", "rms_norm") else (4,)
    return make(*lead, 4, 3), make(*per), make(*per)


@pytest.mark.parametrize("name", CALLS)
def test_both_orders(name):
    assert gradcheck(CALLS[name], operands(name)) and gradgradcheck(CALLS[name], operands(name))


@pytest.mark.parametrize("name,wanted", list(itertools.product(CALLS, itertools.product((0, 1), repeat=3))))
def test_only_what_is_wanted(name, wanted):
    """The same gradients whether the other inputs want one, and whether weight and bias are given where they are 1 and 0."""
    given = operands(name)
    every = flambeau.autograd.grad(CALLS[name](*given).square().sum(), given)
    some = [x.detach().requires_grad_(bool(on)) for x, on in zip(given, wanted)]
    if any(wanted):
        CALLS[name](*some).square().sum().backward()
    for x, on, full in zip(some, wanted, every):
        assert (
            (x.grad is None) if not on else np.allclose(x.grad.numpy(), full.numpy(), rtol=1e-12, atol=1e-12)
        )


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "instance_norm", "batch_norm"])
def test_weight_or_bias_alone(name):
    x, w, b = operands(name)
    one, zero = flambeau.ones_like(w).detach(), flambeau.zeros_like(b).detach()
    call = CALLS[name]
    for got, wanted in ((call(x, w, None), call(x, w, zero)), (call(x, None, b), call(x, one, b))):
        np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_one_row(name):
    """Nothing to add weights' gradients up over."""
    assert gradcheck(CALLS[name], operands(name, lead=()))


@pytest.mark.parametrize("name", CALLS)
def test_a_large_mean(name):
    """float32 gradients next to a mean of 100 keep four digits of float64's."""
    x, w, b = operands(name)
    leaves = [
        (x.detach() + 100).float().requires_grad_(),
        *(t.detach().float().requires_grad_() for t in (w, b)),
    ]
    wide = [t.detach().double().requires_grad_() for t in leaves]
    for given in (leaves, wide):
        CALLS[name](*given).sin().sum().backward()
    for a, t in zip(leaves, wide):
        assert (a.grad.double() - t.grad).abs().max() <= 1e-4 * max(t.grad.abs().max().item(), 1e-2)


def test_a_constant_channel_without_eps():
    x = flambeau.ones(2, 4, 3, requires_grad=True)
    out = F.instance_norm(x, None, None, flambeau.ones(4), flambeau.full((4,), 2.0), eps=0.0)
    out.sum().backward()
    assert out.equal(flambeau.full((2, 4, 3), 2.0)) and not x.grad.any()


@pytest.mark.parametrize("dtype", [flambeau.float16, flambeau.bfloat16])
def test_half_types_are_rounded_once(dtype):
    x, w, b = (flambeau.randn(*s).to(dtype).requires_grad_() for s in ((40, 64), (64,), (64,)))
    found = F.layer_norm(x, (64,), w, b)
    wide = F.layer_norm(x.detach().float(), (64,), w.detach().float(), b.detach().float())
    assert found.equal(wide.to(dtype))


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "instance_norm"])
def test_a_mean_of_ten_thousand_keeps_five_digits(name):
    """What rounding takes off the mean is taken off, too."""
    x, w, b = (t.detach().float() for t in operands(name))
    x = x + 12345.678
    got, true = CALLS[name](x, w, b), CALLS[name](x.double(), w.double(), b.double())
    assert (got.double() - true).abs().max() < 3e-5
