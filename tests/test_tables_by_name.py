"""Facts of operations stand in their declarations, and in no tables keyed by their names."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

TOOL = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "tables_by_name.py"))


def test_there_are_none(capsys):
    assert TOOL["main"](True) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "text, found",
    [
        ("ODD = ('sin', 'tan', 'asin')", 1),
        ("ODD = 'sin tan asin'.split()", 1),
        ("ODD = {'sin': 1, 'tan': 2, 'asin': 3}", 1),
        ("ODD = ('sin', 'tan')", 0),
        ("ODD = ('sin', 'tan', 'asin', 'a', 'b', 'c', 'd')", 0),
        ("__all__ = ['sin', 'tan', 'asin']", 0),
        ("DEVICES = ('cpu', 'cuda', 'opencl')", 0),
        ("from ..codegen import expr\nCALLS = ('call:sin', 'add', 'tan', 'asin')", 0),
        ("import operator\nCALLED = ('add', 'mul', 'eq', 'pos')", 0),
        ("import operator\nODD = ('add', 'mul', 'sin')", 1),
        ("from ..codegen import expr\nROWS = ('softmax', 'cumsum', 'sin')", 1),
    ],
)
def test_what_a_table_is(tmp_path, text, found):
    path = tmp_path / "module.py"
    path.write_text(text)
    assert len(list(TOOL["tables"](path, TOOL["names"]()))) == found
