"""What the nodes of the tape are called: as PyTorch's, because programs match on `grad_fn.name()`.

>>> backward_name("log_softmax"), backward_name("sum", whole=False)
('LogSoftmaxBackward0', 'SumBackward1')
"""

from __future__ import annotations

import functools

FIRST = frozenset(
    ("x", "A")
)  # names that a first argument has here, and PyTorch calls "self", as it does any "input"

# Reductions whose overload with `dim` is PyTorch's second.
SECOND_WITH_DIM = ("sum", "mean")


@functools.cache
def backward_name(operation: str, whole: bool = True) -> str:
    """The name of the node of an operation that declares none; `whole` unless it reduced some dimensions only, or kept them."""
    stem = "".join(part.capitalize() for part in operation.split("_"))
    return f"{stem}Backward{0 if whole or operation not in SECOND_WITH_DIM else 1}"


def saved_name(name: str, first: bool) -> str:
    """What a node calls an argument that it has saved, the first one or another.

    >>> saved_name("input", False), saved_name("x", True), saved_name("weight", False)
    ('self', 'self', 'weight')
    """
    return "self" if name == "input" or (first and name in FIRST) else name
