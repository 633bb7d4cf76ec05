"""Files of Lua Torch, read: nothing in them is run, and no number of theirs is trusted."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

from ..._files.errors import Damaged
from ..._files.rebuilding import check_geometry, typed
from ...core.base.dtypes import Size, by_name
from ...core.base.memory import Storage
from ...core.make.bridge import frombuffer
from ...core.make.create import empty
from ...legacy import nn
from ...storage import TypedStorage
from ._t7 import (
    BOOLEAN,
    DTYPES,
    FUNCTIONS,
    NIL,
    NUMBER,
    STRING,
    TABLE,
    TORCH,
    LuaFunction,
    T7ReaderException,
    Table,
    TorchObject,
    source,
)

__all__ = ["LuaFunction", "T7Reader", "T7ReaderException", "Table", "TorchObject", "load_lua"]

_DEEPEST = 20_000  # objects inside of objects
_MODULES = {
    f"nn.{name}": value
    for name, value in ((name, getattr(nn, name)) for name in nn.__all__)
    if isinstance(value, type) and issubclass(value, (nn.Module, nn.Criterion))
}
_CLASSES = {
    f"torch.{prefix}{word if (prefix, word) != ('Cuda', 'Float') else ''}{what}": (DTYPES[word], word, what)
    for prefix in ("", "Cuda")
    for word in DTYPES
    for what in ("Tensor", "Storage")
}


class _Open:
    """Stands for an object that is named inside of itself, until it is complete."""

    made: Any = None


class T7Reader:
    """Reads the objects of a file, one after another.

    Args:
        fileobj: opened for reading bytes.
        list_heuristic: whether tables with the keys 1 to n become lists.
        int_heuristic: whether whole numbers become `int`.
        unknown_classes: whether objects of other classes become `TorchObject`; else they are an error.
        long_size: how many bytes a `long` takes in a binary file: 8 by default, or 4.

    Raises:
        AttributeError: the file has no `read`

    >>> import io
    >>> from flambeau.utils.serialization import T7Reader, save_lua
    >>> file = io.BytesIO()
    >>> save_lua([1, 2.5, "three"], file)
    >>> T7Reader(io.BytesIO(file.getvalue())).read()
    [1, 2.5, 'three']
    """

    def __init__(
        self,
        fileobj: Any,
        list_heuristic: bool = True,
        int_heuristic: bool = True,
        unknown_classes: bool = False,
        long_size: int | None = None,
    ) -> None:
        self.f = fileobj
        self.memo: dict[int, Any] = {}
        self.list_heuristic = list_heuristic
        self.int_heuristic = int_heuristic
        self.unknown_classes = unknown_classes
        self.long_size = long_size
        self._from = source(fileobj, long_size)
        self._later: list[tuple[Any, Any, _Open]] = []

    def read(self) -> Any:
        """The next object.

        Raises:
            T7ReaderException: it is damaged, or of a class that is not known.
        """
        # each object is a generator that yields where it needs another one: depth takes memory, not Python's stack
        stack, value = [self._object()], None
        while True:
            try:
                stack[-1].send(value)
            except StopIteration as done:
                stack.pop()
                value = done.value
                if not stack:
                    break
            else:
                if len(stack) == _DEEPEST:
                    raise T7ReaderException(f"more than {_DEEPEST} objects inside of each other")
                stack.append(self._object())
                value = None
        for holder, key, open_ in self._later:
            holder[key] = open_.made
        self._later.clear()
        return value.made if isinstance(value, _Open) else value

    readObject = read

    def _object(self) -> Generator[None, Any, Any]:
        at = self._from.at
        kind = self._from.integer()
        if kind == NIL:
            return None
        if kind == NUMBER:
            x = self._from.real()
            is_integral = self.int_heuristic and x.is_integer() and abs(x) <= 2**53
            return int(x) if is_integral else x
        if kind == STRING:
            return self._string()
        if kind == BOOLEAN:
            return self._from.integer() == 1
        if kind not in (TABLE, TORCH, *FUNCTIONS):
            raise T7ReaderException(
                f"unknown kind of object {kind} at byte {at}: no file of Lua Torch, or damaged"
            )
        index = self._from.integer()
        if index in self.memo:
            return self.memo[index]
        open_ = self.memo[index] = _Open()
        if kind == TABLE:
            made = yield from self._table()
        elif kind == TORCH:
            made = yield from self._torch(index)
        else:
            size = self._from.integer()
            dumped = self._from.string(size)
            made = LuaFunction(size, dumped, (yield))
        self.memo[index] = open_.made = made
        return made

    def _string(self) -> Any:
        text = self._from.string(self._from.integer())
        try:
            return text.decode()
        except UnicodeDecodeError:
            return text

    def _keep(self, holder: Any, key: Any, value: Any) -> None:
        holder[key] = value
        if isinstance(value, _Open):
            self._later.append((holder, key, value))

    def _table(self) -> Generator[None, Any, Any]:
        count = self._from.integer()
        if not 0 <= 2 * count <= self._from.remaining():
            raise T7ReaderException(f"a table of {count} entries at byte {self._from.at}, and the file ends")
        made = Table()
        for _ in range(count):
            key = yield
            value = yield
            if key is None or isinstance(key, _Open):
                raise T7ReaderException(
                    f"a table before byte {self._from.at} has a key that is nil or itself"
                )
            if isinstance(key, list):  # a list is no key here
                key = Table(enumerate(key, 1))
            made[key] = value
        if (
            self.list_heuristic
            and all(type(k) is int for k in made)
            and set(made) == set(range(1, len(made) + 1))
        ):
            listed: list[Any] = [None] * len(made)
            for key, value in made.items():
                self._keep(listed, key - 1, value)
            return listed
        for key, value in made.items():
            if isinstance(value, _Open):
                self._later.append((made, key, value))
        return made

    def _torch(self, index: int) -> Generator[None, Any, Any]:
        version, name = 0, self._name()
        if name.startswith("V "):
            digits = name[2:]
            if not (digits.isdecimal() and len(digits) < 10):
                raise T7ReaderException(f"an object of version {digits[:20]!r}")
            version, name = int(digits), self._name()
        if name in _CLASSES:
            kind, word, what = _CLASSES[name]
            if what == "Storage":
                return self._storage(kind, word)
            return (yield from self._tensor(kind))
        if name in ("tds.Vec", "tds.Hash"):
            return (yield from self._tds(name))
        if name in _MODULES:
            cls = _MODULES[name]
            made = self.memo[index] = cls.__new__(cls)
            self._fill(made, (yield), version, name)
            return made
        if self.unknown_classes:
            unknown = self.memo[index] = TorchObject(name, None, version)
            self._keep(vars(unknown), "_obj", (yield))
            return unknown
        raise T7ReaderException(
            f"don't know how to deserialize Lua class {name[:100]}. If you want to ignore this error and load this "
            "object as a dict, specify unknown_classes=True in reader's constructor"
        )

    def _name(self) -> str:
        name = self._string()
        if not isinstance(name, str):
            raise T7ReaderException(f"the name of a class before byte {self._from.at} is no text")
        return name

    def _storage(self, kind: Any, word: str) -> TypedStorage:
        data, stored = self._from.elements(self._from.long(), word)
        count = len(data) // DTYPES[stored].itemsize
        made = empty(count, dtype=kind)
        if count:
            made.copy_(frombuffer(bytearray(data), dtype=DTYPES[stored]))
        return typed(made.untyped_storage(), kind)

    def _tensor(self, kind: Any) -> Generator[None, Any, Any]:
        ndim = self._from.integer()
        if not 0 <= ndim <= 64:
            raise T7ReaderException(f"a tensor of {ndim} dimensions before byte {self._from.at}")
        size = [self._from.long() for _ in range(ndim)]
        stride = [self._from.long() for _ in range(ndim)]
        offset = self._from.long() - 1
        storage = yield
        if storage is None or ndim == 0:
            return empty(0, dtype=kind)
        if not isinstance(storage, TypedStorage) or storage.dtype != kind:
            raise T7ReaderException(
                f"a tensor before byte {self._from.at} is made of another thing than its storage"
            )
        untyped: Storage = storage._untyped_storage
        try:
            geometry = check_geometry(offset, size, stride, kind.itemsize, untyped.nbytes())
            return empty(0, dtype=kind).set_(untyped, *geometry)
        except (Damaged, ValueError, OverflowError) as error:
            raise T7ReaderException(f"a tensor before byte {self._from.at}: {error}") from None

    def _tds(self, name: str) -> Generator[None, Any, Any]:
        """A list or a dict of the library tds."""
        count = self._from.long()
        if not 0 <= count <= self._from.remaining():
            raise T7ReaderException(f"a {name} of {count} at byte {self._from.at}, and the file ends")
        listed: list[Any] = []
        made = Table()
        for _ in range(count):
            key = yield
            if name == "tds.Vec":
                listed.append(None)
                self._keep(listed, len(listed) - 1, key)
            else:
                if key is None or isinstance(key, (_Open, list)):
                    raise T7ReaderException(f"a {name} before byte {self._from.at} has a key that is none")
                self._keep(made, key, (yield))
        return listed if name == "tds.Vec" else made

    def _fill(self, made: Any, attributes: Any, version: int, name: str) -> None:
        """Give a module or a criterion its attributes."""
        attributes = {} if attributes == [] else attributes
        if not isinstance(attributes, dict) or not all(isinstance(k, str) for k in attributes):
            raise T7ReaderException(f"{name} before byte {self._from.at} has no table of attributes")
        try:
            made._from_lua({k: _size(v) for k, v in attributes.items()}, version)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise T7ReaderException(
                f"{name} before byte {self._from.at} does not hold together: {error}"
            ) from None
        for key, value in vars(made).items():
            if isinstance(value, _Open):
                self._later.append((vars(made), key, value))


def _size(value: Any) -> Any:
    """Storages of whole numbers in modules are sizes."""
    if isinstance(value, TypedStorage) and value.dtype == by_name["int64"]:
        return Size(value.tolist())
    return value


def load_lua(filename: Any, **kwargs: Any) -> Any:
    """The object in a file of Lua Torch (`.t7`), binary or ASCII.

    Tables become lists where their keys are 1 to n, else dicts (`Table`); strings `str`, or `bytes` where they are no UTF-8;
    tensors of CUDA lie on the CPU; modules and criterions become those of `flambeau.legacy.nn`, whose indices and dimensions
    count from 0; functions become `LuaFunction`, and are not run. What is one object in the file is one object afterwards.

    Args:
        filename: a path, or a file opened for reading bytes.
        unknown_classes: whether objects of other classes become `TorchObject`; else they are an error.
        long_size: how many bytes a `long` takes in a binary file: 8 by default, or 4.
        list_heuristic, int_heuristic: see `T7Reader`.

    Raises:
        T7ReaderException: the file is damaged, or has an object of a class that is not known.

    >>> import os, tempfile
    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> from flambeau.utils.serialization import load_lua, save_lua
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_lua({"net": nn.Linear(2, 3), "epoch": 7}, os.path.join(folder, "x.t7"))
    ...     load_lua(os.path.join(folder, "x.t7"))
    {'net': nn.Linear(2 -> 3), 'epoch': 7}
    """
    if hasattr(filename, "read"):
        return T7Reader(filename, **kwargs).read()
    with open(os.fspath(filename), "rb") as file:
        return T7Reader(file, **kwargs).read()
