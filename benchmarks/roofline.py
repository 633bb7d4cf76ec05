"""How near each case is to what this machine can do, for flambeau and for PyTorch.

    python benchmarks/roofline.py                   # 1 thread: peaks, then every case
    python benchmarks/roofline.py --threads 2 --cases 'conv|gemm' --seconds 0.1
    python benchmarks/roofline.py --bare            # without PyTorch

`peaks.py` measures the machine in the same run.  A case's limit is the greatest of three times:

- its bytes at the bandwidth of the nearest level that holds all of them (what is read and written in equal parts at the rate of a
  copy, the rest at that of reading or writing), each operand counted once;
- its flops at the peak of their type; a function such as exp counts two for each instruction of our polynomial that needs a multiplier,
  convolutions count the direct sum's, so Winograd's may pass 1;
- calls of the library that the program makes, at the cost of an empty call.

Cases have the names they have in the comparison that `RESULTS.md` shows; bytes, flops and calls of each stand beside it below.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import time
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import peaks


class Case(NamedTuple):
    """Code, and what it cannot do without: bytes read, bytes written, operations by type, calls of the library."""

    make: Callable[[ModuleType], Callable[[], object]]
    read: float = 0
    written: float = 0
    work: float = 0
    kind: str = "float32"
    calls: int = 1


CASES: dict[str, Case] = {}


def tiny() -> None:
    """What a call costs: 4×4 elements.  Calls are those that the program writes."""

    def two(t):
        t.manual_seed(0)
        return t.randn(4, 4), t.randn(4, 4)

    def add(name: str, f: Callable, calls: int = 1) -> None:
        def make(t):
            a, b = two(t)
            return lambda: f(t, a, b)

        CASES["overhead." + name] = Case(make, calls=calls)

    add("add", lambda t, a, b: a + b)
    add("mul_scalar", lambda t, a, b: a * 2.0)
    add("exp", lambda t, a, b: t.exp(a))
    add("sum", lambda t, a, b: a.sum())
    add("mean_dim", lambda t, a, b: a.mean(1))
    add("matmul", lambda t, a, b: a @ b)
    add("index_row", lambda t, a, b: a[0])
    add("index_item", lambda t, a, b: a[0, 1])
    add("view", lambda t, a, b: a.view(16))
    add("transpose", lambda t, a, b: a.t())
    add("empty", lambda t, a, b: t.empty(4, 4))
    add("add_", lambda t, a, b: a.mul_(1.0))
    add("cat", lambda t, a, b: t.cat([a, b]))
    add("softmax", lambda t, a, b: t.softmax(a, 1))
    add("item", lambda t, a, b: a[0, 0].item(), 2)
    add("linear", lambda t, a, b: t.nn.functional.linear(a, b))
    add("broadcast", lambda t, a, b: a + b[0], 2)
    add("compare", lambda t, a, b: a > b)
    add("where", lambda t, a, b: t.where(a > 0, a, b), 2)
    add("argmax", lambda t, a, b: a.argmax(1))
    add("shape", lambda t, a, b: a.shape)
    add("numpy", lambda t, a, b: a.numpy())
    add("from_list", lambda t, a, b: t.tensor([1.0, 2.0]))

    def backward(t):
        a, b = two(t)
        a.requires_grad_()
        return lambda: (a * b).sum().backward()

    CASES["overhead.backward"] = Case(backward, calls=3)

    def mlp(t):
        t.manual_seed(0)
        net = t.nn.Sequential(t.nn.Linear(16, 32), t.nn.ReLU(), t.nn.Linear(32, 10))
        return net, t.randn(8, 16), t.randint(0, 10, (8,))

    def forward(t):
        net, x, _ = mlp(t)
        return lambda: net(x)

    CASES["overhead.mlp_forward"] = Case(forward, calls=4)
    for name, optimiser in {
        "mlp_sgd_step": lambda t, n: t.optim.SGD(n.parameters(), lr=0.01, momentum=0.9),
        "mlp_adam_step": lambda t, n: t.optim.Adam(n.parameters(), lr=0.001),
    }.items():

        def steps(t, optimiser=optimiser):
            net, x, y = mlp(t)
            return training(t, net, optimiser(t, net), x, y)

        CASES["overhead." + name] = Case(steps, calls=8)


def training(t, net, o, x, y) -> Callable:
    loss = t.nn.CrossEntropyLoss()

    def step() -> None:
        o.zero_grad()
        loss(net(x), y).backward()
        o.step()

    return step


NAMES = {1 << 16: "64Ki", 1 << 22: "4Mi", 1 << 24: "16Mi"}


def along(group: str, sizes: tuple[int, ...], cases: dict[str, tuple]) -> None:
    """Functions of two vectors x and y: bytes read, written and operations are those of one element."""
    for name, (f, read, written, work, *calls) in cases.items():
        for n in sizes:

            def make(t, n=n, f=f):
                t.manual_seed(0)
                x, y = t.rand(n) + 0.5, t.rand(n) + 0.5
                return lambda: f(t, x, y)

            m = 1 << 16 if name == "sort" else n
            CASES[f"{group}.{name}_{NAMES[n]}"] = Case(
                make, m * read, m * written, m * work, "float32", *calls
            )


def vectors() -> None:
    """Vectors in cache and in memory: function, bytes read, bytes written, operations an element, calls."""
    whole = (1 << 16, 1 << 24)
    along(
        "pointwise",
        whole,
        {
            "add": (lambda t, x, y: x + y, 8, 4, 1),
            "mul": (lambda t, x, y: x * y, 8, 4, 1),
            "div": (lambda t, x, y: x / y, 8, 4, 1),
            "exp": (lambda t, x, y: x.exp(), 4, 4, 22),
            "log": (lambda t, x, y: x.log(), 4, 4, 26),
            "tanh": (lambda t, x, y: x.tanh(), 4, 4, 40),
            "sigmoid": (lambda t, x, y: x.sigmoid(), 4, 4, 30),
            "erf": (lambda t, x, y: x.erf(), 4, 4, 40),
            "gelu": (lambda t, x, y: t.nn.functional.gelu(x), 4, 4, 46),
            "sin": (lambda t, x, y: x.sin(), 4, 4, 36),
            "pow": (lambda t, x, y: x**y, 8, 4, 64),
            "relu": (lambda t, x, y: x.relu(), 4, 4, 1),
            "sqrt": (lambda t, x, y: x.sqrt(), 4, 4, 1),
            "clamp": (lambda t, x, y: x.clamp(0.7, 1.2), 4, 4, 2),
            "less": (lambda t, x, y: x < y, 8, 1, 1),
            "to_half": (lambda t, x, y: x.to(t.bfloat16), 4, 2, 1),
        },
    )
    along(
        "reduction",
        whole,
        {
            "sum": (lambda t, x, y: x.sum(), 4, 0, 1),
            "mean": (lambda t, x, y: x.mean(), 4, 0, 1),
            "max": (lambda t, x, y: x.max(), 4, 0, 1),
            "argmax": (lambda t, x, y: x.argmax(), 4, 0, 2),
            "norm": (lambda t, x, y: x.norm(), 4, 0, 2),
            "var": (lambda t, x, y: x.var(), 4, 0, 4),
            "cumsum": (lambda t, x, y: x.cumsum(0), 4, 4, 1),
            "sum_rows": (lambda t, x, y: x.view(-1, 256).sum(1), 4, 0, 1, 2),
            "sum_columns": (lambda t, x, y: x.view(-1, 256).sum(0), 4, 0, 1, 2),
            "max_rows": (lambda t, x, y: x.view(-1, 256).max(1), 4, 0, 2, 2),
            "any": (lambda t, x, y: (x < 0).any(), 5, 1, 1, 2),
        },
    )
    along(
        "rows",
        (1 << 16, 1 << 22),
        {
            "softmax": (lambda t, x, y: x.view(-1, 512).softmax(1), 4, 4, 26, 2),
            "log_softmax": (lambda t, x, y: x.view(-1, 512).log_softmax(1), 4, 4, 26, 2),
            "layer_norm": (
                lambda t, x, y: t.nn.functional.layer_norm(x.view(-1, 512), (512,)),
                4,
                4,
                7,
                2,
            ),
            "softmax_columns": (lambda t, x, y: x.view(256, -1).softmax(0), 4, 4, 26, 2),
        },
    )
    along(
        "movement",
        whole,
        {
            "transpose_copy": (lambda t, x, y: x.view(256, -1).t().contiguous(), 4, 4, 0, 3),
            "broadcast_add": (lambda t, x, y: x.view(-1, 256) + y[:256], 4, 4, 1, 3),
            "cat": (lambda t, x, y: t.cat([x, y]), 8, 8, 0),
            "index_select": (
                lambda t, x, y: x.view(-1, 64).index_select(0, t.arange(0, x.numel() // 64, 2)),
                2,
                2,
                0,
                4,
            ),
            "masked_fill": (lambda t, x, y: x.masked_fill(y > 1, 0.0), 9, 5, 1, 2),
            "sort": (lambda t, x, y: x[: 1 << 16].sort(), 4, 12, 0, 2),
            "randn": (lambda t, x, y: t.randn(x.shape), 0, 4, 0, 2),
            "rand": (lambda t, x, y: t.rand(x.shape), 0, 4, 0, 2),
        },
    )


def products() -> None:
    """A product of m×k and k×n has 2·m·k·n operations and reads both operands once."""
    for m, k, n in [
        (32, 32, 32),
        (64, 64, 64),
        (256, 256, 256),
        (1024, 1024, 1024),
        (32, 784, 256),
        (128, 768, 3072),
        (1, 1024, 1024),
    ]:
        for half in (False, True) if m >= 128 else (False,):

            def make(t, m=m, k=k, n=n, half=half):
                t.manual_seed(0)
                a, b = t.randn(m, k), t.randn(k, n)
                if half:
                    a, b = a.to(t.bfloat16), b.to(t.bfloat16)
                return lambda: a @ b

            size, kind = (2, "bfloat16") if half else (4, "float32")
            CASES[f"gemm.{'bf16' if half else 'f32'}_{m}x{k}x{n}"] = Case(
                make, size * (m * k + k * n), size * m * n, 2 * m * k * n, kind
            )

    def batched(t):
        a, b = t.randn(32, 64, 64), t.randn(32, 64, 64)
        return lambda: t.bmm(a, b)

    CASES["gemm.batched_32x64"] = Case(batched, 4 * 2 * 32 * 64 * 64, 4 * 32 * 64 * 64, 2 * 32 * 64**3)

    def linear(t):
        f, x = t.nn.Linear(768, 768), t.randn(128, 768)
        return lambda: f(x).sum().backward()

    weight, data = 4 * 768 * 768, 4 * 128 * 768  # the gradient is added to the one there; x wants none
    CASES["gemm.linear_bias_forward_backward"] = Case(
        linear, 2 * weight + 3 * data, weight + data, 2 * 2 * 128 * 768 * 768, calls=3
    )


CONVOLUTIONS = {  # batch, channels, side, channels out, kernel, stride, padding, groups
    "mnist1": (64, 1, 28, 32, 3, 1, 0, 1),
    "mnist2": (64, 32, 26, 64, 3, 1, 0, 1),
    "res56": (8, 64, 56, 64, 3, 1, 1, 1),
    "res14": (8, 256, 14, 256, 3, 1, 1, 1),
    "one_by_one": (8, 64, 56, 256, 1, 1, 0, 1),
    "stem": (8, 3, 112, 64, 7, 2, 3, 1),
    "depthwise": (8, 128, 28, 128, 3, 1, 1, 128),
    "strided": (8, 64, 56, 128, 3, 2, 1, 1),
}


def convolutions() -> None:
    """The direct sum's operations; training adds both gradients, each as many again."""
    for name, (n, c, s, o, k, stride, pad, groups) in CONVOLUTIONS.items():
        side = (s + 2 * pad - k) // stride + 1
        x, w, y = 4 * n * c * s * s, 4 * o * c // groups * k * k, 4 * n * o * side * side
        work = 2 * (y // 4) * (c // groups) * k * k

        def make(t, train, shape=(n, c, s, o, k, stride, pad, groups)):
            n, c, s, o, k, stride, pad, groups = shape
            t.manual_seed(0)
            f, x = t.nn.Conv2d(c, o, k, stride=stride, padding=pad, groups=groups), t.randn(n, c, s, s)
            if train:
                x.requires_grad_()
                return lambda: f(x).sum().backward()

            def run():
                with t.no_grad():
                    return f(x)

            return run

        CASES[f"conv.{name}_forward"] = Case(lambda t, make=make: make(t, False), x + w, y, work, calls=2)
        CASES[f"conv.{name}_train"] = Case(
            lambda t, make=make: make(t, True), 3 * x + 3 * w + y, x + w + y, 3 * work, calls=3
        )


def trainings() -> None:
    """Whole steps: forward and backward operations, and each parameter's forward, backward and step of Adam (9 times 4 bytes)."""

    def add(name, net, data, work, parameters, activations, calls, classes=10):
        def make(t):
            t.manual_seed(0)
            model, x = net(t), data(t)
            y = t.randint(0, classes, (x.shape[0],))
            return training(t, model, t.optim.Adam(model.parameters(), lr=1e-3), x, y)

        read, written = 4 * (6 * parameters + 2 * activations), 4 * (4 * parameters + 2 * activations)
        CASES["train." + name] = Case(make, read, written, work, calls=calls)

    mlp = 784 * 256 + 256 * 128 + 128 * 10
    add(
        "mlp_784",
        lambda t: t.nn.Sequential(
            t.nn.Linear(784, 256), t.nn.ReLU(), t.nn.Linear(256, 128), t.nn.ReLU(), t.nn.Linear(128, 10)
        ),
        lambda t: t.randn(64, 784),
        2 * 64 * (3 * mlp - 784 * 256),
        mlp,
        64 * (784 + 256 + 128 + 10),
        10,
    )
    first, second, third = 26 * 26 * 32 * 9, 24 * 24 * 64 * 32 * 9, 9216 * 128 + 1280
    add(
        "cnn_mnist",
        lambda t: t.nn.Sequential(
            t.nn.Conv2d(1, 32, 3),
            t.nn.ReLU(),
            t.nn.Conv2d(32, 64, 3),
            t.nn.ReLU(),
            t.nn.MaxPool2d(2),
            t.nn.Dropout(0.25),
            t.nn.Flatten(),
            t.nn.Linear(9216, 128),
            t.nn.ReLU(),
            t.nn.Linear(128, 10),
        ),
        lambda t: t.randn(32, 1, 28, 28),
        2 * 32 * (2 * first + 3 * second + 3 * third),
        9 * 32 + 32 * 64 * 9 + third,
        32 * (28 * 28 + 2 * 26 * 26 * 32 + 2 * 24 * 24 * 64 + 2 * 9216),
        15,
    )

    def lstm(t):
        class Net(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn, self.out = t.nn.LSTM(32, 128, batch_first=True), t.nn.Linear(128, 10)

            def forward(self, x):
                return self.out(self.rnn(x)[0][:, -1])

        return Net()

    gates = 4 * 128 * (32 + 128)
    add(
        "lstm",
        lstm,
        lambda t: t.randn(16, 32, 32),
        2 * 16 * 32 * 3 * gates,
        gates,
        16 * 32 * (32 + 6 * 128),
        9,
    )
    block, scores = 4 * 128 * 128 + 2 * 128 * 256, 2 * 32 * 128
    add(
        "transformer",
        lambda t: t.nn.Sequential(
            t.nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True),
            t.nn.Flatten(),
            t.nn.Linear(32 * 128, 10),
        ),
        lambda t: t.randn(8, 32, 128),
        2 * 8 * (32 * 3 * (block + scores) + 3 * 32 * 128 * 10),
        block + 32 * 128 * 10,
        8 * 32 * (10 * 128 + 256 + 4 * 32),
        20,
    )

    def tree(t):
        """A network whose graph differs at every example: 38 joins of two nodes."""
        t.manual_seed(0)
        cell, leaf = t.nn.Linear(64, 32), t.randn(64, 32)
        o = t.optim.SGD(cell.parameters(), lr=0.01)

        def step():
            o.zero_grad()
            total = 0
            for n in [3, 7, 12, 20]:
                nodes = [leaf[i] for i in range(n)]
                while len(nodes) > 1:
                    nodes.append(t.tanh(cell(t.cat([nodes.pop(0), nodes.pop(0)]))))
                total = total + nodes[0].sum()
            total.backward()
            o.step()

        return step

    CASES["train.dynamic_tree"] = Case(tree, work=38 * 2 * 3 * 64 * 32, calls=42 + 38 * 3 + 4 * 2 + 3)


for fill in (tiny, vectors, products, convolutions, trainings):
    fill()

# What keeps a case under half its limit: the first pattern that fits the whole name tells.
CAUSES: dict[str, str] = {
    r"overhead\.(backward|mlp_.*)": "five to forty operations inside the calls that the program makes, each some 100 ns: nodes of the "
    "tape, modules' look-ups of their parameters, the products' and losses' own work",
    r"overhead\.(sum|mean_dim|argmax|softmax)": "0.35 to 0.5 µs: besides the call (below) dimensions are sorted into row and rest, and "
    "a program along rows is set up",
    r"overhead\.(cat|linear|matmul|numpy)": "the call (below), a list or shapes to check, then a routine of its own",
    r"overhead\..*": "what a call does besides being called: arguments, dtypes, shapes, memory, a tensor, the tape: 60 to 120 ns",
    r"pointwise\.pow_.*": "88 instructions for 16 numbers, of which 32 need a multiplier: a logarithm in two words",
    r"pointwise\.sqrt_64Ki": "the unit for square roots takes 16 numbers in 5 cycles",
    r"pointwise\.(clamp|to_half)_64Ki": "compared and blended with NaN in mind, or rounded: instructions, not bytes",
    r"reduction\.(sum|mean|norm|any|sum_rows|sum_columns)_64Ki": "1.1 µs of reading beside 0.35 µs of call and a second kernel that "
    "adds up the blocks",
    r"reduction\.max_64Ki": "a NaN must win: compare, test and blend for each vector; then as for sums",
    r"reduction\.(argmax|max_rows)_.*": "an index of 64 bits beside each number: a compare and three blends for 16 numbers; max_rows "
    "folds lanes once for 256 numbers, some 50 ns",
    r"reduction\.var_.*": "sums and squares in float64, as PyTorch's, so half the lanes and a conversion for each number",
    r"reduction\.cumsum_.*": "running sums in float64: three steps of shuffles and adds for eight numbers, one chain "
    "through all; a long row is read twice, for the sums of its blocks and for its own",
    r"rows\.layer_norm_.*": "three folds one after another for each row (mean, what is left of it, squares), each ended by a fold of the "
    "lanes: 70 ns a row of 512",
    r"rows\.softmax_columns_4Mi": "columns lie 64 KiB apart in memory, so all of a column falls into one set of the caches",
    r"rows\.(log_)?softmax_.*": "an exponential for each number, whose instructions without a multiplier are not counted, and two folds",
    r"movement\.transpose_copy_.*": "one side is read or written in steps of 1 KiB and more: 16 numbers of a line at a time, one set "
    "of the cache, many pages",
    r"movement\.index_select_.*": "rows of 256 bytes at computed places, half of what is fetched ahead is not wanted; in cache also the "
    "call that makes the indices",
    r"movement\.sort_.*": "a radix sort: a pass of counting and one of moving keys and places for each digit, not one of bytes",
    r"movement\.(rand|randn)_.*": "ten rounds of Philox for four numbers, 0.33 ns each, and for two normal ones a "
    "logarithm, root, sine and cosine",
    r"pointwise\..*_16Mi": "plain stores read what they write over first; the limit's stores go round the caches",
    r"gemm\.f32_(32x32x32|64x64x64)": "the call is as long as the product",
    r"gemm\..*": "operands are packed once for each use, which only larger products hide",
    r"conv\.mnist1_.*": "one channel in: 9 products for each number written; the weight's gradient and the sum read 5.5 MB again",
    r"conv\.stem_.*": "three channels in; the gradients of weights and input meet strides of 2 and few channels, so lanes stay idle",
    r"conv\.depthwise_.*": "nine taps a number: loads and shuffles of neighbours, not bytes; training walks three times",
    r"conv\..*_train": "the gradients of weights and input, whose sums run over images, are some way behind the forward pass",
    r"train\.dynamic_tree": "some 170 small operations forward and as many backward, 0.4 µs each, where the limit counts the "
    "program's calls alone",
    r"train\..*": "many small operations beside the products; gradients and Adam's moments in passes of their own",
}


def limit(case: Case, machine: peaks.Peaks) -> tuple[float, str]:
    """Seconds that the case takes at the least, and what sets them."""
    both = case.read + case.written
    level = next((name for name, size in machine.capacity.items() if both <= size), "memory")
    ways = machine.bandwidth[level]
    pairs = min(case.read, case.written)
    times = {
        level: 2 * pairs / ways["copy"]
        + (case.read - pairs) / ways["read"]
        + (case.written - pairs) / ways["write"],
        case.kind: case.work / machine.flops.get(case.kind, machine.flops["float32"]),
        "call": case.calls * machine.call,
    }
    name = max(times, key=times.__getitem__)
    return times[name], name


def once(f: Callable, seconds: float, turns: int, clock: Callable[[], float]) -> float:
    best, stop = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < stop:
        began = clock()
        for _ in range(turns):
            f()
        best = min(best, (clock() - began) / turns)
    return best


def measure(
    case: Case, libraries: list[ModuleType], seconds: float, rounds: int, clock: Callable
) -> list[float]:
    """Least seconds of each library; they take turns, so that a slow moment of the machine hits both."""
    functions = [case.make(t) for t in libraries]
    turns = []
    for f in functions:
        for _ in range(3):
            f()
        n = 1
        while once(f, 0.0001, n, clock) * n < seconds / 20 and n < 1 << 16:
            n *= 2
        turns.append(n)
    best = [math.inf] * len(functions)
    for _ in range(rounds):
        for i, f in enumerate(functions):
            best[i] = min(best[i], once(f, seconds, turns[i], clock))
    return best


def shown(seconds: float) -> str:
    return f"{seconds * 1e6:.2f}" if seconds < 1e-4 else f"{seconds * 1e6:.0f}"


def volume(amount: float) -> str:
    for unit in ("", " k", " M"):
        if amount < 9999.5:
            return f"{amount:.0f}{unit}" if amount >= 100 or not unit else f"{amount:.3g}{unit}"
        amount /= 1000
    return f"{amount:.3g} G"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", default="", help="regular expression on names")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.05, help="a side's time in one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--cpu", action="store_true", help="time on the processor, for busy machines: 1 thread"
    )
    parser.add_argument("--bare", action="store_true", help="without PyTorch")
    o = parser.parse_args()
    names = ["flambeau"] if o.bare else ["flambeau", "torch"]
    libraries = [importlib.import_module(name) for name in names]
    for t in libraries:
        t.set_num_threads(o.threads)
    machine = peaks.measured(o.threads)
    print(machine.table())
    titles = "".join(f" {n}, µs | of limit |" for n in ("flambeau", "PyTorch")[: len(names)])
    print(
        f"\n| case | read, B | written, B | operations | calls | limit, µs | set by |{titles}\n"
        f"|{'---|' * (7 + 2 * len(names))}"
    )
    low: list[tuple[str, float]] = []
    for name, case in CASES.items():
        if not re.search(o.cases, name):
            continue
        least, by = limit(case, machine)
        times = measure(
            case, libraries, o.seconds, o.rounds, time.thread_time if o.cpu else time.perf_counter
        )
        cells = "".join(f" {shown(s)} | {least / s:.2f} |" for s in times)
        print(
            f"| {name} | {volume(case.read)} | {volume(case.written)} | {volume(case.work)} | {case.calls} | "
            f"{shown(least)} | {by} |{cells}",
            flush=True,
        )
        if least / times[0] < 0.5:
            low.append((name, least / times[0]))
    print("\nUnder half the limit:\n\n| case | of limit | cause |\n|---|---|---|")
    for name, part in low:
        cause = next((c for pattern, c in CAUSES.items() if re.fullmatch(pattern, name)), "not yet known")
        print(f"| {name} | {part:.2f} | {cause} |")


if __name__ == "__main__":
    main()
