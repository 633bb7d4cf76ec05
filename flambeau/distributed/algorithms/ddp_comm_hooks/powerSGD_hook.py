"""Gradients sent as products of thin matrices: PowerSGD (Vogels, Karimireddy, Jaggi, 2019, https://arxiv.org/abs/1905.13727).

A gradient M of shape (n, m) is approximated by P Qᵀ of rank r, where P is an orthonormal basis of M Q and Q = Mᵀ P.  P and Q are averaged,
(n + m) r numbers in place of n m.  What an approximation leaves out is added to the next gradient.

The averages are computed one after the other in the thread of backward, so that all processes call them in one order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...._tensor import Tensor
from ....autograd import no_grad
from ....core.base.dtypes import by_name
from ....core.make.create import zeros
from ....core.make.random import Generator
from ....core.places.join import cat, stack
from ....futures import Future
from ....operations.random.random import randn
from ..._collectives import all_reduce
from ..._groups import default_group, resolve
from .default_hooks import average

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]

_HALVES = (by_name["float16"], by_name["bfloat16"])


class PowerSGDState:
    """What the hooks are registered with, and what they keep from step to step.  It can be pickled, without its group.

    Args:
        process_group: the processes, by default all.
        matrix_approximation_rank: r; 1 to 4 are usual.
        start_powerSGD_iter: how many steps are averaged without approximation before.
        min_compression_rate: a matrix is approximated where (n + m) r times this is less than n m.
        use_error_feedback: what an approximation leaves out is added to the next gradient.
        warm_start: Q begins as the last step's Q.
        orthogonalization_epsilon: is added to norms of columns, for matrices that are zero.
        random_seed: of the Q that the first step, or every step without `warm_start`, begins with; the same on all processes.
        compression_stats_logging_frequency: statistics are what `compression_stats()` says; nothing is logged.
        batch_tensors_with_same_shape: matrices of one shape are multiplied together.

    Raises:
        ValueError: `start_powerSGD_iter` is less than 2, and errors or Q are kept

    >>> from flambeau.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
    >>> PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=10).compression_stats()
    (0, 0, 0)
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD can only be "
                "applied after the first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.random_seed, self.drawn = random_seed, 0  # how many steps have drawn Q
        self.error_dict: dict[int, Tensor] = {}  # by the index of the bucket, as the two that follow
        self.p_memory_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, Tensor] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "process_group"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.process_group = default_group()

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count a step when its last bucket comes."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self) -> tuple[float, int, int]:
        """How many times fewer numbers are sent, how many there are, and how many are sent."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0, before, after)

    # What the hooks do with it ---------------------------------------------------------------------------------------------------
    def _first_q(self, shapes: Sequence[tuple[int, ...]], dtype: Any) -> Tensor:
        """Flat memory for matrices of these shapes, drawn from the standard normal distribution, the same on all processes."""
        generator = Generator().manual_seed(self.random_seed + 1_000_003 * self.drawn)
        self.drawn += 1
        drawn = randn(sum(map(math.prod, shapes)), generator=generator)
        return drawn.to(dtype)

    def _corrected(self, index: int, flat: Tensor) -> Tensor | None:
        """Add what the last approximation has left out; a copy of the sum, if that of the next is wanted."""
        if not self.use_error_feedback:
            return None
        if index in self.error_dict:
            flat.add_(self.error_dict[index])
        return flat.clone()

    def _keep(self, index: int, p: Tensor, q: Tensor, error: Tensor | None) -> None:
        if self.warm_start:
            self.p_memory_dict[index], self.q_memory_dict[index] = p, q
        if error is not None:
            self.error_dict[index] = error


def _orthogonalize(matrices: Tensor, epsilon: float = 0) -> None:
    """Overwrite matrices of shape (b, n, r) with orthonormal bases of their columns, by Gram-Schmidt.

    A column that is zero, or that depends on those before it, is zero then.
    """
    for i in range(matrices.shape[2]):
        column = matrices[:, :, i : i + 1]
        norm = column.float().square().sum(dim=1, keepdim=True).sqrt()
        scale = (1 / (norm + epsilon)).masked_fill(norm == 0, 0.0)
        column.mul_(scale.to(column.dtype))
        if i + 1 < matrices.shape[2]:
            rest = matrices[:, :, i + 1 :]
            rest.sub_(column * (column * rest).sum(dim=1, keepdim=True))


def _cut(flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    counts = [math.prod(shape) for shape in shapes]
    return [part.view(shape) for part, shape in zip(flat.split(counts), shapes)]


def _approximate(
    state: PowerSGDState, index: int, matrices: list[Tensor], group: Any
) -> tuple[Tensor, Tensor]:
    """Overwrite matrices of shape (b, n, m) with the approximation of their averages; P and Q, each flat."""
    ranks = [min(x.shape[1], x.shape[2], state.matrix_approximation_rank) for x in matrices]
    shapes_p = [(x.shape[0], x.shape[1], r) for x, r in zip(matrices, ranks)]
    shapes_q = [(x.shape[0], x.shape[2], r) for x, r in zip(matrices, ranks)]
    flat_q = state.q_memory_dict.get(index)
    if flat_q is None or flat_q.numel() != sum(map(math.prod, shapes_q)):
        flat_q = state._first_q(shapes_q, matrices[0].dtype)
    for q in _cut(flat_q, shapes_q):
        _orthogonalize(q, state.orthogonalization_epsilon)
    flat_p = cat([(x @ q).reshape(-1) for x, q in zip(matrices, _cut(flat_q, shapes_q))])
    all_reduce(flat_p, group=group)
    for p in _cut(flat_p, shapes_p):
        _orthogonalize(p, state.orthogonalization_epsilon)
    flat_q = cat([(x.transpose(1, 2) @ p).reshape(-1) for x, p in zip(matrices, _cut(flat_p, shapes_p))])
    flat_q.div_(group._size)
    all_reduce(flat_q, group=group)
    for x, p, q in zip(matrices, _cut(flat_p, shapes_p), _cut(flat_q, shapes_q)):
        x.copy_(p @ q.transpose(1, 2))
    return flat_p, flat_q


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future[Tensor]:
    """The average of the bucket, of shape (n,), where each matrix of it for which that pays is approximated.

    Tensors of more dimensions are matrices of their first by all others; vectors are averaged as they are.  DistBackendError where a
    process is gone.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import *
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> net = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(64, 64))
    >>> state = PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    >>> net.register_comm_hook(state, powerSGD_hook)
    >>> for _ in range(3):
    ...     net(flambeau.ones(1, 64)).sum().backward()
    >>> [round(number, 1) for number in state.compression_stats()]
    [21.7, 4160, 192]
    >>> dist.destroy_process_group()
    """
    group, flat = _group(state), bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return average(flat, group).then(lambda done: done.value()[0])
    with no_grad():
        corrected = state._corrected(bucket.index(), flat)
        thin: list[Tensor] = []
        other: list[Tensor] = []
        for tensor in bucket.gradients():
            rows = tensor.shape[0] if tensor.dim() else 1
            columns = tensor.numel() // max(rows, 1)
            sent = (rows + columns) * min(rows, columns, state.matrix_approximation_rank)
            pays = tensor.dim() > 1 and sent * state.min_compression_rate < rows * columns
            state.total_numel_before_compression += rows * columns
            state.total_numel_after_compression += sent if pays else rows * columns
            (thin if pays else other).append(tensor)
        if other:
            concatenated = cat([tensor.reshape(-1) for tensor in other])
            work = average(concatenated, group)  # while the matrices are multiplied
        p = q = zeros(0, dtype=flat.dtype)
        if thin:
            batches = _batches(thin, state.batch_tensors_with_same_shape)
            matrices = [stack([_matrix(tensor) for tensor in batch]) for batch in batches]
            p, q = _approximate(state, bucket.index(), matrices, group)
            for batch, result in zip(batches, matrices):
                for tensor, matrix in zip(batch, result):
                    tensor.copy_(matrix.view(tensor.shape))
        if other:
            work.wait()
            for tensor, part in zip(other, concatenated.split([tensor.numel() for tensor in other])):
                tensor.copy_(part.view(tensor.shape))
        state._keep(bucket.index(), p, q, None if corrected is None else corrected - flat)
    return _done(state, bucket, flat)


def batched_powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future[Tensor]:
    """The average of the bucket, of shape (n,), approximated as one square matrix: faster than `powerSGD_hook`, and less accurate.

    DistBackendError where a process is gone.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import *
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> net = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(64, 64))
    >>> state = PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    >>> net.register_comm_hook(state, batched_powerSGD_hook)
    >>> for _ in range(3):
    ...     net(flambeau.ones(1, 64)).sum().backward()
    >>> state.compression_stats()[1:]
    (4160, 130)
    >>> dist.destroy_process_group()
    """
    group, flat = _group(state), bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return average(flat, group).then(lambda done: done.value()[0])
    with no_grad():
        corrected = state._corrected(bucket.index(), flat)
        side = math.isqrt(max(flat.numel() - 1, 0)) + 1
        square = zeros(side * side, dtype=flat.dtype)
        square[: flat.numel()] = flat
        state.total_numel_before_compression += flat.numel()
        state.total_numel_after_compression += 2 * side * min(side, state.matrix_approximation_rank)
        p, q = _approximate(state, bucket.index(), [square.view(1, side, side)], group)
        flat.copy_(square[: flat.numel()])
        state._keep(bucket.index(), p, q, None if corrected is None else corrected - flat)
    return _done(state, bucket, flat)


def _group(state: PowerSGDState) -> Any:
    group = resolve(state.process_group)
    if group is None:
        raise ValueError("PowerSGDState: this process is not in the process group")
    return group


def _done(state: PowerSGDState, bucket: Any, flat: Tensor) -> Future[Tensor]:
    state.maybe_increase_iter(bucket)
    done: Future[Tensor] = Future()
    done.set_result(flat)
    return done


def _matrix(tensor: Tensor) -> Tensor:
    return tensor.reshape(tensor.shape[0], -1)


def _batches(tensors: list[Tensor], by_shape: bool) -> list[list[Tensor]]:
    """Tensors one by one, or those together whose matrices have one shape."""
    if not by_shape:
        return [[tensor] for tensor in tensors]
    result: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        result.setdefault(tuple(_matrix(tensor).shape), []).append(tensor)
    return list(result.values())
