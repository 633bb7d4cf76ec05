"""Boxes in images."""

from __future__ import annotations

import math

import numpy as np

from ..._tensor import Tensor
from ...core.make.literal import from_numpy
from .declare import Ints, fl, ints, operator


def _number(x: Tensor | None, default: float) -> float:
    return default if x is None else float(x.reshape([-1])[0])


def _corners(boxes: np.ndarray, by_centre: int) -> np.ndarray:
    """Boxes as two corners, the smaller numbers first."""
    if by_centre:
        x, y, w, h = boxes.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    a, b, c, d = boxes.T
    return np.stack([np.minimum(a, c), np.minimum(b, d), np.maximum(a, c), np.maximum(b, d)], 1)


def _suppressed(
    corners: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float
) -> list[int]:
    """The boxes with the largest scores, none of which overlaps one before it by more than `overlap` of their union."""
    area = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    waiting = [k for k in np.argsort(-scores, kind="stable") if scores[k] > least]
    chosen: list[int] = []
    alive = np.zeros(len(scores), bool)
    alive[waiting] = True
    for k in waiting:
        if len(chosen) >= most:
            break
        if not alive[k]:
            continue
        chosen.append(int(k))
        low, high = np.maximum(corners[k, :2], corners[:, :2]), np.minimum(corners[k, 2:], corners[:, 2:])
        shared = np.prod(np.maximum(high - low, 0), 1)
        union = area[k] + area - shared
        with np.errstate(divide="ignore", invalid="ignore"):
            alive &= ~((shared / union) > overlap)
    return chosen


@operator("NonMaxSuppression", since=10)
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Ints | None = None,
    iou_threshold: Tensor | None = None,
    score_threshold: Tensor | None = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """Image, class and number of the boxes that are chosen, (n, 3) of int64."""
    most = 0 if max_output_boxes_per_class is None else ints(max_output_boxes_per_class)[0]
    overlap, least = _number(iou_threshold, 0.0), _number(score_threshold, -math.inf)
    places, numbers = boxes.detach().double().numpy(), scores.detach().double().numpy()
    result = []
    for image in range(places.shape[0]):
        corners = _corners(places[image], center_point_box)
        for kind in range(numbers.shape[1]):
            selected = _suppressed(corners, numbers[image, kind], most, overlap, least)
            result += [(image, kind, k) for k in selected]
    return from_numpy(np.array(result, np.int64).reshape(-1, 3))


@operator("RoiAlign", since=10)
def roi_align_10(
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    return _aligned(
        x,
        rois,
        batch_indices,
        "output_half_pixel",
        mode,
        output_height,
        output_width,
        sampling_ratio,
        spatial_scale,
    )


@operator("RoiAlign", since=16)
def roi_align(
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Each box of the image in a grid of cells: mean or maximum of samples between elements (He et al. 2017)."""
    return _aligned(
        x,
        rois,
        batch_indices,
        coordinate_transformation_mode,
        mode,
        output_height,
        output_width,
        sampling_ratio,
        spatial_scale,
    )


def _aligned(
    x: Tensor,
    rois: Tensor,
    images: Tensor,
    coordinates: str,
    mode: str,
    high: int,
    wide: int,
    samples: int,
    scale: float,
) -> Tensor:
    moved = 0.5 if coordinates == "half_pixel" else 0.0
    result = []
    for box, image in zip(rois.detach().double().tolist(), images.tolist()):
        left, top, right, bottom = (n * scale - moved for n in box)
        width, height = right - left, bottom - top
        if not moved:
            width, height = max(width, 1.0), max(height, 1.0)
        cells = height / high, width / wide
        counts = [samples or math.ceil(size) or 1 for size in (height / high, width / wide)]
        ys = _samples(top, cells[0], high, counts[0])
        xs = _samples(left, cells[1], wide, counts[1])
        result.append(_cells(x[image], ys, xs, mode, high, wide, counts))
    if not result:
        return fl.zeros([0, x.shape[1], high, wide], dtype=x.dtype)
    return fl.stack(result)


def _samples(begin: float, cell: float, cells: int, count: int) -> np.ndarray:
    return begin + cell * (np.arange(cells)[:, None] + (np.arange(count) + 0.5) / count).reshape(-1)


def _line(at: np.ndarray, size: int) -> tuple[Tensor, Tensor, np.ndarray, np.ndarray]:
    """The elements before and behind each place, and their weights; 0 outside of the image."""
    outside = (at < -1) | (at > size)
    held = np.maximum(at, 0)
    low = np.minimum(np.floor(held).astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    far = np.where(low >= size - 1, 0.0, held - low)
    near = np.where(outside, 0.0, 1 - far)
    return from_numpy(low), from_numpy(high), near, np.where(outside, 0.0, far)


def _cells(
    image: Tensor, ys: np.ndarray, xs: np.ndarray, mode: str, high: int, wide: int, counts: list[int]
) -> Tensor:
    parts = []
    y0, y1, wy0, wy1 = _line(ys, image.shape[1])
    x0, x1, wx0, wx1 = _line(xs, image.shape[2])
    for y, wy in ((y0, wy0), (y1, wy1)):
        for x, wx in ((x0, wx0), (x1, wx1)):
            weights = from_numpy(wy[:, None] * wx).to(image.dtype)
            parts.append(fl.index_select(fl.index_select(image, 1, y), 2, x) * weights)
    sizes = [image.shape[0], high, counts[0], wide, counts[1]]
    if mode == "max":
        largest = fl.maximum(fl.maximum(parts[0], parts[1]), fl.maximum(parts[2], parts[3]))
        return fl.amax(largest.reshape(sizes), [2, 4])
    return fl.mean((parts[0] + parts[1] + parts[2] + parts[3]).reshape(sizes), [2, 4])
