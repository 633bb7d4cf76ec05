"""The formats of PyTorch before 1.6: one stream of pickles with the storages behind it, and before 0.1.10 a tar archive."""

from __future__ import annotations

import struct
from typing import Any

from ..core.base.dtypes import by_name
from ..core.base.memory import Storage
from ..core.make.bridge import frombuffer
from ..core.make.create import empty as new_empty
from . import locations, rebuilding, state
from .archive import Source
from .errors import count, require, short
from .reading import described_storage, scan, unpickle

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


class _Stream:
    """What `persistent_load` of the stream's pickle needs: the storages that follow it, read before it runs.

    Whatever a pickle has made of a storage may look at its elements, so no storage is handed out that is not filled.
    """

    def __init__(self, hosts: dict[str, tuple[Any, Storage]], map_location: Any) -> None:
        self.hosts = hosts  # dtype and storage on the CPU, by key
        self._placed: dict[str, Any] = {}
        self._views: dict[Any, Any] = {}
        self._restore = locations.restorer(map_location)

    def persistent_load(self, described: Any) -> Any:
        if type(described) is tuple and described[:1] in (("module",), (b"module",)):
            require(len(described) == 4, "a module is described by something else than its class and source")
            return described[1]  # the source, which others compare, is of a program that need not be ours
        kind, key, location, elements = _described(described)
        require(key in self.hosts, f"there is no storage {short(key)} behind the pickle")
        first, host = self.hosts[key]
        require(
            elements * kind.itemsize == host.nbytes(),
            f"storage {short(key)} has {host.nbytes() // first.itemsize} elements of {first} in place of "
            f"{elements} of {kind}",
        )
        placed = self._placed.get(key)
        if placed is None:
            placed = self._placed[key] = self._restore(host, location)
            require(placed.nbytes() == host.nbytes(), "map_location returned a storage of another size")
        if described[5] is None:
            return rebuilding.typed(placed, kind)
        view = described[5]
        require(
            type(view) is tuple and len(view) == 3,
            "a part of a storage is described by something else than three values",
        )
        return self._part(placed, kind, view[0], view[1], view[2])

    def _part(self, root: Any, kind: Any, key: Any, offset: Any, elements: Any) -> Any:
        if type(key) is bytes:
            key = key.decode("ascii", "replace")
        require(type(key) in (str, int), f"a part of a storage has the key {short(key)}")
        if key not in self._views:
            self._views[key] = part_of(root, kind, offset, elements)
        return self._views[key]


def _described(described: Any) -> tuple[Any, str, str, int]:
    """dtype, key, place and number of elements out of what the stream's pickle says of a storage."""
    require(type(described) is tuple and len(described) == 6, f"a storage is described by {short(described)}")
    return described_storage(described[:5], 5)


def part_of(root: Any, kind: Any, offset: Any, elements: Any) -> Any:
    """Some elements of a storage, as a storage over the same memory."""
    begin = count(offset, "an offset") * kind.itemsize
    end = begin + count(elements, "a length") * kind.itemsize
    require(end <= root.nbytes(), f"a part of a storage reaches to byte {end} of {root.nbytes()}")
    require(root.device.type == "cpu", "a part of a storage that is not on the CPU")
    if begin == 0 and end == root.nbytes():
        return rebuilding.typed(root, kind)
    part = frombuffer(memoryview(root)[begin:end], dtype=by_name["uint8"]) if end > begin else None
    return rebuilding.typed(Storage(0) if part is None else part.untyped_storage(), kind)


def read_stream(data: Any, source: Source, map_location: Any, options: Any) -> Any:
    """The object of a stream: magic number, version, facts of the machine, the object, keys, and storages by their keys."""
    magic, at = unpickle(data, 0, _nothing, options)
    require(
        type(magic) is int and magic == MAGIC_NUMBER, f"Invalid magic number; corrupt file? ({short(magic)})"
    )
    version, at = unpickle(data, at, _nothing, options)
    require(
        type(version) is int and version == PROTOCOL_VERSION, f"Invalid protocol version: {short(version)}"
    )
    _, at = unpickle(data, at, _nothing, options)  # storages are little-endian, whatever this says
    kinds: dict[str, Any] = {}  # of what elements the storages are, as the pickle says first

    def note(described: Any) -> None:
        if type(described) is tuple and described[:1] not in (("module",), (b"module",)):
            kind, key, _, _ = _described(described)
            kinds.setdefault(key, kind)

    end = scan(data, at, note, options)
    stream = _Stream(_storages(data, source, end, kinds, map_location, options), map_location)
    return unpickle(data, at, stream.persistent_load, options)[0]


def _storages(
    data: Any, source: Source, at: int, kinds: dict[str, Any], map_location: Any, options: Any
) -> dict[str, tuple[Any, Storage]]:
    """dtype and storage of each key: after the object stand a list of the keys, and in its order lengths and bytes."""
    keys, at = unpickle(data, at, _nothing, options)
    require(type(keys) is list, f"the keys of the storages are a {type(keys).__name__}")
    keys = [key.decode("ascii", "replace") if type(key) is bytes else str(key) for key in keys]
    require(sorted(keys) == sorted(kinds), "the storages of the file are not those that it names")
    result: dict[str, tuple[Any, Storage]] = {}
    blank = locations.is_meta(map_location)
    for key in keys:
        elements = count(struct.unpack("<q", source.read(at, 8))[0], "a storage's length")
        nbytes = elements * kinds[key].itemsize
        require(nbytes <= source.size - at - 8, f"unexpected EOF: storage {short(key)} is cut short")
        if blank:
            host = new_empty(nbytes, dtype=by_name["uint8"], device="meta").untyped_storage()
        elif state.local.skip_data:
            host = Storage(nbytes)
            host.fill_(0)
        else:
            host = Storage(nbytes)
            host._fill(lambda bytes_of, start=at + 8: source.fill(start, bytes_of, False))
        result[key] = kinds[key], host
        at += 8 + nbytes
    return result


def _nothing(described: Any) -> Any:
    require(False, "a storage where none belongs")


# --- tar ------------------------------


def read_tar(file: Any, map_location: Any, options: Any) -> Any:
    """The object of a tar archive: `storages`, `tensors`, and the `pickle` that names them by numbers."""
    import tarfile

    with tarfile.open(fileobj=file, mode="r:") as archive:
        members = {}
        for member in archive.getmembers():
            if member.name in ("storages", "tensors", "pickle") and member.isreg() and not member.issparse():
                opened = archive.extractfile(member)
                members[member.name] = b"" if opened is None else opened.read()
    require(
        len(members) == 3, f"a tar archive with {sorted(members)} in place of storages, tensors and pickle"
    )
    result = _tar_storages(members["storages"], locations.restorer(map_location), options)
    tensors = _tar_tensors(members["tensors"], result, options)

    def persistent_load(described: Any) -> Any:
        if type(described) is tuple:
            require(len(described) >= 1, "a module is described by nothing")
            return described[0]
        number = int(described) if type(described) is str and described.isdecimal() else described
        require(type(number) is int and number in tensors, f"there is no tensor {short(described)}")
        return tensors[number]

    return unpickle(members["pickle"], 0, persistent_load, options)[0]


def _tar_storages(data: bytes, restore: Any, options: Any) -> dict[Any, Any]:
    """Storages, and parts of them, by their numbers."""
    n, at = unpickle(data, 0, _nothing, options)
    result: dict[Any, Any] = {}
    for _ in range(_few(n, data)):
        described, at = unpickle(data, at, _nothing, options)
        require(
            type(described) is tuple and len(described) == 3,
            "a storage is described by something else than three values",
        )
        key, location, storage_class = described
        kind: Any = getattr(storage_class, "dtype", None)
        require(type(kind) is type(by_name["uint8"]) and type(location) is str, "a storage of no known class")
        require(len(data) - at >= 8, "the storages are cut short")
        nbytes = count(struct.unpack_from("<q", data, at)[0], "a storage's length") * kind.itemsize
        at += 8
        require(nbytes <= len(data) - at, f"a storage of {nbytes} bytes is cut short")
        storage = Storage(nbytes)
        memoryview(storage)[:] = data[at : at + nbytes]
        at += nbytes
        result[_number(key)] = rebuilding.typed(restore(storage, location), kind)
    views, at = unpickle(data, at, _nothing, options)
    require(type(views) in (list, tuple), "the parts of storages are no list")
    for view in views:
        require(
            type(view) in (list, tuple) and len(view) == 4,
            "a part of a storage is described by something else than four values",
        )
        target, root, offset, elements = view
        require(_number(root) in result, f"there is no storage {short(root)}")
        whole = result[root]
        result[_number(target)] = part_of(whole._untyped_storage, whole.dtype, offset, elements)
    return result


def _tar_tensors(data: bytes, storages: dict[Any, Any], options: Any) -> dict[Any, Any]:
    n, at = unpickle(data, 0, _nothing, options)
    result: dict[Any, Any] = {}
    for _ in range(_few(n, data)):
        described, at = unpickle(data, at, _nothing, options)
        require(
            type(described) is tuple and len(described) == 3,
            "a tensor is described by something else than three values",
        )
        key, storage, _ = described
        require(_number(storage) in storages, f"there is no storage {short(storage)}")
        require(len(data) - at >= 8, "the tensors are cut short")
        dims = struct.unpack_from("<i", data, at)[0]
        require(0 <= dims <= 64 and len(data) - at >= 16 * (dims + 1), f"a tensor of {dims} dimensions")
        numbers = struct.unpack_from(f"<{2 * dims + 1}q", data, at + 8)
        at += 16 * (dims + 1)
        result[_number(key)] = rebuilding._rebuild_tensor(
            storages[storage], numbers[-1], numbers[:dims], numbers[dims : 2 * dims]
        )
    return result


def _few(n: Any, data: bytes) -> int:
    require(type(n) is int and 0 <= n <= len(data), f"a file of {len(data)} bytes with {short(n)} parts")
    return n


def _number(x: Any) -> Any:
    require(type(x) in (int, str), f"a key is {short(x)}")
    return x
