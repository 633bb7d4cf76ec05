#!/usr/bin/env python3
"""Export the modules of PyTorch's own module database with this library, run the programs, and compare with plain calls.

    python tools/export_modules.py                 # all, float32, in train and eval mode
    python tools/export_modules.py --only Conv -v
    python tools/export_modules.py --dynamic       # the first dimensions are Dim.AUTO; run for other sizes, too

A record passes where each of its cases that the library runs gives the same bits, and the same buffers afterwards.  PyTorch must be
installed, whose test inputs these are.
"""

from __future__ import annotations

import argparse
import copy
import re
import traceback
import warnings
from collections import Counter

import torch as theirs
from torch.testing._internal.common_modules import module_db

import flambeau as ours
from flambeau.utils import _pytree as pytree


class Skip(Exception):
    """A case that this library does not take as PyTorch does."""


def across(x):
    """A value of PyTorch as one of this library."""
    if isinstance(x, theirs.Tensor):
        x_ = x.detach().cpu().contiguous()
        x_ = x_.float() if x_.dtype is theirs.float64 else x_
        made = (
            ours.from_numpy(x_.numpy().copy())
            if x_.dtype is not theirs.bfloat16
            else ours.tensor(x_.tolist())
        )
        return made.requires_grad_() if x.requires_grad else made
    if isinstance(x, theirs.dtype):
        return getattr(ours, str(x).rpartition(".")[2])
    if isinstance(x, theirs.nn.Module):
        raise Skip("a module as an argument")
    if callable(x) and hasattr(theirs.nn.functional, getattr(x, "__name__", "?")):
        return getattr(ours.nn.functional, x.__name__)
    if isinstance(x, (list, tuple)):
        return type(x)(map(across, x))
    if isinstance(x, dict):
        return {k: across(v) for k, v in x.items()}
    return x


def cases(info, mode):
    theirs.manual_seed(0)
    made = info.module_inputs_func(
        info, device="cpu", dtype=theirs.float32, requires_grad=False, training=mode
    )
    return enumerate(made)


def module_of(info, case, mode):
    """The module of this library; TransformerEncoder and its kin get a layer that is made here."""
    kind = getattr(ours.nn, info.module_cls.__name__)
    args = list(case.constructor_input.args)
    for k, x in enumerate(args):
        if isinstance(x, theirs.nn.TransformerEncoderLayer):
            args[k] = ours.nn.TransformerEncoderLayer(
                x.linear1.in_features, x.self_attn.num_heads, x.linear1.out_features, x.dropout.p
            )
    kwargs = {k: v for k, v in case.constructor_input.kwargs.items()}
    made = kind(
        *across(args),
        **{k: None if isinstance(v, theirs.nn.Module) else across(v) for k, v in kwargs.items()},
    )
    return made.train(mode)


def same(a, b):
    fa, fb = pytree.tree_leaves(a), pytree.tree_leaves(b)
    if len(fa) != len(fb):
        return f"{len(fa)} results and {len(fb)}"
    for x, y in zip(fa, fb):
        if isinstance(x, ours.Tensor):
            if (
                x.shape != y.shape
                or x.dtype != y.dtype
                or not ours.allclose(x, y, rtol=0, atol=0, equal_nan=True)
            ):
                return f"another value: {x.shape} {x.dtype}, {y.shape} {y.dtype}"
        elif x != y and not (x != x and y != y):
            return f"{x!r} and {y!r}"
    return ""


def shapes_of(args, kwargs):
    def one(x):
        return {0: ours.export.Dim.AUTO} if isinstance(x, ours.Tensor) and x.dim() else None

    return [pytree.tree_map(one, x) for x in args] + [pytree.tree_map(one, v) for v in kwargs.values()]


def longer(program, args):
    """The arguments with one more in each first dimension that varies; None where nothing does."""
    symbols = {}
    for node, x in zip(
        [n for n in program.graph.nodes if n.op == "placeholder"][-len(pytree.tree_leaves(args)) :],
        pytree.tree_leaves(args),
    ):
        if isinstance(x, ours.Tensor) and x.dim() and not isinstance(node.meta["val"].shape[0], int):
            symbols[id(x)] = int(x.shape[0]) + 1
    if not symbols:
        return None

    def one(x):
        return (
            x.index_select(0, ours.arange(symbols[id(x)]) % x.shape[0])
            if id(x) in symbols
            else copy.deepcopy(x)
        )

    return pytree.tree_map(one, args)


OTHER = Counter()


def check_other(program, run, module, args, before):
    """The program with other sizes against the module: the same bits, or a refusal of what was not exported."""
    other = longer(program, args)
    if other is None:
        return
    module.load_state_dict(before)
    try:
        ours.manual_seed(3)
        wanted = copy.deepcopy(module)(*copy.deepcopy(other))
    except Exception:
        OTHER["the module itself fails"] += 1
        return
    try:
        ours.manual_seed(3)
        output = run(*copy.deepcopy(other))
    except (AssertionError, RuntimeError) as error:
        if "Guard" not in str(error):
            raise
        OTHER["refused"] += 1
        return
    if difference := same(output, wanted):
        raise AssertionError(f"with other sizes {difference}")
    OTHER["the same"] += 1


def check(info, case, mode, dynamic):
    module = module_of(info, case, mode)
    args = across(tuple(case.forward_input.args))
    kwargs = across(dict(case.forward_input.kwargs))
    eager = copy.deepcopy(module)
    try:
        ours.manual_seed(3)
        wanted = eager(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    except Exception as error:
        raise Skip(f"the module itself: {error}") from None
    if info.is_lazy:
        module = eager
        eager = copy.deepcopy(module)
        ours.manual_seed(3)
        wanted = eager(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    before = copy.deepcopy(module.state_dict())
    program = ours.export.export(
        module, args, kwargs, dynamic_shapes=shapes_of(args, kwargs) if dynamic and not kwargs else None
    )
    ours.manual_seed(3)
    run = program.module()
    output = run(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    difference = same(output, wanted)
    if difference:
        raise AssertionError(difference)
    state = eager.state_dict()
    for name, value in run.state_dict().items():
        if name in state and (difference := same(value, state[name])):
            raise AssertionError(f"{name} afterwards: {difference}")
    if dynamic and not kwargs:
        check_other(program, run, module, args, before)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="records whose name matches")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("-v", action="store_true", help="tracebacks")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    passed, failed, causes = [], [], Counter()
    for info in module_db:
        if not re.search(options.only, info.name):
            continue
        ran, errors = 0, []
        for mode in (True, False) if info.train_and_eval_differ else (True,):
            for number, case in cases(info, mode):
                try:
                    check(info, case, mode, options.dynamic)
                    ran += 1
                except Skip as error:
                    causes[f"{info.name}: {str(error)[:100]}"] += 1
                except Exception as error:
                    message = str(error).splitlines()[:1]
                    errors.append(
                        f"{'train' if mode else 'eval'} #{number}: {type(error).__name__}: {message}"
                    )
                    if options.v:
                        traceback.print_exc()
        (passed if ran and not errors else failed).append(info.name)
        if errors or not ran:
            print(
                f"{info.name}: {ran} cases run, {len(errors)} fail: {errors[0] if errors else 'no case'}",
                flush=True,
            )
    for cause, count in causes.items():
        print(f"not tried ({count}): {cause}")
    if OTHER:
        print("with other sizes: " + ", ".join(f"{count} {what}" for what, count in OTHER.items()))
    print(f"{len(passed)} of {len(passed) + len(failed)} records pass")


if __name__ == "__main__":
    main()
