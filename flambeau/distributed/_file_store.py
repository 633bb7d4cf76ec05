"""A store in a file."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Sequence
from datetime import timedelta

from ..core.base import display
from ._stores import DistStoreError, Store, _message, _Table

_BETWEEN = 0.01  # seconds between looks at the file


class _Damaged(DistStoreError):
    """The file is no store's."""


class FileStore(Store):
    """A store in a file that all processes reach, on one machine or a shared file system with locks.

    world_size: how many processes there will be (kept, not needed). The file stays; a program that begins anew takes a new one.  Whoever
    may write the file may write the store.  DistStoreError where the file holds something else.

    >>> import tempfile
    >>> from flambeau.distributed import FileStore
    >>> path = tempfile.mktemp()
    >>> FileStore(path, 2).set("who", "another process")
    >>> FileStore(path, 2).get("who")
    b'another process'
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        self.path, self.world_size = os.fspath(file_name), world_size

    def _ask(self, what: str, fields: Sequence[bytes] = (), timeout: timedelta | None = None) -> list[bytes]:
        seconds = (timeout or self.timeout).total_seconds()
        end = time.monotonic() + seconds
        while True:
            try:
                return self._ask_once(what, fields)
            except _Damaged:
                raise
            except DistStoreError as error:
                if what not in ("get", "wait"):
                    raise
                if time.monotonic() > end:
                    after = str(error).partition("ms, ")[2]
                    raise DistStoreError(f"wait timeout after {seconds * 1000:.0f}ms, {after}") from None
            time.sleep(_BETWEEN)

    def _ask_once(self, what: str, fields: Sequence[bytes]) -> list[bytes]:
        """Ask what the file holds now, and write it anew where that changes it; the file is locked meanwhile."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            table = _Table()
            held = _fields(self.path, file.read())
            table.values.update(zip(held[::2], held[1::2]))
            before = dict(table.values)
            answer = table.ask(what, fields, 0.0)
            if table.values != before:
                file.seek(0)
                file.write(_message([part for pair in table.values.items() for part in pair]))
                file.truncate()
                file.flush()
            return answer

    def __repr__(self) -> str:
        return f"{display.public('distributed.FileStore')}({self.path!r}, {self.world_size})"


def _fields(path: str, held: bytes) -> list[bytes]:
    """The keys and values in a file; DistStoreError where it is no store's."""
    fields, place = [], 4
    if held and int.from_bytes(held[:4], "little") != len(held) - 4:
        raise _Damaged(f"FileStore: {path} holds something else than a store")
    while place < len(held):
        size = int.from_bytes(held[place : place + 4], "little")
        place += 4 + size
        if place > len(held):
            raise _Damaged(f"FileStore: {path} holds something else than a store")
        fields.append(held[place - size : place])
    return fields


FileStore.__module__ = display.public("distributed")
