"""Who holds a device's memory: its history, as `cuda.memory._record_memory_history` asks for it, and the error where there is none left.

Entries and blocks have the form of PyTorch's snapshots, so that its viewer reads them.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path
from types import CodeType
from typing import Any

from ..core.base import display

Stack = tuple[tuple[CodeType, int], ...]
NO_POOL = (0, 0)
OWN = str(Path(__file__).parent.parent) + os.sep
NAMED = 3  # holders that the error of a full device names
watcher: Any = None  # told of every block that a recorded device hands out, takes back or gives to the driver (`cuda._sanitizer`)


def frames(stack: Stack) -> list[dict[str, Any]]:
    """The lines of a stack, the innermost first."""
    return [{"filename": code.co_filename, "line": line, "name": code.co_name} for code, line in stack]


def lines_here() -> Stack:
    """The lines that led to the caller's caller."""
    frame = sys._getframe(
        1
    ).f_back  # beyond the method of History; None where a tensor dies with the interpreter
    result = []
    while frame is not None:
        result.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(result)


class History:
    """What a device's allocator has done: its last `most` actions, and where each block that is held was allocated.

    `entries` says whether actions are kept ("all") or only who holds what ("state"); `context` for which of them the stack is: None,
    "state", "alloc" or "all" (frees, too).
    """

    def __init__(self, entries: str, context: str | None, most: int, skipped: Iterable[str] = ()) -> None:
        self.traced, self.context, self.skipped = entries == "all", context, frozenset(skipped)
        self.actions: deque[tuple[Any, ...]] = deque(maxlen=None if most >= sys.maxsize else most)
        self.held: dict[int, tuple[int, Stack]] = {}  # address -> bytes that were asked for, and where

    def taken(self, address: int, nbytes: int, size: int, stream: int, pool: Any) -> None:
        """A block was handed out."""
        stack = lines_here() if self.context is not None else ()
        self.held[address] = nbytes, stack
        if watcher is not None:
            watcher.taken(address)
        self._write("alloc", address, size, stream, pool, stack if self.context in ("alloc", "all") else ())

    def freed(self, action: str, address: int, size: int, stream: int) -> None:
        """A block was freed ("free_requested"), or can be handed out again ("free_completed")."""
        self.held.pop(address, None)
        if watcher is not None and action == "free_requested":
            watcher.freed(address)
        self._write(action, address, size, stream, None, lines_here() if self.context == "all" else ())

    def segment(self, action: str, address: int, size: int, stream: int, pool: Any) -> None:
        """The driver gave memory ("segment_alloc"), or got it back ("segment_free")."""
        if watcher is not None and action == "segment_free":
            watcher.returned(address)
        self._write(action, address, size, stream, pool, lines_here() if self.context == "all" else ())

    def refused(self, nbytes: int, free: int, stream: int) -> None:
        """There was no memory left."""
        self._write("oom", free, nbytes, stream, None, lines_here() if self.context is not None else ())

    def mark(self) -> None:
        """A snapshot was made."""
        self._write("snapshot", 0, 0, 0, None, ())

    def _write(self, action: str, address: int, size: int, stream: int, pool: Any, stack: Stack) -> None:
        if self.traced and action not in self.skipped:
            self.actions.append((action, address, size, stream, pool, stack, time.time_ns() // 1000))

    def trace(self) -> list[dict[str, Any]]:
        """The actions, in PyTorch's form; times are in microseconds since 1970."""
        return [
            {
                "action": action,
                "device_free" if action == "oom" else "addr": address,
                "size": size,
                "stream": stream,
                "time_us": at,
                "pool_id": pool or NO_POOL,
                "compile_context": "N/A",
                "user_metadata": "",
                "frames": frames(stack),
            }
            for action, address, size, stream, pool, stack, at in list(self.actions)
        ]


def unrecorded() -> History | None:
    """The history of a device where the program wants none: it tells the watcher alone, and there is none without one."""
    return None if watcher is None else History("state", None, 0)


def segments(on: Any) -> list[dict[str, Any]]:
    """What a device has of its driver, in PyTorch's form; a segment is one block."""
    held = {} if on.recorded is None else on.recorded.held
    result = []
    for address, size, stream, pool, state in on.blocks():
        wanted, stack = held.get(address, (size, ()))
        wanted = wanted if state == "active_allocated" else 0
        block = {
            "address": address,
            "size": size,
            "requested_size": wanted,
            "state": state,
            "frames": frames(stack),
        }
        result.append(
            {
                "device": on.index,
                "address": address,
                "total_size": size,
                "allocated_size": size if state == "active_allocated" else 0,
                "active_size": 0 if state == "inactive" else size,
                "requested_size": wanted,
                "stream": stream,
                "segment_type": "small" if size <= 1 << 20 else "large",
                "segment_pool_id": pool or NO_POOL,
                "is_expandable": False,
                "frames": [],
                "blocks": [block],
            }
        )
    return result


# --- no memory left ------------------------------
def readable(nbytes: int) -> str:
    """Bytes as PyTorch's messages say them: "20.00 MiB"."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if nbytes > unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} bytes"


def message(on: Any, nbytes: int, free: int, total: int, limit: int, captured: bool) -> str:
    """PyTorch's text for a device that has no memory left, and who holds the most of it."""
    blocks = on.blocks()
    sums: Counter[str] = Counter()
    for _, size, _, pool, state in blocks:
        sums["reserved"] += size
        if state == "active_allocated":
            sums["allocated"] += size
            sums["pools"] += size if pool is not None else 0
    where = (
        " in a graph's capture, which gives no cached memory back: call cuda.empty_cache() before it"
        if captured
        else ""
    )
    spent = f"{readable(limit)} allowed; " if limit else ""
    text = (
        f"CUDA out of memory. Tried to allocate {readable(nbytes)}: cannot allocate {nbytes} bytes on {on.place}{where}. "
        f"GPU {on.index} has a total capacity of {readable(total)} of which {readable(free)} is free. {spent}Including memory of other "
        f"libraries and processes, {readable(total - free)} is in use. Of the allocated memory {readable(sums['allocated'])} is allocated "
        f"by {display.NAME}, with {readable(sums['pools'])} allocated in private pools (e.g., CUDA Graphs), and "
        f"{readable(sums['reserved'] - sums['allocated'])} is reserved by {display.NAME} but unallocated."
    )
    return " ".join([text, *_holders(on, blocks)])


def _holders(on: Any, blocks: list[tuple]) -> list[str]:
    """Who holds the most: by the line of the program where it was allocated, where that is recorded, else by the size."""
    held = {} if on.recorded is None else on.recorded.held
    sums: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for address, size, _, _, state in blocks:
        if state == "active_allocated":
            stack = held[address][1] if address in held else ()
            line = next(
                (f"{c.co_filename}:{n} ({c.co_name})" for c, n in stack if not c.co_filename.startswith(OWN)),
                None,
            )
            key = f"blocks of {readable(size)}" if line is None else f"allocated at {line}"
            sums[key] += size
            numbers[key] += 1
    most = [f"{numbers[key]} {key}, {readable(n)} in all" for key, n in sums.most_common(NAMED)]
    return [f"The most is held by {'; '.join(most)}."] if most else []
