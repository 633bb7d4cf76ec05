"""What profiling costs: a training step of a small network without a profiler and with one, here and in PyTorch.

python benchmarks/profiler.py [--steps 100] [--rounds 20]

Each row is a process of its own, which takes turns between steps with and without the profiler; times are of the processor, on one
thread, and the least of all rounds.  Only what runs while recording is measured, not the making of tables afterwards.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time

KINDS: dict[str, dict[str, bool]] = {
    "operations": {},
    "and shapes": {"record_shapes": True},
    "and memory": {"profile_memory": True},
    "and stacks": {"with_stack": True},
    "and modules": {"with_modules": True},
}


def measure(library: str, kind: str, steps: int, rounds: int) -> None:
    """Print microseconds of a step, without and with the profiler."""
    torch = importlib.import_module(library)
    profiler = importlib.import_module(f"{library}.profiler")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimiser = torch.optim.Adam(model.parameters())
    x, y = torch.randn(32, 64), torch.randint(10, (32,))

    def run() -> float:
        start = time.process_time()
        for _ in range(steps):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()
        return (time.process_time() - start) / steps * 1e6

    run()
    off, on = [], []
    for _ in range(rounds):
        off.append(run())
        prof = profiler.profile(activities=[profiler.ProfilerActivity.CPU], **KINDS[kind])
        prof.start()
        on.append(run())
        prof.stop()
    print("RESULT", min(off), min(on))


def main() -> None:
    """Measure every kind in both libraries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--one", nargs=2, metavar=("LIBRARY", "KIND"))
    options = parser.parse_args()
    if options.one:
        measure(*options.one, options.steps, options.rounds)
        return
    print(
        f"{'recorded':<14}{'flambeau off':>14}{'on':>10}{'ratio':>8}{'PyTorch off':>14}{'on':>10}{'ratio':>8}"
    )
    for kind in KINDS:
        row = f"{kind:<14}"
        for library in ("flambeau", "torch"):
            arguments = [
                "--one",
                library,
                kind,
                "--steps",
                str(options.steps),
                "--rounds",
                str(options.rounds),
            ]
            done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True)
            figures = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("RESULT")]
            if not figures:
                row += f"{'not installed' if 'No module named' in done.stderr else 'failed':>32}"
                continue
            off, on = map(float, figures[0])
            row += f"{off:>11.1f} us{on:>7.1f} us{on / off:>8.2f}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
