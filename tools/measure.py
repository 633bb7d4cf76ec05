"""Run every program that compares flambeau with PyTorch, and print what they say as one Markdown table.

    python tools/measure.py                      # everything: about an hour on two cores
    python tools/measure.py --quick              # a sample of each: some minutes
    python tools/measure.py --only parity_errors --write table.md

Needs PyTorch: pip install ".[parity]"; `make measure` makes an environment that has it.  The programs run one after another, each in
a process of its own.  A row has the command, the last lines that it printed, and the minutes that it took; a program that fails says
so there, and the exit status is 1.  Ratios of speed mean little while other programs run beside it, least of all with 2 threads.
"""

from __future__ import annotations

import argparse
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Claim(NamedTuple):
    """One row: what is compared, by which command, and how many of its last lines say the result."""

    what: str
    command: str
    sample: str  # further options for `--quick`
    lines: int = 1


SIX = "float32,float64,int64,bool,complex64,bfloat16"
ONE_A_GROUP = "--cases '64Ki|32x32x32|mnist1|mlp' --seconds 0.02 --rounds 1"
FOUR = "int32,uint8,float16,complex128"
CLAIMS = (
    Claim(
        "speed, 1 thread",
        "benchmarks/versus.py --threads 1 --seconds 0.1",
        ONE_A_GROUP,
        9,
    ),
    Claim("speed, 2 threads", "benchmarks/versus.py --threads 2 --seconds 0.1", ONE_A_GROUP, 9),
    Claim(
        "operations",
        f"tools/parity_operations.py --dtypes {SIX} --json {{folder}}/six.json",
        "--only '^[a-c]' --samples 4",
    ),
    Claim(
        "operations, other dtypes",
        f"tools/parity_operations.py --dtypes {FOUR} --json {{folder}}/four.json",
        "--only '^[a-c]' --samples 4",
    ),
    Claim(
        "who is nearer to float64",
        "tools/parity_closer.py {folder}/six.json {folder}/four.json",
        "--samples 4",
    ),
    Claim(
        "without data, modes, subclasses",
        "tools/parity_ways.py --ways meta,mode,dispatch,subclass --most 4",
        "--only '^[a-c]' --most 1",
        4,
    ),
    Claim("vmap", "tools/parity_ways.py --ways vmap", "--only '^[a-c]' --most 1"),
    Claim("modules", "tools/parity_modules.py", "--only '^nn.[A-C]'"),
    Claim(
        "optimisers, schedulers, averages", "tools/parity_optimizers.py", "--only 'SGD|StepLR|averages'", 3
    ),
    Claim("errors", "tools/parity_errors.py --public", "--only '^[a-c]'"),
    Claim("names", "tools/parity_names.py --min-projects 2", ""),
)


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        match = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match[1] if match else platform.processor() or platform.machine()


def run(claim: Claim, folder: str, quick: bool) -> tuple[list[str], float, bool]:
    """The last lines that the program printed, its minutes, and whether it came to its end."""
    program, *options = shlex.split(claim.command.format(folder=folder))
    sample = shlex.split(claim.sample) if quick else []
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(ROOT / program), *options, *sample],
        capture_output=True,
        text=True,
    )
    minutes = (time.monotonic() - began) / 60
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode not in (0, 1) or not lines or "Traceback" in done.stderr:
        return [f"failed ({done.returncode}): {done.stderr.strip().splitlines()[-1:]}"], minutes, False
    return lines[-claim.lines :], minutes, True


def row(claim: Claim, lines: list[str], minutes: float, quick: bool) -> str:
    command = claim.command.replace("{folder}/", "") + (f" {claim.sample}" if quick and claim.sample else "")
    cells = (claim.what, f"`python {command}`", "<br>".join(lines), f"{minutes:.1f}")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a sample of each")
    parser.add_argument("--only", default="", help="only commands that match this regular expression")
    parser.add_argument("--write", type=Path, help="write the table there, too")
    options = parser.parse_args()
    chosen = [claim for claim in CLAIMS if re.search(options.only, claim.command)]
    head = f"{date.today()}, {processor()}, Python {platform.python_version()}{', a sample of each' * options.quick}\n"
    table = [head, "| what | command | result | minutes |", "|---|---|---|---|"]
    print("\n".join(table), flush=True)
    whole = True
    with tempfile.TemporaryDirectory() as folder:
        for claim in chosen:
            lines, minutes, ended = run(claim, folder, options.quick)
            whole &= ended
            table.append(row(claim, lines, minutes, options.quick))
            print(table[-1], flush=True)
    if options.write:
        options.write.write_text("\n".join(table) + "\n")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
