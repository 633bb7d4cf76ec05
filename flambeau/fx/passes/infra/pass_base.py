"""What a pass is, and what it returns."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The module, and whether the pass has changed it."""

    graph_module: Any
    modified: bool


class PassBase(abc.ABC):
    """A pass: `call` does it, `requires` and `ensures` check the module before and after.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.infra.pass_base import PassBase, PassResult
    >>> class Clean(PassBase):
    ...     def call(self, graph_module):
    ...         return PassResult(graph_module, graph_module.graph.eliminate_dead_code())
    >>> Clean()(torch.fx.symbolic_trace(lambda x: x)).modified
    False
    """

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Do the pass."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise where the module is not fit for the pass."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise where the pass has left the module wrong."""
