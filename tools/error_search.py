"""Search for errors that differ from PyTorch's: calls that work, with one argument spoilt at a time.

    python tools/error_search.py                           # all operations of PyTorch's operator database
    python tools/error_search.py --only '^(cat|roll)$' -v  # some, every kind of miss with an example
    python tools/error_search.py --refusals                # also calls that PyTorch takes and flambeau refuses (slow: kernels)
    python tools/error_search.py --kinds                   # also arguments of other kinds: numbers for tensors, text for numbers

A miss is a call that PyTorch refuses and flambeau takes, or refuses with an error of another class, or with a message
that names neither the operation nor an argument.  Misses are counted by operation and by what was spoilt.  Needs torch,
with what its tests need (expecttest), as the oracle.  Operations run in child processes: a crash costs one operation.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import os
import re
import select
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import flambeau

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "operations"))

LEFT_OUT = re.compile(
    r"^(jiterator_.*|torch\..*|_(?!_).*|hash_tensor|addr_alias|sparse\..*|to_sparse|.*(?<!index)_copy|native_.*|"
    r"max_pool2d_with_indices_backward|nn\.functional\.linear_cross_entropy|nonzero_static|empty_permuted|geqrf|ormqr|"
    r"unsafe_(split|chunk)|chalf|slice|empty.*|new_empty.*|__\w+__|to|item|.*\.multi_head_attention_forward|histogramdd)$"
)
REORDERED: dict[str, Callable[[Any], Callable]] = {
    "einsum": lambda t: lambda tensors, equation: t.einsum(equation, *tensors),
    "polygamma": lambda t: lambda x, n, **k: t.polygamma(n, x, **k),
    "special.polygamma": lambda t: lambda x, n, **k: t.special.polygamma(n, x, **k),
    "where": lambda t: lambda x, condition, other, **k: t.where(condition, x, other, **k),
    "nn.functional.embedding": lambda t: lambda w, i, **k: t.nn.functional.embedding(i, w, **k),
}
KINDS = ("number for tensor", "text for number", "float for int", "bool for int", "None")


def resolve(library: Any, name: str) -> Callable | None:
    """The function of that dotted name, else the tensor method."""
    if name in REORDERED:
        return REORDERED[name](library)
    here = library
    for part in name.split("."):
        here = getattr(here, part, None)
        if here is None:
            break
    method = here if callable(here) else getattr(library.Tensor, name, None)
    return method if callable(method) else None


def carried(x: Any) -> Any:
    """A value of PyTorch's as flambeau's."""
    if isinstance(x, torch.Tensor):
        if x.dtype == torch.bfloat16:
            return flambeau.tensor(x.detach().float().numpy()).to(flambeau.bfloat16)
        plain = x.detach().resolve_conj().resolve_neg().contiguous()
        made = flambeau.tensor(plain.numpy().copy())
        return made.requires_grad_() if x.requires_grad else made
    if isinstance(x, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(flambeau, str(x).removeprefix("torch."))
    if isinstance(x, torch.device):
        return flambeau.device(str(x))
    if isinstance(x, torch.Generator):
        return flambeau.Generator()
    if isinstance(x, torch.Size):
        return tuple(x)
    if isinstance(x, (list, tuple)):
        return type(x)(carried(v) for v in x)
    if isinstance(x, dict):
        return {k: carried(v) for k, v in x.items()}
    return x


def copied(x: Any) -> Any:
    """The same values in fresh tensors."""
    if isinstance(x, torch.Tensor):
        return x.detach().clone().requires_grad_(x.requires_grad)
    if isinstance(x, (list, tuple)) and not isinstance(x, torch.Size):
        return type(x)(copied(v) for v in x)
    return {k: copied(v) for k, v in x.items()} if isinstance(x, dict) else x


# ---- spoiling ----------------------------------------------------------------------------------------------------


def spoilt_tensors(t: torch.Tensor) -> Iterator[tuple[str, Any]]:
    t = t.detach().clone()
    yield "rank + 1", t.unsqueeze(0)
    yield "rank + 2", t[None, None]
    yield "rank 0", t.new_ones(())
    yield "rank 1", t.flatten()
    if t.dim() > 1:
        yield "rank - 1", t.select(0, 0) if t.shape[0] else t.new_ones(t.shape[1:])
    for dim in {0, 1, t.dim() - 1} & set(range(t.dim())):
        shape = list(t.shape)
        yield f"size of dim {dim} + 1", t.new_ones([n + (d == dim) for d, n in enumerate(shape)])
        yield f"size of dim {dim} is 0", t.new_ones([n * (d != dim) for d, n in enumerate(shape)])
    for dtype in (
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.float64,
        torch.float16,
        torch.bool,
        torch.complex64,
    ):
        if dtype != t.dtype:
            yield f"dtype {str(dtype)[6:]}", t.to(dtype)
    if t.dtype != torch.bool:
        yield "values -1", t.new_full(t.shape, -1) if t.dtype != torch.uint8 else t
        yield "values 100", t.new_full(t.shape, 100)
    if t.is_floating_point():
        yield "values nan", t.new_full(t.shape, float("nan"))
    yield "None", None
    yield "number for tensor", 2


def spoilt_numbers(n: int | float) -> Iterator[tuple[str, Any]]:
    if isinstance(n, int):
        for other in (0, -1, -2, 1, n + 1, 7, 100, -100):
            if other != n:
                yield f"int {other if other != n + 1 else 'n + 1'}", other
        yield "float for int", n + 0.5
        yield "bool for int", True
    else:
        for other in (0.0, -0.5, 1.5, 100.0, float("nan"), float("inf"), -float("inf")):
            yield f"float {other}", other
        yield "number complex", 1j
    yield "text for number", "a"
    yield "None", None


def spoilt(x: Any) -> Iterator[tuple[str, Any]]:
    """What a value may be replaced by: (how, the value)."""
    if isinstance(x, torch.Tensor):
        yield from spoilt_tensors(x)
    elif isinstance(x, bool) or x is None:
        return
    elif isinstance(x, (int, float)):
        yield from spoilt_numbers(x)
    elif isinstance(x, str):
        yield "unknown text", "nonsense"
        yield "empty text", ""
    elif isinstance(x, torch.dtype):
        for dtype in (torch.int64, torch.float16, torch.bool, torch.complex64, torch.float64):
            if dtype != x:
                yield f"dtype {str(dtype)[6:]}", dtype
    elif isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        kind = tuple if isinstance(x, torch.Size) else type(x)
        yield "empty list", kind()
        if x:
            yield "a list one shorter", kind(x[:-1])
            yield "a list one longer", kind([*x, x[-1]])
            yield "a list twice as long", kind([*x, *x])
        for k in range(min(len(x), 2)):
            for how, value in spoilt(x[k]):
                yield f"element: {how}", kind([*x[:k], value, *x[k + 1 :]])


def names_of(name: str, function: Callable) -> list[str]:
    ours = resolve(flambeau, name)
    try:
        return list(inspect.signature(ours or function).parameters)
    except (TypeError, ValueError):
        return []


EXTRA = {
    "dim": (-100, 100, 0.5), "dtype": (torch.complex64, torch.int64, torch.bool), "reduction": ("nonsense",),
    "keepdim": (), "p": (-1.0, 2.0), "eps": (-1.0,), "alpha": (1j, 0.5), "correction": (100,),
    "weight": (torch.ones(()), torch.ones(1, 97)), "bias": (torch.ones(97),),
}  # fmt: skip


def spoilt_calls(
    name: str, args: tuple, kwargs: dict, parameters: list[str]
) -> Iterator[tuple[str, tuple, dict]]:
    for k, arg in enumerate(args):
        called = parameters[k] if k < len(parameters) else f"#{k}"
        for how, value in spoilt(arg):
            yield f"{called}: {how}", (*args[:k], value, *args[k + 1 :]), kwargs
    for called, arg in kwargs.items():
        for how, value in spoilt(arg):
            yield f"{called}: {how}", args, {**kwargs, called: value}
    for called in parameters[len(args) :]:
        if called not in kwargs:
            for value in EXTRA.get(called, ()):
                yield f"{called}: added", args, {**kwargs, called: value}


# ---- comparing ---------------------------------------------------------------------------------------------------


def brief(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        values = f"={x.tolist()}" if x.numel() < 3 else ""
        return f"{str(x.dtype)[6:]}{list(x.shape)}{values}"
    if isinstance(x, (list, tuple)):
        return "(" + ", ".join(map(brief, x)) + ")"
    if isinstance(x, dict):
        return "".join(f", {k}={brief(v)}" for k, v in x.items())
    return repr(x)


def error_of(function: Callable, args: tuple, kwargs: dict) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*args, **kwargs)
        except Exception as e:
            return e
    return None


def named(e: Exception, name: str, parameters: list[str]) -> bool:
    text = str(e).lower()
    words = [name.split(".")[-1].strip("_"), *(p for p in parameters if len(p) > 1)]
    return any(re.search(rf"\b_*{re.escape(w.lower())}s?_*\b", text) for w in words)


def miss_of(theirs: Exception | None, ours: Exception | None, name: str, parameters: list[str]) -> str | None:
    if theirs is None:
        return None if ours is None else f"refused: {type(ours).__name__}"
    if ours is None:
        return f"no error for {type(theirs).__name__}"
    alike = isinstance(ours, type(theirs)) or type(ours).__name__.strip("_") == type(theirs).__name__.strip(
        "_"
    )
    if not alike:
        return f"{type(ours).__name__} for {type(theirs).__name__}"
    return None if named(ours, name, parameters) else "message names nothing"


def one_line(e: Exception | None, width: int = 170) -> str:
    return "" if e is None else f"{type(e).__name__}: {' '.join(str(e).split())}"[:width]


def sources(options: argparse.Namespace) -> list[tuple[str, Callable[[], Iterator[tuple]]]]:
    """(name, its calls that work) of PyTorch's operator database, then of samples.py."""
    from torch.testing._internal.common_methods_invocations import op_db

    def database(op: Any, dtype: torch.dtype) -> Callable[[], Iterator[tuple]]:
        def calls() -> Iterator[tuple]:
            for s in op.sample_inputs("cpu", dtype, requires_grad=False):
                yield op.op, (s.input, *s.args), s.kwargs

        return calls

    rows = []
    for op in op_db:
        dtypes = [torch.float32, torch.int64, torch.bool, torch.complex64]
        if not LEFT_OUT.match(op.name) and not op.name.endswith("_factory"):
            dtype = next((d for d in dtypes if d in op.dtypes), None)
            if dtype is not None:
                rows.append((op.name, database(op, dtype)))
    for name, calls in sampled():
        rows.append((name, calls))
    return [row for row in rows if re.search(options.only, row[0])]


def sampled() -> Iterator[tuple[str, Callable[[], Iterator[tuple]]]]:
    """The calls of tests/operations/samples.py, with PyTorch's tensors."""
    import ast

    import samples

    class Operands(dict):
        def __missing__(self, name: str) -> Any:
            ours = samples.Operands().make(name)
            return torch.from_numpy(ours.detach().numpy().copy())

    def calls(name: str, texts: list[str]) -> Iterator[tuple]:
        function = resolve(torch, name)
        for text in texts if function is not None else ():
            tree = ast.parse(f"function({text})", mode="eval").body
            assert isinstance(tree, ast.Call)
            scope = Operands(torch=torch, flambeau=torch, F=torch.nn.functional)

            def value(node: ast.AST, scope: Operands = scope) -> Any:
                return eval(compile(ast.Expression(node), "sample", "eval"), {}, scope)  # type: ignore[arg-type]

            if not any(isinstance(a, ast.Starred) for a in tree.args):
                yield (
                    function,
                    tuple(map(value, tree.args)),
                    {k.arg: value(k.value) for k in tree.keywords if k.arg},
                )

    for entry in samples.REGISTRY.values():
        path = next((p for p in entry.places if not p.endswith("_")), None)
        if path is not None:
            yield (
                path.removeprefix("Tensor."),
                lambda p=path, e=entry: calls(p.removeprefix("Tensor."), samples.calls(e) or []),
            )


def searched(name: str, calls: Callable[[], Iterator[tuple]], options: argparse.Namespace) -> dict:
    function = resolve(flambeau, name)
    row: dict[str, Any] = {"tried": 0, "refused": 0, "same": 0, "named": 0, "misses": []}
    if function is None:
        return row
    shapes = set()
    for theirs_function, args, kwargs in itertools.islice(calls(), 60):
        shape = repr(
            [
                (type(a).__name__, a.dim() if isinstance(a, torch.Tensor) else None)
                for a in (*args, *kwargs.values())
            ]
        )
        shape += repr(sorted(kwargs))
        if shape in shapes or len(shapes) >= options.samples:
            continue
        shapes.add(shape)
        parameters = names_of(name, theirs_function)
        for how, a, k in spoilt_calls(name, args, kwargs, parameters):
            if not options.kinds and any(kind in how for kind in KINDS):
                continue
            torch.manual_seed(0)
            theirs = error_of(theirs_function, copied(a), copied(k))
            row["tried"] += 1
            if theirs is None and not options.refusals:
                continue
            ours = error_of(function, carried(a), carried(k))
            if theirs is not None:
                row["refused"] += 1
                row["same"] += ours is not None and isinstance(ours, type(theirs))
                row["named"] += ours is not None and named(ours, name, parameters)
            miss = miss_of(theirs, ours, name, parameters)
            if miss:
                where = f"{name}({brief(a)[1:-1]}{brief(k)})"[:230]
                row["misses"].append((miss, how, where, one_line(ours), one_line(theirs)))
    return row


def in_child(work: Callable[[], dict], seconds: float) -> dict:
    """What `work` gives, from a forked process that may crash or hang."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            try:
                pipe.write(json.dumps(work()))
            except Exception as e:
                pipe.write(json.dumps({"fault": one_line(e)}))
        os._exit(0)
    os.close(write)
    text, end = b"", time.monotonic() + seconds
    while time.monotonic() < end and select.select([read], [], [], max(end - time.monotonic(), 0))[0]:
        part = os.read(read, 1 << 16)
        if not part:
            break
        text += part
    os.close(read)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return json.loads(text) if text else {"fault": "crashed, or took too long"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="names that match this regular expression")
    parser.add_argument(
        "--samples", type=int, default=4, help="most samples of an operation (of different kinds)"
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--refusals", action="store_true")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    flambeau.set_num_threads(1)
    total, kinds = Counter(), Counter()
    for name, calls in sources(options):
        row = in_child(lambda n=name, c=calls: searched(n, c, options), options.seconds)
        if "fault" in row:
            print(f"{name}: {row['fault']}", flush=True)
            continue
        total.update({k: row[k] for k in ("tried", "refused", "same", "named")})
        kinds.update(m[0] for m in row["misses"])
        seen: dict[tuple, list] = {}
        for miss in row["misses"]:
            key = (miss[0], re.sub(r"[\d.]+", "#", miss[4] or miss[3]))
            seen.setdefault(key, []).append(miss)
        if seen:
            print(f"{name}: {row['same']}/{row['refused']}, misses {len(row['misses'])}", flush=True)
        for group in sorted(seen.values(), key=len, reverse=True)[: None if options.verbose else 3]:
            kind, how, where, ours, theirs = group[0]
            print(f"    {kind} ({len(group)}): {how} at {where}")
            for who, said in (("ours", ours), ("PyTorch", theirs)):
                if said:
                    print(f"        {who}: {said}")
    print(
        f"\n{total['tried']} calls, {total['refused']} that PyTorch refuses: same class {total['same']}, named {total['named']}"
    )
    print(", ".join(f"{k} {n}" for k, n in kinds.most_common()))


if __name__ == "__main__":
    main()
