"""Collectives of Python objects, which travel as pickles.

Whoever receives an object unpickles it, and a pickle runs what it likes: the processes of a group trust each other.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import by_name
from ..core.make.bridge import frombuffer
from ..core.make.create import empty, zeros
from ._checks import _root
from ._collectives import all_gather, broadcast
from ._groups import resolve, warn_not_in_group
from ._messages import recv, send
from ._process_group import ProcessGroup


def _packed(value: Any, group: ProcessGroup | None) -> Tensor:
    return frombuffer(bytearray(pickle.dumps(value)), dtype=by_name["uint8"]).to(_place(group))


def _unpacked(tensor: Tensor) -> Any:
    return pickle.loads(tensor.cpu().numpy().tobytes())


def _place(group: ProcessGroup | None) -> Any:
    """Where the group takes tensors from; the CPU for a group that this process is not in, whose calls do nothing."""
    return "cpu" if group is None else group._place_of_objects()


def _buffer(length: int, group: ProcessGroup | None) -> Tensor:
    return empty(length, dtype=by_name["uint8"], device=_place(group))


def _number(value: int, group: ProcessGroup | None) -> Tensor:
    return zeros(1, dtype=by_name["int64"], device=_place(group)).fill_(value)


def _lengths(length: int, group: ProcessGroup) -> list[int]:
    result = [_number(0, group) for _ in range(group._size)]
    all_gather(result, _number(length, group), group)
    return [int(each.item()) for each in result]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Process k's object into the k-th place of the list, on all processes.

    Raises:
        ValueError: there is no group, or the list has another length than it

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> gathered = [None, None]
    >>> dist.all_gather_object(gathered, {"of": "this process"})
    >>> gathered
    [{'of': 'this process'}, {'of': 'this process'}]
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("all_gather_object")
        return
    if len(object_list) != result._size:
        raise ValueError(
            f"all_gather_object(): `object_list` must have {result._size} places, got {len(object_list)}"
        )
    mine = _packed(obj, result)
    parts = [_buffer(length, result) for length in _lengths(len(mine), result)]
    all_gather(parts, mine, result)
    object_list[:] = [_unpacked(part) for part in parts]


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Process k's object into the k-th place of the list of process `dst`, the only one that gives such a list.

    Raises:
        ValueError: there is no group; a list where none belongs, or none where one does

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> gathered = [None, None]
    >>> dist.gather_object("mine", gathered, dst=0)
    >>> gathered[0]
    'mine'
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("gather_object")
        return
    root = _root("gather_object", "dst", result, dst, group_dst, result._ranks[0])
    if result._rank == root and not object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    if result._rank != root and object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must NOT be specified on non-destination ranks.")
    mine = _packed(obj, result)
    lengths = _lengths(len(mine), result)
    sent: list[Tensor | None] = [mine if k == root else None for k in range(result._size)]
    received: list[Tensor | None] = [None] * result._size
    if result._rank == root:
        received = [_buffer(length, result) for length in lengths]
    result._begin(
        "gather_object", lambda: result._exchange(sent, received), [], False, facts=(f"dst={root}",)
    )
    if object_gather_list:
        object_gather_list[:] = [_unpacked(part) for part in received if part is not None]


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Overwrite the lists of all processes with that of `src`; they have as many places.

    Raises:
        TypeError: no list
        ValueError: there is no group, or `src` is not in it

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.broadcast_object_list(["a", 1])
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("broadcast_object_list")
        return
    if not isinstance(object_list, list):
        raise TypeError(
            f"broadcast_object_list(): `object_list` must be a list, not {type(object_list).__name__}"
        )
    root = _root("broadcast_object_list", "src", result, src, group_src, result._ranks[0])
    mine = _packed(object_list, result) if result._rank == root else None
    length = _number(0 if mine is None else len(mine), result)
    broadcast(length, group=result, group_src=root)
    data = _buffer(int(length.item()), result) if mine is None else mine
    broadcast(data, group=result, group_src=root)
    if mine is None:
        values = _unpacked(data)
        if len(values) != len(object_list):
            raise ValueError(
                f"broadcast_object_list(): rank {result._ranks[root]} sends {len(values)} objects, and here is room for {len(object_list)}"
            )
        object_list[:] = values


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """The k-th object of process `src`'s list into the first place of process k's output list.

    Raises:
        ValueError: there is no group; the output list is empty, or the input list has another length than the group

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> mine = [None]
    >>> dist.scatter_object_list(mine, ["first", "second"], src=0)
    >>> mine
    ['first']
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("scatter_object_list")
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = _root("scatter_object_list", "src", result, src, group_src, result._ranks[0])
    sent: list[Tensor | None] = [None] * result._size
    lengths = zeros(result._size, dtype=by_name["int64"])
    if result._rank == root:
        if scatter_object_input_list is None or len(scatter_object_input_list) != result._size:
            raise ValueError(
                "Expected argument scatter_object_input_list to be a list of as many objects as the group has ranks."
            )
        sent = [_packed(value, result) for value in scatter_object_input_list]
        for k, tensor in enumerate(sent):
            lengths[k] = len(tensor)  # type: ignore[arg-type]
    lengths = lengths.to(_place(result))
    broadcast(lengths, group=result, group_src=root)
    mine = _buffer(int(lengths[result._rank].item()), result)
    received: list[Tensor | None] = [mine if k == root else None for k in range(result._size)]
    result._begin(
        "scatter_object_list", lambda: result._exchange(sent, received), [], False, facts=(f"src={root}",)
    )
    scatter_object_output_list[0] = _unpacked(mine)


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to process `dst`, which calls `recv_object_list`.

    Raises:
        ValueError: `dst` is this process, or none of the group

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.send_object_list(["a", 1], dst=1)
    >>> dist.destroy_process_group()
    """
    data = _packed(object_list, resolve(group))
    send(_number(len(data), resolve(group)), dst, group, 0, group_dst)
    send(data, dst, group, 0, group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Overwrite the list with what process `src` (by default any) sends by `send_object_list`; that process's rank.

    Raises:
        ValueError: `src` is this process, or none of the group; the lists have different lengths

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.recv_object_list([], src=0)
    Traceback (most recent call last):
        ...
    ValueError: Invalid source rank: source rank should not be the same as the rank of the current process.
    >>> dist.destroy_process_group()
    """
    length = _number(0, resolve(group))
    origin = recv(length, src, group, 0, group_src)
    data = _buffer(int(length.item()), resolve(group))
    recv(data, origin, group)
    values = _unpacked(data)
    if len(values) != len(object_list):
        raise ValueError(
            f"recv_object_list(): rank {origin} sends {len(values)} objects, and here is room for {len(object_list)}"
        )
    object_list[:] = values
    return origin
