"""Random operations inside of a mapped function: refused, different for each slice, or the same for all."""

from __future__ import annotations

from typing import Any

from ..core.base.tensor import TensorBase
from ..core.call.operation import Op
from ..operations.declare.registry import REGISTRY
from ._batched import Level, Running, innermost
from ._rules import operation, parameters, sliced, with_rank, written


def _random() -> frozenset[Op]:
    result = (op for e in REGISTRY.values() if e.kind == "random" for op in (e.function, e.in_place))
    return frozenset(op for op in result if isinstance(op, Op))


RANDOM = _random()


def refused() -> None:
    """RuntimeError: random numbers were not requested."""
    raise RuntimeError(
        "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness "
        "flags on vmap or perform the randomness operation out of vmap"
    )


def drawn(running: Running, op: Any, args: tuple, kwargs: dict) -> Any:
    """A random operation inside of the innermost mapped function."""
    level = running.level
    if op.composite is not None:  # made of others, which draw
        with running:
            return op.composite(*args, **kwargs)
    if level.randomness == "error":
        refused()
    values = [*args, *kwargs.values()]
    inner = innermost(values)
    if inner is not None and inner is not level:
        # slices of a function around this one: the numbers are drawn there, for all or for each slice of this one
        return _around(level, inner, op, list(args), kwargs)
    if inner is None:
        return _fresh(level, op, args, kwargs)
    return _of_slices(level, op, list(args), kwargs)


def _fresh(level: Level, op: Any, args: tuple, kwargs: dict) -> Any:
    """Numbers without batched arguments."""
    if level.randomness == "same":
        return op(*args, **kwargs)
    if op.writes:
        raise RuntimeError(
            "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. If "
            "this is necessary for your usage, please file an issue with functorch."
        )
    if args and parameters(op).rest == "size":
        sizes = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        return level.tensor(op((level.size, *sizes), **kwargs))
    result = [op(*args, **kwargs) for _ in range(level.size)]
    return level.wrapped(_stack(result))


def _stack(result: list) -> Any:
    if isinstance(result[0], TensorBase):
        return operation("stack")(result)
    return type(result[0])(_stack(list(column)) for column in zip(*result))


def _of_slices(level: Level, op: Any, args: list, kwargs: dict) -> Any:
    """Numbers whose arguments differ from slice to slice."""
    in_place = op.writes
    if level.randomness == "same":
        if op.like:
            outline = level.inside(args[0])[0]
            return op(outline, *args[1:], **kwargs)
        if in_place and all(level.inside(x) is None for x in [*args[1:], *kwargs.values()]):
            target = written(level, op, args)
            one = op(level.inside(target)[0].detach().clone(), *args[1:], **kwargs)
            target.copy_(one)
            return target
        raise RuntimeError(
            f"Vmap does not currently support same randomness with a batched tensor input ({op.__name__})"
        )
    if in_place:
        target = written(level, op, args)
        rank = target.ndim
        inner = [with_rank(level, x, rank) for x in args]
        op(*inner, **{n: with_rank(level, x, rank) for n, x in kwargs.items()})
        return target
    if op.entry.batching == "sliced":
        return sliced(level, op, args, kwargs, None)
    rank = max(x.ndim for x in [*args, *kwargs.values()] if isinstance(x, TensorBase))
    inner = [with_rank(level, x, rank) for x in args]
    result = op(*inner, **{n: with_rank(level, x, rank) for n, x in kwargs.items()})
    return level.wrapped(result)


def _around(level: Level, inner: Level, op: Any, args: list, kwargs: dict) -> Any:
    """Numbers for a tensor of a function around this one."""
    if level.randomness == "same" or op.writes:
        if level.randomness == "different":
            _fresh(level, op, tuple(args), kwargs)
        return op(*args, **kwargs)
    first = next(k for k, x in enumerate(args) if isinstance(x, TensorBase))
    args[first] = level.tensor(level.broadcast(args[first]))
    return _of_slices(level, op, args, kwargs)
