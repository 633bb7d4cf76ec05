"""Who imports whom: the import and cimport lines of every module of flambeau, those inside functions included."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_CYTHON = re.compile(
    r"^[ ]*(?:from[ ]+(?P<source>[.\w]+)[ ]+(?:c?import)[ ]+(?P<names>\([^)]*\)|[^\n#]*)"
    r"|(?:c?import)[ ]+(?P<modules>[\w., ]+))",
    re.MULTILINE,
)


class Use(NamedTuple):
    """One import line."""

    user: str  # the dotted name of the module that holds the line
    used: str  # that of the module it names
    line: str  # "path:line"
    inside: bool  # in a function, so that it runs when that is called


def modules(root: Path = ROOT) -> dict[str, list[Path]]:
    """The sources of each module by its dotted name; a `.pxd` belongs to its `.pyx`."""
    found: dict[str, list[Path]] = {}
    for path in sorted((root / "flambeau").rglob("*")):
        if path.suffix in (".py", ".pyx", ".pxd"):
            parts = path.relative_to(root).with_suffix("").parts
            found.setdefault(".".join(parts[:-1] if parts[-1] == "__init__" else parts), []).append(path)
    return found


def _statements(path: Path) -> Iterator[tuple[int, bool, str, list[str]]]:
    """Line, whether it stands in a function, the module named (with its dots), and the names taken from it."""
    text = path.read_text()
    if path.suffix == ".py":
        tree = ast.parse(text)
        typing_only = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if id(node) in typing_only:
                continue
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield node.lineno, node.col_offset > 0, alias.name, []
            elif isinstance(node, ast.ImportFrom):
                names = [alias.name for alias in node.names]
                yield node.lineno, node.col_offset > 0, "." * node.level + (node.module or ""), names
        return
    text = re.sub(r'"""(?s:.)*?"""', lambda m: "\n" * m[0].count("\n"), text)
    for match in _CYTHON.finditer(text):
        line, inside = text.count("\n", 0, match.start()) + 1, match[0].startswith(" ")
        if match["modules"]:
            for name in match["modules"].split(","):
                yield line, inside, name.split()[0], []
        else:
            names = [
                n.split()[0] for n in match["names"].strip("()").replace("\n", " ").split(",") if n.split()
            ]
            yield line, inside, match["source"], names


def uses(root: Path = ROOT) -> list[Use]:
    """Every import of a module of flambeau by another."""
    known, found = modules(root), []
    for user, paths in known.items():
        for path in paths:
            package = user.split(".") if path.stem == "__init__" else user.split(".")[:-1]
            for line, inside, source, names in _statements(path):
                dots = len(source) - len(source.lstrip("."))
                base = (
                    [*package[: len(package) - dots + 1], *filter(None, [source[dots:]])]
                    if dots
                    else [source]
                )
                if base[0].split(".")[0] != "flambeau":
                    continue
                name = ".".join(base)
                for used in {f"{name}.{n}" if f"{name}.{n}" in known else name for n in names} or {name}:
                    if used != user:
                        found.append(Use(user, used, f"{path.relative_to(root)}:{line}", inside))
    return found


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules each of which leads to all others of its group (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[len(stack) - len(group) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found
