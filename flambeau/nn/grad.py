"""Gradients of convolutions, by name: `conv1d_input`, `conv1d_weight` and those of 2 and 3 dimensions.

Each takes the arguments of the convolution and the gradient of its result, and may be differentiated again.
"""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ..operations.declare.forms import form_at
from ..operations.declare.registry import as_operation, call_as
from ..operations.neural.convolution.convolution import (
    Geometry,
    convolution_backward,
    in_parts,
    paddings,
    windows,
)
from ..operations.neural.pooling.pooling import ntuple, positive

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _geometry(
    name: str, n: int, input_size, weight_size, grad_output, stride, padding, dilation, groups: int
):
    """How the windows of the convolution lie whose result has this gradient; RuntimeError where there is none."""
    input_size, weight_size = tuple(input_size), tuple(weight_size)
    stride, dilation = ntuple(name, "stride", stride, n), ntuple(name, "dilation", dilation, n)
    positive(name, "stride", stride)
    positive(name, "dilation", dilation)
    for what, size in (("input", input_size), ("weight", weight_size)):
        if len(size) != n + 2 or min(size) < 1:
            raise RuntimeError(
                f"{name}(): expected {what} of {n + 2} dimensions with elements, got size {list(size)}"
            )
    if groups < 1 or weight_size[0] % groups or input_size[1] != weight_size[1] * groups:
        raise RuntimeError(
            f"{name}(): Given groups={groups}, weight of size {list(weight_size)}, expected input{list(input_size)} to have "
            f"{weight_size[1] * groups} channels, but got {input_size[1]} channels instead"
        )
    kernel = weight_size[2:]
    pads = paddings(name, padding, kernel, stride, dilation)
    out, stride, dilation = windows(name, input_size[2:], kernel, stride, pads, dilation)
    if tuple(grad_output.shape) != (input_size[0], weight_size[0], *out):
        raise RuntimeError(
            f"{name}(): expected grad_output of size {[input_size[0], weight_size[0], *out]}, got {list(grad_output.shape)}"
        )
    return Geometry(stride, tuple(a for a, _ in pads), dilation, groups)


def _alike(name: str, grad_output, other, what: str) -> None:
    if grad_output.dtype is not other.dtype:
        raise RuntimeError(
            f"{name}(): grad_output type ({grad_output.dtype}) and {what} type ({other.dtype}) should be the same"
        )


def _of_input(
    name: str, n: int, input_size, weight, grad_output, stride, padding, dilation, groups
) -> Tensor:
    """The gradient of a convolution in its input."""
    _alike(name, grad_output, weight, "weight")
    g = _geometry(name, n, input_size, weight.shape, grad_output, stride, padding, dilation, groups)

    def run(grad, w, bias):
        outline = grad.new_empty(1).expand(tuple(input_size))
        return convolution_backward(grad, outline, w, g, False, (True, False, False))[0]

    return (
        in_parts(run, grad_output, weight, None)
        if grad_output.is_complex()
        else run(grad_output, weight, None)
    )


def _of_weight(
    name: str, n: int, input, weight_size, grad_output, stride, padding, dilation, groups
) -> Tensor:
    """The gradient of a convolution in its weight."""
    _alike(name, grad_output, input, "input")
    g = _geometry(name, n, input.shape, weight_size, grad_output, stride, padding, dilation, groups)

    def run(grad, x, bias):
        outline = grad.new_empty(1).expand(tuple(weight_size))
        return convolution_backward(grad, x, outline, g, False, (False, True, False))[1]

    return (
        in_parts(run, grad_output, input, None) if grad_output.is_complex() else run(grad_output, input, None)
    )


def conv1d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient in the input, of size (N, C, L), of a `conv1d` whose result has the gradient `grad_output`.

    RuntimeError where the sizes do not fit.

    >>> import flambeau
    >>> from flambeau.nn.grad import conv1d_input
    >>> conv1d_input((1, 1, 3), flambeau.tensor([[[1., 2.]]]), flambeau.tensor([[[1., 10.]]]))
    tensor([[[ 1., 12., 20.]]])
    """
    return _of_input("conv1d_input", 1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient in the weight, of size (O, C / groups, K), of a `conv1d` whose result has the gradient `grad_output`.

    RuntimeError where the sizes do not fit.

    >>> import flambeau
    >>> from flambeau.nn.grad import conv1d_weight
    >>> conv1d_weight(flambeau.tensor([[[1., 2., 3.]]]), (1, 1, 2), flambeau.tensor([[[1., 10.]]]))
    tensor([[[21., 32.]]])
    """
    return _of_weight("conv1d_weight", 1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient in the input, of size (N, C, H, W), of a `conv2d`; see `conv1d_input`.

    Raises:
        RuntimeError: no such convolution has a result of that shape

    >>> import flambeau
    >>> weight, grad = flambeau.ones(1, 1, 1, 2), flambeau.ones(1, 1, 1, 2)
    >>> flambeau.nn.grad.conv2d_input((1, 1, 1, 3), weight, grad)
    tensor([[[[1., 2., 1.]]]])
    """
    return _of_input("conv2d_input", 2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient in the weight, of size (O, C / groups, K, K), of a `conv2d`; see `conv1d_weight`.

    Raises:
        RuntimeError: no such convolution has a result of that shape

    >>> import flambeau
    >>> input, grad = flambeau.tensor([[[[1.0, 2.0, 4.0]]]]), flambeau.ones(1, 1, 1, 2)
    >>> flambeau.nn.grad.conv2d_weight(input, (1, 1, 1, 2), grad)
    tensor([[[[3., 6.]]]])
    """
    return _of_weight("conv2d_weight", 2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient in the input, of size (N, C, D, H, W), of a `conv3d`; see `conv1d_input`.

    Raises:
        RuntimeError: no such convolution has a result of that shape

    >>> import flambeau
    >>> weight, grad = flambeau.ones(1, 1, 1, 1, 2), flambeau.ones(1, 1, 1, 1, 2)
    >>> flambeau.nn.grad.conv3d_input((1, 1, 1, 1, 3), weight, grad).flatten()
    tensor([1., 2., 1.])
    """
    return _of_input("conv3d_input", 3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient in the weight, of size (O, C / groups, K, K, K), of a `conv3d`; see `conv1d_weight`.

    Raises:
        RuntimeError: no such convolution has a result of that shape

    >>> import flambeau
    >>> input, grad = flambeau.tensor([1.0, 2.0, 4.0]).reshape(1, 1, 1, 1, 3), flambeau.ones(1, 1, 1, 1, 2)
    >>> flambeau.nn.grad.conv3d_weight(input, (1, 1, 1, 1, 2), grad).flatten()
    tensor([3., 6.])
    """
    return _of_weight("conv3d_weight", 3, input, weight_size, grad_output, stride, padding, dilation, groups)


# Operations, as those that they are the gradients of: modes and tensor subclasses intercept them.
for _name in __all__:
    _op = as_operation(globals()[_name], owns=True)
    call_as(_op, [f"nn.grad.{_name}"])
    globals()[_name] = form_at(_op, f"nn.grad.{_name}")
