"""The examples of CONTRIBUTING.md: real diffs, applied to the modules they name, run, and compared with NumPy."""

from __future__ import annotations

import importlib
import re
import types
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.operations.declare.registry import REGISTRY, published

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
A = np.random.default_rng(0).standard_normal((3, 5))


class Diff(NamedTuple):
    title: str
    path: str
    new: bool
    lines: list[str]


def diffs() -> dict[str, Diff]:
    """The diffs by the first word of the heading they stand under."""
    found = {}
    for section in re.split(r"^##+ ", TEXT, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        for text in re.findall(r"```diff\n(.*?)```", section, flags=re.DOTALL):
            old, new, hunk, *lines = text.splitlines()
            assert hunk == "@@" and all(line.startswith("+") for line in lines), title
            path = new.removeprefix("+++ b/")
            is_new = old == "--- /dev/null"
            assert is_new or old == f"--- a/{path}"
            name = re.sub(r"^Adding an? ", "", title).partition(":")[0]
            found[name] = Diff(title, path, is_new, [line[1:] for line in lines])
    return found


DIFFS = diffs()


@pytest.fixture
def added():
    """Applies a diff: its lines run in the module they are added to, and what they entered is taken back afterwards."""
    before = dict(REGISTRY)

    def apply(name: str) -> dict:
        diff = DIFFS[name]
        module = diff.path.removesuffix(".py").replace("/", ".")
        assert (ROOT / diff.path).exists() != diff.new
        if diff.new:
            names = vars(types.ModuleType(module)) | {"__package__": module.rpartition(".")[0]}
        else:
            names = dict(vars(importlib.import_module(module)))
        exec(compile("\n".join(diff.lines), diff.path, "exec", flags=0, dont_inherit=True), names)
        return names

    yield apply
    for name in REGISTRY.keys() - before.keys():
        del REGISTRY[name]


def checked(function, reference, tolerance=1e-12):
    x = flambeau.tensor(A, requires_grad=True)
    np.testing.assert_allclose(function(x).detach().numpy(), reference(A), rtol=tolerance, atol=tolerance)
    assert gradcheck(function, (x,)) and gradgradcheck(function, (x,))


def test_every_kind_is_shown_within_its_lines():
    most = {
        "Pointwise": 8,
        "Reduction": 8,
        "Row function": 8,
        "Indexed": 12,
        "Leaf": 12,
        "Composite": 6,
        "layer": 30,
        "optimiser": 30,
    }
    assert set(DIFFS) == set(most)
    for name, limit in most.items():
        assert len([line for line in DIFFS[name].lines if line.strip()]) <= limit, name


def test_pointwise(added):
    added("Pointwise")
    squareplus = published("nn.functional.")["squareplus"]
    checked(lambda x: squareplus(x, b=2.0), lambda a: (a + np.sqrt(a * a + 2)) / 2)
    assert squareplus(flambeau.ones(2, dtype=flambeau.bfloat16)).dtype == flambeau.bfloat16


def test_reduction(added):
    added("Reduction")
    function = published("Tensor.")["sum_of_squares"]
    checked(lambda x: function(x, 1), lambda a: (a * a).sum(1))
    checked(lambda x: function(x, 0, keepdim=True), lambda a: (a * a).sum(0, keepdims=True))
    checked(function, lambda a: (a * a).sum())


def test_row(added):
    added("Row function")
    function = published("")["centered"]
    checked(lambda x: function(x, 1), lambda a: a - a.mean(1, keepdims=True))
    checked(lambda x: function(x, 0), lambda a: a - a.mean(0))


def test_indexed(added):
    added("Indexed")
    function = published("")["moving_sum"]
    windows = np.lib.stride_tricks.sliding_window_view
    checked(lambda x: function(x, 3), lambda a: windows(a, 3, 1).sum(-1))
    checked(lambda x: function(x, 3, padding=2), lambda a: windows(np.pad(a, ((0, 0), (2, 2))), 3, 1).sum(-1))


def test_leaf(added):
    added("Leaf")
    checked(published("Tensor.")["cube_root"], np.cbrt)


def test_composite(added):
    added("Composite")
    function = published("")["midrange"]
    checked(lambda x: function(x, 1), lambda a: (a.min(1) + a.max(1)) / 2)
    out = flambeau.empty(3, dtype=flambeau.float64)
    assert function(flambeau.tensor(A), 1, out=out) is out


def test_layer(added):
    layer = added("layer")["Scale"](5, dtype=flambeau.float64)
    with flambeau.no_grad():
        layer.weight.copy_(flambeau.arange(5))
    assert repr(layer) == "Scale(features=5)" and list(layer.state_dict()) == ["weight"]
    checked(layer, lambda a: a * np.arange(5))


def test_optimiser(added):
    start, gradients = A[0].copy(), A[1:]
    p = flambeau.tensor(start, requires_grad=True)
    lion = added("optimiser")["Lion"]
    optimiser = lion([p], lr=0.1, betas=(0.5, 0.75), weight_decay=0.5)
    mean = np.zeros_like(start)
    for g in gradients:
        p.grad = flambeau.tensor(g)
        optimiser.step()
        start = start * (1 - 0.1 * 0.5) - 0.1 * np.sign(0.5 * mean + 0.5 * g)
        mean = 0.75 * mean + 0.25 * g
    np.testing.assert_allclose(p.detach().numpy(), start)
    assert list(optimiser.state_dict()["state"][0]) == ["exp_avg"]
    with pytest.raises(ValueError, match="Lion: Invalid beta parameter at index 1"):
        lion([p], betas=(0.5, 1.0))


def test_the_methods_of_a_device_are_those_of_the_seam():
    source = (ROOT / "flambeau" / "core" / "base" / "device.pyx").read_text()
    missing = re.findall(r'raise NotImplementedError\(f"\{self\.type\}: (\w+)"\)', source)
    table = TEXT.partition("| what | methods |")[2].partition("\n\n")[0]
    assert sorted(missing) == sorted(re.findall(r"`(\w+)`", table)) and len(missing) > 10
