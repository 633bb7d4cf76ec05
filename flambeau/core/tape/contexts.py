"""Contexts that switch recording for a block, or as decorators for a function: their base, and the one inside operations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..base.parameters import is_generator
from .modes import _set_grad_enabled, _set_tracking

F = TypeVar("F", bound=Callable[..., Any])


class Mode:
    """A context manager that is also a decorator, of functions and of generators; it may be entered again
    while it is active.
    """

    enabled = False

    def __init__(self, function: Callable | None = None):
        self.before: list[Any] = []

    def __new__(cls, function: Callable | None = None) -> Any:
        self = super().__new__(cls)
        if callable(function):  # used as a bare decorator: @no_grad
            self.before = []
            return self(function)
        return self

    def clone(self) -> Mode:
        """One of its own for each call of a decorated function."""
        return type(self)()

    def __enter__(self) -> None:
        self.before.append(_set_grad_enabled(self.enabled))

    def __exit__(self, *exception: object) -> None:
        _set_grad_enabled(self.before.pop())

    def __call__(self, function: F) -> F:
        if is_generator(function):
            return _between_yields(self, function)  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


def _between_yields(mode: Mode, function: Callable) -> Callable:
    """A generator whose body runs in the mode, and whose caller, between its steps, does not."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        step: Callable = generator.send
        sent: tuple = (None,)
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


class unrecorded(Mode):
    """For the inside of an operation that records itself: neither history nor tangents are made there."""

    def __enter__(self) -> None:
        self.before.append(_set_tracking(0))

    def __exit__(self, *exception: object) -> None:
        _set_tracking(self.before.pop())


class enable_grad(Mode):
    """Operations inside are recorded, also within `no_grad`.

    Raises nothing.

    >>> import flambeau
    >>> with flambeau.no_grad(), flambeau.enable_grad():
    ...     print(flambeau.is_grad_enabled())
    True
    """

    enabled = True
