"""The disk cache: object code under the digest of what it was made from.

An entry is a file `<digest>.k`: a magic word, the SHA-256 of digest and code, the code.  Writers make a temporary
file and rename it, so a reader never sees half an entry, several processes may write at once, and one that
is killed leaves a temporary file that is swept away later; an entry that does not match its checksum counts
as absent and is replaced.

**Trust.**  Entries are machine code, so whoever can write one runs programs as the user.  They are guarded by the rights
of the file system alone: the folder, and each entry, must belong to the user or to root and be writable by nobody else,
as the opened file says (not its name, which may be given to another file meanwhile).  A key would add nothing, since it
would have to lie where those who can write entries could read it; the checksum is against damage.  Who can write
in a folder above can put another folder here, but none of an owner that is believed.  Where the folder
cannot be trusted, or not be written, kernels stay in memory, each process compiles its own, and one warning says why.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import stat
import time
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..core.base import settings

MAGIC = b"flambeau2"
HEAD_BYTES = len(MAGIC) + hashlib.sha256().digest_size
LIMIT_BYTES = settings.number_of_bytes("FLAMBEAU_CACHE_LIMIT", 256 << 20)  # a kernel is about 3 KB
LARGEST_BYTES = 256 << 20  # of an entry: a kernel's code, or an image of an accelerator
used: set[str] = set()  # entries that this process has read or written
EVERY = 200  # entries written, by any processes, between two looks at the folder's size: on average
DAY = 86400.0  # seconds
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OPEN_ENTRY = (
    os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
)  # a fifo does not block
_MAKE_ENTRY = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@functools.cache
def folder() -> Path:
    """FLAMBEAU_CACHE_DIR, else flambeau/ in XDG_CACHE_HOME, else ~/.cache/flambeau."""
    given = os.environ.get("FLAMBEAU_CACHE_DIR")
    if given:
        return Path(given).expanduser().absolute()
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root).absolute() if root else Path.home() / ".cache") / "flambeau"


@functools.cache
def _warn(problem: str) -> None:
    """Once for each way in which the cache is of no use."""
    warnings.warn(
        f"compiled kernels stay in memory, and each process compiles its own: {problem}",
        RuntimeWarning,
        stacklevel=2,
    )


# --- trust ------------------------------
def reason_to_distrust(status: os.stat_result, user: int) -> str | None:
    """What speaks against running code that lies in a file or folder of this status; None if nothing does."""
    if status.st_uid not in (user, 0):
        return f"it belongs to the user with number {status.st_uid}, not to {user} or root"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write there (its mode is {stat.S_IMODE(status.st_mode):04o})"
    return None


@contextmanager
def _opened(make: bool = False) -> Iterator[int | None]:
    """A descriptor of the folder, or None where there is none or it is not trusted.

    With `make` it is made first, and a warning says why where that fails.
    """
    try:
        place = folder()
        if make:
            place.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                place.mkdir(mode=0o700)
        handle = os.open(place, _OPEN_FOLDER)
    except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
        if make:
            _warn(f"{error}; set FLAMBEAU_CACHE_DIR to a folder that can be written")
        yield None
        return
    try:
        doubt = reason_to_distrust(os.fstat(handle), os.geteuid())
        if doubt is not None:
            _warn(
                f"{place} is not to be trusted with code: {doubt}; remove it, "
                "or set FLAMBEAU_CACHE_DIR to a folder of your own with mode 0700"
            )
        yield handle if doubt is None else None
    finally:
        os.close(handle)


# --- entries ------------------------------
def read(digest: str) -> bytes | None:
    """The code of an intact entry that nobody else can have written, else None."""
    with _opened() as at:
        if at is None:
            return None
        try:
            handle = os.open(f"{digest}.k", _OPEN_ENTRY, dir_fd=at)
        except OSError:
            return None
        try:
            status = os.fstat(handle)
            plain = stat.S_ISREG(status.st_mode) and HEAD_BYTES <= status.st_size <= LARGEST_BYTES
            if not plain or reason_to_distrust(status, os.geteuid()) is not None:
                return None
            entry = os.read(handle, status.st_size)
            code = entry[HEAD_BYTES:]
            if entry[:HEAD_BYTES] != _head(digest, code):
                return None
            if (
                time.time() - status.st_mtime > DAY
            ):  # the last use, to the day: what `trim` deletes goes by it
                with suppress(OSError):  # root's: the entry was read all the same
                    os.utime(handle)
            used.add(digest)
            return code
        except OSError:
            return None
        finally:
            os.close(handle)


def _head(digest: str, code: bytes) -> bytes:
    return MAGIC + hashlib.sha256(digest.encode() + code).digest()


def write(digest: str, code: bytes) -> bool:
    """Store an entry; whether it could be stored."""
    with _opened(make=True) as at:
        if at is None:
            return False
        name = f"{os.urandom(8).hex()}.tmp"
        try:
            handle = os.open(name, _MAKE_ENTRY, 0o600, dir_fd=at)
            try:
                with io.BufferedWriter(io.FileIO(handle, "w")) as file:  # the last finalisers have no `open`
                    file.write(_head(digest, code) + code)
                os.replace(name, f"{digest}.k", src_dir_fd=at, dst_dir_fd=at)
            except BaseException:
                os.unlink(name, dir_fd=at)
                raise
        except OSError as error:
            _warn(f"cannot write to {folder()}: {error.strerror}; set FLAMBEAU_CACHE_DIR to another folder")
            return False
    used.add(digest)
    if zlib.crc32(digest.encode()) % EVERY == 0:
        trim()
    return True


# --- the folder as a whole ------------------------------
def _entries(at: int | None, suffix: str) -> list[tuple[float, int, str]]:
    """When last used, bytes, name."""
    result = []
    if at is not None:
        for name in os.listdir(at):
            if name.endswith(suffix):
                with suppress(FileNotFoundError):  # deleted by somebody else meanwhile
                    status = os.stat(name, dir_fd=at, follow_symlinks=False)
                    result.append((status.st_mtime, status.st_size, name))
    return sorted(result)


def _delete(name: str, at: int | None) -> bool:
    try:
        os.unlink(name, dir_fd=at)
    except OSError:
        return False
    return True


def trim(most: int | None = None) -> None:
    """Delete the entries that were used longest ago until the rest fits the limit, and what killed writers left."""
    most = LIMIT_BYTES if most is None else most
    with _opened() as at:
        for used, _, name in _entries(at, ".tmp"):
            if time.time() - used > DAY:
                _delete(name, at)
        entries = _entries(at, ".k")
        total = sum(size for _, size, _ in entries)
        for _, size, name in entries:
            if total <= most:
                return
            if _delete(name, at):
                total -= size


def cache_stats() -> dict:
    """Where kernels are kept, how many there are, their bytes, and the limit of those.

    A folder that is not trusted counts as empty.

    >>> from flambeau import codegen
    >>> sorted(codegen.cache_stats())
    ['bytes', 'entries', 'folder', 'limit']
    """
    with _opened() as at:
        entries = _entries(at, ".k")
    return {
        "folder": str(folder()),
        "entries": len(entries),
        "bytes": sum(size for _, size, _ in entries),
        "limit": LIMIT_BYTES,
    }


def clear_cache() -> None:
    """Delete every kernel on disk; those in memory stay."""
    with _opened() as at:
        for _, _, name in _entries(at, ".k") + _entries(at, ".tmp"):
            _delete(name, at)
