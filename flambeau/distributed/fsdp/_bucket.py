"""A bucket: parameters of one dtype that are gathered in one call, and whose gradients are reduced in one call."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..._tensor import Tensor
from ...autograd import no_grad
from ...core.make.create import empty, zeros
from ...core.make.literal import tensor
from ...nn.parameter import Parameter
from .._collectives import all_gather_into_tensor, all_reduce, reduce_scatter_tensor
from .._reductions import ReduceOp, premultiplied_sum
from ._layouts import Layout, Region


class Slot:
    """A parameter of a bucket: where modules hold it, what stands there while it is sharded and while it is not."""

    def __init__(
        self, places: Sequence[tuple[Any, str]], name: str, parameter: Parameter, region: Region
    ) -> None:
        self.places = [(weakref.ref(module), attribute) for module, attribute in places]
        self.name, self.region = name, region
        self.original: Any = parameter
        self.sharded: Any = (
            None  # a parameter over the process's shard; None where the bucket has one for all
        )
        self.unsharded: Any = None  # the leaf that the forward pass uses; its memory comes and goes
        self.shown: Any = None  # what modules hold of it: the leaf, or a DTensor over it
        self.held: Tensor | None = (
            None  # gradients of passes that were not reduced, in the dtype of reductions
        )
        self.extra = dict(getattr(parameter, "__dict__", {}))  # what users have attached
        self.dtype, self.requires_grad = parameter.dtype, parameter.requires_grad
        # How it lies over the group's mesh and its own, and over its own alone, where it is a DTensor without the bucket, too.
        self.specs: tuple[Any, Any] | None = None

    def modules(self) -> Iterator[tuple[Any, str]]:
        """The modules that hold it, and under which name."""
        for reference, attribute in self.places:
            module = reference()
            if module is not None:
                yield module, attribute

    def register(self, parameter: Any) -> None:
        """Let modules hold this parameter."""
        for module, attribute in self.modules():
            module._parameters[attribute] = parameter

    def set_aside(self) -> None:
        """Let modules hold the leaf as an attribute that is no parameter."""
        for module, attribute in self.modules():
            module._parameters.pop(attribute, None)
            module.__dict__[attribute] = self.unsharded

    def expose(self) -> None:
        """Let modules hold the leaf as a parameter that is no attribute of its own."""
        for module, attribute in self.modules():
            module.__dict__.pop(attribute, None)
            module._parameters[attribute] = self.unsharded


class Sharded:
    """How the shard of a parameter is a parameter; `fully_shard` has DTensors in its place."""

    def make(self, slot: Slot, local: Tensor) -> Any:
        """A parameter over a view of the process's row: the original one, whose data it becomes."""
        parameter = slot.original
        slot.original = None
        parameter.data = local
        return parameter

    def unsharded(self, slot: Slot) -> Any:
        """What modules hold of the gathered leaf."""
        return slot.unsharded

    def local(self, parameter: Any) -> Tensor:
        """The tensor of this process in such a parameter."""
        return parameter.data

    def local_gradient(self, grad: Any) -> Tensor:
        """The tensor of this process in a gradient."""
        return grad

    def set_local(self, slot: Slot, local: Tensor) -> None:
        """Let the parameter lie there."""
        grad = slot.sharded.grad
        if grad is not None and (grad.shape != local.shape or grad.dtype is not local.dtype):
            slot.sharded.grad = None
        slot.sharded.data = local

    def gradient(self, slot: Slot, local: Tensor) -> Any:
        """A gradient for such a parameter from this process's piece."""
        return local


class Gather(NamedTuple):
    """Rows that are on their way: calls, and a buffer for what is to be copied from it, of all rows from `begin` on."""

    works: list[Any]
    rows: Tensor | None
    begin: int


class Bucket:
    """Parameters over a row of memory of this process, and a buffer for those of all."""

    def __init__(
        self,
        slots: Sequence[Slot],
        layout: Layout,
        group: Any,
        replicas: Any,
        sharded: Sharded | None,
        *,
        param_dtype: Any = None,
        reduce_dtype: Any = None,
        keep_reduced_dtype: bool = False,
    ) -> None:
        self.slots, self.layout, self.group, self.replicas = list(slots), layout, group, replicas
        self.kind = sharded
        self.rank: int = 0 if group is None else group._rank
        self.n: int = 1 if group is None else group._size
        first = self.slots[0]
        self.dtype, self.device = first.dtype, first.original.device
        self.param_dtype = (
            param_dtype if param_dtype is not None and self.dtype.is_floating_point else self.dtype
        )
        self.reduce_dtype = reduce_dtype
        self.keep_reduced_dtype = keep_reduced_dtype
        self.row = empty(self.layout.length, dtype=self.dtype, device=self.device)
        self.flat: Any = None  # one parameter for all, where there is no `kind`
        self.flat_place: Any = None  # the module that holds it, and its name there
        self.full: Tensor | None = None
        self.full_bytes = 0
        self.divisor: float | None = None
        self.only_sums = self.zero_unused = False
        self.all_gather: Any = None  # what users put in the place of the collectives
        self.reduce_scatter: Any = None
        self.after_reduction: Any = None
        self._gather: Gather | None = None
        self.partial: Tensor | None = None  # gradients that are not added up over the replicas yet
        self._exact: Any = None  # while the whole parameters stand in the original dtype

    # Shards --------------------------------------------------------------------------------------------------------------------
    def shard(self, release: bool = True) -> None:
        """Copy this process's pieces of the original parameters, which give their memory back."""
        with no_grad():
            if self.device.type != "meta":
                self.row.zero_()
            for slot in self.slots:
                piece = self.layout.shard(self.row, slot.region, self.rank)
                if self.device.type != "meta":
                    piece.copy_(self.layout.slice_of(slot.original.detach(), slot.region, self.rank))
                slot.unsharded = Parameter(empty(0, dtype=self.param_dtype), slot.requires_grad)
                slot.unsharded.__dict__.update(slot.extra)
                if self.kind is not None:
                    slot.sharded = self.kind.make(slot, piece)
                    slot.register(slot.sharded)
                else:
                    slot.original = None
        for slot in self.slots:
            if self.kind is None:
                slot.set_aside()

    def set_flat(self, flat: Any, module: Any, name: str) -> None:
        """Let a module hold one parameter for all."""
        self.flat, self.flat_place = flat, (weakref.ref(module), name)
        module._parameters[name] = flat

    def keep_in_row(self) -> None:
        """Bring parameters that were replaced, moved or cast since back into one row."""
        if self.kind is None:
            self._keep_flat()
            return
        for slot in self.slots:
            module, attribute = next(slot.modules())
            there = module._parameters.get(attribute)
            if there is not slot.sharded and there is not slot.shown and there is not None:
                slot.sharded = there
                slot.register(there)
        locals_ = [self.kind.local(slot.sharded) for slot in self.slots]
        if any(part.device.type == "meta" for part in locals_):
            names = [slot.name for slot, part in zip(self.slots, locals_) if part.device.type == "meta"]
            raise RuntimeError(
                "FSDP parameters should be materialized from meta device before training, but the following were still on meta "
                f"device: {names}\nFor example, call module.to_empty(device) to materialize to device and call "
                "module.reset_parameters() on each module to initialize values."
            )
        dtype, device = locals_[0].dtype, locals_[0].device
        if dtype is self.dtype and device == self.device:
            start, size = self.row.data_ptr(), self.row.element_size()
            if all(
                part.dtype is dtype
                and (not part.numel() or part.data_ptr() == start + size * self._offset(slot))
                for slot, part in zip(self.slots, locals_)
            ):
                return
        if any(part.dtype is not dtype or part.device != device for part in locals_):
            raise RuntimeError(
                f"FSDP expects uniform original parameter dtype but got {sorted({str(p.dtype) for p in locals_})}"
            )
        if self.param_dtype is self.dtype:
            self.param_dtype = dtype
            for slot in self.slots:
                slot.unsharded.data = empty(0, dtype=dtype)
        self.full = None
        self.dtype, self.device = dtype, device
        self.row = zeros(self.layout.length, dtype=dtype, device=device)
        with no_grad():
            for slot, part in zip(self.slots, locals_):
                piece = self.layout.shard(self.row, slot.region, self.rank)
                if piece.shape != part.shape:
                    raise RuntimeError(
                        f"FSDP: the shard of {slot.name} was {list(piece.shape)}, and was replaced by one of {list(part.shape)}"
                    )
                piece.copy_(part)
                self.kind.set_local(slot, piece)

    def _offset(self, slot: Slot) -> int:
        region = slot.region
        if region.pieces:
            return self.layout._piece(region, self.rank)[0]  # type: ignore[union-attr]
        return region.column

    def _keep_flat(self) -> None:
        data = self.flat.data
        if data.device.type == "meta":
            raise RuntimeError(
                f"FSDP parameters should be materialized from meta device before training: {[s.name for s in self.slots]}"
            )
        if data.data_ptr() == self.row.data_ptr() and data.dtype is self.row.dtype:
            return
        if data.numel() != self.row.numel():
            raise RuntimeError(
                f"FSDP: the flat parameter had {self.row.numel()} elements, and was replaced by one of {data.numel()}"
            )
        if self.param_dtype is self.dtype:
            self.param_dtype = data.dtype
            for slot in self.slots:
                slot.unsharded.data = empty(0, dtype=data.dtype)
        self.row, self.dtype, self.device, self.full = data, data.dtype, data.device, None

    # Whole parameters --------------------------------------------------------------------------------------------------------
    @property
    def is_alias(self) -> bool:
        """Whether one process has the whole parameters already, so that nothing is gathered or freed."""
        return self.n == 1 and self.param_dtype is self.dtype

    def begin_gather(self, asynchronous: bool = True, dtype: Any = None) -> None:
        """Send this process's row to the others; `end_gather` waits for theirs."""
        self.keep_in_row()
        dtype = self.param_dtype if dtype is None else dtype
        if self.is_alias and dtype is self.dtype:
            self._point(self.row)
            return
        sent = self.row if dtype is self.row.dtype else self.row.to(dtype)
        count = self.n * self.layout.length
        if dtype is not self.param_dtype:
            self._exact = full = empty(count, dtype=dtype)
        else:
            full = self._allocate_full(count)
        self._gather = self._start_gather(sent, full, asynchronous)

    def _start_gather(self, sent: Tensor, full: Tensor, asynchronous: bool) -> Gather:
        """Messages for a row; those for its end go by a buffer of their own."""
        n, length = self.n, self.layout.length
        if self.all_gather is not None and n > 1:
            rows = self.all_gather.allocate((n * length,), dtype=full.dtype, device=full.device)
            return Gather([self.all_gather(rows, sent, self.group, asynchronous)], rows, 0)
        places, end = self.layout.in_place(full.element_size())
        works = []
        for begin, count in places:
            # `.data` is written to without a trace: what the tape has saved of the parameters is to be what it was.
            there = full.data.narrow(0, n * begin, n * count)
            works.append(self._gather_into(there, sent.narrow(0, begin, count), asynchronous))
        if end == length:
            return Gather(works, None, end)
        rows = empty(n * (length - end), dtype=full.dtype)
        works.append(self._gather_into(rows, sent.narrow(0, end, length - end), asynchronous))
        return Gather(works, rows, end)

    def _gather_into(self, there: Tensor, sent: Tensor, asynchronous: bool) -> Any:
        mine = there.narrow(0, self.rank * sent.numel(), sent.numel())
        mine.copy_(sent)
        return all_gather_into_tensor(there, mine, self.group, asynchronous) if self.n > 1 else None

    def _allocate_full(self, count: int) -> Tensor:
        """The gathered buffer with its memory."""
        if self.full is None:
            self.full = empty(count, dtype=self.param_dtype)
            self.full_bytes = self.full.untyped_storage().nbytes()
            self._point(self.full)
        else:
            self.full.untyped_storage().resize_(self.full_bytes)
        return self.full

    def _point(self, full: Tensor) -> None:
        for slot in self.slots:
            there = self.layout.unsharded(full, slot.region)
            if slot.unsharded.data_ptr() != there.data_ptr() or slot.unsharded.shape != there.shape:
                grad, slot.unsharded.grad = slot.unsharded.grad, None
                slot.unsharded.data = there
                slot.unsharded.grad = grad

    def end_gather(self) -> None:
        """Wait for the others' rows, and let the modules hold the whole parameters."""
        if self._gather is not None:
            gather, self._gather = self._gather, None
            for work in gather.works:
                if work is not None:
                    work.wait()
            full: Any = self.full if self._exact is None else self._exact
            if gather.rows is not None:
                with no_grad():
                    self.layout.unpack(gather.rows.view(self.n, -1), full.data, gather.begin)
        if self._exact is not None:
            self._point(self._exact)

    def use_unsharded(self) -> None:
        """Let the modules hold the whole parameters."""
        for slot in self.slots:
            if self.kind is not None:
                if slot.unsharded.requires_grad != slot.sharded.requires_grad:
                    slot.unsharded.requires_grad_(slot.sharded.requires_grad)
                slot.shown = self.kind.unsharded(slot)
                slot.register(slot.shown)

    def current_dtype(self) -> Any:
        """The dtype of the shards, which may have been cast."""
        return (self.flat.data if self.kind is None else self.kind.local(self.slots[0].sharded)).dtype

    def expose(self, as_parameters: bool) -> None:
        """Of a bucket with one parameter for all: let modules hold the whole parameters as such, or the one for all again."""
        for slot in self.slots:
            if as_parameters:
                slot.expose()
            else:
                slot.set_aside()
        holder, name = self.flat_place[0](), self.flat_place[1]
        if as_parameters:
            holder._parameters.pop(name, None)
        else:
            holder._parameters[name] = self.flat

    def use_shards(self) -> None:
        """Let the modules hold the shards."""
        for slot in self.slots:
            if self.kind is not None:
                slot.register(slot.sharded)

    def free(self) -> None:
        """Give the memory of the whole parameters back."""
        self._gather = None
        if self._exact is not None:
            self._exact = None
            self._point(self._allocate_full(self.n * self.layout.length))
        if self.full is not None:
            self.full.untyped_storage().resize_(0)

    def gather_vector(self, vector: Tensor) -> list[Tensor]:
        """Whole tensors, one for each slot, from a row of each process."""
        full = empty(self.n * self.layout.length, dtype=vector.dtype)
        gather = self._start_gather(vector.contiguous(), full, False)
        if gather.rows is not None:
            self.layout.unpack(gather.rows.view(self.n, -1), full, gather.begin)
        return [self.layout.unsharded(full, slot.region) for slot in self.slots]

    def write_back(self) -> None:
        """Copy this process's pieces of the whole parameters, which were written to, into its row."""
        with no_grad():
            for slot in self.slots:
                piece = self.layout.shard(self.row, slot.region, self.rank)
                value = self.layout.slice_of(slot.unsharded.detach(), slot.region, self.rank)
                if value.data_ptr() != piece.data_ptr() or value.dtype is not piece.dtype:
                    piece.data.copy_(value)

    # Gradients -------------------------------------------------------------------------------------------------------------
    @property
    def is_trained(self) -> bool:
        """Whether a parameter of it wants a gradient."""
        return any(slot.unsharded.requires_grad for slot in self.slots)

    def has_gradients(self) -> bool:
        """Whether the backward pass has left a gradient that is not reduced yet."""
        return any(slot.unsharded.grad is not None or slot.held is not None for slot in self.slots)

    def hold(self) -> None:
        """Keep gradients for a later reduction, in its dtype."""
        dtype = self.reduce_dtype
        if dtype is None or dtype is self.param_dtype:
            return  # they stay where they are
        for slot in self.slots:
            slot.held, slot.unsharded.grad = self._sum(slot, dtype), None

    @staticmethod
    def _sum(slot: Slot, dtype: Any) -> Tensor | None:
        grad, held = slot.unsharded.grad, slot.held
        if grad is None or held is None:
            return held if grad is None or held is not None else grad.to(dtype)
        return held.add_(grad.to(dtype))

    def reduce(self) -> Reduction:
        """Begin to add the gradients up over the processes."""
        marks = len(self.slots)
        rows = self._gradients(marks)
        return Reduction(self, rows.view(-1))

    def _gradients(self, marks: int) -> Tensor:
        """Whole gradients, a row for each process; behind it, as many `marks`, which say what this process has used.

        A parameter that no process has used keeps the gradient it has.
        """
        dtype = self.reduce_dtype or self.param_dtype
        rows = empty((self.n, self.layout.length + marks), dtype=dtype)
        used = []
        with no_grad():
            for slot in self.slots:
                grad = slot.unsharded.grad if slot.held is None else self._sum(slot, dtype)
                slot.unsharded.grad = slot.held = None
                used.append(float(grad is not None))
                self.layout.put(rows, slot.region, grad)
            if marks:
                rows.narrow(1, self.layout.length, marks).copy_(tensor(used, dtype=dtype))
        return rows

    def flat_gradient(self) -> Tensor:
        """The whole gradients as one vector, rows one behind the other."""
        return self._gradients(0).view(-1)

    def trained(self) -> list[Any]:
        """The parameters that optimisers see."""
        return [self.flat] if self.kind is None else [slot.sharded for slot in self.slots]

    def accept(self, reduced: Tensor) -> None:
        """Add this process's part of the reduced gradients to those of its shards."""
        if self.after_reduction is not None:
            self.after_reduction(reduced.narrow(0, 0, self.layout.length))
        self.accept_row(
            reduced.narrow(0, 0, self.layout.length),
            reduced.narrow(0, self.layout.length, len(self.slots)).tolist(),
        )

    def accept_row(self, row: Tensor, used: Sequence[float]) -> None:
        """The same of a row without marks."""
        if not self.keep_reduced_dtype and row.dtype is not self.dtype:
            row = row.to(self.dtype)
        with no_grad():
            if self.kind is None:
                if any(used):
                    self.flat.grad = row if self.flat.grad is None else self.flat.grad.add_(row)
                return
            for slot, mark in zip(self.slots, used):
                if (mark or self.zero_unused) and slot.sharded.requires_grad:
                    piece = self.layout.shard(row, slot.region, self.rank)
                    grad = slot.sharded.grad
                    if grad is None:
                        slot.sharded.grad = self.kind.gradient(slot, piece)
                    else:
                        self.kind.local_gradient(grad).add_(piece)


class Reduction:
    """Gradients of a bucket that are under way: added up over the group, then over its replicas."""

    def __init__(self, bucket: Bucket, buffer: Tensor) -> None:
        self.bucket, self.buffer, self.work = bucket, buffer, None
        n = bucket.n * (bucket.replicas._size if bucket.replicas is not None else 1)
        self.divisor: float | None = None
        op: Any = ReduceOp.AVG
        self.then = ReduceOp.AVG
        if bucket.only_sums:
            op = self.then = ReduceOp.SUM
            self.divisor = n if bucket.divisor is None else bucket.divisor
        elif bucket.divisor is not None:
            op, self.then = premultiplied_sum(1.0 / bucket.divisor), ReduceOp.SUM
        self.out = buffer
        if bucket.n > 1:
            call, size = bucket.reduce_scatter, buffer.numel() // bucket.n
            if call is None:
                self.out = empty(size, dtype=buffer.dtype)
                self.work = reduce_scatter_tensor(self.out, buffer, op, bucket.group, True)
            else:
                self.out = call.allocate((size,), dtype=buffer.dtype, device=buffer.device)
                self.work = call(self.out, buffer, bucket.group, op, True)
        elif op is not ReduceOp.AVG and op is not ReduceOp.SUM:
            buffer.mul_(op.factor)
        self.is_first = True

    def step(self, replicate: bool = True) -> None:
        """Go on to the replicas as soon as the group is done; waits for the group."""
        if not self.is_first:
            return
        self.is_first = False
        if self.work is not None:
            self.work.wait()
            self.work = None
        self.buffer, partial = self.out, self.bucket.partial
        if replicate and partial is not None:
            self.out.add_(partial)
            self.bucket.partial = None
        replicas = self.bucket.replicas
        if replicate and replicas is not None and replicas._size > 1:
            self.work = all_reduce(self.out, self.then, replicas, True)

    def finish(self, replicate: bool = True) -> Tensor:
        """Wait for the sums."""
        self.step(replicate)
        if self.work is not None:
            self.work.wait()
            self.work = None
        if self.divisor is not None:
            self.out.div_(self.divisor)
        return self.out
