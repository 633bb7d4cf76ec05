"""Convolutions and pooling: windows that move over the dimensions behind the first two."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from .declare import Ints, fl, ints, nn, operator

_CONVOLUTIONS = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}
_TRANSPOSED = {1: nn.conv_transpose1d, 2: nn.conv_transpose2d, 3: nn.conv_transpose3d}
_LARGEST = {1: nn.max_pool1d, 2: nn.max_pool2d, 3: nn.max_pool3d}
_LARGEST_PLACES = {
    1: nn.max_pool1d_with_indices,
    2: nn.max_pool2d_with_indices,
    3: nn.max_pool3d_with_indices,
}
_MEANS = {1: nn.avg_pool1d, 2: nn.avg_pool2d, 3: nn.avg_pool3d}


class Way:
    """How windows move: sizes, steps, gaps, and the padding before and behind each dimension, some of it from rounding up."""

    def __init__(
        self,
        sizes: Sequence[int],
        kernel: Sequence[int],
        strides: Sequence[int] | None,
        dilations: Sequence[int] | None,
        pads: Sequence[int] | None,
        auto_pad: str,
        ceil_mode: int = 0,
    ) -> None:
        rank = len(sizes)
        self.kernel = list(kernel)
        self.strides = [1] * rank if strides is None else list(strides)
        self.dilations = [1] * rank if dilations is None else list(dilations)
        if not len(self.kernel) == len(self.strides) == len(self.dilations) == rank:
            raise ValueError(
                f"kernel_shape, strides and dilations need {rank} numbers, got {kernel}, {strides}, {dilations}"
            )
        reach = [d * (k - 1) + 1 for d, k in zip(self.dilations, self.kernel)]
        numbers = [0] * (2 * rank) if pads is None else list(pads)
        self.before, self.behind = numbers[:rank], numbers[rank:]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            for d in range(rank):
                windows = -(-sizes[d] // self.strides[d])
                total = max((windows - 1) * self.strides[d] + reach[d] - sizes[d], 0)
                less, more = total // 2, total - total // 2
                upper = auto_pad == "SAME_UPPER"
                self.before[d], self.behind[d] = (less, more) if upper else (more, less)
        elif auto_pad == "VALID":
            self.before, self.behind = [0] * rank, [0] * rank
        elif auto_pad != "NOTSET":
            raise ValueError(f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got '{auto_pad}'")
        self.further = [0] * rank  # what windows reach beyond the padding
        if ceil_mode and auto_pad == "NOTSET":
            for d in range(rank):
                span = sizes[d] + self.before[d] + self.behind[d] - reach[d]
                count = -(-span // self.strides[d]) + 1
                if (count - 1) * self.strides[d] >= sizes[d] + self.before[
                    d
                ]:  # would begin in the padding behind
                    count -= 1
                self.further[d] = max((count - 1) * self.strides[d] - span, 0)

    def padded(self, x: Tensor, value: float) -> Tensor:
        """The data with all of its padding, which has that value."""
        ends = [b + f for b, f in zip(self.behind, self.further)]
        return padded(x, self.before, ends, value)

    def windows(self, x: Tensor) -> Tensor:
        """A view of padded data: the windows' dimensions behind its own."""
        rank = len(self.kernel)
        for d in range(rank):
            reach = self.dilations[d] * (self.kernel[d] - 1) + 1
            x = x.unfold(2 + d, reach, self.strides[d])[..., :: self.dilations[d]]
        return x

    @property
    def is_even(self) -> bool:
        """Whether the padding is the same before and behind."""
        return self.before == self.behind and not any(self.further)


def padded(x: Tensor, before: Sequence[int], behind: Sequence[int], value: float) -> Tensor:
    """The data with that many elements more along the dimensions behind the first two."""
    if not any(before) and not any(behind):
        return x
    pairs = [n for a, b in zip(reversed(before), reversed(behind)) for n in (a, b)]
    return nn.pad(x, pairs, value=value)


# --- convolutions ------------------------------
def convolved(x: Tensor, w: Tensor, bias: Tensor | None, way: Way, group: int) -> Tensor:
    """A convolution of any number of dimensions up to 3."""
    rank = len(way.kernel)
    if way.is_even:
        return _CONVOLUTIONS[rank](x, w, bias, way.strides, way.before, way.dilations, group)
    return _CONVOLUTIONS[rank](way.padded(x, 0), w, bias, way.strides, [0] * rank, way.dilations, group)


@operator("Conv")
def conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    way = Way(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    return convolved(x, w, b, way, group)


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Computed whole, then cut where the padding is: pads may differ, and be less than what is added behind."""
    rank = x.ndim - 2
    steps = [1] * rank if strides is None else strides
    gaps = [1] * rank if dilations is None else dilations
    more = [0] * rank if output_padding is None else output_padding
    full_sizes = [s * (n - 1) + d * (k - 1) + 1 for s, n, d, k in zip(steps, x.shape[2:], gaps, w.shape[2:])]
    numbers = [0] * (2 * rank) if pads is None else list(pads)
    before, behind = numbers[:rank], numbers[rank:]
    wanted = output_shape
    if wanted is None and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(x.shape[2:], steps)]
    if wanted is not None:
        totals = [n + m - o for n, m, o in zip(full_sizes, more, wanted[-rank:])]
        halves = [t // 2 for t in totals]
        others = [t - h for t, h in zip(totals, halves)]
        before, behind = (halves, others) if auto_pad == "SAME_UPPER" else (others, halves)
    if (
        before == behind
        and all(0 <= m < max(s, d) for m, s, d in zip(more, steps, gaps))
        and min(before) >= 0
    ):
        return _TRANSPOSED[rank](x, w, b, steps, before, more, group, gaps)
    result = _TRANSPOSED[rank](x, w, None, steps, [0] * rank, [0] * rank, group, gaps)
    result = padded(result, [-n for n in before], [m - n for m, n in zip(more, behind)], 0)
    return result if b is None else result + b.reshape([-1, *[1] * rank])


@operator("DeformConv")
def deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    offset_group: int = 1,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """A convolution of two dimensions whose windows have an offset at each place, read between elements (Dai et al. 2017)."""
    way = Way(x.shape[2:], w.shape[2:], strides, dilations, pads, "NOTSET")
    (n, c, h, width), (kh, kw) = x.shape, way.kernel
    oh, ow = offset.shape[2:]
    moved = offset.reshape([n, offset_group, kh * kw, 2, oh, ow])
    rows = fl.arange(oh) * way.strides[0] - way.before[0]
    columns = fl.arange(ow) * way.strides[1] - way.before[1]
    inner_rows = (fl.arange(kh) * way.dilations[0]).repeat_interleave(kw)
    inner_columns = (fl.arange(kw) * way.dilations[1]).repeat(kh)
    ys = moved[:, :, :, 0] + (inner_rows[:, None, None] + rows[:, None]).to(x.dtype)
    xs = moved[:, :, :, 1] + (inner_columns[:, None, None] + columns).to(x.dtype)
    grid = fl.stack([2 * xs / max(width - 1, 1) - 1, 2 * ys / max(h - 1, 1) - 1], -1)
    parts = x.reshape([n * offset_group, c // offset_group, h, width])
    places = grid.reshape([n * offset_group, kh * kw, oh * ow, 2])
    read = nn.grid_sample(parts, places, mode="bilinear", padding_mode="zeros", align_corners=True)
    columns_of = read.reshape([n, offset_group, c // offset_group, kh * kw, oh, ow])
    if mask is not None:
        columns_of = columns_of * mask.reshape([n, offset_group, 1, kh * kw, oh, ow])
    grouped = columns_of.reshape([n, group, c // group * kh * kw, oh * ow])
    weights = w.reshape([1, group, w.shape[0] // group, c // group * kh * kw])
    result = fl.matmul(weights, grouped).reshape([n, w.shape[0], oh, ow])
    return result if b is None else result + b.reshape([-1, 1, 1])


@operator("Col2Im", since=18)
def col2im(
    input: Tensor,
    image_shape: Ints,
    block_shape: Ints,
    *,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Blocks added up where they lie: what a convolution's windows are taken from."""
    sizes, kernel = ints(image_shape), ints(block_shape)
    way = Way(sizes, kernel, strides, dilations, pads, "NOTSET")
    padded_sizes = [n + a + b for n, a, b in zip(sizes, way.before, way.behind)]
    count = math.prod(padded_sizes)
    places = way.windows(fl.arange(count).reshape([1, 1, *padded_sizes]))
    rank = len(sizes)
    order = [*range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank)]
    at = places.permute([0, 1, *order]).reshape([-1])
    n, channels = input.shape[0], input.shape[1] // math.prod(kernel)
    flat = input.reshape([n, channels, at.numel()])
    added = fl.zeros([n, channels, count], dtype=input.dtype).index_add(2, at, flat)
    result = added.reshape([n, channels, *padded_sizes])
    return padded(result, [-a for a in way.before], [-b for b in way.behind], 0)


# --- pooling ------------------------------
@operator("MaxPool")
def max_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    storage_order: int = 0,
    strides: list[int] | None = None,
    outputs: int = 1,
) -> tuple[Tensor, ...]:
    """The largest of each window, and its place among all elements of x."""
    way = Way(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if not x.is_floating_point():
        result, *places = max_pool(
            x.to(by_name["float64"]),
            auto_pad=auto_pad,
            ceil_mode=ceil_mode,
            dilations=dilations,
            kernel_shape=kernel_shape,
            pads=pads,
            storage_order=storage_order,
            strides=strides,
            outputs=outputs,
        )
        return (result.to(x.dtype), *places)
    rank = len(way.kernel)
    padded = way.padded(x, -math.inf)
    if outputs == 1:
        return (_LARGEST[rank](padded, way.kernel, way.strides, [0] * rank, way.dilations),)
    values, at = _LARGEST_PLACES[rank](padded, way.kernel, way.strides, [0] * rank, way.dilations)
    coordinates = []
    for d in reversed(range(rank)):
        size = padded.shape[2 + d]
        coordinates.append(at % size - way.before[d])
        at = at // size
    sizes, order = list(x.shape[2:]), list(range(rank))
    if storage_order:
        order.reverse()
    place = fl.zeros_like(at)
    for d in order:
        place = place * sizes[d] + coordinates[rank - 1 - d]
    n, c = x.shape[:2]
    begin = fl.arange(n * c).reshape([n, c, *[1] * rank]) * math.prod(sizes)
    return values, place + begin


@operator("AveragePool")
def average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    way = Way(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    rank = len(way.kernel)
    if rank <= 3 and way.is_even and set(way.dilations) == {1}:
        if all(2 * p <= k for p, k in zip(way.before, way.kernel)):
            return _MEANS[rank](x, way.kernel, way.strides, way.before, False, bool(count_include_pad))
    dims = list(range(-rank, 0))
    sums = fl.sum(way.windows(way.padded(x, 0)), dims)
    ones = fl.ones([1, 1, *x.shape[2:]], dtype=x.dtype)
    if count_include_pad:
        ones = padded(ones, way.before, way.behind, 1)
        return sums / fl.sum(way.windows(padded(ones, [0] * rank, way.further, 0)), dims)
    return sums / fl.sum(way.windows(way.padded(ones, 0)), dims)


@operator("LpPool")
def lp_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    p: int = 2,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """(Σ |x|ᵖ) ^ (1 / p) of each window."""
    way = Way(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    powers = fl.pow(fl.abs(way.windows(way.padded(x, 0))), p)
    return fl.pow(fl.sum(powers, list(range(-len(way.kernel), 0))), 1 / p)


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return fl.mean(x, list(range(2, x.ndim)), True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return fl.amax(x, list(range(2, x.ndim)), True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    return fl.pow(fl.sum(fl.pow(fl.abs(x), p), list(range(2, x.ndim)), True), 1 / p)


@operator("MaxUnpool")
def max_unpool(
    x: Tensor,
    i: Tensor,
    output_shape: Ints | None = None,
    *,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Elements put where they were the largest, zeros elsewhere."""
    rank = len(kernel_shape)
    steps = [1] * rank if strides is None else strides
    numbers = [0] * (2 * rank) if pads is None else pads
    sizes = [
        (n - 1) * s - numbers[d] - numbers[rank + d] + k
        for d, (n, s, k) in enumerate(zip(x.shape[2:], steps, kernel_shape))
    ]
    made = [*x.shape[:2], *sizes]
    wanted = made if output_shape is None else ints(output_shape)
    result = fl.zeros([math.prod(made)], dtype=x.dtype)
    result = fl.scatter(result, 0, i.reshape([-1]), x.reshape([-1])).reshape(made)
    for d in range(2, len(made)):
        if wanted[d] > made[d]:
            more = [0, 0] * (len(made) - 1 - d) + [0, wanted[d] - made[d]]
            result = nn.pad(result, more)
    return result
