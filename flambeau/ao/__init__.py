"""Quantisation (`ao.quantization`), and the layers of quantised models (`ao.nn`)."""

from .._compat.absent import refusing as _refusing
from . import nn, quantization

__all__ = ["nn", "quantization"]
__getattr__ = _refusing("ao")
