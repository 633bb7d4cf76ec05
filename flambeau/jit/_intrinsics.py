"""What programs ask and call of TorchScript, and scripts know by itself."""

from __future__ import annotations

from collections.abc import Callable as _Callable
from typing import Any as _Any
from typing import TypeVar as _TypeVar

from ..futures import Future
from ._containers import fits

T = _TypeVar("T")


def is_scripting() -> bool:
    """Whether a program runs as TorchScript: False in Python, True in what `script` compiles.

    Raises nothing.

    >>> is_scripting()
    False
    """
    return False


def annotate(the_type: _Any, the_value: T) -> T:
    """A value as it is: the type is for scripts.

    Raises nothing.

    >>> annotate(list, [])
    []
    """
    return the_value


def fork(func: _Callable, *args: _Any, **kwargs: _Any) -> Future:
    """A call, whose result a Future holds.  It is made at once: operations themselves use all processors.

    Raises:
        Exception: whatever the call raises

    >>> import flambeau as torch
    >>> future = torch.jit.fork(torch.add, torch.ones(2), 1)
    >>> torch.jit.wait(future)
    tensor([2., 2.])
    """
    from ..library._own import _future

    return _future(func(*args, **kwargs))


def wait(future: Future) -> _Any:
    """The result of a Future, as soon as it is there.

    Raises:
        Exception: whatever the call has raised

    >>> wait(fork(len, [1, 2]))
    2
    """
    return future.wait()


def isinstance(obj: _Any, target_type: _Any) -> bool:
    """`isinstance`, and for `list[int]`, `Optional[…]` and kin whether all that is inside is of that type.

    Raises:
        TypeError: the second argument is no type

    >>> isinstance([1, 2], list[int]), isinstance([1, "a"], list[int]), isinstance(None, int | None)
    (True, False, True)
    """
    return fits(obj, target_type)
