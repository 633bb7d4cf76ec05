"""Collectives that return new tensors, and through which gradients pass: backward is a collective, too, so all processes run it.

What a process computes of the results counts: the gradient of an input is that of the sum of all processes' losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._compat.absent import refusing
from ..._tensor import Tensor
from ...autograd import Function
from ...core.make.create import empty_like, zeros_like
from .. import _collectives as calls
from .._groups import resolve
from .._process_group import ProcessGroup
from .._reductions import RedOpType, ReduceOp, kind_of

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _group(group: Any) -> ProcessGroup:
    result = resolve(None if group is None else group)
    if result is None:
        raise ValueError("this process is not in the group")
    return result


def _copy(tensor: Tensor) -> Tensor:
    return tensor.contiguous().clone()


def _summed(grad: Tensor, op: Any, group: ProcessGroup) -> Tensor:
    """The gradient of what went into a sum or a mean."""
    result = _copy(grad)
    calls.all_reduce(result, op, group)
    return result


def _additive(call: str, op: Any) -> None:
    if kind_of(op) not in (RedOpType.SUM, RedOpType.AVG):
        raise RuntimeError(f"{call}(): gradients pass through SUM and AVG, not through {kind_of(op).name}")


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: ProcessGroup, tensor: Tensor) -> Tensor:  # type: ignore[override]
        ctx.op, ctx.group = op, group
        result = _copy(tensor)
        calls.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        _additive("all_reduce", ctx.op)
        return None, None, _summed(grad, ctx.op, ctx.group)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: ProcessGroup, tensor: Tensor) -> Tensor:  # type: ignore[override]
        ctx.src, ctx.group = src, group
        result = _copy(tensor)
        calls.broadcast(result, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        grad_input = _copy(grad)
        calls.reduce(grad_input, ctx.src, ReduceOp.SUM, ctx.group)
        return None, None, grad_input if ctx.group._world.rank == ctx.src else zeros_like(grad_input)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: ProcessGroup, tensor: Tensor) -> Tensor:  # type: ignore[override]
        ctx.dst, ctx.op, ctx.group = dst, op, group
        result = _copy(tensor)
        calls.reduce(result, dst, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        _additive("reduce", ctx.op)
        grad_input = _copy(grad)
        calls.broadcast(grad_input, ctx.dst, ctx.group)
        return (
            None,
            None,
            None,
            grad_input / ctx.group._size if kind_of(ctx.op) is RedOpType.AVG else grad_input,
        )


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, tensor: Tensor) -> Any:  # type: ignore[override]
        ctx.group = group
        results = [empty_like(tensor) for _ in range(group._size)]
        calls.all_gather(results, tensor.contiguous(), group)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # type: ignore[override]
        mine = empty_like(grads[0])
        calls.reduce_scatter(mine, [grad.contiguous() for grad in grads], ReduceOp.SUM, ctx.group)
        return None, mine


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: ProcessGroup, tensor: Tensor) -> Any:  # type: ignore[override]
        ctx.dst, ctx.group = dst, group
        results = [zeros_like(tensor) for _ in range(group._size)]
        here = group._world.rank == dst
        calls.gather(tensor.contiguous(), results if here else None, dst, group)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # type: ignore[override]
        mine, here = empty_like(grads[0]), ctx.group._world.rank == ctx.dst
        calls.scatter(mine, [grad.contiguous() for grad in grads] if here else None, ctx.dst, ctx.group)
        return None, None, mine


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: ProcessGroup, *tensors: Tensor) -> Tensor:  # type: ignore[override]
        ctx.src, ctx.group = src, group
        result, here = empty_like(tensors[0]), group._world.rank == src
        calls.scatter(result, [t.contiguous() for t in tensors] if here else None, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        result = [zeros_like(grad) for _ in range(ctx.group._size)]
        here = ctx.group._world.rank == ctx.src
        calls.gather(grad.contiguous(), result if here else None, ctx.src, ctx.group)
        return None, None, *result


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: ProcessGroup, result: Tensor, *tensors: Tensor) -> Tensor:  # type: ignore[override]
        ctx.op, ctx.group = op, group
        grad_input = empty_like(result)
        calls.reduce_scatter(grad_input, [t.contiguous() for t in tensors], op, group)
        return grad_input

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        _additive("reduce_scatter", ctx.op)
        n = ctx.group._size
        result = [empty_like(grad) for _ in range(n)]
        calls.all_gather(
            result,
            grad.contiguous() / n if kind_of(ctx.op) is RedOpType.AVG else grad.contiguous(),
            ctx.group,
        )
        return None, None, None, *result


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, count: int, *tensors: Tensor) -> Any:  # type: ignore[override]
        outputs, inputs = tensors[:count], tensors[count:]
        ctx.group, ctx.count = group, count
        ctx.shapes = [empty_like(t) for t in inputs]
        result = [empty_like(t) for t in outputs]
        calls.all_to_all(result, [t.contiguous() for t in inputs], group)
        return tuple(result)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # type: ignore[override]
        result = [empty_like(t) for t in ctx.shapes]
        calls.all_to_all(result, [grad.contiguous() for grad in grads], ctx.group)
        return None, None, *([None] * ctx.count), *result


class _AllToAllSingle(Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, group: ProcessGroup, output: Tensor, output_sizes: Any, input_sizes: Any, tensor: Tensor
    ) -> Tensor:
        ctx.group, ctx.sizes, ctx.like = group, (output_sizes, input_sizes), empty_like(tensor)
        result = empty_like(output)
        calls.all_to_all_single(result, tensor.contiguous(), output_sizes, input_sizes, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        result, (output_sizes, input_sizes) = empty_like(ctx.like), ctx.sizes
        calls.all_to_all_single(result, grad.contiguous(), input_sizes, output_sizes, ctx.group)
        return None, None, None, None, result


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The tensors of all processes reduced: of the shape of `tensor`.

    Raises:
        ValueError: there is no group
        RuntimeError: a gradient is to pass through another reduction than SUM and AVG

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.nn import functional
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> functional.all_reduce(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _AllReduce.apply(op, _group(group), tensor)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of process `src`, of the shape of `tensor`; gradients add up there.

    Raises:
        ValueError: there is no group, or `src` is not in it

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.nn import functional
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> functional.broadcast(x, src=0).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _Broadcast.apply(src, _group(group), tensor)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The tensors of all processes reduced, on process `dst`; the others have theirs. The shape is that of `tensor`.

    Raises:
        ValueError: there is no group, or `dst` is not in it
        RuntimeError: a gradient is to pass through another reduction than SUM and AVG

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.nn import functional
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> functional.reduce(x, dst=0).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _Reduce.apply(dst, op, _group(group), tensor)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, which have the same shape.

    Raises:
        ValueError: there is no group

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.nn import functional
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> functional.all_gather(x)[0].sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _AllGather.apply(_group(group), tensor)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, which have the same shape, on process `dst`; zeros on the others.

    Raises:
        ValueError: there is no group, or `dst` is not in it

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.nn import functional
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> functional.gather(x, dst=0)[0].sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _Gather.apply(dst, _group(group), tensor)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """The k-th tensor of process `src` on process k; all give lists of the same shapes.

    Raises:
        ValueError: there is no group, or `src` is not in it

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.nn import functional
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> functional.scatter([x, x], src=0).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    >>> dist.destroy_process_group()
    """
    return _Scatter.apply(src, _group(group), *tensors)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The k-th tensors of all processes reduced on process k; `output` says the shape.

    Raises:
        ValueError: there is no group, or shapes differ
        RuntimeError: a gradient is to pass through another reduction than SUM and AVG

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.nn import functional
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> functional.reduce_scatter(flambeau.zeros(2), [x, x]).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    >>> dist.destroy_process_group()
    """
    return _ReduceScatter.apply(op, _group(group), output, *input_list)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """The k-th tensor of each process on process k; the outputs say the shapes.

    Raises:
        ValueError: there is no group, or the lists have another length than it

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.nn import functional
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> functional.all_to_all([flambeau.zeros(2)] * 2, [x, x])[0].sum().backward()
    >>> x.grad
    tensor([2., 2.])
    >>> dist.destroy_process_group()
    """
    count = len(output_tensor_list)
    return _AllToAll.apply(_group(group), count, *output_tensor_list, *input_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """The k-th part of each process's `input` (along dimension 0) on process k; `output` says the shape.

    Raises:
        ValueError: there is no group, or parts do not make up the tensor

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.nn import functional
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> functional.all_to_all_single(flambeau.zeros(2), x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _AllToAllSingle.apply(_group(group), output, output_split_sizes, input_split_sizes, input)


__getattr__ = refusing("distributed.nn.functional")
