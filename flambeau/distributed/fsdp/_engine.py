"""When buckets are gathered, freed and reduced: around the forward and the backward pass of the modules that hold them.

A `Unit` is what one call of `fully_shard`, or one `FullyShardedDataParallel`, has made of a module.  Before its forward pass its
buckets are gathered, after it they are freed; the gradient of its output gathers them again; when the gradients of its inputs are
there, they are freed, and their gradients are sent.  `Root` is what the units below the outermost module share: in what order they
ran, and which gradients are under way.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Any

from ..._tensor import Tensor
from ...autograd import Function
from ...core.base.tensor import TensorBase
from ...core.make.create import zeros
from ...core.make.literal import tensor
from ...core.tape import at_end_of_pass, current_pass
from ...core.tape.modes import is_grad_enabled
from .._collectives import all_reduce
from .._reductions import ReduceOp
from .._trees import map_tensors, tensors_of
from ._bucket import Bucket, Reduction

_UNDER_WAY = 2  # reductions whose buffers live at once


class Phase(Enum):
    """What a unit is doing."""

    IDLE = auto()
    FORWARD = auto()
    BACKWARD = auto()


class Root:
    """What the units of a model share while they run."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = [weakref.ref(unit) for unit in units]
        self.order: list[weakref.ref[Unit]] = []  # as forward passes ended since the last backward pass
        self.begun: list[weakref.ref[Unit]] = []  # as forward passes began in the one that runs
        self.expected: list[weakref.ref[Unit]] = []  # the same of the one before
        self.running: Unit | None = None  # the outermost unit whose forward pass runs
        self.is_last_backward = True
        self.queued = False  # whether the end of the backward pass is waited for
        self.reductions: deque[tuple[Reduction, bool]] = deque()

    @property
    def units(self) -> list[Unit]:
        """The units, from the outermost one on."""
        return [unit for reference in self._units if (unit := reference()) is not None]

    def send(self, reduction: Reduction, replicate: bool, most: int) -> None:
        """A reduction has begun; the oldest ones are seen to."""
        if self.reductions:
            last, over_replicas = self.reductions[-1]
            last.step(over_replicas)
        self.reductions.append((reduction, replicate))
        while len(self.reductions) > most:
            self._take()

    def _take(self) -> None:
        reduction, replicate = self.reductions.popleft()
        reduced = reduction.finish(replicate)
        if replicate:
            reduction.bucket.accept(reduced)
        else:  # until a later backward pass adds it up over the replicas
            before = reduction.bucket.partial
            reduction.bucket.partial = reduced if before is None else before.add_(reduced)

    def at_end(self) -> None:
        """All nodes of a backward pass have run."""
        self.queued = False
        for unit in reversed(self.units):
            if unit.phase is Phase.BACKWARD or unit.has_gradients():
                unit.after_backward()
            elif unit.was_prefetched and unit.reshard_after_backward:
                unit.reshard()
        if self.is_last_backward:
            self.settle()
            self.order.clear()
            for unit in self.units:
                unit.phase = Phase.IDLE

    def settle(self) -> None:
        """Wait for all gradients that are under way."""
        while self.reductions:
            self._take()

    def fail(self) -> None:
        """After an error in a pass: nothing stays gathered, and what was under way is waited for and dropped."""
        self.queued, self.running = False, None
        for reduction, replicate in self.reductions:
            try:
                reduction.finish(replicate)
            except RuntimeError:
                break  # the group is gone: who calls it next hears why
        self.reductions.clear()
        self.order.clear()
        self.begun, self.expected = [], []
        for unit in self.units:
            unit.phase = Phase.IDLE
            unit.give_up()


class Unit:
    """The buckets of a module, and what is known of their next use."""

    def __init__(
        self,
        modules: Sequence[Any],
        buckets: Sequence[Bucket],
        *,
        reshard_after_forward: bool | None,
        input_dtype: Any = None,
        output_dtype: Any = None,
    ) -> None:
        self._modules = [weakref.ref(module) for module in modules]
        self.buckets = list(buckets)
        self.root: Root | None = None
        self.is_root = False
        self.phase = Phase.IDLE
        self.is_gathered = self.is_gathering = self.was_prefetched = False
        self.reshard_after_forward = reshard_after_forward  # None: unless it is the root
        self.reshard_after_backward = True
        self.unshard_in_backward = True
        self.under_way = _UNDER_WAY
        self.reduce_gradients = self.reduce_over_replicas = True
        self.input_dtype, self.output_dtype = input_dtype, output_dtype
        self.root_input_dtype: Any = None  # goes before `input_dtype` where it is the root
        self.is_summoned = False
        self.prefetch_forward = self.prefetch_backward = True  # of the unit that ran next the last time
        self.prefetch_after_backward = False  # the same, but only when this unit's gradients are on their way
        self.forward_targets: list[Unit] = []
        self.backward_targets: list[Unit] = []
        self.reduced_by: Callable[[Bucket], None] | None = None  # in place of the group's reduction
        self._previous: Unit | None = None
        self._pending = len(self._modules)  # modules of it that are still to run

    @property
    def modules(self) -> list[Any]:
        """The modules whose forward passes it is for."""
        return [module for reference in self._modules if (module := reference()) is not None]

    # Parameters --------------------------------------------------------------------------------------------------------------
    def unshard(self, asynchronous: bool = True) -> None:
        """Begin to gather the whole parameters, unless they are there or on their way."""
        if self.is_gathered or self.is_gathering:
            return
        self.is_gathering = True
        try:
            for bucket in self.buckets:
                bucket.begin_gather(asynchronous)
        except BaseException:
            self._drop()
            raise

    def wait_for_unshard(self) -> None:
        """Wait until the modules hold the whole parameters."""
        if not self.is_gathering:
            return
        for bucket in self.buckets:
            bucket.end_gather()
            bucket.use_unsharded()
        self.is_gathering, self.is_gathered = False, True

    def reshard(self) -> None:
        """Let the modules hold shards, and free the whole parameters."""
        if self.is_gathering:
            self.wait_for_unshard()
        if self.is_gathered:
            for bucket in self.buckets:
                bucket.use_shards()
                bucket.free()
        self.is_gathered = self.was_prefetched = False

    def summon(self) -> None:
        """Let the modules hold the whole parameters in their own dtype, outside of a pass."""
        if self.root is not None and self.root.running is not None:
            raise AssertionError("the whole parameters cannot be summoned in a forward pass")
        self.reshard()
        for bucket in self.buckets:
            bucket.begin_gather(True, bucket.current_dtype())
        for bucket in self.buckets:
            bucket.end_gather()
            bucket.use_unsharded()
            if bucket.kind is None:
                bucket.expose(True)
        self.is_summoned = self.is_gathered = True

    def summon_gradients(self) -> None:
        """Let the summoned parameters have whole gradients, too."""
        for bucket in self.buckets:
            pieces = [slot.sharded.grad for slot in bucket.slots]
            vector = zeros(bucket.layout.length, dtype=bucket.dtype)
            for slot, piece in zip(bucket.slots, pieces):
                if piece is not None:
                    assert bucket.kind is not None, (
                        "a bucket with one parameter for all has one gradient for all"
                    )
                    bucket.layout.shard(vector, slot.region, bucket.rank).copy_(
                        bucket.kind.local_gradient(piece)
                    )
            there = tensor([float(piece is not None) for piece in pieces])
            if bucket.n > 1:
                all_reduce(there, ReduceOp.MAX, bucket.group)
            for slot, unsharded, mark in zip(bucket.slots, bucket.gather_vector(vector), there.tolist()):
                slot.unsharded.grad = unsharded.clone() if mark else None

    def dismiss(self, write_back: bool) -> None:
        """End `summon`; with `write_back` shards become what the whole parameters are now."""
        for bucket in self.buckets:
            for slot in bucket.slots:
                slot.unsharded.grad = None
            if write_back:
                bucket.write_back()
            if bucket.kind is None:
                bucket.expose(False)
        self.is_summoned = False
        self.reshard()

    def _drop(self) -> None:
        """As `reshard`, whatever has become of the processes that send."""
        try:
            self.reshard()
        except RuntimeError:  # they cannot be waited for any more
            for bucket in self.buckets:
                bucket.use_shards()
                bucket.free()
            self.is_gathering = self.is_gathered = self.was_prefetched = False

    def give_up(self) -> None:
        """As `reshard`, after an error: gradients that are not reduced are dropped."""
        self._drop()
        for bucket in self.buckets:
            bucket.partial = None
            for slot in bucket.slots:
                slot.unsharded.grad = slot.held = None

    def has_gradients(self) -> bool:
        """Whether gradients wait to be reduced."""
        return self.reduce_gradients and any(bucket.has_gradients() for bucket in self.buckets)

    # Forward -----------------------------------------------------------------------------------------------------------------
    def enter(self, module: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Before a forward pass: the whole parameters are there, and inputs are cast."""
        root = self._rooted()
        dtype = (
            self.root_input_dtype if self.is_root and self.root_input_dtype is not None else self.input_dtype
        )
        if dtype is not None:
            args, kwargs = map_tensors(lambda t: _cast(t, dtype), (args, kwargs))
        again = current_pass() is not None  # a checkpoint computes it once more
        is_first = again or self.phase is not Phase.FORWARD  # of several modules
        if is_first and not again:
            if root.running is None:
                root.running, root.begun = self, []
            root.begun.append(weakref.ref(self))
        self.unshard()
        self.wait_for_unshard()
        self.was_prefetched = again and self.phase is not Phase.BACKWARD
        if again:
            self._await_end(root)
        elif is_first:
            self.phase = Phase.FORWARD
            self._prefetch_next(root)
        if is_first and is_grad_enabled():
            args, kwargs = self._watch_inputs(args, kwargs)
        return args, kwargs

    def leave(self, module: Any, args: tuple, output: Any) -> Any:
        """After a forward pass: the parameters are freed, and the gradient of the output gathers them again."""
        root = self._rooted()
        if current_pass() is not None:
            return self._cast_output(self._watch_outputs(output))
        self._pending -= 1
        if self._pending <= 0:
            self._end_forward(root)
        output = self._watch_outputs(output)
        if root.running is self:
            self._finish_forward(root)
        return self._cast_output(output)

    def leave_or_fail(self, module: Any, args: tuple, output: Any) -> Any:
        """The same as a hook that is called after errors, too."""
        if output is None and sys.exc_info()[0] is not None:
            self.failed()
            return None
        return self.leave(module, args, output)

    def _end_forward(self, root: Root) -> None:
        self._pending = len(self._modules)
        if self._frees_after_forward():
            self.reshard()
        root.order.append(weakref.ref(self))
        self.phase = Phase.IDLE

    def _finish_forward(self, root: Root) -> None:
        root.running, root.expected = None, root.begun
        for unit in root.units:
            if unit.phase is Phase.FORWARD:  # of several modules of which not all have run
                unit._end_forward(root)
            if unit.is_gathering or (unit.was_prefetched and unit is not self):
                unit.reshard()  # it did not run this time
        if not is_grad_enabled():
            root.order.clear()

    def _frees_after_forward(self) -> bool:
        if self.reshard_after_forward is not None:
            return self.reshard_after_forward
        return not self.is_root or not is_grad_enabled()

    def failed(self) -> None:
        """The forward pass has raised."""
        if current_pass() is not None:
            return  # a checkpoint stops so; after an error the backward pass fails, too
        self._drop()
        self.phase = Phase.IDLE
        if self.root is not None and self.root.running is self:
            self.root.fail()
        self._pending = len(self._modules)

    def _rooted(self) -> Root:
        """What the units share.  The unit that is called first is the outermost one."""
        if self.root is None:
            units, seen = [], set()
            for top in self.modules:
                for name, module in top.named_modules():
                    unit = unit_of(module)
                    if unit is None or id(unit) in seen:
                        continue
                    if unit.root is not None:
                        raise RuntimeError(
                            f"FSDP state has already been lazily initialized for {name}\nFSDP requires running forward through the "
                            "root module first"
                        )
                    seen.add(id(unit))
                    units.append(unit)
            root = Root(units)
            for unit in units:
                unit.root = root
            self.is_root = True
        return self.root  # type: ignore[return-value]

    def _prefetch_next(self, root: Root) -> None:
        """Begin to gather what the forward pass comes to next."""
        for unit in self.forward_targets:
            unit._begin_early()
        place = len(root.begun)
        if not self.forward_targets and self.prefetch_forward and place < len(root.expected):
            following = root.expected[place]()
            if following is not None and following is not self:
                following._begin_early()

    def _begin_early(self) -> None:
        if not self.is_gathered and not self.is_gathering:
            self.unshard()
            self.was_prefetched = True

    # Backward ------------------------------------------------------------------------------------------------------------------
    def _watch_inputs(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        tensors = [t for t in tensors_of((args, kwargs)) if t.requires_grad]
        if not tensors:
            return args, kwargs
        following = iter(_AfterBackward.apply(self, *tensors))
        return map_tensors(lambda t: next(following) if t.requires_grad else t, (args, kwargs))

    def _watch_outputs(self, output: Any) -> Any:
        if is_grad_enabled():
            for tensor in tensors_of(output):
                if tensor.requires_grad:
                    tensor.register_hook(self._before_backward)
        return output

    def _before_backward(self, grad: Any) -> None:
        """A gradient of the output has come."""
        root = self._rooted()
        self._await_end(root)
        if self.phase is Phase.BACKWARD and self.is_gathered:
            return
        self.phase = Phase.BACKWARD
        self.was_prefetched = False
        if self.unshard_in_backward:
            self.unshard()
            self.wait_for_unshard()
        for unit in self.backward_targets:
            unit._begin_early()
        if not self.backward_targets and (self.prefetch_backward or self.prefetch_after_backward):
            self._previous = self._take_previous(root)
            if self.prefetch_backward and self._previous is not None:
                self._previous._begin_early()

    def _await_end(self, root: Root) -> None:
        if not root.queued:
            root.queued = True
            at_end_of_pass(root.at_end, root.fail)

    def _take_previous(self, root: Root) -> Unit | None:
        """What ran before this unit, which backward comes to next."""
        for place in range(len(root.order) - 1, -1, -1):
            if root.order[place]() is self:
                unit = root.order[place - 1]() if place else None
                del root.order[place:]
                return unit if unit is not self and unit is not None and unit.unshard_in_backward else None
        return None

    def after_backward(self) -> None:
        """The gradients of the inputs are there: nothing reads the parameters any more, and their gradients are whole."""
        root = self._rooted()
        self.phase = Phase.IDLE
        if self.reshard_after_backward:
            self.reshard()
        if not self.reduce_gradients:
            for bucket in self.buckets:
                bucket.hold()
            return
        for bucket in self.buckets:
            if not bucket.is_trained:
                continue
            if self.reduced_by is not None:
                self.reduced_by(bucket)
            else:
                root.send(bucket.reduce(), self.reduce_over_replicas, self.under_way)
        if self.prefetch_after_backward and self._previous is not None:
            self._previous._begin_early()
        self._previous = None

    # Casts -----------------------------------------------------------------------------------------------------------------------
    def _cast_output(self, output: Any) -> Any:
        if self.output_dtype is None:
            return output
        dtype = self.output_dtype
        return map_tensors(lambda t: _cast(t, dtype), output)


class _AfterBackward(Function):
    """Its inputs, and a call of `after_backward` when their gradients are there."""

    @staticmethod
    def forward(ctx: Any, unit: Unit, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.unit = unit
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        if ctx.unit.phase is Phase.BACKWARD:
            ctx.unit.after_backward()
        return None, *grads


def _cast(tensor: TensorBase, dtype: Any) -> Any:
    return tensor.to(dtype) if tensor.dtype.is_floating_point else tensor  # type: ignore[attr-defined]


def unit_of(module: Any) -> Unit | None:
    """The unit that a module's forward pass belongs to."""
    return module.__dict__.get("_fsdp_unit")


def units_below(module: Any) -> Iterator[Unit]:
    """The units of a module and of those in it, once each."""
    seen = set()
    for each in module.modules():
        unit = unit_of(each)
        if unit is not None and id(unit) not in seen:
            seen.add(id(unit))
            yield unit


def places_of(modules: Sequence[Any], skip: Any = ()) -> dict[Any, list[tuple[Any, str, str]]]:
    """The parameters in modules, each with all its places: the module, its attribute, and the dotted name.

    Modules in `skip` are left out with all that is in them.
    """
    result: dict[int, tuple[Any, list[tuple[Any, str, str]]]] = {}
    seen: set[tuple[int, str]] = set()

    def look(module: Any, prefix: str) -> None:
        if module in skip:
            return
        for attribute, parameter in module._parameters.items():
            if parameter is not None and (id(module), attribute) not in seen:
                seen.add((id(module), attribute))
                result.setdefault(id(parameter), (parameter, []))[1].append(
                    (module, attribute, prefix + attribute)
                )
        for name, child in module._modules.items():
            if child is not None:
                look(child, f"{prefix}{name}.")

    for k, module in enumerate(modules):
        look(module, "" if len(modules) == 1 else f"{k}.")
    return {parameter: places for parameter, places in result.values()}
