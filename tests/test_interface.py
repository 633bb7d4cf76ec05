"""The table of operations and the stubs are what the registry says; readers find what they need."""

from __future__ import annotations

import ast
import inspect
import pathlib
import subprocess
import sys

import flambeau
from flambeau.operations.declare.registry import REGISTRY

ROOT = pathlib.Path(__file__).parent.parent


def test_the_table_and_the_stubs_are_current():
    """In a process of its own: what others have imported belongs to neither."""
    program = [sys.executable, str(ROOT / "tools" / "interface.py"), "--check"]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_operation_is_documented():
    missing = [e.name for e in REGISTRY.values() if not (e.function.__doc__ or "").strip()]
    assert not missing


def test_signatures_of_pointwise_operations():
    assert list(inspect.signature(flambeau.exp).parameters) == ["input", "out"]
    for entry in REGISTRY.values():
        if entry.kind == "pointwise":
            names = list(inspect.signature(entry.function).parameters)
            assert names[: len(entry.details["operands"])] == list(entry.details["operands"])
            assert names[-1] == "out"


def summary(text: str, name: str) -> str:
    """The first line of a docstring, after the signature that functions compiled by hand begin with."""
    first, _, rest = text.strip().partition("\n")
    if first.startswith(f"{name}("):
        first = first.partition("-> ")[2] or first
        if first in ("Tensor", "the tensor", "1-D Tensor") or not first.endswith("."):
            first = rest.strip().partition("\n")[0]
    return first


LONG = 24  # operations whose first sentence takes more than a line: fewer may be found, never more


def test_every_public_operation_has_a_one_line_summary():
    long = []
    for entry in REGISTRY.values():
        names = [p.rpartition(".")[2] for p in entry.places if not p.rpartition(".")[2].startswith("_")]
        if names:
            if not isinstance(entry.function, type) and names[0] != "default_generator":
                assert inspect.signature(entry.function).parameters or entry.kind == "creation"
            found = summary(entry.function.__doc__ or "", names[0])
            assert found, names[0]
            long += [names[0]] if "." not in found else []
    assert len(long) <= LONG, long


def test_compiled_classes_are_stated_as_they_are():
    """`tools/compiled.pyi` names what the classes have, and all that users see of those which it has in full."""
    tree = ast.parse((ROOT / "tools" / "compiled.pyi").read_text())
    for node in (n for n in tree.body if isinstance(n, ast.ClassDef)):
        cls = getattr(flambeau, node.name)
        stated = {
            getattr(n, "name", None) or getattr(getattr(n, "target", None), "id", None) for n in node.body
        } - {None}
        assert not [name for name in stated if not hasattr(cls, name)], node.name
        if cls is not flambeau.Tensor:
            assert {n for n in vars(cls) if not n.startswith("_")} <= stated, node.name
    for node in (n for n in tree.body if isinstance(n, ast.FunctionDef)):
        assert callable(getattr(flambeau, node.name))


def test_editors_find_docstrings_and_defaults():
    text = (pathlib.Path(flambeau.__file__).parent / "__init__.pyi").read_text()
    undocumented = [
        n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and not ast.get_docstring(n)
    ]
    assert not undocumented
    assert "def cumsum(input: Tensor, dim: _int, *, dtype: _dtype | None = None" in text
