"""Programs as graphs: `symbolic_trace` records what a module or function does, and the graph can be read, changed and run.

>>> import flambeau as torch
>>> module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()))
>>> [(n.op, n.name) for n in module.graph.nodes]
[('placeholder', 'input_1'), ('call_module', '_0'), ('call_module', '_1'), ('output', 'output')]
>>> module(torch.ones(1, 2)).shape
flambeau.Size([1, 3])
"""

from .._compat.absent import refusing as _refusing
from . import (  # noqa: F401
    _pytree,
    _symbolic_trace,
    graph,
    graph_module,
    immutable_collections,
    interpreter,
    node,
    operator_schemas,
    proxy,
    subgraph_rewriter,
    traceback,
)
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap  # noqa: F401
from .graph import CodeGen, Graph  # noqa: F401
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

__getattr__ = _refusing("fx")
