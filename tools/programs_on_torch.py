"""The random programs of `tests/autograd/programs.py` on PyTorch: is the interpreter right about what PyTorch computes and refuses?

    python tools/programs_on_torch.py [first [last]]

Prints each program where PyTorch, flambeau and the interpreter do not agree, with its source, and a count.  Some differences are
meant; they are counted apart.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from pathlib import Path

import torch

import flambeau

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "autograd"))

import programs  # noqa: E402

MEANT = {
    "multiple views": "parts made by unbind may be written in place",
    "masked_fill_": "masked_fill_ refuses expanded tensors, PyTorch warns",
    "no_grad mode": "what is computed from a view made under no_grad has no history, in PyTorch one that leads nowhere",
    "modified by an inplace": "PyTorch saves more (views made under no_grad take part)",
    "a leaf Variable": "a view made before its base got a history may be written",
    "grad is None": "what is computed from a view made under no_grad is no leaf in PyTorch",
    "invalid gradient": "squeeze_ and unsqueeze_ under no_grad: gradients keep their elements, in PyTorch some are refused",
    "PyTorch refuses this": "copying a tensor to itself",
}


def main() -> None:
    numbers = [int(a) for a in sys.argv[1:]] or [0, 1000]
    first, last = numbers if len(numbers) == 2 else (0, numbers[0])
    meant: Counter[str] = Counter()
    wrong = 0
    for seed in range(first, last):
        for module in (torch, flambeau):
            program = programs.generate(seed)
            difference = programs.differences(program, module)
            if difference is None:
                continue
            reason = next((r for word, r in MEANT.items() if word in difference and module is torch), None)
            if reason is not None:
                meant[reason] += 1
            else:
                wrong += 1
                print(f"{program.source()}\n# {module.__name__}: {difference}\n")
    print(f"{last - first} programs, {wrong} not understood")
    for reason, count in meant.items():
        print(f"{count:6} {reason}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
