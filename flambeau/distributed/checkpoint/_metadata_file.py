"""The pickle that `.metadata` is, written with PyTorch's names and read without running anything.

The reader makes the classes of `metadata` and sets their fields; everything else is as for `load(weights_only=True)`.  What it has made
is checked whole: types of all fields, chunks within their tensors, files within the checkpoint's folder.
"""

from __future__ import annotations

import dataclasses
import math
import pickle
from enum import Enum
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from pickle import UnpicklingError
from typing import Any

from ..._files.errors import count, require, short
from ..._files.pickling import Storages, dump
from ..._files.unpickling import Unpickler
from ...core.base import display
from ...core.base.dtypes import Size, dtype
from . import metadata as ours
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

_PROTOCOL = 4


@dataclasses.dataclass
class _StorageInfo:
    """Where an item is: a file in the checkpoint's folder, and its bytes there."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclasses.dataclass
class _StoragePrefix:
    """How the names of a rank's files begin."""

    prefix: str


for _class in (_StorageInfo, _StoragePrefix):  # where files say that they are
    _class.__module__ = display.public("distributed.checkpoint.filesystem")


# --- writing ------------------------------


def dump_metadata(metadata: Metadata) -> bytes:
    """The pickle of a checkpoint's metadata.  TypeError or PicklingError for planner data that cannot be pickled."""
    return dump(metadata, _PROTOCOL, pickle, Storages(legacy=False))


# --- reading ------------------------------

_FIELDS: dict[type, frozenset[str]] = {
    cls: frozenset(f.name for f in dataclasses.fields(cls))
    for cls in (
        Metadata,
        MetadataIndex,
        TensorStorageMetadata,
        BytesStorageMetadata,
        ChunkStorageMetadata,
        StorageMeta,
        _StorageInfo,
        _StoragePrefix,
    )
}
_PACKAGE = "torch.distributed.checkpoint"
_SHARDED = "torch.distributed._shard.sharded_tensor.metadata"  # where properties stood until PyTorch 2.2
_NAMES: dict[str, Any] = {
    f"{_PACKAGE}.metadata.{name}": getattr(ours, name) for name in (*ours.__all__, "_MEM_FORMAT_ENCODING")
}
_NAMES |= {
    f"{_PACKAGE}.filesystem._StorageInfo": _StorageInfo,
    f"{_PACKAGE}.filesystem._StoragePrefix": _StoragePrefix,
    f"{_SHARDED}.TensorProperties": TensorProperties,
    f"{_SHARDED}.MEM_FORMAT_ENCODING": ours._MEM_FORMAT_ENCODING,
}
for _module in ("pathlib", "pathlib._local"):  # the second since Python 3.13
    _NAMES |= {f"{_module}.{name}": PurePosixPath for name in ("PosixPath", "PurePosixPath")}
    _NAMES |= {f"{_module}.{name}": PureWindowsPath for name in ("WindowsPath", "PureWindowsPath")}
_FORMER_PACKAGE = "torch.distributed._shard.checkpoint"  # PyTorch 1.13


class _MetadataUnpickler(Unpickler):
    """An unpickler that also makes the classes of `metadata`, by setting their fields."""

    def find(self, module: str, name: str) -> Any:
        if module.startswith(f"{_FORMER_PACKAGE}."):
            module = _PACKAGE + module.removeprefix(_FORMER_PACKAGE)
        result = _NAMES.get(f"{module}.{name}")
        return super().find(module, name) if result is None else result

    def new(self, cls: Any, args: Any, keywords: Any) -> Any:
        if isinstance(cls, type) and (cls in _FIELDS or cls is TensorProperties):
            if args or keywords:
                raise UnpicklingError(f"a {cls.__name__} is made of arguments")
            return object.__new__(cls)
        return super().new(cls, args, keywords)

    def build(self, made: Any, state: Any) -> Any:
        fields = _FIELDS.get(type(made))
        if fields is not None:
            if type(state) is not dict or any(type(name) is not str for name in state):
                raise UnpicklingError(f"the fields of a {type(made).__name__} are no dictionary of names")
            if type(made) is MetadataIndex:  # which is a key of a dictionary before the whole is checked
                _check_index(state.get("fqn"), state.get("offset"), state.get("index"))
            self.charge(state)
            for name in fields & state.keys():  # a later PyTorch may have more
                object.__setattr__(made, name, state[name])
            return made
        if type(made) is TensorProperties:
            if type(state) is not tuple or len(state) != 5:
                raise UnpicklingError("the properties of a tensor are no five values")
            if not isinstance(state[3], ours._MEM_FORMAT_ENCODING):
                raise UnpicklingError(f"a memory format is {short(state[3])}")
            made.__setstate__(state)
            return made
        return super().build(made, state)

    def call(self, function: Any, args: Any) -> Any:
        if type(args) is tuple and isinstance(function, type):
            if issubclass(function, Enum):
                if len(args) != 1 or type(args[0]) is not int:
                    raise UnpicklingError(f"a {function.__name__} is made of {len(args)} values")
                return function(args[0])
            if issubclass(function, PurePath):
                if any(type(part) is not str for part in args):
                    raise UnpicklingError("a path is made of something else than texts")
                self.charge(args)
                return function(*args)
        return super().call(function, args)


def load_metadata(data: bytes) -> Metadata:
    """The metadata of a checkpoint, checked.

    Raises:
        UnpicklingError, RuntimeError: the pickle is damaged, names what is not allowed, or does not hold together
    """
    machine = _MetadataUnpickler(data)
    result = machine.load()
    require(
        type(result) is Metadata,
        f"the pickle holds a {type(result).__name__}, not the metadata of a checkpoint",
    )
    _check(result)
    return result


def _attribute(made: Any, name: str) -> Any:
    require(hasattr(made, name), f"a {type(made).__name__} has no {name}")
    return getattr(made, name)


def _is(value: Any, *classes: type) -> bool:
    return type(value) in classes


def _check_index(fqn: Any, offset: Any, index: Any) -> None:
    require(_is(fqn, str), f"the name of an item is {short(fqn)}")
    require(_is(offset, Size, type(None)), f"the offset of {short(fqn)} is {short(offset)}")
    require(_is(index, int, type(None)), f"the index of {short(fqn)} is {short(index)}")


def _check(metadata: Metadata) -> None:
    items = _attribute(metadata, "state_dict_metadata")
    require(_is(items, dict), f"the items of the checkpoint are a {type(items).__name__}")
    for name, item in items.items():
        require(_is(name, str), f"the name of an item is {short(name)}")
        require(_is(item, TensorStorageMetadata, BytesStorageMetadata), f"{short(name)} is {short(item)}")
        if type(item) is TensorStorageMetadata:
            _check_tensor(name, item)
    stored = metadata.storage_data
    require(_is(stored, dict, type(None)), f"the places of items are a {type(stored).__name__}")
    for index, place in (stored or {}).items():
        require(_is(index, MetadataIndex), f"a place is that of {short(index)}")
        _check_index(_attribute(index, "fqn"), index.offset, index.index)
        if type(place) is _StorageInfo:
            _check_place(index.fqn, place)
    meta, version = metadata.storage_meta, metadata.version
    require(_is(meta, StorageMeta, type(None)), f"the identity of the checkpoint is {short(meta)}")
    require(_is(version, str, type(None)), f"the version is {short(version)}")


def _check_tensor(name: str, item: TensorStorageMetadata) -> None:
    properties, size, chunks = (_attribute(item, field) for field in ("properties", "size", "chunks"))
    require(_is(properties, TensorProperties), f"the properties of {short(name)} are {short(properties)}")
    require(
        isinstance(_attribute(properties, "dtype"), dtype),
        f"the dtype of {short(name)} is {short(properties.dtype)}",
    )
    require(_is(size, Size), f"the size of {short(name)} is {short(size)}")
    count(math.prod(size), f"the number of elements of {short(name)}")
    require(_is(chunks, list), f"the chunks of {short(name)} are {short(chunks)}")
    for chunk in chunks:
        require(_is(chunk, ChunkStorageMetadata), f"a chunk of {short(name)} is {short(chunk)}")
        offsets, sizes = _attribute(chunk, "offsets"), _attribute(chunk, "sizes")
        fits = _is(offsets, Size) and _is(sizes, Size) and len(offsets) == len(sizes) == len(size)
        require(fits, f"a chunk of {short(name)} has other dimensions than the tensor")
        within = all(begin + n <= length for begin, n, length in zip(offsets, sizes, size))
        require(within, f"a chunk of {short(name)} lies outside of the tensor's size {list(size)}"[:300])


def _check_place(fqn: str, place: _StorageInfo) -> None:
    path = _attribute(place, "relative_path")
    require(_is(path, str), f"the file of {short(fqn)} is {short(path)}")
    parts = PurePosixPath(path)
    inside = bool(parts.name) and not parts.is_absolute() and ".." not in parts.parts and "\0" not in path
    require(inside, f"the file of {short(fqn)} is not in the checkpoint's folder: {short(path)}")
    count(_attribute(place, "offset"), f"the offset of {short(fqn)} in its file")
    count(_attribute(place, "length"), f"the length of {short(fqn)} in its file")
