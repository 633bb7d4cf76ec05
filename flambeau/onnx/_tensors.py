"""Tensors of ONNX files as tensors: their bytes in the file, or in one beside it."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from .._tensor import Tensor
from ..core.make.create import zeros
from ..core.make.literal import from_numpy
from ._messages import SparseMessage, TensorMessage
from ._operators.declare import DTYPES, dtype_of
from .errors import OnnxFormatError, OnnxLoadError

_BITS = {
    "bfloat16": "uint16",
    "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8",
    "float8_e8m0fnu": "uint8",
}
_IN_INT32 = frozenset(
    ("int32", "int16", "int8", "uint16", "uint8", "bool", "float16", *_BITS)
)  # kinds that `int32_data` holds, the bits of floats among them
_EXTERNAL = 1
_LARGEST = 1 << 62


class Folder:
    """The folder that a model's file lies in, whose files may hold tensors' bytes; None where the model comes as bytes."""

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else os.path.realpath(path)

    def read(self, tensor: TensorMessage, size: int) -> bytes:
        """The bytes of a tensor that lie in another file of the folder, or below it."""
        said = {e.key: e.value for e in tensor.external_data}
        location = said.get("location", "")
        if self.path is None:
            raise OnnxLoadError(
                f"its bytes are in the file '{location}' beside the model: give load_model the model's path"
            )
        path = self.inside(location)
        offset, length = _number(said, "offset", 0), _number(said, "length", size)
        if length != size:
            raise OnnxFormatError(f"its sizes and dtype take {size} bytes, and {length} lie in '{location}'")
        if not os.path.isfile(path):
            raise OnnxLoadError(f"there is no file '{location}' beside the model")
        there = os.path.getsize(path)
        if offset + size > there:
            raise OnnxFormatError(
                f"'{location}' has {there} bytes, and the tensor ends at byte {offset + size}"
            )
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def inside(self, location: str) -> str:
        """The path of a file in the folder; OnnxLoadError where it leads out of it, by a link, too."""
        assert self.path is not None
        parts = location.replace("\\", "/").split("/")
        if not location or "\0" in location or os.path.isabs(location) or ".." in parts or ":" in parts[0]:
            raise OnnxLoadError(
                f"its bytes are said to be in '{location}', which is no path within the folder"
            )
        path = os.path.realpath(os.path.join(self.path, *parts))
        if os.path.commonpath([path, self.path]) != self.path:
            raise OnnxLoadError(f"its bytes are said to be in '{location}', which leads out of the folder")
        return path


def _number(said: dict[str, str], key: str, default: int) -> int:
    text = said.get(key)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise OnnxFormatError(f"{key} of its bytes is '{text[:40]}', which is no number of bytes")
    return int(text)


def sizes_of(dims: list[int]) -> int:
    """How many elements a tensor of these sizes has; OnnxFormatError where one is below 0, or their product too large."""
    if any(n < 0 for n in dims):
        raise OnnxFormatError(f"a size is negative: {dims}")
    if len(dims) > 64:
        raise OnnxFormatError(f"there are {len(dims)} dimensions, and at most 64")
    count = math.prod(n for n in dims)
    if count > _LARGEST:
        raise OnnxFormatError(f"the sizes {dims} are too large")
    return count


def tensor_of(message: TensorMessage, folder: Folder) -> Tensor:
    """The tensor that a message holds.

    Raises:
        OnnxFormatError: its bytes are more or fewer than its sizes and dtype take
        OnnxLoadError: there is no such dtype, or the file that its bytes lie in is not there
    """
    dtype = dtype_of(message.data_type)
    name = DTYPES[message.data_type]
    count = sizes_of(message.dims)
    kind = np.dtype(_BITS.get(name, name))
    if message.data_location == _EXTERNAL:
        array = _of_bytes(folder.read(message, count * kind.itemsize), kind, count)
    elif message.raw_data is not None and len(message.raw_data):
        array = _of_bytes(message.raw_data, kind, count)
    else:
        array = _of_numbers(message, name, kind, count)
    result = from_numpy(np.array(array.reshape(message.dims)))
    return result.view(dtype) if name in _BITS else result


def _of_bytes(data: Any, kind: np.dtype, count: int) -> np.ndarray:
    if len(data) != count * kind.itemsize:
        raise OnnxFormatError(f"{count} elements take {count * kind.itemsize} bytes, and it has {len(data)}")
    if kind == np.bool_:
        return np.frombuffer(data, np.uint8) != 0
    return np.frombuffer(data, kind.newbyteorder("<")).astype(kind, copy=False)


def _of_numbers(message: TensorMessage, name: str, kind: np.dtype, count: int) -> np.ndarray:
    """The elements of the field that the format has for this dtype."""
    numbers: list[Any]
    if name in _IN_INT32:
        numbers = message.int32_data
    elif name == "int64":
        numbers = message.int64_data
    elif name in ("uint32", "uint64"):
        numbers = message.uint64_data
    elif name in ("float64", "complex128"):
        numbers = message.double_data
    else:
        numbers = message.float_data
    if kind.kind == "c":
        count *= 2
    if len(numbers) != count:
        raise OnnxFormatError(f"its sizes take {count} numbers, and it has {len(numbers)}")
    if name == "float16":
        return _bits(numbers, np.uint16).view(np.float16)
    if kind.kind == "c":
        return np.array(numbers, np.float64).view(np.complex128).astype(kind)
    if kind.kind == "f":
        return np.array(numbers, kind)
    if kind.kind == "b":
        return np.array(numbers, np.int64) != 0
    return _bits(numbers, kind)


def _bits(numbers: list[Any], kind: Any) -> np.ndarray:
    """Integers by their lowest bits."""
    return (np.array([n & 0xFFFF_FFFF_FFFF_FFFF for n in numbers], np.uint64)).astype(kind)


def dense_of(message: SparseMessage, folder: Folder) -> Tensor:
    """A sparse tensor, whose values stand at places in the whole (n) or along each dimension (n, rank), with zeros elsewhere."""
    if message.values is None or message.indices is None:
        raise OnnxFormatError("a sparse tensor has values and indices")
    values, at = tensor_of(message.values, folder), tensor_of(message.indices, folder)
    count = sizes_of(message.dims)
    if count > (1 << 28) and count > 1024 * max(values.numel(), 1):
        raise OnnxLoadError(
            f"a sparse tensor of sizes {message.dims} is read as a dense one, which is too large"
        )
    if at.ndim == 2:
        steps = [math.prod(message.dims[d + 1 :]) for d in range(len(message.dims))]
        if at.shape[1] != len(steps):
            raise OnnxFormatError(
                "the indices of a sparse tensor have another number of dimensions than its sizes"
            )
        at = (at * from_numpy(np.array(steps, np.int64))).sum(1)
    if at.shape != values.shape or (at.numel() and not 0 <= int(at.min()) <= int(at.max()) < count):
        raise OnnxFormatError("the indices of a sparse tensor are no places in it")
    result = zeros(count, dtype=values.dtype)
    result[at] = values
    return result.reshape(message.dims)
