"""What a fork waits for, so that its child can work.

A child has one thread: a lock that another thread held stays locked for ever, and a module that another thread was
importing stays half imported, with its import lock held.  So a fork waits until no other thread makes a kernel and
none imports a library that this package imports when it is first needed: milliseconds, at most the seconds that an
import takes.  It does not wait for backward passes, which may take as long as they like and run users' code: the
child gets a lock of its own for those (`tape/engine.pyx:forget_other_threads`), as for the thread pool (`pool.c`).

There is one lock for the making of kernels, of images, and the opening of BLAS.  Several would have to be taken in
one order everywhere.
"""

from __future__ import annotations

import _imp
import os
import sys
import threading
import time
from contextlib import AbstractContextManager, ExitStack
from importlib import _bootstrap  # type: ignore[attr-defined]
from typing import Any

making = threading.RLock()
_others: list[AbstractContextManager] = []  # locks of libraries, taken inside `making`
_taken: ExitStack | None = None  # by the thread that forks
_LIBRARIES = (
    frozenset({"flambeau", "llvmlite", "numpy", "scipy", "scipy_openblas32"}) | sys.stdlib_module_names
)
_ATTEMPTS = 1000  # in a program that never ceases to import
_PAUSE = 0.001  # seconds


def hold(lock: AbstractContextManager) -> None:
    """Take this lock of a library before each fork, too; it is never held by a thread that waits for `making`."""
    _others.append(lock)


def _being_imported() -> Any:
    """The lock of a module that another thread imports: it exists while somebody does."""
    me = threading.get_ident()
    for name, reference in list(_bootstrap._module_locks.items()):
        lock = reference()
        if lock is not None and lock.owner != me and name.partition(".")[0] in _LIBRARIES:
            return lock
    return None


def _take() -> ExitStack:
    with ExitStack() as taken:
        taken.enter_context(making)
        for lock in _others:  # now that nobody adds to them
            taken.enter_context(lock)
        _imp.acquire_lock()  # nobody begins an import now
        taken.callback(_imp.release_lock)
        return taken.pop_all()


def _before_fork() -> None:
    global _taken
    taken = _take()
    for _ in range(_ATTEMPTS):
        lock = _being_imported()
        if lock is None:
            break
        taken.close()  # what is imported may need any of these locks
        try:
            lock.acquire()
        except _bootstrap._DeadlockError:  # the other thread waits for what this one imports
            taken = _take()
            break
        lock.release()
        del lock
        time.sleep(
            _PAUSE
        )  # a thread that has not locked the module yet, or no more, waits for what was given up here
        taken = _take()
    _taken = taken


def _after_fork() -> None:
    global _taken
    taken, _taken = _taken, None
    if taken is not None:  # None: an exception ended the waiting, as Ctrl-C does
        taken.close()


def _after_fork_in_child() -> None:
    if _taken is None and not making._is_owned():  # type: ignore[attr-defined]
        making._at_fork_reinit()  # type: ignore[attr-defined]
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
