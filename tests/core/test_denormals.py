"""`set_flush_denormal`: numbers too small to be normal are zeros, in the thread that asks and in what the pool does for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

import flambeau

TINY = {flambeau.float32: 1e-39, flambeau.float64: 1e-310}
MANY = 1 << 20


@pytest.fixture(autouse=True)
def _as_before():
    threads = flambeau.get_num_threads()
    yield
    flambeau.set_flush_denormal(False)
    flambeau.set_num_threads(threads)


def left(x):
    """How many elements of x + x are not zeros, counted by their bits."""
    whole = flambeau.int32 if x.dtype == flambeau.float32 else flambeau.int64
    return int(((x + x).view(whole) != 0).sum())


@pytest.mark.parametrize("dtype", TINY, ids=str)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_on_all_threads_of_the_pool(dtype, threads):
    flambeau.set_num_threads(threads)
    x = flambeau.full((MANY,), TINY[dtype], dtype=dtype)
    assert left(x) == MANY
    assert flambeau.set_flush_denormal(True) is True
    for _ in range(5):  # also by threads that sleep, or that come late
        assert left(x) == 0
    flambeau.set_num_threads(threads + 1)  # and by threads that are made now
    assert left(x) == 0
    assert flambeau.set_flush_denormal(False) is True
    for _ in range(5):
        assert left(x) == MANY


def test_operands_are_taken_for_zeros_too():
    x = flambeau.full((MANY,), TINY[flambeau.float32])
    flambeau.set_flush_denormal(True)
    assert float((x * 2.0**100).abs().max()) == 0.0


def test_it_is_the_calling_threads():
    """Threads made later have it from the one that makes them; others keep theirs, and work that they share is done so."""
    flambeau.set_num_threads(3)
    x = flambeau.full((MANY,), TINY[flambeau.float32])
    found, asked, done = {}, threading.Event(), threading.Event()

    def other():
        asked.wait(60)
        found["made before"] = left(x)
        done.set()

    before = threading.Thread(target=other)
    before.start()
    flambeau.set_flush_denormal(True)
    asked.set()
    done.wait(60)
    after = threading.Thread(target=lambda: found.update({"made after": left(x)}))
    after.start()
    before.join(60), after.join(60)
    assert found == {"made before": MANY, "made after": 0} and left(x) == 0


def test_a_child_process_computes_as_its_parent():
    program = """
import os, flambeau
x = flambeau.full((1 << 20,), 1e-39)
flambeau.set_num_threads(2)
flambeau.set_flush_denormal(True)
assert int(((x + x).view(flambeau.int32) != 0).sum()) == 0
child = os.fork()
if child == 0:
    os._exit(int(((x + x).view(flambeau.int32) != 0).any()))
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", program], env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("given", [1, None, "True"])
def test_what_is_no_bool(given):
    with pytest.raises(RuntimeError, match="expects a bool"):
        flambeau.set_flush_denormal(given)
