"""What the nodes of the tape are called: as PyTorch's, because programs match on `grad_fn.name()`.

>>> backward_name("log_softmax"), backward_name("log1p"), backward_name("sum", whole=False)
('LogSoftmaxBackward0', 'Log1PBackward0', 'SumBackward1')
"""

from __future__ import annotations

import functools

# Operations that PyTorch's nodes call otherwise.
OTHER_NAMES = {
    "cube": "Pow",
    "copy": "Clone",
    "deg2rad": "Deg2Rad",
    "entr": "SpecialEntr",
    "erfcx": "SpecialErfcx",
    "gelu_erf": "Gelu",
    "gelu_tanh": "Gelu",
    "i0e": "SpecialI0E",
    "i1": "SpecialI1",
    "i1e": "SpecialI1E",
    "log1p": "Log1P",
    "log_ndtr": "SpecialLogNdtr",
    "logsigmoid": "LogSigmoid",
    "ndtri": "SpecialNdtri",
    "prelu": "PreluKernel",
    "rad2deg": "Rad2Deg",
    "relu6": "Hardtanh",
    "scaled_by_power": "Ldexp",
    "selu": "Elu",
    "softsign": "Div",
    "square": "Pow",
    "tanhshrink": "Sub",
    "xlog1py": "SpecialXlog1Py",
    "zeta": "SpecialZeta",
}
# Reductions whose overload with `dim` is PyTorch's second.
SECOND_WITH_DIM = ("sum", "mean")


@functools.cache
def backward_name(operation: str, whole: bool = True) -> str:
    """The name of the node of an operation; `whole` unless it reduced some dimensions only, or kept them."""
    stem = OTHER_NAMES.get(operation) or "".join(part.capitalize() for part in operation.split("_"))
    return f"{stem}Backward{0 if whole or operation not in SECOND_WITH_DIM else 1}"
