"""Boxes of a tensor's elements: whether they overlap, what they share, and whether they make up the whole.

A box has `offsets` and `sizes`; nothing here knows how a tensor came to be cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .metadata import ChunkStorageMetadata

__all__: list[str] = []


class Shared(NamedTuple):
    """A box that two others have in common: where it begins in each of them, and its size."""

    in_saved: list[int]
    in_current: list[int]
    lengths: list[int]


def shared_box(saved: ChunkStorageMetadata, current: ChunkStorageMetadata) -> Shared | None:
    """What two boxes have in common, None if that is empty.  Of a tensor without dimensions the boxes are the same element."""
    result = Shared([], [], [])
    for a, n, b, m in zip(saved.offsets, saved.sizes, current.offsets, current.sizes):
        begin, end = max(a, b), min(a + n, b + m)
        if begin >= end:
            return None
        result.in_saved.append(begin - a)
        result.in_current.append(begin - b)
        result.lengths.append(end - begin)
    return result


def overlapping(
    chunks: Sequence[ChunkStorageMetadata],
) -> Iterator[tuple[ChunkStorageMetadata, ChunkStorageMetadata]]:
    """The pairs of chunks that have elements in common.

    Chunks are taken in the order in which they begin in one dimension, the one in which they reach farthest, and each is compared
    with those that have not ended there.
    """
    filled = [chunk for chunk in chunks if math.prod(chunk.sizes)]
    if len(filled) < 2:
        return
    dims = range(len(filled[0].sizes))
    swept = max(dims, key=lambda d: max(c.offsets[d] + c.sizes[d] for c in filled), default=None)
    if swept is None:  # no dimensions: all are the one element
        yield filled[0], filled[1]
        return
    active: list[ChunkStorageMetadata] = []
    for chunk in sorted(filled, key=lambda c: tuple(c.offsets)[swept]):
        active = [
            other for other in active if other.offsets[swept] + other.sizes[swept] > chunk.offsets[swept]
        ]
        for other in active:
            if shared_box(other, chunk) is not None:
                yield other, chunk
        active.append(chunk)


def outside(size: Sequence[int], chunk: ChunkStorageMetadata) -> bool:
    """Whether a chunk is not within a tensor of this size."""
    if not len(size) == len(chunk.offsets) == len(chunk.sizes):
        return True
    return any(
        begin < 0 or n < 0 or begin + n > length for length, begin, n in zip(size, chunk.offsets, chunk.sizes)
    )
