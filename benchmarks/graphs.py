"""Time whole functions compiled and eager, on flambeau and, where it is installed, on PyTorch, as a Markdown table.

    python benchmarks/graphs.py                                # all functions, 1 thread
    python benchmarks/graphs.py --threads 2 --cases 'chain|step' --rounds 5 --json out.json
    python benchmarks/graphs.py --cold                         # caches on disk begin empty
    python benchmarks/graphs.py --reference ''                 # flambeau alone
    python benchmarks/graphs.py --device opencl                # flambeau alone, on an accelerator

A process of its own for each library, function and round: it calls the function, compiles it, compares what the compiled one gives on
the same and on other numbers, then times both.  Columns: the first compiled call (capture and compilation included); a compiled call after
that; an eager one; the least of all rounds.  `gain` is eager / compiled of flambeau.  `ratio` is PyTorch's compiled time / flambeau's, the
median of rounds; where PyTorch's compiler fails, its eager time stands in, which is said.  With `--device` there are two columns
more: the kernels that a compiled call and an eager one launch.  The functions stand in graphs_cases.py.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from graphs_cases import CASES
from versus import best_time, shown

HERE = Path(__file__).parent


def tensors(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def compare(
    t: Any, function: Callable[..., Any], other: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    """AssertionError where two functions differ on the same tensors and random numbers."""
    results = []
    for f in (function, other):
        t.manual_seed(1)
        getattr(function, "restart", lambda: None)()
        results.append(tensors(f(*arguments)))
    for a, b in zip(*results, strict=True):
        rough, a, b = a.dtype not in (t.float32, t.float64), a.detach().double(), b.detach().double()
        most = max(1.0, a.nan_to_num().abs().max().item()) if a.numel() else 1.0
        if not t.allclose(
            a, b, rtol=2e-2 if rough else 1e-4, atol=(2e-2 if rough else 1e-5) * most, equal_nan=True
        ):
            raise AssertionError(f"a result differs by {(a - b).abs().max().item():.3g}")


def launches(t: Any, device: str, call: Callable[[], Any]) -> int:
    """How many kernels a call runs on a device."""
    with t.profiler.profile() as seen:
        call()
    events = [e for e in seen.events() if e.device_type.name == device.partition(":")[0].upper()]
    return sum(not e.name.startswith("Mem") for e in events)


def measured(library: str, name: str, threads: int, seconds: float, device: str = "") -> dict[str, Any]:
    """What one process finds."""
    t = importlib.import_module(library)
    t.set_num_threads(threads)
    t.manual_seed(0)
    if device:
        t.set_default_device(device)
    made, arguments = CASES[name](t)
    function = made
    if device:

        def finished(f: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any) -> Any:
                result = f(*args)
                getattr(t, device.partition(":")[0]).synchronize()
                return result

            return call

        function = finished(made)
        function.restart = getattr(made, "restart", lambda: None)  # type: ignore[attr-defined]
    figures: dict[str, Any] = {"eager": best_time(lambda: function(*arguments), seconds)}
    try:
        began = time.perf_counter()
        fast = t.compile(made)
        fast(*arguments)
        planned = fast
        if device:
            fast = finished(fast)
        figures["first"] = time.perf_counter() - began
        for x in (arguments, tuple(x * 0.5 - 0.5 for x in arguments)):
            compare(t, function, fast, x)
        figures["compiled"] = best_time(lambda: fast(*arguments), seconds)
        if device:  # last, since a queue stays slower that a profiler has measured
            figures["launches"] = [launches(t, device, partial(f, *arguments)) for f in (planned, made)]
    except Exception as error:  # a line of the table says what happened
        said = str(error).strip().splitlines() or [""]
        figures["error"] = f"{type(error).__name__}: {said[0][:90]}"
    return figures


def asked(options: argparse.Namespace, library: str, name: str, folder: str) -> dict[str, Any]:
    """What a process of its own finds."""
    count = str(options.threads)
    environment = dict(os.environ, OMP_NUM_THREADS=count, MKL_NUM_THREADS=count, OPENBLAS_NUM_THREADS=count)
    if options.cold:
        fresh = tempfile.mkdtemp(dir=folder)
        environment |= {"FLAMBEAU_CACHE_DIR": fresh, "TORCHINDUCTOR_CACHE_DIR": fresh}
    command = [sys.executable, __file__, "--threads", count, "--seconds", str(options.seconds)]
    command += ["--device", options.device]
    done = subprocess.run(
        [*command, "--child", library, name], capture_output=True, text=True, env=environment, timeout=900
    )
    if done.returncode or not done.stdout.strip():
        return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1][:120]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def row(options: argparse.Namespace, name: str, libraries: list[str], folder: str) -> dict[str, Any]:
    """All rounds of a function, and what they come to."""
    rounds = [
        {library: asked(options, library, name, folder) for library in libraries}
        for _ in range(options.rounds)
    ]
    figures: dict[str, Any] = {"case": name, "rounds": rounds}
    for library in libraries:
        for what in ("first", "compiled", "eager"):
            times = [r[library][what] for r in rounds if what in r[library]]
            if times:
                figures[f"{library}.{what}"] = min(times) if what != "first" or options.cold else times[-1]
        errors = [r[library]["error"] for r in rounds if "error" in r[library]]
        if errors:
            figures[f"{library}.error"] = errors[0]
    if options.device and "launches" in rounds[0]["flambeau"]:
        figures["flambeau.launches"] = rounds[0]["flambeau"]["launches"]
    ours = figures.get("flambeau.compiled")
    if ours and "flambeau.error" not in figures:
        figures["gain"] = figures["flambeau.eager"] / ours
        pairs = [
            (
                r["flambeau"]["compiled"],
                r[options.reference].get("compiled", r[options.reference].get("eager")),
            )
            for r in rounds
            if options.reference in r
        ]
        ratios = [theirs / mine for mine, theirs in pairs if theirs]
        if ratios:
            figures["ratio"] = statistics.median(ratios)
    return figures


def printed(figures: dict[str, Any], reference: str) -> str:
    def at(key: str) -> str:
        return shown(figures[key]).strip() if key in figures else "–"

    def number(key: str) -> str:
        return f"{figures[key]:.2f}" if key in figures else "–"

    notes = [
        f"{library}: {figures[f'{library}.error']}"
        for library in ("flambeau", reference)
        if f"{library}.error" in figures
    ]
    cells = [figures["case"]]
    for what in ("first", "compiled", "eager"):
        cells += [at(f"flambeau.{what}")] + ([at(f"{reference}.{what}")] if reference else [])
    if "flambeau.launches" in figures:
        cells += list(map(str, figures["flambeau.launches"]))
    cells += [number("gain")] + ([number("ratio")] if reference else []) + ["; ".join(notes)]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--reference", default="torch", help="the module beside flambeau (default: torch, where installed)"
    )
    parser.add_argument(
        "--cases", default="", help="only functions whose name matches this regular expression"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of each library (default: 1)")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each library (default: 3)")
    parser.add_argument("--seconds", type=float, default=0.3, help="time of a timing (default: 0.3)")
    parser.add_argument("--cold", action="store_true", help="caches on disk begin empty in each process")
    parser.add_argument("--device", default="", help="an accelerator on which the tensors are")
    parser.add_argument("--json", help="write every round there")
    parser.add_argument("--list", action="store_true", help="print the names of the functions")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        library, name = options.child
        print(json.dumps(measured(library, name, options.threads, options.seconds, options.device)))
        return 0
    names = [name for name in CASES if re.search(options.cases, name)]
    if options.list:
        print("\n".join(names))
        return 0
    if options.reference and importlib.util.find_spec(options.reference) is None:
        print(f"{options.reference} is not installed: flambeau alone\n")
        options.reference = ""
    if options.device:
        options.reference = ""
    libraries = ["flambeau", *filter(None, [options.reference])]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    titles = ["function"]
    for what in ("first call", "compiled", "eager"):
        titles += [what] + ([f"{options.reference}: {what}"] if options.reference else [])
    titles += ["launches", "eager"] if options.device else []
    titles += ["gain", *(["ratio"] if options.reference else []), ""]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            rows.append(row(options, name, libraries, folder))
            print(printed(rows[-1], options.reference), flush=True)
    for what in ("gain", "ratio"):
        good = [r[what] for r in rows if what in r]
        if good:
            mean = statistics.geometric_mean(good)
            print(
                f"\n{what}: {len(good)} of {len(rows)} functions, geometric mean {mean:.2f}, least {min(good):.2f}"
            )
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 1 if any("flambeau.error" in r for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
