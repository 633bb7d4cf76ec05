"""Finding the operation whose derivative fails, or returns NaN: `detect_anomaly`, `set_detect_anomaly`."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

from ..core import tape as _tape
from ..core.base.callbacks import set_callback

if TYPE_CHECKING:
    import traceback

__all__ = ["detect_anomaly", "set_detect_anomaly"]

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _remember(node: Any, parent: Any) -> None:
    """Keep the stack of a node that is being recorded, and the node whose derivative it is part of."""
    import traceback  # not at the start of every program

    frames = traceback.walk_stack(sys._getframe(1))
    stack = traceback.StackSummary.extract(frames, lookup_lines=False)
    stack.reverse()
    node.metadata["traceback_"] = stack
    if parent is not None:
        node.metadata["parent_"] = parent


def _users_line(stack: traceback.StackSummary) -> traceback.FrameSummary | None:
    """The innermost frame outside of this package."""
    return next((f for f in reversed(stack) if not f.filename.startswith(_OURS)), None)


def _report(node: Any, error: Exception) -> None:
    """Say where the failing node, and the nodes that led to it, were recorded: a note on the error, and a
    warning with whole tracebacks.
    """
    said = f"Error detected in {node.name()}."
    text, below = [], None
    while node is not None:
        stack = node.metadata.get("traceback_")
        if below is not None:
            text.append(f"Previous calculation of {below} was induced by {node.name()}.")
        if stack is None:
            text.append("It was recorded outside of anomaly mode: no traceback of its forward call.")
        else:
            if _users_line(stack) is not None:
                error.add_note(_recorded(node))
            text.append("Traceback of forward call:\n" + "".join(stack.format()))
        below, node = node.name(), node.metadata.get("parent_")
    warnings.warn("\n".join([said, *text]), stacklevel=2)


def _recorded(node: Any) -> str:
    """A node and the line that recorded it."""
    stack = node.metadata.get("traceback_")
    line = None if stack is None else _users_line(stack)
    where = "outside of anomaly mode" if line is None else f"at {line.filename}:{line.lineno}: {line.line}"
    return f"{node.name()} was recorded {where}"


_tape.set_anomaly_recorders(_remember, _report)
set_callback("recorded", _recorded)


class detect_anomaly:
    """Inside, operations remember the line they were called from, and backward names it when a derivative
    raises or, with `check_nan`, returns NaN.

    Slow: for finding errors only.

    Raises:
        RuntimeError: with `check_nan`, a derivative returns NaN

    >>> import flambeau
    >>> x = flambeau.tensor(4., requires_grad=True)
    >>> with flambeau.autograd.detect_anomaly():
    ...     y = x.sqrt()
    >>> "traceback_" in y.grad_fn.metadata
    True
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.before = _tape.switch_anomaly(True, self.check_nan)

    def __exit__(self, *exception: object) -> None:
        _tape.switch_anomaly(*self.before)


class set_detect_anomaly:
    """Switch anomaly mode on or off: at once, and, used with `with`, until the end of the block.

    Raises:
        RuntimeError: while it is on and with `check_nan`, a derivative returns NaN

    >>> import flambeau
    >>> with flambeau.autograd.set_detect_anomaly(True):
    ...     flambeau.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = _tape.switch_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        """It is on since it was made."""

    def __exit__(self, *exception: object) -> None:
        _tape.switch_anomaly(*self.before)
