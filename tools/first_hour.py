"""What a newcomer does in the first hour, step by step, timed, from a fresh clone in an empty folder.

python tools/first_hour.py FOLDER [--source REPOSITORY] [--write docs/dev/first_hour.md]

Python 3.11 or newer, git, make and a C compiler are all that the machine needs.  Each step is a command of the shell, run in the clone
as README and the guides say; the page has its time and the last lines that it printed.  Ends with 1 if a step fails.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PYTHON = (
    "../flambeau/.venv-demo/bin/python"  # from a folder beside the clone, which would be imported from itself
)

OPERATION = """
import flambeau as torch
from flambeau import kernels

@kernels.pointwise
def squareplus(x, *, b=4.0):
    return (x + kernels.sqrt(x * x + b)) * 0.5

x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
squareplus(x, b=1.0).sum().backward()
print(squareplus(x), x.grad)
"""
MISTAKE = """
import flambeau as torch
layer = torch.nn.Linear(4, 2)
layer(torch.ones(3, 5))
"""
PROGRAM = """
import flambeau as torch
from flambeau import nn

class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.layer(x))

net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
rows: int = net(torch.ones(3, 4)).shape[0]
values, places = torch.ones(3, 4).max(dim=1)
reveal_type(values)
"""


class Step(NamedTuple):
    """A title, a command of the shell, what is written to files before, whether it is to fail, and how much of its output is
    shown.  Commands that begin with `make` run in the clone, others in a folder beside it."""

    title: str
    command: str
    files: dict[str, str] = {}
    fails: bool = False
    lines: int = 3


STEPS = (
    Step("Build, install, train on digits", "make demo"),
    Step(
        "The README's tour",
        f"{PYTHON} -m doctest ../flambeau/README.md && echo every example gives what it says",
    ),
    Step("An operation of one's own", f"{PYTHON} program.py", {"program.py": OPERATION}),
    Step("A mistake", f"{PYTHON} program.py", {"program.py": MISTAKE}, fails=True, lines=12),
    Step(
        "The editor: a type checker",
        f"{PYTHON} -m pip install --quiet mypy && {PYTHON} -m mypy --strict program.py",
        {"program.py": PROGRAM},
    ),
    Step(
        "In the clone's own folder",
        "cd ../flambeau && .venv-demo/bin/python -c 'import flambeau'",
        fails=True,
        lines=1,
    ),
    Step("After an edit of a Python file", "make --what-if=flambeau/nn/init.py .venv-demo/ready"),
    Step("The reference", "make docs"),
    Step("A wheel, installed without a compiler", "make wheel", lines=12),
)


def taken(step: Step, clone: Path) -> tuple[float, int, str]:
    """Seconds, status and output of a step."""
    folder = clone if step.command.startswith("make") else clone.parent / "work"
    folder.mkdir(exist_ok=True)
    for name, text in step.files.items():
        (folder / name).write_text(text.lstrip())
    began = time.perf_counter()
    done = subprocess.run(
        step.command, shell=True, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return time.perf_counter() - began, done.returncode, done.stdout


def machine() -> str:
    """System, C compiler, Python and CPUs."""
    lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    release = dict(line.split("=", 1) for line in lines if "=" in line)
    compiler = subprocess.run(
        ["cc", "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]
    system = release["PRETTY_NAME"].strip('"')
    return f"{system}, {compiler}, Python {platform.python_version()}, {len(os.sched_getaffinity(0))} CPUs"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="an empty folder, or one that does not exist")
    parser.add_argument("--source", default=str(ROOT), help="what is cloned (default: this repository)")
    parser.add_argument("--write", type=Path, help="the page to write")
    options = parser.parse_args()
    clone = options.folder.resolve() / "flambeau"
    clone.parent.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    subprocess.run(["git", "clone", "--quiet", options.source, clone], check=True)
    table = [f"| git clone | {time.perf_counter() - began:.0f} |"]
    shown, failed = [], 0
    for step in STEPS:
        seconds, status, output = taken(step, clone)
        right = (status != 0) == step.fails
        failed += not right
        print(f"{step.title}: {seconds:.0f} s{'' if right else f', FAILED with status {status}'}", flush=True)
        table.append(f"| {step.title} | {seconds:.0f}{'' if right else ' (fails)'} |")
        last = "\n".join(
            output.rstrip().replace(f"{clone.parent}/", "").splitlines()[-step.lines if right else -40 :]
        )
        files = "".join(f"{text.strip()}\n\n" for text in step.files.values())
        shown.append(f"## {step.title}\n\n```\n{files}$ {step.command}\n{last}\n```\n")
    page = "\n".join(
        [
            "# The first hour\n",
            "Written by `python tools/first_hour.py FOLDER --write docs/dev/first_hour.md`.\n",
            f"{machine()}.\n",
            "| step | seconds |\n|---|---|",
            *table,
            "",
            *shown,
        ]
    )
    if options.write:
        options.write.write_text(page)
    else:
        print(page)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
