"""Tensors over several processes, which are absent: nothing is a `DTensor`, and every other name says so."""

from ..._compat.absent import refusing as _refusing
from ..._compat.absent import unmakeable as _unmakeable

__all__ = ["DTensor"]

DTensor = _unmakeable("distributed.tensor.DTensor")
__getattr__ = _refusing("distributed.tensor")
