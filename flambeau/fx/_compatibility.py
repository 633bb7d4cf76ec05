"""The mark of functions whose interface stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .._compat.absent import refusing

__all__ = ["compatibility"]

T = TypeVar("T")


def compatibility(is_backward_compatible: bool) -> Callable[[T], T]:
    """A decorator that says, in the docstring, whether an interface stays as it is.

    >>> from flambeau.fx._compatibility import compatibility
    >>> @compatibility(is_backward_compatible=True)
    ... def trace():
    ...     "Traces."
    >>> trace.__doc__.splitlines()[-1].strip()
    'Backwards-compatibility for this API is guaranteed.'
    """
    description = "guaranteed" if is_backward_compatible else "not guaranteed; it may change in any release"

    def mark(fn: T) -> T:
        fn.__doc__ = f"{fn.__doc__ or ''}\n\n    Backwards-compatibility for this API is {description}.\n"
        return fn

    return mark


__getattr__ = refusing("fx._compatibility")
