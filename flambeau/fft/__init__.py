"""Discrete Fourier transforms, as `torch.fft` names them."""

from ..operations.declare.registry import published

globals().update(published("fft."))
__all__ = sorted(published("fft."))
