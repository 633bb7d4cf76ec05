"""Looking at the tape: nodes, and hooks on several tensors at once."""

from __future__ import annotations

from typing import NamedTuple

from ..core.tape import AccumulateGrad, Node

__all__ = ["GradientEdge", "Node", "get_gradient_edge"]


class GradientEdge(NamedTuple):
    """Where a tensor's gradient goes: a node and which of its outputs."""

    node: object
    output_nr: int


def get_gradient_edge(tensor) -> GradientEdge:
    """The edge of a tensor; RuntimeError where it does not require grad."""
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients."
        )
    node = tensor.grad_fn
    return GradientEdge(AccumulateGrad(tensor) if node is None else node, tensor.output_nr)
