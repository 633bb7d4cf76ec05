"""The storage that a save or a load uses: the one it is given, or the one for its `checkpoint_id`."""

from __future__ import annotations

import os
from typing import Any

from .filesystem import FileSystemReader, FileSystemWriter


def _storage_setup(storage: Any, checkpoint_id: str | os.PathLike[str] | None, reader: bool = False) -> Any:
    """A StorageReader or StorageWriter, reset.  RuntimeError where there is none for the `checkpoint_id`."""
    if storage is not None:
        if checkpoint_id is not None:
            storage.reset(checkpoint_id)
        return storage
    if not checkpoint_id:
        raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
    kind = FileSystemReader if reader else FileSystemWriter
    if not kind.validate_checkpoint_id(checkpoint_id):
        raise RuntimeError(
            "Cannot detect which StorageReader or StorageWriter to use for "
            f"{os.fspath(checkpoint_id)!r}: it is no path in a folder that can be written to. Please specify the "
            "storage_reader/storage_writer."
        )
    return kind(checkpoint_id)
