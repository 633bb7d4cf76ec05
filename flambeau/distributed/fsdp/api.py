"""What `FullyShardedDataParallel` takes: strategies, precisions, kinds of states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ...nn.modules.batchnorm import _BatchNorm
from ...nn.modules.module import Module

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class ShardingStrategy(Enum):
    """What the processes share out.

    FULL_SHARD: parameters, gradients and states of optimisers; parameters are whole only in the forward and the backward pass of their
    module.  SHARD_GRAD_OP: the same, but parameters stay whole from forward to backward.  NO_SHARD: nothing, as in
    DistributedDataParallel.  HYBRID_SHARD: FULL_SHARD within a machine, copies on each machine.  _HYBRID_SHARD_ZERO2: SHARD_GRAD_OP
    within a machine.

    >>> from flambeau.distributed.fsdp import ShardingStrategy
    >>> ShardingStrategy.FULL_SHARD.name
    'FULL_SHARD'
    """

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When backward gathers the parameters of the module that it comes to next: before it works on a module, or after it.

    >>> from flambeau.distributed.fsdp import BackwardPrefetch
    >>> BackwardPrefetch.BACKWARD_POST.name
    'BACKWARD_POST'
    """

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


@dataclass
class MixedPrecision:
    """Dtypes of a pass; shards, and with them what optimisers see, keep their own.

    Args:
        param_dtype: of parameters in the passes, and so of what they compute.
        reduce_dtype: of gradients while they are added up; `param_dtype` by default.
        buffer_dtype: of floating buffers, from the first forward pass on.
        keep_low_precision_grads: gradients stay in `reduce_dtype`.
        cast_forward_inputs: every wrapped module casts its inputs to `param_dtype`.
        cast_root_forward_inputs: the outermost one does.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.distributed.fsdp import MixedPrecision
    >>> MixedPrecision(param_dtype=flambeau.bfloat16).param_dtype
    flambeau.bfloat16
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type[Module]] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether shards and their gradients are on the host, where optimisers work then.  Here all is on the host.

    Raises nothing.

    >>> from flambeau.distributed.fsdp import CPUOffload
    >>> CPUOffload(offload_params=True).offload_params
    True
    """

    offload_params: bool = False


class StateDictType(Enum):
    """What `state_dict` holds: whole parameters, flat pieces of this process, or DTensors of this process's slices.

    >>> from flambeau.distributed.fsdp import StateDictType
    >>> [kind.name for kind in StateDictType]
    ['FULL_STATE_DICT', 'LOCAL_STATE_DICT', 'SHARDED_STATE_DICT']
    """

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class StateDictConfig:
    """How a state is made: with `offload_to_cpu` as copies on the host.

    Raises nothing.

    >>> from flambeau.distributed.fsdp import StateDictConfig
    >>> StateDictConfig().offload_to_cpu
    False
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Of whole parameters; with `rank0_only` only rank 0 has them, and the others' state is empty.

    Raises nothing.

    >>> from flambeau.distributed.fsdp import FullStateDictConfig
    >>> FullStateDictConfig(rank0_only=True)
    FullStateDictConfig(offload_to_cpu=False, rank0_only=True)
    """

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Of flat pieces.

    Raises nothing.

    >>> from flambeau.distributed.fsdp import LocalStateDictConfig
    >>> LocalStateDictConfig().offload_to_cpu
    False
    """


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Of slices, which are DTensors.

    Raises nothing.

    >>> from flambeau.distributed.fsdp import ShardedStateDictConfig
    >>> ShardedStateDictConfig().offload_to_cpu
    False
    """

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """How a state of an optimiser is made: by default as copies on the host.

    Raises nothing.

    >>> from flambeau.distributed.fsdp import OptimStateDictConfig
    >>> OptimStateDictConfig().offload_to_cpu
    True
    """

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Of whole states; with `rank0_only` only rank 0 has them.

    Raises nothing.

    >>> from flambeau.distributed.fsdp import FullOptimStateDictConfig
    >>> FullOptimStateDictConfig(rank0_only=True).rank0_only
    True
    """

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Of flat pieces.

    Raises nothing.

    >>> from flambeau.distributed.fsdp import LocalOptimStateDictConfig
    >>> LocalOptimStateDictConfig().offload_to_cpu
    False
    """

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Of slices, which are DTensors.

    Raises nothing.

    >>> from flambeau.distributed.fsdp import ShardedOptimStateDictConfig
    >>> ShardedOptimStateDictConfig().offload_to_cpu
    True
    """

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """What `FullyShardedDataParallel.set_state_dict_type` has set.

    Raises nothing.

    >>> from flambeau.distributed.fsdp import FullOptimStateDictConfig, FullStateDictConfig, StateDictSettings, StateDictType
    >>> kind = StateDictType.FULL_STATE_DICT
    >>> StateDictSettings(kind, FullStateDictConfig(), FullOptimStateDictConfig()).state_dict_type is kind
    True
    """

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
