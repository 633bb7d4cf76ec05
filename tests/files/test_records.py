"""Records of a checkpoint by name."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

import flambeau as torch


def saved(value) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def test_records_are_what_was_saved(tmp_path):
    weights = {"a": torch.arange(6, dtype=torch.int32), "b": torch.zeros(0), "c": torch.randn(3, 2)}
    file = saved(weights)
    (tmp_path / "file.pt").write_bytes(file.getvalue())
    for source in (file, tmp_path / "file.pt", str(tmp_path / "file.pt")):
        reader = torch.PyTorchFileReader(source)
        assert {"data.pkl", "byteorder", "data/0", "data/1", "data/2"} <= set(reader.get_all_records())
        assert reader.has_record("data/1") and not reader.has_record("data/9")
        for key, (name, tensor) in enumerate(weights.items()):
            record = reader.get_record(f"data/{key}")
            assert record == tensor.numpy().tobytes(), name
            start = reader.get_record_offset(f"data/{key}")
            assert file.getvalue()[start : start + len(record)] == record
            got = reader.get_storage_from_record(f"data/{key}", tensor.numel(), tensor.dtype)
            np.testing.assert_array_equal(got.numpy(), tensor.numpy().ravel())
            raw = reader.get_storage_from_record(f"data/{key}", 0, torch.UntypedStorage)
            assert raw.dtype == torch.uint8 and raw.numpy().tobytes() == record
        assert len(reader.serialization_id()) == 40


def test_what_is_wrong_is_said():
    file = saved({"a": torch.ones(4)})
    reader = torch.PyTorchFileReader(file)
    with pytest.raises(RuntimeError, match="file not found: .*/nothing"):
        reader.get_record("nothing")
    with pytest.raises(RuntimeError, match="has 16 bytes, not 5 elements"):
        reader.get_storage_from_record("data/0", 5, torch.float32)
    bad = bytearray(file.getvalue())
    at = bytes(bad).find(struct.pack("<4f", 1, 1, 1, 1))
    bad[at] ^= 1
    broken = torch.PyTorchFileReader(io.BytesIO(bytes(bad)))
    for read in (
        lambda: broken.get_record("data/0"),
        lambda: broken.get_storage_from_record("data/0", 4, torch.float32),
    ):
        with pytest.raises(RuntimeError, match="CRC"):
            read()
    for text in (b"", b"PK\5\6", b"hello world" * 10):
        with pytest.raises(RuntimeError):
            torch.PyTorchFileReader(io.BytesIO(text))
