"""What type checkers say of programs as people write them (`tests/typed`), and how much of the stubs says nothing.

python tools/checkers.py   # mypy and pyright; exit 1 where one of them finds a fault

`tests/test_checkers.py` runs mypy.  pyright (`pip install pyright`) is no part of the tests: it fetches itself when it first runs.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import flambeau

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(flambeau.__file__).parent


def mypy(folder: Path) -> list[str]:
    """The errors outside of `mistakes.py`; of that file, a line where it has none."""
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--follow-imports=silent"]
    command += [f"--cache-dir={folder}/cache", *map(str, sorted((folder / "typed").glob("*.py")))]
    installed = str(PACKAGE.parent) in map(sysconfig.get_path, ("purelib", "platlib"))
    environment = os.environ if installed else {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return faults([line for line in done.stdout.splitlines() if ": error: " in line])


def pyright(folder: Path) -> list[str]:
    """The same of pyright, in its standard mode."""
    settings = {"include": ["typed"], "extraPaths": [str(PACKAGE.parent)], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    errors = [d for d in report["generalDiagnostics"] if d["severity"] == "error"]
    return faults([f"{d['file']}:{d['range']['start']['line'] + 1}: {d['message']}" for d in errors])


def faults(errors: list[str]) -> list[str]:
    missed = [] if any("mistakes.py" in line for line in errors) else ["mistakes.py: none was found"]
    return [line for line in errors if "mistakes.py" not in line] + missed


def anything() -> dict[str, tuple[int, int, int, int]]:
    """Of each stub: functions, those that give Any, parameters, those that are Any."""
    counts_by_file = {}
    for path in sorted(PACKAGE.rglob("*.pyi")):
        functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
        annotations = [
            a.annotation for f in functions for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)
        ]
        annotations += [
            a.annotation for f in functions for a in (f.args.vararg, f.args.kwarg) if a is not None
        ]
        kinds = [ast.unparse(a) for a in annotations if a is not None]
        gives = [ast.unparse(f.returns) for f in functions if f.returns is not None]
        counts = len(functions), gives.count("_Any"), len(kinds), sum(k.startswith("_Any") for k in kinds)
        counts_by_file[str(path.relative_to(PACKAGE))] = counts
    return counts_by_file


def main() -> int:
    for path, counts in anything().items():
        print("{}: {} functions, {} give Any; {} parameters, {} are Any".format(path, *counts))
    total = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "tests" / "typed", folder / "typed")
        for checker in (mypy, pyright):
            messages = checker(folder)
            print(f"{checker.__name__}: {len(messages)} faults", *messages, sep="\n  ")
            total += len(messages)
    return bool(total)


if __name__ == "__main__":
    sys.exit(main())
