"""Reductions of stretches of rows that follow one another."""

from __future__ import annotations

import math
from typing import Any

from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.make.create import arange, full
from ..declare import checks
from ..declare.dtype_groups import FLOATING
from ..declare.host import without_data
from ..declare.registry import library
from ..moving.joining import cat
from ..moving.searching import searchsorted

WHO = "segment_reduce"
EXTREMES = {"max": "amax", "amax": "amax", "min": "amin", "amin": "amin"}
REDUCTIONS = ("sum", "prod", "mean", *EXTREMES)
WITHOUT = {"sum": 0.0, "mean": math.nan, "prod": 1.0, "amax": -math.inf, "amin": math.inf}


@library("composite", "segment_reduce", "_segment_reduce", dtypes=FLOATING)
def segment_reduce(
    data: TensorBase,
    reduce: str,
    *,
    lengths: TensorBase | None = None,
    indices: TensorBase | None = None,
    offsets: TensorBase | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> TensorBase:
    """One row for each segment along `axis`: the sum, mean, prod, max or min of its rows, or `initial` where it has none.

    result[k] = Σᵢ data[i] over the i of segment k, for "sum".

    Segments are given by `lengths` or by `offsets`, which begin with where the first begins and end with where the last ends; the
    dimensions before `axis` are those of `lengths` or `offsets`, and so each of them has segments of its own.  What no segment
    holds does not count; lengths have to add up to the size of `axis` unless `unsafe`.

    >>> import flambeau
    >>> flambeau.segment_reduce(flambeau.tensor([1.0, 2.0, 3.0]), "sum", lengths=flambeau.tensor([2, 0, 1]))
    tensor([3., 0., 3.])
    """
    checks.floating(WHO, data=data)
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"{WHO}(): reduce must be one of {', '.join(REDUCTIONS)}, got {reduce!r}")
    if indices is not None:
        raise RuntimeError(f"{WHO}(): reductions by indices are not supported; give lengths or offsets")
    bounds = _bounds(data, lengths, offsets, axis, unsafe)
    axis = bounds.ndim - 1
    rows, segments = data.shape[axis], bounds.shape[-1] - 1
    before, after = list(data.shape[:axis]), list(data.shape[axis + 1 :])
    batch = math.prod(before)
    at = _segment_of_rows(bounds, before, rows)
    result = _reduced(
        data.reshape(batch * rows, *after), at, batch * (segments + 1), EXTREMES.get(reduce, reduce)
    )
    result = result.reshape(*before, segments + 1, *after).narrow(axis, 0, segments)
    return _with_initial(result, bounds, reduce, initial, len(after))


def _bounds(
    data: TensorBase, lengths: TensorBase | None, offsets: TensorBase | None, axis: int, unsafe: bool
) -> TensorBase:
    """Where each segment begins, and the last one ends, as int64."""
    given, name = (lengths, "lengths") if offsets is None else (offsets, "offsets")
    if given is None:
        raise RuntimeError(f"{WHO}(): either lengths or offsets must be given")
    checks.dtypes(WHO, ("int32", "int64"), **{name: given})  # type: ignore[arg-type]
    checks.rank_at_least(WHO, name, given, 1)
    checks.rank_at_least(WHO, "data", data, given.ndim)
    if not -data.ndim <= axis < data.ndim:
        raise IndexError(
            f"{WHO}(): Dimension out of range (expected axis to be in range of [{-data.ndim}, {data.ndim - 1}], but got {axis})"
        )
    last = given.ndim - 1
    if axis % data.ndim != last:
        raise RuntimeError(
            f"{WHO}(): expected axis to be the last dimension of {name}, {last}, but got {axis}"
        )
    if given.shape[:last] != data.shape[:last]:
        raise RuntimeError(
            f"{WHO}(): expected the sizes of {name} before axis to be those of data, {list(data.shape[:last])}, but got "
            f"{list(given.shape[:last])}"
        )
    if name == "offsets" and given.shape[-1] == 0:
        raise RuntimeError(
            f"{WHO}(): expected offsets to have at least one element along axis, got shape {list(given.shape)}"
        )
    given = given.to(by_name["int64"])
    if not without_data(given):
        _check_values(name, given, data.shape[last], unsafe)
    if name == "offsets":
        return given
    return cat([given.new_zeros([*given.shape[:-1], 1]), given.cumsum(-1)], -1)


def _check_values(name: str, given: TensorBase, rows: int, unsafe: bool) -> None:
    if name == "lengths":
        if (given < 0).any():
            raise RuntimeError(f"{WHO}(): lengths contains a negative value, expected all to be at least 0")
        total = given.sum(-1)
        if (total > rows).any() or not unsafe and (total != rows).any():
            raise RuntimeError(
                f"{WHO}(): expected lengths along axis to sum to the size of data there, {rows}, got {total.tolist()}"
            )
    elif given.diff(dim=-1).lt(0).any() or given.lt(0).any() or given.gt(rows).any():
        raise RuntimeError(
            f"{WHO}(): expected offsets to ascend from 0 or more to at most {rows}, got {given.tolist()}"
        )


def _segment_of_rows(bounds: TensorBase, before: list[int], rows: int) -> TensorBase:
    """The segment of every row, counted through all of them; each batch has one more, for rows that are in none."""
    segments = bounds.shape[-1] - 1
    places = arange(rows, device=bounds.device).expand([*before, rows])
    at = searchsorted(bounds, places.contiguous(), right=True) - 1
    batch = arange(math.prod(before), device=bounds.device).unsqueeze(1)
    at = at.masked_fill(at < 0, segments).reshape(batch.shape[0], rows)
    return (at + batch * (segments + 1)).reshape(-1)


def _reduced(rows: TensorBase, at: TensorBase, segments: int, reduce: str) -> TensorBase:
    """What the rows of each segment come to; segments without rows have a sum, also for the mean, of 0."""
    start = 0.0 if reduce == "mean" else WITHOUT[reduce]
    base = full([segments, *rows.shape[1:]], start, dtype=rows.dtype, device=rows.device)
    if reduce in ("sum", "mean"):
        return base.index_add(0, at, rows)
    return base.index_reduce(0, at, rows, reduce, include_self=reduce == "prod")


def _with_initial(
    result: TensorBase, bounds: TensorBase, reduce: str, initial: Any, after: int
) -> TensorBase:
    """The reductions begun with `initial`."""
    if reduce in EXTREMES:
        if initial is None:
            return result
        beyond = result < initial if EXTREMES[reduce] == "amax" else result > initial
        return result.masked_fill(beyond, initial)
    if initial is not None:
        result = result * initial if reduce == "prod" else result + initial
    if reduce != "mean":
        return result
    counts = bounds.diff(dim=-1)
    counts = counts.reshape([*counts.shape, *[1] * after]).to(result.dtype)
    return result / (counts if initial is None else counts.clamp_min(1))
