"""The sharing strategies, and memory that is kept under a name (`_keeper.py`) instead of an open descriptor in each process."""

from __future__ import annotations

import array
import atexit
import os
import socket
import struct
import subprocess
import sys
import threading
import weakref
from pathlib import Path

from ..core.base.callbacks import set_callback
from ..core.base.memory import Storage

_MESSAGE = struct.Struct("=cQ")
_ANSWER = struct.Struct("=Q")
# A keeper listens on an abstract address and asks who calls (SO_PEERCRED), which is Linux's alone.
_STRATEGIES = {"file_descriptor", "file_system"} if sys.platform == "linux" else {"file_descriptor"}
_strategy = "file_descriptor"

# The shared storages of this process by their memory: what arrives twice, or comes back, is one storage.
shared_cache: weakref.WeakValueDictionary[tuple[int, int, int], Storage] = weakref.WeakValueDictionary()


def get_all_sharing_strategies() -> set[str]:
    """The strategies there are: 'file_descriptor' and, on Linux, 'file_system'.

    >>> from flambeau import multiprocessing
    >>> "file_descriptor" in multiprocessing.get_all_sharing_strategies()
    True
    """
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """How storages are shared from now on.

    >>> from flambeau import multiprocessing
    >>> multiprocessing.get_sharing_strategy() in multiprocessing.get_all_sharing_strategies()
    True
    """
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how storages are shared from now on.

    'file_descriptor': each shared storage keeps a descriptor open in each process that has it.  'file_system': one process keeps
    them for all, and a name stands for each; for thousands of shared storages at once, or where few descriptors may be open.
    Neither leaves anything behind, however processes end.  AssertionError for another strategy, as PyTorch.

    >>> from flambeau import multiprocessing as mp
    >>> mp.get_sharing_strategy()
    'file_descriptor'
    """
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise AssertionError(
            f"set_sharing_strategy(): on this system the strategy must be one of {sorted(_STRATEGIES)}, "
            f"got {new_strategy!r}"
        )
    _strategy = new_strategy


def fd_id(fd: int) -> tuple[int, int]:
    """What two descriptors of one memory have in common."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


class _Client:
    """This process's connection with a keeper."""

    def __init__(self, address: bytes) -> None:
        self.address = address
        self.lock = threading.Lock()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.socket.connect(address)
        except OSError as error:
            raise _gone(error) from error

    def ask(self, letter: bytes, number: int, fd: int = -1) -> tuple[int, int]:
        """The number that is answered, and a descriptor or -1."""
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd >= 0 else []
        with self.lock:
            try:
                self.socket.sendmsg([_MESSAGE.pack(letter, number)], beside)
                data, beside_it, flags, _ = self.socket.recvmsg(
                    _ANSWER.size, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
                )
            except OSError as error:
                raise _gone(error) from error
        result = array.array("i")
        for _, kind, raw in beside_it:
            if kind == socket.SCM_RIGHTS:
                result.frombytes(raw)
        if len(data) != _ANSWER.size:
            raise _gone("it has ended")
        if flags & socket.MSG_CTRUNC:
            raise RuntimeError("this process may open no more descriptors: raise the limit (`ulimit -n`)")
        return _ANSWER.unpack(data)[0], result[0] if result else -1

    def tell(self, letter: bytes, number: int) -> None:
        """What needs no answer; a keeper that has gone needs no message."""
        try:
            self.socket.send(_MESSAGE.pack(letter, number))
        except OSError:
            return


def _gone(why: object) -> RuntimeError:
    return RuntimeError(
        f"the process that keeps shared memory for the sharing strategy 'file_system' cannot be reached: {why}"
    )


_clients: dict[bytes, _Client] = {}
_own: bytes | None = None  # the keeper of what this process shares
_started: subprocess.Popen | None = None  # that, where this process has started it; it ends by itself
_guard = threading.Lock()


def _forget() -> None:
    """A child has no connection of its own yet, the parent's is the parent's; a process that ends has none any more."""
    global _guard
    _guard = threading.Lock()
    for client in _clients.values():
        client.socket.close()
    _clients.clear()


os.register_at_fork(after_in_child=_forget)
atexit.register(_forget)


def _client(address: bytes) -> _Client:
    global _own
    with _guard:
        if address not in _clients:
            _clients[address] = _Client(address)
        _own = _own or address
        return _clients[address]


def _start() -> bytes:
    """Start a keeper; its address, which the kernel chooses and which is in no file system."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind("")
        listening.listen(128)
        subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                str(Path(__file__).with_name("_keeper.py")),
                str(listening.fileno()),
            ],
            pass_fds=[listening.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        return listening.getsockname()


class Kept:
    """The use that a storage makes of memory under a name, until the storage dies."""

    def __init__(self, address: bytes, number: int, identity: tuple[int, int]) -> None:
        self.address, self.number, self.identity, self.pid = address, number, identity, os.getpid()

    def descriptor(self) -> int:
        """A descriptor of the memory, which is the caller's."""
        fd = _client(self.address).ask(b"f", self.number)[1]
        if fd < 0:
            raise _lost(self.number)
        return fd

    def __del__(self) -> None:
        client = _clients.get(self.address)
        if client is not None and self.pid == os.getpid():
            client.tell(b"d", self.number)


def _lost(number: int) -> RuntimeError:
    return RuntimeError(
        f"shared memory {number} is kept no more: every process that shared it has dropped it or ended"
    )


def keep(storage: Storage) -> Kept:
    """Let the keeper have the storage's descriptor."""
    kept = storage._keeper
    if kept is None:
        global _own
        with _guard:
            if _own is None:
                _own = _start()
            address = _own
        fd = storage._fd()
        number, _ = _client(address).ask(b"k", 0, fd)
        if number == 0:
            raise RuntimeError("the process that keeps shared memory may open no more descriptors")
        kept = Kept(address, number, fd_id(fd))
        storage._keep(kept)
    return kept


def lend(storage: Storage) -> Kept:
    """Keep a shared storage for a message that refers to it."""
    kept = keep(storage)
    if not _client(kept.address).ask(b"l", kept.number)[0]:
        raise _lost(kept.number)
    return kept


def opened(address: bytes, number: int, nbytes: int) -> Storage:
    """The storage that a message refers to."""
    fd = _client(address).ask(b"o", number)[1]
    if fd < 0:
        raise _lost(number)
    kept = Kept(address, number, fd_id(fd))  # first: what cannot be mapped is dropped with it
    return Storage._of_descriptor(fd, nbytes)._keep(kept)


def returned(address: bytes, number: int) -> None:
    """A message has arrived that refers to what this process has."""
    _client(address).tell(b"r", number)


def share(storage: Storage) -> tuple[bytes, bytes, int]:
    """Who keeps a storage's memory, the name it has there, and its bytes."""
    kept = keep(storage.share_memory_())
    return kept.address, str(kept.number).encode(), storage.nbytes()


def of_name(manager: bytes, handle: bytes, nbytes: int) -> Storage:
    """The storage that was shared under a name."""
    number = int(handle)
    if not _client(manager).ask(b"l", number)[0]:
        raise _lost(number)
    return opened(manager, number, nbytes)


def remember(storage: Storage) -> None:
    """A shared storage of this process, to be found again by its memory."""
    kept = storage._keeper
    identity = fd_id(storage._fd()) if kept is None else kept.identity
    shared_cache[(*identity, storage.nbytes())] = storage


def _as_chosen(storage: Storage) -> None:
    if _strategy == "file_system":
        keep(storage)
    remember(storage)


set_callback("storage.shared", _as_chosen)
