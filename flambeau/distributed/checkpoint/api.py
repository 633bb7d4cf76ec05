"""What is raised on every process when one of them fails: `CheckpointException`."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

__all__ = ["CheckpointException"]

Failure = tuple[BaseException, traceback.StackSummary]  # an error and where it was raised


class CheckpointException(BaseException):
    """A save or a load failed on some rank.  Every rank of the group raises it.

    As in PyTorch it derives from BaseException, so `except Exception` does not catch it.

    Args:
        msg: the step that failed: "plan", "write" or "read".
        failures: the errors, by rank in the group, each with the stack in which it was raised.

    >>> import flambeau.distributed.checkpoint as dcp
    >>> try:
    ...     dcp.load({"x": 1}, checkpoint_id="nowhere", no_dist=True)
    ... except dcp.CheckpointException as error:
    ...     print(list(error.failures), type(error.failures[0][0]).__name__)
    [0] FileNotFoundError
    """

    def __init__(self, msg: str, failures: dict[int, Failure]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, Failure]:
        """The errors, by rank."""
        return self._failures

    def __str__(self) -> str:
        parts = [f"CheckpointException in step {self.args[0]!r} on ranks {sorted(self._failures)}\n"]
        for rank, (error, stack) in sorted(self._failures.items()):
            parts.append(f"Traceback (most recent call last): (RANK {rank})\n")
            parts += traceback.format_list(stack)
            parts += traceback.format_exception_only(type(error), error)
        return "".join(parts)


def _wrap_exception(error: BaseException) -> Failure:
    """An error that can be sent to other processes, with its stack.

    What pickle does not carry both ways is sent as a RuntimeError with the same text.
    """
    stack = traceback.extract_tb(error.__traceback__)
    for frame in stack:
        if hasattr(frame, "_code"):  # since Python 3.13; code is not pickled
            object.__setattr__(frame, "_code", None)
    try:
        pickle.loads(pickle.dumps(error))
        return error, stack
    except Exception:
        return RuntimeError(f"{type(error).__qualname__}: {error}"), stack


def _is_wrapped_exception(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], BaseException)
        and isinstance(value[1], traceback.StackSummary)
    )
