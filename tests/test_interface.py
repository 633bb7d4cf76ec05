"""The table of operations and the stubs are what the registry says; type checkers and readers find what they need."""

from __future__ import annotations

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


PROGRAM = """
import flambeau
from flambeau import nn, optim
from flambeau.nn import functional as F

x: flambeau.Tensor = flambeau.softmax(flambeau.ones(2, 3), dim=1)
y: flambeau.Tensor = F.softsign(x + 1, out=None).sum(dim=0).float()
size: flambeau.Size = y.shape
limit: float = flambeau.inf
kind: flambeau.dtype = y.dtype
layer = nn.Linear(3, 2)
rate = optim.SGD(layer.parameters(), lr=0.1)
z: flambeau.Tensor = flambeau.fft.fft(flambeau.linalg.inv(x), dim=-1)
"""
MISTAKES = """
import flambeau

flambeau.softmax("text", 0)
flambeau.softmax(flambeau.ones(2), 0, keepdim=True)
flambeau.ones(2).cumsum("rows")
number: int = flambeau.exp(flambeau.ones(2))
"""


def test_types_as_checkers_see_them(tmp_path):
    """A program that is right has no errors, one with four mistakes has four."""
    found = []
    for name, text in (("right", PROGRAM), ("wrong", MISTAKES)):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        program = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(path)]
        done = subprocess.run(program, capture_output=True, text=True, cwd=ROOT)
        found.append(
            [
                line.partition("error: ")[0].split(":")[1]
                for line in done.stdout.splitlines()
                if "error:" in line
            ]
        )
    assert found == [[], ["4", "5", "6", "7"]]
    assert (pathlib.Path(flambeau.__file__).parent / "py.typed").exists()


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
