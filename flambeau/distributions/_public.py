"""All names of `flambeau.distributions`."""

from ._kl_registry import kl_divergence, register_kl
from .distribution import Distribution
from .exp_family import ExponentialFamily

__all__ = [
    "Distribution",
    "ExponentialFamily",
    "kl_divergence",
    "register_kl",
]
