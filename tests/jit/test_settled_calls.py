"""Calls in kept programs whose overload is found once: other classes at the same place, literals anywhere, and what is not imported."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau._files.archive import Writer

PICKLE = b"\x80\x02c__torch__\nNet\n)\x81}(X\x08\x00\x00\x00training\x89ub."
CLASS = "class Net(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"


def program(body: str, *kinds: str) -> Any:
    """A loaded program whose arguments x, y, … are of these types."""
    given = ", ".join(f"{n}: {kind}" for n, kind in zip("xyz", kinds))
    code = f"{CLASS}  def forward(self: __torch__.Net, {given}) -> Any:\n    return {body}\n"
    entries = {"data.pkl": PICKLE, "code/__torch__.py": code.encode(), "constants.pkl": b"\x80\x02)."}
    file = io.BytesIO()
    writer = Writer(file.write)
    for name, data in (entries | {"version": b"3\n", "byteorder": b"little"}).items():
        writer.add(f"archive/{name}", data)
    writer.close()
    file.seek(0)
    return torch.jit.load(file)


def test_one_call_with_values_of_several_classes():
    net = program("torch.add(x, y)", "Any", "Any")
    x = np.array([1.5, -2.0], np.float32)
    for _ in range(3):
        for y in (torch.tensor([2.0, 3.0]), 2, 0.5, torch.tensor(4, dtype=torch.int64)):
            wanted = x + (y.numpy() if isinstance(y, torch.Tensor) else y)
            actual = net(torch.from_numpy(x), y)
            np.testing.assert_array_equal(actual.numpy(), wanted)
            assert actual.dtype == torch.float32
        assert net(2, 3) == 5 and type(net(2, 3)) is int
        assert net(2, 0.5) == 2.5


@pytest.mark.parametrize(
    "body, wanted",
    [
        ("torch.pow(2, x)", lambda x, y: 2**x),
        ("torch.where(torch.gt(x, y), 1., x)", lambda x, y: np.where(x > y, 1, x)),
        ("torch.where(torch.gt(x, y), x, -1.)", lambda x, y: np.where(x > y, x, -1)),
        ("torch.add(x, y, alpha=-2)", lambda x, y: x - 2 * y),
        ("torch.sub(x, y, alpha=3.)", lambda x, y: x - 3 * y),
        ("torch.clamp(x, None, 0.5)", lambda x, y: np.minimum(x, 0.5)),
        ("torch.permute(x, [1, 0])", lambda x, y: x.T),
        ("torch.sum(x, [-1], True)", lambda x, y: x.sum(-1, keepdims=True)),
        ("torch.cat([x, y], 1)", lambda x, y: np.concatenate([x, y], 1)),
        ("torch.addmm(x, y, y, beta=0.5, alpha=2)", lambda x, y: 0.5 * x + 2 * (y @ y)),
    ],
)
def test_literals_at_all_places(body, wanted):
    net = program(body, "Tensor", "Tensor")
    generator = np.random.default_rng(0)
    for dtype in (np.float32, np.float64, np.float32):
        x, y = (generator.normal(size=(3, 3)).astype(dtype) for _ in "xy")
        actual = net(torch.from_numpy(x), torch.from_numpy(y)).numpy()
        assert actual.dtype == dtype
        np.testing.assert_allclose(actual, wanted(x, y), rtol=2e-6, atol=2e-6)


def test_a_subclass_of_tensor_is_told_from_a_tensor():
    class Mine(torch.Tensor):
        pass

    net = program("torch.mul(x, 2)", "Tensor")
    for kind in (torch.Tensor, Mine, torch.Tensor, Mine):
        assert type(net(torch.ones(2).as_subclass(kind))) is kind


def test_lists_of_literals_are_new_at_each_call_of_what_programs_add():
    saved: list[list[int]] = []
    library = torch.library.Library("settled_calls", "DEF")
    library.define("keep(Tensor x, int[] n) -> Tensor")

    def keep(x, n):
        saved.append(n)
        n.append(len(saved))
        return x.clone()

    library.impl("keep", keep, "CPU")
    net = program("ops.settled_calls.keep(x, [7])", "Tensor")
    for _ in range(3):
        net(torch.ones(1))
    assert saved == [[7, 1], [7, 2], [7, 3]]


def test_calls_that_fail_do_so_every_time():
    net = program("torch.add(x, y)", "Any", "Any")
    for _ in range(3):
        with pytest.raises(RuntimeError, match="takes no"):
            net(torch.ones(2), "text")
        assert net(torch.ones(2), 1).tolist() == [2.0, 2.0]


def test_loading_imports_no_tracer(tmp_path: Path):
    path = tmp_path / "net.pt"
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    torch.jit.save(torch.jit.trace(net, torch.ones(2, 3)), path)
    code = (
        "import sys, flambeau as torch\n"
        f"net = torch.jit.load({str(path)!r})\n"
        "net(torch.ones(2, 3))\n"
        "print(*[n for n in ('jit._trace', 'library._aten_steps', 'graph.record') if 'flambeau.' + n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
