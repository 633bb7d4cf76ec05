"""Rules of operations that differ from their kind: views by sizes, products, places, joins, windows, layers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.base.tensor import TensorBase
from ..operations.declare.registry import REGISTRY
from . import _rules
from ._batched import Level, Rule, Running, no_item
from ._rules import (
    BY_NAME,
    PRIVATE,
    along,
    elements_of,
    leading,
    lifted,
    looped,
    mapped,
    operation,
    outlined,
    parameters,
    parts,
    pointwise,
    shapeless,
    shifted,
    sliced,
    spread_leading,
    wrap_dim,
    written,
)

Found = Any


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter the rule of those operations."""

    def enter(function: Rule) -> Rule:
        for name in names:
            if name.rstrip("_") not in REGISTRY and name not in REGISTRY:
                raise RuntimeError(f"no operation {name}")
            BY_NAME[name] = function
        return function

    return enter


def made(*names: str) -> Callable[[Callable], Callable]:
    """Enter a function of batched tensors, with the parameters of those operations, as what they are made of."""

    def enter(function: Callable) -> Callable:
        rule(*names)(_made_of(function))
        return function

    return enter


def _made_of(function: Callable) -> Rule:
    def answered(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Any:
        named = {parameters(op).own(name): x for name, x in kwargs.items()} if kwargs else {}
        return function(*args, **named)

    return answered


def entered(function: Rule, names: str) -> None:
    """Enter a rule for a list of names."""
    rule(*names.split())(function)


entered(_rules.itemless, "item tolist is_nonzero numpy __array__ allclose equal __dlpack__")
entered(shapeless, "nonzero argwhere masked_select unique unique_consecutive bincount")
entered(
    outlined,
    "is_same_size is_contiguous is_signed_of dim_order is_pinned is_set_to",
)
entered(along("flat"), "argmax argmin cummax cummin")
entered(along(), "flip rot90 sort argsort topk kthvalue mode fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft")
entered(along("all"), "min max any all fftshift ifftshift")
entered(leading, "tril tril_ triu triu_ det adjoint")
entered(spread_leading, "solve solve_ex lu_solve ldl_solve solve_triangular")
entered(pointwise, "polygamma polygamma_method polygamma_in_place copy_ fill_ real imag view_as_real where where_method")
entered(pointwise, "fill")
entered(elements_of, "detach zero_ view_as_real view_as_complex")


# --- views by sizes ---------------------------------
def _sizes(given: tuple, kwargs: dict, *names: str) -> tuple:
    """Sizes as given: one by one, in a sequence, or by name."""
    for name in names:
        if name in kwargs:
            given = (kwargs[name],)
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        return tuple(given[0])
    return tuple(given)


@rule("reshape", "view")
def _reshaped(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    elements = level.spread(args[0])
    sizes = _sizes(tuple(args[1:]), kwargs, "shape", "size", "dtype")
    if len(sizes) == 1 and not isinstance(sizes[0], int) and not hasattr(sizes[0], "__index__"):
        return level.wrapped(op(elements, sizes[0]))  # view(dtype)
    if -1 in sizes:
        rest = math.prod(s for s in sizes if s != -1)
        if rest and args[0].numel() % rest == 0:
            sizes = tuple(args[0].numel() // rest if s == -1 else s for s in sizes)
    return level.wrapped(op(elements, (level.size, *sizes)))


@made("view_as", "reshape_as")
def _view_as(input: Any, other: Any) -> Found:
    return input.reshape(other.shape)


@rule("expand", "broadcast_to")
def _expanded(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    sizes = _sizes(tuple(args[1:]), kwargs, "size", "sizes")
    if len(sizes) < args[0].ndim:
        raise RuntimeError(
            f"expand(): the number of sizes provided ({len(sizes)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({args[0].ndim})"
        )
    return level.wrapped(operation("expand")(lifted(level, args[0], len(sizes)), (level.size, *sizes)))


@made("expand_as")
def _expand_as(input: Any, other: Any) -> Found:
    return input.expand(other.shape)


@rule("permute")
def _permuted(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    dims = _sizes(tuple(args[1:]), kwargs, "dims")
    rank = args[0].ndim
    if len(dims) != rank:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(dims)}"
        )
    return level.wrapped(op(level.inside(args[0]), (0, *(shifted(d, rank) for d in dims))))


@rule("unsqueeze", "unsqueeze_")
def _unsqueezed(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    dim = args[1] if len(args) > 1 else kwargs["dim"]
    target = args[0]
    found = op(level.inside(target), wrap_dim(dim, target.ndim + 1) + 1)
    return _in_shape(level, op, target, found)


def _in_shape(level: Level, op: Any, target: Any, found: Any) -> Any:
    """The result, or the tensor itself with its new shape, where the operation changed that in place."""
    if not op.__name__.endswith("_"):
        return level.wrapped(found)
    target._reshaped()
    return target


@rule("squeeze", "squeeze_")
def _squeezed(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    target = args[0]
    dims = _sizes(tuple(args[1:]), kwargs, "dim")
    rank = target.ndim
    if not dims or dims == (None,):
        dims = tuple(range(rank))
    wanted = sorted({wrap_dim(d, rank) for d in dims if rank} & {d for d in range(rank) if target.shape[d] == 1})
    elements = level.inside(target)
    if not wanted:
        return target if op.__name__.endswith("_") else level.tensor(elements.view_as(elements))
    return _in_shape(level, op, target, op(elements, tuple(d + 1 for d in wanted)))


@rule("t", "t_", "transpose_", "swapaxes_", "swapdims_")
def _turned(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    target = args[0]
    bound = parameters(op).bind(args, kwargs)
    dims = [x for name, x in bound.items() if name not in ("input", "self")] or [0, 1]
    if op.__name__ in ("t", "t_") and target.ndim > 2:
        raise RuntimeError(f"{op.__name__}() expects a tensor with <= 2 dimensions, but self is {target.ndim}D")
    elements = level.inside(target)
    if target.ndim < 2:
        return level.wrapped(elements.view_as(elements)) if not op.__name__.endswith("_") else target
    turn = operation("transpose_" if op.__name__.endswith("_") else "transpose")
    return _in_shape(level, op, target, turn(elements, *(shifted(d, target.ndim) for d in dims)))


@rule("flatten")
def _flattened(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    if args[0].ndim == 0:
        return level.wrapped(level.inside(args[0]).unsqueeze(1))
    return along(spread=())(level, op, args, kwargs, running)


@made("ravel")
def _ravel(input: Any) -> Found:
    return input.reshape(-1)


@made("hsplit")
def _hsplit(input: Any, indices_or_sections: Any) -> Found:
    return input.tensor_split(indices_or_sections, 0 if input.ndim == 1 else 1)


@made("vsplit")
def _vsplit(input: Any, indices_or_sections: Any) -> Found:
    return input.tensor_split(indices_or_sections, 0)


@made("dsplit")
def _dsplit(input: Any, indices_or_sections: Any) -> Found:
    return input.tensor_split(indices_or_sections, 2)


def _at_least(rank: int, x: Any) -> Any:
    if x.ndim >= rank:
        return x
    if rank == 1:
        return x.reshape(1)
    if rank == 2:
        return x.reshape(1, -1)
    return x.reshape(1, -1, 1) if x.ndim < 2 else x.unsqueeze(2)


for _rank in (1, 2, 3):

    def _at_least_all(*tensors: Any, rank: int = _rank) -> Found:
        if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
            return _at_least(rank, tensors[0])
        given = tensors[0] if len(tensors) == 1 else tensors
        return tuple(_at_least(rank, x) for x in given)

    made(f"atleast_{_rank}d")(_at_least_all)


@rule("as_strided")
def _strided(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    elements = level.inside(bound["input"])
    offset = bound.get("storage_offset")
    return level.wrapped(
        op(
            elements,
            (level.size, *bound["size"]),
            (elements.stride(0), *bound["stride"]),
            elements.storage_offset() if offset is None else offset,
        )
    )


@made("broadcast_tensors")
def _broadcast(*tensors: Any) -> Found:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    shape = operation("broadcast_shapes")(*(t.shape for t in given))
    return tuple(t.expand(shape) for t in given)


PRIVATE["mT"] = _made_of(lambda x: x.transpose(-2, -1))
PRIVATE["mH"] = _made_of(lambda x: _conjugate(x.transpose(-2, -1)))
PRIVATE["T"] = _made_of(lambda x: x.permute(tuple(reversed(range(x.ndim)))))
PRIVATE["H"] = _made_of(lambda x: _conjugate(x.transpose(0, 1)))


def _conjugate(x: Any) -> Any:
    return operation("conj")(x) if x.is_complex() else x


# --- creation ---------------------------------------
@rule("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided")
def _new(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    if "fill_value" in bound and level.inside(bound["fill_value"]) is not None:
        return bound["fill_value"].to(bound.get("dtype") or bound["input"].dtype).expand(bound["size"]).clone()
    elements = bound.pop("input")
    inside = level.inside(elements)
    if "stride" in bound:
        size, strides = tuple(bound["size"]), tuple(bound["stride"])
        extent = 1 + sum((n - 1) * s for n, s in zip(size, strides)) if all(size) else 0
        bound["stride"] = (extent, *strides)
    size = bound.get("size")
    sizes = tuple(args[1:]) if isinstance(size, int) else tuple(size if size is not None else ())
    bound["size"] = (level.size, *sizes)
    return level.wrapped(op(elements if inside is None else inside, **bound))


@rule("full_like", "full")
def _full(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    value = bound["fill_value"]
    if level.inside(value) is None:
        return elements_of(level, op, args, kwargs, running)
    like = bound.get("input")
    shape = bound["size"] if like is None else like.shape
    dtype = bound.get("dtype") or (value.dtype if like is None else like.dtype)
    return value.to(dtype).expand(shape).clone()


entered(looped, "linspace logspace")


@made("tensor", "as_tensor", "asarray")
def _as_tensor(data: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Found:
    if not isinstance(data, TensorBase):
        no_item()
    return data.detach().to(dtype=dtype or data.dtype, device=device or data.device)


# --- joins ------------------------------------------
def _joined(level: Level, op: Any, args: list, kwargs: dict) -> tuple[list, int]:
    bound = parameters(op).bind(args, kwargs)
    tensors = list(bound["tensors"])
    return [t for t in tensors], int(bound.get("dim", 0))


@rule("cat")
def _cat(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    tensors, dim = _joined(level, op, args, kwargs)
    full = [t for t in tensors if tuple(t.shape) != (0,)] or tensors
    if any(t.ndim == 0 for t in full):
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    return level.wrapped(op([level.spread(t) for t in full], wrap_dim(dim, full[0].ndim) + 1))


@rule("stack")
def _stack(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    tensors, dim = _joined(level, op, args, kwargs)
    return level.wrapped(op([level.spread(t) for t in tensors], wrap_dim(dim, tensors[0].ndim + 1) + 1))


# --- products ---------------------------------------
@rule("matmul", "linalg.matmul", "mm", "bmm", "mv", "dot")
def _matmul(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    a, b = args[0], args[1] if len(args) > 1 else next(iter(kwargs.values()))
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D"
        )
    wanted = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1)}.get(op.__name__)
    if wanted is not None and wanted != (a.ndim, b.ndim):
        raise RuntimeError(
            f"{op.__name__}(): expected tensors of {wanted[0]} and {wanted[1]} dimensions, got {a.ndim} and {b.ndim}"
        )
    inner = a.shape[-1], b.shape[-2 if b.ndim > 1 else -1]
    if inner[0] != inner[1]:
        raise RuntimeError(
            f"{op.__name__}(): shapes cannot be multiplied ({list(a.shape)} and {list(b.shape)})"
        )
    return level.wrapped(_product(level, a, b))


def _product(level: Level, a: Any, b: Any) -> Any:
    product = operation("matmul")
    x, y = level.inside(a), level.inside(b)
    if y is None and b.ndim <= 2 and a.ndim > 1:
        return product(x, b)
    if y is None and b.ndim <= 2:  # a vector a slice: their rows are a matrix
        return product(x, b)
    if x is None and a.ndim == 1 and b.ndim == 2:
        return product(a, y)
    if x is None and a.ndim == 2 and b.ndim == 1:
        return product(y, a.mT)
    rank = max(a.ndim, b.ndim, 2)
    left = _as_matrix(level, a, -2, rank)
    right = _as_matrix(level, b, -1, rank)
    found = product(left, right)
    if a.ndim == 1:
        found = found.squeeze(-2)
    return found.squeeze(-1) if b.ndim == 1 else found


def _as_matrix(level: Level, x: Any, at: int, rank: int) -> Any:
    """Elements of a vector as matrices of one row or column, and of as many dimensions as the others' have."""
    found = level.inside(x)
    if found is None:
        return x.unsqueeze(at) if x.ndim == 1 else x
    if x.ndim == 1:
        found = found.unsqueeze(at)
    missing = rank + 1 - found.ndim
    return found[(slice(None), *(None,) * missing)] if missing > 0 else found


@rule("linear")
def _linear(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    input, weight, bias = bound["input"], bound["weight"], bound.get("bias")
    if level.inside(weight) is None and (bias is None or level.inside(bias) is None):
        return level.wrapped(op(level.inside(input), weight, bias))
    found = input @ weight.mT if weight.ndim == 2 else input @ weight
    return found if bias is None else found + bias


@made("vdot")
def _vdot(input: Any, other: Any) -> Found:
    return (input.conj() if input.is_complex() else input).dot(other)


@made("dstack")
def _dstack(tensors: Any) -> Found:
    return operation("cat")([_at_least(3, t) for t in tensors], 2)


@made("vstack")
def _vstack(tensors: Any) -> Found:
    return operation("cat")([_at_least(2, t) for t in tensors], 0)


@made("hstack")
def _hstack(tensors: Any) -> Found:
    given = [_at_least(1, t) for t in tensors]
    return operation("cat")(given, 0 if given[0].ndim == 1 else 1)


@made("column_stack")
def _column_stack(tensors: Any) -> Found:
    return _hstack([t if t.ndim > 1 else t.reshape(-1, 1) for t in tensors])


@made("block_diag")
def _block_diag(*tensors: Any) -> Found:
    blocks = [_at_least(2, t) for t in tensors]
    width = sum(b.shape[1] for b in blocks)
    rows, before = [], 0
    for b in blocks:
        rows.append(operation("constant_pad_nd")(b, (before, width - before - b.shape[1])))
        before += b.shape[1]
    return operation("cat")(rows, 0)


@made("inner")
def _inner(input: Any, other: Any) -> Found:
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    return operation("tensordot")(input, other, ((-1,), (-1,)))


@made("outer", "ger")
def _outer(input: Any, vec2: Any) -> Found:
    if input.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"outer: Expected 1-D arguments, but got {input.ndim}-D and {vec2.ndim}-D")
    return input[:, None] * vec2


def _sum(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta input + alpha product; nothing of an input whose factor is 0."""
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    found = (input if beta == 1 else input * beta) + product
    return found


def _adding(name: str, product: Callable) -> None:
    @rule(name, name + "_")
    def added(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
        target = written(level, op, args) if op.__name__.endswith("_") else None
        given = list(args)
        named = dict(kwargs)
        names = list(parameters(op).names)
        for n in names[len(given) : 3]:
            given.append(named.pop(n))
        beta, alpha = named.get("beta", 1), named.get("alpha", 1)
        found = _sum(given[0], product(given[1], given[2]), beta, alpha)
        return found if target is None else target.copy_(found)


_adding("addmm", lambda a, b: a.mm(b))
_adding("addmv", lambda a, b: a.mv(b))
_adding("baddbmm", lambda a, b: a.bmm(b))
_adding("addbmm", lambda a, b: a.bmm(b).sum(0))
_adding("addr", lambda a, b: a.outer(b))


# --- places -----------------------------------------
def _split_key(x: Any, key: Any) -> tuple[Any, list[tuple[int, Any]]]:
    """A view by the numbers, slices and None of a key, and the index tensors for its dimensions."""
    items = list(key) if type(key) is tuple else [key]
    tensor = operation("as_tensor")
    items = [tensor(i) if isinstance(i, list) or hasattr(i, "__array_interface__") else i for i in items]
    used = sum(
        (i.ndim if i.dtype == _bool() else 1) if isinstance(i, TensorBase) else i is not None and not isinstance(i, bool)
        for i in items
        if i is not Ellipsis
    )
    if Ellipsis not in [i for i in items if not isinstance(i, TensorBase)]:
        items.append(Ellipsis)
    plain: list[Any] = []
    indices: list[tuple[int, Any]] = []
    place = 0
    for item in items:
        if item is Ellipsis:
            missing = x.ndim - used
            if missing < 0:
                raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
            plain += [slice(None)] * missing
            place += missing
        elif isinstance(item, TensorBase):
            found = [item]
            if item.dtype == _bool() and item.ndim:
                found = list(item.nonzero(as_tuple=True))
            for index in found:
                indices.append((place, index))
                plain.append(slice(None))
                place += 1
        else:
            plain.append(item)
            place += item is None or isinstance(item, (slice, bool))
    return tuple(plain), indices


@functools.cache
def _bool() -> Any:
    from ..core.base.dtypes import by_name

    return by_name["bool"]


def _at(level: Level, x: Any, indices: list[tuple[int, Any]]) -> tuple[Any, tuple, int, int]:
    """Elements whose indexed dimensions come first, behind those of slices; a key for them; the number of dimensions that
    indices have, and where these belong in the result.
    """
    dims = [d for d, _ in indices]
    rank = max(i.ndim for _, i in indices)
    rest = [d for d in range(x.ndim) if d not in dims]
    inside = level.inside(x)
    many = any(level.inside(i) is not None for _, i in indices)
    key = [lifted(level, i, rank) for _, i in indices]
    if inside is None:
        found = x.permute(*dims, *rest)
    else:
        found = inside.permute(0, *(d + 1 for d in dims), *(d + 1 for d in rest))
        number = operation("arange")(level.size, device=x.device).reshape(-1, *(1,) * rank) if many else slice(None)
        key.insert(0, number)
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    return found, tuple(key), rank, dims[0] if adjacent else 0


@rule("__getitem__")
def _got(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    x, key = args
    _no_masks(level, op, key)
    plain, indices = _split_key(x, key)
    inside = level.inside(x)
    view = x[plain] if inside is None else level.tensor(inside[(slice(None), *plain)])
    if not indices:
        return view
    elements, where, rank, place = _at(level, view, indices)
    found = elements[where]
    if place and rank:
        found = found.movedim(tuple(range(1, rank + 1)), tuple(range(1 + place, 1 + place + rank)))
    return level.tensor(found)


def _no_masks(level: Level, op: Any, key: Any) -> None:
    for item in key if type(key) is tuple else (key,):
        if isinstance(item, TensorBase) and item.dtype == _bool() and level.inside(item) is not None:
            if item.ndim == 0 or op is not None:
                shapeless(level, op, [], {}, None)


@rule("__setitem__")
def _set(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    x, key, value = args
    written(level, op, args)
    masks = [i for i in (key if type(key) is tuple else (key,)) if isinstance(i, TensorBase) and i.dtype == _bool()]
    if len(masks) == 1 and (not isinstance(key, tuple) or len(key) == 1):
        return _set_masked(level, op, x, masks[0], value)
    _no_masks(level, op, key)
    plain, indices = _split_key(x, key)
    inside = level.inside(x)
    view = level.tensor(inside[(slice(None), *plain)])
    if not indices:
        view.copy_(value) if isinstance(value, TensorBase) else view.fill_(value)
        return None
    _put(level, view, indices, value, False)
    return None


def _put(level: Level, view: Any, indices: list, value: Any, accumulate: bool) -> None:
    """Write to places of a view."""
    elements, where, rank, place = _at(level, view, indices)
    if isinstance(value, TensorBase):
        if place and rank and value.ndim:
            shape = operation("broadcast_shapes")(*(i.shape for _, i in indices))
            rest = [s for d, s in enumerate(view.shape) if d not in [k for k, _ in indices]]
            full = (*rest[:place], *shape, *rest[place:])
            value = value.expand(full).movedim(tuple(range(place, place + rank)), tuple(range(rank)))
        value = lifted(level, value, rank + view.ndim - len(indices)) if value.ndim or level.inside(value) is not None else value
        value = value.to(view.dtype) if value.dtype != view.dtype else value
    if not accumulate:
        elements[where] = value
        return
    places = tuple(_whole(level, i) for i in where)
    elements.index_put_(places, value, accumulate=True)


def _whole(level: Level, index: Any) -> Any:
    return None if isinstance(index, slice) else index


def _set_masked(level: Level, op: Any, x: Any, mask: Any, value: Any) -> None:
    """Write one value to all places of a mask, which may differ from slice to slice."""
    if isinstance(value, TensorBase) and value.numel() != 1:
        shapeless(level, op, [], {}, None)
    mask = mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim))
    if isinstance(value, TensorBase):
        x.copy_(operation("where")(mask, value.reshape(()).to(x.dtype), x))
    else:
        x.masked_fill_(mask, value)


@rule("index_put")
def _index_put(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    x, given, values = bound["input"], bound["indices"], bound["values"]
    accumulate = bound.get("accumulate", False)
    in_place = op.__name__.endswith("_")
    if in_place:
        written(level, op, args)
        target = x
    else:
        target = level.tensor(level.spread(x).clone())
    masks = [i for i in given if i is not None and i.dtype == _bool()]
    if masks:
        if len(given) == 1 and not accumulate:
            _set_masked(level, op, target, masks[0], values)
            return target
        if any(level.inside(m) is not None for m in masks):
            shapeless(level, op, [], {}, None)
    plain, indices = _split_key(target, tuple(slice(None) if i is None else i for i in given))
    _put(level, target, indices, values, bool(accumulate))
    return target


@rule("masked_fill", "masked_fill_")
def _filled(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    value = bound["value"]
    if not isinstance(value, TensorBase) or level.inside(value) is None:
        return pointwise(level, op, args, kwargs, running)
    x = bound["input"] if "input" in bound else bound["self"]
    found = operation("where")(bound["mask"], value.to(x.dtype), x)
    return written(level, op, args).copy_(found) if op.__name__.endswith("_") else found


@made("index_select")
def _index_select(input: Any, dim: Any, index: Any) -> Found:
    index = index.reshape(1) if index.ndim == 0 else index
    if input.ndim == 0:
        wrap_dim(dim, 0)
        return input.reshape(1)[index].reshape(())
    return input[(*(slice(None),) * wrap_dim(dim, input.ndim), index)]


@made("take")
def _take(input: Any, index: Any) -> Found:
    return input.reshape(-1)[index]


def _by_index(name: str) -> None:
    """An operation with one index for the places along a dimension: where it is the same for all slices, one call."""

    @rule(name, name + "_")
    def indexed(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
        bound = parameters(op).bind(args, kwargs)
        held = level.inside(bound["index"]) is not None
        value = bound.get("value")
        if held or bound["input" if "input" in bound else "self"].ndim == 0 or (isinstance(value, TensorBase)):
            return looped(level, op, args, kwargs, running)
        return along(spread=("source",))(level, op, args, kwargs, running)


for _name in ("index_add", "index_copy", "index_fill", "index_reduce"):
    _by_index(_name)
entered(looped, "put masked_scatter nonzero_static")


@rule("scatter", "scatter_add", "scatter_reduce")
def _scattered(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    if any(isinstance(bound.get(n), TensorBase) and bound[n].ndim == 0 for n in ("input", "index", "src")):
        return sliced(level, op, args, kwargs, running)
    return along()(level, op, args, kwargs, running)


@rule("gather")
def _gathered(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    if (bound["input"].ndim == 0) != (bound["index"].ndim == 0):
        return sliced(level, op, args, kwargs, running)
    return along()(level, op, args, kwargs, running)


# --- order ------------------------------------------
def _middle(name: str) -> None:
    @made(name)
    def median(input: Any, dim: Any = None, keepdim: bool = False) -> Found:
        if dim is None:
            return operation(name)(input.reshape(-1), 0).values
        return _along_one(operation(name), input, dim, keepdim)


def _along_one(op: Any, input: Any, dim: int, keepdim: bool) -> Any:
    return along()(input._level, op, [input, dim, keepdim], {}, None)


for _name in ("median", "nanmedian"):
    _middle(_name)


@made("msort")
def _msort(input: Any) -> Found:
    return input.sort(0).values


@rule("quantile", "nanquantile")
def _quantile(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    q = bound["q"]
    if level.inside(q) is not None or bound.get("out") is not None:
        return looped(level, op, args, kwargs, running)
    elements, dim, rank = level.inside(bound["input"]), bound.get("dim"), bound["input"].ndim
    if dim is None:
        elements, dim = elements.reshape(level.size, -1), 0
    elif rank == 0:
        elements = elements.unsqueeze(1)
    found = parameters(op).call(op, {**bound, "input": elements, "dim": wrap_dim(dim, rank) + 1})
    many = isinstance(q, TensorBase) and q.ndim == 1
    found = found.movedim(0, 1) if many else found
    if bound.get("keepdim") and (bound.get("dim") is None or rank == 0):
        found = found.reshape(level.size, *(q.shape if many else ()), *(1,) * rank)
    return level.tensor(found)


@made("take_along_dim")
def _along(input: Any, indices: Any, dim: Any = None) -> Found:
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1))
    shape = list(operation("broadcast_shapes")(_without(input.shape, dim), _without(indices.shape, dim)))
    at = dim % input.ndim
    return input.expand(*shape[:at], input.shape[at], *shape[at + 1 :]).gather(
        dim, indices.expand(*shape[:at], indices.shape[at], *shape[at + 1 :])
    )


def _without(shape: Any, dim: int) -> tuple:
    sizes = list(shape)
    sizes[dim] = 1
    return tuple(sizes)


# --- repeated and turned ----------------------------
@rule("roll")
def _rolled(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    dims, x = bound.get("dims"), bound["input"]
    if dims is None or dims == () or dims == []:
        flat = op(level.inside(x).reshape(level.size, x.numel()), bound["shifts"], 1)
        return level.tensor(flat.reshape(level.size, *x.shape))
    return along()(level, op, args, kwargs, running)


@rule("repeat")
def _repeated(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    counts = _sizes(tuple(args[1:]), kwargs, "repeats")
    if len(counts) < args[0].ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    return level.wrapped(op(lifted(level, args[0], len(counts)), (1, *counts)))


@rule("tile")
def _tiled(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    counts = _sizes(tuple(args[1:]), kwargs, "dims")
    counts = (*(1,) * (args[0].ndim - len(counts)), *counts)
    return level.wrapped(operation("repeat")(lifted(level, args[0], len(counts)), (1, *counts)))


@rule("repeat_interleave")
def _interleaved(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    repeats, dim = bound.get("repeats"), bound.get("dim")
    if any(level.inside(x) is not None for x in (repeats,)) or repeats is None:
        return shapeless(level, op, args, kwargs, running)
    elements = level.inside(bound["input"])
    if dim is None:
        elements, dim = elements.reshape(level.size, -1), 0
    extra = {k: v for k, v in bound.items() if k == "output_size"}
    return level.wrapped(op(elements, repeats, wrap_dim(dim, max(bound["input"].ndim, 1)) + 1, **extra))


# --- windows and images -----------------------------
def folded(spatial: int, *tensors: str) -> Rule:
    """The rule of an operation on (N, C, …) or (C, …), where … are so many dimensions: slices are more of the N."""

    def folding(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
        bound = parameters(op).bind(args, kwargs)
        names = [n for n, x in bound.items() if isinstance(x, TensorBase)]
        rank = bound[parameters(op).names[0]].ndim
        many = spatial < 0 or rank == spatial + 2
        for n in names:
            x = level.spread(bound[n])
            bound[n] = x.reshape(-1, *x.shape[2:]) if many else x
        found = parameters(op).call(op, bound)
        if many:
            found = mapped(found, lambda t: t.reshape(level.size, -1 if level.size else 0, *t.shape[1:]))
        return level.wrapped(found)

    return folding


for _n in (1, 2, 3):
    for _name in (
        f"max_pool{_n}d max_pool{_n}d_with_indices adaptive_max_pool{_n}d adaptive_max_pool{_n}d_with_indices avg_pool{_n}d "
        f"adaptive_avg_pool{_n}d max_unpool{_n}d"
    ).split():
        rule(_name)(folded(_n))
entered(folded(-1), "interpolate upsample upsample_nearest upsample_bilinear grid_sample grid_sampler_2d grid_sampler_3d grid_sampler")
entered(folded(-1), "channel_shuffle affine_grid affine_grid_generator")
entered(leading, "pixel_shuffle pixel_unshuffle")
entered(folded(2), "im2col")
entered(folded(1), "col2im")


@rule("flat_adaptive_max_pool1d")
def _pooled(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    return folded(1)(level, op, args, kwargs, running)


@rule("pad", "constant_pad_nd")
def _padded(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    x = bound["input"]
    if bound.get("mode", "constant") == "constant" or x.ndim < 2:
        if bound.get("mode", "constant") == "constant":
            return level.wrapped(parameters(op).call(op, {**bound, "input": level.inside(x)}))
    n = len(bound["pad"]) // 2
    return folded(n if x.ndim in (n + 1, n + 2) else -1)(level, op, args, kwargs, running)


def _convolution(n: int, transposed: bool) -> None:
    name = f"conv_transpose{n}d" if transposed else f"conv{n}d"

    @rule(name)
    def convolved(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
        known = parameters(op)
        bound = known.bind(args, kwargs)
        x, w, bias = bound["input"], bound["weight"], bound.pop("bias", None)
        single = x.ndim == n + 1
        if single:
            x = x.unsqueeze(0)
        b, groups = level.size, bound.get("groups", 1)
        inside, weights = level.inside(x), level.inside(w)
        if weights is None:
            own = bias if bias is None or level.inside(bias) is None else None
            found = known.call(op, {**bound, "input": inside.reshape(-1, *x.shape[1:]), "bias": own})
            found = level.tensor(found.reshape(b, x.shape[0], *found.shape[1:]))
            bias = None if own is bias else bias
        else:
            elements = level.spread(x)  # (B, N, C, …) as (N, B C, …), one group more a slice
            flat = elements.movedim(0, 1).reshape(x.shape[0], b * x.shape[1], *x.shape[2:])
            made = known.call(
                op,
                {**bound, "input": flat, "weight": weights.reshape(-1, *w.shape[1:]), "groups": b * groups, "bias": None},
            )
            found = level.tensor(made.reshape(x.shape[0], b, -1, *made.shape[2:]).movedim(1, 0))
        if bias is not None:
            found = found + bias.reshape(-1, *(1,) * n)
        return found.squeeze(0) if single else found


for _n in (1, 2, 3):
    _convolution(_n, False)
    _convolution(_n, True)


# --- layers -----------------------------------------
@rule("embedding")
def _embedded(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    index, weight = bound["input"], bound["weight"]
    if level.inside(weight) is None:
        return level.wrapped(parameters(op).call(op, {**bound, "input": level.inside(index)}))
    if bound.get("max_norm") is not None or bound.get("scale_grad_by_freq"):
        return looped(level, op, args, kwargs, running)
    padding = bound.get("padding_idx")
    found = weight[index]
    if padding is None:
        return found
    constant = (index == padding % weight.shape[0]).unsqueeze(-1)
    return operation("where")(constant, found.detach(), found)


@rule("scaled_dot_product_attention")
def _attended(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    bound = parameters(op).bind(args, kwargs)
    if bound.get("dropout_p"):
        return parts(level, op, args, kwargs, running)
    return leading(level, op, args, kwargs, running)


@rule("batch_norm")
def _normalized(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Found:
    known = parameters(op)
    bound = known.bind(args, kwargs)
    x = bound["input"]
    training = bound.get("training", False)
    for n in ("running_mean", "running_var"):
        if training and bound.get(n) is not None and level.inside(bound[n]) is None:
            raise RuntimeError(
                "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, "
                "were not batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be "
                "False.If you are using a prebuilt module and do not need eval mode, please see "
                "`func.replace_all_batch_norm_modules_`"
            )
    b, sizes = level.size, x.shape
    flat = level.spread(x).movedim(0, 1).reshape(sizes[0], b * sizes[1], *sizes[2:])
    given = {n: bound.get(n) for n in ("running_mean", "running_var", "weight", "bias")}
    given = {n: None if t is None else level.spread(t).reshape(-1) for n, t in given.items()}
    found = known.call(op, {**bound, **given, "input": flat})
    if training:
        for n in ("running_mean", "running_var"):
            if bound.get(n) is not None:
                level.inside(bound[n]).copy_(given[n].reshape(b, -1))
    return level.tensor(found.reshape(sizes[0], b, *sizes[1:]).movedim(1, 0))
