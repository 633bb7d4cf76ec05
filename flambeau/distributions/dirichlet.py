"""The Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..operations.neural.embedding.embedding import one_hot
from ..operations.pointwise.arithmetic import where
from ..operations.random.sampled import sample_dirichlet
from . import constraints
from ._fused import fn, fused, xlogy
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


@fused
def _dirichlet_terms(value, concentration):
    return xlogy(concentration - 1.0, value)


@fused
def _entropy_terms(concentration):
    a = concentration
    return fn.lgamma(a) - (a - 1.0) * fn.digamma(a)


@fused
def _entropy_of_total(total, *, k):
    return (total - k) * fn.digamma(total) - fn.lgamma(total)


@fused
def _dirichlet_variance(concentration, total):
    mean = concentration / total
    return mean * (1.0 - mean) / (total + 1.0)


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution over the simplex with `concentration`, a tensor of shape batch + event; the event is a vector.

    Density Π xᵢ^(aᵢ-1) Γ(Σ aᵢ) / Π Γ(aᵢ) (Kotz, Balakrishnan, Johnson, Continuous Multivariate Distributions, chapter 49).
    ValueError for a concentration without dimensions.  Gradients of samples are implicit ones.

    >>> import flambeau
    >>> from flambeau.distributions import Dirichlet
    >>> dirichlet = Dirichlet(flambeau.tensor([1.0, 2.0, 1.0]))
    >>> dirichlet.mean, dirichlet.log_prob(flambeau.tensor([0.25, 0.5, 0.25]))
    (tensor([0.2500, 0.5000, 0.2500]), tensor(1.0986))
    >>> dirichlet.sample((4,)).shape
    flambeau.Size([4, 3])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}  # type: ignore[assignment]
    support = constraints.simplex  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Dirichlet, _instance)
        batch_shape = Size(batch_shape)
        new.concentration = self.concentration.expand(batch_shape + self._event_shape)
        return self._settled(new, batch_shape)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        result = above / above.sum(-1, True)
        corner = one_hot(result.argmax(-1), result.shape[-1]).to(result.dtype)  # of densities without a top
        return where((self.concentration < 1).all(-1, keepdim=True), corner, result)

    @property
    def variance(self) -> Tensor:
        return _dirichlet_variance(self.concentration, self.concentration.sum(-1, True))

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return _dirichlet_terms(value, a).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a = self.concentration
        return _entropy_terms(a).sum(-1) + _entropy_of_total(a.sum(-1), a.shape[-1])

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
