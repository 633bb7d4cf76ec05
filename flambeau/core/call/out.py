"""`out=`: the tensor that the caller wants a result in."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import tape
from ..base.dtypes import dtype
from ..base.tensor import TensorBase
from .overlap import require_apart


def category(d: dtype) -> int:
    """0 for bool, 1 for integers, 2 for floating-point numbers, 3 for complex ones."""
    return 3 if d.is_complex else 2 if d.is_floating_point else int(d.name != "bool")


def into(
    out: Any, found: TensorBase, who: str, exact: bool = False, apart: Sequence[Any] | None = None
) -> TensorBase:
    """`found` itself, or written to `out=`, which is resized (with a warning where it held elements).

    RuntimeError where `out` is of a lower category of dtypes (`exact`: of another dtype), where one of the two takes part in the
    tape, and, where `apart` is given, where `out` shares memory with one of its tensors or has elements that share theirs.
    """
    if out is None:
        return found
    if not isinstance(out, TensorBase):
        raise TypeError(f"{who}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if exact and found.dtype != out.dtype:
        raise RuntimeError(
            f"{who}(): Expected out tensor to have dtype {found.dtype.name}, but got {out.dtype.name} instead"
        )
    if category(found.dtype) > category(out.dtype):
        raise RuntimeError(
            f"{who}(): result type {found.dtype} can't be cast to the desired output type {out.dtype}"
        )
    if tape.recording(out, found):
        raise RuntimeError(
            f"{who}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if apart is not None:
        require_apart(who, out, [t for t in apart if isinstance(t, TensorBase)])
    if tuple(out.shape) != tuple(found.shape):
        if out.numel():
            warnings.warn(
                f"{who}(): an output with one or more elements was resized since it had shape {list(out.shape)}, "
                f"which does not match the required output shape {list(found.shape)}.",
                stacklevel=3,
            )
        out.resize_(found.shape)
    return out.copy_(found)
