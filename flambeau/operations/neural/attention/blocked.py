"""Attention in blocks of queries, with functions of scores and places that are part of the kernels.

For a block of queries the scores of all keys that may be attended to stand in one buffer: a matrix product fills it, one generated
pass applies the function of scores and the mask (`programs.py`), one more (`softmax_in_blocks`) turns rows into exponentials with
their maxima and sums, and a second product takes the values.  Keys that no query of the block may see are left out of the buffer;
keys that all of them see are passed over by the mask.  Backward makes the same buffers again, from the logarithms of the sums (Dao
et al. 2022, FlashAttention, eq. 4), so nothing of the size of all scores ever stands in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ....codegen import expr as ex
from ....codegen import functions as fn
from ....codegen import kernels as kn
from ....codegen.expr import Expr
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.make.create import empty, zeros
from ...declare.indexed import Indexed
from ...declare.pointwise import compute_dtype
from ...declare.rows import row
from . import on_device
from .programs import Kernels, Program, bounds_of, kernels_of

BUFFER = 1 << 18  # scores of one block of queries: a megabyte of float32, which second-level caches hold
LEAST_ROWS, MOST_ROWS = 16, 128  # queries of a block
MOST_CAPTURES = 9  # a kernel has at most 16 operands


@row(places=())
def softmax_in_blocks(scores):
    """exp(scores - m), m + log Σ, 1 / Σ and m, where m is the largest; a row of nothing but -inf: zeros, -inf, 1 and -inf."""
    top = kn.max(scores)
    safe = fn.where(top == -math.inf, fn.like(top, 0.0), top)
    weights = fn.exp(scores - safe)
    total = kn.sum(weights)
    return weights, safe + fn.log(total), 1.0 / fn.where(total == 0, fn.like(total, 1.0), total), top


# --- which scores there are ------------------------------
class Run(NamedTuple):
    """Neighbouring keys, and whether the mask has to be evaluated for them."""

    first: int
    last: int
    masked: bool


class Tile(NamedTuple):
    """A block of queries of some heads: batches [b0, b1), heads of keys [h0, h1), heads [j0, j1) of each group, queries [q0, q1)."""

    b: tuple[int, int]
    h: tuple[int, int]
    j: tuple[int, int]
    q: tuple[int, int]
    runs: tuple[Run, ...]

    @property
    def columns(self) -> int:
        return sum(r.last - r.first for r in self.runs)


class Band(NamedTuple):
    """Neighbouring queries, and the keys that they see."""

    first: int
    last: int
    runs: tuple[Run, ...]


class Blocks(NamedTuple):
    """The bands of a mask, which hold every query once, for each of `batches` × `heads` (1: the same for all)."""

    batches: int
    heads: int
    bands: Sequence[Sequence[Sequence[Band]]]


class Sizes(NamedTuple):
    batches: int
    heads: int  # of keys
    groups: int  # heads of queries for each
    queries: int
    keys: int


def tiles(sizes: Sizes, blocks: Blocks | None, masked: bool) -> Iterator[Tile]:
    """All queries of all heads, in pieces whose scores fit into a buffer."""
    if sizes.batches * sizes.heads * sizes.groups * sizes.queries == 0:
        return
    if blocks is None:
        blocks = Blocks(1, 1, [[[Band(0, sizes.queries, (Run(0, sizes.keys, masked),))]]])
    whole_b, whole_h = (0, sizes.batches), (0, sizes.heads)
    for b in range(blocks.batches):
        for h in range(blocks.heads):
            batches = whole_b if blocks.batches == 1 else (b, b + 1)
            heads, group = whole_h, (0, sizes.groups)
            if blocks.heads > 1:
                heads = (h // sizes.groups, h // sizes.groups + 1)
                group = (h % sizes.groups, h % sizes.groups + 1)
            for first, last, runs in blocks.bands[b][h]:
                yield from _cut(batches, heads, group, (first, last), runs)


def _cut(b, h, j, q, runs: tuple[Run, ...]) -> Iterator[Tile]:
    """A block of queries of many heads, cut by heads, then by queries."""
    columns = max(sum(r.last - r.first for r in runs), 1)
    most = max(min(BUFFER // columns, MOST_ROWS), LEAST_ROWS)
    rows = min(q[1] - q[0], most)
    heads = max(BUFFER // (columns * rows * (j[1] - j[0])), 1)
    many = max(heads // (h[1] - h[0]), 1)
    for b0 in range(b[0], b[1], many):
        for h0 in range(h[0], h[1], heads):
            for q0 in range(q[0], q[1], rows):
                yield Tile(
                    (b0, min(b0 + many, b[1])),
                    (h0, min(h0 + heads, h[1])),
                    j,
                    (q0, min(q0 + rows, q[1])),
                    runs,
                )


def windowed(
    q: tuple[int, int], k: tuple[int, int], shift: int, left: int | None, right: int | None
) -> list[Band]:
    """Bands of the queries [q0, q1) over the keys [k0, k1): query i sees i + shift - left to i + shift + right, None: all."""
    bands = []
    for first in range(*q, MOST_ROWS):
        last = min(first + MOST_ROWS, q[1])

        def low(i: int) -> int:
            return k[0] if left is None else min(max(i + shift - left, k[0]), k[1])

        def high(i: int) -> int:
            return k[1] if right is None else min(max(i + shift + right + 1, k[0]), k[1])

        begin, end = low(first), max(high(last - 1), low(first))  # what some of them see
        inner = min(max(low(last - 1), begin), end)  # what all of them see: [inner, outer)
        outer = max(min(high(first), end), inner)
        parts = (Run(begin, inner, True), Run(inner, outer, False), Run(outer, end, True))
        bands.append(Band(first, last, tuple(r for r in parts if r.first < r.last)))
    return bands


def causal_blocks(queries: int, keys: int, diagonal: int) -> Blocks:
    """Query i sees the keys up to i + diagonal."""
    return Blocks(1, 1, [[windowed((0, queries), (0, keys), diagonal, None, 0)]])


# --- forward ------------------------------
class Call(NamedTuple):
    """What a call is besides its tensors."""

    name: str
    program: Program
    blocks: Blocks | None
    scale: float
    sizes: Sizes
    working: str  # the dtype that scores are computed in
    again: Callable | None = (
        None  # the output of query, key, value and captures by operations that differentiate twice
    )
    reach: int | None = (
        None  # query q sees no key behind q + reach, and of the others those that the mask allows
    )
    causal: bool = False  # the mask allows all of these

    def tiles(self) -> Iterator[Tile]:
        return tiles(self.sizes, self.blocks, self.program.mask is not None)


class Block:
    """The views of the operands that a tile needs, and its passes."""

    def __init__(self, call: Call, tile: Tile, captures: Sequence[TensorBase]):
        self.call, self.tile, self.captures = call, tile, tuple(captures)
        self.shape = tuple(last - first for first, last in (tile.b, tile.h, tile.j, tile.q))
        self.rows = self.shape[2] * self.shape[3]

    def queries(self, x: TensorBase) -> TensorBase:
        """The part (batch, head of keys, head of group, query, …) of what has a row for each query."""
        (b0, b1), (h0, h1), (j0, j1), (q0, q1), _ = self.tile
        sizes = self.call.sizes
        x = x.unflatten(1, (sizes.heads, sizes.groups))
        return x[b0:b1, h0:h1, j0:j1, q0:q1]

    def gathered(self, x: TensorBase, factor: float = 1.0) -> TensorBase:
        """That part as one matrix for each head of keys, in the dtype of scores."""
        result = self.queries(x).to(by_name[self.call.working])
        if factor != 1.0:
            result = result * factor
        return result.reshape(*self.shape[:2], self.rows, x.shape[-1])

    def keys(self, x: TensorBase, run: Run) -> TensorBase:
        (b0, b1), (h0, h1) = self.tile[:2]
        return x[b0:b1, h0:h1, run.first : run.last]

    def runs(self) -> Iterator[tuple[Run, int, int]]:
        """The runs of keys, and where their columns stand in a buffer."""
        at = 0
        for run in self.tile.runs:
            yield run, at, at + run.last - run.first
            at += run.last - run.first

    def buffer(self, columns: int, device) -> TensorBase:
        dtype = by_name[self.call.working]
        return empty((*self.shape[:2], self.rows, columns), dtype=dtype, device=device)

    def products(self, left: TensorBase, right: TensorBase) -> TensorBase:
        """left · rightᵀ for the keys of all runs, side by side."""
        out = self.buffer(self.tile.columns, left.device)
        for run, c0, c1 in self.runs():
            part = out if c1 - c0 == self.tile.columns else out[..., c0:c1]
            left.matmul(self.keys(right, run).transpose(-2, -1), out=part)
        return out

    def run(
        self,
        kernel: Indexed,
        outs: Sequence[TensorBase],
        inputs: Sequence[TensorBase],
        run: Run,
        c0: int,
        c1: int,
    ) -> None:
        """A pass over the columns [c0, c1) of buffers; what has one value a row comes whole."""

        def seen(x: TensorBase) -> TensorBase:
            x = x.unflatten(2, self.shape[2:])
            return x[..., c0:c1] if x.ndim == 5 else x

        given = tuple(seen(x) for x in outs), (*(seen(x) for x in inputs), *self.captures)
        kernel.run(*given, (*self.shape, c1 - c0), 0, True, self.starts(run))

    def starts(self, run: Run) -> dict[str, int]:
        tile, groups = self.tile, self.call.sizes.groups
        return {
            "b": tile.b[0],
            "h": tile.h[0],
            "j": tile.j[0],
            "q": tile.q[0],
            "k": run.first,
            "groups": groups,
        }


def forward(
    call: Call, query: TensorBase, key: TensorBase, value: TensorBase, captures: tuple[TensorBase, ...]
) -> tuple[TensorBase, TensorBase, TensorBase]:
    """Output, logarithms of the sums of exponentials, and largest scores."""
    with bounds_of(call.name):
        return _forward(call, query, key, value, captures)


def _forward(call: Call, query, key, value, captures) -> tuple[TensorBase, TensorBase, TensorBase]:
    sizes, device, working = call.sizes, query.device, by_name[call.working]
    heads = sizes.heads * sizes.groups
    out = empty((sizes.batches, heads, sizes.queries, value.shape[-1]), dtype=query.dtype, device=device)
    lse = empty((sizes.batches, heads, sizes.queries), dtype=working, device=device)
    top = empty(lse.shape, dtype=working, device=device)
    if query.is_meta or on_device.forward(call, query, key, value, captures, (out, lse, top)):
        return out, lse, top
    key, value = key.to(working), value.to(working)
    kernels = kernels_of(call.program._replace(captures=captures))
    for tile in call.tiles():
        block = Block(call, tile, captures)
        if not tile.columns:
            for x, filling in ((out, 0.0), (lse, -math.inf), (top, -math.inf)):
                block.queries(x).fill_(filling)
            continue
        scores = block.products(block.gathered(query, call.scale), key)
        for run, c0, c1 in block.runs():
            if call.program.score is not None or run.masked:
                block.run(kernels.scores(run.masked), (scores,), (scores,), run, c0, c1)
        weights, logs, inverse, largest = softmax_in_blocks.over((scores,), -1)
        del scores
        result = None
        for run, c0, c1 in block.runs():
            part = weights[..., c0:c1].matmul(block.keys(value, run))
            result = part if result is None else result.add_(part)
        result = result.mul_(inverse.unsqueeze(-1))
        block.queries(out).copy_(result.reshape(*block.shape, -1))
        block.queries(lse).copy_(logs.reshape(block.shape))
        block.queries(top).copy_(largest.reshape(block.shape))
    return out, lse, top


# --- backward ------------------------------
def backward(call: Call, wanted: Sequence[bool], grads, query, key, value, out, lse, captures) -> tuple:
    """Gradients of query, key, value and the captures, None where not `wanted`."""
    with bounds_of(call.name):
        return _backward(call, wanted, grads, query, key, value, out, lse, captures)


def _backward(call: Call, wanted, grads, query, key, value, out, lse, captures) -> tuple:
    working = by_name[call.working]
    to_out, to_lse = grads[0], grads[1]
    to_out = out.new_zeros(out.shape) if to_out is None else to_out
    delta = (to_out.to(working) * out.to(working)).sum(-1)
    if to_lse is not None:
        delta = delta - to_lse
    in_kernels = on_device.backward(call, wanted, (to_out, delta), query, key, value, lse, captures)
    if in_kernels is not None:
        return *in_kernels, *[None] * len(captures)
    key_seen, value_seen = key.to(working), value.to(working)
    of_query = empty(query.shape, dtype=query.dtype, device=query.device) if wanted[0] else None
    of_key, of_value = (
        zeros(x.shape, dtype=working, device=x.device) if some else None
        for x, some in zip((key, value), wanted[1:])
    )
    of_captures = [
        zeros(c.shape, dtype=by_name[compute_dtype(c.dtype.name)], device=c.device) if some else None
        for c, some in zip(captures, wanted[3:])
    ]
    kernels = kernels_of(call.program._replace(captures=captures))
    for tile in call.tiles():
        block = Block(call, tile, captures)
        if not tile.columns:
            if of_query is not None:
                block.queries(of_query).fill_(0.0)
            continue
        rows = block.gathered(query, call.scale)
        arrived = block.gathered(to_out)
        scores, arriving = block.products(rows, key_seen), block.products(arrived, value_seen)
        per_row = [block.queries(x).reshape(*block.shape[:2], block.rows) for x in (lse, delta)]
        inputs = (scores, arriving, *per_row)
        for run, c0, c1 in block.runs():
            for number, site in enumerate(kernels.sites):
                if of_captures[site.value] is not None:
                    _add_captured(block, kernels, number, site, of_captures[site.value], inputs, run, c0, c1)
            block.run(kernels.gradients(run.masked), (scores, arriving), inputs, run, c0, c1)
        result = None
        for run, c0, c1 in block.runs():
            weights, change = scores[..., c0:c1], arriving[..., c0:c1]
            if of_value is not None:
                block.keys(of_value, run).add_(weights.transpose(-2, -1).matmul(arrived))
            if of_key is not None:
                block.keys(of_key, run).add_(change.transpose(-2, -1).matmul(rows))
            if of_query is not None:
                part = change.matmul(block.keys(key_seen, run))
                result = part if result is None else result.add_(part)
        if of_query is not None:
            block.queries(of_query).copy_(result.mul_(call.scale).reshape(*block.shape, -1))
    cast = [None if g is None else g.to(x.dtype) for g, x in zip((of_key, of_value), (key, value))]
    return of_query, *cast, *(None if g is None else g.to(c.dtype) for g, c in zip(of_captures, captures))


AXES = ("b", "h", "h", "q", "k")  # the place that each axis of a buffer belongs to


def _add_captured(
    block: Block, kernels: Kernels, number: int, site: Expr, total, inputs, run: Run, c0: int, c1: int
) -> None:
    """Compute what reaches the elements read at a site, add up along the axes that they do not depend on, and scatter the rest.

    Along an axis whose place is itself an index (`bias[h, …]`) no element is met twice; along the others the scatter goes in order,
    so that it is the same sum every time.
    """
    result = block.buffer(c1 - c0, total.device)
    buffers = [x[..., c0:c1] if x.ndim == 4 else x for x in inputs]
    block.run(kernels.captured(number, run.masked), (result,), buffers, run, 0, c1 - c0)
    result = result.unflatten(2, block.shape[2:])
    used = {e.value for e in ex.walk(site.args) if e.op == "symbol"}
    plain = {e.value for e in site.args if e.op == "symbol"}
    if run.masked and kernels.mask is not None and any(i.op not in ("symbol", "const") for i in site.args):
        used |= {e.value for e in ex.walk([kernels.mask]) if e.op == "symbol"}
    over = [axis for axis, place in enumerate(AXES) if place not in used]
    if over:
        result = result.sum(over, True)
    order = tuple(sorted(range(5), key=lambda axis: (AXES[axis] not in plain, axis)))
    serial = sum(place not in plain for place in AXES)
    result = result.permute(order)
    kernel = kernels.scatter(number, run.masked, order)
    kernel.run((total,), (result, *block.captures), tuple(result.shape), serial, False, block.starts(run))


# --- calls ------------------------------
def sizes_of(query: TensorBase, key: TensorBase) -> Sizes:
    groups = query.shape[1] // key.shape[1] if key.shape[1] else 1
    return Sizes(query.shape[0], key.shape[1], groups, query.shape[2], key.shape[2])


def call_of(
    name: str,
    query: TensorBase,
    key: TensorBase,
    program: Program,
    blocks: Blocks | None,
    scale: float,
    again: Callable | None = None,
) -> tuple[Call, tuple[TensorBase, ...]]:
    """A call on checked operands (batch, heads, length, width), and the tensors that its functions read, which it does not hold."""
    sizes = sizes_of(query, key)
    heads = sizes.heads * sizes.groups
    program.check(name, {"b": sizes.batches, "h": heads, "q": sizes.queries, "k": sizes.keys})
    if len(program.captures) > MOST_CAPTURES:
        raise RuntimeError(
            f"{name}(): its functions read {len(program.captures)} tensors, at most {MOST_CAPTURES} fit into a kernel"
        )
    bare = program._replace(captures=())
    return Call(name, bare, blocks, scale, sizes, compute_dtype(query.dtype.name), again), program.captures


def runs_of(partial: Iterable[int], full: Iterable[int], width: int, keys: int) -> tuple[Run, ...]:
    """Numbers of blocks of `width` keys as runs of neighbours, in order; blocks behind the last key are left out."""
    masked = {n: True for n in partial} | {n: False for n in full}
    result: list[Run] = []
    for n in sorted(masked):
        first, last = n * width, min((n + 1) * width, keys)
        if first >= last:
            continue
        if result and result[-1].last == first and result[-1].masked == masked[n]:
            result[-1] = Run(result[-1].first, last, masked[n])
        else:
            result.append(Run(first, last, masked[n]))
    return tuple(result)
