"""The safetensors format, both ways, with the package `safetensors` as the judge."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import flambeau
from flambeau import nn
from flambeau.utils.safetensors import (
    SafetensorError,
    load,
    load_file,
    load_model,
    safe_open,
    save,
    save_file,
    save_model,
)

DTYPES = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 complex64".split()


def tensors():
    made = {name: flambeau.tensor([[0, 1, 2], [1, 0, 5]]).to(getattr(flambeau, name)) for name in DTYPES}
    return made | {"empty": flambeau.empty(0, 3), "number": flambeau.tensor(2.5), "é": flambeau.arange(3)}


def test_the_package_reads_ours(tmp_path):
    made = tensors()
    save_file(made, tmp_path / "a.safetensors", {"by": "us"})
    found = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    assert set(found) == set(made)
    for name, array in found.items():
        assert (
            str(array.dtype) == str(made[name].dtype).rpartition(".")[2]
            and array.tolist() == made[name].tolist()
        )
    with safetensors.safe_open(tmp_path / "a.safetensors", "np") as file:
        assert file.metadata() == {"by": "us"}


def test_we_read_the_packages(tmp_path):
    arrays = {name: t.numpy() for name, t in tensors().items()}
    safetensors.numpy.save_file(arrays, tmp_path / "a.safetensors", {"by": "them"})
    for found in (load_file(tmp_path / "a.safetensors"), flambeau.load(tmp_path / "a.safetensors")):
        assert set(found) == set(arrays)
        for name, t in found.items():
            assert (
                str(t.dtype).rpartition(".")[2] == str(arrays[name].dtype)
                and t.tolist() == arrays[name].tolist()
            )
            assert list(t.shape) == list(arrays[name].shape)
    with safe_open(tmp_path / "a.safetensors", "np") as file:
        assert isinstance(file.get_tensor("int16"), np.ndarray) and file.metadata() == {"by": "them"}
        assert file.get_slice("int16").get_shape() == [2, 3] and file.get_slice("int16").get_dtype() == "I16"
        assert set(file.offset_keys()) == set(file.keys()) == set(arrays)
        with pytest.raises(SafetensorError, match="does not contain tensor 'x'"):
            file.get_tensor("x")


def test_bytes_are_the_packages():
    made = {name: t for name, t in tensors().items() if name != "complex64"}
    assert save(made) == safetensors.numpy.save({name: t.numpy() for name, t in made.items()})
    found = load(save(tensors()))
    assert all(found[name].tolist() == t.tolist() for name, t in tensors().items())
    found["int16"][0, 0] = 9
    half = {"h": flambeau.tensor([1.5, 2.5]).to(flambeau.bfloat16)}
    assert load(save(half))["h"].tolist() == [1.5, 2.5]


def test_tensors_lie_in_the_mapped_file(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"x": flambeau.arange(8), "y": flambeau.ones(2)}, path)
    found = load_file(path)
    found["x"][0] = 5
    assert found["x"].tolist()[:2] == [5, 1] and load_file(path)["x"].tolist()[0] == 0
    assert abs(found["x"].data_ptr() - found["y"].data_ptr()) == 64


PACKAGE = """
import sys
import flambeau
sys.modules["torch"] = flambeau
import safetensors.torch as package
from flambeau import nn
path = sys.argv[1]
made = {"a": flambeau.arange(6.0).reshape(2, 3), "b": flambeau.ones(3, dtype=flambeau.int64)}
made["h"] = flambeau.tensor([1.5]).to(flambeau.bfloat16)
package.save_file(made, path, {"by": "them"})
for found in (package.load_file(path), package.load(package.save(made)), flambeau.load(path)):
    assert all(type(found[k]) is flambeau.Tensor and flambeau.equal(found[k], made[k]) for k in made)
with package.safe_open(path, "pt") as file:
    assert file.get_slice("a")[:, 1:].tolist() == [[1, 2], [4, 5]]
try:
    package.save_file({"a": made["a"], "b": made["a"][0]}, path)
    raise SystemExit("shared memory went unnoticed")
except RuntimeError:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    package.save_model(model, path)
    other = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    other[1].weight = other[0].weight
    assert package.load_model(other, path) == (set(), [])
    assert flambeau.equal(other[1].weight, model[0].weight)
"""


def test_the_package_works_on_our_tensors(tmp_path):
    """`safetensors.torch`, where `torch` is flambeau."""
    done = subprocess.run(
        [sys.executable, "-c", PACKAGE, str(tmp_path / "a.safetensors")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def tied():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model


def test_modules(tmp_path):
    path = tmp_path / "a.safetensors"
    model, other = tied(), tied()
    with pytest.raises(RuntimeError, match="share memory"):
        save_file(model.state_dict(), path)
    save_model(model, path, {"note": "x"})
    assert load_model(other, path) == (set(), [])
    assert all(flambeau.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    with safe_open(path) as file:
        assert file.metadata() == {"note": "x", "1.weight": "0.weight"}
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict: 2.bias, 2.weight"):
        load_model(nn.Sequential(*tied(), nn.Linear(3, 3)), path)
    assert load_model(nn.Sequential(nn.Linear(3, 3)), path, strict=False) == (set(), ["1.bias"])


@pytest.mark.parametrize(
    "made, error, what",
    [
        ({"a": flambeau.ones(2, 3).t()}, ValueError, "non contiguous tensor: `a`"),
        ({"a": flambeau.ones(2).to(flambeau.complex128)}, ValueError, "'a' is of flambeau.complex128"),
        ({1: flambeau.ones(2)}, TypeError, "Key `1` is invalid"),
        ({"a": [1.0]}, TypeError, "Key `a` is invalid"),
        ([flambeau.ones(2)], ValueError, "Expected a dict"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, made, error, what):
    with pytest.raises(error, match=what):
        save_file(made, tmp_path / "a.safetensors")
    assert os.listdir(tmp_path) == []
    with pytest.raises(TypeError, match="metadata must be texts"):
        save({}, {"a": 1})


def forged(header, data=bytes(16)):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def one(**changes):
    return {"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} | changes}


def test_the_forgery_itself_is_sound():
    assert load(forged(one()))["x"].tolist() == [0] * 4


BAD = [
    *(
        forged(one(shape=[5])),
        forged(one(shape=[2**62])),
        forged(one(shape=[-4])),
        forged(one(shape=[2.0, 2])),
        forged(one(shape=4)),
    ),
    *(
        forged(one(shape=[2**40, 2**40])),
        forged(one(shape=[1] * 65)),
        forged(one(shape=[True, 4])),
        forged(one(shape=[10**400])),
    ),
    *(
        forged(one(data_offsets=[0, 15])),
        forged(one(data_offsets=[16, 0])),
        forged(one(data_offsets=[2**62, 2**62 + 16])),
    ),
    *(
        forged(one(data_offsets=[4, 20]), bytes(20)),
        forged(one(), bytes(17)),
        forged(one(), bytes(15)),
        forged(one(data_offsets=[0])),
    ),
    *(
        forged(one(dtype="F8_E4M3")),
        forged(one(dtype="float32")),
        forged(one(dtype=None)),
        forged(one(more=1)),
        forged({"x": [1]}),
    ),
    *(
        forged({"x": {}}),
        forged([]),
        forged(b""),
        forged(b"null"),
        forged(b"{"),
        forged(b'{"x":NaN}'),
        forged(b" {}"),
        forged(b"{\xff}"),
    ),
    *(
        forged(b"{" + b'"a":{' * 100_000),
        forged({"__metadata__": {"a": 1}} | one()),
        forged({"__metadata__": []} | one()),
    ),
    *(
        b"",
        b"abc",
        struct.pack("<Q", 2**63),
        struct.pack("<Q", 10**8 + 1) + b"{}",
        struct.pack("<Q", 100) + b"{}",
    ),
    forged(
        b'{"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
    ),
    forged(one() | {"y": {"dtype": "F32", "shape": [4], "data_offsets": [8, 24]}}, bytes(24)),
    forged(one() | {"y": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}),
]


@pytest.mark.parametrize("content", BAD, ids=range(len(BAD)))
def test_wrong_files_are_refused(tmp_path, content):
    with pytest.raises(SafetensorError):
        load(content)
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(SafetensorError, match="flambeau: '.*a.safetensors': ") as caught:
        load_file(tmp_path / "a.safetensors")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_never_gives_another_error(seed):
    rng, content = random.Random(seed), save(tensors(), {"a": "b"})
    for _ in range(50):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(len(damaged) - 120)
            damaged[i : i + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 3))
        try:
            load(bytes(damaged))
        except SafetensorError:
            continue
