"""Quantisation of weights (`ao.quantization`)."""

from .._compat.absent import refusing as _refusing
from . import quantization

__all__ = ["quantization"]
__getattr__ = _refusing("ao")
