"""`ShapeProp`: runs a graph and notes the shape and dtype of each value."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._tensor import Tensor
from ...core.base.dtypes import dtype as DType
from ...core.base.formats import channels_last, channels_last_3d, contiguous_format, memory_format
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its numbers; `memory_format` is None where it is in none of them."""

    shape: Any
    dtype: DType
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    formats = {contiguous_format: None, channels_last: 4, channels_last_3d: 5} if include_contiguity else {}
    own = None
    for each, rank in formats.items():
        if rank in (None, result.dim()) and result.is_contiguous(memory_format=each):
            own = each
            break
    stride = () if result.is_sparse else result.stride()
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, stride, own, False, {})


class ShapeProp(Interpreter):
    """Runs a graph on inputs; each node's `meta` gets "tensor_meta", a `TensorMetadata` or a structure of them, and "type".

    Inputs on device "meta" have shapes and dtypes alone, and so has what comes of them.

    NotImplementedError for a `fake_mode`.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.shape_prop import ShapeProp
    >>> module = torch.fx.symbolic_trace(torch.nn.Linear(2, 3))
    >>> _ = ShapeProp(module).propagate(torch.ones(5, 2))
    >>> [tuple(n.meta["tensor_meta"].shape) for n in module.graph.nodes]
    [(5, 2), (3, 2), (3,), (5, 3), (5, 3)]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        if fake_mode is not None:
            raise NotImplementedError(
                "ShapeProp(): argument 'fake_mode' must be None: inputs on device 'meta' have no numbers here"
            )
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        """The node's value, which is noted."""
        result = super().run_node(n)
        has_tensors = False

        def described(x: Any) -> Any:
            nonlocal has_tensors
            if isinstance(x, Tensor):
                has_tensors = True
                return _extract_tensor_metadata(x)
            return x

        meta = map_aggregate(result, described)
        if has_tensors:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on these inputs and return its output.

        >>> import flambeau as torch
        >>> from flambeau.fx.passes.shape_prop import ShapeProp
        >>> ShapeProp(torch.fx.symbolic_trace(torch.nn.ReLU())).propagate(torch.ones(2, device="meta")).shape
        flambeau.Size([2])
        """
        return super().run(*args)
