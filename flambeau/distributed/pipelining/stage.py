"""A stage of a pipeline: a module, which stage it is, and where its inputs come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ...core.base.tensor import TensorBase
from ...nn.modules.module import Module
from ...nn.parallel.distributed import DistributedDataParallel
from ...utils._pytree import TreeSpec, tree_flatten
from .._groups import get_rank, get_world_size
from ._actions import Sources
from ._utils import PipeInfo, PipeliningMetadataError, TensorMeta, as_tuple

__all__ = ["PipelineStage", "build_stage"]


class _PipelineStageBase:
    """What stages made by hand and those of a `Pipe` have in common."""

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        group: Any = None,
        dw_builder: Callable[[], Callable[..., None]] | None = None,
    ) -> None:
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group, self.dw_builder = device, group, dw_builder
        self.group_rank, self.group_size = get_rank(group), get_world_size(group)
        if self.group_rank < 0:
            raise ValueError(f"stage {stage_index}: this process is not in the group")
        if self.group_size > num_stages:
            raise RuntimeError(
                f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}"
            )
        self.fwd_cache: dict[int, tuple[tuple[Any, ...], list[Any]]] = {}  # microbatch -> results and inputs
        self.dw_runner: dict[int, Callable[[], None]] = {}  # microbatch -> its other half of backward

    @property
    def is_first(self) -> bool:
        """Whether it takes the model's inputs."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether it gives the model's results."""
        return self.stage_index == self.num_stages - 1

    @property
    def sources(self) -> Sources:
        """For each stage of the pipeline, the stages whose results it takes."""
        raise NotImplementedError

    def outputs_for(self, target: int) -> list[int] | None:
        """Which of its results stage `target` takes; None for all."""
        raise NotImplementedError

    def inputs_from(self, source: int) -> list[int] | None:
        """Which of its inputs come from stage `source`; None for all."""
        raise NotImplementedError

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The inputs of the first stage, from those of the model."""
        return list(args), kwargs

    def keywords(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments of a stage that is not the first, from those that its process has given."""
        return kwargs

    def check_inputs(self, inputs: Sequence[Any]) -> None:
        """PipeliningMetadataError where inputs are not as they were said to be."""

    def check_outputs(self, outputs: Sequence[Any]) -> None:
        """The same for results."""

    def clear_runtime_states(self) -> None:
        """Forget the microbatches that a step has left behind when it failed."""
        self.fwd_cache.clear()
        self.dw_runner.clear()

    # Data parallel modules average gradients over processes in the last backward of a step alone.
    def _alone(self) -> AbstractContextManager[Any]:
        return self.submod.no_sync() if isinstance(self.submod, DistributedDataParallel) else nullcontext()

    def forward(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """What the module returns."""
        with self._alone():
            return self.submod(*args, **kwargs)

    def run_backward(self, run: Callable[[], Any], outputs: Any, last: bool) -> Any:
        """Run a backward that adds to the parameters' gradients; `last`: of this step."""
        if not last:
            with self._alone():
                return run()
        if isinstance(self.submod, DistributedDataParallel):
            self.submod.reducer.prepare(self.submod._unused_by(outputs))
        return run()


class PipelineStage(_PipelineStageBase):
    """A stage whose inputs are the results of the stage before it.

    Args:
        submodule: what the stage computes; a stage that is not the last returns a tensor or a tuple of tensors.
        stage_index: which stage of the pipeline it is, from 0.
        num_stages: how many there are.
        device: where it computes.
        input_args, output_args: examples of its inputs and results for one microbatch.  They may be left out: processes tell each other
            shapes with the first microbatch of a step.  Given ones are checked.
        group: the processes of the pipeline, by default all.
        dw_builder: `dw_builder()` returns what runs in the place of the second half of a backward; the module's own backward then runs
            whole in the first.

    Raises:
        ValueError: there is no such stage
        RuntimeError: there are more processes than stages

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.pipelining import PipelineStage
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> stage = PipelineStage(torch.nn.Linear(2, 2), 0, 1, torch.device("cpu"))
    >>> stage.is_first, stage.is_last
    (True, True)
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Any = None,
        output_args: Any = None,
        output_grads: Any = None,
        input_grads: Any = None,
        group: Any = None,
        dw_builder: Callable[[], Callable[..., None]] | None = None,
        get_mesh: Any = None,
    ) -> None:
        super().__init__(submodule, stage_index, num_stages, device, group, dw_builder)
        for name, value in dict(
            output_grads=output_grads, input_grads=input_grads, get_mesh=get_mesh
        ).items():
            if value is not None:
                raise NotImplementedError(
                    f"PipelineStage(): {name} describes tensors that are sharded between stages, which are not supported"
                )
        self._inputs, self._outputs = (
            _expected("input_args", input_args),
            _expected("output_args", output_args),
        )

    @property
    def sources(self) -> Sources:
        """For each stage, the one before it."""
        return {stage: [stage - 1] if stage else [] for stage in range(self.num_stages)}

    def outputs_for(self, target: int) -> list[int] | None:
        """All."""
        return None

    def inputs_from(self, source: int) -> list[int] | None:
        """All."""
        return None

    def check_inputs(self, inputs: Sequence[Any]) -> None:
        """PipeliningMetadataError where inputs are not like `input_args`."""
        _check(f"stage {self.stage_index}: input", self._inputs, inputs)

    def check_outputs(self, outputs: Sequence[Any]) -> None:
        """PipeliningMetadataError where results are not like `output_args`."""
        _check(f"stage {self.stage_index}: output", self._outputs, outputs)


class _PipelineStage(_PipelineStageBase):
    """A stage of a `Pipe`, which may take results of any stage before it."""

    def __init__(
        self,
        stage_module: Module,
        stage_index: int,
        pipe_info: PipeInfo,
        device: Any,
        group: Any = None,
    ) -> None:
        super().__init__(stage_module, stage_index, pipe_info.num_stages, device, group)
        self.pipe_info = pipe_info

    @property
    def sources(self) -> Sources:
        """The stages that each takes results of, the earliest first."""
        return {
            stage: sorted({taken[0] for taken in inputs if taken is not None})
            for stage, inputs in enumerate(self.pipe_info.sources)
        }

    def outputs_for(self, target: int) -> list[int] | None:
        """The results that `target` takes, in the order of its inputs."""
        return [t[1] for t in self.pipe_info.sources[target] if t is not None and t[0] == self.stage_index]

    def inputs_from(self, source: int) -> list[int] | None:
        """The places of the inputs that come from `source`."""
        mine = self.pipe_info.sources[self.stage_index]
        return [k for k, t in enumerate(mine) if t is not None and t[0] == source]

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The model's arguments as the first stage takes them: one after the other."""
        return bound(self.submod, args, kwargs), {}

    def keywords(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """None: what later stages take of the model's arguments comes with the first stage's results."""
        return {}


def bound(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments of the model that the first stage's module takes; TypeError where they have another structure than the example's."""
    spec: TreeSpec = module.meta["in_spec"]  # type: ignore[assignment, index]
    names = list(spec.child(1).context) if spec.num_children == 2 else []
    if set(kwargs) == set(names):
        kwargs = {name: kwargs[name] for name in names}
    leaves, structure = tree_flatten((tuple(args), kwargs))
    if structure != spec:
        raise TypeError(
            f"step(): the pipeline was made for arguments of structure {spec}, but is called with {structure}"
        )
    return [leaves[k] for k in module.meta["taken"]]  # type: ignore[index, union-attr]


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: PipeInfo, device: Any, group: Any = None
) -> _PipelineStage:
    """A stage of a `Pipe` from the module of `Pipe.get_stage_module` (or what wraps it) and `Pipe.info()`.

    Raises:
        ValueError: there is no such stage
        RuntimeError: there are more processes than stages

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.pipelining import SplitPoint, build_stage, pipeline
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    >>> pipe = pipeline(net, (torch.ones(1, 2),), split_spec={"1": SplitPoint.BEGINNING})
    >>> build_stage(pipe.get_stage_module(1), 1, pipe.info(), torch.device("cpu")).is_last
    True
    >>> dist.destroy_process_group()
    """
    return _PipelineStage(stage_module, stage_index, pipe_info, device, group)


def _expected(name: str, example: Any) -> tuple[TensorMeta, ...] | None:
    if example is None:
        return None
    values = as_tuple(example)
    for value in values:
        if not isinstance(value, TensorBase):
            raise TypeError(f"PipelineStage(): {name} must be tensors, got {type(value).__name__}")
    return tuple(TensorMeta.of(value) for value in values)


def _check(what: str, expected: tuple[TensorMeta, ...] | None, values: Sequence[Any]) -> None:
    if expected is None:
        return
    if len(values) != len(expected):
        raise PipeliningMetadataError(f"{what}s: {len(expected)} were announced, there are {len(values)}")
    for k, (meta, value) in enumerate(zip(expected, values)):
        if not isinstance(value, TensorBase) or TensorMeta.of(value)[:2] != meta[:2]:
            actual = TensorMeta.of(value) if isinstance(value, TensorBase) else type(value).__name__
            raise PipeliningMetadataError(f"{what} {k}: {meta} was announced, it is {actual}")
