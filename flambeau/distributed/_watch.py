"""Which processes of a world are alive, and what each of them does: links between processes, served by a thread in each.

Every process listens at a port of its own and holds links to a few others: to those 1, 2, 4, … ranks after it.  A link that closes says
that its process has ended, at once and however it ended; who hears news passes it on to all its links, and takes the next living rank
in the place of a lost one.  So the watch is nobody's alone, and costs 2 log2(n) links.  The same port answers questions: what the
process calls now, and at which line.  A process that is stopped or cut off does not answer.

What arrives is compared with known words, and begins with the key that the listening process has given to its world.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ._stores import _family

_LEAVING = 2.0  # seconds in which what a process sent before it left arrives
_DOUBT = 0.3  # seconds for the news that a process which cannot be reached has left
_SENDING = 1.0  # seconds that a line may take
_LONGEST = 1 << 14  # bytes of a line
_STRANGERS = 64  # connections that have not said who they are
_FANOUT = 128  # processes that one question goes to at most
_ENDS = {"dead": "died", "failed": "has ended by an error"}


class _Link:
    """A connection, and what has arrived of a line."""

    def __init__(self, connection: socket.socket, rank: int | None) -> None:
        self.connection, self.rank, self.pending = connection, rank, b""


class Watch:
    """Who has died or left.

    host: where this process listens, at that address alone. describe: this process's answer to a question.
    """

    def __init__(self, host: str, describe: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.dead: dict[int, str] = {}  # how
        self.left: dict[int, float] = {}  # when
        self.heard = threading.Condition()
        self._listening = socket.create_server((host, 0), family=_family(host), backlog=128)
        self.host = host
        place, port = self._listening.getsockname()[:2]
        self._key = os.urandom(8).hex()
        self.address = f"{place}:{port} {self._key}"
        self._describe, self._rank = describe, -1
        self._addresses: Sequence[str] = ()
        self._links: list[_Link] = []
        self._doubted: dict[int, float] = {}  # who cannot be reached, and since when
        self._ending = False
        self._selector = selectors.DefaultSelector()
        _watches.add(self)

    # What others of this process ask ---------------------------------------------------------------------------------------------
    def among(self, ranks: Collection[int]) -> tuple[int, str] | None:
        """Why a call of these ranks cannot end: the first that has died, or left some time ago, and how; None as long as it can."""
        for rank, how in list(self.dead.items()):  # the first that died, not those who ended for it
            if rank in ranks:
                return rank, how
        if self.left:
            for rank in ranks:
                if time.monotonic() - self.left.get(rank, float("inf")) > _LEAVING:
                    return rank, "has left"
        return None

    def lost(self) -> list[int]:
        """All ranks that have died or left, the dead first, in the order in which this was heard."""
        return list(dict.fromkeys([*self.dead, *self.left]))

    def join(self, rank: int, addresses: Sequence[str]) -> None:
        """Watch over the others from now on.  addresses: the `address` of each rank's watch."""
        self._rank, self._addresses = rank, addresses
        self._selector.register(self._listening, selectors.EVENT_READ, None)
        threading.Thread(target=self._run, daemon=True, name="watch").start()

    def leave(self, reason: str | None) -> None:
        """Say that this process ends, by an error (`reason`) or as it should; returns when the linked processes have heard it."""
        if self._rank < 0 or self._ending:
            return
        line = f"left {self._rank}" if reason is None else f"failed {self._rank} {_one_line(reason)}"
        with self.heard:
            self._ending = True
            self._send_all(line)
            self.heard.wait_for(lambda: not self._links, 1.0)

    def ask(self, ranks: Sequence[int], question: dict[str, Any], seconds: float) -> dict[int, Any]:
        """What each of these processes answers; None for one that does not."""
        answers: dict[int, Any] = dict.fromkeys(ranks)
        targets = [rank for rank in ranks if rank not in self.dead][:_FANOUT]
        with selectors.DefaultSelector() as selector, contextlib.ExitStack() as opened:
            for rank in targets:
                host, port, key = _split(self._addresses[rank])
                connection = opened.enter_context(socket.socket(_family(host), socket.SOCK_STREAM))
                connection.setblocking(False)
                connection.connect_ex((host, port))
                link = _Link(connection, rank)
                line = f"ask {key} {json.dumps(question)}\n".encode()
                selector.register(connection, selectors.EVENT_WRITE, (link, line))
            end = time.monotonic() + seconds
            while selector.get_map() and (left := end - time.monotonic()) > 0:
                for ready, events in selector.select(left):
                    link, line = ready.data
                    try:
                        if events & selectors.EVENT_WRITE:
                            link.connection.send(line)
                            selector.modify(link.connection, selectors.EVENT_READ, (link, line))
                            continue
                        part = link.connection.recv(1 << 16)
                    except OSError:
                        part = b""
                    link.pending += part
                    if not part or len(link.pending) > 1 << 20:
                        selector.unregister(link.connection)
                        with contextlib.suppress(ValueError):
                            answers[link.rank or 0] = json.loads(link.pending)
        return answers

    # The thread ------------------------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        self._link()
        while True:
            for key, _ in self._selector.select(0.05 if self._doubted else None):
                if key.fileobj is self._listening:
                    self._accept()
                elif key.data is not None:
                    self._read(key.data)
            self._decide()

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:
            return  # it was given up before it was taken
        if sum(link.rank is None for link in self._links) >= _STRANGERS:
            connection.close()
            return
        self._add(connection, None)

    def _add(self, connection: socket.socket, rank: int | None) -> _Link:
        connection.settimeout(_SENDING)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _probe(connection)
        link = _Link(connection, rank)
        with self.heard:
            self._links.append(link)
        self._selector.register(connection, selectors.EVENT_READ, link)
        return link

    def _drop(self, link: _Link) -> None:
        if link not in self._links:
            return
        self._selector.unregister(link.connection)
        link.connection.close()
        with self.heard:
            self._links.remove(link)
            self.heard.notify_all()

    def _read(self, link: _Link) -> None:
        try:
            part = link.connection.recv(_LONGEST)
        except TimeoutError:
            return
        except OSError:
            part = b""  # died with lines that it had not read
        link.pending += part
        *lines, link.pending = link.pending.split(b"\n")
        for line in lines:
            if not self._understand(link, line.decode(errors="replace")):
                self._drop(link)
                return
        if not part or len(link.pending) > _LONGEST:
            self._drop(link)
            if link.rank is not None and not self._ending:
                self._note("dead", link.rank)

    def _understand(self, link: _Link, line: str) -> bool:
        """Do what a line says; False where nothing more is to be heard from there."""
        word, _, rest = line.partition(" ")
        first, _, more = rest.partition(" ")
        if link.rank is None:  # who is it?
            if first != self._key:
                return False
            if word == "ask":
                self._answer(link, more)
                return False
            if word != "watch" or not more.isdecimal() or int(more) >= len(self._addresses):
                return False
            link.rank = int(more)
            self._tell_all_news(link)
            return True
        if (
            word not in ("dead", "left", "failed")
            or not first.isdecimal()
            or int(first) >= len(self._addresses)
        ):
            return False
        self._note(word, int(first), more)
        return int(first) != link.rank  # who says that it ends waits for the close of its links

    def _answer(self, link: _Link, question: str) -> None:
        try:
            answer = json.dumps(self._describe(json.loads(question)))
            link.connection.sendall(answer.encode())
        except (OSError, ValueError, TypeError, KeyError):
            return  # it has gone, or has requested nothing that there is

    def _note(self, word: str, rank: int, reason: str = "") -> None:
        with self.heard:
            if rank == self._rank or rank in self.dead or (rank in self.left and word != "failed"):
                return
            if word == "left":
                self.left[rank] = time.monotonic()
            else:
                self.dead[rank] = _ENDS[word] + (f": {reason}" if reason else "")
            self._doubted.pop(rank, None)
            self._send_all(f"{word} {rank} {reason}".rstrip())
            self.heard.notify_all()
        if not self._ending:
            self._link()

    def _send_all(self, line: str) -> None:
        for link in self._links:
            if link.rank is not None:
                _send(link, line)

    def _tell_all_news(self, link: _Link) -> None:
        words = {"died": "dead"}
        with self.heard:
            for rank, how in self.dead.items():
                _send(link, f"{words.get(how, 'failed')} {rank} {how.partition(': ')[2]}".rstrip())
            for rank in self.left:
                _send(link, f"left {rank}")
            if self._ending:
                _send(link, f"left {self._rank}")

    def _link(self) -> None:
        """Have a link to the next living rank at each distance."""
        n, step = len(self._addresses), 1
        while step < n:
            there = (self._rank + step) % n
            while there != self._rank and (
                there in self.dead or there in self.left or there in self._doubted
            ):
                there = (there + 1) % n
            if there != self._rank and all(link.rank != there for link in self._links):
                self._connect(there)
            step *= 2

    def _connect(self, rank: int) -> None:
        host, port, key = _split(self._addresses[rank])
        try:
            connection = socket.create_connection((host, port), _SENDING)
        except OSError:
            self._doubted[rank] = time.monotonic()
            return
        link = self._add(connection, rank)
        _send(link, f"watch {key} {self._rank}")
        self._tell_all_news(link)

    def _decide(self) -> None:
        """Who could not be reached, and of whom nobody has said that it left, has died."""
        for rank, since in list(self._doubted.items()):
            if time.monotonic() - since > _DOUBT:
                self._doubted.pop(rank, None)
                self._note("dead", rank)

    def forget(self) -> None:
        """In a forked process: close what is the parent's, so that its death is seen while this process lives."""
        for link in self._links:
            _close(link.connection)
        _close(self._listening)
        self._selector.close()
        self._links, self._rank = [], -1


def _send(link: _Link, line: str) -> None:
    with contextlib.suppress(OSError):  # its own end is noticed where it is read
        link.connection.sendall(line.encode() + b"\n")


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.close()


def _split(address: str) -> tuple[str, int, str]:
    """Host, port and key."""
    place, key = address.split()
    host, _, port = place.rpartition(":")
    return host, int(port), key


def _one_line(text: str, most: int = 1500) -> str:
    return " ".join(text.split())[:most]


def _probe(connection: socket.socket) -> None:
    """Let the system notice a machine that is gone without a word: three probes in 25 seconds."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


_watches: weakref.WeakSet[Watch] = weakref.WeakSet()


def _forget() -> None:
    for watch in list(_watches):
        watch.forget()


os.register_at_fork(after_in_child=_forget)
