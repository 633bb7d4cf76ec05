"""Checkpoints that somebody has damaged or made up: nothing runs, and the load raises a clear error or has the right values."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import signal
from pathlib import Path

import chunked
import pytest
import sharded

import flambeau as torch
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint._metadata_file import _StorageInfo, dump_metadata, load_metadata
from flambeau.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

FOLDER = Path(__file__).resolve().parents[1] / "data" / "torch" / "dcp"
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is unavailable")
EACH = 80  # mutations of a kind


@pytest.fixture
def nothing_runs(tmp_path, monkeypatch):
    """What a pickle could call to show that it was run."""
    ran = []
    for name in ("system", "popen", "remove", "rmdir", "execv", "posix_spawn"):
        monkeypatch.setattr(os, name, lambda *args, **kwargs: ran.append(args))
    yield
    assert not ran and not (tmp_path / "ran").exists()


def load_or_error(folder):
    """Load a folder; the message of the error, None where the values are right."""
    state = chunked.state(0, 1, False)
    try:
        dcp.load(state, checkpoint_id=folder)
    except dcp.CheckpointException as error:
        ((result, _),) = error.failures.values()
        assert isinstance(result, (RuntimeError, ValueError, OSError, AssertionError)), repr(result)
        assert len(str(result)) > 10
        return str(result)
    chunked.compare(state, 0, 1)
    return None


def mutations(content: bytes, seed: int):
    """Bytes flipped, ranges overwritten or taken out, ends cut off."""
    rng = random.Random(seed)
    for k in range(EACH):
        data, at = bytearray(content), rng.randrange(len(content))
        if k % 4 == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif k % 4 == 1:
            data[at] = rng.randrange(256)
        elif k % 4 == 2:
            del data[at : at + rng.randrange(1, 9)]
        else:
            del data[at:]
        yield bytes(data)


@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp", "__1_0.distcp"])
@pytest.mark.parametrize("saved", ["of_2", "of_4"])
def test_damaged_files_raise_or_load_right(saved, name, tmp_path, nothing_runs):
    shutil.copytree(FOLDER / saved, tmp_path / "all")
    content, errors = (tmp_path / "all" / name).read_bytes(), 0
    for data in mutations(content, len(content)):
        (tmp_path / "all" / name).write_bytes(data)
        errors += load_or_error(tmp_path / "all") is not None
    assert errors > EACH // 4  # most of the others are flips that change nothing that is read


class Evil:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def evil_pickles(marker):
    yield pickle.dumps(Evil(os.system, (f"touch {marker}",)))
    yield pickle.dumps(Evil(eval, ("__import__('os').system('x')",)))
    yield pickle.dumps(Evil(open, (marker, "w")))
    yield pickle.dumps({"state_dict_metadata": Evil(exec, (f"open({marker!r}, 'w')",))})
    yield f"cposix\nsystem\n(X{len(marker) + 6:c}\0\0\0touch {marker}tR.".encode("latin-1")
    yield b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93\x8c\x02os\x8c\x06system\x93."
    yield b"ctorch.distributed.checkpoint.metadata\nos\n."
    yield b"cpathlib\nPath\n(S'x'\ntR\x8c\x05touchR."
    for protocol in range(6):
        yield pickle.dumps([1, 2, 3], protocol)
        yield pickle.dumps(Evil(Path.touch, (Path(marker),)), protocol)
    yield b""
    yield b"\x80\x04"
    yield b"." * 100
    yield b"\x80\x04" + b"]" * 5000 + b"."
    yield b"\x80\x04" + b"(" * 100_000


def test_other_pickles_in_place_of_metadata(tmp_path):
    shutil.copytree(FOLDER / "of_1", tmp_path / "all")
    for data in evil_pickles(str(tmp_path / "ran")):
        (tmp_path / "all" / ".metadata").write_bytes(data)
        assert ".metadata" in load_or_error(tmp_path / "all")
    assert not (tmp_path / "ran").exists()


def test_objects_of_a_checkpoint_are_not_run(tmp_path):
    """An object is a file of `save`: one that calls something is refused, until it is allowed by name."""
    dcp.save({"x": Allowed(3)}, checkpoint_id=tmp_path / "x")
    for call in (Evil(os.system, (f"touch {tmp_path}/ran",)), Evil(open, (f"{tmp_path}/ran", "w"))):
        dcp.save({"x": call}, checkpoint_id=tmp_path / "evil")
        with pytest.raises(
            dcp.CheckpointException, match=r"\.distcp', 'x'(.|\n)*(blocked|not an allowed global)"
        ):
            dcp.load({"x": 0}, checkpoint_id=tmp_path / "evil")
    assert not (tmp_path / "ran").exists()
    with pytest.raises(dcp.CheckpointException, match="add_safe_globals"):
        dcp.load({"x": 0}, checkpoint_id=tmp_path / "x")
    with torch.serialization.safe_globals([Allowed]):
        state = {"x": 0}
        dcp.load(state, checkpoint_id=tmp_path / "x")
    assert state["x"].value == 3


class Allowed:
    def __init__(self, value):
        self.value = value


def size(*numbers):
    return torch.Size(numbers)


def made_up(**changes):
    """Metadata of a tensor of four elements, with something wrong in it."""
    told = dict(
        dims=size(4),
        offsets=size(0),
        sizes=size(4),
        path="__0_0.distcp",
        begin=0,
        length=1000,
        dtype=torch.float32,
    )
    told |= changes
    chunk = ChunkStorageMetadata(told["offsets"], told["sizes"])
    item = TensorStorageMetadata(TensorProperties(told["dtype"]), told["dims"], [chunk])
    place = _StorageInfo(told["path"], told["begin"], told["length"])
    return Metadata({"x": item}, {"x": ("x",)}, {MetadataIndex("x", told["offsets"]): place})


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(path="/etc/passwd"), "not in the checkpoint's folder"),
        (dict(path="../x"), "not in the checkpoint's folder"),
        (dict(path="a/../../x"), "not in the checkpoint's folder"),
        (dict(path=""), "not in the checkpoint's folder"),
        (dict(path="a\0b"), "not in the checkpoint's folder"),
        (dict(path=7), "the file of 'x' is 7"),
        (dict(path="lacking"), "No such file"),
        (dict(path="pipe"), "is no regular file"),
        (dict(path="folder"), "Is a directory|is no regular file"),
        (dict(begin=-1), "is no number of at least 0"),
        (dict(begin=1 << 70), "is no number of at least 0"),
        (dict(begin=1 << 62), "the item ends at byte"),
        (dict(begin="0"), "is no number of at least 0"),
        (dict(length=True), "is no number of at least 0"),
        (dict(offsets=size(1)), "lies outside of the tensor's size"),
        (dict(sizes=size(5)), "lies outside of the tensor's size"),
        (dict(sizes=size(2, 2)), "has other dimensions than the tensor"),
        (dict(dims=size(1 << 40, 1 << 40)), "number of elements of 'x'"),
        (dict(dims=[4]), "the size of 'x' is list"),
        (dict(dtype="float32"), "the dtype of 'x' is"),
        (dict(dtype=torch.int32), "the file has a tensor of .*float32"),
        (dict(sizes=size(3)), "has 3 of 4 elements"),
    ],
)
def test_made_up_metadata(changes, said, tmp_path):
    dcp.save({"x": torch.arange(4.0)}, checkpoint_id=tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    length = os.path.getsize(tmp_path / "__0_0.distcp")
    (tmp_path / ".metadata").write_bytes(dump_metadata(made_up(**{"length": length} | changes)))
    signal.alarm(60)  # a pipe must not hang
    with pytest.raises(dcp.CheckpointException, match=said):
        dcp.load(
            {
                "x": torch.zeros(
                    4, dtype=changes.get("dtype") if changes.get("dtype") is torch.int32 else None
                )
            },
            checkpoint_id=tmp_path,
        )
    signal.alarm(0)


def test_metadata_that_do_not_hold_together():
    x = made_up()
    for change, said in (
        (
            lambda m: m.state_dict_metadata.update(x=BytesStorageMetadata),
            "Can't|not an allowed|'x' is type|x. is",
        ),
        (lambda m: m.state_dict_metadata.update({7: BytesStorageMetadata()}), "the name of an item is 7"),
        (lambda m: setattr(m, "storage_data", [1]), "the places of items are a list"),
        (lambda m: setattr(m, "storage_data", {"x": 1}), "a place is that of 'x'"),
        (lambda m: setattr(m, "storage_meta", 3), "the identity of the checkpoint is 3"),
        (lambda m: setattr(m, "version", 3), "the version is 3"),
        (lambda m: m.state_dict_metadata["x"].chunks.append(3), "a chunk of 'x' is 3"),
        (lambda m: setattr(m.state_dict_metadata["x"], "chunks", None), "the chunks of 'x' are None"),
        (lambda m: delattr(m.state_dict_metadata["x"], "size"), "has no size"),
        (lambda m: setattr(m.state_dict_metadata["x"], "properties", 3), "the properties of 'x' are 3"),
        (lambda m: delattr(m, "state_dict_metadata"), "has no state_dict_metadata"),
    ):
        wrong = pickle.loads(pickle.dumps(x))
        change(wrong)
        with pytest.raises((RuntimeError, pickle.UnpicklingError), match=said):
            load_metadata(dump_metadata(wrong))


def test_chunks_that_overlap_are_refused(tmp_path):
    dcp.save({"x": torch.arange(4.0)}, checkpoint_id=tmp_path)
    metadata = dcp.FileSystemReader(tmp_path).read_metadata()
    metadata.state_dict_metadata["x"].chunks.append(ChunkStorageMetadata(size(1), size(3)))
    metadata.storage_data[MetadataIndex("x", [1])] = metadata.storage_data[MetadataIndex("x", [0])]
    (tmp_path / ".metadata").write_bytes(dump_metadata(metadata))
    with pytest.raises(dcp.CheckpointException, match="chunks of 'x' overlap"):
        dcp.load({"x": torch.zeros(4)}, checkpoint_id=tmp_path)


def test_damaged_safetensors(tmp_path, nothing_runs):
    shutil.copytree(FOLDER / "hf_2", tmp_path / "all")
    path = sorted((tmp_path / "all").iterdir())[0]
    content, errors = path.read_bytes(), 0
    header = content[: 8 + int.from_bytes(content[:8], "little")]
    for data in mutations(header, 3):
        path.write_bytes(data + content[len(header) :])
        state = {
            key: value for key, value in chunked.state(0, 1, False)["model"].items() if key in sharded.cut()
        }
        try:
            dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(str(tmp_path / "all")))
        except dcp.CheckpointException as error:
            assert all(
                isinstance(result, (RuntimeError, ValueError)) for result, _ in error.failures.values()
            )
            errors += 1
    assert errors > EACH // 2
