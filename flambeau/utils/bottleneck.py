"""Where a program's time goes: `python -m flambeau.utils.bottleneck program.py --its arguments`.

Prints what the environment is (`utils.collect_env`), and runs the program twice: under Python's cProfile, then under the profiler of
operations, with the accelerators that are there.  So a program should be short, and do the same when it is run again.  What it
prints itself comes between.  A profiler takes time of its own: compare within a table, not with a plain run.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..core.base.display import NAME
from ..profiler import profile, supported_activities
from .collect_env import get_pretty_env_info

__all__ = ["main"]

ROWS = 15


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the three parts for a program and its arguments, by default those of the command.

    What the program raises comes through; that it ends with `sys.exit()` is no error.

    Raises:
        SystemExit: no program is given

    >>> import os, tempfile
    >>> from flambeau.utils import bottleneck
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "program.py")
    ...     with open(path, "w") as file:
    ...         _ = file.write("import flambeau; flambeau.ones(100).exp()")
    ...     bottleneck.main([path])  # doctest: +ELLIPSIS
    === Environment ===
    ...
    === cProfile: ...
    === Operations: ...
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {NAME}.utils.bottleneck",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("program", help="the file of a program in Python")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it is given")
    options = parser.parse_args(arguments)
    if not os.path.isfile(options.program):
        parser.error(f"there is no file {options.program!r}")
    with open(options.program, "rb") as source:
        code = compile(source.read(), options.program, "exec")  # its errors, before it is run

    print("=== Environment ===", get_pretty_env_info(), sep="\n", flush=True)

    calls = cProfile.Profile()
    with _as_main(options.program, options.arguments):
        calls.runcall(_run, code, options.program)
    print(f"=== cProfile: the {ROWS} functions that took longest by themselves ===")
    pstats.Stats(calls, stream=sys.stdout).sort_stats("tottime").print_stats(ROWS)

    with (
        _as_main(options.program, options.arguments),
        profile(activities=supported_activities()) as operations,
    ):
        _run(code, options.program)
    averages = operations.key_averages()
    keys = ["self_cpu_time_total"]
    if any(event.self_device_time_total for event in averages):
        keys.append("self_device_time_total")
    for key in keys:
        print(f"=== Operations: the {ROWS} that took longest by themselves ({key}) ===")
        print(averages.table(sort_by=key, row_limit=ROWS))


@contextmanager
def _as_main(program: str, arguments: list[str]) -> Iterator[None]:
    """The command line and the search path that a program finds."""
    before = sys.argv, sys.path
    sys.argv = [program, *arguments]
    sys.path = [os.path.dirname(os.path.abspath(program)), *sys.path]
    try:
        yield
    finally:
        sys.argv, sys.path = before


def _run(code: object, program: str) -> None:
    try:
        runpy._run_module_code(code, mod_name="__main__", script_name=program)  # type: ignore[attr-defined]
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise


if __name__ == "__main__":
    main()
