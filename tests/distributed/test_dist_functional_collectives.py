"""Collectives that return new tensors: values and gradients against NumPy, and when results wait."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
from worlds import world

import flambeau as torch
import flambeau.distributed as dist
import flambeau.distributed._functional_collectives as funcol
from flambeau.distributed.tensor import Shard, distribute_tensor, init_device_mesh

REDUCED = {
    "sum": lambda x: x.sum(0),
    "avg": lambda x: x.mean(0),
    "product": lambda x: x.prod(0),
    "MIN": lambda x: x.min(0),
    "max": lambda x: x.max(0),
}


def values(size: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(1, 5, (size, *shape)).astype("f")


def against_numpy(rank: int, size: int) -> str:
    group = dist.group.WORLD
    x = values(size, 4, 8)
    mine = torch.tensor(x[rank])
    saved = mine.clone()
    for name, reduce in REDUCED.items():
        actual = funcol.all_reduce(mine, name, group)
        assert isinstance(actual, funcol.AsyncCollectiveTensor) and actual.shape == (4, 8)
        np.testing.assert_allclose(actual.numpy(), reduce(x), rtol=1e-6)
        scattered = funcol.reduce_scatter_tensor(mine, name, 0, group)
        np.testing.assert_allclose(scattered.numpy(), np.split(reduce(x), size)[rank], rtol=1e-6)
    for dim in (0, 1, -1):
        np.testing.assert_array_equal(
            funcol.wait_tensor(funcol.all_gather_tensor(mine, dim, group)).numpy(),
            np.concatenate(list(x), dim),
        )
        part = funcol.reduce_scatter_tensor(mine, "sum", dim, group)
        np.testing.assert_array_equal(part.tolist(), np.split(x.sum(0), size, dim)[rank])
    np.testing.assert_array_equal(funcol.broadcast(mine, size - 1, group).numpy(), x[size - 1])
    turned = funcol.all_to_all_single(mine, None, None, group)
    np.testing.assert_array_equal(turned.numpy(), np.concatenate([np.split(v, size)[rank] for v in x]))
    if (
        size == 2
    ):  # parts of different sizes: process 0 keeps 1 row and sends 3, process 1 sends 2 and keeps 2
        sent, received = ([1, 3], [1, 2]) if rank == 0 else ([2, 2], [3, 2])
        uneven = funcol.all_to_all_single_autograd(mine, received, sent, group)
        expected = (x[0][:1], x[1][:2]) if rank == 0 else (x[0][1:], x[1][2:])
        np.testing.assert_array_equal(uneven.numpy(), np.concatenate(expected))
    ring = [(k + 1) % size for k in range(size)]
    np.testing.assert_array_equal(
        funcol.permute_tensor(mine.reshape(-1), ring, group).numpy(), x[rank - 1].ravel()
    )
    only = funcol.permute_tensor(mine, [1], group)  # 0 to 1, nobody else
    assert only.shape[0] == (4 if rank == 1 else 0)
    for t in funcol.all_reduce_coalesced([mine, mine.double()], "sum", group):
        np.testing.assert_array_equal(t.numpy(), x.sum(0))
    one, two = funcol.all_gather_into_tensor_coalesced([mine, mine[:0]], group)
    assert one.shape == (4 * size, 8) and two.shape == (0, 8)
    one, two = funcol.reduce_scatter_tensor_coalesced([mine, mine], "sum", [0, 1], group)
    assert (one.shape, two.shape) == ((4 // size, 8), (4, 8 // size))
    view = torch.tensor(x[rank].T.copy()).t()[:, ::2]  # not contiguous
    np.testing.assert_array_equal(funcol.all_reduce(view, "sum", group).numpy(), x.sum(0)[:, ::2])
    assert torch.equal(mine, saved)
    return "done"


def grads(rank: int, size: int) -> str:
    """Each process weighs its results; the gradient is that of the sum of all processes' losses."""
    group = dist.group.WORLD
    x, w = values(size, 4, 4), np.random.default_rng(4).standard_normal((size, 8 * size, 4)).astype("f")

    def of(call, weight):
        leaf = torch.tensor(x[rank]).requires_grad_()
        out = call(leaf)
        (out * torch.tensor(weight[: out.shape[0], : out.shape[1]])).sum().backward()
        return leaf.grad.numpy()

    def check(call, expected):
        np.testing.assert_allclose(of(call, w[rank]), expected, rtol=1e-5, atol=1e-5)

    check(lambda t: funcol.all_reduce(t, "sum", group), w[:, :4].sum(0))
    check(lambda t: funcol.all_reduce(t, "avg", group), w[:, :4].mean(0))
    rows = slice(4 * rank, 4 * rank + 4)
    check(lambda t: funcol.all_gather_tensor_autograd(t, 0, group), w[:, rows].sum(0))
    part = 4 // size
    gathered = np.concatenate([v[:part] for v in w])
    check(lambda t: funcol.reduce_scatter_tensor_autograd(t, "sum", 0, group), gathered)
    check(lambda t: funcol.reduce_scatter_tensor(t, "avg", 0, group), gathered / size)
    back = np.concatenate([v[part * rank : part * (rank + 1)] for v in w])
    check(lambda t: funcol.all_to_all_single_autograd(t, None, None, group), back)
    sums = w[:, :4].sum(0) if rank == 0 else np.zeros((4, 4))
    check(lambda t: funcol.broadcast(t, 0, group), sums)
    leaf = torch.tensor(x[rank]).requires_grad_()
    with pytest.raises(RuntimeError, match="gradients pass through sum and avg, not through max"):
        funcol.reduce_scatter_tensor(leaf, "max", 0, group).sum().backward()
    dist.barrier()
    with torch.no_grad():
        assert isinstance(funcol.all_reduce(leaf, "sum", group), funcol.AsyncCollectiveTensor)
    return "done"


def waiting(rank: int, size: int) -> str:
    group = dist.group.WORLD
    gate = threading.Event()
    if rank == 1:
        gate.wait(0.3)  # the other's result cannot be there
    result = funcol.all_reduce(torch.ones(4, 2), "sum", group)
    if rank == 0:
        assert not result.completed and not result._work.is_completed()
    views = result.view(8), result.t(), result.unsqueeze(0)
    assert isinstance(views[0], funcol.AsyncCollectiveTensor) and (rank or not result.completed)
    assert views[0].shape == (8,) and result.dtype is torch.float32
    assert (views[0] + 1).tolist() == [size + 1.0] * 8 and type(views[0] + 1) is torch.Tensor
    assert views[0].completed and torch.equal(
        funcol.wait_tensor(views[2]), torch.full((1, 4, 2), float(size))
    )
    # What becomes of one: a collective, a pickle, a list, a text, a product, a write, a gradient of others.
    again = funcol.all_reduce(funcol.all_reduce(torch.ones(2), "sum", group), "sum", group)
    assert again.tolist() == [size**2] * 2
    plain = funcol.all_reduce(torch.ones(2), "sum", group)
    dist.all_reduce(plain)
    assert plain.tolist() == [size**2] * 2
    made = funcol.all_reduce(torch.eye(2), "sum", group)
    assert pickle.loads(pickle.dumps(made)).tolist() == (np.eye(2) * size).tolist()
    made = funcol.all_reduce(torch.ones(()), "sum", group)
    assert copy.deepcopy(made).item() == float(made) == size and np.asarray(made) == size and bool(made)
    assert [part.tolist() for part in funcol.all_reduce(torch.ones(2), "sum", group)] == [size] * 2
    assert "AsyncCollectiveTensor(tensor(" in repr(funcol.all_reduce(torch.eye(2), "sum", group))
    weight = torch.ones(2, 2, requires_grad=True)
    (funcol.all_reduce(torch.eye(2), "sum", group) @ weight).sum().backward()
    assert weight.grad.tolist() == [[size, size]] * 2
    made = funcol.all_reduce(torch.eye(2), "sum", group)
    made.add_(1)
    assert made.tolist() == (np.eye(2) * size + 1).tolist()
    return "done"


def groups_and_errors(rank: int, size: int) -> str:
    pair = dist.new_group([0, 1])
    x = torch.ones(2)
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rows", "columns"))
    for given in (pair, pair.group_name, mesh["rows"], (mesh, 0)):
        assert funcol.all_reduce(x, "sum", given).tolist() == [2, 2]
    with pytest.warns(FutureWarning, match="deprecated"):
        assert funcol.all_reduce(x, "sum", [0, 1]).tolist() == [2, 2]
    assert funcol._expand_group([[0, 1], [2, 3]]) == ("", [0, 1, 2, 3], 2)
    assert funcol._resolve_group_name(pair) == pair.group_name
    for call, error, text in (
        (lambda: funcol.all_reduce(x, "xor", pair), ValueError, "reduceOp must be one of"),
        (lambda: funcol.all_reduce(x, "sum", "nobody"), ValueError, "no group named 'nobody'"),
        (lambda: funcol.all_reduce(x, "sum", 3), ValueError, "Unsupported group type"),
        (lambda: funcol.all_reduce(x, "sum", (3, 4)), ValueError, "Invalid tuple for group"),
        (lambda: funcol.all_reduce([1], "sum", pair), (TypeError, AttributeError), ""),
        (
            lambda: funcol.reduce_scatter_tensor(torch.ones(3), "sum", 0, pair),
            AssertionError,
            "multiple of group_size 2",
        ),
        (lambda: funcol.all_gather_tensor(x, 1, pair), IndexError, "dimension 1 of a tensor of 1 dim"),
        (lambda: funcol.all_to_all_single(x, [1, 1], None, pair), AssertionError, "specified together"),
        (lambda: funcol.all_to_all_single(x, [1, 1.5], [1, 1], pair), AssertionError, "must be int"),
        (lambda: funcol.all_to_all_single(torch.ones(3), None, None, pair), ValueError, "split evenly"),
        (lambda: funcol.all_reduce(x, "sum", mesh), AssertionError, "Only 1D mesh"),
        (lambda: funcol.permute_tensor(x, [0, -1], pair), ValueError, "different ranks of the group's 2"),
        (lambda: funcol._expand_group([[0], [1, 2]]), ValueError, "sizes must be identical, got 1 and 2"),
    ):
        with pytest.raises(error, match=text):
            call()
    dist.destroy_process_group(pair)
    with pytest.raises(ValueError):
        funcol.all_reduce(x, "sum", pair)
    return "done"


def same_on_all(rank: int, size: int) -> str:
    """Modules become those of a rank, in messages of any size."""
    from flambeau.distributed.utils import _sync_module_states

    for limit in (0, 40, 1 << 20):
        torch.manual_seed(rank)
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 0))
        net[1].running_mean.fill_(rank)
        net[1].num_batches_tracked.fill_(rank)
        saved = net[0].bias.detach().clone()
        _sync_module_states(net, dist.group.WORLD, limit, size - 1, {"0.bias"})
        torch.manual_seed(size - 1)
        expected = torch.nn.Linear(3, 4)
        assert torch.equal(net[0].weight, expected.weight) and torch.equal(net[0].bias, saved)
        assert (
            net[1].running_mean.tolist() == [size - 1] * 4 and net[1].num_batches_tracked.item() == size - 1
        )
    assert dist._rank_not_in_group(dist.new_group([0])) == (rank != 0) and not dist._rank_not_in_group(None)
    return "done"


def everything(rank: int, size: int) -> list[str]:
    results = [against_numpy(rank, size), grads(rank, size)]
    return (
        [*results, waiting(rank, size), same_on_all(rank, size), groups_and_errors(rank, size)]
        if size == 2
        else results
    )


@pytest.mark.parametrize("size", [1, 2, 4])
def test_functional_collectives(size):
    if size == 1:
        assert world(1, grads) == ["done"]
    else:
        assert all(set(result) == {"done"} for result in world(size, everything))


def test_tensors_without_memory_are_refused():
    dist.init_process_group("fake", rank=0, world_size=2)
    try:
        placed = distribute_tensor(torch.ones(4), init_device_mesh("cpu", (2,)), [Shard(0)])
        for call in (
            lambda: dist.all_reduce(placed),
            lambda: dist.isend(placed, 1),
            lambda: funcol.all_reduce(placed, "sum", dist.group.WORLD),
        ):
            with pytest.raises(TypeError, match="is a DTensor without elements of its own"):
                call()
        dist.all_reduce(torch.empty(0))
        dist.all_reduce(placed.to_local())
    finally:
        dist.destroy_process_group()


def test_backends_by_device():
    assert (
        dist.get_default_backend_for_device("cpu")
        == dist.get_default_backend_for_device(torch.device("cpu"))
        == "gloo"
    )
    assert set(dist.Backend.default_device_backend_map.values()) <= set(dist.Backend.backend_list)
    assert set(dist.Backend.backend_capability) <= set(dist.Backend.backend_list)
    with pytest.raises(ValueError, match="Default backend not registered for device : meta"):
        dist.get_default_backend_for_device("meta")
