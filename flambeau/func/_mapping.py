"""One call of a mapped function: its arguments taken apart, its results put together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.base.tensor import TensorBase
from ..core.call.interceptors import pop_mode, push_mode
from ..utils import _pytree as pytree
from . import _functions, _rules_layers, _rules_places, _rules_products, _rules_views  # noqa: F401  they enter what they know
from ._batched import Level, Running
from ._draws import RANDOM, drawn
from ._rules import operation


def run(
    func: Callable,
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    chunk_size: int | None,
    args: tuple,
    kwargs: dict,
) -> Any:
    """`func` over all slices."""
    _check_out_dims(out_dims, func)
    size, dims, flat, spec = _read_inputs(in_dims, args, func)
    if chunk_size is None:
        return _once(func, size, dims, flat, spec, out_dims, randomness, kwargs)
    return _in_chunks(func, size, dims, flat, spec, out_dims, randomness, chunk_size, kwargs)


def _name(func: Any) -> str:
    if hasattr(func, "__name__"):
        return func.__name__
    if isinstance(func, functools.partial):
        return f"functools.partial({_name(func.func)}, ...)"
    return repr(func)


def _check_out_dims(out_dims: Any, func: Any) -> None:
    for dim in [out_dims] if isinstance(out_dims, int) else pytree.tree_leaves(out_dims):
        if not isinstance(dim, int) and dim is not None:
            raise ValueError(
                f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
                "representing where in the outputs the vmapped dimension should appear."
            )


def _read_inputs(in_dims: Any, args: tuple, func: Any) -> tuple[int, list, list, Any]:
    """The number of slices, the dimension of each leaf of the arguments, the leaves, and their structure."""
    who = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{who}expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    flat, spec = pytree.tree_flatten(args)
    dims = pytree._broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{who}in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{pytree.tree_structure(in_dims)} but inputs has structure {spec}."
        )
    for k, (x, dim) in enumerate(zip(flat, dims)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(
                f"{who}Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(x, TensorBase):
            raise ValueError(
                f"{who}Got in_dim={dim} for an input but the input is of type {type(x)}. We cannot vmap over non-Tensor arguments, "
                "please use None as the respective in_dim"
            )
        if not -x.ndim <= dim < x.ndim:
            raise ValueError(
                f"{who}Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {x.ndim} so expected in_dim "
                f"to satisfy -{x.ndim} <= in_dim < {x.ndim}."
            )
        dims[k] = dim % x.ndim
    sizes = [x.shape[dim] for x, dim in zip(flat, dims) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(s != sizes[0] for s in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"
        )
    return sizes[0], dims, flat, spec


def _first(x: TensorBase, dim: int) -> TensorBase:
    return x if dim == 0 else x.movedim(dim, 0)


def _level(size: int, randomness: str) -> Level:
    return Level(size, randomness)


def _begin(level: Level) -> None:
    push_mode(Running(level, RANDOM, drawn), True)


def _end(level: Level) -> None:
    pop_mode(True)
    level.open = False


def _mapped(level: Level, x: TensorBase, dim: int) -> TensorBase:
    """An argument as one of slices."""
    return level.tensor(_first(x, dim))


def _once(
    func: Callable, size: int, dims: list, flat: list, spec: Any, out_dims: Any, randomness: str, kwargs: dict
) -> Any:
    """All slices at once."""
    level = _level(size, randomness)
    given = [x if dim is None else _mapped(level, x, dim) for x, dim in zip(flat, dims)]
    _begin(level)
    try:
        result = func(*pytree.tree_unflatten(given, spec), **kwargs)
    finally:
        _end(level)
    return _unwrapped(func, level, result, out_dims)


def _unwrapped(func: Any, level: Level, result: Any, out_dims: Any) -> Any:
    """Results with the dimension of slices where it is requested."""
    flat, spec = pytree.tree_flatten(result)
    dims: Any
    if isinstance(result, TensorBase):
        dims = list(out_dims) if isinstance(out_dims, tuple) else [out_dims]
        fits = len(dims) == 1
    else:
        dims = pytree._broadcast_to_and_flatten(out_dims, spec)
        fits = dims is not None
    if not fits:
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {pytree.tree_structure(out_dims)} but outputs has structure {spec}."
        )
    return pytree.tree_unflatten([_result(func, level, x, dim) for x, dim in zip(flat, dims)], spec)


def _result(func: Any, level: Level, x: Any, dim: int | None) -> Any:
    if dim is None:
        if _is_mapped(level, x):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
            )
        return x
    if not isinstance(x, TensorBase):
        raise ValueError(
            f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(x)}. Did you mean to set out_dims= "
            "to None for output?"
        )
    elements = _of_all(level, x)
    rank = elements.ndim
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )
    return elements if dim % rank == 0 else elements.movedim(0, dim)


def _in_chunks(
    func: Callable,
    size: int,
    dims: list,
    flat: list,
    spec: Any,
    out_dims: Any,
    randomness: str,
    chunk: int,
    kwargs: dict,
) -> Any:
    """So many slices at a time, the results joined."""
    state = _random_state() if randomness == "same" else None
    result = []
    for start in range(0, max(size, 1), chunk):
        count = min(chunk, size - start)
        if state is not None:
            _set_random_state(state)
        part = [x if dim is None else x.narrow(dim, start, count) for x, dim in zip(flat, dims)]
        result.append(_once(func, count, dims, part, spec, out_dims, randomness, kwargs))
    columns = [pytree.tree_flatten(f)[0] for f in result]
    structure = pytree.tree_structure(result[0])
    places = pytree._broadcast_to_and_flatten(out_dims, structure)
    cat = operation("cat")
    joined = [
        column[0] if dim is None else cat(list(column), dim)
        for column, dim in zip(zip(*columns), places or [])
    ]
    return pytree.tree_unflatten(joined, structure)


def _is_mapped(level: Level, x: Any) -> bool:
    return level.inside(x) is not None


def _of_all(level: Level, x: TensorBase) -> TensorBase:
    return level.broadcast(x)


for _function in (_level, _begin, _end, _mapped, _is_mapped, _of_all):
    vars(_function)["_captured_as_it_is"] = True


def _random_state() -> Any:
    return operation("get_rng_state")()


def _set_random_state(state: Any) -> None:
    operation("set_rng_state")(state)
