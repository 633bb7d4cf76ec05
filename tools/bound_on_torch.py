"""Which public functions of PyTorch a class that holds them binds: `tests/core/bound.txt`, a line a function, with "binds" or "not".

`python tools/bound_on_torch.py` writes the table, and prints where this library differs.  Needs PyTorch.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import flambeau  # noqa: E402

TABLE = ROOT / "tests" / "core" / "bound.txt"
NAMESPACES = (
    "",
    "nn.functional",
    "linalg",
    "fft",
    "special",
    "functional",
    "signal.windows",
    "nn.init",
    "Tensor",
)


def inside(module: object, dotted: str) -> object:
    for part in filter(None, dotted.split(".")):
        module = getattr(module, part)
    return module


def lines() -> list[str]:
    """The public functions of both libraries."""
    rows = []
    for space in NAMESPACES:
        theirs, ours = inside(torch, space), inside(flambeau, space)
        for name in sorted(set(dir(theirs)) & set(dir(ours))):
            function, own = getattr(theirs, name), getattr(ours, name)
            if name.startswith("_") or not callable(function) or not callable(own):
                continue
            if isinstance(function, type) or isinstance(own, type) or type(function).__module__ == "typing":
                continue
            binds = hasattr(type(function), "__get__")
            rows.append(f"{space}.{name}".lstrip(".") + (" binds" if binds else " not"))
            if hasattr(type(own), "__get__") != binds:
                print(rows[-1], type(function).__name__, type(own).__name__)
    return rows


if __name__ == "__main__":
    TABLE.write_text("\n".join(lines()) + "\n")
