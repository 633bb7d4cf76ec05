"""Indexing while a program is exported: `x[i, 1:, None]` as the selections, cuts and look-ups that ATen has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._symbols.numbers import SymInt
from ..core.base.tensor import TensorBase

if TYPE_CHECKING:
    from ._record import Recorder

_END = (1 << 63) - 1


def _steps(recorder: Recorder, x: Any, index: Any) -> tuple[Any, list[Any]] | None:
    """The tensor that the plain parts of an index choose, and the tensors that index it, None for a dimension without one."""
    items = list(index) if isinstance(index, tuple) else [index]
    rank = x.dim()
    used = sum(map(_consumed, items))
    if used > rank or sum(i is ... for i in items) > 1 or not all(map(_is_basic, items)):
        return None
    looked: list[Any] = []
    dim = 0
    for item in items:
        if item is ...:
            looked += [None] * (rank - used)
            dim += rank - used
        elif item is None:
            x = recorder.step("unsqueeze", "default", x, dim)
            looked.append(None)
            dim += 1
        elif isinstance(item, slice):
            if item != slice(None):
                start = 0 if item.start is None else item.start
                end = _END if item.stop is None else item.stop
                step = () if item.step in (None, 1) else (item.step,)
                x = recorder.step("slice", "Tensor", x, dim, start, end, *step)
            looked.append(None)
            dim += 1
        elif isinstance(item, TensorBase):
            looked.append(item)
            dim += _consumed(item)
        else:
            x = recorder.step("select", "int", x, dim, item)
    return x, looked


def _is_basic(item: Any) -> bool:
    if item is None or item is ... or type(item) is int or isinstance(item, SymInt):
        return True
    if isinstance(item, slice):
        return all(
            b is None or type(b) is int or isinstance(b, SymInt) for b in (item.start, item.stop, item.step)
        )
    if isinstance(item, TensorBase):
        return item.dtype.name in ("int64", "int32", "bool") and not (
            item.dtype.name == "bool" and item.dim() == 0
        )
    return False


def _consumed(item: Any) -> int:
    """How many dimensions an item of an index stands for."""
    if item is None or item is ...:
        return 0
    return item.dim() if isinstance(item, TensorBase) and item.dtype.name == "bool" else 1


def _as_tensors(index: Any) -> Any:
    """An index with lists of numbers as tensors."""
    from ..operations.declare.registry import REGISTRY

    def one(item: Any) -> Any:
        if isinstance(item, list) and item and all(isinstance(i, (int, list)) for i in item):
            return REGISTRY["tensor"].function(item)
        return item

    return tuple(map(one, index)) if isinstance(index, tuple) else one(index)


def read(recorder: Recorder, x: Any, index: Any) -> Any:
    """`x[index]` by steps; NotImplemented for an index of other kinds."""
    result = _steps(recorder, x, _as_tensors(index))
    if result is None:
        return NotImplemented
    chosen, looked = result
    while looked and looked[-1] is None:
        looked.pop()
    if looked:
        return recorder.step("index", "Tensor", chosen, looked)
    return recorder.step("alias", "default", x) if chosen is x else chosen


def write(recorder: Recorder, x: Any, index: Any, value: Any) -> bool:
    """`x[index] = value` by steps; False for an index or a value of other kinds."""
    if not isinstance(value, (TensorBase, int, float, bool, complex, SymInt)):
        return False
    result = _steps(recorder, x, _as_tensors(index))
    if result is None:
        return False
    chosen, looked = result
    while looked and looked[-1] is None:
        looked.pop()
    if looked:
        if not isinstance(value, TensorBase):
            value = recorder.step("full", "default", [], value, dtype=x.dtype, device=x.device)
        elif value.dtype != x.dtype:
            value = value.to(x.dtype)
        recorder.step("index_put_", "default", chosen, looked, value)
        return True
    if not isinstance(value, TensorBase):
        recorder.step("fill_", "Scalar", chosen, value)
        return True
    while value.dim() > chosen.dim():  # dimensions of one element in front, which a copy does not take
        value = value.squeeze(0)
    recorder.step("copy_", "default", chosen, value)
    return True
