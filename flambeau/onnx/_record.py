"""A model's call, recorded for export: its leaves, what they are called with, and the lines of the program that they stand on."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..autograd.grad_mode import no_grad
from ..core.base.tensor import TensorBase
from ..fx import GraphModule
from ..graph.trace import graph_of
from ..nn import Module
from ..operations.pointwise.arithmetic import equal
from ..utils._trees import tree_flatten, tree_flatten_with_path, tree_unflatten
from ._flow import taken
from ._running import recorded
from .errors import OnnxExporterError

_exporting = 0


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: in the call of `export` that runs it, True.

    >>> is_in_onnx_export()
    False
    """
    return _exporting > 0


class Recorded(NamedTuple):
    """A recorded call: `tensors` were given, then `weights` (by name) of the model."""

    graph: GraphModule
    tensors: list[TensorBase]
    weights: dict[str, TensorBase]
    outputs: list[TensorBase]
    lines: list[tuple[str, int]]


def record(model: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Recorded:
    """The leaves that a call of the model runs, in the order of the tensors among its arguments, parameters and buffers after them.

    What the call writes to buffers is put back.  OnnxExporterError where it writes to a parameter, looks at values, or returns
    what is no tensor.
    """
    global _exporting
    weights = _weights(model)
    buffers = dict(model.named_buffers()) if isinstance(model, Module) else {}
    before = {name: t.detach().clone() for name, t in buffers.items()}
    versions = {name: t._version for name, t in weights.items()}
    leaves, spec = tree_flatten((args, kwargs))
    leaves = [t.detach().clone() if isinstance(t, TensorBase) else t for t in leaves]
    args, kwargs = tree_unflatten(leaves, spec)
    tensors = [t for t in leaves if isinstance(t, TensorBase)]
    _exporting += 1
    try:
        result, recording, lines = recorded(lambda: model(*args, **kwargs), taken)
    finally:
        _exporting -= 1
        with no_grad():
            for name, copy in before.items():
                if not equal(buffers[name], copy):  # versions do not tell of writes through `.data`
                    buffers[name].copy_(copy)
    for name, t in weights.items():
        if name not in buffers and t._version != versions[name]:
            raise OnnxExporterError(f"onnx.export(): the model writes to its parameter '{name}' as it runs")
    outputs = _outputs(result)
    graph = graph_of(recording, [*tensors, *weights.values()], outputs)
    return Recorded(graph, tensors, weights, outputs, lines)


def _weights(model: Any) -> dict[str, TensorBase]:
    if not isinstance(model, Module):
        return {}
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _outputs(result: Any) -> list[TensorBase]:
    """The tensors of a result, flattened; None is left out, as it is in PyTorch."""
    tensors = []
    for path, x in tree_flatten_with_path(result)[0]:
        if isinstance(x, TensorBase):
            tensors.append(x)
        elif x is not None:
            raise OnnxExporterError(
                f"onnx.export(): the model returns a {type(x).__name__} (at {''.join(map(str, path)) or 'its result'}), which is no tensor"
            )
    if not tensors:
        raise OnnxExporterError("onnx.export(): the model returns no tensor")
    return tensors


def input_names(model: Any, args: tuple, kwargs: dict[str, Any]) -> list[str]:
    """A name for each tensor among the arguments: of the parameter, and where that holds several, of the keys, too."""
    forward = model.forward if isinstance(model, Module) else model
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    kinds = inspect.Parameter
    positional = [
        p.name for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    rest = next((p.name for p in parameters if p.kind is kinds.VAR_POSITIONAL), "input")
    names = []
    for k, x in enumerate(args):
        head = positional[k] if k < len(positional) else f"{rest}_{k - len(positional)}"
        names += _names(head, x)
    for key, x in kwargs.items():
        names += _names(key, x)
    return names


def _names(head: str, x: Any) -> list[str]:
    result = tree_flatten_with_path(x)[0]
    tensors = [path for path, leaf in result if isinstance(leaf, TensorBase)]
    keys = ["_".join(str(_key(k)) for k in path) for path in tensors]
    return [f"{head}_{key}" if key else head for key in keys]


def _key(key: Any) -> Any:
    return getattr(key, "idx", getattr(key, "key", getattr(key, "name", key)))


@contextlib.contextmanager
def in_mode(model: Any, training: bool | None) -> Iterator[None]:
    """The model in training mode or not, every module back in its own afterwards; None leaves them."""
    if training is None or not isinstance(model, Module):
        yield
        return
    modes = [(m, m.training) for m in model.modules()]
    try:
        model.train(training)
        yield
    finally:
        for m, was in modes:
            m.training = was


def others(tensors: Sequence[TensorBase], sizes: Sequence[Sequence[int]]) -> list[TensorBase]:
    """The tensors with other sizes: their elements again and again along each dimension, so that none leaves its domain."""
    result = []
    for t, wanted in zip(tensors, sizes):
        for d, n in enumerate(wanted):
            if n != t.shape[d]:
                from ..core.make.create import arange

                t = t.index_select(d, arange(n) % t.shape[d])
        result.append(t)
    return result
