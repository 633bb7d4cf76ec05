"""The disk cache: object code under the digest of what it was made from.

An entry is a file `<digest>.k`: a magic word, the SHA-256 of the code, the code.  Writers make a temporary
file and rename it, so a reader never sees half an entry and several processes may write at once; an entry
that does not match its checksum counts as absent and is replaced.  A folder that cannot be written is no
error: kernels are then compiled anew in each process.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from pathlib import Path

MAGIC = b"flambeau1"
LIMIT_BYTES = 256 << 20  # a kernel is about 3 KB
_EVERY = 200  # entries written between two looks at the folder's size


@functools.cache
def folder() -> Path:
    """FLAMBEAU_CACHE_DIR, else flambeau/ in XDG_CACHE_HOME, else ~/.cache/flambeau."""
    given = os.environ.get("FLAMBEAU_CACHE_DIR")
    if given:
        return Path(given)
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "flambeau"


def read(digest: str) -> bytes | None:
    """The code of an intact entry, else None."""
    try:
        entry = (folder() / f"{digest}.k").read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return None
    start = len(MAGIC) + 32
    if entry[: len(MAGIC)] != MAGIC or hashlib.sha256(entry[start:]).digest() != entry[len(MAGIC) : start]:
        return None
    return entry[start:]


_written = 0


def write(digest: str, code: bytes) -> bool:
    """Store an entry; whether it could be stored."""
    global _written
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
    _written += 1
    if _written % _EVERY == 0:
        trim()
    return True


def trim(limit: int = LIMIT_BYTES) -> None:
    """Delete the entries that were written longest ago until the rest fits the limit."""
    entries = []
    for path in folder().glob("*.k"):
        try:
            found = path.stat()
        except OSError:
            continue
        entries.append((found.st_mtime, found.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit:
            return
        path.unlink(missing_ok=True)
        total -= size
