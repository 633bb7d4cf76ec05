"""The threads of a worker: those that run calls, and the one that watches the time."""

from __future__ import annotations

import contextlib
import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

_STUCK = 0.05  # seconds without progress until one thread more takes what waits


class Timer:
    """Calls functions at their time, in one thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._gone = 0  # entries that nobody needs any more, at most
        self._closed = False
        self.thread = threading.Thread(target=self._run, daemon=True, name="rpc timer")
        self.thread.start()

    def at(self, moment: float, function: Callable[[], None]) -> None:
        """Call `function` at this moment of `time.monotonic`; it must not wait for anything."""
        with self._changed:
            self._count += 1
            entry = (moment, self._count, function)
            heapq.heappush(self._entries, entry)
            if self._entries[0] is entry:
                self._changed.notify()

    def forget(self, is_needed: Callable[[Callable[[], None]], bool], limit: int) -> None:
        """One entry is not needed any more; now and then all such are dropped."""
        with self._changed:
            self._gone += 1
            if self._gone > 1000 + 2 * limit:
                self._entries = [entry for entry in self._entries if is_needed(entry[2])]
                heapq.heapify(self._entries)
                self._gone = 0

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed:
                    left = self._entries[0][0] - time.monotonic() if self._entries else None
                    if left is not None and left <= 0:
                        break
                    self._changed.wait(left)
                if self._closed:
                    return
                function = heapq.heappop(self._entries)[2]
            function()
            del function

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._entries.clear()
            self._changed.notify()


class Pool:
    """Threads that work off a queue: at most `limit` that do not wait for calls of their own, and one more whenever nothing moves.

    So calls that wait for each other always find a thread, whatever they wait by.
    """

    def __init__(self, limit: int, timer: Timer) -> None:
        self.limit, self.timer = limit, timer
        self._changed = threading.Condition()
        self._queue: deque[tuple[Callable[..., None], tuple]] = deque()
        self.threads: set[threading.Thread] = set()
        self._idle = self._waiting = self._taken = 0
        self._watched = self._closed = False

    def submit(self, function: Callable[..., None], *args: Any, first: bool = False) -> None:
        """Run `function(*args)` in some thread, which it may keep as long as it likes; it raises nothing."""
        with self._changed:
            if self._closed:
                return
            (self._queue.appendleft if first else self._queue.append)((function, args))
            self._serve()

    def _serve(self) -> None:
        """Wake a thread for what is in the queue, or start one, or watch that the queue moves."""
        if self._idle:
            self._changed.notify()
        if self._idle < len(self._queue):
            if len(self.threads) - self._waiting < self.limit:
                self._start()
            elif not self._watched:
                self._watched = True
                taken = self._taken
                self.timer.at(time.monotonic() + _STUCK, lambda: self._relieve(taken))

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, daemon=True, name="rpc worker")
        self.threads.add(thread)
        thread.start()

    def _relieve(self, taken: int) -> None:
        with self._changed:
            self._watched = False
            if self._queue and not self._closed:
                if taken == self._taken:
                    self._start()
                self._serve()

    def _run(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                self._idle += 1
                while not self._queue and not self._closed:
                    if len(self.threads) - self._waiting > self.limit:
                        break
                    self._changed.wait()
                self._idle -= 1
                if not self._queue:  # closed, or more threads than needed
                    self.threads.discard(me)
                    return
                function, args = self._queue.popleft()
                self._taken += 1
            function(*args)
            del function, args

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Inside, the thread waits for something that other threads bring; does nothing in threads of others."""
        if threading.current_thread() not in self.threads:
            yield
            return
        with self._changed:
            self._waiting += 1
            self._serve()
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1

    def close(self) -> None:
        """Let threads end as soon as they are done; what is in the queue is dropped."""
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()

    @property
    def idle(self) -> int:
        return self._idle
