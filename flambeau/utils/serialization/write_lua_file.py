"""Files of Lua Torch, written."""

from __future__ import annotations

import io
import os
from collections.abc import Generator
from numbers import Integral, Real
from typing import Any

from ..._files.replacing import replacing
from ..._tensor import Tensor
from ...core.base.dtypes import Size, by_name
from ...core.base.formats import strided
from ...core.base.memory import Storage
from ...core.make.create import empty
from ...core.make.literal import tensor
from ...legacy.nn import Criterion, Module
from ...storage import TypedStorage
from ._t7 import (
    BOOLEAN,
    NIL,
    NUMBER,
    RECURSIVE,
    STRING,
    TABLE,
    TORCH,
    WORDS,
    BinaryOut,
    LuaFunction,
    TextOut,
    TorchObject,
)

__all__ = ["T7Writer", "save_lua"]


class T7Writer:
    """Writes objects into a file, one after another; see `save_lua`.

    Args:
        fileobj: opened for writing bytes.
        format: `"binary"` or `"ascii"`.
        long_size: how many bytes a `long` takes in a binary file, 8 or 4.

    Raises:
        ValueError: `format` is neither "binary" nor "ascii"

    >>> import io
    >>> from flambeau.utils.serialization import T7Writer
    >>> file = io.BytesIO()
    >>> T7Writer(file, "ascii").write([True])
    >>> file.getvalue().split()
    [b'3', b'1', b'1', b'1', b'1', b'5', b'1']
    """

    def __init__(self, fileobj: Any, format: str = "binary", long_size: int = 8) -> None:
        if format not in ("binary", "ascii"):
            raise ValueError(f'format is "binary" or "ascii", not {format!r}')
        if long_size not in (4, 8):
            raise ValueError(f"long_size is 4 or 8, not {long_size!r}")
        self._to = TextOut(fileobj) if format == "ascii" else BinaryOut(fileobj, long_size)
        self.memo: dict[Any, int] = {}
        self._alive: list[Any] = []  # so that no other object gets the identity of one in the memo

    def write(self, obj: Any) -> None:
        """Write an object.

        Raises:
            TypeError: Lua Torch has nothing like it.
            ValueError: a number that does not fit.
        """
        stack = [self._object(obj)]  # each yields what it has to write inside of itself
        while stack:
            try:
                child = next(stack[-1])
            except StopIteration:
                stack.pop()
            else:
                stack.append(self._object(child))

    writeObject = write

    def _object(self, x: Any) -> Generator[Any, None, None]:
        if x is None:
            self._to.integer(NIL)
        elif isinstance(x, bool):
            self._to.integer(BOOLEAN)
            self._to.integer(int(x))
        elif isinstance(x, Real):
            if isinstance(x, Integral) and float(x) != x:
                raise ValueError(f"{x} is no number of Lua, which are doubles")
            self._to.integer(NUMBER)
            self._to.real(float(x))
        elif isinstance(x, (str, bytes)):
            self._to.integer(STRING)
            self._to.string(x.encode() if isinstance(x, str) else x)
        elif isinstance(x, LuaFunction):
            if self._is_new(RECURSIVE, id(x), x):
                self._to.string(x.dumped)
                yield x.upvalues
        elif isinstance(x, Size):
            yield typed_of(tensor(list(x), dtype=by_name["int64"]))
        elif isinstance(x, (list, tuple)):
            yield from self._table(x, list(enumerate(x, 1)))
        elif isinstance(x, dict):
            yield from self._table(x, list(x.items()))
        elif isinstance(x, Tensor):
            yield from self._tensor(x)
        elif isinstance(x, (TypedStorage, Storage)):
            self._storage(x)
        elif isinstance(x, (Module, Criterion)):
            if self._is_new(TORCH, id(x), x):
                self._class(f"nn.{type(x).__name__}", x._version)
                yield x._to_lua()
        elif isinstance(x, TorchObject):
            if self._is_new(TORCH, id(x), x):
                self._class(x._typename, x._version)
                yield x._obj
        else:
            what = "a function" if callable(x) else f"an object of the class {type(x).__name__}"
            raise TypeError(f"save_lua: Lua Torch has nothing like {what}: {x!r:.80}")

    def _is_new(self, kind: int, key: Any, x: Any) -> bool:
        """Write the kind and the index of an object, and say whether its content is to follow."""
        is_seen = key in self.memo
        index = self.memo.setdefault(key, len(self.memo) + 1)
        self._to.integer(kind)
        self._to.integer(index)
        if not is_seen:
            self._alive.append(x)
        return not is_seen

    def _class(self, name: str, version: int = 1) -> None:
        self._to.string(f"V {version}".encode())
        self._to.string(name.encode())

    def _table(self, x: Any, entries: list[tuple[Any, Any]]) -> Generator[Any, None, None]:
        if self._is_new(TABLE, id(x), x):
            entries = [(k, v) for k, v in entries if v is not None]  # an entry that is nil is none
            self._to.integer(len(entries))
            for key, value in entries:
                if key is None or key != key:
                    raise ValueError(f"save_lua: {key} is no key of a table")
                yield key
                yield value

    def _tensor(self, x: Tensor) -> Generator[Any, None, None]:
        if x.layout is not strided or x._is_wrapper or x.dtype not in WORDS or x.device.type == "meta":
            raise TypeError(
                f"save_lua: Lua Torch has no tensors of {x.dtype}, layout {x.layout}, on {x.device}"
            )
        if self._is_new(TORCH, id(x), x):
            self._class(f"torch.{WORDS[x.dtype]}Tensor")
            shape, stride = (tuple(x.shape), x.stride()) if x.dim() else ((1,), (1,))
            shape, stride = (shape, stride) if x.numel() else ((), ())
            self._to.integer(len(shape))
            self._to.long(*shape)
            self._to.long(*stride)
            self._to.long(x.storage_offset() + 1 if shape else 1)
            yield typed_of(x) if shape else None

    def _storage(self, x: Any) -> None:
        """All elements; a storage that several tensors lie in is written once."""
        untyped = x._untyped_storage if isinstance(x, TypedStorage) else x
        kind = x.dtype if isinstance(x, TypedStorage) else by_name["uint8"]
        if kind not in WORDS:
            raise TypeError(f"save_lua: Lua Torch has no storages of {kind}")
        word = WORDS[kind]
        if self._is_new(TORCH, (untyped.data_ptr(), untyped.nbytes(), str(untyped.device), word), x):
            self._class(f"torch.{word}Storage")
            count = untyped.nbytes() // kind.itemsize
            flat = empty(0, dtype=kind, device=untyped.device).set_(untyped, 0, (count,), (1,)).cpu()
            self._to.long(count)
            self._to.elements(flat.byte() if kind == by_name["bool"] else flat, word)


def typed_of(x: Tensor) -> TypedStorage:
    """The storage that a tensor lies in."""
    return TypedStorage(wrap_storage=x.untyped_storage(), dtype=x.dtype, _internal=True)


def save_lua(obj: Any, filename: Any, format: str = "binary", long_size: int = 8) -> None:
    """Write an object into a file of Lua Torch (`.t7`), which Lua's `torch.load` and `load_lua` read.

    Lists become tables with the keys 1 to n, dicts tables, tensors those of the same type (of bool: of bytes; without
    dimensions: of one element), modules and criterions of `flambeau.legacy.nn` those of Lua, whose indices and dimensions
    count from 1. What is one object, or lies in one storage, does so in the file.

    Args:
        obj: what to write.
        filename: a path, whose file is replaced when all is written, or a file opened for writing bytes.
        format: `"binary"` or `"ascii"`.
        long_size: how many bytes a `long` takes in a binary file, 8 or 4.

    Raises:
        TypeError: Lua Torch has nothing like it: functions, other classes, tensors of other types.
        ValueError: a number that does not fit.

    >>> import os, tempfile
    >>> import flambeau
    >>> from flambeau.utils.serialization import load_lua, save_lua
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_lua({"x": flambeau.ones(2), "names": ["a", "b"]}, os.path.join(folder, "x.t7"))
    ...     load_lua(os.path.join(folder, "x.t7"))
    {'x': tensor([1., 1.]), 'names': ['a', 'b']}
    """
    if hasattr(filename, "write"):
        made = io.BytesIO()
        T7Writer(made, format, long_size).write(obj)
        filename.write(made.getbuffer())
    else:
        with replacing(os.fspath(filename), False) as file:
            T7Writer(file, format, long_size).write(obj)
