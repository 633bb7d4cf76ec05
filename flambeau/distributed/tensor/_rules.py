"""Sharding rules by kind: how operands may lie along one dimension of a mesh, and how results lie then.

A rule gives choices, the first of equally cheap ones counts.  A declaration names its rule (`sharding=`) where that is not the one of
its kind, says what is added up of pieces (`partial=`), and in which operands it is linear (`linear=`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..._wrapper.wrapper_tensor import identity
from ...core.call.pointwise import InPlaceOp, PointwiseOp
from ...core.loops.rows import RowOp
from ...core.make.create import empty_strided
from ...func._rules import Parameters, parameters
from ._call import Call, Choice, Rule, dims_of, mapped, tensors_in
from ._dtensor_spec import DTensorSpec, TensorMeta
from ._redistribute import redistributed
from .placement_types import Partial, Placement, Replicate, Shard

ADDED = ("sum", "avg")  # the reductions with which a linear function may change places
REDUCTIONS = ("sum", "avg", "max", "min", "product")  # those with which what moves elements may


def replicated(call: Call) -> Choice:
    """Everything on every process."""
    return call.choice({}, Replicate())


def _element(call: Call, dim: int, rank: int, shape: Sequence[int]) -> Choice:
    """All operands cut along a dimension of the result, but those that are broadcast along it."""
    result: list[Placement] = []
    for x in call.operands:
        own = dim - (rank - x.dim())
        cut = own >= 0 and x.shape[own] == shape[dim]
        result.append(Shard(own) if cut else Replicate())
    return Choice(tuple(result), (Shard(dim),) * len(call.results))


def pointwise(call: Call) -> Iterator[Choice]:
    """Cut along any dimension; still to be added up, where the operation is linear."""
    yield replicated(call)
    shape = tuple(call.results[0].shape)
    for dim in range(len(shape)):
        yield _element(call, dim, len(shape), shape)
    yield from _linear(call)


def _linear(call: Call) -> Iterator[Choice]:
    entry = call.op.entry
    details = {} if entry is None else entry.details
    together = details.get("additive") or details.get("linear") == "together"
    each = details.get("linear", ()) if not together else ()
    tensors = set(call.names)
    for how in ADDED:
        summand = Partial(how)
        if together and all(name in tensors for name in _operands(call)):
            yield call.choice(dict.fromkeys(call.names, summand), summand)
        for name in each:
            if name in tensors:
                yield call.choice({name: summand}, summand)


def _operands(call: Call) -> list[str]:
    return [name for name in ("input", "other", "end") if name in call.parameters.names]


def unary(call: Call) -> Iterator[Choice]:
    """What copies elements, or changes their dtype: as it lies."""
    yield replicated(call)
    for dim in range(call.operands[0].dim()):
        yield call.choice({call.names[0]: Shard(dim)}, Shard(dim))
    for how in REDUCTIONS:
        yield call.choice({call.names[0]: Partial(how)}, Partial(how))


def converted(call: Call) -> Iterator[Choice]:
    """What changes dtype, device or layout in memory: as it lies; the piece tells what became of it."""
    yield from unary(call)


converted.full_results = lambda call: call.operands[0]  # type: ignore[attr-defined]


def written(call: Call) -> Iterator[Choice]:
    """What is written over without being read, so that it may lie in any way but to be reduced."""
    yield from pointwise(call)


def created(call: Call) -> Iterator[Choice]:
    """What fills a tensor, or makes one like it: as it lies."""
    yield replicated(call)
    for dim in range(call.operands[0].dim()):
        yield call.choice({call.names[0]: Shard(dim)}, Shard(dim))


created.full_results = lambda call: call.operands[0]  # type: ignore[attr-defined]


def drawn(call: Call) -> Iterator[Choice]:
    """What fills a tensor with random numbers: every process draws those of the whole tensor, and keeps its piece of them."""
    if not call.op.writes:
        return
    name = call.names[0]

    def compute(local: dict[str, Any], specs: Sequence[Any]) -> Any:
        spec, piece = specs[0], local[name]
        numbers = empty_strided(spec.shape, spec.stride, dtype=piece.dtype)
        call.parameters.call(call.op, {**local, name: numbers})
        return piece.copy_(redistributed(numbers, spec.placed((Replicate(),) * spec.mesh.ndim), spec))

    call.compute = compute
    yield from created(call)


drawn.full_results = lambda call: call.operands[0]  # type: ignore[attr-defined]


def reduction(call: Call) -> Iterator[Choice]:
    """Cut along a dimension that stays; along one that is reduced, pieces are reduced, and their results are to be."""
    yield replicated(call)
    x = call.operands[0]
    rank = x.dim()
    reduced = dims_of(call.argument("dim"), rank)
    keepdim = bool(call.argument("keepdim"))
    for dim in range(rank):
        if dim in reduced:
            yield from _reduced(call, dim)
            continue
        place = dim if keepdim else dim - sum(d < dim for d in reduced)
        yield call.choice({call.names[0]: Shard(dim)}, Shard(place))
    if call.op.entry.details.get("partial") in ADDED:
        for summand in ADDED:
            yield call.choice({call.names[0]: Partial(summand)}, Partial(summand))


def _reduced(call: Call, dim: int) -> Iterator[Choice]:
    how = call.op.entry.details.get("partial")
    if how is None or len(call.results) != 1:
        return
    x = call.operands[0]
    if how == "avg" and x.shape[dim] % call.pieces(0, dim):
        return  # pieces of several sizes count unequally
    if how in ("max", "min"):
        call.compute = lambda local, specs: _extreme(call, local, specs)
    yield call.choice({call.names[0]: Shard(dim)}, Partial(how))


def _extreme(call: Call, local: dict[str, Any], specs: Sequence[Any]) -> Any:
    """The greatest of a piece; of an empty one, what is less than all."""
    x = local[call.names[0]]
    if x.numel() or 0 in call.operands[0].shape:
        return call.parameters.call(call.op, local)
    kind = call.results[0].dtype
    return x.new_full(specs[0].local_shape, identity(call.op, kind), dtype=kind)


def along(call: Call) -> Iterator[Choice]:
    """What works along `dim`: cut along any other dimension, all operands that have as many."""
    yield replicated(call)
    x = call.operands[0]
    dims = call.argument("dim" if "dim" in call.parameters.names else "dims")
    rank = x.dim()
    if dims is None:
        return
    rows = dims_of(dims, rank)
    for dim in range(rank):
        if dim in rows or any(t.dim() == rank and t.shape[dim] != x.shape[dim] for t in call.operands):
            continue
        ins = tuple(Shard(dim) if t.dim() == rank else Replicate() for t in call.operands)
        outs = tuple(_place_after(t, dim, rows, rank) for t in call.results)
        yield Choice(ins, outs)


def _place_after(result: Any, dim: int, rows: Sequence[int], rank: int) -> Shard:
    """Where a dimension stands in a result that lacks those along which it was reduced, or has them."""
    return Shard(dim if result.dim() == rank else dim - sum(d < dim for d in rows))


def over(call: Call) -> Iterator[Choice]:
    """A reduction or a function of rows on several tensors: `RowOp.over`."""
    yield replicated(call)
    rank = max(t.dim() for t in call.operands)
    shape = broadcast([tuple(t.shape) for t in call.operands], rank)
    rows = dims_of(call.bound["dim"], rank)
    row = call.op.function.__self__
    how = row.entry.details.get("partial") if row.entry is not None else None
    for dim in range(rank):
        aligned = [dim - rank + t.dim() for t in call.operands]
        ins = tuple(
            Shard(at) if at >= 0 and t.shape[at] == shape[dim] else Replicate()
            for t, at in zip(call.operands, aligned)
        )
        if dim not in rows:
            yield Choice(ins, tuple(_place_after(t, dim, rows, rank) for t in call.results))
        elif how == "norm 2":
            call.compute = lambda local, specs: _norm(call, local, specs)
            yield Choice(ins, (Replicate(),))
        elif how == "sum" and len(call.operands) == 1:
            yield Choice(ins, (Partial(how),))


class _OfRows(Parameters):
    """The parameters of `RowOp.over`, which shows no signature."""

    def __init__(self) -> None:
        self.names = ["tensors", "dim", "keepdim", "dtype", "params", "out"]
        self.rest, self.named, self.defaults, self.shifted = None, [], {}, []

    def call(self, op: Any, bound: dict[str, Any]) -> Any:
        """All six are given."""
        return op(*(bound.get(name) for name in self.names))


_OF_ROWS = _OfRows()


def parameters_of(op: Any, rule: Any) -> Parameters:
    """The parameters of an operation."""
    return _OF_ROWS if rule is over else parameters(op)


def broadcast(shapes: Sequence[tuple[int, ...]], rank: int) -> tuple[int, ...]:
    """The shape of operands that are broadcast."""
    ahead = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*ahead))


def _norm(call: Call, local: dict[str, Any], specs: Sequence[Any]) -> Any:
    """The Euclidean norm of pieces, whose squares are added up."""
    result = call.parameters.call(call.op, local)
    x = call.inputs[0]
    rows = dims_of(call.bound["dim"], x.ndim)
    over_mesh = [k for k, p in enumerate(x.placements) if isinstance(p, Shard) and p.dim in rows]
    return reduced_over(result * result, specs[0], over_mesh, "sum").sqrt() if over_mesh else result


def reduced_over(local: Any, spec: Any, over_mesh: Sequence[int], how: str) -> Any:
    """A tensor reduced over some dimensions of a mesh, now."""
    meta = TensorMeta(tuple(local.shape), tuple(local.stride()), local.dtype)
    target = [Replicate()] * spec.mesh.ndim
    current = [Partial(how) if k in over_mesh else Replicate() for k in range(spec.mesh.ndim)]
    return redistributed(local, DTensorSpec(spec.mesh, current, meta), DTensorSpec(spec.mesh, target, meta))


def like(call: Call) -> Iterator[Choice]:
    """What reads shape, dtype and device alone: as its model lies, and whole where that is still to be reduced."""
    yield replicated(call)
    sized = "size" in call.parameters.names
    same = (sized or call.op.like is True) and call.results[0].shape == call.operands[0].shape
    if sized:
        call.adjust = lambda local, specs: {**local, "size": specs[0].local_shape}
    for dim in range(call.operands[0].dim()):
        yield call.choice({call.names[0]: Shard(dim)}, Shard(dim) if same else Replicate())
    for how in REDUCTIONS:
        yield call.choice({call.names[0]: Partial(how)}, Replicate())


def join(call: Call) -> Iterator[Choice]:
    """`cat` and `stack`: cut along another dimension."""
    yield replicated(call)
    rank = call.results[0].dim()
    new = rank > max(t.dim() for t in call.operands)
    at = call.argument("dim") % max(rank, 1)
    for dim in range(rank):
        own = dim - (new and dim > at)
        if dim == at or any(t.dim() != rank - new for t in call.operands):
            continue
        yield Choice((Shard(own),) * len(call.operands), (Shard(dim),))
    for how in ADDED:
        yield Choice((Partial(how),) * len(call.operands), (Partial(how),))


def matrices(call: Call) -> Iterator[Choice]:
    """What works on the last two dimensions."""
    yield replicated(call)
    for dim in range(call.operands[0].dim() - 2):
        yield Choice((Shard(dim),) * len(call.operands), (Shard(dim),) * len(call.results))


# Views -------------------------------------------------------------------------------------------------------------------------------
def view(call: Call) -> Iterator[Choice]:
    """Cut along dimensions that a view only moves.

    What it does to strides tells which these are, and what it does to a piece: found by a tensor in whose strides the steps along
    different dimensions cannot be mistaken for each other.
    """
    yield replicated(call)
    x = call.operands[0]
    strides, step = [0] * x.dim(), 1
    for dim in reversed(range(x.dim())):
        strides[dim] = step
        step *= x.shape[dim] + 3
    probe = empty_strided(tuple(x.shape), strides, dtype=x.dtype, device="meta")
    bound = {name: mapped(lambda t: probe if t is x else t, value) for name, value in call.bound.items()}
    result = tensors_in(call.parameters.call(call.op, bound))

    def compute(local: dict[str, Any], specs: Sequence[Any]) -> Any:
        piece = next(iter(tensors_in(local)))
        own = piece.stride()
        made = iter(
            piece.as_strided(
                spec.local_shape,
                [steps(s, strides, own) for s in t.stride()],
                piece.storage_offset() + steps(t.storage_offset(), strides, own),
            )
            for t, spec in zip(result, specs)
        )
        return list(made)

    call.compute = compute
    for dim in range(x.dim()):
        places = [_moved(t, strides[dim], x.shape[dim]) for t in result]
        if None not in places:
            results = tuple(Shard(place) for place in places)  # type: ignore[arg-type]
            yield Choice(tuple(Shard(dim) if t is x else Replicate() for t in call.operands), results)
    yield from _of_parts(call)


def steps(distance: int, strides: Sequence[int], own: Sequence[int]) -> int:
    """A distance in a tensor of those strides, as one in a piece."""
    result = 0
    for big, small in zip(strides, own):
        result += distance // big * small
        distance %= big
    return result


def _moved(result: Any, stride: int, size: int) -> int | None:
    matches = [d for d, s in enumerate(result.stride()) if s == stride and result.shape[d] == size]
    return matches[0] if len(matches) == 1 else None


def _of_parts(call: Call) -> Iterator[Choice]:
    """What is still to be reduced, of which a view is a view of every summand."""
    for how in REDUCTIONS:
        operands = tuple(Partial(how) if k == 0 else Replicate() for k in range(len(call.operands)))
        yield Choice(operands, (Partial(how),) * len(call.results))


def complex_view(call: Call) -> Iterator[Choice]:
    """A view as complex numbers, or as pairs of real ones: along all dimensions but that of the pairs."""
    yield replicated(call)
    for dim in range(min(call.operands[0].dim(), call.results[0].dim())):
        yield Choice((Shard(dim),), (Shard(dim),))


def expand(call: Call) -> Iterator[Choice]:
    """Along dimensions that are not expanded."""
    call.compute = lambda local, specs: local[call.names[0]].expand(specs[0].local_shape)
    yield replicated(call)
    x, shape = call.operands[0], call.results[0].shape
    ahead = len(shape) - x.dim()
    for dim in range(x.dim()):
        if shape[dim + ahead] == x.shape[dim]:
            yield Choice(
                tuple(Shard(dim) if t is x else Replicate() for t in call.operands), (Shard(dim + ahead),)
            )
    yield from _of_parts(call)


def reshape(call: Call) -> Iterator[Choice]:
    """Along dimensions that stay; of several that are joined, or that one is taken apart into, along the first, if pieces are even."""
    call.compute = lambda local, specs: _reshaped(call, local, specs)
    yield replicated(call)
    x, made = call.operands[0], call.results[0]
    for before, after in groups(tuple(x.shape), tuple(made.shape)):
        if len(before) == len(after) == 1:
            pairs = [(before[0], after[0], True)]
        else:
            first = next((d for d in before if x.shape[d] != 1), None)
            last = next((d for d in after if made.shape[d] != 1), None)
            pairs = [] if first is None or last is None else [(first, last, False)]
        for old, new, any_size in pairs:
            n = call.pieces(0, old)
            if any_size or (x.shape[old] % n == 0 and made.shape[new] % n == 0):
                yield Choice(
                    tuple(Shard(old) if t is x else Replicate() for t in call.operands), (Shard(new),)
                )
    yield from _of_parts(call)


def viewed(call: Call) -> Iterator[Choice]:
    """The same of what is always a view: an error where a piece cannot be one."""
    yield from reshape(call)


def _reshaped(call: Call, local: dict[str, Any], specs: Sequence[Any]) -> Any:
    x = local[call.names[0]]
    made = call.results[0]
    if made.dtype != x.dtype:
        return x.view(made.dtype)
    return x.view(specs[0].local_shape) if rule_of(call.op) is viewed else x.reshape(specs[0].local_shape)


def groups(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Which dimensions become which: the shortest runs of both that have the same number of elements."""
    i = j = 0
    if 0 in before:
        return
    while i < len(before) or j < len(after):
        left, right = [i] if i < len(before) else [], [j] if j < len(after) else []
        a, b = before[i] if left else 1, after[j] if right else 1
        i, j = i + len(left), j + len(right)
        while a != b:
            if a < b:
                a *= before[i]
                left.append(i)
                i += 1
            else:
                b *= after[j]
                right.append(j)
                j += 1
        yield left, right


def is_elementwise(rule: Any) -> bool:
    """Whether a rule is of operations on each element, or of what fills as many."""
    return rule in (pointwise, unary, converted, written, created, like)


def full_results(call: Call, rule: Any) -> Any:
    """What the operation makes of whole tensors without data."""
    if hasattr(rule, "full_results"):
        return rule.full_results(call)
    return call.parameters.call(call.op, call.bound)


BY_KIND: dict[str, Any] = {
    "pointwise": pointwise,
    "fallback": pointwise,
    "reduction": reduction,
    "row": along,
    "scan": along,
    "sort": along,
    "join": join,
    "view": view,
    "copy": unary,
    "conversion": converted,
    "creation": created,
    "random": drawn,
}
NAMED: dict[str, Any] = {
    "pointwise": pointwise,
    "unary": unary,
    "written": written,
    "reduction": reduction,
    "view": view,
    "complex view": complex_view,
    "expand": expand,
    "reshape": reshape,
    "viewed": viewed,
    "along": along,
    "whole": lambda call: iter((replicated(call),)),
    "like": like,
    "matrices": matrices,
}


def rule_of(op: Any) -> Rule | None:
    """The rule that an operation's declaration names, or that of its kind; None where there is none."""
    own = getattr(op, "sharding_rule", None)
    if own is not None:
        return own
    entry = op.entry
    if entry is None:
        if isinstance(getattr(getattr(op, "function", None), "__self__", None), RowOp):
            return over
        return pointwise if isinstance(op, (PointwiseOp, InPlaceOp)) else None
    if (named := entry.details.get("sharding")) is not None:
        return NAMED.get(named)
    if op.like or entry.kind == "random":
        of_values = op.elementwise and not op.writes  # it reads probabilities
        return like if entry.kind == "creation" else None if of_values else NAMED.get("random")
    if op.elementwise:
        return pointwise
    if entry.kind == "indexing":
        return along if "dim" in op.__signature__.parameters else None
    return None if op.writes and entry.kind == "view" else BY_KIND.get(entry.kind)
