"""What files of Lua Torch (`.t7`) are made of: kinds of objects, types of elements, and the two spellings of numbers.

A file is one object. An object is its kind, an `int`, and what the kind has: a number a `double`; a string its length and its
bytes; a table an index, by which it is named when it comes again, its number of entries, and these; an object of a class an
index, the version (`"V 1"`) and the name of the class, and what the class writes. A tensor writes its sizes, strides and
offset (from 1) and its storage, a storage its number of elements and these; other classes write a table of their
attributes. In binary files these lie one after another, little end first, with a `long` of 8 or 4 bytes; in ASCII ones
between blanks.
"""

from __future__ import annotations

import io
import re
import struct
from math import isfinite
from typing import Any, BinaryIO, NamedTuple

from ..._files.errors import Damaged
from ...core.base.dtypes import by_name

NIL, NUMBER, STRING, TABLE, TORCH, BOOLEAN, FUNCTION, OLD_RECURSIVE, RECURSIVE = range(9)
FUNCTIONS = (FUNCTION, OLD_RECURSIVE, RECURSIVE)

# Lua Torch's words for types of elements, and how one stands in a binary file
DTYPES = {
    "Double": by_name["float64"],
    "Float": by_name["float32"],
    "Half": by_name["float16"],
    "Long": by_name["int64"],
    "Int": by_name["int32"],
    "Short": by_name["int16"],
    "Char": by_name["int8"],
    "Byte": by_name["uint8"],
}
WORDS = {kind: word for word, kind in DTYPES.items()} | {by_name["bool"]: "Byte"}


class T7ReaderException(Damaged):
    """A file is no file of Lua Torch, is damaged, or has what is not read.

    >>> from flambeau.utils.serialization import T7ReaderException, load_lua
    >>> import io
    >>> load_lua(io.BytesIO(b"\\x09\\0\\0\\0"))
    Traceback (most recent call last):
    flambeau.utils.serialization.read_lua_file.T7ReaderException: unknown kind of object 9 at byte 0: no file of Lua Torch, or damaged
    """


class LuaFunction(NamedTuple):
    """A function of Lua as a file has it: nothing runs it, but it can be written again.

    >>> from flambeau.utils.serialization import LuaFunction
    >>> LuaFunction(2, b"\\x1bL", None).size
    2
    """

    size: int
    dumped: bytes
    upvalues: Any


class Table(dict):
    """A table of Lua that is no list: a dict whose entries with names are attributes, too; each is a key only for itself.

    Raises nothing.

    >>> from flambeau.utils.serialization import Table
    >>> Table(depth=3).depth
    3
    """

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__
    __ne__ = object.__ne__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)


class TorchObject:
    """An object of a class that is not known here: its attributes are found as attributes, and by index.

    Raises nothing.

    >>> from flambeau.utils.serialization import Table, TorchObject
    >>> x = TorchObject("nn.Mystery", Table(depth=3))
    >>> x.depth, x.torch_typename()
    (3, 'nn.Mystery')
    """

    def __init__(self, typename: str, obj: Any = None, version: int = 1) -> None:
        self._typename = typename
        self._obj = obj
        self._version = version

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_obj" not in vars(self):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: Any) -> Any:
        return self._obj.get(key) if isinstance(self._obj, dict) else None

    def torch_typename(self) -> str:
        """The name of the class."""
        return self._typename

    def __repr__(self) -> str:
        return f"TorchObject({self._typename})"

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *(k for k in self._obj or () if isinstance(k, str))])


class Binary:
    """Numbers of a binary file. Nothing is read of the file that it cannot hold."""

    def __init__(self, file: BinaryIO, size: int, long_size: int) -> None:
        self.file, self.size, self.long_size = file, size, long_size
        self.at = 0

    def take(self, n: int, what: str) -> bytes:
        if not 0 <= n <= self.size - self.at:
            raise T7ReaderException(
                f"{what} at byte {self.at} is said to take {n} bytes, and {self.size - self.at} are left"
            )
        result = self.file.read(n)
        if len(result) != n:
            raise T7ReaderException(f"{what} at byte {self.at}: the file ends")
        self.at += n
        return result

    def integer(self) -> int:
        return struct.unpack("<i", self.take(4, "a number"))[0]

    def long(self) -> int:
        return int.from_bytes(self.take(self.long_size, "a number"), "little", signed=True)

    def real(self) -> float:
        return struct.unpack("<d", self.take(8, "a number"))[0]

    def string(self, n: int) -> bytes:
        return self.take(n, "a string")

    def elements(self, n: int, word: str) -> tuple[bytes, str]:
        """So many elements, and the word for what they are here: a `long` of 4 bytes is an `int`."""
        word = "Int" if word == "Long" and self.long_size == 4 else word
        return self.take(n * DTYPES[word].itemsize if n >= 0 else n, f"a {word}Storage of {n}"), word

    def remaining(self) -> int:
        """How many objects there can be still."""
        return (self.size - self.at) // 4


class Text:
    """Numbers of an ASCII file."""

    _WORD = re.compile(rb"\s*([^\s]{1,400})")

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def _word(self) -> bytes:
        result = self._WORD.match(self.data, self.at)
        if result is None:
            raise T7ReaderException(f"a number at byte {self.at}: the file ends")
        self.at = result.end()
        return result[1]

    def integer(self) -> int:
        word = self._word()
        try:
            return int(word[:20])
        except ValueError:
            raise T7ReaderException(f"no whole number at byte {self.at}: {word[:20]!r}") from None

    long = integer

    def real(self) -> float:
        word = self._word()
        try:
            return float(word)
        except ValueError:
            raise T7ReaderException(f"no number at byte {self.at}: {word[:20]!r}") from None

    def string(self, n: int) -> bytes:
        start = self.at + (self.data[self.at : self.at + 1] == b"\n")
        if not 0 <= n <= len(self.data) - start:
            raise T7ReaderException(
                f"a string at byte {start} is said to take {n} bytes, and {len(self.data) - start} are left"
            )
        self.at = start + n
        return self.data[start : self.at]

    def elements(self, n: int, word: str) -> tuple[bytes, str]:
        if word in ("Byte", "Char"):  # as they are
            return self.string(n), word
        if not 0 <= 2 * n <= len(self.data) - self.at + 1:
            raise T7ReaderException(f"a {word}Storage of {n} at byte {self.at}, and the file ends")
        are_integers = not DTYPES[word].is_floating_point
        values = [self.integer() if are_integers else self.real() for _ in range(n)]
        try:
            return struct.pack(f"<{n}{CODES[word]}", *values), word
        except (struct.error, OverflowError):
            raise T7ReaderException(f"numbers of a {word}Storage at byte {self.at} do not fit it") from None

    def remaining(self) -> int:
        return (len(self.data) - self.at + 1) // 2


CODES = dict(zip(DTYPES, "dfeqihbB"))


class BinaryOut:
    """Writes numbers as a binary file has them."""

    def __init__(self, file: BinaryIO, long_size: int) -> None:
        self.file, self.long_size = file, long_size

    def integer(self, x: int) -> None:
        self.file.write(struct.pack("<i", x))

    def long(self, *values: int) -> None:
        code = "q" if self.long_size == 8 else "i"
        self.file.write(struct.pack(f"<{len(values)}{code}", *values))

    def real(self, x: float) -> None:
        self.file.write(struct.pack("<d", x))

    def string(self, x: bytes) -> None:
        self.integer(len(x))
        self.file.write(x)

    def elements(self, x: Any, word: str) -> None:
        if word == "Long" and self.long_size == 4:
            narrow = x.int()
            if not (narrow == x).all():
                raise ValueError("numbers of a LongStorage do not fit into 4 bytes")
            x = narrow
        self.file.write(memoryview(x.numpy()).cast("B") if x.numel() else b"")


class TextOut:
    """Writes numbers as an ASCII file has them."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def long(self, *values: int) -> None:
        if values:
            self.file.write(" ".join(map(str, values)).encode() + b"\n")

    def integer(self, x: int) -> None:
        self.long(x)

    def real(self, x: float) -> None:
        self.file.write((f"{x:.17g}" if isfinite(x) else f"{x}").encode() + b"\n")

    def string(self, x: bytes) -> None:
        self.integer(len(x))
        self.file.write(x + b"\n" if x else b"")

    def elements(self, x: Any, word: str) -> None:
        if word in ("Byte", "Char"):
            data = x.numpy().tobytes()
            self.file.write(data + b"\n" if data else b"")
        elif DTYPES[word].is_floating_point:
            digits = 17 if word == "Double" else 9
            words = [f"{v:.{digits}g}" if isfinite(v) else f"{v}" for v in x.tolist()]
            self.file.write((" ".join(words) + "\n").encode() if words else b"")
        else:
            self.long(*x.tolist())


def source(file: Any, long_size: int | None) -> Binary | Text:
    """A file, from where it stands, as what its first bytes say it is."""
    if long_size not in (None, 4, 8):
        raise ValueError(f"long_size is 4 or 8, not {long_size!r}")
    if not (hasattr(file, "seekable") and file.seekable()):
        file = io.BytesIO(file.read())
    start = file.tell()
    size = file.seek(0, io.SEEK_END) - start
    file.seek(start)
    first = file.read(1)
    file.seek(start)
    if first.isdigit():  # in binary, the first byte is a kind of object
        return Text(file.read())
    return Binary(file, size, long_size or 8)


for _class in (T7ReaderException, LuaFunction, Table, TorchObject):
    _class.__module__ = f"{__package__}.read_lua_file"  # where programs and pickles find it
del _class
