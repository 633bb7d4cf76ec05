"""Errors of processes that a launcher has started, and how it learns of them.

The launcher names a file in TORCHELASTIC_ERROR_FILE; `record` writes there what a program raises, as JSON in PyTorch's layout:
{"message": {"message": text, "extraInfo": {"py_callstack": traceback, "timestamp": seconds}}}.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...._compat.absent import refusing

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]
_NONE = "<N/A>"


@dataclass
class ProcessFailure:
    """A process that failed: its rank on its machine, number, exit code (below 0 for a signal), and what it has written of its error.

    Raises nothing.

    >>> from flambeau.distributed.elastic.multiprocessing.errors import ProcessFailure
    >>> failure = ProcessFailure(local_rank=0, pid=997, exitcode=-9, error_file="")
    >>> failure.message, failure.signal_name()
    ('Signal 9 (SIGKILL) received by PID 997', 'SIGKILL')
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False)
    message: Any = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        self.error_file_data, self.timestamp = {"message": ""}, int(time.time())
        try:
            with open(self.error_file, encoding="utf-8") as file:
                result = json.load(file)
            self.message = result["message"]
            self.error_file_data = result
            if isinstance(self.message, dict):
                self.timestamp = int(self.message["extraInfo"]["timestamp"])
        except (OSError, ValueError, KeyError, TypeError):  # nothing, or no such text, was written
            self.error_file, self.message = _NONE, ""
        if not self.message:
            if self.exitcode < 0:
                self.message = f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
            else:
                self.message = "decorate the main function by `record` to see its traceback here"

    def signal_name(self) -> str:
        """The signal that ended it, "<N/A>" for none."""
        if self.exitcode >= 0:
            return _NONE
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return str(-self.exitcode)

    def timestamp_isoformat(self) -> str:
        """When it failed, in local time."""
        return time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))

    def text(self) -> str:
        """The traceback, or the message, that it has written; else how it ended."""
        if isinstance(self.message, dict):
            more = self.message.get("extraInfo", {})
            return str(more.get("py_callstack", self.message.get("message", _NONE)))
        return str(self.message)

    def said(self, rank: int) -> str:
        """How it ended, in a line."""
        if self.exitcode < 0:
            return f"rank {rank} (pid {self.pid}) was ended by signal {self.signal_name()}"
        return f"rank {rank} (pid {self.pid}) ended with exit code {self.exitcode}"


class ChildFailedError(Exception):
    """Processes of a launcher have failed: `failures`, by rank.

    >>> from flambeau.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
    >>> error = ChildFailedError("train.py", {1: ProcessFailure(1, 7, 3, "")})
    >>> error.get_first_failure()[0], str(error).splitlines()[0]
    (1, 'train.py FAILED: rank 1 (pid 7) ended with exit code 3')
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise ValueError("ChildFailedError(): there is no failure")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """Which failed first: its rank, and how."""
        rank = min(self.failures, key=lambda r: self.failures[r].timestamp)
        return rank, self.failures[rank]

    def format_msg(self) -> str:
        """How each has failed, the first one first."""
        first, _ = self.get_first_failure()
        order = [first, *(rank for rank in self.failures if rank != first)]
        lines = [f"{self.name} FAILED: {', '.join(self.failures[rank].said(rank) for rank in order)}"]
        for rank in order:
            failure = self.failures[rank]
            lines += [
                f"[rank {rank}, {failure.timestamp_isoformat()}, error file {failure.error_file}]",
                failure.text(),
            ]
        return "\n".join(lines)


class ErrorHandler:
    """Writes what a program raises to the file that the launcher has named.

    Raises nothing.

    >>> import json, os, tempfile
    >>> from flambeau.distributed.elastic.multiprocessing.errors import ErrorHandler
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.environ["TORCHELASTIC_ERROR_FILE"] = path = os.path.join(folder, "error.json")
    ...     try:
    ...         ErrorHandler().record_exception(KeyError("x"))
    ...         with open(path) as file:
    ...             print(json.load(file)["message"]["message"])
    ...     finally:
    ...         del os.environ["TORCHELASTIC_ERROR_FILE"]
    KeyError: 'x'
    """

    def initialize(self) -> None:
        """Let the interpreter write a traceback of crashes on stderr."""
        import faulthandler

        faulthandler.enable(all_threads=True)

    def record_exception(self, e: BaseException) -> None:
        """Write an exception, if a launcher has named a file."""
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if not path:
            return
        trace = "".join(traceback.format_exception(e))
        info = {"py_callstack": trace, "timestamp": str(int(time.time()))}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": info}}, file)


def get_error_handler() -> ErrorHandler:
    """What `record` uses.

    >>> from flambeau.distributed.elastic.multiprocessing.errors import get_error_handler
    >>> type(get_error_handler()).__name__
    'ErrorHandler'
    """
    return ErrorHandler()


def record(fn: Callable[..., Any], error_handler: ErrorHandler | None = None) -> Callable[..., Any]:
    """A program's main function, whose error is reported to the launcher with its traceback.

    Raises:
        Whatever the function raises

    >>> from flambeau.distributed.elastic.multiprocessing.errors import record
    >>> record(len)([1, 2])
    2
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def run(*args: Any, **options: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **options)
        except SystemExit as error:
            if error.code not in (None, 0):
                handler.record_exception(error)
            raise
        except BaseException as error:
            handler.record_exception(error)
            raise

    return run


__getattr__ = refusing("distributed.elastic.multiprocessing.errors")
