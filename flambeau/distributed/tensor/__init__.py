"""Tensors over several processes, which are absent: nothing is a `DTensor`, and every other name says so."""

from __future__ import annotations

from ..._absent import refusing, unmakeable

__all__ = ["DTensor"]

DTensor = unmakeable("distributed.tensor.DTensor")
__getattr__ = refusing("distributed.tensor")
