"""TorchScript, as it is where it is switched off (PyTorch's `PYTORCH_JIT=0`): there are no graphs, so scripts are the Python they
are written in, and nothing is being scripted or traced.

What would need a graph (`trace`, `freeze`, `save`) is an AttributeError that says so.

>>> import flambeau as torch
>>> @torch.jit.script
... def double(x: torch.Tensor) -> torch.Tensor:
...     return 2 * x
>>> double(torch.ones(2)), torch.jit.is_scripting()
(tensor([2., 2.]), False)
"""

from __future__ import annotations

import builtins as _builtins
from collections.abc import Callable as _Callable
from typing import Any as _Any
from typing import Final
from typing import TypeVar as _TypeVar

from .._compat.absent import refusing as _refusing
from .._compat.absent import unmakeable as _unmakeable
from ..futures import Future
from ..nn.modules.module import Module as _Module
from .annotations import BroadcastingList1 as _  # noqa: F401  `jit.annotations`, until here a feature of __future__

__all__ = [
    "Final",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "Future",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "script",
    "script_if_tracing",
    "script_method",
    "unused",
]

T = _TypeVar("T")
F = _TypeVar("F", bound=_Callable)

ScriptModule = _unmakeable("jit.ScriptModule", (_Module,))
RecursiveScriptModule = _unmakeable("jit.RecursiveScriptModule", (ScriptModule,))
ScriptFunction = _unmakeable("jit.ScriptFunction")


def is_scripting() -> bool:
    """Whether a script is being compiled: False.

    >>> is_scripting()
    False
    """
    return False


def is_tracing() -> bool:
    """Whether a function is being traced: False.

    >>> is_tracing()
    False
    """
    return False


def script(
    obj: T, optimize: _Any = None, _frames_up: int = 0, _rcb: _Any = None, example_inputs: _Any = None
) -> T:
    """A function, class or module as it is: it runs as Python, like with `PYTORCH_JIT=0` in PyTorch.

    What scripting would check (types, a subset of Python) is not checked. TypeError for what is none of these.

    >>> script(len) is len
    True
    """
    if not callable(obj):
        raise TypeError(f"jit.script(): expected a function, a class or a Module, got {type(obj).__name__}")
    return obj


def script_method(fn: F) -> F:
    """A method as it is: see `script`.

    Raises:
        TypeError: the argument is neither a function, a class nor a Module

    >>> script_method(len) is len
    True
    """
    return script(fn)


def script_if_tracing(fn: F) -> F:
    """A function as it is: scripted only while something is traced, which nothing is.

    Raises:
        TypeError: the argument is neither a function, a class nor a Module

    >>> script_if_tracing(len) is len
    True
    """
    return script(fn)


def export(fn: F) -> F:
    """Mark a method that is scripted beside `forward`: returned as it is.

    Raises nothing.

    >>> export(len) is len
    True
    """
    return fn


def unused(fn: F) -> F:
    """Mark a function that scripts must not call: returned as it is, with PyTorch's mark on it where it takes one.

    Raises nothing.

    >>> unused(len) is len
    True
    """
    return fn


def ignore(drop: _Any = False, **options: _Any) -> _Any:
    """Mark a function that scripts leave to Python: returned as it is. With `drop=…` a decorator.

    RuntimeError for an argument that is neither a function nor a bool.

    >>> ignore(len) is ignore(drop=True)(len) is len
    True
    """
    if callable(drop):
        return drop
    if not _builtins.isinstance(drop, bool):
        raise RuntimeError(f"Argument to @jit.ignore must be a bool or a function but got {drop}")
    return lambda fn: fn


def interface(obj: T) -> T:
    """A class whose methods scripts may take from another: returned as it is. RuntimeError for what is no class.

    >>> interface(dict) is dict
    True
    """
    if not _builtins.isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    return obj


def annotate(the_type: _Any, the_value: T) -> T:
    """A value as it is: the type is for scripts.

    Raises nothing.

    >>> annotate(list, [])
    []
    """
    return the_value


def isinstance(obj: _Any, target_type: _Any) -> bool:
    """`isinstance`, and for `list[int]`, `Optional[…]` and kin whether all that is inside is of that type.

    Raises:
        TypeError: the second argument is no type

    >>> isinstance([1, 2], list[int]), isinstance([1, "a"], list[int]), isinstance(None, int | None)
    (True, False, True)
    """
    from ._containers import fits

    return fits(obj, target_type)


_overload = _overload_method = export  # PyTorch's own spellings of marks for scripts
_script_if_tracing = script_if_tracing
__getattr__ = _refusing("jit")
