"""A model as a graph to be quantised: traced, with layers that stand behind each other put into one."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from .. import nn
from ..fx._tracer import Tracer
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..nn.quantized import FloatFunctional
from ._fuse import FUSERS, fuse_known_modules
from ._graph_configs import PrepareCustomConfig, QuantType
from ._graph_roles import is_relu


class QuantizationTracer(Tracer):
    """A tracer that keeps whole what a `PrepareCustomConfig` names, and classes that are swapped for a program's own."""

    def __init__(self, custom: PrepareCustomConfig) -> None:
        super().__init__()
        self._names = set(custom.non_traceable_module_names)
        self._kinds = (
            *custom.non_traceable_module_classes,
            *custom.float_to_observed_mapping.get(QuantType.STATIC, {}),
        )

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Whether a module stays one node."""
        named = module_qualified_name in self._names or isinstance(m, self._kinds)
        fused = type(m).__module__.startswith(nn.__name__.replace(".nn", ".ao.nn"))
        return named or fused or super().is_leaf_module(m, module_qualified_name)


def traced(
    model: Any, custom: PrepareCustomConfig, preserved: Any = ()
) -> tuple[GraphModule, dict[str, tuple]]:
    """The graph of a copy of a model, and the module that each node was traced in: its dotted name and class."""
    model = copy.deepcopy(model)
    tracer = QuantizationTracer(custom)
    graph = tracer.trace(model)
    _without_functionals(graph, dict(model.named_modules()))
    made = GraphModule(model, graph)
    made.train(model.training)
    keep_attributes(model, made, (*preserved, *custom.preserved_attributes))
    return made, dict(tracer.node_name_to_scope or {})


def keep_attributes(source: Any, made: Any, names: Any) -> None:
    """Give a module attributes of another, by name, where it has them."""
    for name in names:
        if hasattr(source, name):
            setattr(made, name, getattr(source, name))


def _without_functionals(graph: Any, modules: dict[str, Any]) -> None:
    """Leave of a `FloatFunctional` its operation alone: observers come where the graph needs them."""
    for node in list(graph.nodes):
        owner = str(node.target).rpartition(".")[0]
        if node.op == "call_module" and isinstance(modules.get(owner), FloatFunctional):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def fused(model: GraphModule, training: bool) -> GraphModule:
    """The same graph, in which layers that stand behind each other are one, as `fuse_modules` makes them; `model` is changed."""
    modules = dict(model.named_modules(remove_duplicate=False))
    times = Counter(modules[str(n.target)] for n in model.graph.nodes if n.op == "call_module")
    longest_first = sorted(FUSERS, key=len, reverse=True)
    for node in list(model.graph.nodes):
        for kinds in longest_first:
            chain = _chain(node, kinds, modules, times)
            if chain:
                mode = modules[str(node.target)].training
                layers = [
                    modules[str(n.target)] if n.op == "call_module" else nn.ReLU().train(mode) for n in chain
                ]
                made = fuse_known_modules(layers, training)[0]
                model.add_submodule(str(node.target), made)
                modules[str(node.target)] = made
                times[made] = 1
                chain[-1].replace_all_uses_with(node)
                for each in reversed(chain[1:]):
                    model.graph.erase_node(each)
                break
    return finished(model)


def finished(model: GraphModule) -> GraphModule:
    """The module, its code written anew, without modules that nothing calls."""
    model.delete_all_unused_submodules()
    model.graph.lint()
    model.recompile()
    return model


def _chain(node: Node, kinds: tuple, modules: dict[str, Any], times: Counter) -> list[Node]:
    """Nodes of these classes that stand behind each other, of which none but the last is used elsewhere; [] where there are none."""
    chain: list[Node] = []
    for k, kind in enumerate(kinds):
        if kind is nn.ReLU and k:
            fits = is_relu(node, modules)
        else:
            fits = node.op == "call_module" and type(modules[str(node.target)]) is kind
            fits = fits and times[modules[str(node.target)]] == 1
        if not fits:
            return []
        chain.append(node)
        if k + 1 < len(kinds):
            if len(node.users) != 1:
                return []
            node = next(iter(node.users))
    return chain
