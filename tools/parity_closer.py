"""Where flambeau and PyTorch differ by rounding: which of them is nearer to the truth?

    python tools/parity_operations.py --dtypes float32,bfloat16 --json rows.json
    python tools/parity_closer.py rows.json
    python tools/parity_closer.py rows.json --only interpolate --dtypes float16

Needs PyTorch: pip install ".[parity]".  Takes the rows that parity_operations.py wrote.  For every operation that fails there with
values that are not close it runs the samples again: with flambeau, with PyTorch, and with PyTorch on the same inputs widened to float64
(complex128).  It says for values and for input gradients how far each side is from the widened result, in epsilons of the narrow type,
of the larger of the element and a hundredth of the largest element.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import _parity_samples as samples
from _parity_children import one_line, require_torch
from _parity_samples import Bridge, leaves

WIDE = {"float16": "float64", "bfloat16": "float64", "float32": "float64", "complex64": "complex128"}
Results = list[tuple[Any, Any, Any]]  # ours, PyTorch's, the truth


def widened(torch: Any, x: Any, wide: dict) -> Any:
    """`x` with tensors and dtypes of the narrow types as wide ones."""
    if isinstance(x, torch.Tensor):
        return x.detach().to(wide[x.dtype]).requires_grad_(x.requires_grad) if x.dtype in wide else x
    if isinstance(x, torch.dtype):
        return wide.get(x, x)
    if type(x) in (list, tuple):
        return type(x)(widened(torch, v, wide) for v in x)
    if isinstance(x, dict):
        return {k: widened(torch, v, wide) for k, v in x.items()}
    return x


def gradients(torch: Any, lib: Any, out: Any, inputs: Any) -> Any:
    """Gradients of the inputs by a weighted sum of the results, or None where no result has one."""
    loss = None
    for o in leaves(lib.Tensor, out):
        if o.requires_grad:
            n = o.numel()
            w = torch.linspace(0.5, 1.5, max(n, 1), dtype=torch.float64)[:n].reshape(tuple(o.shape))
            w = w if lib is torch else lib.tensor(w.numpy().copy())
            real = o.abs() if o.is_complex() else o
            part = (real * w.to(real.dtype)).sum()
            loss = part if loss is None else loss + part
    wanted = [t for t in leaves(lib.Tensor, inputs) if t.requires_grad]
    return lib.autograd.grad(loss, wanted, allow_unused=True) if loss is not None else None


def distance(torch: Any, x: Any, truth: Any, eps: float) -> float:
    """Largest difference, in eps of the larger of the element and a hundredth of the largest element."""
    x, truth = x.detach().to(truth.dtype), truth.detach()
    finite = torch.isfinite(truth.abs())
    if not truth.numel() or not bool(finite.any()) and not bool(torch.isfinite(x.abs()).any()):
        return 0.0
    if not bool((torch.isfinite(x.abs()) == finite).all()):
        return float("inf")
    scale = torch.maximum(truth.abs(), truth[finite].abs().max() * 0.01)
    return float(((x - truth).abs() / scale.clamp_min(1e-30))[finite].max()) / eps


def compare_sample(
    bridge: Bridge, op: Any, sample: Any, kinds: set[str], wide: dict, note: dict
) -> dict[str, Results]:
    """Results of the three sides, for "values" and for "gradient"; `note` takes what could not be computed."""
    torch, lib = bridge.torch, bridge.lib
    call = (sample.input, *sample.args), sample.kwargs
    try:
        t_in = samples.clone(torch, call)
        theirs = op.op(*t_in[0], **t_in[1])
        again = samples.unseeded(torch, op.op, *samples.clone(torch, call))
        if not samples.same(torch, theirs, again):
            return {}  # random: a dropout inside
        w_in = widened(torch, samples.clone(torch, call), wide)
        truth = op.op(*w_in[0], **w_in[1])
    except Exception as error:
        note["PyTorch"] = one_line(error, 100)
        return {}
    try:
        c_in = bridge.there(call)
        ours = samples.function_of(lib, op)(*c_in[0], **c_in[1])
        ours_there = bridge.back(ours)
    except Exception as error:
        note["ours"] = one_line(error, 100)
        return {}
    results: dict[str, Results] = {}
    if "values" in kinds:
        results["values"] = list(zip(*[leaves(torch.Tensor, v) for v in (ours_there, theirs, truth)]))
    if "gradient" in kinds:
        try:
            sides = ((lib, ours, c_in), (torch, theirs, t_in), (torch, truth, w_in))
            triples = zip(*[gradients(torch, module, out, inputs) for module, out, inputs in sides])
            results["gradient"] = [
                (bridge.back(a), b, c) for a, b, c in triples if None not in (b, c) and a is not None
            ]
        except Exception as error:
            note["gradient"] = one_line(error, 100)
    return results


def verdict(ours: float, theirs: float) -> str:
    if max(ours, theirs) < 1.01 or ours < 1.5 * theirs and theirs < 1.5 * ours:
        return "alike"
    return "ours" if ours < theirs else "theirs"


def wanted(paths: list[str], only: str, dtypes: list[str]) -> dict[tuple[str, str], set[str]]:
    """(operation, dtype) → what of it was not close, "values" or "gradient"."""
    kinds: dict[tuple[str, str], set[str]] = {}
    for path in paths:
        with open(path) as file:
            rows = json.load(file)
        for row in rows:
            for message, where in row["errors"].items():
                dtype = where.split(" ")[0]
                if "not close" in message and dtype in dtypes and re.search(only, row["name"]):
                    kind = "gradient" if "gradient" in message else "values"
                    kinds.setdefault((row["name"], dtype), set()).add(kind)
    return kinds


def run(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Prints a line for each; yields what was compared and its verdict."""
    torch = require_torch()
    torch.set_num_threads(1)
    bridge = Bridge(importlib.import_module(options.candidate))
    warnings.simplefilter("ignore")
    ops = {samples.label(op): op for _, op in samples.public_records()}
    wide = {getattr(torch, narrow): getattr(torch, w) for narrow, w in WIDE.items()}
    for (name, dtype), kinds in wanted(options.rows, options.only, options.dtypes.split(",")).items():
        op, d = ops[name], getattr(torch, dtype)
        counts = {k: Counter[str]() for k in kinds}
        worst = {k: [0.0, 0.0] for k in kinds}
        note: dict[str, str] = {}
        torch.manual_seed(0)
        drawn = op.sample_inputs("cpu", d, requires_grad="gradient" in kinds)
        for _, sample in zip(range(options.samples), drawn):
            for kind, results in compare_sample(bridge, op, sample, kinds, wide, note).items():
                far = [0.0, 0.0]
                for *sides, truth in results:
                    if truth.is_floating_point() or truth.is_complex():
                        for n, side in enumerate(sides):
                            dense = side if side.layout is torch.strided else side.to_dense()
                            far[n] = max(far[n], distance(torch, dense, truth, torch.finfo(d).eps))
                worst[kind] = [max(pair) for pair in zip(worst[kind], far)]
                counts[kind][verdict(*far)] += 1
        for kind in sorted(kinds):
            c, (ours, theirs) = counts[kind], worst[kind]
            whole = "ours nearer" if ours <= theirs else "PyTorch nearer" if ours > 1.5 * theirs else "alike"
            shares = " / ".join(f"{c[k]:3d}" for k in ("ours", "theirs", "alike"))
            print(
                f"{name:44s} {dtype:10s} {kind:9s} {c.total():4d}   {shares}   {ours:10.3g} {theirs:10.3g}   {whole} {note or ''}"
            )
            yield kind, whole


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="+", help="files that parity_operations.py --json wrote")
    parser.add_argument("--candidate", default="flambeau", help="the module under test (default: flambeau)")
    parser.add_argument(
        "--only", default="", help="only operations whose name matches this regular expression"
    )
    parser.add_argument(
        "--dtypes", default=",".join(WIDE), help=f"comma-separated (default: {','.join(WIDE)})"
    )
    parser.add_argument(
        "--samples", type=int, default=40, help="most samples an operation and dtype (default: 40)"
    )
    options = parser.parse_args()
    print(
        f"{'operation':44s} {'dtype':10s} {'what':9s} samples  ours nearer / PyTorch nearer / alike   farthest: ours, PyTorch"
    )
    totals = Counter(run(options))
    print(
        "; ".join(f"{kind}: {whole} {n}" for (kind, whole), n in sorted(totals.items()))
        or "nothing to compare"
    )


if __name__ == "__main__":
    main()
