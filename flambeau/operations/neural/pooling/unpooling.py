"""Pooling turned round: values put where maxima were found."""

from __future__ import annotations

import math
from typing import Any

from ....core.base.tensor import TensorBase
from ...declare import checks
from ...declare.dtype_groups import FLOATING
from ...declare.examples import of_call
from ...declare.host import holds
from ...declare.registry import library
from .pooling import ntuple


def _output_sizes(
    who: str, input: TensorBase, n: int, window: tuple, stride: tuple, padding: tuple, given: Any
) -> list[int]:
    """The spatial sizes before pooling; those `given` may be off by less than a stride."""
    least = [(s - 1) * step - 2 * p + w for s, step, p, w in zip(input.shape[-n:], stride, padding, window)]
    if given is None:
        return least
    sizes = list(given)
    if len(sizes) == n + 2:
        sizes = sizes[2:]
    if len(sizes) != n:
        raise ValueError(
            f"{who}(): output_size should be a sequence containing {n} or {n + 2} elements, but it has {len(sizes)}"
        )
    for size, usual, step in zip(sizes, least, stride):
        if not usual - step < size < usual + step:
            raise ValueError(
                f"{who}(): invalid output_size {sizes} (each size must be within a stride of {least})"
            )
    return sizes


def _unpool(n: int) -> None:
    who = f"max_unpool{n}d"

    def function(
        input: TensorBase,
        indices: TensorBase,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> TensorBase:
        if input.ndim not in (n + 1, n + 2):
            raise RuntimeError(
                f"{who}(): Input to {who} should be a {n + 1}d or {n + 2}d Tensor, but got a tensor with {input.ndim} dimensions"
            )
        window = ntuple(who, "kernel_size", kernel_size, n)
        step = window if stride is None else ntuple(who, "stride", stride, n)
        sizes = _output_sizes(who, input, n, window, step, ntuple(who, "padding", padding, n), output_size)
        if tuple(indices.shape) != tuple(input.shape):
            raise RuntimeError(
                f"{who}(): Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got "
                f"{list(indices.shape)}"
            )
        checks.floating(who, input=input)
        if indices.dtype.name != "int64":
            raise RuntimeError(f"{who}(): elements in indices should be type int64 but got: {indices.dtype}")
        volume, lead = math.prod(sizes), input.shape[:-n]
        if not holds((indices >= 0) & (indices < volume)):
            wrong = next(k for k in indices.reshape(-1).tolist() if not 0 <= k < volume)
            raise RuntimeError(
                f"{who}(): Found an invalid max index: {wrong} (output volumes are of size {sizes})"
            )
        flat = input.new_zeros((*lead, volume))
        result = flat.scatter(-1, indices.flatten(-n), input.flatten(-n))
        return result.reshape(*lead, *sizes)

    function.__name__ = function.__qualname__ = who
    ones, window = "1, " * n, f"({', '.join(['1'] * (n - 1) + ['2'])})" if n > 1 else "2"
    function.__doc__ = (
        f"The values of `max_pool{n}d` at the places it gave as `indices`, zeros elsewhere.\n\n"
        "Shape:\n    input, indices: (N, C, *) or (C, *); result: the same with (L - 1) · stride - 2 padding + kernel_size for each L, or "
        "with `output_size`\n\n"
        "Raises:\n    RuntimeError: a place lies outside\n    ValueError: `output_size` does not fit the windows"
        + of_call(
            f"nn.functional.{who}(flambeau.tensor([5.0]).reshape({ones}1), flambeau.tensor([1]).reshape({ones}1), {window})",
            f"tensor({'[' * (n + 1)}0., 5.{']' * (n + 1)})",
        )
    )
    library(
        "composite",
        f"nn.functional.{who}",
        autocast=("float32", "fallthrough"),
        batching=f"images {n}d",
        dtypes=FLOATING,
    )(function)


for _n in (1, 2, 3):
    _unpool(_n)
