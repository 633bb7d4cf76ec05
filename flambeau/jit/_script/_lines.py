"""What a compiler of a function keeps: the lines that it has written, the names in sight, and temporary variables."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .._text import RESERVED, is_identifier
from ._source import Code
from ._types import Type, is_subtype
from ._values import Simple, Value

# Names that the Python which is written uses: variables of a program that are called so get another name there.
_PYTHON = frozenset(
    "len list dict abs min max sum all any sorted round divmod ord chr hex oct bin hash id range bool int float complex str isinstance "
    "math wrapped number device formatted shown percent_formatted tuple print zip enumerate getattr type reversed".split()
)


class Line(NamedTuple):
    """A line of code and of Python; one of them may be missing."""

    depth: int
    text: str | None
    py: str | None
    number: int  # of the line in the program's file


class Lines:
    """The state of a function's compiler."""

    def __init__(self, unit: Any, code: Code) -> None:
        self.unit, self.code = unit, code
        self.lines: list[Line] = []
        self.depth = 0
        self.frames: list[dict[str, Value]] = [{}]
        self.absent: dict[str, str] = {}  # names that are not there on every way, and why
        self.names: dict[str, tuple[str, str]] = {}
        self.taken: set[str] = set()
        self.counter = 0
        self.at = code.first
        self.ended = False  # no way leads to what comes next
        self.loops: list[str] = []

    # --- errors ------------------------------
    def refuse(self, message: str, node: ast.AST) -> Any:
        self.code.refuse(message, node)

    # --- lines ------------------------------
    def add(self, text: str | None, py: str | None) -> None:
        """Write a line, of code and of Python."""
        self.lines.append(Line(self.depth, text, py, self.at))

    @contextlib.contextmanager
    def captured(self) -> Iterator[list[Line]]:
        """Within it, lines go to a list of their own."""
        outer, self.lines = self.lines, []
        try:
            yield self.lines
        finally:
            self.lines = outer

    def take(self, lines: list[Line]) -> None:
        """Write lines that were captured, as those of a block."""
        for what in ("text", "py"):
            if not any(getattr(line, what) is not None for line in lines):
                passing = (
                    Line(self.depth + 1, "pass", None, self.at)
                    if what == "text"
                    else Line(self.depth + 1, None, "pass", self.at)
                )
                lines = [*lines, passing]
        self.lines += lines

    def fresh(self) -> str:
        """A name that no variable has."""
        self.counter += 1
        return f"_{self.counter - 1}"

    def held(self, value: Simple) -> Simple:
        """The value in a variable, where reading it twice would compute it twice."""
        if value.stable:
            return value
        name = self.fresh()
        self.add(f"{name} = {value.text}", f"{name} = {value.py}")
        return Simple(name, name, value.type, stable=True, items=None, small=value.small)

    def evaluated(self, makers: list[Callable[[], Value]]) -> list[Value]:
        """Values in order: those before one that needs lines of its own are computed before these lines."""
        result: list[Value] = []
        marks: list[int] = []
        for make in makers:
            result.append(make())
            marks.append(len(self.lines))
        for k in range(len(result) - 2, -1, -1):
            value = result[k]
            if marks[k] < len(self.lines) and isinstance(value, Simple) and not value.stable:
                later = self.lines[marks[k] :]
                if marks[k] == marks[-1]:
                    continue
                del self.lines[marks[k] :]
                result[k] = self.held(value)
                self.lines += later
        return result

    # --- names ------------------------------
    def named(self, name: str) -> tuple[str, str]:
        """What a variable is called in code and in Python."""
        if name not in self.names:
            text = name if is_identifier(name) and not (name[:1] == "_" and name[1:].isdecimal()) else None
            base = "".join(c for c in name if c.isascii() and (c.isalnum() or c == "_")) or "x"
            k = 0
            while text is None or text in self.taken or text in RESERVED:
                text, k = f"{base}_{k}", k + 1
            self.taken.add(text)
            py = f"{text}_" if text in _PYTHON or text.startswith("_g") else text
            self.names[name] = text, py
        return self.names[name]

    def variable(self, name: str, t: Type) -> Simple:
        """A variable as a value."""
        text, py = self.named(name)
        return Simple(text, py, t, stable=True)

    def look_up(self, name: str) -> Value | None:
        """What a name stands for in the function."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        return None

    def enter(self, name: str, value: Value, node: ast.AST) -> None:
        """Let a name stand for a value from here on."""
        before = next((f[name] for f in reversed(self.frames[:-1]) if name in f), None)
        if before is not None and name not in self.frames[-1] or before is not None:
            self._require_same(name, before, value, node)
        self.absent.pop(name, None)
        self.frames[-1][name] = value

    def _require_same(self, name: str, before: Value, value: Value, node: ast.AST) -> None:
        if not isinstance(value, Simple):
            self.refuse(
                f"Cannot re-assign '{name}' to a value of type {value.shown()} because {name} is not a first-class value. "
                "Only reassignments "
                "to first-class values are allowed",
                node,
            )
        if not isinstance(before, Simple):
            self.refuse(
                f"Cannot re-assign '{name}' because it has type {before.shown()} and {name} is not a first-class value. "
                "Only reassignments to "
                "first-class values are allowed",
                node,
            )
        assert isinstance(before, Simple) and isinstance(value, Simple)
        declared = self.declared.get(name, before.type)
        if not is_subtype(value.type, declared):
            self.refuse(
                f"Variable '{name}' previously had type {declared} but is now being assigned to a value of type {value.type}",
                node,
            )

    declared: dict[str, Type]

    # --- results ------------------------------
    def written(self, what: str, before: str, lines: list[Line]) -> tuple[str, list[int]]:
        """The lines of code or of Python, and the line of the program that each is of."""
        result, numbers = [], []
        for line in lines:
            part = getattr(line, what)
            if part is not None:
                result.append(before + "  " * line.depth + part)
                numbers.append(line.number)
        return "\n".join(result) + "\n", numbers
