"""Sizes of what graphs compute, and another target for many nodes."""

from __future__ import annotations

from typing import NamedTuple

from ..._tensor import Tensor
from ..graph_module import GraphModule
from ..node import Node, Target
from .shape_prop import ShapeProp, TensorMetadata

__all__ = [
    "get_size_of_all_nodes",
    "get_size_of_node",
    "get_tensor_meta",
    "replace_target_nodes_with",
    "size_bytes",
]


class size_bytes(NamedTuple):
    """Bytes of a node's value, and of that and its parameters."""

    output_size: int
    total_size: int


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Let the nodes that call one target call another.

    Raises nothing.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.graph_manipulation import replace_target_nodes_with
    >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x))
    >>> replace_target_nodes_with(module, "call_function", torch.relu, "call_function", torch.neg)
    >>> module(torch.ones(1))
    tensor([-1.])
    """
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            node.op, node.target = new_op, new_target
    fx_module.recompile()


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Tensor] | None = None) -> None:
    """Note each node's `size_bytes`, an attribute; `args` are inputs on which shapes are found first.

    RuntimeError where shapes are not known.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.graph_manipulation import get_size_of_all_nodes
    >>> module = torch.fx.symbolic_trace(torch.nn.ReLU())
    >>> get_size_of_all_nodes(module, [torch.ones(3)])
    >>> [n.size_bytes.output_size for n in module.graph.nodes if n.op != "output"]
    [12, 12]
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)  # type: ignore[attr-defined]


def get_tensor_meta(node: Node) -> TensorMetadata:
    """What is known of a node's value, its shape among it; RuntimeError where that is nothing.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.graph_manipulation import get_tensor_meta
    >>> get_tensor_meta(torch.fx.Graph().placeholder("x"))
    Traceback (most recent call last):
    RuntimeError: Node x has no tensor metadata associated with it! Check that shape propagation has run.
    """
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run."
        )
    return meta


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """Bytes of a node's value and parameters; RuntimeError where its shape is not known.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.graph_manipulation import get_size_of_node
    >>> from flambeau.fx.passes.shape_prop import ShapeProp
    >>> module = torch.fx.symbolic_trace(torch.nn.ReLU())
    >>> _ = ShapeProp(module).propagate(torch.ones(3))
    >>> get_size_of_node(module, next(iter(module.graph.nodes)))
    size_bytes(output_size=12, total_size=12)
    """
    held = 0
    if node.op == "call_module":
        called = fx_module.get_submodule(str(node.target))
        held = sum(p.nbytes for p in called.parameters())
        held += sum(b.nbytes for b in called.buffers())
    meta = get_tensor_meta(node)
    metas = [meta] if isinstance(meta, TensorMetadata) else [m for m in meta if isinstance(m, TensorMetadata)]
    out = sum(m.shape.numel() * m.dtype.itemsize for m in metas)
    return size_bytes(out, out + held)
