"""Who gets calls of these functions instead of their being run as Python: an export, which keeps both branches and loops."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

# Called with the function and its arguments as it was called; the answer is the call's result.
Watcher = Callable[[Callable[..., Any], tuple, dict[str, Any]], Any]

_watchers: dict[int, Watcher] = {}  # by thread


@contextlib.contextmanager
def watched(watcher: Watcher | None) -> Iterator[None]:
    """Hand this thread's calls to `watcher`; None lets them run."""
    thread = threading.get_ident()
    before = _watchers.pop(thread, None)
    if watcher is not None:
        _watchers[thread] = watcher
    try:
        yield
    finally:
        _watchers.pop(thread, None)
        if before is not None:
            _watchers[thread] = before


def watcher() -> Watcher | None:
    """Who gets this thread's calls."""
    return _watchers.get(threading.get_ident()) if _watchers else None
