"""Quantisation, which is absent but for marks in models: every other name says so."""

from __future__ import annotations

from .._absent import refusing
from . import quantization

__all__ = ["quantization"]
__getattr__ = refusing("ao")
