"""What a checkpoint says of its contents: tensors as chunks with offsets and sizes, and where each chunk is stored.

The classes are PyTorch's by name and by state, so that either library reads the other's `.metadata`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..._tensor import Tensor
from ...core.base import formats
from ...core.base.dtypes import Size, dtype, get_default_dtype
from .stateful import StatefulT

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """A box of a tensor's elements: its first index and its size in every dimension.

    Raises nothing.

    >>> from flambeau.distributed.checkpoint import ChunkStorageMetadata
    >>> import flambeau
    >>> ChunkStorageMetadata(flambeau.Size([2, 0]), flambeau.Size([2, 4])).sizes.numel()
    8
    """

    offsets: Size
    sizes: Size


class _MEM_FORMAT_ENCODING(Enum):
    """Memory formats as files have them."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_ENCODED = {
    formats.contiguous_format: _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT,
    formats.channels_last: _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST,
    formats.preserve_format: _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT,
}
_DECODED = {code: made for made, code in _ENCODED.items()}


@dataclass
class TensorProperties:
    """What a tensor is beside its size.  All but `dtype` is there for old files.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.metadata import TensorProperties
    >>> TensorProperties.create_from_tensor(flambeau.ones(2, dtype=flambeau.float64)).dtype
    flambeau.float64
    """

    dtype: dtype = field(default_factory=get_default_dtype)
    layout: Any = formats.strided
    requires_grad: bool = False
    memory_format: Any = formats.contiguous_format
    pin_memory: bool = False

    def __getstate__(self) -> tuple[Any, ...]:
        if self.memory_format not in _ENCODED:
            raise RuntimeError(f"Invalid torch.memory_format: {self.memory_format}")
        return self.dtype, self.layout, self.requires_grad, _ENCODED[self.memory_format], self.pin_memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype, self.layout, self.requires_grad, code, self.pin_memory = state
        if code not in _DECODED:
            raise RuntimeError(f"Invalid torch.memory_format encoding: {code}")
        self.memory_format = _DECODED[code]

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> TensorProperties:
        """The properties of a tensor."""
        return TensorProperties(
            dtype=tensor.dtype,
            layout=tensor.layout,
            requires_grad=tensor.requires_grad,
            memory_format=formats.contiguous_format,
            pin_memory=tensor.is_pinned(),
        )


@dataclass
class TensorStorageMetadata:
    """A tensor in a checkpoint: its properties, its size, and the chunks that make it up.

    `size` is the shape of the whole.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.metadata import *
    >>> half = flambeau.Size([2])
    >>> chunks = [ChunkStorageMetadata(flambeau.Size([k]), half) for k in (0, 2)]
    >>> len(TensorStorageMetadata(TensorProperties(), flambeau.Size([4]), chunks).chunks)
    2
    """

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An object in a checkpoint that is no tensor.

    >>> from flambeau.distributed.checkpoint import BytesStorageMetadata
    >>> BytesStorageMetadata()
    BytesStorageMetadata()
    """


STORAGE_TYPES = TensorStorageMetadata | BytesStorageMetadata
STATE_DICT_TYPE = dict[str, StatefulT | Any]


@dataclass
class StorageMeta:
    """Which checkpoint this is: where it was saved, and identities of the save and of the load.

    Raises nothing.

    >>> from flambeau.distributed.checkpoint.metadata import StorageMeta
    >>> StorageMeta(checkpoint_id="step-1000").modules
    []
    """

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """The whole of `.metadata`: what is there under each name of the flattened state dict, and where it is stored.

    `planner_data` is the planner's: by default the path of each name in the nested state dict.  `storage_data` is the
    storage's: by `MetadataIndex` the file, offset and length in bytes.

    Raises nothing.

    >>> from flambeau.distributed.checkpoint import BytesStorageMetadata, Metadata
    >>> Metadata({"epoch": BytesStorageMetadata()}).storage_data is None
    True
    """

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """A name and, for a chunk of a tensor, its offset.  `index` says where in the list of chunks to look first.

    Raises nothing.

    >>> from flambeau.distributed.checkpoint.metadata import MetadataIndex
    >>> MetadataIndex("weight", [2, 0], index=1) == MetadataIndex("weight", [2, 0])
    True
    """

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        if offset is not None:
            object.__setattr__(self, "offset", Size(offset))
