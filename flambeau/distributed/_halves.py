"""Reductions of float16 and bfloat16 that send 16 bits an element and round once.

Every process gets its part of all tensors (an all-to-all), reduces it in float32 in the order of ranks, rounds, and gives it to all (an
all-gather): each sends 2 (p - 1) / p n elements of 16 bits, as a ring does, which is half of what the same reduction in float32 sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import by_name
from ..core.make.create import empty
from ._mpi import library
from ._reductions import RedOpType

FEW = 1 << 18  # elements up to which one reduction in float32 is faster than two exchanges, on one machine
_OPS = (RedOpType.SUM, RedOpType.AVG, RedOpType.MIN, RedOpType.MAX)


def is_in_halves(tensor: Tensor, kind: RedOpType, size: int) -> bool:
    """Whether a reduction goes this way: the same on all processes, since it hangs on what they agree on."""
    return (
        size > 1
        and tensor.dtype in (by_name["float16"], by_name["bfloat16"])
        and tensor.numel() > FEW
        and kind in _OPS
    )


def all_reduced(communicator: Any, rank: int, tensor: Tensor, kind: RedOpType, most: int) -> Iterator[Any]:
    """Requests for pieces of `most` bytes of a contiguous tensor, one after the other; None stands where all before must be complete.

    While the parts of a piece are gathered, those of the next are exchanged.
    """
    flat, size = tensor.view(-1), communicator.Get_size()
    step = max(most // 2, size)
    gather = None
    for begin in range(0, flat.numel(), step):
        piece = flat.narrow(0, begin, min(step, flat.numel() - begin))
        counts = _shares(piece.numel(), size)
        received = empty((size, counts[rank]), dtype=tensor.dtype)
        if gather is not None:
            yield gather()
        yield communicator.Ialltoallv(_chunks_of(piece, counts), _chunks_of(received, [counts[rank]] * size))
        yield None
        part = _reduced(received, kind, size)
        gather = _gathering(communicator, part, piece, counts)
    if gather is not None:
        yield gather()
        yield None  # the last part is needed until it is sent


def _gathering(communicator: Any, part: Tensor, piece: Tensor, counts: Sequence[int]) -> Callable[[], Any]:
    return lambda: communicator.Iallgatherv(_bytes_of(part), _chunks_of(piece, counts))


def reduce_scattered(
    communicator: Any, rank: int, flat: Tensor, counts: Sequence[int], kind: RedOpType, output: Tensor
) -> tuple[list[Any], Callable[[], None]]:
    """The request for a reduction of which this process keeps its part, and what writes it to `output` in the end."""
    size, mine = len(counts), counts[rank]
    received = empty((size, mine), dtype=flat.dtype)
    requests = [communicator.Ialltoallv(_chunks_of(flat, counts), _chunks_of(received, [mine] * size))]

    def finish() -> None:
        assert flat.numel() >= 0  # which is needed until here
        output.copy_(_reduced(received, kind, size).view(output.shape))

    return requests, finish


def _shares(n: int, size: int) -> list[int]:
    """How many of `n` elements fall to each process."""
    return [n // size + (rank < n % size) for rank in range(size)]


def _bytes_of(tensor: Tensor) -> list[Any]:
    """A tensor of halves as MPI's buffer of bytes."""
    api, n = library().api, 2 * tensor.numel()
    return [api.memory.fromaddress(tensor.data_ptr() if n else 0, n), n, api.BYTE]


def _chunks_of(tensor: Tensor, counts: Sequence[int]) -> list[Any]:
    """The same, cut into parts of so many elements."""
    memory, _, kind = _bytes_of(tensor)
    sizes = [2 * count for count in counts]
    places = [sum(sizes[:k]) for k in range(len(sizes))]
    return [memory, (sizes, places), kind]


def _reduced(received: Tensor, kind: RedOpType, size: int) -> Tensor:
    """Rows reduced in float32, from the first to the last, and rounded."""
    total = received[0].to(by_name["float32"])
    for k in range(1, size):
        row = received[k].to(by_name["float32"])
        if kind is RedOpType.MIN:
            total = total.minimum(row)
        elif kind is RedOpType.MAX:
            total = total.maximum(row)
        else:
            total += row
    if kind is RedOpType.AVG:
        total /= size
    return total.to(received.dtype)
