"""An exception of a worker, on its way to whoever uses the loader."""

from __future__ import annotations

import sys
import traceback
from typing import Any, NoReturn


class KeyErrorMessage(str):
    """Text that a KeyError shows as it is, not as `repr` would."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """The exception now being handled, as its class and the text of its traceback.

    It keeps no frame and no object of the program, so that it can be sent to another process.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind: Any
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where
        self._name = kind.__name__

    def without_class(self) -> ExceptionWrapper:
        """The same, raised as RuntimeError: for a class that another process cannot find."""
        self.exc_type = RuntimeError
        return self

    def reraise(self) -> NoReturn:
        """Raises an exception of the same class with the other traceback in its message; RuntimeError where the class
        cannot be made of one message.
        """
        text = f"Caught {self._name} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            text = KeyErrorMessage(text)
        try:
            if getattr(self.exc_type, "message", None):
                error = self.exc_type(message=text)
            else:
                error = self.exc_type(text)
        except Exception:
            error = None
        if not isinstance(error, Exception):
            raise RuntimeError(text) from None
        raise error


class Unreadable(ExceptionWrapper):
    """A batch that has come and cannot be read, to be raised in its turn."""

    def __init__(self, error: RuntimeError, cause: Exception) -> None:
        self._error, self._cause = error, cause

    def reraise(self) -> NoReturn:
        raise self._error from self._cause
