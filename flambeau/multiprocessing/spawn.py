"""Start several processes with one function, and hear what went wrong in them."""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import secrets
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .reductions import init_reductions  # noqa: F401  so that tensors travel as shared memory

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]

_PR_SET_PDEATHSIG = 1
_PATIENCE = 30.0  # seconds between SIGTERM and SIGKILL


class ProcessException(Exception):
    """A process failed: `error_index` is its place, `error_pid` its number.

    >>> import operator
    >>> import flambeau
    >>> from flambeau import multiprocessing as mp
    >>> try:
    ...     mp.start_processes(operator.truediv, args=(0,), nprocs=1, start_method="fork")
    ... except mp.ProcessException as error:
    ...     print(type(error).__name__, error.error_index)
    ProcessRaisedException 0
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process raised an exception; the message holds its traceback.

    >>> import operator
    >>> import flambeau
    >>> from flambeau import multiprocessing as mp
    >>> try:
    ...     mp.start_processes(operator.truediv, args=(0,), nprocs=1, start_method="fork")
    ... except mp.ProcessRaisedException as error:
    ...     print(str(error).splitlines()[-1])
    ZeroDivisionError: division by zero
    """


class ProcessExitedException(ProcessException):
    """A process ended by a signal (`signal_name`) or with another `exit_code` than 0.

    >>> import sys
    >>> import flambeau
    >>> from flambeau import multiprocessing as mp
    >>> try:
    ...     mp.start_processes(sys.exit, nprocs=2, start_method="fork")  # sys.exit(0) and sys.exit(1)
    ... except mp.ProcessExitedException as error:
    ...     print(error, error.exit_code)
    process 1 terminated with exit code 1 1
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], index: int, args: Sequence[Any], error_file: str) -> None:
    """What a process does.  It is interrupted where its parent ends before, daemon or not; ended, where interrupts are ignored."""
    if sys.platform == "linux":
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM if ignored else signal.SIGINT)
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        sys.exit(0)  # ended by its parent
    except Exception:
        with open(error_file, "x", encoding="utf-8", opener=_private) as file:
            file.write(traceback.format_exc())
        sys.exit(1)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class ProcessContext:
    """Processes that were started together; see `start_processes`.

    Raises:
        TypeError: the list of files is not given

    >>> import math
    >>> import flambeau
    >>> from flambeau import multiprocessing as mp
    >>> started = mp.start_processes(math.sqrt, nprocs=2, join=False, start_method="fork")
    >>> while not started.join():  # it waits until one has ended
    ...     continue
    >>> len(started.pids()), [process.exitcode for process in started.processes]
    (2, [0, 0])
    """

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process ends: True when all have.

        Where one fails, the others are ended (after `grace_period` seconds, if given; by SIGKILL after as long again, or 30 s).

        Args:
            timeout: seconds to wait, by default until one ends.

        Raises:
            ProcessRaisedException: a process raised an exception; its traceback is in the message.
            ProcessExitedException: a process ended by a signal or with another exit code than 0.
        """
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout=timeout):
            index = self.sentinels.pop(sentinel)  # type: ignore[arg-type]
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        self._end(grace_period)
        raise self._failure(failed)

    def _end(self, grace_period: float | None) -> None:
        if grace_period is not None:
            self._wait(grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._wait(_PATIENCE if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))

    def _failure(self, index: int) -> ProcessException:
        process, report = self.processes[index], Path(self.error_files[index])
        if report.exists():
            trace = report.read_text(encoding="utf-8")
            report.unlink()
            message = f"\n\n-- Process {index} terminated with the following error:\n{trace}"
            return ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        if code >= 0:
            message = f"process {index} terminated with exit code {code}"
            return ProcessExitedException(message, index, process.pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        message = f"process {index} terminated with signal {name}"
        return ProcessExitedException(message, index, process.pid, code, name)


class SpawnContext(ProcessContext):
    """The old name of `ProcessContext`; it warns.

    Raises:
        TypeError: the list of files is not given

    >>> import warnings
    >>> import flambeau
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     started = flambeau.multiprocessing.SpawnContext([], [])
    >>> print(caught[0].message)
    SpawnContext is renamed to ProcessContext since 1.4 release.
    """

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, error_files)


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(index, *args)` in `nprocs` processes.

    Args:
        fn: for the methods 'spawn' and 'forkserver' one that can be imported.
        join: wait for all of them; else the `ProcessContext` is returned.
        daemon: whether they are ended when this process ends.
        start_method: 'spawn', 'fork' or 'forkserver'.

    Raises:
        ProcessRaisedException, ProcessExitedException: one failed (see `ProcessContext.join`); the others are ended.
        ValueError: no such start method.

    >>> import functools, operator
    >>> import flambeau
    >>> from flambeau import multiprocessing as mp
    >>> x = flambeau.zeros(3).share_memory_()
    >>> mp.start_processes(functools.partial(operator.setitem, x), args=(5.0,), nprocs=2, start_method="fork")
    >>> x  # process i has run x[i] = 5.0
    tensor([5., 5., 0.])
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, error_files = [], []
    for index in range(nprocs):
        error_file = os.path.join(tempfile.gettempdir(), f"flambeau-error-{secrets.token_hex(16)}")
        process = context.Process(target=_run, args=(fn, index, args, error_file), daemon=daemon)
        process.start()
        processes.append(process)
        error_files.append(error_file)
    started = ProcessContext(processes, error_files)
    if not join:
        return started
    while not started.join():
        continue
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` by the method 'spawn'.

    A script calls it under `if __name__ == "__main__":`, since each process imports the script.

    Raises:
        ProcessRaisedException: the function raises in a process, and `join` waits for it

    >>> import flambeau
    >>> from flambeau import multiprocessing as mp
    >>> queue = mp.get_context("spawn").SimpleQueue()
    >>> mp.spawn(queue.put, nprocs=2)  # queue.put(0) and queue.put(1)
    >>> sorted([queue.get(), queue.get()])
    [0, 1]
    """
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different start_method use:\n\t\t "
            "multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
