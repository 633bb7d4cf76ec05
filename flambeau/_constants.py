"""Names that stand for a choice: memory formats, layouts, numbers."""

from __future__ import annotations

import math


class memory_format:
    """In which order the dimensions of a result lie in memory."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"flambeau.{self.name}"

    def __reduce__(self):
        return self.name


class layout:
    """How elements are stored."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"flambeau.{self.name}"

    def __reduce__(self):
        return self.name


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
strided = layout("strided")
pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
newaxis = None
