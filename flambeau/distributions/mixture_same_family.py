"""Mixtures of one family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..autograd.grad_mode import no_grad
from ..core.base.dtypes import Size
from ..operations.rows.softmax import log_softmax
from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture: a component is chosen by `mixture_distribution`, and the value drawn from it.

    The last batch dimension, of size K, of `component_distribution` numbers the components; `mixture_distribution` is a Categorical
    over K, with no batch, or one that broadcasts against the components' other batch dimensions.  Density Σ_k probs[k] ·
    density_k(x) (McLachlan and Peel, 2000, Finite Mixture Models).  ValueError for shapes or classes that do not fit.

    >>> import flambeau
    >>> from flambeau.distributions import Categorical, MixtureSameFamily, Normal
    >>> weights = Categorical(flambeau.tensor([0.5, 0.5]))
    >>> mixture = MixtureSameFamily(weights, Normal(flambeau.tensor([-1.0, 1.0]), 1.0))
    >>> mixture.mean, mixture.variance, mixture.cdf(flambeau.tensor(0.0))
    (tensor(0.), tensor(2.), tensor(0.5000))
    """

    arg_constraints: dict[str, constraints.Constraint] = {}  # type: ignore[assignment]
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "The Mixture distribution needs to be an instance of torch.distributions.Categorical, but got"
                f" {type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of torch.distributions.Distribution, but got"
                f" {type(component_distribution).__name__}"
            )
        if not component_distribution.batch_shape:
            raise ValueError("`component_distribution` needs a batch dimension, which numbers the components")
        *batch, components = component_distribution.batch_shape
        mixed = mixture_distribution.batch_shape
        for size1, size2 in zip(reversed(mixed), reversed(batch)):
            if size1 != 1 and size2 != 1 and size1 != size2:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with"
                    f" `component_distribution.batch_shape`({Size(batch)})"
                )
        if mixture_distribution.param_shape[-1] != components:
            raise ValueError(
                f"`mixture_distribution component` ({mixture_distribution.param_shape[-1]}) does not equal"
                f" `component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = components
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(Size(batch), event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(
            batch_shape + (self._num_component,)
        )
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return self._settled(new, batch_shape)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """What chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, numbered by the last batch dimension."""
        return self._component_distribution

    def _weighted(self, what: Any) -> Any:
        """The sum of `what` over the components, each times its probability."""
        probs = self.mixture_distribution.probs
        probs = probs.reshape(probs.shape + (1,) * self._event_ndims)
        return (probs * what).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._weighted(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """Of the components, and of their means around the common mean."""
        components = self.component_distribution
        return self._weighted(components.variance + (components.mean - self._pad(self.mean)).square())

    def cdf(self, x: Any) -> Tensor:
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        weights = log_softmax(self.mixture_distribution.logits, -1)
        return (self.component_distribution.log_prob(self._pad(x)) + weights).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            event = self.event_shape
            chosen = self.mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            place = drawn.dim() - 1 - len(event)
            chosen = chosen.view(chosen.shape + (1,) * (len(event) + 1)).expand((*chosen.shape, 1, *event))
            return drawn.gather(place, chosen).squeeze(place)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
