"""All names of `flambeau.distributions`."""

from . import constraint_registry, constraints, transforms
from ._kl_registry import kl_divergence, register_kl
from .constraint_registry import biject_to, transform_to
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .transformed_distribution import TransformedDistribution
from .transforms import *  # noqa: F403
from .transforms import __all__ as _all_transforms

__all__ = [
    "Distribution",
    "ExponentialFamily",
    "TransformedDistribution",
    "biject_to",
    "constraint_registry",
    "constraints",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
    *_all_transforms,
]
