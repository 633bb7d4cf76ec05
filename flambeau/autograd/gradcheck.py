"""Derivatives against finite differences, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import TensorBase


class GradcheckError(RuntimeError):
    """The derivative that the tape computes differs from the finite difference."""


def _tensors(given) -> list:
    return [t for t in (given if isinstance(given, (tuple, list)) else (given,)) if isinstance(t, TensorBase)]


def _numerical(function: Callable, inputs, x: TensorBase, eps: float) -> list[list]:
    """For each output, its central difference for each element of x (float64 lists)."""
    from .grad_mode import no_grad

    columns: list[list] = []
    with no_grad():
        flat = x.data.reshape(-1) if x.is_contiguous() else None
        if flat is None:
            raise ValueError("gradcheck(): inputs must be contiguous")
        for k in range(x.numel()):
            before = flat[k].item()
            flat[k] = before + eps
            above = [o.detach().clone() for o in _tensors(function(*inputs))]
            flat[k] = before - eps
            below = [o.detach().clone() for o in _tensors(function(*inputs))]
            flat[k] = before
            columns.append([((a - b) / (2 * eps)).reshape(-1) for a, b in zip(above, below)])
    return columns


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    fast_mode: bool = False,
    **others: Any,
) -> bool:
    """Compare the gradients of `func` at `inputs` (float64 tensors) with central differences, element by
    element.

    True where |tape - difference| <= atol + rtol · |difference| everywhere; else GradcheckError, or False
    with `raise_exception=False`.

    >>> import flambeau
    >>> x = flambeau.tensor([0.5, 2.], dtype=flambeau.float64, requires_grad=True)
    >>> flambeau.autograd.gradcheck(flambeau.exp, (x,))
    True
    """
    from . import grad

    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    wanted = [x for x in inputs if isinstance(x, TensorBase) and x.requires_grad]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for x in wanted:
        if x.dtype.name not in ("float64", "complex128"):
            raise ValueError(
                f"gradcheck(): inputs must be float64 for differences to be exact enough, got {x.dtype}"
            )
    outputs = [o for o in _tensors(func(*inputs)) if o.requires_grad]
    places = [k for k, o in enumerate(_tensors(func(*inputs))) if o.requires_grad]
    if not outputs:
        raise ValueError("gradcheck(): no output of the function requires grad")
    differences = [_numerical(func, inputs, x, eps) for x in wanted]
    for number, (out, place) in enumerate(zip(outputs, places)):
        for j in range(out.numel()):
            seed = out.new_zeros(out.numel())
            seed[j] = 1.0
            found = grad([out], wanted, [seed.reshape(out.shape)], retain_graph=True, allow_unused=True)
            for i, (g, x) in enumerate(zip(found, wanted)):
                values = [0.0] * x.numel() if g is None else g.reshape(-1).tolist()
                for k, value in enumerate(values):
                    expected = differences[i][k][place][j].item()
                    off = abs(value - expected)
                    if off > atol + rtol * abs(expected) or (value != value) != (expected != expected):
                        if raise_exception:
                            raise GradcheckError(
                                f"Jacobian mismatch for output {number} with respect to input {i}: element {j} by element {k} is "
                                f"{value} on the tape and {expected} by finite differences"
                            )
                        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **others: Any,
) -> bool:
    """Compare second derivatives: gradcheck of the gradients as a function of inputs and incoming gradients.

    `grad_outputs` defaults to fixed, uneven weights.
    """
    from . import grad
    from .grad_mode import enable_grad

    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outputs = [o for o in _tensors(func(*inputs)) if o.requires_grad]
    if grad_outputs is None:
        seeds = []
        for o in outputs:
            ramp = o.new_tensor([0.7 + 0.1 * (k % 7) for k in range(o.numel())]).reshape(o.shape)
            seeds.append(ramp.detach().requires_grad_())
    else:
        seeds = _tensors(grad_outputs)
    count = len(seeds)
    wanted = [k for k, x in enumerate(inputs) if isinstance(x, TensorBase) and x.requires_grad]

    def gradients(*everything):
        xs, gs = everything[: len(everything) - count], everything[len(everything) - count :]
        with enable_grad():  # the differences are taken without a tape, but this function needs one inside
            outs = [o for o in _tensors(func(*xs)) if o.requires_grad]
            found = grad(outs, [xs[k] for k in wanted], list(gs), create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None and g.requires_grad)

    return gradcheck(
        gradients, (*inputs, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )
