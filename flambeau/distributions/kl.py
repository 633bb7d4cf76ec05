"""Kullback-Leibler divergences of pairs of distributions.

The pairs stand in `_kl_*.py`, each of which enters its own with `_kl_registry.register_kl`, and is imported here.
"""

from ._kl_registry import kl_divergence, register_kl

__all__ = ["kl_divergence", "register_kl"]
