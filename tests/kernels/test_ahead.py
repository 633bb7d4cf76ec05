"""Compiling ahead leaves on disk what programs then find."""

from __future__ import annotations

import os
import subprocess
import sys

from flambeau.kernels import _ahead as ahead

PROGRAM = """
from flambeau.kernels import _ahead as ahead
from flambeau.codegen import build
print(*ahead.part(["float32"], 7, 40), build.statistics["compiled"], build.statistics["loaded"])
"""


def test_a_share_of_the_common_calls(tmp_path):
    env = dict(os.environ, FLAMBEAU_CACHE_DIR=str(tmp_path))
    results = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        results.append([int(word) for word in done.stdout.split()])
    (calls, refused, compiled, loaded), (_, _, again, from_disk) = results
    assert calls > 10 and refused < calls / 2
    assert compiled > calls - refused and loaded == 0
    assert again == 0 and from_disk == compiled


def test_the_training_steps_are_among_them():
    steps = list(ahead.training_steps())
    assert len(steps) == 24
    steps[0]()


def test_a_dtype_that_does_not_exist_is_an_error(tmp_path):
    env = dict(os.environ, FLAMBEAU_CACHE_DIR=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "flambeau.codegen", "float31"], env=env, capture_output=True, timeout=300
    )
    assert done.returncode != 0
