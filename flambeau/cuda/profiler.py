"""Switching a profiler of NVIDIA's or AMD's that watches this process on and off, through the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..core.base import device as _devices
from ..devices import cuda as _driver

__all__ = ["profile", "start", "stop"]


def _call(name: str) -> None:
    """A function of the driver's that takes nothing.  RuntimeError without a device, or where it fails."""
    import ctypes

    _devices.find_device("cuda", None)
    name = ("hip" if _driver.is_hip() else "cu") + name
    status = getattr(ctypes.CDLL(_driver.library_path()), name)()
    if status:
        raise RuntimeError(f"{_driver.speaks()} error: {name}: error {status}")


def start() -> None:
    """Let the profiler collect from here on.  RuntimeError without a device.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.profiler.start()
    """
    _call("ProfilerStart")


def stop() -> None:
    """Let it collect no longer.  RuntimeError without a device.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.profiler.stop()
    """
    _call("ProfilerStop")


@contextmanager
def profile() -> Iterator[None]:
    """A context in which the profiler collects.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     with flambeau.cuda.profiler.profile():
    ...         y = flambeau.ones(2, device="cuda") + 1
    """
    start()
    try:
        yield
    finally:
        stop()
