"""Pipes of data, which PyTorch deprecated: what libraries look for before they take another way."""

from __future__ import annotations

from ...._absent import refusing

__getattr__ = refusing("utils.data.datapipes")
