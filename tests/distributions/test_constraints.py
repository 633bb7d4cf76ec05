"""Constraints: what lies in each region, shapes, what they say of themselves."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import flambeau
from flambeau.distributions import constraints as C

inf, nan = math.inf, math.nan
POINTS = [-inf, -1.5, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, inf, nan]


def members(test):
    return [bool(test(x)) for x in POINTS]


def whole(x):
    return math.isfinite(x) and x == int(x)


SCALARS = [
    (C.real, lambda x: not math.isnan(x)),
    (C.positive, lambda x: x > 0),
    (C.nonnegative, lambda x: x >= 0),
    (C.unit_interval, lambda x: 0 <= x <= 1),
    (C.greater_than(0.5), lambda x: x > 0.5),
    (C.greater_than_eq(0.5), lambda x: x >= 0.5),
    (C.less_than(0.5), lambda x: x < 0.5),
    (C.interval(-1.0, 2.0), lambda x: -1 <= x <= 2),
    (C.half_open_interval(-1.0, 2.0), lambda x: -1 <= x < 2),
    (C.boolean, lambda x: x in (0, 1)),
    (C.integer_interval(0, 2), lambda x: whole(x) and 0 <= x <= 2),
    (C.nonnegative_integer, lambda x: whole(x) and x >= 0),
    (C.positive_integer, lambda x: whole(x) and x >= 1),
    (C._IntegerLessThan(2), lambda x: whole(x) and x <= 2),
]


@pytest.mark.parametrize("constraint, test", SCALARS, ids=[repr(c) for c, _ in SCALARS])
def test_scalars(constraint, test):
    for dtype in (flambeau.float32, flambeau.float64, flambeau.float16):
        found = constraint.check(flambeau.tensor(POINTS, dtype=dtype))
        assert found.dtype is flambeau.bool and found.tolist() == members(test)
    integers = flambeau.tensor([-1, 0, 1, 2, 3])
    assert constraint.check(integers).tolist() == [bool(test(float(x))) for x in (-1, 0, 1, 2, 3)]
    assert constraint.check(flambeau.zeros(0, 3)).shape == (0, 3)
    assert constraint.event_dim == 0
    assert constraint.is_discrete == (constraint is C.boolean or "Integer" in repr(constraint))


def test_bounds_may_be_tensors():
    low, high = flambeau.tensor([0.0, 1.0]), flambeau.tensor([1.0, 4.0])
    value = flambeau.tensor([[0.5, 0.5], [2.0, 2.0]])
    assert C.interval(low, high).check(value).tolist() == [[True, False], [False, True]]
    assert C.greater_than(low).check(value).tolist() == [[True, False], [True, True]]
    assert C.integer_interval(0, high).check(value).tolist() == [[False, False], [False, True]]


VECTORS = [
    (C.one_hot, [[0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.0]], [True, False, False, False]),
    (C.simplex, [[0.2, 0.8, 0.0], [0.2, 0.9, -0.1], [0.2, 0.2, 0.2], [nan, 0.5, 0.5]], [True, False, False, False]),
    (C.multinomial(3), [[1.0, 2.0, 0.0], [3.0, 1.0, 0.0], [-1.0, 1.0, 1.0], [1.0, 0.0, 0.0]], [True, False, False, True]),
    (C.real_vector, [[1.0, -inf, 0.0], [nan, 0.0, 0.0]], [True, False]),
    (C.independent(C.positive, 1), [[1.0, 2.0, 0.5], [1.0, 2.0, 0.0]], [True, False]),
]  # fmt: skip


@pytest.mark.parametrize("constraint, values, expected", VECTORS, ids=[repr(c) for c, *_ in VECTORS])
def test_vectors(constraint, values, expected):
    assert constraint.event_dim == 1
    found = constraint.check(flambeau.tensor(values))
    assert found.tolist() == expected
    assert constraint.check(flambeau.zeros(2, 0, 3)).shape == (2, 0)


def test_matrices():
    lower = np.array([[2.0, 0.0], [1.0, 3.0]])
    unit = np.array([[1.0, 0.0], [0.6, 0.8]])
    definite = lower @ lower.T
    semi = np.array([[1.0, 1.0], [1.0, 1.0]])
    against = np.array([[1.0, 2.0], [2.0, 1.0]])
    bank = flambeau.tensor(np.stack([lower, unit, definite, semi, against, -lower]))
    expected = {
        "square": [1, 1, 1, 1, 1, 1],
        "lower_triangular": [1, 1, 0, 0, 0, 1],
        "lower_cholesky": [1, 1, 0, 0, 0, 0],
        "corr_cholesky": [0, 1, 0, 0, 0, 0],
        "symmetric": [0, 0, 1, 1, 1, 0],
    }
    for name, members in expected.items():
        constraint = getattr(C, name)
        assert constraint.check(bank).tolist() == [bool(x) for x in members], name
        assert constraint.event_dim == 2 and not constraint.is_discrete
    symmetric = bank[2:5]
    assert C.positive_definite.check(symmetric).tolist() == [True, False, False]
    assert C.positive_semidefinite.check(symmetric).tolist() == [True, True, False]
    # what is not even symmetric is told as symmetric and not
    assert C.positive_definite.check(bank).tolist() == [False, False, True, True, True, False]
    assert C.square.check(flambeau.zeros(4, 2, 3)).tolist() == [False] * 4
    assert not C.positive_definite.check(flambeau.zeros(2, 3))


def test_parts():
    parts = C.cat([C.positive, C.real, C.boolean], lengths=[1, 2, 1])
    assert parts.check(flambeau.tensor([1.0, -1.0, 2.0, 1.0])).tolist() == [True] * 4
    assert parts.check(flambeau.tensor([-1.0, nan, 2.0, 0.5])).tolist() == [False, False, True, False]
    assert parts.is_discrete and parts.event_dim == 0
    rows = C.stack([C.positive, C.simplex], dim=-2)
    assert (rows.event_dim, rows.is_discrete) == (2 if -2 + 1 < 0 else 1, False)
    columns = C.stack([C.positive, C.nonnegative], dim=-1)
    assert columns.check(flambeau.tensor([[0.0, 0.0], [1.0, -1.0]])).tolist() == [
        [False, True],
        [True, False],
    ]
    with pytest.raises(AssertionError, match="must match cseq"):
        C.cat([C.real], lengths=[1, 2])
    with pytest.raises(AssertionError, match="Constraint instances"):
        C.stack([C.real, 3])
    with pytest.raises(AssertionError, match="dim 3 out of range"):
        C.cat([C.real], dim=3).check(flambeau.zeros(2))


def test_independent_ones():
    constraint = C.independent(C.integer_interval(0, 2), 2)
    assert (constraint.event_dim, constraint.is_discrete) == (2, True)
    assert constraint.check(flambeau.ones(4, 2, 3)).tolist() == [True] * 4
    assert repr(constraint) == "IndependentConstraint(IntegerInterval(lower_bound=0, upper_bound=2), 2)"
    with pytest.raises(ValueError, match=r"Expected value.dim\(\) >= 2 but got 1"):
        constraint.check(flambeau.ones(2))
    for wrong in ((3, 1), (C.real, 1.0), (C.real, -1)):
        with pytest.raises(AssertionError):
            C.independent(*wrong)


def test_mixtures():
    constraint = C.MixtureSameFamilyConstraint(C.independent(C.positive, 1))
    assert constraint.check(flambeau.tensor([[1.0, 2.0], [1.0, -2.0]])).tolist() == [True, False]
    assert repr(constraint).startswith("MixtureSameFamilyConstraint(IndependentConstraint(")
    with pytest.raises(AssertionError):
        C.MixtureSameFamilyConstraint(3)


def test_dependent_ones():
    for attribute in ("is_discrete", "event_dim"):
        with pytest.raises(NotImplementedError, match="cannot be determined statically"):
            getattr(C.dependent, attribute)
    known = C.dependent(is_discrete=True)(event_dim=1)
    assert (known.is_discrete, known.event_dim, C.is_dependent(known)) == (True, 1, True)
    with pytest.raises(ValueError, match="dependent constraint"):
        C.dependent.check(flambeau.zeros(1))
    D = flambeau.distributions
    assert C.is_dependent(D.Uniform.support) and D.Uniform.support.event_dim == 0
    assert not C.is_dependent(D.Uniform(0.0, 1.0).support)
    assert C.is_dependent(D.Independent.support)
    with pytest.raises(NotImplementedError):
        _ = D.Independent.support.event_dim


@pytest.mark.parametrize(
    "constraint", [c for c, *_ in SCALARS + VECTORS] + [C.positive_definite, C.dependent], ids=repr
)
def test_copies(constraint):
    for again in (copy.deepcopy(constraint), pickle.loads(pickle.dumps(constraint))):
        assert type(again) is type(constraint) and repr(again) == repr(constraint)


def test_subclasses_are_asked():
    class Even(C.Constraint):
        is_discrete = True

        def check(self, value):
            return value % 2 == 0

    class Halves(flambeau.distributions.Normal):
        support = Even()

    made = Halves(0.0, 1.0)
    assert made.log_prob(flambeau.tensor(2.0)).item() < 0
    with pytest.raises(
        ValueError, match=r"support \(ven\(\)\)"
    ):  # names lose their first letter, as in PyTorch
        made.log_prob(flambeau.tensor(1.0))
    with pytest.raises(NotImplementedError):
        C.Constraint().check(flambeau.zeros(1))


def test_checks_are_off_the_tape():
    value = flambeau.tensor([0.5], requires_grad=True)
    for constraint, _ in SCALARS:
        assert not constraint.check(value).requires_grad
