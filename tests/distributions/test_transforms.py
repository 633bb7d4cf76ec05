"""Transforms: inverses, Jacobians against autograd's, shapes, caches, composition; the registries over all constraints."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import flambeau
from flambeau.distributions import (
    Normal,
    TransformedDistribution,
    Uniform,
    biject_to,
    constraints,
    transform_to,
    transforms,
)
from flambeau.distributions.constraint_registry import ConstraintRegistry

T = transforms


def numbers(*shape):
    return flambeau.randn(
        *shape, dtype=flambeau.float64, generator=flambeau.Generator().manual_seed(sum(shape))
    )


# Each transform, and what it is given: numbers, or the absolute values of numbers.
CASES = {
    "exp": (T.ExpTransform(), (4,)),
    "power": (T.PowerTransform(flambeau.tensor([2.0, -1.5, 0.5, 1.0], dtype=flambeau.float64)), (3, 4)),
    "sigmoid": (T.SigmoidTransform(), (4,)),
    "softplus": (T.SoftplusTransform(), (4,)),
    "tanh": (T.TanhTransform(), (4,)),
    "affine": (T.AffineTransform(1.5, -2.0), (4,)),
    "affine of vectors": (T.AffineTransform(numbers(3), numbers(3), event_dim=1), (2, 3)),
    "stick breaking": (T.StickBreakingTransform(), (2, 4)),
    "correlations": (T.CorrCholeskyTransform(), (2, 6)),
    "identity": (T.identity_transform, (3,)),
    "composed": (T.ComposeTransform([T.AffineTransform(0.5, 2.0), T.TanhTransform()]), (4,)),
    "composed with vectors": (
        T.ComposeTransform([T.AffineTransform(0.1, 0.5), T.StickBreakingTransform()]),
        (2, 3),
    ),
    "inverse": (T.ExpTransform().inv.inv, (4,)),
    "independent": (T.IndependentTransform(T.TanhTransform(), 1), (2, 3)),
    "reshaped": (T.ReshapeTransform((4,), (2, 2)), (3, 4)),
    "cat": (T.CatTransform([T.ExpTransform(), T.TanhTransform()], dim=-1, lengths=[1, 3]), (2, 4)),
    "stack": (T.StackTransform([T.ExpTransform(), T.TanhTransform()], dim=-1), (3, 2)),
    "distribution": (T.CumulativeDistributionTransform(Normal(numbers(1)[0], 2.0)), (4,)),
}
NO_BIJECTIONS = {
    "abs": (T.AbsTransform(), (4,)),
    "softmax": (T.SoftmaxTransform(), (2, 4)),
    "lower": (T.LowerCholeskyTransform(), (2, 3, 3)),
    "positive definite": (T.PositiveDefiniteTransform(), (2, 3, 3)),
}


def given(name):
    transform, shape = (CASES | NO_BIJECTIONS)[name]
    x = numbers(*shape)
    return transform, x.abs() + 0.1 if name == "power" else x


def test_every_transform_is_tried():
    tried = {type(t) for t, _ in (*CASES.values(), *NO_BIJECTIONS.values())}
    named = {v for n in T.__all__ if inspect.isclass(v := getattr(T, n))}
    assert tried >= named - {T.Transform}


@pytest.mark.parametrize("name", CASES)
def test_inverses(name):
    transform, x = given(name)
    y = transform(x)
    assert transform.bijective and transform.inv.inv is transform
    assert flambeau.allclose(transform.inv(y), x, rtol=1e-8, atol=1e-8)
    assert transform.forward_shape(x.shape) == y.shape and transform.inverse_shape(y.shape) == x.shape
    assert transform.inv.forward_shape(y.shape) == x.shape and transform.inv.inverse_shape(x.shape) == y.shape
    assert transform.domain.check(x).all() and transform.codomain.check(y).all()
    assert transform.inv.domain.event_dim == transform.codomain.event_dim


@pytest.mark.parametrize("name", NO_BIJECTIONS)
def test_inverses_of_what_is_no_bijection(name):
    transform, x = given(name)
    y = transform(x)
    assert not transform.bijective
    assert flambeau.allclose(transform(transform.inv(y)), y, atol=1e-10)
    assert transform.codomain.check(y).all()


def independent_part(name, y):
    """Of an event with more numbers than degrees of freedom: those that decide it."""
    if name in ("stick breaking", "composed with vectors"):
        return y[..., :-1]
    if name == "correlations":
        return y[..., [1, 2, 2, 3, 3, 3], [0, 0, 1, 0, 1, 2]]
    return y


@pytest.mark.parametrize("name", CASES)
def test_jacobians(name):
    transform, x = given(name)
    found = transform.log_abs_det_jacobian(x, transform(x))
    event = (
        0 if name == "stack" else transform.domain.event_dim
    )  # whose Jacobian is that of each slice, as in PyTorch
    assert found.shape == x.shape[: x.dim() - event]

    def flat(z):
        return independent_part(name, transform(z.view(x.shape))).reshape(-1)

    whole = flambeau.autograd.functional.jacobian(flat, x.reshape(-1))
    # events do not depend on each other, so determinants multiply
    assert flambeau.allclose(found.sum(), flambeau.linalg.slogdet(whole).logabsdet, rtol=1e-8, atol=1e-8)
    back = transform.inv.log_abs_det_jacobian(transform(x), x)
    assert flambeau.allclose(back, -found)


@pytest.mark.parametrize(
    "name", ["exp", "power", "sigmoid", "softplus", "tanh", "affine", "composed", "inverse", "independent"]
)
def test_signs(name):
    transform, x = given(name)
    x = x.clone().requires_grad_()
    (slope,) = flambeau.autograd.grad(transform(x).sum(), x)
    sign = flambeau.as_tensor(transform.sign, dtype=x.dtype)
    assert flambeau.equal(slope.sign(), sign.expand(x.shape))


@pytest.mark.parametrize("name", CASES)
def test_caches(name):
    plain, x = given(name)
    transform = plain.with_cache(1)
    assert transform.with_cache(1) is transform
    y = transform(x)
    assert transform.inv(y) is x and transform(x) is y
    assert flambeau.equal(transform(x.clone()), y)
    assert repr(transform) == repr(plain)
    if name in ("exp", "power", "sigmoid", "softplus", "tanh", "affine", "stick breaking", "inverse"):
        assert plain == transform


def test_cache_sizes():
    with pytest.raises(ValueError, match="0 or 1"):
        T.ExpTransform(cache_size=2)

    class Odd(T.Transform):
        def __init__(self, n):
            super().__init__()

    with pytest.raises(NotImplementedError, match="with_cache"):
        Odd(3).with_cache()


@pytest.mark.parametrize("name", CASES)
def test_copies_and_pickles(name):
    transform, x = given(name)
    for other in (copy.deepcopy(transform), pickle.loads(pickle.dumps(transform))):
        assert flambeau.equal(other(x), transform(x))
        assert flambeau.allclose(other.inv(other(x)), x, rtol=1e-8, atol=1e-8)


def test_equality():
    assert T.ExpTransform() == T.ExpTransform() and T.ExpTransform() != T.TanhTransform()
    assert T.ExpTransform().inv == T.ExpTransform().inv and T.ExpTransform().inv != T.ExpTransform()
    one = flambeau.ones(2)
    assert T.AffineTransform(one, 2.0) == T.AffineTransform(one.clone(), 2.0) != T.AffineTransform(one, 3.0)
    assert T.PowerTransform(2.0) == T.PowerTransform(2.0) != T.PowerTransform(3.0)
    assert (
        T.ComposeTransform([T.ExpTransform()])
        == T.ComposeTransform([T.ExpTransform()])
        != T.ComposeTransform([])
    )


@pytest.mark.parametrize("x", [-1e4, -100.0, -20.0, 20.0, 100.0, 1e4])
def test_far_from_zero(x):
    at = flambeau.tensor(x, requires_grad=True)
    for transform in (T.SigmoidTransform(), T.SoftplusTransform(), T.TanhTransform()):
        y = transform(at)
        found = transform.log_abs_det_jacobian(at, y)
        assert y.isfinite() and found.isfinite()
        (slope,) = flambeau.autograd.grad(found, at)
        assert slope.isfinite()
    assert 0 < T.SigmoidTransform()(at) < 1


def test_wrong_shapes():
    with pytest.raises(ValueError, match="Too few dimensions"):
        T.IndependentTransform(T.ExpTransform(), 2)(flambeau.zeros(3))
    with pytest.raises(ValueError, match="different numbers"):
        T.ReshapeTransform((3,), (4,))
    with pytest.raises(ValueError, match="Shape mismatch"):
        T.ReshapeTransform((4,), (2, 2)).forward_shape((3, 5))
    with pytest.raises(ValueError, match="flattened"):
        T.CorrCholeskyTransform().forward_shape((4,))
    with pytest.raises(ValueError, match="not square"):
        T.CorrCholeskyTransform().inverse_shape((3, 4))
    for transform in (T.StickBreakingTransform(), T.SoftmaxTransform(), T.CorrCholeskyTransform()):
        with pytest.raises(ValueError, match="Too few"):
            transform.forward_shape(())
    with pytest.raises(AssertionError, match="Transform instances"):
        T.CatTransform([None])
    with pytest.raises(AssertionError, match="must equal"):
        T.StackTransform([T.ExpTransform()])(flambeau.zeros(2))
    with pytest.raises(AssertionError, match="out of range"):
        T.CatTransform([T.ExpTransform()], dim=1)(flambeau.zeros(1))
    with pytest.raises(ValueError, match=r"domain\.event_dim"):
        _ = T.ReshapeTransform((4,), (2, 2)).event_dim


# --- registries ----------------------------------------------------------------------------------------------------------
BOTH = {
    "real": (constraints.real, (3,)),
    "real_vector": (constraints.real_vector, (2, 3)),
    "positive": (constraints.positive, (3,)),
    "nonnegative": (constraints.nonnegative, (3,)),
    "greater_than": (constraints.greater_than(2.0), (3,)),
    "greater_than_eq": (constraints.greater_than_eq(flambeau.tensor([-2.0, 0.0, 2.0])), (3,)),
    "less_than": (constraints.less_than(-1.0), (3,)),
    "unit_interval": (constraints.unit_interval, (3,)),
    "interval": (constraints.interval(-1.0, flambeau.tensor(2.0)), (3,)),
    "half_open_interval": (constraints.half_open_interval(1.0, 2.0), (3,)),
    "simplex": (constraints.simplex, (2, 3)),
    "corr_cholesky": (constraints.corr_cholesky, (2, 3)),
    "independent": (constraints.independent(constraints.positive, 1), (2, 3)),
    "cat": (constraints.cat([constraints.positive, constraints.unit_interval], -1, [1, 2]), (2, 3)),
    "stack": (constraints.stack([constraints.positive, constraints.unit_interval], -1), (3, 2)),
}
ONTO = {
    "lower_cholesky": (constraints.lower_cholesky, (2, 3, 3)),
    "positive_definite": (constraints.positive_definite, (2, 3, 3)),
    "positive_semidefinite": (constraints.positive_semidefinite, (2, 3, 3)),
}
NEITHER = frozenset(
    """
    boolean integer_interval multinomial nonnegative_integer one_hot positive_integer lower_triangular square symmetric dependent
""".split()
)


def test_every_constraint_is_tried():
    named = {n for n in constraints.__all__ if n[0].islower()} - {"is_dependent", "dependent_property"}
    assert named == set(BOTH) | set(ONTO) | NEITHER


@pytest.mark.parametrize("name", BOTH)
def test_bijections_to_constraints(name):
    constraint, shape = BOTH[name]
    transform = biject_to(constraint)
    x = numbers(*shape).float()
    y = transform(x)
    assert transform.bijective and constraint.check(y).all()
    assert flambeau.allclose(transform.inv(y), x, rtol=1e-3, atol=1e-4)
    assert transform.log_abs_det_jacobian(x, y).isfinite().all()


@pytest.mark.parametrize("name", BOTH | ONTO)
def test_transforms_to_constraints(name):
    constraint, shape = (BOTH | ONTO)[name]
    y = transform_to(constraint)(numbers(*shape).float())
    assert constraint.check(y).all()
    assert flambeau.allclose(
        transform_to(constraint)(transform_to(constraint).inv(y)), y, rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("name", sorted(NEITHER))
def test_constraints_without_transforms(name):
    constraint = getattr(constraints, name)
    constraint = (
        constraint
        if isinstance(constraint, constraints.Constraint)
        else constraint(*[1] * (name[0] == "m" or 2))
    )
    for registry in (biject_to, transform_to):
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            registry(constraint)


def test_own_registries():
    registry = ConstraintRegistry()
    registry.register(constraints.positive, lambda c: T.SoftplusTransform())
    assert registry(constraints.greater_than(0.0)) == T.SoftplusTransform()
    with pytest.raises(TypeError, match="Constraint subclass"):
        registry.register(int, lambda c: None)


# --- transformed distributions -------------------------------------------------------------------------------------------
def test_logistic_distribution():
    loc, scale = flambeau.tensor([0.0, 1.0]), flambeau.tensor([1.0, 2.0])
    law = TransformedDistribution(
        Uniform(0.0, 1.0), [T.SigmoidTransform().inv, T.AffineTransform(loc, scale)]
    )
    assert law.batch_shape == (2,) and law.event_shape == () and law.has_rsample
    x = flambeau.tensor([[0.5], [-2.0]])
    z = (x - loc) / scale
    assert flambeau.allclose(law.log_prob(x), -z - scale.log() - 2 * (-z).exp().log1p(), atol=1e-5)
    assert flambeau.allclose(law.cdf(x), z.sigmoid(), atol=1e-6)
    assert flambeau.allclose(law.icdf(law.cdf(x)), x.expand(2, 2), atol=1e-4)
    assert law.rsample((5,)).shape == law.expand((3, 2)).sample((5,)).shape[0:1] + (2,)


def test_decreasing_transforms():
    law = TransformedDistribution(Normal(0.0, 1.0), T.AffineTransform(0.0, -1.0))
    x = flambeau.tensor(0.7)
    assert flambeau.allclose(law.cdf(x), Normal(0.0, 1.0).cdf(x))
    assert flambeau.allclose(law.icdf(flambeau.tensor(0.9)), Normal(0.0, 1.0).icdf(flambeau.tensor(0.9)))


def test_events_grow_with_transforms():
    law = TransformedDistribution(Normal(flambeau.zeros(2, 3), 1.0), T.StickBreakingTransform())
    assert law.batch_shape == (2,) and law.event_shape == (4,)
    x = law.sample((5,))
    assert x.shape == (5, 2, 4) and law.log_prob(x).shape == (5, 2) and law.support.check(x).all()
    shaped = TransformedDistribution(Normal(flambeau.zeros(4), 1.0), T.ReshapeTransform((4,), (2, 2)))
    assert shaped.event_shape == (2, 2) and shaped.log_prob(shaped.sample()).shape == ()
    assert shaped.expand((3,)).sample().shape == (3, 2, 2)


def test_a_cache_makes_log_prob_of_samples_exact():
    law = TransformedDistribution(Normal(0.0, 100.0), T.TanhTransform(cache_size=1))
    flambeau.manual_seed(0)
    x = law.rsample((100,))
    assert law.log_prob(x).isfinite().all()


def test_what_is_no_transform():
    with pytest.raises(ValueError, match="Transform or list"):
        TransformedDistribution(Normal(0.0, 1.0), "exp")
    with pytest.raises(ValueError, match="list of Transforms"):
        TransformedDistribution(Normal(0.0, 1.0), [abs])
    with pytest.raises(ValueError, match="at least 1"):
        TransformedDistribution(Normal(0.0, 1.0), T.StickBreakingTransform())
