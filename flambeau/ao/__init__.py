"""Quantisation, which is absent but for marks in models: every other name says so."""

from .._compat.absent import refusing as _refusing
from . import quantization

__all__ = ["quantization"]
__getattr__ = _refusing("ao")
