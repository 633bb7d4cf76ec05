"""Errors of writing, under PyTorch's names, and of reading."""

from __future__ import annotations

__all__ = [
    "OnnxExporterError",
    "OnnxExporterWarning",
    "OnnxFormatError",
    "OnnxLoadError",
    "SymbolicValueError",
    "UnsupportedOperatorError",
]


class OnnxExporterWarning(UserWarning):
    """A model is exported, but something of it may not be meant."""


class OnnxExporterError(RuntimeError):
    """A model cannot be exported."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operation has no form in ONNX: says which, where it is called, and what would work."""


class SymbolicValueError(OnnxExporterError):
    """A form cannot be written for these arguments."""


class OnnxLoadError(RuntimeError):
    """A model cannot be read: it says which node or tensor, and why."""


class OnnxFormatError(OnnxLoadError):
    """A file is no model of ONNX, or is damaged."""
