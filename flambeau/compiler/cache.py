"""The disk cache: object code under the digest of what it was made from.

An entry is a file `<digest>.k`: a magic word, the SHA-256 of the code, the code.  Writers make a temporary
file and rename it, so a reader never sees half an entry, several processes may write at once, and one that
is killed leaves a temporary file that is swept away later; an entry that does not match its checksum counts
as absent and is replaced.  A folder that cannot be written, or a disk that is full, is no error: kernels are
then compiled anew in each process.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import time
import zlib
from pathlib import Path

MAGIC = b"flambeau1"
LIMIT_BYTES = 256 << 20  # a kernel is about 3 KB
EVERY = 200  # entries written, by any processes, between two looks at the folder's size: on average
DAY = 86400.0  # seconds


@functools.cache
def folder() -> Path:
    """FLAMBEAU_CACHE_DIR, else flambeau/ in XDG_CACHE_HOME, else ~/.cache/flambeau."""
    given = os.environ.get("FLAMBEAU_CACHE_DIR")
    if given:
        return Path(given)
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "flambeau"


def limit() -> int:
    """FLAMBEAU_CACHE_LIMIT in bytes; ValueError where that is not a whole number."""
    given = os.environ.get("FLAMBEAU_CACHE_LIMIT")
    if given is None:
        return LIMIT_BYTES
    if not given.isdigit():
        raise ValueError(f"FLAMBEAU_CACHE_LIMIT: a number of bytes expected, got {given!r}")
    return int(given)


def read(digest: str) -> bytes | None:
    """The code of an intact entry, else None."""
    try:
        path = folder() / f"{digest}.k"
        entry = path.read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return None
    start = len(MAGIC) + 32
    if entry[: len(MAGIC)] != MAGIC or hashlib.sha256(entry[start:]).digest() != entry[len(MAGIC) : start]:
        return None
    _mark_used(path)
    return entry[start:]


def _mark_used(path: Path) -> None:
    """The time of writing is the time of the last use, to the day: what `trim` deletes goes by it."""
    try:
        if time.time() - path.stat().st_mtime > DAY:
            os.utime(path)
    except OSError:  # somebody else's folder, or just deleted: the entry was read all the same
        return


def write(digest: str, code: bytes) -> bool:
    """Store an entry; whether it could be stored."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder(), suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(MAGIC + hashlib.sha256(code).digest() + code)
            os.replace(name, folder() / f"{digest}.k")
        except OSError:
            os.unlink(name)
            raise
    except (OSError, RuntimeError):
        return False
    if zlib.crc32(digest.encode()) % EVERY == 0:
        trim()
    return True


def _entries(pattern: str) -> list[tuple[float, int, Path]]:
    """When last used, bytes, path."""
    found = []
    try:
        for path in folder().glob(pattern):
            try:
                status = path.stat()
            except OSError:  # deleted by somebody else meanwhile
                continue
            found.append((status.st_mtime, status.st_size, path))
    except (OSError, RuntimeError):
        return []
    return sorted(found)


def _delete(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


def trim(most: int | None = None) -> None:
    """Delete the entries that were used longest ago until the rest fits the limit, and what killed writers left."""
    most = limit() if most is None else most
    for used, _, path in _entries("*.tmp"):
        if time.time() - used > DAY:
            _delete(path)
    entries = _entries("*.k")
    total = sum(size for _, size, _ in entries)
    for _, size, path in entries:
        if total <= most:
            return
        if _delete(path):
            total -= size


def cache_stats() -> dict:
    """Where kernels are kept, how many there are, their bytes, and the limit of those.

    >>> from flambeau import compiler
    >>> sorted(compiler.cache_stats())
    ['bytes', 'entries', 'folder', 'limit']
    """
    entries = _entries("*.k")
    return {
        "folder": str(folder()),
        "entries": len(entries),
        "bytes": sum(size for _, size, _ in entries),
        "limit": limit(),
    }


def clear_cache() -> None:
    """Delete every kernel on disk; those in memory stay."""
    for _, _, path in _entries("*.k") + _entries("*.tmp"):
        _delete(path)
