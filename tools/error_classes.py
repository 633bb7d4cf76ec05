"""The error that a library raises for each call in tests/core/bad_calls.py: its class, beside the one expected, and text.

python tools/error_classes.py flambeau
"""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "core"))


def error_of(library: Any, call: str) -> tuple[str, str]:
    """The name of the first built-in class that the error of a call is of ("none" without one), and its text."""
    try:
        eval(call, {"t": library})
    except Exception as e:
        return next(c.__name__ for c in type(e).__mro__ if c.__module__ == "builtins"), str(e)
    return "none", ""


if __name__ == "__main__":
    from bad_calls import CALLS

    warnings.simplefilter("ignore")
    library = importlib.import_module(sys.argv[1])
    for expected, call in CALLS:
        kind, text = error_of(library, call)
        print(f"{' ' if kind == expected else '!'} {kind:20} {call}\n      {text[:200]}")
