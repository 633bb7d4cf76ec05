"""DistributedDataParallel: gradients are those of one process on the joined batch, in every way of running it."""

from __future__ import annotations

import contextlib
import copy

import numpy as np
import pytest
from worlds import world

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
from flambeau.nn.parallel import DistributedDataParallel as DDP
from flambeau.nn.parallel.distributed import _MixedPrecision

BATCH = 4  # of a process


def images() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(6 * 9, 16),
        nn.Tanh(),
        nn.Linear(16, 4),
    )


class Reader(nn.Module):
    """A small transformer whose embedding is its output layer, too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.output = nn.Linear(8, 11, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, x):
        return self.output(self.layer(self.embedding(x)))


def data(kind: str, rows: int):
    rng = np.random.default_rng(5)
    if kind == "images":
        return torch.tensor(rng.standard_normal((rows, 3, 6, 6)).astype("f")), torch.tensor(
            rng.standard_normal((rows, 4)).astype("f")
        )
    tokens = torch.tensor(rng.integers(0, 11, (rows, 6)))
    return tokens[:, :-1], tokens[:, 1:]


def made(kind: str) -> nn.Module:
    return images() if kind == "images" else Reader()


def loss(kind: str, output, target):
    if kind == "images":
        return ((output - target) ** 2).mean()
    return nn.functional.cross_entropy(output.reshape(-1, 11), target.reshape(-1))


def of_one_process(kind: str, size: int):
    net = made(kind)
    x, y = data(kind, BATCH * size)
    loss(kind, net(x), y).backward()
    return net


def compare(net, reference, limit=1e-6):
    for (name, p), q in zip(net.named_parameters(), reference.parameters()):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=limit, atol=limit, err_msg=name)


WAYS = [
    dict(),
    dict(gradient_as_bucket_view=True),
    dict(bucket_cap_mb=0.0005),
    dict(find_unused_parameters=True),
    dict(static_graph=True),
    dict(gradient_as_bucket_view=True, bucket_cap_mb=0.0005, find_unused_parameters=True),
]


def ways(rank, size, kind):
    reference = of_one_process(kind, size)
    x, y = data(kind, BATCH * size)
    x, y = x[rank * BATCH : (rank + 1) * BATCH], y[rank * BATCH : (rank + 1) * BATCH]
    for options in WAYS:
        net = DDP(made(kind), **options)
        for zeroed in (True, False, True):  # set to None, then to zero
            net.zero_grad(set_to_none=zeroed)
            loss(kind, net(x), y).backward()
            compare(net, reference)
        net.zero_grad()
        for k in range(BATCH):  # gradients that add up here first
            with net.no_sync() if k < BATCH - 1 else contextlib.nullcontext():
                (loss(kind, net(x[k : k + 1]), y[k : k + 1]) / BATCH).backward()
        compare(net, reference)
        net.zero_grad()
        outputs = [net(x[:2]), net(x[2:])]  # two passes before one backward
        ((loss(kind, outputs[0], y[:2]) + loss(kind, outputs[1], y[2:])) / 2).backward()
        compare(net, reference)
    return len(net.reducer.buckets)


@pytest.mark.parametrize("kind", ["images", "text"])
@pytest.mark.parametrize("size", [2, 4])
def test_gradients_are_those_of_one_process(size, kind):
    assert min(world(size, ways, kind)) > 2


def trained(rank, size):
    x, y = data("images", BATCH * size)
    reference, net = images(), DDP(images(), bucket_cap_mb=0.001)
    for each, rows in ((reference, slice(None)), (net, slice(rank * BATCH, (rank + 1) * BATCH))):
        optimizer = torch.optim.Adam(each.parameters(), lr=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            loss("images", each(x[rows]), y[rows]).backward()
            optimizer.step()
    for p, q in zip(net.parameters(), reference.parameters()):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), atol=1e-4)
    assert list(net.state_dict()) == [f"module.{name}" for name in reference.state_dict()]
    return b"".join(p.detach().numpy().tobytes() for p in net.parameters())


def test_training_is_that_of_one_process():
    """And every process has the same bits."""
    first, second = world(2, trained)
    assert first == second


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b, self.never = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x, both: bool):
        return {"out": [self.a(x) + (self.b(x) if both else 0)]}


def unused(rank, size):
    x = torch.ones(2, 3)
    net = DDP(Branches(), find_unused_parameters=True)
    net.module.never.weight.grad = torch.full((3, 3), 7.0)
    net(x, rank == 0)["out"][0].sum().backward()
    assert net.module.a.weight.grad.tolist() == [[2.0] * 3] * 3
    assert net.module.b.weight.grad.tolist() == [[1.0] * 3] * 3  # the mean of 2 and 0
    assert net.module.never.weight.grad.tolist() == [[7.0] * 3] * 3 and net.module.never.bias.grad is None
    net = DDP(Branches(), static_graph=True)
    for _ in range(3):
        net.zero_grad()
        net(x, True)["out"][0].sum().backward()
        assert net.module.b.weight.grad.tolist() == [[2.0] * 3] * 3 and net.module.never.weight.grad is None
    net = DDP(Branches())
    net(x, True)["out"][0].sum().backward()
    with pytest.raises(
        RuntimeError,
        match=rf"Expected to have finished reduction[\s\S]*for rank {rank}: 4 5 \(never.weight, never.bias\)",
    ):
        net(x, True)


def test_parameters_that_are_not_used():
    world(2, unused)


def hooks(rank, size):
    reference = of_one_process("images", size)
    x, y = data("images", BATCH * size)
    x, y = x[rank * BATCH : (rank + 1) * BATCH], y[rank * BATCH : (rank + 1) * BATCH]
    seen = []

    def noted(state, bucket):
        state.append(
            (
                bucket.index(),
                bucket.is_last(),
                [tuple(g.shape) for g in bucket.gradients()],
                len(bucket.parameters()),
            )
        )
        return default_hooks.allreduce_hook(None, bucket)

    for hook, state, limit in (
        (default_hooks.allreduce_hook, None, 1e-6),
        (default_hooks.allreduce_hook, dist.group.WORLD, 1e-6),
        (noted, seen, 1e-6),
        (default_hooks.fp16_compress_hook, None, 2e-3),
        (default_hooks.bf16_compress_hook, None, 2e-2),
        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), None, 2e-3),
        (default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook), None, 2e-2),
    ):
        net = DDP(images(), bucket_cap_mb=0.001)
        net.register_comm_hook(state, hook)
        for _ in range(2):
            net.zero_grad()
            loss("images", net(x), y).backward()
            compare(net, reference, limit)
        with pytest.raises(RuntimeError, match="can only be called once"):
            net.register_comm_hook(state, hook)
    count = len(seen) // 2
    assert count > 1 and [s[:2] for s in seen] == [(k, k == count - 1) for k in range(count)] * 2
    assert seen[0][2][0] == (4,) and sum(s[3] for s in seen) == 2 * 6
    net = DDP(images())
    with pytest.raises(TypeError, match="Communication hook must be callable"):
        net.register_comm_hook(None, 3)

    def wrong(state, bucket):
        return default_hooks.allreduce_hook(None, bucket).then(lambda done: "no tensor")

    net.register_comm_hook(None, wrong)
    with pytest.raises(RuntimeError, match="must give a future of a tensor, got one of str"):
        loss("images", net(x), y).backward()


def test_communication_hooks():
    world(2, hooks)


def uneven(rank, size):
    x, y = data("images", BATCH * size)
    net, iterations = DDP(images(), bucket_cap_mb=0.001), 2 + 2 * rank
    results = []
    with net.join():
        for _ in range(iterations):
            net.zero_grad()
            loss("images", net(x), y).backward()
            results.append(net.module[0].bias.grad.numpy().copy())
    full = of_whole(x, y)
    np.testing.assert_allclose(results[0], full, rtol=1e-5, atol=1e-6)
    if rank == 1:
        np.testing.assert_allclose(results[3], full / 2, rtol=1e-5, atol=1e-6)  # the other adds nothing
    with net.join(divide_by_initial_world_size=False):
        for _ in range(iterations):
            net.zero_grad()
            loss("images", net(x), y).backward()
    np.testing.assert_allclose(net.module[0].bias.grad.numpy(), full, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="exhausted (all )?inputs"):
        with net.join(throw_on_early_termination=True):
            for _ in range(iterations):
                loss("images", net(x), y).backward()
    with net.join(enable=False):
        loss("images", net(x), y).backward()
    # The last ones' parameters are everybody's at the end.
    net = DDP(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with net.join():
        for _ in range(iterations):
            optimizer.zero_grad()
            net(torch.arange(6.0).view(3, 2) * (rank + 1)).square().sum().backward()
            optimizer.step()
    return [t.tolist() for t in net.state_dict().values()]


def of_whole(x, y):
    net = images()
    loss("images", net(x), y).backward()
    return net[0].bias.grad.numpy()


def test_uneven_inputs():
    first, second = world(2, uneven)
    assert first == second


def buffers(rank, size):
    torch.manual_seed(rank)
    inner = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    net = DDP(inner)
    weights = [None] * size
    dist.all_gather_object(weights, inner[0].weight.tolist())
    assert weights[0] == weights[1]  # those of rank 0
    for _ in range(3):
        net(torch.randn(4, 2)).sum().backward()
    means = [None] * size
    inner[1].running_mean.fill_(float(rank))
    inner[1].num_batches_tracked.fill_(5 + rank)
    net.eval()
    net(torch.zeros(2, 2)).sum().backward()
    dist.all_gather_object(means, (inner[1].running_mean.tolist(), inner[1].num_batches_tracked.item()))
    assert means == [([0.0] * 3, 5)] * size
    net = DDP(copy.deepcopy(inner), broadcast_buffers=False)
    net.module[1].running_mean.fill_(float(rank))
    net.eval()
    net(torch.zeros(2, 2)).sum().backward()
    assert net.module[1].running_mean.tolist() == [float(rank)] * 3


def test_buffers_and_parameters_are_those_of_rank_0():
    world(2, buffers)


def wrong_modules(rank, size):
    with pytest.raises(RuntimeError, match="DDP expects same model across all ranks, but Rank"):
        DDP(nn.Linear(2, 2 + rank))
    with pytest.raises(
        RuntimeError,
        match=f"Rank {rank} has {1 + rank} params, while rank {1 - rank} has inconsistent {2 - rank} params",
    ):
        DDP(nn.Linear(2, 2, bias=rank == 1))
    with pytest.raises(RuntimeError, match="doesn't have any parameter that requires a gradient"):
        DDP(nn.ReLU())
    with pytest.raises(ValueError, match="device_ids must be None for a module on the CPU"):
        DDP(nn.Linear(2, 2), device_ids=[0])
    x = torch.ones(1, 2)
    net = DDP(nn.Linear(2, 2))
    net(x)  # whose output is dropped
    net(x).sum().backward()
    net.module.weight.grad.fill_(float("nan")) if rank == 1 else None
    net(x).sum().backward()  # NaN of one process comes to all
    assert net.module.weight.grad.isnan().all()
    with torch.no_grad():
        net(x)


def test_what_modules_must_be():
    world(2, wrong_modules)


def test_without_a_group():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DDP(nn.Linear(1, 1))


def low_precision(rank, size):
    reference = of_one_process("images", size)
    x, y = data("images", BATCH * size)
    x, y = x[rank * BATCH : (rank + 1) * BATCH], y[rank * BATCH : (rank + 1) * BATCH]
    seen = []
    for options in (dict(), dict(find_unused_parameters=True, bucket_cap_mb=0.0005)):
        how = _MixedPrecision(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16
        )
        net = DDP(made("images"), mixed_precision=how, **options)
        net.module[0].register_forward_hook(
            lambda m, a, o: seen.append((a[0].dtype, m.weight.dtype, o.dtype))
        )
        for _ in range(2):
            net.zero_grad()
            loss("images", net(x).float(), y).backward()
        assert set(seen) == {(torch.bfloat16,) * 3}
        assert {(p.dtype, p.grad.dtype) for p in net.parameters()} == {(torch.float32, torch.float32)}
        compare(net, reference, 0.05)
        with net.no_sync():
            loss("images", net(x).float(), y).backward()
        for p, q in zip(net.parameters(), reference.parameters()):
            assert p.grad.norm() > 1.5 * q.grad.norm()
    with pytest.raises(ValueError, match="gradient_as_bucket_view"):
        DDP(made("images"), mixed_precision=how, gradient_as_bucket_view=True)
    return b"".join(p.grad.numpy().tobytes() for p in reduced(x, y, how).parameters())


def reduced(x, y, how):
    net = DDP(made("images"), mixed_precision=how)
    loss("images", net(x).float(), y).backward()
    return net


def test_low_precision():
    """And every process has the same bits."""
    first, second = world(2, low_precision)
    assert first == second
