"""Types that annotations for scripts use: `BroadcastingList2[int]` is one int, or a list of 2."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple  # noqa: F401, UP035  # programs take the names from here

from .._compat.absent import refusing


class _BroadcastingList:
    def __class_getitem__(cls, kind: Any) -> Any:
        return list[kind]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = _BroadcastingList


__getattr__ = refusing("jit.annotations")
