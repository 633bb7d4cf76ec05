"""Messages over a TCP connection between two workers.

A connection begins with the secret that the workers of a world share, and the rank of who calls; whoever does not know it is cut off
before anything is unpickled.  A message is a header (kind, number, bytes of a pickle, number of buffers), the length of each buffer,
the pickle, and the buffers' bytes, which are the memory of tensors on both sides.
"""

from __future__ import annotations

import hmac
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from ...core.make.create import empty

SECRET = 32  # bytes
_HELLO = struct.Struct("<8s32sI")  # what this is, the secret, the rank of who connects
_WELCOME = struct.Struct("<8sI")
_NAME = b"flbrpc\x00\x01"
_HEADER = struct.Struct("<4sBQQQ")
_MARK = b"call"
_AT_ONCE = 512  # buffers in one call of the system
_SHAKING = 10.0  # seconds that a greeting may take
_LEAVING = 5.0  # seconds that a peer is given to say good-bye, too


class Message(NamedTuple):
    """What travels: a pickle, and the bytes of the tensors in it."""

    kind: int
    number: int
    data: bytes
    buffers: Sequence[Tensor]


def memory(tensor: Tensor) -> memoryview:
    """The bytes of a flat tensor of uint8."""
    return memoryview(tensor.numpy())  # type: ignore[arg-type]


class Connection:
    """One end of a connection. `arrive(connection, message)` is called in the thread that reads, and must not wait; `lost(connection)`
    at the end.
    """

    def __init__(
        self,
        link: socket.socket,
        peer: int,
        arrive: Callable[[Any, Message], None],
        lost: Callable[[Any], None],
    ) -> None:
        self.link, self.peer, self._arrive, self._lost = link, peer, arrive, lost
        self._turn = threading.Condition()
        self._outbox: deque[memoryview] = deque()
        self._broken: str | None = None
        self._writer: threading.Thread | None = None
        self.said_goodbye = False
        self.reader = threading.Thread(target=self._read, daemon=True, name="rpc reader")
        link.settimeout(None)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        self.reader.start()

    # sending: what the system does not take at once is left to a thread
    def send(self, message: Message) -> None:
        """Begin to send a message; never waits.  ConnectionError where the connection has ended."""
        lengths = [buffer.numel() for buffer in message.buffers]
        header = _HEADER.pack(_MARK, message.kind, message.number, len(message.data), len(lengths))
        first = b"".join((header, struct.pack(f"<{len(lengths)}Q", *lengths), message.data))
        parts = [memoryview(first), *(memory(b) for b, length in zip(message.buffers, lengths) if length)]
        with self._turn:
            if self._broken:
                raise ConnectionError(self._broken)
            if not self._outbox:
                try:
                    while parts:
                        parts = _rest(parts, self.link.sendmsg(parts[:_AT_ONCE], [], socket.MSG_DONTWAIT))
                except BlockingIOError:
                    self._outbox.extend(parts)
                except OSError as error:
                    self._break(str(error))
                    raise ConnectionError(str(error)) from None
            else:
                self._outbox.extend(parts)
            if self._outbox:
                if self._writer is None:
                    self._writer = threading.Thread(target=self._write, daemon=True, name="rpc writer")
                    self._writer.start()
                self._turn.notify_all()

    def _write(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._outbox or self._broken)
                if self._broken:
                    return
                parts = [self._outbox[k] for k in range(min(len(self._outbox), _AT_ONCE))]
            try:
                rest = _rest(parts, self.link.sendmsg(parts))
            except OSError as error:
                with self._turn:
                    self._break(str(error))
                return
            with self._turn:
                for _ in parts:
                    self._outbox.popleft()
                self._outbox.extendleft(reversed(rest))
                del parts, rest
                self._turn.notify_all()

    def _break(self, why: str) -> None:
        """With the turn held: nothing is sent any more, and the reader ends."""
        self._broken = self._broken or why
        self._outbox.clear()
        self._turn.notify_all()
        _shut(self.link, socket.SHUT_RDWR)

    # receiving
    def _read(self) -> None:
        try:
            while True:
                self._arrive(self, self._receive())
        except (OSError, ValueError, MemoryError) as error:  # ended, or not one of us
            why = str(error) or type(error).__name__
        with self._turn:
            self._break(why)
        self._lost(self)
        self.link.close()

    def _receive(self) -> Message:
        mark, kind, number, size, count = _HEADER.unpack(_exactly(self.link, _HEADER.size))
        if mark != _MARK:
            raise ValueError("it sent something that is no message")
        lengths = struct.unpack(f"<{count}Q", _exactly(self.link, 8 * count))
        data = _exactly(self.link, size)
        buffers = []
        for length in lengths:
            buffer = empty(length, dtype=by_name["uint8"])
            _fill(self.link, memory(buffer))
            buffers.append(buffer)
        return Message(kind, number, data, buffers)

    # the end
    def leave(self, patience: float = _LEAVING) -> None:
        """Send what is still to be sent, for `patience` seconds at most, and end this side."""
        with self._turn:
            self._turn.wait_for(lambda: not self._outbox or self._broken, patience)
            if not self._outbox and not self._broken:
                _shut(self.link, socket.SHUT_WR)

    def end(self, patience: float = _LEAVING) -> None:
        """Wait until the other side has ended, too, and end."""
        if self.reader is not threading.current_thread():
            self.reader.join(patience)
        with self._turn:
            self._break("the worker has shut down")
        for thread in (self.reader, self._writer):
            if thread is not None and thread is not threading.current_thread():
                thread.join(patience)

    def drop(self) -> None:
        """In a forked child: let go of the parent's connection, which goes on."""
        self.link.close()


def _shut(link: socket.socket, how: int) -> None:
    try:
        link.shutdown(how)
    except OSError:
        return  # it has ended before


def _rest(parts: Sequence[memoryview], sent: int) -> list[memoryview]:
    """What is left of these after the first bytes."""
    for k, part in enumerate(parts):
        if sent < part.nbytes:
            return [part[sent:], *parts[k + 1 :]]
        sent -= part.nbytes
    return []


def _fill(link: socket.socket, view: memoryview) -> None:
    done = 0
    while done < view.nbytes:
        got = link.recv_into(view[done:], 0, socket.MSG_WAITALL)
        if not got:
            raise ConnectionError("the connection was closed")
        done += got


def _exactly(link: socket.socket, length: int) -> bytes:
    received = bytearray()  # grows with what comes, not with what was announced
    while len(received) < length:
        part = link.recv(min(length - len(received), 1 << 20))
        if not part:
            raise ConnectionError("the connection was closed")
        received += part
    return bytes(received)


# greetings -------------------------------------------------------------------------------------------------------------------
def connect(
    address: tuple[str, int], peer: int, rank: int, secret: bytes, seconds: float | None
) -> socket.socket:
    """A connection to a worker.  OSError where it does not answer, or is another one."""
    link = socket.create_connection(address, seconds)
    try:
        link.settimeout(_SHAKING if seconds is None else min(seconds, _SHAKING))
        link.sendall(_HELLO.pack(_NAME, secret, rank))
        if _exactly(link, _WELCOME.size) != _WELCOME.pack(_NAME, peer):
            raise ConnectionError("what listens at its address is another program")
    except BaseException:
        link.close()
        raise
    return link


def greeted(link: socket.socket, rank: int, secret: bytes) -> int:
    """The rank of who has connected.  OSError or ValueError where it does not know the secret in time."""
    link.settimeout(_SHAKING)
    name, digest, peer = _HELLO.unpack(_exactly(link, _HELLO.size))
    if name != _NAME or not hmac.compare_digest(digest, secret):
        raise ValueError("it does not know the secret")
    link.sendall(_WELCOME.pack(_NAME, rank))
    return peer
