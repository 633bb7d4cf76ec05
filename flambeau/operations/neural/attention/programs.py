"""Functions of scores and masks as expressions, and the kernels made of them.

A `Program` holds the functions as scalar expressions of these leaves: "symbol" nodes for the score and the places (`symbol`), and
"capture" nodes for elements of tensors (`element`); no gradient goes through a "constant" node.  `nn/attention/_tracing.py` makes
programs of functions in Python, `blocked.py` runs their kernels over blocks of scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ....codegen import differentiate
from ....codegen import expr as ex
from ....codegen import functions as fn
from ....codegen.expr import Expr
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.make.create import empty
from ...declare.indexed import At, Indexed, Operand
from ...declare.pointwise import compute_dtype

PLACES = ("b", "h", "q", "k")  # batch, head of queries, query, key
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

    Places that were computed are checked; where `allowed` does not hold, they are not checked.
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
    import inspect

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
        self.sites = program.sites()
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
            result = self.derivative(
                [symbol("score", grad.dtype)], at, {**symbols, "grad": grad}, captures, allowed
            )
            return weight, result[0]

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
        result = _placed(parts, at, symbols, captures, allowed)
        return [ex.where(allowed, ex.cast(e, grad.dtype), zero) for e in result]

    def captured(self, site: int, masked: bool) -> Indexed:
        """What reaches the element that the function reads at `site`, for every score."""

        def change_captured(at, scores, arriving, lse, delta, *captures, groups, **starts):
            places = _places(at, groups, starts)
            _, grad, allowed, symbols = self.arrived(
                at, places, (scores, arriving, lse, delta), captures, masked
            )
            wanted = self.sites[site]
            return self.derivative([wanted], at, {**symbols, "grad": grad}, captures, allowed)[0]

        names = ["scores", "arriving", "lse", "delta", *self.names]
        return self.kept(("captured", site, masked), change_captured, names)

    def scatter(self, site: int, masked: bool, order: tuple[int, ...]) -> Indexed:
        """Adds what `captured` computed to the gradient of the tensor, where its element stands.

        The axes of a buffer are walked in `order`.
        """

        def add_captured(at, out, result, *captures, groups, **starts):
            here = [at[order.index(axis)] for axis in range(len(order))]
            symbols = {**_places(here, groups, starts), "score": result[at]}
            wanted = self.sites[site]
            allowed = None
            if masked and self.mask is not None:
                allowed = _placed([self.mask], at, symbols, captures, None)[0]
            placed = _placed([ex.cast(i, "int64") for i in wanted.args], at, symbols, captures, allowed)
            where = []
            for d, (i, known) in enumerate(zip(placed, wanted.args)):
                if known.op not in ("symbol", "const"):
                    i = i if allowed is None else ex.where(allowed, i, ex.like(i, 0))
                    i = at.checked(i, out.size(d), negative=True)
                where.append(i)
            return out.store(where, ex.cast(result[at], out.dtype), "add")

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
                result = self.seen(at, places, captures) & inside
                return result, result

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
        result = self.passes.get(key)
        if result is None:
            result = self.passes[key] = _declared(body, operands, numbers, writes, effort)
        return result


def _derivatives(score: Expr, wanted: Sequence[Expr], dtype: str) -> list[Expr]:
    """d(grad · score) / d(each of `wanted`); "capture" nodes are leaves there."""
    leaves = [e for e in ex.walk([score]) if e.op in ("capture", "symbol", "constant")]
    result = differentiate.gradients([score], [symbol("grad", score.dtype)], leaves)
    by_leaf = {ex.text([leaf]): part for leaf, part in zip(leaves, result)}
    parts = [by_leaf.get(ex.text([w])) for w in wanted]
    return [ex.const(0.0, dtype) if p is None else p for p in parts]


def gradient_of_score(score: Expr, dtype: str) -> Expr:
    """What reaches the score, of "grad", which arrives at the function of it."""
    return ex.cast(_derivatives(score, [symbol("score", dtype)], dtype)[0], dtype)


_known: dict[str, Kernels] = {}


def kernels_of(program: Program) -> Kernels:
    """The kernels of this program: those of an earlier one that reads the same."""
    text = program.text()
    result = _known.get(text)
    if result is None:
        if len(_known) >= KEPT_KERNELS:
            _known.pop(next(iter(_known)), None)
        result = _known[text] = Kernels(program)
    return result


@contextmanager
def bounds_of(name: str) -> Iterator[None]:
    """An index that a kernel found out of bounds is an error of the operation that was called."""
    try:
        yield
    except IndexError:
        raise IndexError(f"{name}(): an index into a captured tensor is out of bounds") from None


# --- masks ------------------------------
def mask_of(name: str, program: Program, shape: tuple[int, int, int, int], device) -> TensorBase:
    """The mask of a program as a tensor of bools (B, H, L, S)."""
    program.check(name, dict(zip(PLACES, shape)))
    out = empty(shape, dtype=by_name["bool"], device=device)
    if not out.is_meta:
        with bounds_of(name):
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
        with bounds_of(name):
            kernels_of(program).block_mask().run((some, every), program.captures, counts, 0, True, numbers)
    return some, every
