"""Compare every public operation with PyTorch 2.13 on PyTorch's own sample inputs: values, dtypes, shapes, input gradients.

    python tools/parity_operations.py                            # every public operation, float32
    python tools/parity_operations.py --only '^(add|mul|softmax)$' -v    # some, with the first failing samples of each
    python tools/parity_operations.py --dtypes float32,int64,bool,complex64,bfloat16 --json rows.json
    python tools/parity_operations.py --list                     # the names

Needs PyTorch: pip install ".[parity]".  The samples are odd shapes, broadcasts, non-contiguous and empty tensors, variants of keywords.  An
operation passes when every sample of every dtype passes; a sample that PyTorch itself refuses is left out.  `nn.functional.gelu` is looked
up as flambeau.nn.functional.gelu, and what has no function as a method of Tensor.  Random operations are held to shape, dtype and device.
Gradients of half types are not compared: they differ by accumulated rounding alone.  The exit status is 1 where an operation fails.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import _parity_samples as samples
import numpy as np
from _parity_children import Row, drive, parser_for, serve, write_json
from _parity_samples import Bridge, Skip, label, leaves

HALVES = ("float16", "bfloat16")


def cotangents(torch: Any, out: Any, fix: Callable) -> list | None:
    """A gradient for each tensor of `out`, as weighted sums of what `fix` makes of them give; None where nothing is differentiable."""
    stand_in = [
        o.detach().clone().requires_grad_(o.is_floating_point() or o.is_complex())
        for o in leaves(torch.Tensor, out)
    ]
    loss: Any = 0
    for o in leaves(torch.Tensor, fix(samples.rebuild(torch, out, iter(stand_in)))):
        if o.requires_grad:
            n = o.numel()
            weights = torch.linspace(0.5, 1.5, max(n, 1), dtype=torch.float64)[:n].reshape(o.shape)
            part = (o.abs() if o.is_complex() else o).double() * weights
            loss = loss + part[torch.isfinite(part)].sum()
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        return None
    wanted = [s for s in stand_in if s.requires_grad]
    gradients = iter(torch.autograd.grad(loss, wanted, allow_unused=True))
    return [next(gradients) if s.requires_grad else None for s in stand_in]


def run_sample(bridge: Bridge, op: Any, sample: Any, dtype: Any, with_grad: bool) -> None:
    """AssertionError, or what the candidate raised, where the two differ; Skip where PyTorch refuses the sample."""
    torch, lib = bridge.torch, bridge.lib
    function = samples.function_of(lib, op)
    if function is None:
        raise NotImplementedError("missing")
    args, kwargs = (sample.input, *sample.args), sample.kwargs
    # PyTorch works on copies, so that a write in place does not reach what the candidate is given
    t_args, t_kwargs = samples.clone(torch, args), samples.clone(torch, kwargs)
    try:
        theirs = samples.quietly(op.op, *t_args, **t_kwargs)
        copies = samples.clone(torch, args), samples.clone(torch, kwargs)
        again = samples.quietly(samples.unseeded, torch, op.op, *copies)
    except Exception as error:
        raise Skip(f"PyTorch refuses it: {error}") from None
    if any(t.layout is not torch.strided for t in leaves(torch.Tensor, theirs)):
        raise Skip("sparse result")
    fixed = samples.same(torch, theirs, again)  # a dropout inside makes the values free
    has_values = fixed and not samples.WITHOUT_VALUES.match(op.name)
    c_args, c_kwargs = bridge.there(args), bridge.there(kwargs)
    ours = function(*c_args, **c_kwargs)
    fix = sample.output_process_fn_grad
    ours_there = bridge.back(ours)
    results = [samples.detach(torch, fix(r)) for r in (ours_there, theirs)]
    samples.close(torch, results[0], results[1], has_values)
    if not (has_values and with_grad and op.supports_autograd):
        return
    t_in = [t for t in leaves(torch.Tensor, (t_args, t_kwargs)) if t.requires_grad]
    if t_in and (dtype.is_floating_point or dtype.is_complex):
        c_in = [t for t in leaves(lib.Tensor, (c_args, c_kwargs)) if t.requires_grad]
        compare_gradients(bridge, fix, (ours, ours_there, c_in), (theirs, t_in))


def compare_gradients(bridge: Bridge, fix: Callable, here: tuple, there: tuple) -> None:
    """`here`: results, their copies in PyTorch, inputs; `there`: PyTorch's results and inputs."""
    torch, lib = bridge.torch, bridge.lib
    (ours, ours_there, c_in), (theirs, t_in) = here, there
    seeds = cotangents(torch, theirs, fix)
    pairs = [
        (o, c) for o, c in zip(leaves(torch.Tensor, theirs), seeds or ()) if o.requires_grad and c is not None
    ]
    if not pairs:
        return
    try:
        outs, grads = zip(*pairs)
        expected = torch.autograd.grad(outs, t_in, grads, allow_unused=True)
    except Exception as error:
        raise Skip(f"PyTorch refuses its gradient: {error}") from None
    our_seeds = cotangents(torch, ours_there, fix)
    our_pairs = [
        (o, c) for o, c in zip(leaves(lib.Tensor, ours), our_seeds) if c is not None and o.requires_grad
    ]
    assert our_pairs, "no result requires grad"
    gradients = lib.autograd.grad(
        [o for o, _ in our_pairs], c_in, [bridge.there(c) for _, c in our_pairs], allow_unused=True
    )
    assert len(gradients) == len(expected), f"{len(gradients)} gradients, {len(expected)} expected"
    for k, (g, e) in enumerate(zip(gradients, expected)):
        g = bridge.back(g) if g is not None else None
        if e is None or g is None:
            some = g if e is None else e
            assert some is None or not bool((some != 0).any()), f"gradient {k}: one side has none"
            continue
        e = e.resolve_conj().resolve_neg()
        try:
            samples.close(torch, g, e if e.layout is torch.strided else e.to_dense(), True)
        except AssertionError as error:
            raise AssertionError(f"gradient {k}: {error}") from None


def run_operation(bridge: Bridge, op: Any, dtypes: list[str], with_grad: bool, most: int) -> Row:
    """How many samples were tried and passed, and the first place of each error."""
    torch = bridge.torch
    row: Row = {"name": label(op), "samples": 0, "passed": 0, "errors": {}}
    errors = row["errors"]
    for name in dtypes:
        dtype = getattr(torch, name)
        if dtype not in op.supported_dtypes("cpu"):
            continue
        try:
            torch.manual_seed(0)
            np.random.seed(0)
            random.seed(0)
            differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
            grad_here = with_grad and differentiable and name not in HALVES
            for k, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=grad_here)):
                if k >= most:
                    break
                try:
                    run_sample(bridge, op, sample, dtype, grad_here)
                except Skip:
                    continue
                except NotImplementedError as error:
                    row["samples"] += 1
                    if str(error) == "missing":
                        errors.setdefault("missing", name)
                        break
                    errors.setdefault(f"NotImplementedError: {error}"[:300], name)
                except Exception as error:
                    row["samples"] += 1
                    where = f"{name} {samples.brief_call(torch, (sample.input, *sample.args), sample.kwargs)}"
                    errors.setdefault(f"{type(error).__name__}: {str(error).strip()[:300]}", where[:300])
                else:
                    row["samples"] += 1
                    row["passed"] += 1
        except Exception as error:
            errors.setdefault(f"sampling: {type(error).__name__}: {str(error)[:200]}", name)
    return row


def report(row: Row, verbose: bool) -> None:
    """Prints a row that fails."""
    errors = list(row["errors"].items())
    first = errors[0][0].replace("\n", " ") if errors else ""
    print(f"FAIL {row['name']}: {row['passed']}/{row['samples']} · {first[:160]}", flush=True)
    for message, where in errors[:4] if verbose else ():
        print(f"     at {where}\n        {message}")


def run(options: argparse.Namespace) -> int:
    dtypes = ",".join(options.dtypes)
    extra = ["--dtypes", dtypes, "--samples", str(options.samples)] + ["--no-grad"] * options.no_grad
    chosen = [(n, label(op)) for n, op in samples.public_records() if re.search(options.only, op.name)]
    if options.list:
        print("\n".join(name for _, name in chosen))
        return 0
    began, rows = time.time(), []
    for _, row in drive(__file__, options, chosen, extra):
        if "samples" not in row:
            why = row.get("crash") or row["tool_error"]
            row.update(samples=1, passed=0, errors={why: ""})
        row["ok"] = row["samples"] > 0 and row["passed"] == row["samples"] and not row["errors"]
        rows.append(row)
        if not row["ok"] and row["samples"] + len(row["errors"]) > 0:
            report(row, options.verbose)
    tried = [r for r in rows if r["samples"] or r["errors"]]
    ok = sum(r["ok"] for r in tried)
    missing = sum("missing" in r["errors"] for r in tried)
    count, passed = (sum(r[k] for r in tried) for k in ("samples", "passed"))
    write_json(options, rows)
    print(
        f"{ok} of {len(tried)} ops pass ({missing} missing); {passed} of {count} samples; "
        f"{dtypes}; {time.time() - began:.0f} s"
    )
    return 0 if ok == len(tried) else 1


def main() -> int:
    parser = parser_for(__doc__)
    parser.set_defaults(seconds=180)
    parser.add_argument("--dtypes", default="float32", help="comma-separated (default: float32)")
    parser.add_argument(
        "--samples", type=int, default=40, help="most samples an operation and dtype (default: 40)"
    )
    parser.add_argument("--no-grad", action="store_true", help="values only")
    parser.add_argument("--list", action="store_true", help="print the names of the operations")
    options = parser.parse_args()
    options.dtypes = options.dtypes.split(",")
    if not options.worker:
        return run(options)
    ops = dict(samples.public_records())

    def one(torch: Any, lib: Any, index: int) -> Row:
        return run_operation(Bridge(lib), ops[index], options.dtypes, not options.no_grad, options.samples)

    serve(options, one)
    return 0


if __name__ == "__main__":
    sys.exit(main())
