"""Type checkers over programs as people write them (`tests/typed`): none has a fault, and mistakes are reported.

mypy looks at all of them in one process, as it does in a user's project: strictly, and at flambeau as it is installed.
`tools/checkers.py` runs pyright, too, which fetches itself from the network and is no part of the tests.
"""

from __future__ import annotations

import ast
import os
import pathlib
import re
import runpy
import subprocess
import sys
import sysconfig

import pytest

import flambeau

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(flambeau.__file__).parent
PROGRAMS = sorted(path for path in (HERE / "typed").glob("*.py") if path.name != "mistakes.py")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_run(path):
    runpy.run_path(str(path), run_name="__main__")


@pytest.fixture(scope="module")
def reported(tmp_path_factory) -> dict[str, dict[int, set[str]]]:
    """The kinds of errors that mypy reports, by file and line."""
    files = [*PROGRAMS, HERE / "typed" / "mistakes.py"]
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--follow-imports=silent"]
    command += ["--cache-dir", str(tmp_path_factory.mktemp("mypy")), *map(str, files)]
    installed = str(PACKAGE.parent) in map(sysconfig.get_path, ("purelib", "platlib"))
    environment = os.environ if installed else {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, dict[int, set[str]]] = {path.stem: {} for path in files}
    for name, line, text, kind in re.findall(r"(\w+)\.pyi?:(\d+): error: (.*)\[([\w-]+)\]", done.stdout):
        found.setdefault(name, {}).setdefault(int(line), set()).add(kind + ": " + text)
    return found


def test_programs_have_no_fault(reported):
    assert {name: lines for name, lines in reported.items() if lines and name != "mistakes"} == {}


def test_mistakes_are_reported(reported):
    """Each on its line, with its kind, and nothing else."""
    lines = (HERE / "typed" / "mistakes.py").read_text().splitlines()
    expected = {
        k: set(m[1].split(" | ")) for k, m in enumerate(map(re.compile(r"  # (.*)").search, lines), 1) if m
    }
    found = {k: {kind.partition(":")[0] for kind in kinds} for k, kinds in reported["mistakes"].items()}
    assert len(expected) >= 20 and found.keys() == expected.keys(), reported["mistakes"]
    assert all(found[k] <= expected[k] for k in expected), reported["mistakes"]


def results(stub: str) -> dict[str, list[str]]:
    """What each function of a stub gives, a method under its own name."""
    tree = ast.parse((PACKAGE / stub).read_text())
    scopes = [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Tensor")]
    found: dict[str, list[str]] = {}
    for node in (n for scope in scopes for n in scope.body if isinstance(n, ast.FunctionDef)):
        found.setdefault(node.name, []).append(ast.unparse(node.returns))
    return found


# What gives no type that could be named: nested lists of numbers, others' objects, and what pickle and operators ask for.
ANYTHING = {
    *("tolist", "to_scipy", "retains_grad_flag"),
    *("__array_namespace__", "__arrow_c_array__", "__delitem__", "__dlpack__", "__rdiv__", "__setstate__"),
}


def test_results_have_types():
    stubs = ["__init__.pyi", "_tensor.pyi", "return_types.pyi"]
    stubs += [f"{m}.pyi" for m in ("nn/functional", "linalg/__init__", "fft/__init__", "special/__init__")]
    stubs += ["masked/__init__.pyi", "signal/windows/__init__.pyi"]
    found = {name for stub in stubs for name, kinds in results(stub).items() if "_Any" in kinds}
    assert found == ANYTHING & found and len(results("__init__.pyi")) > 600
    assert (PACKAGE / "py.typed").exists()
