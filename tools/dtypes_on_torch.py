"""Which dtypes operations take that PyTorch's do not, and the other way round, and where results have other dtypes.

python tools/dtypes_on_torch.py [-v]     # needs PyTorch beside flambeau; counts, and a line for each operation that differs

Both libraries are called with the sample calls of `tests/operations/dtype_calls.py` in each of its dtypes.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "operations")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from autocast_on_torch import of_torch  # noqa: E402
from dtype_calls import DTYPES, Typed, calls, in_dtype, of_whole  # noqa: E402

import flambeau  # noqa: E402
from flambeau.operations.declare.registry import REGISTRY  # noqa: E402


class There(Typed):
    """The same operands as tensors of PyTorch."""

    def __missing__(self, name: str):
        if name == "dtype":
            return getattr(torch, self.dtype)
        if name == "flambeau":
            return torch
        made = super().make(name)
        exact = made.to(flambeau.float32) if made.dtype == flambeau.bfloat16 else made
        self[name] = torch.from_numpy(np.array(exact.numpy())).to(getattr(torch, made.dtype.name))
        return self[name]


def dtypes_of(results) -> list[str]:
    if isinstance(results, torch.Tensor):
        return [str(results.dtype)[6:]]
    return [d for f in results for d in dtypes_of(f)] if isinstance(results, (tuple, list)) else []


def there(function, name: str, text: str, dtype: str) -> list[str] | type[Exception]:
    """The dtypes of PyTorch's results, or the class of its error."""
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dtypes_of(
                eval(f"function({text})", {"function": function}, There(dtype, of_whole(name, text)))
            )
    except (RuntimeError, TypeError, ValueError, NotImplementedError, LookupError) as error:
        return type(error)


def here(entry, text: str, dtype: str) -> list[str] | type[Exception]:
    try:
        return [t.dtype.name for t in in_dtype(entry, text, dtype)]
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        return type(error)


def agree(there: list[str] | type[Exception], here: list[str] | type[Exception]) -> bool:
    """Whether both give the same, or raise what a program that expects PyTorch's error catches."""
    if isinstance(there, list) or isinstance(here, list):
        return there == here
    return issubclass(here, there)


def how(there: list[str] | type[Exception], here: list[str] | type[Exception]) -> str:
    """What this library does where PyTorch does something else."""
    if isinstance(there, list):
        return f"gives {here} for {there}" if isinstance(here, list) else "lacks"
    return "takes" if isinstance(here, list) else f"raises {here.__name__} for {there.__name__}"


def main(verbose: bool) -> None:
    """Print how many calls there are, and how many take more dtypes, lack one, give another dtype, or raise an error of another class."""
    same: Counter[str] = Counter()
    differing = defaultdict(list)
    for entry in REGISTRY.values():
        function = of_torch(entry.places)
        for text in calls(entry) if function is not None else ():
            both = {d: (there(function, entry.name, text, d), here(entry, text, d)) for d in DTYPES}
            if not any(isinstance(t, list) for t, _ in both.values()):
                continue  # the call is not one of PyTorch's
            wrong = [f"{how(t, h)} {d}" for d, (t, h) in both.items() if not agree(t, h)]
            said = {w.split()[0] for w in wrong}
            same["calls"] += 1
            for what in ("takes", "lacks", "gives", "raises"):
                same[what] += what in said
            if wrong:
                differing[", ".join(wrong)].append(f"{entry.name}({text})")
    print(", ".join(f"{what} {count}" for what, count in same.items()))
    for what, names in sorted(differing.items()) if verbose else ():
        print(f"{what}\n    {' | '.join(names)}")


if __name__ == "__main__":
    main("-v" in sys.argv[1:])
