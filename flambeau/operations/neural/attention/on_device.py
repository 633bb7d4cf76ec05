"""Attention on devices in kernels of its own, without all scores (`codegen/schedule_gpu_attention.py`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....codegen import expr as ex
from ....codegen.expr import Expr
from ....core.base.device import find_device
from ....core.base.tensor import TensorBase
from ....core.loops.launch import run_blocks
from ....core.make.create import empty
from ...moving.joining import stack
from .programs import gradient_of_score, symbol

if TYPE_CHECKING:
    from .blocked import Call

MOST_CAPTURES, MOST_CAPTURES_BACKWARD = 2, 1  # a launch has at most 8 tensors
MOST_SCORES = 1 << 28  # that may stand in memory: a gigabyte of float32


def taken(
    query: TensorBase, key: TensorBase, value: TensorBase, mask: TensorBase | None, diagonal: int | None
) -> bool:
    """Whether a checked call goes through the kernel where a program has not chosen.

    Both ways make the same multiplications.  All scores are written and read again five times or more (both products, maxima, sums and
    weights, and twice for a mask), the kernel holds them in registers and skips those behind a causal mask: where threads are the
    lanes it is taken wherever it serves.  A driver for CPUs keeps what lives across a barrier in memory, so that the kernel's
    multiplications take two to three times as long there as those of whole rectangles of a product of vectors: all scores are made where
    nothing but multiplications counts, without a mask and for values as wide as such a rectangle.  `benchmarks/device_attention.py`
    prints both.  What a mask wants as its gradient is of the size of all scores.
    """
    from ....codegen import schedule_gpu_attention as threads
    from ....codegen import schedule_gpu_vectors as vectors

    if query.is_cpu or query.is_meta or min(query.numel(), key.numel(), value.numel()) == 0:
        return False
    if mask is not None and mask.requires_grad:
        return False
    if threads.shape_for(query.dtype.name, query.shape[-1], value.shape[-1]) is None:
        return False
    lanes = _lanes(query.device.type, query.device.index)
    scores = query.numel() // query.shape[-1] * key.shape[-2]
    if lanes < vectors.FEWEST_LANES or mask is not None or diagonal is not None or scores > MOST_SCORES:
        return True
    return value.shape[-1] < vectors.VECTORS * min(lanes, vectors.MOST_ELEMENTS)


def forward(
    call: Call,
    query: TensorBase,
    key: TensorBase,
    value: TensorBase,
    captures: Sequence[TensorBase],
    results: tuple[TensorBase, TensorBase, TensorBase],
) -> bool:
    """Write output, logarithms of sums and largest scores; False where the kernel does not serve.

    It serves `scaled_dot_product_attention` on devices, for heads that fit into shared memory; not the blocks of `flex_attention`, nor
    functions that read tensors at computed places, which are checked.
    """
    if query.device.type == "cpu" or call.reach is None or key.numel() == 0 or value.numel() == 0:
        return False
    if len(captures) > MOST_CAPTURES or not _plain(call):
        return False
    from ....codegen import schedule_gpu_attention as threads

    shape = threads.shape_for(query.dtype.name, query.shape[-1], value.shape[-1])
    if shape is None:
        return False
    score, mask, read = _functions(call, captures)
    kernel = threads.Attention(query.dtype.name, shape, score, mask, read)
    numbers = _numbers(call, (query, key, value), captures)
    run_blocks(kernel, (*results, query, key, value, *captures), numbers, (float(call.scale),))
    return True


def backward(
    call: Call,
    wanted: Sequence[bool],
    grads: tuple[TensorBase, TensorBase],
    query: TensorBase,
    key: TensorBase,
    value: TensorBase,
    lse: TensorBase,
    captures: Sequence[TensorBase],
) -> tuple[TensorBase | None, TensorBase | None, TensorBase | None] | None:
    """Gradients of query, key and value, those that are `wanted`; None where the kernels do not serve, as `forward`'s, or what is captured
    has a gradient.  `grads`: what arrives at the output, and delta, a number a query.
    """
    to_out, delta = grads
    if query.device.type == "cpu" or query.is_meta or call.reach is None or any(wanted[3:]):
        return None
    if min(query.numel(), key.numel(), value.numel()) == 0:
        return None
    if len(captures) > MOST_CAPTURES_BACKWARD or not _plain(call):
        return None
    from ....codegen import schedule_gpu_attention_backward as threads

    dtype, widths = query.dtype.name, (query.shape[-1], value.shape[-1])
    of_queries, of_keys = (threads.shape_for(dtype, side, *widths) for side in ("queries", "keys"))
    if of_queries is None or of_keys is None:
        return None
    score, mask, read = _functions(call, captures)
    change = None if score is None else gradient_of_score(score, call.working)
    operands = (query, key, value, to_out)
    numbers, rows = _numbers(call, operands, captures), stack([lse, delta])

    def dense(like: TensorBase) -> TensorBase:
        return empty(like.shape, dtype=like.dtype, device=like.device)

    results: list[TensorBase | None] = [None, None, None]
    sides = (
        ("queries", of_queries, (query,), wanted[0]),
        ("keys", of_keys, (key, value), wanted[1] or wanted[2]),
    )
    for side, shape, own, some in sides:
        if some:
            kernel = threads.AttentionBackward(dtype, side, shape, score, change, mask, read)
            found = [dense(t) for t in own]
            run_blocks(kernel, (*found, *operands, rows, *captures), numbers, (float(call.scale),))
            begin = 0 if side == "queries" else 1
            results[begin : begin + len(found)] = found
    to_query, to_key, to_value = (r if some else None for r, some in zip(results, wanted))
    return to_query, to_key, to_value


def _functions(
    call: Call, captures: Sequence[TensorBase]
) -> tuple[Expr | None, Expr | None, tuple[tuple[str, int], ...]]:
    """The function of scores, the mask, and what they read.  Kernels know a causal mask by its reach.  They may take the largest sum for
    the largest score where no function comes between, but not where the factor turns them about.
    """
    score, mask = call.program.score, None if call.causal else call.program.mask
    if score is None and not 0 < call.scale < math.inf:
        score = symbol("score", call.working)
    return score, mask, tuple((c.dtype.name, c.ndim) for c in captures)


def _numbers(call: Call, operands: Sequence[TensorBase], captures: Sequence[TensorBase]) -> tuple[int, ...]:
    sizes, reach = call.sizes, call.reach
    assert reach is not None  # or no kernel serves
    numbers = [sizes.batches, sizes.heads, sizes.groups, sizes.queries, sizes.keys]
    numbers += [operands[0].shape[-1], operands[2].shape[-1], reach]
    for t in (*operands, *captures):
        numbers += t.stride()
    return tuple(numbers)


@functools.cache
def _lanes(type: str, index: int) -> int:
    """How many float32's a vector register of a device's thread holds."""
    return find_device(type, index).properties().get("native_vector_width_float", 1)


def _plain(call: Call) -> bool:
    """Whether captures are read at the score's own places alone."""
    roots = [e for e in (call.program.score, call.program.mask) if e is not None]
    return all(i.op in ("symbol", "const") for e in ex.walk(roots) if e.op == "capture" for i in e.args)
