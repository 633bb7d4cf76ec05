"""The tensors that a library reads from a file beside it, in the safetensors format: a header that other tools read, then elements.

The library knows where each lies; that a file is the one that it was made with is known by its header, which holds a digest of the
elements.
"""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

import numpy as np

NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
}


class Weight(NamedTuple):
    """A tensor of the file: its dtype's name here, and its elements, those of bfloat16 as integers."""

    dtype: str
    array: np.ndarray


class File(NamedTuple):
    """The header, the elements, and where each tensor lies from the file's beginning."""

    header: bytes
    data: bytes
    places: dict[str, int]


def file_of(weights: dict[str, Weight]) -> File:
    """The file of these tensors, the widest elements first, so that each is aligned."""
    order = sorted(weights, key=lambda name: -weights[name].array.itemsize)
    described: dict[str, dict] = {}
    parts: list[bytes] = []
    at = 0
    places: dict[str, int] = {}
    for name in order:
        dtype, array = weights[name]
        own = np.ascontiguousarray(array).tobytes()
        described[name] = {
            "dtype": NAMES[dtype],
            "shape": list(array.shape),
            "data_offsets": [at, at + len(own)],
        }
        places[name] = at
        parts.append(own)
        at += len(own)
    data = b"".join(parts)
    content = {"__metadata__": {"sha256": hashlib.sha256(data).hexdigest()}} | described
    text = json.dumps(content, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 64)
    header = len(text).to_bytes(8, "little") + text
    return File(header, data, {name: len(header) + place for name, place in places.items()})
