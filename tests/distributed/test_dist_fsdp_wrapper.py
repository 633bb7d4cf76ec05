"""FullyShardedDataParallel: gradients are those of one process on the joined batch; nothing stays gathered; states travel."""

from __future__ import annotations

import contextlib
import copy
import os

import numpy as np
import pytest
from worlds import world

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from flambeau.distributed.fsdp import (
    BackwardPrefetch,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    OptimStateKeyType,
    ShardingStrategy,
    StateDictType,
)
from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP
from flambeau.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from flambeau.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    enable_wrap,
    size_based_auto_wrap_policy,
    wrap,
)

BATCH = 4  # of a process


def images() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.BatchNorm2d(6, affine=False, momentum=0.0),
        nn.ReLU(),
        nn.Flatten(),
        nn.Sequential(nn.Linear(6 * 36, 16), nn.Tanh()),
        nn.Linear(16, 4),
    ).eval()  # batch norm by the running statistics: one process has no other ones


class Reader(nn.Module):
    """A small transformer whose embedding is its output layer, too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(11, 8)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.output = nn.Linear(8, 11, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, x):
        x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        return self.output(x)


def made(kind: str) -> nn.Module:
    return images() if kind == "images" else Reader()


def policy(kind: str) -> ModuleWrapPolicy:
    return ModuleWrapPolicy({nn.Conv2d, nn.Linear} if kind == "images" else {nn.TransformerEncoderLayer})


def data(kind: str, rows: int):
    rng = np.random.default_rng(5)
    if kind == "images":
        x, y = rng.standard_normal((rows, 3, 6, 6)), rng.standard_normal((rows, 4))
        return torch.tensor(x.astype("f")), torch.tensor(y.astype("f"))
    tokens = torch.tensor(rng.integers(0, 11, (rows, 6)))
    return tokens[:, :-1], tokens[:, 1:]


def part(kind: str, rank: int, size: int):
    x, y = data(kind, BATCH * size)
    return x[rank * BATCH : (rank + 1) * BATCH], y[rank * BATCH : (rank + 1) * BATCH]


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
    """Whole gradients; of a wrapper with one parameter for all by what a step of SGD changes."""
    expected = dict(reference.named_parameters())
    with FSDP.summon_full_params(net, with_grads=True):
        results = dict(net.named_parameters())
        assert list(results) == list(expected)
        for name, p in results.items():
            np.testing.assert_allclose(
                p.grad.numpy(), expected[name].grad.numpy(), rtol=limit, atol=limit, err_msg=name
            )


def flat_step(net, reference, size):
    torch.optim.SGD(net.parameters(), lr=1.0).step()
    expected = dict(reference.named_parameters())
    with FSDP.summon_full_params(net):
        for name, p in net.named_parameters():
            q = expected[name]
            np.testing.assert_allclose(
                p.detach().numpy(), (q.detach() - q.grad).numpy(), rtol=1e-6, atol=1e-6, err_msg=name
            )


def held_bytes(net) -> int:
    """Memory that the parameters of a module, and what is gathered for them, take."""
    storages = {}
    for module in net.modules():
        tensors = [p for p in module._parameters.values() if p is not None]
        tensors += [v for v in module.__dict__.values() if isinstance(v, torch.Tensor)]
        unit = module.__dict__.get("_fsdp_unit")
        for bucket in unit.buckets if unit is not None else ():
            tensors += [bucket.row, *([] if bucket.full is None else [bucket.full])]
            tensors += [slot.unsharded for slot in bucket.slots]
        for t in tensors:
            t = t.to_local().detach() if hasattr(t, "to_local") else t
            storages[t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()] = (
                t.untyped_storage().nbytes()
            )
    return sum(storages.values())


WAYS = [
    dict(use_orig_params=True),
    dict(use_orig_params=True, wrap=True),
    dict(
        use_orig_params=True,
        wrap=True,
        forward_prefetch=True,
        backward_prefetch=BackwardPrefetch.BACKWARD_POST,
    ),
    dict(
        use_orig_params=True,
        wrap=True,
        sharding_strategy=ShardingStrategy.SHARD_GRAD_OP,
        backward_prefetch=None,
    ),
    dict(use_orig_params=True, wrap=True, sharding_strategy=ShardingStrategy.NO_SHARD),
    dict(use_orig_params=False, wrap=True),
    dict(use_orig_params=False, sharding_strategy=ShardingStrategy.NO_SHARD),
]


def ways(rank, size, kind):
    reference = of_one_process(kind, size)
    x, y = part(kind, rank, size)
    total = sum(p.numel() * 4 for p in reference.parameters())
    for given in WAYS:
        options = dict(given)
        if options.pop("wrap", False):
            options["auto_wrap_policy"] = policy(kind)
        net = FSDP(made(kind), **options)
        for zeroed in (True, False, True):  # set to None, then to zero
            net.zero_grad(set_to_none=zeroed)
            loss(kind, net(x), y).backward()
            if options["use_orig_params"]:
                compare(net, reference)
        if not options["use_orig_params"]:
            flat_step(net, reference, size)
            continue
        if options.get("sharding_strategy") is not ShardingStrategy.NO_SHARD:
            assert held_bytes(net) <= total / size * 1.1, given
        net.zero_grad()
        for k in range(BATCH):  # gradients that add up here first
            with net.no_sync() if k < BATCH - 1 else contextlib.nullcontext():
                (loss(kind, net(x[k : k + 1]), y[k : k + 1]) / BATCH).backward()
        compare(net, reference)
        net.zero_grad()
        outputs = [net(x[:2]), net(x[2:])]  # two passes before one backward
        ((loss(kind, outputs[0], y[:2]) + loss(kind, outputs[1], y[2:])) / 2).backward()
        compare(net, reference)
        net.zero_grad()
        value = loss(kind, net(x), y)
        value.backward(retain_graph=True)  # twice through one graph
        value.backward()
        for p in net.parameters():
            if p.grad is not None:
                p.grad.div_(2)
        compare(net, reference)
    return True


@pytest.mark.parametrize("kind", ["images", "text"])
@pytest.mark.parametrize("size", [2, 4])
def test_gradients_are_those_of_one_process(size, kind):
    assert all(world(size, ways, kind))


def trained(net, optimizer, kind, rank, size, steps=3, clip=None):
    x, y = part(kind, rank, size) if rank is not None else data(kind, BATCH * size)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(kind, net(x), y).backward()
        if clip is not None:
            clip(net)
        optimizer.step()


def whole(net):
    with FSDP.summon_full_params(net, writeback=False):
        return {name: p.detach().numpy().copy() for name, p in net.named_parameters()}


def close(actual, expected, limit=2e-6):
    assert list(actual) == list(expected)
    for name, value in actual.items():
        np.testing.assert_allclose(value, expected[name], rtol=limit, atol=limit, err_msg=name)


def states(rank, size, orig):
    kind = "text"
    reference = made(kind)
    plain = torch.optim.AdamW(reference.parameters(), lr=0.01, eps=0.01)
    trained(reference, plain, kind, None, size)
    expected = {name: p.detach().numpy() for name, p in reference.named_parameters()}
    net = FSDP(made(kind), auto_wrap_policy=policy(kind), use_orig_params=orig)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, eps=0.01)
    trained(net, optimizer, kind, rank, size)
    close(whole(net), expected)
    state_bytes = sum(t.numel() * 4 for s in optimizer.state.values() for t in s.values() if t.dim())
    full = sum(2 * p.numel() * 4 for p in reference.parameters())
    assert state_bytes + held_bytes(net) <= 1.5 * full / size * 1.1

    # Models.
    state = net.state_dict()
    assert list(state) == list(reference.state_dict())
    for name, value in reference.state_dict().items():
        np.testing.assert_allclose(state[name].numpy(), value.numpy(), rtol=2e-6, atol=2e-6)
    with FSDP.state_dict_type(
        net, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=True, offload_to_cpu=True)
    ):
        assert len(net.state_dict()) == (len(state) if rank == 0 else 0)
    with FSDP.state_dict_type(net, StateDictType.LOCAL_STATE_DICT):
        local = {name: value.clone() for name, value in net.state_dict().items()}
        assert all("_flat_param" in name for name in local)

    # Optimisers: whole states equal those of one process, and go into another optimiser.
    whole_state = FSDP.optim_state_dict(net, optimizer)
    named = dict(reference.named_parameters())
    names = [name for name, _ in reference.named_parameters()]
    assert sorted(whole_state["state"]) == sorted(names)
    assert sorted(whole_state["param_groups"][0]["params"]) == sorted(names)
    for name, values in whole_state["state"].items():
        for key, value in plain.state[named[name]].items():
            assert values[key].shape == value.shape
            np.testing.assert_allclose(
                values[key].numpy(), value.numpy(), rtol=1e-4, atol=1e-6, err_msg=f"{name} {key}"
            )
    with FSDP.state_dict_type(
        net, StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig(rank0_only=True)
    ):
        first = FSDP.optim_state_dict(net, optimizer)
        assert bool(first) == (rank == 0)
        other = FSDP(made(kind), auto_wrap_policy=policy(kind), use_orig_params=orig)
        other.load_state_dict(state)
        close(whole(other), expected)
        fresh = torch.optim.AdamW(other.parameters(), lr=0.5, eps=0.01)
    if rank != 0:
        with pytest.raises(ValueError, match="no state on this rank"):
            FSDP.optim_state_dict_to_load(other, fresh, first)
    with FSDP.state_dict_type(
        other, StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig(rank0_only=True)
    ):
        fresh.load_state_dict(FSDP.optim_state_dict_to_load(other, fresh, first))
    with FSDP.state_dict_type(other, StateDictType.LOCAL_STATE_DICT):
        other.load_state_dict(local)
    trained(reference, plain, kind, None, size, 2)
    trained(other, fresh, kind, rank, size, 2)
    close(whole(other), {name: p.detach().numpy() for name, p in reference.named_parameters()}, 5e-6)

    # A state by numbers, as one process's optimiser takes it.
    numbered = FSDP.rekey_optim_state_dict(whole_state, OptimStateKeyType.PARAM_ID, made(kind))
    alone = torch.optim.AdamW(made(kind).parameters(), lr=0.01, eps=0.01)
    alone.load_state_dict(numbered)
    assert FSDP.rekey_optim_state_dict(numbered, OptimStateKeyType.PARAM_NAME, made(kind))[
        "state"
    ].keys() == set(names)
    scattered = FSDP.scatter_full_optim_state_dict(whole_state if rank == 0 else None, other, optim=fresh)
    assert set(scattered["state"]) == set(fresh.state_dict()["state"])
    wrong = dict(state, **{"embedding.weight": torch.zeros(3, 3)})
    with pytest.raises(RuntimeError, match="size mismatch for .*embedding.weight"):
        net.load_state_dict(wrong)
    assert held_bytes(net) <= full / 2 / size * 1.1
    return True


@pytest.mark.parametrize("orig", [True, False])
def test_states_are_those_of_one_process(orig):
    assert all(world(2, states, orig))


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b, self.never = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.frozen = nn.Linear(3, 3).requires_grad_(False)

    def forward(self, x, fail=False, both=True):
        x = self.frozen(self.a(x))
        if fail:
            raise ValueError("asked to")
        return {"out": [self.b(x) if both else x]}


def corners(rank, size):
    x = torch.full((2, 3), 1.0 + rank)
    reference = Branches()
    both = torch.tensor([[1.0], [1.0], [2.0], [2.0]]).expand(4, 3)
    reference(both)["out"][0].square().mean().backward()
    for nested in (False, True):
        options = dict(auto_wrap_policy=ModuleWrapPolicy({nn.Linear})) if nested else {}
        net = FSDP(Branches(), use_orig_params=True, **options)
        small = held_bytes(net)
        with pytest.raises(ValueError, match="asked to"):
            net(x, fail=True)
        assert held_bytes(net) == small  # nothing stays gathered
        with torch.no_grad():
            net(x)
        assert held_bytes(net) == small
        broken = net(x)["out"][0]
        broken.register_hook(lambda grad: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            broken.sum().backward()
        assert held_bytes(net) == small and all(p.grad is None for p in net.parameters())
        net(x)["out"][0].square().mean().backward()
        assert held_bytes(net) == small
        grads = dict(reference.named_parameters())
        with FSDP.summon_full_params(net, with_grads=True):
            for name, p in net.named_parameters():
                if grads[name].grad is None:
                    assert p.grad is None, name  # nobody has used it, or it is frozen
                else:
                    np.testing.assert_allclose(p.grad.numpy(), grads[name].grad.numpy(), rtol=1e-6, atol=1e-6)
        net.zero_grad()
        if not nested:  # a parameter that only one process uses
            net(x, both=rank == 0)["out"][0].square().mean().backward()
            with FSDP.summon_full_params(net, with_grads=True):
                assert net.module.b.weight.grad is not None and net.module.never.weight.grad is None
        with FSDP.summon_full_params(net):
            net.module.a.bias.detach().fill_(3.0)
        assert (whole(net)["a.bias"] == 3.0).all()
        net.apply(lambda m: nn.init.ones_(m.weight) if isinstance(m, nn.Linear) else None)
        assert (whole(net)["b.weight"] == 1.0).all()
        net.double()
        assert net(x.double())["out"][0].dtype is torch.float64
        with pytest.raises(NotImplementedError, match="not copied"):
            copy.deepcopy(net)
    return True


def deserted(rank, size):
    net = FSDP(made("text"), auto_wrap_policy=policy("text"), use_orig_params=True)
    small = held_bytes(net)
    x, y = part("text", rank, size)
    loss("text", net(x), y).backward()
    if rank == 1:
        os._exit(3)
    with pytest.raises(RuntimeError, match="rank 1"):
        for _ in range(3):
            loss("text", net(x), y).backward()
    assert held_bytes(net) == small
    return True


def test_a_process_that_dies_leaves_nothing_gathered_in_others():
    result = world(2, deserted)
    assert result[0] is True and result[1].code == 3


def test_errors_leave_nothing_gathered_and_unused_parameters_alone():
    assert all(world(2, corners))


def checkpointed(rank, size):
    kind = "text"
    reference = of_one_process(kind, size)
    x, y = part(kind, rank, size)
    for impl in CheckpointImpl:
        inside = made(kind)
        apply_activation_checkpointing(
            inside,
            lambda module, impl=impl: checkpoint_wrapper(module, impl),
            lambda module: isinstance(module, nn.TransformerEncoderLayer),
        )
        around = FSDP(made(kind), auto_wrap_policy=policy(kind), use_orig_params=True)
        around.module.layers[0] = checkpoint_wrapper(around.module.layers[0], impl)
        both = FSDP(inside, auto_wrap_policy=policy(kind), use_orig_params=True)
        for net in (both, around):
            small = held_bytes(net)
            loss(kind, net(x), y).backward()
            assert held_bytes(net) == small
            compare(net, reference)
    return True


def test_activation_checkpoints():
    assert all(world(2, checkpointed))


def mixed(rank, size):
    kind = "text"
    x, y = part(kind, rank, size)
    seen = []

    def look(module, args, output):
        seen.append((args[0].dtype, output.dtype, module.weight.dtype))

    how = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16)
    net = FSDP(made(kind), auto_wrap_policy=policy(kind), mixed_precision=how, use_orig_params=True)
    net.module.output.register_forward_hook(look)
    for k in range(2):  # adds up in float32
        with net.no_sync() if k == 0 else contextlib.nullcontext():
            loss(kind, net(x).float(), y).backward()
    assert seen[0] == (torch.bfloat16,) * 3
    assert {p.dtype for p in net.parameters()} == {torch.float32}
    assert {p.grad.dtype for p in net.parameters() if p.grad is not None} == {torch.float32}
    for p in net.parameters():
        p.grad.div_(2)
    compare(net, of_one_process(kind, size), 0.05)

    # Batch norm computes in its own dtype.
    torch.manual_seed(0)
    block = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    with pytest.warns(UserWarning, match="mixed precision disabled"):
        net = FSDP(block, auto_wrap_policy=ModuleWrapPolicy({nn.Conv2d}), mixed_precision=how)
    net(torch.ones(2, 3, 5, 5)).float().sum().backward()
    assert net.module[1].module.weight.dtype is torch.float32

    # Scaling: one process's infinity stops all.
    net = FSDP(nn.Linear(2, 2), use_orig_params=True)
    optimizer, scaler = torch.optim.SGD(net.parameters(), lr=1.0), ShardedGradScaler("cpu", init_scale=4.0)
    before = whole(net)
    scaler.scale(net(torch.ones(1, 2)).sum()).backward()
    for p in net.parameters():
        if rank == 0 and p.grad is not None and p.numel():
            p.grad[0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0
    close(whole(net), before)

    # Clipping: the norm is that of all pieces.
    for norm in (2.0, float("inf")):
        reference = of_one_process(kind, size)
        net = FSDP(made(kind), auto_wrap_policy=policy(kind), use_orig_params=True)
        loss(kind, net(x), y).backward()
        expected = nn.utils.clip_grad_norm_(reference.parameters(), 0.1, norm)
        np.testing.assert_allclose(net.clip_grad_norm_(0.1, norm).item(), expected.item(), rtol=1e-5)
        compare(net, reference)
    return True


def test_precisions_scaling_and_clipping():
    assert all(world(2, mixed))


def hybrid(rank, size):
    kind = "text"
    reference = of_one_process(kind, size)
    x, y = part(kind, rank, size)
    shards, _ = dist.new_subgroups_by_enumeration([[0, 1], [2, 3]])
    copies, _ = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
    for strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2):
        net = FSDP(
            made(kind), (shards, copies), strategy, auto_wrap_policy=policy(kind), use_orig_params=True
        )
        loss(kind, net(x), y).backward()
        compare(net, reference)
        total = sum(p.numel() * 4 for p in reference.parameters())
        assert total / 2 <= held_bytes(net) <= total / 2 * 1.1
    hooked = FSDP(made(kind), auto_wrap_policy=policy(kind), use_orig_params=True)

    def hook(state, gradient, piece):
        state.append(gradient.numel())
        dist.reduce_scatter_tensor(piece, gradient.div_(size))

    sizes: list[int] = []
    hooked.register_comm_hook(sizes, hook)
    loss(kind, hooked(x), y).backward()
    compare(hooked, reference)
    return len(sizes)


def test_copies_on_machines_and_hooks():
    assert set(world(4, hybrid)) == {3}


def building(rank, size):
    with torch.device("meta"):
        net = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8)))
    torch.manual_seed(rank)  # processes that differ are made alike
    net = FSDP(net, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), sync_module_states=True)
    results = [None] * size
    dist.all_gather_object(results, {name: value.tolist() for name, value in whole(net).items()})
    assert results[0] == results[1]
    net = FSDP(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8)), auto_wrap_policy=size_policy)
    assert isinstance(net.module[1], FSDP) and not isinstance(net.module[0], FSDP)
    choice = CustomPolicy(
        lambda m: {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP} if m.__class__ is nn.Linear else False
    )
    net = FSDP(nn.Sequential(nn.Linear(4, 8)), auto_wrap_policy=choice)
    assert net.module[0].sharding_strategy is ShardingStrategy.SHARD_GRAD_OP
    with enable_wrap(wrapper_cls=FSDP, use_orig_params=True):
        assert isinstance(wrap(nn.Linear(2, 2)), FSDP)
    skipped = nn.Linear(4, 4)
    net = FSDP(nn.Sequential(skipped, nn.Linear(4, 4)), ignored_modules=[skipped])
    assert skipped.weight.shape == (4, 4)
    net(torch.ones(1, 4)).sum().backward()
    tied = nn.Linear(4, 4)
    other = nn.Linear(4, 4)
    other.weight = tied.weight
    with pytest.raises(ValueError, match="shared with a parameter already managed"):
        FSDP(nn.Sequential(FSDP(tied), other))
    with pytest.raises(ValueError, match="uniform dtype"):
        FSDP(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).double()))
    with pytest.raises(ValueError, match="uniform requires_grad"):
        FSDP(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False)))
    with pytest.raises(ValueError, match="device_id"):
        FSDP(nn.Linear(4, 4), device_id=0)
    with pytest.raises(RuntimeError, match="on root FSDP"):
        inner = FSDP(nn.Sequential(nn.Linear(4, 4)), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
        inner(torch.ones(1, 4))
        with inner.module[0].no_sync():
            pass
    empty = FSDP(nn.Linear(4, 4))
    assert empty(torch.ones(0, 4)).shape == (0, 4)
    return True


def size_policy(module, recurse, nonwrapped_numel):
    return size_based_auto_wrap_policy(module, recurse, nonwrapped_numel, min_num_params=50)


def test_building():
    assert all(world(2, building))
