"""Whether operations are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..core.tape import _set_grad_enabled, is_grad_enabled

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A context manager that is also a decorator; re-entrant, because each use is an object of its own."""

    enabled = False

    def __init__(self, function: Callable | None = None):
        self.before: list[bool] = []

    def __new__(cls, function: Callable | None = None):
        self = super().__new__(cls)
        if callable(function):  # used as a bare decorator: @no_grad
            self.before = []
            return self(function)
        return self

    def __enter__(self):
        self.before.append(_set_grad_enabled(self.enabled))

    def __exit__(self, *exception) -> None:
        _set_grad_enabled(self.before.pop())

    def __call__(self, function: F) -> F:
        enabled = self.enabled

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            before = _set_grad_enabled(enabled)
            try:
                return function(*args, **kwargs)
            finally:
                _set_grad_enabled(before)

        return wrapped  # type: ignore[return-value]


class no_grad(_Mode):
    """Operations inside are not recorded.

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with flambeau.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    enabled = False


class enable_grad(_Mode):
    """Operations inside are recorded, also within `no_grad`."""

    enabled = True


class set_grad_enabled(_Mode):
    """Switch recording on or off: at once, and, used with `with`, until the end of the block."""

    def __new__(cls, mode: bool):
        return object.__new__(cls)

    def __init__(self, mode: bool):
        self.enabled = bool(mode)
        self.before = [_set_grad_enabled(self.enabled)]

    def __enter__(self):
        _set_grad_enabled(self.enabled)

    def __exit__(self, *exception) -> None:
        _set_grad_enabled(self.before[0])

    def __call__(self, function: F) -> F:
        _set_grad_enabled(self.before[0])  # as a decorator it acts inside the function alone
        return _Mode.__call__(self, function)


class inference_mode(_Mode):
    """Operations inside are not recorded, as with `no_grad`; `inference_mode(False)` records."""

    def __new__(cls, mode: bool | Callable = True):
        if callable(mode):
            return object.__new__(cls)._init(True)(mode)
        return object.__new__(cls)

    def __init__(self, mode: bool = True):
        self._init(not mode)

    def _init(self, enabled):
        self.enabled, self.before = bool(enabled) if not callable(enabled) else False, []
        return self


def is_inference_mode_enabled() -> bool:
    """Whether recording is off in this thread."""
    return not is_grad_enabled()
