"""Context parallel: inside, `scaled_dot_product_attention` is over the sequence parts of all processes of a mesh."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ...._compat.absent import refusing
from ...._tensor import Tensor
from ....autograd import no_grad
from ....core.base import display
from ....core.base.tensor import TensorBase
from ....core.make.create import arange
from ....nn import functional as F
from ....nn.modules._hooks import register_module_forward_pre_hook
from ....nn.modules.attention import MultiheadAttention
from ....nn.modules.module import Module
from ....overrides import TorchFunctionMode
from ..._functional_collectives import all_gather_tensor, wait_tensor
from ..._process_group import ProcessGroup
from ._ring import Gathered, Ring, RingAttention, block_of

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]


class _RotateMethod(Enum):
    """How parts of keys and values come to a process: one after the other, or all at once."""

    ALL_TO_ALL = auto()
    ALL_GATHER = auto()


class _CausalBehavior(Enum):
    """What a causal mask makes of a block: nothing is allowed, all is, or what is under the diagonal."""

    SKIP = None
    NOT_IS_CAUSAL = False
    IS_CAUSAL = True


@dataclass
class _ContextParallelOptions:
    """`enable_load_balance`: whether parts are head and tail chunks, where the sequence can be cut so."""

    enable_load_balance: bool = True
    rotate_method: _RotateMethod = _RotateMethod.ALL_GATHER


_cp_options = _ContextParallelOptions()
_ROTATIONS = {_RotateMethod.ALL_GATHER: Gathered, _RotateMethod.ALL_TO_ALL: Ring}


def set_rotate_method(rotate_method: str) -> None:
    """How keys and values come to a process: "allgather" (the default), all at once, or "alltoall", from rank to rank.

    The second holds a part of another process and the next at a time, the first the whole sequence's.

    Raises:
        NotImplementedError: another word

    >>> from flambeau.distributed.tensor.experimental import set_rotate_method
    >>> set_rotate_method("allgather")
    """
    if rotate_method not in ("allgather", "alltoall"):
        raise NotImplementedError(
            f"Context Parallel does not support using {rotate_method} for kv shards rotation"
        )
    gathered = rotate_method == "allgather"
    _cp_options.rotate_method = _RotateMethod.ALL_GATHER if gathered else _RotateMethod.ALL_TO_ALL


def _is_causal_behavior(rank: int, world_size: int, i: int, is_causal: bool) -> _CausalBehavior:
    """What the mask makes of the i-th block that comes to a rank."""
    source = (rank - i) % world_size
    block = block_of(rank, source, 2, is_causal, _cp_options.enable_load_balance)
    if block is None:
        return _CausalBehavior.SKIP
    return _CausalBehavior.IS_CAUSAL if block.causal else _CausalBehavior.NOT_IS_CAUSAL


# How sequences are cut -----------------------------------------------------------------------------------------------------------------
class _LoadBalancer:
    """An order of a sequence's places, after which it is cut into parts."""

    def _generate_indices(self, restore: bool = False) -> Tensor | None:
        """The places in that order, (1, L); with `restore`, what puts them back."""
        raise NotImplementedError(f"{type(self).__name__} has no order")


class _HeadTailLoadBalancer(_LoadBalancer):
    """Rank r of P has chunks r and 2 P - 1 - r of 2 P: under a causal mask all have as much to do.

    Raises:
        AssertionError: the length is no multiple of 2 P

    >>> from flambeau.distributed.tensor.experimental._attention import _HeadTailLoadBalancer
    >>> _HeadTailLoadBalancer(8, 2, "cpu")._generate_indices()
    tensor([[0, 1, 6, 7, 2, 3, 4, 5]])
    """

    def __init__(self, seq_length: int, world_size: int, device: Any) -> None:
        if seq_length % (2 * world_size):
            raise AssertionError(
                f"a sequence of length {seq_length} cannot be cut into {2 * world_size} chunks of the same length"
            )
        self.seq_length, self.world_size, self.device = seq_length, world_size, device

    def _generate_indices(self, restore: bool = False) -> Tensor:
        order = [c for r in range(self.world_size) for c in (r, 2 * self.world_size - 1 - r)]
        chunks = arange(self.seq_length, device=self.device).view(2 * self.world_size, -1)
        places = chunks[order].reshape(1, -1)
        return places.argsort(dim=-1) if restore else places


def _create_default_load_balancer(seq_length: int, world_size: int, device: Any) -> _LoadBalancer | None:
    if _cp_options.enable_load_balance and seq_length % (2 * world_size) == 0:
        return _HeadTailLoadBalancer(seq_length, world_size, device)
    return None


def _check_buffers(call: str, buffers: Sequence[Tensor], dims: Sequence[int], parts: int) -> None:
    if len(buffers) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    for k, (buffer, dim) in enumerate(zip(buffers, dims)):
        if not isinstance(buffer, TensorBase):
            raise TypeError(f"{call}(): buffers must be tensors, got {type(buffer).__name__} at {k}")
        if not -buffer.dim() <= dim < buffer.dim():
            raise IndexError(f"{call}(): buffer {k} has {buffer.dim()} dimensions, no dimension {dim}")
        if buffer.shape[dim] % parts:
            raise ValueError(
                f"{call}(): dimension {dim} of buffer {k}, of size {buffer.shape[dim]}, cannot be split evenly over {parts} ranks"
            )


def _part(buffer: Tensor, dim: int, rank: int, ranks: int, balancer: _LoadBalancer | None) -> Tensor:
    places = None if balancer is None else balancer._generate_indices()
    ordered = buffer if places is None else buffer.index_select(dim, places[0])
    return ordered.chunk(ranks, dim)[rank].clone()


# What runs inside ------------------------------------------------------------------------------------------------------------------------
class _Calls(TorchFunctionMode):
    """Attention over the parts of all processes, in the place of calls of `scaled_dot_product_attention`."""

    _FUNCTIONS = ("multi_head_attention_forward", "flex_attention")

    def __init__(self, group: ProcessGroup, head_tail: bool) -> None:
        super().__init__()
        self.group, self.head_tail = group, head_tail

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            return ring_attention(self.group, self.head_tail, *args, **(kwargs or {}))
        if getattr(func, "__name__", "") in self._FUNCTIONS:
            raise _partial(func.__name__)
        return func(*args, **(kwargs or {}))


def _partial(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"context_parallel(): {name} would see this process's part of the sequence alone; call scaled_dot_product_attention"
    )


def _refuse_partial(module: Module, args: Any) -> None:
    """The module has attention of its own, made of products."""
    if isinstance(module, MultiheadAttention):
        raise _partial("MultiheadAttention")


def ring_attention(
    group: ProcessGroup,
    head_tail: bool,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`scaled_dot_product_attention` of this process's queries (B, heads, L, E) over the keys of all processes.

    Raises:
        NotImplementedError: a mask or dropout
        RuntimeError: shapes or dtypes that do not fit
    """
    name = "context_parallel(): scaled_dot_product_attention"
    if attn_mask is not None:
        raise NotImplementedError(f"{name} with attn_mask is not supported; is_causal is")
    if dropout_p:
        raise NotImplementedError(f"{name} with dropout_p={dropout_p} is not supported")
    shapes = ", ".join(str(list(t.shape)) for t in (query, key, value))
    if not query.dim() == key.dim() == value.dim() == 4:
        raise RuntimeError(f"{name} wants (batch, heads, length, width), got {shapes}")
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(f"{name} wants one dtype, got {query.dtype}, {key.dtype} and {value.dtype}")
    fits = (
        query.shape[0] == key.shape[0] and key.shape[:3] == value.shape[:3] and query.shape[3] == key.shape[3]
    )
    heads = query.shape[1] == key.shape[1] or (enable_gqa and query.shape[1] % max(key.shape[1], 1) == 0)
    if not fits or not heads or 0 in (*query.shape, *key.shape, *value.shape):
        raise RuntimeError(
            f"{name}: query, key and value of shapes {shapes} do not fit (enable_gqa={enable_gqa})"
        )
    if is_causal and query.shape[2] != key.shape[2]:
        raise NotImplementedError(
            f"{name}: is_causal requires the same query and context sequence lengths, got {query.shape[2]} and {key.shape[2]}"
        )
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    rotate = _ROTATIONS[_cp_options.rotate_method]
    return RingAttention.apply(group, rotate, is_causal, head_tail, factor, query, key, value)


@contextlib.contextmanager
def context_parallel(
    mesh: Any,
    *,
    buffers: list[Tensor] | None = None,
    buffer_seq_dims: list[int] | None = None,
    no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:
    """Inside, each process of a mesh of one dimension has its part of a sequence, and attention is over the whole.

    Buffers are cut in place, and put back at the end.  A sequence whose length is a multiple of twice the number of processes is cut into
    head and tail chunks, so that all have as much to do under a causal mask; places in it are then not in their order, so what
    depends on them (positions, labels) must be among the buffers.  Gradients pass through attention; backward belongs inside, as it
    may read buffers.

    Args:
        buffers: tensors that have the sequence along a dimension: inputs, labels, tables of positions; no parameters.
        buffer_seq_dims: that dimension of each.
        no_restore_buffers: those of them that are not put back.

    Raises:
        ValueError: there are more or fewer dimensions than buffers; one to leave is none of them; a length cannot be split evenly
        NotImplementedError: inside, attention with a mask or dropout, or by another function

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor.experimental import context_parallel
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
    >>> x = torch.ones(1, 2, 4, 8)  # batch, heads, length, width
    >>> with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
    ...     torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).shape
    flambeau.Size([1, 2, 4, 8])
    >>> dist.destroy_process_group()
    """
    held, dims = list(buffers or ()), list(buffer_seq_dims or ())
    left = list(no_restore_buffers or ())
    group: ProcessGroup = mesh.get_group()
    ranks, rank = group.size(), group.rank()
    _check_buffers("context_parallel", held, dims, ranks)
    if any(not any(b is buffer for buffer in held) for b in left):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    lengths = {buffer.shape[dim] for buffer, dim in zip(held, dims)}
    # As one order has to do for all, another length takes its part of the order of the first.
    balancers = {n: _create_default_load_balancer(n, ranks, "cpu") for n in lengths}
    head_tail = bool(balancers) and all(b is not None for b in balancers.values())
    with no_grad():
        originals = [None if any(b is buffer for b in left) else buffer.clone() for buffer in held]
        for buffer, dim in zip(held, dims):
            balancer = balancers[buffer.shape[dim]] if head_tail else None
            part = _part(buffer, dim, rank, ranks, balancer)
            buffer.resize_(part.shape).copy_(part)
    outer, _cp_options.enable_load_balance = _cp_options.enable_load_balance, head_tail
    handle = register_module_forward_pre_hook(_refuse_partial)
    try:
        with _Calls(group, head_tail):
            yield
    finally:
        handle.remove()
        _cp_options.enable_load_balance = outer
        with no_grad():
            for buffer, original in zip(held, originals):
                if original is not None:
                    buffer.resize_(original.shape).copy_(original)


def context_parallel_unshard(
    mesh: Any, buffers: list[Tensor], seq_dims: list[int], load_balancer: _LoadBalancer | None = None
) -> list[Tensor]:
    """The whole of tensors whose parts the processes of a mesh have, with places in their order; no gradients pass.

    Args:
        seq_dims: along which dimension each is cut.
        load_balancer: in which order; by default that of `context_parallel`, so it is called inside of it.

    Raises:
        ValueError: there are more or fewer dimensions than buffers

    >>> import flambeau as torch
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor.experimental import context_parallel_unshard
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
    >>> context_parallel_unshard(mesh, [torch.arange(4.0)], [0])
    [tensor([0., 1., 2., 3.])]
    >>> dist.destroy_process_group()
    """
    group: ProcessGroup = mesh.get_group()
    _check_buffers("context_parallel_unshard", buffers, seq_dims, 1)
    restored = []
    with no_grad():
        for buffer, dim in zip(buffers, seq_dims):
            full = wait_tensor(all_gather_tensor(buffer.detach().contiguous(), dim, group))
            balancer = load_balancer or _create_default_load_balancer(full.shape[dim], group.size(), "cpu")
            places = None if balancer is None else balancer._generate_indices(restore=True)
            restored.append(full if places is None else full.index_select(dim, places[0]))
    return restored


__getattr__ = refusing("distributed.tensor.experimental._attention")
for _function in (context_parallel, context_parallel_unshard, set_rotate_method):
    _function.__module__ = display.public("distributed.tensor.experimental")
