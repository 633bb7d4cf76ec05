"""Files that PyTorch wrote, kept under tests/data/torch (tools/checkpoints_of_torch.py made them)."""

from __future__ import annotations

import io
import pickle
import zipfile

import checkpoints
import pytest

import flambeau
from flambeau import nn

KEPT = sorted(checkpoints.FOLDER.glob("*.pt"))


def content(path):
    return checkpoints.CONTENTS.get(path.name.partition(".")[0], checkpoints.old_tensors)(flambeau)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
@pytest.mark.parametrize("weights_only", [True, False])
def test_what_pytorch_wrote_is_read(path, weights_only):
    if weights_only and path.name.startswith("model"):
        with pytest.raises(
            pickle.UnpicklingError, match="torch.nn.modules.container.Sequential was not an allowed"
        ):
            flambeau.load(path)
        allowed = [nn.Sequential, nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.Flatten, nn.Linear]
        with flambeau.serialization.safe_globals(allowed):
            found = flambeau.load(path)
    else:
        found = flambeau.load(path, weights_only=weights_only)
    checkpoints.same(found, content(path))
    if "tensors" in path.name:
        checkpoints.shares(found)
        found["row"].fill_(7)
        assert found["whole"][1].tolist() == [7.0] * 4


@pytest.mark.parametrize("path", [path for path in KEPT if ".zip" in path.name], ids=lambda path: path.stem)
def test_what_pytorch_wrote_is_mapped(path):
    checkpoints.same(flambeau.load(path, mmap=True, weights_only=False), content(path))


@pytest.mark.parametrize(
    "name", ["tensors", "dtypes", "parameters", "containers", "training", "sparse", "compressed", "quantised"]
)
def test_ours_are_pytorchs_byte_for_byte(name):
    """Where no addresses are written: in zip files, all but the identity of the file."""
    kept = checkpoints.FOLDER / f"{name}.zip.pt"
    ours = io.BytesIO()
    flambeau.save(checkpoints.CONTENTS[name](flambeau), ours)
    with zipfile.ZipFile(kept) as theirs, zipfile.ZipFile(ours) as archive:
        assert archive.namelist() == theirs.namelist()
        for a, b in zip(archive.infolist(), theirs.infolist(), strict=True):
            assert (a.header_offset, a.file_size, a.flag_bits) == (b.header_offset, b.file_size, b.flag_bits)
            if not a.filename.endswith("serialization_id"):
                assert archive.read(a) == theirs.read(b), a.filename
    assert len(ours.getvalue()) == kept.stat().st_size


def test_a_whole_module_runs():
    found = flambeau.load(checkpoints.FOLDER / "model.zip.pt", weights_only=False)
    x = flambeau.arange(4.0).reshape(1, 1, 2, 2)
    assert flambeau.equal(found(x), checkpoints.model(flambeau)(x))


def test_what_we_lack_is_refused_by_name():
    for written in (b"\x80\x02ctorch\nquint2x4\n.", b"\x80\x02ctorch\nQUInt2x4Storage\n."):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("m/data.pkl", written)
            archive.writestr("m/version", b"3\n")
        for weights_only in (True, False):
            file.seek(0)
            with pytest.raises(
                (RuntimeError, AttributeError), match="the file holds .*quint2x4.*flambeau does not have"
            ):
                flambeau.load(file, weights_only=weights_only)


def test_torchscript_is_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("data.pkl", "code/__torch__.py", "constants.pkl", "version"):
            archive.writestr(f"m/{name}", b"")
    file.seek(0)
    with pytest.raises(RuntimeError, match="a TorchScript archive"):
        flambeau.load(file)


LAYERS = [
    *(
        nn.Linear(3, 2),
        nn.Conv2d(2, 4, 3, padding_mode="reflect"),
        nn.BatchNorm1d(3),
        nn.InstanceNorm2d(2, affine=True),
    ),
    *(
        nn.LSTM(2, 3),
        nn.MultiheadAttention(4, 2),
        nn.Embedding(4, 3),
        nn.ChannelShuffle(2),
        nn.TransformerEncoderLayer(4, 2, 8),
    ),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_whole_layers_are_named_as_pytorchs(layer):
    file = io.BytesIO()
    flambeau.save(layer, file)
    with zipfile.ZipFile(file) as archive:
        text = archive.read("archive/data.pkl")
    assert b"flambeau" not in text and f"\n{type(layer).__name__}\n".encode() in text
    file.seek(0)
    checkpoints.same(flambeau.load(file, weights_only=False), layer)


@pytest.mark.parametrize(
    "name",
    [n for n in nn.__all__ if isinstance(getattr(nn, n, None), type)]
    if hasattr(nn, "__all__")
    else sorted(n for n in dir(nn) if isinstance(getattr(nn, n), type)),
)
def test_every_class_of_nn_is_found_under_its_name_in_files(name):
    from flambeau._files import names

    kind = getattr(nn, name)
    module, own = names.in_files(kind.__module__, kind.__qualname__)
    assert module.startswith("torch") and names.find(module, own) is kind
