"""Collectives that leave their argument alone and return a new tensor, as DTensor and libraries call them.

Each begins at once and returns an `AsyncCollectiveTensor`, which waits when it is first read.  Where a gradient is wanted of the argument,
it waits at once and the result is on the tape: backward is the opposite collective, which all processes run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .._tensor import Tensor
from ..autograd import Function
from ..core.make.create import empty
from ..core.places.join import cat
from ..core.tape.modes import is_grad_enabled
from . import _collectives as calls
from . import _groups
from ._async_tensor import AsyncCollectiveTensor
from ._checks import _tensor
from ._groups import get_process_group_ranks
from ._process_group import ProcessGroup
from ._reductions import ReduceOp
from ._work import Work
from .nn import functional as with_gradients

__all__ = [
    "AsyncCollectiveTensor",
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_single_autograd",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_single_autograd",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]
_OPS = {
    "sum": ReduceOp.SUM,
    "avg": ReduceOp.AVG,
    "product": ReduceOp.PRODUCT,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
    "band": ReduceOp.BAND,
    "bor": ReduceOp.BOR,
    "bxor": ReduceOp.BXOR,
}
REDUCE_OP_TO_STR = {op: name for name, op in _OPS.items()}


def _reduction(name: str) -> Any:
    op = _OPS.get(name.lower()) if isinstance(name, str) else None
    if op is None:
        raise ValueError(f"reduceOp must be one of {sorted(_OPS)}, got {name!r}")
    return op


# Groups ------------------------------------------------------------------------------------------------------------------------------
def _resolve_group(group: Any, tag: str = "") -> ProcessGroup:
    """The group that an argument means: a group, its name, the list of its ranks, a mesh of one dimension, or (mesh, dimension)."""
    if isinstance(group, ProcessGroup):
        return group
    if isinstance(group, str):
        return _groups.named(group)
    if isinstance(group, list):
        warnings.warn(
            "The combination of ranks + tag as process group identifier has been deprecated. Please switch to using ProcessGroup, "
            "DeviceMesh, or group name instead.",
            FutureWarning,
            stacklevel=3,
        )
        ranks = sorted(group)
        for pg in _groups.every():
            if sorted(pg._ranks) == ranks:
                return pg
        raise ValueError(f"there is no group of ranks {ranks}; make it with new_group")
    if isinstance(group, tuple):
        if len(group) != 2 or not hasattr(group[0], "get_group"):
            raise ValueError(f"Invalid tuple for group must be (DeviceMesh, int). Instead got {group}")
        return group[0].get_group(group[1])
    if hasattr(group, "get_group"):
        if group.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        return group.get_group()
    raise ValueError(f"Unsupported group type: {type(group)}, {group}")


def _resolve_group_name(group: Any, tag: str = "") -> str:
    """The name of the group that an argument means."""
    return _resolve_group(group, tag).group_name


def _expand_group(group: Any, tag: str = "") -> tuple[str, list[int], int]:
    """A tag, the ranks of a group and how many they are; of a list of lists of ranks, those of all, and how many each has."""
    if isinstance(group, list) and group and isinstance(group[0], list):
        sizes = {len(ranks) for ranks in group}
        if len(sizes) > 1:
            raise ValueError(f"group sizes must be identical, got {' and '.join(map(str, sorted(sizes)))}")
        return tag, [rank for ranks in group for rank in ranks], sizes.pop()
    if isinstance(group, list):
        return tag, group, len(group)
    ranks = get_process_group_ranks(_resolve_group(group))
    return tag, ranks, len(ranks)


# How calls begin -----------------------------------------------------------------------------------------------------------------------
def _records(tensor: Tensor) -> bool:
    return tensor.requires_grad and is_grad_enabled()


def _begun(result: Tensor, begin: Callable[[Tensor], Work | None]) -> Tensor:
    """Begin a collective that writes to `result`."""
    work = begin(result)
    return AsyncCollectiveTensor(result, work)


def _contiguous(call: str, tensor: Tensor) -> Tensor:
    """A tensor as it is sent: checked, waited for, in one piece."""
    return _tensor(call, "self", tensor).contiguous()


def wait_tensor(tensor: Tensor) -> Tensor:
    """The plain tensor of a functional collective's result, when it is there; any other tensor as it is.

    >>> import flambeau
    >>> from flambeau.distributed._functional_collectives import wait_tensor
    >>> wait_tensor(flambeau.ones(1))
    tensor([1.])
    """
    return tensor.trigger_wait() if isinstance(tensor, AsyncCollectiveTensor) else tensor


# Collectives -----------------------------------------------------------------------------------------------------------------------------
def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The tensor of process `src` (its rank among all), of the shape of `self`.

    Raises:
        TypeError: no tensor
        ValueError: there is no such group, or `src` is not in it

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed._functional_collectives as funcol
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> funcol.broadcast(flambeau.ones(1), 0, dist.group.WORLD).wait()
    tensor([1.])
    >>> dist.destroy_process_group()
    """
    pg = _resolve_group(group, tag)
    if _records(self):
        return with_gradients.broadcast(self, src, pg)
    return _begun(_contiguous("broadcast", self).clone(), lambda t: calls.broadcast(t, src, pg, True))


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The tensors of all processes reduced, of the shape of `self`; `reduceOp` is "sum", "avg", "product", "min", "max", "band" …

    Gradients pass through "sum" and "avg".

    Raises:
        TypeError: no tensor
        ValueError: there is no such group or reduction

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed._functional_collectives as funcol
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> funcol.all_reduce(flambeau.ones(1), "sum", dist.group.WORLD).wait()
    tensor([1.])
    >>> dist.destroy_process_group()
    """
    pg, op = _resolve_group(group, tag), _reduction(reduceOp)
    if _records(self):
        return with_gradients.all_reduce(self, op, pg)
    return _begun(_contiguous("all_reduce", self).clone(), lambda t: calls.all_reduce(t, op, pg, True))


def all_reduce_coalesced(self: Sequence[Tensor], reduceOp: str, group: Any, tag: str = "") -> list[Tensor]:
    """`all_reduce` of several tensors.

    Raises:
        TypeError, ValueError: as `all_reduce`

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed._functional_collectives as funcol
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> [t.shape[0] for t in funcol.all_reduce_coalesced([flambeau.ones(1), flambeau.ones(2)], "sum", dist.group.WORLD)]
    [1, 2]
    >>> dist.destroy_process_group()
    """
    pg = _resolve_group(group, tag)
    return [all_reduce(tensor, reduceOp, pg) for tensor in self]


def all_gather_single(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all processes, which have the same shape, joined along dimension `gather_dim`.

    Raises:
        TypeError: no tensor
        ValueError: there is no such group
        IndexError: there is no such dimension

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed._functional_collectives as funcol
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> funcol.all_gather_tensor(flambeau.ones(2, 3), 1, dist.group.WORLD).shape
    flambeau.Size([2, 6])
    >>> dist.destroy_process_group()
    """
    pg = _resolve_group(group, tag)
    dim = _dimension("all_gather_tensor", self, gather_dim)
    if _records(self):
        full = _Gather.apply(pg, self)
    else:
        local = _contiguous("all_gather_tensor", self)
        full = _begun(_stacked(local, pg), lambda t: calls.all_gather_into_tensor(t, local, pg, True))
    if dim == 0:
        return full
    return cat(list(wait_tensor(full).chunk(pg._size)), dim=dim)


def reduce_scatter_single(self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Tensor:
    """The k-th part along dimension `scatter_dim` of the tensors of all processes, reduced, on process k.

    Gradients pass through "sum" and "avg".

    Raises:
        TypeError: no tensor
        ValueError: there is no such group or reduction
        AssertionError: the dimension cannot be split evenly

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed._functional_collectives as funcol
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> funcol.reduce_scatter_tensor(flambeau.ones(2, 4), "sum", 1, dist.group.WORLD).shape
    flambeau.Size([2, 2])
    >>> dist.destroy_process_group()
    """
    pg, op = _resolve_group(group, tag), _reduction(reduceOp)
    dim = _dimension("reduce_scatter_tensor", self, scatter_dim)
    if self.shape[dim] % pg._size:
        raise AssertionError(
            f"reduce_scatter_tensor(): input dimension {dim} ({self.shape[dim]} must be a multiple of group_size {pg._size})"
        )
    parts = wait_tensor(self) if dim == 0 else cat(list(wait_tensor(self).chunk(pg._size, dim=dim)))
    if _records(self):
        return _Scatter.apply(op, reduceOp.lower(), pg, parts)
    local = _contiguous("reduce_scatter_tensor", parts)
    result = empty((local.shape[0] // pg._size, *local.shape[1:]), dtype=local.dtype, device=local.device)
    return _begun(result, lambda t: calls.reduce_scatter_tensor(t, local, op, pg, True))


def all_gather_into_tensor_coalesced(self: Sequence[Tensor], group: Any, tag: str = "") -> list[Tensor]:
    """`all_gather_tensor` of several tensors along dimension 0.

    Raises:
        TypeError, ValueError: as `all_gather_tensor`

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed._functional_collectives as funcol
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> [t.shape[0] for t in funcol.all_gather_into_tensor_coalesced([flambeau.ones(1), flambeau.ones(2)], dist.group.WORLD)]
    [2, 4]
    >>> dist.destroy_process_group()
    """
    pg = _resolve_group(group, tag)
    return [all_gather_single(tensor, 0, pg) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Tensor]:
    """`reduce_scatter_tensor` of several tensors, each along its own dimension.

    Raises:
        TypeError, ValueError, AssertionError: as `reduce_scatter_tensor`; there are more or fewer dimensions than tensors

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed._functional_collectives as funcol
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> parts = funcol.reduce_scatter_tensor_coalesced([flambeau.ones(2), flambeau.ones(4)], "sum", [0, 0], dist.group.WORLD)
    >>> [t.shape[0] for t in parts]
    [1, 2]
    >>> dist.destroy_process_group()
    """
    pg = _resolve_group(group, tag)
    if len(scatter_dim) != len(inputs):
        raise AssertionError(
            f"Length of scatter_dim ({len(scatter_dim)}) must equal length of inputs ({len(inputs)})"
        )
    return [reduce_scatter_single(t, reduceOp, dim, pg) for t, dim in zip(inputs, scatter_dim)]


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """The k-th part along dimension 0 of each process's tensor on process k, joined in the order of ranks.

    Sizes are those of the parts that come from, and go to, each process; without them all are equal.

    Raises:
        TypeError: no tensor
        ValueError: there is no such group, or sizes do not fit
        AssertionError: only one of the two is given, or it is no list of whole numbers

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed._functional_collectives as funcol
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> funcol.all_to_all_single(flambeau.ones(4), None, None, dist.group.WORLD).shape
    flambeau.Size([4])
    >>> dist.destroy_process_group()
    """
    pg = _resolve_group(group, tag)
    for name, sizes in (("output_split_sizes", output_split_sizes), ("input_split_sizes", input_split_sizes)):
        if sizes is not None and not all(isinstance(size, int) for size in sizes):
            raise AssertionError(f"All {name} must be int or SymInt, got {sizes}")
    if (output_split_sizes is None) != (input_split_sizes is None):
        raise AssertionError(
            "output_split_sizes and input_split_sizes must either be specified together or both set to None"
        )
    if output_split_sizes is None or input_split_sizes is None:
        if self.shape[0] % pg._size:
            raise ValueError(
                f"all_to_all_single(): dimension 0 of size {self.shape[0]} cannot be split evenly over {pg._size} ranks"
            )
        output_split_sizes = input_split_sizes = [self.shape[0] // pg._size] * pg._size
    result = empty((sum(output_split_sizes), *self.shape[1:]), dtype=self.dtype, device=self.device)
    sizes_out, sizes_in = list(output_split_sizes), list(input_split_sizes)
    if _records(self):
        return with_gradients.all_to_all_single(result, wait_tensor(self), sizes_out, sizes_in, pg)
    local = _contiguous("all_to_all_single", self)
    return _begun(result, lambda t: calls.all_to_all_single(t, local, sizes_out, sizes_in, pg, True))


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> Tensor:
    """Send the tensor on: process m's goes to process `src_dst[m]`, ranks in the group; empty where none arrives.

    Tensors have the same shape everywhere.

    Raises:
        TypeError: no tensor
        ValueError: there is no such group; two go to one process, or to none of the group

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed._functional_collectives as funcol
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> funcol.permute_tensor(flambeau.ones(4), [0, 1], dist.group.WORLD).shape
    flambeau.Size([4])
    >>> dist.destroy_process_group()
    """
    pg = _resolve_group(group, tag)
    targets = list(src_dst)
    if (
        len(targets) > pg._size
        or len(set(targets)) < len(targets)
        or not all(0 <= t < pg._size for t in targets)
    ):
        raise ValueError(
            f"permute_tensor(): src_dst must have different ranks of the group's {pg._size}, got {targets}"
        )
    rank, count = pg._rank, self.shape[0]
    sent, received = [0] * pg._size, [0] * pg._size
    for src, dst in enumerate(src_dst):
        if src == rank:
            sent[dst] = count
        if dst == rank:
            received[src] = count
    return all_to_all_single(self if any(sent) else self[:0], received, sent, pg)


all_gather_tensor = all_gather_single_autograd = all_gather_tensor_autograd = all_gather_single
reduce_scatter_tensor = reduce_scatter_single_autograd = reduce_scatter_tensor_autograd = (
    reduce_scatter_single
)
all_to_all_single_autograd = all_to_all_single


# Gradients -------------------------------------------------------------------------------------------------------------------------------
def _dimension(call: str, tensor: Tensor, dim: int) -> int:
    if not -tensor.dim() <= dim < tensor.dim():
        raise IndexError(f"{call}(): dimension {dim} of a tensor of {tensor.dim()} dimensions")
    return dim % tensor.dim()


def _stacked(tensor: Tensor, group: ProcessGroup) -> Tensor:
    return empty((group._size * tensor.shape[0], *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, tensor: Tensor) -> Tensor:  # type: ignore[override]
        ctx.group = group
        local = _contiguous("all_gather_tensor", tensor)
        full = _stacked(local, group)
        calls.all_gather_into_tensor(full, local, group)
        return full

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        mine = empty(
            (grad.shape[0] // ctx.group._size, *grad.shape[1:]), dtype=grad.dtype, device=grad.device
        )
        calls.reduce_scatter_tensor(mine, grad.contiguous(), ReduceOp.SUM, ctx.group)
        return None, mine


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, name: str, group: ProcessGroup, tensor: Tensor) -> Tensor:  # type: ignore[override]
        ctx.name, ctx.group = name, group
        local = _contiguous("reduce_scatter_tensor", tensor)
        mine = empty(
            (local.shape[0] // group._size, *local.shape[1:]), dtype=local.dtype, device=local.device
        )
        calls.reduce_scatter_tensor(mine, local, op, group)
        return mine

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        if ctx.name not in ("sum", "avg"):
            raise RuntimeError(
                f"reduce_scatter_tensor(): gradients pass through sum and avg, not through {ctx.name}"
            )
        full = _stacked(grad, ctx.group)
        calls.all_gather_into_tensor(full, grad.contiguous(), ctx.group)
        return None, None, None, full / ctx.group._size if ctx.name == "avg" else full
