"""Operations that are linear in rows, in columns, in planes: resizing, padding, mean pooling.

    tables = [taps.linear(64, 128, 0.5, False)] * 2
    out = taken(input, tables, "UpsampleBilinear2DBackward0")      # None: another way has to be taken

Each of the last dimensions has a table of `core/lib/taps.pyx`, or None where nothing happens to it.  Gradients are made by the
transposed tables, of any order.  Tables are kept, so that a size is worked out once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...codegen import tiles  # noqa: F401  says who provides the functions
from ...core import tape
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.call.function import FunctionOp
from ...core.call.watching import is_watched
from ...core.lib import taps as core
from ...core.make.literal import tensor
from ...core.tape.contexts import unrecorded

Tables = Sequence[core.Taps | None]
MOST = 1 << 14  # places of a line that a table is made for
MOST_TERMS = 1 << 18  # elements that its sums have
HALVES = ("float16", "bfloat16")


def _kept(rule: Callable) -> Callable:
    return functools.lru_cache(maxsize=64)(rule)


nearest, linear, cubic, widened = map(_kept, (core.nearest, core.linear, core.cubic, core.widened))
parts, windows, extended = map(_kept, (core.parts, core.windows, core.extended))


def fits(size: int, out: int, each: int = 1) -> bool:
    """Whether a table from `size` elements to `out` places of `each` elements is small enough to be kept."""
    return 0 < size <= MOST and 0 < out <= MOST and max(out * each, 1) <= MOST_TERMS


def _mapped(level, op, args: list, kwargs: dict, running) -> Any:
    """Inside `vmap`: slices are planes."""
    x, dim, *tables = args
    return level.wrapped(op(level.inside(x), dim + 1, *tables))


_shown = FunctionOp(core.summed, "summed", owns=False)  # what those who watch are shown
vars(_shown)["mapped"] = _mapped


def taken(x: TensorBase, tables: Tables, label: str) -> TensorBase | None:
    """The input, its last dimensions summed by the tables, recorded under that label; None where it is not one for tables: on another
    device, or of a dtype that they do not take.
    """
    if x._composed:
        return None
    if x.dtype.name in HALVES and not core.takes(x, [*tables]):
        found = taken(x.to(by_name["float32"]), tables, label)
        return None if found is None else found.to(x.dtype)
    return _recorded(x, tuple(tables), label) if core.takes(x, [*tables]) else None


def _recorded(x: TensorBase, tables: tuple, label: str) -> TensorBase:
    if not tape.recording(x):
        return _all(x, tables)
    with unrecorded():
        found = _all(x, tables)
    tape.record(label, _back, (x,), found, (), (tables, label))
    return found


def _back(grad: TensorBase, tables: tuple, label: str) -> TensorBase:
    divisor = None
    for d, t in enumerate(tables):
        if t is not None and (shares := t.shares) is not None:
            own = tensor(shares, dtype=grad.dtype, device=grad.device).reshape(
                [-1] + [1] * (len(tables) - 1 - d)
            )
            divisor = own if divisor is None else divisor * own
    grad = grad if divisor is None else grad / divisor
    return _recorded(grad, tuple(None if t is None else t.turned() for t in tables), label)


vars(_back)["on_slices"] = True  # inside `vmap` it runs as it stands: the sums have a rule


def _all(x: TensorBase, tables: tuple) -> TensorBase:
    """All dimensions, two at a time; what makes the tensor smaller comes first."""
    rank = x.ndim
    last = rank > 3 and not x.is_contiguous() and _channels_last(x, len(tables))
    if last:
        x = x.movedim(1, -1)
    first = rank - len(tables) - last
    steps = _pairs(tables)
    for d, one, other in steps:
        x = (_shown if is_watched() else core.summed)(x, first + d, one, other)
    if not steps:
        x = x.clone()
    return x.movedim(-1, 1) if last else x


def _channels_last(x: TensorBase, dims: int) -> bool:
    """Whether the second dimension is innermost in memory, so that results have that order, too."""
    return dims == x.ndim - 2 and x.movedim(1, -1).is_contiguous()


def _pairs(tables: tuple) -> list[tuple[int, Any, Any]]:
    """(dimension, table, table of the next dimension), in the order in which they are done."""
    found, d = [], len(tables)
    while d > 0:
        if d > 1 and tables[d - 1] is not None and tables[d - 2] is not None:
            d -= 2
            found.append((d, tables[d], tables[d + 1]))
        else:
            d -= 1
            if tables[d] is not None:
                found.append((d, tables[d], None))
    if len(found) > 1 and found[-1][1].out <= found[-1][1].size:
        found.reverse()
    return found
