"""`python -m flambeau.torch program.py arguments` runs a program whose `import torch` means this library.

python -m flambeau.torch program.py --its arguments
python -m flambeau.torch -m package.module --its arguments
python -m flambeau.torch -c "import torch; print(torch.ones(2))"
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from ._compat.as_torch import as_torch


def main(arguments: list[str]) -> None:
    """Run a script, a module (`-m`) or a text (`-c`) as Python does, after `as_torch()`."""
    if (
        not arguments
        or arguments[0] in ("-h", "--help")
        or arguments[0] in ("-m", "-c")
        and len(arguments) == 1
    ):
        print(__doc__)
        raise SystemExit(0 if arguments and arguments[0] in ("-h", "--help") else 2)
    as_torch()
    kind = arguments[0] if arguments[0] in ("-m", "-c") else ""
    what, *rest = arguments[1:] if kind else arguments
    if kind == "-m":
        sys.argv = [what, *rest]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest]
        exec(compile(what, "<string>", "exec"), vars(sys.modules["__main__"]))
    else:
        sys.argv = [what, *rest]
        if not sys.flags.safe_path:  # Python's own first entry is where it was started
            sys.path[0] = str(Path(what).resolve().parent)
        runpy.run_path(what, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
