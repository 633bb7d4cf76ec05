"""From a list of samples to one batch."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from ...._tensor import Tensor
from ....core.base.dtypes import by_name
from ....core.make.literal import as_tensor, tensor
from ....core.places.join import stack
from .worker import shared_output

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
np_str_obj_array_pattern = re.compile(r"[SaUO]")  # NumPy's kinds of elements that no tensor has
_CollateFnMap = dict[type | tuple[type, ...], Callable[..., Any]]


class Located(Exception):
    """An error about samples that tells in which field of them it arose, and of which samples."""

    def __init__(self, problem: str, entry: int = 0) -> None:
        super().__init__(problem)
        self._problem, self._entry = problem, entry
        self._path = self._numbers = ""

    def locate(self, key: Any) -> None:
        """It arose in that field of what is collated: a step from the outside."""
        self._path = f"[{key!r}]{self._path}"
        self._tell()

    def name_samples(self, index: Sequence[Any]) -> None:
        """Entry k of the batch is sample `index[k]`."""
        these = [f"entry {k} is sample {index[k]!r}" for k in sorted({0, self._entry})]
        self._numbers = f" ({', '.join(these)} of the dataset)"
        self._tell()

    def _tell(self) -> None:
        where = f", in field {self._path} of the samples" if self._path else ""
        self.args: tuple[Any, ...] = (f"{self._problem}{where}{self._numbers}",)


class CollateError(Located, RuntimeError):
    """Samples that do not fit together."""


class CollateTypeError(Located, TypeError):
    """Samples of a type that nobody collates."""


def default_collate(batch: Sequence[Any]) -> Any:
    """Makes one batch of a list of samples of the same structure.

    Tensors and NumPy arrays are stacked along a new first dimension, which needs equal shapes; numbers become
    a tensor (floats of dtype float64, integers int64); strings and bytes stay a list.  Of mappings and
    sequences each entry is collated by itself and the type is kept, but for tuples, which become lists; named
    tuples keep their type.  `default_collate_fn_map` says so, type by type: what is added there is used.

    Raises TypeError for samples of another type, RuntimeError for sequences of unequal length or tensors of
    unequal shape; the message names the field and the first sample that differs.

    >>> import flambeau
    >>> flambeau.utils.data.default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    if not _numpy_is_registered and "numpy" in sys.modules:
        _add_numpy()
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: _CollateFnMap | None = None) -> Any:
    """Collates mappings and sequences entry by entry; what else samples are, `collate_fn_map` tells.

    It maps a type, or a tuple of types, to `function(samples, *, collate_fn_map)`.  The first sample's own type is looked
    up first, then in order the types that it is an instance of.

    >>> from flambeau.utils.data._utils.collate import collate
    >>> collate([{"n": 1}, {"n": 2}], collate_fn_map={int: lambda batch, *, collate_fn_map: sum(batch)})
    {'n': 3}
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        function = collate_fn_map.get(kind)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
        for cls, function in collate_fn_map.items():
            if isinstance(first, cls):
                return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return rebuilt(first, {key: _field(key, batch, collate_fn_map) for key in first})
    if isinstance(first, Sequence):
        length = len(first)
        for i, sample in enumerate(batch):
            if len(sample) != length:
                raise CollateError(
                    "default_collate: each element in list of batch should be of equal size, but got length "
                    f"{length} at entry 0 and {len(sample)} at entry {i}",
                    i,
                )
        columns = zip(*batch)
        return rebuilt(first, [_column(k, samples, collate_fn_map) for k, samples in enumerate(columns)])
    raise CollateTypeError(default_collate_err_msg_format.format(kind))


def _field(key: Any, batch: Sequence[Any], collate_fn_map: _CollateFnMap | None) -> Any:
    samples = []
    for i, sample in enumerate(batch):
        try:
            samples.append(sample[key])
        except KeyError:
            raise KeyError(f"default_collate: entry {i} has no field {key!r}, which entry 0 has") from None
    return _column(key, samples, collate_fn_map)


def _column(key: Any, samples: Sequence[Any], collate_fn_map: _CollateFnMap | None) -> Any:
    try:
        return collate(samples, collate_fn_map=collate_fn_map)
    except Located as error:
        error.locate(key)
        raise


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: _CollateFnMap | None = None) -> Any:
    """The tensors stacked; in a worker's process straight into the memory in which they travel."""
    first = batch[0]
    out = None
    if type(first) is Tensor and not first.requires_grad and first.device.type == "cpu":
        out = shared_output((len(batch), *first.shape), first.dtype)
    try:
        if out is not None and all(type(t) is Tensor and t.dtype == first.dtype for t in batch):
            return stack(batch, 0, out=out) if not any(t.requires_grad for t in batch) else stack(batch, 0)
        return stack(tuple(batch), 0)
    except RuntimeError as error:
        _check_shapes(batch, "stack", "tensor")
        raise error


def _check_shapes(batch: Sequence[Any], function: str, what: str) -> None:
    """CollateError for the first sample of another shape."""
    wanted = list(batch[0].shape)
    for i, sample in enumerate(batch):
        if list(sample.shape) != wanted:
            raise CollateError(
                f"default_collate: {function} expects each {what} to be equal size, but got {wanted} at entry 0 and "
                f"{list(sample.shape)} at entry {i}",
                i,
            ) from None


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: _CollateFnMap | None = None) -> Any:
    """One tensor of NumPy arrays: NumPy stacks them, which is one operation on tensors instead of one each."""
    import numpy

    first = batch[0]
    if first.dtype.kind in "SUO":
        raise CollateTypeError(default_collate_err_msg_format.format(first.dtype))
    out = None
    if all(array.dtype == first.dtype for array in batch):
        name = "bool" if first.dtype.kind == "b" else first.dtype.name
        out = shared_output((len(batch), *first.shape), by_name[name]) if name in by_name else None
    try:
        if out is None:
            return as_tensor(numpy.stack(batch))
        numpy.stack(batch, out=out.numpy())
        return out
    except ValueError as error:
        _check_shapes(batch, "stack", "array")
        raise error


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: _CollateFnMap | None = None) -> Any:
    """One tensor of NumPy's numbers."""
    import numpy

    return as_tensor(numpy.stack(batch))


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: _CollateFnMap | None = None) -> Any:
    """A float64 tensor."""
    return tensor(batch, dtype=by_name["float64"])


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: _CollateFnMap | None = None) -> Any:
    """An int64 tensor, or a bool one."""
    return tensor(batch)


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: _CollateFnMap | None = None) -> Any:
    """The strings as they are."""
    return batch


default_collate_fn_map: _CollateFnMap = {
    Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
_numpy_is_registered = False


def _add_numpy() -> None:
    """NumPy's types, once somebody has imported it.  They come before `float`, of which numpy.float64 is a kind."""
    global _numpy_is_registered
    import numpy

    others = {kind: function for kind, function in default_collate_fn_map.items() if kind is not Tensor}
    for kind in others:
        del default_collate_fn_map[kind]
    default_collate_fn_map.setdefault(Tensor, collate_tensor_fn)
    default_collate_fn_map[numpy.ndarray] = collate_numpy_array_fn
    default_collate_fn_map[(numpy.bool_, numpy.number, numpy.object_)] = collate_numpy_scalar_fn
    default_collate_fn_map.update(others)
    _numpy_is_registered = True


def default_convert(data: Any) -> Any:
    """Turns the NumPy arrays and numbers in `data` into tensors; everything else but containers stays as it
    is.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.utils.data.default_convert({"a": "text", "b": (1, 2)})
    {'a': 'text', 'b': [1, 2]}
    """
    if isinstance(data, Tensor):
        return data
    if "numpy" in sys.modules:
        import numpy

        if isinstance(data, (numpy.ndarray, numpy.generic)):
            return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return rebuilt(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return rebuilt(data, [default_convert(item) for item in data])
    return data


def rebuilt(model: Any, entries: Any) -> Any:
    """A container like `model` of new entries; a plain dict or list where its type cannot be made anew."""
    kind = type(model)
    if kind is dict or kind is list or kind is tuple:
        return entries
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
