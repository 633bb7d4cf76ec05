"""A profiler of Apple's graphics processors, of which there are none here."""

from __future__ import annotations

from ..devices.absent import refusals as _refusals

__all__ = ["is_capturing_metal", "is_metal_capture_enabled", "metal_capture", "profile", "start", "stop"]  # noqa: F822


def is_metal_capture_enabled() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.mps.profiler.is_metal_capture_enabled()
    False
    """
    return False


def is_capturing_metal() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.mps.profiler.is_capturing_metal()
    False
    """
    return False


globals().update(_refusals("mps.profiler", "metal_capture profile start stop", RuntimeError))
