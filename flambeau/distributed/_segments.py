"""Names of shared memory that MPI libraries leave in /dev/shm: taken away early, and behind those who were killed before.

MPICH names a block while a world starts; memory whose name is gone stays as long as a process has it.
"""

from __future__ import annotations

import glob
import os
import time

_PATTERNS = (
    "/dev/shm/mpich_*",
    "/dev/shm/sm_segment.*",
    "/dev/shm/vader_segment.*",
    "/dev/shm/ucx_shm_posix_*",
)
_YOUNG = 0.3  # seconds in which a block may have been made and is not yet anybody's


def _used_by(pid: str) -> set[str]:
    """The blocks that a process has in its memory; none of one that is gone, or not ours to look at."""
    try:
        with open(f"/proc/{pid}/maps") as file:
            return {line.split(None, 5)[5].strip() for line in file if " /dev/shm/" in line}
    except OSError:
        return set()


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return  # another process of this machine was first


def unlink_own_segments() -> None:
    """Take the names of MPICH's shared memory away, now that all processes have it: so none is left, however they end."""
    for path in _used_by("self"):
        if path.startswith(("/dev/shm/mpich_", "/dev/shm/ucx_shm_")) and "(deleted)" not in path:
            _unlink(path)


def remove_after_fault(since: float) -> None:
    """Leave no name of a world that failed while it started: neither of what this process has, nor of what the dead had made."""
    unlink_own_segments()
    time.sleep(_YOUNG)
    remove_segments(since)


def remove_segments(since: float) -> None:
    """Remove the blocks of this user that were made after `since` (of `time.time`) and that no process uses."""
    result = [path for pattern in _PATTERNS for path in glob.glob(pattern)]
    candidates = []
    for path in result:
        try:
            made = os.stat(path)
        except FileNotFoundError:
            continue
        if (
            made.st_uid == os.geteuid()
            and made.st_mtime >= since - 1
            and time.time() - made.st_mtime > _YOUNG
        ):
            candidates.append(path)
    if candidates:
        used = set().union(*(_used_by(pid) for pid in os.listdir("/proc") if pid.isdigit()))
        for path in candidates:
            if path not in used:
                _unlink(path)
