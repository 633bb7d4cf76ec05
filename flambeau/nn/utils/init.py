"""Modules made without the work of filling their parameters."""

from __future__ import annotations

import inspect
from typing import Any

from ..modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """`module_cls(*args, **kwargs)` with memory for its parameters and buffers, whose elements are not set.

    The module is built on "meta" and then given memory on `device` (by default the CPU).

    Raises:
        RuntimeError: it is no class of modules, or its constructor takes no `device`.

    >>> import flambeau
    >>> flambeau.nn.utils.skip_init(flambeau.nn.Linear, 3, 2).weight.shape
    flambeau.Size([2, 3])
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"skip_init(): Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("skip_init(): Module must support a 'device' arg to skip initialization")
    place = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=place)
