"""What follows from the registry for readers and type checkers: docs/operations.md and flambeau/__init__.pyi.

python tools/interface.py          # write both
python tools/interface.py --check  # exit 1 where one of them is not current
"""

from __future__ import annotations

import inspect
import keyword
import sys
from pathlib import Path
from types import ModuleType

import flambeau
from flambeau.operations.declare.registry import REGISTRY, Entry, published

ROOT = Path(__file__).resolve().parent.parent
TABLE, STUB = ROOT / "docs" / "operations.md", ROOT / "flambeau" / "__init__.pyi"


# --- the table ------------------------------
def first_sentence(entry: Entry) -> str:
    text = (entry.function.__doc__ or "").split(">>>")[0].strip()
    if text.startswith(entry.name + "("):  # a compiled function's signature
        text = text.partition("\n")[2]
    return " ".join(text.split()).split(". ")[0].rstrip(".").replace("|", "\\|")


def dtypes_of(entry: Entry) -> str:
    """In words where there is one."""
    taken = entry.details.get("dtypes")
    if not taken:
        return ""
    groups = {
        "bool": {"bool"},
        "integers": {"uint8", "int8", "int16", "int32", "int64"},
        "floats": {"float16", "bfloat16", "float32", "float64"},
        "complex": {"complex64", "complex128"},
    }
    words = [word for word, group in groups.items() if group <= taken]
    covered = set().union(*(groups[w] for w in words)) if words else set()
    return ", ".join(words + sorted(taken - covered))


def table() -> str:
    lines = [
        "# Operations",
        "",
        "Written by `python tools/interface.py` from the registry.  A derivative is one of any order, unless the operation",
        "is piecewise constant; where a column is empty, the operation follows those that it is made of.",
        "",
        "| operation | kind | dtypes | derivative | what it gives |",
        "|---|---|---|---|---|",
    ]
    for entry in sorted(REGISTRY.values(), key=lambda e: e.name):
        places = [p for p in entry.places if not p.rpartition(".")[2].startswith("_")]
        if places:
            derivative = (
                ""
                if entry.kind not in ("pointwise", "reduction", "row")
                else "yes"
                if entry.differentiable
                else "no"
            )
            name = ", ".join(f"`{p}`" for p in places[:1]) + (" …" if len(places) > 1 else "")
            lines.append(
                f"| {name} | {entry.kind} | {dtypes_of(entry)} | {derivative} | {first_sentence(entry)} |"
            )
    return "\n".join(lines) + "\n"


# --- the stub ------------------------------
def parameter(p: inspect.Parameter) -> str:
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    return star + p.name + ("=..." if p.default is not p.empty else "")


def signature(function: object, method: bool) -> str:
    """The parameters, without defaults' values and annotations; anything where they cannot be told."""
    try:
        found = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ("self, " if method else "") + "*args: Any, **kwargs: Any"
    parts: list[str] = []
    kind = None
    for k, p in enumerate(found.parameters.values()):
        if p.kind is p.KEYWORD_ONLY and kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            parts.append("*")
        if kind is p.POSITIONAL_ONLY and p.kind is not kind:
            parts.append("/")
        kind = p.kind
        parts.append("self" if method and k == 0 else parameter(p))
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    return ", ".join(parts)


def gives(function: object) -> str:
    for entry in REGISTRY.values():
        if function is entry.function or function is entry.in_place:
            outputs = getattr(function, "outputs", 1)
            return (
                "Tensor"
                if entry.kind in ("pointwise", "view", "creation", "random", "scan") and outputs == 1
                else "Any"
            )
    return "Any"


def definition(name: str, function: object, method: bool = False) -> str:
    pad = "    " if method else ""
    return f"{pad}def {name}({signature(function, method)}) -> {gives(function)}: ..."


def usable(name: str) -> bool:
    return not keyword.iskeyword(name) and (not name.startswith("_") or name in ("__version__",))


def tensor_class() -> list[str]:
    lines = ["class Tensor:", "    def __init__(self, *args: Any, **kwargs: Any) -> None: ..."]
    methods = published("Tensor.")
    for name in sorted(n for n in dir(flambeau.Tensor) if usable(n)):
        found = methods.get(name) or inspect.getattr_static(flambeau.Tensor, name)
        if callable(found) and not isinstance(found, (property, staticmethod, classmethod)):
            lines.append(definition(name, found, method=True))
        else:
            lines.append(f"    {name}: Any")
    compared = {f"__{n}__" for n in ("eq", "ne", "lt", "le", "gt", "ge")}
    special = [n for n in dir(flambeau.Tensor) if n.startswith("__") and n.endswith("__")]
    operators = [n for n in special if n in compared or n not in dir(object)]
    for name in sorted(operators):
        if name in compared:
            lines.append(f"    def {name}(self, other: Any) -> Any: ...")
        elif callable(getattr(flambeau.Tensor, name)):
            lines.append(f"    def {name}(self, *args: Any) -> Any: ...")
    return lines


def stub() -> str:
    functions = published("")
    lines = [
        "# Written by `python tools/interface.py` from the registry and the public namespace.",
        "from typing import Any",
        "",
    ]
    modules, plain, calls, classes = [], [], [], []
    for name in sorted(n for n in dir(flambeau) if usable(n)):
        found = functions.get(name) or getattr(flambeau, name)
        if isinstance(found, ModuleType):
            if found.__name__ == f"flambeau.{name}":
                modules.append(f"from . import {name} as {name}")
        elif name == "Tensor":
            continue
        elif isinstance(found, type):
            classes.append(name)
        elif callable(found):
            calls.append(definition(name, found))
        else:
            plain.append(f"{name}: Any")
    lines += [*modules, "", *tensor_class(), ""]
    for name in classes:
        base = next(
            (b.__name__ for b in getattr(flambeau, name).__mro__[1:] if b.__module__ == "builtins"), "object"
        )
        lines += [f"class {name}" + (f"({base})" if base not in ("object", "int", "type") else "") + ":"]
        lines += [
            "    def __init__(self, *args: Any, **kwargs: Any) -> None: ...",
            "    def __getattr__(self, name: str) -> Any: ...",
            "",
        ]
    return "\n".join([*lines, *plain, "", *calls]) + "\n"


def main(arguments: list[str]) -> int:
    stale = [
        path
        for path, text in ((TABLE, table()), (STUB, stub()))
        if not path.exists() or path.read_text() != text
    ]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not current: run python tools/interface.py")
        return bool(stale)
    TABLE.write_text(table())
    STUB.write_text(stub())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
