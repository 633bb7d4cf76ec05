"""Operations of numbers, texts, lists and dictionaries: what they take, what they give, and how Python computes them."""

from __future__ import annotations

import ast
import functools
import itertools
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
    given = tree.args
    first = len(given.args) - len(given.defaults)
    found = []
    for k, a in enumerate(given.args):
        defaulted = k >= first
        default = ast.literal_eval(given.defaults[k - first]) if defaulted else None
        assert a.annotation is not None
        found.append(Parameter(a.arg, parsed(a.annotation), default, defaulted))
    for a in given.kwonlyargs:
        assert a.annotation is not None
        found.append(Parameter(a.arg, parsed(a.annotation), by_name=True))
    return HostSchema(tree.name, tuple(found), parsed(tree.returns), python)


_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "remainder": "%"}
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OF_FLOATS = (
    "sqrt exp expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc gamma lgamma "
    "degrees radians fabs"
).split()


def _two(name: str, a: Type, b: Type, result: Type, python: str) -> HostSchema:
    return HostSchema(name, (Parameter("a", a), Parameter("b", b)), result, python)


def _numeric() -> list[HostSchema]:
    """The overloads of arithmetic and comparisons of numbers, which are alike."""
    found = []
    for a, b in itertools.product((*NUMBERS, NUMBER), repeat=2):
        wide = max(a, b, key=(*NUMBERS, NUMBER).index)
        for name, sign in _ARITHMETIC.items():
            if wide == COMPLEX and sign in "//%":
                continue
            python = f"({{0}} {sign} {{1}})"
            found.append(_two(name, a, b, wide, f"wrapped({python[1:-1]})" if wide == INT else python))
        found.append(_two("div", a, b, FLOAT if wide == INT else wide, "({0} / {1})"))
        found.append(_two("pow", a, b, FLOAT if wide == INT else wide, "_host_pow({0}, {1})"))
        for name, sign in _COMPARED.items():
            if COMPLEX not in (a, b) or name in ("eq", "ne"):
                found.append(_two(name, a, b, BOOL, f"({{0}} {sign} {{1}})"))
    for name, kind in itertools.product(_OF_FLOATS, (FLOAT, INT)):
        found.append(HostSchema(name, (Parameter("a", kind),), FLOAT, f"math.{name}({{0}})"))
    for name, kind in itertools.product(("floor", "ceil", "trunc"), (FLOAT, INT)):
        found.append(HostSchema(name, (Parameter("a", kind),), INT, f"math.{name}({{0}})"))
    for name, kind in itertools.product(("isnan", "isinf", "isfinite"), (FLOAT,)):
        found.append(HostSchema(name, (Parameter("a", kind),), BOOL, f"math.{name}({{0}})"))
    for name, a, b in itertools.product(("atan2", "copysign", "fmod"), (FLOAT, INT), (FLOAT, INT)):
        found.append(_two(name, a, b, FLOAT, f"math.{name}({{0}}, {{1}})"))
    found.append(_two("gcd", INT, INT, INT, "math.gcd({0}, {1})"))
    found.append(HostSchema("factorial", (Parameter("a", INT),), INT, "math.factorial({0})"))
    return found


@functools.cache
def schemas() -> dict[str, list[HostSchema]]:
    """The overloads by name."""
    found: dict[str, list[HostSchema]] = {}
    lines = (Path(__file__).parent / "hosts.txt").read_text().splitlines()
    for schema in (*_numeric(), *(_read(line) for line in lines if not line.startswith("#"))):
        found.setdefault(schema.name, []).append(schema)
    return found


# Methods of values of these kinds are the operations of the same names.
METHODS = {"List": dir(list), "Dict": dir(dict), "str": [n for n in dir(str) if not n.startswith("_")]}
