"""Transformed distributions over a base: where their parameters live, and classes that look at every write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from everything import ARGUMENTS, arguments, law

import flambeau

D = flambeau.distributions
TRANSFORMED = sorted(n for n in ARGUMENTS if issubclass(getattr(D, n), D.TransformedDistribution))
OF_THE_BASE = {
    "HalfCauchy": ("scale",),
    "HalfNormal": ("scale",),
    "InverseGamma": ("concentration", "rate"),
    "LogNormal": ("loc", "scale"),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_class_that_looks_before_it_writes(name: str) -> None:
    """`base_dist` and `transforms` are attributes: asking whether they are there writes nothing."""

    class Watched(getattr(D, name)):  # type: ignore[misc]
        def __setattr__(self, key: str, value: Any) -> None:
            hasattr(self, key)
            object.__setattr__(self, key, value)

    given = arguments(name)
    made, plain = Watched(**given), law(name)
    assert made.base_dist is made.base_dist and len(made.transforms) >= 1
    value = plain.sample()
    np.testing.assert_array_equal(made.log_prob(value), plain.log_prob(value))


@pytest.mark.parametrize("name", sorted(OF_THE_BASE))
def test_parameters_are_those_of_the_base(name: str) -> None:
    """A parameter written into the base is the distribution's: its density, its moments and its expansion follow."""
    made, twice = law(name), {**arguments(name)}
    for key in OF_THE_BASE[name]:
        assert getattr(made, key) is getattr(made.base_dist, key) and key not in vars(made)
    changed = OF_THE_BASE[name][-1]
    twice[changed] = twice[changed] * 0.5
    setattr(made.base_dist, changed, twice[changed])
    other, value = getattr(D, name)(**twice), law(name).sample()
    np.testing.assert_array_equal(made.log_prob(value), other.log_prob(value))
    np.testing.assert_array_equal(made.mean, other.mean)
    np.testing.assert_array_equal(made.expand((3, 2)).variance, other.variance.expand(3, 2))
    with pytest.raises(AttributeError):
        setattr(made, changed, twice[changed])


def test_a_beta_distribution_reads_what_is_written_into_its_dirichlet() -> None:
    """Programs that restore parameters write them into the distribution of (x, 1 - x) that a beta distribution holds."""
    made = D.Beta(flambeau.tensor([1.0, 2.0]), flambeau.tensor([3.0, 4.0]))
    np.testing.assert_array_equal(made._dirichlet.concentration, [[1.0, 3.0], [2.0, 4.0]])
    made._dirichlet.concentration = flambeau.tensor([[5.0, 6.0], [7.0, 8.0]])
    other = D.Beta(flambeau.tensor([5.0, 7.0]), flambeau.tensor([6.0, 8.0]))
    value = flambeau.tensor([0.25, 0.5])
    np.testing.assert_array_equal(made.log_prob(value), other.log_prob(value))
    np.testing.assert_array_equal(made.expand((3, 2)).mean, other.mean.expand(3, 2))
    assert made.concentration1.tolist() == [5.0, 7.0] and made.concentration0.tolist() == [6.0, 8.0]
