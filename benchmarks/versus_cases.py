"""The 138 cases of `versus.py`, each written once against PyTorch's API.

A case is a function of a module (`flambeau` or `torch`) that makes its data and returns the call to time.  Its name is
`group.name`; the groups are those of the tables in RESULTS.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Call = Callable[[], Any]
Case = Callable[[Any], Call]  # module → what is timed
CASES: dict[str, Case] = {}

SIZES = {1 << 16: "64Ki", 1 << 22: "4Mi", 1 << 24: "16Mi"}


def case(group: str) -> Callable[[Case], Case]:
    """Enters the decorated function under its own name."""

    def enter(make: Case) -> Case:
        CASES[f"{group}.{make.__name__}"] = make
        return make

    return enter


# Overhead: what one call costs when the data is tiny.


def on_small_matrices(call: Callable) -> Case:
    """`call(module, a, b)` on two 4 × 4 matrices."""

    def make(t: Any) -> Call:
        t.manual_seed(0)
        a, b = t.randn(4, 4), t.randn(4, 4)
        return lambda: call(t, a, b)

    return make


SMALL: dict[str, Callable] = {
    "add": lambda t, a, b: a + b,
    "mul_scalar": lambda t, a, b: a * 2.0,
    "exp": lambda t, a, b: t.exp(a),
    "sum": lambda t, a, b: a.sum(),
    "mean_dim": lambda t, a, b: a.mean(1),
    "matmul": lambda t, a, b: a @ b,
    "index_row": lambda t, a, b: a[0],
    "index_item": lambda t, a, b: a[0, 1],
    "view": lambda t, a, b: a.view(16),
    "transpose": lambda t, a, b: a.t(),
    "empty": lambda t, a, b: t.empty(4, 4),
    "add_": lambda t, a, b: a.mul_(1.0),
    "cat": lambda t, a, b: t.cat([a, b]),
    "softmax": lambda t, a, b: t.softmax(a, 1),
    "item": lambda t, a, b: a[0, 0].item(),
    "linear": lambda t, a, b: t.nn.functional.linear(a, b),
    "broadcast": lambda t, a, b: a + b[0],
    "compare": lambda t, a, b: a > b,
    "where": lambda t, a, b: t.where(a > 0, a, b),
    "argmax": lambda t, a, b: a.argmax(1),
    "shape": lambda t, a, b: a.shape,
    "numpy": lambda t, a, b: a.numpy(),
    "from_list": lambda t, a, b: t.tensor([1.0, 2.0]),
}
for _name, _call in SMALL.items():
    CASES[f"overhead.{_name}"] = on_small_matrices(_call)


@case("overhead")
def backward(t: Any) -> Call:
    t.manual_seed(0)
    a, b = t.randn(4, 4), t.randn(4, 4)
    a.requires_grad_()
    return lambda: (a * b).sum().backward()


def small_network(t: Any) -> tuple[Any, Any, Any]:
    t.manual_seed(0)
    net = t.nn.Sequential(t.nn.Linear(16, 32), t.nn.ReLU(), t.nn.Linear(32, 10))
    return net, t.randn(8, 16), t.randint(0, 10, (8,))


@case("overhead")
def mlp_forward(t: Any) -> Call:
    net, x, _ = small_network(t)
    return lambda: net(x)


def training_step(t: Any, net: Any, x: Any, y: Any, optimizer: Any) -> Call:
    """Zeroes gradients, computes a cross-entropy, differentiates it and steps."""
    loss = t.nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        loss(net(x), y).backward()
        optimizer.step()

    return step


@case("overhead")
def mlp_sgd_step(t: Any) -> Call:
    net, x, y = small_network(t)
    return training_step(t, net, x, y, t.optim.SGD(net.parameters(), lr=0.01, momentum=0.9))


@case("overhead")
def mlp_adam_step(t: Any) -> Call:
    net, x, y = small_network(t)
    return training_step(t, net, x, y, t.optim.Adam(net.parameters(), lr=0.001))


# Pointwise, reductions, rows, movement: in cache (64 Ki elements) and in memory (16 Mi, rows 4 Mi).


def on_lines(n: int, call: Callable) -> Case:
    """`call(module, x, y)` on two lines of n numbers in [0.5, 1.5)."""

    def make(t: Any) -> Call:
        t.manual_seed(0)
        x, y = t.rand(n) + 0.5, t.rand(n) + 0.5
        return lambda: call(t, x, y)

    return make


LARGE: dict[str, tuple[tuple[int, ...], dict[str, Callable]]] = {
    "pointwise": (
        (1 << 16, 1 << 24),
        {
            "add": lambda t, x, y: x + y,
            "mul": lambda t, x, y: x * y,
            "div": lambda t, x, y: x / y,
            "exp": lambda t, x, y: x.exp(),
            "log": lambda t, x, y: x.log(),
            "tanh": lambda t, x, y: x.tanh(),
            "sigmoid": lambda t, x, y: x.sigmoid(),
            "erf": lambda t, x, y: x.erf(),
            "gelu": lambda t, x, y: t.nn.functional.gelu(x),
            "sin": lambda t, x, y: x.sin(),
            "pow": lambda t, x, y: x**y,
            "relu": lambda t, x, y: x.relu(),
            "sqrt": lambda t, x, y: x.sqrt(),
            "clamp": lambda t, x, y: x.clamp(0.7, 1.2),
            "less": lambda t, x, y: x < y,
            "to_half": lambda t, x, y: x.to(t.bfloat16),
        },
    ),
    "reduction": (
        (1 << 16, 1 << 24),
        {
            "sum": lambda t, x, y: x.sum(),
            "mean": lambda t, x, y: x.mean(),
            "max": lambda t, x, y: x.max(),
            "argmax": lambda t, x, y: x.argmax(),
            "norm": lambda t, x, y: x.norm(),
            "var": lambda t, x, y: x.var(),
            "cumsum": lambda t, x, y: x.cumsum(0),
            "sum_rows": lambda t, x, y: x.view(-1, 256).sum(1),
            "sum_columns": lambda t, x, y: x.view(-1, 256).sum(0),
            "max_rows": lambda t, x, y: x.view(-1, 256).max(1),
            "any": lambda t, x, y: (x < 0).any(),
        },
    ),
    "rows": (
        (1 << 16, 1 << 22),
        {
            "softmax": lambda t, x, y: x.view(-1, 512).softmax(1),
            "log_softmax": lambda t, x, y: x.view(-1, 512).log_softmax(1),
            "layer_norm": lambda t, x, y: t.nn.functional.layer_norm(x.view(-1, 512), (512,)),
            "softmax_columns": lambda t, x, y: x.view(256, -1).softmax(0),
        },
    ),
    "movement": (
        (1 << 16, 1 << 24),
        {
            "transpose_copy": lambda t, x, y: x.view(256, -1).t().contiguous(),
            "broadcast_add": lambda t, x, y: x.view(-1, 256) + y[:256],
            "cat": lambda t, x, y: t.cat([x, y]),
            "index_select": lambda t, x, y: x.view(-1, 64).index_select(0, t.arange(0, x.numel() // 64, 2)),
            "masked_fill": lambda t, x, y: x.masked_fill(y > 1, 0.0),
            "sort": lambda t, x, y: x[: 1 << 16].sort(),
            "randn": lambda t, x, y: t.randn(x.shape),
            "rand": lambda t, x, y: t.rand(x.shape),
        },
    ),
}
for _group, (_sizes, _calls) in LARGE.items():
    for _name, _call in _calls.items():
        for _n in _sizes:
            CASES[f"{_group}.{_name}_{SIZES[_n]}"] = on_lines(_n, _call)


# Matrix products.


def product(m: int, k: int, n: int, dtype: str) -> Case:
    def make(t: Any) -> Call:
        t.manual_seed(0)
        a, b = (x.to(getattr(t, dtype)) for x in (t.randn(m, k), t.randn(k, n)))
        return lambda: a @ b

    return make


for _m, _k, _n in (
    (32, 32, 32),
    (64, 64, 64),
    (256, 256, 256),
    (1024, 1024, 1024),
    (32, 784, 256),
    (128, 768, 3072),
    (1, 1024, 1024),
):
    CASES[f"gemm.f32_{_m}x{_k}x{_n}"] = product(_m, _k, _n, "float32")
    if _m >= 128:
        CASES[f"gemm.bf16_{_m}x{_k}x{_n}"] = product(_m, _k, _n, "bfloat16")


@case("gemm")
def batched_32x64(t: Any) -> Call:
    a, b = t.randn(32, 64, 64), t.randn(32, 64, 64)
    return lambda: t.bmm(a, b)


@case("gemm")
def linear_bias_forward_backward(t: Any) -> Call:
    layer, x = t.nn.Linear(768, 768), t.randn(128, 768)
    return lambda: layer(x).sum().backward()


# Convolutions, NCHW in and out: batch, channels, side, channels out, window, stride, padding, groups.

CONVOLUTIONS = {
    "mnist1": (64, 1, 28, 32, 3, 1, 0, 1),
    "mnist2": (64, 32, 26, 64, 3, 1, 0, 1),
    "res56": (8, 64, 56, 64, 3, 1, 1, 1),
    "res14": (8, 256, 14, 256, 3, 1, 1, 1),
    "one_by_one": (8, 64, 56, 256, 1, 1, 0, 1),
    "stem": (8, 3, 112, 64, 7, 2, 3, 1),
    "depthwise": (8, 128, 28, 128, 3, 1, 1, 128),
    "strided": (8, 64, 56, 128, 3, 2, 1, 1),
}


def convolution(
    train: bool, n: int, c: int, side: int, out: int, k: int, stride: int, pad: int, g: int
) -> Case:
    def make(t: Any) -> Call:
        t.manual_seed(0)
        layer = t.nn.Conv2d(c, out, k, stride=stride, padding=pad, groups=g)
        x = t.randn(n, c, side, side)
        if train:
            x.requires_grad_()
            return lambda: layer(x).sum().backward()

        def forward() -> Any:
            with t.no_grad():
                return layer(x)

        return forward

    return make


for _name, _shape in CONVOLUTIONS.items():
    CASES[f"conv.{_name}_forward"] = convolution(False, *_shape)
    CASES[f"conv.{_name}_train"] = convolution(True, *_shape)


# Whole training steps.


def trains(make_net: Callable[[Any], Any], shape: tuple[int, ...]) -> Case:
    """A step of Adam on a network of 10 classes, whose input has this shape."""

    def make(t: Any) -> Call:
        t.manual_seed(0)
        net, x = make_net(t), t.randn(*shape)
        y = t.randint(0, 10, shape[:1])
        return training_step(t, net, x, y, t.optim.Adam(net.parameters(), lr=1e-3))

    return make


def mlp(t: Any) -> Any:
    nn = t.nn
    return nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )  # fmt: skip


def cnn(t: Any) -> Any:
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(9216, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def lstm(t: Any) -> Any:
    class Net(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.out = t.nn.LSTM(32, 128, batch_first=True), t.nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.out(self.rnn(x)[0][:, -1])

    return Net()


def transformer(t: Any) -> Any:
    layer = t.nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    return t.nn.Sequential(layer, t.nn.Flatten(), t.nn.Linear(32 * 128, 10))


CASES["train.mlp_784"] = trains(mlp, (64, 784))
CASES["train.cnn_mnist"] = trains(cnn, (32, 1, 28, 28))
CASES["train.lstm"] = trains(lstm, (16, 32, 32))
CASES["train.transformer"] = trains(transformer, (8, 32, 128))


@case("train")
def dynamic_tree(t: Any) -> Call:
    """A recursive network whose graph differs at every example."""
    t.manual_seed(0)
    cell, leaf = t.nn.Linear(64, 32), t.randn(64, 32)
    optimizer = t.optim.SGD(cell.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        total = 0
        for n in (3, 7, 12, 20):
            nodes = [leaf[i] for i in range(n)]
            while len(nodes) > 1:
                nodes.append(t.tanh(cell(t.cat([nodes.pop(0), nodes.pop(0)]))))
            total = total + nodes[0].sum()
        total.backward()
        optimizer.step()

    return step
