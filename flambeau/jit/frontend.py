"""What TorchScript's compiler raises for Python that TorchScript does not have."""

from __future__ import annotations

from .._compat.absent import refusing


class FrontendError(Exception):
    """A program that is not of TorchScript; the message has the lines around the place, which is underlined.

    Raises nothing.

    >>> import flambeau as torch
    >>> issubclass(torch.jit.frontend.NotSupportedError, torch.jit.frontend.FrontendError)
    True
    """


class NotSupportedError(FrontendError):
    """Python that TorchScript does not have.

    Raises nothing.

    >>> import flambeau as torch
    >>> def f(x):
    ...     return f"{x!r}"
    >>> try:
    ...     torch.jit.script(f)
    ... except torch.jit.frontend.NotSupportedError as error:
    ...     print(str(error).partition(":")[0])
    Don't support conversion in JoinedStr
    """


class UnsupportedNodeError(NotSupportedError):
    """A statement or an expression that TorchScript does not have.

    Raises nothing.

    >>> import flambeau as torch
    >>> def f(x):
    ...     return {x}
    >>> try:
    ...     torch.jit.script(f)
    ... except torch.jit.frontend.UnsupportedNodeError as error:
    ...     print(str(error).partition(":")[0])
    Set aren't supported
    """


__getattr__ = refusing("jit.frontend")
