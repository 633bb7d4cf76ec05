"""Tracebacks of what is interpreted: the program's functions and lines in place of the interpreter's own."""

from __future__ import annotations

from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

FOLDER = str(Path(__file__).parents[1])  # of the graph engine, whose own functions are not shown


class Trail:
    """The interpreted functions that an exception has left, from the innermost outwards."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.left: list[tuple[CodeType, int, dict[str, Any]]] = []

    def leave(self, error: BaseException, code: CodeType, line: int, space: dict[str, Any]) -> None:
        if error is not self.error:
            self.error, self.left = error, []
        if not code.co_filename.startswith(FOLDER):
            self.left.append((code, line, space))

    def mend(self, error: BaseException, handled: bool = False) -> None:
        """Give an exception the traceback that it would have if CPython had run the functions; `handled`: in one of them, which may
        raise it again.
        """
        if error is not self.error:
            return
        behind = error.__traceback__
        at = behind
        while at is not None:
            if at.tb_frame.f_code.co_filename.startswith(FOLDER):
                behind = at.tb_next
            at = at.tb_next
        for code, line, space in self.left:
            behind = _entry(code, line, space, behind)
        self.error, self.left = error if handled else None, []
        error.__traceback__ = behind


def _entry(
    code: CodeType, line: int, space: dict[str, Any], behind: TracebackType | None
) -> TracebackType | None:
    """An entry for a line of a function, before the entry `behind`."""
    names: dict[str, Any] = {
        k: space[k] for k in ("__name__", "__file__", "__loader__", "__spec__") if k in space
    }
    text = compile("\n" * (line - 1) + "raise Raised", code.co_filename, "exec")
    try:
        exec(text.replace(co_name=code.co_name, co_qualname=code.co_qualname), {**names, "Raised": _Raised})
    except _Raised as raised:
        made = raised.__traceback__.tb_next  # type: ignore[union-attr]
        return TracebackType(behind, made.tb_frame, -1, line)  # type: ignore[union-attr]
    return behind


class _Raised(Exception):
    pass
