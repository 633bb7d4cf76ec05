"""Writes `flambeau/_compat/absent_names.py`, the names of absent modules that libraries mention at import, and
`flambeau/_compat/absent_reasons.py`, why single names are absent.

    python tools/absent_names.py            # needs torch 2.13 beside flambeau, and tests/data/names_of_libraries.tsv
    python tools/absent_names.py --check    # exit 1 where a file is not current

Taken in is what libraries look up at import, unguarded, and every public class of the modules that they look into, so that the next
library that annotates with one of them can be imported. What is neither a class nor a function is written by hand where it belongs,
and printed as missing by `tools/names_of_libraries.py` until then.
"""

from __future__ import annotations

import argparse
import collections
import enum
import importlib
import inspect
import pathlib
import sys
import textwrap
import types
import warnings
from typing import Any

import coverage  # the tool beside this one

import flambeau  # noqa: F401  all of it, before the table is taken away
from flambeau._compat import absent as _absent

HERE = pathlib.Path(__file__).resolve().parent
MENTIONED = HERE.parent / "tests" / "data" / "names_of_libraries.tsv"
PACKAGE = HERE.parent / "flambeau"
HEADS = {
    "_compat/absent_names.py": '''"""Names of absent modules that libraries mention as they are imported; `tools/absent_names.py` writes it.

By module: `Name(Base)` is a class, `Name[A=1,B=2]` an enumeration, `Name=module.Name` what another module has, `Name` a function.
"""

# ruff: noqa: E501
NAMES = {
''',
    "_compat/absent_reasons.py": '''"""Why single public names are absent, by PyTorch's module; `tools/absent_names.py` writes this file."""

ABSENT = {
''',
}
# Ours under the table, so that what is here is told from what it makes.
TABLE = _absent.NAMES


def module_of(dotted: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(f"torch.{dotted}" if dotted else "torch")
    except Exception:
        return None


def mentioned() -> dict[str, tuple[bool, set[str]]]:
    """Modules of absent rooms that are looked into at import, unguarded: whether they are absent as a whole, and the names.

    Who is ready for a name's absence has another way, and would call what only refuses.
    """
    mentions: dict[str, tuple[bool, set[str]]] = {}
    for line in MENTIONED.read_text().splitlines()[1:]:
        name, at_import, _, _ = line.split("\t")
        parts = name.split(".")[1:]
        if not int(at_import) or parts[0] == "classes" or parts[:2] == ["_C", "_nn"]:
            continue
        for k in range(len(parts), 0, -1):
            dotted = ".".join(parts[:k])
            if module_of(dotted) is not None:
                whole = _absent.why(dotted) is not None
                if whole or name.removeprefix("torch.") in _absent.NAMESPACES:
                    plain, names = mentions.get(dotted, (False, set()))
                    mentions[dotted] = plain or whole, {*names, *parts[k : k + 1]}
                break
    return mentions


class Table:
    """Words by module, and by name so that what several modules have is defined in one."""

    def __init__(self) -> None:
        self.words: dict[str, dict[str, str]] = collections.defaultdict(dict)
        self.defined: dict[int, str] = {}

    def here(self, dotted: str) -> Any:
        """What stands under a name here without the table; None where nothing does."""
        *path, name = dotted.split(".")
        try:
            return getattr(importlib.import_module(".".join(["flambeau", *path])), name, None)
        except ImportError:
            return None

    def put(self, module: str, name: str, value: Any) -> None:
        """Take in a class or function of PyTorch's under one of its names."""
        if name in self.words[module] or self.here(f"{module}.{name}") is not None:
            return
        if (defined := self.place(value)) is not None:
            self.words[module][name] = f"{name}={defined}"
            return
        self.defined[id(value)] = f"{module}.{name}"
        if not inspect.isclass(value):
            self.words[module][name] = name
        elif issubclass(value, enum.Enum) or hasattr(value, "__members__"):  # Python's, or C++'s
            members = ",".join(f"{n}={getattr(m, 'value', m)!r}" for n, m in value.__members__.items())
            self.words[module][name] = f"{name}[{members}]" if " " not in members else f"{name}()"
        else:
            self.words[module][name] = f"{name}({self.base(value)})"

    def place(self, value: Any) -> str | None:
        """Where a class or function stands here already, by PyTorch's own name for it or in the table."""
        home, own = (getattr(value, "__module__", None) or "").split("."), getattr(value, "__name__", "")
        for k in range(len(home), 0, -1) if home[0] == "torch" else ():
            if self.here(dotted := ".".join([*home[1:k], own])) is not None:
                return dotted
        return self.defined.get(id(value))

    def base(self, value: type) -> str:
        """The nearest class above one that is here, or that has its place in the table."""
        for above in value.__mro__[1:-1]:
            if above.__module__ == "builtins" and issubclass(above, BaseException):
                return above.__name__
            if (place := self.place(above)) is not None:
                return place
        return ""


def texts() -> dict[str, str]:
    """The files by their names."""
    table = Table()
    taken = []
    for dotted, (plain, names) in sorted(mentioned().items()):
        module = module_of(dotted)
        assert module is not None
        table.words[dotted]
        public = [n for n in coverage.public(dotted, module) if plain and inspect.isclass(getattr(module, n))]
        taken += [
            (dotted, name, getattr(module, name)) for name in {*public, *names} if hasattr(module, name)
        ]
    # bases first, and each where PyTorch defines it
    taken.sort(
        key=lambda t: (
            len(getattr(t[2], "__mro__", ())),
            getattr(t[2], "__module__", "") != f"torch.{t[0]}",
            "_" in t[0],
            t[0],
            t[1],
        )
    )
    for dotted, name, value in taken:
        if inspect.isclass(value) or inspect.isroutine(value):
            table.put(dotted, name, value)
    named, absent = [], []
    for module, words in sorted(table.words.items()):
        named += [f'    "{module}": """', *lines(" ".join(words[name] for name in sorted(words))), '    """,']
        TABLE[module] = " ".join(words.values())
    for module, groups in sorted(reasons().items()):
        if groups:
            absent.append(f'    "{module}": {{')
            for reason, each in groups.items():
                absent += [f'        "{reason}": """', *lines(" ".join(each)), '        """,']
            absent.append("    },")
    return {
        n: "\n".join([head + "\n".join(part), "}", ""])
        for (n, head), part in zip(HEADS.items(), (named, absent), strict=True)
    }


def reasons() -> dict[str, dict[str, list[str]]]:
    """By module and reason: its public names that are absent here, and the private ones that libraries mention."""
    by_module = {module: groups for module, (_, groups) in coverage.gathered().items()}
    for line in MENTIONED.read_text().splitlines()[1:]:
        parts = line.split("\t")[0].split(".")[1:]
        for k in range(len(parts)):
            module, name = ".".join(parts[:k]), parts[k]
            place = coverage.ours(module)
            if not isinstance(place, types.ModuleType) or hasattr(place, name):
                continue
            if module_of(".".join(parts[: k + 1])) is None and _absent.why(".".join(parts[: k + 1])) is None:
                groups = by_module.setdefault(module, {})
                if not any(name in names for names in groups.values()):
                    groups.setdefault("a part of PyTorch's own making", []).append(name)
            break
    return by_module


def lines(words: str) -> list[str]:
    return [
        f"        {line}"
        for line in textwrap.wrap(words, 100, break_long_words=False, break_on_hyphens=False)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 where a file is not current"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    TABLE.clear()
    _absent.ABSENT.clear()
    for known in (_absent._listed, _absent._modules, _absent._words):
        known.cache_clear()
    for name, text in texts().items():
        if not arguments.check:
            (PACKAGE / name).write_text(text)
        elif (PACKAGE / name).read_text() != text:
            sys.exit(f"{name} is not current")


if __name__ == "__main__":
    main()
