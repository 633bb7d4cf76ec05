"""Memory of NVIDIA devices in other processes: what travels is its name at the driver.

The sender keeps a storage that it has sent until the receiver has let go of it, which a byte of the host's memory says that both share (a
ticket, one for each message): a message that nobody receives, and a receiver that is killed, keep the memory until the sender ends, as in
PyTorch.  What the sender has queued on the memory is done before what the receiver queues: an event goes with it.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..core.base.callbacks import set_callback
from ..core.base.memory import Storage
from ..core.make.literal import as_tensor
from ._find import find
from ._pools import MemPool, use_mem_pool
from .streams import Event, StreamContext, current_stream

HELD, RELEASED = 1, 0
_pools: dict[int, Any] = {}  # index of a device -> the MemPool of what is shared
sent: list[tuple[Storage, Storage, Any]] = []  # what was sent, its ticket (HELD or RELEASED), and the event
_opened: weakref.WeakValueDictionary[bytes, Storage] = (
    weakref.WeakValueDictionary()
)  # by the name that it travels under


def collect() -> None:
    """Let go of what no receiver holds any more."""
    sent[:] = [entry for entry in sent if entry[1][0] == HELD]


def reduce_storage(storage: Storage) -> tuple:
    """What pickle needs to find the storage's memory in another process; it is moved into memory that can be shared before.

    Raises:
        RuntimeError: it was received from another process, is another library's memory, or its device is being captured
    """
    collect()
    on, nbytes = find(storage.device), storage.nbytes()
    address = storage.data_ptr()
    if not on.is_ours(address):
        raise RuntimeError(
            "Attempted to send CUDA tensor received from another process, or from another library; this is not currently supported. "
            "Consider cloning before sending."
        )
    if not on.is_pooled(address):
        with StreamContext(current_stream(on.index)):
            pool = _pools.get(on.index)
            if pool is None:
                pool = _pools[on.index] = MemPool()
            with use_mem_pool(pool):
                moved = storage.clone()
        storage._trade(moved)
    with StreamContext(current_stream(on.index)):
        event = Event(interprocess=True)
        event.record()
        mark = event.ipc_handle()
    handle = on.memory_handle(storage.data_ptr())
    ticket = Storage._shared(1)
    ticket[0] = HELD
    _opened[handle] = storage
    sent.append((storage, ticket, event))
    return rebuild_storage, (on.index, handle, nbytes, mark, ticket)


class _Opened:
    """Memory of another process, as long as it is open here."""

    def __init__(self, on: Any, handle: bytes, nbytes: int, ticket: Storage) -> None:
        address = on.open_memory(handle)
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }
        weakref.finalize(self, _close, on, address, ticket)


def _close(on: Any, address: int, ticket: Storage) -> None:
    on.close_memory(address)
    ticket[0] = RELEASED


def rebuild_storage(index: int, handle: bytes, nbytes: int, mark: bytes, ticket: Storage) -> Storage:
    """The storage over memory that another process has sent, or that this one has sent or received before.

    Raises:
        RuntimeError: there is no such device, the memory is gone, or the process was forked after it had used a device
    """
    result = _opened.get(handle)
    if result is not None:
        ticket[0] = RELEASED  # the ticket that it came with first says that it is held
        return result
    with StreamContext(current_stream(index)):
        event = Event.from_ipc_handle(index, mark)
        opened = _Opened(find(index), handle, nbytes, ticket)
        event.wait()
        result = _opened[handle] = as_tensor(opened).untyped_storage()
    return result


set_callback("cuda.reduce_storage", reduce_storage)
