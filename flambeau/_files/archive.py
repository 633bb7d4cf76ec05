"""The zip archives that tensors are kept in: uncompressed entries, as PyTorch lays them out.

Our own reader and writer, since zipfile's reader is too kind (it takes entries that overlap, or whose two headers disagree) and
its writer copies.  Numbers are those of APPNOTE.TXT 6.3, the specification of zip files.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from io import BufferedRandom, BufferedReader, FileIO
from typing import Any, NamedTuple
from zlib import crc32

from . import checksums
from .checksums import BLOCK
from .errors import Damaged, require

ALIGNMENT = 64
_MOST_INFLATED = 1032  # bytes that deflate makes of one
_LIMIT = 0xFFFFFFFF  # sizes and places from here on stand in the fields of zip64
_DESCRIBED, _UTF8, _ENCRYPTED = 0x8, 0x800, 0x1
_LOCAL = struct.Struct("<4sHHHHHLLLHH")
_CENTRAL = struct.Struct("<4sHHHHHHLLLHHHHHLL")
_END = struct.Struct("<4sHHHHLLH")
_END64 = struct.Struct("<4sQHHLLQQQQ")
_LOCATOR = struct.Struct("<4sLQL")


class Entry(NamedTuple):
    """One member: where its bytes lie in the file, and what they should sum up to; `packed`: how many they are there, deflated."""

    name: str
    start: int
    size: int
    crc: int
    packed: int | None = None


# --- writing ------------------------------


class Writer:
    """Writes an archive from its beginning to its end; `write(bytes)` is where it goes."""

    def __init__(
        self, write: Callable[[Any], Any], *, alignment: int = ALIGNMENT, checksums: bool = True
    ) -> None:
        self._write = write
        self._at = 0
        self._alignment = alignment
        self._checksums = checksums
        self._central: list[bytes] = []

    def add(self, name: str, data: Any) -> int:
        """An entry of those bytes, at a multiple of the alignment; returns its checksum."""
        return self._add(name, len(data), lambda: self._bytes(memoryview(data)))

    def add_hole(self, name: str, size: int) -> int:
        """An entry of so many bytes that somebody else will fill in: zeros, without a checksum."""
        return self._add(name, size, lambda: self._zeros(size))

    def _add(self, name: str, size: int, content: Callable[[], int]) -> int:
        encoded, begin = name.encode(), self._at
        large, far = size >= _LIMIT, begin >= _LIMIT
        wide = struct.pack("<HHQQ", 1, 16, size, size) if large else b""
        head = begin + _LOCAL.size + len(encoded) + len(wide) + 4
        padding = -head % self._alignment
        extra = (
            wide + struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        )  # PyTorch pads with these letters, too
        flags = _UTF8 | (_DESCRIBED if size else 0)  # the checksum follows the bytes, which are read once
        shown = _LIMIT if large else 0
        self._put(
            _LOCAL.pack(b"PK\3\4", 0, flags, 0, 0, 0, 0, shown, shown, len(encoded), len(extra))
            + encoded
            + extra
        )
        crc = content()
        if size:
            self._put(struct.pack("<4sLQQ" if large or far else "<4sLLL", b"PK\7\x08", crc, size, size))
        sizes = struct.pack("<QQ", size, size) if large else b""
        place = struct.pack("<Q", begin) if far else b""
        tail = struct.pack("<HH", 1, len(sizes + place)) + sizes + place if large or far else b""
        fields = (
            min(size, _LIMIT),
            min(size, _LIMIT),
            len(encoded),
            len(tail),
            0,
            0,
            0,
            0,
            min(begin, _LIMIT),
        )
        self._central.append(_CENTRAL.pack(b"PK\1\2", 0, 0, flags, 0, 0, 0, crc, *fields) + encoded + tail)
        return crc

    def close(self) -> None:
        """Write the directory; PyTorch's always has its 64-bit form, too."""
        begin, n = self._at, len(self._central)
        directory = b"".join(self._central)
        end = begin + len(directory)
        self._put(directory)
        self._put(_END64.pack(b"PK\6\6", _END64.size - 12, 798, 45, 0, 0, n, n, len(directory), begin))
        self._put(_LOCATOR.pack(b"PK\6\7", 0, end, 1))
        fields = (min(n, 0xFFFF), min(n, 0xFFFF), min(len(directory), _LIMIT), min(begin, _LIMIT))
        self._put(_END.pack(b"PK\5\6", 0, 0, *fields, 0))

    def _bytes(self, data: memoryview) -> int:
        if not self._checksums:
            self._put(data)
            return 0
        crc = 0
        for i in range(0, len(data), BLOCK):
            block = data[i : i + BLOCK]
            crc = crc32(block, crc)
            self._put(block)
        return crc

    def _zeros(self, size: int) -> int:
        zeros = bytes(min(size, BLOCK))
        for i in range(0, size, BLOCK):
            self._put(zeros[: size - i])
        return 0

    def _put(self, data: Any) -> None:
        self._write(data)
        self._at += len(data)


# --- reading ------------------------------


class Source:
    """The bytes of a file from where it stands to its end, read at given places."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._base = file.tell()
        self._descriptor = _descriptor(file)
        self.size = max(file.seek(0, os.SEEK_END) - self._base, 0)
        file.seek(self._base)

    def rewind(self) -> None:
        self._file.seek(self._base)

    def read(self, start: int, n: int) -> bytes:
        """Exactly n bytes, all of which must be in the file."""
        require(0 <= start <= self.size and n <= self.size - start, f"the file ends after {self.size} bytes")
        self._file.seek(self._base + start)
        data = self._file.read(n)
        require(len(data) == n, f"reading {n} bytes at {start} gave {len(data)}")
        return data

    def fill(self, start: int, view: memoryview, summed: bool) -> int:
        """Fill `view` with what lies at `start`; the checksum of it, where that is wanted."""
        require(start + len(view) <= self.size, f"the file ends after {self.size} bytes")
        descriptor = self._descriptor
        if descriptor is not None:

            def part(begin: int, end: int) -> int:
                at = self._base + start + begin
                read = lambda block, done: os.preadv(descriptor, [block], at + done)
                return _in_blocks(view[begin:end], read, summed)

            return checksums.by_parts(len(view), part)
        self._file.seek(self._base + start)
        readinto = getattr(self._file, "readinto", self._read_into)
        return _in_blocks(view, lambda block, done: readinto(block), summed)

    def _read_into(self, block: memoryview) -> int:
        data = self._file.read(len(block))
        block[: len(data)] = data
        return len(data)


def _in_blocks(view: memoryview, read: Callable[[memoryview, int], int], summed: bool) -> int:
    """Fill `view` by `read(block, how many bytes before it)`."""
    done = crc = 0
    while done < len(view):
        block = view[done : done + BLOCK]
        got = read(block, done)
        require(bool(got), "the file ends in the middle of an entry")
        if summed:
            crc = crc32(block[:got], crc)
        done += got
    return crc


def _descriptor(file: Any) -> int | None:
    """What the system reads a file by, where its bytes are those that the file object gives."""
    try:
        return file.fileno() if type(file) in (BufferedReader, BufferedRandom, FileIO) else None
    except (OSError, ValueError):
        return None


class Archive:
    """The entries of a zip archive by name, once everything that its headers say is found to fit the file."""

    def __init__(self, source: Source, inflating: bool = False) -> None:
        self.source = source
        self.inflating = inflating  # deflated entries are read, too
        self.entries: dict[str, Entry] = {}
        begin, size, n = self._find_directory()
        places = self._read_directory(source.read(begin, size), n)
        places.sort()
        end = 0
        for place, name, flags, nbytes, crc, packed in places:
            require(place >= end, f"entry {name!r} overlaps the one before it")
            start = self._after_local_header(place, name, flags, packed is not None)
            end = start + (nbytes if packed is None else packed)
            require(end <= begin, f"entry {name!r} of {nbytes} bytes is larger than the file")
            self.entries[name] = Entry(name, start, nbytes, crc, packed)

    def read(self, name: str) -> bytes:
        """The bytes of a small entry."""
        entry = self.entries[name]
        if entry.packed is None:
            data = self.source.read(entry.start, entry.size)
        else:
            data = _inflated(entry, self.source.read(entry.start, entry.packed))
        self._compare(entry, crc32(data))
        return data

    def fill(self, entry: Entry, view: memoryview) -> None:
        """Fill `view` with an entry's bytes, whose checksum is compared."""
        require(entry.packed is None, f"entry {entry.name!r} is compressed, and so no storage")
        self._compare(entry, self.source.fill(entry.start, view, bool(entry.crc)))

    def _compare(self, entry: Entry, crc: int) -> None:
        # A checksum of 0 says that none was made: `set_crc32_options(False)` writes such files.
        if entry.crc not in (0, crc):
            raise Damaged(f"bad CRC-32 of entry {entry.name!r}: {crc:08x}, and the file says {entry.crc:08x}")

    def _find_directory(self) -> tuple[int, int, int]:
        """Beginning and length of the directory, and how many entries it has."""
        source = self.source
        tail = source.read(max(source.size - _END.size - 0xFFFF, 0), min(source.size, _END.size + 0xFFFF))
        at = tail.rfind(b"PK\5\6", 0, len(tail) - _END.size + 4)
        require(at >= 0, "a zip archive without its end: the file is cut short or no archive")
        _, disk, first, here, n, size, begin, comment = _END.unpack_from(tail, at)
        require(disk == first == 0 and here == n, "an archive on several disks")
        require(at + _END.size + comment == len(tail), "bytes after the archive's end")
        end = source.size - len(tail) + at
        if end >= _LOCATOR.size + _END64.size:
            mark, disk, place, disks = _LOCATOR.unpack(source.read(end - _LOCATOR.size, _LOCATOR.size))
            if mark == b"PK\6\7":
                require(disk == 0 and disks == 1, "an archive on several disks")
                require(place <= end - _LOCATOR.size - _END64.size, "the 64-bit end lies outside of the file")
                mark, length, _, _, disk, first, here, n, size, begin = _END64.unpack(
                    source.read(place, _END64.size)
                )
                whole = (
                    mark == b"PK\6\6" and length == end - _LOCATOR.size - place - 12 and disk == first == 0
                )
                require(whole and here == n, "the archive's 64-bit end is damaged")
                end = place
        require(
            begin + size == end,
            f"the directory of the archive, {size} bytes at {begin}, does not end at {end}",
        )
        require(n * _CENTRAL.size <= size, f"a directory of {size} bytes cannot have {n} entries")
        return begin, size, n

    def _read_directory(self, directory: bytes, n: int) -> list[tuple[int, str, int, int, int, int | None]]:
        """Of each entry: its place, name, flags, size, checksum, and how many bytes it has where it is deflated."""
        at, result, names = 0, [], set()
        for _ in range(n):
            require(at + _CENTRAL.size <= len(directory), "the directory of the archive is cut short")
            fields = _CENTRAL.unpack_from(directory, at)
            (
                mark,
                _,
                _,
                flags,
                method,
                _,
                _,
                crc,
                packed,
                size,
                n_name,
                n_extra,
                n_comment,
                disk,
                _,
                _,
                place,
            ) = fields
            begin = at + _CENTRAL.size
            at = begin + n_name + n_extra + n_comment
            require(mark == b"PK\1\2" and at <= len(directory), "the directory of the archive is damaged")
            name = _decoded(directory[begin : begin + n_name])
            if _LIMIT in (packed, size, place):
                extra = directory[begin + n_name : begin + n_name + n_extra]
                packed, size, place = _wide(extra, name, packed, size, place)
            deflated = self.inflating and method == 8
            plain = (deflated or (method == 0 and packed == size)) and not flags & _ENCRYPTED and disk == 0
            kept = " (a TorchScript archive, which jit.load reads)" if "/code/" in name else ""
            require(plain, f"entry {name!r} is compressed or encrypted, which is not read{kept}")
            if deflated:
                require(
                    size <= _MOST_INFLATED * (packed + 1), f"entry {name!r}: {packed} bytes cannot be {size}"
                )
            require(name not in names, f"two entries of the archive have the same name, {name!r}")
            names.add(name)
            result.append((place, name, flags, size, crc, packed if deflated else None))
        require(at == len(directory), "the directory of the archive has bytes left over")
        return result

    def _after_local_header(self, place: int, name: str, flags: int, deflated: bool) -> int:
        """Where an entry's bytes begin: after a header that ends in its name and an extra field."""
        require(place + _LOCAL.size <= self.source.size, f"entry {name!r} begins after the file")
        mark, _, own, method, _, _, _, _, _, n_name, n_extra = _LOCAL.unpack(
            self.source.read(place, _LOCAL.size)
        )
        wanted = 8 if deflated else 0
        require(
            mark == b"PK\3\4" and method == wanted,
            f"entry {name!r} has no header of an entry like the directory's",
        )
        require(not (own ^ flags) & ~_UTF8, f"entry {name!r}: its header and the directory disagree")
        start = place + _LOCAL.size + n_name + n_extra
        same = _decoded(self.source.read(place + _LOCAL.size, n_name)) == name
        require(same, f"entry {name!r} has another name in its own header")
        return start


def _inflated(entry: Entry, data: bytes) -> bytes:
    """The content of a deflated entry, of exactly the size that the directory says; no more is ever made."""
    from zlib import decompressobj, error

    machine = decompressobj(-15)
    try:
        result = machine.decompress(data, entry.size + 1)
    except error as wrong:
        raise Damaged(f"entry {entry.name!r} is damaged: {wrong}") from wrong
    require(len(result) == entry.size, f"entry {entry.name!r} has other than {entry.size} bytes")
    return result


def _decoded(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("cp437")


def _wide(extra: bytes, name: str, *numbers: int) -> list[int]:
    """The numbers of a directory's entry, those that are full read from the field of zip64."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            wanted = sum(n == _LIMIT for n in numbers)
            require(8 * wanted <= length <= len(extra) - at - 4, f"entry {name!r} has a damaged 64-bit field")
            wide = iter(struct.unpack_from(f"<{wanted}Q", extra, at + 4))
            # The order in the file is size, packed size, place.
            packed, size, place = numbers
            size = next(wide) if size == _LIMIT else size
            packed = next(wide) if packed == _LIMIT else packed
            return [packed, size, next(wide) if place == _LIMIT else place]
        at += 4 + length
    raise Damaged(f"entry {name!r} has no 64-bit field, and needs one")
