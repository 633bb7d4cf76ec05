"""Gradients of functions of operations, for leaves whose second derivatives are those of what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core import tape
from ...core.base.tensor import TensorBase


def gradients(
    function: Callable[..., Any],
    inputs: Sequence[TensorBase | None],
    grads: Sequence[TensorBase | None],
    wanted: Sequence[bool],
) -> tuple[TensorBase | None, ...]:
    """What arrives at the `wanted` inputs from `grads`, those of the results of `function(*inputs)`, which calls operations alone.

    Where operations are recorded, the gradients have a history; None where nothing arrives.
    """
    again = tape._set_grad_enabled(True)
    try:
        given = [x if x is None or not some else _alone(x) for x, some in zip(inputs, wanted)]
        result = function(*given)
        results = result if isinstance(result, tuple) else (result,)
        pairs = [
            (t, g) for t, g in zip(results, grads) if t is not None and g is not None and t.requires_grad
        ]
        tensors = [x for x, some in zip(given, wanted) if some and x is not None]
        roots, sent = [t for t, _ in pairs], [g for _, g in pairs]
        arrived = iter(tape.run_backward(roots, sent, True, again, tensors, False) if pairs else ())
        return tuple(
            next(arrived, None) if some and x is not None else None for x, some in zip(given, wanted)
        )
    finally:
        tape._set_grad_enabled(again)


def _alone(x: TensorBase) -> TensorBase:
    """The tensor, with its tangents, as one that no other input is made of, and that gradients arrive at."""
    for level in reversed(tape.open_levels()):
        primal, tangent = tape.unpack_dual(x, level)
        if tangent is not None:
            return tape.make_dual(_alone(primal), tangent, level)
    return x.view_as(x) if x.requires_grad else x.detach().requires_grad_()
