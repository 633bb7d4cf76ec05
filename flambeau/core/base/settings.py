"""The environment's FLAMBEAU_* variables, read once, when flambeau is imported.

A value that cannot be used is warned of there and then, and the default serves: it never becomes an error of the
operation that happens to look first.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)


def number_of_bytes(name: str, default: int, environment: Mapping[str, str] = os.environ) -> int:
    """A size: a number, and K, M, G or T (KB, KiB …) for powers of 1024.

    >>> number_of_bytes("SIZE", 0, {"SIZE": "1.5G"})
    1610612736
    """
    text = environment.get(name, "").strip()
    if not text:
        return default
    if match := _SIZE.fullmatch(text):
        result = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")
        if result < 2**63:
            return int(result)
    ignored(name, "a number of bytes, as 268435456, 256M or 1G", text)
    return default


def choice(name: str, allowed: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> str:
    """One of the words in `allowed`, in any case; empty where the variable is not set."""
    text = environment.get(name, "").strip()
    if text and text.lower() not in allowed:
        ignored(name, " or ".join(map(repr, allowed)), text)
        return ""
    return text.lower()


def ignored(name: str, wanted: str, text: str) -> None:
    warnings.warn(f"{name} must be {wanted}, but is {text!r}: it is ignored", RuntimeWarning, stacklevel=3)
