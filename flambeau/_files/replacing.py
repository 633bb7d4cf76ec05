"""Files that take the place of another in one go when they are complete."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def replacing(path: str, fsync: bool) -> Iterator[BinaryIO]:
    """A file that takes the place of the one at `path` when the block ends without an exception."""
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device stays what it is
        with open(path, "wb") as file:
            yield file
        return
    at = os.open(folder, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        handle, temporary = _new_file(at, name)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                _take_after(file, at, name)
                if fsync:
                    os.fsync(handle)
                if temporary is None:
                    temporary = _give_name(file, at, name)
            if temporary is not None:
                os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
        except BaseException:
            if temporary is not None:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=at)
            raise
    finally:
        os.close(at)
    if fsync:
        _fsync_folder(folder)


def _new_file(at: int, name: str) -> tuple[int, str | None]:
    """A file to write in a folder, with no name where there are such files: the system frees it when we are killed."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        try:
            return os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=at), None
        except OSError as error:
            if error.errno not in (
                errno.EOPNOTSUPP,
                errno.EISDIR,
                errno.EINVAL,
            ):  # what file systems without it say
                raise
    temporary = f"{name}.{os.urandom(4).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(temporary, flags, 0o666, dir_fd=at), temporary


def _give_name(file: BinaryIO, at: int, name: str) -> str | None:
    """Name a file that has none: as wanted, or, where there is such a file, provisionally."""
    for wanted in (name, f"{name}.{os.urandom(4).hex()}.tmp"):
        with suppress(FileExistsError):
            os.link(f"/proc/self/fd/{file.fileno()}", wanted, dst_dir_fd=at, follow_symlinks=True)
            return None if wanted == name else wanted
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)


def _take_after(file: BinaryIO, at: int, name: str) -> None:
    """Give a file owner, group and mode of the one that it replaces, as far as the system lets us."""
    try:
        old = os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return
    own, mode = os.fstat(file.fileno()), stat.S_IMODE(old.st_mode) & 0o777
    if old.st_gid != own.st_gid:
        try:
            os.fchown(file.fileno(), -1, old.st_gid)
        except PermissionError:
            mode &= ~0o070  # what was allowed to that group is not meant for ours
    if old.st_uid != own.st_uid:
        with suppress(PermissionError):
            os.fchown(file.fileno(), old.st_uid, -1)
    os.fchmod(file.fileno(), mode)


def _fsync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
