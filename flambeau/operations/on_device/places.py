"""Places of sparse tensors on devices, by orders and searches: what the loops of `core/lib/sparse/sparse_rows.pyx` give on the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...core.base.tensor import TensorBase
from ...core.make.create import arange
from ...core.places.join import cat
from ...core.tape.contexts import unrecorded
from .ordering import order, search


def _outside(who: str, wrong: TensorBase) -> None:
    if bool(wrong.any()):
        raise IndexError(
            f"{who}(): the indices of a sparse tensor are outside of its size: they were changed after it was made"
        )


def row_numbers(starts: TensorBase, n: int) -> TensorBase:
    """The row that each of n entries is in."""
    with unrecorded():
        return (search(starts.long(), arange(n, device=starts.device), True) - 1).to(starts.dtype)


def by_rows(rows: TensorBase, bound: int) -> tuple[TensorBase, TensorBase | None]:
    """Where each row begins when places are listed by rows, and their order, None where it is theirs."""
    with unrecorded():
        _outside("by_rows", (rows < 0) | (rows >= bound))
        n = rows.shape[0]
        ranked = None
        if n > 1 and bool((rows.narrow(0, 1, n - 1) < rows.narrow(0, 0, n - 1)).any()):
            ranked = order(rows)
            rows = rows[ranked]
        return search(rows, arange(bound + 1, device=rows.device)), ranked


def turned(starts: TensorBase, columns: TensorBase, bound: int) -> tuple[TensorBase, TensorBase, TensorBase]:
    """Rows as columns: where each column begins, the rows it lists, and which entry each was."""
    with unrecorded():
        _outside("turned", (columns < 0) | (columns >= bound))
        ranked = order(columns)
        begins = search(columns[ranked].long(), arange(bound + 1, device=columns.device)).to(starts.dtype)
        return begins, row_numbers(starts, columns.shape[0])[ranked], ranked


def coalesced(
    indices: TensorBase, sizes: Sequence[int]
) -> tuple[TensorBase, TensorBase | None, TensorBase | None]:
    """Sorted places, each once, the order of the given ones, and where the run of each place begins."""
    with unrecorded():
        key = indices.new_zeros(indices.shape[1])
        for d, size in enumerate(sizes):
            _outside("coalesce", (indices[d] < 0) | (indices[d] >= size))
            key = key + indices[d] * math.prod(sizes[d + 1 :])
        n = key.shape[0]
        if n < 2 or bool((key.narrow(0, 1, n - 1) > key.narrow(0, 0, n - 1)).all()):
            return indices, None, None
        ranked = order(key)
        key = key[ranked]
        new = cat([key.new_ones(1) != 0, key.narrow(0, 1, n - 1) != key.narrow(0, 0, n - 1)])
        first = new.nonzero().reshape(-1)
        at = indices.index_select(1, ranked[first])
        return at, ranked, cat([first, first.new_full((1,), n)])


def keeps_rules(starts: TensorBase, columns: TensorBase, bound: int, strictly: bool) -> bool:
    """Whether `broken_rule` finds none."""
    with unrecorded():
        listed = columns.shape[-1]
        steps = starts.diff()
        good = (starts.select(-1, 0) == 0).all() & (starts.select(-1, starts.shape[-1] - 1) == listed).all()
        good = good & ((steps >= 0) & (steps <= bound)).all() & ((columns >= 0) & (columns < bound)).all()
        if not bool(good) or not strictly or listed < 2 or not columns.numel():
            return bool(good)
        places = arange(listed, device=starts.device).expand(columns.shape).contiguous()
        rows = search(starts.long(), places, True)
        apart = rows.narrow(-1, 1, listed - 1) != rows.narrow(-1, 0, listed - 1)
        ascend = columns.narrow(-1, 1, listed - 1) > columns.narrow(-1, 0, listed - 1)
        return bool((apart | ascend).all())
