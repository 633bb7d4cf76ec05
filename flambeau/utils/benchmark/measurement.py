"""What was measured, and how sure that is."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ...core.base.parallel import get_num_threads, set_num_threads

# Of the interquartile range to the median, beyond which a measurement warns.
WARN, WARN_GROSSLY = 0.1, 0.25
MOST_FIGURES = 4
LEAST_INTERVAL = 25e-9  # seconds: no clock is better

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time in seconds is a number from 1 to 1000, and its size.

    Raises:
        TypeError: the argument is no number

    >>> from flambeau.utils.benchmark import select_unit
    >>> select_unit(2.5e-5)
    ('us', 1e-06)
    """
    power = math.floor(math.log10(t) / 3) if t > 0 else -3
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(max(power, -3), "s")
    return unit, UNITS[unit]


def unit_to_english(u: str) -> str:
    """The name of a unit.  KeyError for one that is none.

    >>> from flambeau.utils.benchmark import unit_to_english
    >>> unit_to_english("us")
    'microsecond'
    """
    return ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number rounded to n figures.  AssertionError unless n is whole.

    >>> from flambeau.utils.benchmark import trim_sigfig
    >>> trim_sigfig(3.14159, 3)
    3.14
    """
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    if x == 0:
        return 0.0
    scale = 10.0 ** (math.ceil(math.log10(abs(x))) - int(n))
    return round(round(x / scale) * scale, 15)


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Each element once, where it stood first.

    Raises:
        TypeError: the argument cannot be iterated over, or an element has no hash

    >>> from flambeau.utils.benchmark import ordered_unique
    >>> ordered_unique("abca")
    ['a', 'b', 'c']
    """
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Compute with n threads in the block.

    Raises:
        RuntimeError: the block is entered, and the number is not positive

    >>> import flambeau
    >>> from flambeau.utils.benchmark import set_torch_threads
    >>> with set_torch_threads(1):
    ...     flambeau.get_num_threads()
    1
    """
    before = get_num_threads()
    try:
        set_num_threads(n)
        yield
    finally:
        set_num_threads(before)


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What is measured, in words: the statement, and what results are grouped by.

    Raises:
        TypeError: `stmt` or `setup` is missing

    >>> from flambeau.utils.benchmark import TaskSpec
    >>> TaskSpec("x + 1", "x = 1", label="add", sub_label="small").title
    'add: small'
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement, and what it is one of."""
        name = self.label if self.label is not None else self.stmt
        if self.label is None and "\n" in name:
            sub = f" ({self.sub_label})" if self.sub_label else ""
            return f"stmt:{sub}\n{textwrap.indent(name, '  ')}"
        return name + (f": {self.sub_label}" if self.sub_label else "")

    def setup_str(self) -> str:
        """The statement that comes before, as it is shown."""
        if self.setup in ("", "pass"):
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """All of it."""
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts if part)


FIELDS = tuple(field.name for field in dataclasses.fields(TaskSpec))


def _quantile(values: list[float], q: float) -> float:
    """Between the two nearest of sorted values."""
    place = q * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """One statement's times: `raw_times` in seconds, each of `number_per_run` runs.

    `times` are of one run, `median`, `mean` and `iqr` of these.  What stands in `task_spec` can be read of the measurement itself.

    Raises:
        TypeError: an argument is missing

    >>> from flambeau.utils.benchmark import Measurement, TaskSpec
    >>> measured = Measurement(10, [1.0, 2.0, 3.0], TaskSpec("x", "pass", label="nothing"))
    >>> measured.median, round(measured.iqr, 3), measured.label
    (0.2, 0.1, 'nothing')
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in FIELDS:
            return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def times(self) -> list[float]:
        """Seconds of one run, by measurement."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def _sorted(self) -> list[float]:
        return sorted(self.times)

    @property
    def median(self) -> float:
        """The median of the times; -1 where there are none."""
        return _quantile(self._sorted, 0.5) if self.raw_times else -1.0

    @property
    def mean(self) -> float:
        """Their mean; -1 where there are none."""
        return math.fsum(self.times) / len(self.raw_times) if self.raw_times else -1.0

    @property
    def iqr(self) -> float:
        """What the middle half of them spans."""
        ordered = self._sorted
        return _quantile(ordered, 0.75) - _quantile(ordered, 0.25) if ordered else 0.0

    @property
    def significant_figures(self) -> int:
        """How many figures of the median mean something: from the spread of the middle half, at 90 % confidence."""
        ordered = self._sorted
        middle = ordered[len(ordered) // 4 : math.ceil(3 * len(ordered) / 4)]
        center = math.fsum(middle) / len(middle)
        deviation = math.sqrt(math.fsum((t - center) ** 2 for t in middle) / len(middle))
        interval = max(1.645 * deviation / math.sqrt(len(middle)), LEAST_INTERVAL)
        return min(max(math.floor(math.log10(self.median / interval)), 1), MOST_FIGURES)

    def meets_confidence(self, threshold: float = WARN) -> bool:
        """Whether the interquartile range is a smaller part of the median than that."""
        return self.iqr / self.median < threshold

    @property
    def _warnings(self) -> tuple[str, ...]:
        if not self.raw_times or self.meets_confidence(WARN):
            return ()
        gross = not self.meets_confidence(WARN_GROSSLY)
        reason = (
            "This suggests significant environmental influence."
            if gross
            else "This could indicate system fluctuation."
        )
        return (
            f"  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% of the median measurement.\n"
            f"           {reason}",
        )

    @property
    def has_warnings(self) -> bool:
        """Whether the times spread so far that the median says little."""
        return bool(self._warnings)

    @property
    def title(self) -> str:
        """What was measured."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """What its row in a table is called."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        n, ordered = len(self.raw_times), self._sorted
        unit, scale = select_unit(self.median)
        lines = [
            f"<{type(self).__module__}.{type(self).__name__} object at {hex(id(self))}>",
            self.task_spec.summarize(),
        ]
        lines.append(f"  {'Median: ' if n > 1 else ''}{self.median / scale:.2f} {unit}")
        if n >= 4:
            low, high = _quantile(ordered, 0.25) / scale, _quantile(ordered, 0.75) / scale
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        runs = f"{self.number_per_run} runs{' per measurement' if n > 1 else ''}"
        lines.append(f"  {n} measurement{'s' if n > 1 else ''}, {runs}, {threads}")
        return "\n".join([*lines, *self._warnings])

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for all of the same task; `metadata` is left out."""
        grouped: dict[TaskSpec, list[float]] = {}
        for m in measurements:
            grouped.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, times, task) for task, times in grouped.items()]
