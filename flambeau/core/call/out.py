"""`out=` and in place, for operations that are functions in Python: the result is computed, and then written where it belongs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import tape
from ..base.dtypes import dtype
from ..base.tensor import TensorBase
from .destination import check_out, check_over, replace, set_decomposition
from .interceptors import has_interceptors, no_interceptors
from .pointwise import PointwiseOp


def category(d: dtype) -> int:
    """0 for bool, 1 for integers, 2 for floating-point numbers, 3 for complex ones."""
    return 3 if d.is_complex else 2 if d.is_floating_point else int(d.name != "bool")


def into(
    out: Any, result: TensorBase, who: str, exact: bool = False, apart: Iterable[Any] | None = None
) -> TensorBase:
    """`found` itself, or written to `out=`, which is resized (with a warning where it held elements).

    RuntimeError where `out` is of a lower category of dtypes (`exact`: of another dtype) or on another device, where one of the two
    takes part in the tape, and, where `apart` is given, where `out` shares memory with one of its tensors.
    """
    if out is None:
        return result
    check_out(who, out, (result,))
    if apart is not None:
        check_out(who, out, apart, True)
    return set_decomposition(who, out, result, exact, () if apart is None else apart)


def overwrite(input: TensorBase, operation: Callable, *others: Any, **options: Any) -> TensorBase:
    """`operation(input, …)` written over the input, for what cannot compute there.

    Where that is recorded it works on a copy, which its derivative can still read afterwards.  RuntimeError where the input cannot hold
    the result, or must not be written to.
    """
    who = operation.__name__
    check_over(who + "_", input)
    return replace(
        who, input, operation(input.clone() if tape.tracked(input, *others) else input, *others, **options)
    )


def write_over(op: PointwiseOp, input: TensorBase, *operands: Any, **params: Any) -> TensorBase:
    """`op` in place, as composites call it.

    Modes and classes of tensors that the tape records for see operations alone: also the copy that a derivative reads.
    """
    if has_interceptors() and tape.tracked(input, *operands):
        tensors = [x for x in (input, *operands) if isinstance(x, TensorBase)]
        if no_interceptors([tensors]):  # those that there are do not see this call
            return op.in_place(input, *operands, **params)
        return overwrite(input, op, *operands, **params)
    return op.in_place(input, *operands, **params)
