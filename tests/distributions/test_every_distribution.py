"""What holds for every distribution: shapes, dtypes, expansion, copies, refusals."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest
from everything import ARGUMENTS, EVERY, D, arguments, law

import flambeau

SHAPES = ((), (3,), (4, 1), (0,))
VALUES = ("mean", "mode", "variance", "stddev")
# Half types: what is made of LAPACK's factors is for float32 and float64.
NO_HALF = ("LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart")


def optional(function):
    """The result, or None where the distribution does not define it."""
    try:
        return function()
    except NotImplementedError:
        return None


def test_the_table_is_whole():
    classes = {
        n for n in D.__all__ if inspect.isclass(getattr(D, n)) and issubclass(getattr(D, n), D.Distribution)
    }
    shown = {n.split()[0] for n in EVERY}
    assert classes - shown == {"Distribution", "ExponentialFamily"}


@pytest.mark.parametrize("name", EVERY)
def test_shapes(name):
    made = EVERY[name]()
    assert made.batch_shape == (2,)
    whole = made.batch_shape + made.event_shape
    for shape in SHAPES:
        drawn = made.sample(shape)
        assert drawn.shape == (*shape, *whole) and not drawn.requires_grad
        found = made.log_prob(drawn)
        assert found.shape == (*shape, 2) and bool(found.isfinite().all())
        if made.has_rsample:
            assert made.rsample(shape).shape == (*shape, *whole)
    for value in VALUES:
        found = optional(lambda: getattr(made, value))  # noqa: B023
        assert found is None or found.shape == whole
    entropy = optional(made.entropy)
    assert entropy is None or entropy.shape == (2,)
    if made.has_enumerate_support:
        values = made.enumerate_support()
        assert values.shape[1:] == whole
        assert made.enumerate_support(False).shape == (len(values), 1, *made.event_shape)
        np.testing.assert_allclose(made.log_prob(values).exp().sum(0).numpy(), [1, 1], rtol=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_expansion(name):
    made = EVERY[name]()
    wide = made.expand((5, 3, 2))
    assert type(wide) is type(made)
    assert (wide.batch_shape, wide.event_shape) == ((5, 3, 2), made.event_shape)
    assert wide.sample((2,)).shape == (2, 5, 3, 2, *made.event_shape)
    value = made.sample((4, 1))
    narrow = optional(lambda: made.log_prob(value))
    np.testing.assert_allclose(
        made.expand((3, 2)).log_prob(value).numpy(),
        np.broadcast_to(narrow.numpy(), (4, 3, 2)) if narrow.shape == (4, 1, 2) else narrow.numpy(),
        rtol=1e-6,
    )
    for what in VALUES:
        one = optional(lambda: getattr(made, what))  # noqa: B023
        if one is not None:
            many = getattr(wide, what).numpy()
            np.testing.assert_allclose(many, np.broadcast_to(one.numpy(), many.shape), rtol=1e-6)
    assert wide.expand((7, 5, 3, 2)).batch_shape == (7, 5, 3, 2)
    assert wide._validate_args == made._validate_args


@pytest.mark.parametrize("name", EVERY)
def test_what_is_not_defined_is_named(name):
    law = EVERY[name]()
    value = law.sample()
    for what in ("mean", "mode", "variance", "entropy", "cdf", "icdf", "rsample", "enumerate_support"):
        arguments = (value,) if what in ("cdf", "icdf") else ()
        try:
            found = getattr(law, what)
            if callable(found):
                found(*arguments)
        except NotImplementedError as error:
            assert str(error), f"{name}.{what}"
        except ValueError:  # a sample is no probability
            assert what == "icdf"


@pytest.mark.parametrize("name", EVERY)
def test_copies_and_pickles(name):
    made = EVERY[name]()
    value = made.sample()
    expected = made.log_prob(value).numpy()
    for again in (copy.deepcopy(made), copy.copy(made), pickle.loads(pickle.dumps(made))):
        assert type(again) is type(made) and repr(again) == repr(made)
        np.testing.assert_array_equal(again.log_prob(value).numpy(), expected)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_dtypes(name):
    for dtype in (flambeau.float32, flambeau.float64, *(() if name in NO_HALF else (flambeau.float16,))):
        made = law(name, dtype, validate_args=dtype is not flambeau.float16)
        drawn = made.sample((3,))
        assert drawn.dtype is (flambeau.int64 if name == "Categorical" else dtype)
        assert made.log_prob(drawn).dtype is dtype
        mean = optional(lambda: made.mean)  # noqa: B023
        assert mean is None or mean.dtype is dtype


# Whose densities have the dtype of the parameters, whatever the value's is; that of the value; the others' is promoted.
OF_PARAMETERS = {
    *("Categorical", "Chi2", "Gamma", "HalfCauchy", "MultivariateNormal", "OneHotCategorical"),
    *("OneHotCategoricalStraightThrough", "Uniform"),
}
OF_VALUE = {"Bernoulli"}


@pytest.mark.parametrize("name", [n for n in ARGUMENTS if n not in ("LowRankMultivariateNormal", "Wishart")])
@pytest.mark.parametrize("own, given", [("float32", "float64"), ("float64", "float32")])
def test_dtypes_of_densities_of_values_of_another(name, own, given):
    parameters, other = getattr(flambeau, own), getattr(flambeau, given)
    made = law(name, parameters, validate_args=False)
    drawn = made.sample()
    found = made.log_prob(drawn.to(other))
    wanted = parameters if name in OF_PARAMETERS else other if name in OF_VALUE else flambeau.float64
    assert found.dtype is wanted
    np.testing.assert_allclose(
        found.double().numpy(), made.log_prob(drawn).double().numpy(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", ARGUMENTS)
def test_empty_batches(name):
    given = {k: v[:0] if getattr(v, "ndim", 0) else v for k, v in arguments(name).items()}
    made = getattr(D, name)(**given)
    assert made.batch_shape == (0,)
    drawn = made.sample((3,))
    assert drawn.shape == (3, 0, *made.event_shape)
    assert made.log_prob(drawn).shape == (3, 0)


@pytest.mark.parametrize("name", [n for n in ARGUMENTS if law(n).has_rsample])
def test_gradients_of_samples_reach_every_parameter(name):
    given = arguments(name, grad=True)
    leaves = [v for v in given.values() if isinstance(v, flambeau.Tensor)]
    drawn = getattr(D, name)(**given).rsample((5,))
    assert drawn.requires_grad
    (drawn * flambeau.rand(drawn.shape, dtype=drawn.dtype)).sum().backward()
    for leaf in leaves:
        assert leaf.grad is not None and leaf.grad.isfinite().all()
    with flambeau.no_grad():
        assert not getattr(D, name)(**given).rsample((5,)).requires_grad


@pytest.mark.parametrize("name", ARGUMENTS)
def test_gradients_of_densities_reach_every_parameter(name):
    given = arguments(name, grad=True)
    leaves = [v for v in given.values() if isinstance(v, flambeau.Tensor)]
    made = getattr(D, name)(**given)
    made.log_prob(made.sample((5,))).sum().backward()
    for leaf in leaves:
        assert leaf.grad is not None and leaf.grad.isfinite().all()


BAD = [
    (name, parameter)
    for name in ARGUMENTS
    for parameter, value in ARGUMENTS[name].items()
    if isinstance(value, list)
]


@pytest.mark.parametrize("name, parameter", BAD)
def test_bad_parameters(name, parameter):
    """NaN satisfies nothing; each constraint refuses what lies outside it."""
    constraint = law(name).arg_constraints[parameter]
    outside = [float("nan")]
    if constraint.event_dim == 0 and not constraint.check(flambeau.tensor(-100.0)).all():
        outside.append(-100.0)
    for value in outside:
        given = arguments(name)
        given[parameter].view(-1)[0] = value
        if (name, parameter, value) == ("Wishart", "df", -100.0):  # refused in any case
            with pytest.raises(ValueError, match="Value of df=.* expected to be greater than"):
                getattr(D, name)(**given)
            continue
        with pytest.raises(ValueError, match="Expected parameter .* to satisfy the constraint") as caught:
            getattr(D, name)(**given)
        text = str(caught.value)
        assert parameter in text and "invalid values:\n" in text
        if name != "Uniform":  # where each end constrains the other
            assert f"parameter {parameter} " in text and repr(constraint)[:12] in text
        if name != "LowRankMultivariateNormal":  # of which a factor is computed
            getattr(D, name)(**given, validate_args=False)


@pytest.mark.parametrize("name", EVERY)
def test_bad_values(name):
    made = EVERY[name]()
    wrong = made.sample((3,)).double().contiguous()
    wrong.view(-1)[0] = float("nan")
    with pytest.raises(ValueError, match="to be within the support"):
        made.log_prob(wrong)
    with pytest.raises(ValueError, match="must be a Tensor"):
        made.log_prob(0.5)
    with pytest.raises(ValueError, match="broadcastable|right-most size"):
        made.log_prob(flambeau.ones(7))


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in ARGUMENTS
        if all(isinstance(v, list) and not isinstance(v[0], list) for v in ARGUMENTS[n].values())
    ],
)
def test_numbers_are_of_the_default_dtype(name):
    given = {k: v[0] for k, v in ARGUMENTS[name].items()}
    made = getattr(D, name)(**given)
    assert made.batch_shape == () and made.sample().shape == () and made.sample().dtype is flambeau.float32
    mixed = dict(given)
    first = next(iter(mixed))
    mixed[first] = flambeau.tensor([mixed[first]] * 3, dtype=flambeau.float64)
    assert getattr(D, name)(**mixed).sample().dtype is flambeau.float64
    flambeau.set_default_dtype(flambeau.float64)
    try:
        assert getattr(D, name)(**given).sample().dtype is flambeau.float64
    finally:
        flambeau.set_default_dtype(flambeau.float32)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_seeds_repeat(name):
    drawn = []
    for _ in range(2):
        flambeau.manual_seed(3)
        drawn.append(law(name).sample((17,)).numpy())
    np.testing.assert_array_equal(*drawn)
    assert (law(name).sample((17,)).numpy() != drawn[0]).any()
