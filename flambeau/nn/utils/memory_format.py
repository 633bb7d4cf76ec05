"""The memory format of convolutions' weights."""

from __future__ import annotations

from typing import Any

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Lay the weights of all Conv2d and ConvTranspose2d in `module`, itself included, out in a memory format; return it.

    `module.to(memory_format=…)` does so with every 4-dimensional parameter.

    Raises:
        RuntimeError: `memory_format` is for tensors of another number of dimensions

    >>> import flambeau
    >>> from flambeau import nn
    >>> net = nn.utils.convert_conv2d_weight_memory_format(nn.Conv2d(2, 4, 3), flambeau.channels_last)
    >>> net.weight.stride()
    (18, 1, 6, 2)
    """
    return _converted(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """The same for Conv3d and ConvTranspose3d, and `channels_last_3d`.

    Raises:
        RuntimeError: `memory_format` is for tensors of another number of dimensions

    >>> import flambeau
    >>> from flambeau import nn
    >>> net = nn.utils.convert_conv3d_weight_memory_format(nn.Conv3d(2, 4, 3), flambeau.channels_last_3d)
    >>> net.weight.stride()
    (54, 1, 18, 6, 2)
    """
    return _converted(module, (Conv3d, ConvTranspose3d), memory_format)


def _converted(module: Module, kinds: tuple[type, ...], memory_format: Any) -> Module:
    for part in module.modules():
        if isinstance(part, kinds):
            weight: Any = part.weight
            weight.data = weight.detach().clone(memory_format=memory_format)
    return module
