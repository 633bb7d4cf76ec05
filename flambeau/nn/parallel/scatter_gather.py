"""Inputs to several devices, and outputs back to one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..._tensor import Tensor
from ...core.base.dtypes import device as _device
from ...core.places.join import cat

__all__ = ["gather", "scatter", "scatter_kwargs"]


def place(where: Any, kind: str = "cuda") -> _device:
    """A device of the one, its name, or its number among those of a kind; -1 is the CPU."""
    if isinstance(where, int):
        return _device("cpu") if where == -1 else _device(kind, where)
    return where if isinstance(where, _device) else _device(where)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Tensors cut along `dim` into a part for each device, which is copied there; gradients come back joined.

    Tensors in tuples, lists and dicts are cut, too; anything else is given to every device as it is.

    Args:
        target_gpus: devices, or numbers of CUDA devices. Where a tensor has fewer elements along `dim`, it goes to as many
            devices as there are.

    Returns:
        A list (of the parts of a tensor, a tuple) with an entry for each device.

    Raises:
        RuntimeError: there is no such device

    >>> import flambeau
    >>> flambeau.nn.parallel.scatter({"x": flambeau.ones(3), "n": 1}, ["cpu", "cpu"])
    [{'x': tensor([1., 1.]), 'n': 1}, {'x': tensor([1.]), 'n': 1}]
    """
    places = [place(where) for where in target_gpus]

    def spread(x: Any) -> Any:
        if isinstance(x, Tensor):
            parts = x.chunk(len(places), dim)
            return tuple(part.to(where) for part, where in zip(parts, places, strict=False))
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return [type(x)(*parts) for parts in zip(*map(spread, x), strict=False)]
        if isinstance(x, tuple) and x:
            return list(zip(*map(spread, x), strict=False))
        if isinstance(x, list) and x:
            return [list(parts) for parts in zip(*map(spread, x), strict=False)]
        if isinstance(x, dict) and x:
            return [type(x)(parts) for parts in zip(*map(spread, x.items()), strict=False)]
        return [x for _ in places]

    return spread(inputs)


def scatter_kwargs(
    inputs: tuple, kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple, tuple]:
    """Positional and keyword arguments cut as by `scatter`: a tuple of each, with an entry for each device.

    Where there are fewer parts of the one than of the other, empty tuples or dicts make up for them.

    Raises:
        RuntimeError: there is no such device

    >>> import flambeau
    >>> from flambeau.nn.parallel.scatter_gather import scatter_kwargs
    >>> scatter_kwargs((flambeau.ones(3),), {"n": 1}, ["cpu", "cpu"])
    (((tensor([1., 1.]),), (tensor([1.]),)), ({'n': 1}, {'n': 1}))
    """
    positional = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    most = max(len(positional), len(named))
    positional = [*positional, *(() for _ in range(most - len(positional)))]
    named = [*named, *({} for _ in range(most - len(named)))]
    return tuple(positional), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """The outputs of several devices joined along `dim` on one; gradients go back to where they came from.

    Args:
        outputs: tensors, or tuples, lists or dicts of tensors, alike in all but the size along `dim`. Numbers (tensors
            without dimensions) become a vector, with a warning.
        target_device: a device, or the number of a CUDA device; -1 for the CPU.

    Raises:
        ValueError: dicts of unequal keys.

    >>> import flambeau
    >>> flambeau.nn.parallel.gather([flambeau.ones(1, 2), flambeau.zeros(2, 2)], "cpu").shape == (3, 2)
    True
    """
    where = place(target_device)

    def join(parts: Any) -> Any:
        first = parts[0]
        if isinstance(first, Tensor):
            if all(part.dim() == 0 for part in parts) and dim == 0:
                warnings.warn(
                    "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze "
                    "and return a vector.",
                    stacklevel=3,
                )
                parts = [part.reshape(1) for part in parts]
            return cat([part.to(where) for part in parts], dim)
        if first is None:
            return None
        if isinstance(first, dict):
            if any(part.keys() != first.keys() for part in parts):
                raise ValueError("All dicts must have the same keys")
            return type(first)((key, join([part[key] for part in parts])) for key in first)
        joined = map(join, zip(*parts, strict=True))
        return type(first)(*joined) if hasattr(first, "_fields") else type(first)(joined)

    return join(list(outputs))
