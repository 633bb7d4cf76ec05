"""Stores of keys and values: in memory, behind a prefix, and on a server, between threads and processes."""

from __future__ import annotations

import errno
import pickle
import socket
import struct
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest

from flambeau.distributed import DistError, DistNetworkError, DistStoreError, HashStore, PrefixStore, TCPStore

SOON = timedelta(seconds=0.05)


def made(kind: str):
    if kind == "prefix":
        return PrefixStore("inner", HashStore())
    return HashStore() if kind == "hash" else TCPStore("127.0.0.1", 0, is_master=True)


@pytest.fixture(params=["hash", "prefix", "tcp"])
def store(request):
    return made(request.param)


def test_values(store):
    store.set("a", "x")
    store.set("b", b"\x00\xff")
    store.append("a", "yz")
    assert (store.get("a"), store.get("b")) == (b"xyz", b"\x00\xff")
    assert (store.add("n", 3), store.add("n", -5), store.get("n")) == (3, -2, b"-2")
    store.multi_set(["c", "d"], ["", "4"])
    assert store.multi_get(["d", "c"]) == [b"4", b""]
    assert store.check(["a", "n"]) and not store.check(["a", "missing"]) and store.check([])
    assert store.num_keys() == 5 == len(store.list_keys())
    assert store.delete_key("a") and not store.delete_key("a") and not store.check(["a"])


def test_a_value_is_exchanged_only_for_the_one_that_is_expected(store):
    assert store.compare_set("k", "old", "new") == b"old" and not store.check(["k"])
    assert store.compare_set("k", "", "first") == b"first"
    assert store.compare_set("k", "other", "second") == b"first"
    assert store.compare_set("k", "first", "second") == b"second" == store.get("k")


def test_waiting_ends_when_the_key_comes_or_the_time_is_over(store):
    store.set_timeout(SOON)
    for ask in (lambda: store.get("late"), lambda: store.multi_get(["late"]), lambda: store.wait(["late"])):
        with pytest.raises(DistStoreError, match=r"wait timeout after 50ms, keys: '(inner/)?late'"):
            ask()
    store.set_timeout(timedelta(seconds=60))
    other = TCPStore("127.0.0.1", store.port) if isinstance(store, TCPStore) else store
    threading.Timer(0.05, lambda: other.set("late", "1")).start()
    assert store.get("late") == b"1"
    assert issubclass(DistStoreError, DistError) and issubclass(DistError, RuntimeError)


def test_wrong_arguments(store):
    with pytest.raises(TypeError, match=r"set\(\): argument 'key' must be str, not int"):
        store.set(3, "x")
    with pytest.raises(TypeError, match=r"set\(\): argument 'value' must be str or bytes, not float"):
        store.set("x", 1.0)
    with pytest.raises(ValueError, match="got 2 keys and 1 values"):
        store.multi_set(["a", "b"], ["1"])
    store.set("text", "many")
    with pytest.raises(DistStoreError, match=r"add\(\): the value of key '(inner/)?text' is no number"):
        store.add("text", 1)
    assert store.get("text") == b"many"


OTHER = """
import sys
from flambeau.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), world_size=3)
for _ in range(50):
    store.add("sum", 1)
store.set(sys.argv[2], "done")
store.get("end")
"""


def test_processes():
    server = TCPStore("127.0.0.1", 0, is_master=True)
    port = str(server.port)
    others = [subprocess.Popen([sys.executable, "-c", OTHER, port, name]) for name in ("a", "b")]
    server.wait(["a", "b"], timedelta(seconds=60))
    assert server.get("sum") == b"100" and server.get("init/") == b"2"
    server.set("end", "")
    assert [other.wait(60) for other in others] == [0, 0]


def test_the_server_waits_for_all_and_ends_with_its_store():
    with pytest.raises(DistStoreError, match=r"1 of 2 processes came within 0:00:00.05"):
        TCPStore("127.0.0.1", 0, world_size=2, is_master=True, timeout=SOON)
    server = TCPStore("127.0.0.1", 0, world_size=1, is_master=True)
    port, guest = server.port, TCPStore("127.0.0.1", server.port)
    guest.set("x", "1")
    assert server.get("x") == b"1" and repr(server) == f"flambeau.distributed.TCPStore('127.0.0.1', {port})"
    del server
    deadline = time.monotonic() + 30
    while True:  # the thread that listens needs a moment to see it
        try:
            TCPStore("127.0.0.1", port, timeout=SOON)
        except DistNetworkError as error:
            assert f"trying to connect to (127.0.0.1, {port})" in str(error)
            break
        assert time.monotonic() < deadline


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<I", 0),
        struct.pack("<I", 2) + b"ab",
        struct.pack("<I", 8) + struct.pack("<I", 1 << 31) + b"abcd",
        struct.pack("<I", 0xFFFFFFFF),
        struct.pack("<II", 12, 8) + b"__init__",
        struct.pack("<II", 7, 3) + b"\xff\xfe\xfd",
        struct.pack("<II", 10, 3) + b"set" + struct.pack("<I", 9),
        struct.pack("<II", 4 + 3 + 4 + 1, 3) + b"get" + struct.pack("<I", 1) + b"x",
    ],
)
def test_a_stranger_is_hung_up_on(sent):
    server = TCPStore("127.0.0.1", 0, is_master=True)
    with socket.create_connection(("127.0.0.1", server.port), 30) as stranger:
        try:
            # the server may hang up before the stranger has finished: its sending, too, may meet a closed connection
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
            answer = stranger.recv(100)
        except OSError as error:
            assert error.errno in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN)
        else:
            assert answer == b""
    server.set("still", "here")
    assert server.get("still") == b"here"


def test_a_store_on_a_server_is_not_pickled():
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(made("tcp"))
