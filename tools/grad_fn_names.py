"""Compares the names of nodes of the tape (`grad_fn.name()`, and its class's) with PyTorch's, over the sample calls of the tests, and of
what they have saved (`grad_fn._saved_self`).

`python tools/grad_fn_names.py` prints the calls whose results' nodes are called otherwise; `--write` writes the others, with
their names, to tests/autograd/grad_fn_names.txt, which the tests hold ours against.  With `--saved` it is what the nodes of first results
have saved, and tests/autograd/saved_names.txt: the names under which both have the same.  Needs PyTorch.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "operations")]

import samples  # noqa: E402

import flambeau  # noqa: E402

TABLE = ROOT / "tests" / "autograd" / "grad_fn_names.txt"
SAVED = TABLE.with_name("saved_names.txt")


class Theirs(dict):
    """The operands of a sample call as PyTorch's tensors, with a history."""

    def __missing__(self, name: str) -> object:
        if name in samples.WHOLE or name in samples.CONDITIONS:
            tensor = torch.tensor(samples.WHOLE.get(name, samples.CONDITIONS.get(name)))
        elif name in ("z", "zs"):
            ours = samples.Operands()[name]
            tensor = torch.from_numpy(ours.numpy().copy()).requires_grad_().mul(1)
        else:
            tensor = torch.from_numpy(np.array(samples.values(name))).requires_grad_().mul(1)
        self[name] = tensor
        return tensor


def theirs(place: str) -> object:
    """PyTorch's function at a dotted name."""
    resolved = torch
    for part in place.split("."):
        resolved = getattr(resolved, part, None)
    return resolved


def names(results: object, tensor: type) -> list[str]:
    """The names of the nodes of all results; "" for one without."""
    flat = (
        [results]
        if isinstance(results, tensor)
        else [t for t in results if isinstance(t, tensor)]
        if isinstance(results, (tuple, list))
        else []
    )
    return [t.grad_fn.name() if t.grad_fn is not None else "" for t in flat]


def saved(result: object, tensor: type) -> dict[str, object]:
    """What the node of the first result has saved, by name, with the node's own name under ""."""
    first = result if isinstance(result, tensor) else next((t for t in result if isinstance(t, tensor)), None)
    node = getattr(first, "grad_fn", None)
    if node is None:
        return {}
    own = [n for n in dir(node) if n.startswith("_saved_")]
    return {"": node.name()} | {n.removeprefix("_saved_"): getattr(node, n) for n in own}


def alike(a: object, b: object) -> bool:
    """Whether two values are the same, those of tensors up to rounding."""
    if isinstance(a, flambeau.Tensor) and isinstance(b, torch.Tensor):
        actual, expected = (np.asarray(x.detach().resolve_conj().resolve_neg()) for x in (a, b))
        return actual.shape == expected.shape and np.allclose(actual, expected, 1e-4, 1e-5, equal_nan=True)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, flambeau.Tensor) or isinstance(b, torch.Tensor):
        return False
    return type(a) in (type(b), int, float) and a == b


def compared(names: Callable) -> list[tuple[str, Any, Any]]:
    """(call, our names, PyTorch's) of every sample call that both take, by a function of results and the class of tensors."""
    rows = []
    for entry, text in samples.ALL:
        place = next((p for p in entry.places if not p.rpartition(".")[2].startswith("_")), None)
        function = theirs(place) if place else None
        if function is None or entry.kind == "random":
            continue
        try:
            operands = Theirs(torch=torch, flambeau=torch, F=torch.nn.functional)
            expected = names(eval(f"function({text})", {"function": function}, operands), torch.Tensor)
        except Exception:
            continue
        try:
            got = names(samples.run(entry, text, samples.Operands(grad=True)), flambeau.Tensor)
        except Exception as e:
            got = [f"{type(e).__name__}: {e}"[:60]]
        rows.append((f"{place}({text})", got, expected))
    return rows


def compare_saved(write: bool) -> None:
    """Print what PyTorch's nodes have and ours of the same name have not, or otherwise."""
    lines, missing = [], Counter()
    for call, got, expected in compared(saved):
        if not isinstance(got, dict) or got.pop("", 0) != expected.pop("", 1):
            continue
        both = [n for n in expected if n in got and alike(got[n], expected[n])]
        lines += [f"{call} | {' '.join(both)}\n"] if both else []
        for n in expected:
            if n not in both:
                missing[f"{'other value' if n in got else 'absent'}: {n}"] += 1
                print(f"{call[:70]:70s} {n}: {str(got.get(n, 'absent'))[:40]!r} {str(expected[n])[:40]!r}")
        for n in set(got) - set(expected):
            missing[f"only here: {n}"] += 1
    for what, count in missing.most_common(40):
        print(f"{count:5d} {what}")
    if write:
        SAVED.write_text("".join(lines))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--write", action="store_true")
    p.add_argument("--saved", action="store_true")
    options = p.parse_args()
    warnings.simplefilter("ignore")
    if options.saved:
        return compare_saved(options.write)
    rows = compared(names)
    if options.write:
        agreed = [
            f"{call} | {' '.join(got)}\n" for call, got, expected in rows if got == expected and any(got)
        ]
        TABLE.write_text("".join(agreed))
    for call, got, expected in rows:
        if got != expected and any(expected):
            print(f"{call[:70]:70s} {' '.join(got)[:50]:50s} {' '.join(expected)[:60]}")
    same = sum(got == expected for _, got, expected in rows)
    print(f"{same} of {len(rows)} calls have PyTorch's names")


if __name__ == "__main__":
    main()
