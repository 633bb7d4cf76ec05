"""Whether kernels can be written in Triton's language: not for this library."""

from __future__ import annotations

__all__ = ["has_triton", "has_triton_package"]


def has_triton() -> bool:
    """Whether Triton compiles kernels for a device that is here: False.

    >>> from flambeau.utils._triton import has_triton
    >>> has_triton()
    False
    """
    return False


def has_triton_package() -> bool:
    """Whether Triton can be used with these tensors: False."""
    return False
