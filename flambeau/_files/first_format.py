"""Files of tensors and plain Python objects: `save` and `load`.

A file is an uncompressed zip archive.  `structure.json` describes the object, with each tensor's dtype,
shape, strides and offset; `storage/0`, `storage/1` … are the raw little-endian bytes the tensors refer to, at
multiples of 64 in the file. Reading one runs no code, whatever it holds: JSON is turned into a fixed set of
types, and every number is checked against the sizes of the entries before memory is asked for.
"""

from __future__ import annotations

import errno
import math
import os
import stat
import struct
import sys
from base64 import b64decode, b64encode
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

from ._tensor import Tensor
from .core.base import display
from .core.base.dtypes import Size, by_name, dtype
from .core.base.dtypes import device as Device
from .core.base.memory import Storage
from .core.make.bridge import frombuffer
from .core.make.create import empty as new_empty
from .core.make.create import empty_strided
from .nn.parameter import Parameter

_VERSION = 1
_STRUCTURE = "structure.json"
_ALIGNMENT = 64
_PADDING_ID = 0xD935  # the extra field that zipalign uses for the same purpose
_MAX_DEPTH = 100
_MAX_DIMS = 64
_INT64 = 2**63
_DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)


def save(obj: Any, f: str | os.PathLike | BinaryIO, *, fsync: bool = False) -> None:
    """Writes `obj` to the path or binary file `f`, for `load`.

    `obj` may be made of tensors and parameters, dict, OrderedDict, Counter, list, tuple, set, frozenset,
    Size, None, bool, int, float, complex, str, bytes, slice, range, dtype and device, nested up to 100 deep.
    Tensors that share memory share it again after loading, for which all of the shared memory is written; one
    tensor that occurs twice is one again. Of tensors the layout and `requires_grad` are kept, gradients and
    attributes are not.

    Everything is checked before the first byte is written, and a file at a path is replaced in one go when it
    is complete: whoever reads it sees the old one or the new one.  The new one has the old one's mode, group and owner
    (as far as the system lets us give files away); through a symbolic link, what it points to is replaced.
    A process that is killed leaves nothing behind where the file system has files without names (ext4, XFS, Btrfs,
    tmpfs), save for the instant in which an old file is replaced; elsewhere, as on NFS, a file `<name>.<8 digits>.tmp`.
    With `fsync=True` the file has reached the disk when `save` returns, and survives a failure of the machine.

    Raises TypeError for an object of any other type, ValueError for one that is nested too deep
    or within itself; both name the place.  ValueError for `fsync=True` with a file that has no descriptor.

    >>> import io
    >>> import flambeau
    >>> file = io.BytesIO()
    >>> flambeau.save({"weight": flambeau.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> flambeau.load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    >>> flambeau.save({"weights": [object()]}, file)
    Traceback (most recent call last):
        ...
    TypeError: flambeau.save: obj['weights'][0] is of type object, which cannot be saved
    """
    _check_byteorder("save")
    import json

    writer = _Writer()
    tree = writer.encode(obj, "obj", 0)
    structure = {
        "format": "flambeau",
        "version": _VERSION,
        "storages": [len(data) for data in writer.storages],
        "tensors": writer.tensors,
        "object": tree,
    }
    text = json.dumps(structure, allow_nan=False, separators=(",", ":")).encode()
    if hasattr(f, "write"):
        descriptor = _descriptor(f) if fsync else None
        _write(f, text, writer.storages)
        if descriptor is not None:
            cast(BinaryIO, f).flush()
            os.fsync(descriptor)
        return
    with _replacing(os.fsdecode(f), fsync) as file:
        _write(file, text, writer.storages)


def load(
    f: str | os.PathLike | BinaryIO,
    map_location: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
) -> Any:
    """Reads the object that `save` wrote to the path or seekable binary file `f`.

    `map_location` says where tensors go: a device, a dict from saved to wanted devices, or a function of a
    storage on the CPU and the name of its saved device that returns the storage to use, or None for the saved
    device.  No code is run by loading, so `weights_only` makes no difference.

    `mmap=True`, for paths only, maps the file into memory: data is read when it is used, and changes stay private.
    That every storage lies within the file is checked when it is opened; what cannot be checked is that the file
    stays as it is.  Checksums are not verified, so damaged data goes unnoticed; a file that is written to shows in
    the tensors; and where it is cut short, the first touch of what is gone ends the process (SIGBUS).  Map files
    only that nobody else can write.  `save` never does any of this: it replaces files, and the old one lives as long
    as it is mapped.

    Raises RuntimeError when the file is damaged, or not one that `save` wrote.
    """
    _check_byteorder("load")
    if hasattr(f, "read"):
        if mmap:
            raise ValueError(f"{display.NAME}.load: mmap=True needs a path, got a file object")
        return _read(f, map_location, None)
    with open(os.fspath(f), "rb") as file:
        return _read(file, map_location, _map(file) if mmap else None)


def _check_byteorder(function: str) -> None:
    if sys.byteorder != "little":
        raise RuntimeError(f"{display.NAME}.{function}: files are little-endian, this processor is not")


def _bytes_of(storage: Any) -> memoryview:
    return memoryview(storage)


def _moved(storage: Any, source: Any, target: Any) -> Any:
    """A storage, or its copy on another device."""
    source, target = Device(source), Device(target)
    if source == target:
        return storage
    flat = new_empty(0, dtype=by_name["uint8"], device=source).set_(storage, 0, (storage.nbytes(),), (1,))
    return flat.to(target).untyped_storage()


# --- reading ------------------------------


class _Damaged(Exception):
    """What is wrong with a file."""


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise _Damaged(what)


@contextmanager
def _damage_reported() -> Iterator[None]:
    """Raises RuntimeError for what the standard library raises when bytes are no such archive or document.

    Errors of reading as such, OSError, are left alone.
    """
    from zipfile import BadZipFile

    values = (ValueError, TypeError, OverflowError, RecursionError)
    try:
        yield
    except (_Damaged, BadZipFile, EOFError, struct.error, *values) as error:
        raise RuntimeError(
            f"{display.NAME}.load: not a file that {display.NAME}.save wrote, or a damaged one: {error}"
        ) from error
    except NotImplementedError as error:  # a kind of archive that the standard library does not read
        raise RuntimeError(
            f"{display.NAME}.load: not a file that {display.NAME}.save wrote: {error}"
        ) from error


def _read(file: Any, map_location: Any, mapped: memoryview | None) -> Any:
    import zipfile

    with _damage_reported(), zipfile.ZipFile(file) as archive:
        structure = _read_structure(archive, file)
        entries = _find_storages(archive, structure)
        specs = [_check_tensor(spec, entries) for spec in _field(structure, "tensors", list)]
        storages = [_read_storage(archive, entry, mapped) for entry in entries]
    places: dict[tuple[int, str], Any] = {}
    for spec in specs:
        place = (spec["storage"], spec["device"])
        if place not in places:
            places[place] = _locate(storages[spec["storage"]], spec["device"], map_location)
    tensors = [_make_tensor(spec, *places[spec["storage"], spec["device"]]) for spec in specs]
    with _damage_reported():
        return _decode(_field(structure, "object", object), tensors, 0)


def _read_structure(archive: Any, file: Any) -> dict[str, Any]:
    """The JSON document, once the archive's own figures are found to fit the file."""
    import json

    names = archive.namelist()
    _require(len(set(names)) == len(names), "two entries of the archive have the same name")
    if _STRUCTURE not in names:
        pickled = any(name.rpartition("/")[2] == "data.pkl" for name in names)
        _require(not pickled, "this file holds pickled Python code in PyTorch's format, which is not run")
        raise _Damaged(f"the archive has no entry {_STRUCTURE!r}: it was not written by {display.NAME}.save")
    end = file.seek(0, os.SEEK_END)
    total = 0
    for info in archive.infolist():
        plain = info.compress_type == 0 and info.compress_size == info.file_size and not info.flag_bits & 1
        _require(plain, f"entry {info.filename!r} is compressed or encrypted")
        total += info.file_size
        _require(0 <= info.header_offset and total <= end, f"entry {info.filename!r} is larger than the file")

    def no_constant(text: str) -> None:
        raise _Damaged(f"{_STRUCTURE} holds the number {text}")

    text = archive.read(_STRUCTURE).decode()
    structure = json.loads(text, parse_constant=no_constant)
    _require(
        type(structure) is dict and structure.get("format") == "flambeau",
        f"{_STRUCTURE} does not say format flambeau",
    )
    version = _field(structure, "version", int)
    _require(version == _VERSION, f"the file has format version {version}, this is version {_VERSION}")
    return structure


def _field(node: Any, name: str, kind: type) -> Any:
    _require(type(node) is dict and name in node, f"{_STRUCTURE} lacks {name!r}")
    value = node[name]
    _require(kind is object or type(value) is kind, f"{name!r} is no {kind.__name__}: {_short(value)}")
    return value


def _count(x: Any, what: str) -> int:
    _require(type(x) is int and 0 <= x < _INT64, f"{what} is no number of at least 0: {_short(x)}")
    return x


def _short(x: Any) -> str:
    return repr(x)[:60] if type(x) in (str, int, float, bool) or x is None else type(x).__name__


def _find_storages(archive: Any, structure: dict[str, Any]) -> list[Any]:
    """The archive's entries of the storages."""
    infos = []
    for i, nbytes in enumerate(_field(structure, "storages", list)):
        name = f"storage/{i}"
        _require(name in archive.NameToInfo, f"the archive has no entry {name!r}")
        info = archive.getinfo(name)
        _require(
            _count(nbytes, "a storage's size") == info.file_size,
            f"entry {name!r} is not of the size it should have",
        )
        infos.append(info)
    return infos


def _check_tensor(spec: Any, storages: list[Any]) -> dict[str, Any]:
    """The description of a tensor, if it lies within its storage."""
    storage = _count(_field(spec, "storage", int), "a storage")
    _require(storage < len(storages), f"a tensor refers to storage {storage} of {len(storages)}")
    offset = _count(_field(spec, "offset", int), "an offset")
    size = [_count(n, "a size") for n in _field(spec, "size", list)]
    stride = [_count(n, "a stride") for n in _field(spec, "stride", list)]
    _require(
        len(size) == len(stride) <= _MAX_DIMS, f"a tensor has {len(size)} sizes and {len(stride)} strides"
    )
    _require(math.prod(max(n, 1) for n in size) < _INT64, "a tensor has more elements than can be counted")
    itemsize = _dtype(_field(spec, "dtype", str)).itemsize
    last = offset + sum((n - 1) * step for n, step in zip(size, stride)) if 0 not in size else offset - 1
    _device(_field(spec, "device", str))
    nbytes = _INT64 if spec["device"] == "meta" else storages[storage].file_size  # saved without data
    _require(
        (last + 1) * itemsize <= nbytes,
        f"a tensor reaches to byte {(last + 1) * itemsize} of a storage of {nbytes} bytes",
    )
    dtype = _dtype(spec["dtype"])
    trainable = dtype.is_floating_point or dtype.is_complex
    _require(
        not _field(spec, "requires_grad", bool) or trainable,
        f"a tensor of {spec['dtype']} requires a gradient",
    )
    _field(spec, "parameter", bool)
    return spec


def _dtype(name: Any) -> Any:
    known = type(name) is str and name in _DTYPES and name in by_name
    _require(known, f"unknown dtype {_short(name)}")
    return by_name[name]


def _device(name: Any) -> Any:
    _require(type(name) is str, f"a device is no str: {_short(name)}")
    try:
        return Device(name)
    except RuntimeError as error:
        raise _Damaged(f"unknown device {_short(name)}") from error


def _read_storage(archive: Any, info: Any, mapped: memoryview | None) -> Any:
    if mapped is not None and info.file_size:
        start = _start(mapped, info)
        return frombuffer(mapped[start : start + info.file_size], dtype=by_name["uint8"]).untyped_storage()
    storage = Storage(info.file_size)
    view = _bytes_of(storage)
    with archive.open(info) as entry:  # raises BadZipFile at the end if the checksum is wrong
        done = 0
        while done < len(view):
            got = entry.readinto(view[done : done + 2**20])
            _require(got > 0, f"entry {info.filename!r} ends after {done} of {len(view)} bytes")
            done += got
        entry.read(1)
    return storage


def _start(mapped: memoryview, info: Any) -> int:
    """Where the bytes of an entry begin: after a header that ends in a name and an extra field of given
    lengths."""
    header = mapped[info.header_offset : info.header_offset + 30]
    _require(len(header) == 30 and header[:4] == b"PK\x03\x04", f"entry {info.filename!r} has no header")
    start = info.header_offset + 30 + sum(struct.unpack("<HH", header[26:30]))
    _require(start + info.file_size <= len(mapped), f"entry {info.filename!r} ends after the file")
    _require(start % _ALIGNMENT == 0, f"entry {info.filename!r} is not aligned and cannot be mapped")
    return start


def _map(file: BinaryIO) -> memoryview | None:
    import mmap

    if os.fstat(file.fileno()).st_size == 0:  # cannot be mapped, and is refused as an archive
        return None
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


def _locate(storage: Any, device: str, map_location: Any) -> tuple[Any, Any]:
    """The storage on the device it belongs to, and this device; what was saved without data stays so."""
    if device == "meta":
        return storage, device
    wanted: Any = device
    if isinstance(map_location, dict):
        wanted = map_location.get(device, device)
    elif isinstance(map_location, (str, Device)):
        wanted = map_location
    elif callable(map_location):
        placed = map_location(storage, device)
        if placed is not None:
            return placed, getattr(placed, "device", "cpu")
    elif map_location is not None:
        raise TypeError(
            f"{display.NAME}.load: map_location must be None, a device, a dict or a function, got "
            f"{type(map_location).__name__}"
        )
    return _moved(storage, "cpu", wanted), wanted


def _make_tensor(spec: dict[str, Any], storage: Any, device: Any) -> Any:
    dtype, size, stride = _dtype(spec["dtype"]), tuple(spec["size"]), tuple(spec["stride"])
    if spec["device"] == "meta":
        t = empty_strided(size, stride, dtype=dtype, device="meta")
    else:
        t = new_empty(0, dtype=dtype, device=device).set_(storage, spec["offset"], size, stride)
    if spec["parameter"]:
        return Parameter(t, requires_grad=spec["requires_grad"])
    return t.requires_grad_(spec["requires_grad"])


def _decode(node: Any, tensors: list[Any], depth: int) -> Any:
    """The value that `_Writer.encode` turned into `node`.  May raise TypeError and ValueError too: see
    _damage_reported."""
    _require(depth <= _MAX_DEPTH + 1, "the object is nested too deep")
    if type(node) is list:
        return [_decode(child, tensors, depth + 1) for child in node]
    if type(node) is not dict:
        return node
    tag = next(iter(node), "")
    value: Any = node.get(tag)
    unknown = set(node) - {tag, "metadata" if tag == "OrderedDict" else tag}
    _require(len(node) > 0 and not unknown, f"a value has the tags {_short(', '.join(node))}")
    if tag == "tensor":
        _require(_count(value, "a tensor's number") < len(tensors), f"there is no tensor {_short(value)}")
        return tensors[value]
    if tag in _SCALARS:
        return _SCALARS[tag](_text(value))
    _require(type(value) is list, f"the value of {_short(tag)} is no list")
    if tag in _LISTS:
        return _LISTS[tag](_decode(value, tensors, depth))
    _require(tag in _DICTS, f"unknown tag {_short(tag)}")
    _require(
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
    _require(type(value) is str, f"a value is no str: {_short(value)}")
    return value


def _slice(ends: list[Any]) -> slice:
    _require(
        len(ends) == 3 and all(n is None or type(n) is int for n in ends),
        "the ends of a slice are not three integers",
    )
    return slice(*ends)


def _range(ends: list[Any]) -> range:
    _require(len(ends) == 3, "the ends of a range are not three integers")
    return range(*ends)


def _size(sizes: list[Any]) -> Any:
    return Size([_count(n, "a size") for n in sizes])


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

# The tags of the containers.
_SEQUENCES: dict[Any, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
_MAPPINGS: dict[Any, str] = {dict: "dict", OrderedDict: "OrderedDict", Counter: "Counter"}
