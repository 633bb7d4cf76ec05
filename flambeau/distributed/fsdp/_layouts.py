"""How the parameters of a bucket lie in its shards and in the gathered buffer.

A bucket of n processes has n shards of one length, one behind the other: a row each.  `Rows` cuts every parameter along one of its
dimensions, so that a row holds a slice of each parameter, as `fully_shard` shows it.  `Flat` writes all parameters one behind the
other and cuts what comes out into n rows, wherever that is, as `FullyShardedDataParallel` does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..._tensor import Tensor

_LARGE = 1 << 17  # bytes of a slice that is worth a message of its own


@dataclass
class Region:
    """Where a parameter lies: `count` elements from `begin` on of the gathered buffer, `width` from `column` on of a row."""

    shape: tuple[int, ...]
    dim: int = 0  # along which it is cut
    begin: int = 0
    count: int = 0
    column: int = 0
    width: int = 0
    pieces: list[tuple[int, int, int, int]] = field(default_factory=list)  # (row, column, place in it, count)


class Rows:
    """Every parameter is cut along a dimension into n slices of one size, of which the last may be shorter, or empty."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], dims: Sequence[int], n: int) -> None:
        self.n, self.regions = n, [Region(tuple(s), d) for s, d in zip(shapes, dims, strict=True)]
        for region in self.regions:
            region.width = -(-region.shape[region.dim] // n) * self._row(region)
            region.count = math.prod(region.shape)
        column = 0
        self._ordered = sorted(self.regions, key=lambda region: region.width, reverse=True)
        for region in self._ordered:
            region.column, region.begin = column, column * n
            column += region.width
        self.length = column

    @staticmethod
    def _row(region: Region) -> int:
        return math.prod(region.shape[: region.dim] + region.shape[region.dim + 1 :])

    def _moved(self, region: Region, rows: int) -> list[int]:
        return [rows, *region.shape[: region.dim], *region.shape[region.dim + 1 :]]

    def held(self, region: Region, rank: int) -> int:
        """How many slices along the dimension a process has."""
        rows = region.shape[region.dim]
        chunk = -(-rows // self.n)
        return max(0, min(rows, (rank + 1) * chunk) - rank * chunk)

    def shard(self, row: Tensor, region: Region, rank: int) -> Tensor:
        """The slice of a parameter in a process's row, as a view."""
        rows = self.held(region, rank)
        part = row.narrow(0, region.column, rows * self._row(region)).view(self._moved(region, rows))
        return part.movedim(0, region.dim) if region.dim else part

    def unsharded(self, full: Tensor, region: Region) -> Tensor:
        """The parameter in the gathered buffer, as a view."""
        part = full.narrow(0, region.begin, region.count).view(self._moved(region, region.shape[region.dim]))
        return part.movedim(0, region.dim) if region.dim else part

    def slice_of(self, tensor: Tensor, region: Region, rank: int) -> Tensor:
        """A process's slice of a whole parameter."""
        chunk = -(-region.shape[region.dim] // self.n)
        rows = self.held(region, rank)
        return tensor.narrow(region.dim, min(rank * chunk, region.shape[region.dim]), rows)

    def in_place(self, itemsize: int) -> tuple[list[tuple[int, int]], int]:
        """Which parts of a row, by place and length, are gathered into the buffer as they are; where the rest begins.

        Large parameters are; the slices of small ones travel together, and are copied from where they come.
        """
        if self.n == 1 or len(self.regions) <= 1:
            return [(0, self.length)], self.length
        result, end = [], 0
        for region in self._ordered:
            if region.width * itemsize < _LARGE:
                break
            result.append((region.column, region.width))
            end += region.width
        return result, end

    def unpack(self, rows: Tensor, full: Tensor, begin: int = 0) -> None:
        """From the rows of all processes, without what is before `begin`, to the gathered buffer."""
        for region in self._ordered:
            if region.column >= begin and region.count:
                there = full.narrow(0, region.begin, self.n * region.width).view(self.n, region.width)
                there.copy_(rows.narrow(1, region.column - begin, region.width))

    def put(self, rows: Tensor, region: Region, value: Tensor | None) -> None:
        """Write a whole tensor (None: zeros) into rows of shape (n, at least length)."""
        there = rows.narrow(1, region.column, region.width)
        if value is None:
            there.zero_()
            return
        count, chunk, row = (
            region.shape[region.dim],
            region.width // max(self._row(region), 1),
            self._row(region),
        )
        value = value.movedim(region.dim, 0) if region.dim else value
        if count == chunk * self.n:
            there.unflatten(1, self._moved(region, chunk)).copy_(value.unflatten(0, (self.n, chunk)))
            return
        for rank in range(self.n):
            held = self.held(region, rank)
            line = there[rank]
            if held:
                line.narrow(0, 0, held * row).view(self._moved(region, held)).copy_(
                    value.narrow(0, rank * chunk, held)
                )
            line.narrow(0, held * row, line.numel() - held * row).zero_()


class Flat:
    """All parameters one behind the other, cut into n rows of one length; the end of the last is padding."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], n: int) -> None:
        self.n, self.regions = n, [Region(tuple(s)) for s in shapes]
        begin = 0
        for region in self.regions:
            region.begin, region.count = begin, math.prod(region.shape)
            begin += region.count
        self.count = begin
        self.length = -(-begin // n)
        for region in self.regions:
            place = 0
            while place < region.count:
                row, column = divmod(region.begin + place, self.length)
                most = min(region.count - place, self.length - column)
                region.pieces.append((row, column, place, most))
                place += most

    def _piece(self, region: Region, rank: int) -> tuple[int, int, int]:
        """Where a process's piece begins in its row and in the parameter, and how many elements it has."""
        for row, column, place, count in region.pieces:
            if row == rank:
                return column, place, count
        return 0, 0, 0

    def shard(self, row: Tensor, region: Region, rank: int) -> Tensor:
        """A process's piece of a parameter: a vector, empty where it has none; the parameter's shape for one process."""
        column, _, count = self._piece(region, rank)
        part = row.narrow(0, column, count)
        return part.view(region.shape) if self.n == 1 else part

    def unsharded(self, full: Tensor, region: Region) -> Tensor:
        """The parameter in the gathered buffer, as a view."""
        return full.narrow(0, region.begin, region.count).view(region.shape)

    def slice_of(self, tensor: Tensor, region: Region, rank: int) -> Tensor:
        """A process's piece of a whole parameter."""
        if self.n == 1:
            return tensor
        _, place, count = self._piece(region, rank)
        return tensor.reshape(-1).narrow(0, place, count)

    def in_place(self, itemsize: int) -> tuple[list[tuple[int, int]], int]:
        """Which parts of a row, by place and length, are gathered into the buffer as they are; where the rest begins."""
        return [(0, self.length)], self.length

    def unpack(self, rows: Tensor, full: Tensor, begin: int = 0) -> None:
        """From the rows of all processes to the gathered buffer."""
        full.copy_(rows.reshape(-1))

    def put(self, rows: Tensor, region: Region, value: Tensor | None) -> None:
        """Write a whole tensor (None: zeros) into rows of shape (n, at least length)."""
        line = None if value is None else value.reshape(-1)
        for row, column, place, count in region.pieces:
            there = rows[row].narrow(0, column, count)
            if line is None:
                there.zero_()
            else:
                there.copy_(line.narrow(0, place, count))
        if region is self.regions[-1] and (padding := self.n * self.length - self.count):
            self._pad(rows, padding)

    def _pad(self, rows: Tensor, padding: int) -> None:
        for row in range(self.n - 1, -1, -1):
            some = min(padding, self.length)
            rows[row].narrow(0, self.length - some, some).zero_()
            padding -= some
            if not padding:
                return


Layout = Rows | Flat
