"""The table of operations and the stub are what the registry says."""

from __future__ import annotations

import importlib.util
import inspect
import pathlib

import pytest

import flambeau
from flambeau.ops.registry import REGISTRY

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="module")
def interface():
    spec = importlib.util.spec_from_file_location("interface", ROOT / "tools" / "interface.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_current(interface):
    assert (ROOT / "docs" / "operations.md").read_text() == interface.table(), "run python tools/interface.py"


def test_the_stub_is_current(interface):
    assert (ROOT / "flambeau" / "__init__.pyi").read_text() == interface.stub(), (
        "run python tools/interface.py"
    )


def test_every_operation_is_documented():
    missing = [e.name for e in REGISTRY.values() if not (e.function.__doc__ or "").strip()]
    assert not missing


def test_signatures_of_pointwise_operations():
    assert str(inspect.signature(flambeau.exp)) == "(input, *, out=None)"
    for entry in REGISTRY.values():
        if entry.kind == "pointwise":
            names = list(inspect.signature(entry.function).parameters)
            assert names[: len(entry.details["operands"])] == list(entry.details["operands"])
            assert names[-1] == "out"
