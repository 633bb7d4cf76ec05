"""The table of operations and the stub are what the registry says."""

from __future__ import annotations

import inspect
import pathlib
import subprocess
import sys

import flambeau
from flambeau.operations.declare.registry import REGISTRY

ROOT = pathlib.Path(__file__).parent.parent


def test_the_table_and_the_stub_are_current():
    """In a process of its own: what others have imported belongs to neither."""
    program = [sys.executable, str(ROOT / "tools" / "interface.py"), "--check"]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_operation_is_documented():
    missing = [e.name for e in REGISTRY.values() if not (e.function.__doc__ or "").strip()]
    assert not missing


def test_signatures_of_pointwise_operations():
    assert str(inspect.signature(flambeau.exp)) == "(input: 'Tensor', *, out=None)"
    for entry in REGISTRY.values():
        if entry.kind == "pointwise":
            names = list(inspect.signature(entry.function).parameters)
            assert names[: len(entry.details["operands"])] == list(entry.details["operands"])
            assert names[-1] == "out"
