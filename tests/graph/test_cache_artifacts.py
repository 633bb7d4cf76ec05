"""Kernels saved by one process and used by another; what new shapes cost; how calls are explained."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import flambeau as torch
from flambeau.codegen import artifacts, build, cache

PROGRAM = """
import json, sys
import flambeau as torch
from flambeau.codegen import build

if sys.argv[1] == "load":
    with open(sys.argv[2], "rb") as file:
        found = torch.compiler.load_cache_artifacts(file.read())
x = torch.arange(12.0).reshape(3, 4) / 7
result = torch.compile(lambda x: (x.sin() * 3 - x).softmax(-1))(x)
if sys.argv[1] == "save":
    data, found = torch.compiler.save_cache_artifacts()
    with open(sys.argv[2], "wb") as file:
        file.write(data)
print(json.dumps([result.tolist(), build.statistics["compiled"], len(found.artifacts["kernel"])]))
"""


def run(what, file, folder):
    environment = dict(os.environ, FLAMBEAU_CACHE_DIR=str(folder))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what, str(file)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_another_process_compiles_nothing(tmp_path):
    wanted, compiled, saved = run("save", tmp_path / "artifacts", tmp_path / "first")
    assert compiled > 0 and saved >= compiled
    assert run("load", tmp_path / "artifacts", tmp_path / "second") == [wanted, 0, saved]


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Artifacts of two entries, in a folder of its own."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "kernels")
    monkeypatch.setattr(cache, "used", set())
    entries = {"0" * 40: b"code", "f" * 40: b"more code"}
    assert all(cache.write(digest, code) for digest, code in entries.items())
    data, names = artifacts.packed()
    assert names == list(entries)
    cache.clear_cache()
    return data, entries


def test_what_is_loaded_is_what_was_saved(saved):
    data, entries = saved
    assert artifacts.unpack(data) == list(entries)
    assert {digest: cache.read(digest) for digest in entries} == entries


def test_what_is_damaged_is_not_loaded(saved):
    data, entries = saved
    for damaged in (
        b"",
        data[:-1],
        data[:30],
        data + b"x",
        data[:80] + b"?" + data[81:],
        b"x" + data[1:],
        data[::-1],
    ):
        assert torch.compiler.load_cache_artifacts(damaged) is None
    assert all(cache.read(digest) is None for digest in entries)
    with pytest.raises(TypeError, match="expected bytes, got str"):
        torch.compiler.load_cache_artifacts("text")


@pytest.mark.parametrize(
    "name, size", [(b"../../../../somewhere/else/that/is/40/lo..", 4), (b"0" * 40, 1 << 60), (b"G" * 40, 4)]
)
def test_entries_that_lie_are_refused(saved, name, size):
    body = artifacts._ENTRY.pack(name, size) + b"code"
    data = artifacts.MAGIC + artifacts.hashlib.sha256(body).digest() + body
    with pytest.raises(ValueError, match="no digest, or is longer"):
        artifacts.unpack(data)
    with pytest.raises(ValueError, match="cut off"):
        artifacts.unpack(artifacts.MAGIC + artifacts.hashlib.sha256(b"short").digest() + b"short")


def test_nothing_to_save(saved, monkeypatch):
    monkeypatch.setattr(cache, "used", set())
    assert torch.compiler.save_cache_artifacts() is None


# --- new shapes -------------------------------------------------------
def test_a_new_shape_costs_a_plan_and_no_kernel():
    function = lambda x, y: ((x * y).tanh() + y).softmax(-1).sum(0)
    compiled = torch.compile(function, fullgraph=True)
    made = []
    for rows, columns in [(6, 8), (5, 8), (16, 24), (3, 40), (33, 65), (1, 8), (0, 8), (7, 1)]:
        x, y = torch.randn(rows, columns), torch.randn(rows, columns)
        wanted, before = function(x, y), sum(build.statistics.values())
        assert torch.allclose(compiled(x, y), wanted, rtol=1e-5, atol=1e-6)
        made.append(sum(build.statistics.values()) - before)
    assert compiled.captures == 8 and made[0] <= 3
    assert made[1:5] == [0] * 4, "shapes of several rows and columns: the kernels of the first"
    assert max(made[5:]) <= 2, "of one row or column, or none: other strides"


# --- explain, stances -------------------------------------------------
def test_what_explain_says():
    def whole(x):
        return (x * 2).exp() + 1

    def by_value(x):
        return x if x.sum() > 0 else -x

    found = torch._dynamo.explain(whole)(torch.ones(2))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (1, 0, 3)
    assert [op.__name__ for op in found.ops_per_graph[0]] == ["mul", "exp", "add"] and found.out_guards
    assert torch.equal(found.graphs[0](torch.zeros(2))[0], whole(torch.zeros(2)))
    found = torch._dynamo.explain(by_value, torch.ones(2))
    assert (found.graph_count, found.graph_break_count) == (0, 1)
    (why,) = found.break_reasons
    assert "value of a tensor" in why.reason and why.user_stack[0].line == "return x if x.sum() > 0 else -x"
    text = str(found)
    assert text.startswith(
        "Graph Count: 0\nGraph Break Count: 1\nOp Count: 0\nBreak Reasons:\n  Break Reason 1:\n"
    )
    with pytest.raises(TypeError, match="got int"):
        torch._dynamo.explain(3)


def test_eager_then_compile():
    f = torch.compile(lambda x: x + 1)
    with torch.compiler.set_stance("eager_then_compile"):
        for _ in range(3):
            f(torch.ones(2))
        assert (f.calls_of_python, f.captures) == (1, 1)
        torch.compiler.reset()
        f(torch.ones(2))
        assert f.calls_of_python == 2
