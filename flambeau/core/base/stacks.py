"""Calls that need more stack than a thread may have: the compiler's, on a thread of their own where this one's is small.

`threading.stack_size(65536)` and some systems give threads less than LLVM takes, and it ends the process where there is no more.  The
thread lives for one call, which this one waits for: nothing is left for a fork to lose, and signals are handled after it, as after
any call of the compiler.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import forks

if TYPE_CHECKING:
    import ctypes

ENOUGH = 1 << 20  # bytes of a stack from which the compiler runs where it is called
GIVEN = 1 << 26
_OPAQUE = 256  # bytes of a pthread_attr_t, of which no system has more than 64
_thread = threading.local()  # .size: of this thread's stack


@functools.cache
def _libc() -> ctypes.CDLL:
    import ctypes  # with the first kernel that is made

    return ctypes.CDLL(None)


def _size() -> int:
    """The stack of this thread; ENOUGH where the system does not tell.

    For a process's first thread Linux reads all of /proc/self/maps, which every kernel makes longer; so it is read once.
    """
    try:
        return _thread.size
    except AttributeError:
        _thread.size = _system_size()
        return _thread.size


def _system_size() -> int:
    """What the system says."""
    import ctypes

    libc = _libc()
    libc.pthread_self.restype = ctypes.c_void_p
    me = ctypes.c_void_p(libc.pthread_self())
    if hasattr(libc, "pthread_get_stacksize_np"):  # macOS
        libc.pthread_get_stacksize_np.restype = ctypes.c_size_t
        return libc.pthread_get_stacksize_np(me)
    if not hasattr(libc, "pthread_getattr_np"):
        return ENOUGH
    attributes, low, size = ctypes.create_string_buffer(_OPAQUE), ctypes.c_void_p(), ctypes.c_size_t()
    if libc.pthread_getattr_np(me, attributes):
        return ENOUGH
    libc.pthread_attr_getstack(attributes, ctypes.byref(low), ctypes.byref(size))
    libc.pthread_attr_destroy(attributes)
    return size.value


def deep(function: Callable, *args: Any) -> Any:
    """function(*args) with enough stack; what it raises is raised here."""
    if sys.is_finalizing() or sys.platform == "win32" or _size() >= ENOUGH:
        return function(*args)  # at the end no other thread is let in any more
    return _elsewhere(function, args)


def _elsewhere(function: Callable, args: tuple) -> Any:
    import ctypes

    results: list[Any] = []
    errors: list[BaseException] = []

    def run(_: Any) -> None:
        try:
            results.append(function(*args))
        except BaseException as error:
            errors.append(error)

    libc = _libc()
    begin = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(run)
    thread, attributes = ctypes.c_void_p(), ctypes.create_string_buffer(_OPAQUE)
    libc.pthread_attr_init(attributes)
    libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(GIVEN))
    lent = forks.making._release_save() if forks.making._is_owned() else None  # type: ignore[attr-defined]
    try:
        failed = libc.pthread_create(ctypes.byref(thread), attributes, begin, None)
        if not failed:
            libc.pthread_join(thread, None)
    finally:
        libc.pthread_attr_destroy(attributes)
        if lent is not None:
            forks.making._acquire_restore(lent)  # type: ignore[attr-defined]
    if failed:
        raise RuntimeError(
            f"no thread with a stack of {GIVEN >> 20} MiB could be started to compile on (error {failed}), and that of this thread, "
            f"{_size() >> 10} KiB, is too small"
        )
    if errors:
        raise errors[0]
    return results[0]
