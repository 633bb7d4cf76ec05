"""Errors of the export, under PyTorch's names."""

from __future__ import annotations

__all__ = ["OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError", "UnsupportedOperatorError"]


class OnnxExporterWarning(UserWarning):
    """A model is exported, but something of it may not be meant."""


class OnnxExporterError(RuntimeError):
    """A model cannot be exported."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operation has no form in ONNX: says which, where it is called, and what would work."""


class SymbolicValueError(OnnxExporterError):
    """A form cannot be written for these arguments."""
