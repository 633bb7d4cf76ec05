"""What the programs `parity_*.py` share: their options, and numbered cases that run in child processes, one at a time.

A case that crashes or hangs costs that one case: its process is ended and another takes over.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import selectors
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Row = dict[str, Any]
TESTED = "2.13"  # the release of PyTorch whose samples and counts the tables have


class Differ(Exception):
    """A comparison's result is not PyTorch's."""


def must(condition: bool, message: str) -> None:
    """Differ with the message where the condition does not hold."""
    if not condition:
        raise Differ(message)


def require_torch() -> Any:
    """PyTorch with the modules that its own samples need; ends the program, saying what to install, where it is not there."""
    try:
        import torch
        import torch.testing._internal.common_utils  # noqa: F401  (imports expecttest, too)
    except ImportError as error:
        sys.exit(f'this needs PyTorch {TESTED} beside flambeau: pip install ".[parity]" ({error})')
    if not torch.__version__.startswith(TESTED):
        print(f"PyTorch is {torch.__version__}; the tables are of {TESTED}", file=sys.stderr)
    return torch


def parser_for(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that every comparison has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--candidate", default="flambeau", help="the module under test (default: flambeau)")
    parser.add_argument("--only", default="", help="only cases whose name matches this regular expression")
    parser.add_argument("--seconds", type=int, default=90, help="most seconds a case (default: 90)")
    parser.add_argument("--json", help="write every row there")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="all causes, and the children's messages"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def serve(options: argparse.Namespace, run_case: Callable[[Any, Any, int], Row]) -> None:
    """The child's loop: `run_case(torch, candidate, index)` for each index on standard input, its row out as a line of JSON."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a case prints is no answer
    torch = require_torch()
    torch.set_num_threads(1)
    candidate = importlib.import_module(options.candidate)
    warnings.simplefilter("ignore")
    out.write("ready\n")
    for line in sys.stdin:
        try:
            row = run_case(torch, candidate, int(line))
        except Exception as error:  # a fault of the program, not of the candidate
            row = {"tool_error": "".join(traceback.format_exception(error))[-2000:]}
        out.write(json.dumps(row, default=str) + "\n")


def drive(
    script: str, options: argparse.Namespace, names: Iterable[tuple[int, str]], extra: Iterable[str] = ()
) -> Iterator[tuple[int, Row]]:
    """(index, row) of each case; the row is {"crash": why} where the child died or took longer than `options.seconds`."""
    command = [sys.executable, script, "--worker", "--candidate", options.candidate, *extra]

    def start() -> subprocess.Popen:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            stderr=None if options.verbose else subprocess.DEVNULL,
        )
        if child.stdout.readline().strip() != "ready":
            sys.exit(
                f"the child could not start: does `import {options.candidate}` work? (-v shows its messages)"
            )
        return child

    child = start()
    for index, name in names:
        began = time.time()
        child.stdin.write(f"{index}\n")
        child.stdin.flush()
        ready = selectors.DefaultSelector()
        ready.register(child.stdout, selectors.EVENT_READ)
        answered = ready.select(options.seconds)
        line = child.stdout.readline() if answered else ""
        if line:
            row = json.loads(line)
        else:
            child.kill()
            code = child.wait()
            row = {"crash": f"crash (exit {code})" if answered else f"no answer in {options.seconds} s"}
            child = start()
        row["seconds"] = round(time.time() - began, 2)
        row.setdefault("name", name)
        yield index, row
    child.stdin.close()
    child.wait()


def one_line(error: BaseException | str, width: int = 220) -> str:
    """An error or a text on one line of at most `width` characters."""
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
    text = " ".join(text.split())
    return text if len(text) <= width else text[:width] + "…"


def write_json(options: argparse.Namespace, rows: list[Row]) -> None:
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1, default=str)
