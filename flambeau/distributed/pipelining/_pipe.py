"""A model cut into stages along its exported graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from operator import getitem
from typing import Any

from ...core.base import display
from ...export import export
from ...export.exported_program import ExportedProgram
from ...fx.graph import Graph
from ...fx.graph_module import GraphModule
from ...fx.node import Node, map_arg
from ...fx.passes._parts import Part, as_module, connect, fill
from ...library import custom_op
from ...nn.modules.module import Module
from ...utils._pytree import tree_unflatten
from ._utils import PipeInfo
from .stage import _PipelineStage, bound, build_stage

__all__ = ["Pipe", "SplitPoint", "pipe_split", "pipeline"]
_STAGE = "submod_"


@custom_op("pippy::_pipe_split", mutates_args=())
def _mark() -> None:
    """Stands in a graph where a stage ends."""


def pipe_split() -> None:
    """Where a stage ends and the next begins, in the `forward` of a model that `pipeline` splits; elsewhere it does nothing.

    >>> from flambeau.distributed.pipelining import pipe_split
    >>> pipe_split()
    """
    _mark()


class SplitPoint(Enum):
    """Where `pipeline` splits: before a module, or after it.

    >>> from flambeau.distributed.pipelining import SplitPoint
    >>> SplitPoint.BEGINNING.value
    1
    """

    BEGINNING = 1
    END = 2


class Pipe(Module):
    """A model as stages; `pipeline` makes it.

    Called, it runs all stages in this process.  Attributes: `num_stages`; `split_gm`, the graph that calls the stages.
    Inputs and outputs are those of the model, of the shapes that the example had.  TypeError for arguments of another structure.

    >>> import flambeau as torch
    >>> from flambeau.distributed.pipelining import SplitPoint, pipeline
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    >>> pipe = pipeline(net, (torch.ones(3, 2),), split_spec={"2": SplitPoint.BEGINNING})
    >>> pipe.num_stages, sorted(pipe.get_stage_module(1).state_dict())
    (2, ['2.bias', '2.weight'])
    """

    def __init__(self, split_gm: GraphModule, info: PipeInfo, out_spec: Any) -> None:
        super().__init__()
        self.split_gm, self.num_stages, self.has_loss_and_backward = split_gm, info.num_stages, False
        self._info, self._out_spec = info, out_spec

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model returns."""
        values: dict[tuple[int, int], Any] = {}
        outputs: tuple[Any, ...] = ()
        for stage, sources in enumerate(self._info.sources):
            module = self.get_stage_module(stage)
            inputs = bound(module, args, kwargs) if stage == 0 else [values[s] for s in sources]  # type: ignore[index]
            outputs = module(*inputs)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            values.update({(stage, k): value for k, value in enumerate(outputs)})
        return outputs[0] if self._out_spec is None else tree_unflatten(list(outputs), self._out_spec)

    def get_stage_module(self, stage_idx: int) -> GraphModule:
        """The module of a stage, whose parameters are the model's under their names in it; ValueError where there is no such stage."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self.split_gm, f"{_STAGE}{stage_idx}")

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> _PipelineStage:
        """A stage for a schedule; ValueError where there is no such stage.

        >>> import flambeau as torch
        >>> import flambeau.distributed as dist
        >>> from flambeau.distributed.pipelining import pipeline
        >>> dist.init_process_group("fake", rank=0, world_size=1)
        >>> pipeline(torch.nn.Linear(2, 1), (torch.ones(3, 2),)).build_stage(0, torch.device("cpu")).is_last
        True
        >>> dist.destroy_process_group()
        """
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)

    def info(self) -> PipeInfo:
        """The graph that calls the stages, their number, and where each takes its inputs from."""
        return self._info

    def print_readable(self) -> None:
        """Print the code of the graph and of its stages."""
        self.split_gm.print_readable()

    def __str__(self) -> str:
        return str(self.split_gm)

    __repr__ = __str__


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable[[GraphModule], GraphModule] | None = None,
) -> Pipe:
    """Cut a model into stages.

    The model is exported with the arguments of one microbatch, as `export.export` does; its graph is cut where `split_spec` says,
    or at the `pipe_split()` calls of its `forward`.  A stage may take results of any stage before it.  A parameter that several stages
    use is in each of them; its gradients there are parts of a sum.

    Args:
        mb_args, mb_kwargs: the model's arguments for one microbatch; others must have the same shapes.
        split_spec: names of modules, such as "layers.3", to where at them a stage ends.
        split_policy: a function that returns the exported module with calls of `pipe_split` in its graph.

    Raises:
        ValueError: both `split_spec` and `split_policy` are given
        AttributeError: the model has no module of a name
        RuntimeError: the model cannot be exported

    >>> import flambeau as torch
    >>> from flambeau.distributed.pipelining import pipe_split, pipeline
    >>> class Net(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.first, self.second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    ...     def forward(self, x):
    ...         x = self.first(x)
    ...         pipe_split()
    ...         return self.second(x)
    >>> net = Net()
    >>> pipe = pipeline(net, (torch.ones(3, 2),))
    >>> pipe.num_stages, torch.equal(pipe(torch.ones(3, 2)), net(torch.ones(3, 2)))
    (2, True)
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    with _marked(module, split_spec or {}):
        try:
            program = export(module, mb_args, mb_kwargs)
        except Exception as error:
            raise RuntimeError(
                f"pipeline(): the model cannot be exported as one graph ({error}); make stages by hand with PipelineStage"
            ) from error
    model = program.module(check_guards=False)
    if split_policy is not None:
        model = split_policy(model)
    return _split(model, program)


@contextmanager
def _marked(module: Module, spec: dict[str, SplitPoint]) -> Iterator[None]:
    """Let modules mark where stages end, while the model is exported."""
    handles = []
    try:
        for name, point in spec.items():
            try:
                child = module.get_submodule(name)
            except AttributeError as error:
                raise AttributeError(
                    f"Specified target {name} referenced nonexistent module: {error}"
                ) from error
            if point is SplitPoint.BEGINNING:
                handles.append(child.register_forward_pre_hook(lambda *_: pipe_split()))
            elif point is SplitPoint.END:
                handles.append(child.register_forward_hook(lambda *_: pipe_split()))
            else:
                raise ValueError(f"Unknown split point type: {point!r} for {name}")
        yield
    finally:
        for handle in handles:
            handle.remove()


def _is_mark(node: Node) -> bool:
    return node.op == "call_function" and (
        node.target is pipe_split or "pippy._pipe_split" in str(node.target)
    )


def carried(value: Any) -> Any:
    """An input of the model that a later stage takes: the first stage passes it on."""
    return value


def _stages_of(graph: Graph) -> dict[Node, int]:
    """The stage of each call; marks that nothing stands between are one."""
    of: dict[Node, int] = {}
    stage, empty = 0, True
    for node in list(graph.nodes):
        if _is_mark(node):
            stage, empty = stage + (not empty), True
            graph.erase_node(node)
        elif node.op not in ("placeholder", "get_attr", "output"):
            of[node], empty = stage, False
    return of


def _split(model: GraphModule, program: ExportedProgram) -> Pipe:
    graph = model.graph
    of = _stages_of(graph)
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    _carry(graph, inputs, of)
    _attach(graph, of)
    count = max(of.values(), default=0) + 1
    parts = {str(k): Part(f"{_STAGE}{k}") for k in range(count)}
    for node in graph.nodes:
        if node in of:
            parts[str(of[node])].nodes.append(node)
    connect(graph, parts, {node: str(stage) for node, stage in of.items()})
    returned = graph.output_node().args[0]
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    _give(parts[str(count - 1)], results, of, count - 1)
    first = parts["0"]
    first.inputs = {
        node: None for node in inputs if node in first.inputs
    }  # in the order of the model's arguments
    base, held, values = Graph(), {}, {}
    sources: list[tuple[tuple[int, int] | None, ...]] = []
    made: dict[Node, tuple[int, int]] = {}
    for node in inputs:
        values[node] = base.node_copy(node)
    for k in range(count):
        part = parts[str(k)]
        sources.append(tuple(made.get(node) for node in part.inputs))
        fill(model, part, True, True)
        outputs = results if k == count - 1 else list(part.outputs)
        inner = tuple(map_arg(tuple(outputs), part.copies.__getitem__))
        part.graph.output(inner if len(inner) != 1 else inner[0])
        held[part.name] = as_module(part)
        call = base.call_module(part.name, tuple(values[node] for node in part.inputs))
        for number, node in enumerate(part.outputs):
            made[node] = (k, number)
            several = len(inner) != 1
            values[node] = base.call_function(getitem, (call, number)) if several else call
    base.output(call)
    held[f"{_STAGE}0"].meta.update(
        in_spec=program.call_spec.in_spec, taken=[inputs.index(n) for n in first.inputs]
    )
    single = program.call_spec.out_spec is not None and program.call_spec.out_spec.is_leaf()
    split = GraphModule(held, base)
    info = PipeInfo(split.graph, count, False, tuple(sources))
    return Pipe(split, info, None if single else program.call_spec.out_spec)


def _carry(graph: Graph, inputs: list[Node], of: dict[Node, int]) -> None:
    """Let the first stage pass on what later stages take of the model's inputs."""
    last = max(of.values(), default=0)
    for node in reversed(inputs):
        later = [user for user in node.users if of.get(user, last) > 0]
        if later:
            with graph.inserting_after(inputs[-1]):
                passed = graph.call_function(carried, (node,))
            passed.meta = dict(node.meta)
            of[passed] = 0
            for user in later:
                user.replace_input_with(node, passed)


def _attach(graph: Graph, of: dict[Node, int]) -> None:
    """Give each stage attributes of its own."""
    last = max(of.values(), default=0)
    for node in [n for n in graph.nodes if n.op == "get_attr"]:
        by_stage: dict[int, Node] = {}
        for user in list(node.users):
            stage = of.get(user, last)
            if stage not in by_stage:
                with graph.inserting_before(node):
                    by_stage[stage] = graph.node_copy(node)
                of[by_stage[stage]] = stage
            user.replace_input_with(node, by_stage[stage])
        graph.erase_node(node)


def _give(part: Part, results: list[Any], of: dict[Node, int], stage: int) -> None:
    """Let the last stage have the results of the model that earlier ones compute."""
    for node in results:
        if isinstance(node, Node) and of.get(node) != stage:
            part.inputs.setdefault(node)


for _public in (Pipe, SplitPoint, pipe_split, pipeline):
    _public.__module__ = display.public("distributed.pipelining")
