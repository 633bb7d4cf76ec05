"""Stores of keys and values that processes share: in memory, and on a server that one of the processes runs.

A store asks one table, `_Table`, in which waiting is waiting for a condition.  `TCPStore` asks it over a connection: a message is a
count of fields and each field with its length, first the request (a name in `_REQUESTS`) and how long to wait; an answer's first field
says whether it is one.  Nothing that arrives is run or unpickled.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ..core.base import display

_LARGEST = 1 << 30  # bytes of a message
_FIVE_MINUTES = timedelta(seconds=300)


class DistError(RuntimeError):
    """Something between processes failed."""


class DistStoreError(DistError):
    """A key did not come in time."""


class DistNetworkError(DistError):
    """The server of a store cannot be reached."""


class _Table:
    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.changed = threading.Condition()

    def ask(self, what: str, fields: Sequence[bytes], seconds: float) -> list[bytes]:
        with self.changed:
            answer = getattr(self, "_" + what)(fields, seconds)
            self.changed.notify_all()
        return answer or []

    def _set(self, fields: Sequence[bytes], seconds: float) -> None:
        self.values.update(zip(fields[::2], fields[1::2]))

    def _get(self, keys: Sequence[bytes], seconds: float) -> list[bytes]:
        self._wait(keys, seconds)
        return [self.values[key] for key in keys]

    def _wait(self, keys: Sequence[bytes], seconds: float) -> None:
        if not self.changed.wait_for(lambda: all(key in self.values for key in keys), seconds):
            absent = ", ".join(repr(key.decode(errors="replace")) for key in keys if key not in self.values)
            raise DistStoreError(f"wait timeout after {seconds * 1000:.0f}ms, keys: {absent}")

    def _add(self, fields: Sequence[bytes], seconds: float) -> list[bytes]:
        key, amount = fields
        try:
            self.values[key] = b"%d" % (int(self.values.get(key, b"0")) + int(amount))
        except ValueError:
            raise DistStoreError(
                f"add(): the value of key {key.decode(errors='replace')!r} is no number"
            ) from None
        return [self.values[key]]

    def _compare_set(self, fields: Sequence[bytes], seconds: float) -> list[bytes]:
        key, expected, desired = fields
        if key not in self.values and expected:
            return [expected]
        if self.values.get(key, b"") == expected:
            self.values[key] = desired
        return [self.values[key]]

    def _append(self, fields: Sequence[bytes], seconds: float) -> None:
        key, more = fields
        self.values[key] = self.values.get(key, b"") + more

    def _check(self, keys: Sequence[bytes], seconds: float) -> list[bytes]:
        return [b"%d" % all(key in self.values for key in keys)]

    def _delete(self, keys: Sequence[bytes], seconds: float) -> list[bytes]:
        return [b"%d" % (self.values.pop(keys[0], None) is not None)]

    def _keys(self, fields: Sequence[bytes], seconds: float) -> list[bytes]:
        return list(self.values)


_REQUESTS = frozenset("set get wait add compare_set append check delete keys".split())


# Stores ----------------------------------------------------------------------------------------------------------------------
class Store:
    """What all stores do: keys are texts, values texts or bytes, which come back as bytes.

    `get` and `wait` wait until a key is there, `timeout` at most; DistStoreError says which did not come.

    >>> from flambeau.distributed import HashStore
    >>> store = HashStore()
    >>> store.set("answer", "42")
    >>> store.get("answer"), store.add("visits", 2), store.check(["answer", "question"])
    (b'42', 2, False)
    """

    timeout = _FIVE_MINUTES

    def _ask(self, what: str, fields: Sequence[bytes] = (), timeout: timedelta | None = None) -> list[bytes]:
        raise NotImplementedError(f"{type(self).__name__} does not say how it is reached")

    def set_timeout(self, timeout: timedelta) -> None:
        """How long to wait from now on."""
        self.timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Write a value."""
        self._ask("set", [_text("set", key), _bytes("set", value)])

    def get(self, key: str) -> bytes:
        """The value of a key; waits for it."""
        return self._ask("get", [_text("get", key)])[0]

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, which begins at 0; what it is then."""
        return int(self._ask("add", [_text("add", key), b"%d" % amount])[0])

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Write where the value is the expected one ("" for a new key); the value afterwards."""
        values = [_bytes("compare_set", v) for v in (expected_value, desired_value)]
        return self._ask("compare_set", [_text("compare_set", key), *values])[0]

    def append(self, key: str, value: str | bytes) -> None:
        """Write behind what is there."""
        self._ask("append", [_text("append", key), _bytes("append", value)])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there."""
        self._ask("wait", [_text("wait", key) for key in keys], timeout)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there now."""
        return self._ask("check", [_text("check", key) for key in keys]) == [b"1"]

    def delete_key(self, key: str) -> bool:
        """Forget a key; whether it was there."""
        return self._ask("delete", [_text("delete_key", key)]) == [b"1"]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys; waits for them."""
        return self._ask("get", [_text("multi_get", key) for key in keys])

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Write several values at once.  ValueError where there are not as many as keys."""
        if len(keys) != len(values):
            raise ValueError(f"multi_set(): got {len(keys)} keys and {len(values)} values")
        self._ask(
            "set", [f for k, v in zip(keys, values) for f in (_text("multi_set", k), _bytes("multi_set", v))]
        )

    def list_keys(self) -> list[str]:
        """All keys."""
        return [key.decode() for key in self._ask("keys")]

    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self._ask("keys"))

    def has_extended_api(self) -> bool:
        """Whether there are `append`, `multi_get` and `multi_set`: True."""
        return True


class HashStore(Store):
    """A store in the memory of this process, for its threads.

    >>> from flambeau.distributed import HashStore
    >>> store = HashStore()
    >>> store.multi_set(["a", "b"], ["1", "2"])
    >>> store.multi_get(["b", "a"]), store.num_keys()
    ([b'2', b'1'], 2)
    """

    def __init__(self) -> None:
        self._table = _Table()

    def _ask(self, what: str, fields: Sequence[bytes] = (), timeout: timedelta | None = None) -> list[bytes]:
        return self._table.ask(what, fields, (timeout or self.timeout).total_seconds())


class PrefixStore(Store):
    """Another store, in which every key begins with `prefix` and a slash.

    Raises:
        AttributeError: the second argument is no store

    >>> from flambeau.distributed import HashStore, PrefixStore
    >>> store = HashStore()
    >>> PrefixStore("first", store).set("x", "1")
    >>> store.list_keys()
    ['first/x']
    """

    def __init__(self, prefix: str, store: Store) -> None:
        self._prefix, self.underlying_store = _text("PrefixStore", prefix) + b"/", store
        self.timeout = store.timeout

    def _ask(self, what: str, fields: Sequence[bytes] = (), timeout: timedelta | None = None) -> list[bytes]:
        step = {"set": 2, "add": 2, "append": 2, "compare_set": 3}.get(
            what, 1
        )  # a key, and what belongs to it
        named = [f if i % step else self._prefix + f for i, f in enumerate(fields)]
        return self.underlying_store._ask(what, named, timeout or self.timeout)


class TCPStore(Store):
    """A store on a server that the process with `is_master=True` runs in a thread; the others connect to it.

    host_name: where the server is; it listens at that address alone. port: its port; for the server 0 takes a free one, then `port`
    has it. world_size: how many processes there will be; the server's process waits for them unless `wait_for_workers` is
    False. The server ends with its store.  DistNetworkError where nothing answers for `timeout`.

    >>> from flambeau.distributed import TCPStore
    >>> server = TCPStore("127.0.0.1", 0, is_master=True)
    >>> TCPStore("127.0.0.1", server.port).set("who", "another process")
    >>> server.get("who")
    b'another process'
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = _FIVE_MINUTES,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        if multi_tenant or master_listen_fd is not None:
            raise NotImplementedError(
                "TCPStore(): multi_tenant and master_listen_fd are not here: give a port of its own"
            )
        self.host, self.port, self.timeout = host_name, port, timeout
        if is_master:
            server = _Server(host_name, port)
            self.port = server.port
            weakref.finalize(self, server.close)
        self._turn = threading.Lock()
        self._connection = _connected(host_name, self.port, timeout.total_seconds())
        weakref.finalize(self, self._connection.close)
        if world_size is not None and wait_for_workers:
            self.add("init/", 1)
            end = time.monotonic() + timeout.total_seconds()
            while is_master and int(self.get("init/")) < world_size:
                if time.monotonic() > end:
                    here = self.get("init/").decode()
                    raise DistStoreError(
                        f"TCPStore(): {here} of {world_size} processes came within {timeout}"
                    )
                time.sleep(0.01)

    def _ask(self, what: str, fields: Sequence[bytes] = (), timeout: timedelta | None = None) -> list[bytes]:
        seconds = (timeout or self.timeout).total_seconds()
        with self._turn:
            try:
                self._connection.sendall(_message([what.encode(), b"%r" % seconds, *fields]))
                verdict, *answer = _received(self._connection)
            except OSError as error:
                raise DistNetworkError(
                    f"TCPStore: the server at {self.host}:{self.port} is gone: {error}"
                ) from None
            except (ValueError, MemoryError) as error:
                raise DistNetworkError(
                    f"TCPStore: what answers at {self.host}:{self.port} is no store: {error}"
                ) from None
        if verdict not in (b"yes", b"no"):
            raise DistNetworkError(f"TCPStore: what answers at {self.host}:{self.port} is no store")
        if verdict != b"yes":
            raise DistStoreError(answer[0].decode())
        return answer

    def __repr__(self) -> str:
        return f"{display.public('distributed.TCPStore')}({self.host!r}, {self.port})"


# The server of a TCPStore -----------------------------------------------------------------------------------------------------
class _Server:
    """Listens in one thread, and answers each connection in another; none keeps the process."""

    def __init__(self, host: str, port: int) -> None:
        self.table = _Table()
        try:
            self.listening = socket.create_server((host, port), family=_family(host))
        except OSError as error:
            raise DistNetworkError(
                f"The server socket has failed to listen on {host}, port {port}: {error.strerror}"
            ) from None
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True, name="TCPStore").start()

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True, name="TCPStore").start()

    def answer(self, connection: socket.socket) -> None:
        with connection:
            while True:
                try:
                    what, seconds, *fields = _received(connection)
                    if what.decode() not in _REQUESTS:
                        return
                    connection.sendall(
                        _message([b"yes", *self.table.ask(what.decode(), fields, float(seconds))])
                    )
                except DistStoreError as error:
                    connection.sendall(_message([b"no", str(error).encode()]))
                except (OSError, ValueError, IndexError):  # gone, or not one of us
                    return

    def close(self) -> None:
        try:
            self.listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        except OSError:
            pass  # it was not connected, which is what the system says of some
        self.listening.close()


def _family(host: str) -> int:
    return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]


def _connected(host: str, port: int, seconds: float) -> socket.socket:
    end = time.monotonic() + seconds
    while True:
        try:
            connection = socket.create_connection((host, port), max(end - time.monotonic(), 0.001))
            break
        except OSError as error:  # the server may start later
            if time.monotonic() + 0.05 > end:
                said = f"The client socket has timed out after {seconds * 1000:.0f}ms while trying to connect to ({host}, {port})."
                raise DistNetworkError(f"{said} {error}") from None
            time.sleep(0.05)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _message(fields: Sequence[bytes]) -> bytes:
    body = b"".join(struct.pack("<I", len(field)) + field for field in fields)
    return struct.pack("<I", len(body)) + body


def _received(connection: socket.socket) -> list[bytes]:
    (length,) = struct.unpack("<I", _exactly(connection, 4))
    if length > _LARGEST:
        raise ValueError(f"a message of {length} bytes")
    body, fields, place = _exactly(connection, length), [], 0
    while place < length:
        if length - place < 4:
            raise ValueError("a message that ends in the middle of a length")
        (size,) = struct.unpack_from("<I", body, place)
        place += 4 + size
        if place > length:
            raise ValueError("a field that is longer than its message")
        fields.append(body[place - size : place])
    return fields


def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()  # grows with what comes, not with what was announced
    while len(parts) < length:
        part = connection.recv(min(length - len(parts), 1 << 20))
        if not part:
            raise ConnectionError("the connection was closed")
        parts += part
    return bytes(parts)


def _text(who: str, key: Any) -> bytes:
    if not isinstance(key, str):
        raise TypeError(f"{who}(): argument 'key' must be str, not {type(key).__name__}")
    return key.encode()


def _bytes(who: str, value: Any) -> bytes:
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{who}(): argument 'value' must be str or bytes, not {type(value).__name__}")
    return value.encode() if isinstance(value, str) else value


for _class in (DistError, DistStoreError, DistNetworkError, Store, HashStore, PrefixStore, TCPStore):
    _class.__module__ = display.public("distributed")
