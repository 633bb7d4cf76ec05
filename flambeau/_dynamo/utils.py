"""Questions about the compiler of graphs."""

from __future__ import annotations

from .._compat.absent import refusing

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: str) -> bool:
    """Whether graphs are compiled for a type of device: the CPU.

    >>> is_compile_supported("cpu"), is_compile_supported("cuda")
    (True, False)
    """
    return device_type == "cpu"


__getattr__ = refusing("_dynamo.utils")
