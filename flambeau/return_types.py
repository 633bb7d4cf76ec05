"""The classes of results that have names, as `max(dim=…)` and `linalg.svd` return them.

>>> import flambeau
>>> found = flambeau.tensor([[1.0, 3.0], [4.0, 2.0]]).max(1)
>>> isinstance(found, flambeau.return_types.max), found.indices
(True, tensor([1, 0]))
"""

from __future__ import annotations

from .operations.declare.results import RESULTS

globals().update(RESULTS)
__all__ = sorted(RESULTS)
