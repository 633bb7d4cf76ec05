"""Layers over integers of eight bits: exact sums in 32 bits, which are then requantised (Jacob et al. 2018, section 2.2).

With codes q of a scale s and a zero point z, x = s · (q - z), so that

    sum(x · w) = s_x · s_w · (sum(q_x · q_w) - z_x · sum(q_w) - z_w · sum(q_x) + k · z_x · z_w).

What depends on the weight alone is where sums start.  A weight is laid out in panels once (`codegen/tiles/integer_rows.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..codegen.tiles import integer_rows as tiles
from ..core.base.dtypes import by_name
from ..core.lib.layers.bags import run
from ..core.make.create import empty, zeros
from ..operations.declare import machine
from ..operations.declare.registry import published

NANOSECONDS = 0.004  # of a product of two numbers
UNSIGNED = 128  # what is added to signed codes of x
_pad, _conv = published("nn.functional")["pad"], published("nn.functional")
_int32, _int8, _uint8, _wide = (by_name[name] for name in ("int32", "int8", "uint8", "int64"))
EXACT = 1 << 24  # float32 has all integers up to here


class Packed(NamedTuple):
    """A weight, (n, k) of int8, in panels: `sums` are those of its rows, `zeros` its zero points, None where all are 0."""

    panels: Any
    sums: Any
    zeros: Any
    n: int
    k: int


def packed(codes: Any, zeros_of_rows: Any) -> Packed:
    """Panels of integers (n, k) of int8, whose zero points are (n,) of integers."""
    n, k = codes.shape
    columns, step, _ = tiles.layout()
    blocks, steps = -(-n // columns), -(-k // step)
    whole = codes.new_zeros((blocks * columns, steps * step))
    whole[:n, :k] = codes
    panels = whole.reshape(blocks, columns, steps, step).transpose(1, 2).contiguous()
    given = zeros_of_rows.to(_int32)
    return Packed(panels, codes.sum(1, dtype=_int32), given if bool((given != 0).any()) else None, n, k)


def product(x: Any, zero_point: int, weight: Packed) -> Any:
    """Sums of (x - zero_point) · (w - z_w) over the terms, (m, n) of int32: x is (m, k) of uint8 or int8."""
    m, (columns, step, dtype) = x.shape[0], tiles.layout()
    if x.dtype is _int8:
        x, zero_point = x.view(_uint8) ^ UNSIGNED, zero_point + UNSIGNED
    steps = weight.panels.shape[1]
    if 0 in (m, weight.n):
        return x.new_zeros((m, weight.n), dtype=_int32)
    rows = x.to(by_name[dtype])
    if steps * step != weight.k:
        rows = _pad(rows, (0, steps * step - weight.k))
    rows = rows.contiguous()
    width = weight.panels.shape[0] * columns
    start = zeros(width, dtype=_int32)
    start[: weight.n] = weight.sums * -zero_point
    if weight.zeros is not None:
        start[: weight.n] += weight.zeros * (zero_point * weight.k)
    result = empty((m, width), dtype=_int32)
    kernel = tiles.host()
    groups = -(-m // kernel.rows)
    each = NANOSECONDS * kernel.rows * columns * steps * step
    run(
        machine.address(kernel),
        (result, rows, weight.panels, start),
        (width, steps * step, m),
        weight.panels.shape[0] * groups,
        each,
    )
    result = result[:, : weight.n]
    if weight.zeros is not None:
        result = result - x.sum(1, dtype=_int32).unsqueeze(1) * weight.zeros
    return result
