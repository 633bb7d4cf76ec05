"""Storages out of a file of PyTorch's zip format, and what its pickle makes of them."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

from ..core.base.dtypes import by_name
from ..core.base.memory import Storage
from ..core.make.bridge import frombuffer
from ..core.make.create import empty as new_empty
from ..utils.serialization import config
from . import allowed, locations, names, rebuilding, state, unpickling
from .archive import Archive, Entry
from .errors import Damaged, count, require, short


class Zip:
    """What `persistent_load` of a zip file's pickle needs."""

    def __init__(
        self, archive: Archive, root: str, map_location: Any, mapped: memoryview | None, folder: str = "data"
    ) -> None:
        self.archive = archive
        self.root, self.folder = root, folder
        self.mapped = mapped
        self._restore = locations.restorer(map_location)
        self._blank = locations.is_meta(map_location)
        self._swapped = self._byteorder() != sys.byteorder
        self._storages: dict[str, Any] = {}
        self._unswapped: set[int] = set()

    def _byteorder(self) -> str:
        if f"{self.root}/byteorder" in self.archive.entries:
            order = self.archive.read(f"{self.root}/byteorder").decode("ascii", "replace")
            require(order in ("little", "big"), f"Unknown endianness type: {short(order)}")
            return order
        default = config.load.endianness
        return "little" if default is None else {1: sys.byteorder, 2: "little", 3: "big"}[default.value]

    def persistent_load(self, described: Any) -> Any:
        kind, key, location, elements = described_storage(described, 5)
        storage = self._storages.get(key)
        if storage is None:
            entry = self.archive.entries.get(f"{self.root}/{self.folder}/{key}")
            if entry is None:
                raise Damaged(f"the archive has no entry '{self.folder}/{key}'")
            nbytes = elements * kind.itemsize
            require(
                entry.size == nbytes,
                f"entry {entry.name!r} has {entry.size} bytes, and a storage of {elements} elements of {kind} "
                f"({nbytes} bytes) refers to it",
            )
            storage = self._storages[key] = self.load(entry, kind, location)
        return rebuilding.typed(storage, kind)

    def load(self, entry: Entry, kind: Any, location: str) -> Any:
        """The storage that an entry holds."""
        if self._blank or location == "meta":
            return new_empty(entry.size, dtype=by_name["uint8"], device="meta").untyped_storage()
        swap = self._swapped and kind.itemsize > 1
        if state.local.skip_data:
            storage = Storage(entry.size)
            storage.fill_(0)
        elif self.mapped is not None and entry.size and entry.start % kind.itemsize == 0:
            bytes_of = self.mapped[entry.start : entry.start + entry.size]
            storage = frombuffer(bytes_of, dtype=by_name["uint8"]).untyped_storage()
            if swap and config.load.mmap_flags != 2:  # never into the file
                storage = Storage(entry.size)
                storage.copy_(frombuffer(bytes_of, dtype=by_name["uint8"]).untyped_storage())
        else:
            storage = Storage(entry.size)
            storage._fill(lambda bytes_of: self.archive.fill(entry, bytes_of))
        if swap:
            swap_bytes(storage, kind)
        return self._restore(storage, location)


def described_storage(described: Any, n: int) -> tuple[Any, str, str, int]:
    """dtype, key, place and number of elements out of what a pickle says of a storage."""
    require(type(described) is tuple and len(described) >= 1, f"a storage is described by {short(described)}")
    tag = _text(described[0], "what a persistent id is of")
    require(tag == "storage", f"Only persistent_load of storage is allowed, but got {short(tag)}")
    require(len(described) == n, f"a storage is described by {len(described)} values")
    kind = described[1]
    if type(kind) is str:  # other picklers than ours
        require(kind in names.STORAGES, f"a storage of the unknown class {short(kind)}")
        kind = by_name[names.STORAGES[kind]]
    elif kind is Storage:
        kind = by_name["uint8"]
    else:
        kind = getattr(kind, "dtype", None)
        require(type(kind) is type(by_name["uint8"]), f"a storage is of class {short(described[1])}")
    key = _text(described[2], "a storage's key")
    return kind, key, _text(described[3], "a storage's place"), count(described[4], "a storage's length")


def _text(x: Any, what: str) -> str:
    if type(x) is bytes:  # of Python 2
        x = x.decode("ascii", "replace")
    require(type(x) is str, f"{what} is {short(x)}")
    return x


def swap_bytes(storage: Any, kind: Any) -> None:
    """Turn the bytes of each element around; of complex ones, those of the two parts."""
    import numpy

    width = kind.itemsize // 2 if kind.is_complex else kind.itemsize
    whole = storage.nbytes() // width * width
    numpy.frombuffer(memoryview(storage)[:whole], dtype=f"u{width}" if width < 16 else "u8").byteswap(
        inplace=True
    )


def root_of(archive: Archive) -> str | None:
    """The folder that everything is in; None where this is no archive of PyTorch's `save`."""
    result = [name for name in archive.entries if name.endswith("/data.pkl") and name.count("/") == 1]
    require(len(result) <= 1, "the archive has two folders with a pickle")
    return result[0].rpartition("/")[0] if result else None


def map_file(file: Any) -> memoryview | None:
    """The file in memory, as `set_default_mmap_options` says; None for an empty one, which cannot be mapped."""
    import mmap

    if os.fstat(file.fileno()).st_size == 0:
        return None
    shared = config.load.mmap_flags == mmap.MAP_SHARED
    access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
    return memoryview(mmap.mmap(file.fileno(), 0, access=access))


def unpickle(data: Any, position: int, loader: Callable, options: Any) -> tuple[Any, int]:
    """The object of a pickle, and where it ends."""
    if options.weights_only:
        machine = unpickling.Unpickler(
            data, position, encoding=options.pickle_args["encoding"], persistent_load=loader
        )
        return machine.load(), machine.position
    stream = _Stream(data, position)
    reader = _reader(options.pickle_module)(stream, **options.pickle_args)
    reader.persistent_load = loader
    return reader.load(), stream.tell()


def scan(data: Any, position: int, note: Callable, options: Any) -> int:
    """Where a pickle ends, of which nothing is made: `note` is called with what it says of storages."""
    if options.weights_only:
        machine = unpickling.Unpickler(
            data, position, encoding=options.pickle_args["encoding"], persistent_load=note
        )
        machine.wanted = set()
        machine.load()
        return machine.position
    stream = _Stream(data, position)
    arguments = {name: x for name, x in options.pickle_args.items() if name in _PICKLE_ARGUMENTS}
    _Scanner(stream, note, arguments).load()
    return stream.tell()


_PICKLE_ARGUMENTS = ("encoding", "errors", "fix_imports", "buffers")


class _Blank:
    """What the scan of a pickle that may name anything has in place of whatever it names, calls or makes."""

    def __new__(cls, *args: Any, **keywords: Any) -> _Blank:
        return object.__new__(cls)

    def _ignore(self, *args: Any, **keywords: Any) -> None:
        """Nothing is kept."""

    __init__ = __setstate__ = __setitem__ = append = extend = add = _ignore

    def __call__(self, *args: Any, **keywords: Any) -> _Blank:
        return self


class _Scanner(pickle._Unpickler):  # type: ignore[name-defined]
    """An unpickler that makes plain containers and numbers, and calls nothing of what the pickle names."""

    def __init__(self, stream: Any, note: Callable, arguments: dict[str, Any]) -> None:
        super().__init__(stream, **arguments)
        self._note = note

    def persistent_load(self, described: Any) -> Any:
        self._note(described)
        return _Blank

    def find_class(self, module_name: str, name: str) -> Any:
        known = allowed.ALLOWED.get(f"{module_name}.{name}")
        return known if isinstance(known, allowed.StorageType) or known is Storage else _Blank

    def get_extension(self, code: int) -> None:
        self.append(_Blank)


def _Stream(data: Any, position: int) -> Any:
    from io import BytesIO

    if hasattr(data, "readline"):  # a mapped file
        data.seek(position)
        return data
    stream = BytesIO(data)
    stream.seek(position)
    return stream


def _reader(module: Any) -> type:
    """The unpickler of a module that runs what a file says, which finds our classes under PyTorch's names."""

    class NamingUnpickler(module.Unpickler):
        def find_class(self, module_name: str, name: str) -> Any:
            if name in names.STORAGES and module_name.partition(".")[0] == "torch":
                return allowed.StorageType(name)
            if module_name == "torch" or module_name.startswith("torch."):
                full = f"{module_name}.{name}"
                return allowed.ALLOWED[full] if full in allowed.ALLOWED else names.find(module_name, name)
            return super().find_class(module_name, name)

    return NamingUnpickler


def pickled(archive: Archive, root: str, map_location: Any, mapped: memoryview | None, options: Any) -> Any:
    """The object of a zip file."""
    loader = Zip(archive, root, map_location, mapped)
    if "constants.pkl" in {name.rpartition("/")[2] for name in archive.entries}:
        raise Damaged("this is a TorchScript archive, made by torch.jit.save, which torch.jit.load reads")
    return unpickle(archive.read(f"{root}/data.pkl"), 0, loader.persistent_load, options)[0]
