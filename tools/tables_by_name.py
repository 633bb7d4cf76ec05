"""Tables keyed by names of operations outside the declarations: what a declaration should say itself.

    python tools/tables_by_name.py [-v]

Reads the package's sources.  A table is a string of words, a tuple, list or set of strings, or the keys of a dictionary, of which half at
least, and three at least, are names under which operations are registered.  Words of other vocabularies are not counted:

    __all__                     what a module exports
    types of devices            where all are types of `flambeau.device`
    instructions                where all are words of the intermediate representation, in a module that works on its expressions
    Python's operators          where all are functions of `operator`, in a module that imports that or with one that is no operation
    absences                    `_compat/absent_reasons.py`: what PyTorch has and flambeau has not
"""

from __future__ import annotations

import ast
import functools
import operator
import sys
from collections.abc import Iterator
from pathlib import Path

from flambeau.codegen import expr, functions
from flambeau.core.base.dtypes import DEVICE_TYPES
from flambeau.operations.declare.registry import REGISTRY

ROOT = Path(__file__).resolve().parent.parent
LEAST = 3  # names that make a table
EXEMPT = {"__all__", "__slots__"}
# Words that are names of operations and of something else: parameters, dtypes, attributes, modes.
COMMON = {
    "sum",
    "mean",
    "max",
    "min",
    "real",
    "imag",
    "size",
    "norm",
    "sign",
    "mode",
    "index",
    "type",
    "var",
    "where",
    "std",
    "prod",
}


def names() -> set[str]:
    """Under which operations are registered, and those that write in place."""
    registered = {n for e in REGISTRY.values() for n in (e.name, e.name.rpartition(".")[2])}
    return registered | {e.name + "_" for e in REGISTRY.values() if e.in_place is not None}


@functools.cache
def instructions() -> set[str]:
    """The words of the intermediate representation: what `Expr.op` may be."""
    called = (n for n, f in vars(functions).items() if callable(f) and getattr(f, "__name__", None) == n)
    return {*expr.PRIMITIVES, *expr.LEAVES, *called}


def works_on_expressions(nodes: list[ast.AST], path: Path) -> bool:
    """Whether a module is of the code generator, or imports its expressions."""
    imported = (n.module or "" for n in nodes if isinstance(n, ast.ImportFrom))
    return path.parent.name == "codegen" or any(m.split(".")[0] == "codegen" for m in imported)


def strings(node: ast.AST) -> list[str] | None:
    """The words of a table, None for what is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.split()
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        parts = node.elts
    elif isinstance(node, ast.Dict):
        parts = [k for k in node.keys if k is not None]
    else:
        return None
    literals = [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]
    return literals if literals and len(literals) == len(parts) else None


def tables(path: Path, known: set[str]) -> Iterator[tuple[int, list[str]]]:
    """(line, names of operations) of each table of a file."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    skipped: set[ast.AST] = set()
    for node in nodes:
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                skipped.add(first.value)  # a docstring
        elif isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id in EXEMPT for t in node.targets
        ):
            skipped.update(ast.walk(node.value))
        elif isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            skipped.update(ast.walk(node))
    others = [set(DEVICE_TYPES)]
    imports_operator = any(isinstance(n, ast.Import) and n.names[0].name == "operator" for n in nodes)
    if works_on_expressions(nodes, path):
        others.append(instructions())
    for node in nodes:
        if node in skipped:
            continue
        words = strings(node)
        if not words or any({w for w in words if not w.startswith("call:")} <= other for other in others):
            continue
        if set(words) <= set(dir(operator)) and (imports_operator or not known.issuperset(words)):
            continue
        hits = [w for w in words if w in known and w not in COMMON]
        if len(hits) >= LEAST and 2 * len(hits) >= len(words):
            yield node.lineno, hits


def main(verbose: bool) -> int:
    """Print the files with tables, how many tables and how many names; the number of tables."""
    known = names()
    total = 0
    for path in sorted((ROOT / "flambeau").rglob("*.py")):
        where = path.relative_to(ROOT / "flambeau")
        if where.parts[0] in ("operations", "legacy") or where.as_posix() == "_compat/absent_reasons.py":
            continue
        hits_by_line = list(tables(path, known))
        if hits_by_line:
            total += len(hits_by_line)
            print(f"{where}: {len(hits_by_line)} tables, {sum(len(h) for _, h in hits_by_line)} names")
            if verbose:
                for line, hits in hits_by_line:
                    print(f"    {line}: {' '.join(hits[:12])}{' …' if len(hits) > 12 else ''}")
    print(f"{total} tables")
    return total


if __name__ == "__main__":
    main("-v" in sys.argv[1:])
