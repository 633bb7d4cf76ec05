"""Random functions of Python (control flow, closures, state, views, writes, gradients) compiled and eager, on calls that change.

python random_functions.py [--functions N] [--seed N] [--memory]

Each is drawn as text and defined twice, so that the compiled one and the eager one have objects of their own; both get the same calls,
with other sizes, numbers, dtypes, gradients and states from call to call.
"""

from __future__ import annotations

import argparse
import linecache
import logging
import resource
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau
from flambeau.utils.checkpoint import checkpoint

WIDTH = 4  # of rows; their number changes
UNARY = [
    "{x}.sin()",
    "{x}.tanh()",
    "{x}.sigmoid()",
    "-{x}",
    "{x} * {c}",
    "{x} + {c}",
    "{x}.abs()",
    "F.gelu({x})",
    "{x}.relu()",
]
BINARY = [
    "{x} + {y}",
    "{x} * {y}",
    "{x} - {y}",
    "torch.maximum({x}, {y})",
    "torch.where({x} > {y}, {x}, {y})",
]


class Function:
    """The text of a function, drawn: of `a` and `b`, shaped (rows, WIDTH), and of numbers `k` and `flag`."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.values = {"matrix": ["a", "b"], "row": ["weight"], "column": [], "scalar": []}
        self.lines: list[str] = []
        self.count = 0
        for _ in range(self.pick(range(3, 12))):
            self.statement()
        kept = [n for names in self.values.values() for n in names if n != "weight"]
        shown = ", ".join(dict.fromkeys([self.values["matrix"][-1], *self.random.choice(kept, 2)]))
        form = self.pick(["({},)", "[{}]", "{{'all': ({},)}}", "({}, k, flag)"])
        self.lines.append(f"    return {form.format(shown)}")
        self.text = "\n".join(["def function(a, b, k, flag=True):", *self.lines, ""])

    def pick(self, options: Any) -> Any:
        return options[int(self.random.integers(len(options)))]

    def new(self, kind: str, text: str, indent: str = "    ") -> str:
        self.count += 1
        name = f"v{self.count}"
        self.lines.append(f"{indent}{name} = {text}")
        self.values[kind].append(name)
        return name

    def any(self, kind: str = "matrix") -> str:
        return self.pick(self.values[kind])

    def expression(self, x: str | None = None) -> str:
        """Of the shape of a matrix."""
        x = x or self.any()
        number = str(self.pick([0.5, 1.5, -1.0, 2, "k", "state['scale']", "thing.factor"]))
        if self.random.random() < 0.5:
            return self.pick(UNARY).format(x=x, c=number)
        others = [*self.values["matrix"], *self.values["row"], *self.values["scalar"]]
        others += [f"{c}[:, None]" for c in self.values["column"]]
        return self.pick(BINARY).format(x=x, y=self.pick(others))

    def statement(self) -> None:
        self.pick(
            [
                self.compute, self.compute, self.compute, self.reduce, self.view, self.write, self.branch, self.loop,
                self.collect, self.close_over, self.state, self.module, self.differentiate, self.draw, self.by_value, self.rare,
                self.seldom,
            ]
        )()  # fmt: skip

    def compute(self) -> None:
        self.new("matrix", self.expression())

    def reduce(self) -> None:
        x = self.any()
        kind, text = self.pick(
            [
                ("row", "{x}.sum(0)"), ("column", "{x}.mean(1)"), ("scalar", "{x}.sum()"), ("matrix", "{x}.softmax(-1)"),
                ("matrix", "{x}.cumsum(0)"), ("column", "{x}.amax(1)"), ("matrix", "F.layer_norm({x}, (4,), weight)"),
                ("row", "{x}.var(0, unbiased=False)"), ("matrix", "{x} / ({x}.square().sum(1, keepdim=True) + 1)"),
            ]
        )  # fmt: skip
        self.new(kind, text.format(x=x))

    def view(self) -> None:
        x, y = self.any(), self.any()
        kind, text = self.pick(
            [
                ("matrix", "{x}.T.contiguous().T"), ("row", "{x}[0]"), ("column", "{x}[:, 1]"), ("matrix", "{x}.flip(0)"),
                ("matrix", "torch.cat([{x}, {y}])[::2]"), ("matrix", "{x}.reshape(-1).view({x}.shape)"),
                ("matrix", "torch.stack([{x}, {y}]).sum(0)"), ("matrix", "({x} @ {y}.T).softmax(1) @ {x}"),
                ("matrix", "torch.cat({x}.chunk(2, 1)[::-1], 1)"), ("matrix", "{x}.double().to(a.dtype)"),
            ]
        )  # fmt: skip
        self.new(kind, text.format(x=x, y=y))

    def write(self) -> None:
        if self.random.random() < 0.15:
            self.lines.append(f"    b.{self.pick(['mul_(0.5)', 'add_(1)', 'clamp_(-1, 1)'])}")
            return
        name = self.new("matrix", f"{self.any()} * 1")
        self.lines.append(
            "    "
            + self.pick(
                [
                    "{n}[0] = 0.5",
                    "{n}.mul_(2)",
                    "{n}[:, 1].add_(1)",
                    "{n} += 1",
                    "{n}.masked_fill_({n} > 1, 0.0)",
                    "{n}[1:] *= {n}[:1]",
                ]
            ).format(n=name)
        )

    def branch(self) -> None:
        test = self.pick(
            [
                "k > 2",
                "flag",
                "a.shape[0] > 3",
                "a.dtype == torch.float32",
                "a.requires_grad",
                "torch.is_grad_enabled()",
            ]
        )
        self.lines.append(f"    if {test}:")
        self.count += 1
        name = f"v{self.count}"
        one, other = self.expression(), self.expression()
        self.lines += [f"        {name} = {one}", "    else:", f"        {name} = {other}"]
        self.values["matrix"].append(name)

    def loop(self) -> None:
        name = self.new("matrix", self.any())
        head = self.pick(["for i in range(k):", "for i, _ in enumerate([1, 2]):", "for i in (0.5, 0.25):"])
        self.lines += [f"    {head}", f"        {name} = ({self.expression(name)}).tanh() + i"]
        if self.random.random() < 0.3:
            self.lines += ["        if i == 1:", f"            {self.pick(['break', 'continue'])}"]

    def collect(self) -> None:
        x, y = self.any(), self.any()
        self.new(
            "matrix",
            self.pick(
                [
                    "sum([{x} * j for j in range(1, k + 1)], {y})",
                    "{{'p': {x}, 'q': {y}}}['p'] + 1",
                    "[{x}, {y}][::-1][0] * 2",
                    "(lambda u, *v, **w: u + v[0] * w['by'])({x}, {y}, by=0.5)",
                    "max([{x}, {y}], key=lambda t: t.shape[0]) + k",
                ]
            ).format(x=x, y=y),
        )

    def close_over(self) -> None:
        inner, held = f"inner{self.count}", self.any()
        self.lines += [
            f"    def {inner}(z, by=0.5):",
            f"        return ({self.expression('z')}) * by + {held}",
        ]
        self.new("matrix", f"{inner}({self.any()})")

    def state(self) -> None:
        read = self.pick(["thing.factor", "len(items)", "state.get('missing', 2.0)", "items[-1]"])
        self.new("matrix", f"{self.any()} * {read}")
        if self.random.random() < 0.1:
            writes = [
                "thing.calls += 1",
                "state['seen'] = k",
                "items.append(k)",
                "local = [k]; local.append(2)",
            ]
            self.lines.append(f"    {self.pick(writes)}")

    def module(self) -> None:
        self.new("matrix", f"{self.pick(['net', 'deep'])}({self.any()}.to(weight.dtype)).to(a.dtype)")

    def differentiate(self) -> None:
        if self.random.random() < 0.7:
            return
        z = self.new("matrix", f"{self.any()}.detach().requires_grad_()")
        self.lines.append("    with torch.enable_grad():")
        self.lines.append(f"        s{self.count} = ({self.expression(z)} + {z}.sin()).sum()")
        self.new("matrix", f"torch.autograd.grad(s{self.count}, {z})[0]")

    def draw(self) -> None:
        self.new(
            "matrix",
            self.pick(
                ["F.dropout({x}, 0.5)", "{x} + torch.rand_like({x})", "{x} * torch.randn({x}.shape)"]
            ).format(x=self.any()),
        )

    def by_value(self) -> None:
        if self.random.random() < 0.3:
            self.lines.append(f"    if {self.any()}.sum() > 0:")
            self.lines.append(f"        a = {self.expression('a')}")

    def seldom(self) -> None:
        kind = self.pick(["number", "direction", "checkpoint", "linear"])
        x, y = self.any(), self.any()
        if kind == "number":
            number = self.pick(["mean().item()", "sum().tanh().item()", "amax().item()"])
            self.lines.append(f"    n{self.count} = float({x}.detach().{number})")
            use = self.pick(
                ["* {n}", "+ ({n} * 0.5 - 1)", "- abs({n})", "* max({n}, 0.25)", "* torch.ones(4) * {n}"]
            )
            self.new("matrix", f"{y}.detach() {use.format(n=f'n{self.count}')}")
        elif kind == "direction":
            inner = self.expression("z")
            self.new("matrix", f"torch.func.jvp(lambda z: {inner}, ({x},), ({y}.to({x}.dtype),))[1]")
        elif kind == "linear":
            inner = self.expression("z")
            self.new("matrix", f"torch.func.linearize(lambda z: ({inner}).sin(), {x})[1]({y}.to({x}.dtype))")
        else:
            inner = self.pick(
                [
                    self.expression("z"),
                    "F.dropout(z.exp().sin(), 0.5)",
                    "net(z.to(weight.dtype)).tanh().to(a.dtype)",
                ]
            )
            self.new("matrix", f"checkpoint(lambda z: ({inner}).tanh() * z, {x}, use_reentrant=False)")

    def rare(self) -> None:
        x = self.any()
        kind = self.pick(["try", "with", "walrus", "unpack", "assert", "global", "sort"])
        if kind == "try":
            self.lines += [
                "    try:",
                "        if k > 1:",
                "            raise ValueError(k)",
                f"        t = {x} + 1",
            ]
            self.lines += ["    except ValueError as error:", f"        t = {x} * error.args[0]"]
            self.new("matrix", "t")
        elif kind == "with":
            self.lines += ["    with torch.no_grad():", f"        t = {x}.exp().clamp(max=3)"]
            self.new("matrix", "t")
        elif kind == "walrus":
            self.new("matrix", f"(t := {x} + 1) * t")
        elif kind == "unpack":
            self.lines.append(f"    t, *rest = [{x}, {self.any()}, {self.any()}]")
            self.new("matrix", "t - rest[-1]")
        elif kind == "assert":
            self.lines.append(f"    assert {x}.ndim == 2, f'{{k}}'")
        elif kind == "global":
            self.new("matrix", f"{x} * scale_of(k)")
        else:
            self.new("matrix", f"{x}.sort(0).values + {x}.argmax(1)[:, None]")

    def defined(self) -> dict[str, Any]:
        """The function in a namespace of its own, with the state that it reads."""
        flambeau.manual_seed(0)
        n = flambeau.nn
        names: dict[str, Any] = {
            "torch": flambeau,
            "F": n.functional,
            "checkpoint": checkpoint,
            "weight": flambeau.linspace(0.5, 1.5, WIDTH),
            "net": n.Linear(WIDTH, WIDTH),
            "deep": n.Sequential(n.Linear(WIDTH, 6), n.LayerNorm(6), n.GELU(), n.Linear(6, WIDTH)),
            "state": {"scale": 1.25},
            "thing": Thing(),
            "items": [1.0, 2.0],
            "scale_of": lambda k: 0.5 * k,
        }
        name = f"<function {id(self)}>"
        linecache.cache[name] = (len(self.text), None, self.text.splitlines(True), name)
        exec(compile(self.text, name, "exec"), names)
        return names


class Thing:
    """An object that functions read and write."""

    def __init__(self) -> None:
        self.factor, self.calls = 0.75, 0


def call(names: dict[str, Any], function: Callable[..., Any], seed: int) -> tuple[Any, ...]:
    """What a call, and a backward pass through it, give and leave, as arrays and plain values."""
    random = np.random.default_rng(seed)
    rows, k = int(random.choice([3, 3, 3, 5])), int(random.choice([2, 2, 2, 1, 3]))
    dtype = flambeau.float64 if random.random() < 0.15 else flambeau.float32
    a, b = (flambeau.tensor(random.uniform(-1, 1, (rows, WIDTH))).to(dtype) for _ in range(2))
    a.requires_grad_(bool(random.random() < 0.3))
    names["state"]["scale"] = float(random.choice([1.25, 1.25, 0.75]))
    names["thing"].factor = float(random.choice([0.75, 0.75, 0.5]))
    given = {} if random.random() < 0.7 else {"flag": bool(random.random() < 0.5)}
    names["net"].requires_grad_(bool(random.random() < 0.7))
    flambeau.manual_seed(seed)
    leaves = [a, *names["net"].parameters(), *names["deep"].parameters()]
    for t in leaves:
        t.grad = None
    try:
        with flambeau.set_grad_enabled(bool(random.random() < 0.7)):
            result = function(a, b, k, **given)
        tensors = flat(result)
        lossy = [t for t in tensors if isinstance(t, flambeau.Tensor) and t.requires_grad]
        if lossy:
            sum(t.double().sin().sum() for t in lossy).backward()
    except (RuntimeError, ValueError, IndexError) as error:
        return (type(error).__name__,)
    kept = [names["state"], vars(names["thing"]), names["items"]]
    seen = [*tensors, a, b, *(t.grad for t in leaves), flambeau.rand(1)]
    return (structure(result), repr(kept), *seen)


def flat(x: Any) -> list[Any]:
    if isinstance(x, dict):
        x = list(x.values())
    return [t for y in x for t in flat(y)] if isinstance(x, (list, tuple)) else [x]


def structure(x: Any) -> str:
    if isinstance(x, dict):
        return repr({key: structure(y) for key, y in x.items()})
    if isinstance(x, (list, tuple)):
        return f"{type(x).__name__}({', '.join(map(structure, x))})"
    return (
        f"{x.dtype}{list(x.shape)}{x.stride()}{x.requires_grad}"
        if isinstance(x, flambeau.Tensor)
        else repr(x)
    )


def differ(a: Any, b: Any) -> bool:
    if isinstance(a, flambeau.Tensor) and isinstance(b, flambeau.Tensor):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return True
        a, b = a.detach().double().numpy(), b.detach().double().numpy()
        most = max(1.0, float(np.nanmax(np.abs(b), initial=0.0, where=np.isfinite(b))))
        return not np.allclose(a, b, rtol=1e-4, atol=1e-4 * most, equal_nan=True)
    return bool(a != b) if type(a) is type(b) else True


def difference(seed: int, compile: Callable[..., Any] = flambeau.compile, calls: int = 6) -> str | None:
    """What is wrong with one function, compiled; None for nothing."""
    drawn = Function(seed)
    eager, ours = drawn.defined(), drawn.defined()
    compiled = compile(ours["function"])
    for k in range(calls):
        number = seed * 100 + k
        expected = call(eager, eager["function"], number)
        found = call(ours, compiled, number)
        for place, (x, y) in enumerate(zip(found, expected, strict=False)):
            if differ(x, y):
                return f"seed {seed}, call {k}, place {place}:\n{x}\nnot\n{y}\n{drawn.text}"
        if len(found) != len(expected):
            return f"seed {seed}, call {k}: {found[:1]}, not {expected[:1]}\n{drawn.text}"
    for names in (eager, ours):
        linecache.cache.pop(names["function"].__code__.co_filename, None)
    return None


class Unplanned(logging.Handler):
    """Counts what is captured and not planned, which is a mistake of the compiler that costs speed alone."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.count += 1
            print(record.getMessage(), flush=True)


def main() -> None:
    """Try functions; print those that differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--functions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--memory", action="store_true", help="print the peak of resident memory now and then"
    )
    given = parser.parse_args()
    wrong, unplanned = 0, Unplanned()
    logging.getLogger("flambeau.graph").addHandler(unplanned)
    logging.getLogger("flambeau.graph").propagate = False
    for number in range(given.functions):
        try:
            found = difference(given.seed + number)
        except Exception as error:
            found = f"seed {given.seed + number}: {type(error).__name__}: {error}"
        if found is not None:
            wrong += 1
            print(found, flush=True)
        if given.memory and number % 200 == 199:
            print(
                f"{number + 1}: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB", flush=True
            )
    print(f"{given.functions} functions, {wrong} wrong, {unplanned.count} captures not planned")


if __name__ == "__main__":
    main()
