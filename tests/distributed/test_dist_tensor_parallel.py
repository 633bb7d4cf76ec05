"""Tensor and sequence parallelism: a small transformer on 2 and 4 processes, against one process."""

from __future__ import annotations

import copy

import pytest
from worlds import world

import flambeau
import flambeau.distributed as dist
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from flambeau.distributed.tensor.debug import CommDebugMode
from flambeau.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

WORDS, WIDTH, HEADS, LENGTH = 16, 16, 4, 8


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(WIDTH, WIDTH, bias=bias) for bias in (True, False, True))
        self.wo = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch = x.shape[0]
        each = WIDTH // HEADS  # there are fewer heads where the projections are cut
        q, k, v = (f(x).view(batch, LENGTH, -1, each).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        result = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(result.transpose(1, 2).reshape(batch, LENGTH, -1))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2, self.w3 = (
            nn.Linear(WIDTH, 4 * WIDTH),
            nn.Linear(4 * WIDTH, WIDTH),
            nn.Linear(WIDTH, 4 * WIDTH),
        )

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm2, self.feed = nn.RMSNorm(WIDTH), FeedForward()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(flambeau.arange(LENGTH))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


COLUMNS, ROWS = ColwiseParallel, RowwiseParallel
PLAIN = {
    "layers.*.attention.w[qkv]": COLUMNS(),
    "layers.*.attention.wo": ROWS(),
    "layers.*.feed.w[13]": COLUMNS(),
    "layers.*.feed.w2": ROWS(),
    "words": ROWS(input_layouts=Replicate()),
    "head": COLUMNS(output_layouts=Replicate()),
}
SEQUENCE = {
    "words": ROWS(input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False),
    "places": ROWS(input_layouts=Replicate(), output_layouts=Shard(0), use_local_output=False),
    "layers.*.norm?": SequenceParallel(),
    "layers.*.attention": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
    "layers.*.attention.w[qkv]": COLUMNS(),
    "layers.*.attention.wo": ROWS(output_layouts=Shard(1), use_local_output=False),
    "layers.*.feed": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
    "layers.*.feed.w[13]": COLUMNS(),
    "layers.*.feed.w2": ROWS(output_layouts=Shard(1), use_local_output=False),
    "norm": SequenceParallel(),
    "head": COLUMNS(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
}


def _made():
    flambeau.manual_seed(3)
    return (
        Transformer().double(),
        flambeau.randint(0, WORDS, (3, LENGTH)),
        flambeau.randint(0, WORDS, (3, LENGTH)),
    )


def _loss(net, tokens, targets):
    logits = net(tokens)
    if isinstance(logits, DTensor) and not isinstance(targets, DTensor):
        targets = distribute_tensor(targets, logits.device_mesh, [Replicate()])
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(0, 1))


def _whole(x):
    return x.full_tensor() if isinstance(x, DTensor) else x


def _close(one, other, what):
    assert flambeau.allclose(_whole(one), _whole(other), rtol=1e-6, atol=1e-9), what


def _step(net, loss, optimizer):
    loss.backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    return norm


def _trained(rank, size):
    whole, tokens, targets = _made()
    mesh = init_device_mesh("cpu", (size,))
    for plan in (PLAIN, SEQUENCE):
        one, net = copy.deepcopy(whole), parallelize_module(copy.deepcopy(whole), mesh, plan)
        assert net.layers[0].feed.w1.weight.placements == (Shard(0),)
        assert net.layers[0].feed.w2.weight.to_local().shape == (WIDTH, 4 * WIDTH // size)
        rows = [p for p in net.parameters() if isinstance(p, DTensor)]
        assert rows and all(isinstance(p, nn.Parameter) for p in rows)
        mixed = plan is PLAIN  # some parameters are plain then
        optimizers = [flambeau.optim.AdamW(n.parameters(), lr=1e-2) for n in (one, net)]
        for _ in range(2):
            expected = _loss(one, tokens, targets)
            with loss_parallel():
                actual = _loss(net, tokens, targets)
                _close(actual, expected, plan)
                if mixed:
                    actual.backward()
                else:
                    norm = _step(net, actual, optimizers[1])
            if mixed:
                expected.backward()
            else:
                _close(norm, _step(one, expected, optimizers[0]), "the norm of gradients")
            for (name, p), q in zip(net.named_parameters(), one.parameters()):
                assert type(p.grad) is type(p.detach()), name
                _close(p.grad, q.grad, name)
                _close(p.detach(), q.detach(), name)
            if mixed:
                break
            for optimizer in optimizers:
                optimizer.zero_grad()
    return True


@pytest.mark.parametrize("size", [2, 4])
def test_a_transformer_is_that_of_one_process(size):
    assert all(world(size, _trained))


# --- plans ------------------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def fake():
    """One process that plays rank 1 of 4."""
    dist.init_process_group("fake", rank=1, world_size=4)
    yield init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dist.destroy_process_group()


def test_plans_that_cannot_be(fake):
    tp = fake["tp"]
    with pytest.raises(ValueError, match="1D DeviceMesh"):
        parallelize_module(nn.Linear(4, 4), fake, ColwiseParallel())
    with pytest.raises(TypeError, match="parallelize_plan"):
        parallelize_module(nn.Linear(4, 4), tp, [ColwiseParallel()])
    with pytest.raises(TypeError, match="'0'"):
        parallelize_module(nn.Sequential(nn.Linear(4, 4)), tp, {"0": "columns"})
    with pytest.raises(NotImplementedError, match="Conv1d"):
        parallelize_module(nn.Conv1d(2, 2, 1), tp, ColwiseParallel())
    with pytest.warns(UserWarning, match="'nowhere'"):
        parallelize_module(nn.Sequential(nn.Linear(4, 4)), tp, {"nowhere": ColwiseParallel()})
    with pytest.warns(UserWarning, match="do nothing"):
        parallelize_module(nn.Linear(4, 4), tp)
    with pytest.raises(ValueError, match="same length"):
        PrepareModuleInput(input_layouts=(Shard(0), None), desired_input_layouts=Replicate())
    with pytest.raises(ValueError, match="same length"):
        PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=(Shard(0), None))
    net = parallelize_module(
        nn.Linear(4, 4),
        tp,
        PrepareModuleInput(input_layouts=(Shard(0), None), desired_input_layouts=(Shard(0), None)),
    )
    with pytest.raises(ValueError, match="same length"):
        net(flambeau.ones(2, 4))


def test_inputs_and_outputs_are_prepared(fake):
    class Takes(nn.Module):
        def forward(self, x, scale, *, shift=None):
            self.seen = x.placements, scale, None if shift is None else shift.placements
            return x * scale, scale

    style = PrepareModuleInput(
        input_layouts=(Shard(0), None),
        desired_input_layouts=(Replicate(), None),
        input_kwarg_layouts={"shift": Replicate()},
        desired_input_kwarg_layouts={"shift": Shard(0)},
    )
    net = parallelize_module(Takes(), fake["tp"], style)
    result, scale = net(flambeau.ones(2, 3), 2, shift=flambeau.ones(4))
    assert net.seen == ((Replicate(),), 2, (Shard(0),)) and result.shape == (4, 3) and scale == 2
    both = PrepareModuleInputOutput(
        input_layouts=(Shard(0), None),
        desired_input_layouts=(Replicate(), None),
        output_layouts=(Replicate(), None),
        desired_output_layouts=(Shard(1), None),
        use_local_output=False,
    )
    result, _ = parallelize_module(Takes(), fake["tp"], both)(flambeau.ones(2, 4), 2)
    assert result.placements == (Shard(1),) and "desired_output_layouts" in repr(both)


def _on_two_dimensions(rank, size):
    """Batches along one dimension of a mesh, columns and rows along the other; collectives counted; state kept."""
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "tp"))
    flambeau.manual_seed(0)
    whole = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    x = flambeau.randn(6, 4).double()
    net = copy.deepcopy(whole)
    for at, cuts in (
        (0, {"weight": Shard(0), "bias": Shard(0)}),
        (2, {"weight": Shard(1), "bias": Replicate()}),
    ):
        for name, cut in cuts.items():
            made = distribute_tensor(getattr(net[at], name), mesh, [Replicate(), cut])
            net[at].register_parameter(name, made)
    with CommDebugMode() as mode:
        result = net(distribute_tensor(x, mesh, [Shard(0), Replicate()]))
    assert result.placements == (Shard(0), Partial()) and mode.get_total_counts() == 0
    with CommDebugMode() as mode:
        loss = result.pow(2).sum()
    assert mode.get_comm_counts() == {"all_reduce": 1} and loss.placements == (Partial(), Replicate())
    whole(x).pow(2).sum().backward()
    loss.backward()
    for (name, p), q in zip(net.named_parameters(), whole.parameters()):
        _close(p.grad, q.grad, name)
    assert net[0].weight.grad.placements == (Partial(), Shard(0))
    # state that is kept and loaded
    saved = {name: p.detach().clone() for name, p in net.state_dict().items()}
    other = copy.deepcopy(net)
    with flambeau.no_grad():
        for p in other.parameters():
            p.zero_()
    assert not other[0].weight.full_tensor().any() and net[0].weight.full_tensor().any()
    other.load_state_dict(saved)
    for p, q in zip(other.parameters(), net.parameters()):
        assert isinstance(p, nn.Parameter) and p.placements == q.placements
        assert flambeau.equal(p.to_local(), q.to_local())
    for make in (flambeau.optim.SGD, flambeau.optim.Adam):
        one, two = copy.deepcopy(whole), copy.deepcopy(net)
        for module, source in ((one, whole), (two, net)):
            for p, q in zip(module.parameters(), source.parameters()):
                p.grad = q.grad.clone()
        for module in (one, two):
            make(module.parameters(), lr=0.1).step()
        for p, q in zip(two.parameters(), one.parameters()):
            _close(p.detach(), q.detach(), make)
    return True


def test_batches_and_tensors_in_parallel():
    assert all(world(4, _on_two_dimensions))


def _losses(rank, size):
    """Cross-entropy of logits whose classes are cut, with classes that do not count, in all reductions."""
    mesh = init_device_mesh("cpu", (size,))
    flambeau.manual_seed(5)
    logits, target = flambeau.randn(5, 7).double() * 30, flambeau.tensor([0, 6, 3, -100, 2])
    for ignored in (-100, 0, 3):
        targets = target.masked_fill(target == -100, ignored)
        for how in ("mean", "sum", "none"):
            one = logits.clone().requires_grad_()
            expected = F.cross_entropy(one, targets, ignore_index=ignored, reduction=how)
            expected.sum().backward()
            for cut, placed in ((Shard(1), Replicate()), (Shard(0), Shard(0))):
                two = distribute_tensor(logits, mesh, [cut]).requires_grad_()
                with loss_parallel(), CommDebugMode() as mode:
                    actual = F.cross_entropy(
                        two, distribute_tensor(targets, mesh, [placed]), ignore_index=ignored, reduction=how
                    )
                    actual.sum().backward()
                _close(actual.detach(), expected.detach(), (ignored, how, cut))
                _close(two.grad, one.grad, (ignored, how, cut))
                assert two.grad.placements == (cut,) and mode.get_total_counts() <= 5
    two = distribute_tensor(logits, mesh, [Shard(1)])
    with loss_parallel(), pytest.raises(IndexError, match="out of bounds"):
        F.cross_entropy(two, distribute_tensor(flambeau.tensor([7] * 5), mesh, [Replicate()]))
    return True


@pytest.mark.parametrize("size", [2, 4])
def test_losses_of_cut_classes(size):
    assert all(world(size, _losses))
