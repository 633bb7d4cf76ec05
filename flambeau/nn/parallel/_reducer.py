"""Gradients of a module averaged over processes while backward still runs.

Parameters stand in buckets, the last ones first, as backward comes to them.  When all gradients of a bucket are there, it is sent, in the
order of buckets on every process, and another thread sees to it; the last gradient of a backward pass waits for all buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..._tensor import Tensor
from ...autograd import no_grad
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.make.create import zeros
from ...distributed._collectives import all_reduce
from ...distributed._process_group import ProcessGroup
from ...distributed._reductions import ReduceOp
from ...distributed.optim.apply_optimizer_in_backward import step_in_backward
from ...operations.pointwise.arithmetic import mul

_FIRST = 1 << 20  # bytes of the first bucket, which is to be sent soon


class GradBucket:
    """Gradients of several parameters in one flat tensor, as communication hooks get it."""

    def __init__(self, index: int, parameters: Sequence[Tensor], dtype: Any = None) -> None:
        self._index, self._parameters, self._last = index, list(parameters), False
        counts = [p.numel() for p in parameters]
        kind, place = parameters[0].dtype if dtype is None else dtype, parameters[0].device
        self._buffer = zeros(sum(counts), dtype=kind, device=place)
        self._views = _cut(self._buffer, parameters)
        self.missing = len(parameters)  # gradients that are to come
        self.sent: Any = None  # the future of what the processes have made of it

    def index(self) -> int:
        """Its place among the buckets; 0 is sent first."""
        return self._index

    def buffer(self) -> Tensor:
        """All gradients, one after the other."""
        return self._buffer

    def gradients(self) -> list[Tensor]:
        """The gradients, as views of `buffer()`."""
        return list(self._views)

    def parameters(self) -> list[Tensor]:
        """Whose gradients they are."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Whether no bucket comes after it."""
        return self._last

    def set_buffer(self, tensor: Tensor) -> None:
        """Overwrite the gradients; ValueError for another size."""
        if tensor.numel() != self._buffer.numel():
            raise ValueError(
                f"GradBucket.set_buffer(): got {tensor.numel()} elements, wanted {self._buffer.numel()}"
            )
        self._buffer.copy_(tensor.view(self._buffer.shape))


class Reducer:
    """Buckets for parameters, filled by hooks on them."""

    def __init__(
        self,
        named: Sequence[tuple[str, Tensor]],
        group: ProcessGroup,
        bucket_bytes: int,
        as_views: bool,
        find_unused: bool,
        dtype: Any = None,
    ) -> None:
        self._names = {id(p): name for name, p in named}
        self._parameters = [p for _, p in named]
        self._group, self._as_views, self._find_unused = group, as_views, find_unused
        self.buckets = _bucketed(self._parameters, bucket_bytes, dtype)
        self._place = {
            id(p): (bucket, k) for bucket in self.buckets for k, p in enumerate(bucket._parameters)
        }
        self._number = {id(p): k for k, p in enumerate(self._parameters)}
        self.hook: Callable[[Any, GradBucket], Any] | None = None
        self.state: Any = None
        self.divisor = group._size
        self._stepped = [p for p in self._parameters if hasattr(p, "_in_backward_handle")]
        for parameter in self._stepped:  # its optimizers wait for the average
            parameter._in_backward_handle.remove()  # type: ignore[attr-defined]
        self._expecting = False
        self._arrived: set[int] = set()
        self._next = 0  # the bucket that is sent next
        self._used = zeros(len(self._parameters), dtype=by_name["int32"])
        self._unused: list[Tensor] = []
        self._handles = [p.register_post_accumulate_grad_hook(self._arrive) for p in self._parameters]

    @property
    def divisor(self) -> int:
        """What gradients are divided by on their way into a bucket; a communication hook divides them itself."""
        return 1 if self.hook is not None else self._divisor

    @divisor.setter
    def divisor(self, count: int) -> None:
        self._divisor = count

    def remove(self) -> None:
        """Take the hooks off the parameters."""
        for handle in self._handles:
            handle.remove()

    def prepare(self, unused: Sequence[Tensor]) -> None:
        """Expect the gradients of a backward pass; those of `unused` parameters do not come.

        RuntimeError where those of the last pass did not all come.
        """
        if self._expecting and self._arrived:
            missing = [p for p in self._parameters if id(p) not in self._arrived]
            numbers = " ".join(str(self._number[id(p)]) for p in missing)
            names = ", ".join(self._names[id(p)] for p in missing)
            raise RuntimeError(
                "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your "
                "module has parameters that were not used in producing loss. "
                "You can enable unused parameter detection by passing the keyword "
                "argument `find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by making sure all `forward` "
                f"function outputs participate in calculating loss.\nParameter indices which did not receive grad for rank "
                f"{self._group._world.rank}: {numbers} ({names})"
            )
        self._expecting, self._next = True, 0
        self._arrived.clear()
        self._used.fill_(1)
        self._unused = list(unused)
        for bucket in self.buckets:
            bucket.missing, bucket.sent = len(bucket._parameters), None
        for parameter in self._unused:
            self._used[self._number[id(parameter)]] = 0

    def _arrive(self, parameter: Tensor) -> None:
        """A gradient is there."""
        if not self._expecting:
            return
        if not self._arrived and self._unused:
            for other in self._unused:
                self._mark(other)
        if id(parameter) in self._arrived:
            raise RuntimeError(
                "Expected to mark a variable ready only once: the gradient of parameter "
                f"{self._names[id(parameter)]} came twice in one backward pass, or was taken for unused"
            )
        self._mark(parameter)

    def _mark(self, parameter: Tensor) -> None:
        bucket, k = self._place[id(parameter)]
        view = bucket._views[k]
        with no_grad():
            if parameter.grad is None:
                view.zero_()
            elif parameter.grad.dtype is not view.dtype:
                view.copy_(parameter.grad).mul_(1.0 / self.divisor)
            else:  # which may lie here already
                mul(parameter.grad, 1.0 / self.divisor, out=view)
        self._arrived.add(id(parameter))
        bucket.missing -= 1
        while self._next < len(self.buckets) and self.buckets[self._next].missing == 0:
            self.send(self.buckets[self._next])
            self._next += 1
        if self._next == len(self.buckets):
            self._finish()

    def send(self, bucket: GradBucket) -> None:
        """Begin to add a bucket up over the processes."""
        if self.hook is None:
            bucket.sent = all_reduce(bucket._buffer, ReduceOp.SUM, self._group, True)
        else:
            bucket.sent = self.hook(self.state, bucket)

    def receive(self, bucket: GradBucket) -> None:
        """Wait for a bucket's sums."""
        result = bucket.sent.wait()
        if self.hook is not None:
            result = result[0] if isinstance(result, (list, tuple)) else result
            if not isinstance(result, TensorBase):
                raise RuntimeError(
                    f"a communication hook must give a future of a tensor, got one of {type(result).__name__}"
                )
            if result._address() != bucket._buffer._address():
                bucket._buffer.copy_(result.view(bucket._buffer.shape))
        bucket.sent = None

    def share_used(self) -> None:
        """Learn which parameters any process has used."""
        if self._find_unused:
            used = self._used.to(self._group._place_of_objects())
            all_reduce(used, ReduceOp.MAX, self._group)
            self._used = used.cpu()

    def _finish(self) -> None:
        """Wait for all buckets, and hand the averages to the parameters."""
        self._expecting = False
        self.share_used()
        used = self._used.tolist()
        with no_grad():
            for bucket in self.buckets:
                self.receive(bucket)
                for parameter, view in zip(bucket._parameters, bucket._views):
                    if not used[self._number[id(parameter)]]:
                        continue  # nobody has used it: its gradient stays what it was
                    if self._as_views:
                        parameter.grad = view
                    elif parameter.grad is None:
                        parameter.grad = view.to(parameter.dtype, copy=True)
                    else:
                        parameter.grad.copy_(view)
        for parameter in self._stepped:
            if used[self._number[id(parameter)]]:
                step_in_backward(parameter)

    def shadow(self) -> None:
        """What a process that has no more inputs does while others go on: it adds nothing to their sums."""
        self._used.fill_(0)
        for bucket in self.buckets:
            bucket._buffer.zero_()
            self.send(bucket)
        self.share_used()
        for bucket in self.buckets:
            self.receive(bucket)


def _cut(flat: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    views, begin = [], 0
    for parameter in parameters:
        count = parameter.numel()
        part = flat.narrow(0, begin, count)
        if parameter.is_contiguous():
            views.append(part.view(parameter.shape))
        else:  # dense in another order: gradients lie as their parameters do
            order = sorted(range(parameter.dim()), key=lambda d: parameter.stride()[d], reverse=True)
            there = part.view([parameter.shape[d] for d in order])
            views.append(there.permute([order.index(d) for d in range(parameter.dim())]))
        begin += count
    return views


def _bucketed(parameters: Sequence[Tensor], limit: int, dtype: Any = None) -> list[GradBucket]:
    """Buckets of at most `limit` bytes (or one parameter) of one dtype on one device, the last parameters first."""
    lists: list[list[Tensor]] = []
    open_lists: dict[Any, tuple[list[Tensor], int]] = {}
    for parameter in reversed(parameters):
        size = parameter.numel() * parameter.element_size()
        kind = (parameter.dtype, parameter.device)
        members, held = open_lists.get(kind, ([], 0))
        cap = min(_FIRST, limit) if members and members is lists[0] else limit
        if not members or held + size > cap:
            members, held = [], 0
            lists.append(members)
        members.append(parameter)
        open_lists[kind] = members, held + size
    buckets = [GradBucket(k, members, dtype) for k, members in enumerate(lists)]
    if buckets:
        buckets[-1]._last = True
    return buckets


def reached(outputs: Any) -> set[int]:
    """The ids of leaves that a backward pass from these outputs comes to."""
    seen: set[int] = set()
    leaves: set[int] = set()
    waiting: list[Any] = []
    for tensor in tensors_in(outputs):
        if tensor.grad_fn is not None:
            waiting.append(tensor.grad_fn)
        elif tensor.requires_grad:
            leaves.add(id(tensor))
    kept = []  # nodes may be made when they are looked at: their ids are theirs as long as they live
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        kept.append(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.add(id(variable))
        waiting += [following for following, _ in node.next_functions if following is not None]
    return leaves


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in an output: itself, or those in lists, tuples, dictionaries and dataclasses."""
    if isinstance(value, TensorBase):
        yield value  # type: ignore[misc]
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)
    elif isinstance(value, (list, tuple, set)):
        for each in value:
            yield from tensors_in(each)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_in(getattr(value, name))
