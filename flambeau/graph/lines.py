"""The user's line of each call of a recording, noted by Python's tracing while that is wanted."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from .record import Recording

_HERE = str(Path(__file__).parent.parent)


class Lines:
    """While it is entered, of which line of the program each call that `recording` writes down is.

    >>> import flambeau as torch
    >>> from flambeau.graph.lines import Lines
    >>> from flambeau.graph.record import Recording
    >>> with Recording() as recording, Lines(recording) as lines:
    ...     y = torch.ones(2)
    >>> len(lines.of_calls())
    1
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.notes: list[tuple[int, tuple[str, int]]] = []  # from this call on, this line

    def __enter__(self) -> Lines:
        self.before = sys.gettrace()
        frame: FrameType | None = sys._getframe(1)
        self.note(frame)
        sys.settrace(self.call)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.settrace(self.before)

    def call(self, frame: FrameType, event: str, argument: Any) -> Any:
        """A function of the program begins; the library's own are not looked into."""
        return None if frame.f_code.co_filename.startswith(_HERE) else self.line

    def line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.note(frame if event == "line" else frame.f_back)
        return self.line

    def note(self, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_filename.startswith(_HERE):
            frame = frame.f_back
        if frame is not None:
            self.notes.append((len(self.recording), (frame.f_code.co_filename, frame.f_lineno)))

    def of_calls(self) -> list[tuple[str, int]]:
        """File and line of each call."""
        result: list[tuple[str, int]] = []
        notes, at = iter([*self.notes, (len(self.recording), ("", 0))]), ("", 0)
        for begin, line in notes:
            result += [at] * (begin - len(result))
            at = line
        return result
