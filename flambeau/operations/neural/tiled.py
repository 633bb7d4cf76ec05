"""Attention in tiles on the CPU (`core/lib/attention.pyx`): scores never stand in memory, forward or backward.

It serves plain calls: no function of scores, a mask that needs no gradient.  What dropout leaves out is drawn by the place of a
weight (Philox), in backward again.  Second derivatives are those of the
formula that makes all scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...codegen import kernels as kn
from ...codegen.tiles import attention as _passes  # noqa: F401  (provides what the tiles are made of)
from ...core import tape
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.lib import attention as tiles
from ...core.make.create import empty
from ...core.make.random import _reserve
from ...core.tape.contexts import unrecorded
from ..declare.pointwise import FLOATING, compute_dtype
from ..declare.rows import reduction
from .blocked import recorded_gradients

ROOM = 64  # columns that are drawn together


@reduction(places=(), name="row_products", dtypes=FLOATING)
def row_products(a, b):
    """Σ a · b."""
    return kn.sum(a * b)


def _laid(x: TensorBase, dtype) -> TensorBase:
    """In the dtype that is computed in, elements of the last dimension side by side."""
    x = x.to(dtype)
    return x if x.shape[-1] <= 1 or x.stride(-1) == 1 else x.contiguous()


def _mask(mask: TensorBase | None, query: TensorBase, keys: int, dtype) -> TensorBase | None:
    """A mask of the sizes of the scores, or 1 where it is the same for all."""
    if mask is None:
        return None
    mask = mask.reshape((*[1] * (4 - mask.ndim), *mask.shape)).detach()
    if mask.shape[-1] != keys:
        mask = mask.expand(*mask.shape[:-1], keys).contiguous()
    return _laid(mask, mask.dtype if mask.dtype.name == "bool" else dtype)


def _forward(query, key, value, mask, diagonal, factor, dropping, recorded: bool):
    """The output, in the memory order (B, L, heads, Ev) as PyTorch's, and, where backward will ask, the logarithms of the sums."""
    batches, heads, queries = query.shape[:3]
    working = by_name[compute_dtype(query.dtype.name)]
    out = empty((batches, queries, heads, value.shape[-1]), dtype=working, device=query.device)
    out = out.transpose(1, 2)
    lse = empty((batches, heads, queries, 1), dtype=working, device=query.device) if recorded else None
    if not query.is_meta:
        seen = _mask(mask, query, key.shape[2], working)
        given = (_laid(x, working) for x in (query, key, value))
        tiles.forward(*given, seen, diagonal, factor, dropping, out, lse)
    return out.to(query.dtype), lse


def attend(
    query: TensorBase,
    key: TensorBase,
    value: TensorBase,
    mask: TensorBase | None,
    diagonal: int | None,
    factor: float,
    dropout_p: float,
    again: Callable[..., TensorBase],
) -> TensorBase:
    """The output of a checked call without empty dimensions; `again` makes it of recorded operations, from what the weights are
    multiplied by.
    """
    dropping = _drawn(query, key, dropout_p) if dropout_p else None
    inputs = (query, key, value)
    recorded = tape.recording(*inputs)
    with unrecorded():
        out, lse = _forward(query, key, value, mask, diagonal, factor, dropping, recorded)
    if recorded:
        wanted = tuple(tape.recording(x) for x in inputs)
        extra = (lse, mask, diagonal, factor, dropping, again, wanted)
        label = "ScaledDotProductFlashAttentionForCpuBackward0"
        tape.record(label, _back, inputs, out, (*inputs, out), extra)
    return out


def _drawn(query: TensorBase, key: TensorBase, p: float) -> tuple[int, int, float]:
    """Where in the generator's stream this call's numbers stand."""
    rows = query.shape[0] * query.shape[1] * query.shape[2]
    return (*_reserve(None, tiles.counters_of(rows, key.shape[2]), query), p)


def _factors(query: TensorBase, keys: int, dropping) -> TensorBase | None:
    """What the weights were multiplied by."""
    if dropping is None:
        return None
    with unrecorded():
        room = -(-keys // ROOM) * ROOM
        found = empty(
            (*query.shape[:3], room), dtype=by_name[compute_dtype(query.dtype.name)], device=query.device
        )
        found = found[..., :keys]
        if not query.is_meta:
            tiles.factors(found, dropping)
    return found


def _back(grad, query, key, value, out, lse, mask, diagonal, factor, dropping, again, wanted: Sequence[bool]):
    inputs = tuple(x for x in (grad, query, key, value) if x is not None)
    if tape.recording(*inputs):
        formula = partial(again, kept=_factors(query, key.shape[2], dropping))
        return recorded_gradients(formula, wanted, grad, (query, key, value))
    with unrecorded():
        return _backward(grad, query, key, value, out, lse, mask, diagonal, factor, dropping)


def _backward(grad, query, key, value, out, lse, mask, diagonal, factor, dropping):
    working = by_name[compute_dtype(query.dtype.name)]
    given = [_laid(x, working) for x in (query, key, value)]
    grad = _laid(grad, working)
    delta = row_products.over((grad, out.to(working)), -1, True)
    chunks = tiles.chunks_of(key.shape[0] * key.shape[1], query.shape[2])
    to_query = empty(query.shape, dtype=working, device=query.device)
    to_key, to_value = (empty((chunks, *x.shape), dtype=working, device=query.device) for x in (key, value))
    if not query.is_meta:
        seen = _mask(mask, query, key.shape[2], working)
        tiles.backward(*given, seen, diagonal, factor, dropping, lse, grad, delta, to_query, to_key, to_value)
    joined = (x[0] if chunks == 1 else x.sum(0) for x in (to_key, to_value))
    return tuple(x.to(query.dtype) for x in (to_query, *joined))
