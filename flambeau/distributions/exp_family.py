"""Exponential families: entropy and divergence by the derivatives of their log normalisers."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ..autograd import grad
from ..autograd.grad_mode import enable_grad, is_grad_enabled
from .distribution import Distribution
from .utils import _sum_rightmost, lacking

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions with densities exp(⟨t(x), θ⟩ - F(θ) + k(x)).

    A subclass gives its natural parameters θ (`_natural_params`, a tuple of tensors), F (`_log_normalizer`, a function of
    them) and -E[k(x)] (`_mean_carrier_measure`, a number or a tensor).  From those follow entropies and divergences
    within the family (Nielsen and Nock, 2010, Entropies and cross-entropies of exponential families).

    Raises:
        NotImplementedError: `entropy` is called, and the class derived from it does not say its natural
            parameters

    >>> import flambeau
    >>> from flambeau.distributions import ExponentialFamily, Normal
    >>> normal = Normal(0.0, 2.0)
    >>> flambeau.allclose(ExponentialFamily.entropy(normal), normal.entropy())
    True
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise lacking(self, "_natural_params")

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise lacking(self, "_log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise lacking(self, "entropy")

    def entropy(self) -> Tensor:
        """Entropy in nats, of shape `batch_shape`: F(θ) - ⟨θ, ∇F(θ)⟩ - E[k(x)], differentiable by the parameters."""
        with enable_grad():
            thetas, value, slopes = self._normalizer_and_slopes()
            result = value - self._mean_carrier_measure
            for theta, slope in zip(thetas, slopes):
                term = theta * slope
                result = result - _sum_rightmost(term, term.dim() - len(self._batch_shape))
        return on_tape_of(result, self._natural_params)

    def _normalizer_and_slopes(self) -> tuple[list[Any], Any, tuple[Any, ...]]:
        """θ, F(θ) and ∇F(θ), on the tape."""
        thetas = [t if t.requires_grad else t.detach().requires_grad_() for t in self._natural_params]
        value = self._log_normalizer(*thetas)
        return thetas, value, grad(value.sum(), thetas, create_graph=True)


def on_tape_of(result: Any, params: tuple[Any, ...]) -> Any:
    """What was computed on the tape, off it unless one of these is on it, and recording is on."""
    return result if is_grad_enabled() and any(p.requires_grad for p in params) else result.detach()
