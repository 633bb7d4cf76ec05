"""TorchScript: programs that are kept.  `trace` writes down what a function or a module does with example inputs, `save` writes that to
an archive, `load` reads it back, and those that PyTorch wrote, scripted ones too.

`script` compiles a function or a module from its source, control flow and all.

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
import functools as _functools
from collections.abc import Callable as _Callable
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any
from typing import Final
from typing import TypeVar as _TypeVar

from ..core.base.lazily import lazily as _lazily
from ..futures import Future
from ._intrinsics import annotate, fork, is_scripting, isinstance, wait
from ._modules import RecursiveScriptModule, ScriptFunction, ScriptModule
from ._script._marks import Attribute
from ._script._marks import mark as _mark
from ._script._marks import overload as _entered_overload
from ._state import is_tracing
from .annotations import BroadcastingList1 as _  # noqa: F401  `jit.annotations`, until here a feature of __future__

__all__ = [
    "Attribute",
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
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

T = _TypeVar("T")
F = _TypeVar("F", bound=_Callable)


def script(
    obj: _Any, optimize: _Any = None, _frames_up: int = 0, _rcb: _Any = None, example_inputs: _Any = None
) -> _Any:
    """A function or a module as TorchScript: compiled from its source, in the subset of Python that TorchScript is, with what it calls.

    A function becomes a ScriptFunction, a module a ScriptModule with the same parameters and buffers; a class stays as it is
    and is compiled with each program that uses it.  What TorchScript does not have, and types that do not fit, are errors here, with the
    line.  A function that is scripted while its module is being imported is compiled when it is first called; if it cannot be, a warning
    says so, and it runs as Python.

    Args:
        obj: a function, a module or a class.

    Raises:
        RuntimeError: the program is not of TorchScript, or its types do not fit; the message underlines the place
        OSError: there is no source
        TypeError: the argument is none of these

    >>> import flambeau as torch
    >>> def steps(x: torch.Tensor, n: int) -> torch.Tensor:
    ...     for k in range(n):
    ...         x = x * 2
    ...     return x
    >>> torch.jit.script(steps)(torch.ones(2), 3)
    tensor([8., 8.])
    >>> torch.jit.script(3)
    Traceback (most recent call last):
    TypeError: jit.script(): expected a function, a class or a Module, got int
    """
    from ._script._entry import script as compiled

    return compiled(obj, _rcb, _frames_up + 1)


def script_method(fn: F) -> F:
    """Mark a method of a class that derives from ScriptModule: it runs as TorchScript.

    Raises nothing.

    >>> import flambeau as torch
    >>> class Double(torch.jit.ScriptModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...     @torch.jit.script_method
    ...     def forward(self, x):
    ...         return 2 * x
    >>> Double()(torch.ones(1))
    tensor([2.])
    """
    fn._is_script_method = True  # type: ignore[attr-defined]
    return fn


def script_if_tracing(fn: F) -> F:
    """A function that is scripted while a program is traced, and runs as Python otherwise.

    Raises:
        RuntimeError: as `script`, when it is traced

    >>> import flambeau as torch
    >>> @torch.jit.script_if_tracing
    ... def double(x):
    ...     return 2 * x
    >>> double(torch.ones(1))
    tensor([2.])
    """

    @_functools.wraps(fn)
    def call(*args: _Any, **kwargs: _Any) -> _Any:
        return (script(fn) if is_tracing() else fn)(*args, **kwargs)

    return call  # type: ignore[return-value]


def export(fn: F) -> F:
    """Mark a method that is scripted beside `forward`.

    Raises nothing.

    >>> export(len) is len
    True
    """
    return _mark(fn, "export")  # type: ignore[no-any-return]


def unused(fn: F) -> F:
    """Mark a function that scripts do not compile: where one calls it, an exception is raised when that is reached.

    Raises nothing.

    >>> unused(len) is len
    True
    """
    return _mark(fn, "unused")  # type: ignore[no-any-return]


def ignore(drop: _Any = False, **options: _Any) -> _Any:
    """Mark a function that scripts leave to Python: they call it, and cannot be saved. With `drop=True` it is as `unused`.

    RuntimeError for an argument that is neither a function nor a bool.

    >>> ignore(len) is ignore(drop=True)(len) is len
    True
    """
    if callable(drop):
        return _mark(drop, "ignore")
    if not _builtins.isinstance(drop, bool):
        raise RuntimeError(f"Argument to @jit.ignore must be a bool or a function but got {drop}")
    return lambda fn: _mark(fn, "unused" if drop or options.get("drop_on_export") else "ignore")


def interface(obj: T) -> T:
    """A class that names methods, which scripts may take from any object that has them: marked, and returned as it is.

    RuntimeError for what is no class.

    >>> class Shape:
    ...     def area(self) -> float: ...
    >>> interface(Shape) is Shape
    True
    """
    if not _builtins.isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    if obj.__module__ != "builtins":
        obj.__torch_script_interface__ = True  # type: ignore[attr-defined]
    return obj


def freeze(
    mod: _Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True
) -> RecursiveScriptModule:
    """A scripted module in eval mode with its parameters, buffers and attributes as constants of its code.

    What the program writes, and what `preserved_attrs` names, stays an attribute or a method.  `optimize_numerics` changes nothing.

    Raises:
        RuntimeError: the module is none of `script`, or in training mode
        NotImplementedError: it comes from `trace` or `load`

    >>> import flambeau as torch
    >>> frozen = torch.jit.freeze(torch.jit.script(torch.nn.Linear(2, 1).eval()))
    >>> list(frozen.parameters()), "CONSTANTS.c0" in frozen.code
    ([], True)
    """
    from ._script._entry import freeze as frozen

    return frozen(mod, preserved_attrs or ())


def optimize_for_inference(mod: _Any, other_methods: list[str] | None = None) -> RecursiveScriptModule:
    """A scripted module for eval mode, frozen: there is nothing else that would make it faster here.

    Raises:
        RuntimeError: the module is none of `script`
        NotImplementedError: it comes from `trace` or `load`

    >>> import flambeau as torch
    >>> fast = torch.jit.optimize_for_inference(torch.jit.script(torch.nn.Linear(2, 1).eval()))
    >>> list(fast.parameters())
    []
    """
    if "training" not in getattr(getattr(mod, "script_class", None), "annotations", {"training": None}):
        return mod  # type: ignore[no-any-return]  # frozen before
    return freeze(mod.eval(), other_methods)


_overload = _overload_method = (
    _entered_overload  # PyTorch's own spellings: the signatures that a function has
)
_script_if_tracing = script_if_tracing
_WHERE = {
    "Error": "._host",
    "TracerWarning": "._trace",
    "TracingCheckError": "._program",
    "load": "._loading",
    **dict.fromkeys(("save", "trace", "trace_module"), "._public"),
}
__getattr__, __dir__ = _lazily(__name__, names=_WHERE)
if _TYPE_CHECKING:
    from ._host import Error
    from ._loading import load
    from ._program import TracingCheckError
    from ._public import save, trace, trace_module
    from ._trace import TracerWarning
