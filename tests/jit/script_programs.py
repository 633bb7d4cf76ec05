"""The programs of `tests/data/torchscript_language.txt`: what each says, and what a library makes of it."""

from __future__ import annotations

import copy
import enum
import importlib.util
import math
import re
import sys
import typing
import warnings
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).resolve().parents[1] / "data" / "torchscript_language.txt"


class Program(NamedTuple):
    """A program, whether it is accepted, what else the error says, and the arguments of a call."""

    name: str
    accepted: bool
    says: str
    arguments: str
    text: str


class Outcome(NamedTuple):
    """What a library makes of a program: whether it takes it, the error, the result, and what Python gives."""

    accepted: bool
    error: str
    result: Any
    wanted: Any


def programs() -> list[Program]:
    """All programs."""
    results = []
    for part in FILE.read_text().split("\n== ")[1:]:
        head, _, text = part.partition("\n")
        name, verdict, arguments = ([p.strip() for p in re.split(r" \|(?: |$)", head)] + [""])[:3]
        results.append(Program(name, verdict == "ok", verdict[3:], arguments, text + "\n"))
    return results


def outcome(program: Program, library: Any, folder: Path, turn: Any = lambda scripted: scripted) -> Outcome:
    """Script a program with a library, and call what `turn` makes of the script."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"program_{program.name}.py"
    path.write_text(program.text)
    spec = importlib.util.spec_from_file_location(f"program_{program.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module).update({n: getattr(typing, n) for n in typing.__all__ if n not in ("Any",)} | {"Any": Any})
    vars(module).update(torch=library, Tensor=library.Tensor, nn=library.nn, F=library.nn.functional)
    vars(module).update(Enum=enum.Enum, NamedTuple=typing.NamedTuple, math=math, warnings=warnings)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        try:
            scripted = library.jit.script(module.f)
        except Exception as error:  # noqa: BLE001  what it is, a test looks at
            return Outcome(False, f"{type(error).__name__}: {error}", None, None)
        if not program.accepted:
            return Outcome(True, "", None, None)
        given = eval(f"({program.arguments},)" if program.arguments else "()", vars(module))  # noqa: S307
        wanted = module.f(*copy.deepcopy(given)) if program.name != "is_scripting" else None
        return Outcome(True, "", turn(scripted)(*copy.deepcopy(given)), wanted)
    finally:
        del sys.modules[spec.name]
