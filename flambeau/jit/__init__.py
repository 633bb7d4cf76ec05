"""TorchScript: programs that are kept.  `trace` writes down what a function or a module does with example inputs, `save` writes that to
an archive, `load` reads it back, and those that PyTorch wrote, scripted ones too.

`script` is as where it is switched off in PyTorch (`PYTORCH_JIT=0`): scripts are the Python they are written in.

>>> import io
>>> import flambeau as torch
>>> traced = torch.jit.trace(lambda x: x.relu() * 2, torch.ones(2))
>>> file = io.BytesIO()
>>> torch.jit.save(traced, file)
>>> _ = file.seek(0)
>>> torch.jit.load(file)(torch.tensor([-1.0, 3.0]))
tensor([0., 6.])
>>> @torch.jit.script
... def double(x: torch.Tensor) -> torch.Tensor:
...     return 2 * x
>>> double(torch.ones(2)), torch.jit.is_scripting()
(tensor([2., 2.]), False)
"""

from __future__ import annotations

import builtins as _builtins
from collections.abc import Callable as _Callable
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any
from typing import Final
from typing import TypeVar as _TypeVar

from ..core.base.lazily import lazily as _lazily
from ..futures import Future
from ._modules import RecursiveScriptModule, ScriptFunction, ScriptModule
from ._state import is_tracing
from .annotations import BroadcastingList1 as _  # noqa: F401  `jit.annotations`, until here a feature of __future__

__all__ = [
    "Error",
    "Final",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "TracerWarning",
    "TracingCheckError",
    "annotate",
    "Future",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
]

T = _TypeVar("T")
F = _TypeVar("F", bound=_Callable)


def is_scripting() -> bool:
    """Whether a script is being compiled: False.

    >>> is_scripting()
    False
    """
    return False


def script(
    obj: _Any, optimize: _Any = None, _frames_up: int = 0, _rcb: _Any = None, example_inputs: _Any = None
) -> _Any:
    from ._script._entry import script as compiled

    return compiled(obj, _rcb, _frames_up + 1)


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


def fork(func: _Callable, *args: _Any, **kwargs: _Any) -> Future:
    """A call, whose result a Future holds."""
    from ._own import _future

    return _future(func(*args, **kwargs))


def wait(future: Future) -> _Any:
    """The result of a Future."""
    return future.wait()


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
_WHERE = {
    "Error": "._host",
    "TracerWarning": "._trace",
    "TracingCheckError": "._program",
    **dict.fromkeys(("load", "save", "trace", "trace_module"), "._public"),
}
__getattr__, __dir__ = _lazily(__name__, names=_WHERE)
if _TYPE_CHECKING:
    from ._host import Error
    from ._program import TracingCheckError
    from ._public import load, save, trace, trace_module
    from ._trace import TracerWarning
