"""How an operation on batched tensors is done: a rule for each kind, and for those operations that differ from their kind.

A rule is given the level, the operation, and arguments among which tensors of that level are; it works on their elements,
which have the slices along the first dimension, and returns what stands for the result in the mapped function.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ..core.base.dtypes import promote_types
from ..core.base.tensor import TensorBase
from ..core.call.custom import CustomOp
from ..core.call.interceptors import disable_overrides
from ..core.call.operation import Op, behind
from ..core.call.pointwise import InPlaceOp, PointwiseOp
from ..core.loops.rows import RowOp
from ..operations.declare.registry import REGISTRY
from . import _batched
from ._batched import Level, Rule, Running, in_all_slices, no_item
from ._refusals import NotForAllSlices
from ._user_rules import by_rule

DIMENSIONS = frozenset(
    "dim dims dims_ axis dim0 dim1 dim2 axis0 axis1 source destination dimension start_dim end_dim".split()
)
_SPELLINGS = {"axis": "dim", "keepdims": "keepdim", "x2": "other"}
_FIRST = frozenset(("input", "self", "x", "x1", "a", "tensor", "A", "elements"))


# --- reading a call ---------------------------------
class Parameters:
    """The parameters of an operation: names, which one takes the rest of the positional arguments, defaults."""

    def __init__(self, op: Any) -> None:
        result = list(inspect.signature(op).parameters.values())
        self.rest = next((p.name for p in result if p.kind is p.VAR_POSITIONAL), None)
        self.names = [p.name for p in result if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.named = [p.name for p in result if p.kind is p.KEYWORD_ONLY]
        self.defaults = {p.name: p.default for p in result if p.default is not p.empty}
        self.shifted = [n for n in (*self.names, self.rest, *self.named) if n in DIMENSIONS]
        if "destination" not in self.names and "source" in self.shifted:
            self.shifted.remove("source")  # what is written, not where to

    def bind(self, args: list, kwargs: dict) -> dict[str, Any]:
        """The arguments by name."""
        bound = dict(zip(self.names, args))
        if self.rest is not None and len(args) > len(self.names):
            bound[self.rest] = tuple(args[len(self.names) :])
        for name, value in kwargs.items():
            bound[self.own_name(name)] = value
        return bound

    def own_name(self, name: str) -> str:
        """What the operation itself calls a keyword."""
        if name in self.names or name in self.named:
            return name
        if name in _FIRST and self.names and self.names[0] in _FIRST:
            return self.names[0]
        return _SPELLINGS.get(name, name)

    def call(self, op: Any, bound: dict[str, Any]) -> Any:
        """The operation with arguments by name."""
        args = []
        bound = dict(bound)
        for name in self.names:
            if name not in bound:
                break
            args.append(bound.pop(name))
        if self.rest is not None:
            args.extend(bound.pop(self.rest, ()))
        return op(*args, **bound)


@functools.cache
def parameters(op: Any) -> Parameters:
    """The parameters of an operation, read once."""
    return Parameters(op)


def operation(name: str) -> Any:
    """The operation registered under a name."""
    return REGISTRY[name].function


def wrap_dim(dim: int, rank: int) -> int:
    """A dimension of a slice, counted from the front; IndexError out of range."""
    most = max(rank, 1)
    if not -most <= dim < most:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-most}, {most - 1}], but got {dim})"
        )
    return dim % most


def shifted(dims: Any, rank: int) -> Any:
    """Dimensions of slices as those of the elements."""
    if isinstance(dims, (tuple, list)):
        return tuple(shifted(d, rank) for d in dims)
    if isinstance(dims, str) or dims is None:
        return dims
    return wrap_dim(int(dims), rank) + 1


def written(level: Level, op: Any, args: list, who: str = "self") -> Any:
    """The tensor that an operation writes to: it must be of this level, for it cannot hold a value for each slice else."""
    if level.inside(args[0]) is None:
        raise NotForAllSlices(
            f"vmap: inplace arithmetic({who}, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
            f"that has more elements than `{who}`. This happened due to `other` being vmapped over but `{who}` not being vmapped "
            f"over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic ({op.__name__}). If said "
            "operator is being called inside the PyTorch framework, please file a bug report instead."
        )
    elements = level.inside(args[0])
    if elements.shape[0] > 1 and elements.stride()[0] == 0 and elements.numel():
        raise NotForAllSlices(
            f"{op.__name__}(): unsupported operation: more than one element of the written-to tensor refers to a single memory location, "
            "as all slices are the same tensor. Please clone() the tensor before performing the operation."
        )
    return args[0]


# --- element by element -----------------------------
def with_rank(level: Level, x: Any, rank: int) -> Any:
    """The elements of `x`, dimensions of size 1 put in so that slices have `rank` dimensions; others as they are."""
    result = level.inside(x)
    if result is None:
        return x
    missing = rank + 1 - result.ndim
    return result if missing <= 0 else result[(slice(None), *(None,) * missing)]


def _highest_rank(values: Any) -> int:
    return max((x.ndim for x in values if isinstance(x, TensorBase)), default=0)


def promoted(level: Level, tensors: list[TensorBase]) -> dict[int, Any]:
    """Tensors without dimensions in the dtype of those with dimensions and of their category: their elements have a dimension,
    and would be promoted by it.  By id.
    """
    if all(t.dtype == tensors[0].dtype for t in tensors):
        return {}
    full = [t for t in tensors if t.ndim]
    result: dict[int, Any] = {}
    for t in tensors:
        if t.ndim == 0:
            same = [f.dtype for f in full if _category(f.dtype) == _category(t.dtype)]
            if len(same) and all(_category(f.dtype) <= _category(t.dtype) for f in full):
                wanted = functools.reduce(promote_types, same)
                if wanted != t.dtype and level.inside(t) is not None:
                    result[id(t)] = t.to(wanted)
            elif not full and level.inside(t) is None:
                result[id(t)] = t.reshape(1)
    return result


def _category(dtype: Any) -> int:
    return (
        3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if str(dtype).endswith("bool") else 1
    )


def pointwise(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """An operation on elements at the same place of all operands: one call on all slices."""
    values = [*args, *kwargs.values()]
    tensors = [x for x in values if isinstance(x, TensorBase)]
    rank = _highest_rank(tensors)
    cast = promoted(level, tensors) if len(tensors) > 1 else {}
    out = kwargs.get("out")
    if op.writes:
        target = written(level, op, args)
    elif out is not None:
        target = (
            tuple(written(level, op, [o]) for o in out)
            if isinstance(out, tuple)
            else written(level, op, [out])
        )
    else:
        target = None

    result = op(
        *(_aligned(level, x, rank, cast) for x in args),
        **{name: _aligned(level, x, rank, cast) for name, x in kwargs.items()},
    )
    return level.wrapped(result) if target is None else target


def filled(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """Each slice with a number of its own, where that differs from slice to slice."""
    x, value = [*args, *kwargs.values()]
    numbers = level.inside(value) if isinstance(value, TensorBase) else None
    if numbers is None or value.ndim:
        return pointwise(level, op, args, kwargs, running)
    target = written(level, op, [x]) if op.writes else level.wrapped(level.broadcast(x).clone())
    level.inside(target).copy_(with_rank(level, value, x.ndim))
    return target


def _aligned(level: Level, x: Any, rank: int, cast: dict[int, Any]) -> Any:
    """An argument's elements, those of tensors in tuples and lists, too."""
    if isinstance(x, (tuple, list)):
        return type(x)(_aligned(level, y, rank, cast) for y in x)
    return with_rank(level, cast.get(id(x), x), rank) if isinstance(x, TensorBase) else x


# --- along dimensions -------------------------------
def along(none: str = "keep", spread: tuple[str, ...] | None = None) -> Rule:
    """The rule of an operation whose dimensions stand in parameters: they are counted behind that of the slices.

    `none` says what None means there: "keep" nothing to change, "all" all dimensions of a slice, "flat" a slice laid out in one
    dimension.  Tensors that are not of this level are repeated, or those of the names in `spread` alone.
    """

    def rule(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
        known = parameters(op)
        bound = known.bind(args, kwargs)
        first = known.names[0]
        input = bound[first]
        rank = input.ndim
        target = written(level, op, args) if op.writes else None
        if bound.get("out") is not None:
            return looped(level, op, args, kwargs, running)
        scalar = rank == 0
        for name, value in bound.items():
            if isinstance(value, TensorBase):
                if name == first or spread is None or name in spread or level.inside(value) is not None:
                    value = level.broadcast(value)
                    bound[name] = value.unsqueeze(1) if scalar and value.ndim == 1 else value
        for name in known.shifted:
            given = bound.get(name, known.defaults.get(name))
            if given is None:
                if name == known.rest or any(bound.get(other) is not None for other in known.shifted):
                    continue
                if none == "all":
                    bound[name] = tuple(range(1, max(rank, 1) + 1))
                elif none == "flat":
                    flat = bound[first].reshape(level.size, -1)
                    result = _flat(known, op, bound, first, name, flat, rank)
                    return level.wrapped(result)
                continue
            if name == known.rest and len(given) == 1 and isinstance(given[0], (tuple, list)):
                given = given[0]
            bound[name] = _all_or(given, rank, none)
        result = known.call(op, bound)
        if target is not None:
            return target
        return level.wrapped(_narrowed(result) if scalar else result)

    return rule


def _all_or(given: Any, rank: int, none: str) -> Any:
    """Dimensions as those of the elements; an empty list means all of them where None does."""
    if isinstance(given, (tuple, list)) and not given and none == "all":
        return tuple(range(1, max(rank, 1) + 1))
    return shifted(given, rank)


def _flat(known: Parameters, op: Any, bound: dict, first: str, name: str, flat: Any, rank: int) -> Any:
    """The operation on slices laid out in one dimension."""
    keep = bound.get("keepdim")
    result = known.call(op, {**bound, first: flat, name: 1})
    if not keep:
        return result
    return mapped(result, lambda t: t.reshape(*t.shape[:-1], *(1,) * rank))


def mapped(tree: Any, change: Callable) -> Any:
    """The tensors in a result, changed."""
    if isinstance(tree, TensorBase):
        return change(tree)
    if isinstance(tree, (tuple, list)):
        return like(tree, [mapped(x, change) for x in tree])
    return tree


def like(tree: Any, items: list) -> Any:
    """A tuple, named or not, or a list, of other items."""
    return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)


def _narrowed(result: Any) -> Any:
    """Results of slices without dimensions, which were given one."""
    return mapped(result, lambda t: t.squeeze(1) if t.ndim > 1 and t.shape[1] == 1 else t)


def rows(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """A reduction or a function of rows of several tensors: `RowOp.over`."""
    tensors, dim, keepdim, dtype, params, out = args
    rank = _highest_rank(tensors)
    if out is not None:
        return looped(level, op, args, kwargs, running)
    # Formulas of their gradients take it that all tensors have all rows: none is shared.
    inner = tuple(with_rank(level, level.tensor(level.broadcast(t)), max(rank, 1)) for t in tensors)
    dim = tuple(range(1, max(rank, 1) + 1)) if dim is None or dim == () else shifted(dim, rank)
    if isinstance(dim, tuple) and len(dim) == 1:
        dim = dim[0]
    result = op(inner, dim, keepdim, dtype, params, None)
    return level.wrapped(_narrowed(result) if rank == 0 else result)


def leading(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """An operation for which all dimensions but the last ones count independent problems."""
    rank = _highest_rank([*args, *kwargs.values()])
    target = written(level, op, args) if op.writes else None

    def inner(x: Any) -> Any:
        return with_rank(level, x, rank) if isinstance(x, TensorBase) else x

    result = op(*map(inner, args), **{name: inner(x) for name, x in kwargs.items()})
    return level.wrapped(result) if target is None else target


def batches(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """The same where all tensors have the same dimensions in front: those that slices share are repeated."""
    rank = _highest_rank([*args, *kwargs.values()])

    def inner(x: Any) -> Any:
        return with_rank(level, level.tensor(level.broadcast(x)), rank) if isinstance(x, TensorBase) else x

    return level.wrapped(op(*map(inner, args), **{name: inner(x) for name, x in kwargs.items()}))


def elements_of(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """What concerns elements and not shapes: dtypes, devices, copies."""
    inner = [x if (e := level.inside(x)) is None else e for x in args]
    return level.wrapped(
        op(*inner, **{n: x if (e := level.inside(x)) is None else e for n, x in kwargs.items()})
    )


# --- made of others ---------------------------------


def decomposed(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """A function made of operations: it runs on batched tensors."""
    body = getattr(op, "composite", None) or op.function
    with running or nullcontext():
        result = body(*args, **kwargs)
    if _is_outline(result) and not _has_outline(args):
        return looped(level, op, args, kwargs, running)  # it reads memory past operations
    return result


def _is_outline(result: Any) -> bool:
    """Whether a result has no data."""
    if isinstance(result, TensorBase):
        return result.is_meta
    return isinstance(result, (tuple, list)) and any(map(_is_outline, result))


def _has_outline(args: Any) -> bool:
    """Whether an argument has no data to begin with."""
    return any(x.is_meta for x in args if isinstance(x, TensorBase))


# --- results and refusals ---------------------------
def outlined(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """A query of shapes and dtypes: answered by the outlines."""
    disable_overrides(1)
    try:
        return op(*args, **kwargs)
    finally:
        disable_overrides(-1)


def itemless(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """RuntimeError: a value cannot be requested, unless it is the same in all slices of a derivative."""
    result = [in_all_slices(x) if level.inside(x) is not None else x for x in args]
    if kwargs or any(a is None and b is not None for a, b in zip(result, args)):
        return no_item()
    return op(*result)


def shapeless(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """RuntimeError: the shape of the result would differ from slice to slice, unless all are the same in a derivative."""
    if op.__name__ == "nonzero" and (same := in_all_slices(args[0])) is not None:
        return op(same, *args[1:], **kwargs)
    raise NotForAllSlices(
        f"vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow: {op.__name__}() gives results "
        "whose shape depends on values. We don't support batching operators that can output dynamic shape."
    )


# --- slice by slice ---------------------------------
def looped(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """The operation on one slice after the other, said so by a warning."""
    warnings.warn(
        f"There is a performance drop because we have not yet implemented the batching rule for {op.__name__}: it runs slice by "
        "slice inside of vmap",
        stacklevel=2,
    )
    return sliced(level, op, args, kwargs, running)


def sliced(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """The operation on one slice after the other."""
    target = None
    if op.writes:
        target = written(level, op, args)
    if level.size == 0:
        raise RuntimeError(
            f"vmap: {op.__name__}(): the fallback path does not support vmap over dims of size 0"
        )

    result = [
        op(*(_slice(level, x, k) for x in args), **{n: _slice(level, x, k) for n, x in kwargs.items()})
        for k in range(level.size)
    ]
    return level.wrapped(stacked(result)) if target is None else target


def _slice(level: Level, x: Any, k: int) -> Any:
    """An argument as one slice has it."""
    if isinstance(x, (tuple, list)):
        return like(x, [_slice(level, y, k) for y in x])
    result = level.inside(x)
    return x if result is None else result.select(0, k)


def stacked(result: list) -> Any:
    """Results of slices as one; what is no tensor must be the same for all."""
    first = result[0]
    if isinstance(first, TensorBase):
        if any(t.shape != first.shape for t in result):
            raise RuntimeError(
                "vmap: results of slices have different shapes, which cannot be one tensor: "
                f"{[list(t.shape) for t in result]}"
            )
        return operation("stack")(result)
    if isinstance(first, (tuple, list)):
        return like(first, [stacked(list(column)) for column in zip(*result)])
    return first


def of_program(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
    """An operation that the program has added: by the rule that it registered, by what it is made of, or slice by slice."""
    own = op.vmap_rule
    if isinstance(op, CustomOp):  # what may be given by position is
        given, named = op._bind(tuple(args), kwargs)
        args, kwargs = list(given), named or {}
    if own is not None:
        return by_rule(level, own, args, kwargs, str(op))
    if isinstance(op, CustomOp):
        if op.whole is not None:
            return decomposed(level, op, args, kwargs, running)
        for name, x in op.written_among(args):
            written(level, op, [x], name)
    return looped(level, op, args, kwargs, running)


# --- which rule -------------------------------------
BY_KIND: dict[str, Rule] = {
    "composite": decomposed,
    "window": decomposed,
    "pointwise": pointwise,
    "fallback": pointwise,
    "reduction": along("all"),
    "row": along(),
    "scan": along(),
    "view": along(spread=()),
    "indexing": along(),
    "shape": decomposed,
    "lapack": leading,
    "sort": along(),
    "search": looped,
    "spectral": along("all"),
    "masked": decomposed,
    "copy": elements_of,
    "conversion": elements_of,
    "question": outlined,
    "random": looped,
    "creation": elements_of,
    "library": looped,
    "join": looped,
    "indexed": looped,
}
# What `batching=` of a declaration names.
NAMED: dict[str, Rule] = {
    "along": along(),
    "along all": along("all"),
    "along flat": along("flat"),
    "batches": batches,
    "elements": elements_of,
    "filled": filled,
    "itemless": itemless,
    "leading": leading,
    "looped": looped,
    "outlined": outlined,
    "parts": decomposed,
    "pointwise": pointwise,
    "shapeless": shapeless,
    "sliced": sliced,
}


# --- entering rules ---------------------------------
def rule(*ops: Any) -> Callable[[Rule], Rule]:
    """Enter the rule of those operations."""

    def enter(function: Rule) -> Rule:
        for op in map(behind, ops):
            if not isinstance(op, Op):
                raise TypeError(f"{op!r} is no operation")
            op.mapped = function
        return function

    return enter


def made(*ops: Any) -> Callable[[Callable], Callable]:
    """Enter a function of batched tensors, with the parameters of those operations, as what they are made of."""

    def enter(function: Callable) -> Callable:
        rule(*ops)(made_of(function))
        return function

    return enter


def made_of(function: Callable) -> Rule:
    def apply_rule(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
        named = {parameters(op).own_name(name): x for name, x in kwargs.items()} if kwargs else {}
        return function(*args, **named)

    return apply_rule


# --- finding them -----------------------------------
def rule_of(op: Any) -> Rule:
    """The rule for an operation: its own, the one that its declaration names, that of its kind, or what it is made of; else slice by
    slice.
    """
    if (own := getattr(op, "mapped", None)) is not None:
        return own
    if hasattr(op, "vmap_rule"):  # an operation of the program, whose rule may be registered later
        return of_program
    entry = op.entry if isinstance(op, Op) else None
    result: Rule | None
    if entry is not None:
        result = None if entry.batching is None else NAMED[entry.batching]
        if result is None and isinstance(op, InPlaceOp):
            result = pointwise
        elif result is None and op is entry.in_place:
            result = getattr(entry.function, "mapped", None)
        result = result or BY_KIND.get(entry.kind)
    elif isinstance(op, (PointwiseOp, InPlaceOp)):
        result = pointwise
    elif isinstance(getattr(getattr(op, "function", None), "__self__", None), RowOp):
        result = rows
    else:
        result = None
    if result is None:
        result = decomposed if getattr(op, "composite", None) is not None else looped
    return result


_batched.rules.find = rule_of
