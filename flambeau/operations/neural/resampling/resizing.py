"""Resizing images and sampling them at given places."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.call.leaf import LeafOp
from ....core.make.create import arange, ones, ones_like
from ...declare import checks, taps
from ...declare.dtype_groups import ALL, FLOATING
from ...declare.examples import of_call
from ...declare.half_types import in_float32
from ...declare.registry import REGISTRY, leaf, library
from ...declare.results import copied
from ...declare.vjp import gradients
from ...moving.joining import stack
from . import sampling

_RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}
_SMOOTH = checks.FLOATS | {"uint8"}
_MODES = ("nearest", "nearest-exact", "area", *_RANKS)


# --- interpolation, one dimension at a time ------------------------------
def _cubic(x: TensorBase, a: float) -> TensorBase:
    """The cubic convolution kernel (Keys 1981)."""
    from ...pointwise.arithmetic import where

    x = x.abs()
    inner = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    outer = ((x - 5.0) * x + 8.0) * x * a - 4.0 * a
    return where(x <= 1.0, inner, where(x < 2.0, outer, x * 0.0))


def _places(out: int, size: int, scale: float, aligned: bool, like: TensorBase) -> TensorBase:
    """Where the centre of each output element lies in the input (float64)."""
    at = arange(out, dtype=by_name["float64"], device=like.device)
    if aligned:
        return at * ((size - 1) / (out - 1) if out > 1 else 0.0)
    return (at + 0.5) * scale - 0.5


def _column(weights: TensorBase, dim: int, like: TensorBase) -> TensorBase:
    """Weights of one dimension, to broadcast over the others."""
    return weights.to(like.dtype).reshape([-1 if d == dim else 1 for d in range(like.ndim)])


def _nearest(x: TensorBase, dim: int, out: int, scale: float, exact: bool) -> TensorBase:
    # The places are rounded to float32 as everybody does, because the floor shows it.
    at = arange(out, dtype=by_name["float32"], device=x.device)
    index = ((at + (0.5 if exact else 0.0)) * scale).floor().to(by_name["int64"]).clamp(0, x.shape[dim] - 1)
    return x.index_select(dim, index)


def _linear(x: TensorBase, dim: int, out: int, scale: float, aligned: bool) -> TensorBase:
    last = x.shape[dim] - 1
    at = _places(out, last + 1, scale, aligned, x).clamp(0, last)
    first = at.floor()
    index, weight = first.to(by_name["int64"]), _column(at - first, dim, x)
    left, right = x.index_select(dim, index), x.index_select(dim, (index + 1).clamp(0, last))
    return left * (1.0 - weight) + right * weight


def _cubic_taps(size: int, out: int, scale: float, aligned: bool, like: TensorBase) -> list:
    """Of each of four neighbours: which element it is, and its weight (float64)."""
    at = _places(out, size, scale, aligned, like)
    first = at.floor()
    return [
        ((first + tap).clamp(0, size - 1).to(by_name["int64"]), _cubic(at - first - tap, -0.75))
        for tap in (-1, 0, 1, 2)
    ]


def _bicubic(x: TensorBase, dim: int, out: int, scale: float, aligned: bool) -> TensorBase:
    result: Any = None
    for index, weight in _cubic_taps(x.shape[dim], out, scale, aligned, x):
        term = x.index_select(dim, index) * _column(weight, dim, x)
        result = term if result is None else result + term
    return result


def _widened_weights(
    size: int, out: int, scale: float, aligned: bool, cubic: bool, like: TensorBase
) -> TensorBase:
    """(out, size) in float64: the kernel widened by `scale` when shrinking, its weights normalised."""
    from ...pointwise.arithmetic import where

    if aligned:
        scale = (size - 1) / (out - 1) if out > 1 else 0.0
    stretch = max(scale, 1.0)
    support = (2.0 if cubic else 1.0) * stretch
    centre = ((arange(out, dtype=by_name["float64"], device=like.device) + 0.5) * scale).unsqueeze(1)
    low, high = (
        (centre - support + 0.5).trunc().clamp(min=0),
        (centre + support + 0.5).trunc().clamp(max=size),
    )
    at = arange(size, dtype=by_name["float64"], device=like.device)
    offset = (at - centre + 0.5) / stretch
    weights = _cubic(offset, -0.5) if cubic else (1.0 - offset.abs()).clamp(min=0)
    weights = where((at >= low) & (at < high), weights, weights * 0.0)
    return weights / weights.sum(1, True)


def _antialiased(x: TensorBase, dim: int, out: int, scale: float, aligned: bool, cubic: bool) -> TensorBase:
    weights = _widened_weights(x.shape[dim], out, scale, aligned, cubic, x)
    return (x.transpose(dim, -1) @ weights.to(x.dtype).t()).transpose(dim, -1)


# --- images of bytes ------------------------------
def _fixed_point(weights: list) -> tuple[list, int]:
    """Weights as integers of 15 bits, and by how many bits they were shifted; as Pillow has them, and PyTorch."""
    most = max(float(w.max()) for w in weights)
    bits = 0
    while bits < 22 and int(0.5 + most * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    scaled = [w * float(1 << bits) for w in weights]
    return [(s.abs() + 0.5).floor() * s.sign() for s in scaled], bits


def _bytes(
    x: TensorBase, dim: int, out: int, scale: float, aligned: bool, cubic: bool, antialias: bool
) -> TensorBase:
    """One dimension of an image of bytes, rounded to bytes."""
    size, whole = x.shape[dim], by_name["int32"]
    if antialias:
        (weights,), bits = _fixed_point([_widened_weights(size, out, scale, aligned, cubic, x)])
        result = (x.transpose(dim, -1).to(whole) @ weights.to(whole).t()).transpose(dim, -1)
    else:
        if cubic:
            taps = _cubic_taps(size, out, scale, aligned, x)
        else:
            at = _places(out, size, scale, aligned, x).clamp(0, size - 1)
            first = at.floor()
            index = first.to(by_name["int64"])
            taps = [(index, 1.0 - (at - first)), ((index + 1).clamp(0, size - 1), at - first)]
        places, parts = [index for index, _ in taps], [weight for _, weight in taps]
        for k in range(1, len(taps)):  # neighbours beyond an edge are the edge, with one weight
            same = (places[k] == places[k - 1]).to(parts[k].dtype)
            parts[k], parts[k - 1] = parts[k] + same * parts[k - 1], parts[k - 1] * (1.0 - same)
        parts, bits = _fixed_point(parts)
        shape = [-1 if d == dim else 1 for d in range(x.ndim)]
        terms = [x.index_select(dim, p).to(whole) * w.to(whole).reshape(shape) for p, w in zip(places, parts)]
        result = sum(terms[1:], terms[0])
    return ((result + (1 << bits >> 1)) >> bits).clamp(0, 255).to(by_name["uint8"])


def _output_sizes(x: TensorBase, size, scale_factor, recompute: bool | None) -> tuple[list[int], list[float]]:
    """The size of each dimension after resizing, and how many input elements an output element covers."""
    given = list(x.shape[2:])
    rank = len(given)
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "interpolate(): only one of size or scale_factor should be defined"
            if size is not None
            else "interpolate(): either size or scale_factor should be defined"
        )
    if size is not None:
        if recompute:
            raise ValueError("interpolate(): recompute_scale_factor is not meaningful with an explicit size.")
        wanted = [int(s) for s in size] if isinstance(size, Sequence) else [int(size)] * rank
    else:
        factors = [float(f) for f in scale_factor] if isinstance(scale_factor, Sequence) else None
        factors = [float(scale_factor)] * rank if factors is None else factors
        if not all(map(math.isfinite, factors)):
            raise RuntimeError(f"interpolate(): scale_factor must be finite, got {scale_factor}")
        wanted = [math.floor(n * f) for n, f in zip(given, factors)]
        if len(factors) == rank and not recompute and min(wanted, default=1) > 0:
            return wanted, [1.0 / f for f in factors]
        size = factors
    if len(size if isinstance(size, Sequence) else wanted) != rank:
        raise ValueError(
            f"interpolate(): Input and output must have the same number of spatial dimensions, but got input with {given} "
            f"and output size (or scale_factor) of {list(size)}. Please provide input tensor in (N, C, d1, d2, ...,dK) format "
            "and output size in (o1, o2, ...,oK) format."
        )
    if min(wanted, default=1) <= 0:
        raise RuntimeError(
            f"interpolate(): Input and output sizes should be greater than 0, but got input {given} and output {wanted}"
        )
    return wanted, [n / w for n, w in zip(given, wanted)]


def _leaf(mode: str, rank: int) -> LeafOp:
    name = f"upsample_{mode.replace('-', '_')}{rank - 2}d"
    label = "".join(word.capitalize() for word in name[:-1].split("_"))
    return taps.leaf_of(f"{name}_tables", f"{label}DBackward0")


_LEAVES: dict[tuple[str, int], LeafOp] = {
    (mode, rank): _leaf(mode, rank)
    for mode in _MODES
    if mode != "area"
    for rank in (3, 4, 5)
    if _RANKS.get(mode, rank) == rank
}


def _tables(input: TensorBase, sizes, scales, mode: str, aligned: bool, antialias: bool) -> list | None:
    """The table of each dimension, None for one that stays as it is; None where a line is too long for tables."""
    result: list = []
    for size, out, scale in zip(input.shape[2:], sizes, scales):
        if mode in _RANKS and out == size and (aligned or scale == 1.0):
            result.append(None)
        elif not taps.fits(size, out, 1 + (4 * size // out if antialias else 3)):
            return None
        elif mode in ("nearest", "nearest-exact"):
            result.append(taps.nearest(size, out, scale, mode == "nearest-exact"))
        elif antialias:
            result.append(taps.widened(size, out, scale, aligned, mode == "bicubic"))
        else:
            rule = taps.cubic if mode == "bicubic" else taps.linear
            result.append(rule(size, out, scale, aligned))
    return result


def _resizing_cast(
    on_host: bool,
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    *_: Any,
    **__: Any,
) -> str:
    """The rule of autocast: the lists for accelerators have all modes but one, which is a pooling."""
    return "fallthrough" if on_host or mode == "area" else "float32"


@library("composite", "nn.functional.interpolate", autocast=_resizing_cast, batching="images")
def interpolate(
    input: TensorBase,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> TensorBase:
    """Resize (N, C, d1, …) to `size`, or by `scale_factor`.

    Along a dimension of n elements that gets m, element i is read at x = (i + 1/2) · n / m - 1/2 (with `align_corners` at
    i · (n - 1) / (m - 1)) between its neighbours; "nearest" is element ⌊i · n / m⌋, "nearest-exact" ⌊(i + 1/2) · n / m⌋, "area"
    the mean of ⌊i · n / m⌋ to ⌈(i + 1) · n / m⌉ - 1.  A `scale_factor` stands for m / n.

    Modes: "nearest", "nearest-exact" and "area" for 1 to 3 spatial dimensions, "linear" (1), "bilinear" and "bicubic" (2; with
    `antialias` if wanted), "trilinear" (3).  `align_corners` lays the centres of the corner elements upon each other.
    ValueError for a size that does not fit, NotImplementedError for an input that the mode does not take.

    >>> import flambeau
    >>> flambeau.nn.functional.interpolate(flambeau.tensor([[[1., 3.]]]), scale_factor=2, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    if mode not in _MODES:
        raise NotImplementedError(f"interpolate(): mode must be one of {_MODES}, got {mode!r}")
    if mode not in _RANKS and align_corners is not None:
        raise ValueError(
            "interpolate(): align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(
            "interpolate(): antialias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    sizes, scales = _output_sizes(input, size, scale_factor, recompute_scale_factor)
    if not 3 <= input.ndim <= 5 or (mode in _RANKS and input.ndim != _RANKS[mode]):
        raise NotImplementedError(
            f"interpolate(): Only 3D, 4D and 5D input supported (got {input.ndim}D) for the modes: {' | '.join(_MODES)} "
            f"(got {mode})"
        )
    if mode != "area" and input.numel() == 0 and 0 in input.shape[1:]:
        raise RuntimeError(
            f"interpolate(): expected input with channels and places, but got shape {list(input.shape)}"
        )
    if mode in _RANKS or mode == "area":
        checks.dtypes("interpolate", _SMOOTH, input=input)
    if mode == "area":
        return REGISTRY[f"adaptive_avg_pool{input.ndim - 2}d"].function(input, sizes)
    aligned = bool(align_corners)
    if mode not in _RANKS or input.dtype.name != "uint8":
        tables = _tables(input, sizes, scales, mode, aligned, antialias)
        result = None if tables is None else taps.taken(input, tables, _LEAVES[mode, input.ndim])
        if result is not None:
            return result
    return _by_dimensions(input, sizes, scales, mode, aligned, antialias)


@in_float32()
def _by_dimensions(input: TensorBase, sizes, scales, mode: str, aligned: bool, antialias: bool) -> TensorBase:
    """The same from operations on every dimension: for what tables do not take."""
    whole = input.dtype.name == "uint8" and mode in _RANKS
    result = input
    for d, (out, scale) in reversed(
        list(enumerate(zip(sizes, scales)))
    ):  # rows first: bytes are rounded in between
        dim = d + 2
        if mode in ("nearest", "nearest-exact"):
            result = _nearest(result, dim, out, scale, mode == "nearest-exact")
        elif out == input.shape[dim] and (aligned or scale == 1.0):
            continue
        elif whole:
            result = _bytes(result, dim, out, scale, aligned, mode == "bicubic", antialias)
        elif antialias:
            result = _antialiased(result, dim, out, scale, aligned, mode == "bicubic")
        else:
            step: Callable = _bicubic if mode == "bicubic" else _linear
            result = step(result, dim, out, scale, aligned)
    return result.clone() if result is input else result


@library("composite", "nn.functional.upsample", autocast="composite", batching="images")
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None) -> TensorBase:
    """`interpolate` under its old name: result[i] from input at i · n / size.

    Shape:
        input: (N, C, *); result: (N, C, *size)

    Raises:
        NotImplementedError: there are neither three, four nor five dimensions

    >>> import flambeau
    >>> flambeau.nn.functional.upsample(flambeau.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


@library(
    "composite", "nn.functional.upsample_nearest", autocast=("fallthrough", "float32"), batching="images"
)
def upsample_nearest(input, size=None, scale_factor=None) -> TensorBase:
    """`interpolate` to the nearest elements: result[i] = input[⌊i · n / size⌋].

    Shape:
        input: (N, C, *); result: (N, C, *size)

    Raises:
        NotImplementedError: there are neither three, four nor five dimensions

    >>> import flambeau
    >>> flambeau.nn.functional.upsample_nearest(flambeau.tensor([[[1.0, 2.0]]]), size=4)
    tensor([[[1., 1., 2., 2.]]])
    """
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, "nearest")


@library(
    "composite",
    "nn.functional.upsample_bilinear",
    autocast=("fallthrough", "float32"),
    batching="images",
    dtypes=FLOATING | {"uint8"},
)
def upsample_bilinear(input, size=None, scale_factor=None) -> TensorBase:
    """Bilinear `interpolate` with aligned corners: place i · (n - 1) / (size - 1) of n elements.

    Shape:
        input: (N, C, H, W); result: (N, C, *size)

    Raises:
        NotImplementedError: there are not four dimensions

    >>> import flambeau
    >>> flambeau.nn.functional.upsample_bilinear(flambeau.tensor([[[[0.0, 2.0]]]]), size=(1, 3))
    tensor([[[[0., 1., 2.]]]])
    """
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, "bilinear", True)


@library(
    "composite",
    *("nn.functional.channel_shuffle", "channel_shuffle"),
    *("nn.functional.native_channel_shuffle", "native_channel_shuffle"),
    batching="images",
)
def channel_shuffle(input: TensorBase, groups: int) -> TensorBase:
    """result[:, k · groups + g] = input[:, g · C / groups + k] (Zhang et al. 2018).
    The channels of `groups` groups of (N, C, *) are dealt out in turn.

    Shape:
        input: (N, C, *); the result has the same

    Raises:
        RuntimeError: the channels are no multiple of `groups`

    >>> import flambeau
    >>> flambeau.nn.functional.channel_shuffle(flambeau.arange(4).reshape(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    if input.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle(): expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"channel_shuffle(): Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    n, c, *rest = input.shape
    if c % groups:
        raise RuntimeError(
            f"channel_shuffle(): Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    return copied(input.reshape(n, groups, c // groups, *rest).transpose(1, 2), input.shape)


# --- sampling ------------------------------
@library("composite", "nn.functional.affine_grid", autocast=("lower", "fallthrough"), dtypes=FLOATING)
@in_float32()
def affine_grid(theta: TensorBase, size: Sequence[int], align_corners: bool | None = None) -> TensorBase:
    """theta · (x, y, 1) for all places of an image: what `grid_sample` takes.
    It is (N, H, W, 2) or (N, D, H, W, 3), for affine maps `theta`, (N, 2, 3) or (N, 3, 4) (Jaderberg et al.
    2015).

    Raises:
        ValueError: the shapes do not fit

    >>> import flambeau
    >>> theta = flambeau.tensor([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]])
    >>> flambeau.nn.functional.affine_grid(theta, [1, 1, 1, 2], align_corners=True)
    tensor([[[[-0.5000,  0.0000],
              [ 1.5000,  0.0000]]]])
    """
    n, _, *shape = size
    rank = len(shape)
    if rank not in (2, 3):
        raise NotImplementedError(
            f"affine_grid(): only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {tuple(size)}."
        )
    if not theta.is_floating_point():
        raise ValueError(f"affine_grid(): Expected theta to have floating point type, but got {theta.dtype}")
    if min(size) <= 0:
        raise ValueError(f"affine_grid(): Expected a size of positive numbers, got {tuple(size)}")
    if tuple(theta.shape) != (n, rank, rank + 1):
        raise (RuntimeError if tuple(theta.shape[1:]) == (rank, rank + 1) else ValueError)(
            f"affine_grid(): Expected theta as a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {tuple(size)}. Got "
            f"{tuple(theta.shape)}."
        )
    axes = []
    for d in reversed(range(rank)):  # x first
        s = shape[d]
        at = arange(s, dtype=by_name["float64"], device=theta.device)
        at = (at * (2.0 / (s - 1)) - 1.0 if s > 1 else at) if align_corners else (at * 2.0 + 1.0) / s - 1.0
        axes.append(at.reshape([-1 if k == d else 1 for k in range(rank)]).expand(shape))
    base = stack([*axes, ones(shape, dtype=by_name["float64"], device=theta.device)], -1).to(theta.dtype)
    return (base.reshape(1, -1, rank + 1) @ theta.transpose(1, 2)).reshape(n, *shape, rank)


def _reflected(x: TensorBase, low: float, high: float) -> TensorBase:
    """Places outside [low, high] mirrored at its ends, as often as needed."""
    span = high - low
    if span <= 0:
        return x * 0.0
    away = (x - low).abs().remainder(2.0 * span)
    return low + away.minimum(2.0 * span - away)


def _inside(x: TensorBase, size: int, padding: str, aligned: bool) -> TensorBase:
    """Places after the padding rule, 0 for NaN; those of "zeros" stay as they are."""
    if padding == "reflection":
        x = _reflected(x, 0.0, size - 1.0) if aligned else _reflected(x, -0.5, size - 0.5)
    return x if padding == "zeros" else x.masked_fill(x.isnan(), 0.0).clamp(0, size - 1)


def _taps(x: TensorBase, size: int, mode: str, padding: str, aligned: bool) -> list:
    """For one dimension: (whole place, weight) of every element that a sample reads."""
    if mode == "nearest":  # a grid that requires a gradient gets zeros
        weight = x.masked_fill(ones_like(x, dtype=by_name["bool"]), 1.0) if x.requires_grad else None
        return [(_inside(x, size, padding, aligned).round(), weight)]
    if mode == "bilinear":
        x = _inside(x, size, padding, aligned)
        first = x.detach().floor()
        return [(first, 1.0 - (x - first)), (first + 1.0, x - first)]
    first = x.detach().floor()
    return [
        (_inside(first + tap, size, padding, aligned), _cubic(x - first - tap, -0.75))
        for tap in (-1.0, 0.0, 1.0, 2.0)
    ]


@library(
    "composite", "nn.functional.grid_sample", autocast=("float32", "promote"), batching="images", dtypes=ALL
)
def grid_sample(
    input: TensorBase,
    grid: TensorBase,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> TensorBase:
    """Σ wₖ · input[k] over the elements around each place of the grid.
    The input is (N, C, H, W) or (N, C, D, H, W), the grid (N, …, 2) or (N, …, 3) with x first, in [-1, 1]
    (Jaderberg et al. 2015).

    Modes "bilinear", "nearest" and, in two dimensions, "bicubic"; outside the image by `padding_mode`: "zeros", "border" or
    "reflection", which take NaN for the first edge.
    With `align_corners` -1 and 1 are the centres of the corner elements, else their outer edges.  ValueError for
    an unknown mode, RuntimeError for shapes that do not fit.

    >>> import flambeau
    >>> image = flambeau.tensor([[[[1.0, 3.0]]]])
    >>> middle = flambeau.zeros(1, 1, 1, 2)
    >>> flambeau.nn.functional.grid_sample(image, middle, align_corners=True).item()
    2.0
    """
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'"
        )
    checks.same_dtype("grid_sample", input=input, grid=grid)
    rank = input.ndim - 2
    if rank not in (2, 3) or grid.ndim != input.ndim or (mode == "bicubic" and rank == 3):
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions (bicubic: 4D), but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[0] != input.shape[0] or grid.shape[-1] != rank:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have batch size {input.shape[0]} and size {rank} in last dimension, but got grid "
            f"with sizes {list(grid.shape)}"
        )
    n, c, *shape = input.shape
    if 0 in shape:
        raise RuntimeError(
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but got {list(input.shape)}"
        )
    aligned = bool(align_corners)
    flat, places = input.reshape(n, c, math.prod(shape)), list(grid.shape[1:-1])
    count = math.prod(places)
    if _by_rows(input, grid):
        at, weights = grid_taps(grid.reshape(n, count, rank), tuple(shape), mode, padding_mode, aligned)
        return sampling.sampled(input, at, weights).reshape(n, c, *places)
    terms = _terms(grid.reshape(n, count, rank), shape, mode, padding_mode, aligned)
    result = None
    for index, weight, outside in terms:
        value = flat.gather(2, index.unsqueeze(1).expand(n, c, -1)).masked_fill(outside.unsqueeze(1), 0.0)
        value = value if weight is None else value * weight.unsqueeze(1)
        result = value if result is None else result + value
    return result.reshape(n, c, *places)


def _terms(grid: TensorBase, shape: Sequence[int], mode: str, padding: str, aligned: bool) -> list:
    """For each tap of the points (batch, points, rank): its flat place, its weight (None for 1) and whether it lies outside."""
    axes = []
    for d, size in enumerate(shape):
        at = grid.select(-1, len(shape) - 1 - d)
        at = (at + 1.0) * ((size - 1) / 2.0) if aligned else ((at + 1.0) * size - 1.0) * 0.5
        axes.append(_taps(at, size, mode, padding, aligned))
    terms = []
    for chosen in product(*axes):
        index, weight, outside = 0, None, None
        for (place, share), size in zip(chosen, shape):
            place = place.detach()
            beyond = ~((place >= 0) & (place <= size - 1))
            outside = beyond if outside is None else outside | beyond
            index = index * size + place.masked_fill(beyond, 0.0).to(by_name["int64"])
            if share is not None:
                weight = share if weight is None else weight * share
        terms.append((index, weight, outside))
    return terms


@leaf("library", results=("at", "weights"), inputs=("grid",), label="GridSamplerBackward0", batching="sliced")
def grid_taps(grid: TensorBase, shape: tuple, mode: str, padding: str, aligned: bool) -> tuple:
    """The places and weights, (batch, taps, points), of the points `grid`, (batch, points, rank), in images of that shape."""
    return sampling.table(grid, shape, mode, padding, aligned)


@grid_taps.derivative
def _grid_taps_gradient(grad_weights, grid, shape, mode, padding, aligned):
    if mode == "nearest":  # places do not move with the grid: zeros, of which others are taken
        none = grad_weights.masked_fill(ones_like(grad_weights, dtype=by_name["bool"]), 0.0)
        return none.sum(1).unsqueeze(-1).expand(grid.shape)

    def weights(points: TensorBase) -> TensorBase:
        terms = _terms(points, shape, mode, padding, aligned)
        return stack([weight.masked_fill(outside, 0.0) for _, weight, outside in terms], 1)

    return gradients(weights, (grid,), (grad_weights,), (True,))[0]


def _by_rows(input: TensorBase, grid: TensorBase) -> bool:
    """Whether channels are laid side by side: on the host, in dtypes that have functions for it."""
    plain = not (input._is_wrapper or grid._is_wrapper or input.is_meta)
    small = math.prod(input.shape[2:]) < 1 << 31
    return plain and small and input.device.type == "cpu" and input.dtype.name in ("float32", "float64")


def _sampler(n: int) -> None:
    def function(
        input: TensorBase, grid: TensorBase, interpolation_mode: int, padding_mode: int, align_corners: bool
    ) -> TensorBase:
        modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
        return grid_sample(input, grid, modes[interpolation_mode], paddings[padding_mode], align_corners)

    function.__name__ = function.__qualname__ = f"grid_sampler_{n}d"
    ones = "1, " * (n + 1)
    shape = "(N, C, H, W)" if n == 2 else "(N, C, D, H, W)"
    function.__doc__ = (
        "`nn.functional.grid_sample`, Σ wₖ · input[k], its modes by number.\n\n"
        f"Shape:\n    input: {shape}; grid: (N, …, {n}); result: (N, C, …)\n\nRaises:\n    RuntimeError: the shapes do not fit"
        + of_call(
            f"{function.__name__}(flambeau.tensor([1.0, 3.0]).reshape({ones}2), flambeau.zeros({ones}{n}), 0, 0, True)",
            f"tensor({'[' * (n + 2)}2.{']' * (n + 2)})",
        )
    )
    library(
        "composite", function.__name__, autocast=("float32", "fallthrough"), batching="images", dtypes=ALL
    )(function)


for _n in (2, 3):
    _sampler(_n)
