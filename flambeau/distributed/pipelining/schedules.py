"""Schedules: in which order the stages of a pipeline compute microbatches.

A class makes the lists of its actions (`_orders`), which are checked on a clock (`_actions`) before one engine runs them (`_executor`).
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ...core.base.tensor import TensorBase
from ...core.tape.modes import is_grad_enabled
from ...utils._pytree import tree_leaves
from . import _orders
from ._actions import (
    OVERLAP,
    RECV_B,
    RECV_F,
    SEND_B,
    SEND_F,
    B,
    F,
    I,
    Order,
    Timeline,
    W,
    _Action,
    _ComputationType,
    format_order,
    forward_only,
    simulate,
    validate,
    with_messages,
)
from ._executor import Executor
from ._utils import PipeliningMetadataError, TensorMeta, generate_stage_to_rank_mapping
from .microbatch import TensorChunkSpec, _split_tensor, merge_chunks, split_args_kwargs_into_chunks
from .stage import _PipelineStageBase

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "get_schedule_class",
]
FORWARD, FULL_BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, OVERLAP_F_B = F, B, I, W, OVERLAP
_EXPORTED = (
    RECV_B,
    RECV_F,
    SEND_B,
    SEND_F,
    _ComputationType,
)  # what programs that print schedules compare with


class _PipelineSchedule:
    """What schedules of one and of several stages a process have in common."""

    _style = "loop"  # how stages are given out to ranks
    _defers = False  # whether receives wait until their tensors are read

    def __init__(
        self,
        stages: Sequence[_PipelineStageBase],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None,
        args_chunk_spec: tuple[Any, ...] | None,
        kwargs_chunk_spec: dict[str, Any] | None,
        output_merge_spec: Any,
        scale_grads: bool,
    ) -> None:
        if not stages:
            raise ValueError(f"{type(self).__name__}: there are no stages")
        if not isinstance(n_microbatches, int) or n_microbatches < 1:
            raise ValueError(
                f"{type(self).__name__}: n_microbatches must be at least 1, got {n_microbatches!r}"
            )
        first = stages[0]
        self._stages, self._n_microbatches, self._loss_fn = list(stages), n_microbatches, loss_fn
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec, self.scale_grads = output_merge_spec, scale_grads
        self._num_stages, self.pp_group_size, self.rank = first.num_stages, first.group_size, first.group_rank
        self.pipeline_order: dict[int, list[_Action | None]] = {}
        self.stage_index_to_group_rank = generate_stage_to_rank_mapping(
            self.pp_group_size, self._num_stages, self._style
        )
        if (order := self._make_order()) is not None:
            self._set_order(order)

    def _make_order(self) -> Order | None:
        """The computations of each rank; None where they are read from a file."""
        return None

    def _set_order(self, order: Order) -> None:
        """Take an order, after it was checked and tried on a clock."""
        where = validate(order, self.pp_group_size, self._num_stages, self._n_microbatches)
        simulate(order, self._stages[0].sources)
        held = sorted(stage for stage, rank in where.items() if rank == self.rank)
        mine = sorted(stage.stage_index for stage in self._stages)
        if mine != held:
            raise ValueError(
                f"{type(self).__name__}: rank {self.rank} of {self.pp_group_size} has stages {held} of {self._num_stages}, but stages "
                f"{mine} were given"
            )
        self.pipeline_order = {rank: list(actions) for rank, actions in order.items()}
        self.stage_index_to_group_rank = where
        self._plans: dict[bool, list[_Action]] = {}

    def timeline(self) -> Timeline:
        """When each rank computes what, in times of one forward, and the fraction of time in which ranks wait (`.bubble`)."""
        return simulate(self.pipeline_order, self._stages[0].sources)

    def __str__(self) -> str:
        return format_order(self.pipeline_order, self._stages[0].sources)

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Forward and backward of a batch, which adds the gradients of its loss to the parameters of this process's stages.

        The process of the first stage gives the model's inputs, that of the last `target`; both are split into microbatches.  Others give
        nothing.  Keyword arguments go to each stage of the process that gives them (of a `Pipe`: to the first stage).

        Args:
            losses: a list that gets the losses of the microbatches, on the process of the last stage.
            return_outputs: whether that process keeps the model's results.
            loss_kwargs: further arguments of the loss function.

        Returns:
            The results of the whole batch on the process of the last stage, None on others.

        Raises:
            RuntimeError: there is a loss function, and gradients are off
            ValueError: a batch has fewer rows than there are microbatches; a target is missing
            PipeliningMetadataError: microbatches have different sizes
        """
        return self._run(self._loss_fn is not None, args, kwargs, target, losses, return_outputs, loss_kwargs)

    def eval(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """The same without backward; losses are computed where there is a target."""
        return self._run(False, args, kwargs, target, losses, return_outputs, loss_kwargs)

    def _run(
        self,
        trains: bool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Any,
        losses: list[Any] | None,
        return_outputs: bool,
        loss_kwargs: dict[str, Any] | None,
    ) -> Any:
        if trains and not is_grad_enabled():
            raise RuntimeError(
                "step() requires gradients to be enabled for backward computation; it should not be used under torch.no_grad() context. "
                "Please call eval() instead."
            )
        if not self.pipeline_order:
            raise RuntimeError(
                f"{type(self).__name__} has no order of actions; use a schedule that makes one"
            )
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"losses must be a list but got a {type(losses)}")
        has_last = any(stage.is_last for stage in self._stages)
        args_split, kwargs_split = self._split_inputs(args, kwargs)
        loss = self._loss_of(target, loss_kwargs, trains) if has_last else None
        executor = Executor(
            self._stages,
            self.stage_index_to_group_rank,
            self._n_microbatches,
            loss,
            1.0 / self._n_microbatches if self.scale_grads else 1.0,
            trains,
            return_outputs,
        )
        executor.run(self._plan(trains), args_split, kwargs_split)
        if has_last and losses is not None:
            losses[:] = [executor.losses[m] for m in sorted(executor.losses)]
        if has_last and return_outputs:
            outputs = [executor.outputs[m] for m in range(self._n_microbatches)]
            return merge_chunks(outputs, self._output_merge_spec)
        return None

    def _plan(self, trains: bool) -> list[_Action]:
        if trains not in self._plans:
            order = self.pipeline_order if trains else forward_only(self.pipeline_order)
            sources = self._stages[0].sources
            plan = with_messages(order, self.stage_index_to_group_rank, sources, self._defers)
            self._plans[trains] = plan[self.rank]
        return self._plans[trains]

    def _split_inputs(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Sequence[tuple[Any, ...]], Sequence[dict[str, Any]]]:
        n = self._n_microbatches
        if not any(stage.is_first for stage in self._stages):
            args = ()
        if not args and not kwargs:
            return [()] * n, [{}] * n
        args_split, kwargs_split = split_args_kwargs_into_chunks(
            args, kwargs, n, self._args_chunk_spec if args else None, self._kwargs_chunk_spec
        )
        if len(args_split) != n:
            raise ValueError(
                f"step(): {n} microbatches of a batch that can be split into {len(args_split)} only"
            )
        if self._num_stages > 1:
            for m in range(1, n):
                _check_even(args_split[0], args_split[m], m, n)
                _check_even(kwargs_split[0], kwargs_split[m], m, n)
        return args_split, kwargs_split

    def _loss_of(
        self, target: Any, loss_kwargs: dict[str, Any] | None, trains: bool
    ) -> Callable[[Any, int], Any] | None:
        if self._loss_fn is None or (target is None and not trains):
            return None
        if target is None:
            raise ValueError(
                "step(): target is missing, which the loss function is called with on the process of the last stage"
            )
        loss_fn, targets = self._loss_fn, _split_tensor(target, TensorChunkSpec(0), self._n_microbatches)
        return lambda output, m: loss_fn(output, targets[m], **(loss_kwargs or {}))


def _check_even(first: Any, other: Any, m: int, n: int) -> None:
    for k, (x, y) in enumerate(zip(tree_leaves(first), tree_leaves(other))):
        if isinstance(x, TensorBase) and x.shape != y.shape:
            raise PipeliningMetadataError(
                f"step(): argument {k} cannot be split into {n} microbatches of the same size: microbatch {m} is {TensorMeta.of(y)}, the "
                f"first is {TensorMeta.of(x)}"
            )


class PipelineScheduleSingle(_PipelineSchedule):
    """The base of schedules with one stage a process.

    Args:
        stage: this process's stage; its number is the process's rank in the group.
        n_microbatches: how many parts a batch is split into.
        loss_fn: `loss_fn(output, target)` of a microbatch, of one element; without it, steps only run forward.
        args_chunk_spec, kwargs_chunk_spec: along which dimension inputs are split (`TensorChunkSpec`), by default 0.
        output_merge_spec: the same for results.
        scale_grads: divide gradients by the number of microbatches, as a loss that is a mean needs it.

    Raises:
        ValueError: the group has another number of processes than there are stages, or the stage belongs to another

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> from flambeau.distributed.pipelining.schedules import PipelineScheduleSingle
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> schedule = ScheduleGPipe(PipelineStage(torch.nn.Linear(2, 1), 0, 1, torch.device("cpu")), 4)
    >>> isinstance(schedule, PipelineScheduleSingle), schedule.eval(torch.ones(8, 2)).shape
    (True, flambeau.Size([8, 1]))
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        stage: _PipelineStageBase,
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: tuple[Any, ...] | None = None,
        kwargs_chunk_spec: dict[str, Any] | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        if stage.group_size != stage.num_stages:
            raise ValueError(
                f"{type(self).__name__} has one stage a process: {stage.num_stages} stages need as many processes, the group has "
                f"{stage.group_size}"
            )
        super().__init__(
            [stage],
            n_microbatches,
            loss_fn,
            args_chunk_spec,
            kwargs_chunk_spec,
            output_merge_spec,
            scale_grads,
        )
        self._stage = stage


class _ScheduleForwardOnly(PipelineScheduleSingle):
    """Forward only, without a loss; ValueError with one."""

    def _make_order(self) -> Order:
        if self._loss_fn is not None:
            raise ValueError("Forward-only schedule does not support loss computation")
        return _orders.gpipe(self.pp_group_size, self._n_microbatches)


class ScheduleGPipe(PipelineScheduleSingle):
    """All microbatches forward, then all backward (Huang et al. 2019, https://arxiv.org/abs/1811.06965).

    With P stages and n microbatches, processes wait for (P - 1) / (n + P - 1) of the time, and hold the activations of n microbatches.
    Arguments and errors are those of `PipelineScheduleSingle`: ValueError for a stage of another process.

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> stage = PipelineStage(torch.nn.Linear(2, 1, bias=False), 0, 1, torch.device("cpu"))
    >>> schedule = ScheduleGPipe(stage, 2, torch.nn.functional.mse_loss)
    >>> losses = []
    >>> schedule.step(torch.ones(4, 2), target=torch.ones(4, 1), losses=losses).shape, len(losses)
    (flambeau.Size([4, 1]), 2)
    >>> print(schedule)
          Rank 0
       0: 0F0
       1: 0F1
       2: 0B0
       3:
       4: 0B1
       5:
    >>> dist.destroy_process_group()
    """

    def _make_order(self) -> Order:
        return _orders.gpipe(self.pp_group_size, self._n_microbatches)


class Schedule1F1B(PipelineScheduleSingle):
    """One forward, one backward (Narayanan et al. 2019, PipeDream, with the flush of its 2021 successor, https://arxiv.org/abs/2104.04473).

    Processes wait as long as with GPipe, but hold the activations of no more microbatches than there are stages.
    Arguments and errors are those of `PipelineScheduleSingle`; ValueError for fewer microbatches than stages.

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.pipelining import PipelineStage, Schedule1F1B
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> stage = PipelineStage(torch.nn.Linear(2, 1), 0, 2, torch.device("cpu"))
    >>> Schedule1F1B(stage, 4, torch.nn.functional.mse_loss).timeline().bubble  # (P - 1) / (n + P - 1)
    0.2
    >>> dist.destroy_process_group()
    """

    def _make_order(self) -> Order:
        if self._n_microbatches < self._num_stages:
            raise ValueError(
                f"Number of microbatches ({self._n_microbatches}) must be greater than or equal to the number of stages "
                f"({self._num_stages})."
            )
        return _orders.one_forward_one_backward(self.pp_group_size, self._n_microbatches)


class PipelineScheduleMulti(_PipelineSchedule):
    """The base of schedules with several stages a process, all of which are given.

    Its own class has no order; `_load_csv` reads one: a line for each rank, such as "0F0,0F1,0B0,0B1".
    `defer_pp_recv` receives tensors when they are read, not while the process computes what is before; it takes less memory.
    Other arguments are those of `PipelineScheduleSingle`.

    Raises:
        ValueError: there are no stages, or they belong to another process
        AssertionError: an order that was read misses a computation, or has one twice or too early
        RuntimeError: ranks would wait for each other for ever

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> import tempfile
    >>> from flambeau.distributed.pipelining import PipelineStage
    >>> from flambeau.distributed.pipelining.schedules import PipelineScheduleMulti
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> stages = [PipelineStage(torch.nn.Linear(2, 2), k, 2, torch.device("cpu")) for k in range(2)]
    >>> schedule = PipelineScheduleMulti(stages, 2)
    >>> with tempfile.NamedTemporaryFile("w+") as file:
    ...     print("0F0,1F0,1B0,0B0,0F1,1F1,1B1,0B1", file=file, flush=True)
    ...     schedule._load_csv(file.name)
    >>> schedule.step(torch.ones(4, 2)).shape
    flambeau.Size([4, 2])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        stages: Sequence[_PipelineStageBase],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: tuple[Any, ...] | None = None,
        kwargs_chunk_spec: dict[str, Any] | None = None,
        output_merge_spec: Any = None,
        use_full_backward: bool | None = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
    ) -> None:
        if use_full_backward is not None:
            warnings.warn(
                f"{type(self).__name__}: use_full_backward is deprecated and ignored; the schedule says which backwards are halves",
                FutureWarning,
                stacklevel=2,
            )
        if not backward_requires_autograd:
            raise NotImplementedError(
                f"{type(self).__name__}: backward_requires_autograd=False is for backwards of one's own, which are not supported"
            )
        self.n_local_stages, self._defers = len(stages), defer_pp_recv
        super().__init__(
            stages,
            n_microbatches,
            loss_fn,
            args_chunk_spec,
            kwargs_chunk_spec,
            output_merge_spec,
            scale_grads,
        )

    def _load_csv(self, filename: str, format: str = "compute_only") -> None:
        """Read an order of computations; messages follow from it."""
        if format != "compute_only":
            raise AssertionError(f'format must be "compute_only", got {format}')
        with open(filename, newline="") as file:
            self._set_order(
                {rank: [*map(_Action.from_str, row)] for rank, row in enumerate(csv.reader(file))}
            )

    def _dump_csv(self, filename: str) -> None:
        """Write the order as `_load_csv` reads it."""
        with open(filename, "w", newline="") as file:
            csv.writer(file).writerows(self.pipeline_order[rank] for rank in range(self.pp_group_size))

    def _check_local(self, count: int) -> None:
        if self.n_local_stages != count:
            raise ValueError(
                f"{type(self).__name__} requires exactly {count} stages per rank, but got {self.n_local_stages}."
            )

    def _round(self, name: str) -> int:
        """How many microbatches go through all stages before the next ones follow."""
        rounds = max(1, self._n_microbatches // self.pp_group_size)
        if self._n_microbatches % rounds:
            raise ValueError(
                f"{name} requires the number of microbatches to be a multiple of the number of rounds ({rounds}), but got "
                f"{self._n_microbatches}."
            )
        return self._n_microbatches // rounds


_PipelineScheduleRuntime = PipelineScheduleMulti


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches through a process's first stage, then its next (Lamy-Poirier 2022, https://arxiv.org/abs/2211.05953).

    Stage s is on rank s modulo the number of ranks.  Arguments and errors are those of `PipelineScheduleMulti`: ValueError for stages of
    another process.

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleLoopedBFS
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> stages = [PipelineStage(torch.nn.Linear(2, 2), k, 2, torch.device("cpu")) for k in range(2)]
    >>> ScheduleLoopedBFS(stages, 2).step(torch.ones(4, 2)).shape
    flambeau.Size([4, 2])
    >>> dist.destroy_process_group()
    """

    def _make_order(self) -> Order:
        return _orders.looped_bfs(self.pp_group_size, self.n_local_stages, self._n_microbatches)


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """1F1B over several stages a process (Narayanan et al. 2021, https://arxiv.org/abs/2104.04473).

    With v stages a process, P processes and n microbatches, processes wait for (P - 1) / (v n + P - 1) of the time.  Microbatches go in
    rounds of n / max(1, n // P), a whole number or ValueError.  Arguments and other errors are those of `PipelineScheduleMulti`.

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> stages = [PipelineStage(torch.nn.Linear(2, 2), k, 4, torch.device("cpu")) for k in (0, 2)]
    >>> round(ScheduleInterleaved1F1B(stages, 4).timeline().bubble, 3)
    0.111
    >>> dist.destroy_process_group()
    """

    def _make_order(self) -> Order:
        size = self._round("Interleaved 1F1B")
        return _orders.interleaved(self.pp_group_size, self.n_local_stages, self._n_microbatches, size)


class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """The same with backward in halves: the gradients of parameters are computed where processes would wait (Qi et al. 2023, ZB-H1,
    https://arxiv.org/abs/2401.10241).

    Arguments and errors are those of `ScheduleInterleaved1F1B`: ValueError for rounds that are not whole.

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> stages = [PipelineStage(torch.nn.Linear(2, 2), k, 4, torch.device("cpu")) for k in (0, 2)]
    >>> ScheduleInterleavedZeroBubble(stages, 4).timeline().bubble
    0.04
    >>> dist.destroy_process_group()
    """

    def _make_order(self) -> Order:
        size = self._round("Zero bubble")
        return _orders.zero_bubble(self.pp_group_size, self.n_local_stages, self._n_microbatches, size)


class ScheduleZBVZeroBubble(PipelineScheduleMulti):
    """Two stages a process, rank r has r and 2 P - 1 - r, with backward in halves (Qi et al. 2023, section 6,
    https://arxiv.org/abs/2401.10241).

    Arguments and errors are those of `PipelineScheduleMulti`; ValueError for another number of stages than two.

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleZBVZeroBubble
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> stages = [PipelineStage(torch.nn.Linear(2, 2), k, 4, torch.device("cpu")) for k in (0, 3)]
    >>> ScheduleZBVZeroBubble(stages, 4).timeline().bubble
    0.04
    >>> dist.destroy_process_group()
    """

    _style = "v"

    def _make_order(self) -> Order:
        self._check_local(2)
        return _orders.zbv(self.pp_group_size, self._n_microbatches)


class ScheduleDualPipeV(PipelineScheduleMulti):
    """Two stages a process as with ZBV, where forwards of one stand beside backwards of the other (DeepSeek-AI 2024,
    https://arxiv.org/abs/2412.19437).

    The two of a pair run one after the other.  Arguments and errors are those of `PipelineScheduleMulti`; ValueError for another number of
    stages than two, or fewer microbatches than stages.

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleDualPipeV
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> stages = [PipelineStage(torch.nn.Linear(2, 2), k, 4, torch.device("cpu")) for k in (0, 3)]
    >>> ScheduleDualPipeV(stages, 4).timeline().bubble < 0.1
    True
    >>> dist.destroy_process_group()
    """

    _style = "v"

    def _make_order(self) -> Order:
        self._check_local(2)
        if self._n_microbatches < self._num_stages:
            raise ValueError(
                f"DualPipeV requires at least as many microbatches as stages, but got {self._n_microbatches} microbatches and "
                f"{self._num_stages} stages."
            )
        return _orders.dual_pipe_v(self.pp_group_size, self._n_microbatches)


_CLASSES = {
    "1F1B": Schedule1F1B,
    "Interleaved1F1B": ScheduleInterleaved1F1B,
    "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS,
    "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
    "PipelineScheduleSingle": PipelineScheduleSingle,
    "PipelineScheduleMulti": PipelineScheduleMulti,
    "ZBVZeroBubble": ScheduleZBVZeroBubble,
    "DualPipeV": ScheduleDualPipeV,
}


def get_schedule_class(schedule_name: str) -> type[_PipelineSchedule]:
    """The schedule of a name such as "1F1B", in large or small letters; ValueError for another.

    >>> from flambeau.distributed.pipelining.schedules import get_schedule_class
    >>> get_schedule_class("gpipe").__name__
    'ScheduleGPipe'
    """
    for name, kind in _CLASSES.items():
        if name.lower() == schedule_name.lower():
            return kind
    raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(_CLASSES)}")
