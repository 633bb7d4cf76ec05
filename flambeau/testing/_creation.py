"""`make_tensor`: random operands of any dtype."""

from __future__ import annotations

import math
import warnings
from typing import Any

from .._tensor import Tensor
from ..autograd.grad_mode import no_grad
from ..core.base.dtypes import dtype as Dtype
from ..core.base.formats import memory_format as MemoryFormat
from ..core.base.typeinfo import finfo, iinfo
from ..core.make.create import empty
from ..core.views.views import view_as_real


def make_tensor(
    *shape: int | tuple[int, ...] | list[int],
    dtype: Dtype,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """A tensor of the given shape with elements drawn uniformly from [low, high).

    | dtype | low | high | drawn from |
    |---|---|---|---|
    | bool | 0 | 2 | False, True |
    | unsigned integers | 0 | 10 | integers |
    | signed integers | -9 | 10 | integers |
    | floating, complex (each part) | -9 | 9 | the interval |

    Bounds beyond the dtype's range are cut to it, those of integers rounded up.  `exclude_zero` puts the smallest positive
    number of the dtype (1 for integers and bools) where a zero was drawn.  `noncontiguous` leaves out every other element along the last
    dimension; it excludes `memory_format`.

    Raises ValueError for low ≥ high, NaN bounds, bounds that leave nothing of the dtype's range, `requires_grad` of
    integers, and TypeError for a dtype without random numbers.

    >>> import flambeau
    >>> x = flambeau.testing.make_tensor(2, 3, dtype=flambeau.int8, device="cpu", low=0, high=3)
    >>> x.shape, bool(((x >= 0) & (x < 3)).all())
    (flambeau.Size([2, 3]), True)
    """
    sizes: Any = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    real = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not real:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        )
    lowest, highest = _bounds(dtype, low, high)
    spread = noncontiguous and math.prod(sizes) > 1 and len(sizes) > 0
    drawn = (*sizes[:-1], 2 * sizes[-1]) if spread else sizes
    result = empty(drawn, dtype=dtype, device=device)
    with no_grad():
        if real:
            parts = view_as_real(result) if dtype.is_complex else result
            # Halves: from -max to max is farther than the largest number.
            parts.uniform_(lowest / 2, highest / 2).mul_(2) if highest > lowest else parts.fill_(lowest)
        else:
            result.random_(int(lowest), int(highest))
        if spread:
            result = result[..., ::2]
        if exclude_zero:
            result[result == 0] = finfo(dtype).tiny if real else 1
    if memory_format is not None:
        result = result.clone(memory_format=memory_format)
    return result.requires_grad_(requires_grad)


def _bounds(dtype: Dtype, low: float | None, high: float | None) -> tuple[float, float]:
    """The interval within what the dtype can hold, and ValueError where nothing is left of it."""
    if dtype.name == "bool":
        default, least, most = (0, 2), 0.0, 2.0
    elif dtype.is_floating_point or dtype.is_complex:
        info = finfo(dtype)
        default, least, most = (-9, 9), info.min, info.max
    else:
        whole = iinfo(dtype)
        default, least, most = (0 if whole.min == 0 else -9, 10), whole.min, whole.max + 1
    lowest, highest = default[0] if low is None else low, default[1] if high is None else high
    if math.isnan(lowest) or math.isnan(highest):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={lowest} and high={highest}")
    real = dtype.is_floating_point or dtype.is_complex
    if lowest == highest and real:
        warnings.warn(
            "make_tensor: low == high is deprecated for floating and complex dtypes; use full() instead",
            FutureWarning,
            stacklevel=3,
        )
    elif lowest >= highest:
        raise ValueError(f"`low` must be less than `high`, but got {lowest} >= {highest}")
    if highest < least or lowest > most or (not real and lowest >= most):
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{lowest}, {highest}), but {dtype} only "
            f"supports [{least}, {most})"
        )
    lowest, highest = min(max(lowest, least), most), min(max(highest, least), most)
    if real:
        return lowest, highest
    lowest, highest = math.ceil(lowest), math.ceil(highest)
    if lowest >= highest:
        raise ValueError(f"make_tensor: no {dtype} lies in [{low}, {high})")
    return lowest, highest
