"""`jit.script`, `jit.freeze` and what goes with them, of whatever they are given."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from ...core.base import display
from ...nn.modules.module import Module
from .._modules import RecursiveScriptModule, ScriptFunction, ScriptModule
from ..frontend import FrontendError
from ._marks import RESOLVERS, Written

_FUNCTIONS: dict[int, tuple[Any, ScriptFunction]] = {}


def script(obj: Any, resolve: Any = None, frames_up: int = 1) -> Any:
    """A function, a module or a class as TorchScript."""
    if isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    frame = sys._getframe(frames_up + 1)
    if isinstance(obj, Module):
        from ._scripting import script_module

        return script_module(obj)
    if isinstance(obj, type):
        if issubclass(obj, Module):
            raise RuntimeError(
                f"Type '{obj}' cannot be compiled since it inherits from nn.Module, consider passing an instance instead"
            )
        return _class(obj, resolve or _from_frame(obj, frame), _is_imported(frame))
    if inspect.ismethod(obj) and isinstance(obj.__self__, Module):
        raise TypeError(
            f"jit.script(): {obj.__qualname__} is a method of a module: script the module, and mark the method with @jit.export"
        )
    if inspect.isfunction(obj):
        return _function(obj, resolve, _is_imported(frame))
    raise TypeError(f"jit.script(): expected a function, a class or a Module, got {type(obj).__name__}")


def _function(f: Any, resolve: Any, lazily: bool) -> ScriptFunction:
    """A function as a ScriptFunction.

    `lazily`: it is compiled when it is first called, and where it cannot be, a warning says so and it runs as Python.
    """
    entry = _FUNCTIONS.get(id(f))
    if entry is not None and entry[0] is f:
        return entry[1]
    made = ScriptFunction._named(f.__name__, f)
    if lazily:
        made.__dict__["_pending"] = lambda made, called: _when_used(made, f, resolve, called)
    else:
        from ._scripting import compile_function

        compile_function(made, f, resolve)
    _FUNCTIONS[id(f)] = f, made
    return made


def _when_used(made: ScriptFunction, f: Any, resolve: Any, called: bool) -> None:
    from ._scripting import compile_function

    try:
        compile_function(made, f, resolve)
    except (RuntimeError, OSError, FrontendError) as error:
        if not called:
            raise
        made._call = f
        warnings.warn(
            f"{f.__module__}.{f.__qualname__}, which was scripted while its module was imported, is not compiled here "
            f"and runs as Python: {error}",
            stacklevel=4,
        )


def _class(c: type, resolve: Any, lazily: bool) -> type:
    """A class as it is: it is compiled with every program that uses it, and here, unless `lazily`, to find what TorchScript lacks."""
    RESOLVERS[c] = resolve
    if not lazily:
        from ._scripting import check_class

        check_class(c)
    return c


def _is_imported(frame: Any) -> bool:
    """Whether the module of a frame is being imported."""
    return bool(getattr(frame.f_globals.get("__spec__"), "_initializing", False))


def _from_frame(obj: type, frame: Any) -> Any:
    """What names in a class stand for, those of the function that it is made in among them."""
    from ._source import MISSING, names_of

    own = names_of(obj)
    names, scope = dict(frame.f_locals), frame.f_globals
    names.setdefault(obj.__name__, obj)

    def find(name: str) -> Any:
        result = own(name)
        if result is not MISSING:
            return result
        return names.get(name, scope.get(name, MISSING))

    return find


def freeze(mod: Any, preserved: Sequence[str] = ()) -> RecursiveScriptModule:
    """A scripted module in eval mode with its parameters and attributes as constants of its code."""
    from ._scripting import script_module

    if not isinstance(mod, RecursiveScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your 'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing."
        )
    original = mod.__dict__.get("_original")
    if original is None:
        raise NotImplementedError(
            f"{display.NAME}.jit.freeze: modules of jit.script are frozen; one of jit.trace or jit.load has no source "
            "that could be compiled again"
        )
    modes = [(m, m.training) for m in original.modules()]
    preserved_names = frozenset(preserved)
    exported = tuple(
        n
        for n in preserved
        if callable(getattr(original, n, None)) and not isinstance(getattr(original, n), Module)
    )
    try:
        original.eval()
        while True:
            try:
                made = script_module(original, exported, preserved_names)
                break
            except Written as written:
                preserved_names |= {str(written)}
    finally:
        for module, mode in modes:
            module.training = mode
    return made.eval() if "training" in preserved_names else made
