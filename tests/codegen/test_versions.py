"""Kernels on the disk are found by the sources that made them, and by no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from layers import uses

from flambeau.codegen import build

CODEGEN = "flambeau.codegen."
ROOTS = {
    "cpu": "flambeau.codegen.schedule_cpu",
    "gpu": "flambeau.codegen.schedule_gpu",
}


@pytest.fixture(scope="module")
def imports():
    found: dict[str, set[str]] = {}
    for u in uses():
        found.setdefault(u.user, set()).add(u.used)
    return found


@pytest.mark.parametrize("kind", ROOTS)
def test_all_that_a_schedule_imports_is_part_of_the_version(kind, imports):
    needed, left = set(), [ROOTS[kind]]
    while left:
        module = left.pop()
        if module not in needed:
            needed.add(module)
            left += [m for m in imports.get(module, ()) if m.startswith(CODEGEN)]
    names = {
        m.removeprefix(CODEGEN) + ".py" for m in needed if m.count(".") == 2 and m != "flambeau.codegen.tiles"
    }
    assert len(names) > 5 and names <= {p.name for p in build.sources(kind)}


def test_a_schedule_of_the_other_kind_is_no_part_of_it():
    cpu, gpu = ({p.name for p in build.sources(kind)} for kind in ("cpu", "gpu"))
    assert "schedule_gpu.py" in gpu - cpu and "schedule_cpu.py" in cpu - gpu
    assert "expr.py" in cpu & gpu and "kernels.py" in cpu & gpu
    assert {Path(p).name for p in cpu | gpu} >= {"lower.py", "target.py"}


def test_an_edit_changes_the_version_of_its_kind_alone(monkeypatch):
    before = {kind: build.version(kind) for kind in ROOTS}
    read = Path.read_bytes
    edited = lambda path: read(path) + (b"#" if path.name == "schedule_gpu.py" else b"")
    monkeypatch.setattr(Path, "read_bytes", edited)
    after = {kind: build.version.__wrapped__(kind) for kind in ROOTS}
    assert after["cpu"] == before["cpu"] and after["gpu"] != before["gpu"]
