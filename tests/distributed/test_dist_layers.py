"""Layers over several processes, and collectives that gradients pass through, beside one process on the joined batch."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import world

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.nn import functional as F


def joined(kind: str, rows: list[int], dtype=np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal((n, 3, 2, 2) if kind == "2d" else (n, 3)).astype(dtype) for n in rows]


def normalised(rank, size, kind, rows, options):
    parts = joined(kind, rows)
    torch.manual_seed(0)
    plain = (nn.BatchNorm2d if kind == "2d" else nn.BatchNorm1d)(3, dtype=torch.float64, **options)
    if plain.weight is not None:
        with torch.no_grad():
            plain.weight.uniform_(0.5, 2), plain.bias.uniform_(-1, 1)
    sync = nn.SyncBatchNorm(3, dtype=torch.float64, **options)
    sync.load_state_dict(plain.state_dict())
    whole = torch.tensor(np.concatenate(parts)).requires_grad_()
    mine = torch.tensor(parts[rank]).requires_grad_()
    begin = sum(rows[:rank])
    for _ in range(2):
        wanted, actual = plain(whole), sync(mine)
        np.testing.assert_allclose(
            actual.detach().numpy(),
            wanted.detach().numpy()[begin : begin + rows[rank]],
            rtol=1e-10,
            atol=1e-12,
        )
        whole.grad = mine.grad = None
        plain.zero_grad(), sync.zero_grad()
        weights = torch.arange(1.0, whole.numel() + 1, dtype=torch.float64).view(whole.shape).sin()
        (wanted * weights).sum().backward()
        (actual * weights[begin : begin + rows[rank]]).sum().backward()
    np.testing.assert_allclose(
        mine.grad.numpy(), whole.grad.numpy()[begin : begin + rows[rank]], rtol=1e-8, atol=1e-10
    )
    for p, q in zip(sync.parameters(), plain.parameters()):  # each process's own share
        dist.all_reduce(p.grad)
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-9, atol=1e-10)
    for (name, a), b in zip(sync.state_dict().items(), plain.state_dict().values()):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, err_msg=name)
    if not options.get("track_running_stats", True):
        return
    plain.eval(), sync.eval()
    np.testing.assert_allclose(
        sync(mine).detach().numpy(), plain(mine).detach().numpy(), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("kind", ["1d", "2d"])
@pytest.mark.parametrize("rows", [[4, 4], [1, 5, 0]])
def test_batches_are_normalised_together(kind, rows):
    for options in ({}, {"momentum": None, "affine": False}, {"track_running_stats": False}):
        world(len(rows), normalised, kind, rows, options)


def half_batch(rank, size):
    layer = nn.SyncBatchNorm(3)
    x = torch.tensor(joined("1d", [4, 4])[rank]).to(torch.bfloat16)
    out = layer(x)
    assert out.dtype is torch.bfloat16 and layer.running_mean.dtype is torch.float32
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        nn.SyncBatchNorm(3)(torch.ones(1 - rank, 3))


def test_half_types_and_too_few_values():
    world(2, half_batch)


def passed(rank, size):
    """The gradient of the sum of all processes' losses, by finite differences of linear functions: their matrices."""
    calls = {
        "all_reduce": lambda x: F.all_reduce(x),
        "mean": lambda x: F.all_reduce(x, op=dist.ReduceOp.AVG),
        "broadcast": lambda x: F.broadcast(x, 1),
        "all_gather": lambda x: torch.cat(F.all_gather(x)),
        "gather": lambda x: torch.cat(F.gather(x, 1)) if rank == 1 else torch.cat(F.gather(x, 1)) * 0,
        "scatter": lambda x: F.scatter(list(x.split(1)), 1),
        "reduce_scatter": lambda x: F.reduce_scatter(torch.zeros(1, dtype=x.dtype), list(x.split(1))),
        "reduce_scatter mean": lambda x: F.reduce_scatter(
            torch.zeros(1, dtype=x.dtype), list(x.split(1)), dist.ReduceOp.AVG
        ),
        "all_to_all": lambda x: torch.cat(
            F.all_to_all(list(torch.zeros(size, dtype=x.dtype).split(1)), list(x.split(1)))
        ),
        "all_to_all_single": lambda x: F.all_to_all_single(torch.zeros_like(x), x),
    }
    for name, call in calls.items():
        length = len(call(torch.zeros(size, dtype=torch.float64)))
        weights = torch.tensor(np.random.default_rng(rank).standard_normal(length))
        x = torch.tensor(np.random.default_rng(10 + rank).standard_normal(size)).requires_grad_()
        (call(x) * weights).sum().backward()

        def loss(x, call=call, weights=weights):
            with torch.no_grad():
                total = (call(x) * weights).sum().view(1)
            dist.all_reduce(total)
            return total.item()

        for other in range(size):
            for k in range(size):
                step = torch.zeros(size, dtype=torch.float64)
                if rank == other:
                    step[k] = 1.0
                slope = loss(x.detach() + step) - loss(x.detach())
                if rank == other:
                    np.testing.assert_allclose(x.grad[k].item(), slope, atol=1e-12, err_msg=name)
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="gradients pass through SUM and AVG, not through MAX"):
        F.all_reduce(x, op=dist.ReduceOp.MAX).sum().backward()
    reduced = F.reduce(x, 0)
    assert reduced.tolist() == ([size] * 2 if rank == 0 else [1.0, 1.0])
    (reduced.sum() * (1.0 if rank == 0 else 0.0)).backward()
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_pass_through_collectives(size):
    world(size, passed)


def sampled(rank, size):
    sampler = torch.utils.data.DistributedSampler(range(5), shuffle=False)
    return sampler.num_replicas, list(sampler)


def test_a_sampler_asks_the_group():
    assert world(2, sampled) == [(2, [0, 2, 4]), (2, [1, 3, 0])]
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        torch.utils.data.DistributedSampler(range(5))
