"""The steps of tools/gpu_check.sh: what is run on a machine with an NVIDIA device, in which order, for how long, and what to mend first.

    python tools/gpu_plan.py --list
    python tools/gpu_plan.py --out build/gpu [--budget 1500] [--steps 'device products'] [--dry]

The order is that of worth: what the rest stands on first, then what is right or wrong, then what is fast or slow.  Each step has a limit of
its own, and no step gets more than what is left of the budget; one that does not end is killed with all that it has started.  Its output
goes to a file as it comes, with the last lines of it to the terminal.  A step that needs another that has failed is left out.

`--dry` runs the whole plan on the tests' fake driver, with fewer tests and small sizes: to see that the plan itself works.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUDGET = 1500  # seconds
SHOWN = 12  # lines of a step's end that the terminal gets
NAMED = 6  # faults that are named for each step
FAULT = re.compile(
    r"^(FAILED|ERROR) |^E {3,}\S|^\w*(Error|Exception|Warning)\b.*:|^FAULT |Fatal Python error|Segmentation fault"
)


class Step(NamedTuple):
    """A name, seconds, why it stands where it does, the command behind Python, and the steps that it stands on.

    `tests` are run by pytest: files, or `-k` and an expression; `dry` takes their place without a device.
    """

    name: str
    limit: int
    why: str
    program: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    dry: tuple[str, ...] | None = None
    needs: tuple[str, ...] = ("build", "device")


DEVICES = "tests/devices"
FEW = ("-k", "where_of or gelu_erf or shape1-argmax or shape1-softmax")
STEPS = (
    Step("build", 300, "nothing runs without it", ("tools/develop.py",), needs=()),
    Step(
        "device",
        90,
        "the driver, a kernel, a product, which libraries there are",
        ("tools/gpu_first.py",),
        needs=("build",),
    ),
    Step("grids", 60, "launches: blocks, threads, shared memory", tests=(f"{DEVICES}/test_device_grids.py",)),
    Step(
        "registry",
        360,
        "every operation, its gradients",
        tests=(f"{DEVICES}/test_opencl.py",),
        dry=(f"{DEVICES}/test_opencl.py", *FEW),
    ),
    Step("libraries", 90, "cuBLAS, cuBLASLt, cuSOLVER against the host", ("tools/gpu_libraries.py",)),
    Step(
        "products",
        120,
        "tensor cores",
        tests=(f"{DEVICES}/test_device_products.py", f"{DEVICES}/test_device_matrices.py"),
        dry=(f"{DEVICES}/test_device_grids.py",),
    ),
    Step("training", 90, "a network learns, eager and as a graph", ("tools/gpu_training.py",)),
    Step(
        "families",
        240,
        "attention, convolutions, ordering, transforms, draws, sparse",
        tests=tuple(
            f"{DEVICES}/test_device_{name}.py"
            for name in (
                "attention",
                "convolutions",
                "ordering",
                "transforms",
                "draws",
                "generators",
                "special",
                "sparse",
            )
        ),
        dry=(f"{DEVICES}/test_device_generators.py", "-k", "seed"),
    ),
    Step(
        "speed",
        300,
        "the table against PyTorch, where that is installed",
        ("tools/gpu_versus.py",),
        dry=("--small", "--alone", "--cases", "host"),
    ),
    Step("nccl", 60, "collectives, where there are two devices", ("tools/nccl_check.py",), dry=()),
    Step(
        "fake",
        120,
        "the host's side with the fake driver, as a comparison",
        tests=(f"{DEVICES}/test_cuda_host.py",),
        dry=(f"{DEVICES}/test_cuda_host.py", "-k", "driver_without or too_old"),
        needs=("build",),
    ),
)


class Outcome(NamedTuple):
    """How a step ended: "passed", "failed", "stopped" (at its limit), "left out"; seconds, and its faults."""

    step: Step
    end: str
    seconds: float
    faults: list[str]


def command(step: Step, dry: bool) -> list[str]:
    """What is run for a step."""
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", "-q"]
    if step.tests:
        chosen = step.tests if not dry or step.dry is None else step.dry
        plugin = ["-p", "fake_cuda"] if dry and step.name != "fake" else []
        return [sys.executable, "-m", "pytest", *plugin, *options, *chosen]
    extra = step.dry or () if dry else ()
    if dry and step.name != "build":
        return [sys.executable, "-m", "fake_cuda", *step.program, *extra]
    return [sys.executable, *step.program, *extra]


def environment(dry: bool, folder: str) -> dict[str, str]:
    """What the steps find in their environment; without a device, the fake driver's library, built in `folder`."""
    paths = [str(ROOT), str(ROOT / DEVICES), os.environ.get("PYTHONPATH", "")]
    result = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONUNBUFFERED": "1",
        "FLAMBEAU_TEST_DEVICE": "cuda",
    }
    if dry:
        library = Path(folder) / "fake_libcuda.so"
        source = ROOT / DEVICES / "fake_libcuda.c"
        build = ["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", str(library), str(source), "-ldl"]
        subprocess.run(build, check=True)
        result |= dict.fromkeys(
            ("FLAMBEAU_LIBCUDA", "FLAMBEAU_LIBCUBLAS", "FLAMBEAU_LIBCUBLASLT"), str(library)
        )
    return result


def run(step: Step, seconds: float, dry: bool, variables: dict[str, str], out: Path) -> Outcome:
    """Run a step for at most so many seconds, its output to a file of its name as it comes."""
    path = out / f"{step.name}.txt"
    start = time.monotonic()
    with path.open("w", encoding="utf-8") as file:
        status = _finished(command(step, dry), seconds, variables, file)
    text = path.read_text(encoding="utf-8", errors="replace")
    end = "stopped" if status is None else "passed" if status == 0 else "failed"
    faults = (
        list(dict.fromkeys(line.strip() for line in text.splitlines() if FAULT.search(line)))
        if end != "passed"
        else []
    )
    if end == "stopped":
        faults.append(
            f"it had not ended after {seconds:.0f} s; its last line: {(text.splitlines() or ['none'])[-1].strip()}"
        )
    elif end == "failed" and not faults:
        faults.append(f"status {status}; its last line: {(text.splitlines() or ['none'])[-1].strip()}")
    for line in text.splitlines()[-SHOWN:]:
        print(f"   {line}")
    return Outcome(step, end, time.monotonic() - start, faults)


def _finished(program: list[str], seconds: float, variables: dict[str, str], file: IO[str]) -> int | None:
    """The status of a program; None where it was killed at its limit, with what it had started."""
    process = subprocess.Popen(
        program,
        cwd=ROOT,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=file,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def planned(
    budget: float, chosen: Sequence[str], dry: bool, variables: dict[str, str], out: Path
) -> list[Outcome]:
    """Run the steps, in their order."""
    start = time.monotonic()
    outcomes: dict[str, Outcome] = {}
    for step in STEPS:
        if chosen and step.name not in chosen:
            continue
        left = budget - (time.monotonic() - start)
        broken = [name for name in step.needs if name in outcomes and outcomes[name].end != "passed"]
        if broken or left < 1:
            reason = f"it needs {broken[0]}" if broken else "no time is left"
            outcomes[step.name] = Outcome(step, "left out", 0, [reason])
            print(f"== {step.name}: left out: {reason}", flush=True)
            continue
        seconds = min(step.limit, left)
        print(f"== {step.name} (at most {seconds:.0f} s): {step.why}", flush=True)
        outcomes[step.name] = run(step, seconds, dry, variables, out)
        print(
            f"== {step.name}: {outcomes[step.name].end} after {outcomes[step.name].seconds:.0f} s", flush=True
        )
        report(list(outcomes.values()), out)  # as it goes: whoever stops the run has what there is
    return list(outcomes.values())


def report(outcomes: list[Outcome], out: Path) -> str:
    """All that was found, what to mend first at the beginning; also written to summary.txt."""
    bad = [o for o in outcomes if o.end in ("failed", "stopped")]
    lines = []
    if bad:
        lines.append(
            f"Mend first: {bad[0].step.name} ({bad[0].step.why}), {bad[0].end}; see {bad[0].step.name}.txt"
        )
        for k, o in enumerate(bad, 1):
            lines.append(f"{k}. {o.step.name}, {o.end}:")
            lines += [f"   {fault[:200]}" for fault in o.faults[:NAMED]]
            if len(o.faults) > NAMED:
                lines.append(f"   and {len(o.faults) - NAMED} more")
    lines.append("| step | end | seconds |")
    lines.append("|---|---|---|")
    lines += [
        f"| {o.step.name} | {o.end}{': ' + o.faults[0] if o.end == 'left out' else ''} | {o.seconds:.0f} |"
        for o in outcomes
    ]
    text = "\n".join(lines) + "\n"
    (out / "summary.txt").write_text(text, encoding="utf-8")
    return text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds in all")
    parser.add_argument("--steps", default="", help="names of some steps, by spaces")
    parser.add_argument("--dry", action="store_true", help="on the fake driver")
    parser.add_argument("--list", action="store_true", help="print the steps and run none")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{step.name:10} {step.limit:4} s  {step.why}" for step in STEPS))
        return 0
    chosen = options.steps.split()
    unknown = set(chosen) - {step.name for step in STEPS}
    if unknown:
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        outcomes = planned(options.budget, chosen, options.dry, environment(options.dry, folder), options.out)
    print("\n" + report(outcomes, options.out), end="")
    return 0 if all(o.end == "passed" for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
