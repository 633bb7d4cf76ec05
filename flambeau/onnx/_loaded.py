"""The module that a model becomes: a GraphModule that is pickled as its nodes, so that nothing is traced when it comes back."""

from __future__ import annotations

from typing import Any

from ..fx import Graph, GraphModule, Node
from ..fx.node import map_arg

__all__ = ["LoadedModel"]


class _Number(int):
    """A node in a pickle, by its number."""


class LoadedModel(GraphModule):
    """A model of ONNX (`onnx.load_model`); `graph` and `code` show what it calls, and can be changed as those of any GraphModule.

    >>> import copy, pickle
    >>> import flambeau as torch
    >>> data = torch.onnx.export(torch.nn.Softmax(-1), (torch.zeros(1, 2),)).model_proto.SerializeToString()
    >>> model = torch.onnx.load_model(data)
    >>> type(model).__mro__[1].__name__, pickle.loads(pickle.dumps(model))(torch.zeros(1, 2))
    ('LoadedModel', tensor([[0.5000, 0.5000]]))
    """

    def __reduce__(self) -> tuple:
        body = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code", "_lineno_map")}
        numbers = {node: _Number(k) for k, node in enumerate(self.graph.nodes)}
        nodes = [
            (n.op, n.target, *map_arg((tuple(n.args), dict(n.kwargs)), numbers.__getitem__), n.name)
            for n in self.graph.nodes
        ]
        return _rebuilt, (body, nodes)


def _rebuilt(body: dict[str, Any], nodes: list[tuple]) -> LoadedModel:
    graph = Graph()
    made: list[Node] = []
    for op, target, args, kwargs, name in nodes:
        made.append(graph.create_node(op, target, _with(args, made), _with(kwargs, made), name))
    module = LoadedModel({}, Graph())
    module.__dict__.update(body)
    module.graph = graph
    return module


def _with(x: Any, made: list[Node]) -> Any:
    """Arguments with the nodes whose numbers they hold."""
    if isinstance(x, _Number):
        return made[x]
    if isinstance(x, tuple):
        return tuple(_with(v, made) for v in x)
    if isinstance(x, list):
        return [_with(v, made) for v in x]
    if isinstance(x, dict):
        return {k: _with(v, made) for k, v in x.items()}
    return x
