"""flambeau's first format, which is read for ever and written no more.

A file is an uncompressed zip archive.  `structure.json` describes the object, with each tensor's dtype,
shape, strides and offset; `storage/0`, `storage/1` … are the raw little-endian bytes the tensors refer to, at
multiples of 64 in the file. Reading one runs no code, whatever it holds: JSON is turned into a fixed set of
types, and every number is checked against the sizes of the entries before memory is requested.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..core.base.dtypes import Size, by_name
from ..core.base.dtypes import device as Device
from ..core.base.memory import Storage
from ..core.make.bridge import frombuffer
from ..core.make.create import empty as new_empty
from ..core.make.create import empty_strided
from ..nn.parameter import Parameter
from . import locations
from .archive import Archive, Entry
from .errors import INT64, Damaged, count, require, short
from .rebuilding import check_geometry

STRUCTURE = "structure.json"
_VERSION = 1
_MAX_DEPTH = 100
_DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)


@contextmanager
def _damage_reported() -> Iterator[None]:
    """Damaged for what the standard library raises when bytes are no such document or value."""
    try:
        yield
    except (ValueError, TypeError, OverflowError, RecursionError, struct.error) as error:
        raise Damaged(str(error)) from error


def read(archive: Archive, map_location: Any, mapped: memoryview | None) -> Any:
    """The object of a file."""
    restore, blank = locations.restorer(map_location), locations.is_meta(map_location)
    with _damage_reported():
        structure = _read_structure(archive)
        entries = _find_storages(archive, structure)
        specs = [_check_tensor(spec, entries) for spec in _field(structure, "tensors", list)]
    storages = [_read_storage(archive, entry, mapped) for entry in entries]
    places: dict[tuple[int, str], Any] = {}
    for spec in specs:
        place = (spec["storage"], spec["device"])
        if place not in places:
            storage = storages[spec["storage"]]
            places[place] = storage if blank or spec["device"] == "meta" else restore(storage, spec["device"])
    tensors = [_make_tensor(spec, places[spec["storage"], spec["device"]], blank) for spec in specs]
    with _damage_reported():
        return _decode(_field(structure, "object", object), tensors, 0)


def _read_structure(archive: Archive) -> dict[str, Any]:
    """The JSON document."""
    import json

    def no_constant(text: str) -> None:
        raise Damaged(f"{STRUCTURE} holds the number {text}")

    text = archive.read(STRUCTURE).decode()
    structure = json.loads(text, parse_constant=no_constant)
    require(
        type(structure) is dict and structure.get("format") == "flambeau",
        f"{STRUCTURE} does not say format flambeau",
    )
    version = _field(structure, "version", int)
    require(version == _VERSION, f"the file has format version {version}, this is version {_VERSION}")
    return structure


def _field(node: Any, name: str, kind: type) -> Any:
    require(type(node) is dict and name in node, f"{STRUCTURE} lacks {name!r}")
    value = node[name]
    require(kind is object or type(value) is kind, f"{name!r} is no {kind.__name__}: {short(value)}")
    return value


def _find_storages(archive: Archive, structure: dict[str, Any]) -> list[Entry]:
    """The archive's entries of the storages."""
    result = []
    for i, nbytes in enumerate(_field(structure, "storages", list)):
        name = f"storage/{i}"
        require(name in archive.entries, f"the archive has no entry {name!r}")
        entry = archive.entries[name]
        require(
            count(nbytes, "a storage's size") == entry.size,
            f"entry {name!r} is not of the size it should have",
        )
        result.append(entry)
    return result


def _check_tensor(spec: Any, storages: list[Entry]) -> dict[str, Any]:
    """The description of a tensor, if it lies within its storage."""
    storage = count(_field(spec, "storage", int), "a storage")
    require(storage < len(storages), f"a tensor refers to storage {storage} of {len(storages)}")
    dtype = _dtype(_field(spec, "dtype", str))
    _device(_field(spec, "device", str))
    nbytes = INT64 if spec["device"] == "meta" else storages[storage].size  # saved without data
    offset, size, stride = (_field(spec, name, kind) for name, kind in _GEOMETRY)
    check_geometry(offset, size, stride, dtype.itemsize, nbytes)
    require(
        not _field(spec, "requires_grad", bool) or dtype.is_floating_point or dtype.is_complex,
        f"a tensor of {spec['dtype']} requires a gradient",
    )
    _field(spec, "parameter", bool)
    return spec


_GEOMETRY = (("offset", int), ("size", list), ("stride", list))


def _dtype(name: Any) -> Any:
    known = type(name) is str and name in _DTYPES and name in by_name
    require(known, f"unknown dtype {short(name)}")
    return by_name[name]


def _device(name: Any) -> Any:
    require(type(name) is str, f"a device is no str: {short(name)}")
    try:
        return Device(name)
    except RuntimeError as error:
        raise Damaged(f"unknown device {short(name)}") from error


def _read_storage(archive: Archive, entry: Entry, mapped: memoryview | None) -> Any:
    if mapped is not None and entry.size:
        require(entry.start % 16 == 0, f"entry {entry.name!r} is not aligned and cannot be mapped")
        part = mapped[entry.start : entry.start + entry.size]
        return frombuffer(part, dtype=by_name["uint8"]).untyped_storage()
    storage = Storage(entry.size)
    storage._fill(lambda bytes_of: archive.fill(entry, bytes_of))
    return storage


def _make_tensor(spec: dict[str, Any], storage: Any, blank: bool) -> Any:
    dtype, size, stride = _dtype(spec["dtype"]), tuple(spec["size"]), tuple(spec["stride"])
    if blank or spec["device"] == "meta":
        t = empty_strided(size, stride, dtype=dtype, device="meta")
    else:
        t = new_empty(0, dtype=dtype, device=storage.device).set_(storage, spec["offset"], size, stride)
    if spec["parameter"]:
        return Parameter(t, requires_grad=spec["requires_grad"])
    return t.requires_grad_(spec["requires_grad"])


def _decode(node: Any, tensors: list[Any], depth: int) -> Any:
    """The value that `node` stands for.  May raise TypeError and ValueError too: see
    _damage_reported."""
    require(depth <= _MAX_DEPTH + 1, "the object is nested too deep")
    if type(node) is list:
        return [_decode(child, tensors, depth + 1) for child in node]
    if type(node) is not dict:
        return node
    tag = next(iter(node), "")
    value: Any = node.get(tag)
    unknown = set(node) - {tag, "metadata" if tag == "OrderedDict" else tag}
    require(len(node) > 0 and not unknown, f"a value has the tags {short(', '.join(node))}")
    if tag == "tensor":
        require(count(value, "a tensor's number") < len(tensors), f"there is no tensor {short(value)}")
        return tensors[value]
    if tag in _SCALARS:
        return _SCALARS[tag](_text(value))
    require(type(value) is list, f"the value of {short(tag)} is no list")
    if tag in _LISTS:
        return _LISTS[tag](_decode(value, tensors, depth))
    require(tag in _DICTS, f"unknown tag {short(tag)}")
    require(
        all(type(pair) is list and len(pair) == 2 for pair in value),
        f"the value of {tag!r} is no list of pairs",
    )
    mapping = _DICTS[tag]()
    for key, item in value:
        mapping[_decode(key, tensors, depth + 1)] = _decode(item, tensors, depth + 1)
    if "metadata" in node:
        mapping._metadata = _decode(node["metadata"], tensors, depth + 1)
    return mapping


def _text(value: Any) -> str:
    require(type(value) is str, f"a value is no str: {short(value)}")
    return value


def _slice(ends: list[Any]) -> slice:
    require(
        len(ends) == 3 and all(n is None or type(n) is int for n in ends),
        "the ends of a slice are not three integers",
    )
    return slice(*ends)


def _range(ends: list[Any]) -> range:
    require(len(ends) == 3, "the ends of a range are not three integers")
    return range(*ends)


def _size(sizes: list[Any]) -> Any:
    return Size([count(n, "a size") for n in sizes])


# What each tag stands for, made from a str, from a list, or filled with pairs.
_SCALARS: dict[str, Callable[[str], Any]] = {
    "int": lambda text: int(text, 16),
    "float": lambda text: struct.unpack("<d", bytes.fromhex(text))[0],
    "complex": lambda text: complex(*struct.unpack("<dd", bytes.fromhex(text))),
    "bytes": lambda text: b64decode(text, validate=True),
    "dtype": _dtype,
    "device": _device,
}
_LISTS: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "Size": _size,
    "slice": _slice,
    "range": _range,
}
_DICTS: dict[str, Callable[[], Any]] = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}
