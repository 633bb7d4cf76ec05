"""Traces of operations at other sizes, and of all modules, on PyTorch's own samples.

PARITY=folder python tools/traces_of_samples.py --sizes [--only REGEX]
PARITY=folder python tools/traces_of_samples.py --modules [--only REGEX]      # both need torch 2.13 beside flambeau

The folder has `opinfo.py` and `modules.py`.  `--sizes` traces each operation on one sample and runs the program on others of the same kind
but of other sizes: it gives what the operation gives, or raises, and never anything else.  `--modules` traces each module of PyTorch's
database, saves and loads it, compares the results, and has PyTorch load the archive.
"""

from __future__ import annotations

import copy
import io
import os
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import archives_on_torch as archives

import flambeau


def leaves(x: Any) -> list[Any]:
    """The tensors of a structure."""
    return archives.leaves(flambeau, x)


def kind(x: Any) -> Any:
    """What two calls have in common that differ in sizes and elements alone."""
    if isinstance(x, flambeau.Tensor):
        return "tensor", x.dim(), str(x.dtype)
    if isinstance(x, dict):
        return tuple((k, kind(v)) for k, v in x.items())
    return (type(x).__name__, *map(kind, x)) if isinstance(x, (list, tuple)) else repr(x)


def alike(results: Any, wanted: Any, tolerance: float = 1e-3) -> bool:
    """Whether two lists of tensors agree."""

    def same(a: Any, b: Any) -> bool:
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.is_floating_point or a.dtype.is_complex:
            return flambeau.allclose(a, b, rtol=tolerance, atol=tolerance / 10, equal_nan=True)
        return bool((a == b).all())

    return len(results) == len(wanted) and all(map(same, results, wanted))


def calls(torch: Any, only: str) -> Iterator[tuple[str, Any, list[Any]]]:
    """The operations, each with groups of calls that differ in sizes."""
    import opinfo

    bridge = opinfo.Bridge(flambeau)
    for _, op in opinfo.public_ops():
        name = opinfo.label(op)
        adapt = opinfo.ADAPTED.get(name) or opinfo.ADAPTED.get(op.name)
        f = adapt(flambeau) if adapt else opinfo.resolve(flambeau, op.name)
        known = f is not None and torch.float32 in op.supported_dtypes("cpu")
        if not known or opinfo.VALUES_FREE.match(op.name) or not re.search(only, name):
            continue
        groups: dict[Any, list[Any]] = defaultdict(list)
        for sample in op.sample_inputs("cpu", torch.float32):
            try:
                call = bridge.there((sample.input, *sample.args)), bridge.there(sample.kwargs)
            except Exception:  # noqa: BLE001  arguments that there are not here
                continue
            groups[kind(call)].append(call)
        yield name, f, list(groups.values())[:8]


def sizes(torch: Any, only: str) -> int:
    """Print what programs do at sizes that they were not traced at; how many give something else than the operation."""
    count: Counter[str] = Counter()
    for name, f, groups in calls(torch, only):
        for first, *others in groups:
            example = [t.detach() for t in leaves(first)]
            shapes = [t.shape for t in example]
            others = [o for o in others if [t.shape for t in leaves(o)] != shapes][:3]
            if not example or not others:
                continue
            call = archives.caller(f, *first)
            program = flambeau.jit.trace(call, tuple(example), check_trace=False)
            for other in others:
                args = [t.detach() for t in leaves(other)]
                wanted = [call(*[t.clone() for t in args]) for _ in range(2)]
                if not alike(*wanted, 0.0):
                    count["random"] += 1
                    continue
                try:
                    results = program(*[t.clone() for t in args])
                except RuntimeError:
                    count["refused"] += 1
                    continue
                count["the same" if alike(results, wanted[0]) else "something else"] += 1
                if not alike(results, wanted[0]):
                    print(f"{name}: traced at {shapes}, run at {[tuple(t.shape) for t in args]}")
    print(", ".join(f"{what}: {n}" for what, n in count.items()))
    return count["something else"]


class Whole(flambeau.nn.Module):
    """A module as a function of the tensors of its call."""

    def __init__(self, inner: Any, args: Any, kwargs: Any) -> None:
        super().__init__()
        self.inner, self.call = inner, (args, kwargs)

    def forward(self, *tensors: Any) -> Any:
        return archives.caller(self.inner, *self.call)(*tensors)


def modules(torch: Any, only: str) -> int:
    """Print which modules differ when they are traced, saved and loaded, and whose archives PyTorch does not read; how many differ."""
    import modules as database

    bridge = database.Arguments(flambeau)
    database.Arguments.remember(torch)
    whole = read = tried = 0
    for _, info in database.records():
        ours = getattr(flambeau.nn, info.module_cls.__name__, None)
        if (
            ours is None
            or torch.float32 not in info.supported_dtypes("cpu")
            or not re.search(only, info.name)
        ):
            continue
        wrong: list[str] = []
        refused: list[str] = []
        cases = 0
        for training in (True, False) if info.train_and_eval_differ else (True,):
            torch.manual_seed(0)
            options = dict(device="cpu", dtype=torch.float32, requires_grad=False, training=training)
            for case in info.module_inputs_func(info, **options)[:6]:
                c, f = case.constructor_input, case.forward_input
                try:
                    net = ours(*bridge.there(c.args), **bridge.there(c.kwargs)).train(training)
                    args, kwargs = bridge.there(f.args), bridge.there(f.kwargs)
                    net(*args, **kwargs)
                except Exception:  # noqa: BLE001  error inputs, and what PyTorch's modules alone take
                    continue
                cases += 1
                program, data = try_module(Whole(net, args, kwargs), training, wrong)
                if program is not None:
                    try:
                        torch.jit.load(io.BytesIO(data))
                    except RuntimeError as error:
                        refused.append(str(error).strip().split("\n")[0])
        tried += cases > 0
        whole += cases > 0 and not wrong
        read += cases > 0 and not wrong and not refused
        for what, causes in (("differs", wrong), ("PyTorch does not read it", refused)):
            if causes:
                print(f"{info.name}: {what} in {len(causes)} of {cases} cases: {causes[0][:120]}")
    print(
        f"{whole} of {tried} modules traced, saved and loaded with the same results; {read} are read by PyTorch"
    )
    return tried - whole


def try_module(net: Whole, training: bool, wrong: list[str]) -> tuple[Any, bytes]:
    """Trace, save, load and compare; the program and its bytes, None where it differs, which is added to `wrong`."""
    args = [t.detach() for t in leaves(net.call)]
    try:
        program = flambeau.jit.trace(net, tuple(args), check_trace=False)
        data = program.save_to_buffer()
        loaded, twin = flambeau.jit.load(io.BytesIO(data)), copy.deepcopy(net)
        for _ in range(2):  # of which the second takes another way
            flambeau.manual_seed(0)
            results = loaded(*[t.clone() for t in args])
        for _ in range(2):
            flambeau.manual_seed(0)
            wanted = twin(*[t.clone() for t in args])
        shapes = [(t.shape, t.dtype) for t in results] == [(t.shape, t.dtype) for t in wanted]
        if not shapes or not (training or alike(results, wanted)):
            raise RuntimeError("other values")
    except Exception as error:  # noqa: BLE001
        wrong.append(str(error))
        return None, b""
    return program, data


def main() -> int:
    """What the arguments ask for; the exit status is 1 where something differs."""
    import torch

    sys.path.insert(0, os.environ.get("PARITY", "parity"))
    warnings.simplefilter("ignore")
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    return int((sizes if "--sizes" in sys.argv else modules)(torch, only) > 0)


if __name__ == "__main__":
    sys.exit(main())
