"""Whether a value fits a type with parameters."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin


def fits(value: Any, kind: Any) -> bool:
    """Whether `value` is a `kind`: a class, a tuple of them, a union, or a list, dict or tuple of such.

    >>> from flambeau.jit._containers import fits
    >>> fits({"a": (1, 2.0)}, dict[str, tuple[int, float]]), fits((1,), tuple[int, int])
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(fits(value, one) for one in kind)
    if kind is None:
        return isinstance(value, NoneType)
    origin, inside = get_origin(kind), get_args(kind)
    if origin is None:
        return isinstance(value, kind)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inside)
    if not isinstance(value, origin):
        return False
    if origin is dict:
        return all(fits(k, inside[0]) and fits(v, inside[1]) for k, v in value.items())
    if origin is tuple and not (len(inside) == 2 and inside[1] is Ellipsis):
        return len(value) == len(inside) and all(fits(v, k) for v, k in zip(value, inside))
    return all(fits(one, inside[0]) for one in value)
