"""The text of a program that is compiled, and errors that point into it."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from ...core.base import display
from ..frontend import NotSupportedError, UnsupportedNodeError

_AROUND = 3  # lines above and below the one that is meant


_PACKAGE = str(Path(__file__).resolve().parents[2])


def is_own(x: Any) -> bool:
    """Whether a function or a class stands in this library, whose signatures and attributes are not those of programs."""
    function = (
        getattr(inspect.unwrap(x), "__code__", None) if callable(x) and not isinstance(x, type) else None
    )
    if function is not None:
        return str(function.co_filename).startswith(_PACKAGE)
    return str(getattr(x, "__module__", None) or "").partition(".")[0] in (
        __name__.partition(".")[0],
        display.NAME,
    )


class CompileError(RuntimeError):
    """A program whose types do not hold together, or that names what is not there."""


class Code:
    """A function or a class of Python: its text, its tree, and what its names stand for."""

    def __init__(self, owner: Any, resolve: Callable[[str], Any] | None = None) -> None:
        self.owner = owner
        try:
            result, self.first = inspect.getsourcelines(owner)
            self.file = inspect.getsourcefile(owner) or "<unknown>"
        except (OSError, TypeError) as error:
            raise OSError(
                f"Can't get source for {owner}. TorchScript requires source access in order to carry out compilation, make sure original "
                ".py files are available."
            ) from error
        self.first = max(self.first, 1)
        text = textwrap.dedent("".join(result))
        self.lines = text.splitlines()
        self.resolve = resolve or names_of(owner)
        try:
            body = ast.parse(text).body
        except SyntaxError:
            body = []
        if len(body) != 1 or not isinstance(body[0], (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            raise NotSupportedError(
                f"Expected a single top-level function or class, got {getattr(owner, '__name__', owner)!r} (line {self.first} of "
                f"{self.file}): a lambda or an expression is not compiled, write it as a function with `def`"
            )
        self.tree = body[0]
        if isinstance(self.tree, ast.AsyncFunctionDef):
            self.unsupported("async function definitions aren't supported", self.tree)

    def line(self, node: ast.AST) -> int:
        """The line of a node in its file."""
        return self.first + getattr(node, "lineno", 1) - 1

    def pointed(self, message: str, node: ast.AST) -> str:
        """A message with the lines around a node, which is underlined."""
        first = getattr(node, "lineno", 1)
        last = getattr(node, "end_lineno", first) or first
        if getattr(node, "body", None):  # of a statement with a block, its first line
            last = first
            node = ast.copy_location(ast.Pass(), node)
            node.end_col_offset = None
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None)
        shown = []
        for number in range(max(first - _AROUND, 1), min(last + _AROUND, len(self.lines)) + 1):
            line = self.lines[number - 1]
            shown.append(line)
            if first <= number <= last:
                begin = start if number == first else len(line) - len(line.lstrip())
                stop = end if number == last and end is not None else len(line)
                if stop > begin:
                    here = " <--- HERE" if number == last else ""
                    shown.append(" " * begin + "~" * (stop - begin) + here)
        return f'{message}:\n  File "{self.file}", line {self.line(node)}\n' + "\n".join(shown) + "\n"

    def refuse(self, message: str, node: ast.AST) -> NoReturn:
        """Raise that a program's types or names are wrong."""
        raise CompileError("\n" + self.pointed(message, node))

    def unsupported(self, what: str, node: ast.AST) -> NoReturn:
        """Raise that TorchScript has no such statement or expression."""
        raise UnsupportedNodeError(self.pointed(what, node))

    def not_supported(self, what: str, node: ast.AST) -> NoReturn:
        """Raise that TorchScript does not have what Python allows there."""
        raise NotSupportedError(self.pointed(what, node))


MISSING = object()


def names_of(owner: Any) -> Callable[[str], Any]:
    """What the names in a function or a class stand for; MISSING where there is nothing."""
    function = inspect.unwrap(owner) if callable(owner) and not isinstance(owner, type) else owner
    function = getattr(function, "__func__", function)
    cells: dict[str, Any] = {}
    if inspect.isfunction(function):
        scope = function.__globals__
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            try:
                cells[name] = cell.cell_contents
            except ValueError:  # not bound yet
                continue
    else:
        scope = vars(sys.modules.get(getattr(owner, "__module__", ""), builtins))
        for member in vars(owner).values() if isinstance(owner, type) else ():
            if inspect.isfunction(member) and member.__closure__:
                cells.update(_cells(member))

    def resolve(name: str) -> Any:
        if name in cells:
            return cells[name]
        if name in scope:
            return scope[name]
        return getattr(builtins, name, MISSING)

    return resolve


def _cells(function: Any) -> dict[str, Any]:
    result = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            result[name] = cell.cell_contents
        except ValueError:
            continue
    return result
