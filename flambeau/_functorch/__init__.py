"""What `func` was made of; here is what libraries still take from there."""

from __future__ import annotations

from .._compat.absent import refusing

__getattr__ = refusing("_functorch")
