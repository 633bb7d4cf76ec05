"""Probability distributions: densities, samples, moments and divergences, as `torch.distributions` names them.

The package is a shell, which is filled when a program first names something in it.

>>> import flambeau
>>> from flambeau.distributions import Normal, kl_divergence
>>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
tensor(0.5000)
"""

from typing import TYPE_CHECKING

from ..core.base.lazily import on_first_use as _on_first_use

if TYPE_CHECKING:
    from ._public import *  # noqa: F403

__getattr__, __dir__ = _on_first_use(__name__, "_public", ("constraints", "transforms"))
