"""Gradients and whole training steps of compiled functions on an accelerator, beside eager ones there."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

sys.path.insert(0, str(Path(__file__).parent))

from accelerator import DEVICE  # noqa: E402
from test_compiled_on_devices import launches, planned, there  # noqa: E402


def close(a, b):
    torch.testing.assert_close(a, b, rtol=5e-5, atol=2e-6)


def gradients(function, tensors, grads):
    tensors = [t.detach().requires_grad_(t.requires_grad) for t in tensors]
    made = function(*tensors)
    made = made if isinstance(made, tuple) else (made,)
    chosen = [(m, g) for m, g in zip(made, grads, strict=True) if g is not None]
    wanted = [t for t in tensors if t.requires_grad]
    return made, torch.autograd.grad(
        [m for m, _ in chosen], wanted, [g for _, g in chosen], allow_unused=True
    )


FUNCTIONS = {
    "chain": lambda x, w: (x * w).tanh() * x.sigmoid(),
    "norm": lambda x, w: F.layer_norm(F.gelu(x), (8,), w[0]),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None, None], w[None, None], x[None, None])[
        0, 0
    ],
    "product": lambda x, w: (x @ w.T).relu() @ w,
    "in place": lambda x, w: (x * 2).mul_(w).add_(1).exp(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    function, compiled = FUNCTIONS[name], torch.compile(FUNCTIONS[name])
    for seed in range(3):
        x, w, g = (there(8, 8, seed=3 * seed + k) for k in range(3))
        x.requires_grad_()
        w.requires_grad_()
        (a,), actual = gradients(compiled, (x, w), (g,))
        (b,), expected = gradients(function, (x, w), (g,))
        close(a, b)
        for f, e in zip(actual, expected, strict=True):
            close(f, e)
    planned(compiled)


def test_a_gradient_that_does_not_arrive_and_one_of_other_strides():
    function = lambda x: ((x * 2).exp(), x.sin() * 3)
    compiled, x, g = torch.compile(function), there(6, 5).requires_grad_(), there(5, 6, seed=1).T
    for grads in ((g, None), (None, g), (g, g)):
        _, (actual,) = gradients(compiled, (x,), grads)
        _, (expected,) = gradients(function, (x,), grads)
        close(actual, expected)


def test_a_second_derivative():
    compiled, x = torch.compile(lambda x: (x**3).sin().sum()), there(5).requires_grad_()

    def second(function):
        (first,) = torch.autograd.grad(function(x), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    close(second(compiled), second(lambda x: (x**3).sin().sum()))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.last = nn.LayerNorm(8), nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        return (x + self.down(F.gelu(self.up(self.last(x))))).mean(1)


NETWORKS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)), (4, 8)),
    "transformer": (Block, (4, 6, 8)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        ),
        (4, 2, 7, 7),
    ),
    "dropout": (lambda: nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 8)), (4, 8)),
}
# Adam would divide gradients that are rounding errors by their size: those of keys' bias, and of a bias before a norm.
OPTIMISERS = {
    "mlp": lambda p: torch.optim.AdamW(p, lr=0.01),
    "transformer": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "convolutions": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "dropout": lambda p: torch.optim.Adam(p, lr=0.01, capturable=True),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_training_step_is_one_plan(name):
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    mine = make().to(DEVICE)
    others = copy.deepcopy(mine)

    def step_of(net):
        optimiser = OPTIMISERS[name](net.parameters())

        def step(x, y):
            optimiser.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimiser.step()
            return loss.detach()

        return step

    step, plain = torch.compile(step_of(mine)), step_of(others)
    y = torch.tensor([0, 3, 7, 1]).to(DEVICE)
    for k in range(5):
        x = there(*shape, seed=k)
        torch.manual_seed(k)
        result = step(x, y)
        torch.manual_seed(k)
        close(result, plain(x, y))
    for a, b in zip(
        (*mine.parameters(), *mine.buffers()), (*others.parameters(), *others.buffers()), strict=True
    ):
        close(a, b)
    for a, b in zip(mine.parameters(), others.parameters(), strict=True):
        close(a.grad, b.grad)
    assert step.entries[0].why is None and step.entries[0].hits >= 2
    x = there(*shape)
    assert len(launches(step, x, y)) < len(launches(plain, x, y))


def test_modules_that_are_compiled_train_as_others():
    torch.manual_seed(0)
    mine = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)).to(DEVICE)
    others = copy.deepcopy(mine)
    compiled = torch.compile(mine)
    optimisers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (mine, others)]
    for k in range(4):
        x = there(5, 8, seed=k)
        for net, optimiser in zip((compiled, others), optimisers, strict=True):
            optimiser.zero_grad()
            net(x).square().mean().backward()
            optimiser.step()
    for a, b in zip(mine.parameters(), others.parameters(), strict=True):
        close(a, b)
