"""fully_shard: parameters are DTensors; gradients are those of one process on the joined batch; states go from one form to another."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_dist_fsdp_wrapper import BATCH, close, data, held_bytes, loss, made, of_one_process, part
from worlds import world

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy
from flambeau.distributed.tensor import DTensor, Replicate, Shard

KINDS = {"images": (nn.Conv2d, nn.Linear), "text": (nn.TransformerEncoderLayer,)}


def sharded(kind, net=None, nested=True, **options):
    net = made(kind) if net is None else net
    if nested:
        for module in list(net.modules()):
            if isinstance(module, KINDS[kind]) and module is not getattr(net, "output", None):
                fully_shard(module, **options)
    return fully_shard(net, **options)


def compare(net, reference, limit=1e-6):
    expected = dict(reference.named_parameters())
    assert list(dict(net.named_parameters())) == list(expected)
    for name, p in net.named_parameters():
        assert isinstance(p, DTensor) and isinstance(p.grad, DTensor) and p.grad.placements == p.placements
        np.testing.assert_allclose(
            p.grad.full_tensor().numpy(), expected[name].grad.numpy(), rtol=limit, atol=limit, err_msg=name
        )


def whole(net):
    return {name: p.detach().full_tensor().numpy() for name, p in net.named_parameters()}


def wide(parameter):
    """The dimension of the most elements that four processes divide; None for the first."""
    fitting = [d for d, size in enumerate(parameter.shape) if size % 4 == 0]
    dim = max(fitting, key=lambda d: parameter.shape[d], default=None)
    return Shard(dim) if dim else None


WAYS = [
    dict(nested=False),
    dict(),
    dict(reshard_after_forward=False),
    dict(reshard_after_forward=True, offload_policy=CPUOffloadPolicy()),
    dict(shard_placement_fn=wide),
]


def ways(rank, size, kind):
    reference = of_one_process(kind, size)
    total = sum(p.numel() * 4 for p in reference.parameters())
    x, y = part(kind, rank, size)
    for options in WAYS:
        net = sharded(kind, **options)
        assert isinstance(net, FSDPModule) and isinstance(net, type(made(kind)))
        for zeroed in (True, False, True):
            net.zero_grad(set_to_none=zeroed)
            loss(kind, net(x), y).backward()
            compare(net, reference)
        padding = sum(size * p.numel() // p.shape[0] * 4 for p in reference.parameters())
        assert held_bytes(net) <= (total + padding) / size * 1.1, options
        net.zero_grad()
        for k in range(BATCH):
            net.set_requires_gradient_sync(k == BATCH - 1)
            net.set_is_last_backward(k == BATCH - 1)
            (loss(kind, net(x[k : k + 1]), y[k : k + 1]) / BATCH).backward()
        compare(net, reference)
        net.zero_grad()
        for k in range(2):  # each reduced on its own
            (loss(kind, net(x[2 * k : 2 * k + 2]), y[2 * k : 2 * k + 2]) / 2).backward()
        compare(net, reference)
        net.zero_grad()
        outputs = [net(x[:2]), net(x[2:])]
        ((loss(kind, outputs[0], y[:2]) + loss(kind, outputs[1], y[2:])) / 2).backward()
        compare(net, reference)
    return True


@pytest.mark.parametrize("kind", ["images", "text"])
@pytest.mark.parametrize("size", [2, 4])
def test_gradients_are_those_of_one_process(size, kind):
    assert all(world(size, ways, kind))


def step(net, optimizer, kind, x, y):
    optimizer.zero_grad()
    loss(kind, net(x), y).backward()
    optimizer.step()


def states(rank, size):
    kind = "text"
    x, y = part(kind, rank, size)
    reference = made(kind)
    plain = torch.optim.AdamW(reference.parameters(), lr=0.01, eps=0.01)
    net = sharded(kind)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, eps=0.01)
    for _ in range(3):
        step(reference, plain, kind, *data(kind, BATCH * size))
        step(net, optimizer, kind, x, y)
    expected = {name: p.detach().numpy() for name, p in reference.named_parameters()}
    close(whole(net), expected)
    state_bytes = sum(
        t.to_local().numel() * 4 for s in optimizer.state.values() for t in s.values() if t.dim()
    )
    full = sum(2 * p.numel() * 4 for p in reference.parameters())
    rows = sum(p.numel() // p.shape[0] * 4 for p in reference.parameters())
    assert state_bytes + held_bytes(net) <= 1.5 * full / size * 1.1 + 3 * rows
    optimizer.zero_grad()

    sharded_model, sharded_states = get_state_dict(net, optimizer)
    assert list(sharded_model) == list(reference.state_dict())
    assert all(isinstance(value, DTensor) for value in sharded_model.values())
    everything = StateDictOptions(full_state_dict=True)
    model, actual = get_state_dict(net, optimizer, options=everything)
    one_model, one_state = get_state_dict(reference, plain)
    assert actual["state"].keys() == one_state["state"].keys()
    for name, values in one_state["state"].items():
        for key, value in values.items():
            np.testing.assert_allclose(
                actual["state"][name][key].numpy(), value.numpy(), rtol=1e-4, atol=1e-6
            )
    only_first = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert len(only_first) == (len(model) if rank == 0 else 0)

    def others():
        yield sharded(kind)
        yield FullyShardedDataParallel(
            made(kind), auto_wrap_policy=ModuleWrapPolicy({nn.TransformerEncoderLayer}), use_orig_params=True
        )
        yield FullyShardedDataParallel(made(kind))
        yield nn.parallel.DistributedDataParallel(made(kind))

    from_first = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    for k, other in enumerate(others()):
        fresh = torch.optim.AdamW(other.parameters(), lr=0.5, eps=0.01)
        if k % 2 == 0:
            set_state_dict(
                other,
                fresh,
                model_state_dict=model if rank == 0 else {},
                optim_state_dict=actual if rank == 0 else {},
                options=from_first,
            )
        else:
            set_state_dict(other, fresh, model_state_dict=model, optim_state_dict=actual, options=everything)
        assert fresh.param_groups[0]["lr"] == 0.01
        again, again_state = get_state_dict(other, fresh, options=everything)
        close({n: v.numpy() for n, v in again.items()}, {n: v.numpy() for n, v in model.items()}, 1e-7)
        for name, values in actual["state"].items():
            for key, value in values.items():
                np.testing.assert_array_equal(again_state["state"][name][key].numpy(), value.numpy())
        flat = StateDictOptions(full_state_dict=True, flatten_optimizer_state_dict=True)
        level = get_optimizer_state_dict(other, fresh, options=flat)
        assert "state.embedding.weight.exp_avg" in level and level["param_groups.embedding.weight.lr"] == 0.01
        set_optimizer_state_dict(other, fresh, level, options=flat)
        slices, slices_state = get_state_dict(other, fresh)
        set_state_dict(other, fresh, model_state_dict=slices, optim_state_dict=slices_state)
        if k < 3:
            assert isinstance(slices["embedding.weight"], DTensor)
            assert isinstance(slices_state["state"]["embedding.weight"]["exp_avg"], DTensor)
        set_state_dict(other, fresh, model_state_dict=sharded_model, optim_state_dict=sharded_states)
        again = get_model_state_dict(other, options=everything)
        close({n: v.numpy() for n, v in again.items()}, {n: v.numpy() for n, v in model.items()}, 1e-7)

    # What is sharded goes into what is sharded, and into a model without data.
    fresh = torch.optim.AdamW((other := sharded(kind)).parameters(), lr=0.5, eps=0.01)
    set_state_dict(other, fresh, model_state_dict=sharded_model, optim_state_dict=sharded_states)
    close(whole(other), expected)
    with torch.device("meta"):
        empty = sharded(kind)
    set_model_state_dict(empty, model if rank == 0 else {}, options=from_first)
    close(whole(empty), expected)
    step(other, fresh, kind, x, y)
    step(net, optimizer, kind, x, y)
    close(whole(other), whole(net), 1e-7)
    missing = {"state": {}, "param_groups": actual["param_groups"]}
    with pytest.raises(RuntimeError, match="Missing optimizer state for parameter 'embedding.weight'"):
        set_optimizer_state_dict(net, optimizer, missing, options=everything)
    with pytest.raises(ValueError, match="full_state_dict must be True"):
        get_model_state_dict(net, options=StateDictOptions(broadcast_from_rank0=True))
    return True


def test_states():
    assert all(world(2, states))


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b, self.never = nn.Linear(3, 4), nn.Linear(4, 3), nn.Linear(3, 3)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)

    def forward(self, x, fail=False):
        x = self.frozen(self.a(x))
        if fail:
            raise ValueError("asked to")
        return {"out": [self.b(x)]}

    def again(self, x):
        return self.a(x)


def corners(rank, size):
    x = torch.full((2, 3), 1.0 + rank)
    reference = Branches()
    both = torch.tensor([[1.0], [1.0], [2.0], [2.0]]).expand(4, 3)
    reference(both)["out"][0].square().mean().backward()
    grads = {name: p.grad for name, p in reference.named_parameters()}
    for nested in (False, True):
        net = Branches()
        if nested:
            for each in net.children():
                fully_shard(each)
        fully_shard(net)
        small = held_bytes(net)
        with pytest.raises(ValueError, match="asked to"):
            net(x, fail=True)
        assert held_bytes(net) == small
        with torch.no_grad():
            net(x)
        assert held_bytes(net) == small
        broken = net(x)["out"][0]
        broken.register_hook(lambda grad: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            broken.sum().backward()
        assert held_bytes(net) == small
        net(x)["out"][0].square().mean().backward()
        assert held_bytes(net) == small
        for name, p in net.named_parameters():
            if grads[name] is None:
                assert p.grad is None, name
            else:
                np.testing.assert_allclose(
                    p.grad.full_tensor().numpy(), grads[name].numpy(), rtol=1e-6, atol=1e-6
                )
        register_fsdp_forward_method(net, "again")
        assert net.again(x).shape == (2, 4)
        handle = net.unshard(async_op=True)
        handle.wait()
        net.reshard()
        assert held_bytes(net) == small
        net.reset_iter_state()
        if nested:
            net.a.set_modules_to_forward_prefetch([net.frozen, net.b])
            net.b.set_modules_to_backward_prefetch([net.frozen, net.a])
            with pytest.raises(RuntimeError, match="root"):
                net.a.reset_iter_state()
        net.set_reshard_after_backward(False)
        net(x)["out"][0].sum().backward()
        assert held_bytes(net) > small
        net.set_reshard_after_backward(True)
        for each in net.modules():
            if isinstance(each, FSDPModule):
                each.reshard()
        assert held_bytes(net) == small
        net.zero_grad()
        net.set_gradient_divide_factor(1.0)
        net(x)["out"][0].square().mean().backward()
        if not nested:
            np.testing.assert_allclose(
                net.b.bias.grad.full_tensor().numpy(), 2 * grads["b.bias"].numpy(), rtol=1e-6
            )
        net.to(torch.float64)
        assert net.a.weight.dtype is torch.float64 and net(x.double())["out"][0].dtype is torch.float64
        with pytest.raises(AssertionError, match="deepcopy"):
            copy.deepcopy(net)
    listed = Branches()
    fully_shard([listed.a, listed.b])
    fully_shard(listed)
    listed(x)["out"][0].square().mean().backward()
    np.testing.assert_allclose(
        listed.a.weight.grad.full_tensor().numpy(), grads["a.weight"].numpy(), rtol=1e-6, atol=1e-6
    )
    assert type(fully_shard(nn.Sequential(nn.ReLU(), nn.ReLU()))[:1]) is nn.Sequential
    with pytest.raises(ValueError, match="forward"):
        fully_shard(nn.ModuleList([nn.Linear(2, 2)]))
    scalar = nn.Module()
    scalar.p = nn.Parameter(torch.tensor(1.0))
    with pytest.raises(ValueError, match="scalar"):
        fully_shard(scalar)
    with pytest.raises(NotImplementedError, match="smaller group"):
        fully_shard(nn.Linear(2, 2), reshard_after_forward=2)
    with pytest.raises(AssertionError, match="once"):
        fully_shard(fully_shard(nn.Linear(2, 2)))
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    fully_shard(tied[0])
    with pytest.raises(ValueError, match="shared with a parameter already managed"):
        fully_shard(tied)
    return True


def test_errors_and_methods():
    assert all(world(2, corners))


def mixed(rank, size):
    kind = "text"
    x, y = part(kind, rank, size)
    net, seen = made(kind), []
    for layer in net.layers:
        fully_shard(layer, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    fully_shard(net, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32))
    net.layers[0].linear1.register_forward_hook(lambda m, a, o: seen.append((m.weight.dtype, a[0].dtype)))
    output = net(x)
    assert output.dtype is torch.float32 and seen == [(torch.bfloat16,) * 2]
    loss(kind, output, y).backward()
    assert {p.dtype for p in net.parameters()} == {p.grad.dtype for p in net.parameters()} == {torch.float32}
    compare(net, of_one_process(kind, size), 0.05)

    for norm in (2.0, float("inf")):
        reference, net = of_one_process(kind, size), sharded(kind)
        loss(kind, net(x), y).backward()
        expected = nn.utils.clip_grad_norm_(reference.parameters(), 0.1, norm)
        actual = nn.utils.clip_grad_norm_(net.parameters(), 0.1, norm)
        actual = actual.full_tensor() if isinstance(actual, DTensor) else actual
        np.testing.assert_allclose(actual.item(), expected.item(), rtol=1e-5)
        compare(net, reference)

    # From device "meta".
    with torch.device("meta"):
        net = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
    for each in net:
        fully_shard(each)
    fully_shard(net)
    with pytest.raises(RuntimeError, match="materialized"):
        net(torch.ones(1, 3))
    net.to_empty(device="cpu")
    for p in net.parameters():
        nn.init.constant_(p, 0.5)
    np.testing.assert_allclose(net(torch.ones(1, 3)).detach().numpy(), np.full((1, 2), 5.5), rtol=1e-6)
    torch.manual_seed(7)
    for each in net:
        each.reset_parameters()
    torch.manual_seed(7)
    reference = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))  # which draws the same numbers
    close(whole(net), {name: p.detach().numpy() for name, p in reference.named_parameters()}, 1e-7)
    return True


def test_precisions_clipping_and_meta():
    assert all(world(2, mixed))


def copies(rank, size):
    kind = "text"
    reference = of_one_process(kind, size)
    x, y = part(kind, rank, size)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))
    net = sharded(kind, mesh=mesh)
    assert net.embedding.weight.placements == (Replicate(), Shard(0))
    loss(kind, net(x), y).backward()
    compare(net, reference)
    net.zero_grad()
    for k in range(2):  # added up over the copies in the end
        net.set_requires_all_reduce(k == 1)
        (loss(kind, net(x[2 * k : 2 * k + 2]), y[2 * k : 2 * k + 2]) / 2).backward()
    compare(net, reference)
    net.zero_grad()
    for unit in net.modules():
        if isinstance(unit, FSDPModule):
            unit.set_force_sum_reduction_for_comms(True)
    loss(kind, net(x), y).backward()
    compare(net, reference)
    with pytest.raises(ValueError, match="1D or 2D"):
        fully_shard(nn.Linear(2, 2), mesh=init_device_mesh("cpu", (2, 1, 2)))
    return True


def test_copies():
    assert all(world(4, copies))


def test_the_program_of_the_documentation(tmp_path):
    page = Path(__file__).resolve().parents[2] / "docs" / "sharding.md"
    (tmp_path / "train.py").write_text(re.search(r"```python\n(.*?)```", page.read_text(), re.DOTALL)[1])
    command = [
        sys.executable,
        "-m",
        "flambeau.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "train.py",
    ]
    root = str(Path(torch.__file__).resolve().parents[1])
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=120)
    trained = torch.load(tmp_path / "trained.pt")
    net = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(4)], nn.Linear(64, 2))
    net.load_state_dict(trained["model"])
    assert trained["optimizer"]["state"]["0.0.weight"]["exp_avg"].shape == (64, 64)


def test_parameters_are_dtensors_of_their_shapes():
    """One process that plays rank 2 of 4: uneven slices, and none at all."""
    dist.init_process_group("fake", rank=2, world_size=4)
    try:
        net = fully_shard(nn.Linear(3, 5))
        assert net.weight.shape == (5, 3) and net.weight.to_local().shape == (1, 3)
        assert type(net).__name__ == "FSDPLinear"
        assert fully_shard(nn.Linear(7, 2)).weight.to_local().shape == (0, 7)
        assert net.state_dict()["weight"].placements == (Shard(0),)
    finally:
        dist.destroy_process_group()
