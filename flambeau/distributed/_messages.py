"""Messages between two processes, alone and in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.base import display
from ._checks import _root, _tensor
from ._groups import resolve, warn_not_in_group
from ._process_group import ProcessGroup
from ._work import Work


def isend(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Send a tensor to process `dst`, which receives one of the same size with the same tag; it must not change until the `Work` is done.

    Raises:
        TypeError: no tensor
        ValueError: `dst` is this process, or none of the group

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.isend(flambeau.ones(1), dst=1).wait()
    True
    >>> dist.destroy_process_group()
    """
    return _send("isend", tensor, dst, group, tag, group_dst, True)


def send(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """`isend`, and wait until it is done.

    Raises:
        TypeError, ValueError: as `isend`
        DistBackendError: a process is gone, or did not come in time

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.send(flambeau.ones(1), dst=1)
    >>> dist.destroy_process_group()
    """
    _send("send", tensor, dst, group, tag, group_dst, False)


def _send(
    call: str, tensor: Any, dst: int | None, group: Any, tag: int, group_dst: int | None, async_op: bool
) -> Work | None:
    result = resolve(group)
    if result is None:
        warn_not_in_group(call)
        return None
    local, to = _tensor(call, "tensor", tensor), _root(call, "dst", result, dst, group_dst)
    if to == result._rank:
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the current process."
        )
    _check_tag(call, tag)
    return result._begin(call, lambda: result._send(local, to, tag), [tensor], async_op, peer=to)


def irecv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Receive a tensor from process `src`, by default from any; `Work.source_rank` says from which.

    Raises:
        TypeError: no tensor
        ValueError: `src` is this process, or none of the group

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.irecv(flambeau.zeros(1), src=1).wait()
    True
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("irecv")
        return None
    return _receive("irecv", result, tensor, src, tag, group_src)


def recv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> int:
    """`irecv`, and wait until it is done; the rank of the process that the tensor has come from.

    Raises:
        TypeError, ValueError: as `irecv`
        DistBackendError: a process is gone, or did not come in time

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.recv(flambeau.zeros(1), src=1)
    1
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("recv")
        return -1
    work = _receive("recv", result, tensor, src, tag, group_src)
    work.wait()
    if src is None and group_src is None:
        return work.source_rank() if work._status is not None else -1
    return src if src is not None else result._ranks[group_src]  # type: ignore[index]


def _receive(
    call: str, group: ProcessGroup, tensor: Any, src: int | None, tag: int, group_src: int | None
) -> Work:
    local = _tensor(call, "tensor", tensor)
    anybody = src is None and group_src is None
    source = None if anybody else _root(call, "src", group, src, group_src)
    if source == group._rank:
        raise ValueError(
            "Invalid source rank: source rank should not be the same as the rank of the current process."
        )
    _check_tag(call, tag)
    status = group._status()
    work = group._begin(
        call, lambda: group._receive(local, source, tag, status), [tensor], True, status=status, peer=source
    )
    assert work is not None
    return work


def _check_tag(call: str, tag: int) -> None:
    if not isinstance(tag, int) or not 0 <= tag < 1 << 29:
        raise ValueError(f"{call}(): tag must be a number from 0 to {(1 << 29) - 1}, got {tag!r}")


class P2POp:
    """A message for `batch_isend_irecv`: `op` is `isend` or `irecv`.

    Raises:
        ValueError: another `op`

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.P2POp(dist.isend, flambeau.ones(1), 1).peer
    1
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Any,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``."
            )
        result = resolve(group)
        if result is None:
            raise ValueError("P2POp(): this process is not in the group")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.group_peer = _root("P2POp", "peer", result, peer, group_peer)
        self.peer = result._ranks[self.group_peer]

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__}, peer={self.peer}, shape={list(self.tensor.shape)}, tag={self.tag})"


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin several messages; a `Work` for each, in their order.

    Raises:
        ValueError: the list is empty, holds something else, or is of several groups

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> works = dist.batch_isend_irecv([dist.P2POp(dist.isend, flambeau.ones(1), 1), dist.P2POp(dist.irecv, flambeau.ones(1), 1)])
    >>> [work.wait() for work in works]
    [True, True]
    >>> dist.destroy_process_group()
    """
    if (
        not isinstance(p2p_op_list, (list, tuple))
        or not p2p_op_list
        or not all(isinstance(op, P2POp) for op in p2p_op_list)
    ):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``."
        )
    if any(op.group is not p2p_op_list[0].group for op in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    with _coalescing_manager(p2p_op_list[0].group, async_ops=True) as manager:
        for op in p2p_op_list:
            op.op(op.tensor, op.peer, op.group, op.tag)
    return manager.works


class _Coalesced:
    """The works of the calls in a `_coalescing_manager`."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def wait(self) -> None:
        """Wait for all of them."""
        for work in self.works:
            work.wait()


@contextmanager
def _coalescing_manager(
    group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator[_Coalesced]:
    """Collectives in the block are begun one after the other and waited for at its end, or by `wait()` with `async_ops`.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> with dist._coalescing_manager():
    ...     _ = dist.all_reduce(flambeau.ones(1))
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        raise ValueError("_coalescing_manager(): this process is not in the group")
    if result._coalescing is not None:
        raise ValueError("ProcessGroup has non-empty op list at the start of coalescing")
    manager = _Coalesced()
    result._coalescing = manager.works
    try:
        yield manager
    finally:
        result._coalescing = None
        result._post_together()
    if not async_ops:
        manager.wait()


P2POp.__module__ = display.public("distributed")
