"""The classes of results that have names, as `max(dim=…)` and `linalg.svd` return them.

>>> import flambeau
>>> found = flambeau.tensor([[1.0, 3.0], [4.0, 2.0]]).max(1)
>>> isinstance(found, flambeau.return_types.max), found.indices
(True, tensor([1, 0]))
"""

from __future__ import annotations

from .operations.declare.results import RESULTS

all_return_types = list(RESULTS.values())
globals().update(RESULTS)
# The names that PyTorch has for the same results written to `out=`, and for those of functions that have two names.
globals().update({f"{name}_out": kind for name, kind in RESULTS.items()})
qr, slogdet = RESULTS["linalg_qr"], RESULTS["linalg_slogdet"]
qr_out, slogdet_out = qr, slogdet
__all__ = sorted(RESULTS)
