"""A module whose batches are cut over the devices there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from ...devices import cuda, opencl
from ..modules.module import Module
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, place, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


def _devices_for(module: Module) -> list[Any]:
    """All devices of the kind that the module lies on; of CUDA's, where it lies on the CPU and there are any."""
    tensor = next(chain(module.parameters(), module.buffers()), None)
    kind = "cuda" if tensor is None or tensor.device.type == "cpu" else tensor.device.type
    count = {"cuda": cuda.count, "opencl": opencl.count}.get(kind, lambda: 0)()
    return [place(index, kind) for index in range(count)]


def _number(where: Any) -> Any:
    """A CUDA device by its number, any other as it is."""
    return where.index if where.type == "cuda" else where


class DataParallel(Module):
    """Runs `module` on several devices at once: each gets a part of the batch and a copy of the module.

    Without accelerators, and where `device_ids` names no others by name, it runs the module itself. Its parameters are
    those of `module`, which must lie on the first of the devices, and so must its buffers: what the first copy does to
    them stays, what others do is lost.

    Args:
        module: what to run, under the attribute `module`.
        device_ids: devices, or their numbers; all of the module's kind by default.
        output_device: where the outputs are joined; the first of the devices by default.
        dim: along which dimension inputs are cut and outputs joined.

    Raises:
        RuntimeError: in `forward`, a parameter or buffer is not on the first device.

    >>> import flambeau
    >>> from flambeau import nn
    >>> model = nn.DataParallel(nn.Linear(2, 3), device_ids=["cpu", "cpu"])
    >>> model(flambeau.zeros(5, 2)).shape == (5, 3), list(model.state_dict())
    (True, ['module.weight', 'module.bias'])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        result = _devices_for(module)
        kind = result[0].type if result else "cuda"
        numbers = device_ids is not None and all(isinstance(where, int) for where in device_ids)
        if device_ids is not None and (result or not numbers):
            result = [place(where, kind) for where in device_ids]
        self.dim = dim
        self.module = module
        self.device_ids = [_number(where) for where in result]
        if result:
            self.output_device = _number(result[0] if output_device is None else place(output_device, kind))
            self.src_device_obj = result[0]
            if len(result) == 1:
                self.module.to(result[0])

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        for tensor in chain(self.module.parameters(), self.module.buffers()):
            if tensor.device != self.src_device_obj:
                raise RuntimeError(
                    "module must have its parameters and buffers on device "
                    f"{self.src_device_obj} (device_ids[0]) but found one of them on device: {tensor.device}"
                )
        parts, named = self.scatter(inputs, kwargs, self.device_ids)
        if not parts:  # it is called without arguments
            parts, named = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*parts[0], **named[0])
        copies = self.replicate(self.module, self.device_ids[: len(parts)])
        return self.gather(self.parallel_apply(copies, parts, named), self.output_device)

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Module]:
        """A copy of the module for each device."""
        return replicate(module, device_ids, detach=False)

    def scatter(
        self, inputs: tuple, kwargs: dict[str, Any], device_ids: Sequence[Any]
    ) -> tuple[tuple, tuple]:
        """The arguments for each device."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas: Sequence[Module], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """What each copy makes of its arguments."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """The outputs joined."""
        return gather(outputs, output_device, dim=self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """`module(*inputs)` over several devices at once, as by `DataParallel`.

    Args:
        inputs: a tuple of arguments, or one that is no tuple.
        device_ids, output_device, dim: those of `DataParallel`.
        module_kwargs: keyword arguments.

    Raises:
        RuntimeError: the first device is none where the module has its parameters

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.parallel.data_parallel(nn.ReLU(), -flambeau.ones(2), ["cpu", "cpu"])
    tensor([0., 0.])
    """
    inputs = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
