"""The base of all distributions: shapes, validation, and what each may define."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..autograd.grad_mode import no_grad
from ..core.base.dtypes import Size
from ..core.base.tensor import TensorBase
from . import constraints
from .utils import lacking, lazy_property

__all__ = ["Distribution"]

_SCALAR: Any = Size()


class Distribution:
    """The base class of distributions.

    `batch_shape` is the shape of the parameters (independent distributions), `event_shape` that of one value; samples have the
    shape `sample_shape + batch_shape + event_shape`.  With `validate_args` (by default on, unless Python runs with -O) the
    parameters must satisfy `arg_constraints`, and the values given to `log_prob`, `cdf` and `icdf` the support: ValueError
    names the parameter, what it must satisfy, and what was found.

    >>> import flambeau
    >>> from flambeau.distributions import Distribution, constraints
    >>> class Dirac(Distribution):
    ...     arg_constraints = {"at": constraints.real}
    ...     support = constraints.real
    ...     def __init__(self, at, validate_args=None):
    ...         self.at = at
    ...         super().__init__(at.shape, validate_args=validate_args)
    ...     def rsample(self, sample_shape=()):
    ...         return self.at.expand(self._extended_shape(sample_shape))
    >>> Dirac(flambeau.tensor([1.0, 2.0])).sample((2,))
    tensor([[1., 2.],
            [1., 2.]])
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Switch validation on or off for all distributions that set nothing themselves; ValueError for what is no bool."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args(): expected True or False, but got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = _SCALAR,
        event_shape: Any = _SCALAR,
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        """ValueError where a parameter that is there does not satisfy its constraint."""
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize"
                " the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        given = self.__dict__
        for name, constraint in wanted.items():
            if isinstance(constraint, constraints._Dependent):
                continue  # others decide it
            if name not in given and isinstance(getattr(type(self), name), lazy_property):
                continue  # it would be computed from one that is checked
            value = getattr(self, name)
            if not holds_everywhere(constraint, value):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution"
                    f" {self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The distribution with its batch expanded to `batch_shape`: parameters are views, nothing is checked again.

        A subclass that overrides this hands the instance that it has made to its base as `_instance`.
        """
        raise lacking(self, "expand")

    @property
    def batch_shape(self) -> Any:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one value."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """What each parameter must satisfy, by name."""
        raise lacking(self, "arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint that values satisfy."""
        raise lacking(self, "support")

    @property
    def mean(self) -> Tensor:
        """The mean, of shape `batch_shape + event_shape`."""
        raise lacking(self, "mean")

    @property
    def mode(self) -> Tensor:
        """The most likely value, of shape `batch_shape + event_shape`."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance, of shape `batch_shape + event_shape`."""
        raise lacking(self, "variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation, of shape `batch_shape + event_shape`."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Unrecorded samples, of shape `sample_shape + batch_shape + event_shape`."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Samples that are differentiable functions of the parameters, of shape `sample_shape + batch_shape + event_shape`."""
        raise lacking(self, "rsample")

    def sample_n(self, n: int) -> Tensor:
        """Deprecated, as in PyTorch: `sample((n,))`."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2
        )
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density or probability at `value`, whose shape is broadcast against batch and event."""
        raise lacking(self, "log_prob")

    def cdf(self, value: Any) -> Tensor:
        """The probability of values up to `value`."""
        raise lacking(self, "cdf")

    def icdf(self, value: Any) -> Tensor:
        """The quantile at probability `value`: the inverse of `cdf`."""
        raise lacking(self, "icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along dimension 0: (values,) + `batch_shape` + `event_shape`.

        Without `expand` the batch dimensions are of size 1.
        """
        raise lacking(self, "enumerate_support")

    def entropy(self) -> Tensor:
        """The entropy in nats, of shape `batch_shape`."""
        raise lacking(self, "entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy), of shape `batch_shape`."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Sequence[int] = Size()) -> Any:
        """The shape of samples: `sample_shape + batch_shape + event_shape`."""
        if not isinstance(sample_shape, Size):
            sample_shape = Size(sample_shape)
        own = self._batch_shape + self._event_shape if self._event_shape else self._batch_shape
        if not sample_shape and isinstance(own, Size):
            return own
        return sample_shape + own

    def _validate_sample(self, value: Any) -> None:
        """ValueError where `value` is no tensor, does not broadcast against batch and event, or lies outside the support."""
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please initialize the"
                " distribution with `validate_args=False` to turn off validation.",
                stacklevel=2,
            )
            self._validate_shape(value)
            return
        if support is None:
            raise AssertionError("support is unexpectedly None")
        self._validate_within(value, support)

    def _validate_within(self, value: Any, support: Any) -> None:
        """As `_validate_sample`, with this constraint in the support's place."""
        self._validate_shape(value)
        if not holds_everywhere(support, value):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support"
                f" ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _validate_shape(self, value: Any) -> None:
        """ValueError where `value` is no tensor, or does not broadcast against batch and event."""
        if not isinstance(value, TensorBase):
            raise ValueError("The value argument to log_prob must be a Tensor")
        actual, event = value.shape, self._event_shape
        if event and actual[max(len(actual) - len(event), 0) :] != event:
            raise ValueError(f"The right-most size of value must match event_shape: {actual} vs {event}.")
        expected = self._batch_shape + event if event else self._batch_shape
        if actual != expected:
            for i, j in zip(reversed(actual), reversed(expected)):
                if i != 1 and j != 1 and i != j:
                    raise ValueError(
                        f"Value is not broadcastable with batch_shape+event_shape: {actual} vs {expected}."
                    )

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """A bare instance to be filled by `expand` of `cls`; a subclass whose `__init__` differs must expand itself."""
        if _instance is None and type(self).__init__ != cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom __init__ method"
                " must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _expanded(self, cls: type, batch_shape: Sequence[int], _instance: Any, *names: str) -> Any:
        """What `expand` of `cls` returns where all state is these parameters, of shape `batch_shape`; absent ones stay so."""
        new = self._get_checked_instance(cls, _instance)
        batch_shape = Size(batch_shape)
        given = self.__dict__
        for name in names:
            if name in given:
                setattr(new, name, given[name].expand(batch_shape))
        return self._settled(new, batch_shape)

    def _settled(self, new: Any, batch_shape: Any) -> Any:
        """The expanded instance with its shapes, and with validation as it is here; nothing is checked again."""
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                shown.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{self.__class__.__name__}({', '.join(shown)})"


def holds_everywhere(constraint: constraints.Constraint, value: Any) -> bool:
    """Whether all events of `value` satisfy the constraint; tensors without data are not checked."""
    if value.is_meta:
        return True
    return bool(constraint.check(value).all())
