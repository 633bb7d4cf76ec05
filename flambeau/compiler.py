"""What programs ask of, and tell, a compiler of graphs, with true answers: there is none yet, every call runs as Python says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .core.base import display
from .core.base.callbacks import set_callback
from .core.base.once import warn_once
from .core.base.spelling import hint
from .nn.modules.module import Module

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
]

F = TypeVar("F", bound=Callable)


def is_compiling() -> bool:
    """Whether a graph is being compiled or exported: False.

    >>> is_compiling()
    False
    """
    return False


def is_dynamo_compiling() -> bool:
    """Whether Python is being traced for a compiler: False.

    >>> is_dynamo_compiling()
    False
    """
    return False


def is_exporting() -> bool:
    """Whether a graph is being exported: False.

    >>> is_exporting()
    False
    """
    return False


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of compilers: none.

    Raises nothing.

    >>> list_backends()
    []
    """
    return []


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keep a function, class or module from being compiled: it is returned as it is. Without `fn`, a decorator.

    TypeError where `fn` cannot be called.

    >>> @disable
    ... def double(x):
    ...     return 2 * x
    >>> double(2)
    4
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    return _kept("disable", fn)


def allow_in_graph(fn: Any) -> Any:
    """Let a function, or each of a list, stand in graphs unseen: returned as it is.

    Raises:
        TypeError: the argument cannot be called

    >>> allow_in_graph(len) is len
    True
    """
    if isinstance(fn, (list, tuple)):
        return [_kept("allow_in_graph", f) for f in fn]
    return _kept("allow_in_graph", fn)


def assume_constant_result(fn: F) -> F:
    """Let a compiler take a function's result for constant: returned as it is.

    Raises:
        TypeError: the argument cannot be called

    >>> assume_constant_result(len) is len
    True
    """
    return _kept("assume_constant_result", fn)


def _kept(name: str, fn: Any) -> Any:
    if not callable(fn):
        raise TypeError(f"{name}(): expected something that can be called, got {type(fn).__name__}")
    return fn


def reset() -> None:
    """Forget all compiled graphs, of which there are none. Kernels stay: they are right for any program.

    >>> reset()
    """


def cudagraph_mark_step_begin() -> None:
    """Tell that a new step begins, to graphs captured by a compiler, of which there are none.

    >>> cudagraph_mark_step_begin()
    """


_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")
_AS_PYTHON = (
    "eager",
    "eager_noexcept",
    "aot_eager",
)  # backends whose meaning is to run what was captured as it stands


class OptimizedModule(Module):
    """What `compile` returns for a module: another module around it, `_orig_mod`, with its attributes and its call.

    Shape:
        as of the module

    Raises:
        AttributeError: the argument is no module

    >>> import flambeau as torch
    >>> inner = torch.nn.Linear(2, 2)
    >>> outer = torch.compile(inner, backend="eager")
    >>> outer._orig_mod is inner, outer.weight is inner.weight, list(outer.state_dict())
    (True, True, ['_orig_mod.weight', '_orig_mod.bias'])
    """

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._orig_mod = mod
        self.train(mod.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._orig_mod(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A function as it is, or a module in an `OptimizedModule`, that runs as Python says: graphs are not compiled yet, which
    is warned of once in a process, unless `backend` is one that runs graphs as they stand ("eager", "aot_eager").

    Without `model`, a decorator. With `disable`, what was given. RuntimeError for an unknown `mode`, for both `mode` and
    `options`, and for what is neither a function nor a module; NotImplementedError for a `backend` that is a function, as it
    would be given a graph; ValueError for an unknown name of one.

    >>> import flambeau as torch
    >>> @torch.compile(backend="eager")
    ... def double(x):
    ...     return 2 * x
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if callable(backend):
        name = getattr(backend, "__name__", type(backend).__name__)
        raise NotImplementedError(
            f"compile(): backend {name} would be given a graph, and {display.NAME} captures none yet; backend='eager' runs as Python"
        )
    known = ("inductor", "cudagraphs", *_AS_PYTHON)
    if backend not in known:
        raise ValueError(
            f"compile(): Invalid backend: {backend!r}, wanted one of {', '.join(known)}{hint(str(backend), known)}"
        )
    if model is None:
        return lambda fn: compile(
            fn,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
        )
    if not callable(model):
        raise RuntimeError(f"compile(): expected a function or a Module, got {type(model).__name__}")
    if disable:
        return model
    if backend not in _AS_PYTHON:
        warn_once(
            f"{display.NAME}.compile: graphs are not compiled yet; what is compiled runs as Python says, with the same results "
            "(backend='eager' says that this is meant)",
            stacklevel=3,
        )
    return OptimizedModule(model) if isinstance(model, Module) else model


def _compiled_module(module: Module, *args: Any, **kwargs: Any) -> None:
    compile(module.forward, *args, **kwargs)


set_callback("compiled module", _compiled_module)
