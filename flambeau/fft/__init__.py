"""Discrete Fourier transforms, as `torch.fft` names them."""

from ..operations.declare.registry import published as _published

globals().update(_published("fft."))
__all__ = sorted(_published("fft."))
