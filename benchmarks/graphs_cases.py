"""The functions that `graphs.py` times compiled and eager, each written once against PyTorch's API.

A case is a function of a module (`flambeau` or `torch`) that returns what is compiled and the arguments of a call.  Results are a tensor
or a tuple of tensors; they are compared with those of the eager call, on numbers other than those of the first call.  A function that
changes what was there before has a `restart`, which brings it back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Case = Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]]
CASES: dict[str, Case] = {}


def case(make: Case) -> Case:
    """Enters the decorated function under its own name."""
    CASES[make.__name__] = make
    return make


def gelu(t: Any, x: Any) -> Any:
    """GELU by tanh, written out."""
    return 0.5 * x * (1.0 + t.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


# One kernel after another: what is saved is memory traffic.


@case
def chain_of_64Ki(t):
    return lambda x: gelu(t, x), (t.randn(1 << 16),)


@case
def chain_of_4Mi(t):
    return lambda x: gelu(t, x), (t.randn(1 << 22),)


@case
def chain_of_ten_functions(t):
    """Each waits for the one before it."""

    def f(x):
        for _ in range(5):
            x = t.exp(t.sin(x))
        return x

    return f, (t.randn(1 << 16),)


@case
def chain_of_half_types(t):
    return lambda x, y: gelu(t, x * 1.5 + y).sigmoid() * y, (
        t.randn(1 << 20).bfloat16(),
        t.randn(1 << 20).bfloat16(),
    )


@case
def chain_with_gradient(t):
    def f(x):
        x = x.detach().requires_grad_()
        loss = (t.sin(x) * t.exp(-x * x) + t.sigmoid(x) * 0.3).sum()
        return t.autograd.grad(loss, x)[0]

    return f, (t.randn(1 << 20),)


@case
def broadcast_and_views(t):
    """Halves of a tensor, one transposed, and a vector along each dimension."""

    def f(x, u, v):
        a, b = x.chunk(2, -1)
        return (a.mT * b.mT.sigmoid() + u[:, None]) * v

    return f, (t.randn(512, 1024), t.randn(512), t.randn(512))


# Rows.


@case
def normalised_rows(t):
    def f(x, w, b):
        m = x.mean(-1, keepdim=True)
        v = ((x - m) * (x - m)).mean(-1, keepdim=True)
        return (x - m) * t.rsqrt(v + 1e-5) * w + b

    return f, (t.randn(2048, 1024), t.randn(1024), t.randn(1024))


@case
def bias_gelu_residual_norm(t):
    """What stands between two products of a transformer."""
    functional = t.nn.functional

    def f(x, r, b, w, c):
        return functional.layer_norm(functional.gelu(x + b) + r, (768,), w, c)

    return f, (t.randn(1024, 768), t.randn(1024, 768), t.randn(768), t.randn(768), t.randn(768))


@case
def dropout_residual_norm(t):
    """As above with dropout in training."""
    functional = t.nn.functional

    def f(x, r, w, c):
        return functional.layer_norm(functional.dropout(x, 0.1) + r, (768,), w, c)

    return f, (t.randn(1024, 768), t.randn(1024, 768), t.randn(768), t.randn(768))


@case
def masked_softmax(t):
    mask = t.ones(128, 128).tril() > 0
    return lambda s: t.softmax((s * 0.125).masked_fill(~mask, float("-inf")), -1), (t.randn(64, 128, 128),)


@case
def cross_entropy_of_10000(t):
    targets = t.arange(1024) * 7 % 10000

    def f(x):
        return -t.log_softmax(x * 0.5, -1).gather(1, targets[:, None]).mean()

    return f, (t.randn(1024, 10000),)


# Small tensors: what is saved is the calls.


@case
def forty_small_operations(t):
    def f(x, y):
        for _ in range(10):
            x = (x * 1.01 + y).tanh() - 0.1
        return x

    return f, (t.randn(64), t.randn(64))


@case
def training_step(t):
    """Forward, backward and SGD of a small network as one function."""
    functional = t.nn.functional
    targets = t.arange(8) % 10

    def f(x, *weights):
        w1, b1, w2, b2 = weights = [w.detach().requires_grad_() for w in weights]
        h = t.relu(functional.linear(x, w1, b1))
        loss = functional.cross_entropy(functional.linear(h, w2, b2), targets)
        return tuple((w - 0.01 * g).detach() for w, g in zip(weights, t.autograd.grad(loss, weights)))

    return f, (t.randn(8, 16), t.randn(32, 16) * 0.1, t.zeros(32), t.randn(10, 32) * 0.1, t.zeros(10))


def whole_step(t: Any, net: Any, optimizer: Any) -> Callable[..., Any]:
    """A training step as a function of the input, with `zero_grad`, `backward` and the optimiser's `step`.

    It returns the loss, and a sum over the new parameters.  `restart()` brings back the first parameters and the optimiser's first state.
    """
    weights = list(net.parameters())
    first = [w.detach().clone() for w in weights]

    def f(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        with t.no_grad():
            return loss.detach(), sum(w.square().sum() for w in weights)

    def restart():
        with t.no_grad():
            for w, before in zip(weights, first):
                w.copy_(before)
            for state in optimizer.state.values():
                for value in filter(t.is_tensor, state.values()):
                    value.zero_()

    f.restart = restart
    return f


@case
def step_with_adamw(t):
    """A small network: what is saved is the calls."""
    n = t.nn
    net = n.Sequential(n.Linear(16, 32), n.LayerNorm(32), n.GELU(), n.Linear(32, 10))
    return whole_step(t, net, t.optim.AdamW(net.parameters(), lr=1e-3)), (t.randn(8, 16),)


@case
def mlp_step_with_momentum(t):
    n = t.nn
    net = n.Sequential(n.Linear(256, 512), n.GELU(), n.Linear(512, 512), n.GELU(), n.Linear(512, 10))
    return whole_step(t, net, t.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)), (t.randn(128, 256),)


@case
def loop_until_a_sum(t):
    """Control flow that depends on values: right, and not compiled anew at each call."""

    def f(x):
        while x.sum() < 10_000:
            x = x * 1.5 + 1.0
        return x.sqrt()

    return f, (t.randn(256),)


# Modules.


@case
def mlp_forward(t):
    n = t.nn
    net = n.Sequential(n.Linear(256, 512), n.GELU(), n.Linear(512, 512), n.GELU(), n.Linear(512, 10))

    def f(x):
        with t.no_grad():
            return net(x)

    return f, (t.randn(128, 256),)


@case
def mlp_forward_and_backward(t):
    n = t.nn
    net = n.Sequential(n.Linear(256, 512), n.GELU(), n.Linear(512, 512), n.GELU(), n.Linear(512, 10))
    weights = tuple(net.parameters())

    def f(x):
        return t.autograd.grad(net(x).square().mean(), weights)

    return f, (t.randn(128, 256),)


@case
def conv_bn_relu(t):
    """Inference of a residual block."""
    n = t.nn
    net = n.Sequential(
        n.Conv2d(32, 32, 3, padding=1, bias=False),
        n.BatchNorm2d(32),
        n.ReLU(),
        n.Conv2d(32, 32, 3, padding=1, bias=False),
        n.BatchNorm2d(32),
        n.ReLU(),
    ).eval()

    def f(x):
        with t.no_grad():
            return net(x) + x

    return f, (t.randn(8, 32, 28, 28),)


@case
def transformer_layer(t):
    """Forward of a layer in evaluation mode."""
    net = t.nn.TransformerEncoderLayer(256, 4, 512, dropout=0.0, batch_first=True, norm_first=True)

    def f(x):
        with t.no_grad():
            return net(x)

    return f, (t.randn(4, 64, 256),)


@case
def transformer_layer_with_gradients(t):
    net = t.nn.TransformerEncoderLayer(256, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
    weights = tuple(net.parameters())

    def f(x):
        return t.autograd.grad(net(x).square().mean(), weights)

    return f, (t.randn(4, 64, 256),)


@case
def llama_block_with_cache(t):
    """One token through a block of Llama's kind: RMS norm, rotary positions, a cache of keys and values that is written, gated SiLU."""
    functional, heads, width, length, at = t.nn.functional, 8, 64, 256, 100
    size = heads * width
    weights = {
        name: t.randn(*shape) * 0.03
        for name, shape in {
            "qkv": (3 * size, size),
            "out": (size, size),
            "gate": (4 * size, size),
            "up": (4 * size, size),
            "down": (size, 4 * size),
        }.items()
    }
    norms = t.ones(2, size)
    angles = t.arange(length)[:, None] / 10000 ** (t.arange(width // 2) / (width // 2))
    cos, sin = angles.cos(), angles.sin()
    seen = (t.arange(length) <= at)[None, None]

    def norm(x, w):
        return x * t.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w

    def turned(x):
        a, b = x.chunk(2, -1)
        return t.cat([a * cos[at] - b * sin[at], b * cos[at] + a * sin[at]], -1)

    def f(x, keys, values):
        with t.no_grad():
            q, k, v = functional.linear(norm(x, norms[0]), weights["qkv"]).view(-1, 3, heads, width).unbind(1)
            keys, values = keys.clone(), values.clone()
            keys[:, :, at], values[:, :, at] = turned(k), v
            scores = (turned(q)[:, :, None] @ keys.mT * width**-0.5).masked_fill(
                ~seen[:, None], float("-inf")
            )
            x = x + functional.linear((scores.softmax(-1) @ values).reshape(-1, size), weights["out"])
            y = norm(x, norms[1])
            gated = functional.silu(functional.linear(y, weights["gate"])) * functional.linear(
                y, weights["up"]
            )
            return x + functional.linear(gated, weights["down"]), keys, values

    cache = (2, heads, length, width)
    return f, (t.randn(2, size), t.randn(*cache), t.randn(*cache))
