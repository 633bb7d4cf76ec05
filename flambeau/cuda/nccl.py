"""NCCL, NVIDIA's library for collectives between devices, through which backend "nccl" of process groups talks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["is_available", "version"]


def is_available(tensors: Iterable[Any]) -> bool:
    """Whether NCCL's library opens, and takes these tensors: strided, contiguous, each on a CUDA device of its own.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.cuda.nccl.is_available([flambeau.ones(2)])
    False
    """
    from ..devices import nccl  # loaded at its first use

    devices = set()
    for tensor in tensors:
        if tensor.is_sparse or not tensor.is_contiguous() or tensor.device.type != "cuda":
            return False
        if tensor.device in devices:
            return False
        devices.add(tensor.device)
    return nccl.is_available()


def version() -> tuple[int, int, int]:
    """The version of NCCL's library, such as (2, 27, 3).

    Raises:
        RuntimeError: there is no library that can be used; it says what to install

    >>> import flambeau
    >>> if flambeau.distributed.is_nccl_available():
    ...     assert flambeau.cuda.nccl.version() > (2, 11)
    """
    from ..devices import nccl

    return nccl.library().version
