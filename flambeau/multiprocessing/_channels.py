"""Connections over which shared memory travels with the message.

The descriptors of a message's storages are sent beside it over a Unix socket (SCM_RIGHTS).  What lies in the socket is the
kernel's: it arrives though the sender has ended, and it is freed with the socket where nobody is left to receive it.
"""

from __future__ import annotations

import array
import errno
import io
import os
import socket
import struct
import threading
from multiprocessing import reduction
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ..core.base.memory import Storage

_HEADER = struct.Struct("!QI")  # bytes of the message, descriptors beside it
_MOST = 253  # descriptors in one call of the system
_ANCILLARY_SIZE = socket.CMSG_SPACE(_MOST * 4)


class Descriptors:
    """Descriptors that have arrived; those that nobody takes are closed."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.lost = False  # the system had no more room for them

    def take(self, place: int) -> int:
        """One of them, which is the caller's from now on."""
        number, self.numbers[place] = self.numbers[place], -1
        if number < 0:
            raise RuntimeError("a descriptor was taken twice")
        return number

    def __del__(self) -> None:
        for number in self.numbers:
            if number >= 0:
                os.close(number)


class _Here(threading.local):
    """What this thread packs, sends and opens."""

    packing: list[Storage] | None = None  # storages of the message that is pickled now
    outgoing: tuple[Storage, ...] = ()  # of the message that is sent next
    arrived: Descriptors | None = None  # with the message that was received last
    opening: Descriptors | None = None  # of the message that is unpickled now


here = _Here()


class Parcel:
    """A pickled object and the storages that travel beside it: what queues and connections carry instead of the object."""

    def __init__(self, obj: Any) -> None:
        before, here.packing = here.packing, []
        try:
            self.data = bytes(ForkingPickler.dumps(obj))
            self.storages = tuple(here.packing)
        finally:
            here.packing = before

    def __reduce__(self) -> tuple:
        here.outgoing = self.storages
        return _unpack, (self.data,)


def _unpack(data: bytes) -> Any:
    before = here.opening
    here.opening, here.arrived = here.arrived, None
    try:
        return ForkingPickler.loads(data)
    finally:
        here.opening = before


class Channel(Connection):
    """A `multiprocessing.Connection` that carries shared memory."""

    def __init__(self, handle: int, readable: bool = True, writable: bool = True) -> None:
        super().__init__(handle, readable, writable)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=handle)
        self._socket.settimeout(None)

    def _close(self) -> None:  # type: ignore[override]
        self._socket.close()

    def send(self, obj: Any) -> None:
        """Send an object that can be pickled; its tensors travel as shared memory."""
        super().send(Parcel(obj))

    def _send_bytes(self, buf: Any) -> None:
        storages, here.outgoing = here.outgoing, ()
        numbers = [s._fd() for s in storages]
        header, parts = (
            _HEADER.pack(len(buf), len(numbers)),
            [numbers[k : k + _MOST] for k in range(0, len(numbers), _MOST)],
        )
        sent = self._send_part([header] if len(parts) > 1 else [header, buf], parts[0] if parts else [])
        for part in parts[1:]:
            self._send_part([b"\0"], part)
        if len(parts) > 1:
            sent = len(header)
        rest = len(header) + len(buf) - sent
        if rest:
            both = memoryview(buf) if sent >= len(header) else memoryview(header + bytes(buf))
            self._socket.sendall(both[len(both) - rest :])

    def _send_part(self, buffers: list, numbers: list[int]) -> int:
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", numbers))] if numbers else []
        try:
            return self._socket.sendmsg(buffers, beside)
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:
                raise RuntimeError(
                    f"send(): {len(numbers)} shared storages cannot be sent, too many are underway already: receive some first, "
                    "raise the limit (`ulimit -n`), or use multiprocessing.set_sharing_strategy('file_system')"
                ) from error
            raise

    def _recv_bytes(self, maxsize: int | None = None) -> io.BytesIO | None:
        here.arrived = None
        arrived = Descriptors()
        header = self._receive_part(_HEADER.size, arrived)
        if not header:
            raise EOFError
        while len(header) < _HEADER.size:
            more = self._receive_part(_HEADER.size - len(header), arrived)
            if not more:
                raise OSError("got end of file during message")
            header += more
        size, count = _HEADER.unpack(header)
        if maxsize is not None and size > maxsize:
            return None
        for _ in range(_MOST, count, _MOST):
            if not self._receive_part(1, arrived):
                raise OSError("got end of file during message")
        result = io.BytesIO(bytes(size))
        with result.getbuffer() as view:
            done = 0
            while done < size:
                got = self._socket.recv_into(view[done:])
                if not got:
                    raise OSError("got end of file during message")
                done += got
        if arrived.lost or len(arrived.numbers) != count:
            raise RuntimeError(
                f"recv(): {count} shared storages arrived, and this process may open only {len(arrived.numbers)} descriptors more.  "
                "With the sharing strategy 'file_descriptor' each shared storage keeps one open: raise the limit (`ulimit -n`), "
                "or use multiprocessing.set_sharing_strategy('file_system')"
            )
        here.arrived = arrived
        return result

    def _receive_part(self, size: int, arrived: Descriptors) -> bytes:
        data, beside, flags, _ = self._socket.recvmsg(size, _ANCILLARY_SIZE, socket.MSG_CMSG_CLOEXEC)
        for level, kind, raw in beside:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                arrived.numbers += array.array("i", raw[: len(raw) // 4 * 4])
        arrived.lost |= bool(flags & socket.MSG_CTRUNC)
        return data


def Pipe(duplex: bool = True) -> tuple[Channel, Channel]:
    """Two connected `Connection`s; without `duplex` the first only receives, the second only sends."""
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(one.detach(), writable=duplex), Channel(two.detach(), readable=duplex)


def _reduce_channel(channel: Channel) -> tuple:
    return _rebuild_channel, (reduction.DupFd(channel.fileno()), channel.readable, channel.writable)


def _rebuild_channel(duplicate: Any, readable: bool, writable: bool) -> Channel:
    return Channel(duplicate.detach(), readable, writable)


ForkingPickler.register(Channel, _reduce_channel)
