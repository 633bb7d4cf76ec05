"""Convolutions and pooling over windows: a strided view of all windows of an image, then a product or a reduction.

The windows overlap in memory, so nothing is copied for pooling; a convolution copies them once into the columns of a
matrix (im2col; Chellapilla et al. 2006) and multiplies.  Derivatives come from those of the view, the copy and the product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..core.tensor import TensorBase
from .padding import pad
from .registry import register


def spread(name: str, argument: str, value, n: int) -> tuple[int, ...]:
    """One number for each of n dimensions."""
    if isinstance(value, int):
        return (value,) * n
    found = tuple(int(v) for v in value)
    if len(found) == 1:
        return found * n
    if len(found) != n:
        raise RuntimeError(f"{name}(): {argument} should be a single int or a tuple of {n} ints, got {value}")
    return found


def windows(
    x: TensorBase, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> TensorBase:
    """A view (N, C, *out, *kernel) of all windows of x (N, C, *sizes)."""
    n = len(kernel)
    sizes, strides = list(x.shape[:2]), list(x.stride()[:2])
    for d in range(n):
        sizes.append((x.shape[2 + d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1)
        strides.append(x.stride(2 + d) * stride[d])
    for d in range(n):
        sizes.append(kernel[d])
        strides.append(x.stride(2 + d) * dilation[d])
    return x.as_strided(sizes, strides, x.storage_offset())


def _batched(name: str, x: TensorBase, n: int) -> tuple[TensorBase, bool]:
    if x.ndim == n + 1:
        return x.unsqueeze(0), False
    if x.ndim != n + 2:
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D (unbatched) or {n + 2}D (batched) input, but got input of size: {list(x.shape)}"
        )
    return x, True


def _positive(name: str, argument: str, values: Sequence[int], least: int = 1) -> None:
    if any(v < least for v in values):
        raise RuntimeError(f"{name}(): {argument} must be at least {least}, got {tuple(values)}")


# --- convolution ------------------------------
def _convolve(name: str, n: int, x, weight, bias, stride, padding, dilation, groups: int) -> TensorBase:
    if weight.ndim != n + 2:
        raise RuntimeError(
            f"{name}(): expected a {n + 2}-dimensional weight, got weight of size {list(weight.shape)}"
        )
    if x.dtype != weight.dtype:
        raise RuntimeError(
            f"{name}(): Input type ({x.dtype}) and weight type ({weight.dtype}) should be the same"
        )
    x, batched = _batched(name, x, n)
    stride, dilation = spread(name, "stride", stride, n), spread(name, "dilation", dilation, n)
    _positive(name, "stride", stride)
    _positive(name, "dilation", dilation)
    out_channels, kernel = weight.shape[0], tuple(weight.shape[2:])
    if groups < 1 or out_channels % groups:
        raise RuntimeError(f"{name}(): {out_channels} output channels cannot be divided into {groups} groups")
    if x.shape[1] != weight.shape[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(x.shape)} to have "
            f"{weight.shape[1] * groups} channels, but got {x.shape[1]} channels instead"
        )
    if bias is not None and tuple(bias.shape) != (out_channels,):
        raise RuntimeError(
            f"Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with {out_channels} elements, but got "
            f"bias of size {list(bias.shape)} instead"
        )
    x = _padded(name, x, kernel, stride, padding, dilation)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    if any(s < r for s, r in zip(x.shape[2:], reach)):
        raise RuntimeError(
            f"{name}(): Calculated padded input size per channel: ({' x '.join(map(str, x.shape[2:]))}). Kernel size: "
            f"({' x '.join(map(str, kernel))}). Kernel size can't be greater than actual input size"
        )
    batch = x.shape[0]
    pointlike = all(k == 1 for k in kernel) and all(s == 1 for s in stride)
    seen = windows(x.contiguous(), kernel, stride, dilation)
    out = tuple(seen.shape[2 : 2 + n])
    depth, places = weight.shape[1] * math.prod(kernel), math.prod(out)
    if pointlike:
        columns = x.reshape(batch, groups, depth, places)
    else:  # (N, C, *kernel, *out), copied into a matrix for each image and group
        order = [0, 1, *range(2 + n, 2 + 2 * n), *range(2, 2 + n)]
        columns = seen.permute(order).reshape(batch, groups, depth, places)
    filters = weight.reshape(1, groups, out_channels // groups, depth)
    if groups == 1:
        found = filters.reshape(out_channels, depth) @ columns.reshape(batch, depth, places)
    else:
        found = filters.expand(batch, groups, out_channels // groups, depth) @ columns
    found = found.reshape(batch, out_channels, *out)
    if bias is not None:
        found = found + bias.reshape([-1 if d == 1 else 1 for d in range(n + 2)])
    return found if batched else found.squeeze(0)


def _padded(name: str, x, kernel, stride, padding, dilation) -> TensorBase:
    n = len(kernel)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"{name}(): padding must be 'valid', 'same' or ints, got {padding!r}")
        if padding == "valid":
            return x
        if any(s != 1 for s in stride):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        amounts = []
        for k, d in reversed(list(zip(kernel, dilation))):
            total = d * (k - 1)
            amounts += [total // 2, total - total // 2]
    else:
        padding = spread(name, "padding", padding, n)
        _positive(name, "padding", padding, 0)
        amounts = [p for q in reversed(padding) for p in (q, q)]
    return pad(x, amounts) if any(amounts) else x


def _transposed(
    name: str, n: int, x, weight, bias, stride, padding, output_padding, groups: int, dilation
) -> TensorBase:
    """The adjoint of a convolution: the input spread with gaps, convolved with the turned kernel (Dumoulin and Visin 2016)."""
    if weight.ndim != n + 2:
        raise RuntimeError(
            f"{name}(): expected a {n + 2}-dimensional weight, got weight of size {list(weight.shape)}"
        )
    x, batched = _batched(name, x, n)
    stride, dilation = spread(name, "stride", stride, n), spread(name, "dilation", dilation, n)
    padding, extra = spread(name, "padding", padding, n), spread(name, "output_padding", output_padding, n)
    _positive(name, "stride", stride)
    if x.shape[1] != weight.shape[0] or weight.shape[0] % groups:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight.shape)}, expected input{list(x.shape)} to have {weight.shape[0]} "
            f"channels, but got {x.shape[1]} channels instead"
        )
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation)):
        raise RuntimeError(
            f"{name}(): output padding must be smaller than either stride or dilation, but got output_padding {extra}, stride "
            f"{stride}, dilation {dilation}"
        )
    for d in range(n):
        if stride[d] > 1:  # gaps of zeros between neighbours
            axis = 2 + d
            gap = [0, 0] * (n - 1 - d) + [0, stride[d] - 1]
            x = pad(x.unsqueeze(axis + 1), gap).flatten(axis, axis + 1)
            x = x.narrow(axis, 0, x.shape[axis] - (stride[d] - 1))
    kernel = tuple(weight.shape[2:])
    amounts = []
    for d in reversed(range(n)):
        reach = dilation[d] * (kernel[d] - 1) - padding[d]
        amounts += [reach, reach + extra[d]]
    x = pad(x, amounts)
    grouped = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], *kernel).transpose(1, 2)
    turned = grouped.reshape(groups * weight.shape[1], weight.shape[0] // groups, *kernel).flip(
        list(range(2, 2 + n))
    )
    found = _convolve(name, n, x, turned, bias, 1, 0, dilation, groups)
    return found if batched else found.squeeze(0)


def _declare_convolutions(n: int) -> None:
    def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return _convolve(f"conv{n}d", n, input, weight, bias, stride, padding, dilation, groups)

    def transposed(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        name = f"conv_transpose{n}d"
        return _transposed(name, n, input, weight, bias, stride, padding, output_padding, groups, dilation)

    for name, function, what in (
        (f"conv{n}d", conv, "Cross-correlation of an input (N, C, *) with a weight (O, C / groups, *)"),
        (f"conv_transpose{n}d", transposed, "The adjoint of a convolution, for a weight (C, O / groups, *)"),
    ):
        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"{what}, with stride, padding, dilation and groups."
        register(name, "composite", function, places=(name, f"nn.functional.{name}"))


for _n in (1, 2, 3):
    _declare_convolutions(_n)
