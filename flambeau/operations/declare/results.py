"""What operations written in Python share: `out=`, and complex numbers as pairs of real ones."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from ...core.base import display
from ...core.base.parameters import BY_NAME, MISSING, described
from ...core.base.tensor import TensorBase
from ...core.call.destination import check_out
from ...core.call.out import category, into, overwrite, write_over  # noqa: F401  what declares finds all here
from .registry import REGISTRY


def named_result(name: str, *fields: str) -> Any:
    """The class of an operation's results that have names; `flambeau.return_types` has them all, and pickle finds them there."""
    made = RESULTS[name] = namedtuple(name, fields, module=display.public("return_types"))  # type: ignore[misc]
    made.__doc__ = f"What `{name}` gives: {', '.join(fields)}."
    made.__repr__ = _shown  # type: ignore[method-assign]
    return made


def _shown(result: Any) -> str:
    """A field a line, so that the rows of matrices stand below each other."""
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(result._fields, result))
    return f"{type(result).__module__}.{type(result).__name__}(\n{fields})"


RESULTS: dict[str, Any] = {}


def copied(input: TensorBase, shape: Sequence[int]) -> TensorBase:
    """A copy of the elements with that shape, also where `reshape` gives a view."""
    result = input.reshape(shape)
    return result.clone() if result is input or result._is_view() else result


def accepts_out(function: Callable | None = None, *, exact: bool = False) -> Callable:
    """Give a function of tensors the keyword `out=`: a tensor, or as many as it returns; `exact`: of the results' dtypes."""
    if function is None:
        return functools.partial(accepts_out, exact=exact)
    name = function.__name__

    @functools.wraps(function)
    def with_out(*args: Any, out: Any = None, **named: Any) -> Any:
        if out is None:
            return function(*args, **named)
        for each in out if isinstance(out, (tuple, list)) else (out,):
            check_out(name, each, (*args, *named.values()))
        result = function(*args, **named)
        if not isinstance(result, tuple):
            return into(out, result, name, exact)
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(f"{name}(): argument 'out' must be a tuple of {len(result)} Tensors")
        written = [into(o, f, name, exact) for o, f in zip(out, result)]
        return type(result)(*written) if hasattr(result, "_fields") else tuple(written)

    with_out.describe_parameters = lambda: [*described(function), ("out", BY_NAME, None, MISSING)]  # type: ignore[attr-defined]
    return with_out


def each_part(function: Callable, x: TensorBase, *args: Any) -> TensorBase:
    """A linear function of real tensors, of the real and of the imaginary part."""
    return REGISTRY["complex"].function(function(x.real, *args), function(x.imag, *args))
