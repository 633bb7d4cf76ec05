"""What is known of a value of an exported graph without computing it: `node.meta["val"]`.

A tensor is a `TensorValue`; a size that follows from inputs an expression; numbers, texts and None stand for themselves.  Tensors
on the device "meta" are taken, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.base import formats
from ..core.base.dtypes import device as Device
from ..core.base.dtypes import dtype as DType

Size = Any  # an int, or what stands for one: an expression over symbols
_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


@dataclass(frozen=True)
class TensorValue:
    """Shape, dtype, strides and place of a tensor, whose sizes may be expressions.

    >>> import flambeau as torch
    >>> from flambeau.export._values import TensorValue
    >>> value = TensorValue((2, 3), torch.float32)
    >>> value.shape, value.stride(), str(value)
    ((2, 3), (3, 1), 'f32[2, 3]')
    """

    shape: tuple[Size, ...]
    dtype: DType
    strides: tuple[Size, ...] | None = None  # those of a contiguous tensor where nothing is said
    device: Any = Device("cpu")
    requires_grad: bool = False
    layout: Any = formats.strided
    offset: Size = 0

    def __post_init__(self) -> None:
        if self.strides is None:
            object.__setattr__(self, "strides", contiguous(self.shape))

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    ndim = property(dim)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one size of it."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        """The strides, or one of them."""
        return self.strides if dim is None else self.strides[dim]  # type: ignore[index]

    def storage_offset(self) -> Size:
        """Where it begins in its storage."""
        return self.offset

    def __str__(self) -> str:
        name = str(self.dtype).rpartition(".")[2]
        word = name.rstrip("0123456789")
        short = _SHORT[word] + name[len(word) :] if word in _SHORT else name.replace("bool", "b8")
        return f"{short}[{', '.join(map(str, self.shape))}]"


def contiguous(shape: Sequence[Size]) -> tuple[Size, ...]:
    """The strides of a contiguous tensor."""
    result: list[Size] = []
    step: Size = 1
    for size in reversed(shape):
        result.append(step)
        if isinstance(size, int):
            step = step * max(size, 1)
        else:
            step = size if step == 1 else step * size
    return tuple(reversed(result))


def is_tensor(value: Any) -> bool:
    """Whether a value of `node.meta["val"]` says that it is a tensor."""
    return hasattr(value, "dtype") and hasattr(value, "shape")


def value_of(tensor: Any) -> TensorValue:
    """What is known of a tensor that there is."""
    return TensorValue(
        tuple(tensor.shape),
        tensor.dtype,
        tuple(tensor.stride()),
        tensor.device,
        bool(tensor.requires_grad),
        tensor.layout,
        tensor.storage_offset(),
    )
