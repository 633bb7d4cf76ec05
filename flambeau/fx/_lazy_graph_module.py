"""Modules of graphs whose code is written when somebody calls them or looks at it."""

from __future__ import annotations

import weakref
from typing import Any

from .graph_module import GraphModule


class _LazyGraphModule(GraphModule):
    """A GraphModule that most often only holds its graph: writing and compiling the code takes longer than making the graph.

    >>> import flambeau as torch
    >>> from flambeau.fx._lazy_graph_module import _LazyGraphModule
    >>> traced = torch.fx.symbolic_trace(lambda x: x.relu())
    >>> module = _LazyGraphModule(traced, traced.graph)
    >>> "_code" in vars(module), module(torch.tensor([-1.0])), "_code" in vars(module)
    (False, tensor([0.]), True)
    """

    def recompile(self) -> None:  # type: ignore[override]
        """Let the code be written anew when it is next looked at."""
        self.__dict__.pop("_code", None)
        type(self).forward = _Unwritten(self)  # type: ignore[method-assign, assignment]

    @property
    def code(self) -> str:
        """The Python code of `forward`."""
        return self._code

    def __getattr__(self, name: str) -> Any:
        if name in ("_code", "_lineno_map"):
            self.real_recompile()
            return self.__dict__[name]
        return super().__getattr__(name)


class _Unwritten:
    """Stands where the method `forward` of a module will stand."""

    def __init__(self, module: _LazyGraphModule) -> None:
        self.module = weakref.ref(module)

    def __get__(self, instance: Any, owner: type) -> Any:
        module = self.module()
        if module is None:
            raise AttributeError("forward: the module of this class is gone")
        module.real_recompile()
        return getattr(owner if instance is None else instance, "forward")  # noqa: B009  now a function
