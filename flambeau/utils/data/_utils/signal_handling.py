"""What a loader does about workers that die, where PyTorch keeps it: for loaders that libraries write."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from typing import Any

_of_loaders: dict[int, tuple[int, ...]] = {}  # by loader: its workers
_handled = False


def _set_worker_signal_handlers() -> None:
    """Let this worker write where it was when a wrong access to memory ends it."""
    faulthandler.enable()


def _set_worker_pids(loader_id: int, child_pids: tuple[int, ...]) -> None:
    """Look after a loader's workers.

    >>> from flambeau.utils.data._utils import signal_handling
    >>> signal_handling._set_worker_pids(1, (99,))
    >>> signal_handling._remove_worker_pids(1)
    """
    if loader_id in _of_loaders:
        raise ValueError("_set_worker_pids(): should be called only once for each loader")
    if not isinstance(child_pids, tuple):
        raise TypeError(
            f"_set_worker_pids(): Expected a tuple for child_pids, but got {type(child_pids).__name__}"
        )
    _of_loaders[loader_id] = child_pids


def _remove_worker_pids(loader_id: int) -> None:
    """No more."""
    if _of_loaders.pop(loader_id, None) is None:
        raise ValueError("_remove_worker_pids(): Cannot find worker information for that loader")


def _error_if_any_worker_fails() -> None:
    """RuntimeError where a worker has died, or ended with an error."""
    for loader_id, workers in _of_loaders.items():
        for pid in workers:
            try:
                ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:  # somebody has waited for it
                continue
            if ended is None or (ended.si_code == os.CLD_EXITED and ended.si_status == 0):
                continue
            _of_loaders[loader_id] = ()
            if ended.si_code == os.CLD_EXITED:
                raise RuntimeError(
                    f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {ended.si_status}."
                )
            raise RuntimeError(
                f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(ended.si_status)}."
            )


def _set_SIGCHLD_handler() -> None:
    """Raise that error as soon as a worker has died; in the main thread only, where Python takes signals."""
    global _handled
    if _handled or threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGCHLD)

    def handle(number: int, frame: Any) -> None:
        _error_if_any_worker_fails()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGCHLD, handle)
    _handled = True
