"""The backward pass as users start it: `backward` and `grad`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..core import tape as _tape
from ..core.base.callbacks import callbacks
from ..core.base.tensor import TensorBase
from ..core.call.interceptors import has_interceptors
from ..core.make.create import ones
from ..core.places.join import stack
from . import graph


def _sequence(given: Any) -> list:
    """One tensor or edge, or any iterable of them, as `module.parameters()` is."""
    single = given is None or isinstance(given, (TensorBase, graph.GradientEdge))
    return [given] if single or not hasattr(given, "__iter__") else list(given)


def _on_tape(given: list) -> list:
    """The tensors that the tape knows: those that hold the elements of masked and nested ones."""
    if not has_interceptors():  # there are none: their classes override operations
        return given
    return [x._elements if getattr(x, "_is_wrapper", False) else x for x in given]


def _is_batched(*given: Any) -> bool:
    """Whether some of these are tensors inside of `vmap`."""
    return any(getattr(x, "_is_batched", False) for x in given)


def _start(outputs: Sequence, grads: Sequence, create_graph: bool, who: str) -> tuple[list, list]:
    """Outputs that take part, each with the gradient to send back from it."""
    if len(grads) != len(outputs):
        raise RuntimeError(f"{who}(): got {len(outputs)} tensors and {len(grads)} gradients")
    sent = [_first_gradient(out, grad, k, who) for k, (out, grad) in enumerate(zip(outputs, grads))]
    return list(outputs), sent if create_graph else [g.detach() for g in sent]


def _first_gradient(out: Any, grad: Any, k: int, who: str) -> TensorBase:
    """The gradient to send back from one output: as given, or 1 for a tensor of one element."""
    if grad is not None and not isinstance(grad, TensorBase):
        raise TypeError(f"{who}(): gradients can be either Tensors or None, but got {type(grad).__name__}")
    if isinstance(out, graph.GradientEdge):
        if out.made_of is None:  # an edge that was not made of a tensor
            if grad is None:
                raise RuntimeError(
                    f"{who}(): element {k} is a GradientEdge, which needs a gradient to be given"
                )
            return grad
        shape, dtype, device = out.made_of
    elif not isinstance(out, TensorBase):
        raise TypeError(
            f"{who}(): argument 'outputs' must be Tensors, got {type(out).__name__} at position {k}"
        )
    elif not out.requires_grad:
        raise RuntimeError(
            f"{who}(): element {k} of tensors does not require grad and does not have a grad_fn"
        )
    else:
        shape, dtype, device = out.shape, out.dtype, out.device
    if grad is None:
        if shape.numel() != 1:
            raise RuntimeError(
                f"{who}(): grad can be implicitly created only for scalar outputs, got shape {tuple(shape)}"
            )
        if dtype.is_complex:
            raise RuntimeError(
                f"{who}(): grad can be implicitly created only for real scalar outputs but got {dtype}"
            )
        return out.new_ones(shape) if isinstance(out, TensorBase) else ones(shape, dtype=dtype, device=device)
    if tuple(grad.shape) != tuple(shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{k}] has a shape of {tuple(grad.shape)} and output[{k}] has a shape of "
            f"{tuple(shape)}."
        )
    return grad if grad.dtype == dtype else grad.to(dtype)


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
    roots = _on_tape(_sequence(tensors))
    grads = [None] * len(roots) if grad_tensors is None else _on_tape(_sequence(grad_tensors))
    roots, sent = _start(roots, grads, create_graph, "backward")
    chosen = None
    if inputs is not None:
        chosen = _on_tape(_sequence(inputs))
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
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; nothing is added to `.grad`.

    RuntimeError where an input was not used, unless `allow_unused` (then None stands for its gradient) or
    `materialize_grads` (then zeros).  With `is_grads_batched`, the first dimension of each `grad_outputs` counts
    several gradients, which are sent back one after the other; results get that dimension too.  `only_inputs` is
    PyTorch's of old, and ignored with a FutureWarning.

    >>> import flambeau
    >>> x = flambeau.tensor(3., requires_grad=True)
    >>> flambeau.autograd.grad(x ** 2, x)
    (tensor(6.),)
    """
    if not only_inputs:
        warnings.warn(
            "grad(): only_inputs is deprecated and ignored; to add to the gradients of other tensors use autograd.backward",
            FutureWarning,
            stacklevel=2,
        )
    outputs, wrt = _sequence(outputs), _sequence(inputs)
    seeds = None if grad_outputs is None else _sequence(grad_outputs)
    if has_interceptors() and _is_batched(*outputs, *wrt, *(seeds or ())):
        return callbacks["gradients of slices"](
            outputs,
            wrt,
            seeds,
            retain_graph=retain_graph,
            create_graph=create_graph,
            allow_unused=allow_unused,
            materialize_grads=materialize_grads,
        )
    roots, wanted = _on_tape(outputs), _on_tape(wrt)
    grads = [None] * len(roots) if seeds is None else _on_tape(seeds)
    retain = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        return _batched(roots, wanted, grads, retain, create_graph, allow_unused, materialize_grads)
    for k, x in enumerate(wanted):
        if isinstance(x, graph.GradientEdge):
            continue
        if not isinstance(x, TensorBase):
            raise TypeError(
                f"grad(): argument 'inputs' must be Tensors, got {type(x).__name__} at position {k}"
            )
        if not x.requires_grad:
            raise RuntimeError(
                f"grad(): One of the differentiated Tensors does not require grad: {_input(k, x)}"
            )
    if materialize_grads and allow_unused is False:
        raise ValueError("grad(): Expected allow_unused to be True or not passed when materialize_grads=True")
    roots, sent = _start(roots, grads, create_graph, "grad")
    result = _tape.run_backward(roots, sent, retain, create_graph, wanted, False)
    if materialize_grads:
        result = tuple(x.new_zeros(x.shape) if g is None else g for g, x in zip(result, wanted))
    elif not allow_unused and any(g is None for g in result):
        unused = ", ".join(_input(k, x) for k, (g, x) in enumerate(zip(result, wanted)) if g is None)
        raise RuntimeError(
            "grad(): One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if "
            f"this is the desired behavior. Not used: {unused}"
        )
    if wanted is not wrt:
        result = [x._with(g) if x is not w and g is not None else g for g, x, w in zip(result, wrt, wanted)]
    return tuple(result)


def _input(k: int, x: Any) -> str:
    """How messages name an input."""
    return f"element {k} of inputs" + (f", of shape {list(x.shape)}" if isinstance(x, TensorBase) else "")


def _batched(
    roots: list,
    wanted: list,
    grads: list,
    retain: bool,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple:
    given = [g for g in grads if g is not None]
    if not given:
        raise RuntimeError("grad(): is_grads_batched=True needs grad_outputs")
    count = given[0].shape[0]
    rows = []
    for k in range(count):
        sent = [None if g is None else g[k] for g in grads]
        keep = retain or k < count - 1
        rows.append(
            grad(
                roots,
                wanted,
                sent,
                keep,
                create_graph,
                allow_unused=allow_unused,
                materialize_grads=materialize_grads,
            )
        )
    return tuple(None if column[0] is None else stack(column) for column in zip(*rows))


def _backward_from(
    tensor: TensorBase, gradient: Any, retain_graph: bool | None, create_graph: bool, inputs: Any
) -> None:
    if create_graph:
        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
            "which can cause a memory leak. Use autograd.grad instead.",
            stacklevel=3,
        )
    backward(tensor, gradient, retain_graph, create_graph, inputs)


_tape.set_backward(_backward_from)
