"""The ONNX form of an operation: how a call is written in ONNX's operators, as a field of its declaration (`details["onnx"]`).

    @onnx_form(layer_norm_rows)
    def _(g, input, weight, bias, dims, eps):
        return g.op("LayerNormalization", input, weight, bias, axis=-dims, epsilon=eps)

A form gets the writer of the graph (`flambeau/onnx/_writer.py`) and the arguments of a call, with values of the graph in place of tensors.
It returns what stands for the results, in their order; NotImplemented where it has nothing for these arguments, so that the next
way is taken: the expression that the body was traced to, then what the leaf is composed of (`decomposes`).  An operation in place has the
form of the one that it is made of: it returns what its first argument becomes.

Pointwise operations and programs along rows need a form only where ONNX has an operator for the whole; views, and copies of what
cannot be a view, follow from where their elements lie.  Forms stand in a module `onnx_forms` of each family, which is imported when the
first model is exported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .registry import REGISTRY, Entry


def entry_of(operation: Any) -> Entry | None:
    """The entry of an operation: of one in place, or called along rows (`RowOp.over`), that of what it is made of."""
    inner = getattr(operation, "op", None)  # of a pointwise operation in place
    owner = getattr(getattr(operation, "function", None), "__self__", None)
    for op in (operation, inner, owner):
        entry = getattr(op, "entry", None)
        if isinstance(entry, Entry):
            return entry
    return None


def onnx_form(*operations: Any, pairs: bool = False) -> Callable[[Callable], Callable]:
    """Declare how calls of these operations are written in ONNX; those that a loop declares are given by their names.

    `pairs`: the form takes complex numbers, too, whose values have one more dimension with both parts.
    """

    def enter(form: Callable) -> Callable:
        form.pairs = pairs  # type: ignore[attr-defined]
        for operation in operations:
            entry = REGISTRY[operation] if isinstance(operation, str) else entry_of(operation)
            if entry is None:
                raise ValueError(f"onnx_form(): {operation} is no declared operation")
            entry.details["onnx"] = form
        return form

    return enter


def is_value(x: Any) -> bool:
    """Whether an argument of a form is a value of the graph: one that a tensor was given for."""
    return hasattr(x, "floating")
