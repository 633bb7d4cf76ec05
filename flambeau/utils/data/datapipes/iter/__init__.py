"""Pipes that are iterated: the one that libraries ask whether a dataset is of."""

from __future__ import annotations

from ....._absent import refusing
from .combinatorics import ShufflerIterDataPipe

__all__ = ["ShufflerIterDataPipe"]

__getattr__ = refusing("utils.data.datapipes.iter")
