"""Versions of ONNX's operator sets that PyTorch 2.13 writes, and the modes that models are exported in."""

import enum


class TrainingMode(enum.IntEnum):
    """The mode that a model is exported in; PRESERVE is the one that it is in."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


ONNX_BASE_OPSET = 9
ONNX_MIN_OPSET = 7
ONNX_MAX_OPSET = 23
ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET = 20
ONNX_DEFAULT_OPSET = 20
ONNX_CONSTANT_FOLDING_MIN_OPSET = 9
