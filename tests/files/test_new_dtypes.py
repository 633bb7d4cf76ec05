"""Unsigned integers, float8, float4 and complex32 in files: a storage of bytes and a dtype, as PyTorch writes them."""

from __future__ import annotations

import io
import json
import pickletools
import struct
import zipfile

import pytest

import flambeau
from flambeau.utils import safetensors

FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
NAMES = ["uint16", "uint32", "uint64", "complex32", *FLOAT8, "float4_e2m1fn_x2"]
CODES = {
    **{"uint16": "U16", "uint32": "U32", "uint64": "U64"},
    **{"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0"},
    **{"float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ"},
}


def of(name):
    return flambeau.arange(16, dtype=flambeau.uint8).view(getattr(flambeau, name))


def same(a, b):
    return a.dtype == b.dtype and flambeau.equal(a.view(flambeau.uint8), b.view(flambeau.uint8))


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load(name, tmp_path):
    x = of(name)
    flambeau.save({"x": x, "part": x[1:], "bytes": x.view(flambeau.uint8)}, tmp_path / "x.pt")
    for options in ({}, {"mmap": True}, {"map_location": "cpu"}, {"weights_only": False}):
        found = flambeau.load(tmp_path / "x.pt", **options)
        assert same(found["x"], x) and same(found["part"], x[1:])
        assert found["x"].untyped_storage().data_ptr() == found["part"].untyped_storage().data_ptr()
        assert found["bytes"].tolist() == list(range(16))
    old = io.BytesIO()
    flambeau.save(x, old, _use_new_zipfile_serialization=False)
    old.seek(0)
    assert same(flambeau.load(old), x)


@pytest.mark.parametrize("name", NAMES)
def test_files_name_a_storage_of_bytes_and_the_dtype(name):
    file = io.BytesIO()
    flambeau.save(of(name), file)
    with zipfile.ZipFile(file) as archive:
        text = archive.read(next(n for n in archive.namelist() if n.endswith("data.pkl")))
    found = [argument for operation, argument, _ in pickletools.genops(text) if operation.name == "GLOBAL"]
    assert found == [
        "torch._utils _rebuild_tensor_v3",
        "torch.storage UntypedStorage",
        "collections OrderedDict",
        f"torch {name}",
    ]


@pytest.mark.parametrize("name", CODES)
def test_safetensors(name):
    raw = safetensors.save({"x": of(name)})
    (length,) = struct.unpack("<Q", raw[:8])
    assert json.loads(raw[8 : 8 + length])["x"]["dtype"] == CODES[name]
    assert same(safetensors.load(raw)["x"], of(name))


def test_safetensors_puts_the_widest_first():
    made = {name: of(name) for name in CODES} | {
        "a": flambeau.zeros(1),
        "b": flambeau.zeros(1, dtype=flambeau.uint8),
    }
    raw = safetensors.save(made)
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    order = sorted(header, key=lambda name: header[name]["data_offsets"])
    assert order == ["uint64", "a", "uint32", "uint16", *FLOAT8[3:1:-1], FLOAT8[4], FLOAT8[0], FLOAT8[1], "b"]
    assert all(same(found, made[name]) for name, found in safetensors.load(raw).items())


@pytest.mark.parametrize("name", ["complex32", "float4_e2m1fn_x2"])
def test_safetensors_has_not_all(name):
    with pytest.raises(ValueError, match=f"is of flambeau.{name}, which the format does not have"):
        safetensors.save({"x": of(name)})
