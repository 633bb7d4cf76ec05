"""How far a long work is, on stderr: tqdm's bar where tqdm is installed, else a plain line."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any, TextIO

ON_A_TERMINAL, ELSEWHERE = 0.1, 10.0  # seconds between two lines


def progress(**options: Any) -> Any:
    """A bar with `update(n)`, `set_postfix_str(text, refresh)` and `close()`, which is a context manager, too.

    Takes tqdm's keywords; without tqdm those of `Line` count, and what is about a bar's looks changes nothing.

    >>> import io
    >>> from flambeau.utils._progress import progress
    >>> screen = io.StringIO()
    >>> with progress(total=2, desc="both", file=screen) as bar:
    ...     bar.update(2)
    >>> "both: 100%" in screen.getvalue()
    True
    """
    if options.get("disable") is True:
        return Line(**options)  # which writes nothing: tqdm is not imported for that
    try:
        from tqdm import tqdm
    except ImportError:
        return Line(**options)
    return tqdm(**options)


class Line:
    """One line of text: rewritten on a terminal, and written again every `mininterval` seconds elsewhere, and at the end.

    Args:
        total: how much there is to do; None where that is not known.
        desc: what stands in front.
        initial: how much is done already.
        file: where it is written; stderr by default.
        disable: whether nothing is written; None: where the file is no terminal.
        mininterval: seconds between two lines at least; 0.1 by default on a terminal, 10 elsewhere.
        unit: what is counted.
        unit_scale: whether counts are written with K, M, G, T, each `unit_divisor` of the one before.

    >>> import sys
    >>> from flambeau.utils._progress import Line
    >>> line = Line(total=4, desc="files", file=sys.stdout, mininterval=3600.0)
    >>> for n in range(4):
    ...     line.update()
    >>> line.set_postfix_str("all read")
    >>> line.close()  # doctest: +ELLIPSIS
    files: 100% 4/4 [... s], all read
    """

    def __init__(
        self,
        total: float | None = None,
        desc: str | None = None,
        initial: float = 0,
        file: TextIO | None = None,
        disable: bool | None = False,
        mininterval: float | None = None,
        unit: str = "",
        unit_scale: bool = False,
        unit_divisor: float = 1000,
        **looks: Any,
    ) -> None:
        self.total, self.n, self.unit = total, initial, unit
        self._initial, self._scale, self._divisor = initial, unit_scale, unit_divisor
        self._before = f"{desc}: " if desc else ""
        self._after = ""
        self._file = sys.stderr if file is None else file
        self._terminal = self._file.isatty()
        self.disable = not self._terminal if disable is None else disable
        self._interval = (
            (ON_A_TERMINAL if self._terminal else ELSEWHERE) if mininterval is None else mininterval
        )
        self._began = self._written = time.monotonic()
        self._width = 0  # of what stands on the terminal
        self._last = ""
        if self._terminal:
            self._write()

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def update(self, n: float = 1) -> None:
        """So much more is done."""
        self.n += n
        if time.monotonic() - self._written >= self._interval:
            self._write()

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """What stands behind; with `refresh` a terminal shows it at once."""
        self._after = f", {s}" if s else ""
        if refresh and self._terminal:
            self._write()

    def close(self) -> None:
        """Writes the last line, once."""
        if not self.disable:
            self._write("\n")
            self.disable = True

    def _count(self, n: float) -> str:
        if not self._scale:
            return f"{n:g}" if isinstance(n, float) else str(n)
        for letter in ("", "K", "M", "G"):
            if n < self._divisor:
                return f"{n:.3g}{letter}"
            n /= self._divisor
        return f"{n:.3g}T"

    def _text(self) -> str:
        took = time.monotonic() - self._began
        done, left = self.n - self._initial, ""
        if self.total is None:
            counted = self._count(self.n)
        else:
            share = self.n / self.total if self.total else 1.0
            counted = f"{share:4.0%} {self._count(self.n)}/{self._count(self.total)}"
            if 0 < done and self.n < self.total:
                left = f", {took * (self.total - self.n) / done:.0f} s left"
        unit = f" {self.unit}" if self.unit else ""
        return f"{self._before}{counted}{unit} [{took:.0f} s{left}]{self._after}"

    def _write(self, end: str = "") -> None:
        if self.disable:
            return
        self._written = time.monotonic()
        text = self._text()
        if self._terminal:
            text = text[: shutil.get_terminal_size().columns - 1]
            written = "\r" + text.ljust(self._width) + end
            self._width = len(text)
        elif text == self._last:
            return
        else:
            written = text + "\n"
        self._last = text
        self._file.write(written)
        self._file.flush()
