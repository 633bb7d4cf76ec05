"""Calls that are convolutions of two dimensions by register tiles, prepared."""

from __future__ import annotations

from typing import NamedTuple

from ..codegen.tiles.epilogues import Epilogue
from ..core.base.tensor import TensorBase
from ..core.make.create import empty_strided
from ..operations.declare.registry import REGISTRY
from ..operations.neural.convolution.grid import Geometry
from ..operations.neural.convolution_plan import ConvolutionPlan
from .products import example
from .program import Call, Value


class Convolution(NamedTuple):
    """A prepared convolution, the values that it touches (the result, images, the weight, operands of what is made of the sums), and
    tensors of the result's and the images' geometry.
    """

    plan: ConvolutionPlan
    values: tuple[Value, ...]
    result: TensorBase
    images: TensorBase


class Images(NamedTuple):
    """What a call convolves."""

    input: Value
    weight: Value
    bias: Value | None
    geometry: Geometry


def images_of(call: Call) -> Images | None:
    """What a call convolves, where it is a convolution of two dimensions without groups; None for another."""
    if call.operation is not REGISTRY["convolution"].function or call.kwargs or len(call.args) != 6:
        return None
    input, weight, bias, geometry, _, transposed = call.args
    if (
        transposed
        or geometry.groups != 1
        or len(input.shape) != 4
        or 0 in input.shape
        or not weight.contiguous
    ):
        return None
    (result,) = call.results
    given = (input, weight, result) if bias is None else (input, weight, result, bias)
    alike = all(v.dtype == input.dtype and v.place.device is None for v in given)
    return Images(input, weight, bias, geometry) if alike and (bias is None or bias.contiguous) else None


def convolution_of(call: Call) -> Convolution | None:
    """The convolution that a call computes, prepared for its operands' geometry; None for another call, or one computed otherwise.

    >>> import flambeau as torch
    >>> from flambeau.graph.convolutions import convolution_of
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> graph, _ = record(torch.nn.functional.conv2d, torch.ones(1, 8, 6, 6), torch.ones(16, 8, 3, 3))
    >>> convolution_of(Program(graph).calls[0]).values
    (%2: float32[1, 16, 4, 4], %0: float32[1, 8, 6, 6], %1: float32[16, 8, 3, 3])
    """
    images = images_of(call)
    if images is None:
        return None
    (result,) = call.results
    return prepared(images, result, () if images.bias is None else (images.bias,))


def prepared(
    images: Images, result: Value, operands: tuple[Value, ...], epilogue: Epilogue | None = None
) -> Convolution | None:
    """The plan of a convolution into `result`; None where tiles do not compute it, or read or write images so."""
    input, weight, _, geometry = images
    x, y = example(input), example(result)
    columns = [empty_strided((weight.shape[0],), (1,), dtype=v.dtype, device="cpu") for v in operands]
    try:
        plan = ConvolutionPlan(
            x,
            example(weight),
            *columns,
            stride=geometry.stride,
            padding=geometry.before,
            dilation=geometry.dilation,
            epilogue=epilogue,
        )
    except (NotImplementedError, RuntimeError, ValueError, TypeError):
        return None
    if (
        plan.driver is None
        or plan.geometry != geometry
        or (len(x), plan.weight[0], *plan.out) != result.shape
    ):
        return None
    if not plan.reads(x) or y.stride() != plan.new_output(x).stride():
        return None
    return Convolution(plan, (result, input, weight, *operands), y, x)
