"""Discrete Fourier transforms, as `torch.fft` names them."""

from ..ops.registry import published

globals().update(published("fft."))
__all__ = sorted(published("fft."))
