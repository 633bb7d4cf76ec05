"""FSDP over parameters that tensor parallelism has cut before: a mesh of two dimensions, against one process."""

import copy

import pytest
from worlds import world

import flambeau
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from flambeau.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from flambeau.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    init_device_mesh,
)
from flambeau.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from flambeau.nn import functional as F

WIDTH, HIDDEN, STEPS = 8, 22, 4  # 22 rows over 2 × 2 processes: 6, 5, 6, 5


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, HIDDEN)
        self.down = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def _sharded(net, mesh, **options):
    for block in net.blocks:
        parallelize_module(
            block,
            mesh["tp"],
            {
                "norm": SequenceParallel(use_local_output=True),
                "up": ColwiseParallel(input_layouts=Shard(1)),
                "down": RowwiseParallel(output_layouts=Shard(1)),
            },
        )
        fully_shard(block, mesh=mesh["dp"], **options)
    parallelize_module(
        net, mesh["tp"], {"head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())}
    )
    return fully_shard(net, mesh=mesh["dp"], **options)


def _loss(net, x, y):
    return F.cross_entropy(net(x).flatten(0, 1), y.flatten())


def _difference(one, other):
    return (one - other).abs().max().item()


def _trained(rank, size):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    flambeau.manual_seed(0)
    net = Net()
    alone = copy.deepcopy(net)
    weights = sum(p.numel() for p in alone.parameters() if p.dim() == 2)
    _sharded(net, mesh)
    dp, tp = mesh.get_coordinate()
    optimizers = [flambeau.optim.AdamW(each.parameters(), lr=0.05) for each in (net, alone)]
    differences = []
    for _ in range(STEPS):
        x, y = flambeau.randn(4, 6, WIDTH), flambeau.randint(0, 5, (4, 6))
        mine = x[2 * dp : 2 * dp + 2]
        for optimizer in optimizers:
            optimizer.zero_grad()
        for _ in range(2):  # the second adds to the gradients of the first
            _loss(net, mine[:, 3 * tp : 3 * tp + 3], y[2 * dp : 2 * dp + 2]).backward()
            _loss(alone, x, y).backward()
        for (name, p), q in zip(net.named_parameters(), alone.parameters(), strict=True):
            assert isinstance(p, DTensor) and p.shape == q.shape and p.grad.placements == p.placements, name
            differences.append(_difference(p.grad.full_tensor(), q.grad))
        norms = [nn.utils.clip_grad_norm_(each.parameters(), 0.1) for each in (net, alone)]
        differences.append(_difference(norms[0].full_tensor(), norms[1]))
        for optimizer in optimizers:
            optimizer.step()
    after = [_difference(p.full_tensor(), q) for p, q in zip(net.parameters(), alone.parameters())]
    held = sum(p.to_local().numel() for p in net.parameters())
    states = sum(
        value.to_local().numel()
        for state in optimizers[0].state.values()
        for value in state.values()
        if isinstance(value, DTensor) and value.dim()
    )
    placements = {name: p.placements for name, p in net.named_parameters()}
    # States
    full = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))
    states_apart = [_difference(full[name], value) for name, value in alone.state_dict().items()]
    flambeau.manual_seed(1)
    other = _sharded(Net(), mesh)
    other.load_state_dict(net.state_dict())
    loaded = [_difference(p.to_local(), q.to_local()) for p, q in zip(other.parameters(), net.parameters())]
    distributed = {
        name: distribute_tensor(value, mesh["dp", "tp"], [Replicate(), Replicate()]).redistribute(
            placements=placements[name]
        )
        for name, value in alone.state_dict().items()
    }
    cut = [
        _difference(distributed[name].to_local(), value.to_local())
        for name, value in net.state_dict().items()
    ]
    part = sum(p.to_local().numel() for p in net.parameters() if p.dim() == 2) / weights
    return differences, after, part, states, held, placements, states_apart, loaded, cut


@pytest.fixture(scope="module")
def trained():
    return world(4, _trained)


def test_training_is_that_of_one_process(trained):
    for differences, after, *_ in trained:
        assert max(differences) < 1e-6
        assert max(after) < 1e-5


def test_memory_is_shared_out_over_both_dimensions(trained):
    for _, _, part, states, held, *_ in trained:
        assert states == 2 * held  # AdamW's two moments
        assert part <= 0.25 * 1.1  # of the weights; norms, and biases of rows, lie whole along "tp"


def test_placements_are_those_of_both_meshes(trained):
    placements = trained[0][5]
    assert placements["blocks.0.down.weight"] == (Shard(0), Shard(1))
    assert placements["blocks.0.norm.weight"] == (Shard(0), Replicate())
    assert repr(placements["blocks.0.up.weight"]) == "(_StridedShard(dim=0, sf=2), Shard(dim=0))"


def test_states_are_those_of_one_process(trained):
    for *_, states_apart, loaded, cut in trained:
        assert max(states_apart) < 1e-5 and max(loaded) == 0 and max(cut) < 1e-5


def _ways(rank, size):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    flambeau.manual_seed(0)
    start = Net()
    dp, tp = mesh.get_coordinate()
    x, y = flambeau.randn(4, 6, WIDTH), flambeau.randint(0, 5, (4, 6))
    mine, labels = x[2 * dp : 2 * dp + 2, 3 * tp : 3 * tp + 3], y[2 * dp : 2 * dp + 2]
    alone = copy.deepcopy(start)
    for _ in range(2):
        _loss(alone, x, y).backward()
    results = {}
    for way in ("kept", "gathered before", "bfloat16"):
        policy = MixedPrecisionPolicy(param_dtype=flambeau.bfloat16, reduce_dtype=flambeau.float32)
        options = {"mp_policy": policy} if way == "bfloat16" else {}
        net = _sharded(copy.deepcopy(start), mesh, reshard_after_forward=way != "kept", **options)
        if way == "kept":
            net.set_reshard_after_backward(False)
        for _ in range(2):
            if way == "gathered before":
                with flambeau.no_grad():
                    net.unshard()
                    assert net.head.weight.placements == (Shard(0),)
            _loss(net, mine, labels).backward()
        for each in (*net.blocks, net):
            each.reshard()
        pairs = list(zip(net.parameters(), alone.parameters()))
        results[way] = max(_difference(p.grad.full_tensor(), q.grad) for p, q in pairs)
    return results


def test_gradients_come_whenever_parameters_are_gathered_and_freed():
    for result in world(4, _ways):
        assert result["kept"] < 1e-6 and result["gathered before"] < 1e-6
        assert 0 < result["bfloat16"] < 0.02


def test_meshes_that_do_not_fit_are_refused():
    dist.init_process_group("fake", rank=0, world_size=4)
    try:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        other = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))

        def made(own):
            return parallelize_module(nn.Sequential(nn.Linear(4, 4)), own, {"0": ColwiseParallel()})

        with pytest.raises(ValueError, match="to have the same parent mesh"):
            fully_shard(made(mesh["tp"]), mesh=init_device_mesh("cpu", (4,)))
        with pytest.raises(ValueError, match="to have the same parent mesh"):
            fully_shard(made(mesh["tp"]), mesh=other["dp"])
        with pytest.raises(ValueError, match=r"FSDP's mesh has to come before the one of 0.weight"):
            fully_shard(made(mesh["dp"]), mesh=mesh["tp"])
        net = nn.Linear(4, 4)
        net.weight = nn.Parameter(DTensor.from_local(flambeau.ones(4, 4), mesh["tp"], [Partial()]))
        with pytest.raises(ValueError, match=r"weight is placed as P\(sum\)"):
            fully_shard(net, mesh=mesh["dp"])
        assert type(net) is nn.Linear  # a refusal changes nothing
    finally:
        dist.destroy_process_group()
