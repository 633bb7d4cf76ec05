"""A module on several devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._tensor import Tensor
from ..modules.module import Module
from .scatter_gather import place

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A copy of the module for each device, whose parameters and buffers are those of `network`, copied there.

    Gradients come back, added up, to the parameters of `network`; copies have none of their own: `parameters()` is
    empty there. Where a device is that of a parameter, the copy holds that very tensor; so does the first copy with
    buffers.

    Args:
        devices: devices, or numbers of CUDA devices.
        detach: whether no gradients are wanted.

    Raises:
        RuntimeError: there is no such device

    >>> import flambeau
    >>> copies = flambeau.nn.parallel.replicate(flambeau.nn.Linear(2, 1), ["cpu", "cpu"])
    >>> [list(copy.parameters()) for copy in copies]
    [[], []]
    """
    return [_copy(network, place(where), detach, first=i == 0) for i, where in enumerate(devices)]


def _copy(network: Module, where: Any, detach: bool, first: bool) -> Module:
    """One copy; what is shared between modules is shared between their copies."""
    tensors: dict[int, Tensor] = {}
    modules: dict[Module, Module] = {}

    def tensor_there(x: Tensor) -> Tensor:
        if id(x) not in tensors:
            tensors[id(x)] = (x.detach() if detach else x).to(where)
        return tensors[id(x)]

    for module in network.modules():
        copy = modules[module] = module._replicate_for_data_parallel()
        for name, parameter in module._parameters.items():
            # A plain attribute: for the copy it is an input, not a parameter.
            copy.__dict__[name] = None if parameter is None else tensor_there(parameter)
        for name, buffer in module._buffers.items():
            if buffer is None:
                continue
            there = tensor_there(buffer)
            # Several copies on one device would all write the same running statistics.
            copy._buffers[name] = there if first or there is not buffer else there.clone()
    for module, copy in modules.items():
        for name, child in module._modules.items():
            copy._modules[name] = None if child is None else modules[child]
    return modules[network]
