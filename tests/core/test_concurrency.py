"""Several Python threads at once: operations, gradients, allocation, and the first compilation of a kernel."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np

import flambeau
from flambeau import nn

THREADS = 6


def together(work) -> list:
    """The results of `work(number)` in as many threads, started at once."""
    barrier, results, errors = threading.Barrier(THREADS), [None] * THREADS, []

    def run(number: int) -> None:
        try:
            barrier.wait()
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return results


def test_operations_and_allocations():
    def work(number: int) -> bool:
        rng = np.random.default_rng(number)
        for step in range(60):
            a = rng.standard_normal((step % 7 + 1, 4000 if step % 10 == 0 else 30))
            x = flambeau.from_numpy(a)
            found = ((x * 2 + 1).sin().sum(1) + x.amax(1)).numpy()
            np.testing.assert_allclose(found, np.sin(a * 2 + 1).sum(1) + a.max(1), rtol=1e-9, atol=1e-9)
        return True

    assert all(together(work))


def test_networks_of_their_own():
    def work(number: int) -> list:
        net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).double()
        for k, p in enumerate(net.parameters()):
            p.data.copy_(flambeau.full(p.shape, 0.1 * (k + 1), dtype=flambeau.float64))
        x = flambeau.full((3, 5), 0.5, dtype=flambeau.float64)
        for _ in range(20):
            net.zero_grad()
            net(x).sum().backward()
        return [p.grad.tolist() for p in net.parameters()]

    first, *others = together(work)
    assert all(other == first for other in others)


def test_gradients_that_meet_in_one_leaf():
    leaf = flambeau.zeros(50, requires_grad=True)

    def work(number: int) -> None:
        for _ in range(40):
            (leaf * (number + 1.0)).sum().backward()

    together(work)
    assert leaf.grad.tolist() == [40.0 * sum(range(1, THREADS + 1))] * 50


def test_modes_belong_to_their_thread():
    def work(number: int) -> bool:
        with flambeau.set_grad_enabled(number % 2 == 0):
            for _ in range(200):
                assert (flambeau.ones(2, requires_grad=True) * 2).requires_grad == (number % 2 == 0)
        return flambeau.is_grad_enabled()

    assert all(together(work))


COMPILES = """
import threading, flambeau
from flambeau.codegen import build
x, found, barrier = flambeau.arange(5.0), [], threading.Barrier(6)
def work():
    barrier.wait()
    found.append(tuple(x.erfinv().nan_to_num(0.0, 1.0, 2.0).tolist()))
threads = [threading.Thread(target=work) for _ in range(6)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(set(found)), len(found), build.statistics["compiled"])
"""


def test_a_kernel_that_all_want_first_is_compiled_once(tmp_path):
    env = dict(os.environ, FLAMBEAU_CACHE_DIR=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", COMPILES], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    different, all_of_them, compiled = map(int, done.stdout.split())
    assert (different, all_of_them) == (1, 6) and compiled <= 4


INTERRUPTED = """
import os, signal, threading, flambeau
x = flambeau.ones(3000, 3000)
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
timer = threading.Timer(0.2, interrupt)
timer.start()
try:
    while True:
        x = (x @ x).clamp(-1, 1)
except KeyboardInterrupt:
    print("interrupted", (flambeau.ones(3) + 1).sum().item(), (x[:2, :2] @ x[:2, :2]).shape)
"""


def test_an_interrupt_leaves_the_process_usable(interruptible):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("interrupted 6.0")
