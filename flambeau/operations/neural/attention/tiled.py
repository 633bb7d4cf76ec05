"""Attention in tiles on the CPU (`core/lib/layers/attention.pyx`): scores never stand in memory, forward or backward.

It serves plain calls: no function of scores, no gradient of a mask.  What dropout leaves out is drawn by the place of a weight
(Philox), in backward again.
"""

from __future__ import annotations

from ....codegen import kernels as kn
from ....codegen.tiles import attention as _passes  # noqa: F401  (provides what the tiles are made of)
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.lib.layers import attention as tiles
from ....core.lib.layers import half_attention as half_tiles
from ....core.make.create import empty
from ....core.make.literal import tensor
from ....core.make.random import _reserve
from ...declare.pointwise import FLOATING, compute_dtype
from ...declare.rows import reduction

DRAWN_COLUMNS = 64  # columns that are drawn together
BFLOAT16 = by_name["bfloat16"]


def _tiles(query: TensorBase, value: TensorBase):
    """What multiplies: bfloat16 as it is, where the processor can.  Values of another width are multiplied in float32, as PyTorch
    does: weights are not rounded then.
    """
    halves = query.dtype is BFLOAT16 and query.shape[-1] == value.shape[-1]
    return half_tiles if halves and half_tiles.possible() else tiles


@reduction(places=(), name="row_products", dtypes=FLOATING)
def row_products(a, b):
    """Σ a · b."""
    return kn.sum(a * b)


def _laid(x: TensorBase) -> TensorBase:
    """Elements of the last dimension side by side."""
    return x if x.shape[-1] <= 1 or x.stride(-1) == 1 else x.contiguous()


def _mask(mask: TensorBase | None, query: TensorBase, keys: int, dtype) -> TensorBase | None:
    """A mask of the sizes of the scores, or 1 where it is the same for all."""
    if mask is None:
        return None
    mask = mask.reshape((*[1] * (4 - mask.ndim), *mask.shape))
    if mask.shape[-1] != keys:
        mask = mask.expand(*mask.shape[:-1], keys).contiguous()
    return _laid(mask if mask.dtype.name in ("bool", query.dtype.name) else mask.to(dtype))


def forward(query, key, value, mask, diagonal, factor, drawn: TensorBase | None, dropout_p: float):
    """The output, in the memory order (B, L, heads, Ev) as PyTorch's, and the logarithms of the sums."""
    batches, heads, queries = query.shape[:3]
    working = by_name[compute_dtype(query.dtype.name)]
    out = empty((batches, queries, heads, value.shape[-1]), dtype=query.dtype, device=query.device)
    out = out.transpose(1, 2)
    lse = empty((batches, heads, queries, 1), dtype=working, device=query.device)
    if not query.is_meta:
        seen = _mask(mask, query, key.shape[2], working)
        given = (_laid(x) for x in (query, key, value))
        _tiles(query, value).forward(*given, seen, diagonal, factor, _dropping(drawn, dropout_p), out, lse)
    return out, lse


def drawn(query: TensorBase, key: TensorBase) -> TensorBase:
    """Where in the generator's stream a call's numbers stand: the seed and the first counter, of 64 bits each, as int64."""
    if query.is_meta:
        return empty(2, dtype=by_name["int64"], device=query.device)
    rows = query.shape[0] * query.shape[1] * query.shape[2]
    where = _reserve(None, tiles.counters_of(rows, key.shape[2]), query)
    return tensor([n - (n >> 63 << 64) for n in where], dtype=by_name["int64"], device="cpu")


def _dropping(drawn: TensorBase | None, p: float) -> tuple[int, int, float] | None:
    if drawn is None:
        return None
    seed, first = (n % (1 << 64) for n in drawn.tolist())
    return seed, first, p


def factors(query: TensorBase, keys: int, drawn: TensorBase, dropout_p: float) -> TensorBase:
    """What the weights were multiplied by."""
    padded = -(-keys // DRAWN_COLUMNS) * DRAWN_COLUMNS
    working = by_name[compute_dtype(query.dtype.name)]
    result = empty((*query.shape[:3], padded), dtype=working, device=query.device)[..., :keys]
    if not query.is_meta:
        tiles.factors(result, _dropping(drawn, dropout_p))
    return result


def backward(grad, query, key, value, mask, out, lse, drawn, diagonal, factor, dropout_p) -> tuple:
    """The gradients of query, key and value."""
    working = by_name[compute_dtype(query.dtype.name)]
    given = [_laid(x) for x in (query, key, value)]
    grad = _laid(grad.to(query.dtype))
    delta = row_products.over((grad, out), -1, True, dtype=working)
    chunks = tiles.chunks_of(key.shape[0] * key.shape[1], query.shape[2])
    to_query = empty(query.shape, dtype=query.dtype, device=query.device)
    own = query.dtype if chunks == 1 else working  # more than one are rounded once they are added up
    to_key, to_value = (empty((chunks, *x.shape), dtype=own, device=query.device) for x in (key, value))
    if not query.is_meta:
        seen = _mask(mask, query, key.shape[2], working)
        where = (seen, diagonal, factor, _dropping(drawn, dropout_p), lse, grad, delta)
        _tiles(query, value).backward(*given, *where, to_query, to_key, to_value)
    joined = (x[0] if chunks == 1 else x.sum(0) for x in (to_key, to_value))
    return tuple(x.to(query.dtype) for x in (to_query, *joined))
