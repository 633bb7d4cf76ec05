"""Compare modules with PyTorch's, on PyTorch's own module records (114).

    python tools/parity_modules.py                       # all, float32 and float64
    python tools/parity_modules.py --only 'Conv' -v
    python tools/parity_modules.py --json modules.json
    python tools/parity_modules.py --dtypes bfloat16     # beyond the records: wherever PyTorch takes the dtype

For every record, dtype, mode (train, eval) and input, both modules are built with the same arguments, PyTorch's state_dict is loaded into
flambeau's, and these stages are compared:

  class      the class exists                         construct  it takes the same arguments
  signature  parameter names of __init__ and forward  attributes public attributes and their values
  keys       state_dict keys, order, shapes, dtypes   metadata   versions that state_dict carries
  load       load_state_dict takes the values         repr       the text
  forward    results                                  gradients  of inputs       parameters  gradients of parameters
  second     gradients of gradients (inputs)          buffers    state after the forward (running statistics)
  deepcopy   a copy gives the same results            pickle     the same, through pickle
  factory    device= and dtype= arguments             errors     PyTorch's error inputs raise the same class

Needs PyTorch: pip install ".[parity]".
"""

from __future__ import annotations

import argparse
import copy
import inspect
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import _parity_samples as samples
from _parity_children import Differ, Row, drive, must, one_line, parser_for, require_torch, serve, write_json
from _parity_samples import Bridge, brief, leaves

STAGES = (
    "class construct signature attributes keys metadata load repr forward gradients parameters second buffers deepcopy "
    "pickle factory errors"
).split()
TOLERANCES = {
    "float32": (2e-4, 2e-5),
    "float64": (1e-7, 1e-8),
    "float16": (2e-2, 2e-2),
    "bfloat16": (1e-1, 1e-1),
}
HALVES = ("float16", "bfloat16")  # not in the records' lists; tried where PyTorch takes them
# A long sum of logarithms: PyTorch's own error is of this size.
LOOSE = {("CTCLoss", "float32"): (1e-3, 5e-4)}
CAUSES = 6  # most causes that a stage of a record notes


def records() -> list[tuple[int, Any]]:
    require_torch()
    from torch.testing._internal.common_modules import module_db

    return list(enumerate(module_db))


class Arguments(Bridge):
    """A bridge that also carries modules, by the arguments they were built with, and named functions."""

    built: dict[int, tuple] = {}  # id of a PyTorch module: (module, args, kwargs)

    @classmethod
    def remember(cls, torch: Any) -> None:
        """Notes the arguments of the modules that stand in arguments of others."""
        for name in ("TransformerEncoderLayer", "TransformerDecoderLayer", "LayerNorm"):
            kind = getattr(torch.nn, name)
            plain = kind.__init__
            if getattr(plain, "remembers", False):
                continue

            def init(self: Any, *a: Any, _plain: Callable = plain, **k: Any) -> None:
                cls.built[id(self)] = (self, a, k)
                _plain(self, *a, **k)

            init.remembers = True  # type: ignore[attr-defined]
            init.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
            kind.__init__ = init

    def there(self, x: Any) -> Any:
        torch, lib = self.torch, self.lib
        if isinstance(x, torch.nn.Module):
            _, args, kwargs = self.built[id(x)]
            ours = getattr(lib.nn, type(x).__name__)(*self.there(args), **self.there(kwargs))
            self.load(ours, x)
            return ours
        if (
            callable(x)
            and not isinstance(x, type)
            and hasattr(torch.nn.functional, getattr(x, "__name__", "?"))
        ):
            return getattr(lib.nn.functional, x.__name__)
        return super().there(x)

    def fresh(self, x: Any) -> Any:
        """A copy of PyTorch's arguments with leaves of its own; functions pass through."""
        torch = self.torch
        if isinstance(x, torch.Tensor):
            return x.detach().clone().requires_grad_(x.requires_grad)
        if type(x) in (list, tuple):
            return type(x)(self.fresh(v) for v in x)
        if isinstance(x, dict):
            return {k: self.fresh(v) for k, v in x.items()}
        if isinstance(x, torch.nn.Module):
            made = copy.deepcopy(x)
            if id(x) in self.built:
                self.built[id(made)] = (made, *self.built[id(x)][1:])
            return made
        return x

    def args_of(self, call: Any) -> tuple[tuple, dict]:
        """Positional and keyword arguments of a record's input, for the candidate."""
        return self.there(self.fresh(call.args)), self.there(self.fresh(call.kwargs))

    def load(self, ours: Any, theirs: Any) -> None:
        with self.lib.no_grad():
            ours.load_state_dict({k: self.there(v.detach()) for k, v in theirs.state_dict().items()})

    def near(self, ours: Any, theirs: Any, what: str, dtype: str, tolerance: tuple | None = None) -> None:
        samples.near(self.torch, ours, theirs, what, tolerance or TOLERANCES[dtype])


def structure(kind: type, x: Any) -> Any:
    if isinstance(x, kind):
        return "tensor"
    if isinstance(x, (list, tuple)):
        return (type(x).__name__, *[structure(kind, v) for v in x])
    return type(x).__name__


def weighted_backward(kind: type, out: Any, weights: Iterable) -> bool:
    """Differentiates the sum of the results times fixed weights; whether there was anything to differentiate."""
    remaining, loss = iter(weights), None
    for o in leaves(kind, out):
        if o.requires_grad:
            part = (o * next(remaining)).sum()
            loss = part if loss is None else loss + part
    if loss is not None:
        loss.backward()
    return loss is not None


def plain(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return all(map(plain, x))
    return isinstance(x, (int, float, bool, str, type(None)))


def compare_attributes(ours: Any, theirs: Any) -> None:
    lacking, unlike = [], []
    for name, value in vars(theirs).items():
        if name.startswith("_"):
            continue
        if not hasattr(ours, name):
            lacking.append(name)
        elif plain(value) and value == value and getattr(ours, name) != value:
            unlike.append(f"{name}={getattr(ours, name)!r} is not {value!r}")
    held = [*theirs._parameters, *theirs._buffers, *theirs._modules]
    lacking += [name for name in held if not hasattr(ours, name)]
    must(not lacking, f"no attribute {', '.join(lacking)}")
    must(not unlike, "; ".join(unlike))


def compare_signatures(ours: type, theirs: type) -> None:
    for name in ("__init__", "forward"):
        want = list(inspect.signature(getattr(theirs, name)).parameters)
        have = list(inspect.signature(getattr(ours, name)).parameters)
        if not ("args" in want and "kwargs" in want):
            must(want == have, f"{name}({', '.join(have[1:])}) is not ({', '.join(want[1:])})")


def compare_keys(torch: Any, ours: Any, theirs: Any) -> None:
    a, b = ours.state_dict(), theirs.state_dict()
    must(list(a) == list(b), f"{list(a)} is not {list(b)}")
    for k in b:
        if isinstance(b[k], torch.Tensor):
            shapes = [(tuple(v.shape), str(v.dtype).split(".")[-1]) for v in (a[k], b[k])]
            must(shapes[0] == shapes[1], f"{k}: {shapes[0]} is not {shapes[1]}")
    for kind in ("named_parameters", "named_modules"):
        names = [[n for n, _ in getattr(m, kind)()] for m in (ours, theirs)]
        must(names[0] == names[1], f"{kind} {names[0]} is not {names[1]}")


def compare_metadata(ours: Any, theirs: Any) -> None:
    a, b = (getattr(m.state_dict(), "_metadata", None) for m in (ours, theirs))
    must(a is not None, "state_dict has no _metadata")
    must(dict(a) == dict(b), f"{dict(a)} is not {dict(b)}")


class Record:
    """One record of PyTorch's: what was tried, and what differs by stage."""

    def __init__(self, torch: Any, lib: Any, info: Any) -> None:
        Arguments.remember(torch)
        self.torch, self.lib, self.info = torch, lib, info
        self.bridge = Arguments(lib)
        self.kind = info.module_cls
        self.ours_kind = getattr(lib.nn, self.kind.__name__, None)
        self.tried: Counter[str] = Counter()
        self.causes: dict[str, list[list]] = {}  # stage: [text, where, how often]

    def note(self, stage: str, where: str, error: Exception | str) -> None:
        known, text = self.causes.setdefault(stage, []), one_line(error)
        for entry in known:
            if entry[0] == text:
                entry[2] += 1
                return
        if len(known) < CAUSES:
            known.append([text, where, 1])

    def stage(self, name: str, where: str, call: Callable, *args: Any) -> bool:
        """Runs one comparison; whether nothing differed."""
        self.tried[name] += 1
        try:
            call(*args)
        except Exception as error:
            self.note(name, where, str(error) if isinstance(error, Differ) else error)
            return False
        return True

    @property
    def modes(self) -> tuple[bool, ...]:
        return (True, False) if self.info.train_and_eval_differ else (True,)

    def inputs(self, function: Callable, dtype: Any, requires_grad: bool, training: bool) -> list:
        """The record's inputs, or none where it has none of this kind."""
        self.torch.manual_seed(0)
        try:
            made = function(
                self.info, device="cpu", dtype=dtype, requires_grad=requires_grad, training=training
            )
            return list(made)
        except Exception:
            return []

    def run(self, dtypes: list[str]) -> Row:
        row: Row = {"name": self.info.name, "cases": 0, "passed": 0, "seeded": None}
        self.tried["class"] += 1
        if self.ours_kind is None:
            self.note("class", "", "missing class")
            return {**row, "causes": self.causes, "tried": self.tried}
        self.stage("signature", "", compare_signatures, self.ours_kind, self.kind)
        for name in dtypes:
            dtype = getattr(self.torch, name)
            if dtype not in self.info.supported_dtypes("cpu") and name not in HALVES:
                continue
            for training in self.modes:
                for number, case in enumerate(
                    self.inputs(self.info.module_inputs_func, dtype, True, training)
                ):
                    before = self.differences()
                    try:
                        compared = Case(self, case, name, training, number).run()
                    except samples.Skip:
                        continue
                    row["cases"] += compared
                    row["passed"] += compared and before == self.differences()
        self.compare_errors()
        return {**row, "seeded": self.seeded_alike(), "causes": self.causes, "tried": self.tried}

    def differences(self) -> int:
        return sum(entry[2] for entries in self.causes.values() for entry in entries)

    def compare_errors(self) -> None:
        if self.info.module_error_inputs_func is None:
            return
        for training in self.modes:
            cases = self.inputs(self.info.module_error_inputs_func, self.torch.float32, False, training)
            for number, case in enumerate(cases):
                theirs = self.error_of(self.kind, case.module_error_input, training, lambda x: x)
                if theirs is not None:
                    self.stage("errors", f"error input {number}", self.compare_error, case, training, theirs)

    def error_of(self, kind: type, case: Any, training: bool, carry: Callable) -> Exception | None:
        fresh, c, f = self.bridge.fresh, case.constructor_input, case.forward_input
        try:
            module = kind(*carry(fresh(c.args)), **carry(fresh(c.kwargs))).train(training)
            if f is not None:
                module(*carry(fresh(f.args)), **carry(fresh(f.kwargs)))
        except Exception as error:
            return error
        return None

    def compare_error(self, case: Any, training: bool, theirs: Exception) -> None:
        ours = self.error_of(self.ours_kind, case.module_error_input, training, self.bridge.there)
        must(ours is not None, f"no error; PyTorch: {one_line(theirs, 120)}")
        same = isinstance(ours, type(theirs)) or type(ours).__name__ == type(theirs).__name__
        must(same, f"{one_line(ours, 90)} | PyTorch: {one_line(theirs, 110)}")

    def seeded_alike(self) -> bool | str | None:
        """Whether the same seed gives the same first parameters; None where there are none, a text where it fails."""
        torch, bridge = self.torch, self.bridge
        try:
            c = self.info.module_inputs_func(
                self.info, device="cpu", dtype=torch.float32, requires_grad=False, training=False
            )[0].constructor_input
            args, kwargs = bridge.fresh(c.args), bridge.fresh(c.kwargs)
            ours_args, ours_kwargs = bridge.there(args), bridge.there(kwargs)
            torch.manual_seed(7)
            theirs = self.kind(*args, **kwargs).state_dict()
            self.lib.manual_seed(7)
            ours = self.ours_kind(*ours_args, **ours_kwargs).state_dict()
            if not theirs:
                return None
            return all(torch.allclose(bridge.back(ours[k]), theirs[k], rtol=1e-5, atol=1e-6) for k in theirs)
        except Exception as error:
            return one_line(error, 100)


class Case:
    """One input of a record in one dtype and mode."""

    def __init__(self, record: Record, case: Any, dtype: str, training: bool, number: int) -> None:
        self.record, self.bridge = record, record.bridge
        self.torch, self.lib, self.kind = record.torch, record.lib, record.kind
        self.made_by, self.called_with = case.constructor_input, case.forward_input
        self.dtype, self.training, self.first = dtype, training, number == 0
        c = self.made_by
        arguments = [brief(self.torch, v) for v in c.args]
        arguments += [f"{k}={brief(self.torch, v)}" for k, v in c.kwargs.items()]
        mode = "train" if training else "eval"
        self.where = f"{dtype} {mode} #{number} ({', '.join(arguments)[:200]})"

    def stage(self, name: str, call: Callable, *args: Any) -> bool:
        return self.record.stage(name, self.where, call, *args)

    def ours_built(self) -> Any:
        args, kwargs = self.bridge.args_of(self.made_by)
        return self.record.ours_kind(*args, **kwargs).to(getattr(self.lib, self.dtype)).train(self.training)

    def theirs_called(self, module: Any) -> Any:
        fresh, f = self.bridge.fresh, self.called_with
        return module(*fresh(f.args), **fresh(f.kwargs))

    def on_torch(self) -> bool:
        """Builds PyTorch's module and calls it; whether it takes the case."""
        torch, fresh, c, f = self.torch, self.bridge.fresh, self.made_by, self.called_with
        try:
            self.theirs = (
                self.kind(*fresh(c.args), **fresh(c.kwargs))
                .to(getattr(torch, self.dtype))
                .train(self.training)
            )
            self.start = copy.deepcopy(self.theirs)
            self.t_in = fresh(f.args), fresh(f.kwargs)
            torch.manual_seed(1)
            self.t_out = self.theirs(*self.t_in[0], **self.t_in[1])
            torch.manual_seed(2)
            again = self.theirs_called(copy.deepcopy(self.start))
        except Exception:
            return False
        self.fixed = samples.same(torch, self.t_out, again)  # the results are not random
        return True

    def construct(self) -> None:
        self.ours = self.ours_built()

    def materialize(self) -> None:
        """The first call of a lazy module, after which it is an ordinary one."""
        args, kwargs = self.bridge.args_of(self.called_with)
        self.ours(*args, **kwargs)
        same = type(self.ours).__name__ == type(self.theirs).__name__
        must(same, f"after a forward a {type(self.ours).__name__}")

    def compare_repr(self) -> None:
        must(repr(self.ours) == repr(self.start), f"{self.ours!r} is not {self.start!r}")

    def run(self) -> bool:
        """Compares all stages; False where PyTorch refuses the case."""
        if not self.on_torch():
            return False
        if not self.stage("construct", self.construct):
            return True
        if self.record.info.is_lazy:
            self.stage("repr", self.compare_repr)
            if not self.stage("forward", self.materialize):
                return True
            self.theirs_called(self.start)
            self.torch.manual_seed(1)
            self.theirs = copy.deepcopy(self.start)
            self.t_out = self.theirs(*self.t_in[0], **self.t_in[1])
            self.fixed = True
        self.stage("attributes", compare_attributes, self.ours, self.start)
        self.stage("keys", compare_keys, self.torch, self.ours, self.start)
        self.stage("metadata", compare_metadata, self.ours, self.start)
        if not self.stage("load", self.bridge.load, self.ours, self.start):
            return True
        self.stage("repr", self.compare_repr)
        copies = self.copies()
        if not self.stage("forward", self.compare_forward):
            return True
        self.stage("buffers", self.compare_buffers)
        for name, other in copies.items():
            self.stage(name, self.compare_copy, other)
        if self.fixed:
            self.compare_backward()
        if self.first and "dtype" in inspect.signature(self.kind.__init__).parameters:
            self.stage("factory", self.compare_factory)
        return True

    def copies(self) -> dict[str, Any]:
        """Copies of the module before its first forward."""
        ways: dict[str, Callable] = {"deepcopy": copy.deepcopy}
        try:
            pickle.loads(pickle.dumps(self.start))
            ways["pickle"] = lambda m: pickle.loads(pickle.dumps(m))
        except Exception:
            pass  # PyTorch's own cannot be pickled
        made: dict[str, Any] = {}

        def keep(name: str) -> None:
            made[name] = ways[name](self.ours)
            must(type(made[name]) is type(self.ours), f"a {type(made[name]).__name__}")

        for name in ways:
            self.stage(name, keep, name)
        return made

    def compare_forward(self) -> None:
        torch, lib = self.torch, self.lib
        if lib is torch:
            self.o_in = self.bridge.fresh(self.called_with.args), self.bridge.fresh(self.called_with.kwargs)
        else:
            self.o_in = self.bridge.args_of(self.called_with)
        self.out = self.ours(*self.o_in[0], **self.o_in[1])
        shapes = structure(lib.Tensor, self.out), structure(torch.Tensor, self.t_out)
        must(shapes[0] == shapes[1], f"result {shapes[0]} is not {shapes[1]}")
        pairs = list(zip(leaves(lib.Tensor, self.out), leaves(torch.Tensor, self.t_out)))
        for k, (a, b) in enumerate(pairs):
            back = self.bridge.back(a)
            if self.fixed:
                self.bridge.near(back, b.detach(), f"result {k}", self.dtype)
            else:
                same = back.shape == b.shape and back.dtype == b.dtype
                must(same, f"result {k}: {back.dtype}{tuple(back.shape)} is not {b.dtype}{tuple(b.shape)}")
        for k, (a, b) in enumerate(pairs):
            must(a.requires_grad == b.requires_grad, f"result {k}: requires_grad is {a.requires_grad}")

    def compare_buffers(self) -> None:
        a, b = self.ours.state_dict(), self.theirs.state_dict()
        for k in b if self.fixed else ():
            if isinstance(b[k], self.torch.Tensor):
                self.bridge.near(self.bridge.back(a[k]), b[k].detach(), f"after forward {k}", self.dtype)

    def compare_copy(self, other: Any) -> None:
        args, kwargs = self.bridge.args_of(self.called_with)
        results = leaves(self.lib.Tensor, other(*args, **kwargs))
        for k, (a, b) in enumerate(zip(results, leaves(self.torch.Tensor, self.t_out))):
            if self.fixed:
                self.bridge.near(self.bridge.back(a), b.detach(), f"copy's result {k}", self.dtype)

    def compare_backward(self) -> None:
        torch, lib = self.torch, self.lib
        weights = [
            torch.linspace(0.5, 1.5, max(o.numel(), 1), dtype=torch.float64)[: o.numel()]
            .reshape(o.shape)
            .to(o.dtype)
            for o in leaves(torch.Tensor, self.t_out)
            if o.requires_grad
        ]
        try:
            if not weighted_backward(torch.Tensor, self.t_out, weights):
                return
        except Exception:
            return  # PyTorch refuses it

        def gradients() -> None:
            weighted_backward(lib.Tensor, self.out, [self.bridge.there(w) for w in weights])
            a_in, b_in = (
                [t for t in leaves(k.Tensor, x) if t.requires_grad]
                for k, x in ((lib, self.o_in), (torch, self.t_in))
            )
            must(len(a_in) == len(b_in), f"{len(a_in)} inputs require grad, {len(b_in)} expected")
            for k, (a, b) in enumerate(zip(a_in, b_in)):
                self.compare_grad(a, b, f"input {k}", LOOSE.get((self.kind.__name__, self.dtype)))

        def parameters() -> None:
            mine = dict(self.ours.named_parameters())
            for k, p in self.theirs.named_parameters():
                self.compare_grad(mine[k], p, k)

        if self.stage("gradients", gradients):
            self.stage("parameters", parameters)
            if self.record.info.supports_gradgrad and self.dtype == "float64":
                self.compare_second()

    def compare_grad(self, ours: Any, theirs: Any, what: str, tolerance: tuple | None = None) -> None:
        must(
            (ours.grad is None) == (theirs.grad is None),
            f"{what}: grad is {'None' if ours.grad is None else 'there'}",
        )
        if theirs.grad is not None:
            g = theirs.grad if theirs.grad.layout is self.torch.strided else theirs.grad.to_dense()
            self.bridge.near(self.bridge.back(ours.grad), g, f"gradient of {what}", self.dtype, tolerance)

    def compare_second(self) -> None:
        """Gradients of the sum of squares of the gradients of inputs."""
        torch, lib, f = self.torch, self.lib, self.called_with
        fresh = self.bridge.fresh(f.args), self.bridge.fresh(f.kwargs)
        try:
            theirs = second_gradients(torch, copy.deepcopy(self.start), *fresh)
        except Exception:
            return
        if theirs is None:
            return

        def compare() -> None:
            module = self.ours_built()
            self.bridge.load(module, self.start)
            ours = second_gradients(lib, module, *self.bridge.args_of(f))
            must(ours is not None, "the gradient has no gradient")
            for k, (a, b) in enumerate(zip(ours, theirs)):
                if a is None and b is None:
                    continue
                a = torch.zeros_like(b) if a is None else self.bridge.back(a)
                b = torch.zeros_like(a) if b is None else b
                self.bridge.near(a, b, f"second gradient of input {k}", "float64")

        self.stage("second", compare)

    def compare_factory(self) -> None:
        args, kwargs = self.bridge.args_of(self.made_by)
        module = self.record.ours_kind(
            *args, **{**kwargs, "device": "cpu", "dtype": getattr(self.lib, self.dtype)}
        )
        for n, p in module.named_parameters():
            must(str(p.dtype).endswith(self.dtype), f"{n} is {p.dtype}")


def second_gradients(lib: Any, module: Any, args: tuple, kwargs: dict) -> Any:
    """None where the gradients of inputs have none themselves."""
    inputs = [t for t in leaves(lib.Tensor, (args, kwargs)) if t.requires_grad]
    loss = None
    for o in leaves(lib.Tensor, module(*args, **kwargs)):
        if o.requires_grad:
            part = (o * o).sum()
            loss = part if loss is None else loss + part
    if loss is None or not inputs:
        return None
    first = lib.autograd.grad(loss, inputs, create_graph=True, allow_unused=True)
    first = [g for g in first if g is not None and g.requires_grad]
    if not first:
        return None
    return lib.autograd.grad(sum((g * g).sum() for g in first), inputs, allow_unused=True)


def verdict(row: Row) -> str:
    """pass, differ, error or missing class; a crash is noted as a cause."""
    if "crash" in row or "tool_error" in row:
        row["causes"] = {"crash": [[row.get("crash") or row["tool_error"][-300:], "", 1]]}
        return "error"
    texts = [entry[0] for entries in row["causes"].values() for entry in entries]
    if "class" in row["causes"]:
        return "missing class"
    if "construct" in row["causes"] or any(re.match("NotImplementedError|AttributeError", t) for t in texts):
        return "error"
    return "differ" if row["causes"] else "pass"


def report(row: Row, verbose: bool) -> None:
    causes = row["causes"]
    order = sorted(causes, key=lambda s: STAGES.index(s) if s in STAGES else -1)
    share = f"{row.get('passed', 0)}/{row.get('cases', 0)} cases"
    print(f"{row['verdict'].upper():13s} {row['name']}: {share}; stages {', '.join(order)}", flush=True)
    for stage in order:
        for text, where, n in causes[stage][: CAUSES if verbose else 1]:
            print(f"        {stage} x{n}: {text}" + (f"   [at {where}]" if verbose else ""))


def run(options: argparse.Namespace) -> None:
    names = [(i, m.name) for i, m in samples.quietly(records) if re.search(options.only, m.name)]
    rows, verdicts = [], Counter[str]()
    tried, failed = Counter[str](), Counter[str]()
    for _, row in drive(__file__, options, names, ("--dtypes", options.dtypes)):
        row["verdict"] = verdict(row)
        verdicts[row["verdict"]] += 1
        tried.update(row.get("tried", {}))
        failed.update({s: sum(entry[2] for entry in v) for s, v in row["causes"].items()})
        rows.append(row)
        if row["verdict"] != "pass":
            report(row, options.verbose)
    print("\nstage        tried  failed  records failing")
    for s in STAGES:
        print(f"{s:12s} {tried[s]:6d} {failed[s]:6d}  {sum(s in r['causes'] for r in rows)}")
    _overrides = (r.get("seeded") for r in rows)
    seeded = Counter(str(s) if s in (True, False, None) else "error" for s in _overrides)
    print(f"same parameters from the same seed: {dict(seeded)}")
    passed, cases = (sum(r.get(k, 0) for r in rows) for k in ("passed", "cases"))
    print(f"{verdicts['pass']} of {len(rows)} modules pass; {dict(verdicts)}; {passed} of {cases} cases")
    write_json(options, rows)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument(
        "--dtypes", default="float32,float64", help="comma-separated (default: float32,float64)"
    )
    options = parser.parse_args()
    if not options.worker:
        return run(options)
    infos, dtypes = dict(records()), options.dtypes.split(",")
    serve(options, lambda torch, lib, index: Record(torch, lib, infos[index]).run(dtypes))


if __name__ == "__main__":
    main()
