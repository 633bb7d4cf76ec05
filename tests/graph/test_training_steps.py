"""Whole training steps in one compiled function: backward passes, `.grad`, optimisers."""

from __future__ import annotations

import copy
import gc

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

OPTIMIZERS = {
    "SGD": dict(lr=0.1),
    "SGD with momentum": dict(lr=0.1, momentum=0.9, weight_decay=0.01),
    "SGD, nesterov": dict(lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "Adam": dict(lr=0.01, amsgrad=True),
    "AdamW": dict(lr=0.01),
    "Adagrad": dict(lr=0.05),
    "Adadelta": dict(lr=1.0),
    "Adamax": dict(lr=0.01),
    "RMSprop": dict(lr=0.01, momentum=0.5, centered=True),
    "Rprop": dict(lr=0.01),
    "NAdam": dict(lr=0.01),
    "RAdam": dict(lr=0.01),
    "ASGD": dict(lr=0.01),
}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def batches(n=5):
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(4, 6, generator=generator), torch.randint(0, 3, (4,), generator=generator))
        for _ in range(n)
    ]


def step_of(net, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def close(a, b):
    torch.testing.assert_close(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_with_an_optimiser_is_captured_whole(name):
    plain, compiled = network(), network()
    kind = getattr(torch.optim, name.split()[0].rstrip(","))
    optimizers = [kind(net.parameters(), **OPTIMIZERS[name]) for net in (plain, compiled)]
    eager = step_of(plain, optimizers[0])
    step = torch.compile(step_of(compiled, optimizers[1]), fullgraph=True)
    for x, y in batches(6):
        close(step(x, y), eager(x, y))
        for a, b in zip(compiled.parameters(), plain.parameters()):
            close(a, b)
            close(a.grad, b.grad)
    assert step.captures <= 3  # without gradients and state, then with both
    states = [optimizer.state_dict()["state"] for optimizer in optimizers]
    assert states[0].keys() == states[1].keys()
    for k in states[0]:
        assert states[0][k].keys() == states[1][k].keys()
        for entry, value in states[0][k].items():
            close(torch.as_tensor(states[1][k][entry]), torch.as_tensor(value))


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_add_up_where_they_are_not_cleared(set_to_none):
    plain, compiled = network(), network()

    def accumulate(net):
        def step(x, y):
            for p in net.parameters():
                if p.grad is not None and x.sum() is None:
                    p.grad = None
            F.cross_entropy(net(x), y).backward()
            (net(x) ** 2).mean().backward()

        return step

    eager, step = accumulate(plain), torch.compile(accumulate(compiled), fullgraph=True)
    for k, (x, y) in enumerate(batches(6)):
        eager(x, y)
        step(x, y)
        for a, b in zip(compiled.parameters(), plain.parameters()):
            close(a.grad, b.grad)
        if k == 3:
            plain.zero_grad(set_to_none=set_to_none)
            compiled.zero_grad(set_to_none=set_to_none)
    first = next(compiled.parameters()).grad
    step(x, y)
    assert next(compiled.parameters()).grad is first


def test_a_changed_rate_a_frozen_and_a_replaced_parameter():
    plain, compiled = network(), network()
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (plain, compiled)]
    eager, step = step_of(plain, optimizers[0]), torch.compile(step_of(compiled, optimizers[1]))
    for k, (x, y) in enumerate(batches(8)):
        close(step(x, y), eager(x, y))
        for net, optimizer in zip((plain, compiled), optimizers):
            if k == 2:
                optimizer.param_groups[0]["lr"] = 0.05
            if k == 4:
                net[0].weight.requires_grad_(False)
            if k == 6:
                net[2].bias = nn.Parameter(torch.ones(3))
        for a, b in zip(compiled.parameters(), plain.parameters()):
            close(a, b)


def test_the_result_s_history_is_gone_as_in_a_plain_call():
    net = network()
    step = torch.compile(step_of(net, torch.optim.SGD(net.parameters(), lr=0.1)), fullgraph=True)
    for x, y in batches(3):
        loss = step(x, y)
        assert loss.requires_grad and loss.grad_fn is not None
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()


def test_attributes_items_cells_and_globals_are_left_as_a_plain_call_leaves_them():
    class Counter:
        def __init__(self):
            self.last, self.seen, self.log = None, {}, [0, 0]

    counter, total = Counter(), None

    def f(x, name):
        nonlocal total
        counter.last = y = x * 2
        counter.new = (y, name)
        counter.seen[name] = {"sum": y.sum()}
        counter.log[1] = y + 1
        total = counter.last + counter.log[1]
        return counter.seen[name]["sum"]

    compiled = torch.compile(f, fullgraph=True)
    for k in range(4):
        x = torch.full((3,), float(k))
        found = compiled(x, "a")
        assert torch.equal(counter.last, x * 2) and torch.equal(total, x * 4 + 1)
        assert counter.new[0] is counter.last and counter.new[1] == "a"
        assert counter.seen["a"]["sum"] is found and torch.equal(found, (x * 2).sum())
        assert torch.equal(counter.log[1], x * 2 + 1) and counter.log[0] == 0
    assert compiled.captures <= 3


def test_objects_that_change_places():
    class Pair:
        pass

    pair = Pair()
    pair.a, pair.b = torch.zeros(2), torch.ones(2)

    def swap(x):
        pair.a, pair.b = pair.b, pair.a
        return x + pair.a

    compiled = torch.compile(swap, fullgraph=True)
    for _ in range(4):
        a, b = pair.a, pair.b
        assert torch.equal(compiled(torch.zeros(2)), b)
        assert pair.a is b and pair.b is a


def test_hooks_and_derivatives_in_python_are_not_captured():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            calls.append(1)
            return grad * 2

    calls = []
    w = torch.ones(2, requires_grad=True)

    def f():
        Double.apply(w).sum().backward()

    compiled = torch.compile(f)
    for k in range(3):
        compiled()
        assert len(calls) == k + 1 and torch.equal(w.grad, torch.full((2,), 2.0 * (k + 1)))

    v = torch.ones(2, requires_grad=True)
    v.register_hook(lambda g: calls.append(g) or g * 3)
    compiled = torch.compile(lambda: (v * v).sum().backward())
    for k in range(3):
        compiled()
        assert torch.equal(v.grad, torch.full((2,), 6.0 * (k + 1)))


def test_an_error_in_the_middle_leaves_what_a_plain_call_leaves():
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x, fails):
        optimizer.zero_grad()
        net(x).sum().backward()
        if fails:
            raise ValueError("stop")
        optimizer.step()

    compiled, before = torch.compile(step), copy.deepcopy(net.state_dict())
    with pytest.raises(ValueError, match="stop"):
        compiled(torch.ones(2, 6), True)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert net[0].weight.grad is not None
    compiled(torch.ones(2, 6), False)
    assert not torch.equal(net[2].bias, before["2.bias"])


def test_captures_leave_no_tensors_behind():
    """Without Python's collector of cycles: what a capture has read, made and run through goes when the call ends."""
    network = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(network.parameters())
    x = torch.ones(128, 8)

    def step(x):
        optimizer.zero_grad()
        loss = network(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step(x)
    compiled = torch.compile(step)
    gc.collect()
    gc.disable()
    try:
        before = torch.cpu.memory_stats()["allocated_bytes"]
        for _ in range(3):
            compiled(x)
            assert torch.cpu.memory_stats()["allocated_bytes"] <= before + 1024  # constants of the plan
    finally:
        gc.enable()


def test_values_are_appended_to_lists_that_were_there_before():
    losses, seen = [], {"steps": []}

    def step(x, k):
        loss = (x * 2).tanh().sum()
        losses.append(loss.detach())
        seen["steps"].append(k)
        seen["steps"].append((k, loss * 0 + k))
        return loss

    compiled = torch.compile(step, fullgraph=True)
    for k in range(5):
        compiled(torch.full((3,), k / 10), k)
    assert [t.item() for t in losses] == pytest.approx(
        [3 * torch.tanh(torch.tensor(k / 5)).item() for k in range(5)]
    )
    assert [s if isinstance(s, int) else (s[0], s[1].item()) for s in seen["steps"]] == [
        s for k in range(5) for s in (k, (k, k))
    ]
    assert len(compiled.entries) <= 2


@pytest.mark.parametrize("kind", ["len", "index", "iteration", "stack", "slice", "last", "in"])
def test_a_list_that_is_read_after_it_was_appended_to_is_right(kind):
    def step(kept, x):
        kept.append(x + 1)
        if kind == "len":
            return x * len(kept)
        if kind == "index":
            return kept[0] * 2
        if kind == "last":
            return kept[-1] * 2
        if kind == "iteration":
            return sum([t.sum() for t in kept])
        if kind == "slice":
            return torch.stack(kept[-2:]).sum()
        if kind == "in":
            return x * (3 in [t.shape[0] for t in kept])
        return torch.stack(kept).sum(0)

    compiled = torch.compile(step)
    ours, theirs = [], []
    for k in range(5):
        x = torch.full((3,), float(k))
        assert compiled(ours, x).tolist() == step(theirs, x).tolist()
        assert [t.tolist() for t in ours] == [t.tolist() for t in theirs]


def test_one_list_under_two_names_and_classes_of_lists():
    class Own(list):
        def append(self, value):
            super().append(value * 2)

    def step(a, b, x):
        a.append(x)
        b.append(x + 1)
        return x * 2

    compiled = torch.compile(step)
    x = torch.ones(2)
    for make in (lambda: ([], []), lambda: ([],) * 2, lambda: (Own(), []), lambda: ([], Own())):
        for _ in range(3):
            (a, b), (c, d) = make(), make()
            if a is b:
                c = d
            compiled(a, b, x)
            step(c, d, x)
            assert [t.tolist() for t in a] == [t.tolist() for t in c] and [t.tolist() for t in b] == [
                t.tolist() for t in d
            ]
