"""The beta distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.places.join import stack
from ..operations.random.sampled import standard_beta
from . import constraints
from ._fused import fn, fused, xlog1py, xlogy
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .utils import broadcast_all, settled_property

__all__ = ["Beta"]


@fused
def log_beta(a, b):
    """log B(a, b)."""
    return fn.lgamma(a) + fn.lgamma(b) - fn.lgamma(a + b)


@fused
def _beta_log_prob(value, a, b, normalizer):
    return xlogy(a - 1.0, value) + xlog1py(b - 1.0, -value) - normalizer


@fused
def _beta_variance(a, b):
    total = a + b
    return a * b / (total * total * (total + 1.0))


@fused
def _beta_mode(a, b):
    up, down = fn.maximum(a - 1.0, 0.0), fn.maximum(b - 1.0, 0.0)
    return fn.where((a < 1.0) & (b < 1.0), fn.like(a, 1.0), up / (up + down))


@fused
def _beta_entropy(a, b):
    total = a + b
    return (
        fn.lgamma(a) + fn.lgamma(b) - fn.lgamma(total)
        - (a - 1.0) * fn.digamma(a) - (b - 1.0) * fn.digamma(b) + (total - 2.0) * fn.digamma(total)
    )  # fmt: skip


class Beta(ExponentialFamily):
    """The beta distribution with parameters `concentration1` (a) and `concentration0` (b), which broadcast: the batch.

    Density x^(a-1) (1 - x)^(b-1) / B(a, b) over [0, 1] (Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions,
    chapter 25).  Samples lie inside of (0, 1); their gradients are implicit ones (Figurnov, Mohamed, Mnih 2018).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import Beta
    >>> beta = Beta(flambeau.tensor([1.0, 2.0]), 2.0)
    >>> beta.log_prob(flambeau.tensor(0.5))
    tensor([0.0000, 0.4055])
    >>> beta.sample((4,)).shape
    flambeau.Size([4, 2])
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}  # type: ignore[assignment]
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self._pair = broadcast_all(concentration1, concentration0)
        super().__init__(self._pair[0].shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Beta, _instance)
        new._pair = tuple(a.expand(batch_shape) for a in (self.concentration1, self.concentration0))
        return self._settled(new, Size(batch_shape))

    @settled_property
    def _dirichlet(self) -> Any:
        """The distribution of (x, 1 - x), whose concentrations are this one's from then on: programs write into it."""
        return Dirichlet(stack(self._pair, -1), validate_args=False)

    def _concentration(self, which: int) -> Any:
        pair = self.__dict__.get("_dirichlet")
        return self._pair[which] if pair is None else pair.concentration[..., which]

    @property
    def concentration1(self) -> Any:
        """The power of x, plus 1."""
        return self._concentration(0)

    @property
    def concentration0(self) -> Any:
        """The power of 1 - x, plus 1."""
        return self._concentration(1)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return _beta_mode(self.concentration1, self.concentration0)

    @property
    def variance(self) -> Tensor:
        return _beta_variance(self.concentration1, self.concentration0)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return standard_beta(self.concentration1.expand(shape), self.concentration0.expand(shape))

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return _beta_log_prob(value, a, b, log_beta(a, b))

    def entropy(self) -> Tensor:
        return _beta_entropy(self.concentration1, self.concentration0)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return log_beta(x, y)
