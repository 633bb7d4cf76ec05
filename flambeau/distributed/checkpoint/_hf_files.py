"""Files of safetensors with chunks of tensors: how they are named, written, and put together to whole tensors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._files.replacing import replacing
from ..._files.safetensors import SafetensorError, _bytes, _header, safe_open
from ..._tensor import Tensor
from ...core.base.dtypes import Size
from ...core.make.create import empty
from .default_planner import _check_complete, _check_fits
from .metadata import ChunkStorageMetadata, TensorProperties, TensorStorageMetadata
from .planner_helpers import _narrowed

INDEX = "model.safetensors.index.json"
SUFFIX = ".safetensors"
SHARDED_FOLDER = "sharded"
_SHARDING = "DCP_SHARDING_INFO"
_OFFSETS = "saved_offsets"


def file_name(index: int, count: int, shard: int | None = None) -> str:
    """The name of file `index` of `count`, for a rank's chunks with its number from 1."""
    begin = "" if shard is None else f"shard-{shard:05}-"
    return f"{begin}model-{index:05}-of-{count:05}{SUFFIX}"


def write_tensors(stream: Any, tensors: Mapping[str, Tensor], offsets: Mapping[str, Sequence[int]]) -> None:
    """Write tensors, each a chunk that begins at an offset in the whole."""
    sharding = {name: {_OFFSETS: list(offset)} for name, offset in offsets.items()}
    header, ordered = _header(
        tensors, {_SHARDING: json.dumps(sharding), "DCP_VERSION": "1.0", "format": "pt"}
    )
    stream.write(header)
    for tensor in ordered:
        stream.write(_bytes(tensor))


def write_index(path: str | os.PathLike[str], files: Mapping[str, str], nbytes: int) -> None:
    """Write which file each tensor is in, as Hugging Face's libraries read it."""
    text = json.dumps({"metadata": {"total_size": nbytes}, "weight_map": dict(files)}, indent=2)
    with replacing(os.fspath(path), fsync=True) as stream:
        stream.write(text.encode())


def chunks_in(path: str) -> Iterator[tuple[str, ChunkStorageMetadata, Any]]:
    """The chunks in a file: name, box, dtype.  SafetensorError where the file is damaged."""
    with safe_open(path) as file:
        offsets = _offsets(path, (file.metadata() or {}).get(_SHARDING))
        for name in file.keys():
            place = file._places[name]
            offset = offsets.get(name, [0] * len(place.shape))
            if len(offset) != len(place.shape):
                raise SafetensorError(
                    f"{path!r}: {name!r} has {len(place.shape)} dimensions, its offset {len(offset)}"
                )
            yield name, ChunkStorageMetadata(Size(offset), Size(place.shape)), place.dtype


def _offsets(path: str, text: str | None) -> dict[str, list[int]]:
    """Where chunks begin, as a file says it in its metadata."""
    if text is None:
        return {}
    try:
        result = {name: about[_OFFSETS] for name, about in json.loads(text).items()}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise SafetensorError(f"{path!r}: its {_SHARDING} is damaged: {type(error).__name__}") from error
    for offset in result.values():
        if type(offset) is not list or any(type(n) is not int or not 0 <= n < 2**62 for n in offset):
            raise SafetensorError(f"{path!r}: its {_SHARDING} has an offset that is no list of numbers")
    return result


def tensors_in(
    paths: Sequence[str],
) -> tuple[dict[str, TensorStorageMetadata], dict[tuple[str, tuple[int, ...]], str]]:
    """The tensors that files have chunks of, and which file each chunk is in.  RuntimeError where dtypes of chunks differ."""
    tensors: dict[str, TensorStorageMetadata] = {}
    places: dict[tuple[str, tuple[int, ...]], str] = {}
    for path in paths:
        for name, chunk, dtype in chunks_in(path):
            ends = [begin + n for begin, n in zip(chunk.offsets, chunk.sizes)]
            item = tensors.setdefault(name, TensorStorageMetadata(TensorProperties(dtype), Size(ends), []))
            if item.properties.dtype is not dtype or len(item.size) != len(ends):
                raise SafetensorError(
                    f"{path!r}: {name!r} is of another dtype or has other dimensions than before"
                )
            item.size = Size(map(max, item.size, ends))
            item.chunks.append(chunk)
            places[name, tuple(chunk.offsets)] = path
    return tensors, places


def consolidate(folder: str, into: str, file_of: Mapping[str, int]) -> None:
    """Put the chunks in a folder's files together, to files of whole tensors by their numbers, and write the index.

    RuntimeError where chunks are lacking or overlap, or a tensor has no number.
    """
    tensors, places = tensors_in(sorted(_files(folder)))
    if unknown := sorted(tensors.keys() - file_of.keys()):
        raise RuntimeError(f"fqn_to_index_mapping has no file for {unknown[:5]}")
    numbers = {file_of[name] for name in tensors}
    count = max(file_of.values(), default=1)
    files: dict[str, str] = {}
    nbytes = 0
    for number in sorted(numbers):
        full = {
            name: _full_tensor(name, tensors[name], places) for name in tensors if file_of[name] == number
        }
        nbytes += sum(tensor.nbytes for tensor in full.values())
        name_of_file = file_name(number, count)
        header, ordered = _header(full, {"format": "pt"})
        with replacing(os.path.join(into, name_of_file), fsync=True) as stream:
            stream.write(header)
            for tensor in ordered:
                stream.write(_bytes(tensor))
        files |= dict.fromkeys(full, name_of_file)
    write_index(os.path.join(into, INDEX), files, nbytes)


def _full_tensor(name: str, item: TensorStorageMetadata, places: Mapping[Any, str]) -> Tensor:
    _check_complete(name, item)
    made = empty(item.size, dtype=item.properties.dtype)
    _check_fits(name, item, made)
    for chunk in item.chunks:
        with safe_open(places[name, tuple(chunk.offsets)]) as file:
            _narrowed(made, chunk.offsets, chunk.sizes).copy_(file.get_tensor(name))
    return made


def _files(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(SUFFIX)]
