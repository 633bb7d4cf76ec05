"""Runs programs of several processes under PyTorch and under flambeau, and compares what they print.

    python tools/distributed_programs.py [--only REGEX] [--processes 2 4] [--theirs PYTHON] [--ours PYTHON] [--page]

The programs are `tests/distributed/programs/*.py`, and `clients/distributed/*.py`, which need libraries (accelerate, lightning,
transformers, torchmetrics).  The last paragraph of each program's docstring is its command, with N for the number of processes and
FOLDER for a new folder.  `--theirs` is an interpreter with PyTorch 2.13, `--ours` one in which flambeau's dependencies are installed, with
or without PyTorch; both are by default this one.  Lines are compared word by word, and numbers by their printed digits.  Results
are kept in `clients/distributed/results.json`, from which `docs/distributed_programs.md` is written (`--page` writes it alone).
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ROOT / "tests" / "distributed" / "programs", ROOT / "clients" / "distributed"
RESULTS, PAGE = ROOT / "clients" / "distributed" / "results.json", ROOT / "docs" / "distributed_programs.md"
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")
PATIENCE = 240  # seconds for a command

HEAD = """# Programs of several processes

`python tools/distributed_programs.py` runs these programs under PyTorch 2.13 with gloo and under flambeau with the drop-in, on
one machine, and writes this page.  The programs are written for PyTorch and are the same files for both.  *Equal* means that they
print the same lines, and that every number in them (losses, norms, metrics, learning rates) agrees in its printed digits but for
one in the last, or to 1e-4; the difference is the greatest of those, relative.  Initial weights and shuffles are PyTorch's
(`FLAMBEAU_RANDOM=pytorch`).

Lightning and Fabric, where they start their processes as scripts themselves (`strategy="ddp"` without a launcher), import `mpi4py.MPI` in
each while they look for a cluster, which initialises MPI for that process alone.  `init_process_group` ends that world of one and
starts MPICH again in a session (MPI 4), without its shared memory; mpi4py's `COMM_WORLD` stays the process alone.
"""


def programs() -> dict[str, Path]:
    return {path.stem: path for folder in FOLDERS for path in sorted(folder.glob("*.py"))}


def described(path: Path) -> tuple[str, list[str]]:
    """What a program is, and the lines of the commands that run it."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    about, _, commands = text.rpartition("\n\n")
    if not about or " N" not in commands:
        raise SystemExit(
            f"{path}: the docstring's last paragraph is the command, with N for the number of processes"
        )
    return " ".join(about.split()), commands.splitlines()


def run(python: str, path: Path, command: str, processes: int, ours: bool) -> tuple[int, str, str]:
    """The exit status of a command and what it wrote to stdout and stderr."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "RANK", "WORLD_SIZE")}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    environment |= {
        "PATH": f"{Path(python).parent}{os.pathsep}{environment['PATH']}",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
    }
    if ours:
        environment |= {
            "PYTHONPATH": f"{ROOT / 'dropin' / 'src'}{os.pathsep}{ROOT}",
            "FLAMBEAU_RANDOM": "pytorch",
        }
    with tempfile.TemporaryDirectory() as folder:
        words = re.sub(r"\bFOLDER\b", folder, re.sub(r"\bN\b", str(processes), command))
        words = re.sub(r"\b(\w+\.py)\b", lambda name: str(path.parent / name[1]), words)
        words = words.replace("torchrun ", "torchrun --standalone ")
        environment["TMPDIR"] = folder
        try:
            done = subprocess.run(
                ["bash", "-c", words],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired:
            return 124, "", f"TimeoutError: more than {PATIENCE} seconds"
    return done.returncode, done.stdout, done.stderr


def cause(stderr: str) -> str:
    """The line of an error that says most: the first `…Error: …` of a traceback."""
    lines = [re.sub(r"^\[rank\d+\]: ?", "", line).strip() for line in stderr.splitlines()]
    errors = [
        line
        for line in lines
        if re.match(r"(\w+\.)*\w*(Error|Exception|Warn)\w*: ", line) and "ChildFailed" not in line
    ]
    return (errors or lines or ["no words"])[0][:300]


def difference(ours: str, theirs: str) -> tuple[float, int] | str:
    """The greatest relative difference of numbers and how many there are, or the first line that differs."""
    here, there = ours.splitlines(), theirs.splitlines()
    greatest, count = 0.0, 0
    for mine, yours in zip(here, there):
        if NUMBER.sub("#", mine) != NUMBER.sub("#", yours):
            return f"printed {mine!r}, PyTorch {yours!r}"
        for a, b in zip(NUMBER.findall(mine), NUMBER.findall(yours)):
            digits = len(b.partition(".")[2]) if "e" not in b else 0
            apart = abs(float(a) - float(b))
            if apart > max(1.01 * 10.0**-digits if digits else 0.0, 1e-4 * abs(float(b)) if digits else 0.0):
                return f"printed {mine!r}, PyTorch {yours!r}"
            greatest, count = max(greatest, apart / max(abs(float(b)), 1e-3)), count + 1
    if len(here) != len(there):
        return f"printed {len(here)} lines, PyTorch {len(there)}"
    return greatest, count


def compared(path: Path, command: str, processes: int, options: argparse.Namespace) -> dict:
    status, printed, said = run(options.theirs, path, command, processes, ours=False)
    result: dict = {"pytorch": "runs" if status == 0 else cause(said)}
    own_status, own, own_said = run(options.ours, path, command, processes, ours=True)
    result["flambeau"] = "runs" if own_status == 0 else cause(own_said)
    if status == own_status == 0:
        apart = difference(own, printed)
        if isinstance(apart, str):
            result["apart"] = apart
        else:
            result["difference"], result["numbers"] = float(f"{apart[0]:.1e}"), apart[1]
    return result


def page() -> str:
    results = json.loads(RESULTS.read_text())
    lines = [HEAD]
    for folder, title in zip(FOLDERS, ("As tutorials have them", "With other people's libraries")):
        lines += [f"## {title}", "", f"`{folder.relative_to(ROOT)}`", ""]
        lines += [
            "| program | what it is | command | processes | PyTorch | flambeau | numbers | difference |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for name, path in programs().items():
            if path.parent != folder:
                continue
            about, commands = described(path)
            for command in commands:
                for processes, outcome in sorted(results.get(f"{name}: {command}", {}).items()):
                    lines.append(row(path, about, command, processes, outcome))
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def row(path: Path, about: str, command: str, processes: str, outcome: dict) -> str:
    equal = "equal" if "difference" in outcome else outcome.get("apart", outcome["flambeau"])
    apart = f"{outcome['difference']:.0e}" if "difference" in outcome else ""
    place = path.relative_to(ROOT)
    command = re.sub(r"\b(\w+\.py)\b", str(place), command)
    numbers = str(outcome.get("numbers", ""))
    cells = [f"`{place.stem}`", about, f"`{command}`", processes, outcome["pytorch"], equal, numbers, apart]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="a pattern of commands")
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--theirs", default=sys.executable, help="an interpreter with PyTorch")
    parser.add_argument("--ours", default=sys.executable, help="an interpreter for flambeau")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    wrong = 0
    for name, path in {} if options.page else programs().items():
        for command in described(path)[1]:
            if not re.search(options.only, f"{name}: {command}"):
                continue
            for processes in options.processes:
                outcome = compared(path, command, processes, options)
                fine = "difference" in outcome or outcome["pytorch"] != "runs"
                wrong += not fine
                print(
                    "same  " if "difference" in outcome else "      " if fine else "WRONG ",
                    name,
                    command,
                    processes,
                    outcome,
                    flush=True,
                )
                results.setdefault(f"{name}: {command}", {})[str(processes)] = outcome
                keep(results)
    keep(results)
    return int(wrong > 0)


def keep(results: dict) -> None:
    """Writes the results of the commands that there are, and the page."""
    known = {f"{name}: {command}" for name, path in programs().items() for command in described(path)[1]}
    by_program = {name: outcome for name, outcome in sorted(results.items()) if name in known}
    RESULTS.write_text(json.dumps(by_program, indent=1) + "\n")
    PAGE.write_text(page())


if __name__ == "__main__":
    sys.exit(main())
