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
