"""Convolutions and pooling over windows: a strided view of all windows of an image, then a product or a reduction.

The windows overlap in memory, so nothing is copied for pooling; a convolution copies them once into the columns of a
matrix (im2col; Chellapilla et al. 2006) and multiplies.  Derivatives come from those of the view, the copy and the product.
"""

from __future__ import annotations

import itertools
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


# --- pooling ------------------------------
def _pooling_windows(name: str, n: int, x, kernel, stride, padding, dilation, ceil_mode: bool, value: float):
    """All windows of the padded input, flattened: (N, C, *out, window); what ceil_mode adds is padded too."""
    kernel = spread(name, "kernel_size", kernel, n)
    stride = kernel if stride is None or stride == () or stride == [] else spread(name, "stride", stride, n)
    padding, dilation = spread(name, "padding", padding, n), spread(name, "dilation", dilation, n)
    _positive(name, "kernel_size", kernel)
    _positive(name, "stride", stride)
    _positive(name, "dilation", dilation)
    if any(p < 0 or 2 * p > k for p, k in zip(padding, kernel)):
        raise RuntimeError(
            f"{name}(): pad should be at most half of effective kernel size, but got pad={padding[0]}, kernel_size={kernel[0]}"
        )
    amounts = []
    for d in range(n):
        size, reach = x.shape[2 + d] + 2 * padding[d], dilation[d] * (kernel[d] - 1) + 1
        out = -(-(size - reach) // stride[d]) + 1 if ceil_mode else (size - reach) // stride[d] + 1
        if ceil_mode and (out - 1) * stride[d] >= x.shape[2 + d] + padding[d]:
            out -= 1  # the last window must start inside the input or its left padding
        if out < 1:
            raise RuntimeError(
                f"{name}(): Given input size: {tuple(x.shape[1:])}. Calculated output size is too small"
            )
        amounts.append((padding[d], padding[d] + max(0, (out - 1) * stride[d] + reach - size)))
    flat = [a for pair in reversed(amounts) for a in pair]
    padded = pad(x, flat, value=value) if any(flat) else x.contiguous()
    seen = windows(padded, kernel, stride, dilation)
    if ceil_mode:
        for d in range(n):
            size, reach = x.shape[2 + d] + sum(amounts[d]), dilation[d] * (kernel[d] - 1) + 1
            seen = seen.narrow(2 + d, 0, min(seen.shape[2 + d], (size - reach) // stride[d] + 1))
    return seen, kernel, stride, padding, dilation


def _max_pool(n: int, x, kernel, stride, padding, dilation, ceil_mode: bool, indices: bool):
    name = f"max_pool{n}d"
    x, batched = _batched(name, x, n)
    seen, kernel, stride, padding, dilation = _pooling_windows(
        name,
        n,
        x,
        kernel,
        stride,
        padding,
        dilation,
        ceil_mode,
        float("-inf") if x.is_floating_point() else -(1 << 62),
    )
    found = seen.flatten(2 + n).max(-1)
    values, which = found.values, found.indices
    if not indices:
        return values if batched else values.squeeze(0)
    place, rest = which * 0, which
    step = 1
    for d in reversed(range(n)):  # from the place in the window to the place in the input
        at, rest = rest % kernel[d], rest // kernel[d]
        line = values.new_tensor(list(range(values.shape[2 + d]))).to(which.dtype)
        start = (line * stride[d] - padding[d]).reshape([-1 if k == 2 + d else 1 for k in range(n + 2)])
        place = place + (start + at * dilation[d]) * step
        step *= x.shape[2 + d]
    return (values, place) if batched else (values.squeeze(0), place.squeeze(0))


def _avg_pool(n: int, x, kernel, stride, padding, ceil_mode: bool, include: bool, divisor: int | None):
    name = f"avg_pool{n}d"
    if divisor == 0:
        raise RuntimeError(f"{name}(): divisor must be not zero")
    x, batched = _batched(name, x, n)
    seen, kernel, stride, padding, _ = _pooling_windows(
        name, n, x, kernel, stride, padding, 1, ceil_mode, 0.0
    )
    total = seen.flatten(2 + n).sum(-1)
    if divisor is not None:
        found = total / divisor
    elif (include and not ceil_mode) or not (any(padding) or ceil_mode):
        found = total / math.prod(kernel)
    else:
        counts = total.new_ones([1, 1] + [1] * n)
        for d in range(n):
            size = x.shape[2 + d]
            spans = []
            for k in range(total.shape[2 + d]):
                start = k * stride[d] - padding[d]
                end = min(start + kernel[d], size + padding[d])
                spans.append(float(end - start if include else min(end, size) - max(start, 0)))
            counts = counts * total.new_tensor(spans).reshape([-1 if k == 2 + d else 1 for k in range(n + 2)])
        found = total / counts
    return found if batched else found.squeeze(0)


def _declare_pools(n: int) -> None:
    def max_pool(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
    ):
        return _max_pool(n, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    def max_pool_with_indices(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True
    ):
        return _max_pool(n, input, kernel_size, stride, padding, dilation, ceil_mode, True)

    def avg_pool(
        input,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        return _avg_pool(
            n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )

    for name, function, what in (
        (f"max_pool{n}d", max_pool, "The largest element of each window"),
        (
            f"max_pool{n}d_with_indices",
            max_pool_with_indices,
            "The largest element of each window and its flat place",
        ),
        (f"avg_pool{n}d", avg_pool, "The mean of each window"),
    ):
        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"{what} of an input (N, C, *) or (C, *)."
        register(name, "composite", function, places=(f"nn.functional.{name}",))


for _n in (1, 2, 3):
    _declare_pools(_n)


def _adaptive(name: str, n: int, input, output_size, reduce):
    """Windows that cut each dimension into as equal parts as possible; `reduce(part, dim)` makes one element of each."""
    x, batched = _batched(name, input, n)
    given = (output_size,) * n if isinstance(output_size, int) or output_size is None else tuple(output_size)
    wanted = [x.shape[2 + d] if s is None else s for d, s in enumerate(given)]
    if len(wanted) != n or any(s < 0 for s in wanted):
        raise RuntimeError(f"{name}(): output_size must be {n} non-negative ints, got {output_size}")
    return x, batched, wanted


def _adaptive_places(x: TensorBase, cuts: list[list[tuple[int, int]]]) -> tuple[TensorBase, TensorBase]:
    """The largest element of each window and its flat place in the input: (N, C, windows)."""
    from .joining import stack

    values, places = [], []
    for window in itertools.product(*cuts):
        part = x
        for d, (start, end) in enumerate(window):
            part = part.narrow(2 + d, start, end - start)
        best = part.flatten(2).max(-1)
        place, rest, step = best.indices * 0, best.indices, 1
        for d in reversed(range(len(cuts))):
            size = window[d][1] - window[d][0]
            place = place + (rest % size + window[d][0]) * step
            rest, step = rest // size, step * x.shape[2 + d]
        values.append(best.values)
        places.append(place)
    return stack(values, -1), stack(places, -1)


def _declare_adaptive(n: int) -> None:
    from .joining import stack

    def cut(size: int, parts: int) -> list[tuple[int, int]]:
        return [(k * size // parts, -(-(k + 1) * size // parts)) for k in range(parts)]

    def average(input, output_size):
        x, batched, wanted = _adaptive(f"adaptive_avg_pool{n}d", n, input, output_size, None)
        for d, parts in enumerate(wanted):  # means of means of windows that span whole rows are means
            axis, size = 2 + d, x.shape[2 + d]
            if parts and size % parts == 0:
                x = x.unflatten(axis, (parts, size // parts)).mean(axis + 1)
            else:
                x = stack([x.narrow(axis, a, b - a).mean(axis) for a, b in cut(size, parts)], axis)
        return x if batched else x.squeeze(0)

    def largest(input, output_size, return_indices=False):
        x, batched, wanted = _adaptive(f"adaptive_max_pool{n}d", n, input, output_size, None)
        if return_indices:
            values, places = _adaptive_places(
                x, [cut(x.shape[2 + d], parts) for d, parts in enumerate(wanted)]
            )
            shape = [*x.shape[:2], *wanted]
            values, places = values.reshape(shape), places.reshape(shape)
            return (values, places) if batched else (values.squeeze(0), places.squeeze(0))
        for d, parts in enumerate(wanted):
            axis, size = 2 + d, x.shape[2 + d]
            x = stack([x.narrow(axis, a, b - a).max(axis).values for a, b in cut(size, parts)], axis)
        return x if batched else x.squeeze(0)

    for name, function, what in (
        (f"adaptive_avg_pool{n}d", average, "Means over windows that give an output of size `output_size`."),
        (
            f"adaptive_max_pool{n}d",
            largest,
            "Largest elements of windows that give an output of size `output_size`.",
        ),
    ):
        function.__name__ = function.__qualname__ = name
        function.__doc__ = what
        register(name, "composite", function, places=(f"nn.functional.{name}",))


for _n in (1, 2, 3):
    _declare_adaptive(_n)
