"""Schedulers of learning rates, their errors, and averages of weights, beside PyTorch's: cases of `parity_optimizers.py`."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from _parity_children import Differ, Row, must, one_line
from _parity_samples import Bridge, near, quietly

KINDS = ("SGD", "AdamW", "Tensor lr")
HALF, WHOLE = 10, 20  # steps before a state is saved, and in all
FLOAT32 = 2e-5, 1e-6


class Scheduler(NamedTuple):
    """One case: the class, what distinguishes it, `make(module, optimizer)`, and whether a step takes a metric."""

    name: str
    label: str
    make: Callable
    metric: bool = False


def plain(name: str, *args: Any, metric: bool = False, **kwargs: Any) -> Scheduler:
    """A scheduler of `optim.lr_scheduler` made with these arguments."""

    def make(lib: Any, optimizer: Any) -> Any:
        return getattr(lib.optim.lr_scheduler, name)(optimizer, *args, **kwargs)

    shown = [repr(a) for a in args] + [f"{k}={v!r}" for k, v in kwargs.items() if "lambda" not in k]
    return Scheduler(name, ", ".join(shown), make, metric)


def sequence(lib: Any, o: Any) -> Any:
    S = lib.optim.lr_scheduler
    return S.SequentialLR(
        o, [S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9), S.StepLR(o, 3, 0.5)], milestones=[4, 9]
    )


def warm_up(lib: Any, o: Any) -> Any:
    S = lib.optim.lr_scheduler
    return S.SequentialLR(o, [S.LinearLR(o, 0.1, 1, 5), S.CosineAnnealingLR(o, 15)], milestones=[5])


def chain(lib: Any, o: Any) -> Any:
    S = lib.optim.lr_scheduler
    return S.ChainedScheduler([S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9)])


def chain_with_optimizer(lib: Any, o: Any) -> Any:
    S = lib.optim.lr_scheduler
    return S.ChainedScheduler([S.StepLR(o, 3, 0.5), S.CosineAnnealingLR(o, 10)], optimizer=o)


def subclass(lib: Any, o: Any) -> Any:
    class Mine(lib.optim.lr_scheduler.LRScheduler):
        def get_lr(self) -> list:
            return [b / (1 + self.last_epoch) for b in self.base_lrs]

    return Mine(o)


def averaged(strategy: str, rate: Any) -> Callable:
    return lambda lib, o: lib.optim.swa_utils.SWALR(o, rate, anneal_epochs=6, anneal_strategy=strategy)


SCHEDULERS = [
    plain("LambdaLR", lr_lambda=lambda e: 0.95**e),
    plain("LambdaLR", lr_lambda=[lambda e: 0.95**e, lambda e: 1 / (1 + e)]),
    plain("MultiplicativeLR", lr_lambda=lambda e: 0.9),
    plain("StepLR", 3),
    plain("StepLR", 4, gamma=0.5, last_epoch=-1),
    plain("MultiStepLR", [2, 5, 5, 9], gamma=0.3),
    plain("ConstantLR"),
    plain("ConstantLR", factor=0.5, total_iters=7),
    plain("LinearLR"),
    plain("LinearLR", start_factor=0.25, end_factor=0.8, total_iters=9),
    plain("ExponentialLR", 0.9),
    plain("CosineAnnealingLR", 7, eta_min=0.001),
    plain("CosineAnnealingLR", 20),
    plain("CosineAnnealingWarmRestarts", 4),
    plain("CosineAnnealingWarmRestarts", 3, T_mult=2, eta_min=0.002),
    plain("PolynomialLR"),
    plain("PolynomialLR", total_iters=12, power=2.0),
    plain("CyclicLR", 0.01, 0.1, step_size_up=4, cycle_momentum=True),
    plain("CyclicLR", 0.01, 0.1, step_size_up=3, step_size_down=5, mode="triangular2", cycle_momentum=False),
    plain("CyclicLR", 0.01, 0.1, step_size_up=3, mode="exp_range", gamma=0.97),
    plain("CyclicLR", 0.01, 0.1, step_size_up=3, scale_fn=lambda x: 0.9**x, scale_mode="iterations"),
    plain("OneCycleLR", 0.1, total_steps=21),
    plain(
        "OneCycleLR",
        max_lr=[0.1, 0.2],
        epochs=3,
        steps_per_epoch=7,
        anneal_strategy="linear",
        three_phase=True,
    ),
    plain("OneCycleLR", 0.1, total_steps=21, cycle_momentum=False, div_factor=10, final_div_factor=100),
    plain("ReduceLROnPlateau", metric=True),
    plain(
        "ReduceLROnPlateau",
        mode="max",
        factor=0.5,
        patience=1,
        threshold=0.1,
        threshold_mode="abs",
        cooldown=2,
        min_lr=[0.001, 0.002],
        metric=True,
    ),
    Scheduler("SequentialLR", "ConstantLR, ExponentialLR, StepLR at 4, 9", sequence),
    Scheduler("SequentialLR", "LinearLR, CosineAnnealingLR at 5", warm_up),
    Scheduler("ChainedScheduler", "ConstantLR, ExponentialLR", chain),
    Scheduler("ChainedScheduler", "with optimizer=", chain_with_optimizer),
    Scheduler("LRScheduler", "a subclass with get_lr", subclass),
    Scheduler("SWALR", "cos", averaged("cos", 0.02)),
    Scheduler("SWALR", "linear", averaged("linear", [0.02, 0.03])),
]


def one_parameter(lib: Any, kind: str, **options: Any) -> Any:
    return getattr(lib.optim, kind)([lib.nn.Parameter(lib.ones(1))], **options)


def beyond_the_end(S: Any, o: Any) -> None:
    scheduler = S.OneCycleLR(o, 0.1, total_steps=3)
    for _ in range(9):
        scheduler.step()


# Calls that PyTorch refuses: `call(optim.lr_scheduler, optimizer, module)`.
REFUSED: dict[str, Callable] = {
    "StepLR of no optimizer": lambda S, o, lib: S.StepLR(3, 1),
    "LambdaLR with 3 functions for 2 groups": lambda S, o, lib: S.LambdaLR(o, [lambda e: 1] * 3),
    "LambdaLR without function": lambda S, o, lib: S.LambdaLR(o, None).step(),
    "ConstantLR factor=2": lambda S, o, lib: S.ConstantLR(o, 2.0),
    "LinearLR start_factor=0": lambda S, o, lib: S.LinearLR(o, 0.0),
    "LinearLR end_factor=2": lambda S, o, lib: S.LinearLR(o, 0.5, 2.0),
    "SequentialLR milestones": lambda S, o, lib: S.SequentialLR(o, [S.StepLR(o, 1)], milestones=[1]),
    "SequentialLR of two optimizers": lambda S, o, lib: S.SequentialLR(
        o, [S.StepLR(o, 1), S.StepLR(one_parameter(lib, "SGD", lr=1.0), 1)], milestones=[1]
    ),
    "ChainedScheduler of none": lambda S, o, lib: S.ChainedScheduler([]),
    "OneCycleLR without steps": lambda S, o, lib: S.OneCycleLR(o, 0.1),
    "OneCycleLR anneal_strategy": lambda S, o, lib: S.OneCycleLR(o, 0.1, total_steps=3, anneal_strategy="x"),
    "OneCycleLR pct_start=2": lambda S, o, lib: S.OneCycleLR(o, 0.1, total_steps=3, pct_start=2.0),
    "OneCycleLR past the end": lambda S, o, lib: beyond_the_end(S, o),
    "CyclicLR mode": lambda S, o, lib: S.CyclicLR(o, 0.1, 0.2, mode="x"),
    "CyclicLR cycle_momentum with no momentum": lambda S, o, lib: S.CyclicLR(
        one_parameter(lib, "Adagrad"), 0.1, 0.2
    ),
    "CosineAnnealingWarmRestarts T_0=0": lambda S, o, lib: S.CosineAnnealingWarmRestarts(o, 0),
    "CosineAnnealingWarmRestarts T_mult=0": lambda S, o, lib: S.CosineAnnealingWarmRestarts(o, 2, 0),
    "ReduceLROnPlateau factor=1": lambda S, o, lib: S.ReduceLROnPlateau(o, factor=1.0),
    "ReduceLROnPlateau mode": lambda S, o, lib: S.ReduceLROnPlateau(o, mode="x"),
    "ReduceLROnPlateau min_lr of 3": lambda S, o, lib: S.ReduceLROnPlateau(o, min_lr=[1, 2, 3]),
    "last_epoch=3 without initial_lr": lambda S, o, lib: S.StepLR(o, 1, last_epoch=3),
    "LRScheduler.get_lr": lambda S, o, lib: S.LRScheduler(o),
}


def optimizer_for(lib: Any, kind: str) -> Any:
    """An optimizer of two groups."""
    ps = [lib.nn.Parameter(lib.ones(2)), lib.nn.Parameter(lib.ones(3))]
    if kind == "Tensor lr":
        groups = [{"params": [p], "lr": lib.tensor(0.05 * (n + 1))} for n, p in enumerate(ps)]
        return lib.optim.SGD(groups, momentum=0.9)
    groups = [{"params": [ps[0]], "lr": 0.05}, {"params": [ps[1]], "lr": 0.1}]
    return lib.optim.SGD(groups, lr=0.1, momentum=0.9) if kind == "SGD" else lib.optim.AdamW(groups, lr=0.1)


def first_rates(optimizer: Any) -> list:
    return [
        [float(g["lr"]), float(g["initial_lr"]) if "initial_lr" in g else None]
        for g in optimizer.param_groups
    ]


def trace(optimizer: Any, scheduler: Any, metric: bool, first: int, last: int) -> list:
    """Rates, momenta and their types after each step."""
    rows = []
    losses = 1.0, 0.9, 0.9, 0.95, 0.8, 0.81, 0.82
    for n in range(first, last):
        optimizer.step()
        scheduler.step(*([losses[n % 7] * (1 + n // 7)] if metric else []))
        rows.append(
            [
                [float(g["lr"]), g.get("momentum"), tuple(g.get("betas", ())), type(g["lr"]).__name__]
                for g in optimizer.param_groups
            ]
            + [[float(v) for v in scheduler.get_last_lr()]]
        )
    return rows


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-6 * max(abs(a), abs(b)) + 1e-12
    return a == b


def compare_state(a: dict, b: dict, what: str = "") -> None:
    keys = [list(map(str, sorted(d, key=str))) for d in (a, b)]
    must(
        keys[0] == keys[1],
        f"state_dict{what}: without {sorted(set(b) - set(a))}, with {sorted(set(a) - set(b))}",
    )
    for k, v in b.items():
        numbers = isinstance(v, (list, tuple)) and all(isinstance(x, (int, float)) for x in v)
        if isinstance(v, dict) and isinstance(a[k], dict):
            compare_state(a[k], v, f"{what}.{k}")
        elif numbers or isinstance(v, (int, float, str, bool, type(None))):
            same = alike(a[k], v) and type(a[k]) is type(v)
            must(same, f"state_dict{what}.{k}: {a[k]!r} is not {v!r}")
        elif isinstance(v, list) and v and isinstance(v[0], dict):
            for n, (p, q) in enumerate(zip(a[k], v)):
                compare_state(p, q, f"{what}.{k}[{n}]")


def carry_state(bridge: Bridge, x: Any) -> Any:
    """A state_dict of PyTorch's for the candidate; mappings such as Counter stay what they are."""
    if isinstance(x, dict):
        made = {k: carry_state(bridge, v) for k, v in x.items()}
        return made if type(x) is dict else type(x)(made)
    return bridge.there(x)


class Run:
    """One library's steps under a scheduler: before and after the state is saved."""

    def __init__(self, lib: Any, kind: str, case: Scheduler) -> None:
        optimizer = optimizer_for(lib, kind)
        scheduler = case.make(lib, optimizer)
        self.first = first_rates(optimizer)
        self.seen = trace(optimizer, scheduler, case.metric, 0, HALF)
        self.state = copy.deepcopy(scheduler.state_dict()), copy.deepcopy(optimizer.state_dict())
        self.rest = trace(optimizer, scheduler, case.metric, HALF, WHOLE)


def resumed(lib: Any, kind: str, case: Scheduler, state: tuple[Any, Any]) -> list:
    """The second half, from a saved state."""
    optimizer = optimizer_for(lib, kind)
    scheduler = case.make(lib, optimizer)
    scheduler.load_state_dict(state[0])
    optimizer.load_state_dict(state[1])
    return trace(optimizer, scheduler, case.metric, HALF, WHOLE)


def refusal(ours: Exception | None, theirs: Exception) -> str | None:
    """How the candidate's refusal differs from PyTorch's; None where it does not."""
    if ours is None:
        return f"no error; PyTorch: {one_line(theirs, 150)}"
    if isinstance(ours, type(theirs)) or type(ours).__name__ == type(theirs).__name__:
        return None
    return f"{one_line(ours, 90)} | PyTorch: {one_line(theirs, 110)}"


def attempt(call: Callable, *args: Any) -> tuple[Any, Exception | None]:
    try:
        return call(*args), None
    except Exception as error:
        return None, error


def run_scheduler(torch: Any, lib: Any, case: Scheduler) -> Row:
    bridge = Bridge(lib)
    row: Row = {"name": f"{case.name}({case.label})", "cases": 0, "passed": 0, "causes": {}}
    home = "swa_utils" if case.name == "SWALR" else "lr_scheduler"
    theirs_kind = getattr(getattr(torch.optim, home), case.name)
    ours_kind = getattr(getattr(lib.optim, home, None), case.name, None)
    if ours_kind is None:
        return {**row, "missing": True}

    def note(stage: str, where: str, error: Exception | str) -> None:
        text = one_line(str(error) if isinstance(error, Differ) else error)
        row["causes"].setdefault(stage, []).append([text, where])

    want, have = (list(inspect.signature(k.__init__).parameters) for k in (theirs_kind, ours_kind))
    if want != have:
        note("signature", "", f"({', '.join(have[1:])}) is not ({', '.join(want[1:])})")
    for kind in KINDS:
        row["cases"] += 1
        before = sum(map(len, row["causes"].values()))
        theirs, refused = attempt(Run, torch, kind, case)
        ours, error = attempt(Run, lib, kind, case)
        if refused is not None:
            if (how := refusal(error, refused)) is not None:
                note("refusal", kind, how)
        elif error is not None:
            note("run", kind, error)
        else:
            for stage, error in compare_runs(torch, lib, bridge, case, kind, ours, theirs):
                note(stage, kind, error)
        row["passed"] += before == sum(map(len, row["causes"].values()))
    return row


def compare_runs(
    torch: Any, lib: Any, bridge: Bridge, case: Scheduler, kind: str, ours: Run, theirs: Run
) -> list:
    """(stage, error) of each stage that differs."""

    def rates() -> None:
        must(alike(ours.first, theirs.first), f"at first {ours.first}, not {theirs.first}")
        for n, (a, b) in enumerate(zip(ours.seen + ours.rest, theirs.seen + theirs.rest)):
            must(alike(a, b), f"step {n + 1}: {a} is not {b}")

    def resume(state: tuple) -> None:
        again = resumed(lib, kind, case, state)
        must(alike(again, theirs.rest), f"after loading: {again[0]} is not {theirs.rest[0]}")

    stages: dict[str, Callable] = {
        "rates": rates,
        "state": lambda: compare_state(ours.state[0], theirs.state[0]),
        "resume": lambda: resume(ours.state),
    }
    if kind != "Tensor lr":  # PyTorch itself must manage it for the candidate to be held to it
        again, _ = attempt(resumed, torch, kind, case, copy.deepcopy(theirs.state))
        if again is not None and alike(again, theirs.rest):
            stages["resume from PyTorch's state"] = lambda: resume(
                (carry_state(bridge, theirs.state[0]), carry_state(bridge, theirs.state[1]))
            )
    return [(stage, error) for stage, call in stages.items() if (error := attempt(call)[1]) is not None]


def run_refused(torch: Any, lib: Any) -> Row:
    """The errors of schedulers."""
    row: Row = {"name": "errors of schedulers", "cases": 0, "passed": 0, "causes": {}}
    for name, call in REFUSED.items():
        theirs, ours = (
            attempt(quietly, call, side.optim.lr_scheduler, optimizer_for(side, "SGD"), side)[1]
            for side in (torch, lib)
        )
        if theirs is None:
            continue
        row["cases"] += 1
        how = refusal(ours, theirs)
        row["passed"] += how is None
        if how is not None:
            row["causes"].setdefault("errors", []).append([how, name])
    return row


AVERAGES: dict[str, Callable] = {
    "mean": lambda s: {},
    "ema": lambda s: {"multi_avg_fn": s.get_ema_multi_avg_fn(0.9)},
    "ema_fn": lambda s: {"avg_fn": s.get_ema_avg_fn(0.9)},
    "swa": lambda s: {"multi_avg_fn": s.get_swa_multi_avg_fn()},
    "swa_fn": lambda s: {"avg_fn": s.get_swa_avg_fn()},
    "buffers": lambda s: {"use_buffers": True},
}


def averaged_weights(torch: Any, bridge: Bridge, side: Any, how: str) -> dict:
    """The averages' state after five steps of a small network and `update_bn`."""
    utils, mine = side.optim.swa_utils, side is not torch
    carry = bridge.there if mine else lambda t: t

    def network(module: Any) -> Any:
        return module.nn.Sequential(module.nn.Linear(4, 3), module.nn.BatchNorm1d(3), module.nn.Linear(3, 2))

    g = torch.Generator().manual_seed(5)
    data = [torch.randn(6, 4, generator=g) for _ in range(5)]
    g.manual_seed(6)
    values = {
        k: torch.randn(v.shape, generator=g) if v.is_floating_point() else v
        for k, v in network(torch).state_dict().items()
    }
    model = network(side)
    model.load_state_dict({k: carry(v.abs() if "var" in k else v) for k, v in values.items()})
    optimizer = side.optim.SGD(model.parameters(), lr=0.1)
    average = utils.AveragedModel(model, **AVERAGES[how](utils))
    for x in data:
        optimizer.zero_grad()
        (model(carry(x)) ** 2).mean().backward()
        optimizer.step()
        average.update_parameters(model)
    utils.update_bn([carry(x) for x in data], average)
    return {k: bridge.back(v) if mine else v for k, v in average.state_dict().items()}


def run_averages(torch: Any, lib: Any) -> Row:
    """`optim.swa_utils`."""
    bridge = Bridge(lib)
    row: Row = {"name": "swa_utils", "cases": 0, "passed": 0, "causes": {}}
    home, names = getattr(lib.optim, "swa_utils", None), torch.optim.swa_utils.__all__
    if home is None:
        return {
            **row,
            "missing": True,
            "causes": {"missing": [[f"no optim.swa_utils ({', '.join(names)})", ""]]},
        }
    if lacking := [n for n in names if not hasattr(home, n)]:
        row["causes"]["missing"] = [[f"swa_utils lacks {', '.join(lacking)}", ""]]

    def compare(how: str) -> None:
        a, b = (averaged_weights(torch, bridge, side, how) for side in (lib, torch))
        must(list(a) == list(b), f"{list(a)} is not {list(b)}")
        for k in b:
            near(torch, a[k], b[k], k, FLOAT32)

    for how in AVERAGES:
        row["cases"] += 1
        error = attempt(compare, how)[1]
        row["passed"] += error is None
        if error is not None:
            row["causes"].setdefault(how, []).append([one_line(error), ""])
    return row
