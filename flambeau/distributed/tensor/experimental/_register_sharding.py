"""Sharding rules of a program's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....core.base import display
from ....core.call.operation import Op, behind
from .._call import Call, Choice
from ..placement_types import Placement, Replicate

__all__ = ["register_sharding"]


def register_sharding(op: Any) -> Callable[[Callable], Callable]:
    """A decorator: the function is the rule of an operation, or of a list of them, on distributed tensors.

    It is called as the operation, with tensors without data in place of distributed ones, and returns a list of pairs: placements of the
    results, and of the arguments (None for what is no tensor), for one dimension of a mesh.  Everything whole is a choice anyway.

    Raises:
        TypeError: it is no operation

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> from flambeau.distributed.tensor.experimental import register_sharding
    >>> @flambeau.library.custom_op("mine::twice", mutates_args=())
    ... def twice(x: flambeau.Tensor) -> flambeau.Tensor:
    ...     return x * 2
    >>> _ = twice.register_fake(lambda x: flambeau.empty_like(x))
    >>> @register_sharding(flambeau.ops.mine.twice.default)
    ... def rule(x):
    ...     return [([Shard(dim)], [Shard(dim)]) for dim in range(x.ndim)]
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = distribute_tensor(flambeau.arange(4.0), init_device_mesh("cpu", (2,)), [Shard(0)])
    >>> twice(x).placements
    (Shard(dim=0),)
    >>> dist.destroy_process_group()
    """
    ops = [behind(each) for each in (op if isinstance(op, list) else [op])]
    for each in ops:
        if not isinstance(each, Op):
            raise TypeError(f"register_sharding(): {each!r} is no operation")

    def enter(function: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        def rule(call: Call) -> Iterator[Choice]:
            yield call.choice({}, Replicate())
            for outs, ins in function(**call.bound):
                placed = tuple(p for p in ins if isinstance(p, Placement))
                if len(placed) != len(call.operands) or len(outs) != len(call.results):
                    raise ValueError(
                        f"register_sharding(): the rule of {call.op.__name__} gives {len(placed)} for arguments and {len(outs)} of "
                        f"results; there are {len(call.operands)} tensors and {len(call.results)} results"
                    )
                yield Choice(placed, tuple(outs))

        for each in ops:
            each.sharding_rule = rule
        return function

    return enter


register_sharding.__module__ = display.public("distributed.tensor.experimental")
