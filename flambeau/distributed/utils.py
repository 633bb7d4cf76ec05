"""What PyTorch's own modules share, as far as libraries import it: the same tensors on all processes of a group."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from .._compat.absent import refusing
from .._tensor import Tensor
from ..autograd import no_grad
from ..core.places.join import cat
from ._collectives import broadcast

__all__: list[str] = []
SYNCED_BYTES = 250 << 20  # of a message of parameters and buffers


def _sync_params_and_buffers(
    process_group: Any, module_states: Sequence[Tensor], broadcast_bucket_size: int, src: int
) -> None:
    """Overwrite tensors with those of the group's rank `src`: all of a dtype in messages of so many bytes, or of one tensor."""
    by_dtype: dict[Any, list[Tensor]] = {}
    for tensor in module_states:
        by_dtype.setdefault(tensor.dtype, []).append(tensor)
    with no_grad():
        for same in by_dtype.values():
            sent: list[Tensor] = []
            size = 0
            for tensor in same:
                more = tensor.numel() * tensor.element_size()
                if sent and size + more > broadcast_bucket_size:
                    _sync(process_group, sent, src)
                    sent, size = [], 0
                sent.append(tensor)
                size += more
            _sync(process_group, sent, src)


def _sync(group: Any, tensors: Sequence[Tensor], src: int) -> None:
    flat = cat([tensor.reshape(-1) for tensor in tensors])
    broadcast(flat, group=group, group_src=src)
    if group.rank() == src:
        return
    for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
        tensor.copy_(part.view(tensor.shape))


def _sync_module_states(
    module: Any,
    process_group: Any,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Container[str],
    broadcast_buffers: bool = True,
) -> None:
    """Let a module's parameters, and its buffers, be those of the group's rank `src`, but for some names."""
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    states = [t.detach() for name, t in named if name not in params_and_buffers_to_ignore]
    _sync_params_and_buffers(process_group, states, broadcast_bucket_size, src)


__getattr__ = refusing("distributed.utils")
