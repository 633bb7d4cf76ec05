"""What operations written in Python share: `out=`, and complex numbers as pairs of real ones."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from ...core import tape
from ...core.base import display
from ...core.base.dtypes import dtype
from ...core.base.tensor import TensorBase
from ...core.places.join import stack
from ...core.views.views import view_as_complex, view_as_real

CATEGORIES = {"bool": 0, "uint8": 1, "int8": 1, "int16": 1, "int32": 1, "int64": 1}


def named_result(name: str, *fields: str) -> Any:
    """The class of an operation's results that have names; `flambeau.return_types` has them all, and pickle finds them there."""
    made = RESULTS[name] = namedtuple(name, fields, module=display.public("return_types"))  # type: ignore[misc]
    return made


RESULTS: dict[str, Any] = {}


def category(d: dtype) -> int:
    """0 for bool, 1 for integers, 2 for floating-point numbers, 3 for complex ones."""
    return 3 if d.is_complex else CATEGORIES.get(d.name, 2)


def copied(input: TensorBase, shape: Sequence[int]) -> TensorBase:
    """A copy of the elements with that shape, also where `reshape` gives a view."""
    found = input.reshape(shape)
    return found.clone() if found is input or found._is_view() else found


def into(out: TensorBase | None, found: TensorBase, who: str) -> TensorBase:
    """`found` itself, or written to `out=`, which is resized (with a warning where it held elements).

    RuntimeError where `out` is of a lower category of dtypes, or where one of the two takes part in the tape.
    """
    if out is None:
        return found
    if not isinstance(out, TensorBase):
        raise TypeError(f"{who}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if category(found.dtype) > category(out.dtype):
        raise RuntimeError(
            f"{who}(): result type {found.dtype} can't be cast to the desired output type {out.dtype}"
        )
    if tape.recording(out, found):
        raise RuntimeError(
            f"{who}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if tuple(out.shape) != tuple(found.shape):
        if out.numel():
            warnings.warn(
                f"{who}(): an output with one or more elements was resized since it had shape {list(out.shape)}, "
                f"which does not match the required output shape {list(found.shape)}.",
                stacklevel=3,
            )
        out.resize_(found.shape)
    return out.copy_(found)


def accepts_out(function: Callable) -> Callable:
    """Give a function of tensors the keyword `out=`: a tensor, or as many as it returns."""
    name = function.__name__

    @functools.wraps(function)
    def with_out(*args: Any, out: Any = None, **named: Any) -> Any:
        found = function(*args, **named)
        if out is None:
            return found
        if not isinstance(found, tuple):
            return into(out, found, name)
        if not isinstance(out, (tuple, list)) or len(out) != len(found):
            raise TypeError(f"{name}(): argument 'out' must be a tuple of {len(found)} Tensors")
        written = [into(o, f, name) for o, f in zip(out, found)]
        return type(found)(*written) if hasattr(found, "_fields") else tuple(written)

    signature = inspect.signature(function)
    keyword = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    with_out.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), keyword]
    )
    return with_out


def each_part(function: Callable, x: TensorBase, *args: Any) -> TensorBase:
    """A linear function of real tensors, of the real and of the imaginary part."""
    pairs = view_as_real(x)
    found = [function(pairs.select(-1, k), *args) for k in range(2)]
    return view_as_complex(stack(found, -1))
