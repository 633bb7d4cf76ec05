"""Attention over sequences of different lengths that stand one after another in one tensor; as `torch.nn.attention.varlen`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..._tensor import Tensor
from ...codegen import expr as ex
from ...core import tape
from ...core.base.dtypes import by_name
from ...core.make.literal import tensor
from ...operations.declare.registry import operation
from ...operations.moving.joining import cat
from ...operations.neural.attention.blocked import Band, Blocks, call_of, windowed
from ...operations.neural.attention.flash_attention import attend
from ...operations.neural.attention.programs import Program, element, symbol

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """What `varlen_attn` is to return beside its output: `lse`, logarithms of sums of exponentials, (Hq, Tq).

    >>> import flambeau
    >>> from flambeau.nn.attention.varlen import AuxRequest, varlen_attn
    >>> x, ends = flambeau.ones(3, 1, 4), flambeau.tensor([0, 1, 3], dtype=flambeau.int32)
    >>> out, lse = varlen_attn(x, x, x, ends, ends, 2, 2, return_aux=AuxRequest(lse=True))
    >>> lse  # of one key, and of two: 2 + log 2
    tensor([[2.0000, 2.6931, 2.6931]])
    """

    lse: bool = False


def _check_operands(name: str, query: Tensor, key: Tensor, value: Tensor, paged: bool, gqa: bool) -> None:
    """ValueError for shapes, dtypes and devices that do not agree."""
    rank = 4 if paged else 3
    if query.dim() != 3 or key.dim() != rank or value.dim() != rank:
        raise ValueError(
            f"{name}(): expected query of 3 dimensions, key and value of {rank}, got {query.dim()}, {key.dim()} and {value.dim()}"
        )
    if not query.dtype == key.dtype == value.dtype or not query.is_floating_point():
        raise ValueError(
            f"{name}(): expected query, key and value of one floating-point dtype, got {query.dtype}, {key.dtype} and {value.dtype}"
        )
    if not query.device == key.device == value.device:
        raise ValueError(
            f"{name}(): expected query, key and value on one device, got {query.device}, {key.device} and {value.device}"
        )
    heads, shared = query.shape[1], key.shape[-2]
    if not gqa and heads != shared:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={shared}. "
            "Try setting enable_gqa=True for GQA."
        )
    if gqa and (heads % shared if shared else heads):
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={shared}."
        )
    if key.shape[:-1] != value.shape[:-1] or query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"{name}(): expected key and value of equal lengths and heads, and query as wide as key, got shapes "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )


def _bounds(name: str, label: str, given: Tensor, total: int, longest: int, most_label: str) -> list[int]:
    """Where sequences begin and end, which must rise within the tensor, none longer than was said."""
    if given.dim() != 1 or given.is_floating_point() or given.numel() == 0:
        raise ValueError(
            f"{name}(): expected {label} of shape (N + 1,) and an integer dtype, got {tuple(given.shape)} of {given.dtype}"
        )
    result = given.tolist()
    if result[0] != 0 or any(a > b for a, b in zip(result, result[1:])) or result[-1] > total:
        raise ValueError(
            f"{name}(): expected {label} to rise from 0 to at most {total}, got {result[:4]} … {result[-1]}"
        )
    actual = max((b - a for a, b in zip(result, result[1:])), default=0)
    if actual > longest:
        raise ValueError(
            f"{name}(): {most_label} is {longest}, but {label} has a sequence of length {actual}"
        )
    return result


def _unpaged(name, key, value, block_table, used: list[int]) -> tuple[Tensor, Tensor, list[int]]:
    """The keys and values that sequences use, one after another, from their pages."""
    size, table = key.shape[1], block_table.tolist()
    parts: list[tuple[Tensor, Tensor]] = []
    bounds = [0]
    for count, row in zip(used, table):
        pages = row[: -(-count // size)]
        if count > len(row) * size or any(not 0 <= p < key.shape[0] for p in pages):
            raise ValueError(
                f"{name}(): seqused_k has {count} tokens, for which block_table names the pages {pages} of {key.shape[0]}, "
                f"each of {size} tokens"
            )
        at = tensor(pages, dtype=by_name["int64"], device=key.device)
        parts.append(
            tuple(x.index_select(0, at).reshape(-1, *x.shape[2:])[:count] for x in (key, value))  # type: ignore[arg-type]
        )
        bounds.append(bounds[-1] + count)
    if not parts:
        return key.flatten(0, 1)[:0], value.flatten(0, 1)[:0], bounds
    return cat([k for k, _ in parts]), cat([v for _, v in parts]), bounds


@operation
def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Any:
    """Attention within each of N sequences: query (Tq, Hq, D), key (Tk, Hkv, D) and value (Tk, Hkv, Dv) give (Tq, Hq, Dv).

    Sequence i has the queries from `cu_seq_q[i]` to `cu_seq_q[i + 1]`, and the keys in `cu_seq_k` likewise, none more than `max_q`
    and `max_k`.  `window_size` is (left, right): a query sees so many keys before and behind its own, -1 for all; the last query
    stands at the last key, so (-1, 0) is causal attention.  `scale` is 1 / √D by default; `enable_gqa` lets a head of keys serve
    Hq / Hkv heads of queries.  `seqused_k` (N,) says how many keys of each sequence there are; with `block_table` (N, pages) keys and
    values are pages (pages, page size, Hkv, D) and `cu_seq_k` is not read; both are for inference.  With
    `return_aux=AuxRequest(lse=True)` the result is (output, logarithms of the sums of exponentials (Hq, Tq)).  A query without
    keys gives 0.  `num_splits` changes nothing: a sequence's bits never depend on the others.

    ValueError for shapes, dtypes, heads and lengths that do not agree, RuntimeError for gradients through pages.

    >>> import flambeau
    >>> from flambeau.nn.attention.varlen import varlen_attn
    >>> x, ends = flambeau.ones(5, 2, 8), flambeau.tensor([0, 2, 5], dtype=flambeau.int32)
    >>> varlen_attn(x, x, x, ends, ends, 3, 3, window_size=(-1, 0)).shape
    flambeau.Size([5, 2, 8])
    """
    name = "varlen_attn"
    paged = block_table is not None
    _check_operands(name, query, key, value, paged, enable_gqa)
    if len(window_size) != 2:
        raise ValueError(f"window_size must have length 2, got {len(window_size)}")
    for label, given in (("seqused_k", seqused_k), ("block_table", block_table)):
        if given is not None and tape.tracked(query, key, value):
            raise RuntimeError(f"{label} is an inference-only parameter.")
    queries = _bounds(name, "cu_seq_q", cu_seq_q, query.shape[0], max_q, "max_q")
    used = None if seqused_k is None else seqused_k.tolist()
    if used is not None and len(used) != len(queries) - 1:
        raise ValueError(
            f"{name}(): expected seqused_k of shape ({len(queries) - 1},), got {tuple(seqused_k.shape)}"  # type: ignore[union-attr]
        )
    if block_table is not None:
        if used is None:
            raise ValueError(f"{name}(): block_table needs seqused_k")
        if block_table.dim() != 2 or block_table.shape[0] != len(used):
            raise ValueError(
                f"{name}(): expected block_table of shape ({len(used)}, pages), got {tuple(block_table.shape)}"
            )
        key, value, keys = _unpaged(name, key, value, block_table, used)
    elif cu_seq_k is None:
        raise ValueError(f"{name}(): cu_seq_k is None, which only a block_table allows")
    else:
        keys = _bounds(name, "cu_seq_k", cu_seq_k, key.shape[0], max_k, "max_k")
    if len(keys) != len(queries):
        raise ValueError(f"{name}(): cu_seq_q has {len(queries) - 1} sequences, cu_seq_k {len(keys) - 1}")
    ends = [b if used is None else a + n for a, b, n in zip(keys, keys[1:], used or keys)]
    if any(not a <= e <= b for a, e, b in zip(keys, ends, keys[1:])):
        raise ValueError(f"{name}(): seqused_k must lie between 0 and the lengths in cu_seq_k, got {used}")
    left, right = (None if n < 0 else int(n) for n in window_size)
    bands: list[Band] = []
    low: list[int] = []
    high: list[int] = []
    for q0, q1, k0, k1 in zip(queries, queries[1:], keys, ends):
        shift = k1 - q1
        bands += windowed((q0, q1), (k0, k1), shift, left, right)
        if left is not None or right is not None:
            low += [k0 if left is None else max(k0, i + shift - left) for i in range(q0, q1)]
            high += [k1 - 1 if right is None else min(k1 - 1, i + shift + right) for i in range(q0, q1)]
    if queries[-1] < query.shape[0]:  # of no sequence
        bands.append(Band(queries[-1], query.shape[0], ()))
    program = Program()
    if low:
        rest = [0] * (query.shape[0] - len(low))
        bounds = [tensor(x + rest, dtype=by_name["int64"], device=query.device) for x in (low, high)]
        q, k = symbol("q", "int64"), symbol("k", "int64")
        first, last = (element(n, (q,), "int64") for n in range(2))
        program = Program(None, ex.bitwise("and", k >= first, k <= last), tuple(bounds))
    factor = 1.0 / math.sqrt(query.shape[-1] or 1) if scale is None else float(scale)
    rows = [x.transpose(0, 1).unsqueeze(0) for x in (query, key, value)]
    call = call_of(name, rows[0], rows[1], program, Blocks(1, 1, [[bands]]), factor)
    out, lse, _ = attend(*call, *rows)
    out = out.squeeze(0).transpose(0, 1).contiguous()
    return (out, lse.squeeze(0)) if return_aux is not None and return_aux.lse else out


@operation
def varlen_attn_out(
    out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Any:
    """`varlen_attn` with its output written to `out`, of the output's shape and dtype; without gradients.

    RuntimeError where a gradient would be recorded, ValueError for another shape or dtype.

    >>> import flambeau
    >>> from flambeau.nn.attention.varlen import varlen_attn_out
    >>> x, ends = flambeau.ones(3, 1, 2), flambeau.tensor([0, 1, 3], dtype=flambeau.int32)
    >>> out = flambeau.empty(3, 1, 2)
    >>> varlen_attn_out(out, x, x, x, ends, ends, 2, 2) is out, out.flatten()
    (True, tensor([1., 1., 1., 1., 1., 1.]))
    """
    if tape.tracked(out, query, key, value):
        raise RuntimeError(
            "varlen_attn_out(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    result = varlen_attn(
        query,
        key,
        value,
        cu_seq_q,
        cu_seq_k,
        max_q,
        max_k,
        return_aux=AuxRequest(lse=True),
        scale=scale,
        window_size=window_size,
        enable_gqa=enable_gqa,
        seqused_k=seqused_k,
        block_table=block_table,
        num_splits=num_splits,
    )
    if out.shape != result[0].shape or out.dtype != result[0].dtype:
        raise ValueError(
            f"varlen_attn_out(): expected out of shape {tuple(result[0].shape)} and {result[0].dtype}, got {tuple(out.shape)} and "
            f"{out.dtype}"
        )
    out.copy_(result[0])
    return (out, result[1]) if return_aux is not None and return_aux.lse else out
