"""TorchScript's serialised code, read: a lexer that knows its words, then Python's `ast`, then what the compiler knows of its nodes.

Nothing of a file is run.  What is not of the dialect is an error that names the file and the line, before anything is made of it;
nesting is bounded before `ast` sees the text, since that recurses.
"""

from __future__ import annotations

import ast
import keyword
import re
from typing import NamedTuple, NoReturn

MOST_CHARACTERS = 1 << 26
MOST_DEPTH = 90  # of brackets; of blocks Python's own limit is 100
MOST_CHAIN = 200  # dots, calls and subscripts on one line behind one another
_WORDS = frozenset("class def return if else while for in pass break continue with True False None".split())
_TOKENS = re.compile(
    r"""(?P<string>[A-Za-z]*(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')) | (?P<word>[A-Za-z_]\w*)
    | (?P<number>\d[\w.]*(?:(?<=[eE])[+-]\d+)?j?) | (?P<comment>\#[^\n]*) | (?P<space>[ \t\r]+) | (?P<line>\n)
    | (?P<arrow>->) | (?P<open>[(\[{]) | (?P<close>[)\]}]) | (?P<sign>[-=:,.]) | (?P<other>.)""",
    re.VERBOSE | re.ASCII,
)


class Refused(RuntimeError):
    """Code that is not of the dialect, or does not hold together; the message names file and line."""


class Source(NamedTuple):
    """A file of code in an archive."""

    name: str
    text: str

    def refuse(self, why: str, line: int) -> NoReturn:
        raise Refused(f"{self.name}, line {line}: {why}")


def parse(source: Source) -> list[ast.stmt]:
    """The classes and functions of a file; Refused for what is not of the dialect."""
    if len(source.text) > MOST_CHARACTERS:
        source.refuse(f"the file has {len(source.text)} characters, more than {MOST_CHARACTERS}", 1)
    _check_words(source)
    try:
        tree = ast.parse(
            source.text, filename=""
        )  # Python opens a file of that name for its error: there is none
    except SyntaxError as error:
        source.refuse(f"this is no TorchScript: {error.msg}", error.lineno or 1)
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        source.refuse(f"this is no TorchScript: {error}", 1)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            _check_function(source, node)
        elif isinstance(node, ast.ClassDef):
            _check_class(source, node)
        else:
            source.refuse("only classes and functions stand in a file", node.lineno)
    return tree.body


def _check_words(source: Source) -> None:
    """Each word one of the dialect's, brackets and chains within bounds."""
    line, depth, chain, before = 1, 0, 0, ""
    for match in _TOKENS.finditer(source.text):
        kind, text = match.lastgroup, match[0]
        if kind == "space":
            continue
        if kind == "line":
            line += 1
            chain = chain if depth else 0
        elif kind == "string":
            if not text.startswith(('"', "'")):
                source.refuse(f"a text begins with {text[:20]!r}", line)
        elif kind == "word":
            if keyword.iskeyword(text) and text not in _WORDS:
                source.refuse(f"the word {text!r} is not of TorchScript's serialised code", line)
        elif kind == "open":
            depth += 1
            chain += text != "{" and before in ("close", "word")
            if depth > MOST_DEPTH:
                source.refuse(f"brackets are nested deeper than {MOST_DEPTH}", line)
        elif kind == "close":
            depth -= 1
        elif kind == "sign":
            chain = chain + 1 if text == "." else 0 if text in ",=" else chain
            if text == "-" and before == "-":
                source.refuse("two signs before a number", line)
        elif kind == "other":
            source.refuse(f"the character {text!r} is not of TorchScript's serialised code", line)
        if chain > MOST_CHAIN:
            source.refuse(f"more than {MOST_CHAIN} attributes and calls behind one another", line)
        before = text if kind == "sign" else kind or ""


def _check_function(source: Source, node: ast.FunctionDef) -> None:
    args = node.args
    if node.decorator_list or args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs:
        source.refuse(f"function {node.name} has decorators or parameters other than plain ones", node.lineno)


def _check_class(source: Source, node: ast.ClassDef) -> None:
    if node.decorator_list or node.keywords or len(node.bases) > 1:
        source.refuse(f"class {node.name} has decorators, keywords or several bases", node.lineno)
    for member in node.body:
        if isinstance(member, ast.FunctionDef):
            _check_function(source, member)
        elif not isinstance(member, (ast.Assign, ast.AnnAssign, ast.Pass)):
            source.refuse(f"{type(member).__name__} in class {node.name}", member.lineno)


def dotted(node: ast.expr) -> list[str] | None:
    """The names of `a.b.c`; None for any other expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return [node.id, *reversed(names)]
