"""Reductions and normalisations of the elements that a mask holds, as `torch.masked` names them."""

from ..operations.declare.registry import published

globals().update(published("masked."))
__all__ = sorted(published("masked."))
