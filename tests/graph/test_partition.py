"""How forward and backward are cut: what is saved, what is computed again."""

import networkx
import numpy as np
import pytest
from flambeau.graph.record import Recording

import flambeau as torch
from flambeau.graph.mincut import Network
from flambeau.graph.partition import Joint, region_of

nn = torch.nn


def joint_of(function, *inputs):
    with Recording() as recording:
        result = function(*inputs)
    wanted = [k for k, t in enumerate(inputs) if t.requires_grad]
    return Joint(recording, list(inputs), [result], wanted, [0])


def saved_by(function, *inputs, recompute=True):
    """The names of what is saved beside inputs and results."""
    forward, backward, saved = joint_of(function, *inputs).halves(recompute)
    return [s.node.name for s in saved if s.what == 2]


@pytest.mark.parametrize("recompute", [False, True])
def test_the_halves_are_what_was_recorded(recompute):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    x = torch.randn(2, 3, 8, requires_grad=True)
    inputs = [x, *layer.parameters()]
    joint = joint_of(lambda *t: layer(t[0]), *inputs)
    forward, backward, saved = joint.halves(recompute)
    with torch.no_grad():
        result, *extras = forward(*inputs)
        known = (inputs, [result], extras)
        found = backward(torch.ones_like(result), *(known[s.what][s.number] for s in saved))
    expected = layer(x)
    gradients = torch.autograd.grad(expected, inputs, torch.ones_like(expected))
    assert torch.equal(result, expected)
    for a, b in zip(found, gradients, strict=True):
        assert torch.equal(a, b)


def test_chains_are_computed_again():
    x = torch.randn(8, requires_grad=True)
    call = lambda x: (x.sin().exp() * 2).tanh().sum()  # noqa: E731
    assert saved_by(call, x) == []
    assert len(saved_by(call, x, recompute=False)) == 2


def test_products_and_random_numbers_are_not_computed_again():
    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    assert len(saved_by(lambda x, w: (x @ w).sin().sum(), x, w)) == 1
    forward, backward, saved = joint_of(lambda x: (nn.functional.dropout(x, 0.5) * x).sum(), x).halves()
    assert not any(
        "dropout" in n.name and "backward" not in n.name
        for n in backward.graph.nodes
        if n.op != "placeholder"
    )


def test_what_was_written_to_since_is_not_computed_again():
    x = torch.randn(4, requires_grad=True)
    scale = torch.ones(4)

    def call(x, scale):
        factor = scale.exp()
        scale.add_(1)
        return (x * factor).sum()

    assert saved_by(call, x, scale) == ["exp"]


def test_of_what_costs_the_same_the_later_is_saved():
    x, w = torch.randn(16, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True)
    assert saved_by(lambda x, w: ((x @ w).softmax(-1) @ w).sum(), x, w) == ["softmax"]


def test_a_training_step_of_a_transformer_takes_less_memory_than_eager():
    torch.manual_seed(0)
    layers = [
        nn.TransformerEncoderLayer(128, 4, 512, 0.0, batch_first=True, norm_first=True) for _ in range(2)
    ]
    net = nn.Sequential(*layers)
    x, y = torch.randn(8, 64, 128), torch.randn(8, 64, 128)
    weights = list(net.parameters())
    with Recording() as recording:
        loss = (net(x) - y).square().mean()
    region = region_of(recording, [x, y, *weights], [loss])
    del loss, recording

    def peak(call):
        found = []
        for _ in range(2):  # what is made once is made in the first
            torch.cpu.reset_peak_memory_stats()
            before = torch.cpu.memory_stats()["allocated_bytes"]
            torch.autograd.grad(call(), weights)
            found.append(torch.cpu.memory_stats()["peak_allocated_bytes"] - before)
        return found[1]

    eager = peak(lambda: (net(x) - y).square().mean())
    assert peak(lambda: region(x, y, *weights)[0]) < eager


def test_least_cuts():
    random = np.random.default_rng(0)
    for _ in range(30):
        network, reference = Network[int](), networkx.DiGraph()
        costs = {}
        for a, b, cost in random.integers(0, 9, (30, 3)).tolist():
            if a != b:
                network.add(a, b, cost)
                costs[a, b] = costs.get((a, b), 0) + cost
        for (a, b), cost in costs.items():
            reference.add_edge(a, b, capacity=cost)
        for v in (0, 8):
            network.add(v, v + 100, 0)
            reference.add_node(v)
        side = network.side(0, 8)
        assert 8 not in side
        least, _ = networkx.minimum_cut(reference, 0, 8)
        assert sum(cost for (a, b), cost in costs.items() if a in side and b not in side) == least


def test_calls_whose_backward_raises_are_refused():
    def f(x):
        y = x.exp()
        z = (y * y).sum()
        y.add_(1)
        return z

    x = torch.ones(3, requires_grad=True)
    with Recording() as recording:
        made = f(x)
    refusal = region_of(recording, [x], [made])
    assert "modified by an inplace operation" in str(refusal)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.compile(f)(x).backward()
