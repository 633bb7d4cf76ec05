"""Every collective, dtype and number of processes beside NumPy, on tensors of every kind of geometry."""

from __future__ import annotations

import threading
import warnings
from datetime import timedelta

import numpy as np
import pytest
from worlds import world

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed import ReduceOp

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
]
COMPLEX = [torch.complex64, torch.complex128]
ALL = [*FLOATS, *INTEGERS, *COMPLEX, torch.bool]
SIZES = [1, 2, 3, 4]


def values(rank: int, dtype, shape=(3, 5)) -> np.ndarray:
    """What a process has, as float64 or complex128, exact in the dtype; small, so that products are, too."""
    rng = np.random.default_rng(100 + rank)
    if dtype is torch.bool:
        return rng.integers(0, 2, shape).astype(bool)
    result = rng.integers(1, 4, shape)
    return result + 1j * rng.integers(-2, 3, shape) if dtype.is_complex else result


def tensor(array, dtype):
    return torch.tensor(np.asarray(array)).to(dtype)


def numbers(t) -> np.ndarray:
    if t.dtype is torch.bool:
        return t.numpy()
    return t.to(torch.complex128 if t.dtype.is_complex else torch.float64).numpy()


def folded(op, arrays, dtype):
    if dtype is torch.bool:
        how = {"SUM": np.any, "MAX": np.any, "BOR": np.any, "PRODUCT": np.all, "MIN": np.all, "BAND": np.all}
        return np.logical_xor.reduce(arrays) if op == "BXOR" else how[op](arrays, axis=0)
    if op == "AVG":
        mean = np.sum(arrays, axis=0) / len(arrays)
        return mean if dtype.is_floating_point or dtype.is_complex else np.trunc(mean)
    how = dict(
        SUM=np.add,
        PRODUCT=np.multiply,
        MIN=np.minimum,
        MAX=np.maximum,
        BAND=np.bitwise_and,
        BOR=np.bitwise_or,
        BXOR=np.bitwise_xor,
    )
    return how[op].reduce([np.asarray(a) for a in arrays])


def operations(dtype) -> list[str]:
    if dtype.is_complex:
        return ["SUM", "AVG"]
    if dtype is torch.bool:
        return ["SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"]
    return ["SUM", "AVG", "PRODUCT", "MIN", "MAX"] + (
        [] if dtype.is_floating_point else ["BAND", "BOR", "BXOR"]
    )


def close(actual, wanted, dtype, said):
    rtol = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 2e-7, torch.complex64: 2e-7}.get(
        dtype, 1e-15
    )
    np.testing.assert_allclose(numbers(actual), wanted, rtol=rtol, atol=0, err_msg=str(said))


def reductions(rank, size):
    for dtype in ALL:
        arrays = [values(r, dtype) for r in range(size)]
        for op in operations(dtype):
            wanted = folded(op, arrays, dtype)
            mine = tensor(arrays[rank], dtype)
            assert dist.all_reduce(mine, getattr(ReduceOp, op)) is None
            close(mine, wanted, dtype, ("all_reduce", dtype, op))
            for root in range(size):
                mine = tensor(arrays[rank], dtype)
                dist.reduce(mine, root, getattr(ReduceOp, op))
                close(mine, wanted if rank == root else arrays[rank], dtype, ("reduce", dtype, op))
            whole = [[values(7 * r + k, dtype, (4,)) for k in range(size)] for r in range(size)]
            wanted = folded(op, [row[rank] for row in whole], dtype)
            out = tensor(np.zeros(4), dtype)
            dist.reduce_scatter(out, [tensor(a, dtype) for a in whole[rank]], getattr(ReduceOp, op))
            close(out, wanted, dtype, ("reduce_scatter", dtype, op))
            for stacked in (np.stack, np.concatenate):
                out = tensor(np.zeros(4), dtype)
                dist.reduce_scatter_tensor(out, tensor(stacked(whole[rank]), dtype), getattr(ReduceOp, op))
                close(out, wanted, dtype, ("reduce_scatter_tensor", dtype, op))
        if dtype.is_floating_point:
            mine = tensor(arrays[rank], dtype)
            dist.all_reduce(mine, dist._make_nccl_premul_sum(0.5 + rank))
            close(mine, sum((0.5 + r) * a for r, a in enumerate(arrays)), dtype, ("PREMUL_SUM", dtype))
    uneven = [np.arange(k + 1) + 1.0 for k in range(size)]
    out = torch.zeros(rank + 1)
    dist.reduce_scatter(out, [tensor(a, torch.float32) for a in uneven], ReduceOp.AVG)
    close(out, uneven[rank], torch.float32, "uneven reduce_scatter")


def copies(rank, size):
    for dtype in [*ALL, torch.float8_e4m3fn]:
        arrays = [values(r, dtype) for r in range(size)]
        mine = tensor(arrays[rank], dtype)
        for root in range(size):
            there = tensor(arrays[rank], dtype)
            dist.broadcast(there, root)
            close(there, arrays[root], dtype, "broadcast")
            received = [torch.zeros_like(mine) for _ in range(size)] if rank == root else None
            dist.gather(mine, received, root)
            for k, result in enumerate(received or []):
                close(result, arrays[k], dtype, "gather")
            sent = [tensor(values(50 + k, dtype), dtype) for k in range(size)] if rank == root else None
            there = torch.zeros_like(mine)
            dist.scatter(there, sent, root)
            close(there, values(50 + rank, dtype), dtype, "scatter")
        received = [torch.zeros_like(mine) for _ in range(size)]
        dist.all_gather(received, mine)
        for k, result in enumerate(received):
            close(result, arrays[k], dtype, "all_gather")
        for shape, joined in (((size, 3, 5), np.stack), ((3 * size, 5), np.concatenate)):
            whole = tensor(np.zeros(shape), dtype)
            dist.all_gather_into_tensor(whole, mine)
            close(whole, joined(arrays), dtype, "all_gather_into_tensor")
        table = [[values(9 * r + k, dtype, (2,)) for k in range(size)] for r in range(size)]
        received = [tensor(np.zeros(2), dtype) for _ in range(size)]
        dist.all_to_all(received, [tensor(a, dtype) for a in table[rank]])
        for k, result in enumerate(received):
            close(result, table[k][rank], dtype, "all_to_all")
        out = tensor(np.zeros(2 * size), dtype)
        dist.all_to_all_single(out, tensor(np.concatenate(table[rank]), dtype))
        close(out, np.concatenate([row[rank] for row in table]), dtype, "all_to_all_single")
    # Parts of different sizes: process r sends r + k rows to process k.
    sent = [np.full((rank + k, 2), 10.0 * rank + k) for k in range(size)]
    out = torch.zeros(sum(k + rank for k in range(size)), 2)
    dist.all_to_all_single(
        out,
        tensor(np.concatenate(sent), torch.float32),
        [k + rank for k in range(size)],
        [rank + k for k in range(size)],
    )
    assert (
        out.tolist()
        == np.concatenate([np.full((k + rank, 2), 10.0 * k + rank) for k in range(size)]).tolist()
    )
    received = [torch.zeros(k, 3) for k in range(size)]
    dist.all_gather(received, torch.full((rank, 3), float(rank)))
    assert [t.tolist() for t in received] == [np.full((k, 3), float(k)).tolist() for k in range(size)]


@pytest.mark.parametrize("size", SIZES)
def test_reductions_are_numpys(size):
    world(size, reductions)


@pytest.mark.parametrize("size", SIZES)
def test_copies_are_numpys(size):
    world(size, copies)


def geometries(rank, size):
    total, n = sum(range(size)), size
    for made in (
        lambda v: torch.full((4, 6), v).t(),
        lambda v: torch.full((4, 6), v)[::2, 1::2],
        lambda v: torch.full((), v),
        lambda v: torch.full((0, 3), v),
        lambda v: torch.full((2, 3), v, requires_grad=True),
        lambda v: torch.full((6,), v)[3:],
        lambda v: torch.full((2, 1), v, dtype=torch.float16).expand(2, 1).t(),
    ):
        x = made(float(rank))
        dist.all_reduce(x)
        assert x.tolist() == torch.full(x.shape, float(total)).tolist()
        x = made(float(rank))
        dist.broadcast(x, n - 1)
        assert x.tolist() == torch.full(x.shape, n - 1.0).tolist()
        received = [made(-1.0) for _ in range(n)]
        dist.all_gather(received, made(float(rank)))
        assert [t.tolist() for t in received] == [torch.full(x.shape, float(k)).tolist() for k in range(n)]
        received = [made(-1.0) for _ in range(n)]
        dist.all_to_all(received, [made(float(10 * rank + k)) for k in range(n)])
        assert [t.tolist() for t in received] == [
            torch.full(x.shape, 10.0 * k + rank).tolist() for k in range(n)
        ]
        out = made(-1.0)
        dist.reduce_scatter(out, [made(float(k)) for k in range(n)])
        assert out.tolist() == torch.full(x.shape, float(n * rank)).tolist()
        flat = torch.zeros(n * x.numel(), 2)[:, 0]
        dist.all_gather_into_tensor(flat, made(float(rank)).to(torch.float32))
        assert flat.tolist() == [float(k) for k in range(n) for _ in range(x.numel())]
    same = torch.ones(3)
    dist.all_to_all([same[:1] if n == 1 else torch.ones(1) for _ in range(n)], [same[:1]] * n)
    own = torch.arange(n, dtype=torch.float32)
    dist.all_gather_into_tensor(own, own[rank : rank + 1])  # into where it stands
    assert own.tolist() == list(range(n))


@pytest.mark.parametrize("size", [1, 3])
def test_views_empty_tensors_and_scalars(size):
    world(size, geometries)


def in_chunks(rank, size):
    from flambeau.distributed import _group_mpi, _mpi

    _mpi.CHUNK = _group_mpi.CHUNK = 7  # of 2²⁶: what is larger goes in several calls
    reductions(rank, size), copies(rank, size)
    if rank == 0:
        dist.send(torch.arange(50), 1)
    if rank == 1:
        got = torch.zeros(50, dtype=torch.int64)
        assert dist.recv(got, 0) == 0 and got.tolist() == list(range(50))
        with pytest.raises(ValueError, match="needs a source rank"):
            dist.recv(torch.zeros(50))
    dist.barrier()


def test_tensors_larger_than_a_call_takes():
    world(2, in_chunks)


def in_pieces(rank, size):
    """Large calls, some waited for and some not, between small ones, in the order of the program on every process."""
    from flambeau.distributed import _group_mpi

    _group_mpi.LARGE, _group_mpi.PIECE = 400, 64  # bytes
    reductions(rank, size)
    tensors = [torch.full((101 + 50 * k,), float(rank + k)) for k in range(8)]
    works = [dist.all_reduce(t, async_op=k % 3 != 0) for k, t in enumerate(tensors)]
    small = [dist.all_reduce(torch.ones(2), async_op=True) for _ in range(3)]
    for k in reversed(range(8)):
        assert works[k] is None or works[k].wait()
    for k, t in enumerate(tensors):
        assert (t == size * k + sum(range(size))).all()
    assert all(work.wait() and work.result()[0].tolist() == [size] * 2 for work in small)
    group = dist.group.WORLD
    assert not group._in_pieces


def test_large_calls_go_in_pieces():
    world(3, in_pieces)


def halves(rank, size):
    for dtype, unit in ((torch.float16, 2048.0), (torch.bfloat16, 256.0)):
        x = torch.tensor([unit if rank == 0 else 1.0], dtype=dtype)
        dist.all_reduce(x)  # added in the half type, each 1 would be lost
        assert x.item() == unit + size - 1 + (size - 1) % 2
    x = torch.tensor([60000.0 if rank < 2 else -60000.0], dtype=torch.float16)
    dist.all_reduce(x, ReduceOp.AVG)
    assert x.item() == 20000.0


def test_halves_are_added_in_float32():
    world(3, halves)


def asynchronous(rank, size):
    works, tensors = [], [torch.full((1000 * k + 1,), float(rank + k)) for k in range(20)]
    for t in tensors:
        works.append(dist.all_reduce(t, async_op=True))
    for k in reversed(range(20)):  # waited for in another order than begun
        assert works[k].wait(timedelta(seconds=60)) is True
        assert works[k].is_completed() and works[k].is_success() and works[k].exception() is None
        assert works[k].result()[0] is tensors[k] and (tensors[k] == size * k + sum(range(size))).all()
    x = torch.ones(3)
    doubled = dist.all_reduce(x, async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    assert doubled.wait().tolist() == [2.0 * size] * 3
    with dist._coalescing_manager(async_ops=True) as manager:
        many = [torch.ones(2) for _ in range(5)]
        for t in many:
            dist.all_reduce(t)
    manager.wait()
    assert all(t.tolist() == [size] * 2 for t in many)
    dist.all_reduce_coalesced(many)
    assert all(t.tolist() == [size * size] * 2 for t in many)
    group, answers = dist.new_group(), []
    there = torch.ones(5)
    thread = threading.Thread(target=lambda: answers.append(dist.all_reduce(there, group=group)))
    thread.start()
    here = torch.ones(7)
    dist.all_reduce(here)
    thread.join()
    assert answers == [None] and here.tolist() == [size] * 7 and there.tolist() == [size] * 5
    work = dist.barrier(async_op=True)
    assert work.wait()


def test_calls_under_way():
    world(3, asynchronous)


def in_groups(rank, size):
    pair, others = dist.new_group([3, 1]), dist.new_group([0, 2])
    mine, other = (pair, others) if rank % 2 else (others, pair)
    assert other is dist.GroupMember.NON_GROUP_MEMBER
    assert dist.get_process_group_ranks(mine) == [rank % 2, rank % 2 + 2] and mine.rank() == rank // 2
    assert (dist.get_rank(other), dist.get_world_size(other), dist.get_rank(mine)) == (-1, -1, rank // 2)
    x = torch.ones(2) * rank
    dist.all_reduce(x, group=mine)
    assert x.tolist() == [2.0 * (rank % 2) + 2] * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert dist.all_reduce(x, group=other) is None and dist.broadcast(x, 0, group=other) is None
    assert len(caught) == 2 and "does not belong to the given group" in str(caught[0].message)
    dist.broadcast(x, rank % 2 + 2, group=mine)  # by its rank among all
    dist.broadcast(x, group=mine, group_src=1)
    with pytest.raises(ValueError, match=f"Global rank {1 - rank % 2} is not part of group"):
        dist.broadcast(x, 1 - rank % 2, group=mine)
    here, made = dist.new_subgroups(2)
    assert len(made) == 2 and dist.get_process_group_ranks(here) == [rank // 2 * 2, rank // 2 * 2 + 1]
    results = [None, None]
    dist.all_gather_object(results, rank, group=here)
    assert results == dist.get_process_group_ranks(here)
    part = dist.split_group(split_ranks=[[0, 1, 2], [3]])
    assert part.size() == (1 if rank == 3 else 3)
    dist.barrier(part)
    turned = dist.new_group([3, 2, 1, 0], sort_ranks=False)
    assert turned.rank() == 3 - rank
    dist.destroy_process_group(turned)
    with pytest.raises(ValueError, match="Invalid process group specified"):
        dist.barrier(turned)
    whole = [torch.zeros(1) for _ in range(4)]
    dist.all_gather(whole, torch.full((1,), float(rank)))
    return [t.item() for t in whole]


def test_groups_of_some():
    assert world(4, in_groups) == [[0.0, 1.0, 2.0, 3.0]] * 4


def messages(rank, size):
    following, before = (rank + 1) % size, (rank - 1) % size
    for dtype in ALL:
        mine, got = tensor(values(rank, dtype), dtype), tensor(np.zeros((3, 5)), dtype)
        work = dist.isend(mine, following, tag=3)
        assert dist.recv(got, before, tag=3) == before
        work.wait()
        close(got, values(before, dtype), dtype, "recv")
    if rank == 0:
        sources = set()
        for _ in range(size - 1):
            got = torch.zeros(2)
            sources.add((dist.recv(got), got[0].item()))
        assert sources == {(r, float(r)) for r in range(1, size)}
    else:
        dist.send(torch.full((2,), float(rank)), 0)
    dist.barrier()
    if rank == 0:  # tags choose, not the order
        first, second = torch.zeros(1), torch.zeros(1)
        dist.recv(second, 1, tag=2), dist.recv(first, 1, tag=1)
        assert (first.item(), second.item()) == (1.0, 2.0)
    if rank == 1:
        works = [dist.isend(torch.tensor([1.0]), 0, tag=1), dist.isend(torch.tensor([2.0]), 0, tag=2)]
        assert [work.wait() for work in works] == [True, True]
    got, column = torch.zeros(3, 3)[:, 1], torch.arange(9.0).view(3, 3).t()[1]
    ops = [dist.P2POp(dist.isend, column, following), dist.P2POp(dist.irecv, got, before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert got.tolist() == column.tolist()
    for call in (lambda: dist.send(got, rank), lambda: dist.recv(got, rank)):
        with pytest.raises(ValueError, match="should not be the same as the rank of the current process"):
            call()
    with pytest.raises(ValueError, match="tag must be a number from 0"):
        dist.send(got, following, tag=-1)


def test_messages():
    world(3, messages)


def objects(rank, size):
    mine = {"rank": rank, "data": list(range(rank * 1000)), "tensor": torch.full((rank,), 1.0)}
    results = [None] * size
    dist.all_gather_object(results, mine)
    assert [len(f["data"]) for f in results] == [1000 * k for k in range(size)]
    assert [f["tensor"].tolist() for f in results] == [[1.0] * k for k in range(size)]
    there = [None] * size if rank == 1 else None
    dist.gather_object(rank, there, dst=1)
    assert rank != 1 or there == list(range(size))
    values = ["a", {"b": 2}] if rank == 2 else [None, None]
    dist.broadcast_object_list(values, src=2)
    assert values == ["a", {"b": 2}]
    out = [None]
    dist.scatter_object_list(out, [f"for {k}" for k in range(size)] if rank == 0 else None, src=0)
    assert out == [f"for {rank}"]
    if rank == 0:
        dist.send_object_list([1, "two"], dst=1)
    if rank == 1:
        got = [None, None]
        assert dist.recv_object_list(got, src=0) == 0 and got == [1, "two"]


def test_objects():
    world(3, objects)


class Counted:
    """A communicator that counts the bytes of what this process sends."""

    def __init__(self, inner):
        self.inner, self.sent, self.names = inner, 0, []

    def __getattr__(self, name):
        method = getattr(self.inner, name)
        if not name.startswith("I"):
            return method

        def call(sent, *args, **options):
            self.sent += len(sent[0])
            self.names.append(name)
            return method(sent, *args, **options)

        return call


def in_halves(rank, size):
    """Large halves: 16 bits an element are sent, sums are in float32 and rounded once, in any geometry."""
    from flambeau.distributed import _group_mpi, _halves

    _halves.FEW = 1 << 14
    group = dist.group.WORLD
    for dtype in (torch.bfloat16, torch.float16):
        for n in (20_001, 3 * (1 << 20) + 5):  # in one piece, and in several
            rows = [np.random.default_rng(k).standard_normal(n).astype(np.float32) for k in range(size)]
            halves = [torch.tensor(row).to(dtype) for row in rows]
            wide = [h.to(torch.float32).numpy() for h in halves]
            total = wide[0].copy()
            for row in wide[1:]:
                total = total + row
            group._large = counted = Counted(group._large)
            try:
                x = halves[rank].clone()
                dist.all_reduce(x)
                assert counted.sent <= 2 * n + 2 * (n // size + 1) + 2 * size * len(counted.names)
            finally:
                group._large = counted.inner
            assert x.view(torch.int16).numpy().tobytes() == rounded(total, dtype)
            x = halves[rank].clone()
            dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True).wait()
            assert x.view(torch.int16).numpy().tobytes() == rounded(total / np.float32(size), dtype)
            x = halves[rank].clone()
            dist.all_reduce(x, dist.ReduceOp.MAX)
            assert x.view(torch.int16).numpy().tobytes() == rounded(np.max(wide, axis=0), dtype)
    n = 300 * 100
    x = torch.arange(n, dtype=torch.float32).remainder(7).to(torch.bfloat16).view(300, 100).t()  # a view
    y = x.clone()
    dist.all_reduce(x)
    assert (x == y * size).all()
    both = [dist.all_reduce(t, async_op=True) for t in (x, y, torch.ones(40_000_00 // 4))]
    assert all(work.wait() for work in both)
    assert (x == y * size).all()
    whole = torch.full((size * 20_000,), float(rank + 1), dtype=torch.float16)
    part = torch.zeros(20_000, dtype=torch.float16)
    dist.reduce_scatter_tensor(part, whole)
    assert (part == sum(range(1, size + 1))).all()
    pieces = [torch.full((10_000 + k,), float(rank + k), dtype=torch.bfloat16) for k in range(size)]
    mine = torch.zeros(10_000 + rank, dtype=torch.bfloat16)
    dist.reduce_scatter(mine, pieces, dist.ReduceOp.AVG)
    mean = torch.tensor(sum(range(size)) / size + rank).to(torch.bfloat16)
    assert (mine == mean).all()
    assert _group_mpi.PIECE < 2 * 3 * (1 << 20)
    dist.barrier()


def rounded(values, dtype):
    """The bits of values in a half type, by NumPy and integers."""
    values = np.asarray(values, np.float32)
    if dtype is torch.float16:
        return values.astype(np.float16).tobytes()
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()


@pytest.mark.parametrize("size", [2, 3])
def test_large_halves_send_16_bits_and_are_rounded_once(size):
    world(size, in_halves)


def compressed(rank, size):
    from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
    from flambeau.nn.parallel import DistributedDataParallel

    group = dist.group.WORLD
    net = DistributedDataParallel(torch.nn.Linear(600, 600, bias=False))
    net.register_comm_hook(None, default_hooks.bf16_compress_hook)
    net(torch.ones(1, 600)).sum().backward()
    group._large = counted = Counted(group._large)
    net(torch.ones(1, 600)).sum().backward()
    group._large = counted.inner
    assert (net.module.weight.grad == 2.0).all()
    return counted.sent


def test_compressing_hooks_send_16_bits():
    assert world(2, compressed) == [600 * 600 * 2 + 600 * 600] * 2  # to all, and the own half of them to all
