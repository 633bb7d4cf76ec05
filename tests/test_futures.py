"""Futures: set once, waited for by any thread."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import flambeau
from flambeau.futures import Future, collect_all, wait_all


def test_a_result_wakes_all_who_wait():
    future, found = Future(), []
    threads = [threading.Thread(target=lambda: found.append(future.wait())) for _ in range(4)]
    for thread in threads:
        thread.start()
    future.set_result(7)
    for thread in threads:
        thread.join()
    assert found == [7] * 4 and future.done() and future.value() == 7
    for again in (lambda: future.set_result(8), lambda: future.set_exception(ValueError())):
        with pytest.raises(RuntimeError, match="only be marked completed once"):
            again()


def test_errors_travel():
    future = Future()
    with pytest.raises(RuntimeError, match="not done"):
        future.value()
    with pytest.raises(AssertionError):
        future.set_exception("text")
    after = future.then(lambda done: done.wait() + 1)
    further = after.then(lambda done: "rescued" if isinstance(done, Future) else None)
    future.set_exception(KeyError("lost"))
    for done in (future, after):
        with pytest.raises(KeyError, match="lost"):
            done.wait()
    assert further.wait() == "rescued"


def test_callbacks_run_once_in_order_and_their_errors_stay():
    future, seen = Future(), []
    future.add_done_callback(lambda done: seen.append(1))
    future.add_done_callback(lambda done: 1 / 0)
    future.add_done_callback(lambda done: seen.append(done.value()))
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        future.set_result(2)
    assert seen == [1, 2]
    future.add_done_callback(lambda done: seen.append(3))
    assert seen == [1, 2, 3]


def test_many_at_once():
    futures = [Future() for _ in range(20)]
    whole = collect_all(futures)
    threads = [threading.Thread(target=f.set_result, args=(k,)) for k, f in enumerate(futures)]
    for thread in threads:
        thread.start()
    assert [f.value() for f in whole.wait()] == list(range(20)) == wait_all(futures)
    assert collect_all([]).done() and wait_all([]) == []
    bad = Future()
    bad.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        wait_all([futures[0], bad])


def test_no_cycles_are_left():
    future = Future(devices=[flambeau.device("cpu")])
    after = future.then(lambda done: done.value())
    future.set_result(flambeau.ones(3))
    gone = weakref.ref(future)
    gc.disable()
    try:
        del future
        assert gone() is None and after.wait().sum() == 3
    finally:
        gc.enable()
    assert flambeau.Future is Future
