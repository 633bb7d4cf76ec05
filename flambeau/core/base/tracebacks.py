"""Tracebacks of errors that leave functions in Python with many of this library's own behind them; `tracebacks.c` is for compiled ones."""

from __future__ import annotations

import os
from types import TracebackType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def shorten(error: BaseException) -> None:
    """Take the frames of this library's files off an error's traceback; those of a program's functions stay.

    With FLAMBEAU_TRACEBACK=1 all stay.

    >>> from flambeau.core.base.tracebacks import shorten
    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError as error:
    ...     before = error.__traceback__.tb_lineno
    ...     shorten(error)
    ...     error.__traceback__.tb_lineno == before
    True
    """
    if os.environ.get("FLAMBEAU_TRACEBACK", "0") not in ("", "0"):
        return
    left, entry = [], error.__traceback__
    while entry is not None:
        if not entry.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            left.append(entry)
        entry = entry.tb_next
    for entry_left in reversed(left):
        entry = TracebackType(entry, entry_left.tb_frame, entry_left.tb_lasti, entry_left.tb_lineno)
    error.__traceback__ = entry
