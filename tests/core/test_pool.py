"""The thread pool: every index once, on the right threads, whatever else the process does meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from flambeau.core.base import parallel

# Python 3.12 warns of every fork of a process that has threads; that it works is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


@pytest.fixture(autouse=True)
def keep_num_threads():
    before = parallel.get_num_threads()
    yield
    parallel.set_num_threads(before)


def visit(n: int, grain: int, **options: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns how often each of n elements was visited, and by which thread last."""
    counts = np.zeros(n, np.int64)
    threads = np.zeros(n, np.int64)
    parallel._visit_range(counts, threads, grain, **options)
    return counts, threads


def visit_all_right() -> bool:
    """Says whether ranges of several sizes, plain and nested, visit each element as often as they should."""
    plain, _ = visit(10_007, 16, times=20)
    nested, _ = visit(6_000, 4, inner=6, times=20)
    return bool((plain == 20).all() and (nested == 20).all())


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 64])
@pytest.mark.parametrize(
    ("n", "grain"), [(1, 1), (2, 1), (7, 3), (64, 64), (65, 64), (1000, 1), (12_345, 100)]
)
def test_every_index_is_visited_once(threads, n, grain):
    parallel.set_num_threads(threads)
    assert (visit(n, grain)[0] == 1).all()


def test_an_empty_range_visits_nothing():
    counts, _ = visit(0, 4)
    assert counts.size == 0


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_a_grain_is_never_divided(threads):
    parallel.set_num_threads(threads)
    for _ in range(20):
        by = visit(64 * 50, 64, effort=100)[1].reshape(50, 64)
        assert (by == by[:, :1]).all()


def test_a_range_of_one_grain_stays_on_the_calling_thread():
    parallel.set_num_threads(4)
    assert set(visit(100, 100, effort=1000)[1].tolist()) == {threading.get_ident()}


@pytest.mark.parametrize("threads", [2, 4])
def test_several_threads_take_part_but_no_more_than_asked_for(threads):
    parallel.set_num_threads(threads)
    deadline = time.monotonic() + 20
    most = 0
    while most < 2 and time.monotonic() < deadline:
        most = max(most, len(set(visit(1000, 1, effort=10_000)[1].tolist())))
    assert 2 <= most <= threads


def test_a_nested_range_stays_on_the_thread_of_its_task():
    parallel.set_num_threads(3)
    counts, threads = visit(40 * 50, 1, inner=50, effort=100)
    assert (counts == 1).all()
    by = threads.reshape(40, 50)
    assert (by == by[:, :1]).all()


def test_ranges_of_several_python_threads_at_once():
    parallel.set_num_threads(3)
    results: list[bool] = []
    callers = [threading.Thread(target=lambda: results.append(visit_all_right())) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == [True] * 4


def test_the_number_of_threads_may_change_between_ranges():
    for threads in (1, 4, 2, 1, 3, 3, 8, 2):
        parallel.set_num_threads(threads)
        assert parallel.get_num_threads() == threads
        counts, by = visit(500, 1, effort=500)
        assert (counts == 1).all()
        assert len(set(by.tolist())) <= threads


def test_idle_workers_use_no_cpu():
    parallel.set_num_threads(2)
    visit(1000, 1)
    time.sleep(0.01)  # past the time they spin
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.05


def run_in_fork() -> int:
    """Returns the exit status of a forked child that uses the pool, or -1 where it hangs."""
    child = os.fork()
    if child == 0:
        os._exit(0 if visit_all_right() else 1)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


@needs_fork
def test_a_forked_child_has_a_pool_of_its_own():
    parallel.set_num_threads(3)
    assert visit_all_right()
    assert run_in_fork() == 0
    assert visit_all_right()


@needs_fork
def test_a_fork_while_another_thread_uses_the_pool():
    parallel.set_num_threads(2)
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            visit(1000, 1, effort=200, times=10)

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        assert [run_in_fork() for _ in range(10)] == [0] * 10
    finally:
        stop.set()
        busy.join()


@needs_fork
def test_processes_of_multiprocessing():
    parallel.set_num_threads(2)
    assert visit_all_right()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = [pool.apply_async(visit_all_right) for _ in range(4)]
        assert [result.get(timeout=30) for result in results] == [True] * 4


def test_the_process_exits_while_workers_spin():
    program = (
        "import array\n"
        "from flambeau.core.base import parallel\n"
        "parallel.set_num_threads(4)\n"
        "counts, threads = array.array('q', [0] * 1000), array.array('q', [0] * 1000)\n"
        "parallel._visit_range(counts, threads, 1)\n"
        "assert set(counts) == {1}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("n", [0, -1])
def test_set_num_threads_refuses_fewer_than_one(n):
    with pytest.raises(
        RuntimeError, match=rf"set_num_threads\(\): n must be a positive integer, but got {n}"
    ):
        parallel.set_num_threads(n)


@pytest.mark.parametrize("n", [True, 2.0, "2", None])
def test_set_num_threads_refuses_other_types(n):
    with pytest.raises(RuntimeError, match=f"must be an int, but got {type(n).__name__}"):
        parallel.set_num_threads(n)


def test_set_num_threads_refuses_what_overflows():
    with pytest.raises(ValueError, match="must fit into 32 bits"):
        parallel.set_num_threads(1 << 40)


@pytest.mark.parametrize(
    ("environment", "threads"),
    [
        ({"FLAMBEAU_NUM_THREADS": "3", "OMP_NUM_THREADS": "5"}, 3),
        ({"OMP_NUM_THREADS": "5"}, 5),
        ({"OMP_NUM_THREADS": " 4, 2"}, 4),
        ({"FLAMBEAU_NUM_THREADS": "", "OMP_NUM_THREADS": "2"}, 2),
    ],
)
def test_the_environment_sets_the_number_of_threads(environment, threads):
    assert parallel._default_threads(environment) == threads


def test_without_a_setting_there_is_a_thread_for_each_cpu():
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert parallel._default_threads({}) == usable


@pytest.mark.parametrize("text", ["0", "-2", "two", "1.5"])
def test_a_bad_setting_is_warned_of(text):
    with pytest.warns(
        RuntimeWarning, match=f"FLAMBEAU_NUM_THREADS must be a positive integer, but is '{text}'"
    ):
        assert parallel._default_threads({"FLAMBEAU_NUM_THREADS": text, "OMP_NUM_THREADS": "7"}) == 7
