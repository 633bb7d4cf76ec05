"""Sequences, which are lists of tensors here, and optional values, which are None or what they hold."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from .declare import DType, Ints, TypeNote, fl, ints, operator


@operator("SequenceEmpty")
def sequence_empty(*, dtype: DType | None = None) -> list[Tensor]:
    return []


@operator("SequenceConstruct")
def sequence_construct(*inputs: Tensor) -> list[Tensor]:
    return list(inputs)


@operator("SequenceAt")
def sequence_at(sequence: Any, position: Ints) -> Tensor:
    return sequence[ints(position)[0]]


@operator("SequenceInsert")
def sequence_insert(sequence: Any, value: Tensor, position: Ints | None = None) -> list[Tensor]:
    at = len(sequence) if position is None else ints(position)[0]
    result = list(sequence)
    result.insert(at, value)
    return result


@operator("SequenceErase")
def sequence_erase(sequence: Any, position: Ints | None = None) -> list[Tensor]:
    result = list(sequence)
    del result[-1 if position is None else ints(position)[0]]
    return result


@operator("SequenceLength")
def sequence_length(sequence: Any) -> Tensor:
    return fl.tensor(len(sequence), dtype=by_name["int64"])


@operator("ConcatFromSequence")
def concat_from_sequence(sequence: Any, *, axis: int, new_axis: int = 0) -> Tensor:
    return fl.stack(sequence, axis) if new_axis else fl.cat(sequence, axis)


@operator("SplitToSequence")
def split_to_sequence(
    input: Tensor, split: Tensor | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[Tensor]:
    """Parts along an axis: of size 1, of one size, or of the sizes given."""
    if split is None:
        parts = fl.split(input, 1, axis)
        return list(parts) if keepdims else [fl.squeeze(p, axis) for p in parts]
    sizes = ints(split)
    return list(fl.split(input, sizes[0] if split.ndim == 0 else sizes, axis))


@operator("Optional")
def optional(input: Any = None, *, type: TypeNote = None) -> Any:
    return input


@operator("OptionalHasElement")
def optional_has_element(input: Any = None) -> Tensor:
    return fl.tensor(input is not None)


@operator("OptionalGetElement")
def optional_get_element(input: Any) -> Tensor:
    if input is None:
        raise ValueError("OptionalGetElement: the optional value is empty")
    return input
