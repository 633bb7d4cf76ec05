"""TorchScript's language, statement by statement: what `tests/data/torchscript_language.txt` says; `tools/script_language.py` asks
PyTorch."""

from __future__ import annotations

import enum
import io
import re
from typing import Any

import pytest
from script_programs import outcome, programs

import flambeau
from flambeau import jit

PROGRAMS = programs()
_OUTSIDE = (
    "named_tuple_argument",
    "enumeration",
    "enumeration_parts",
)  # archives know their classes by themselves


def same(a: Any, b: Any) -> bool:
    """Whether two results are: tensors by their bits, members of enumerations by their names."""
    if isinstance(a, flambeau.Tensor) or isinstance(b, flambeau.Tensor):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, enum.Enum) or isinstance(b, enum.Enum):
        return (a.name, a.value) == (b.name, b.value)
    return type(a) is type(b) and a == b


# Texts of floating-point numbers are TorchScript's, which are not Python's.
_OTHERWISE = {"for_tuple": "1a2.", "is_scripting": flambeau.full((2,), 2.0)}


@pytest.mark.filterwarnings("ignore:careful")
@pytest.mark.parametrize("program", PROGRAMS, ids=[p.name for p in PROGRAMS])
def test_the_language(program, tmp_path, capsys):
    actual = outcome(program, flambeau, tmp_path)
    assert actual.accepted == program.accepted, actual.error
    if not program.accepted:
        assert re.search(program.says, actual.error), actual.error
        assert "~ <--- HERE" in actual.error and str(tmp_path) in actual.error
        return
    wanted = _OTHERWISE.get(program.name, actual.wanted)
    assert same(actual.result, wanted), (actual.result, wanted)


@pytest.mark.filterwarnings("ignore:careful")
@pytest.mark.parametrize(
    "program",
    [p for p in PROGRAMS if p.accepted and p.name not in (*_OUTSIDE, "ignored")],
    ids=[p.name for p in PROGRAMS if p.accepted and p.name not in (*_OUTSIDE, "ignored")],
)
def test_what_is_saved_and_loaded_computes_the_same(program, tmp_path, capsys):
    result = outcome(
        program, flambeau, tmp_path, lambda scripted: jit.load(io.BytesIO(scripted.save_to_buffer()))
    )
    assert same(result.result, _OTHERWISE.get(program.name, result.wanted)), (result.result, result.wanted)


def test_there_are_enough():
    assert len(PROGRAMS) >= 230 and sum(not p.accepted for p in PROGRAMS) >= 80
    assert len({p.name for p in PROGRAMS}) == len(PROGRAMS)
