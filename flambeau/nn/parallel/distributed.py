"""Copies of a module in several processes, which train as one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..._tensor import Tensor
from ...core.make.create import zeros
from ...core.tape.modes import is_grad_enabled
from ...distributed._collectives import all_reduce
from ...distributed._groups import resolve
from ...distributed._objects import all_gather_object
from ...distributed._reductions import ReduceOp
from ...distributed.algorithms.join import Join, Joinable, JoinHook
from ...distributed.utils import SYNCED_BYTES, _sync_params_and_buffers
from ..modules.module import Module
from ._low_precision import LowPrecision, MixedPrecision, cast_buffers, cast_inputs
from ._reducer import GradBucket, Reducer, reached

__all__ = ["DistributedDataParallel"]
_BUCKET = 25  # MB
_MixedPrecision = MixedPrecision


class DistributedDataParallel(Module, Joinable):
    """A module whose gradients are averaged over the processes of a group, while backward still runs.

    Every process has the same module, gives it its own part of a batch, and has the gradients of the whole batch's mean loss, where
    parts are equally large.
    Parameters and buffers are those of rank 0 when it is made.  Inputs and outputs have the shapes of `module`'s.

    Args:
        module: what to train, under the attribute `module`.
        process_group: the processes, by default all.
        broadcast_buffers: buffers are those of rank 0 before each forward pass.
        bucket_cap_mb: gradients are sent so many megabytes at a time, 25 by default.
        find_unused_parameters: look which parameters a forward pass has not used; theirs are the others' gradients, or stay as they are.
        gradient_as_bucket_view: gradients lie in the buckets, which saves their copies.
        static_graph: what the first pass does not use is never used.
        mixed_precision: dtypes in passes and of what is sent (`_MixedPrecision`); parameters and their gradients keep their own.
        device_mesh: the processes as a mesh of one dimension, in place of `process_group`.

    Raises:
        ValueError: there is no group; `gradient_as_bucket_view` with a precision of parameters
        RuntimeError: no parameter requires a gradient, the processes' modules differ, or a mesh has several dimensions

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(2, 1, bias=False))
    >>> net(flambeau.ones(4, 2)).mean().backward()
    >>> net.module.weight.grad  # the other process is not there, so its share is missing
    tensor([[0.5000, 0.5000]])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
    ) -> None:
        if device_mesh is not None:
            if process_group is not None:
                raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
            if device_mesh.ndim != 1:
                raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
            process_group = device_mesh.get_group(0)
        group = resolve(process_group)
        super().__init__()
        Joinable.__init__(self)
        if group is None:
            raise ValueError("DistributedDataParallel: this process is not in the group")
        for name, value in dict(
            delay_all_reduce_named_params=delay_all_reduce_named_params,
            param_to_hook_all_reduce=param_to_hook_all_reduce,
        ).items():
            if value is not None:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not supported")
        if device_ids:
            raise ValueError(
                f"DistributedDataParallel: device_ids must be None for a module on the CPU, got {device_ids}"
            )
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(n, p) for n, p in module.named_parameters() if p.requires_grad and n not in ignored]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
            )
        self.module, self.process_group, self.dim = module, group, dim
        self.device_mesh, self.mixed_precision = device_mesh, mixed_precision
        self.device_ids, self.output_device, self.device = None, None, named[0][1].device
        self.broadcast_buffers, self.gradient_as_bucket_view = broadcast_buffers, gradient_as_bucket_view
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.parameters_to_ignore = ignored
        self._never_used: list[Tensor] | None = None  # of a static graph
        self._check_alike(named)
        if init_sync:
            others = [p for n, p in module.named_parameters() if n not in ignored]
            self._copy_from([p.detach() for p in others] + self._buffers_to_sync(), 0)
        megabytes = _BUCKET if bucket_cap_mb is None else bucket_cap_mb
        looking = find_unused_parameters or static_graph
        self._low: LowPrecision | None = None
        wanted = mixed_precision or MixedPrecision()
        if wanted.param_dtype is not None and gradient_as_bucket_view:
            raise ValueError(
                "DistributedDataParallel: gradient_as_bucket_view needs gradients of the parameters' dtype, which mixed_precision changes"
            )
        dtype = wanted.reduce_dtype or wanted.param_dtype
        self.reducer = Reducer(
            named, group, int(megabytes * (1 << 20)), gradient_as_bucket_view, looking, dtype
        )
        if wanted.param_dtype is not None:
            self.reducer.remove()  # gradients come by other leaves
            self._low = LowPrecision(
                module, self.reducer._parameters, wanted.param_dtype, self.reducer._arrive
            )
        if wanted.buffer_dtype is not None:
            cast_buffers(module, wanted.buffer_dtype)

    # Forward -----------------------------------------------------------------------------------------------------------------
    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What `module` returns."""
        training = is_grad_enabled() and self.require_backward_grad_sync
        joining = self._join_config.enable
        self.reducer.divisor = self.process_group._size
        if training and joining:
            self._count_active()
        if self.broadcast_buffers and self.require_forward_param_sync and (training or not joining):
            self._copy_from(self._buffers_to_sync(), self._root_of_buffers(True))
        if self._low is None:
            output = self.module(*inputs, **kwargs)
        else:
            inputs, kwargs = cast_inputs((inputs, kwargs), self.mixed_precision.param_dtype)
            with self._low.used():
                output = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = training
        if training:
            self.reducer.prepare(self._unused_by(output))
        return output

    def _unused_by(self, output: Any) -> list[Tensor]:
        if not self.find_unused_parameters and not self.static_graph:
            return []
        if self._never_used is not None:
            return self._never_used
        leaves = reached(output)
        low = {} if self._low is None else self._low.leaves
        unused = [p for p in self.reducer._parameters if id(low.get(id(p), p)) not in leaves]
        if self.static_graph:
            self._never_used = unused
        return unused

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of forward passes in the block stay in this process, and are averaged with those of the next pass outside."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Any]) -> None:
        """Let `hook(state, bucket)` add gradients up: it returns a Future of the flat tensor that takes the bucket's place.

        Gradients in the bucket are those of this process: the hook also divides them by the number of processes.

        Raises:
            TypeError: the hook cannot be called
            RuntimeError: there is a hook already
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.reducer.state, self.reducer.hook = state, hook

    def _set_static_graph(self) -> None:
        """What the next pass does not use is never used."""
        self.static_graph = self.reducer._find_unused = True

    # What processes have in common -------------------------------------------------------------------------------------------------
    def _check_alike(self, named: Sequence[tuple[str, Tensor]]) -> None:
        facts = [(name, list(p.shape), str(p.dtype)) for name, p in named]
        all_facts: list[Any] = [None] * self.process_group._size
        all_gather_object(all_facts, facts, self.process_group)
        for rank, theirs in zip(self.process_group._ranks, all_facts):
            if theirs == facts:
                continue
            here = self.process_group._world.rank
            if len(theirs) != len(facts):
                what = f"Rank {here} has {len(facts)} params, while rank {rank} has inconsistent {len(theirs)} params."
            else:
                mine, other = next(pair for pair in zip(facts, theirs) if pair[0] != pair[1])
                what = f"Rank {here} has parameter {mine}, while rank {rank} has {other}."
            raise RuntimeError(f"DDP expects same model across all ranks, but {what}")

    def _buffers_to_sync(self) -> list[Tensor]:
        ignored = self.parameters_to_ignore
        return [b.detach() for n, b in self.module.named_buffers() if n not in ignored]

    def _copy_from(self, tensors: list[Tensor], root: int) -> None:
        """Overwrite tensors with those of the group's rank `root`."""
        _sync_params_and_buffers(self.process_group, tensors, SYNCED_BYTES, root)

    # Uneven inputs -------------------------------------------------------------------------------------------------------------------
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A context in which processes may have different numbers of batches: who has no more goes along with the others.

        Args:
            divide_by_initial_world_size: gradients are divided by the number of all processes, not of those that have inputs.
            throw_on_early_termination: RuntimeError on all processes as soon as one has no more.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does for the others."""
        return _Shadow(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        """The device on which processes count each other."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group

    def _count_active(self) -> None:
        count = Join.notify_join_context(self)
        if count is not None and not self._divide_by_initial:
            count.wait()
            self.reducer.divisor = int(count.result()[0].item())

    def _root_of_buffers(self, active: bool) -> int:
        """Whose buffers count: rank 0's; in `join` those of the last rank that has inputs."""
        if not self._join_config.enable:
            return 0
        root = zeros(1, device=self.process_group._place_of_objects()).fill_(
            float(self.process_group._rank if active else -1)
        )
        all_reduce(root, ReduceOp.MAX, self.process_group)
        return int(root.item())

    @property
    def _divide_by_initial(self) -> bool:
        return bool(self._join_config.options.get("divide_by_initial_world_size", True))

    # Modules -------------------------------------------------------------------------------------------------------------------------
    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What the reducer has made of the parameters."""
        sizes = [bucket._buffer.numel() * bucket._buffer.element_size() for bucket in self.reducer.buckets]
        return {"world_size": self.process_group._size, "bucket_sizes": ", ".join(map(str, sizes))}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise NotImplementedError(
            f"DistributedDataParallel is not copied: its processes would not agree; copy .module ({copy.__name__}.deepcopy(net.module))"
        )


class _Shadow(JoinHook):
    """Answers the collectives of processes that still train."""

    def __init__(self, ddp: DistributedDataParallel, by_initial: bool) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        ddp = self.ddp
        if ddp.broadcast_buffers:
            ddp._copy_from(ddp._buffers_to_sync(), ddp._root_of_buffers(False))
        ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """All have what the last ones have trained."""
        ddp = self.ddp
        root = ddp._root_of_buffers(is_last_joiner)
        ddp._copy_from([p.detach() for p in ddp.module.parameters()] + ddp._buffers_to_sync(), root)
