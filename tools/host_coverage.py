"""Which lines of CUDA's host code the tests on the fake driver run.

    python tools/host_coverage.py [-v] [--least PERCENT]

Runs TESTS, and all Python processes that they start, with a trace of the lines of FILES, and prints for each file how many lines it has and
how many were not run (-v: which).  Fails below PERCENT, 95 by default, or where a test fails.  What a process runs between a fork and
`os._exit` is not seen.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).resolve().parent.parent
FILES = (
    "flambeau/cuda/**/*.py",
    "flambeau/devices/__init__.py",
    "flambeau/devices/generators.py",
    "flambeau/devices/holders.py",
    "flambeau/devices/images.py",
    "flambeau/devices/nccl.py",
    "flambeau/devices/streams.py",
)
TESTS = (
    "tests/devices/test_cuda_host.py",
    "tests/devices/test_nvtx.py",
    "tests/distributed/test_dist_nccl.py",
)
# Python runs a file of this name when it starts.
TRACER = """
import atexit, os, sys, threading
files = set(os.environ["FLAMBEAU_TRACED"].split(os.pathsep))
seen = {name: set() for name in files}

def line(frame, event, argument):
    seen[frame.f_code.co_filename].add(frame.f_lineno)
    return line

def call(frame, event, argument):
    if frame.f_code.co_filename in files:
        return line(frame, event, argument)

def write(owner=os.getpid()):
    sys.settrace(None)
    if os.getpid() == owner:
        with open(os.path.join(os.environ["FLAMBEAU_TRACES"], str(owner)), "w") as file:
            file.writelines(f"{name}\\t{n}\\n" for name, lines in list(seen.items()) for n in list(lines))

atexit.register(write)
threading.settrace(call)
sys.settrace(call)
"""


def lines_of(code: CodeType) -> Iterator[int]:
    """The lines that can run."""
    yield from (line for _, _, line in code.co_lines() if line)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from lines_of(constant)


def shown(lines: list[int]) -> str:
    """ "3-5, 9"."""
    runs: list[list[int]] = []
    for n in lines:
        if runs and n == runs[-1][-1] + 1:
            runs[-1][1:] = [n]
        else:
            runs.append([n])
    return ", ".join("-".join(map(str, run)) for run in runs)


def main() -> int:
    """Run the tests, and say what they ran."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say which lines were not run")
    parser.add_argument("--least", type=float, default=95.0, help="percent of the lines")
    options = parser.parse_args()
    files = sorted(path for pattern in FILES for path in ROOT.glob(pattern))
    with tempfile.TemporaryDirectory() as folder:
        traces = Path(folder) / "traces"
        traces.mkdir()
        (Path(folder) / "sitecustomize.py").write_text(TRACER)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, [folder, str(ROOT), os.environ.get("PYTHONPATH")])),
            "FLAMBEAU_TRACED": os.pathsep.join(map(str, files)),
            "FLAMBEAU_TRACES": str(traces),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *TESTS]
        failed = subprocess.run(command, cwd=ROOT, env=environment).returncode
        ran = {tuple(line.split("\t")) for file in traces.iterdir() for line in file.read_text().splitlines()}
    total = missing = 0
    print(f"{'file':<40} {'lines':>6} {'not run':>8}")
    for path in files:
        lines = sorted(set(lines_of(compile(path.read_text(), str(path), "exec"))))
        missed = [n for n in lines if (str(path), str(n)) not in ran]
        total, missing = total + len(lines), missing + len(missed)
        print(
            f"{path.relative_to(ROOT)!s:<40} {len(lines):>6} {len(missed):>8}  {shown(missed) if options.verbose else ''}"
        )
    percent = 100 * (total - missing) / total
    print(f"{'in all':<40} {total:>6} {missing:>8}  {percent:.1f} %")
    return 1 if failed or percent < options.least else 0


if __name__ == "__main__":
    sys.exit(main())
