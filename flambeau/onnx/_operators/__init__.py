"""What ONNX's operators mean, by family; `declare.py` says how."""

from __future__ import annotations

import importlib

FAMILIES = (
    "pointwise",
    "reductions",
    "shapes",
    "indexing",
    "products",
    "windows",
    "resizing",
    "normalisation",
    "attention",
    "recurrent",
    "quantised",
    "containers",
    "flow",
    "signal",
    "drawing",
    "losses",
    "boxes",
    "sizes",
    "refused",
)


def read_declarations() -> None:
    """Import the families, which declare their operators."""
    for family in FAMILIES:
        importlib.import_module(f".{family}", __name__)
