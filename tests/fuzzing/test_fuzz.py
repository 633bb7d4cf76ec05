"""Random calls of all public operations, a tenth of what `fuzz_run.py --calls 30000` makes; see there for what is checked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RUNNER = HERE / "fuzz_run.py"


@pytest.mark.parametrize("seed", range(6))
def test_random_calls(seed, tmp_path):
    log = tmp_path / "call"
    done = subprocess.run(
        [sys.executable, str(RUNNER), "--calls", "500", "--seed", str(1000 + seed), "--log", str(log)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode < 0:
        pytest.fail(f"{signal.Signals(-done.returncode).name} in {log.read_text().strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
