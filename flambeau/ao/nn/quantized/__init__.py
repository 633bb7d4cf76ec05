"""Layers over quantised tensors, which `ao.quantization.convert` puts into models; `dynamic` has those that take floats."""

from ....core.base.lazily import lazily
from ....nn.quantized import FloatFunctional
from ._activations import ELU, Dropout, Hardswish, LeakyReLU, ReLU6, Softmax
from ._batchnorm import BatchNorm2d, BatchNorm3d
from ._conv import Conv1d, Conv2d, Conv3d
from ._embedding import Embedding, EmbeddingBag
from ._functional_modules import DeQuantize, QFunctional, Quantize
from ._linear import Linear

__all__ = [
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "DeQuantize",
    "Dropout",
    "ELU",
    "Embedding",
    "EmbeddingBag",
    "FloatFunctional",
    "Hardswish",
    "LeakyReLU",
    "Linear",
    "QFunctional",
    "Quantize",
    "ReLU6",
    "Softmax",
]
__getattr__, __dir__ = lazily(__name__, ("dynamic",))
