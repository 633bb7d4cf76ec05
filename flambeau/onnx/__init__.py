"""ONNX, which is not written yet: nothing is being exported, and every other name says that it is absent."""

from __future__ import annotations

from .._absent import refusing
from . import operators

__all__ = ["is_in_onnx_export", "operators"]


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: False.

    >>> is_in_onnx_export()
    False
    """
    return False


__getattr__ = refusing("onnx")
