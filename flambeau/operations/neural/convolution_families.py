"""Which way a convolution or a gradient of one is computed: chosen by shapes, dtype and device alone."""

from __future__ import annotations

from .convolution_grid import forward, input_gradient, weight_gradient

__all__ = ["forward", "input_gradient", "weight_gradient"]
