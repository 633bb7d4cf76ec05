"""Half types are computed and accumulated in float32 and rounded once: for operations made of several."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...core.base.dtypes import by_name
from ...core.base.parameters import parameters
from ...core.base.tensor import TensorBase
from .results import into

HALF_TYPES = (by_name["float16"], by_name["bfloat16"])
FLOAT32 = by_name["float32"]


def in_float32(*written: str, beside: bool = False) -> Callable[[Callable], Callable]:
    """Let a function of tensors of one half type see them in float32, and round its results back.

    Arguments named in `written`, which the function writes to, stay what they are.  Half types beside wider ones are left
    to promotion; with `beside`, float32 goes beside a first argument of a half type, whose dtype the results have.
    """

    def enter(function: Callable) -> Callable:
        names = [n for group in parameters(function) for n in group]
        has_out = "out" in names

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            first = args[0] if args else named.get(names[0])
            if not isinstance(first, TensorBase) or first.dtype not in HALF_TYPES:
                return function(*args, **named)
            kind = first.dtype
            if any(
                _of_other_floats(x, kind) and not (beside and x.dtype == FLOAT32)
                for x in (*args, *(x for n, x in named.items() if n != "out"))
            ):
                return function(*args, **named)
            out = named.pop("out", None) if has_out else None  # written once the result is rounded
            result = function(
                *[
                    x if k < len(names) and names[k] in written else _as(x, kind, FLOAT32)
                    for k, x in enumerate(args)
                ],
                **{n: x if n in written else _as(x, kind, FLOAT32) for n, x in named.items()},
            )
            return into(out, _as(result, FLOAT32, kind), function.__name__)

        return call

    return enter


def _of_other_floats(x: Any, kind: Any) -> bool:
    return isinstance(x, TensorBase) and x.dtype != kind and (x.is_floating_point() or x.is_complex())


def _as(x: Any, old: Any, new: Any) -> Any:
    if isinstance(x, TensorBase):
        return x.to(new) if x.dtype == old else x
    if isinstance(x, tuple):
        return (
            type(x)(*(_as(y, old, new) for y in x))
            if hasattr(x, "_fields")
            else tuple(_as(y, old, new) for y in x)
        )
    return x
