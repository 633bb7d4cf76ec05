"""Constraints: regions in which parameters and values of distributions lie.

A constraint tells of each event of a tensor whether it lies in the region (`check`), how many rightmost dimensions make an
event (`event_dim`), and whether the region is discrete (`is_discrete`).  NaN lies in none.

| constraint | region |
|---|---|
| `real`, `real_vector` | numbers, infinite ones included; vectors of them |
| `positive`, `nonnegative`, `unit_interval` | x > 0, x >= 0, 0 <= x <= 1 |
| `greater_than(l)`, `greater_than_eq(l)`, `less_than(u)` | half lines |
| `interval(l, u)`, `half_open_interval(l, u)` | l <= x <= u, l <= x < u |
| `boolean`, `integer_interval(l, u)`, `nonnegative_integer`, `positive_integer` | whole numbers |
| `one_hot`, `multinomial(n)`, `simplex` | vectors: of one 1, of counts with sum <= n, of weights with sum 1 |
| `square`, `symmetric`, `positive_semidefinite`, `positive_definite` | matrices |
| `lower_triangular`, `lower_cholesky`, `corr_cholesky` | triangular matrices; with positive diagonal; with rows of norm 1 |
| `independent(c, n)`, `cat(cs, dim, lengths)`, `stack(cs, dim)` | made of others |
| `dependent`, `dependent_property` | what other parameters decide |

>>> import flambeau
>>> from flambeau.distributions import constraints
>>> constraints.positive.check(flambeau.tensor([1.0, 0.0, float("nan")]))
tensor([ True, False, False])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.base.typeinfo import finfo
from ..core.make.create import tensor
from ..core.places.join import cat as joined
from ..core.places.join import stack as stacked
from ..operations.linalg.decompositions import eigvalsh
from ..operations.linalg.lapack import cholesky_ex
from ._fused import fn, question

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


def _is_whole(x: Any) -> Any:
    """Whether an element is a whole number; infinity is none."""
    if not fn.is_float(x.dtype):
        return x == x
    return (fn.floor(x) == x) & (x - x == 0)


@question
def _is_boolean(value):
    return (value == 0) | (value == 1)


@question
def _lies_within(value, low, high):
    return (low <= value) & (value <= high)


@question
def _lies_half_open(value, low, high):
    return (low <= value) & (value < high)


@question
def _is_whole_within(value, low, high):
    return _is_whole(value) & (low <= value) & (value <= high)


@question
def _is_whole_from(value, low):
    return _is_whole(value) & (low <= value)


@question
def _is_whole_to(value, high):
    return _is_whole(value) & (value <= high)


def _tensor(value: Any) -> Any:
    return value if isinstance(value, TensorBase) else tensor(value)


class Constraint:
    """A region; subclasses define `check`, and set `is_discrete` and `event_dim`.

    >>> from flambeau.distributions import constraints
    >>> class Even(constraints.Constraint):
    ...     is_discrete = True
    ...     def check(self, value):
    ...         return value % 2 == 0
    >>> import flambeau
    >>> Even().check(flambeau.tensor([1, 2]))
    tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Whether each event lies in the region: bools of the shape of `value` without its last `event_dim` dimensions."""
        raise NotImplementedError(f"{type(self).__name__}.check is not implemented")

    def __repr__(self) -> str:
        return self.__class__.__name__[1:] + "()"


class _Dependent(Constraint):
    """A region that other variables decide; what is known of it before may be given."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """The constraint with more known of it: `constraints.dependent(is_discrete=True, event_dim=1)`."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, x: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether other variables decide what the constraint is, so that it cannot be checked.

    Raises nothing.

    >>> from flambeau.distributions import Uniform, constraints
    >>> constraints.is_dependent(Uniform.support), constraints.is_dependent(constraints.real)
    (True, False)
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of objects; on the class a dependent constraint, of which `is_discrete` and `event_dim` may be known.

    Raises nothing.

    >>> from flambeau.distributions import constraints
    >>> class Between:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    ...     @constraints.dependent_property(is_discrete=False, event_dim=0)
    ...     def support(self):
    ...         return constraints.interval(self.low, self.high)
    >>> Between.support.event_dim, Between(0, 1).support
    (0, Interval(lower_bound=0, upper_bound=1))
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def _all_of_last(result: Any, dims: int) -> Any:
    """Whether all of the last `dims` dimensions hold."""
    for _ in range(dims):
        result = result.all(-1)
    return result


def _not_too_few(result: int, wanted: int) -> ValueError:
    return ValueError(f"Expected value.dim() >= {wanted} but got {result}")


class _IndependentConstraint(Constraint):
    """A region whose last `reinterpreted_batch_ndims` batch dimensions belong to the event.

    Raises:
        AssertionError: `base_constraint` is no Constraint, or the number of dimensions is no int of at
            least 0

    >>> import flambeau
    >>> from flambeau.distributions import constraints
    >>> constraints.independent(constraints.positive, 1).check(flambeau.tensor([[1.0, 2.0], [1.0, 0.0]]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(
                f"base_constraint must be a Constraint, got {type(base_constraint).__name__}"
            )
        if not isinstance(reinterpreted_batch_ndims, int):
            raise AssertionError(
                f"reinterpreted_batch_ndims must be an int, got {type(reinterpreted_batch_ndims).__name__}"
            )
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            raise _not_too_few(value.dim(), self.event_dim)
        return _all_of_last(result, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The region in which values of mixtures lie: in that of every component, whose dimension `check` puts back.

    Raises:
        AssertionError: the argument is no Constraint

    >>> import flambeau
    >>> from flambeau.distributions import constraints
    >>> mixed = constraints.MixtureSameFamilyConstraint(constraints.positive)
    >>> mixed.check(flambeau.tensor([1.0, -1.0]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(
                f"base_constraint must be a Constraint, got {type(base_constraint).__name__}"
            )
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        """Whether each event lies in the region of all components."""
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.dim() < self.event_dim:
            raise _not_too_few(value.dim(), self.event_dim)
        return _all_of_last(result, result.dim() - (value.dim() - self.event_dim))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return _is_boolean(_tensor(value))


class _OneHot(Constraint):
    """Vectors of zeros and one 1."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return _is_boolean(value).all(-1) & value.sum(-1).eq(1)


class _Bounded(Constraint):
    """A region with bounds, numbers or tensors, of which its name tells."""

    bounds: tuple[str, ...]

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={getattr(self, name)}" for name in self.bounds)
        return f"{self.__class__.__name__[1:]}({bounds})"


class _From(_Bounded):
    bounds = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound
        super().__init__()


class _To(_Bounded):
    bounds = ("upper_bound",)

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound
        super().__init__()


class _Between(_Bounded):
    bounds = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        super().__init__()


class _IntegerInterval(_Between):
    """Whole numbers in [lower_bound, upper_bound].

    Raises:
        TypeError: a checked value cannot be compared with a bound

    >>> import flambeau
    >>> from flambeau.distributions import constraints
    >>> constraints.integer_interval(0, 2).check(flambeau.tensor([0.0, 0.5, 2.0, 3.0]))
    tensor([ True, False,  True, False])
    """

    is_discrete = True

    def check(self, value: Any) -> Any:
        return _is_whole_within(_tensor(value), self.lower_bound, self.upper_bound)


class _IntegerLessThan(_To):
    """Whole numbers up to upper_bound."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return _is_whole_to(_tensor(value), self.upper_bound)


class _IntegerGreaterThan(_From):
    """Whole numbers from lower_bound."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return _is_whole_from(_tensor(value), self.lower_bound)


class _Real(Constraint):
    """The extended real line: all but NaN."""

    def check(self, value: Any) -> Any:
        return value == value


class _GreaterThan(_From):
    """The half line (lower_bound, inf].

    Raises:
        TypeError: a checked value cannot be compared with the bound

    >>> import flambeau
    >>> from flambeau.distributions import constraints
    >>> constraints.greater_than(1.0).check(flambeau.tensor([1.0, 2.0]))
    tensor([False,  True])
    """

    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class _GreaterThanEq(_From):
    """The half line [lower_bound, inf].

    Raises:
        TypeError: a checked value cannot be compared with the bound

    >>> import flambeau
    >>> from flambeau.distributions import constraints
    >>> constraints.greater_than_eq(1.0).check(flambeau.tensor([1.0, 0.5]))
    tensor([ True, False])
    """

    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class _LessThan(_To):
    """The half line [-inf, upper_bound).

    Raises:
        TypeError: a checked value cannot be compared with the bound

    >>> import flambeau
    >>> from flambeau.distributions import constraints
    >>> constraints.less_than(1.0).check(flambeau.tensor([1.0, 0.5]))
    tensor([False,  True])
    """

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_Between):
    """The interval [lower_bound, upper_bound].

    Raises:
        TypeError: a checked value cannot be compared with a bound

    >>> import flambeau
    >>> from flambeau.distributions import constraints
    >>> constraints.interval(0.0, 1.0).check(flambeau.tensor([0.0, 1.0, 2.0]))
    tensor([ True,  True, False])
    """

    def check(self, value: Any) -> Any:
        return _lies_within(_tensor(value), self.lower_bound, self.upper_bound)


class _HalfOpenInterval(_Between):
    """The interval [lower_bound, upper_bound).

    Raises:
        TypeError: a checked value cannot be compared with a bound

    >>> import flambeau
    >>> from flambeau.distributions import constraints
    >>> constraints.half_open_interval(0.0, 1.0).check(flambeau.tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def check(self, value: Any) -> Any:
        return _lies_half_open(_tensor(value), self.lower_bound, self.upper_bound)


class _Simplex(Constraint):
    """Vectors of nonnegative numbers whose sum is 1, to 1e-6."""

    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of nonnegative numbers whose sum is at most `upper_bound`; as in PyTorch, not the stronger equality.

    Raises:
        TypeError: a checked sum cannot be compared with the bound

    >>> import flambeau
    >>> from flambeau.distributions import constraints
    >>> constraints.multinomial(3).check(flambeau.tensor([[1, 2], [2, 2]]))
    tensor([ True, False])
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Any) -> Any:
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    """Lower-triangular matrices."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        return _all_of_last(value.tril() == value, 2)


class _LowerCholesky(Constraint):
    """Lower-triangular matrices with positive diagonals."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        triangular = _all_of_last(value.tril() == value, 2)
        return triangular & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Lower-triangular matrices with positive diagonals and rows of norm 1, to the rounding of their size."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        tolerance = finfo(value.dtype).eps * value.size(-1) * 10
        norms = value.detach().square().sum(-1).sqrt()
        unit = ((norms - 1).abs() <= tolerance).all(-1)
        return _LowerCholesky().check(value) & unit


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        return value.new_full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=by_name["bool"])


class _Symmetric(_Square):
    """Symmetric matrices, to 1e-6 and a part in 10^5."""

    def check(self, value: Any) -> Any:
        square = super().check(value)
        if not square.all():
            return square
        return _all_of_last(value.isclose(value.mT, atol=1e-6), 2)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices of which there is a Cholesky factor."""

    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return cholesky_ex(value).info.eq(0)


def _must_be_constraints(cseq: Sequence[Constraint]) -> list[Constraint]:
    if not all(isinstance(c, Constraint) for c in cseq):
        raise AssertionError("All elements of cseq must be Constraint instances")
    return list(cseq)


def _must_have_dim(dim: int, value: Any) -> None:
    if not -value.dim() <= dim < value.dim():
        raise AssertionError(f"dim {dim} out of range for value with {value.dim()} dimensions")


class _Cat(Constraint):
    """Constraints of parts that lie one after another along `dim`, `lengths[i]` long each.

    Raises:
        AssertionError: a member is no Constraint
        TypeError: the argument is no sequence

    >>> import flambeau
    >>> from flambeau.distributions import constraints
    >>> constraints.cat([constraints.positive, constraints.real], lengths=[1, 2]).check(flambeau.tensor([0.0, -1.0, 1.0]))
    tensor([False,  True,  True])
    """

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        self.cseq = _must_be_constraints(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Any) -> Any:
        _must_have_dim(self.dim, value)
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return joined(checks, self.dim)


class _Stack(Constraint):
    """Constraints of parts that are stacked along `dim`.

    Raises:
        AssertionError: a member is no Constraint
        TypeError: the argument is no sequence

    >>> import flambeau
    >>> from flambeau.distributions import constraints
    >>> constraints.stack([constraints.positive, constraints.real]).check(flambeau.tensor([0.0, -1.0]))
    tensor([False,  True])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq = _must_be_constraints(cseq)
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Any) -> Any:
        _must_have_dim(self.dim, value)
        parts = value.unbind(self.dim)
        return stacked([c.check(part) for c, part in zip(self.cseq, parts)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
