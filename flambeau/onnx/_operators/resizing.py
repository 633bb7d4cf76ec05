"""Resize, and reading between elements by a grid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._tensor import Tensor
from ...core.make.literal import from_numpy
from .declare import Ints, fl, ints, nn, operator


def _floats(x: Any) -> list[float]:
    return [float(n) for n in x.reshape(-1).tolist()] if isinstance(x, Tensor) else [float(n) for n in x]


class _Line:
    """How the elements of a resized dimension are made of those that there are."""

    def __init__(
        self, size: int, out: int, scale: float, region: tuple[float, float], options: dict[str, Any]
    ) -> None:
        self.size, self.out, self.scale, self.region, self.options = size, out, scale, region, options

    def places(self) -> np.ndarray:
        """Where each new element lies among the old ones."""
        x = np.arange(self.out, dtype=np.float64)
        mode, size, scale = self.options["coordinates"], self.size, self.scale
        length = size * scale
        if mode == "half_pixel":
            return (x + 0.5) / scale - 0.5
        if mode == "half_pixel_symmetric":
            moved = size / 2 * (1 - self.out / length)
            return moved + (x + 0.5) / scale - 0.5
        if mode == "pytorch_half_pixel":
            return (x + 0.5) / scale - 0.5 if length > 1 else np.full_like(x, -0.5) * 0
        if mode == "align_corners":
            return x * (size - 1) / (length - 1) if length != 1 else x * 0
        if mode == "asymmetric":
            return x / scale
        if mode == "tf_crop_and_resize":
            begin, end = self.region
            if self.out > 1:
                return begin * (size - 1) + x * (end - begin) * (size - 1) / (length - 1)
            return np.full_like(x, 0.5 * (begin + end) * (size - 1))
        raise ValueError(f"Resize: there is no coordinate_transformation_mode '{mode}'")

    def taps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each tap and new element: the old element, and its weight; and which new ones lie outside."""
        at = self.places()
        outside = (at < 0) | (at > self.size - 1)
        kind = self.options["mode"]
        if kind == "nearest":
            return self._nearest(at)[None], np.ones((1, self.out)), outside
        reach = {"linear": 1, "cubic": 2}[kind]
        stretch = max(1.0, 1 / self.scale) if self.options["antialias"] else 1.0
        half = math.ceil(reach * stretch)
        first = np.floor(at).astype(np.int64) - half + 1
        result = first + np.arange(2 * half)[:, None]
        weights = self._weights(kind, (result - at) / stretch)
        inside = (result >= 0) & (result < self.size)
        if self.options["exclude_outside"]:
            weights = np.where(inside, weights, 0.0)
        if self.options["exclude_outside"] or stretch > 1:
            weights = weights / weights.sum(0)
        return result.clip(0, self.size - 1), weights, outside

    def _nearest(self, at: np.ndarray) -> np.ndarray:
        mode = self.options["nearest"]
        if mode == "round_prefer_floor":
            chosen = np.ceil(at - 0.5)
        elif mode == "round_prefer_ceil":
            chosen = np.floor(at + 0.5)
        elif mode == "floor":
            chosen = np.floor(at)
        elif mode == "ceil":
            chosen = np.ceil(at)
        else:
            raise ValueError(f"Resize: there is no nearest_mode '{mode}'")
        return chosen.astype(np.int64).clip(0, self.size - 1)

    def _weights(self, kind: str, far: np.ndarray) -> np.ndarray:
        x = np.abs(far)
        if kind == "linear":
            return np.maximum(1 - x, 0)
        a = self.options["a"]
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        tail = ((x - 5) * x + 8) * x * a - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, tail, 0.0))


@operator("Resize", since=11)
def resize(
    x: Tensor,
    roi: Tensor | None = None,
    scales: Tensor | None = None,
    sizes: Ints | None = None,
    *,
    antialias: int = 0,
    axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """One dimension after another, each new element a sum of few old ones."""
    dims = list(range(x.ndim)) if axes is None else [d % x.ndim for d in axes]
    scale_list = None if scales is None or scales.numel() == 0 else _floats(scales)
    if scale_list is None and sizes is None:
        raise ValueError("Resize: it has neither scales nor sizes")
    if scale_list is None:
        assert sizes is not None
        factors, wanted = _of_sizes(x, dims, ints(sizes), keep_aspect_ratio_policy)
    else:
        factors, wanted = scale_list, [math.floor(x.shape[d] * s) for d, s in zip(dims, scale_list)]
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    regions = _floats(roi) if crops and roi is not None else [0.0] * len(dims) + [1.0] * len(dims)
    options = {
        "coordinates": coordinate_transformation_mode,
        "mode": mode,
        "nearest": nearest_mode,
        "antialias": antialias,
        "exclude_outside": exclude_outside,
        "a": cubic_coeff_a,
    }
    result = x if x.is_floating_point() else x.double()
    for k, d in enumerate(dims):
        if wanted[k] == x.shape[d] and factors[k] == 1 and not crops:
            continue
        line = _Line(x.shape[d], wanted[k], factors[k], (regions[k], regions[k + len(dims)]), options)
        at, weights, outside = line.taps()
        tail = [-1, *[1] * (x.ndim - 1 - d)]
        if mode == "nearest":
            result = fl.index_select(result, d, from_numpy(at[0]))
        else:
            shares = from_numpy(weights).to(result.dtype)
            result = sum(
                fl.index_select(result, d, from_numpy(at[t])) * shares[t].reshape(tail)
                for t in range(len(at))
            )
        if crops and outside.any():
            result = fl.where(from_numpy(outside).reshape(tail), extrapolation_value, result).to(result.dtype)
    return result if x.is_floating_point() else fl.round(result).to(x.dtype)


def _of_sizes(x: Tensor, dims: list[int], sizes: list[int], policy: str) -> tuple[list[float], list[int]]:
    """Scales and sizes, of which the first may have to be one for all dimensions."""
    scales = [n / x.shape[d] for d, n in zip(dims, sizes)]
    if policy == "stretch":
        return scales, sizes
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [scale] * len(dims), [math.floor(x.shape[d] * scale + 0.5) for d in dims]


_GRID_MODES = {
    "linear": "bilinear",
    "bilinear": "bilinear",
    "cubic": "bicubic",
    "bicubic": "bicubic",
    "nearest": "nearest",
}


@operator("GridSample", since=16)
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    return nn.grid_sample(
        x, grid, mode=_GRID_MODES[mode], padding_mode=padding_mode, align_corners=bool(align_corners)
    )


@operator("AffineGrid")
def affine_grid(theta: Tensor, size: Ints, *, align_corners: int = 0) -> Tensor:
    return nn.affine_grid(theta, ints(size), align_corners=bool(align_corners))
