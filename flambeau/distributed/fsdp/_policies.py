"""What `fully_shard` takes about precisions, offloading and meshes, and how its collectives can be replaced."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of a pass; sharded parameters, and with them what optimisers see, keep their own.

    Args:
        param_dtype: of parameters in the passes, and so of what they compute.
        reduce_dtype: of gradients while they are added up; `param_dtype` by default.
        output_dtype: floating outputs are cast to it.
        cast_forward_inputs: floating inputs are cast to `param_dtype`.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.distributed.fsdp import MixedPrecisionPolicy
    >>> MixedPrecisionPolicy(param_dtype=flambeau.bfloat16, reduce_dtype=flambeau.float32).reduce_dtype
    flambeau.float32
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Shards stay on the device of the mesh.

    Raises nothing.

    >>> from flambeau.distributed.fsdp import OffloadPolicy
    >>> OffloadPolicy()
    OffloadPolicy()
    """


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Shards, their gradients and the states of optimisers are on the host, which is where groups of processes compute now.

    Args:
        pin_memory: their memory is pinned, where an accelerator copies from it.

    Raises nothing.

    >>> from flambeau.distributed.fsdp import CPUOffloadPolicy
    >>> CPUOffloadPolicy().pin_memory
    True
    """

    pin_memory: bool = True


class Comm(ABC):
    """A collective that takes the place of `fully_shard`'s own: it gives the memory of its result, and is called."""

    @abstractmethod
    def allocate(self, size: Sequence[int], *, dtype: Any, device: Any) -> Any:
        """A tensor of a shape for the result."""


class AllGather(Comm):
    """The one that gathers parameters."""

    @abstractmethod
    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False) -> Any:
        """As `all_gather_into_tensor`."""


class ReduceScatter(Comm):
    """The one that reduces gradients."""

    @abstractmethod
    def __call__(
        self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False
    ) -> Any:
        """As `reduce_scatter_tensor`."""
