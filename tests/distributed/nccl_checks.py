"""Process groups over NCCL, on the fake driver and the fake NCCL: run by test_dist_nccl.py with both in the environment."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "devices")]

import fake_cuda  # noqa: E402
from worlds import Ended, results, started, world  # noqa: E402

import flambeau as torch  # noqa: E402
import flambeau.distributed as dist  # noqa: E402

fake_driver = fake_cuda.install()
fake_nccl = ctypes.CDLL(os.environ["FLAMBEAU_LIBNCCL"])
fake_nccl.fake_nccl_count.restype = ctypes.c_long
COUNTS = "communicators aborts destroyed ops_alive async_error post_error groups init_error".split()
NUMBERS = [
    "int8",
    "uint8",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
MOVED = [*NUMBERS, "bool", "int16", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]


def count(name: str) -> int:
    return fake_nccl.fake_nccl_count(COUNTS.index(name))


def set_fake(name: str, value: int) -> None:
    fake_nccl.fake_nccl_set(COUNTS.index(name), ctypes.c_long(value))


def form(rank: int, size: int, path: str, backend: str = "nccl", seconds: float = 60.0) -> None:
    wait = timedelta(seconds=seconds)
    dist.init_process_group(backend, init_method=f"file://{path}", rank=rank, world_size=size, timeout=wait)


def numbers(dtype: str, rank: int, shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers of a rank, which every dtype adds and multiplies without rounding."""
    result = np.random.default_rng(rank).integers(1, 4, shape)
    if dtype == "bool":
        return (result + rank) % 2 == 0
    if dtype.startswith("complex"):
        return result + 1j * np.random.default_rng(rank + 50).integers(1, 4, shape)
    return result


def on_device(values: np.ndarray, dtype: str) -> torch.Tensor:
    return torch.tensor(values.tolist(), dtype=getattr(torch, dtype)).to("cuda")


def back(tensor: torch.Tensor) -> np.ndarray:
    result = tensor.cpu()
    wide = result if result.dtype is torch.bool or result.is_complex() else result.to(torch.float64)
    return np.array(wide.tolist())


def same(tensor: torch.Tensor, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(back(tensor), expected)


REDUCTIONS = {
    "SUM": lambda parts: sum(parts),
    "PRODUCT": lambda parts: np.prod(parts, axis=0),
    "MAX": lambda parts: np.max(parts, axis=0),
    "MIN": lambda parts: np.min(parts, axis=0),
}


def reductions(rank, size, path):
    form(rank, size, path)
    for dtype in [*NUMBERS, "uint32", "uint64", "bool"]:
        parts = [numbers(dtype, r, (size, 3)) for r in range(size)]
        mine = parts[rank]
        for name, reference in REDUCTIONS.items():
            op = getattr(dist.ReduceOp, name)
            if dtype.startswith("complex") and name != "SUM":
                with pytest.raises(ValueError, match="does not support"):
                    dist.all_reduce(on_device(mine, dtype), op)
                continue
            expected = np.array(reference(parts))
            if dtype == "bool":
                expected = {"SUM": np.max, "MAX": np.max}.get(name, np.min)(parts, axis=0)
            x = on_device(mine, dtype)
            dist.all_reduce(x, op)
            same(x, expected)
            x = on_device(mine, dtype)
            dist.reduce(x, dst=size - 1, op=op)
            same(x, expected if rank == size - 1 else mine)
            out = on_device(np.zeros(3), dtype)
            dist.reduce_scatter_tensor(out, on_device(mine, dtype), op)
            same(out, expected[rank])
            out = on_device(np.zeros(3), dtype)
            dist.reduce_scatter(out, list(on_device(mine, dtype)), op)
            same(out, expected[rank])
        if dtype[:3] in ("flo", "bfl", "com"):
            x = on_device(mine * 2 * size, dtype)
            dist.all_reduce(x, dist.ReduceOp.AVG)
            same(x, 2 * sum(parts))
    for dtype in ["float16", "bfloat16", "float32", "float64", "complex64"]:
        for factor in (0.5, torch.tensor(0.5), torch.tensor([0.5], device="cuda")):
            x = on_device(numbers(dtype, rank, (4,)) * 2, dtype)
            dist.all_reduce(x, dist._make_nccl_premul_sum(factor))
            same(x, sum(numbers(dtype, r, (4,)) for r in range(size)))
    assert count("ops_alive") == 0
    uneven = [on_device(np.full(r + 1, rank + 1), "float32") for r in range(size)]
    out = torch.zeros(rank + 1, device="cuda")
    dist.reduce_scatter(out, uneven)
    same(out, np.full(rank + 1, size * (size + 1) / 2))
    view = on_device(np.arange(12).reshape(3, 4) + rank, "float32").t()  # not contiguous
    dist.all_reduce(view)
    same(view, (np.arange(12).reshape(3, 4) * size + sum(range(size))).T)
    out = torch.zeros(3, 2, device="cuda").t()
    dist.reduce_scatter_tensor(out, torch.ones(2 * size, 3, device="cuda"))
    same(out, np.full((2, 3), size))
    for empty in (torch.zeros(0, device="cuda"), torch.zeros(0, 3, device="cuda")):
        dist.all_reduce(empty)
        dist.broadcast(empty, 0)
    dist.destroy_process_group()
    assert (count("communicators"), count("destroyed"), count("aborts")) == (1, 1, 0)


def copies(rank, size, path):
    form(rank, size, path)
    after, before = (rank + 1) % size, (rank - 1) % size
    for dtype in MOVED:
        parts = [numbers(dtype, r, (size, 2)) for r in range(size)]
        mine = parts[rank]
        x = on_device(mine, dtype)
        dist.broadcast(x, size - 1)
        same(x, parts[-1])
        results = [on_device(np.zeros((size, 2)), dtype) for _ in range(size)]
        dist.all_gather(results, on_device(mine, dtype))
        for tensor, part in zip(results, parts):
            same(tensor, part)
        whole = on_device(np.zeros((size * size, 2)), dtype)
        dist.all_gather_into_tensor(whole, on_device(mine, dtype))
        same(whole, np.concatenate(parts))
        results = [on_device(np.zeros((size, 2)), dtype) for _ in range(size)]
        dist.gather(on_device(mine, dtype), results if rank == 0 else None, dst=0)
        for tensor, part in zip(results, parts):
            same(tensor, part if rank == 0 else np.zeros((size, 2)))
        x = on_device(np.zeros(2), dtype)
        dist.scatter(x, list(on_device(mine, dtype)) if rank == size - 1 else None, src=size - 1)
        same(x, parts[-1][rank])
        results = [on_device(np.zeros(2), dtype) for _ in range(size)]
        dist.all_to_all(results, list(on_device(mine, dtype)))
        for r, tensor in enumerate(results):
            same(tensor, parts[r][rank])
        x = on_device(np.zeros((size, 2)), dtype)
        dist.all_to_all_single(x, on_device(mine, dtype))
        same(x, np.stack([parts[r][rank] for r in range(size)]))
        if size > 1:
            x = on_device(np.zeros((size, 2)), dtype)
            if rank % 2:  # the first message of a pair waits for both on the host
                assert dist.recv(x, before) == before
            sent = dist.isend(on_device(mine, dtype), after)
            if rank % 2 == 0:
                assert dist.recv(x, before) == before
            sent.wait()
            same(x, parts[before])
            x = on_device(np.zeros((2, size)), dtype).t()
            ops = [dist.P2POp(dist.irecv, x, before), dist.P2POp(dist.isend, on_device(mine, dtype), after)]
            for work in dist.batch_isend_irecv(ops):
                work.wait()
            same(x, parts[before])
    uneven = [torch.zeros(r, device="cuda") for r in range(size)]
    dist.all_gather(uneven, torch.full((rank,), float(rank), device="cuda"))
    for r, tensor in enumerate(uneven):
        same(tensor, np.full(r, r))
    rows = [r + 1 for r in range(size)]
    out = torch.zeros((rank + 1) * size, device="cuda")
    dist.all_to_all_single(out, torch.arange(float(sum(rows)), device="cuda"), [rank + 1] * size, rows)
    begin = sum(rows[:rank])
    same(out, np.tile(np.arange(begin, begin + rank + 1), size))
    view = torch.zeros(4, size, device="cuda").t()
    dist.all_gather_into_tensor(view, torch.full((1, 4), float(rank), device="cuda"))
    same(view, np.repeat(np.arange(size)[:, None], 4, axis=1))
    view = on_device(np.arange(6).reshape(2, 3) * (rank == 0), "float32").t()
    dist.broadcast(view, 0)
    same(view, np.arange(6).reshape(2, 3).T)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    objects = [None] * size if rank == 0 else None
    dist.gather_object("x" * rank, objects, 0)
    assert rank or objects == ["x" * r for r in range(size)]
    objects = [["a", 1] if rank == 0 else None]
    dist.broadcast_object_list(objects, 0)
    assert objects == [["a", 1]]
    objects = [None]
    dist.scatter_object_list(objects, list(range(10, 10 + size)) if rank == 0 else None, 0)
    assert objects == [10 + rank]
    if size > 1 and rank == 0:
        dist.send_object_list(["sent"], 1)
    elif rank == 1:
        objects = [None]
        assert dist.recv_object_list(objects, 0) == 0 and objects == ["sent"]
    dist.barrier()
    dist.destroy_process_group()
    assert count("destroyed") == count("communicators")


def orders(rank, size, path):
    """Streams, works and memory."""
    form(rank, size, path)
    x = torch.tensor([float(rank + 1)]).to("cuda")
    dist.all_reduce(torch.zeros(1).to("cuda"))
    torch.cuda.synchronize()
    fake_driver.set("delay", -1)  # nothing runs
    work = dist.all_reduce(x, async_op=True)
    assert not work.is_completed() and not work.is_success() and work.exception() is None
    fake_driver.set("delay", 2000)  # each piece of work takes a while
    assert work.wait() and work.result()[0] is x
    same(x, np.array([size * (size + 1) / 2]))
    assert work.is_completed() and work.is_success()
    with pytest.raises(RuntimeError, match="only a message that was received has a source"):
        work.source_rank()
    future = dist.all_reduce(x, async_op=True).get_future()
    assert future.wait()[0] is x
    side = torch.cuda.Stream()
    other = torch.tensor([1.0]).to("cuda")
    with torch.cuda.stream(side):
        side.wait_stream(torch.cuda.default_stream())
        work = dist.all_reduce(other, async_op=True)
        work.synchronize()
        same(other, np.array([size]))
    lost = on_device(
        np.full(1000, rank + 1), "float32"
    )  # freed at once: its memory is not handed on before the work is done
    gathered = torch.zeros(1000 * size, device="cuda")
    work = dist.all_gather_into_tensor(gathered, lost, async_op=True)
    del lost
    again = torch.full((1000,), -1.0).to("cuda")
    work.wait()
    same(gathered, np.repeat(np.arange(1, size + 1), 1000))
    same(again, np.full(1000, -1))
    fake_driver.set("delay", 0)
    groups = count("groups")
    many = [on_device(np.full(3, rank + k), "float32") for k in range(5)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in many:
            assert not dist.all_reduce(tensor).is_completed()
        with pytest.raises(RuntimeError, match="posted at the manager's end"):
            manager.works[0].wait()
        view = torch.zeros(2, size, device="cuda").t()
        dist.all_gather_into_tensor(view, torch.full((1, 2), float(rank), device="cuda"))
    manager.wait()
    for k, tensor in enumerate(many):
        same(tensor, np.full(3, sum(range(size)) + k * size))
    same(view, np.repeat(np.arange(size)[:, None], 2, axis=1))
    assert count("groups") == groups + 1
    with dist._coalescing_manager():
        pass
    dist.barrier()
    work = dist.barrier(async_op=True)
    work.wait()
    assert work.is_completed()
    group = dist.group.WORLD
    group.allreduce([x]).wait(timedelta(seconds=60))
    group.barrier().wait()
    os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "1"
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    assert work._completed
    if torch.cuda.device_count() > 1:  # a communicator for each device
        y = on_device(np.ones(2), "float32").to("cuda:1")
        dist.all_reduce(y)
        same(y, np.full(2, size))
        with pytest.raises(
            ValueError, match="all_gather.*: tensors must be on one device, not on cuda:0 and cuda:1"
        ):
            dist.all_gather([x] * (size - 1) + [y.narrow(0, 0, 1)] if size > 1 else [y.narrow(0, 0, 1)], x)
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    for _ in range(3):
        dist.all_reduce(x)
    dist.set_debug_level(dist.DebugLevel.OFF)


def training(rank, size, path):
    """DistributedDataParallel, functional collectives, DTensor."""
    from flambeau.distributed import _functional_collectives as funcol
    from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor

    form(rank, size, path)
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1), torch.nn.Linear(1, 1)).to("cuda")
    ddp = torch.nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    inputs = np.random.default_rng(0).normal(size=(size, 3))
    hidden = net[0](on_device(inputs[rank : rank + 1], "float32"))
    expected = net[1].weight.cpu().detach().numpy().T @ inputs.mean(0, keepdims=True)
    ddp.module.forward = lambda x: net[1](net[0](x))
    ddp(on_device(inputs[rank : rank + 1], "float32")).sum().backward()
    np.testing.assert_allclose(back(net[0].weight.grad), expected, rtol=1e-5)
    assert net[2].weight.grad is None and hidden.device.type == "cuda"
    x = on_device(np.arange(1, size + 1), "float32")
    same(funcol.all_reduce(x, "sum", dist.group.WORLD), np.arange(1, size + 1) * size)
    same(funcol.all_gather_tensor(x, 0, dist.group.WORLD), np.tile(np.arange(1, size + 1), size))
    same(funcol.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD), np.array([(rank + 1) * size]))
    mesh = dist.device_mesh.init_device_mesh("cuda", (size,))
    sharded = distribute_tensor(on_device(np.arange(2 * size), "float32"), mesh, [Shard(0)])
    same(sharded.to_local(), np.arange(2) + 2 * rank)
    same(sharded.redistribute(mesh, [Replicate()]).to_local(), np.arange(2 * size))


def groups(rank, size, path):
    """Subgroups, twins, refusals; both backends at once."""
    form(rank, size, path)
    x = on_device(np.ones(2), "float32")
    part = dist.new_group(sorted({0, size - 1}))
    if part is not dist.GroupMember.NON_GROUP_MEMBER:
        dist.all_reduce(x, group=part)
        same(x, np.full(2, len({0, size - 1})))
        dist.destroy_process_group(part)
        with pytest.raises(dist.DistBackendError, match="the group is not usable any more.*it was destroyed"):
            part.allreduce([x])
    assert dist.get_backend() == "nccl" and dist.get_backend_config() == "cuda:nccl"
    cpu = torch.ones(2)
    for wrong in (
        lambda: dist.all_reduce(cpu),
        lambda: dist.broadcast(cpu, 0),
        lambda: dist.all_gather([cpu] * size, cpu),
    ):
        with pytest.raises(
            RuntimeError, match="No backend type associated with device type cpu: backend nccl takes"
        ):
            wrong()
    with pytest.raises(ValueError, match="monitored_barrier is only implemented for GLOO backend"):
        dist.monitored_barrier()
    with pytest.raises(TypeError, match="data type is not supported for NCCL process group: flambeau.int16"):
        dist.all_reduce(x.to(torch.int16))
    with pytest.raises(TypeError, match="PreMulSum Data type must be half"):
        dist.all_reduce(on_device(np.ones(2), "int32"), dist._make_nccl_premul_sum(2))
    with pytest.raises(ValueError, match="Cannot use ReduceOp.BAND with NCCL"):
        dist.all_reduce(on_device(np.ones(2), "int32"), dist.ReduceOp.BAND)
    with pytest.raises(RuntimeError, match="Cannot use ReduceOp.AVG with dtype flambeau.bool"):
        dist.all_reduce(on_device(np.ones(2) > 0, "bool"), dist.ReduceOp.AVG)
    if size > 1:
        with pytest.raises(ValueError, match="NCCL receives from a source rank that is named"):
            dist.recv(x)
    host = dist.new_group(backend="gloo")  # as programs that use both make it
    dist.all_reduce(cpu, group=host)
    np.testing.assert_array_equal(cpu.numpy(), np.full(2, size))
    dist.destroy_process_group()
    form(rank, size, path + "2", "cpu:gloo,cuda:nccl")
    assert dist.get_backend_config() == dist.get_backend() == "cpu:gloo,cuda:nccl"
    for place in ("cpu", "cuda"):
        ones = torch.ones(size, device=place)
        dist.all_reduce(ones)
        dist.reduce(ones, 0)
        dist.broadcast(ones, 0)
        same(ones, np.full(size, size * size))
        out = torch.zeros(1, device=place)
        dist.reduce_scatter_tensor(out, ones)
        same(out, np.full(1, size**3))
        gathered = torch.zeros(2, size, device=place).t()
        dist.all_gather_into_tensor(gathered, torch.full((1, 2), float(rank), device=place))
        same(gathered, np.repeat(np.arange(size)[:, None], 2, axis=1))
        dist.all_to_all_single(out.new_zeros(size), ones)
        if size > 1:
            if rank == 0:
                dist.send(ones, 1)
            elif rank == 1:
                assert dist.recv(ones, 0) == 0
    with dist._coalescing_manager():
        dist.all_reduce(ones)
        dist.all_reduce(cpu)
    dist.barrier()
    dist.monitored_barrier()
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    dist.all_reduce(ones)
    dist.set_debug_level(dist.DebugLevel.OFF)
    objects = [None] * size
    dist.all_gather_object(objects, rank)
    assert objects == list(range(size))
    dist.destroy_process_group()
    dist.init_process_group(
        "nccl", store=dist.FileStore(path + "3", size), rank=rank, world_size=size, device_id=1
    )
    dist.barrier()
    objects = [rank]
    dist.broadcast_object_list(objects)
    assert objects == [0] and count("communicators") - count("destroyed") == 1
    assert dist.group.WORLD._lanes["all", 1].on.index == 1  # no other was made
    group = dist.shrink_group([size - 1]) if size > 1 and rank != size - 1 else None
    if group is not None:
        ones = torch.ones(1, device="cuda")
        dist.all_reduce(ones)
        same(ones, np.full(1, size - 1))
    dist.destroy_process_group()


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("checks", [orders, groups, training])
def test_works_and_groups(checks, size, tmp_path):
    world(size, checks, str(tmp_path / "store"), form=False)


def faults(rank, size, path, what):
    form(rank, size, path, seconds=1.0 if what in ("late", "late at first") else 60.0)
    x = torch.ones(2, device="cuda")
    if what != "late at first":
        dist.all_reduce(x)
        torch.cuda.synchronize()
    if rank == 1:
        if what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if what.startswith("late"):
            time.sleep(3.0)  # here it is instead
            return None
    if what == "asynchronous error":
        set_fake("async_error", 6)
    if what == "error of a call":
        set_fake("post_error", 4)
    with pytest.raises(dist.DistBackendError) as caught:
        dist.all_reduce(x, async_op=True).wait(timedelta(seconds=30))
    with pytest.raises(dist.DistBackendError, match="the group is not usable any more|died"):
        dist.all_reduce(x)
    if what not in ("killed", "late at first"):  # a death may be known before anything is posted
        end = time.monotonic() + 30.0
        while count("aborts") == 0 and time.monotonic() < end:  # by the thread that saw it first
            time.sleep(0.01)
        assert count("aborts") == 1
    torch.cuda.synchronize()  # what hung has ended
    text = str(caught.value)
    if what == "killed":  # those that are left go on
        group = dist.shrink_group(caught.value.lost_ranks)
        x = torch.ones(2, device="cuda")
        dist.all_reduce(x)
        same(x, np.ones(2))
        assert group.size() == 1 and count("communicators") == 2
    dist.destroy_process_group()
    assert count("communicators") == count("destroyed") + count("aborts") or what == "late at first"
    return text, caught.value.lost_ranks


WHY = {
    "killed": r"all_reduce on rank 0: rank 1 died",
    "late": r"timed out after 1000ms: not all ranks of ranks \[0, 1\] have joined collective 2.*rank 1.*nccl_checks.py:\d+ in faults",
    "late at first": r"timed out after 1000ms: not all ranks of ranks \[0, 1\] have joined collective 1.*nccl_checks.py:\d+ in faults",
    "asynchronous error": r"remote process exited or there was a network error \(6, NCCL 2.27.3\)",
    "error of a call": r"NCCL error: ncclAllReduce: invalid argument \(4, NCCL 2.27.3\)",
}


@pytest.mark.parametrize("what", WHY)
def test_faults(what, tmp_path):
    with started(2, faults, str(tmp_path / "store"), what, form=False) as (processes, pipes):
        result = results(processes, pipes)
    text, lost = result[0]
    assert re.search(WHY[what], text), text
    assert isinstance(result[1], Ended) == (what == "killed")
    assert lost == ([1] if what == "killed" else [])


def both_fail(rank, size, path):
    """A fault on devices ends the group on the CPU, too, and the other way round."""
    form(rank, size, path, "cpu:gloo,cuda:nccl")
    x = torch.ones(2, device="cuda")
    dist.all_reduce(x)
    with pytest.raises(dist.DistBackendError, match="not done after 0:00:00"):
        fake_driver.set("delay", -1)
        dist.all_reduce(x, async_op=True).wait(timedelta(0))
    fake_driver.set("delay", 0)
    torch.cuda.synchronize()
    set_fake("async_error", 1)
    with pytest.raises(dist.DistBackendError, match="NCCL 2.27.3"):
        dist.all_reduce(x)
        dist.barrier()
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait(timedelta(seconds=30))
    set_fake("async_error", 0)
    with pytest.raises(dist.DistBackendError, match="the group is not usable any more"):
        dist.all_reduce(x)
    dist.destroy_process_group()


def broken_device(rank, size, path):
    """What the device says of an error of its own is the call's error."""
    form(rank, size, path)
    x = torch.ones(2, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    fake_driver.set("delay", -1)
    work = dist.all_reduce(x, async_op=True)
    fake_driver.library.fake_break()
    fake_driver.set("delay", 0)
    with pytest.raises(RuntimeError, match="an illegal memory access was encountered"):
        work.wait()
    while not work.is_completed():
        time.sleep(0.01)
    assert isinstance(work.exception(), dist.DistBackendError) and "illegal memory access" in str(
        work.exception()
    )


def first_fault(rank, size, path):
    form(rank, size, path)
    set_fake("init_error", 2)
    with pytest.raises(
        dist.DistBackendError, match="all_reduce on rank 0: NCCL error: ncclCommInitRank: unhandled system"
    ):
        dist.all_reduce(torch.ones(1, device="cuda"))


def closing(rank, size, path):
    form(rank, size, path, seconds=0.5)
    x = torch.ones(1, device="cuda")
    dist.all_reduce(x)
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)  # nobody joins it
        dist.destroy_process_group()
        with pytest.raises(dist.DistBackendError):
            work.wait(timedelta(seconds=5))
        assert count("aborts") == 1
    else:
        time.sleep(1.5)


def test_ends(tmp_path):
    world(1, first_fault, str(tmp_path / "store"), form=False)
    world(1, both_fail, str(tmp_path / "store3"), form=False)
    world(1, broken_device, str(tmp_path / "store4"), form=False)
    world(2, closing, str(tmp_path / "store2"), form=False)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("checks", [reductions, copies])
def test_collectives(checks, size, tmp_path):
    world(size, checks, str(tmp_path / "store"), form=False)
