"""The runner of other people's libraries: what it takes for equal, and that what is kept of it agrees with its page."""

from __future__ import annotations

import ast
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau

CLIENTS = Path(__file__).resolve().parent.parent / "clients"


@pytest.fixture
def harness(monkeypatch):
    monkeypatch.syspath_prepend(str(CLIENTS))
    monkeypatch.setitem(sys.modules, "torch", flambeau)
    for name in ("harness", "run"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import harness

    yield harness
    for name in ("harness", "run"):
        sys.modules.pop(name, None)


def test_differences(harness):
    def apart(here, there):
        return harness.difference(*(json.loads(json.dumps(harness.digest(x))) for x in (here, there)))

    x = flambeau.linspace(-1, 1, 100).reshape(10, 10)
    assert (
        apart(x, x.clone()) == 0
        and apart({"a": [x, None, "text", True]}, {"a": [x, None, "text", True]}) == 0
    )
    assert apart(x + 1e-3, x) == pytest.approx(1e-3, rel=1e-3)
    assert apart([1.0, 2.0], np.array([1.0, 2.0])) == 0 and apart(2.0, 2.2) == pytest.approx(0.2 / 2.2)
    assert apart(np.array([1.0, math.nan, math.inf]), np.array([1.0, math.nan, math.inf])) == 0
    assert apart(np.array([1.0, math.nan]), np.array([1.0, 0.0])) == math.inf
    changed = x.clone()
    changed[3, 4] += 1  # not among the elements that are kept, but in the norm
    assert apart(changed, x) > 1e-3
    for here, there, said in (
        (x.double(), x, "dtype float64, PyTorch's is float32"),
        (x[:5], x, "shape [5, 10]"),
        ([x], [x, x], "got 1 values, PyTorch 2"),
        ({"a": x}, {"b": x}, "got keys ['a'], PyTorch ['b']"),
        (None, x, "PyTorch an array"),
        ("a", "b", "got 'a', PyTorch 'b'"),
    ):
        assert said in apart(here, there)


def test_weights_and_draws_are_the_same_every_time(harness):
    layers = [
        harness.fill(flambeau.nn.Sequential(flambeau.nn.Linear(3, 4), flambeau.nn.BatchNorm1d(4)))
        for _ in range(2)
    ]
    for a, b in zip(*(layer.state_dict().values() for layer in layers)):
        assert flambeau.equal(a, b)
    assert layers[0][1].running_var.min() > 0 and layers[0][0].weight.std() > 0
    rand, drawn = flambeau.rand, []
    for _ in range(2):
        with harness.draws(3):
            drawn.append(
                (
                    flambeau.rand(2, 3),
                    flambeau.randint(5, (4,)),
                    flambeau.randperm(6),
                    flambeau.randn(3).tolist(),
                )
            )
    assert flambeau.rand is rand and flambeau.equal(drawn[0][0], drawn[1][0]) and drawn[0][3] == drawn[1][3]
    assert drawn[0][1].dtype == flambeau.int64 and sorted(drawn[0][2].tolist()) == list(range(6))


def test_what_is_kept_agrees(harness):
    import run

    for file in (CLIENTS / "libraries").glob("*.py"):
        kept = json.loads((CLIENTS / "pytorch" / f"{file.stem}.json").read_text())
        assert kept["torch"].startswith("PyTorch 2") and kept["cases"], file
    for file in (CLIENTS / "results").glob("*.json"):
        result = json.loads(file.read_text())
        assert all(failure["error"] for failure in result["failed"]), file
        lost = sum(counts["pytorch"] - counts["passed"] for counts in result["checks"].values())
        assert lost == len(result["failed"]) or any(
            "not collected" in f["error"] for f in result["failed"]
        ), file
    assert run.PAGE.read_text() == run.page()


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import flambeau
flambeau.as_torch()
import torch
import compiled

calls = compiled.install()
layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5))
counted, log = torch.nn.Linear(3, 1), []
counted.register_forward_hook(lambda module, args, out: log.append(1))
looks = torch.nn.Linear(1, 1)
looks.forward = lambda x: x + 1 if x.sum().item() > 0 else x
for _ in range(2):
    x = counted(layers(torch.ones(4, 3)))
    torch.nn.functional.mse_loss(looks(x), x.detach()).backward()
    torch.nn.MSELoss()(x, torch.zeros(4, 1))
assert int(layers[1].num_batches_tracked) == 2 and len(log) == 2
print(calls.digest())
"""


def test_models_are_compiled_and_their_first_calls_taken_back():
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, CLIENTS], capture_output=True, text=True, check=True
    )
    counts = ast.literal_eval(found.stdout.splitlines()[-1])
    assert (counts["models"], counts["models_whole"]) == (3, 2)
    assert (counts["calls"], counts["calls_whole"], counts["others"], counts["others_whole"]) == (6, 4, 2, 2)
    assert counts["replayed"] >= 2 and counts["missed"] == {}
    assert [why.partition(": ")[2] for why in counts["reasons"]] == ["looks at a value of a tensor (item)"]
