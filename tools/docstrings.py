"""How far the docstrings of public callables go: which have a definition, a formula, shapes, errors, an example.

python tools/docstrings.py             # a line for each namespace
python tools/docstrings.py example     # and the names that lack it ("definition", "formula", "shapes", "errors")

A callable is a public function, operation, class or method of Tensor, counted once, where it is first public; a form in place counts
with its operation.  Exceptions, enumerations and named tuples are not counted.  What is looked for is text: an expression, the word
shape or a tuple of sizes, the name of an error or a line that begins with "Raises nothing", `>>>`.  Shapes are wanted of what takes
or gives tensors, errors of what has parameters besides `self`, formulas of operations that compute numbers.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil
import re
import sys
import types
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from flambeau.core.call.function import BuiltIn
from flambeau.core.call.operation import Form, Op

import flambeau
from flambeau.operations.declare.registry import REGISTRY

ASPECTS = ("definition", "formula", "shapes", "errors", "example")
_FORMULA = re.compile(r"[=≠<>+·√ΣΠ∏∫²³⌊⌈≤≥^|∧∨⊕⁻‖]| [-/*@] |\w\(\w|\b1 / |^-\w|\[")
_SHAPES = re.compile(
    r"\bshapes?\b|^Shape:|\(\*?,? ?[A-Za-z*][^()]{0,40}, [^()]+\)|-dim\b|\bdimensions?\b|`dim`", re.M
)
_ERRORS = re.compile(r"\w+(Error|Warning)\b|^Raises:|^Raises nothing\b", re.M)
# Kinds of operations whose results are other numbers than those of their arguments.
_COMPUTING = frozenset(
    "composite fallback lapack library masked pointwise reduction row scan spectral window".split()
)
_APART = ("core", "operations", "codegen", "devices", "torch", "return_types")


class Callable(NamedTuple):
    """A public callable: the namespace and the name it is counted under, the thing, and the kind of an operation."""

    home: str
    name: str
    thing: Any
    kind: str | None


def callables() -> Iterator[Callable]:
    """All public callables, each once."""
    seen: set[int] = set()

    def new(thing: Any) -> bool:
        own = id(thing.op if isinstance(thing, Form) else thing)
        return not (own in seen or seen.add(own))

    for entry in REGISTRY.values():
        seen.add(id(entry.in_place))
    for entry in REGISTRY.values():
        places = [p for p in entry.places if not any(part.startswith("_") for part in p.split("."))]
        if places and counts(entry.function) and new(entry.function):
            home, _, name = places[0].rpartition(".")
            yield Callable(home, name, entry.function, entry.kind)
    for module in sorted(public_modules(), key=lambda m: (m.count("."), m)):
        home = module.removeprefix("flambeau").lstrip(".")
        for name, thing in members(importlib.import_module(module), home):
            if counts(thing) and new(thing):
                yield Callable(home, name, thing, None)
    for name, thing in inspect.getmembers(flambeau.Tensor):
        if not name.startswith("_") and callable(thing) and new(thing):
            yield Callable("Tensor", name, thing, None)


def counts(thing: Any) -> bool:
    """Whether it is a callable in the sense of this page."""
    if inspect.isclass(thing):
        return not issubclass(thing, (BaseException, enum.Enum, tuple))
    return isinstance(thing, (Op, types.FunctionType, types.BuiltinFunctionType, types.MethodType))


def public_modules() -> Iterator[str]:
    """Modules without an underscore in their path that can be imported here."""
    yield "flambeau"
    for module in pkgutil.walk_packages(flambeau.__path__, "flambeau.", onerror=lambda name: None):
        path = module.name.split(".")[1:]
        if path[0] in _APART or any(part.startswith("_") for part in path):
            continue
        try:
            importlib.import_module(module.name)
        except ImportError:  # an optional dependency is not installed
            continue
        yield module.name


def members(module: Any, home: str) -> Iterator[tuple[str, Any]]:
    """What a module publishes of this library: its `__all__`, else what it defines; a file of a room that has none publishes nothing."""
    listed = getattr(module, "__all__", None)
    if listed is None and "." in home:
        return
    for name in sorted(listed if listed is not None else vars(module)):
        thing = getattr(module, name, None)
        own = str(getattr(thing, "__module__", "")).startswith("flambeau")
        if not name.startswith("_") and own:
            yield name, thing


def missing(one: Callable) -> set[str]:
    """The aspects that its docstring should have and has not."""
    text = inspect.getdoc(one.thing) or ""
    prose = text.partition(">>>")[0]
    tensors, parameters = takes(one.thing)
    lacking = set()
    if not prose.strip():
        lacking.add("definition")
    if one.kind in _COMPUTING and not _FORMULA.search(prose):
        lacking.add("formula")
    if (tensors or one.kind) and not _SHAPES.search(prose):
        lacking.add("shapes")
    if parameters and not _ERRORS.search(prose):
        lacking.add("errors")
    if ">>>" not in text:
        lacking.add("example")
    return lacking


def takes(thing: Any) -> tuple[bool, bool]:
    """Whether tensors go in or out, and whether there are parameters."""
    if inspect.isclass(thing) and issubclass(thing, flambeau.nn.Module):
        return thing.forward is not flambeau.nn.Module.forward, True
    try:
        signature = inspect.signature(thing.__wrapped__ if isinstance(thing, BuiltIn) else thing)
    except (TypeError, ValueError):
        return False, True
    annotations = [str(p.annotation) for p in signature.parameters.values()] + [
        str(signature.return_annotation)
    ]
    parameters = [name for name in signature.parameters if name != "self"]
    return any("Tensor" in text for text in annotations), bool(parameters)


def main(arguments: list[str]) -> None:
    lacking: dict[str, list[set[str]]] = defaultdict(list)
    names: dict[str, list[str]] = defaultdict(list)
    for one in callables():
        gaps = missing(one)
        lacking[one.home.partition(".")[0] if one.home.count(".") > 1 else one.home].append(gaps)
        for aspect in gaps & set(arguments):
            names[aspect].append(f"{one.home}.{one.name}".lstrip("."))
    print(f"{'namespace':32}{'callables':>10}" + "".join(f"{aspect:>12}" for aspect in ASPECTS))
    lines = sorted(lacking.items(), key=lambda item: -len(item[1]))
    for home, gaps in [*lines, ("all", sum(lacking.values(), []))]:
        with_it = [sum(aspect not in g for g in gaps) / len(gaps) for aspect in ASPECTS]
        print(f"{home or 'flambeau':32}{len(gaps):10}" + "".join(f"{share:12.1%}" for share in with_it))
    for aspect, bare in names.items():
        print(f"\nwithout {aspect}: {' '.join(bare)}")


if __name__ == "__main__":
    main(sys.argv[1:])
