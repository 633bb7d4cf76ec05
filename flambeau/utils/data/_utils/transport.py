"""Batches on their way from a worker's process to the loader's: a message on a socket, and blocks of memory that both see.

A message is a pickle.  What is large in it (storages of tensors, buffers of arrays) lies in blocks: anonymous files
(`memfd`; unlinked ones on macOS), mapped by both processes, whose descriptors go along with the first message that
names them and are closed as soon as they are mapped.  The worker makes its batches in blocks where it can, so nothing
is copied.  When the program has dropped a batch, its blocks' numbers go back to the worker with the next task, and it
uses them again: fresh memory would have to be cleared, and mapped page by page, which takes longer than filling it.
"""

from __future__ import annotations

import ctypes
import io
import os
import pickle
import socket
import struct
import sys
import tempfile
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ...._tensor import Tensor
from ....core.base.memory import Storage, storage_from_address
from ....core.make.create import empty

INLINE = 1 << 14  # bytes up to which copying through the socket costs less than a block
_IDLE = 16  # blocks that a worker keeps unused
_FDS = 250  # descriptors in one call; the system takes 253
_CHUNK = 1 << 16
_FRAME = struct.Struct("<QQ")  # bytes of the head, bytes of the rest

_PROT = 3  # PROT_READ | PROT_WRITE
_SHARED = 0x8001 if sys.platform == "linux" else 1  # MAP_SHARED, with Linux's MAP_POPULATE
_libc = ctypes.CDLL(None, use_errno=True)
_mmap, _munmap = _libc.mmap, _libc.munmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
_munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class Disconnected(Exception):
    """The loader is gone."""


class Block:
    """Memory that two processes see, until nobody holds this object."""

    __slots__ = ("address", "lent", "number", "sent", "size")

    def __init__(self, number: int, fd: int, size: int) -> None:
        address = _mmap(None, size, _PROT, _SHARED, fd, 0)
        if address == ctypes.c_void_p(-1).value:
            code = ctypes.get_errno()
            raise OSError(code, f"DataLoader: cannot map {size} bytes of shared memory: {os.strerror(code)}")
        self.number, self.address, self.size = number, address, size
        self.sent = False  # in the worker: the loader has it; there: a child of it sees it, too
        self.lent = False  # something lies over it in this process

    def __del__(self, munmap: Any = _munmap) -> None:
        if hasattr(self, "number"):
            munmap(self.address, self.size)


class _Lease:
    """Held by what lies over a block; tells when that is gone."""

    __slots__ = ("block", "over")

    def __init__(self, block: Block, over: Any) -> None:
        self.block, self.over = block, over

    def __del__(self) -> None:
        self.over(self.block)


def _lengthened(fd: int, offset: int, size: int) -> None:
    """What `posix_fallocate` does, as far as macOS can: it reserves nothing."""
    os.ftruncate(fd, offset + size)


def _anonymous_file(size: int) -> int:
    """A file that no folder names, with room for so many bytes: OSError where the system has none, now and not when
    they are written.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("flambeau-batch", os.MFD_CLOEXEC)
    else:
        fd, path = tempfile.mkstemp(prefix="flambeau-batch")  # macOS
        os.unlink(path)
    try:
        getattr(os, "posix_fallocate", _lengthened)(fd, 0, size)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _rounded(nbytes: int) -> int:
    """Whole pages, with at most an eighth more than requested, so that batches of about one length share blocks."""
    step = max(4096, 1 << max(0, nbytes.bit_length() - 3))
    return -(-nbytes // step) * step


class Arena:
    """A worker's blocks."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._by_address: dict[int, Block] = {}
        self._idle: list[Block] = []
        self._made = 0
        self._let_go: deque[Block] = deque()  # by tensors that died, at whatever moment that was
        self.fresh: list[tuple[Block, int]] = []  # those that the loader has not seen, with their descriptors
        self.forgotten: list[int] = []  # that it may unmap

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> Tensor | None:
        """A tensor over a block; None where a message holds as many bytes."""
        count = 1
        for n in shape:
            count *= n
        nbytes = count * dtype.itemsize
        if nbytes <= INLINE:
            return None
        block = self._take(nbytes)
        block.lent = True
        storage = storage_from_address(block.address, nbytes, _Lease(block, self._let_go.append))
        return empty(0, dtype=dtype, device="cpu").set_(storage, 0, shape, _dense(shape))

    def holding(self, view: memoryview, storage: Any) -> Block:
        """A block with those bytes, which is the loader's from now on: the storage's own where it is ours to give."""
        if storage is not None:
            block = self._by_address.get(storage.data_ptr())
            if block is not None and block.lent and not block.sent:
                block.sent = True
                return block
        block = self._take(view.nbytes)
        target = (ctypes.c_char * view.nbytes).from_address(block.address)
        memoryview(target).cast("B")[:] = view.cast("B")
        block.sent = True
        return block

    def returned(self, numbers: Iterable[int]) -> None:
        """The loader is done with these blocks; -1 - number is one that somebody else may still see."""
        for number in numbers:
            if number >= 0:
                block = self._blocks[number]
                block.sent = False
                self._rest(block)
            else:
                block = self._blocks.pop(-1 - number)
                del self._by_address[block.address]

    def _rest(self, block: Block) -> None:
        if block.sent or block.lent or block.number not in self._blocks:
            return
        self._idle.append(block)
        if len(self._idle) > _IDLE:
            oldest = self._idle.pop(0)
            del self._blocks[oldest.number], self._by_address[oldest.address]
            self.forgotten.append(oldest.number)

    def _take(self, nbytes: int) -> Block:
        while self._let_go:
            block = self._let_go.popleft()
            block.lent = False
            self._rest(block)
        size = _rounded(nbytes)
        fitting = [block for block in self._idle if size <= block.size <= 2 * size]
        if fitting:
            block = min(fitting, key=lambda block: block.size)
            self._idle.remove(block)
            return block
        fd = _anonymous_file(size)
        try:
            block = Block(self._made, fd, size)
        except BaseException:
            os.close(fd)
            raise
        self._made += 1
        self.fresh.append((block, fd))
        self._blocks[block.number] = self._by_address[block.address] = block
        return block


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def _as_storage(buffer: Any) -> Storage:
    """The storage that the loader laid over the bytes."""
    return buffer


class _LeftOut:
    """The buffers that a pickle leaves out, each with its storage or None."""

    def __init__(self) -> None:
        self.buffers: list[tuple[memoryview, Any]] = []
        self.storage: Any = None

    def take(self, buffer: pickle.PickleBuffer) -> None:
        self.buffers.append((buffer.raw(), self.storage))
        self.storage = None


class _Pickler(pickle.Pickler):
    """Leaves the bytes of tensors and arrays out.  It is in no circle, so that what it has seen dies with it, at once."""

    def __init__(self, file: io.BytesIO, out: _LeftOut) -> None:
        self._out = out
        super().__init__(file, 5, buffer_callback=out.take)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            if not obj.is_leaf:
                raise RuntimeError(
                    "only leaf tensors that require grad cross process boundaries: autograd does not; call detach() first"
                )
            return _compact(obj).__reduce_ex__(5)
        if type(obj) is Storage and obj.device.type == "cpu" and obj.nbytes() > 0:
            self._out.storage = obj
            return _as_storage, (pickle.PickleBuffer(obj),)
        return NotImplemented


def _compact(tensor: Any) -> Any:
    """The tensor without the rest of a storage that is far larger than it."""
    if tensor.device.type != "cpu":
        return tensor
    if tensor.untyped_storage().nbytes() <= 2 * tensor.numel() * tensor.element_size() + INLINE:
        return tensor
    made = tensor.detach().clone()
    if tensor.requires_grad:
        made.requires_grad_()
    if type(tensor) is not Tensor:
        made = made.as_subclass(type(tensor))
    made.__dict__.update(tensor.__dict__)
    return made


class WorkerEnd:
    """The worker's end of the socket."""

    def __init__(self, connection: socket.socket) -> None:
        self.arena = Arena()
        self._socket = connection

    def receive(self) -> tuple[Any, Any] | None:
        """The next message and the numbers of blocks that came back; None when the loader has finished."""
        raw = self._exactly(8)
        if raw is None:
            return None
        raw = self._exactly(int.from_bytes(raw, "little"))
        return None if raw is None else pickle.loads(raw)

    def send(self, answer: tuple[Any, ...], data: Any) -> None:
        """Sends `answer` with `data`; what cannot be pickled raises before anything is sent."""
        file = io.BytesIO()
        out = _LeftOut()
        _Pickler(file, out).dump(data)
        body: list[Any] = [file.getbuffer()]
        places: list[Any] = []
        arena = self.arena
        for view, storage in out.buffers:
            if view.nbytes > INLINE:
                block = arena.holding(view, storage)
                places.append((block.number, view.nbytes))
            else:
                places.append(view.nbytes)
                body.append(view)
        fresh, arena.fresh = arena.fresh, []
        forgotten, arena.forgotten = arena.forgotten, []
        fds = [fd for _, fd in fresh]
        new = [(block.number, block.size) for block, _ in fresh]
        head = pickle.dumps((answer, places, new, forgotten, len(body[0])), 5)
        total = sum(part.nbytes for part in body)
        message = memoryview(b"".join([_FRAME.pack(len(head), total), head, *body]))
        try:
            self._all(message, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _exactly(self, n: int) -> bytearray | None:
        got = bytearray(n)
        view, have = memoryview(got), 0
        while have < n:
            try:
                more = self._socket.recv_into(view[have:])
            except OSError as error:
                raise Disconnected from error
            if more == 0:
                return None
            have += more
        return got

    def _all(self, message: memoryview, fds: list[int]) -> None:
        while len(message) or fds:
            some, fds = fds[:_FDS], fds[_FDS:]
            part = message[:1] if fds else message  # descriptors go with a byte at least
            extra = (
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(some)}i", *some))] if some else []
            )
            try:
                sent = self._socket.sendmsg([part], extra)
            except OSError as error:
                raise Disconnected from error
            message = message[sent:]


class LoaderEnd:
    """The loader's end of a worker's socket.  Neither sending nor receiving waits."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._blocks: dict[int, Block] = {}
        self._returned: deque[int] = deque()
        self._unsent = bytearray()
        self._got = bytearray()
        self._fds: deque[int] = deque()
        self._ancillary = socket.CMSG_SPACE(4 * _FDS)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def waiting(self) -> bool:
        """Whether a message could not be sent whole."""
        return bool(self._unsent)

    def send(self, message: Any) -> None:
        """Sends a message, with the blocks that are free; what the socket does not take now, `flush` sends."""
        returned = []
        while self._returned:
            returned.append(self._returned.popleft())
        raw = pickle.dumps((message, returned), 5)
        self._unsent += len(raw).to_bytes(8, "little") + raw
        self.flush()

    def flush(self) -> None:
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:  # the worker is gone: reading tells
                self._unsent.clear()
                return
            del self._unsent[:sent]

    def receive(self) -> tuple[list[tuple[Any, Any]], bool]:
        """The messages that have arrived whole, each as what was answered and a function that makes the data, and whether
        more can come.
        """
        open_ = True
        while True:
            try:
                raw, extra, flags, _ = self._socket.recvmsg(
                    _CHUNK, self._ancillary, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                break
            except OSError:
                raw, extra, flags = b"", [], 0
            for _, _, packed in extra:
                self._fds.extend(struct.unpack(f"{len(packed) // 4}i", packed))
            if flags & socket.MSG_CTRUNC:
                raise RuntimeError(
                    "DataLoader: too many open files to take the memory of a batch from a worker: see `ulimit -n`"
                )
            if not raw:
                open_ = False
                break
            self._got += raw
            if len(raw) < _CHUNK and self._message_size() is not None:
                break
        messages = []
        while (size := self._message_size()) is not None:
            messages.append(self._decode(size))
        return messages, open_

    def _message_size(self) -> int | None:
        """The bytes of the first message, if all of it is here."""
        got = self._got
        if len(got) < _FRAME.size:
            return None
        head, body = _FRAME.unpack_from(got)
        size = _FRAME.size + head + body
        return size if size <= len(got) else None

    def _decode(self, size: int) -> tuple[Any, Any]:
        raw = memoryview(bytes(memoryview(self._got)[:size]))
        del self._got[:size]
        head = _FRAME.unpack_from(raw)[0]
        start = _FRAME.size + head
        answer, places, new, forgotten, length = pickle.loads(raw[_FRAME.size : start])
        fds = [self._fds.popleft() for _ in new]

        def make() -> Any:
            try:
                for (number, capacity), fd in zip(new, fds):
                    self._blocks[number] = Block(number, fd, capacity)
            finally:
                for fd in fds:
                    os.close(fd)
            data = pickle.loads(
                raw[start : start + length], buffers=self._buffers(places, raw[start + length :])
            )
            for number in forgotten:
                del self._blocks[number]
            return data

        return answer, make

    def _buffers(self, places: list[Any], inline: memoryview) -> list[Storage]:
        """What the pickle has left out."""
        buffers = []
        for where in places:
            if isinstance(where, tuple):
                number, nbytes = where
                block = self._blocks[number]
                block.lent = True
                buffers.append(storage_from_address(block.address, nbytes, _Lease(block, self._dropped)))
            else:
                own = Storage(where)
                memoryview(own)[:] = inline[:where]
                inline = inline[where:]
                buffers.append(own)
        return buffers

    def _dropped(self, block: Block) -> None:
        block.lent = False
        if block.sent:
            self._blocks.pop(block.number, None)
        self._returned.append(-1 - block.number if block.sent else block.number)

    def fork(self) -> None:
        """A child of this process will see the blocks in use: they are not to be written again."""
        for block in list(self._blocks.values()):
            block.sent = block.lent

    def finish(self) -> None:
        """Tells the worker that no message follows."""
        with suppress(OSError):  # it is gone already
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Ends this side of the connection."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
        self._blocks.clear()
        self._socket.close()
