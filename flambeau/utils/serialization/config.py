"""What `save` and `load` do where a call does not say: `config.save.compute_crc32 = False` …

`flambeau.serialization` has functions that set most of these.
"""

from __future__ import annotations

from typing import Any

__all__ = ["load", "save"]


class load:
    """Of reading."""

    mmap: bool = False  # where `mmap=` is not given
    endianness: Any = None  # a `LoadEndianness`, of files that do not say; None is little
    mmap_flags: int | None = 2  # mmap.MAP_PRIVATE, or mmap.MAP_SHARED
    calculate_storage_offsets: bool = False  # PyTorch's; headers are always read here


class save:
    """Of writing."""

    compute_crc32: bool = True
    use_pinned_memory_for_d2h: bool = False
    storage_alignment: int = 64
