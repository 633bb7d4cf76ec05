"""Exported programs as packages of machine code: written, and run by a process that traces and compiles nothing."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

inductor = torch._inductor


class Several(nn.Module):
    """Arguments and results in containers, a constant, a result that is None."""

    def __init__(self):
        super().__init__()
        self.inner, self.norm = nn.Linear(4, 3), nn.LayerNorm(3)

    def forward(self, pair, factor=2, more=None):
        y = self.norm(self.inner(pair["a"])) + pair["b"]
        return {"scaled": y * factor, "rows": [y.relu(), y.sum(0)]}, None


def models():
    torch.manual_seed(0)
    yield "mlp", nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 2)), (torch.randn(4, 3),), {}
    cnn = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    )
    yield "cnn", cnn.eval(), (torch.randn(2, 1, 8, 8),), {}
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    yield "encoder", layer.eval(), (torch.randn(2, 5, 16),), {}
    yield "words", nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 2)), (torch.tensor([[1, 6, 0]]),), {}
    yield "several", Several(), ({"a": torch.randn(5, 4), "b": torch.randn(3)},), {"factor": 3}
    yield "no weights", nn.Softmax(-1), (torch.randn(3, 4),), {}


MODELS = {name: (model, args, kwargs) for name, model, args, kwargs in models()}


def packed(name, **options):
    model, args, kwargs = MODELS[name]
    file = io.BytesIO()
    inductor.aoti_compile_and_package(torch.export.export(model, args, kwargs), package_path=file, **options)
    return file.getvalue()


def leaves(tree):
    return [x.detach() for x in torch.utils._pytree.tree_leaves(tree) if x is not None]


@pytest.mark.parametrize("name", MODELS)
def test_packages_give_what_modules_give(name):
    model, args, kwargs = MODELS[name]
    loaded = inductor.aoti_load_package(io.BytesIO(packed(name)))
    for _ in range(2):
        actual, expected = loaded(*args, **kwargs), model(*args, **kwargs)
        assert type(actual) is type(expected)
        for a, b in zip(leaves(actual), leaves(expected), strict=True):
            assert a.dtype == b.dtype and torch.allclose(a, b, rtol=1e-5, atol=1e-6)
            assert not a.requires_grad


PROGRAM = """
import sys
import flambeau as torch
import numpy as np

module = torch._inductor.aoti_load_package(sys.argv[1])
given = np.load(sys.argv[2])
found = module(torch.from_numpy(given["x"]))
assert np.allclose(found.numpy(), given["y"], rtol=1e-5, atol=1e-6)
assert not [name for name in ("graph.capture", "graph.lower", "codegen.schedule_cpu") if "flambeau." + name in sys.modules]
"""


def test_a_fresh_process_runs_a_package_and_lowers_nothing(tmp_path):
    model, (x,), _ = MODELS["cnn"]
    program = torch.export.export(model, (x,))
    path = inductor.aoti_compile_and_package(program, package_path=tmp_path / "net.pt2")
    np.savez(tmp_path / "given.npz", x=x.numpy(), y=model(x).detach().numpy())
    command = [sys.executable, "-c", PROGRAM, str(path), str(tmp_path / "given.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_threads_share_a_package_and_views_are_taken():
    model, (x,), _ = MODELS["mlp"]
    loaded, wrong = inductor.aoti_load_package(io.BytesIO(packed("mlp"))), []

    def work(seed):
        given = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed)).t()
        for _ in range(50):
            if not torch.allclose(loaded(given), model(given), rtol=1e-5, atol=1e-6):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_wrong_arguments_are_refused_before_anything_runs():
    loaded = inductor.aoti_load_package(io.BytesIO(packed("several")))
    (pair,), _ = MODELS["several"][1:]
    with pytest.raises(ValueError, match="the constant 3, got 4"):
        loaded(pair, factor=4)
    with pytest.raises(ValueError, match=r"float32 \[5, 4\] on cpu, got float64"):
        loaded({"a": pair["a"].double(), "b": pair["b"]}, factor=3)
    with pytest.raises(ValueError, match=r"got float32 \[2, 4\]"):
        loaded({"a": pair["a"][:2], "b": pair["b"]}, factor=3)
    with pytest.raises(TypeError, match="must be a tensor, got float"):
        loaded({"a": pair["a"], "b": 3.0}, factor=3)
    with pytest.raises(TypeError, match="expected arguments of the structure"):
        loaded(pair)
    assert loaded(pair, factor=3)[1] is None


def test_what_is_not_packaged_says_so():
    with pytest.raises(TypeError, match="expected an ExportedProgram, got Linear"):
        inductor.aoti_compile_and_package(nn.Linear(2, 2))
    program = torch.export.export(nn.Linear(2, 2), (torch.ones(3, 2),))
    with pytest.raises(ValueError, match="ends with .pt2"):
        inductor.aoti_compile_and_package(program, package_path="net.so")
    with pytest.raises(ValueError, match=r"nothing to choose; got \['max_autotune'\]"):
        inductor.aoti_compile_and_package(program, inductor_configs={"max_autotune": True})
    varying = torch.export.export(
        nn.Linear(2, 2), (torch.ones(3, 2),), dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    with pytest.raises(NotImplementedError, match="fixed sizes"):
        inductor.aoti_compile_and_package(varying)
    with pytest.raises(RuntimeError, match="writes to"):
        inductor.aoti_compile_and_package(torch.export.export(nn.BatchNorm1d(2), (torch.ones(3, 2),)))


# --- hostile packages -----------------------------------------------------------------------------------------------------------
def changed(data, change, name="model.json"):
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        for member in old.namelist():
            new.writestr(member, change(old.read(member)) if member == name else old.read(member))
    return io.BytesIO(file.getvalue())


def test_descriptions_that_were_changed_are_refused():
    data, (_, args, kwargs) = packed("several"), MODELS["several"]
    edits = [
        lambda d: d.update(processor="another"),
        lambda d: d.update(version=2),
        lambda d: d.update(version=True),
        lambda d: d.update(workspace=-1),
        lambda d: d.update(workspace=1 << 60),
        lambda d: d.update(inputs={}),
        lambda d: d["inputs"].append(3),
        lambda d: d["inputs"][0].update(dtype="float33"),
        lambda d: d["inputs"][0].update(shape=[-1]),
        lambda d: d["inputs"][0].update(shape=[1 << 62]),
        lambda d: d["outputs"][0].update(shape="ab"),
        lambda d: d.update(in_spec="[1, {}]"),
        lambda d: d.update(out_spec="import os"),
        lambda d: d.pop("weights"),
        lambda d: d.update(more=1),
    ]
    for edit in edits:

        def change(text, edit=edit):
            described = json.loads(text)
            edit(described)
            return json.dumps(described).encode()

        with pytest.raises(RuntimeError, match="processor|no whole package"):
            inductor.aoti_load_package(changed(data, change))
    rng = random.Random(0)
    for _ in range(300):

        def damage(text):
            at = rng.randrange(len(text))
            return (
                text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :] if rng.random() < 0.8 else text[:at]
            )

        try:
            inductor.aoti_load_package(changed(data, damage))(*args, **kwargs)
        except (RuntimeError, ValueError, TypeError):
            continue


def test_archives_that_are_none_are_refused(tmp_path):
    data = packed("mlp")
    for cut in (0, 10, len(data) // 2, len(data) - 5):
        with pytest.raises(RuntimeError, match="no whole package"):
            inductor.aoti_load_package(io.BytesIO(data[:cut]))
    with pytest.raises(RuntimeError, match="no whole package"):
        inductor.aoti_load_package(tmp_path / "absent.pt2")
    with pytest.raises(RuntimeError, match="no whole package"):
        inductor.aoti_load_package(changed(data, lambda code: b"not code", "model.so"))
    with pytest.raises(RuntimeError):
        inductor.aoti_load_package(changed(data, lambda text: text[:-4], "model.safetensors"))
    file = io.BytesIO(data)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("../escaped", b"x")
    with pytest.raises(RuntimeError, match="other names"):
        inductor.aoti_load_package(file)
    with pytest.raises(ValueError, match="the only one"):
        inductor.aoti_load_package(io.BytesIO(data), "other")
