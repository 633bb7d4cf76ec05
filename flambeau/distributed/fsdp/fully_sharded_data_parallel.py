"""`FullyShardedDataParallel`: a wrapper whose module's parameters are flat pieces, one for each process, outside of its passes."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import Any

from ..._tensor import Tensor
from ...autograd import no_grad
from ...core.base import display
from ...core.make.create import zeros
from ...nn.modules.container import ModuleDict, ModuleList
from ...nn.modules.module import Module
from ...nn.utils.clip_grad import clip_grad_norm_, get_total_norm
from .._collectives import all_reduce
from .._reductions import ReduceOp
from . import _building, _optim_states, _states
from ._building import FlatParameter
from ._engine import Unit, places_of, unit_of, units_below
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]
_WRAPPED = "_fsdp_wrapped_module"
_CONFIGS = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}


class OptimStateKeyType(Enum):
    """Whether a state of an optimiser has parameters' names for keys, or their numbers.

    >>> from flambeau.distributed.fsdp import OptimStateKeyType
    >>> OptimStateKeyType.PARAM_NAME.name
    'PARAM_NAME'
    """

    PARAM_NAME = auto()
    PARAM_ID = auto()


class FullyShardedDataParallel(Module):
    """A module whose parameters, gradients and optimiser states are shared out over the processes of a group.

    Outside of its passes a process holds a flat piece of the parameters.  They are gathered before the module's forward pass and freed
    after it, and once more for its backward pass, after which each process gets its piece of the averaged gradients.  Make the
    optimiser after it.  Inputs and outputs have the shapes of `module`'s.

    Args:
        module: what to train, under the attribute `module`.
        process_group: the processes, by default all; for HYBRID_SHARD a pair: those that share out, those that hold copies.
        sharding_strategy: see `ShardingStrategy`; FULL_SHARD by default.
        cpu_offload: shards are on the host, which they are anyway.
        auto_wrap_policy: which modules in `module` are wrapped on their own first; see `fsdp.wrap`.
        backward_prefetch: when parameters are gathered for the module that backward comes to next; None for when it has come.
        mixed_precision: dtypes in the passes; see `MixedPrecision`.
        ignored_modules, ignored_states: modules, or parameters, that are left alone.
        param_init_fn: gives a module whose parameters are on device "meta" memory and values; by default `to_empty` and
            `reset_parameters`.
        device_id: None or the CPU.
        sync_module_states: parameters and buffers are those of rank 0.
        forward_prefetch: parameters are gathered for the module that the last forward pass came to next, while this one computes.
        limit_all_gathers: not more than two modules are gathered at once, which is always so here.
        use_orig_params: `named_parameters` has the module's parameters, each of which is a piece, rather than one parameter for all.
        device_mesh: the processes as a mesh; of two dimensions for HYBRID_SHARD.

    Raises:
        ValueError: there is no group; a parameter is on another device than the CPU, or is sharded already; parameters of several
            dtypes (or some that require no gradient) without `use_orig_params`

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = FSDP(flambeau.nn.Linear(2, 3), use_orig_params=True)
    >>> [tuple(p.shape) for p in net.parameters()]  # 5 of 9 elements
    [(5,), (0,)]
    >>> net(flambeau.ones(4, 2)).shape
    flambeau.Size([4, 3])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Any = None,
        device_mesh: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(module, (ModuleList, ModuleDict)):
            warnings.warn(
                f"FSDP will not all-gather parameters for containers that do not implement forward: {module}",
                stacklevel=2,
            )
        strategy = ShardingStrategy.FULL_SHARD if sharding_strategy is None else sharding_strategy
        if not isinstance(strategy, ShardingStrategy):
            raise TypeError(f"FSDP: sharding_strategy must be a ShardingStrategy, got {sharding_strategy!r}")
        _building.check_device(device_id)
        skipped, alone = _building.ignored_in(module, ignored_modules, ignored_states)
        groups = _building.groups_of(process_group, strategy, device_mesh)
        if auto_wrap_policy is not None:
            shared = groups if strategy in _building.HYBRID else process_group
            kwargs = dict(
                process_group=None if device_mesh is not None else shared,
                sharding_strategy=sharding_strategy,
                cpu_offload=cpu_offload,
                backward_prefetch=backward_prefetch,
                mixed_precision=mixed_precision,
                param_init_fn=param_init_fn,
                device_id=device_id,
                sync_module_states=sync_module_states,
                forward_prefetch=forward_prefetch,
                limit_all_gathers=limit_all_gathers,
                use_orig_params=use_orig_params,
                ignored_states=alone,
                device_mesh=device_mesh,
            )
            _building.auto_wrap(module, auto_wrap_policy, FullyShardedDataParallel, skipped, alone, kwargs)
        self.sharding_strategy = strategy
        self.process_group = groups[0] if groups[0] is not None else groups[1]
        self._inter_node_pg = groups[1] if strategy in _building.HYBRID else None
        self.rank, self.world_size = self.process_group._rank, self.process_group._size
        self._device_mesh, self._use_orig_params = device_mesh, use_orig_params
        self.mixed_precision = mixed_precision or MixedPrecision()
        self.cpu_offload = cpu_offload or CPUOffload()
        inner = {m for m in module.modules() if unit_of(m) is not None}
        places = self._places(module, skipped | inner, alone)
        if _building.materialise(module, places, param_init_fn):
            places = self._places(module, skipped | inner, alone)
        if sync_module_states:
            _building.synchronise(module, list(places), groups)
        self._fsdp_unit: Unit = _building.build(
            self, module, places, groups, strategy, self.mixed_precision, use_orig_params
        )
        unit = self._fsdp_unit
        unit.prefetch_forward = forward_prefetch
        unit.prefetch_backward = backward_prefetch is BackwardPrefetch.BACKWARD_PRE
        unit.prefetch_after_backward = backward_prefetch is BackwardPrefetch.BACKWARD_POST
        self._fsdp_wrapped_module = module
        self._buffer_dtypes: dict[str, Any] | None = None  # of buffers that were cast
        self._settings = StateDictSettings(
            StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig()
        )
        _states.register(self)

    @staticmethod
    def _places(module: Module, skip: set[Module], alone: set[Any]) -> dict[Any, Any]:
        return {p: where for p, where in places_of([module], skip).items() if p not in alone}

    # Modules -----------------------------------------------------------------------------------------------------------------
    @property
    def module(self) -> Module:
        """The module that it wraps."""
        inner = self._fsdp_wrapped_module
        return getattr(inner, "_checkpoint_wrapped_module", inner)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _WRAPPED:
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self._fsdp_wrapped_module[key]  # type: ignore[index]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise NotImplementedError(
            "FullyShardedDataParallel is not copied, since its processes would not agree: copy the module before it is wrapped, or its "
            "state_dict"
        )

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """The wrappers in a module, itself among them; with `root_only` those in no other."""
        result: list[FullyShardedDataParallel] = []
        inner: set[Module] = set()
        for each in module.modules():
            if isinstance(each, FullyShardedDataParallel):
                if not root_only or each not in inner:
                    result.append(each)
                inner.update(each.modules())
        return result

    def check_is_root(self) -> bool:
        """Whether it is the outermost wrapper."""
        self._fsdp_unit._rooted()
        return self._fsdp_unit.is_root

    def apply(self, fn: Callable[[Module], Any]) -> FullyShardedDataParallel:
        """Call `fn` with every module in it, from the leaves up, while parameters are whole; what it changes stays."""
        if self._fsdp_unit.is_summoned:
            return super().apply(fn)
        with self.summon_full_params(self, writeback=True):
            return super().apply(fn)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """As a module's; while parameters are summoned, by their names in `module`."""
        summoned = self._fsdp_unit.is_summoned
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield (_states.clean(name) if summoned else name), parameter

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """As a module's; while parameters are summoned, by their names in `module`."""
        summoned = self._fsdp_unit.is_summoned
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield (_states.clean(name) if summoned else name), buffer

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> FullyShardedDataParallel:
        self._fsdp_unit.reshard()
        return super()._apply(fn, recurse)

    # Passes --------------------------------------------------------------------------------------------------------------------
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What `module` returns."""
        unit = self._fsdp_unit
        try:
            if self._buffer_dtypes is None:
                self._cast_buffers()
            args, kwargs = unit.enter(self, args, kwargs)
            output = self._fsdp_wrapped_module(*args, **kwargs)
            return unit.leave(self, args, output)
        except Exception:
            unit.failed()
            raise

    def _cast_buffers(self) -> None:
        self._buffer_dtypes = {}
        dtype = self.mixed_precision.buffer_dtype
        if dtype is None:
            return
        for name, buffer in self._own_buffers():
            if buffer.dtype.is_floating_point:
                self._buffer_dtypes[name] = buffer.dtype
                holder, _, attribute = name.rpartition(".")
                self._fsdp_wrapped_module.get_submodule(holder)._buffers[attribute] = buffer.to(dtype)

    def _own_buffers(self) -> list[tuple[str, Tensor]]:
        """Buffers that belong to no wrapper further in, by their names in the wrapped module."""
        inner = [
            name
            for name, m in self._fsdp_wrapped_module.named_modules()
            if isinstance(m, FullyShardedDataParallel)
        ]
        return [
            (name, buffer)
            for name, buffer in self._fsdp_wrapped_module.named_buffers()
            if not any(name.startswith(f"{each}.") for each in inner)
        ]

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of backward passes in the block stay whole in this process, and are reduced with those of the next one outside.

        RuntimeError for a wrapper that is not the outermost one.
        """
        if not self.check_is_root():
            raise RuntimeError(
                "`no_sync()` on inner FSDP instances is not supported. Please call `no_sync()` on root FSDP module."
            )
        units = list(units_below(self))
        before = [unit.reduce_gradients for unit in units]
        for unit in units:
            unit.reduce_gradients = False
        try:
            yield
        finally:
            for unit, value in zip(units, before):
                unit.reduce_gradients = value

    @no_grad()
    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale all gradients so that their norm, as one vector over all processes, is at most `max_norm`; the norm before.

        Every process calls it.  RuntimeError for a wrapper that is not the outermost one.

        Shape:
            returns: ()
        """
        if not self.check_is_root():
            raise RuntimeError("`clip_grad_norm_()` should only be called on the root FSDP instance")
        units = list(units_below(self))
        shards = {id(p) for unit in units for b in unit.buckets if b.n > 1 for p in b.trained()}
        mine = [p.grad for p in self.parameters() if id(p) in shards and p.grad is not None and p.numel()]
        others = [p.grad for p in self.parameters() if id(p) not in shards and p.grad is not None]
        if not shards:
            return clip_grad_norm_(self.parameters(), max_norm, norm_type)
        power = float(norm_type)
        total = get_total_norm(mine, power) if mine else zeros(())
        rest = get_total_norm(others, power) if others else zeros(())
        if power == math.inf:
            total = total.maximum(rest)
            all_reduce(total, ReduceOp.MAX, self.process_group)
        else:
            total = total**power
            all_reduce(total, ReduceOp.SUM, self.process_group)
            total = (total + rest**power) ** (1.0 / power)
        if not any(p.grad is not None for p in self.parameters()):
            warnings.warn(
                f"Called FSDP.clip_grad_norm_() on rank {self.rank} with no gradients -- returning the total norm in the default dtype "
                f"{total.dtype}",
                stacklevel=2,
            )
        factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for grad in (*mine, *others):
            grad.mul_(factor.to(grad.dtype))
        return total

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Let a function add gradients up: `hook(state, full, piece)` fills `piece` with this process's piece of the average of
        `full`, a vector; with NO_SHARD `hook(state, full)` changes `full` itself.

        Raises:
            AssertionError: it is not the outermost wrapper, there is a hook already, or gradients are also added up over copies
        """
        if not self.check_is_root():
            raise AssertionError("register_comm_hook can only be called on a root instance.")
        units = list(units_below(self))
        if any(unit.reduced_by is not None for unit in units):
            raise AssertionError("A communication hook is already registered")
        if self.sharding_strategy in _building.HYBRID:
            raise AssertionError(
                f"Communication hook is currently not supported for {self.sharding_strategy}"
            )
        for unit in units:
            unit.reduced_by = _Hooked(state, hook)

    # Whole parameters --------------------------------------------------------------------------------------------------------
    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """In the block, parameters are whole, in their own dtype; every process enters it.

        Args:
            recurse: those of wrappers further in, too.
            writeback: what the block changes in this process's piece of a parameter stays.
            rank0_only: on other ranks parameters stay pieces.
            offload_to_cpu: parameters are on the host, as they are anyway.
            with_grads: gradients are whole, too.

        Raises:
            NotImplementedError: `writeback` with `rank0_only`, or `with_grads` without `use_orig_params`
        """
        if writeback and rank0_only:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported")
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        if not recurse:
            wrappers = [each for each in wrappers if each is module]
        units = [each._fsdp_unit for each in wrappers]
        if with_grads and not all(each._use_orig_params for each in wrappers):
            raise NotImplementedError("with_grads=True needs use_orig_params=True")
        begun: list[Unit] = []
        try:
            for wrapper, unit in zip(wrappers, units):
                begun.append(unit)
                unit.summon()
                if with_grads:
                    unit.summon_gradients()
                if rank0_only and wrapper.rank != 0:
                    unit.dismiss(False)
                    begun.pop()
            yield
        finally:
            for unit in begun:
                unit.dismiss(writeback and unit.is_summoned)

    # States --------------------------------------------------------------------------------------------------------------------
    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """What `state_dict`, `load_state_dict` and the functions for optimisers give and take; what was set before.

        RuntimeError for configurations of another type.
        """
        kind, optim_kind = _CONFIGS[state_dict_type]
        config = kind() if state_dict_config is None else state_dict_config
        optim_config = optim_kind() if optim_state_dict_config is None else optim_state_dict_config
        for name, got, wanted in (
            ("state_dict_config", config, kind),
            ("optim_state_dict_config", optim_config, optim_kind),
        ):
            if type(got) is not wanted:
                raise RuntimeError(f"Expected {name} of type {wanted} but got {type(got)}")
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for each in FullyShardedDataParallel.fsdp_modules(module):
            each._settings = StateDictSettings(state_dict_type, config, optim_config)
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What `set_state_dict_type` has set.  AssertionError where wrappers differ."""
        return _states.settings_of(module)

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """In the block, `set_state_dict_type`."""
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            for each in FullyShardedDataParallel.fsdp_modules(module):
                each._settings = before

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: dict[str, Any] | None = None, group: Any = None
    ) -> dict[str, Any]:
        """An optimiser's state by names of parameters, whole or as slices as `set_state_dict_type` says; every process calls it.

        Args:
            optim_state_dict: in place of `optim.state_dict()`.
        """
        return _optim_states.gathered(model, optim, optim_state_dict)

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Any,
        optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:
        """This process's pieces of what `optim_state_dict` has made, for `optim.load_state_dict`; every process calls it.

        Args:
            is_named_optimizer: keys stay names.
            load_directly: load it, too.
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model).optim_state_dict_config
        rank0_only = getattr(settings, "rank0_only", False)
        state = _optim_states.local(model, optim, optim_state_dict, rank0_only, is_named_optimizer)
        if load_directly:
            optim.load_state_dict(state)
        return state

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None
    ) -> dict[str, Any]:
        """The whole state by names of parameters; with `rank0_only` empty on other ranks."""
        return _optim_states.gathered(model, optim, None, FullOptimStateDictConfig(rank0_only=rank0_only))

    @staticmethod
    def sharded_optim_state_dict(model: Module, optim: Any, group: Any = None) -> dict[str, Any]:
        """The state by names of parameters, in slices."""
        return _optim_states.gathered(model, optim, None, ShardedOptimStateDictConfig())

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any], model: Module, optim_input: Any = None, optim: Any = None
    ) -> dict[str, Any]:
        """This process's pieces of a whole state that every process has."""
        return _optim_states.local(model, optim, full_optim_state_dict, False, False)

    @staticmethod
    def flatten_sharded_optim_state_dict(
        sharded_optim_state_dict: dict[str, Any], model: Module, optim: Any
    ) -> dict[str, Any]:
        """This process's pieces of a state in slices."""
        return _optim_states.local(model, optim, sharded_optim_state_dict, False, False)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any] | None,
        model: Module,
        optim_input: Any = None,
        optim: Any = None,
        group: Any = None,
    ) -> dict[str, Any]:
        """This process's pieces of a whole state that rank 0 has."""
        return _optim_states.local(model, optim, full_optim_state_dict, True, False)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict[str, Any],
        optim_state_key_type: OptimStateKeyType,
        model: Module,
        optim_input: Any = None,
        optim: Any = None,
    ) -> dict[str, Any]:
        """The same state of a model that is not sharded, by names of parameters or by their numbers."""
        return _optim_states.rekeyed(
            optim_state_dict, optim_state_key_type is OptimStateKeyType.PARAM_NAME, model, optim
        )


class _Hooked:
    """Adds a bucket's gradients up by a communication hook."""

    def __init__(self, state: object, hook: Callable[..., Any]) -> None:
        self.state, self.hook = state, hook

    def __call__(self, bucket: Any) -> None:
        unsharded_grad, used = bucket.flat_gradient(), [1.0] * len(bucket.slots)
        if bucket.n == 1:
            self.hook(self.state, unsharded_grad)
            bucket.accept_row(unsharded_grad, used)
            return
        piece = unsharded_grad.new_empty(bucket.layout.length)
        self.hook(self.state, unsharded_grad, piece)
        bucket.accept_row(piece, used)


for _class in (FullyShardedDataParallel, OptimStateKeyType, FlatParameter):
    _class.__module__ = display.public("distributed.fsdp")
