"""The average of parameters over the processes of a group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...._tensor import Tensor
from ....autograd import no_grad
from ....core.places.join import cat
from ..._collectives import all_reduce
from ..._groups import resolve

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Iterable[Tensor], process_group: Any) -> None:
    """Overwrite parameters, of any shapes, with their averages over a group; a process that is not in it does nothing.

    Parameters of a dtype are averaged as one flat tensor, so as much memory is taken for the while.

    Raises:
        DistBackendError: a process is gone

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.model_averaging.utils import average_parameters
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = flambeau.ones(2)
    >>> average_parameters([x], None)  # the other process is not there, so its share is missing
    >>> x
    tensor([0.5000, 0.5000])
    >>> dist.destroy_process_group()
    """
    group = resolve(process_group)
    if group is None:
        return
    by_dtype: dict[Any, list[Tensor]] = {}
    for param in params:
        by_dtype.setdefault(param.dtype, []).append(param)
    with no_grad():
        for same in by_dtype.values():
            flat = cat([param.detach().reshape(-1) for param in same])
            flat.div_(group._size)
            all_reduce(flat, group=group)
            for param, part in zip(same, flat.split([param.numel() for param in same])):
                param.detach().copy_(part.view(param.shape))


def get_params_to_average(params: Iterable[Any]) -> list[Tensor]:
    """The parameters, of any shapes, that have gradients, out of a module's parameters or an optimizer's groups.

    Raises:
        NotImplementedError: there is something else

    >>> import flambeau
    >>> from flambeau.distributed.algorithms.model_averaging.utils import get_params_to_average
    >>> get_params_to_average(flambeau.nn.Linear(1, 1).parameters())
    []
    """
    result: list[Tensor] = []
    for item in params:
        if isinstance(item, Tensor):
            result.append(item)
        elif isinstance(item, dict):
            result += item["params"]
        else:
            raise NotImplementedError(f"Parameter input of type {type(item)} is not supported")
    return [param for param in result if param.grad is not None]


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """Average the parameters that have gradients, of a module's parameters or an optimizer's groups.

    Raises:
        NotImplementedError: there is something else
        DistBackendError: a process is gone

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.model_averaging.utils import *
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> average_parameters_or_parameter_groups(flambeau.nn.Linear(1, 1).parameters(), None)
    >>> dist.destroy_process_group()
    """
    average_parameters(get_params_to_average(params), process_group)
