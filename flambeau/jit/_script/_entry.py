"""`jit.script`, `jit.freeze` and what goes with them, of whatever they are given."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any

from ...core.base import display
from ...nn.modules.module import Module
from .._modules import RecursiveScriptModule, ScriptFunction, ScriptModule
from ._marks import Written


def script(obj: Any, resolve: Any = None, frames_up: int = 1) -> Any:
    """A function, a module or a class as TorchScript."""
    from ._scripting import script_class, script_function, script_module

    if isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    frame = sys._getframe(frames_up + 1)
    if isinstance(obj, Module):
        return script_module(obj)
    if isinstance(obj, type):
        if issubclass(obj, Module):
            raise RuntimeError(
                f"Type '{obj}' cannot be compiled since it inherits from nn.Module, consider passing an instance instead"
            )
        return script_class(obj, resolve or _from_frame(obj, frame), _is_imported(frame))
    if inspect.ismethod(obj) and isinstance(obj.__self__, Module):
        raise TypeError(
            f"jit.script(): {obj.__qualname__} is a method of a module: script the module, and mark the method with @jit.export"
        )
    if inspect.isfunction(obj):
        return script_function(obj, resolve, _is_imported(frame))
    raise TypeError(f"jit.script(): expected a function, a class or a Module, got {type(obj).__name__}")


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
        found = own(name)
        if found is not MISSING:
            return found
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
            f"{display.NAME}.jit.freeze: modules of jit.script are frozen; one of jit.trace or jit.load has no source that could be compiled again"
        )
    modes = [(m, m.training) for m in original.modules()]
    kept = frozenset(preserved)
    exported = tuple(n for n in preserved if callable(getattr(original, n, None)) and not isinstance(getattr(original, n), Module))
    try:
        original.eval()
        while True:
            try:
                made = script_module(original, exported, kept)
                break
            except Written as written:
                kept |= {str(written)}
    finally:
        for module, mode in modes:
            module.training = mode
    return made.eval() if "training" in kept else made
