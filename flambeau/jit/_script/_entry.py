"""`jit.script` of whatever it is given."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from ...nn.modules.module import Module
from .._modules import ScriptFunction, ScriptModule


def script(obj: Any, resolve: Any = None, frames_up: int = 1) -> Any:
    """A function, a module or a class as TorchScript."""
    from ._scripting import script_class, script_function, script_module

    if isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    if isinstance(obj, Module):
        return script_module(obj)
    if isinstance(obj, type):
        return script_class(obj, resolve or _from_frame(obj, sys._getframe(frames_up + 1)))
    if inspect.ismethod(obj) or inspect.isfunction(obj):
        return script_function(obj, resolve)
    raise TypeError(f"jit.script(): expected a function, a class or a Module, got {type(obj).__name__}")


def _from_frame(obj: type, frame: Any) -> Any:
    from ._source import MISSING, names_of

    own = names_of(obj)
    names, scope = dict(frame.f_locals), frame.f_globals
    names.setdefault(obj.__name__, obj)

    def find(name: str) -> Any:
        found = own(name)
        if found is not MISSING:
            return found
        return names.get(name, scope.get(name, MISSING))

    return find
