"""Operations of numbers, texts, lists and dictionaries: what they take, what they give, and how Python computes them."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ._types import BOOL, COMPLEX, FLOAT, INT, NUMBER, NUMBERS, Type, parsed


class Parameter(NamedTuple):
    """A parameter of a schema."""

    name: str
    type: Type
    default: Any = None
    defaulted: bool = False
    by_name: bool = False


class HostSchema(NamedTuple):
    """An overload: parameters, result, and Python for it with `{0}` for the first argument; "" for a call of the function."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    python: str

    def __str__(self) -> str:
        shown = ", ".join(
            f"{p.type} {p.name}" + (f"={p.default!r}" if p.defaulted else "") for p in self.parameters
        )
        return f"aten::{self.name}({shown}) -> {self.result}"


def _read(line: str) -> HostSchema:
    head, _, python = line.partition(" : ")
    tree = ast.parse(f"def {head}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef) and tree.returns is not None
    args = tree.args
    first = len(args.args) - len(args.defaults)
    result = []
    for k, a in enumerate(args.args):
        defaulted = k >= first
        default = ast.literal_eval(args.defaults[k - first]) if defaulted else None
        assert a.annotation is not None
        result.append(Parameter(a.arg, parsed(a.annotation), default, defaulted))
    for a in args.kwonlyargs:
        assert a.annotation is not None
        result.append(Parameter(a.arg, parsed(a.annotation), by_name=True))
    return HostSchema(tree.name, tuple(result), parsed(tree.returns), python)


def _two(name: str, a: Type, b: Type, result: Type, python: str) -> HostSchema:
    return HostSchema(name, (Parameter("a", a), Parameter("b", b)), result, python)


def _numeric(what: str, names: Sequence[str]) -> Iterator[HostSchema]:
    """The overloads of operations of numbers, which are alike: a line `@kind name sign …` of the file."""
    pairs = list(itertools.product((*NUMBERS, NUMBER), repeat=2))
    if what in ("arithmetic", "compared"):
        for name, sign in zip(names[::2], names[1::2]):
            for a, b in pairs:
                wide = max(a, b, key=(*NUMBERS, NUMBER).index)
                python = f"({{0}} {sign} {{1}})"
                if what == "compared" and (COMPLEX not in (a, b) or sign in ("==", "!=")):
                    yield _two(name, a, b, BOOL, python)
                elif what == "arithmetic" and not (wide == COMPLEX and sign in ("//", "%")):
                    yield _two(name, a, b, wide, f"wrapped({python[1:-1]})" if wide == INT else python)
    elif what == "fractions":
        for name, python in zip(names[::2], names[1::2]):
            for a, b in pairs:
                wide = max(a, b, key=(*NUMBERS, NUMBER).index)
                yield _two(name, a, b, FLOAT if wide == INT else wide, python.replace("~", " "))
    else:
        result = {"floats": FLOAT, "whole": INT, "tests": BOOL, "pairs": FLOAT, "integers": INT}[what]
        for name in names:
            kinds = (INT,) if what == "integers" else (FLOAT,) if what == "tests" else (FLOAT, INT)
            count = 2 if what == "pairs" else 1
            for types in itertools.product(kinds, repeat=count):
                shown = ", ".join(f"{{{k}}}" for k in range(count))
                parameters = tuple(Parameter("ab"[k], t) for k, t in enumerate(types))
                yield HostSchema(name, parameters, result, f"math.{name}({shown})")


@functools.cache
def schemas() -> dict[str, list[HostSchema]]:
    """The overloads by name."""
    result: dict[str, list[HostSchema]] = {}
    lines = (Path(__file__).parent / "hosts.txt").read_text().splitlines()
    for line in lines:
        what, *names = line.split()
        each = (
            _numeric(what[1:], names)
            if line.startswith("@")
            else []
            if line.startswith("#")
            else [_read(line)]
        )
        for schema in each:
            result.setdefault(schema.name, []).append(schema)
    return result


# Methods of values of these kinds are the operations of the same names.
METHODS = {"List": dir(list), "Dict": dir(dict), "str": [n for n in dir(str) if not n.startswith("_")]}
