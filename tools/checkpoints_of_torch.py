"""Files of PyTorch, and whether PyTorch and flambeau read each other's.

    python tools/checkpoints_of_torch.py           # writes tests/data/torch with PyTorch, then checks both directions
    python tools/checkpoints_of_torch.py --check   # checks only

Needs PyTorch (2.13 wrote what is kept).  The tests read the kept files without it.
"""

from __future__ import annotations

import argparse
import io
import pickle
import struct
import sys
import tarfile
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "files")]

import checkpoints  # noqa: E402
import torch  # noqa: E402
import torch._dynamo  # noqa: E402  what PyTorch needs to read nested tensors
import torch.nested._internal.nested_tensor  # noqa: E402

import flambeau  # noqa: E402

FORMATS: dict[str, dict[str, Any]] = {"zip": {}, "legacy": {"_use_new_zipfile_serialization": False}}
WHOLE = ("model", "containers")  # what `weights_only=True` does not read


def formats(name: str) -> list[tuple[str, dict[str, Any]]]:
    """The formats that a content is kept in: PyTorch does not read nested tensors and dtypes of after 1.6 from the one of before."""
    return [item for item in FORMATS.items() if item[0] != "legacy" or name not in ("nested", "dtypes")]


def as_1_6(content: bytes) -> bytes:
    """A zip file as PyTorch 1.6 wrote it: no word of byte order, alignment or identity."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            if name.rpartition("/")[2] == "data.pkl" or "/data/" in name or name.endswith("/version"):
                new.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), old.read(name))
    return made.getvalue()


def as_tar(obj: Any) -> bytes:
    """The tar archive of PyTorch before 0.1.10, after its reader: storages, tensors by number, and a pickle that names these."""
    tensors: dict[int, Any] = {}
    storages: dict[int, Any] = {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, x: Any) -> Any:
            if not isinstance(x, torch.Tensor):
                return None
            tensors[id(x)] = x
            return str(id(x))

    main = io.BytesIO()
    Pickler(main, 2).dump(obj)
    for t in tensors.values():
        storages.setdefault(t.untyped_storage().data_ptr(), t)
    first = io.BytesIO()
    pickle.dump(len(storages), first, 2)
    for key, t in storages.items():
        typed = t.storage()
        kind = getattr(torch, typed.pickle_storage_type())
        pickle.dump((key, "cpu", kind), first, 2)
        first.write(struct.pack("<q", typed.size()) + bytes(typed.untyped()))
    pickle.dump([], first, 2)
    second = io.BytesIO()
    pickle.dump(len(tensors), second, 2)
    for key, t in tensors.items():
        pickle.dump((key, t.untyped_storage().data_ptr(), type(t)), second, 2)
        numbers = (*t.shape, *t.stride(), t.storage_offset())
        second.write(struct.pack(f"<ii{len(numbers)}q", t.ndim, 0, *numbers))
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in (
            ("sys_info", pickle.dumps({}, 2)),
            ("storages", first),
            ("tensors", second),
            ("pickle", main),
        ):
            data = content if isinstance(content, bytes) else content.getvalue()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def no_source(cls: type) -> Any:
    """For PyTorch's first format, which keeps the source of modules and the path it came from."""
    raise OSError("not to be kept")


def write() -> None:
    """The files that the tests read."""
    torch.serialization.get_source_lines_and_file = no_source
    checkpoints.FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in checkpoints.CONTENTS.items():
        for form, options in formats(name):
            file = io.BytesIO()
            torch.save(make(torch), file, **options)
            (checkpoints.FOLDER / f"{name}.{form}.pt").write_bytes(file.getvalue())
            if form == "zip":
                (checkpoints.FOLDER / f"{name}.zip16.pt").write_bytes(as_1_6(file.getvalue()))
    (checkpoints.FOLDER / "old_tensors.tar.pt").write_bytes(as_tar(checkpoints.old_tensors(torch)))


def check_saved() -> None:
    """That PyTorch reads what is kept, so that it is no invention of ours, and so does flambeau."""
    for path in sorted(checkpoints.FOLDER.glob("*.pt")):
        name = path.name.partition(".")[0]
        make = checkpoints.CONTENTS.get(name, checkpoints.old_tensors)
        for library in (torch, flambeau):
            loaded = library.load(path, weights_only=False)
            checkpoints.same(loaded, make(library), f"{library.__name__}: {path.name}")


def check_ours() -> None:
    """That PyTorch reads what flambeau writes, byte for byte what it writes itself where it can be compared."""
    for name, make in checkpoints.CONTENTS.items():
        for form, options in formats(name):
            ours, theirs = io.BytesIO(), io.BytesIO()
            flambeau.save(make(flambeau), ours, **options)
            torch.save(make(torch), theirs, **options)
            for only in (True, False) if name not in WHOLE else (False,):
                ours.seek(0)
                loaded = torch.load(ours, weights_only=only)
                checkpoints.same(loaded, make(torch), f"PyTorch: {name}, {form}")
            # Caches and compiler's notes of nested tensors are not written, and there are no views that are computed when read.
            if form == "zip" and name not in ("nested", "lazy"):
                a, b = zipfile.ZipFile(ours), zipfile.ZipFile(theirs)
                assert a.namelist() == b.namelist()
                for entry in a.namelist():
                    if name != "model" and "serialization_id" not in entry:
                        assert a.read(entry) == b.read(entry), (name, entry)


LAYERS = """
Linear(3, 2) | Bilinear(2, 3, 4) | Conv1d(2, 4, 3) | Conv2d(2, 4, 3, stride=2, padding=1, padding_mode='reflect')
Conv2d(2, 2, 3, padding='same', padding_mode='circular') | Conv3d(1, 2, 2) | ConvTranspose2d(2, 3, 2) | BatchNorm1d(3)
BatchNorm2d(3) | InstanceNorm2d(3, affine=True) | GroupNorm(2, 4) | LayerNorm([3]) | RMSNorm([3]) | ReLU() | GELU()
Softmax(dim=1) | PReLU() | Dropout(0.3) | Embedding(4, 3) | EmbeddingBag(4, 3) | LSTM(2, 3, num_layers=2) | GRU(2, 3)
RNN(2, 3) | LSTMCell(2, 3) | GRUCell(2, 3) | MultiheadAttention(4, 2) | TransformerEncoderLayer(4, 2, 8)
TransformerDecoderLayer(4, 2, 8) | Transformer(4, 2, 1, 1, 8) | MaxPool2d(2) | AvgPool2d(2) | AdaptiveAvgPool2d(3)
Upsample(scale_factor=2) | PixelShuffle(2) | ChannelShuffle(2) | CrossEntropyLoss() | MSELoss() | CTCLoss() | Flatten()
Unflatten(1, (2, 2)) | Fold((4, 4), 2) | Unfold(2) | ZeroPad2d(1) | CosineSimilarity() | Identity() | ParameterList([])
ModuleDict({}) | Hardswish() | Threshold(0.1, 20) | LocalResponseNorm(2) | AdaptiveLogSoftmaxWithLoss(4, 8, [3])
"""


def check_modules() -> list[str]:
    """Which whole modules do not go from one library to the other and back to the same text and state."""
    messages = []
    for text in LAYERS.strip().replace("\n", " | ").split(" | "):
        for source, target in ((torch, flambeau), (flambeau, torch)):
            try:
                module = eval(f"nn.{text}", {"nn": source.nn})
                file = io.BytesIO()
                source.save(module, file)
                file.seek(0)
                made = target.load(file, weights_only=False)
                wanted = eval(f"nn.{text}", {"nn": target.nn})
                assert type(made) is type(wanted) and repr(made) == repr(wanted), "another type or text"
                state, other = module.state_dict(), made.state_dict()
                assert list(state) == list(other), "other names"
                assert all(state[k].tolist() == other[k].tolist() for k in state), "other values"
                if text.startswith(("LSTM(", "GRU(", "RNN(")):
                    made(target.ones(3, 2, 2))
                if text.startswith("Conv2d"):
                    made(target.ones(1, 2, 6, 6))
            except Exception as error:
                messages.append(
                    f"{text}: {source.__name__} to {target.__name__}: {type(error).__name__}: {str(error)[:120]}"
                )
    return messages


def check_big() -> None:
    """That a file with a storage of more than 4 GiB, and another behind it, is read by both."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "big.pt"
        x = flambeau.zeros((1 << 32) + 10, dtype=flambeau.uint8)
        x[-1] = 7
        flambeau.save({"x": x, "y": flambeau.ones(3)}, path)
        del x
        loaded = torch.load(path, mmap=True)
        assert (
            loaded["x"].shape == ((1 << 32) + 10,)
            and loaded["x"][-1] == 7
            and loaded["y"].tolist() == [1, 1, 1]
        )
        loaded = flambeau.load(path, mmap=True)
        assert loaded["x"][-1].item() == 7 and loaded["y"].tolist() == [1, 1, 1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--big", action="store_true", help="also a file of more than 4 GiB, in /dev/shm")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.check:
        write()
    check_saved()
    check_ours()
    if options.big:
        check_big()
    differing = check_modules()
    print(f"PyTorch {torch.__version__}: all kept files and ours are read by both")
    print("\n".join(["whole modules that differ:", *differing]) if differing else "whole modules: all")


if __name__ == "__main__":
    main()
