"""The entries of a file of `save` by name, as tools that read parts of checkpoints ask for them."""

from __future__ import annotations

import os
from typing import Any

from ..core.base import display
from ..core.base.dtypes import by_name, dtype


class PyTorchFileReader:
    """The records of a checkpoint, without its folder: "data.pkl", "data/0", "byteorder" …

    `name_or_buffer` is a path, or a binary file that can seek. RuntimeError for what is no file of `save`, and for a record
    that is not there or whose checksum is wrong.

    >>> import io
    >>> import flambeau as torch
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.tensor([1.0, 2.0])}, file)
    >>> _ = file.seek(0)
    >>> reader = torch.PyTorchFileReader(file)
    >>> reader.has_record("data/0"), reader.get_record("byteorder")
    (True, b'little')
    >>> reader.get_storage_from_record("data/0", 2, torch.float32)
    tensor([1., 2.])
    """

    def __init__(self, name_or_buffer: Any) -> None:
        from .archive import Archive, Source
        from .reading import root_of

        named = isinstance(name_or_buffer, (str, os.PathLike))
        self._file = open(name_or_buffer, "rb") if named else name_or_buffer
        self._archive = Archive(Source(self._file))
        root = root_of(self._archive)
        if root is None:
            raise RuntimeError(f"{display.NAME}.PyTorchFileReader: {name_or_buffer!r} is no file of save()")
        self._root = root + "/"

    def _entry(self, name: str) -> Any:
        entry = self._archive.entries.get(self._root + name)
        if entry is None:
            raise RuntimeError(f"{display.NAME}.PyTorchFileReader: file not found: {self._root}{name}")
        return entry

    def has_record(self, name: str) -> bool:
        """Whether there is a record of that name."""
        return self._root + name in self._archive.entries

    def get_all_records(self) -> list[str]:
        """The names of all records, in the order of the file."""
        return [n.removeprefix(self._root) for n in self._archive.entries if n.startswith(self._root)]

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        return self._archive.read(self._entry(name).name)

    def get_record_offset(self, name: str) -> int:
        """Where in the file the bytes of a record begin."""
        return self._entry(name).start

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Any:
        """A tensor of `numel` elements with the bytes of a record; of bytes, all of them, where `dtype` is a class of storages."""
        from ..core.make.create import empty

        entry = self._entry(name)
        kind = dtype if isinstance(dtype, _DTYPE) else by_name["uint8"]
        count = numel if kind is dtype else entry.size
        if count * kind.itemsize != entry.size:
            raise RuntimeError(
                f"{display.NAME}.PyTorchFileReader: record {name!r} has {entry.size} bytes, not {count} elements of {kind}"
            )
        made = empty(count, dtype=kind)
        if count:
            made.untyped_storage()._fill(lambda bytes_of: self._archive.fill(entry, bytes_of))
        return made

    def serialization_id(self) -> str:
        """The number that `save` gave the file's contents; "" for a file without one."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""


_DTYPE = dtype
