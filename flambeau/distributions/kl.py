"""Kullback-Leibler divergences of pairs of distributions.

The pairs stand in `_kl_*.py`, each of which enters its own with `_kl_registry.register_kl`, and is imported here.
"""

from . import _kl_gamma, _kl_mixed, _kl_multivariate, _kl_univariate  # noqa: F401
from ._kl_registry import _KL_MEMOIZE, _KL_REGISTRY, _dispatch_kl, kl_divergence, register_kl  # noqa: F401

__all__ = ["kl_divergence", "register_kl"]
