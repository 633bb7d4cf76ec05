"""The collectives of tensors: what they are given is checked here, before anything is sent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .._tensor import Tensor
from ..core.make.create import zeros
from ._checks import _root, _same_dtype, _same_numel, _tensor, _tensors
from ._flight import explain_absence
from ._groups import resolve, warn_not_in_group
from ._process_group import ProcessGroup
from ._reductions import ReduceOp, kind_of
from ._work import Work
from ._world import DistBackendError


# Reductions -------------------------------------------------------------------------------------------------------------------------
def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce the tensors of all processes, and leave the result in each of them.

    Halves are added in float32 and rounded once; SUM of bool is `or`.

    Returns:
        A `Work` with `async_op`, else None, as all collectives do.

    Raises:
        TypeError: no tensor, or no reduction
        ValueError: there is no group, or the reduction has no meaning for complex numbers
        RuntimeError: the dtype does not have the reduction
        DistBackendError: a process is gone, or did not come in time

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> x = flambeau.ones(2)
    >>> dist.all_reduce(x)
    >>> x
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("all_reduce")
        return None
    local = _tensor("all_reduce", "tensor", tensor)
    kind = kind_of(op)
    return result._begin(
        "all_reduce",
        lambda: result._all_reduce(local, op),
        [tensor],
        async_op,
        facts=(local, kind.name),
    )


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """`all_reduce` of several tensors.

    Raises:
        TypeError, ValueError, RuntimeError: as `all_reduce`

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> dist.all_reduce_coalesced([flambeau.ones(2), flambeau.ones(3)])
    >>> dist.destroy_process_group()
    """
    _tensors("all_reduce_coalesced", "tensors", tensors)
    works = [all_reduce(tensor, op, group, True) for tensor in tensors]
    last = works[-1] if works else None
    if async_op:
        return last
    for work in works:
        if work is not None:
            work.wait()
    return None


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce the tensors of all processes, and leave the result in that of `dst`; the others' stay.

    Raises:
        TypeError, ValueError, RuntimeError: as `all_reduce`; `dst` is not in the group

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.reduce(flambeau.ones(2), dst=1)
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("reduce")
        return None
    root = _root("reduce", "dst", result, dst, group_dst)
    local = _tensor("reduce", "tensor", tensor)
    facts = (local, kind_of(op).name, f"dst={result._ranks[root]}")
    return result._begin("reduce", lambda: result._reduce(local, op, root), [tensor], async_op, facts=facts)


def reduce_scatter(
    output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce lists of tensors; process k has in `output` what became of the k-th.

    Raises:
        TypeError, ValueError, RuntimeError: as `all_reduce`; sizes or dtypes differ

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> mine = flambeau.zeros(1)
    >>> dist.reduce_scatter(mine, [flambeau.tensor([1.0]), flambeau.tensor([2.0])])
    >>> mine
    tensor([1.])
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("reduce_scatter")
        return None
    local = _tensor("reduce_scatter", "output", output)
    inputs = _tensors("reduce_scatter", "input_list", input_list, result._size)
    _same_dtype("reduce_scatter", local, *inputs)
    _same_numel("reduce_scatter", "input_list", [inputs[result._rank]], local)
    facts = (inputs, kind_of(op).name)
    return result._begin(
        "reduce_scatter",
        lambda: result._reduce_scatter(local, inputs if result._size > 1 else [inputs[0]], op),
        [output],
        async_op,
        facts=facts,
        inputs=inputs,
    )


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce tensors; process k has in `output` the k-th part of the result (along the first dimension, or of as many parts stacked).

    Raises:
        TypeError, ValueError, RuntimeError: as `all_reduce`; the input is not as many times as large as there are processes

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> mine = flambeau.zeros(1)
    >>> dist.reduce_scatter_tensor(mine, flambeau.tensor([1.0, 2.0]))
    >>> mine
    tensor([1.])
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("reduce_scatter_tensor")
        return None
    local, full = (
        _tensor("reduce_scatter_tensor", "output", output),
        _tensor("reduce_scatter_tensor", "input", input),
    )
    _same_dtype("reduce_scatter_tensor", local, full)
    _parts("reduce_scatter_tensor", "input", full, "output", local, result._size)
    facts = (full, kind_of(op).name)
    return result._begin(
        "reduce_scatter_tensor",
        lambda: result._reduce_scatter(local, [full], op),
        [output],
        async_op,
        facts=facts,
        inputs=[full],
    )


def _parts(call: str, name: str, full: Tensor, other: str, part: Tensor, size: int) -> None:
    if full.numel() != part.numel() * size:
        raise ValueError(
            f"{call}(): {name} tensor size must be equal to world_size times {other} tensor size: got {list(full.shape)} and "
            f"{list(part.shape)} for {size} ranks"
        )


# Copies -------------------------------------------------------------------------------------------------------------------------------
def broadcast(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Overwrite the tensors of all processes with that of `src`.

    Raises:
        TypeError: no tensor
        ValueError: there is no group, or `src` is not in it
        DistBackendError: a process is gone, or did not come in time

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = flambeau.ones(2)
    >>> dist.broadcast(x, src=0)
    >>> x
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("broadcast")
        return None
    root = _root("broadcast", "src", result, src, group_src)
    local = _tensor("broadcast", "tensor", tensor)
    facts = (local, f"src={result._ranks[root]}")
    return result._begin("broadcast", lambda: result._broadcast(local, root), [tensor], async_op, facts=facts)


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Process k's tensor into the k-th of the list, on all processes.  Sizes may differ between processes.

    Raises:
        TypeError, ValueError: no tensors; the list has another length than the group, or other dtypes or sizes

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> gathered = [flambeau.zeros(2), flambeau.zeros(2)]
    >>> dist.all_gather(gathered, flambeau.ones(2))
    >>> gathered
    [tensor([1., 1.]), tensor([1., 1.])]
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("all_gather")
        return None
    outputs = _tensors("all_gather", "tensor_list", tensor_list, result._size)
    local = _tensor("all_gather", "tensor", tensor)
    _same_dtype("all_gather", local, *outputs)
    _same_numel("all_gather", "tensor_list", [outputs[result._rank]], local)
    facts = (str(local.dtype), str([list(t.shape) for t in outputs]))
    return result._begin(
        "all_gather",
        lambda: result._all_gather(outputs, local),
        [list(tensor_list)],
        async_op,
        facts=facts,
        inputs=[local],
    )


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """The tensors of all processes one after the other (or stacked) in `output_tensor`.

    Raises:
        TypeError, ValueError: no tensors; the output is not as many times as large as there are processes; dtypes differ

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> full = flambeau.zeros(4)
    >>> dist.all_gather_into_tensor(full, flambeau.ones(2))
    >>> full
    tensor([1., 1., 1., 1.])
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("all_gather_into_tensor")
        return None
    call = "all_gather_into_tensor"
    full, local = _tensor(call, "output_tensor", output_tensor), _tensor(call, "input_tensor", input_tensor)
    _same_dtype(call, local, full)
    _parts(call, "output", full, "input", local, result._size)
    buffer = full if full.is_contiguous() else full.contiguous()
    parts = [part.view(local.shape) for part in buffer.view(result._size, -1)]

    def start() -> Any:
        started = result._all_gather(parts, local)
        return started if buffer is full else result._copied(started, buffer, full)

    return result._begin(call, start, [output_tensor], async_op, facts=(local,), inputs=[local])


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Process k's tensor into the k-th of `gather_list` of process `dst`, the only one that gives such a list.

    Raises:
        TypeError, ValueError: no tensors; a list where none belongs, or none where one does; dtypes or sizes differ

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> gathered = [flambeau.zeros(1), flambeau.zeros(1)]
    >>> dist.gather(flambeau.ones(1), gathered, dst=0)
    >>> gathered[0]
    tensor([1.])
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("gather")
        return None
    local = _tensor("gather", "tensor", tensor)
    root = _root("gather", "dst", result, dst, group_dst, result._ranks[0])
    received: list[Tensor | None] = [None] * result._size
    if result._rank == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        outputs = _tensors("gather", "gather_list", gather_list, result._size)
        _same_dtype("gather", local, *outputs)
        _same_numel("gather", "gather_list", [outputs[root]], local)
        received = list(outputs)
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    sent: list[Tensor | None] = [local if k == root else None for k in range(result._size)]
    facts = (str(local.dtype), f"dst={result._ranks[root]}")
    return result._begin(
        "gather",
        lambda: result._exchange(sent, received),
        [list(gather_list or [])],
        async_op,
        facts=facts,
        inputs=[local],
    )


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """The k-th of `scatter_list` of process `src`, the only one that gives such a list, into process k's tensor.

    Raises:
        TypeError, ValueError: no tensors; a list where none belongs, or none where one does; dtypes or sizes differ

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> mine = flambeau.zeros(1)
    >>> dist.scatter(mine, [flambeau.tensor([1.0]), flambeau.tensor([2.0])], src=0)
    >>> mine
    tensor([1.])
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("scatter")
        return None
    local = _tensor("scatter", "tensor", tensor)
    root = _root("scatter", "src", result, src, group_src, result._ranks[0])
    sent: list[Tensor | None] = [None] * result._size
    if result._rank == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        inputs = _tensors("scatter", "scatter_list", scatter_list, result._size)
        _same_dtype("scatter", local, *inputs)
        _same_numel("scatter", "scatter_list", [inputs[root]], local)
        sent = list(inputs)
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    received: list[Tensor | None] = [local if k == root else None for k in range(result._size)]
    facts = (str(local.dtype), f"src={result._ranks[root]}")
    return result._begin(
        "scatter",
        lambda: result._exchange(sent, received),
        [tensor],
        async_op,
        facts=facts,
        inputs=list(scatter_list or []),
    )


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """The k-th tensor of each process's list to process k, where they stand in the order of ranks.

    Raises:
        TypeError, ValueError: no tensors; a list has another length than the group; dtypes differ

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> received = [flambeau.zeros(1), flambeau.zeros(1)]
    >>> dist.all_to_all(received, [flambeau.ones(1), flambeau.ones(1)])
    >>> received
    [tensor([1.]), tensor([1.])]
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("all_to_all")
        return None
    outputs = _tensors("all_to_all", "output_tensor_list", output_tensor_list, result._size)
    inputs = _tensors("all_to_all", "input_tensor_list", input_tensor_list, result._size)
    _same_dtype("all_to_all", *outputs, *inputs)
    return result._begin(
        "all_to_all",
        lambda: result._exchange(inputs, outputs),
        list(output_tensor_list),
        async_op,
        facts=(str(inputs[0].dtype),),
        inputs=inputs,
    )


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """The k-th part of each process's `input`, along the first dimension, to process k; what comes is joined in `output`.

    Parts are equal, or of `input_split_sizes` and `output_split_sizes` rows.

    Raises:
        TypeError, ValueError: no tensors; dtypes differ; parts do not make up the tensor

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> received = flambeau.zeros(4)
    >>> dist.all_to_all_single(received, flambeau.arange(4.0))
    >>> received
    tensor([0., 1., 0., 1.])
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("all_to_all_single")
        return None
    call = "all_to_all_single"
    local_output, local = _tensor(call, "output", output), _tensor(call, "input", input)
    _same_dtype(call, local_output, local)
    outputs = _rows(call, "output", local_output, output_split_sizes, result._size)
    inputs = _rows(call, "input", local, input_split_sizes, result._size)
    return result._begin(
        call,
        lambda: result._exchange(inputs, outputs),
        [output],
        async_op,
        facts=(str(local.dtype),),
        inputs=[local],
    )


def _rows(
    call: str, name: str, tensor: Tensor, sizes: Sequence[int] | None, count: int
) -> list[Tensor | None]:
    if tensor.dim() == 0:
        raise ValueError(f"{call}(): {name} must have at least one dimension")
    if not sizes:
        if tensor.size(0) % count != 0:
            raise ValueError(
                f"{call}(): {name}'s dim 0 of {tensor.size(0)} does not divide equally across group size {count}"
            )
        sizes = [tensor.size(0) // count] * count
    if len(sizes) != count:
        raise ValueError(
            f"{call}(): Number of {name}'s splits must be the group's size {count}, got {len(sizes)}"
        )
    if sum(sizes) != tensor.size(0) or min(sizes) < 0:
        raise ValueError(
            f"{call}(): Split sizes {list(sizes)} doesn't match {name}'s dim 0 size {tensor.size(0)}"
        )
    return list(tensor.split(list(sizes)))


# Meeting --------------------------------------------------------------------------------------------------------------------------------
def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all processes have come here.

    Raises:
        ValueError: there is no group
        DistBackendError: a process is gone, or did not come in time

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.barrier()
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("barrier")
        return None
    return result._begin("barrier", result._barrier, [], async_op, facts=())


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier that says on the group's first process who has not come.

    Args:
        timeout: how long to wait, the group's by default.
        wait_all_ranks: name all who have not come, not only the first.

    Raises:
        ValueError: there is no group, or it takes no tensors that are on the CPU
        RuntimeError: somebody has not come in time

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.monitored_barrier()
    >>> dist.destroy_process_group()
    """
    result = resolve(group)
    if result is None:
        warn_not_in_group("monitored_barrier")
        return
    if "cpu" not in result._types:
        raise ValueError("monitored_barrier is only implemented for GLOO backend")
    seconds = result._seconds if timeout is None else timeout.total_seconds()
    if result._size == 1:
        return
    if result._rank != 0:
        _signal(result, 0, seconds)
        return
    end, missing = time.monotonic() + seconds, []
    for other in range(1, result._size):
        sent: list[Tensor | None] = [None] * result._size
        received: list[Tensor | None] = [zeros(1) if k == other else None for k in range(result._size)]
        work = _pass(result, sent, received, seconds + 3600.0, True)
        assert work is not None
        try:
            work.wait(timedelta(seconds=max(end - time.monotonic(), 0.001)))
        except DistBackendError:
            missing.append(result._ranks[other])
            work._seconds = 0.0  # nobody waits for it any more
            if not wait_all_ranks:
                break
    if missing:
        who = ", ".join(map(str, missing))
        where = explain_absence(result, missing)
        why = f"[Rank {result._world.rank}]: Ranks {who} failed to pass monitoredBarrier in {1000 * seconds:.0f} ms: {where}"
        result._break(why)
        raise RuntimeError(why)
    note = zeros(1)
    for other in range(1, result._size):
        answers: list[Tensor | None] = [note if k == other else None for k in range(result._size)]
        _pass(result, answers, [None] * result._size, result._seconds, False)


def _pass(
    group: ProcessGroup,
    sent: list[Tensor | None],
    received: list[Tensor | None],
    seconds: float,
    async_op: bool,
) -> Work | None:
    return group._begin(
        "monitored_barrier", lambda: group._exchange(sent, received), [], async_op, seconds=seconds
    )


def _signal(group: ProcessGroup, root: int, seconds: float) -> None:
    """Say that this process has come, and hear that all have."""
    there: list[Tensor | None] = [zeros(1) if k == root else None for k in range(group._size)]
    nothing: list[Tensor | None] = [None] * group._size
    _pass(group, there, nothing, seconds, False)
    _pass(group, nothing, there, seconds, False)
