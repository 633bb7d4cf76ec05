"""Attention forward on devices in one kernel, without all scores (`codegen/schedule_gpu_attention.py`)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....codegen import expr as ex
from ....core.base.device import find_device
from ....core.base.tensor import TensorBase
from ....core.loops.launch import run_blocks

if TYPE_CHECKING:
    from .blocked import Call

MOST_CAPTURES = 2  # a launch has at most 8 tensors


def forward(
    call: Call,
    query: TensorBase,
    key: TensorBase,
    value: TensorBase,
    captures: Sequence[TensorBase],
    results: tuple[TensorBase, TensorBase, TensorBase],
) -> bool:
    """Write output, logarithms of sums and largest scores; False where the kernel does not serve.

    It serves `scaled_dot_product_attention` on devices whose threads are the lanes, for heads that fit into shared memory; not the blocks
    of `flex_attention`, nor functions that read tensors at computed places, which are checked.  A driver for CPUs keeps what lives across
    a barrier in memory: there blocks are quicker.
    """
    if query.device.type == "cpu" or call.reach is None or key.numel() == 0 or value.numel() == 0:
        return False
    if len(captures) > MOST_CAPTURES or not _plain(call):
        return False
    from ....codegen import schedule_gpu_attention as threads
    from ....codegen.schedule_gpu_vectors import FEWEST_LANES

    if _lanes(query.device.type, query.device.index) >= FEWEST_LANES:
        return False
    shape = threads.shape_for(query.dtype.name, query.shape[-1], value.shape[-1])
    if shape is None:
        return False
    read = tuple((c.dtype.name, c.ndim) for c in captures)
    kernel = threads.Attention(query.dtype.name, shape, call.program.score, call.program.mask, read)
    sizes = call.sizes
    numbers = [sizes.batches, sizes.heads, sizes.groups, sizes.queries, sizes.keys]
    numbers += [query.shape[-1], value.shape[-1], call.reach]
    for t in (query, key, value, *captures):
        numbers += t.stride()
    run_blocks(kernel, (*results, query, key, value, *captures), tuple(numbers), (float(call.scale),))
    return True


@functools.cache
def _lanes(type: str, index: int) -> int:
    """How many float32's a vector register of a device's thread holds."""
    return find_device(type, index).properties().get("native_vector_width_float", 1)


def _plain(call: Call) -> bool:
    """Whether captures are read at the score's own places alone."""
    roots = [e for e in (call.program.score, call.program.mask) if e is not None]
    return all(i.op in ("symbol", "const") for e in ex.walk(roots) if e.op == "capture" for i in e.args)
