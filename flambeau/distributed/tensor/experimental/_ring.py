"""Attention over a sequence whose parts lie on several processes (Liu et al. 2023, "Ring Attention with Blockwise Transformers").

Each process has the queries, keys and values of its part.  Parts of keys and values come to it one after the other; what its queries make
of each is merged by the logarithms of sums of exponentials (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax").
Backward goes over the same blocks with the sums of the whole, and gradients of keys and values travel home.

With *head-tail* parts, process r of P has chunks r and 2 P - 1 - r of 2 P, so that all have as much to do under a causal mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...._tensor import Tensor
from ....autograd import Function
from ....core.base.dtypes import by_name
from ....core.make.create import zeros_like
from ....core.places.join import cat, stack
from ....core.tape.modes import is_grad_enabled
from ....operations.neural.attention.flash_attention import (
    scaled_dot_product_flash_attention_for_cpu as attend,
)
from ....operations.neural.attention.flash_attention import (
    scaled_dot_product_flash_attention_for_cpu_backward as attend_backward,
)
from ....operations.pointwise.elementary import logaddexp
from ..._functional_collectives import all_gather_tensor, permute_tensor, reduce_scatter_tensor, wait_tensor
from ..._process_group import ProcessGroup


class Block(NamedTuple):
    """What of a process's queries meets what of a part of keys: where they begin and end, and whether under the diagonal alone."""

    queries: slice
    keys: slice
    causal: bool


def block_of(rank: int, source: int, length: int, causal: bool, head_tail: bool) -> Block | None:
    """The block of `rank`'s queries and `source`'s keys, each `length` long; None where the mask allows nothing of it."""
    everything, half = slice(0, length), length // 2
    if not causal:
        return Block(everything, everything, False)
    if source == rank:  # places go up within a part, so its own triangle is the mask
        return Block(everything, everything, True)
    if not head_tail:
        return Block(everything, everything, False) if source < rank else None
    if source < rank:  # its head comes before both of ours, its tail after both
        return Block(everything, slice(0, half), False)
    return Block(slice(half, length), everything, False)  # our tail comes after both of its chunks


class Gathered:
    """All parts of keys and values at once: one message, and memory for the whole sequence."""

    def __init__(self, group: ProcessGroup, parts: Tensor) -> None:
        self._group, self._size = group, group._size
        self._gathered = all_gather_tensor(parts.unsqueeze(0), 0, group)
        self._sums: Tensor | None = None

    def parts(self) -> Iterator[tuple[int, Tensor]]:
        """Each rank's part, this process's first."""
        for step in range(self._size):
            source = (self._group._rank - step) % self._size
            yield source, wait_tensor(self._gathered)[source]

    def add(self, source: int, grads: Tensor) -> None:
        """Keep the gradients of a part."""
        if self._sums is None:
            total = wait_tensor(self._gathered)
            self._sums = zeros_like(total, dtype=grads.dtype)
        self._sums[source].add_(grads)

    def home(self) -> Tensor:
        """The sum of all processes' gradients of this one's part."""
        assert self._sums is not None
        return wait_tensor(reduce_scatter_tensor(self._sums, "sum", 0, self._group))[0]


class Ring:
    """Parts of keys and values go from rank to rank, while the one that is there is computed with."""

    def __init__(self, group: ProcessGroup, parts: Tensor) -> None:
        self._group, self._size, self._mine = group, group._size, parts
        self._to_next = [(rank + 1) % self._size for rank in range(self._size)]
        self._sums: Tensor | None = None  # of the part that is here

    def parts(self) -> Iterator[tuple[int, Tensor]]:
        """Each rank's part, this process's first."""
        here = self._mine
        for step in range(self._size):
            following = self._send(here) if step < self._size - 1 else here
            yield (self._group._rank - step) % self._size, here
            here = wait_tensor(following)

    def add(self, source: int, grads: Tensor) -> None:
        """Add the gradients of the part that is here to those that came with it, and send them after it."""
        total = grads if self._sums is None else grads + wait_tensor(self._sums)
        self._sums = self._send(total)

    def home(self) -> Tensor:
        """The sum of all processes' gradients of this one's part, which have come around."""
        assert self._sums is not None
        return wait_tensor(self._sums)

    def _send(self, tensor: Tensor) -> Tensor:
        return permute_tensor(tensor, self._to_next, self._group)


def merged(out: Tensor, lse: Tensor, more: Tensor, more_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Two results of the same queries over different keys as one over both.

    out, more: (B, heads, L, E); lse, more_lse: logarithms of the sums of exponentials, (B, heads, L, 1).
    """
    both = logaddexp(lse, more_lse)
    return out * (lse - both).exp() + more * (more_lse - both).exp(), both


class RingAttention(Function):
    """`scaled_dot_product_attention` over all parts, for this process's queries.

    query: (B, heads, L, E), key and value: (B, heads or a divisor, L, E) and (…, Ev) of this process; `rotate` is Gathered or Ring.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        group: ProcessGroup,
        rotate: Any,
        causal: bool,
        head_tail: bool,
        factor: float,
        query: Tensor,
        key: Tensor,
        value: Tensor,
    ) -> Tensor:
        ctx.options = group, rotate, causal, head_tail, factor
        out = lse = None
        working = by_name["float64"] if query.dtype is by_name["float64"] else by_name["float32"]
        for source, part in rotate(group, _joined(key, value)).parts():
            block = block_of(group._rank, source, query.shape[2], causal, head_tail)
            if block is None:
                continue
            k, v = (t[:, :, block.keys] for t in _apart(part, key, value))
            q = query[:, :, block.queries]
            diagonal = 0 if block.causal else None
            more, more_lse, _ = attend(q, k, v, None, diagonal, factor, 0.0)
            more = more.to(working)
            if out is None or lse is None:  # the first block is this process's own, with all its queries
                out, lse = more.clone(), more_lse.clone()
                continue
            at = block.queries
            new, new_lse = merged(out[:, :, at], lse[:, :, at], more, more_lse)
            out[:, :, at], lse[:, :, at] = new, new_lse
        assert out is not None and lse is not None
        result = out.to(query.dtype)
        ctx.save_for_backward(query, key, value, result, lse)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        if is_grad_enabled():
            raise RuntimeError(
                "context_parallel(): attention over parts is not differentiable twice (create_graph=True)"
            )
        group, rotate, causal, head_tail, factor = ctx.options
        query, key, value, out, lse = ctx.saved_tensors
        to_query = zeros_like(query, dtype=lse.dtype)
        rotating = rotate(group, _joined(key, value))
        for source, part in rotating.parts():
            block = block_of(group._rank, source, query.shape[2], causal, head_tail)
            to_key, to_value = (zeros_like(t, dtype=lse.dtype) for t in (key, value))
            if block is not None:
                k, v = (t[:, :, block.keys] for t in _apart(part, key, value))
                at, diagonal = block.queries, 0 if block.causal else None
                args = (grad[:, :, at], query[:, :, at], k, v, None, out[:, :, at], lse[:, :, at])
                grads = attend_backward(*args, None, diagonal, factor, 0.0, False)
                to_query[:, :, at] += grads[0]
                to_key[:, :, block.keys], to_value[:, :, block.keys] = grads[1], grads[2]
            rotating.add(source, _joined(to_key, to_value))
        of_key, of_value = _apart(rotating.home(), key, value)
        grads = (t.to(like.dtype) for t, like in ((to_query, query), (of_key, key), (of_value, value)))
        return None, None, None, None, None, *grads


def _joined(key: Tensor, value: Tensor) -> Tensor:
    """Keys and values as one tensor, which travels."""
    if key.shape == value.shape:
        return stack([key, value])
    return cat([key.reshape(-1), value.reshape(-1)])


def _apart(joined: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    if key.shape == value.shape:
        return joined[0], joined[1]
    return joined[: key.numel()].view(key.shape), joined[key.numel() :].view(value.shape)
