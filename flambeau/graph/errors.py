"""Errors of `compile`."""

from __future__ import annotations

from typing import Any


class TorchDynamoException(RuntimeError):
    """Any error of the compiler."""


class Unsupported(TorchDynamoException):
    """Python that is not captured, where `fullgraph=True` wants it to be.

    >>> from flambeau.graph.errors import Unsupported
    >>> Unsupported("prints").msg
    'prints'
    """

    def __init__(self, msg: str, **context: Any) -> None:
        super().__init__(msg)
        self.msg = msg


class InvalidBackend(TorchDynamoException, ValueError):
    """The name of a backend that there is not."""


class UserError(TorchDynamoException):
    """A program, or what is said of its sizes, that cannot be exported: PyTorch's `torch._dynamo.exc.UserError`.

    >>> from flambeau.export.errors import UserError
    >>> issubclass(UserError, RuntimeError)
    True
    """


class RecompileError(TorchDynamoException):
    """A call that would have been captured anew where that is an error."""


class FailOnRecompileLimitHit(Exception):
    """A function with as many captures as it may have, and a call that none of them is right for."""


class BackendCompilerFailed(TorchDynamoException):
    """An error of a backend, which is its `inner_exception`.

    >>> from flambeau.graph.errors import BackendCompilerFailed
    >>> str(BackendCompilerFailed(len, ValueError("no")))
    "backend='len' raised:\\nValueError: no"
    """

    def __init__(self, backend: Any, inner_exception: Exception, *_: Any) -> None:
        self.backend_name = getattr(backend, "__name__", str(backend))
        self.inner_exception = inner_exception
        super().__init__(
            f"backend={self.backend_name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}"
        )
