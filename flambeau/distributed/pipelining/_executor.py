"""The engine of all schedules: it runs one rank's list of actions.

Messages are MPI's non-blocking ones with a tag of their own each, so their order between two ranks does not matter.  The first message of a
step between two stages is preceded by the shapes and dtypes of what follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..._tensor import Tensor
from ...autograd.gradients import backward
from ...core.base.dtypes import by_name
from ...core.base.profiling import begin_span, end_span
from ...core.base.tensor import TensorBase
from ...core.make.create import empty, zeros, zeros_like
from ...nn.parallel.distributed import DistributedDataParallel
from ...utils._pytree import tree_map
from .._messages import irecv, isend
from .._work import Work
from ._actions import RECV_B, RECV_F, SEND_B, SEND_F, B, F, I, W, _Action
from ._backward import backward_input
from ._utils import PipeliningMetadataError, TensorMeta, as_tuple, read, written
from .stage import _PipelineStageBase

_SLOTS = 64  # tags of a message between two stages: its tensors, and the last two for what precedes the first
_LENGTH, _SHAPES = _SLOTS - 2, _SLOTS - 1
_TAGS = 1 << 29


class Executor:
    """One step of one rank."""

    def __init__(
        self,
        stages: Sequence[_PipelineStageBase],
        where: Mapping[int, int],
        microbatches: int,
        loss: Callable[[Any, int], Tensor] | None,
        scale: float,
        trains: bool,
        keeps_outputs: bool,
    ) -> None:
        self.stages = {stage.stage_index: stage for stage in stages}
        self.where, self.rank, self.group = where, stages[0].group_rank, stages[0].group
        self.sources = stages[0].sources
        self.targets = {s: [t for t, taken in self.sources.items() if s in taken] for s in self.sources}
        edges = [(s, t) for s, targets in self.targets.items() for t in targets]
        self._edges = {edge: k for k, edge in enumerate(edges)}
        if microbatches * len(edges) * 2 * _SLOTS >= _TAGS:
            raise ValueError(
                f"{microbatches} microbatches over {len(edges)} connections of stages need more than {_TAGS} tags for their messages"
            )
        self.loss, self.scale, self.trains, self.keeps_outputs = loss, scale, trains, keeps_outputs
        self.losses: dict[int, Tensor] = {}
        self.outputs: dict[int, Any] = {}
        self._inputs: dict[
            tuple[int, int], dict[int, tuple[Tensor, ...]]
        ] = {}  # (stage, microbatch) -> source -> tensors
        self._grads: dict[
            tuple[int, int], list[list[Tensor | None]]
        ] = {}  # the same: from each target, for each result
        self._sent_back: dict[
            tuple[int, int], dict[int, list[Tensor | None]]
        ] = {}  # (stage, microbatch) -> source -> gradients
        self._receives: dict[_Action, list[Work]] = {}
        self._announced: set[tuple[int, int]] = set()  # stages between which the shapes are sent
        self._metas: dict[
            tuple[int, int], tuple[TensorMeta, ...]
        ] = {}  # of what goes from a stage to another in this step
        self._sends: list[Work] = []
        self._args: Sequence[tuple[Any, ...]] = ()
        self._kwargs: Sequence[dict[str, Any]] = ()

    def run(
        self,
        actions: Sequence[_Action],
        args: Sequence[tuple[Any, ...]],
        kwargs: Sequence[dict[str, Any]],
    ) -> None:
        """Do all actions; `args` and `kwargs` are this process's arguments of each microbatch."""
        self._args, self._kwargs = args, kwargs
        do = {
            F: self._forward,
            B: self._backward,
            I: self._backward_input,
            W: self._backward_weight,
            SEND_F: self._send_results,
            RECV_F: self._receive_inputs,
            SEND_B: self._send_grads,
            RECV_B: self._receive_grads,
        }
        left = Counter(a.stage_index for a in actions if a.computation_type in (B, W))
        self._left = left  # backwards of each stage that still add to its gradients
        try:
            for action in actions:
                span = begin_span(f"PP:{action}")  # for the profiler
                try:
                    do[action.computation_type](self.stages[action.stage_index], action.microbatch_index)
                except Exception as error:
                    error.add_note(f"in action {action} of the pipeline, on rank {self.rank} of its group")
                    raise
                finally:
                    end_span(span)
                self._sends = [work for work in self._sends if not (work.is_completed() and work.wait())]
            for work in self._sends:
                work.wait()
        finally:
            for stage in self.stages.values():
                stage.clear_runtime_states()

    # Computations --------------------------------------------------------------------------------------------------------------
    def _forward(self, stage: _PipelineStageBase, m: int) -> None:
        index, received = stage.stage_index, []
        if stage.is_first:
            args, kwargs = stage.arguments(self._args[m], self._kwargs[m])
        else:
            args, kwargs = self._received(stage, m), stage.keywords(self._kwargs[m])
            received = args
        stage.check_inputs(args)
        result = stage.forward(args, kwargs)
        outputs = as_tuple(result)
        stage.check_outputs(outputs)
        self._check_sendable(stage, m, outputs)
        if stage.is_last and self.keeps_outputs:
            self.outputs[m] = tree_map(_detached, result) if self.trains else result
        if stage.is_last and self.loss is not None:
            loss = self.loss(result, m)
            self.losses[m] = loss.detach() if self.trains else loss
        for target in self.targets[index]:
            if self.where[target] == self.rank:
                sent = [outputs[k] for k in self._taken(index, target, outputs)]
                self._keep_inputs(target, m, index, [self._fresh(t, t.requires_grad) for t in sent])
        if self.trains:
            stage.fwd_cache[m] = ((loss,) if stage.is_last else outputs, received)
        elif self._is_sent(index):
            stage.fwd_cache[m] = (outputs, [])

    def _backward(self, stage: _PipelineStageBase, m: int) -> None:
        outputs, inputs = stage.fwd_cache.pop(m)
        pairs, last = self._starts(stage, m, outputs), self._is_last(stage)
        if pairs:
            roots, grads = zip(*pairs)
            stage.run_backward(lambda: backward(roots, grads), outputs, last)
        if stage.dw_builder is not None:
            stage.dw_builder()()
        self._pass_grads(stage, m, [x.grad for x in inputs], inputs)

    def _backward_input(self, stage: _PipelineStageBase, m: int) -> None:
        outputs, inputs = stage.fwd_cache.pop(m)
        pairs = self._starts(stage, m, outputs)
        if stage.dw_builder is not None:
            if pairs:
                roots, grads = zip(*pairs)
                stage.run_backward(lambda: backward(roots, grads), outputs, False)
            stage.dw_runner[m] = stage.dw_builder()
            self._pass_grads(stage, m, [x.grad for x in inputs], inputs)
            return
        of_inputs, later = backward_input([out for out, _ in pairs], [g for _, g in pairs], inputs)
        # A data parallel module may look what its results depend on.
        seen = outputs if isinstance(stage.submod, DistributedDataParallel) else ()
        stage.dw_runner[m] = lambda: stage.run_backward(later, seen, self._is_last(stage))
        self._pass_grads(stage, m, of_inputs, inputs)

    def _backward_weight(self, stage: _PipelineStageBase, m: int) -> None:
        stage.dw_runner.pop(m)()
        if stage.dw_builder is not None:
            self._is_last(stage)

    def _is_last(self, stage: _PipelineStageBase) -> bool:
        self._left[stage.stage_index] -= 1
        return self._left[stage.stage_index] == 0

    def _starts(
        self, stage: _PipelineStageBase, m: int, outputs: Sequence[Any]
    ) -> list[tuple[Tensor, Tensor]]:
        """Where a backward begins: the loss, or results with the sums of the gradients that later stages have for them."""
        if stage.is_last:
            return [(outputs[0], outputs[0].new_full(outputs[0].shape, self.scale))]
        for work in self._receives.pop(_Action(stage.stage_index, RECV_B, m), ()):
            work.wait()
        starts = []
        for out, grads in zip(outputs, zip(*self._grads.pop((stage.stage_index, m)))):
            present = [g for g in grads if g is not None]
            if out.requires_grad and present:
                starts.append((out, sum(present[1:], present[0])))
        return starts

    # What stages give each other -----------------------------------------------------------------------------------------------
    def _taken(self, source: int, target: int, outputs: Sequence[Any]) -> list[int]:
        """The numbers of the results that a stage takes of another; one of the two is on this rank."""
        if source in self.stages:
            taken = self.stages[source].outputs_for(target)
            return list(range(len(outputs))) if taken is None else taken
        return list(range(len(self._metas[source, target])))

    def _is_sent(self, index: int) -> bool:
        return any(self.where[target] != self.rank for target in self.targets[index])

    def _fresh(self, tensor: Tensor, requires_grad: bool) -> Tensor:
        """A result of a stage as another takes it: a leaf."""
        leaf = tensor.detach()
        return leaf.requires_grad_() if self.trains and requires_grad else leaf

    def _keep_inputs(self, stage: int, m: int, source: int, tensors: Sequence[Tensor]) -> None:
        self._inputs.setdefault((stage, m), {})[source] = tuple(tensors)

    def _received(self, stage: _PipelineStageBase, m: int) -> list[Tensor]:
        """The inputs of a stage that is not the first, in their order."""
        for work in self._receives.pop(_Action(stage.stage_index, RECV_F, m), ()):
            work.wait()
        by_source = self._inputs.pop((stage.stage_index, m), {})
        placed: dict[int, Tensor] = {}
        for source, tensors in by_source.items():
            places = stage.inputs_from(source)
            placed.update(zip(range(len(tensors)) if places is None else places, tensors))
        return [placed[k] for k in sorted(placed)]

    def _check_sendable(self, stage: _PipelineStageBase, m: int, outputs: Sequence[Any]) -> None:
        """What a stage sends are tensors, of the same shapes and dtypes for each microbatch."""
        for target in self.targets[stage.stage_index]:
            sent = [outputs[k] for k in self._taken(stage.stage_index, target, outputs)]
            for k, value in enumerate(sent):
                if not isinstance(value, TensorBase):
                    raise TypeError(
                        f"stage {stage.stage_index}: output {k} must be a tensor, as stage {target} takes it, got {type(value).__name__}"
                    )
            if len(sent) > _LENGTH:
                raise ValueError(
                    f"stage {stage.stage_index}: {len(sent)} tensors for stage {target}; at most {_LENGTH} are sent"
                )
            metas = tuple(map(TensorMeta.of, sent))
            before = self._metas.setdefault((stage.stage_index, target), metas)
            if metas != before:
                raise PipeliningMetadataError(
                    f"stage {stage.stage_index}, microbatch {m}: outputs {', '.join(map(str, metas))} differ from those of the "
                    f"first microbatch, {', '.join(map(str, before))}; all microbatches must have the same size"
                )

    def _pass_grads(
        self,
        stage: _PipelineStageBase,
        m: int,
        grads: Sequence[Tensor | None],
        inputs: Sequence[Tensor],
    ) -> None:
        """Keep the gradients of a stage's inputs for those that made them: zeros where the loss does not depend on an input."""
        full_grads = [zeros_like(x) if g is None and x.requires_grad else g for g, x in zip(grads, inputs)]
        for source in self.sources[stage.stage_index]:
            places = stage.inputs_from(source)
            taken = full_grads if places is None else [full_grads[k] for k in places]
            if self.where[source] == self.rank:
                self._add_grads(self.stages[source], m, stage.stage_index, taken)
            else:
                self._sent_back.setdefault((stage.stage_index, m), {})[source] = taken

    def _add_grads(
        self, source: _PipelineStageBase, m: int, target: int, grads: Sequence[Tensor | None]
    ) -> None:
        outputs = source.fwd_cache[m][0]
        row: list[Tensor | None] = [None] * len(outputs)
        for k, g in zip(self._taken(source.stage_index, target, outputs), grads):
            row[k] = g
        self._grads.setdefault((source.stage_index, m), []).append(row)

    # Messages ------------------------------------------------------------------------------------------------------------------
    def _tag(self, source: int, target: int, m: int, back: bool, slot: int) -> int:
        return ((m * len(self._edges) + self._edges[source, target]) * 2 + back) * _SLOTS + slot

    def _send(self, tensor: Tensor, to: int, tag: int) -> None:
        work = isend(tensor.detach().contiguous(), group=self.group, tag=tag, group_dst=self.where[to])
        assert work is not None
        self._sends.append(work)

    def _receive(self, tensor: Tensor, of: int, tag: int) -> Work:
        work = irecv(tensor, group=self.group, tag=tag, group_src=self.where[of])
        assert work is not None
        return work

    def _send_results(self, stage: _PipelineStageBase, m: int) -> None:
        index = stage.stage_index
        outputs = stage.fwd_cache[m][0] if self.trains else stage.fwd_cache.pop(m)[0]
        for target in self.targets[index]:
            if self.where[target] == self.rank:
                continue
            if (index, target) not in self._announced:
                self._announced.add((index, target))
                data = written(self._metas[index, target])
                length = zeros(1, dtype=by_name["int64"]).fill_(data.numel())
                self._send(length, target, self._tag(index, target, 0, False, _LENGTH))
                self._send(data, target, self._tag(index, target, 0, False, _SHAPES))
            for slot, k in enumerate(self._taken(index, target, outputs)):
                self._send(outputs[k], target, self._tag(index, target, m, False, slot))

    def _receive_inputs(self, stage: _PipelineStageBase, m: int) -> None:
        index, works = stage.stage_index, []
        for source in self.sources[index]:
            if self.where[source] == self.rank:
                continue
            if (source, index) not in self._metas:
                length = empty(1, dtype=by_name["int64"])
                self._receive(length, source, self._tag(source, index, 0, False, _LENGTH)).wait()
                data = empty(int(length.item()), dtype=by_name["uint8"])
                self._receive(data, source, self._tag(source, index, 0, False, _SHAPES)).wait()
                self._metas[source, index] = read(data)
            tensors = []
            for slot, meta in enumerate(self._metas[source, index]):
                tensor = empty(meta.shape, dtype=by_name[meta.dtype])
                works.append(self._receive(tensor, source, self._tag(source, index, m, False, slot)))
                tensors.append(self._fresh(tensor, meta.requires_grad))
            self._keep_inputs(index, m, source, tensors)
        self._receives[_Action(index, RECV_F, m)] = works

    def _send_grads(self, stage: _PipelineStageBase, m: int) -> None:
        index = stage.stage_index
        for source, grads in self._sent_back.pop((index, m)).items():
            for slot, g in enumerate(grads):
                if g is not None:
                    self._send(g, source, self._tag(source, index, m, True, slot))

    def _receive_grads(self, stage: _PipelineStageBase, m: int) -> None:
        index, works = stage.stage_index, []
        for target in self.targets[index]:
            if self.where[target] == self.rank:
                continue
            grads: list[Tensor | None] = []
            for slot, meta in enumerate(self._metas[index, target]):
                grads.append(empty(meta.shape, dtype=by_name[meta.dtype]) if meta.requires_grad else None)
                if grads[-1] is not None:
                    works.append(self._receive(grads[-1], target, self._tag(index, target, m, True, slot)))
            self._add_grads(stage, m, target, grads)
        self._receives[_Action(index, RECV_B, m)] = works


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, TensorBase) else value
