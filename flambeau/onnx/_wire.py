"""Protocol Buffers' wire format, read by declarations of messages (https://protobuf.dev/programming-guides/encoding/).

A message is a dataclass whose fields say their numbers and kinds.  Bytes stay views of the file.  Sizes are checked before
anything is taken, unknown fields are left out, and messages lie at most `DEPTH` deep in each other.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from .errors import OnnxFormatError

DEPTH = 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIRE_TYPES = {"int": _VARINT, "float": _FIXED32, "double": _FIXED64, "str": _BYTES, "bytes": _BYTES}
M = TypeVar("M")


def field(number: int, kind: Any, *, repeated: bool = False) -> Any:
    """A field of a message: its number, and "int", "float", "double", "str", "bytes" or a function that gives a message's class."""
    metadata = {"number": number, "kind": kind, "repeated": repeated}
    if repeated:
        return dataclasses.field(default_factory=list, metadata=metadata)
    default = {"int": 0, "float": 0.0, "double": 0.0, "str": "", "bytes": b""}
    return dataclasses.field(default=default[kind] if isinstance(kind, str) else None, metadata=metadata)


@functools.cache
def _fields(message: type) -> dict[int, tuple[str, Any, bool]]:
    return {
        f.metadata["number"]: (f.name, f.metadata["kind"], f.metadata["repeated"])
        for f in dataclasses.fields(message)  # type: ignore[arg-type]
    }


def parsed(message: Callable[[], M], data: memoryview, depth: int = 0) -> M:
    """The message that the bytes are; OnnxFormatError where they are none."""
    if depth > DEPTH:
        raise OnnxFormatError(f"messages lie more than {DEPTH} deep in each other")
    made = message()
    fields = _fields(message)  # type: ignore[arg-type]
    for number, wire, value in _records(data):
        field = fields.get(number)
        if field is None:
            continue
        name, kind, repeated = field
        if not isinstance(kind, str):
            _expect(wire, _BYTES, message, name)
            item = parsed(kind(), value, depth + 1)
        elif wire == _BYTES and kind not in ("str", "bytes"):
            if not repeated:
                raise OnnxFormatError(f"{_called(message)}.{name} is packed, and holds one value")
            getattr(made, name).extend(_packed(kind, value))
            continue
        else:
            _expect(wire, _WIRE_TYPES[kind], message, name)
            item = _scalar(kind, value, message, name)
        if repeated:
            getattr(made, name).append(item)
        else:
            setattr(made, name, item)
    return made


def _called(message: Any) -> str:
    return getattr(message, "__name__", str(message))


def _expect(wire: int, wanted: int, message: Any, name: str) -> None:
    if wire != wanted:
        raise OnnxFormatError(f"{_called(message)}.{name} has wire type {wire}, not {wanted}")


def _records(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and value of each field."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise OnnxFormatError("a field has the number 0")
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED32, _FIXED64):
            size = 4 if wire == _FIXED32 else 8
        else:
            raise OnnxFormatError(f"field {number} has the wire type {wire}, which ONNX does not use")
        if size > end - at:
            raise OnnxFormatError(f"field {number} takes {size} bytes, and {end - at} are left")
        yield number, wire, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """An integer of 7 bits a byte, and the place behind it."""
    result = shift = 0
    while True:
        if at >= len(data):
            raise OnnxFormatError("the file ends within a number")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise OnnxFormatError("a number takes more than 10 bytes")


def _signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def _scalar(kind: str, value: Any, message: Any, name: str) -> Any:
    if kind == "int":
        return _signed(value)
    if kind == "float":
        return float(np.frombuffer(value, "<f4")[0])
    if kind == "double":
        return float(np.frombuffer(value, "<f8")[0])
    if kind == "bytes":
        return value
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise OnnxFormatError(f"{_called(message)}.{name} is no UTF-8: {error.reason}") from None


def _packed(kind: str, data: memoryview) -> list[Any]:
    """The numbers that lie one after another."""
    if kind == "int":
        result, at = [], 0
        while at < len(data):
            number, at = _varint(data, at)
            result.append(_signed(number))
        return result
    size = 4 if kind == "float" else 8
    if len(data) % size:
        raise OnnxFormatError(f"{len(data)} bytes are no row of numbers of {size} bytes")
    return np.frombuffer(data, f"<f{size}").tolist()
