"""Tensors in files of the safetensors format: the functions of the package `safetensors.torch`, for our tensors."""

from __future__ import annotations

from .._files.safetensors import (
    SafetensorError,
    load,
    load_file,
    load_model,
    safe_open,
    save,
    save_file,
    save_model,
)

__all__ = [
    "SafetensorError",
    "load",
    "load_file",
    "load_model",
    "safe_open",
    "save",
    "save_file",
    "save_model",
]
