"""Whether operations are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`.

The modes belong to the thread that sets them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..core.base.memory import _set_inference, is_inference_mode_enabled
from ..core.tape import _set_grad_enabled, is_grad_enabled
from ..core.tape.contexts import F, Mode, enable_grad

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


class no_grad(Mode):
    """Operations inside are not recorded.

    Raises nothing.

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with flambeau.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    enabled = False


class set_grad_enabled(Mode):
    """Switch recording on or off: at once, and, used with `with`, until the end of the block.

    Raises:
        TypeError: there is no argument

    >>> import flambeau
    >>> with flambeau.set_grad_enabled(False):
    ...     flambeau.is_grad_enabled()
    False
    >>> flambeau.is_grad_enabled()
    True
    """

    def __new__(cls, mode: bool) -> Any:
        return object.__new__(cls)

    def __init__(self, mode: bool):
        self.enabled = bool(mode)
        self.before = [_set_grad_enabled(self.enabled)]

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.enabled)

    def __enter__(self) -> None:
        _set_grad_enabled(self.enabled)

    def __exit__(self, *exception: object) -> None:
        _set_grad_enabled(self.before[0])

    def __call__(self, function: F) -> F:
        _set_grad_enabled(self.before[0])  # as a decorator it acts inside the function alone
        return Mode.__call__(self, function)


class inference_mode(Mode):
    """Operations inside are not recorded, and tensors made inside never will be: the tape cannot save them,
    and their writes are not counted. `inference_mode(False)` ends both for its block.

    Raises:
        RuntimeError: the tape is to save a tensor that was made inside

    >>> import flambeau
    >>> with flambeau.inference_mode():
    ...     y = flambeau.ones(2)
    >>> y.is_inference()
    True
    """

    def __new__(cls, mode: bool | Callable = True) -> Any:
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

    def __exit__(self, *exception: object) -> None:
        recording, inferring = self.before.pop()
        _set_grad_enabled(recording)
        _set_inference(inferring)


_multithreading = threading.local()


class set_multithreading_enabled:
    """Allow backward to use threads of its own in this thread's calls, or no longer: at once, and, used with `with`, until the
    end of the block.

    It is a permission of which nothing here makes use: a backward pass goes from node to node in the thread that asks for
    it, and each node's work is shared over the pool as any operation's.

    Raises nothing.

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with flambeau.autograd.set_multithreading_enabled(False):
    ...     (x * 2).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self.before = is_multithreading_enabled()
        _multithreading.on = self.mode

    def __enter__(self) -> None:
        _multithreading.on = self.mode

    def __exit__(self, *exception: object) -> None:
        _multithreading.on = self.before

    def clone(self) -> set_multithreading_enabled:
        return set_multithreading_enabled(self.mode)


def is_multithreading_enabled() -> bool:
    """What this thread last set; True at first."""
    return getattr(_multithreading, "on", True)
