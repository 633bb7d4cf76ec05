"""`symbolic_trace` and `wrap`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from .._compat.absent import refusing
from ..nn.modules.module import Module
from ._tracer import PH, PHBase, PHWithMeta, Tracer, is_tracing, wrapped_functions, wrapped_methods
from ._tracer import assert_is_none as _assert_is_none  # noqa: F401  which generated code calls
from .graph_module import GraphModule

__all__ = [
    "PH",
    "PHBase",
    "PHWithMeta",
    "ProxyableClassMeta",
    "Tracer",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]

F = TypeVar("F", bound=Callable | str)


def is_fx_tracing() -> bool:
    """Whether a function is being traced.

    >>> from flambeau.fx._symbolic_trace import is_fx_tracing
    >>> is_fx_tracing()
    False
    """
    return is_tracing()


is_fx_symbolic_tracing = is_fx_tracing


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple | None = None
) -> GraphModule:
    """The module or function as a GraphModule: what it does with its inputs, run on proxies for them.

    `concrete_args` gives parameters values, so that conditions on them can be decided; in structures `fx.PH` stands for leaves that stay
    inputs.

    Raises:
        TraceError: control flow hangs on a value that is an input; the error names the line
        TypeError: `root` is neither a module nor a function

    >>> import flambeau as torch
    >>> def f(x):
    ...     return torch.relu(x) + 1
    >>> print(torch.fx.symbolic_trace(f).code.strip())
    def forward(self, x):
        relu = flambeau.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", type(root).__name__)
    return GraphModule(tracer.root, graph, name)


def wrap(fn_or_name: F) -> F:
    """Keep a function whole in graphs: called with a proxy it becomes one node.  At the top level of its module, or as a decorator there.

    A name means what the module has under it, or Python's own function: `wrap("len")`.

    Raises:
        RuntimeError: neither a function nor a name
        NotImplementedError: called inside of a function

    >>> import flambeau as torch
    >>> module = compile('''
    ... import flambeau as torch
    ... torch.fx.wrap("len")
    ... traced = torch.fx.symbolic_trace(lambda x: len(x))
    ... ''', "module", "exec")
    >>> names = {}
    >>> exec(module, names)
    >>> names["traced"]([1, 2])
    2
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"fx.wrap(): expected a global function or the name of one, got {type(fn_or_name).__name__}"
        )
    frame = inspect.currentframe().f_back  # type: ignore[union-attr]
    name: Any = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    if frame is None or frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    wrapped_functions[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


class ProxyableClassMeta(type):
    """The metaclass of classes whose construction from proxies becomes one node.

    >>> import flambeau as torch
    >>> from flambeau.fx import ProxyableClassMeta
    >>> class Pair(metaclass=ProxyableClassMeta):
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> [n.name for n in torch.fx.symbolic_trace(lambda x: Pair(x, 1)).graph.nodes]
    ['x', 'pair', 'output']
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        from ._tracer import find_proxy

        proxy = find_proxy(args, kwargs) if is_tracing() else None
        if proxy is None:
            return super().__call__(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", cls, args, kwargs)


_wrapped_methods_to_patch = wrapped_methods
_wrapped_fns_to_patch = wrapped_functions
__getattr__ = refusing("fx._symbolic_trace")
