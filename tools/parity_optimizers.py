"""Compare optimizers and learning-rate schedulers with PyTorch's.

    python tools/parity_optimizers.py                    # all
    python tools/parity_optimizers.py --only 'Adam' -v
    python tools/parity_optimizers.py --json optimizers.json

Optimizers: PyTorch's own records (15), every configuration of each, with foreach, fused, differentiable and capturable added; 10 steps
on one small problem.  Compared are the parameters after each step, keys, types and values of state_dict, a run that goes on from
flambeau's and from PyTorch's state, deepcopy and pickle, hooks, and the error inputs of the record.  Further configurations: parameter
groups with options of their own, named parameters, lr as a tensor, a parameter without gradient, complex parameters, closures.
Schedulers: 20 steps; rates and momenta of each group, get_last_lr, state_dict and runs that go on from it, errors.
Averages: optim.swa_utils.

Needs PyTorch: pip install ".[parity]".
"""

from __future__ import annotations

import argparse
import copy
import inspect
import pickle
import re
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import _parity_schedulers as schedulers
from _parity_children import Differ, Row, drive, must, one_line, parser_for, require_torch, serve, write_json
from _parity_samples import Bridge, brief, near, quietly
from _parity_schedulers import attempt, carry_state, refusal

STEPS = 10
HALF = STEPS // 2
TOLERANCES = {"float32": (2e-5, 1e-6), "float64": (1e-9, 1e-11), "complex64": (2e-5, 1e-6)}
CAUSES = 8  # most causes that a stage notes


class Several(Exception):
    """More than one difference: args[0] lists them."""


def numbers(torch: Any, dtype: str, bias: bool, unused: bool) -> tuple[dict, Any, Any]:
    """The problem: parameters, inputs and targets of a linear fit."""
    g, d = torch.Generator().manual_seed(3), getattr(torch, dtype)
    shapes = (4, 3), (3,), (8, 4), (8, 3)
    weight, b, x, y = (torch.randn(shape, generator=g, dtype=d) for shape in shapes)
    params = {"weight": weight}
    if bias:
        params["bias"] = b
    if unused:
        params["unused"] = torch.ones(2, dtype=d)
    return params, x, y


class Side:
    """One library's copy of the problem."""

    def __init__(
        self, bridge: Bridge, mine: bool, dtype: str, bias: bool = True, unused: bool = False
    ) -> None:
        self.bridge, self.mine = bridge, mine
        self.lib = bridge.lib if mine else bridge.torch
        params, x, y = numbers(bridge.torch, dtype, bias, unused)
        carry = bridge.there if mine else (lambda t: t.clone())
        self.params = {k: self.lib.nn.Parameter(carry(v)) for k, v in params.items()}
        self.x, self.y = carry(x), carry(y)

    def loss(self, sparse: bool) -> Any:
        """A squared loss with a cubic term; with `sparse`, the squares of some rows."""
        params = self.params
        if sparse:
            places = self.lib.tensor([0, 2, 2])
            rows = self.lib.nn.functional.embedding(places, params["weight"], sparse=True)
            return (rows * rows).sum()
        out = self.x @ params["weight"]
        if "bias" in params:
            out = out + params["bias"]
        gap = out - self.y
        gap = gap.abs() if gap.is_complex() else gap
        return (gap * gap).mean() + 0.05 * (gap * gap * gap.abs()).mean()

    def groups(self, how: str) -> list:
        if how == "named":
            return list(self.params.items())
        first, *rest = self.params.values()
        if how == "groups":
            return [{"params": [first], "lr": 0.02}, {"params": rest, "weight_decay": 0.01}]
        return [first, *rest]

    def step(self, optimizer: Any, closure: bool, sparse: bool) -> Any:
        def run() -> Any:
            optimizer.zero_grad()
            loss = self.loss(sparse)
            loss.backward()
            return loss

        if closure:
            return optimizer.step(run)
        run()
        return optimizer.step()

    def values(self) -> dict:
        """PyTorch's copies of the parameters."""
        return {k: (self.bridge.back(p) if self.mine else p).detach().clone() for k, p in self.params.items()}


def compare_entry(bridge: Bridge, a: Any, b: Any, what: str, dtype: str) -> None:
    """One entry of a state: a tensor, a number, or a structure of them."""
    torch, lib = bridge.torch, bridge.lib
    if isinstance(b, torch.Tensor):
        must(isinstance(a, lib.Tensor), f"{what}: {type(a).__name__} is not a Tensor")
        dense = b.detach() if b.layout is torch.strided else b.detach().to_dense()
        near(torch, bridge.back(a), dense, what, TOLERANCES[dtype])
    elif isinstance(b, (list, tuple)):
        must(type(a) is type(b) and len(a) == len(b), f"{what}: {a!r} is not {b!r}")
        for k, (p, q) in enumerate(zip(a, b)):
            compare_entry(bridge, p, q, f"{what}[{k}]", dtype)
    elif isinstance(b, dict):
        keys = list(a) if isinstance(a, dict) else a
        must(keys == list(b), f"{what}: keys {keys} are not {list(b)}")
        for k in b:
            compare_entry(bridge, a[k], b[k], f"{what}.{k}", dtype)
    elif isinstance(b, float):
        near_enough = isinstance(a, (int, float)) and (
            a == b or abs(a - b) <= TOLERANCES[dtype][0] * max(abs(a), abs(b)) + 1e-12
        )
        must(near_enough, f"{what}: {a!r} is not {b!r}")
    elif b is None or isinstance(b, (int, bool, str)):
        must(a == b and type(a) is type(b), f"{what}: {a!r} is not {b!r}")


def same_keys(what: str, a: Any, b: Any) -> None:
    must(sorted(a) == sorted(b), f"{what}: without {sorted(set(b) - set(a))}, with {sorted(set(a) - set(b))}")


def compare_state(bridge: Bridge, ours: dict, theirs: dict, dtype: str) -> None:
    """Two state_dicts; Several where entries differ."""
    must(list(ours) == list(theirs), f"state_dict has {list(ours)}, not {list(theirs)}")
    must(len(ours["param_groups"]) == len(theirs["param_groups"]), "number of param_groups")
    for n, (a, b) in enumerate(zip(ours["param_groups"], theirs["param_groups"])):
        same_keys("param_groups keys", a, b)
        for k in b:
            compare_entry(bridge, a[k], b[k], f"param_groups[{n}].{k}", dtype)
    places = list(ours["state"]), list(theirs["state"])
    must(places[0] == places[1], f"state of {places[0]}, not of {places[1]}")
    messages: dict[str, None] = {}
    for n in theirs["state"]:
        a, b = ours["state"][n], theirs["state"][n]
        same_keys("state keys", a, b)
        for k in b:
            try:
                compare_entry(bridge, a[k], b[k], f"state[].{k}", dtype)
            except Differ as error:
                messages[str(error)] = None
    if messages:
        raise Several(list(messages))


def configurations(torch: Any, info: Any) -> list[tuple[str, dict, dict]]:
    """(name, keyword arguments, options of the run) of one record."""
    from torch.testing._internal.common_optimizers import (
        _get_optim_inputs_including_global_cliquey_kwargs as with_flags,
    )

    made: dict[tuple[str, str], tuple] = {}

    def add(name: str, kwargs: dict, **options: Any) -> None:
        made.setdefault((repr(kwargs), repr(options)), (name, kwargs, options))

    for i in [*info.optim_inputs_func(device="cpu"), *with_flags("cpu", torch.float32, info)]:
        add(i.desc, i.kwargs)
    names = inspect.signature(info.optim_cls.__init__).parameters
    if "capturable" in names:
        add("capturable", {"capturable": True})
    if "maximize" in names:
        add("maximize", {"maximize": True})
    if "lr" in names and info.name != "Adafactor":
        add("lr a tensor", {"lr": torch.tensor(0.01)})
        add("lr a tensor of one element", {"lr": torch.tensor([0.01])})
    if "weight_decay" in names and info.supports_param_groups:
        add("groups with options", {}, how="groups")
    add("named parameters", {}, how="named")
    add("a parameter without gradient", {}, unused=True)
    if not info.step_requires_closure:
        add("with closure", {}, closure=True)
    if info.supports_complex:
        add("complex parameters", {}, dtype="complex64")
    return list(made.values())


class Record:
    """One optimizer of PyTorch's records: its cases, and what differs by stage."""

    def __init__(self, torch: Any, lib: Any, info: Any) -> None:
        self.torch, self.lib, self.info = torch, lib, info
        self.bridge = Bridge(lib)
        self.ours_kind = getattr(lib.optim, info.name, None)
        self.causes: dict[str, list] = {}
        self.failed: Counter[str] = Counter()

    def note(self, stage: str, where: str, error: Exception | str) -> None:
        self.failed[stage] += 1
        known = self.causes.setdefault(stage, [])
        for one in error.args[0] if isinstance(error, Several) else [error]:
            text = one_line(str(one) if isinstance(one, Differ) else one)
            if text not in [k[0] for k in known] and len(known) < CAUSES:
                known.append([text, where])

    def run(self) -> Row:
        torch, info = self.torch, self.info
        row: Row = {"name": info.name, "cases": 0, "passed": 0, "causes": self.causes, "failed": self.failed}
        chosen = configurations(torch, info)
        if self.ours_kind is None:
            return {**row, "missing": True, "configurations": len(chosen)}
        want, have = (
            list(inspect.signature(k.__init__).parameters) for k in (info.optim_cls, self.ours_kind)
        )
        if want != have:
            self.note("signature", "", f"({', '.join(have[1:])}) is not ({', '.join(want[1:])})")
        for name, kwargs, options in chosen:
            for dtype in [options["dtype"]] if "dtype" in options else ["float32", "float64"]:
                where = f"{name} {dtype} " + " ".join(f"{k}={brief(torch, v)}" for k, v in kwargs.items())
                if info.name == "LBFGS" and options.get("how") == "groups":
                    continue
                case = Case(self, kwargs, options, dtype, where)
                passed = case.differentiable() if kwargs.get("differentiable") else case.run()
                row["cases"] += passed is not None
                row["passed"] += bool(passed)
        if info.optim_error_inputs_func is not None:
            row["error_inputs"] = self.compare_errors()
        return row

    def compare_errors(self) -> list[int]:
        """How many error inputs raise PyTorch's class, of how many."""
        tried = failed = 0
        for case in self.info.optim_error_inputs_func(device="cpu", dtype=self.torch.float32):
            i = case.optimizer_error_input
            theirs = attempt(self.error_step, i, False)[1]
            if theirs is None:
                continue
            ours = attempt(self.error_step, i, True)[1]
            tried += 1
            if (how := refusal(ours, theirs)) is not None:
                failed += 1
                self.note("errors", i.desc, Differ(how))
        return [tried - failed, tried]

    def error_step(self, i: Any, mine: bool) -> None:
        """Makes and steps an optimizer of one side; raises what it raises, warnings included."""
        if i.params is None:
            params: Any = list(Side(self.bridge, mine, "float32", self.info.name != "Muon").params.values())
        else:
            params = carry_parameters(self.bridge, i.params, {}) if mine else i.params
        kind, kwargs = (
            (self.ours_kind, self.bridge.there(i.kwargs)) if mine else (self.info.optim_cls, i.kwargs)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kind(params, **kwargs).step()


def carry_sparse(bridge: Bridge, t: Any) -> Any:
    """A tensor for the candidate, one in coordinates included."""
    if t.layout is not bridge.torch.sparse_coo:
        return bridge.there(t)
    t = t.coalesce()
    return bridge.lib.sparse_coo_tensor(bridge.there(t.indices()), bridge.there(t.values()), tuple(t.shape))


def carry_parameters(bridge: Bridge, params: Any, known: dict) -> Any:
    """Parameters with their gradients; one that is listed twice stays one."""
    if isinstance(params, bridge.torch.Tensor):
        if id(params) not in known:
            t = carry_sparse(bridge, params.detach())
            is_parameter = isinstance(params, bridge.torch.nn.Parameter)
            made = bridge.lib.nn.Parameter(t) if is_parameter else t.requires_grad_(params.requires_grad)
            if params.grad is not None:
                made.grad = bridge.there(params.grad.detach())
            known[id(params)] = made
        return known[id(params)]
    if isinstance(params, (list, tuple)):
        return type(params)(carry_parameters(bridge, p, known) for p in params)
    if isinstance(params, dict):
        return {k: carry_parameters(bridge, v, known) for k, v in params.items()}
    return params


def copy_options(torch: Any, kwargs: dict) -> dict:
    """Keyword arguments with tensors of their own."""

    def fresh(v: Any) -> Any:
        if isinstance(v, tuple):
            return tuple(map(fresh, v))
        return v.clone() if isinstance(v, torch.Tensor) else v

    return {k: fresh(v) for k, v in kwargs.items()}


class Case:
    """One configuration of an optimizer in one dtype."""

    def __init__(self, record: Record, kwargs: dict, options: dict, dtype: str, where: str) -> None:
        self.record, self.bridge, self.info = record, record.bridge, record.info
        self.torch, self.lib = record.torch, record.lib
        self.kwargs, self.dtype, self.where = kwargs, dtype, where
        info = self.info
        bias = info.name != "Muon" and not info.only_supports_sparse_grads
        self.shape = {"bias": bias, "unused": options.get("unused", False)}
        self.how = options.get("how", "list")
        if self.how == "groups" and not bias:
            self.how, self.shape["unused"] = "list", False
        self.closure = info.step_requires_closure or options.get("closure", False)
        self.sparse = info.only_supports_sparse_grads
        args = [x for v in kwargs.values() for x in (v if isinstance(v, tuple) else (v,))]
        narrow = any(isinstance(x, self.torch.Tensor) and x.dtype == self.torch.float32 for x in args)
        # PyTorch rounds the size of a step to the dtype of such an option
        self.close_as = "float32" if dtype == "float64" and narrow else dtype
        self.good = True

    def stage(self, name: str, call: Callable, *args: Any) -> None:
        error = attempt(call, *args)[1]
        if error is not None:
            self.good = False
            self.record.note(name, self.where, error)

    def optimizer(self, side: Side) -> Any:
        kwargs = copy_options(self.torch, self.kwargs)
        kind = self.record.ours_kind if side.mine else self.info.optim_cls
        return kind(side.groups(self.how), **(self.bridge.there(kwargs) if side.mine else kwargs))

    def steps(self, mine: bool) -> tuple[Side, Any, list, list, dict]:
        """A side, its optimizer, parameters and results after each step, and the state half-way."""
        side = Side(self.bridge, mine, self.dtype, **self.shape)
        optimizer = self.optimizer(side)
        seen, results, half = [], [], {}
        for n in range(STEPS):
            r = side.step(optimizer, self.closure, self.sparse)
            results.append(None if r is None else float(r.real if r.is_complex() else r))
            seen.append(side.values())
            if n + 1 == HALF:
                half = copy.deepcopy(optimizer.state_dict())
        return side, optimizer, seen, results, half

    def run(self) -> bool:
        """Whether nothing differs."""
        there, refused = attempt(quietly, self.steps, False)
        here, error = attempt(self.steps, True)
        if refused is not None:
            if (how := refusal(error, refused)) is not None:
                self.record.note("refusal", self.where, how)
            return how is None
        if error is not None:
            self.record.note("run", self.where, error)
            return False
        theirs, t_opt, t_seen, t_results, t_half = there
        ours, o_opt, o_seen, o_results, o_half = here
        state = t_opt.state_dict()
        self.stage("values", self.compare_values, o_seen, t_seen)
        self.stage("results", self.compare_results, o_results, t_results)
        self.stage("state", self.compare_state, lambda: o_opt, state)
        self.stage("defaults", same_keys, "defaults", o_opt.defaults, t_opt.defaults)
        self.stage(
            "repr", lambda: must(repr(o_opt) == repr(t_opt), f"{repr(o_opt)!r} is not {repr(t_opt)!r}")
        )
        self.stage("resume", self.compare_resumed, lambda: o_half, t_seen)
        self.stage(
            "resume from PyTorch's state",
            self.compare_resumed,
            lambda: carry_state(self.bridge, t_half),
            t_seen,
        )
        self.stage("deepcopy", self.compare_state, lambda: copy.deepcopy(o_opt), state)
        self.stage("pickle", self.compare_state, lambda: pickle.loads(pickle.dumps(o_opt)), state)
        self.stage("hooks", self.compare_hooks, ours, theirs)
        return self.good

    def compare_values(self, ours: list[dict], theirs: list[dict]) -> None:
        for n, (a, b) in enumerate(zip(ours, theirs)):
            for k in b:
                near(self.torch, a[k], b[k], f"{k} after step {n + 1}", TOLERANCES[self.close_as])

    def compare_results(self, ours: list, theirs: list) -> None:
        for n, (a, b) in enumerate(zip(ours, theirs)):
            same = (a is None) == (b is None) and (a is None or abs(a - b) <= 1e-4 * (1 + abs(b)))
            must(same, f"step {n + 1} gave {a}, not {b}")

    def compare_state(self, made: Callable, theirs: dict) -> None:
        compare_state(self.bridge, made().state_dict(), theirs, self.close_as)

    def compare_resumed(self, state: Callable, theirs: list[dict]) -> None:
        """The second half again, from a state half-way."""
        again = Side(self.bridge, True, self.dtype, **self.shape)
        with self.lib.no_grad():
            for k, p in again.params.items():
                p.copy_(self.bridge.there(theirs[HALF - 1][k]))
        optimizer = self.optimizer(again)
        optimizer.load_state_dict(state())
        for n in range(HALF, STEPS):
            again.step(optimizer, self.closure, self.sparse)
            for k, v in again.values().items():
                near(self.torch, v, theirs[n][k], f"{k} after step {n + 1}", TOLERANCES[self.close_as])

    def hooks_called(self, side: Side) -> list[str]:
        optimizer, calls = self.optimizer(side), []
        optimizer.register_step_pre_hook(lambda o, a, k: calls.append("pre"))
        optimizer.register_step_post_hook(lambda o, a, k: calls.append("post"))
        optimizer.register_state_dict_pre_hook(lambda o: calls.append("state pre"))
        optimizer.register_state_dict_post_hook(lambda o, s: calls.append("state post"))
        optimizer.register_load_state_dict_pre_hook(lambda o, s: calls.append("load pre"))
        optimizer.register_load_state_dict_post_hook(lambda o: calls.append("load post"))
        side.step(optimizer, self.closure, self.sparse)
        optimizer.load_state_dict(optimizer.state_dict())
        return calls

    def compare_hooks(self, ours: Side, theirs: Side) -> None:
        there, here = self.hooks_called(theirs), self.hooks_called(ours)
        must(here == there, f"hooks {here} are not {there}")

    def differentiable(self) -> bool | None:
        """Gradients through two steps, of the first parameters and of the gradients given; None where PyTorch refuses it."""
        expected, refused = attempt(quietly, self.through, False)
        if refused is not None:
            return None
        actual, error = attempt(self.through, True)
        if error is None:
            names = "gradient of the parameters", "gradient of the gradients"
            for name, a, b in zip(names, actual, expected):
                error = (
                    error
                    or attempt(near, self.torch, self.bridge.back(a), b, name, TOLERANCES[self.dtype])[1]
                )
        if error is not None:
            self.record.note("differentiable", self.where, error)
        return error is None

    def through(self, mine: bool) -> Any:
        torch, carry = self.torch, self.bridge.there if mine else lambda t: t
        g, d = torch.Generator().manual_seed(3), getattr(torch, self.dtype)
        start = carry(torch.randn(4, 3, generator=g, dtype=d)).requires_grad_(True)
        push = carry(torch.rand(4, 3, generator=g, dtype=d) + 0.5).requires_grad_(True)
        p = start.clone()
        p.grad = push
        kind = self.record.ours_kind if mine else self.info.optim_cls
        optimizer = kind([p], **carry(copy_options(torch, self.kwargs)))
        optimizer.step()
        p.grad = push * 2
        optimizer.step()
        return (self.lib if mine else torch).autograd.grad((p * p).sum(), [start, push])


def cases() -> list[tuple[str, Callable[[Any, Any], Row]]]:
    """(kind and name, `run(torch, module)`) of all cases."""
    require_torch()
    from torch.testing._internal.common_optimizers import optim_db

    listed: list[tuple[str, Callable]] = [
        (f"optimizer {i.name}", lambda t, lib, i=i: Record(t, lib, i).run()) for i in optim_db
    ]
    listed += [
        (f"scheduler {s.name} ({s.label})", partial(schedulers.run_scheduler, case=s))
        for s in schedulers.SCHEDULERS
    ]
    return [*listed, ("scheduler errors", schedulers.run_refused), ("averages", schedulers.run_averages)]


def verdict(row: Row) -> str:
    """pass, differ, missing or error; a crash is noted as a cause."""
    if "crash" in row or "tool_error" in row:
        row["causes"] = {"crash": [[row.get("crash") or row["tool_error"][-400:], ""]]}
        return "error"
    if row.get("missing"):
        return "missing"
    return "differ" if row["causes"] else "pass"


def report(row: Row, verbose: bool) -> None:
    errors = row.get("error_inputs")
    share = f"{row.get('passed', 0)}/{row.get('cases', 0)} cases" + (
        f"; error inputs {errors[0]}/{errors[1]}" if errors else ""
    )
    print(f"{row['verdict'].upper():8s} {row['kind']} {row['name']}: {share}", flush=True)
    for stage, entries in row["causes"].items():
        if row.get("failed"):
            print(f"        {stage}: {row['failed'].get(stage)} times")
        for text, where in entries[: CAUSES if verbose else 2]:
            print(f"        {stage}: {text}   [{where}]")


def run(options: argparse.Namespace) -> None:
    names = [(n, name) for n, (name, _) in enumerate(cases()) if re.search(options.only, name)]
    rows: list[Row] = []
    verdicts: dict[str, Counter] = {}
    for index, row in drive(__file__, options, names):
        row["kind"] = dict(names)[index].split()[0]
        row["verdict"] = verdict(row)
        verdicts.setdefault(row["kind"], Counter())[row["verdict"]] += 1
        rows.append(row)
        report(row, options.verbose)
    write_json(options, rows)
    print()
    for kind, c in verdicts.items():
        print(f"{kind}: {c['pass']} of {c.total()} pass; {dict(c)}")


def main() -> None:
    options = parser_for(__doc__).parse_args()
    if not options.worker:
        return run(options)
    listed = cases()
    serve(options, lambda torch, lib, index: listed[index][1](torch, lib))


if __name__ == "__main__":
    main()
