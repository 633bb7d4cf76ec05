"""Where a program is while it is exported: the frames that are its own."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parents[1])


def own_frames(limit: int = 24) -> list[FrameType]:
    """The frames of the program, the innermost first; those of this package left out."""
    result: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(result) < limit:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            result.append(frame)
        elif result and frame.f_code.co_name == "export":
            break
        frame = frame.f_back
    return result


def user_line() -> str:
    """The line of the program, for errors: ' (model.py, line 7: `y = x.view(3)`)'; empty where there is none."""
    for frame in own_frames(1):
        file, line = frame.f_code.co_filename, frame.f_lineno
        code = linecache.getline(file, line).strip()
        return f" ({Path(file).name}, line {line}{f': `{code}`' if code else ''})"
    return ""


def stack_trace() -> str | None:
    """The frames as Python's tracebacks have them, from the call of `export` inwards; None where there are none."""
    parts = []
    for frame in reversed(own_frames()):
        code = frame.f_code
        line = linecache.getline(code.co_filename, frame.f_lineno).strip()
        parts.append(f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n    {line}\n')
    return "".join(parts[-3:]) or None
