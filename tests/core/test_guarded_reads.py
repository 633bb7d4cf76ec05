"""No kernel reads beyond its operands: they lie at the edge of memory in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("where", ["end", "begin"])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_operands_at_the_edge_of_memory(where, threads, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_NUM_THREADS", threads)
    script = Path(__file__).with_name("guarded_reads.py")
    done = subprocess.run([sys.executable, str(script), where], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
