"""Nodes of a written model that read constants alone, computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..core.base.tensor import TensorBase
from ._load import load_model
from ._model import Model, draws
from ._writer import Node, Value

_LARGEST = 1 << 16  # elements of a result; larger ones stay what makes them


def fold(model: Model, opset: int) -> None:
    """Let constants be what nodes make of constants that are no weights; random numbers are drawn at each run."""
    remaining = []
    for node in model.nodes:
        result = None
        if not node.bodies and not draws(node) and "::" not in node.kind and _fixed(model, node):
            result = _computed(model, node, opset)
        if result is None:
            remaining.append(node)
        else:
            model.constants.update(result)
    model.nodes = remaining


def _fixed(model: Model, node: Node) -> bool:
    return all(not n or (n in model.constants and n not in model.weights) for n in node.inputs)


def _computed(model: Model, node: Node, opset: int) -> dict[str, np.ndarray] | None:
    """The results of a node by their names; None where one is large, or no array of NumPy."""
    outputs: list[tuple[Value, list[Any]]] = [(Value(n, model.dtypes[n]), []) for n in node.outputs if n]
    constants = {n: model.constants[n] for n in node.inputs if n}
    if any(model.dtypes[n] == "bfloat16" for n in (*constants, *(v.name for v, _ in outputs))):
        return None
    alone = Model([node], constants, model.dtypes, [], outputs, [], {})
    with no_grad():
        result = load_model(alone.proto(opset).SerializeToString())()
    made = [t for t in (result if isinstance(result, tuple) else (result,)) if isinstance(t, TensorBase)]
    if any(t.numel() > _LARGEST for t in made):
        return None
    return {v.name: np.array(t.contiguous().numpy()) for (v, _), t in zip(outputs, made, strict=True)}
