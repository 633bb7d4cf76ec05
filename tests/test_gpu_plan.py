"""The plan of tools/gpu_check.sh: limits, what is left out, and what is said to be mended first."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def plan(monkeypatch):
    spec = importlib.util.spec_from_file_location("gpu_plan", ROOT / "tools" / "gpu_plan.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_plan", module)
    spec.loader.exec_module(module)
    return module


def steps(plan, monkeypatch, *given):
    """A plan of programs in Python: (name, program, what it needs)."""
    made = tuple(plan.Step(name, 60, f"because of {name}", ("-c", text), needs=needs) for name, text, needs in given)
    monkeypatch.setattr(plan, "STEPS", made)


def outcomes(plan, tmp_path, budget=60.0, chosen=()):
    return {o.step.name: o for o in plan.planned(budget, chosen, False, dict(os.environ), tmp_path)}


def test_faults_are_named_and_what_stands_on_them_is_left_out(plan, monkeypatch, tmp_path, capsys):
    steps(
        plan,
        monkeypatch,
        ("good", "print('all is well')", ()),
        ("bad", "print('FAULT the sky falls'); print('then'); raise SystemExit(3)", ()),
        ("quiet", "print('no word of it'); raise SystemExit(4)", ()),
        ("later", "print('never')", ("good", "bad")),
        ("last", "print('still')", ("good",)),
    )
    found = outcomes(plan, tmp_path)
    assert [o.end for o in found.values()] == ["passed", "failed", "failed", "left out", "passed"]
    assert found["bad"].faults == ["FAULT the sky falls"]
    assert found["quiet"].faults == ["status 4; its last line: no word of it"]
    assert found["later"].faults == ["it needs bad"] and not (tmp_path / "later.txt").exists()
    assert (tmp_path / "good.txt").read_text() == "all is well\n"
    text = (tmp_path / "summary.txt").read_text()
    assert text.startswith("Mend first: bad (because of bad), failed; see bad.txt\n1. bad, failed:\n   FAULT the sky falls\n")
    assert "| later | left out: it needs bad | 0 |" in text
    assert "   all is well\n== good: passed after 0 s" in capsys.readouterr().out


def test_a_step_that_does_not_end(plan, monkeypatch, tmp_path):
    """It is killed with what it has started, and its output until then is there."""
    child = tmp_path / "child"
    text = f"""
import subprocess, sys, time
grown = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(child)!r}, "w").write(str(grown.pid))
print("the first line", flush=True)
time.sleep(600)
"""
    steps(plan, monkeypatch, ("endless", text, ()), ("next", "print(1)", ()))
    monkeypatch.setattr(plan, "STEPS", (plan.STEPS[0]._replace(limit=5), plan.STEPS[1]))
    found = outcomes(plan, tmp_path)
    assert [o.end for o in found.values()] == ["stopped", "passed"]
    assert found["endless"].faults == ["it had not ended after 5 s; its last line: the first line"]
    state = Path(f"/proc/{child.read_text()}/stat")
    deadline = time.monotonic() + 60
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_budget_is_kept(plan, monkeypatch, tmp_path):
    steps(plan, monkeypatch, ("first", "import time; time.sleep(600)", ()), ("second", "print(1)", ()))
    found = outcomes(plan, tmp_path, budget=1.5)
    assert [o.end for o in found.values()] == ["stopped", "left out"] and found["second"].faults == ["no time is left"]


def test_some_steps(plan, monkeypatch, tmp_path):
    steps(plan, monkeypatch, ("a", "print(1)", ()), ("b", "print(2)", ("a",)))
    assert list(outcomes(plan, tmp_path, chosen=["b"])) == ["b"]


def test_the_steps_are_there(plan):
    """Files that the steps name, unique names, and needs that come before."""
    before: list[str] = []
    for step in plan.STEPS:
        for dry in (False, True):
            line = plan.command(step, dry)
            assert all((ROOT / word).exists() for word in line if word.endswith(".py")), line
        assert step.name not in before and set(step.needs) <= set(before)
        before.append(step.name)
    assert plan.BUDGET <= 25 * 60 and all(step.limit <= plan.BUDGET for step in plan.STEPS)
