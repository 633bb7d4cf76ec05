"""Operations that are linear in rows, in columns, in planes: resizing, padding, mean pooling.

    tables = [taps.linear(64, 128, 0.5, False)] * 2
    op = leaf_of("upsample_bilinear2d_tables", "UpsampleBilinear2DBackward0")
    out = taken(input, tables, op)                                 # None: another way has to be taken

Each of the last dimensions has a table of `core/lib/resampling/taps.pyx`, or None where nothing happens to it.  Gradients are made by the
transposed tables, of any order.  Tables are kept, so that a size is worked out once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...codegen import tiles  # noqa: F401  says who provides the functions
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.call.leaf import LeafOp
from ...core.lib.resampling import taps as core
from ...core.views.views import view_as_complex, view_as_real
from .half_types import FLOAT32, HALF_TYPES
from .registry import leaf

Tables = Sequence[core.Taps | None]
MOST = 1 << 14  # places of a line that a table is made for
MOST_TERMS = 1 << 18  # elements that its sums have
SUMMED = (by_name["float32"], by_name["float64"])  # dtypes; others are moved alone


def _kept(rule: Callable) -> Callable:
    return functools.lru_cache(maxsize=64)(rule)


nearest, linear, cubic, widened = map(_kept, (core.nearest, core.linear, core.cubic, core.widened))
parts, windows, extended = map(_kept, (core.parts, core.windows, core.extended))


def fits(size: int, out: int, each: int = 1) -> bool:
    """Whether a table from `size` elements to `out` places of `each` elements is small enough to be kept."""
    return 0 < size <= MOST and 0 < out <= MOST and max(out * each, 1) <= MOST_TERMS


def taken(x: TensorBase, tables: Tables, op: LeafOp) -> TensorBase | None:
    """The input, its last dimensions summed by the tables, by that leaf; None where it is not one for tables: on another device, or of
    a dtype that they do not take.
    """
    if x._is_wrapper or not (x.is_cpu or x.is_meta):
        return None
    if x.dtype in SUMMED or (_moves(tables) and x.dtype.itemsize <= 8):
        return op(x, tuple(tables))
    return op(x.to(FLOAT32), tuple(tables)).to(x.dtype) if x.dtype in HALF_TYPES else None


def _moves(tables: Tables) -> bool:
    """Whether elements are moved, and none is summed."""
    return all(t is None or t.moves for t in tables)


def leaf_of(name: str, label: str) -> LeafOp:
    """A leaf of that name whose nodes are called `label`: its gradient is itself by the transposed tables."""
    taps = lambda input, tables: (input, tables)  # noqa: E731
    made = leaf("library", name=name, label=label, batching="leading", taps=taps)(by_tables)

    @made.derivative
    def gradient(grad: TensorBase, tables: tuple) -> TensorBase:
        return made(_shared(grad, tables), tuple(None if t is None else t.turned() for t in tables))

    return made


def _shared(grad: TensorBase, tables: tuple) -> TensorBase:
    """A gradient divided by what sums were."""
    for d, t in enumerate(tables):
        if t is not None and (shares := t.shares) is not None:
            grad = grad / grad.new_tensor(shares).reshape([-1] + [1] * (len(tables) - 1 - d))
    return grad


def by_tables(input: TensorBase, tables: tuple) -> TensorBase:
    """The input, its last dimensions summed by the tables, two at a time; what makes the tensor smaller comes first."""
    x = input
    if x.dtype not in SUMMED and not _moves(tables):  # gradients of what was moved alone
        if x.is_complex():
            both = by_tables(view_as_real(x).movedim(-1, 0), tables)
            return view_as_complex(both.movedim(0, -1).contiguous())
        return by_tables(x.to(FLOAT32), tables).to(x.dtype)
    rank = x.ndim
    last = rank > 3 and not x.is_contiguous() and _channels_last(x, len(tables))
    if last:
        x = x.movedim(1, -1)
    first = rank - len(tables) - last
    steps = _pairs(tables)
    for d, one, other in steps:
        x = core.summed(x, first + d, one, other)
    if not steps:
        x = x.clone()
    return x.movedim(-1, 1) if last else x


def _channels_last(x: TensorBase, dims: int) -> bool:
    """Whether the second dimension is innermost in memory, so that results have that order, too."""
    return dims == x.ndim - 2 and x.movedim(1, -1).is_contiguous()


def _pairs(tables: tuple) -> list[tuple[int, Any, Any]]:
    """(dimension, table, table of the next dimension), in the order in which they are done."""
    result, d = [], len(tables)
    while d > 0:
        if d > 1 and tables[d - 1] is not None and tables[d - 2] is not None:
            d -= 2
            result.append((d, tables[d], tables[d + 1]))
        else:
            d -= 1
            if tables[d] is not None:
                result.append((d, tables[d], None))
    if len(result) > 1 and result[-1][1].out <= result[-1][1].size:
        result.reverse()
    return result
