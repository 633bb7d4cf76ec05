"""Automatic differentiation: gradients of results with respect to tensors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..core import tape as _tape
from ..core.tape import is_grad_enabled
from ..core.tensor import TensorBase
from . import graph
from .function import Function
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]


def _sequence(given) -> list:
    return list(given) if isinstance(given, (tuple, list)) else [given]


def _start(outputs: Sequence, grads: Sequence, create_graph: bool, who: str) -> tuple[list, list]:
    """Outputs that take part, each with the gradient to send back from it."""
    if len(grads) != len(outputs):
        raise RuntimeError(f"{who}(): got {len(outputs)} tensors and {len(grads)} gradients")
    roots, sent = [], []
    for k, (out, grad) in enumerate(zip(outputs, grads)):
        if not isinstance(out, TensorBase):
            raise TypeError(
                f"{who}(): argument 'outputs' must be Tensors, got {type(out).__name__} at position {k}"
            )
        if grad is None:
            if not out.requires_grad:
                raise RuntimeError(
                    f"{who}(): element {k} of tensors does not require grad and does not have a grad_fn"
                )
            if out.numel() != 1:
                raise RuntimeError(
                    f"{who}(): grad can be implicitly created only for scalar outputs, got shape {tuple(out.shape)}"
                )
            grad = out.new_ones(out.shape)
        else:
            if not isinstance(grad, TensorBase):
                raise TypeError(
                    f"{who}(): gradients can be either Tensors or None, but got {type(grad).__name__}"
                )
            if tuple(grad.shape) != tuple(out.shape):
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{k}] has a shape of {tuple(grad.shape)} and output[{k}] has a shape of "
                    f"{tuple(out.shape)}."
                )
            if not out.requires_grad:
                raise RuntimeError(
                    f"{who}(): element {k} of tensors does not require grad and does not have a grad_fn"
                )
            if grad.dtype != out.dtype:
                grad = grad.to(out.dtype)
        roots.append(out)
        sent.append(grad if create_graph else grad.detach())
    return roots, sent


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves they depend on (or of `inputs` alone).

    `grad_tensors` weights each tensor; it may be left out for tensors of one element.  RuntimeError for
    tensors without history, for shapes that differ, and when the graph was freed by an earlier call without
    `retain_graph`.

    >>> import flambeau
    >>> x = flambeau.tensor([1., 2.], requires_grad=True)
    >>> flambeau.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    roots = _sequence(tensors)
    grads = [None] * len(roots) if grad_tensors is None else _sequence(grad_tensors)
    roots, sent = _start(roots, grads, create_graph, "backward")
    chosen = None
    if inputs is not None:
        chosen = _sequence(inputs)
        if not chosen:
            raise RuntimeError("backward(): 'inputs' argument to backward() cannot be empty.")
    retain = create_graph if retain_graph is None else retain_graph
    _tape.run_backward(roots, sent, retain, create_graph, chosen, True)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; nothing is added to `.grad`.

    RuntimeError where an input was not used, unless `allow_unused` (then None stands for its gradient) or
    `materialize_grads` (then zeros).

    >>> import flambeau
    >>> x = flambeau.tensor(3., requires_grad=True)
    >>> flambeau.autograd.grad(x ** 2, x)
    (tensor(6.),)
    """
    if is_grads_batched:
        raise RuntimeError("grad(): is_grads_batched=True needs vmap, which is not there yet")
    roots, wanted = _sequence(outputs), _sequence(inputs)
    grads = [None] * len(roots) if grad_outputs is None else _sequence(grad_outputs)
    for k, x in enumerate(wanted):
        if not isinstance(x, TensorBase):
            raise TypeError(
                f"grad(): argument 'inputs' must be Tensors, got {type(x).__name__} at position {k}"
            )
        if not x.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    roots, sent = _start(roots, grads, create_graph, "grad")
    retain = create_graph if retain_graph is None else retain_graph
    found = _tape.run_backward(roots, sent, retain, create_graph, wanted, False)
    if materialize_grads:
        return tuple(x.new_zeros(x.shape) if g is None else g for g, x in zip(found, wanted))
    if not allow_unused and any(g is None for g in found):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is "
            "the desired behavior."
        )
    return tuple(found)


def _backward_from(tensor, gradient, retain_graph, create_graph, inputs) -> None:
    if create_graph:
        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
            "which can cause a memory leak. Use autograd.grad instead.",
            stacklevel=3,
        )
    backward(tensor, gradient, retain_graph, create_graph, inputs)


_tape.set_backward(_backward_from)
