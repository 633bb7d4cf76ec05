"""Layers that models are made of on their way to integers (`ao.quantization`): fused, trained with rounding, and over integers."""

from ...core.base.lazily import lazily

__all__ = ["intrinsic", "qat", "quantized"]
__getattr__, __dir__ = lazily(__name__, ("intrinsic", "qat", "quantized"))
