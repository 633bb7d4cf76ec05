"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ..._tensor import Tensor
from ...core.base import display
from ...core.places.join import cat

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Join tensors of any shapes, on one device, to one of a single dimension.

    Raises:
        TypeError: the tensors are on different devices.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.utils.parameters_to_vector(nn.Linear(3, 2).parameters()).shape == (8,)
    True
    """
    parameters = list(parameters)
    _check_one_device(parameters)
    return cat([parameter.view(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Give each tensor its part of `vec` as its data, in turn; they then share its memory.

    Shape:
        vec: (the sum of the elements of `parameters`,)

    Raises:
        TypeError: `vec` is no tensor, or the tensors are on different devices.

    >>> import flambeau
    >>> layer = flambeau.nn.Linear(2, 1)
    >>> flambeau.nn.utils.vector_to_parameters(flambeau.arange(3.0), layer.parameters())
    >>> layer.weight.tolist(), layer.bias.tolist()
    ([[0.0, 1.0]], [2.0])
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected {display.public('Tensor')}, but got: {type(vec).__name__}")
    parameters = list(parameters)
    _check_one_device(parameters)
    begin = 0
    for parameter in parameters:
        end = begin + parameter.numel()
        parameter.data = vec[begin:end].view_as(parameter).data
        begin = end


def _check_one_device(parameters: list[Tensor]) -> None:
    if len({parameter.device for parameter in parameters}) > 1:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
