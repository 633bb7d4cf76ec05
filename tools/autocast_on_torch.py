"""Write `tests/data/autocast.tsv`: what PyTorch's autocast does to the sample calls of every operation.

python tools/autocast_on_torch.py [--check]     # needs PyTorch beside flambeau; --check prints where flambeau differs

On the CPU the calls run; PyTorch's list for CUDA is asked with its tensors without data, which need no device.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "operations")]

import torch  # noqa: E402
from autocast_calls import WAYS, outcome  # noqa: E402
from samples import ALL  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import flambeau  # noqa: E402

TABLE = ROOT / "tests" / "data" / "autocast.tsv"


def of_torch(places: tuple[str, ...]):
    """PyTorch's function of the first of these names that it has."""
    for place in places:
        resolved = torch
        for part in place.split("."):
            resolved = getattr(resolved, part, None)
        if callable(resolved):
            return resolved
    return None


def lines():
    for device, lower in (("cpu", torch.bfloat16), ("cuda", torch.float16)):
        seen = set()
        for entry, text in ALL:
            function = of_torch(entry.places)
            if function is None or (entry.name, text) in seen:
                continue
            seen.add((entry.name, text))
            torch.manual_seed(0)
            if device == "cuda":
                with FakeTensorMode(allow_non_fake_inputs=True):
                    outcomes = [
                        outcome(torch, function, f"function({text})", device, way, lower) for way in WAYS
                    ]
            else:
                outcomes = [outcome(torch, function, f"function({text})", device, way, lower) for way in WAYS]
            outcomes = ["-" if f.startswith("-") else f for f in outcomes]
            if set(outcomes) != {"-"}:
                yield "\t".join((device, entry.name, text, *outcomes))


def main() -> None:
    """Write the table, or compare with it."""
    if "--check" not in sys.argv:
        TABLE.write_text("\t".join(("device", "operation", "call", *WAYS)) + "\n" + "\n".join(lines()) + "\n")
        return
    only = sys.argv[2] if len(sys.argv) > 2 else "."
    functions = {entry.name: entry.function for entry, _ in ALL}
    for line in TABLE.read_text().splitlines()[1:]:
        device, name, text, *expected = line.split("\t")
        if not re.search(only, name):
            continue
        place, lower = ("cpu", flambeau.bfloat16) if device == "cpu" else ("meta", flambeau.float16)
        outcomes = [
            outcome(flambeau, functions[name], f"function({text})", place, way, lower) for way in WAYS
        ]
        if any(e != f for e, f in zip(expected, outcomes) if e != "-"):
            print(device, name, f"({text})", " | ".join(expected), "  HERE:", " | ".join(outcomes))


if __name__ == "__main__":
    main()
