"""Attention in blocks of queries, with functions of scores and places that are part of the kernels.

For a block of queries the scores of all keys that may be attended to stand in one buffer: a matrix product fills it, one generated
pass applies the function of scores and the mask, one more (`softmax_in_blocks`) turns rows into exponentials with their maxima and
sums, and a second product takes the values.  Keys that no query of the block may see are left out of the buffer; keys that all of
them see are passed over by the mask.  Backward makes the same buffers again, from the logarithms of the sums (Dao et al. 2022,
FlashAttention, eq. 4), so nothing of the size of all scores ever stands in memory.

A `Program` holds the functions as scalar expressions of these leaves: "symbol" nodes for the score and the places (`symbol`), and
"capture" nodes for elements of tensors (`element`); no gradient goes through a "constant" node.  `nn/attention/_tracing.py` makes
programs of functions in Python.
"""

from __future__ import annotations

import inspect
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...codegen import differentiate
from ...codegen import expr as ex
from ...codegen import functions as fn
from ...codegen import kernels as kn
from ...codegen.expr import Expr
from ...core import tape
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.make.create import empty, zeros
from ...core.tape.contexts import unrecorded
from ..declare.indexed import At, Indexed, Operand
from ..declare.pointwise import compute_dtype
from ..declare.rows import row

PLACES = ("b", "h", "q", "k")  # batch, head of queries, query, key
BUFFER = 1 << 18  # scores of one block of queries: a megabyte of float32, which second-level caches hold
LEAST_ROWS, MOST_ROWS = 16, 128  # queries of a block
MOST_CAPTURES = 9  # a kernel has at most 16 operands
KEPT_KERNELS = 256  # programs whose kernels stay known


# --- programs ------------------------------
def symbol(name: str, dtype: str) -> Expr:
    """The score ("score"), what arrives at it from behind ("grad"), or a place ("b", "h", "q", "k")."""
    return ex.make("symbol", (), dtype, name)


def element(number: int, at: Sequence[Expr], dtype: str) -> Expr:
    """The element of capture `number` at computed integer places; half types are float32 there."""
    return ex.make("capture", tuple(at), compute_dtype(dtype), number)


class Program(NamedTuple):
    """What happens to a score: None leaves scores as they are, or masks nothing."""

    score: Expr | None = None
    mask: Expr | None = None
    captures: tuple[TensorBase, ...] = ()

    def sites(self) -> list[Expr]:
        """Where the function of scores reads captured numbers that have gradients."""
        if self.score is None:
            return []
        return [e for e in ex.walk([self.score]) if e.op == "capture" and ex.is_float(e.dtype)]

    def text(self) -> str:
        parts = ("-" if e is None else ex.text([e]) for e in (self.score, self.mask))
        return "\n".join((*parts, *(f"{c.dtype.name} {c.ndim}" for c in self.captures)))

    def check(self, name: str, extents: dict[str, int]) -> None:
        """IndexError where a capture is read at a place itself (`table[h, q]`) and is shorter than there are places."""
        for e in ex.walk([r for r in (self.score, self.mask) if r is not None]):
            if e.op != "capture":
                continue
            for d, i in enumerate(e.args):
                size = self.captures[e.value].shape[d]
                if i.op == "symbol" and extents[i.value] > size:
                    raise IndexError(
                        f"{name}(): index {extents[i.value] - 1} is out of bounds for dimension {d} with size {size} of a "
                        f"captured tensor of shape {tuple(self.captures[e.value].shape)}"
                    )


# --- kernels ------------------------------
def _placed(
    roots: Sequence[Expr], at: At, symbols: dict[str, Expr], captures: Sequence[Operand], allowed: Expr | None
) -> list[Expr]:
    """Expressions of a program where a kernel stands: symbols and captures replaced.

    Places that were computed are checked; where `allowed` does not hold, nothing is asked of them.
    """
    new: dict[int, Expr] = {}
    for e in ex.walk(roots):
        args = tuple(new[id(a)] for a in e.args)
        if e.op == "symbol":
            new[id(e)] = ex.cast(symbols[e.value], e.dtype)
        elif e.op == "capture":
            array, where = captures[e.value], []
            for d, (i, known) in enumerate(zip(args, e.args)):
                if known.op not in ("symbol", "const"):
                    i = i if allowed is None else ex.where(allowed, i, ex.like(i, 0))
                    i = at.checked(i, array.size(d), negative=True)
                where.append(ex.cast(i, at.integer))
            new[id(e)] = array[where]
        elif e.op == "constant":
            new[id(e)] = args[0]
        else:
            new[id(e)] = e if all(a is b for a, b in zip(args, e.args)) else ex.remade(e, args)
    return [new[id(r)] for r in roots]


def _places(at: Sequence[Expr], groups: Expr, starts: dict[str, Expr]) -> dict[str, Expr]:
    """The place of a score from its coordinates in a buffer (batch, head of keys, head of its group, query, key)."""
    head = (starts["h"] + at[1]) * groups + starts["j"] + at[2]
    return {"b": starts["b"] + at[0], "h": head, "q": starts["q"] + at[3], "k": starts["k"] + at[4]}


STARTS = ("b", "h", "j", "q", "k", "groups")


def _declared(
    body: Callable, operands: Sequence[str], numbers: Sequence[str], writes: bool, effort: int
) -> Indexed:
    """A kernel whose body takes `at`, these operands, and these numbers: for a buffer, where it begins."""
    kind = inspect.Parameter
    parameters = [kind(n, kind.POSITIONAL_OR_KEYWORD) for n in ("at", *operands)]
    parameters += [kind(n, kind.KEYWORD_ONLY) for n in numbers]
    body.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return Indexed(body, (), (), (None,), effort, writes)


class Kernels:
    """The passes over a buffer of scores that a program needs."""

    def __init__(self, program: Program):
        self.score, self.mask = program.score, program.mask
        self.names = [f"capture{k}" for k in range(len(program.captures))]
        self.passes: dict[Any, Indexed] = {}

    def scores(self, masked: bool) -> Indexed:
        """scores → what the softmax sees, over (scores, *captures)."""

        def change_scores(at, scores, *captures, groups, **starts):
            places = _places(at, groups, starts)
            allowed, changed, _ = self.changed(at, places, scores[at], captures, masked)
            return changed if allowed is None else ex.where(allowed, changed, ex.like(changed, -math.inf))

        return self.kept(("scores", masked), change_scores, ["scores", *self.names])

    def changed(self, at, places, score, captures, masked):
        """Whether a place is allowed (None: all are), its score after the function, and what the function's leaves are."""
        symbols = {**places, "score": score}
        mask = self.mask if masked else None
        allowed = None if mask is None else _placed([mask], at, symbols, captures, None)[0]
        if self.score is None:
            return allowed, score, symbols
        return (
            allowed,
            ex.cast(_placed([self.score], at, symbols, captures, allowed)[0], score.dtype),
            symbols,
        )

    def gradients(self, masked: bool) -> Indexed:
        """(scores, what arrives at the weights) → (weights, what arrives at the scores), over (those two, the logarithms of the
        sums, Σ gradient · output, *captures).
        """

        def change_gradients(at, scores, arriving, lse, delta, *captures, groups, **starts):
            places = _places(at, groups, starts)
            weight, grad, allowed, symbols = self.arrived(
                at, places, (scores, arriving, lse, delta), captures, masked
            )
            if self.score is None:
                return weight, grad
            found = self.derivative(
                [symbol("score", grad.dtype)], at, {**symbols, "grad": grad}, captures, allowed
            )
            return weight, found[0]

        names = ["scores", "arriving", "lse", "delta", *self.names]
        return self.kept(("gradients", masked), change_gradients, names)

    def arrived(self, at, places, buffers, captures, masked):
        """The weight, what arrives at the changed score, where, and the leaves."""
        scores, arriving, lse, delta = buffers
        one = (at[0], at[1], at[2], at[3])
        allowed, changed, symbols = self.changed(at, places, scores[at], captures, masked)
        attends = lse[one] > -math.inf
        allowed = attends if allowed is None else allowed & attends
        zero = ex.like(changed, 0.0)
        weight = ex.where(allowed, fn.exp(changed - lse[one]), zero)
        return weight, ex.where(allowed, weight * (arriving[at] - delta[one]), zero), allowed, symbols

    def derivative(self, wanted: Sequence[Expr], at, symbols, captures, allowed) -> list[Expr]:
        """What reaches the score, or captured elements, through the function; 0 where nothing is allowed."""
        grad = symbols["grad"]
        assert self.score is not None  # without a function nothing goes through it
        parts = _derivatives(self.score, wanted, grad.dtype)
        zero = ex.const(0.0, grad.dtype)
        found = _placed(parts, at, symbols, captures, allowed)
        return [ex.where(allowed, ex.cast(e, grad.dtype), zero) for e in found]

    def captured(self, site: int, masked: bool) -> Indexed:
        """What reaches the element that the function reads at `site`, for every score."""

        def change_captured(at, scores, arriving, lse, delta, *captures, groups, **starts):
            places = _places(at, groups, starts)
            _, grad, allowed, symbols = self.arrived(
                at, places, (scores, arriving, lse, delta), captures, masked
            )
            wanted = Program(self.score).sites()[site]
            return self.derivative([wanted], at, {**symbols, "grad": grad}, captures, allowed)[0]

        names = ["scores", "arriving", "lse", "delta", *self.names]
        return self.kept(("captured", site, masked), change_captured, names)

    def scatter(self, site: int, masked: bool, order: tuple[int, ...]) -> Indexed:
        """Adds what `captured` computed to the gradient of the tensor, where its element stands.

        The axes of a buffer are walked in `order`.
        """

        def add_captured(at, out, found, *captures, groups, **starts):
            here = [at[order.index(axis)] for axis in range(len(order))]
            symbols = {**_places(here, groups, starts), "score": found[at]}
            wanted = Program(self.score).sites()[site]
            allowed = None
            if masked and self.mask is not None:
                allowed = _placed([self.mask], at, symbols, captures, None)[0]
            placed = _placed([ex.cast(i, "int64") for i in wanted.args], at, symbols, captures, None)
            where = []
            for d, (i, known) in enumerate(zip(placed, wanted.args)):
                if known.op not in ("symbol", "const"):
                    i = i if allowed is None else ex.where(allowed, i, ex.like(i, 0))
                    i = at.checked(i, out.size(d), negative=True)
                where.append(i)
            return out.store(where, ex.cast(found[at], out.dtype), "add")

        return self.kept(("scatter", site, masked, order), add_captured, ["out", "found", *self.names], True)

    def whole_mask(self) -> Indexed:
        """Where the mask allows, or the function leaves a score above -inf: (B, H, L, S), over the captures."""

        def change_mask(at, *captures):
            return self.seen(at, dict(zip(PLACES, at)), captures)

        return self.kept("mask", change_mask, self.names, numbers=())

    def block_mask(self) -> Indexed:
        """Whether a block of `rows` × `columns` places has any that is allowed, and whether all are: (B, H, blocks, blocks)."""

        def change_blocks(at, *captures, rows, columns, queries, keys):
            def one(i, j):
                q, k = at[2] * rows + i, at[3] * columns + j
                inside = (q < queries) & (k < keys)
                places = dict(
                    zip(PLACES, (at[0], at[1], ex.minimum(q, queries - 1), ex.minimum(k, keys - 1)))
                )
                found = self.seen(at, places, captures) & inside
                return found, found

            combine = lambda a, b: (a[0] | b[0], a[1] & b[1])
            return at.fold((rows, columns), one, combine, (ex.const(False, "bool"), ex.const(True, "bool")))

        numbers = ("rows", "columns", "queries", "keys")
        return self.kept("blocks", change_blocks, self.names, numbers=numbers, effort=4096)

    def seen(self, at, places, captures) -> Expr:
        if self.mask is not None:
            return _placed([self.mask], at, places, captures, None)[0]
        if self.score is None:
            return ex.const(True, "bool")
        score = _placed([self.score], at, {**places, "score": ex.const(0.0, "float32")}, captures, None)[0]
        return score != -math.inf

    def kept(
        self,
        key,
        body: Callable,
        operands: Sequence[str],
        writes: bool = False,
        numbers: Sequence[str] = STARTS,
        effort: int = 8,
    ) -> Indexed:
        found = self.passes.get(key)
        if found is None:
            found = self.passes[key] = _declared(body, operands, numbers, writes, effort)
        return found


def _derivatives(score: Expr, wanted: Sequence[Expr], dtype: str) -> list[Expr]:
    """d(grad · score) / d(each of `wanted`); "capture" nodes are leaves there."""
    leaves = [e for e in ex.walk([score]) if e.op in ("capture", "symbol", "constant")]
    found = differentiate.gradients([score], [symbol("grad", score.dtype)], leaves)
    by_leaf = {ex.text([leaf]): part for leaf, part in zip(leaves, found)}
    parts = [by_leaf.get(ex.text([w])) for w in wanted]
    return [ex.const(0.0, dtype) if p is None else p for p in parts]


_known: OrderedDict[str, Kernels] = OrderedDict()


def kernels_of(program: Program) -> Kernels:
    """The kernels of this program: those of an earlier one that reads the same."""
    text = program.text()
    found = _known.get(text)
    if found is None:
        found = _known[text] = Kernels(program)
        if len(_known) > KEPT_KERNELS:
            _known.popitem(last=False)
    else:
        _known.move_to_end(text)
    return found


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
    """Neighbouring keys, and whether the mask has to be asked about them."""

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
        found = self.queries(x).to(by_name[self.call.working])
        if factor != 1.0:
            found = found * factor
        return found.reshape(*self.shape[:2], self.rows, x.shape[-1])

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


def _forward(
    call: Call, query: TensorBase, key: TensorBase, value: TensorBase, captures: Sequence[TensorBase]
):
    """Output, logarithms of the sums of exponentials, and largest scores."""
    sizes, device, working = call.sizes, query.device, by_name[call.working]
    heads = sizes.heads * sizes.groups
    out = empty((sizes.batches, heads, sizes.queries, value.shape[-1]), dtype=query.dtype, device=device)
    lse = empty((sizes.batches, heads, sizes.queries), dtype=working, device=device)
    top = empty(lse.shape, dtype=working, device=device)
    if query.is_meta:
        return out, lse, top
    key, value = key.to(working), value.to(working)
    kernels = kernels_of(call.program)
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
        found = None
        for run, c0, c1 in block.runs():
            part = weights[..., c0:c1].matmul(block.keys(value, run))
            found = part if found is None else found.add_(part)
        found = found.mul_(inverse.unsqueeze(-1))
        block.queries(out).copy_(found.reshape(*block.shape, -1))
        block.queries(lse).copy_(logs.reshape(block.shape))
        block.queries(top).copy_(largest.reshape(block.shape))
    return out, lse, top


# --- backward ------------------------------
def _backward(call: Call, wanted: Sequence[bool], grads, query, key, value, out, lse, captures):
    """Gradients of query, key, value and the captures, None where not `wanted`."""
    working = by_name[call.working]
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
    to_out, to_lse = grads[0], grads[1]
    to_out = out.new_zeros(out.shape) if to_out is None else to_out
    delta = (to_out.to(working) * out.to(working)).sum(-1)
    if to_lse is not None:
        delta = delta - to_lse
    kernels, sites = kernels_of(call.program), call.program.sites()
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
            for number, site in enumerate(sites):
                if of_captures[site.value] is not None:
                    _add_captured(block, kernels, number, site, of_captures[site.value], inputs, run, c0, c1)
            block.run(kernels.gradients(run.masked), (scores, arriving), inputs, run, c0, c1)
        found = None
        for run, c0, c1 in block.runs():
            weights, change = scores[..., c0:c1], arriving[..., c0:c1]
            if of_value is not None:
                block.keys(of_value, run).add_(weights.transpose(-2, -1).matmul(arrived))
            if of_key is not None:
                block.keys(of_key, run).add_(change.transpose(-2, -1).matmul(rows))
            if of_query is not None:
                part = change.matmul(block.keys(key_seen, run))
                found = part if found is None else found.add_(part)
        if of_query is not None:
            block.queries(of_query).copy_(found.mul_(call.scale).reshape(*block.shape, -1))
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
    found = block.buffer(c1 - c0, total.device)
    buffers = [x[..., c0:c1] if x.ndim == 4 else x for x in inputs]
    block.run(kernels.captured(number, run.masked), (found,), buffers, run, 0, c1 - c0)
    found = found.unflatten(2, block.shape[2:])
    used = {e.value for e in ex.walk(site.args) if e.op == "symbol"}
    plain = {e.value for e in site.args if e.op == "symbol"}
    if run.masked and kernels.mask is not None and any(i.op not in ("symbol", "const") for i in site.args):
        used |= {e.value for e in ex.walk([kernels.mask]) if e.op == "symbol"}
    over = [axis for axis, place in enumerate(AXES) if place not in used]
    if over:
        found = found.sum(over, True)
    order = tuple(sorted(range(5), key=lambda axis: (AXES[axis] not in plain, axis)))
    serial = sum(place not in plain for place in AXES)
    found = found.permute(order)
    kernel = kernels.scatter(number, run.masked, order)
    kernel.run((total,), (found, *block.captures), tuple(found.shape), serial, False, block.starts(run))


# --- on the tape ------------------------------
@contextmanager
def _bounds_of(name: str) -> Iterator[None]:
    """An index that a kernel found out of bounds is an error of the operation that was called."""
    try:
        yield
    except IndexError:
        raise IndexError(f"{name}(): an index into a captured tensor is out of bounds") from None


def attend(call: Call, query: TensorBase, key: TensorBase, value: TensorBase):
    """Attention as a call has it: output (B, heads, L, Ev), logarithms of the sums and largest scores (B, heads, L)."""
    captures = call.program.captures
    with unrecorded(), _bounds_of(call.name):
        out, lse, top = _forward(call, query, key, value, captures)
    inputs = (query, key, value, *captures)
    if tape.recording(*inputs):
        wanted = tuple(tape.recording(x) for x in inputs)
        record = ("FlexAttentionBackward0", _back, inputs, (out, lse), (*inputs, out, lse), (call, wanted))
        tape.record(*record)
    return out, lse, top


def _back(grads, *saved_and_extra):
    *saved, call, wanted = saved_and_extra
    query, key, value, *captures, out, lse = saved
    inputs = tuple(x for x in (*grads, *saved) if x is not None)
    if call.again is not None and tape.recording(*inputs):
        return _recorded(call.again, wanted, grads[0], (query, key, value, *captures))
    with unrecorded(), _bounds_of(call.name):
        found = _backward(call, wanted, grads, query, key, value, out, lse, tuple(captures))
    if tape.recording(*inputs):
        made = tuple(g for g in found if g is not None)
        tape.record("FlexAttentionBackwardBackward0", _refused, inputs, made, (), (call.name,))
    return found


def _recorded(again: Callable, wanted: Sequence[bool], grad: TensorBase, inputs: tuple):
    """Gradients with a history of their own."""
    asked = [x for x, some in zip(inputs, wanted) if some]
    found = iter(tape.run_backward([again(*inputs)], [grad], True, True, asked, False))
    return tuple(next(found) if some else None for some in wanted)


def _refused(grads, name: str):
    raise RuntimeError(
        f"{name}(): its backward pass is not differentiable; second derivatives are not available"
    )


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
) -> Call:
    """A call on checked operands (batch, heads, length, width)."""
    sizes = sizes_of(query, key)
    heads = sizes.heads * sizes.groups
    program.check(name, {"b": sizes.batches, "h": heads, "q": sizes.queries, "k": sizes.keys})
    if len(program.captures) > MOST_CAPTURES:
        raise RuntimeError(
            f"{name}(): its functions read {len(program.captures)} tensors, at most {MOST_CAPTURES} fit into a kernel"
        )
    return Call(name, program, blocks, scale, sizes, compute_dtype(query.dtype.name), again)


def runs_of(partial: Iterable[int], full: Iterable[int], width: int, keys: int) -> tuple[Run, ...]:
    """Numbers of blocks of `width` keys as runs of neighbours, in order; blocks behind the last key are left out."""
    masked = {n: True for n in partial} | {n: False for n in full}
    found: list[Run] = []
    for n in sorted(masked):
        first, last = n * width, min((n + 1) * width, keys)
        if first >= last:
            continue
        if found and found[-1].last == first and found[-1].masked == masked[n]:
            found[-1] = Run(found[-1].first, last, masked[n])
        else:
            found.append(Run(first, last, masked[n]))
    return tuple(found)


# --- masks ------------------------------
def mask_of(name: str, program: Program, shape: tuple[int, int, int, int], device) -> TensorBase:
    """The mask of a program as a tensor of bools (B, H, L, S)."""
    program.check(name, dict(zip(PLACES, shape)))
    out = empty(shape, dtype=by_name["bool"], device=device)
    if not out.is_meta:
        with _bounds_of(name):
            kernels_of(program).whole_mask().run((out,), program.captures, shape, 0, True, {})
    return out


def block_mask_of(
    name: str, program: Program, shape: tuple[int, int, int, int], block: tuple[int, int], device
) -> tuple[TensorBase, TensorBase]:
    """Which blocks have a place that is allowed, and which have no other, without making the mask: (B, H, ⌈L/rows⌉, ⌈S/columns⌉)."""
    program.check(name, dict(zip(PLACES, shape)))
    counts = (*shape[:2], -(-shape[2] // block[0]), -(-shape[3] // block[1]))
    some, every = (empty(counts, dtype=by_name["bool"], device=device) for _ in range(2))
    numbers = {"rows": block[0], "columns": block[1], "queries": shape[2], "keys": shape[3]}
    if not some.is_meta:
        with _bounds_of(name):
            kernels_of(program).block_mask().run((some, every), program.captures, counts, 0, True, numbers)
    return some, every
