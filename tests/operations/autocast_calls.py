"""Which dtypes come out of every operation's sample calls under autocast, here or in PyTorch: the lines of the table.

A call is made with operands of float32 (`s`), of the lower dtype (`l`), with the first of them lower and the others float32
(`ls`), and the other way round (`sl`).  The outcome is the dtypes of the results, or `error` where operands of two dtypes are
refused; `-` where the library has no such kernel, and nothing can be learnt.
"""

from __future__ import annotations

import warnings

from samples import CONDITIONS, SHAPES, WHOLE, values

WAYS = ("s", "l", "ls", "sl")
SHORT = {
    "float32": "f32",
    "bfloat16": "low",
    "float16": "low",
    "float64": "f64",
    "int64": "i64",
    "bool": "bool",
}
# What a result has nothing to do with: numbers that are drawn, what is written to, and what only moves memory.
MISMATCH = (
    "same dtype",
    "to have the same",
    "same data type",
    "expected m1 and m2",
    "but got",
    "must match",
    "expected scalar type",
)


class Operands(dict):
    """What the names in a call mean: tensors of a library on a device."""

    def __init__(self, library, device: str, way: str, lower) -> None:
        self.library, self.device, self.way, self.lower, self.floats = library, device, way, lower, 0

    def __missing__(self, name: str):
        self[name] = made = self.make(name)
        return made

    def make(self, name: str):
        if name in WHOLE or name in CONDITIONS:
            return self.library.tensor(WHOLE.get(name, CONDITIONS.get(name)), device=self.device)
        if name in ("z", "zs"):
            parts = ("x", "y") if name == "z" else ("sq", "low")
            return self.library.complex(*(self.tensor(p).float() for p in parts))
        if name not in SHAPES:
            raise KeyError(name)
        self.floats += 1
        low = self.way[min(self.floats, len(self.way)) - 1] == "l"
        found = self.tensor(name)
        return found.to(self.lower) if low else found

    def tensor(self, name: str):
        return self.library.tensor(values(name).tolist(), dtype=self.library.float32, device=self.device)


def outcome(library, function, text: str, device: str, way: str, lower) -> str:
    """What comes out of one call under autocast."""
    operands = Operands(library, device, way, lower)
    before = library.is_autocast_enabled(device), library.get_autocast_dtype(device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(text, "call", "eval")
            for name in code.co_names:  # made outside
                if name in SHAPES or name in WHOLE or name in CONDITIONS or name in ("z", "zs"):
                    operands[name]
            library.set_autocast_enabled(device, True)
            library.set_autocast_dtype(device, lower)
            found = eval(code, {"function": function, "torch": library, "flambeau": library}, operands)
    except Exception as error:
        return (
            "error"
            if any(m in str(error) for m in MISMATCH) and len(way) == 2
            else f"-{type(error).__name__}: {str(error)[:150]}"
        )
    finally:
        library.set_autocast_enabled(device, before[0])
        library.set_autocast_dtype(device, before[1])
        library.clear_autocast_cache()
    return " ".join(kinds(library, found)) or "-"


def kinds(library, found) -> list[str]:
    if isinstance(found, library.Tensor):
        name = str(found.dtype).rpartition(".")[2]
        return [SHORT.get(name, name)]
    return [k for f in found for k in kinds(library, f)] if isinstance(found, (tuple, list)) else []
