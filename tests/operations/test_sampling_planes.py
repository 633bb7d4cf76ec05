"""Sampling images whose planes are read as they stand, and whose gradients take channels side by side."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.operations.neural.resampling import sampling

grid_sample = flambeau.nn.functional.grid_sample


def bilinear(image: np.ndarray, grid: np.ndarray, border: bool) -> np.ndarray:
    """(n, c, points), in float64, corners not aligned."""
    n, c, height, width = image.shape
    x = ((grid[..., 0] + 1) * width - 1) / 2
    y = ((grid[..., 1] + 1) * height - 1) / 2
    if border:
        x, y = x.clip(0, width - 1), y.clip(0, height - 1)
    left, top = np.floor(x), np.floor(y)
    result = np.zeros((n, c, grid.shape[1]))
    for dx in (0, 1):
        for dy in (0, 1):
            share = (1 - abs(x - left - dx)) * (1 - abs(y - top - dy))
            across, down = (left + dx).astype(int), (top + dy).astype(int)
            there = (across >= 0) & (across < width) & (down >= 0) & (down < height)
            for k in range(n):
                picked = image[k][:, down[k].clip(0, height - 1), across[k].clip(0, width - 1)]
                result[k] += picked * (share[k] * there[k])
    return result


@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("channels", [8, 9, 24, 64, 65])
def test_values_and_gradients_do_not_depend_on_how_channels_lie(channels, padding, monkeypatch):
    rng = np.random.default_rng(channels)
    image = rng.standard_normal((2, channels, 7, 9)).astype(np.float32)
    grid = (rng.random((2, 5, 11, 2)) * 2.6 - 1.3).astype(np.float32)
    upstream = flambeau.from_numpy(rng.standard_normal((2, channels, 5, 11)).astype(np.float32))

    def run() -> list[np.ndarray]:
        x, g = (flambeau.from_numpy(v).requires_grad_() for v in (image, grid))
        y = grid_sample(x, g, padding_mode=padding, align_corners=False)
        y.backward(upstream)
        return [t.detach().numpy() for t in (y, x.grad, g.grad)]

    planes = run()
    expected = bilinear(
        image.astype(np.float64), grid.reshape(2, 55, 2).astype(np.float64), padding == "border"
    )
    np.testing.assert_allclose(planes[0].reshape(2, channels, 55), expected, rtol=1e-4, atol=2e-5)
    monkeypatch.setattr(sampling, "MANY", 0)
    for one, other in zip(planes, run()):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


def test_derivatives_of_a_gradient():
    rng = np.random.default_rng(1)
    x = flambeau.from_numpy(rng.standard_normal((1, 10, 4, 5))).requires_grad_()
    g = flambeau.from_numpy(rng.random((1, 3, 2, 2)) * 1.6 - 0.8).requires_grad_()
    run = lambda x, g: grid_sample(x, g, align_corners=True)  # noqa: E731
    assert flambeau.autograd.gradcheck(run, (x, g)) and flambeau.autograd.gradgradcheck(run, (x, g))


def test_a_large_image_is_turned(monkeypatch):
    """Its places would not stay in a cache from channel to channel."""
    seen = []
    turned = sampling.channels_together
    monkeypatch.setattr(
        sampling, "channels_together", lambda input: seen.append(tuple(input.shape)) or turned(input)
    )
    grid = flambeau.zeros(1, 2, 2, 2)
    grid_sample(flambeau.ones(1, 24, 256, 256), grid, align_corners=False)
    assert not seen
    grid_sample(flambeau.ones(1, 24, 256, 257), grid, align_corners=False)
    assert seen == [(1, 24, 256, 257)]
