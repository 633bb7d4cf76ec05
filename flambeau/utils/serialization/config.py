"""What `save` and `load` do where a call does not say: `config.save.compute_crc32 = False` …

`flambeau.serialization` has functions that set most of these.
"""

from __future__ import annotations

from typing import Any

__all__ = ["load", "save"]


class load:
    """Of reading.

    >>> import os, tempfile
    >>> import flambeau
    >>> from flambeau.utils.serialization import config
    >>> config.load.mmap = True
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     flambeau.save(flambeau.ones(2), os.path.join(folder, "x.pt"))
    ...     flambeau.load(os.path.join(folder, "x.pt"))  # lies in the mapped file
    tensor([1., 1.])
    >>> config.load.mmap = False
    """

    mmap: bool = False  # where `mmap=` is not given
    endianness: Any = None  # a `LoadEndianness`, of files that do not say; None is little
    mmap_flags: int | None = 2  # mmap.MAP_PRIVATE, or mmap.MAP_SHARED
    calculate_storage_offsets: bool = False  # PyTorch's; headers are always read here


class save:
    """Of writing.

    >>> import flambeau
    >>> from flambeau.utils.serialization import config
    >>> config.save.storage_alignment
    64
    >>> config.save.compute_crc32 = False
    >>> flambeau.serialization.get_crc32_options()
    False
    >>> config.save.compute_crc32 = True
    """

    compute_crc32: bool = True
    use_pinned_memory_for_d2h: bool = False
    storage_alignment: int = 64
