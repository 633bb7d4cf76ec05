"""Models as ONNX ([docs/onnx.md](../../docs/onnx.md)): `export` writes one; names that are not here say that they are absent."""

from .._compat.absent import refusing as _refusing
from . import errors, operators
from ._constants import TrainingMode
from ._export import export
from ._program import ONNXProgram
from ._record import is_in_onnx_export
from ._symbolic import register_custom_op_symbolic, unregister_custom_op_symbolic
from .errors import OnnxExporterError

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "TrainingMode",
    "errors",
    "export",
    "is_in_onnx_export",
    "operators",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]

__getattr__ = _refusing("onnx")
