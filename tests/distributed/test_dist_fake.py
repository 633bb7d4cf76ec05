"""One process that plays any rank; arguments that are refused before anything is sent; file stores."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from datetime import timedelta

import numpy as np
import pytest

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed import DistStoreError, FileStore, ReduceOp
from flambeau.distributed.algorithms.join import Join


@pytest.fixture
def group():
    dist.init_process_group("fake", rank=1, world_size=4)
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_one_process_plays_any_rank(group):
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (1, 4, "fake")
    assert dist.get_process_group_ranks() == [0, 1, 2, 3] and group.name() == "fake"
    x = torch.arange(3.0)
    for op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.MAX):
        dist.all_reduce(x, op)
    dist.broadcast(x, 2), dist.reduce(x, 3), dist.barrier(), dist.send(x, 0), dist.monitored_barrier()
    assert x.tolist() == [0.0, 1.0, 2.0] and dist.recv(x, 2) == 2
    results = [torch.zeros(3) for _ in range(4)]
    dist.all_gather(results, x)
    assert [t.tolist() for t in results] == [x.tolist()] * 4
    parts = torch.zeros(2)
    dist.reduce_scatter_tensor(parts, torch.arange(8.0))
    assert parts.tolist() == [2.0, 3.0]  # rank 1's
    dist.reduce_scatter(parts, [torch.full((2,), float(k)) for k in range(4)])
    assert parts.tolist() == [1.0, 1.0]
    assert dist.new_group([0, 2]) is dist.GroupMember.NON_GROUP_MEMBER and dist.new_group([3, 1]).rank() == 0


WRONG = [
    (lambda x: dist.all_reduce([x]), TypeError, "Expected parameter `tensor` of type torch.Tensor"),
    (lambda x: dist.all_reduce(x, "sum"), TypeError, "op must be a reduction such as ReduceOp.SUM, not str"),
    (lambda x: dist.all_reduce(x.to("meta")), RuntimeError, "No backend type associated with device type meta"),
    (lambda x: dist.all_reduce(x.to_sparse()), ValueError, "must be strided"),
    (lambda x: dist.all_reduce(x, ReduceOp.BAND), RuntimeError, "Cannot use ReduceOp.BAND with non-integral dtype"),
    (lambda x: dist.all_reduce(x > 0, ReduceOp.AVG), RuntimeError, "Cannot use ReduceOp.AVG with dtype"),
    (lambda x: dist.all_reduce(x + 1j, ReduceOp.MAX), ValueError, "all_reduce does not support .*MAX on complex tensors"),
    (lambda x: dist.all_reduce(x, group="all"), TypeError, "group must be a ProcessGroup or None, not str"),
    (lambda x: dist.broadcast(x, 9), ValueError, "Global rank 9 is not part of group"),
    (lambda x: dist.broadcast(x), ValueError, "src or group_src is needed"),
    (lambda x: dist.broadcast(x, 1, group_src=1), ValueError, "can't specify both group_src and src"),
    (lambda x: dist.broadcast(x, group_src=4), ValueError, "Group rank 4 is not part of group"),
    (lambda x: dist.all_gather([x], x), ValueError, "a tensor for each of the group's 4 ranks, got 1"),
    (lambda x: dist.all_gather(x, x), TypeError, r"Expected parameter `tensor_list` of type List\[torch.Tensor\]"),
    (lambda x: dist.all_gather([x, x, x, 3], x), TypeError, r"Expected parameter `tensor_list` of type List\[torch.Tensor\]"),
    (lambda x: dist.all_gather([x.double()] * 4, x), ValueError, "tensors with different dtypes"),
    (lambda x: dist.all_gather([x[:1]] * 4, x), ValueError, "Tensor sizes must match"),
    (lambda x: dist.all_gather_into_tensor(x, x), ValueError, "output tensor size must be equal to world_size times input"),
    (lambda x: dist.reduce_scatter_tensor(x, x), ValueError, "input tensor size must be equal to world_size times output"),
    (lambda x: dist.reduce_scatter(x, [x]), ValueError, "a tensor for each of the group's 4 ranks, got 1"),
    (lambda x: dist.gather(x, dst=1), ValueError, "``gather_list`` must be specified on destination rank"),
    (lambda x: dist.gather(x, [x] * 4, dst=0), ValueError, "``gather_list`` must NOT be specified on non-destination"),
    (lambda x: dist.scatter(x, src=1), ValueError, "``scatter_list`` must be specified on source rank"),
    (lambda x: dist.scatter(x, [x] * 4, src=0), ValueError, "``scatter_list`` must NOT be specified on non-source"),
    (lambda x: dist.all_to_all([x], [x]), ValueError, "a tensor for each of the group's 4 ranks, got 1"),
    (lambda x: dist.all_to_all_single(x, x), ValueError, "dim 0 of 2 does not divide equally across group size 4"),
    (lambda x: dist.all_to_all_single(x, x, [2], [2]), ValueError, "splits must be the group's size 4, got 1"),
    (lambda x: dist.all_to_all_single(x, x, [1, 1, 1, 1], [2, 0, 0, 0]), ValueError, "doesn't match output's dim 0 size 2"),
    (lambda x: dist.send(x, 1), ValueError, "Invalid destination rank"),
    (lambda x: dist.recv(x, 1), ValueError, "Invalid source rank"),
    (lambda x: dist.batch_isend_irecv([]), ValueError, "Invalid ``p2p_op_list``"),
    (lambda x: dist.P2POp(dist.send, x, 0), ValueError, "Invalid ``op``"),
    (lambda x: dist.all_gather_object([None], 1), ValueError, "must have 4 places, got 1"),
    (lambda x: dist.broadcast_object_list((1,), 0), TypeError, "must be a list, not tuple"),
    (lambda x: dist.scatter_object_list([], [1] * 4, 1), ValueError, "list of size at least 1"),
    (lambda x: dist.scatter_object_list([None], [1], 1), ValueError, "as many objects as the group has ranks"),
    (lambda x: dist.gather_object(1, None, 1), ValueError, "``object_gather_list`` must be specified on destination"),
    (lambda x: dist.new_group([1, 1]), ValueError, "a rank comes twice"),
    (lambda x: dist.new_group([1, 4]), ValueError, "rank should be within the world_size"),
    (lambda x: dist.new_group([0, 1, 2, 3, 3]), RuntimeError, "should be less or equal to the world size"),
    (lambda x: dist.new_subgroups(3), ValueError, "must be divisible by 'group_size=3'"),
    (lambda x: dist.new_subgroups(5), ValueError, "must not exceed the world size"),
    (lambda x: dist.new_subgroups_by_enumeration([[0, 1], [1, 2]]), ValueError, "Rank 1 has appeared in two subgroups"),
    (lambda x: dist.split_group(), ValueError, "split_ranks cannot be None or empty"),
    (lambda x: dist.get_group_rank(dist.group.WORLD, 7), ValueError, "Global rank 7 is not part of group"),
    (lambda x: dist.get_global_rank(dist.group.WORLD, 7), ValueError, "Group rank 7 is not part of group"),
    (lambda x: Join([]), ValueError, "requires at least one joinable"),
    (lambda x: dist.barrier(async_op=True).source_rank(), RuntimeError, "only a message that was received has a source"),
]  # fmt: skip


@pytest.mark.parametrize(
    "call, error, said", WRONG, ids=lambda value: getattr(value, "__name__", None) or str(value)[:40]
)
def test_wrong_arguments_are_refused_before_anything_is_sent(group, call, error, said):
    calls = group._calls
    with pytest.raises(error, match=said):
        call(torch.ones(2))
    assert group._broken is None and group._calls - calls <= (
        1 if "source" in said or error is RuntimeError else 2
    )


def test_methods_of_groups(group):
    x = torch.ones(2)
    assert (
        group.allreduce([x]).wait()
        and group.allreduce(x, ReduceOp.MAX).wait()
        and group.broadcast([x], 0).wait()
    )
    results = [torch.zeros(2) for _ in range(4)]
    assert (
        group.allgather([results], [x]).wait()
        and results[3].tolist() == [1.0, 1.0]
        and group.barrier().wait()
    )
    with pytest.raises(ValueError, match="one tensor expected, got 2"):
        group.allreduce([x, x])
    group.set_timeout(timedelta(seconds=3))
    assert group._seconds == 3.0 and "backend fake" in repr(group)


def test_the_timeout_of_a_group(group):
    from flambeau.distributed.distributed_c10d import _set_pg_timeout

    some = dist.new_group([0, 1])
    _set_pg_timeout(timedelta(seconds=5))
    _set_pg_timeout(timedelta(milliseconds=500), some)
    assert (group._seconds, some._seconds) == (5.0, 0.5)
    with pytest.raises(TypeError, match=r"timeout must be a datetime.timedelta, not float"):
        _set_pg_timeout(5.0)
    with pytest.raises(ValueError, match="Invalid process group specified"):
        _set_pg_timeout(timedelta(seconds=5), dist.new_group([dist.get_rank() - 1]))
    with pytest.raises(TypeError, match="group must be a ProcessGroup or None, not int"):
        _set_pg_timeout(timedelta(seconds=5), 3)


def test_names_where_programs_take_them():
    c10d = importlib.import_module("flambeau.distributed.distributed_c10d")
    for name in dist.__all__:
        assert getattr(c10d, name) is getattr(dist, name)
    assert c10d._get_default_group.__name__ == "default_group" and isinstance(
        c10d.default_pg_timeout, timedelta
    )
    assert pickle.loads(pickle.dumps(ReduceOp.SUM)) is ReduceOp.SUM
    assert dist.Backend("GLOO") == "gloo" == dist.Backend.GLOO


def test_a_program_of_two_lines_imports_no_mpi():
    code = "import sys, flambeau.distributed as d; d.init_process_group('fake', rank=0, world_size=2); print('mpi4py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_a_store_in_a_file(tmp_path):
    path = str(tmp_path / "store")
    one, other = FileStore(path, 2), FileStore(path, 2)
    one.set("a", "x")
    assert other.get("a") == b"x" and other.add("n", 2) == 2 and one.add("n", 3) == 5
    assert one.compare_set("k", "", "first") == b"first" == other.compare_set("k", "other", "second")
    one.multi_set(["b", "c"], [b"\x00" * 1000, ""])
    assert other.multi_get(["c", "b"]) == [b"", b"\x00" * 1000] and other.num_keys() == 5
    assert other.delete_key("a") and not one.check(["a"])
    with pytest.raises(DistStoreError, match="wait timeout after 50ms, keys: 'late'"):
        one.wait(["late"], timedelta(seconds=0.05))
    code = f"from flambeau.distributed import FileStore; FileStore({path!r}, 2).set('late', '1')"
    child = subprocess.Popen([sys.executable, "-c", code])
    assert one.get("late") == b"1" and child.wait() == 0
    for nonsense in (b"hello, this is no store", b"\x04\x00\x00\x00\xff\xff\xff\xff"):
        (tmp_path / "other").write_bytes(nonsense)
        with pytest.raises(DistStoreError, match="holds something else than a store"):
            FileStore(str(tmp_path / "other")).add("a", 1)
        with pytest.raises(DistStoreError, match="holds something else than a store"):
            FileStore(str(tmp_path / "other")).get("a")  # which does not wait


def test_levels_of_checks(monkeypatch):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "detail")
    dist.set_debug_level_from_env()
    assert dist.get_debug_level() is dist.DebugLevel.DETAIL
    dist.init_process_group("fake", rank=0, world_size=2)
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "loud")
    with pytest.raises(RuntimeError, match="must be one of OFF, INFO, DETAIL, not 'LOUD'"):
        dist.set_debug_level_from_env()
    dist.set_debug_level(dist.DebugLevel.OFF)


def test_data_parallel_training_of_one_process(group):
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
    net(torch.ones(5, 3)).sum().backward()
    np.testing.assert_allclose(net.module.weight.grad.numpy(), np.full((2, 3), 5 / 4))
    with pytest.raises(NotImplementedError, match="is not copied"):
        __import__("copy").deepcopy(net)
