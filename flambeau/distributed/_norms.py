"""The norm of many distributed tensors together, with one reduction for all that lie alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.callbacks import set_callback
from ..core.make.literal import tensor as new_tensor
from ..core.places.join import stack
from ..operations.rows.norms import vector_norm
from ._collectives import all_reduce
from ._reductions import ReduceOp


def total_norm(tensors: Sequence[Any], p: float) -> Any:
    """The p-norm of all tensors as one vector: a whole tensor on the mesh of the first distributed one.

    Shape:
        tensors: any; the result: ()
    """
    from .tensor._api import DTensor
    from .tensor.placement_types import Partial, Replicate

    alike: dict[Any, list[Tensor]] = {}
    mesh = None
    for t in tensors:
        if not isinstance(t, DTensor):
            alike.setdefault(None, []).append(t)
            continue
        mesh = mesh or t.device_mesh
        if any(isinstance(placement, Partial) for placement in t.placements):
            t = t.redistribute(
                placements=[Replicate() if isinstance(q, Partial) else q for q in t.placements]
            )
        cut = tuple(k for k, placement in enumerate(t.placements) if not placement.is_replicate())
        alike.setdefault((t.device_mesh, cut), []).append(t.to_local())
    totals = [_over_processes(pieces, where, p) for where, pieces in alike.items()]
    total = totals[0] if len(totals) == 1 else vector_norm(stack(totals), p)
    return DTensor.from_local(total, mesh, [Replicate()] * mesh.ndim)  # type: ignore[union-attr]


def _over_processes(pieces: list[Tensor], where: Any, p: float) -> Tensor:
    """The norm of pieces of this process and of those that have the others."""
    norms = [vector_norm(piece, p) for piece in pieces if piece.numel()]
    dtype = pieces[0].real.dtype if pieces[0].is_complex() else pieces[0].dtype
    nothing = math.inf if p == -math.inf else 0.0  # what the others' pieces are reduced with
    total = vector_norm(stack(norms), p) if norms else new_tensor(nothing, dtype=dtype)
    if where is None or not where[1]:
        return total
    mesh, dims = where
    if p in (math.inf, -math.inf):
        for dim in dims:
            all_reduce(total, ReduceOp.MAX if p > 0 else ReduceOp.MIN, mesh.get_group(dim))
        return total
    power = total if p == 0 else total**p
    for dim in dims:
        all_reduce(power, ReduceOp.SUM, mesh.get_group(dim))
    return power if p == 0 else power ** (1.0 / p)


set_callback("norm of distributed tensors", total_norm)
