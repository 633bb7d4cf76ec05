"""Batch normalisation over the batches of several processes."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ..autograd import no_grad
from ..core.base.callbacks import set_callback
from ..core.base.dtypes import by_name
from ..core.make.create import zeros
from ._collectives import all_reduce
from ._groups import is_initialized, resolve
from .nn.functional import all_reduce as summed

_HALVES = (by_name["float16"], by_name["bfloat16"])


def processes(group: Any) -> int:
    """How many processes share statistics: those of a group, by default of all; 1 without groups."""
    if not is_initialized():
        if group is not None:
            raise ValueError("SyncBatchNorm: a process_group needs init_process_group() first")
        return 1
    result = resolve(group)
    return 1 if result is None else result._size


def normalized(layer: Any, input: Tensor) -> Tensor:
    """A `SyncBatchNorm` on (N, C, ...) in training: with the mean and variance of all processes' inputs, which its buffers follow.

    Inputs may have different sizes, also none, on the processes.
    """
    group = resolve(layer.process_group)
    x = input.to(by_name["float32"]) if input.dtype in _HALVES else input
    dims = [0, *range(2, x.dim())]
    shape = [1, -1] + [1] * (x.dim() - 2)
    count = zeros(1, dtype=by_name["float64"]).fill_(x.numel() / x.size(1))
    all_reduce(count, group=group)
    n = count.item()
    if n <= 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(input.shape)}"
        )
    mean = summed(x.sum(dims), group=group) / n
    centered = x - mean.view(shape)
    variance = summed((centered * centered).sum(dims), group=group) / n
    result = centered * (variance + layer.eps).rsqrt().view(shape)
    if layer.weight is not None:
        result = result * layer.weight.view(shape)
    if layer.bias is not None:
        result = result + layer.bias.view(shape)
    if layer.running_mean is not None:
        with no_grad():
            layer.num_batches_tracked.add_(1)
            share = 1.0 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
            layer.running_mean.lerp_(mean.to(layer.running_mean.dtype), share)
            layer.running_var.lerp_((variance * (n / (n - 1))).to(layer.running_var.dtype), share)
    return result.to(input.dtype)


set_callback("processes of a layer", processes)
set_callback("normalised over processes", normalized)
