"""With `eager_numerics`, plans give the bits of eager calls; what they would give without it is another matter."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import LARGER, SHAPES, difference

import flambeau as torch
from flambeau.graph.lower import plan
from flambeau.graph.options import Options
from flambeau.graph.program import Program
from flambeau.graph.trace import mapped, record

F = torch.nn.functional
TensorBase = torch.Tensor


def numbers(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(0, 1, shape)).float()


def tensors(result):
    found = []
    mapped(result, TensorBase, found.append)
    return found


def same_bits(a, b):
    """Equal, where all NaN are one and zeros have a sign."""
    a, b = a.detach().double().numpy(), b.detach().double().numpy()
    return np.array_equal(a, b, equal_nan=True) and not (np.signbit(a) != np.signbit(b))[a == a].any()


def check(function, *given):
    runner = plan(Program(record(function, *given)[0]), options=Options(eager_numerics=True))
    for scale in (1.0, 0.3):
        fresh = [t * scale if t.is_floating_point() else t for t in given]
        found, expected = runner(*fresh), function(*fresh)
        assert all(map(same_bits, tensors(found), tensors(expected)))
    return runner


def normalised(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)


ROWS = {
    "normalised": normalised,
    "with functions behind": lambda x: F.gelu(normalised(x)).exp() * 0.1,
    "with functions ahead": lambda x: normalised((x * 0.3).tanh()).sin(),
    "softmax": lambda x: (x * 0.125).masked_fill(x > 1, float("-inf")).softmax(-1),
    "softmax of a function": lambda x: (x.tanh() * 3).softmax(-1).log(),
    "layer norm": lambda x: F.layer_norm(F.gelu(x) + x, x.shape[-1:]),
    "rms norm": lambda x: F.rms_norm(x.exp(), x.shape[-1:]).tanh(),
    "log of a sum of exponentials": lambda x: (x * 2).logsumexp(-1) - x.mean(-1),
    "several folds at once": lambda x: (x.sum(-1), x.exp().sum(-1), x.amax(-1), x.prod(-1), x.var(-1), x.argmax(-1)),
    "a fold of a fold": lambda x: ((x - x.amax(-1, keepdim=True)).exp().sum(-1) + x.sum(-1)).log(),
    "columns": lambda x: (x.sin() - x.sin().mean(-2, keepdim=True)).square().sum(-2),
    "rows and columns": lambda x: (x.exp().sum(-1), x.exp().sum(-2), x.exp().sum()),
    "everything": lambda x: ((x * x).mean() + x.tanh().sum()) * x.std(),
    "of another dtype": lambda x: (x.sum(-1, dtype=torch.float64), x.double().mean(-1), x.half().sum(-1), x.bfloat16().softmax(-1)),
    "turned": lambda x: (x.mT.exp().sum(-1), (x.mT * 2 + 1).sum((-2, -1)), (x.mT + x.mT.contiguous()).sum((-2, -1))),
    "fills beside": lambda x: (x * torch.ones(x.shape[-1]) + torch.zeros(x.shape)).sum(-1),
    "of no row": lambda x: (torch.ones(x.shape) * 2).softmax(-1) + x.softmax(-1),
}  # fmt: skip


@pytest.mark.parametrize(
    "shape", [(5, 7), (3, 1000), (64, 10), (2, 40, 33), (4, 33000), (3000, 130), (70, 4, 1)]
)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, shape):
    check(ROWS[name], numbers(*shape))


def test_one_kernel_has_what_folds_in_one_order():
    x = numbers(8, 500)
    assert repr(check(ROWS["with functions behind"], x)).startswith("Runner(1 kernel,")
    assert repr(check(ROWS["layer norm"], x)).startswith("Runner(1 kernel,")


def test_calls_that_fold_in_different_steps_are_kernels_of_their_own():
    """A sum of float64 has half the elements a step that one of float32 has."""
    runner = check(lambda x: (x.sum(-1), x.sum(-1, dtype=torch.float64)), numbers(8, 500))
    assert repr(runner).startswith("Runner(2 kernels, 0 products, 0 calls")


def test_products_keep_the_form_of_calls():
    x, w, b = numbers(33, 70), numbers(48, 70, seed=1), numbers(48, seed=2)
    check(lambda x, w, b: F.gelu(F.linear(x, w, b)) + 1, x, w, b)
    check(lambda x, w: (x @ w.mT).relu().sum(-1), x, w)
    images, filters = numbers(2, 8, 12, 12), numbers(16, 8, 3, 3, seed=3)
    check(lambda x, w, b: F.conv2d(x, w, b[:16], padding=1).relu() * 2, images, filters, b)
    check(
        lambda x, w, b: F.batch_norm(F.conv2d(x, w), b[:16], b[:16].abs(), b[:16], b[:16]).relu(),
        images,
        filters,
        b,
    )


def test_of_two_equal_zeros_the_one_that_a_call_gives():
    """`max` takes fixed numbers for its second operand apart: fills are no such, and numbers that vary are."""
    x = torch.tensor([-0.0, 0.0, 1.0, -1.0, float("nan")])
    fill = lambda x: (torch.maximum(x, torch.zeros(5)) * 1, torch.minimum(x, torch.zeros_like(x) * 2) * 1)
    for found, expected in zip(plan(Program(record(fill, x)[0]))(x), fill(x), strict=True):
        assert same_bits(found, expected)

    def clamped(x, least):
        return torch.clamp(x, min=least) * 1

    compiled = torch.compile(clamped)
    for least in (1.0, 0.5, 0.0, -0.0):
        assert same_bits(compiled(x, least), clamped(x, least))
    assert len(compiled.entries) == 2


def test_a_step_with_its_backward_pass_within():
    """Gradients, and an update that the program writes out."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
    net = torch.nn.Sequential(layer, torch.nn.Linear(32, 10))
    parameters = list(net.parameters())
    start = [p.detach().clone() for p in parameters]

    def train(x, y):
        loss = F.cross_entropy(net(x).flatten(0, 1), y)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for p, g in zip(parameters, gradients, strict=True):
                p.sub_(g * 0.1)
        return loss.detach()

    made = []
    for run in (train, torch.compile(train, fullgraph=True, options={"eager_numerics": True})):
        for p, at in zip(parameters, start, strict=True):
            p.detach().copy_(at)
        losses = [run(numbers(4, 16, 32, seed=k), torch.arange(64) % 10) for k in range(4)]
        made.append([*losses, *(p.detach().clone() for p in parameters)])
    assert all(map(same_bits, *made))


def step(make, **how):
    """Losses and parameters of a few training steps."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
    net = torch.nn.Sequential(layer, torch.nn.Linear(32, 10))
    optimizer = make(net.parameters())

    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x).flatten(0, 1), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = torch.compile(train, **how) if how else train
    random = torch.Generator().manual_seed(1)
    made = []
    for _ in range(4):
        x = torch.randn(4, 16, 32, generator=random)
        made.append(run(x, torch.randint(0, 10, (64,), generator=random)))
    return made + [p.detach() for p in net.parameters()]


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_training_steps(optimizer):
    make = lambda parameters: getattr(torch.optim, optimizer)(parameters, lr=0.01)
    found = step(make, fullgraph=True, options={"eager_numerics": True})
    assert all(map(same_bits, found, step(make)))


OPTIMIZERS = {
    "SGD": dict(lr=0.1),
    "SGD with momentum": dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "AdamW": {},
    "Adam": dict(amsgrad=True, weight_decay=0.01),
    "Adam, maximizing": dict(maximize=True),
    "NAdam": {},
    "RAdam": {},
    "Adagrad": {},
    "RMSprop": dict(momentum=0.5, centered=True),
    "Adadelta": {},
    "Adamax": {},
    "ASGD": {},
    "Rprop": {},
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_round_as_the_kernels_of_optimisers(name, dtype):
    """c + a · b is rounded once, and halves when they are written."""
    kind, options = name.split()[0].strip(","), OPTIMIZERS[name]
    start = numbers(300).to(getattr(torch, dtype))
    made = []
    for compiled in (False, True):
        w = start.clone().requires_grad_()
        optimizer = getattr(torch.optim, kind)([w], **options)

        def train(x, w=w, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (w * x).abs().sin().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = torch.compile(train, fullgraph=True, options={"eager_numerics": True}) if compiled else train
        losses = [run(numbers(300, seed=k).to(w.dtype)) for k in range(5)]
        state = [v for v in optimizer.state[w].values() if isinstance(v, torch.Tensor)]
        made.append([*losses, w.detach(), *state])
    assert all(map(same_bits, *made))


def test_gradients_of_compiled_functions():
    x, w = numbers(9, 700), numbers(700, seed=1)
    function = lambda x, w: (F.layer_norm(x.tanh(), (700,)) * w).softmax(-1).logsumexp(0)
    compiled = torch.compile(function, options={"eager_numerics": True})
    gradients = []
    for f in (function, compiled):
        leaves = [t.clone().requires_grad_() for t in (x, w)]
        y = f(*leaves)
        gradients.append([y, *torch.autograd.grad(y.square().sum(), leaves)])
    assert all(map(same_bits, *gradients))


@pytest.mark.parametrize("first", range(2000, 2060, 10))
def test_random_programs(first):
    found = [
        difference(seed, True, True, LARGER if seed % 2 else SHAPES) for seed in range(first, first + 10)
    ]
    assert [d for d in found if d] == []
