"""Quantisation of models, which is absent: every name says so."""

from __future__ import annotations

from .._absent import refusing

__all__: list[str] = []
__getattr__ = refusing("ao.quantization")
