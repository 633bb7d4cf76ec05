"""Classes of extensions written in C++ with LibTorch, of which there are none: every name says so."""

from __future__ import annotations

from ._compat.absent import refusing

__all__: list[str] = []
__getattr__ = refusing("classes")
