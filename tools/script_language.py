"""TorchScript's language as PyTorch has it: `tests/data/torchscript_language.txt` asked of PyTorch and of flambeau.

python tools/script_language.py [--only REGEX] [-v]      # needs torch 2.13 beside flambeau

Every program is scripted by both: accepted or refused as the file says, and the same results.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

import flambeau

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "jit"))
from script_programs import Outcome, outcome, programs  # noqa: E402


def plain(x: Any) -> Any:
    """A result as numbers and texts."""
    if isinstance(x, (torch.Tensor, flambeau.Tensor)):
        return ("tensor", str(x.dtype).rpartition(".")[2], plain(x.tolist()))
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, float):
        return round(x, 5)
    return str(x) if hasattr(x, "name") else x


def main(only: str) -> int:
    """Print what differs; how many programs do."""
    wrong = count = 0
    folder = Path(tempfile.mkdtemp())
    for program in programs():
        if not re.search(only, program.name):
            continue
        count += 1
        outcomes = {}
        for library in (torch, flambeau):
            try:
                outcomes[library.__name__] = outcome(program, library, folder / library.__name__)
            except Exception as error:  # noqa: BLE001  a call that fails
                outcomes[library.__name__] = Outcome(
                    True, "", f"raised {type(error).__name__}: {error}", None
                )
        theirs, ours = outcomes["torch"], outcomes["flambeau"]
        notes = []
        for name, each in outcomes.items():
            if each.accepted != program.accepted:
                notes.append(
                    f"{name} {'accepts' if each.accepted else 'refuses'} it: {' '.join(each.error.split())[:200]}"
                )
        notes += [
            f"{name}: {each.result}"
            for name, each in outcomes.items()
            if str(each.result).startswith("raised ")
        ]
        if not notes and program.accepted and plain(theirs.result) != plain(ours.result):
            notes.append(f"results: {plain(theirs.result)!r} and {plain(ours.result)!r}")
        wrong += bool(notes)
        for note in notes:
            print(f"{program.name}: {note}")
        if "-v" in sys.argv:
            print(theirs.error, ours.error)
    print(f"{count - wrong} of {count} programs are accepted or refused as in PyTorch, with its results")
    return wrong


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    at = sys.argv.index("--only") if "--only" in sys.argv else 0
    sys.exit(bool(main(sys.argv[at + 1] if at else "")))
