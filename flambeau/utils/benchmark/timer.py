"""Timing a statement: how often to run it, with how many threads, until the median is known."""

from __future__ import annotations

import sys
import textwrap
import timeit
from collections.abc import Callable
from enum import Enum
from statistics import median
from time import perf_counter
from typing import Any

from ...core.base import display
from ...core.base.device import devices_in_use
from .measurement import Measurement, TaskSpec, set_torch_threads

MOST_RUNS = 2**31 - 1


class Language(Enum):
    """What a statement is written in.

    >>> from flambeau.utils.benchmark import Language, Timer
    >>> timer = Timer("pass", language=Language.PYTHON)
    """

    PYTHON = 0


def timer() -> float:
    """Seconds on a clock, after all work on accelerators is done.

    >>> from flambeau.utils.benchmark import timer
    >>> timer() <= timer()
    True
    """
    for device in devices_in_use():
        device.synchronize()
    return perf_counter()


def _dedented(text: str) -> str:
    text = textwrap.dedent(text)
    return text.removeprefix("\n").rstrip()


class Timer:
    """Measures a statement, given as text, after a setup that runs once; `globals` has the names that both may use.

    `label`, `sub_label`, `description` and `env` say what is measured, for tables (`Compare`); `num_threads` is how many threads compute,
    by default one.  The package is there as `torch`.  ValueError for a statement that is no text, or in another language.

    >>> from flambeau.utils.benchmark import Timer
    >>> measured = Timer("x @ x", globals={"x": __import__("flambeau").ones(4, 4)}).timeit(100)
    >>> measured.number_per_run, measured.median < 1
    (100, True)
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Timer: statements are in Python here, got language={language!r}")
        if global_setup:
            raise ValueError(f"Timer: global_setup is for C++ only, got {global_setup!r}; use setup")
        names = {"torch": sys.modules[display.NAME], **(globals or {})}
        stmt, setup = _dedented(stmt), _dedented(setup)
        self._timer = timeit.Timer(stmt=stmt, setup=setup or "pass", timer=timer, globals=names)
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of so many runs, after a hundredth of them to warm up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not available: `blocked_autorange` repeats.  NotImplementedError always."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Not available: `blocked_autorange` finds how often to run.  NotImplementedError always."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block(self, min_run_time: float) -> int:
        """How many runs make the clock's own time not count."""
        overhead, number = median(self._timeit(0) for _ in range(5)), 1
        while True:
            taken = self._timeit(number)
            if overhead / taken <= 1e-4 and taken >= min_run_time / 1000:
                return number
            if taken > min_run_time or number * 10 > MOST_RUNS:
                return number
            number *= 10

    def _measured(
        self,
        number: int,
        least: float,
        most: float | None,
        is_enough: Callable[[Measurement], bool],
        callback: Callable[[int, float], Any] | None,
    ) -> Measurement:
        result = Measurement(number, [], self._task_spec)
        total, enough = 0.0, False
        while total < least or not enough:
            taken = self._timeit(number)
            result.raw_times.append(taken)
            total += taken
            if callback is not None:
                callback(number, taken)
            enough = is_enough(result)
            if most is not None and total > most:
                break
        return result

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Blocks of runs for at least `min_run_time` seconds, each so long that asking the clock costs nothing beside it.

        `callback(number, seconds)` is called after each block.
        """
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block(min_run_time)
            return self._measured(number, min_run_time, None, lambda result: True, callback)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Blocks of runs until their interquartile range is less than that part of the median, or `max_run_time` is over."""

        def is_enough(result: Measurement) -> bool:
            return len(result.raw_times) > 3 and result.meets_confidence(threshold)

        with set_torch_threads(self._task_spec.num_threads):
            number = self._block(0.05)
            return self._measured(number, min_run_time, max_run_time, is_enough, callback)
