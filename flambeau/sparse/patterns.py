"""Where the elements of a sparse tensor stand: patterns, which say nothing of the elements' values.

A pattern never changes; a write in place gives a tensor another one.  What is computed from a pattern (its rows, its order)
is kept with it, so that a matrix that is multiplied again and again is sorted once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.base import formats
from ..core.base.tensor import TensorBase
from ..core.lib.sparse import sparse_rows
from ..core.make.create import arange
from ..operations.declare.registry import published
from ..operations.on_device import places as places_there

_operations = published("")
_stack, _cat = _operations["stack"], _operations["cat"]

ROW_LAYOUTS = frozenset((formats.sparse_csr, formats.sparse_bsr))
COLUMN_LAYOUTS = frozenset((formats.sparse_csc, formats.sparse_bsc))
BLOCK_LAYOUTS = frozenset((formats.sparse_bsr, formats.sparse_bsc))
COMPRESSED = ROW_LAYOUTS | COLUMN_LAYOUTS


def where_they_are(function: Callable, first: TensorBase, *rest: Any) -> Any:
    """What a loop of `sparse_rows` makes of places; on a device, what `operations/on_device/places.py` makes under the same name.

    >>> import flambeau
    >>> from flambeau.core.lib.sparse.sparse_rows import by_rows
    >>> from flambeau.sparse.patterns import where_they_are
    >>> where_they_are(by_rows, flambeau.tensor([1, 0]), 2)
    (tensor([0, 1, 2]), tensor([1, 0]))
    """
    if first.device.type == "cpu":
        return function(first, *rest)
    return getattr(places_there, function.__name__)(first, *rest)


def _equal(a: TensorBase, b: TensorBase) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and not a.is_meta and bool((a == b).all())


class Rows:
    """A matrix's places, listed row by row: row i has the columns `columns[starts[i]:starts[i + 1]]`, in any order.

    `starts` (count + 1) and `columns` are int32 or int64, contiguous; columns are below `bound`.

    >>> import flambeau
    >>> from flambeau.sparse.patterns import Rows
    >>> Rows(flambeau.tensor([0, 2, 3]), flambeau.tensor([0, 1, 1]), 2, 2).numbers()
    tensor([0, 0, 1])
    """

    __slots__ = ("_numbers", "_turned", "bound", "columns", "count", "starts")

    def __init__(self, starts: TensorBase, columns: TensorBase, count: int, bound: int):
        self.starts, self.columns, self.count, self.bound = starts, columns, count, bound
        self._turned: tuple | None = None
        self._numbers: TensorBase | None = None

    def turned(self) -> tuple[Rows, TensorBase]:
        """The rows of the transposed matrix, and which entry each of theirs is."""
        if self._turned is None:
            starts, columns, order = where_they_are(sparse_rows.turned, self.starts, self.columns, self.bound)
            rows = Rows(starts, columns, self.bound, self.count)
            self._turned = rows, order
        return self._turned

    def numbers(self) -> TensorBase:
        """The row of each entry."""
        if self._numbers is None:
            n = self.columns.shape[0]
            self._numbers = where_they_are(sparse_rows.row_numbers, self.starts, n)
        return self._numbers


class Pattern:
    """What patterns share: their layout and size, and what is kept of them while the indices are what they were.

    >>> import flambeau
    >>> pattern = flambeau.eye(2).to_sparse()._pattern
    >>> pattern.cached("sum", lambda: pattern.at.sum()) is pattern.cached("sum", lambda: None)
    True
    """

    __slots__ = ("_cached", "layout", "size")

    layout: Any
    size: tuple[int, ...]
    _cached: dict[str, tuple]

    def version(self) -> int:
        """Goes up with every write to the indices."""
        raise NotImplementedError

    def same(self, other: Pattern) -> bool:
        """Whether the other lists the same places in the same order; tells so of sorted coordinates and compressed ones alone."""
        return self is other

    def cached(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` returned when the indices were what they are."""
        now = self.version()
        result = self._cached.get(name)
        if result is None or result[0] != now:
            result = self._cached[name] = now, make()
        return result[1]


class Coordinates(Pattern):
    """Places by all their indices: `at` (sparse dimensions, places), int64, in a tensor of shape `size`.

    >>> import flambeau
    >>> from flambeau.sparse.patterns import Coordinates
    >>> Coordinates(flambeau.tensor([[0, 2]]), (4,), True).keys()
    tensor([0, 2])
    """

    __slots__ = ("at", "coalesced")

    def __init__(self, at: TensorBase, size: Sequence[int], coalesced: bool):
        self.layout, self.at, self.size, self._cached = formats.sparse_coo, at, tuple(size), {}
        self.coalesced = coalesced or at.shape[1] < 2

    def version(self) -> int:
        return sparse_rows.writes(self.at)

    def parts(self) -> tuple[TensorBase, ...]:
        """The tensors that it is made of."""
        return (self.at,)

    def same(self, other: Pattern) -> bool:
        if self is other:
            return True
        both = type(other) is Coordinates and self.coalesced and other.coalesced
        return both and self.size == other.size and _equal(self.at, other.at)

    @property
    def sparse_dim(self) -> int:
        """How many dimensions are listed by index."""
        return self.at.shape[0]

    @property
    def dense_dim(self) -> int:
        """How many dimensions each value has."""
        return len(self.size) - self.at.shape[0]

    def sized(self, size: Sequence[int]) -> Coordinates:
        """The same places in another size."""
        return Coordinates(self.at, size, self.coalesced)

    def moved(self, device: Any) -> Coordinates:
        """The same pattern on another device."""
        return (
            self if self.at.device == device else Coordinates(self.at.to(device), self.size, self.coalesced)
        )

    def copied(self) -> Coordinates:
        """The same pattern in memory of its own."""
        return Coordinates(self.at.clone(), self.size, self.coalesced)

    def keys(self) -> TensorBase:
        """The places as single numbers, row by row; a tensor has never more elements than 64 bits count."""
        keys = self.at.new_zeros([self.at.shape[1]])
        for row, length in zip(self.at, self.size[: self.sparse_dim]):
            keys = keys * length + row
        return keys

    def sorted(self) -> tuple[Coordinates, TensorBase | None, TensorBase | None]:
        """The places sorted, each once, as `sparse_rows.coalesced` tells them: a pattern, order and starts."""
        return self.cached("sorted", self._sorted)

    def _sorted(self) -> tuple:
        if self.coalesced:
            return self, None, None
        lengths, listed = self.size[: self.sparse_dim], self.at.shape[1]
        if (
            math.prod(lengths).bit_length() + listed.bit_length() > 64
        ):  # a place and its number are no single key
            keys, order = self.keys().sort(stable=True)
            first = _cat([keys.new_ones([1]).bool(), keys[1:] != keys[:-1]]).nonzero().reshape(-1)
            at = self.at.index_select(1, order.index_select(0, first))
            return Coordinates(at, self.size, True), order, _cat([first, first.new_full([1], listed)])
        at, order, starts = where_they_are(sparse_rows.coalesced, self.at.contiguous(), lengths)
        return Coordinates(at, self.size, True), order, starts

    def group(self) -> TensorBase:
        """Which place of the sorted pattern each place is."""
        return self.cached("group", self._group)

    def _group(self) -> TensorBase:
        sorted_pattern, order, starts = self.sorted()
        numbers = arange(sorted_pattern.at.shape[1], device=self.at.device)
        if order is None or starts is None:
            return numbers
        counts = starts[1:] - starts[:-1]
        return order.new_empty(order.shape).index_copy(0, order, numbers.repeat_interleave(counts))

    def coordinates(self) -> TensorBase:
        """All indices of each place."""
        return self.at

    def rows(self) -> tuple[Rows | None, TensorBase | None]:
        """A matrix's places row by row, and the entry that each is (None where that is their order); None for no matrix."""
        return self.cached("rows", self._rows)

    def _rows(self) -> tuple:
        return _by_rows(self.at, *self.size) if len(self.size) == self.sparse_dim == 2 else (None, None)


def _by_rows(at: TensorBase, count: int, bound: int) -> tuple[Rows, TensorBase | None]:
    starts, order = where_they_are(sparse_rows.by_rows, at[0].contiguous(), count)
    columns = at[1].contiguous() if order is None else at[1].index_select(0, order)
    return Rows(starts, columns, count, bound), order


class Compressed(Pattern):
    """Places of matrices, or of blocks of them, by where each row (or column) begins and the columns (rows) it lists.

    `starts` is (batch …, rows + 1), `places` (batch …, listed): both int32 or int64.  `block` is the blocks' shape, () where
    there are none.

    >>> import flambeau
    >>> from flambeau.sparse.patterns import Compressed
    >>> pattern = Compressed(flambeau.sparse_csc, flambeau.tensor([0, 1, 2]), flambeau.tensor([1, 0]), (2, 2))
    >>> pattern.coordinates()
    tensor([[1, 0],
            [0, 1]])
    """

    __slots__ = ("block", "places", "starts")

    def __init__(
        self,
        layout: Any,
        starts: TensorBase,
        places: TensorBase,
        size: Sequence[int],
        block: tuple[int, ...] = (),
    ):
        self.layout, self.starts, self.places, self.block = layout, starts, places, block
        self.size, self._cached = tuple(size), {}

    def version(self) -> int:
        return sparse_rows.writes(self.starts) + sparse_rows.writes(self.places)

    def parts(self) -> tuple[TensorBase, ...]:
        """The tensors that it is made of."""
        return self.starts, self.places

    def same(self, other: Pattern) -> bool:
        if self is other:
            return True
        alike = type(other) is Compressed and self.layout is other.layout and self.size == other.size
        if not alike or self.block != other.block:  # type: ignore[attr-defined]
            return False
        return all(_equal(a, b) for a, b in zip(self.parts(), other.parts()))  # type: ignore[attr-defined]

    @property
    def batch(self) -> int:
        """How many dimensions of the size are a batch's."""
        return self.starts.ndim - 1

    @property
    def sparse_dim(self) -> int:
        """How many dimensions are listed: rows and columns."""
        return 2

    @property
    def dense_dim(self) -> int:
        """How many dimensions each element has."""
        return len(self.size) - 2 - self.batch

    @property
    def by_columns(self) -> bool:
        """Whether `starts` are those of columns."""
        return self.layout in COLUMN_LAYOUTS

    def grid(self) -> tuple[int, int]:
        """How many rows and columns of elements, or of blocks, there are."""
        rows, columns = self.size[self.batch : self.batch + 2]
        return (rows // self.block[0], columns // self.block[1]) if self.block else (rows, columns)

    def sized(self, size: Sequence[int]) -> Compressed:
        """The same places in another size."""
        return Compressed(self.layout, self.starts, self.places, size, self.block)

    def moved(self, device: Any) -> Compressed:
        """The same pattern on another device."""
        if self.starts.device == device:
            return self
        return Compressed(self.layout, self.starts.to(device), self.places.to(device), self.size, self.block)

    def copied(self) -> Compressed:
        """The same pattern in memory of its own."""
        return Compressed(self.layout, self.starts.clone(), self.places.clone(), self.size, self.block)

    def coordinates(self) -> TensorBase:
        """All indices of each element or block, batches one after another: (batch dimensions + 2, listed), int64."""
        return self.cached("coordinates", self._coordinates)

    def _coordinates(self) -> TensorBase:
        lengths, listed = self.starts.shape[:-1], self.places.shape[-1]
        parts = self.starts.reshape(-1, self.starts.shape[-1])
        along: list[Any] = []
        for one in parts:
            along.append(where_they_are(sparse_rows.row_numbers, one.contiguous(), listed))
        line = _cat(along).long() if along else self.places.reshape(-1).long()
        pair = [line, self.places.reshape(-1).long()]
        if self.by_columns:
            pair.reverse()
        number = arange(math.prod(lengths) * listed, device=self.places.device)
        indices = []
        step = listed
        for length in reversed(lengths):
            indices.append(number.div(max(step, 1), rounding_mode="floor").remainder(max(length, 1)))
            step *= length
        return _stack([*reversed(indices), *pair])

    def rows(self) -> tuple[Rows | None, TensorBase | None]:
        """A matrix's places row by row, and the element that each is (None where that is their order); None for no matrix."""
        return self.cached("rows", self._rows)

    def _rows(self) -> tuple:
        if len(self.size) != 2:
            return None, None
        count, bound = self.size
        if self.block:
            at = self.coordinates()
            high, wide = self.block
            inside = arange(high * wide, device=at.device)
            row = (at[0] * high).unsqueeze(1) + inside.div(wide, rounding_mode="floor")
            column = (at[1] * wide).unsqueeze(1) + inside.remainder(wide)
            rows, order = _by_rows(_stack([row.reshape(-1), column.reshape(-1)]), count, bound)
            return rows, arange(row.numel(), device=at.device) if order is None else order
        starts, places = self.starts.contiguous(), self.places.contiguous()
        if self.by_columns:
            return Rows(starts, places, bound, count).turned()
        return Rows(starts, places, count, bound), None
