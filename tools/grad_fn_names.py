"""Compares the names of nodes of the tape (`grad_fn.name()`, and its class's) with PyTorch's, over the sample calls of the tests.

`python tools/grad_fn_names.py` prints the calls whose results' nodes are called otherwise; `--write` writes the others, with
their names, to tests/autograd/grad_fn_names.txt, which the tests hold ours against.  Needs PyTorch.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "operations")]

import samples  # noqa: E402

import flambeau  # noqa: E402

TABLE = ROOT / "tests" / "autograd" / "grad_fn_names.txt"


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


def compared() -> list[tuple[str, list[str], list[str]]]:
    """(call, our names, PyTorch's) of every sample call that both take."""
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


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--write", action="store_true")
    options = p.parse_args()
    warnings.simplefilter("ignore")
    rows = compared()
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
