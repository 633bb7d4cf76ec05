"""Run every public operation in other ways than plainly, on PyTorch's own samples: does each way give what the plain call gives?

    python tools/parity_ways.py --ways meta,mode          # every public record, float32
    python tools/parity_ways.py --ways vmap --only '^softmax$' -v
    python tools/parity_ways.py --ways meta,mode,dispatch,subclass --most 4 --json ways.json

  meta      tensors without data: the same shapes, dtypes and strides (what depends on data may refuse, as PyTorch's does)
  mode      under an overrides.TorchFunctionMode that passes calls on: seen, the same results
  dispatch  under a utils._python_dispatch.TorchDispatchMode that passes calls on: seen, the same results
  subclass  with a subclass of Tensor: results are of the subclass where PyTorch's are
  vmap      over three copies stacked in front: the same as a loop (what PyTorch's vmap refuses is left out)
  replay    recorded under a TorchDispatchMode, backward included, and played again on other numbers
  compile   through compile(function), values and input gradients; twice, the second time with other numbers
  trace     through jit.trace, jit.save and jit.load, run with other numbers
  onnx      through onnx.export and onnxruntime (left out where there is no float32 tensor to feed)

Needs PyTorch: pip install ".[parity]"; `onnx` needs onnxruntime, too.  An operation passes a way where every sample tried passes: at most
--most, evenly from the record's list.  What counts is the candidate's own plain result; PyTorch only supplies the samples and says
which refusals are fair.
"""

from __future__ import annotations

import argparse
import io
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import _parity_samples as samples
from _parity_children import Row, drive, one_line, parser_for, serve, write_json
from _parity_samples import Bridge, label

CLOSE = dict(rtol=2e-4, atol=2e-5)
SMALLER = (1.0, 0.96875, 0.9375)  # factors under which no operation's domain is left


class Unfair(Exception):
    """PyTorch refuses this way, too, or there is nothing to try."""


def leaves(lib: Any, x: Any) -> list:
    return samples.leaves(lib.Tensor, x)


def mapped(lib: Any, function: Callable, x: Any) -> Any:
    return samples.mapped(lib.Tensor, function, x)


def fresh(lib: Any, x: Any) -> Any:
    return mapped(lib, lambda t: t.detach().clone().requires_grad_(t.requires_grad), x)


def is_real(lib: Any, t: Any) -> bool:
    return t.dtype in (lib.float32, lib.float64)


def other_numbers(lib: Any, x: Any) -> Any:
    """A copy whose floating-point tensors are a little smaller."""

    def changed(t: Any) -> Any:
        if not is_real(lib, t) or t.numel() == 0:
            return t.detach().clone()
        return (t.detach().clone() * SMALLER[1]).requires_grad_(t.requires_grad)

    return mapped(lib, changed, x)


def agree(lib: Any, actual: Any, expected: Any, values: bool = True, what: str = "") -> None:
    """AssertionError where shapes, dtypes or, with `values`, numbers differ."""
    a, b = leaves(lib, actual), leaves(lib, expected)
    assert len(a) == len(b), f"{what}{len(a)} results, {len(b)} expected"
    for x, y in zip(a, b):
        assert tuple(x.shape) == tuple(y.shape), f"{what}shape {tuple(x.shape)} is not {tuple(y.shape)}"
        assert str(x.dtype) == str(y.dtype), f"{what}dtype {x.dtype} is not {y.dtype}"
        if values and y.numel():
            if is_real(lib, y) or y.dtype in (lib.complex64, lib.complex128):
                same = lib.allclose(x.detach(), y.detach(), equal_nan=True, **CLOSE)
            else:
                same = bool((x == y).all())
            assert same, f"{what}values differ"


class Feed:
    """The tensors of a call in order, and the call's arguments with other ones in their places."""

    def __init__(self, lib: Any, args: tuple, kwargs: dict) -> None:
        self.lib, self.args, self.kwargs = lib, args, kwargs
        self.tensors = leaves(lib, (args, kwargs))

    def put(self, tensors: Any) -> tuple[tuple, dict]:
        remaining = iter(tensors)
        return mapped(self.lib, lambda t: next(remaining), (self.args, self.kwargs))


class Case(NamedTuple):
    """One sample: the candidate's call and plain result, and what PyTorch does with the sample in a way (Unfair where it refuses)."""

    lib: Any
    function: Callable
    args: tuple
    kwargs: dict
    plain: Any
    oracle: Callable[[str], Any]
    free: bool  # results depend on the call (random, uninitialised): shapes and dtypes only

    @property
    def tensors(self) -> list:
        return leaves(self.lib, (self.args, self.kwargs))


def by_meta(case: Case) -> None:
    lib = case.lib

    def moved(t: Any) -> Any:
        return t.detach().to("meta")

    try:
        actual = case.function(*mapped(lib, moved, case.args), **mapped(lib, moved, case.kwargs))
    except Exception as error:
        try:
            case.oracle("meta")
        except Exception:
            raise Unfair from None
        raise error
    a, b = leaves(lib, actual), leaves(lib, case.plain)
    assert len(a) == len(b), f"{len(a)} results, {len(b)} expected"
    if not case.tensors or "device" in case.kwargs:
        raise Unfair  # made on the default device, or on the one that is named
    for x in a:
        assert str(x.device) == "meta", f"result on {x.device}"
    agree(lib, a, b, values=False)
    for x, y in zip(a, b):
        if y.numel() > 1:
            assert tuple(x.stride()) == tuple(y.stride()), (
                f"strides {tuple(x.stride())} are not {tuple(y.stride())}"
            )


def passing(base: type, method: str) -> tuple[Any, list]:
    """A mode that passes calls on, and the list of the functions that it saw."""
    seen: list = []

    def handler(self: Any, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        seen.append(func)
        return func(*args, **(kwargs or {}))

    return type("Passing", (base,), {method: handler})(), seen


def by_mode(case: Case) -> None:
    base = import_module(case.lib.__name__ + ".overrides").TorchFunctionMode
    mode, seen = passing(base, "__torch_function__")
    args, kwargs = fresh(case.lib, (case.args, case.kwargs))
    with mode:
        actual = case.function(*args, **kwargs)
    agree(case.lib, actual, case.plain, not case.free)
    assert seen or not case.tensors, "the mode saw nothing"


def dispatch_mode(lib: Any) -> type:
    return import_module(lib.__name__ + ".utils._python_dispatch").TorchDispatchMode


def by_dispatch(case: Case) -> None:
    lib = case.lib
    mode, seen = passing(dispatch_mode(lib), "__torch_dispatch__")
    args, kwargs = fresh(lib, (case.args, case.kwargs))
    with mode:
        actual = case.function(*args, **kwargs)
    agree(lib, actual, case.plain, not case.free)
    arguments = leaves(lib, (args, kwargs))
    assert seen or all(any(x is y for y in arguments) for x in leaves(lib, actual)), "the mode saw nothing"


def by_subclass(case: Case) -> None:
    lib = case.lib

    class Named(lib.Tensor):
        pass

    theirs = case.oracle("subclass")
    args = mapped(lib, lambda t: t.detach().as_subclass(Named), case.args)
    actual = case.function(*args, **case.kwargs)
    agree(lib, actual, case.plain, not case.free)
    for x, named in zip(leaves(lib, actual), theirs):
        assert (type(x) is Named) == named, f"result of class {type(x).__name__}"


def by_vmap(case: Case) -> None:
    lib = case.lib
    feed = Feed(lib, case.args, {})
    if not feed.tensors or case.free:
        raise Unfair
    case.oracle("vmap")
    stacks = [
        lib.stack([t.detach() * s if is_real(lib, t) else t.detach() for s in SMALLER]) for t in feed.tensors
    ]

    def call(*tensors: Any) -> Any:
        return case.function(*feed.put(tensors)[0], **case.kwargs)

    actual = lib.vmap(call)(*stacks)
    each = [leaves(lib, call(*[s[k] for s in stacks])) for k in range(len(SMALLER))]
    for n, x in enumerate(leaves(lib, actual)):
        agree(lib, x, lib.stack([results[n] for results in each]))


def place(t: Any) -> tuple:
    """What a tensor is to a recording: the same elements in the same memory."""
    memory = t.untyped_storage().data_ptr() if t.numel() else id(t)
    return memory, t.storage_offset(), tuple(t.shape), tuple(t.stride()), str(t.dtype)


def with_gradients(lib: Any, function: Callable, args: tuple, kwargs: dict) -> list:
    """Results, and the gradients of the sum of those that have any."""
    out = leaves(lib, function(*args, **kwargs))
    wants = [t for t in leaves(lib, (args, kwargs)) if t.requires_grad]
    roots = [t for t in out if t.requires_grad and t.numel()]
    if wants and roots:
        seeds = [lib.full_like(t, 0.75) for t in roots]
        out = out + [g for g in lib.autograd.grad(roots, wants, seeds, allow_unused=True) if g is not None]
    return out


def replayed(lib: Any, function: Callable, args: tuple, kwargs: dict) -> None:
    """AssertionError where the recorded program computes, on other numbers, something else than the call computes there."""
    calls: list = []

    class Recorder(dispatch_mode(lib)):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            calls.append((func, args, kwargs or {}, result))
            return result

    first = fresh(lib, (args, kwargs))
    changed, again = other_numbers(lib, (args, kwargs)), other_numbers(lib, (args, kwargs))
    with Recorder():
        results = with_gradients(lib, function, *first)
    expected = with_gradients(lib, function, *again)
    known = {place(old): new.detach() for old, new in zip(leaves(lib, first), leaves(lib, changed))}

    def there(t: Any) -> Any:
        return known.get(place(t), t)

    with lib.no_grad():
        for func, a, k, result in calls:
            new = func(*mapped(lib, there, a), **mapped(lib, there, k))
            for x, y in zip(leaves(lib, result), leaves(lib, new)):
                known[place(x)] = y
    agree(lib, [there(t).detach() for t in results], [t.detach() for t in expected])


def by_replay(case: Case) -> None:
    lib = case.lib
    if case.free or not any(is_real(lib, t) for t in case.tensors):
        raise Unfair
    try:
        with_gradients(lib, case.function, *other_numbers(lib, (case.args, case.kwargs)))
    except Exception:
        raise Unfair from None  # other numbers leave the domain
    case.oracle("replay")
    replayed(lib, case.function, case.args, case.kwargs)


def by_compile(case: Case) -> None:
    lib = case.lib
    if hasattr(lib, "compiler") and hasattr(lib.compiler, "reset"):
        lib.compiler.reset()
    feed = Feed(lib, case.args, case.kwargs)

    def call(*tensors: Any) -> Any:
        args, kwargs = feed.put(tensors)
        return case.function(*args, **kwargs)

    compiled = lib.compile(call) if lib.__name__ != "torch" else lib.compile(call, backend="eager")
    for change in (fresh, other_numbers):
        a, b = [change(lib, t) for t in feed.tensors], [change(lib, t) for t in feed.tensors]
        try:
            expected = call(*a)
        except Exception:
            if change is fresh:
                raise
            continue  # other numbers leave the domain
        actual = compiled(*b)
        agree(lib, actual, expected, not case.free)
        if case.free:
            continue
        outs = leaves(lib, expected)
        wants = [n for n, t in enumerate(a) if t.requires_grad]
        roots = [n for n, o in enumerate(outs) if o.requires_grad and o.dtype == lib.float32 and o.numel()]
        if wants and roots:
            pairs = [
                lib.autograd.grad(
                    [leaves(lib, out)[n].sum() for n in roots], [ts[n] for n in wants], allow_unused=True
                )
                for out, ts in ((actual, b), (expected, a))
            ]
            for x, y in zip(*pairs):
                assert (x is None) == (y is None), "one side has no gradient"
                if x is not None:
                    agree(lib, x, y, what="gradient: ")


def by_trace(case: Case) -> None:
    lib = case.lib
    feed = Feed(lib, case.args, case.kwargs)
    if not feed.tensors or case.free:
        raise Unfair
    tensors = [t.detach() for t in feed.tensors]

    def call(*ts: Any) -> tuple:
        args, kwargs = feed.put(ts)
        return tuple(leaves(lib, case.function(*args, **kwargs)))

    case.oracle("trace")
    traced = lib.jit.trace(call, tuple(fresh(lib, t) for t in tensors), check_trace=False)
    file = io.BytesIO()
    lib.jit.save(traced, file)
    file.seek(0)
    loaded = lib.jit.load(file)
    for change in (fresh, other_numbers):
        ts = [change(lib, t).detach() for t in tensors]
        try:
            expected = call(*[t.clone() for t in ts])
        except Exception:
            continue
        agree(lib, tuple(leaves(lib, loaded(*ts))), expected)


def by_onnx(case: Case) -> None:
    import numpy as np
    import onnxruntime

    lib = case.lib
    feed = Feed(lib, case.args, case.kwargs)
    if case.free or not any(t.dtype == lib.float32 for t in feed.tensors):
        raise Unfair
    tensors = [t.detach() for t in feed.tensors]

    class Whole(lib.nn.Module):
        def forward(self, *ts: Any) -> tuple:
            args, kwargs = feed.put(ts)
            return tuple(leaves(lib, case.function(*args, **kwargs)))

    net = Whole()
    expected = net(*[t.clone() for t in tensors])
    if not expected:
        raise Unfair
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        lib.onnx.export(net, tuple(tensors), file.name)
        session = onnxruntime.InferenceSession(file.name, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    for x, y in zip(session.run(None, {n: t.numpy() for n, t in zip(names, tensors)}), expected):
        y = y.numpy()
        assert x.shape == y.shape and x.dtype == y.dtype, f"{x.dtype}{x.shape} is not {y.dtype}{y.shape}"
        np.testing.assert_allclose(x, y, rtol=2e-3, atol=1e-4, equal_nan=True)


WAYS: dict[str, Callable[[Case], None]] = {
    "meta": by_meta,
    "mode": by_mode,
    "dispatch": by_dispatch,
    "subclass": by_subclass,
    "vmap": by_vmap,
    "replay": by_replay,
    "compile": by_compile,
    "trace": by_trace,
    "onnx": by_onnx,
}


def on_torch(torch: Any, op: Any, args: tuple, kwargs: dict, way: str) -> Any:
    """What PyTorch does with a sample in that way; Unfair where it refuses."""
    a, k = samples.clone(torch, args), samples.clone(torch, kwargs)
    try:
        if way == "meta":
            moved = mapped(torch, lambda t: t.detach().to("meta"), (a, k))
            return op.op(*moved[0], **moved[1])
        if way == "subclass":

            class Named(torch.Tensor):
                pass

            out = op.op(*mapped(torch, lambda t: t.detach().as_subclass(Named), a), **k)
            return [type(t) is Named for t in leaves(torch, out)]
        if way == "replay":
            return replayed(torch, op.op, a, k)
        feed = Feed(torch, a, k if way == "trace" else {})
        if way == "vmap":
            stacks = [torch.stack([t.detach()] * len(SMALLER)) for t in feed.tensors]
            return torch.vmap(lambda *ts: op.op(*feed.put(ts)[0], **k))(*stacks)
        if way == "trace":

            def whole(*ts: Any) -> tuple:
                args, kwargs = feed.put(ts)
                return tuple(leaves(torch, op.op(*args, **kwargs)))

            return torch.jit.trace(whole, tuple(t.detach() for t in feed.tensors), check_trace=False)
    except Exception as error:
        raise Unfair(str(error)) from None
    return None


def cases(torch: Any, lib: Any, op: Any, most: int) -> Any:
    """(case, where) of the samples whose plain call works; parity_operations.py speaks of the others."""
    function = samples.function_of(lib, op)
    if function is None or torch.float32 not in op.supported_dtypes("cpu"):
        return
    bridge = Bridge(lib)
    torch.manual_seed(0)
    drawn = list(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd))
    for sample in drawn[:: max(1, -(-len(drawn) // most))]:
        args, kwargs = (sample.input, *sample.args), sample.kwargs
        try:
            if any(t.layout is not torch.strided for t in leaves(torch, (args, kwargs))):
                continue
            ours = bridge.there(args), bridge.there(kwargs)
            lib.manual_seed(0)
            plain = function(*fresh(lib, ours[0]), **fresh(lib, ours[1]))
        except Exception:
            continue
        free = bool(samples.WITHOUT_VALUES.match(op.name))
        if not free:
            try:
                agree(lib, function(*fresh(lib, ours[0]), **fresh(lib, ours[1])), plain)
            except AssertionError:
                free = True

        def oracle(way: str, args: tuple = args, kwargs: dict = kwargs) -> Any:
            return samples.quietly(on_torch, torch, op, args, kwargs, way)

        yield Case(lib, function, *ours, plain, oracle, free), samples.brief_call(torch, args, kwargs)


def empty(ways: list[str]) -> dict:
    return {w: {"tried": 0, "passed": 0, "unfair": 0, "errors": {}} for w in ways}


def run_operation(torch: Any, lib: Any, op: Any, ways: list[str], most: int) -> Row:
    row: Row = {"name": label(op), "ways": empty(ways)}
    for case, where in cases(torch, lib, op, most):
        for way in ways:
            entry = row["ways"][way]
            entry["tried"] += 1
            args, kwargs = fresh(lib, (case.args, case.kwargs))
            lib.manual_seed(0)
            try:
                samples.quietly(WAYS[way], case._replace(args=args, kwargs=kwargs))
            except Unfair:
                entry["unfair"] += 1
            except Exception as error:
                entry["errors"].setdefault(one_line(error, 200), where[:200])
            else:
                entry["passed"] += 1
    return row


def run(options: argparse.Namespace, ways: list[str]) -> None:
    names = [(n, label(op)) for n, op in samples.public_records() if re.search(options.only, label(op))]
    rows, causes = [], {w: Counter[str]() for w in ways}
    extra = ("--ways", options.ways, "--most", str(options.most))
    for _, row in drive(__file__, options, names, extra):
        if "ways" not in row:
            why = row.get("crash") or row["tool_error"][-300:]
            row["ways"] = {w: {"tried": 1, "passed": 0, "unfair": 0, "errors": {why: ""}} for w in ways}
        rows.append(row)
        for way, entry in row["ways"].items():
            for cause, where in list(entry["errors"].items())[: None if options.verbose else 1]:
                share = f"{entry['passed']}/{entry['tried'] - entry['unfair']}"
                place = f"\n    {where}" if options.verbose else ""
                print(f"{row['name']} [{way}] {share}: {cause}{place}", flush=True)
                causes[way][re.sub(r"[\d(].*", "", cause)[:60]] += 1
    write_json(options, rows)
    print()
    for way in ways:
        entries = [r["ways"][way] for r in rows if r["ways"][way]["tried"] > r["ways"][way]["unfair"]]
        whole = sum(e["passed"] == e["tried"] - e["unfair"] for e in entries)
        passed, fair = sum(e["passed"] for e in entries), sum(e["tried"] - e["unfair"] for e in entries)
        often = "; ".join(f"{cause} ({n})" for cause, n in causes[way].most_common(3))
        tail = f"; most frequent causes: {often}" if often else ""
        print(f"{way}: {whole} of {len(entries)} operations pass; samples {passed} of {fair}{tail}")


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--ways", default="meta,mode", help=f"of {','.join(WAYS)} (default: meta,mode)")
    parser.add_argument("--most", type=int, default=12, help="most samples of an operation (default: 12)")
    options = parser.parse_args()
    ways = options.ways.split(",")
    if wrong := [w for w in ways if w not in WAYS]:
        parser.error(f"--ways: {', '.join(wrong)} is none of {', '.join(WAYS)}")
    if not options.worker:
        return run(options, ways)
    ops = dict(samples.public_records())
    serve(options, lambda torch, lib, index: run_operation(torch, lib, ops[index], ways, options.most))


if __name__ == "__main__":
    main()
