"""`ops.aten`: this library's own operations by the names that ATen gives them.

`ops.aten.mm.default` is `flambeau.mm` itself, whatever the overload: an operation is one object here, and is what modes are given.
"""

from __future__ import annotations

import functools
from typing import Any

from ..core.call.operation import Op
from ..operations.declare.registry import REGISTRY
from ._overloads import table
from ._packets import DEFINED, KINDS, OpNamespace, namespace_of

# Rooms of names, in the order in which a name is looked for, and what ATen writes before it.
_ROOMS = (
    ("", ""),
    ("Tensor", ""),
    ("nn.functional", ""),
    ("linalg", "linalg_"),
    ("special", "special_"),
    ("fft", "fft_"),
)
# What ATen calls otherwise.
_OTHERWISE = {
    "cross_entropy_loss": "cross_entropy",
    "col2im": "fold",
    "im2col": "unfold",
    "log_sigmoid": "logsigmoid",
    "nll_loss_nd": "nll_loss",
    "numpy_T": "T",
    "adaptive_max_pool1d": "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d": "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d": "adaptive_max_pool3d_with_indices",
    "fractional_max_pool2d": "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d": "fractional_max_pool3d_with_indices",
}


def candidates() -> dict[str, Op]:
    """The operations declared here by the names that ATen would give them."""
    found: dict[str, Op] = {}
    for room, before in _ROOMS:
        for entry in REGISTRY.values():
            for place in entry.places:
                home, _, name = place.rpartition(".")
                if home != room or name.startswith("_"):
                    continue
                if isinstance(entry.function, Op):
                    found.setdefault(before + name, entry.function)
                if isinstance(entry.in_place, Op):
                    found.setdefault(f"{before}{name}_", entry.in_place)
    for theirs, ours in _OTHERWISE.items():
        if ours in found:
            found[theirs] = found[ours]
    return found


@functools.cache
def names() -> dict[str, Op]:
    """ATen's names of the operations that are declared here."""
    return {name: op for name, op in candidates().items() if name in table()}


class AtenNamespace(OpNamespace):
    """The namespace `aten`."""

    def _overloads(self, op_name: str) -> dict[str, Any]:
        ours = names().get(op_name)
        if ours is not None:
            return dict.fromkeys(table()[op_name], ours)
        return DEFINED.get("aten", {}).get(op_name, {})

    def _missing(self, op_name: str) -> str:
        return (
            f"'_OpNamespace' 'aten' object has no attribute '{op_name}': no operation aten::{op_name} is defined; operations are declared "
            "here at the level at which programs call them (docs/operations.md lists them)"
        )

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *names()]


KINDS["aten"] = AtenNamespace
__all__ = ["candidates", "names", "namespace_of"]
