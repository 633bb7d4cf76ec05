"""docs/coverage.md tells the truth: what it says is here can be reached, what it says is absent cannot."""

from __future__ import annotations

import importlib
import pathlib
import re

import pytest

import flambeau

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "coverage.md"
PARTS = re.split(r"^## (torch[\w.]*)\n", PAGE.read_text(), flags=re.MULTILINE)[1:]
MODULES = dict(zip(PARTS[::2], PARTS[1::2], strict=True))


def place(label: str) -> object | None:
    name = label.removeprefix("torch").lstrip(".")
    if name == "Tensor":
        return flambeau.Tensor
    try:
        return importlib.import_module(f"flambeau.{name}" if name else "flambeau")
    except ImportError:
        return None


@pytest.mark.parametrize("label", MODULES)
def test_names_are_where_the_page_says(label):
    wrong, module = [], place(label)
    for paragraph in MODULES[label].strip().split("\n\n"):
        kind, _, names = paragraph.partition(": ")
        here = kind == "Here"
        assert here or kind.startswith("Absent ("), paragraph[:80]
        wrong += [
            n for n in re.findall(r"`(\w+)`", names) if (module is not None and hasattr(module, n)) != here
        ]
    assert not wrong, f"{label}: not as docs/coverage.md says (python tools/coverage.py writes it): {wrong}"


def test_the_page_counts_what_it_lists():
    table = dict(re.findall(r"^\| \[`(torch[\w.]*)`\].* \| (\d+) \| \d+ \|$", PAGE.read_text(), re.MULTILINE))
    for label, text in MODULES.items():
        here = [p for p in text.strip().split("\n\n") if p.startswith("Here: ")]
        assert sum(len(re.findall(r"`\w+`", p)) for p in here) == int(table[label])
    assert len(table) == len(MODULES) > 50
