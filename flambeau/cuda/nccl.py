"""NCCL, NVIDIA's library for several devices, which nothing here uses."""

from __future__ import annotations

from typing import Any

__all__ = ["is_available", "version"]


def is_available(tensors: Any = ()) -> bool:
    """False: NCCL takes no tensors here.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.cuda.nccl.is_available([flambeau.ones(2)])
    False
    """
    return False


def version() -> tuple[int, ...]:
    """RuntimeError: there is no NCCL to have a version.

    >>> import flambeau
    >>> flambeau.cuda.nccl.version()
    Traceback (most recent call last):
        ...
    RuntimeError: nccl.version(): flambeau is built without NCCL
    """
    from ..core.base.display import NAME

    raise RuntimeError(f"nccl.version(): {NAME} is built without NCCL")
