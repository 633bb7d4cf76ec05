"""A file of PyTorch's formats, checked whole before a byte is written."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from io import BytesIO
from typing import Any

from ..core.base import display
from ..utils.serialization import config
from . import state
from .archive import Writer
from .legacy import MAGIC_NUMBER, PROTOCOL_VERSION
from .locations import moved
from .pickling import Storages, dump

_Write = Callable[[Any], None]


def zip_file(obj: Any, path: str | None, module: Any, protocol: int, byteorder: bool) -> _Write:
    """What writes the zip file of an object to a binary file."""
    _check_byteorder()
    storages = Storages(legacy=False)
    pickled = dump(obj, protocol, module, storages)
    root = "archive" if path is None else root_name(path)
    alignment, checksums = config.save.storage_alignment, config.save.compute_crc32
    skipped = state.local.skip_data

    def write(file: Any) -> None:
        archive = Writer(file.write, alignment=alignment, checksums=checksums)
        names, crcs = [], 0

        def add(name: str, data: Any) -> None:
            nonlocal crcs
            names.append(name)
            crcs ^= archive.add(f"{root}/{name}", data)

        add("data.pkl", pickled)
        add(".format_version", b"1")
        add(".storage_alignment", str(alignment).encode())
        if byteorder:
            add("byteorder", sys.byteorder.encode())
        for i, (storage, _) in enumerate(storages.entries):
            if skipped:
                archive.add_hole(f"{root}/data/{i}", storage.nbytes())
            else:
                add(f"data/{i}", host_bytes(storage))
        add("version", b"3\n")
        add(".data/serialization_id", identity(names, crcs))
        archive.close()

    return write


def stream(obj: Any, module: Any, protocol: int) -> _Write:
    """What writes an object in the format of PyTorch before 1.6."""
    _check_byteorder()
    if state.local.skip_data:
        raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")
    storages = Storages(legacy=True)
    facts = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": struct.calcsize("@l")},
    }
    head = BytesIO()
    for part in (MAGIC_NUMBER, PROTOCOL_VERSION, facts):
        module.dump(part, head, protocol=protocol)
    head.write(dump(obj, protocol, module, storages))
    keys = sorted(str(i) for i in range(len(storages.entries)))
    module.dump(keys, head, protocol=protocol)

    def write(file: Any) -> None:
        file.write(head.getvalue())
        for key in keys:
            storage, kind = storages.entries[int(key)]
            file.write(struct.pack("<q", storage.nbytes() // kind.itemsize))
            file.write(host_bytes(storage))

    return write


def host_bytes(storage: Any) -> memoryview:
    """The bytes of a storage: its own memory on the CPU, a copy from elsewhere."""
    return moved(storage, "cpu")._read_only()


def _check_byteorder() -> None:
    if sys.byteorder != "little":
        raise RuntimeError(f"{display.NAME}.save: files are little-endian, this processor is not")


def root_name(path: str) -> str:
    """The folder in the archive, as PyTorch names it: the file's name without its ending."""
    name = os.path.basename(path)
    stem = name.rpartition(".")[0] if "." in name else name
    try:
        stem.encode("ascii")
    except UnicodeEncodeError:
        return "archive"
    return stem or "archive"


def identity(names: list[str], crcs: int) -> bytes:
    """40 digits that are the same for the same content, as PyTorch's are."""
    from zlib import crc32

    return f"{crc32('/'.join(sorted(names)).encode()):020d}{crcs:020d}".encode()
