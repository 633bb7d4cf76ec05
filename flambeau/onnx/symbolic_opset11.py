"""PyTorch's forms of operations in ONNX's opset 11, which are absent: every name says so."""

from __future__ import annotations

from .._compat.absent import refusing

__all__: list[str] = []
__getattr__ = refusing("onnx.symbolic_opset11")
