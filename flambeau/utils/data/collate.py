"""From a list of samples to one batch."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from ...core.make.literal import as_tensor, tensor
from ...core.places.join import stack


def default_collate(batch: Sequence[Any]) -> Any:
    """Makes one batch of a list of samples of the same structure.

    Tensors and NumPy arrays are stacked along a new first dimension, which needs equal shapes; numbers become
    a tensor (floats of dtype float64, integers int64); strings and bytes stay a list.  Of mappings and
    sequences each entry is collated by itself and the type is kept, but for tuples, which become lists; named
    tuples keep their type.

    Raises TypeError for samples of another type, RuntimeError for sequences of unequal length or tensors of
    unequal shape.

    >>> import flambeau
    >>> flambeau.utils.data.default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(tuple(batch), 0)
    if isinstance(first, (str, bytes)):
        return batch
    if _is_numpy(first):
        return _stack_arrays(batch)
    if isinstance(first, float):
        return tensor(batch, dtype=by_name["float64"])
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, Mapping):
        return _rebuilt(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, Sequence):
        lengths = {len(sample) for sample in batch}
        if len(lengths) > 1:
            raise RuntimeError(
                "default_collate: each element in list of batch should be of equal size, got "
                f"{sorted(lengths)}"
            )
        return _rebuilt(first, [default_collate(samples) for samples in zip(*batch)])
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(first).__name__}"
    )


def default_convert(data: Any) -> Any:
    """Turns the NumPy arrays and numbers in `data` into tensors; everything else but containers stays as it
    is.

    >>> import flambeau
    >>> flambeau.utils.data.default_convert({"a": "text", "b": (1, 2)})
    {'a': 'text', 'b': [1, 2]}
    """
    if _is_numpy(data):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuilt(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt(data, [default_convert(item) for item in data])
    return data


def pin(data: Any) -> Any:
    """`data` with its tensors in page-locked memory, and whatever else has a method `pin_memory` as this returns it."""
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, Mapping):
        return _rebuilt(data, {key: pin(data[key]) for key in data})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        pinned = _rebuilt(data, [pin(item) for item in data])
        return tuple(pinned) if type(data) is tuple else pinned
    return data


def _is_numpy(x: Any) -> bool:
    return type(x).__module__ == "numpy" and hasattr(x, "dtype")


def _stack_arrays(batch: Sequence[Any]) -> Any:
    """One tensor of NumPy arrays or numbers: NumPy stacks them, which is one operation on tensors instead of
    one each."""
    import numpy

    if batch[0].dtype.kind in "SUO":
        raise TypeError(
            f"default_collate: batch must contain arrays of numbers; found dtype {batch[0].dtype}"
        )
    try:
        return as_tensor(numpy.stack(batch))
    except ValueError as error:
        shapes = sorted({numpy.shape(array) for array in batch})
        raise RuntimeError(
            f"default_collate: arrays of a batch should have equal shapes, got {shapes}"
        ) from error


def _rebuilt(model: Any, entries: Any) -> Any:
    """A container like `model` of new entries; a plain dict or list where its type cannot be made anew."""
    kind = type(model)
    if isinstance(model, tuple):
        return kind(*entries) if hasattr(model, "_fields") else entries
    try:
        if isinstance(model, MutableMapping):
            result: Any = copy.copy(model)  # it may have attributes of its own
            result.update(entries)
            return result
        if isinstance(model, MutableSequence):
            result = copy.copy(model)
            for i, entry in enumerate(entries):
                result[i] = entry
            return result
        return kind(entries)
    except TypeError:
        return entries
