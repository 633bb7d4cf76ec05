"""How storages and tensors are pickled between processes: the memory is shared, what is pickled says where it is."""

from __future__ import annotations

import copyreg
import os
import pickle
from multiprocessing import context, reduction
from multiprocessing.reduction import ForkingPickler
from typing import Any

from .._tensor import Tensor, reduced
from ..core.base.callbacks import callbacks, callbacks_in
from ..core.base.memory import Storage
from ..core.call.wrapping import is_wrapping
from ..nn.parameter import Buffer, Parameter
from . import _names
from ._channels import here
from ._names import fd_id, remember, shared_cache

__all__ = ["init_reductions", "rebuild_storage_fd", "reduce_storage", "reduce_tensor", "shared_cache"]

callbacks_in(f"{__name__.partition('.')[0]}.cuda._shared", "cuda.reduce_storage")
_copied: Any = copyreg.dispatch_table[Storage]  # how a storage travels as its bytes


def reduce_tensor(tensor: Tensor) -> tuple:
    """What pickle needs to make the tensor in another process; RuntimeError for results of operations that require a gradient.

    Shape:
        tensor: any

    >>> import flambeau
    >>> from flambeau.multiprocessing.reductions import reduce_tensor
    >>> x = flambeau.zeros(2)
    >>> function, arguments = reduce_tensor(x)
    >>> function(*arguments).fill_(3)
    tensor([3., 3.])
    >>> x
    tensor([3., 3.])
    """
    if not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
            "process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing "
            "(e.g., putting it on the queue)."
        )
    if (
        tensor.device.type == "cuda"
        and type(tensor).__reduce_ex__ is Tensor.__reduce_ex__
        and not is_wrapping(tensor)
    ):
        return reduced(tensor, tensor.detach())  # the storage itself
    result: Any = tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    function, arguments = result
    if tensor.device.type not in ("cpu", "meta"):  # the host's copy lives no longer than this call
        arguments = tuple(_Copied(a) if isinstance(a, Storage) else a for a in arguments)
    return function, arguments


class _Copied:
    """A storage that travels as its bytes."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def __reduce__(self) -> tuple:
        return _copied(self.storage)


def reduce_storage(storage: Storage) -> tuple:
    """What pickle needs to find the storage's memory in another process; the storage is in shared memory afterwards, or in memory of
    its CUDA device that the driver shares.

    Raises:
        AttributeError: the argument is no storage

    >>> import flambeau
    >>> from flambeau.multiprocessing.reductions import reduce_storage
    >>> storage = flambeau.zeros(2).untyped_storage()
    >>> function, arguments = reduce_storage(storage)
    >>> storage.is_shared(), function(*arguments) is storage  # what comes back is what was sent
    (True, True)
    """
    nbytes = storage.nbytes()
    if storage.device.type == "cuda" and nbytes:
        return callbacks["cuda.reduce_storage"](storage)
    if storage.device.type != "cpu" or nbytes == 0:
        return _copied(storage)
    storage.share_memory_()
    if _names.get_sharing_strategy() == "file_system":
        kept = _names.lend(storage)
        remember(storage)
        return rebuild_storage_filename, (kept.address, kept.number, kept.identity, nbytes)
    fd = storage._fd()
    remember(storage)
    packing = here.packing
    if packing is None or context.get_spawning_popen() is not None:
        return rebuild_storage_fd, (reduction.DupFd(fd), nbytes)
    packing.append(storage)
    return _rebuild_beside, (len(packing) - 1, nbytes)


def _mapped(fd: int, nbytes: int, take: Any) -> Storage:
    """The storage over that memory which this process has, or a new one that takes the descriptor."""
    key = (*fd_id(fd), nbytes)
    result = shared_cache.get(key)
    if result is None:
        result = shared_cache[key] = Storage._of_descriptor(take(), nbytes)
    return result


def _rebuild_beside(place: int, nbytes: int) -> Storage:
    """A storage whose descriptor came beside the message."""
    arrived = here.opening
    if arrived is None or not 0 <= place < len(arrived.numbers):
        raise RuntimeError(
            f"a message refers to shared memory {place}, which did not come with it: it has to be received by a connection or "
            "queue of this package"
        )
    return _mapped(arrived.numbers[place], nbytes, lambda: arrived.take(place))


def rebuild_storage_fd(duplicate: Any, nbytes: int) -> Storage:
    """A storage whose descriptor is fetched from the process that sent it; RuntimeError where that has ended.

    >>> import flambeau
    >>> from flambeau.multiprocessing.reductions import rebuild_storage_fd, reduce_storage
    >>> storage = flambeau.zeros(2).untyped_storage()
    >>> function, (duplicate, nbytes) = reduce_storage(storage)
    >>> function is rebuild_storage_fd, nbytes
    (True, 8)
    >>> rebuild_storage_fd(duplicate, nbytes) is storage
    True
    """
    try:
        fd = duplicate.detach()
    except (OSError, EOFError) as error:
        raise RuntimeError(
            f"shared memory of {nbytes} bytes cannot be fetched from the process that sent it, which has ended or closed it: {error}"
        ) from error
    taken = False

    def take() -> int:
        nonlocal taken
        taken = True
        return fd

    try:
        return _mapped(fd, nbytes, take)
    except OSError as error:
        raise RuntimeError(
            f"shared memory of {nbytes} bytes came with a descriptor that is none: {error}"
        ) from error
    finally:
        if not taken:
            try:
                os.close(fd)
            except OSError:  # it was none
                taken = False


def rebuild_storage_filename(address: bytes, number: int, identity: tuple[int, int], nbytes: int) -> Storage:
    """A storage whose memory is kept under a name."""
    result = shared_cache.get((*identity, nbytes))
    if result is not None:
        _names.returned(address, number)
        return result
    result = shared_cache[(*identity, nbytes)] = _names.opened(address, number, nbytes)
    return result


def init_reductions() -> None:
    """Let Python's multiprocessing pickle tensors by these.  The import of this module has done so.

    >>> import pickle
    >>> from multiprocessing.reduction import ForkingPickler
    >>> import flambeau
    >>> flambeau.multiprocessing.init_reductions()
    >>> x = flambeau.zeros(2)
    >>> _ = pickle.loads(ForkingPickler.dumps(x)).fill_(3)
    >>> x
    tensor([3., 3.])
    """
    ForkingPickler.register(Storage, reduce_storage)
    for kind in (Tensor, Parameter, Buffer):
        ForkingPickler.register(kind, _reduce_as[kind])


def _reduce_parameter(parameter: Parameter) -> tuple:
    return parameter.__reduce_ex__(pickle.HIGHEST_PROTOCOL)


_reduce_as: dict[type, Any] = {Tensor: reduce_tensor, Parameter: _reduce_parameter, Buffer: _reduce_parameter}

init_reductions()  # also where this file alone is imported, as in a worker
