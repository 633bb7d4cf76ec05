"""Models as ONNX ([docs/onnx.md](../../docs/onnx.md)): `export` writes one; names that are not here say that they are absent."""

from collections.abc import Callable as _Callable
from typing import Any as _Any

from .._compat.absent import refusing as _refusing
from . import errors, operators
from ._constants import TrainingMode
from ._export import export
from ._program import ONNXProgram
from ._record import is_in_onnx_export
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

_forms: dict[tuple[str, int], _Callable[..., _Any]] = {}


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: _Callable[..., _Any], opset_version: int
) -> None:
    """Keep how an operation "namespace::name" is written in ONNX; nothing is written yet.

    ValueError for another form of name.

    >>> register_custom_op_symbolic("mine::twice", lambda g, x: g.op("Add", x, x), 11)
    >>> unregister_custom_op_symbolic("mine::twice", 11)
    """
    if symbolic_name.count("::") != 1:
        raise ValueError(
            f"Failed to register operator {symbolic_name}. The symbolic name must match the format domain::name."
        )
    _forms[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget what `register_custom_op_symbolic` kept; KeyError where there is nothing.

    >>> unregister_custom_op_symbolic("mine::nothing", 11)
    Traceback (most recent call last):
        ...
    KeyError: ('mine::nothing', 11)
    """
    del _forms[symbolic_name, opset_version]


__getattr__ = _refusing("onnx")
