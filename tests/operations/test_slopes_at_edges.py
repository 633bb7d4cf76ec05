"""Derivatives where pieces meet, where a branch is not taken, and where numbers are far out: of every pointwise operation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flambeau.core.call.pointwise import PointwiseOp

import flambeau
from flambeau.operations.declare.registry import REGISTRY

F = flambeau.nn.functional
PLACES = (
    0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.5,
    -0.5,
    10.0,
    -10.0,
    100.0,
    -100.0,
    1000.0,
    -1000.0,
    1e8,
    -1e8,
)
NEAR = 1e-3
NEEDED = {"log_odds_within": {"low": 0.25, "high": 0.75}, "threshold_of": {"threshold": 0.0, "value": 5.0}}
SMOOTH = {
    name: entry.function
    for name, entry in REGISTRY.items()
    if isinstance(entry.function, PointwiseOp)
    and entry.differentiable
    and not entry.function.declaration.raw
    and len(entry.function.declaration.operands) in (1, 2)
    and name not in ("complex", "polar")
}


def derivatives(name, at):
    """The first and the second derivatives of an operation at many places, for each operand or pair of operands."""
    at = [flambeau.tensor(x, dtype=flambeau.float64, requires_grad=True) for x in at]
    result = SMOOTH[name](*at, **NEEDED.get(name, {}))
    first = flambeau.autograd.grad(
        result.sum(), at, create_graph=True, allow_unused=True, materialize_grads=True
    )
    second = [
        g
        for part in first
        if part.requires_grad
        for g in flambeau.autograd.grad(
            part.sum(), at, retain_graph=True, allow_unused=True, materialize_grads=True
        )
    ]
    return np.stack([x.detach().numpy() for x in (result, *first)]), [x.detach().numpy() for x in second]


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_are_numbers_where_first_ones_are(name):
    """Where values and slopes are finite, and on a side are, too, a NaN is 0·inf: of a branch that is not taken, mostly."""
    count = len(SMOOTH[name].declaration.operands)
    at = [x.reshape(-1) for x in np.meshgrid(*[np.array(PLACES)] * count)]
    found, second = derivatives(name, at)
    usual = np.isfinite(found).all(0)
    for k in range(count):
        sides = [
            derivatives(name, [x + step * (j == k) for j, x in enumerate(at)])[0] for step in (NEAR, -NEAR)
        ]
        usual &= np.isfinite(sides[0]).all(0) | np.isfinite(sides[1]).all(0)
    assert usual.any(), "no place is compared"
    for g in second:
        wrong = usual & np.isnan(g)
        assert not wrong.any(), [tuple(float(x[i]) for x in at) for i in np.flatnonzero(wrong)]


def is_flat(name) -> bool:
    """Whether an operation of one operand has slope 0 at each of many places."""
    x = flambeau.linspace(-3.3, 3.7, 40, dtype=flambeau.float64, requires_grad=True)
    result = SMOOTH[name](x, **NEEDED.get(name, {}))
    return not result.is_complex() and not flambeau.autograd.grad(result.sum(), x)[0].any()


def test_step_functions_let_no_gradient_through():
    """Neither NaN nor infinity: sign(x) · √|x| has a slope at 0 that the root alone spoils."""
    steps = [n for n, op in SMOOTH.items() if len(op.declaration.operands) == 1 and is_flat(n)]
    assert {"sign", "sgn", "floor", "ceil", "trunc", "rounded", "is_counted"} <= set(steps)
    for name in steps:
        x = flambeau.tensor([0.0, 1.5, -2.5], requires_grad=True)
        for arriving in (math.nan, math.inf, -math.inf):
            (found,) = flambeau.autograd.grad(SMOOTH[name](x), x, flambeau.full((3,), arriving))
            assert not found.any(), name


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_probabilities_of_zero_and_one_have_finite_slopes(dtype):
    """(x - y) / max(x (1 - x), 1e-12), as PyTorch has it: a sigmoid that has come to 1 goes on learning."""
    x = flambeau.tensor([0.0, 0.0, 1.0, 1.0, 0.3], dtype=getattr(flambeau, dtype), requires_grad=True)
    y = flambeau.tensor([0.0, 1.0, 0.0, 1.0, 1.0], dtype=x.dtype)
    F.binary_cross_entropy(x, y, reduction="sum").backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.0, -1e12, 1e12, 0.0, -1 / 0.3], rtol=1e-6)
    score = flambeau.tensor([60.0, -200.0], dtype=x.dtype, requires_grad=True)
    F.binary_cross_entropy(score.sigmoid(), flambeau.tensor([1.0, 0.0], dtype=x.dtype)).backward()
    assert score.grad.isfinite().all()


def test_slopes_where_pieces_meet():
    """Those that PyTorch chooses."""

    def slopes(function, *at):
        x = flambeau.tensor(at, dtype=flambeau.float64, requires_grad=True)
        return flambeau.autograd.grad(function(x).sum(), x)[0].tolist()

    assert slopes(F.hardswish, -3.0, 3.0) == [0.0, 1.0]
    assert slopes(lambda x: flambeau.atan2(x * 1, x * 0), 0.0) == [0.0]
    assert slopes(lambda x: flambeau.atan2(x * 0, x * 1), 0.0) == [0.0]
    assert all(math.isnan(g) for g in slopes(flambeau.logit, -0.5, 1.5))
    assert slopes(lambda x: F.lp_pool1d(x[None], 2, 2), 0.0, 0.0, 3.0, 4.0) == pytest.approx(
        [0.0, 0.0, 0.6, 0.8]
    )


@pytest.mark.parametrize("function", (flambeau.median, flambeau.nanmedian))
def test_a_median_spreads_its_gradient_over_its_equals(function):
    x = flambeau.tensor([[2.0, 1.0, 2.0], [3.0, 3.0, 3.0]], requires_grad=True)
    function(x).backward()
    assert x.grad.tolist() == [[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]
    each = flambeau.func.vmap(flambeau.func.grad(function))(x.detach())
    third = 1 / 3
    np.testing.assert_allclose(each.numpy(), [[0.5, 0.0, 0.5], [third, third, third]], rtol=1e-6)


def test_lengths_of_complex_vectors_curve_where_an_element_is_zero():
    x = flambeau.tensor([0.0, 2.0, 3.0], dtype=flambeau.float64, requires_grad=True)
    (first,) = flambeau.autograd.grad(
        flambeau.linalg.vector_norm(flambeau.complex(x, x)), x, create_graph=True
    )
    (second,) = flambeau.autograd.grad(first[0], x)
    assert second[0].item() == pytest.approx(2 / math.sqrt(26))


@pytest.mark.parametrize(("dtype", "epsilon"), (("float32", 2.0**-24), ("float64", 2.0**-53)))
def test_slopes_of_sinc_near_zero(dtype, epsilon):
    """-π² x / 3 (1 - π² x² / 10 + …), which a quotient of what nearly cancels is not."""
    x = flambeau.tensor([1e-6, -1e-4, 1e-3, 1e-2], dtype=getattr(flambeau, dtype), requires_grad=True)
    (first,) = flambeau.autograd.grad(flambeau.sinc(x).sum(), x, create_graph=True)
    (second,) = flambeau.autograd.grad(first.sum(), x)
    at = x.detach().double().numpy()
    z = (math.pi * at) ** 2
    slopes = -(math.pi**2) * at / 3 * (1 - z / 10 + z**2 / 280 - z**3 / 15120)
    curves = -(math.pi**2) / 3 * (1 - 3 * z / 10 + z**2 / 56 - z**3 / 2160)
    np.testing.assert_allclose(first.detach().numpy(), slopes, rtol=8 * epsilon)
    np.testing.assert_allclose(second.numpy(), curves, rtol=8 * epsilon)


@pytest.mark.parametrize(
    "function", (F.relu, F.relu6, F.hardtanh, F.elu, F.celu, F.softshrink, F.hardshrink, F.leaky_relu, F.selu)
)
@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_no_piece_takes_a_nan_for_its_own(function, dtype):
    """Each piece is left by a comparison, which NaN fails: its slope is the middle's, so that a gradient says where NaN was."""
    x = flambeau.tensor([math.nan, 1.0], dtype=getattr(flambeau, dtype), requires_grad=True)
    (slopes,) = flambeau.autograd.grad(function(x).sum(), x)
    leaky = 0.01 if function is F.leaky_relu else 1.0
    expected = 1.0507009873554805 if function is F.selu else leaky
    np.testing.assert_allclose(slopes[0].float().item(), expected, rtol=1e-2)


def test_a_distance_from_nan_has_no_slope():
    """PyTorch's sign of NaN is 0."""
    x = flambeau.tensor([math.nan, 0.0, -2.0], requires_grad=True)
    for function in (flambeau.abs, lambda x: F.l1_loss(x, flambeau.zeros(3), reduction="sum")):
        assert flambeau.autograd.grad(function(x).sum(), x)[0].tolist() == [0.0, 0.0, -1.0]


@pytest.mark.parametrize("function", (flambeau.maximum, flambeau.minimum))
def test_beside_nan_both_sides_have_the_gradient(function):
    x, y = (flambeau.tensor(at, requires_grad=True) for at in ([math.nan, 1.0, 1.0], [2.0, math.nan, 1.0]))
    for slopes in flambeau.autograd.grad(function(x, y).sum(), (x, y)):
        assert slopes.tolist() == [1.0, 1.0, 0.5]
