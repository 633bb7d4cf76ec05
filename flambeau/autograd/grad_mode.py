"""Whether operations are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`.

The modes belong to the thread that sets them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ..core.base.memory import _set_inference, is_inference_mode_enabled
from ..core.tape import _set_grad_enabled, _set_recording, is_grad_enabled

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A context manager that is also a decorator, of functions and of generators; it may be entered again
    while it is active.
    """

    enabled = False

    def __init__(self, function: Callable | None = None):
        self.before: list[Any] = []

    def __new__(cls, function: Callable | None = None):
        self = super().__new__(cls)
        if callable(function):  # used as a bare decorator: @no_grad
            self.before = []
            return self(function)
        return self

    def clone(self) -> _Mode:
        """One of its own for each call of a decorated function."""
        return type(self)()

    def __enter__(self) -> None:
        self.before.append(_set_grad_enabled(self.enabled))

    def __exit__(self, *exception) -> None:
        _set_grad_enabled(self.before.pop())

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):
            return _between_yields(self, function)  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


def _between_yields(mode: _Mode, function: Callable) -> Callable:
    """A generator whose body runs in the mode, and whose caller, between its steps, does not."""

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        generator = function(*args, **kwargs)
        step, sent = generator.send, (None,)
        while True:
            try:
                with mode.clone():
                    value = step(*sent)
            except StopIteration as stop:
                return stop.value
            try:
                sent = ((yield value),)
                step = generator.send
            except GeneratorExit:
                with mode.clone():
                    generator.close()
                raise
            except BaseException as error:
                step, sent = generator.throw, (error,)

    return wrapped


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


class unrecorded(_Mode):
    """For the inside of an operation that records itself: neither history nor tangents are made there."""

    def __enter__(self) -> None:
        self.before.append(_set_recording(0))

    def __exit__(self, *exception) -> None:
        _set_recording(self.before.pop())


class set_grad_enabled(_Mode):
    """Switch recording on or off: at once, and, used with `with`, until the end of the block."""

    def __new__(cls, mode: bool):
        return object.__new__(cls)

    def __init__(self, mode: bool):
        self.enabled = bool(mode)
        self.before = [_set_grad_enabled(self.enabled)]

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.enabled)

    def __enter__(self) -> None:
        _set_grad_enabled(self.enabled)

    def __exit__(self, *exception) -> None:
        _set_grad_enabled(self.before[0])

    def __call__(self, function: F) -> F:
        _set_grad_enabled(self.before[0])  # as a decorator it acts inside the function alone
        return _Mode.__call__(self, function)


class inference_mode(_Mode):
    """Operations inside are not recorded, and tensors made inside never will be: the tape cannot save them,
    and their writes are not counted. `inference_mode(False)` ends both for its block.

    >>> import flambeau
    >>> with flambeau.inference_mode():
    ...     y = flambeau.ones(2)
    >>> y.is_inference()
    True
    """

    def __new__(cls, mode: bool | Callable = True):
        self = object.__new__(cls)
        if callable(mode):
            self.__init__()  # type: ignore[misc]
            return self(mode)
        return self

    def __init__(self, mode: bool = True):
        self.enabled, self.before = not mode, []

    def clone(self) -> inference_mode:
        return inference_mode(not self.enabled)

    def __enter__(self) -> None:
        self.before.append((_set_grad_enabled(self.enabled), _set_inference(not self.enabled)))

    def __exit__(self, *exception) -> None:
        recording, inferring = self.before.pop()
        _set_grad_enabled(recording)
        _set_inference(inferring)
