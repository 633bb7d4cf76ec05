"""Models as ONNX ([docs/onnx.md](../../docs/onnx.md)): `export` writes them, `load_model` reads them."""

from .._compat.absent import refusing as _refusing
from . import errors, operators
from ._constants import TrainingMode
from ._export import export
from ._load import load_model
from ._program import ONNXProgram
from ._record import is_in_onnx_export
from ._symbolic import register_custom_op_symbolic, unregister_custom_op_symbolic
from .errors import OnnxExporterError, OnnxFormatError, OnnxLoadError

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "OnnxFormatError",
    "OnnxLoadError",
    "TrainingMode",
    "errors",
    "export",
    "is_in_onnx_export",
    "load_model",
    "operators",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]

__getattr__ = _refusing("onnx")
