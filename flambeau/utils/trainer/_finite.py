"""Where a loss that is NaN or infinite comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._tensor import Tensor
from ...autograd.grad_mode import no_grad
from .metrics import tensors_in


@no_grad()
def find_nonfinite(model: Any, input: Any, target: Any, output: Any) -> str:
    """The first of the batch's items, the model's parameters and buffers, and the outputs that is not finite."""
    for what, data in (("input", input), ("target", target)):
        result = _first_item(data, what)
        if result:
            return result
    for what, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        name = first_nonfinite(named)
        if name is not None:
            return f"the {what} {name!r} is not finite"
    result = _first_item(output, "output")
    if result:
        return f"batch and parameters are finite, but {result}"
    return "batch, parameters and output are finite: it arises in the criterion"


@no_grad()
def first_nonfinite(named: Iterable[tuple[str, Any]]) -> str | None:
    """The name of the first tensor that is not finite."""
    return next((name for name, t in named if t is not None and not bool(t.isfinite().all())), None)


def _first_item(data: Any, what: str) -> str:
    for tensor in tensors_in(data):
        if bool(tensor.isfinite().all()):
            continue
        if tensor.dim() == 0:
            return f"the {what} is {_kind(tensor)}"
        bad = tensor.isfinite().reshape(tensor.size(0), -1).all(1).logical_not()
        item = int(bad.int().argmax())
        return f"item {item} of the {what} holds {_kind(tensor[item])}"
    return ""


def _kind(tensor: Tensor) -> str:
    return "nan" if bool(tensor.isnan().any()) else "an infinity"
