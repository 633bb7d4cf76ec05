"""Measurements side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

BEST, GOOD, BAD, VERY_BAD = "\033[92m", "\033[34m", "\033[2m\033[91m", "\033[31m"
BOLD, END = "\033[1m", "\033[0m"

RowKey = tuple[int, str, str]


class _Style(NamedTuple):
    trims: bool = False
    colors: str = ""  # "", "columns" or "rows"
    warns: bool = False


def _colored(text: str, value: float, best: float) -> str:
    if value <= best * 1.01 or value <= best + 100e-9:
        return BEST + BOLD + text + END + END
    if value <= best * 1.1:
        return GOOD + BOLD + text + END + END
    if value >= best * 5:
        return VERY_BAD + BOLD + text + END + END
    if value >= best * 2:
        return BAD + text + END + END
    return text


class _Table:
    """The measurements of one label: a row for each threads, environment and sub-label, a column for each description."""

    def __init__(self, results: list[Measurement], style: _Style) -> None:
        self.results, self.style = results, style
        self.unit, self.scale = select_unit(min(r.median for r in results))
        self.columns = ordered_unique(r.description for r in results)
        self.rows: list[RowKey] = sorted(
            ordered_unique(self._row(r) for r in results), key=lambda key: key[:2]
        )
        self.cells = {(self._row(r), r.description): r for r in results}

    @staticmethod
    def _row(r: Measurement) -> RowKey:
        return r.num_threads, r.env or "", r.as_row_name

    def _decimals(self, column: str | None) -> int:
        """How many decimals a column's numbers have; as many as mean something where they are trimmed."""
        result = [r for r in self.results if r.description == column]
        if not self.style.trims:
            return 1
        leading = [len(str(int(r.median / self.scale))) for r in result]
        return max(max(r.significant_figures - n for r, n in zip(result, leading)), 0)

    def _text(self, r: Measurement | None, decimals: int) -> str:
        if r is None:
            return ""
        value = r.median / self.scale
        if self.style.trims:
            value = trim_sigfig(value, r.significant_figures)
        warning = f" (! {r.iqr / r.median * 100:.0f}%)" if self.style.warns and r.has_warnings else ""
        return f"{value:.{decimals}f}{warning}"

    def _best(self, row: RowKey, column: str | None) -> float:
        """What a cell is compared with: the least of its row, or of its column for the same threads."""
        if self.style.colors == "rows":
            return min(r.median for key, r in self.cells.items() if key[0] == row)
        return min(r.median for key, r in self.cells.items() if key[1] == column and key[0][0] == row[0])

    def render(self) -> str:
        """The table as text."""
        environments = {row[1] for row in self.rows}
        width_of_env = max(map(len, environments)) + 4 if len(environments) > 1 else 4
        names, last = [], None
        for threads, env, name in self.rows:
            shown = f"({env})" if len(environments) > 1 and (threads, env) != last else ""
            names.append("  " + shown.ljust(width_of_env) + name)
            last = (threads, env)
        texts = []
        for column in self.columns:
            decimals = self._decimals(column)
            result = [self._text(self.cells.get((row, column)), decimals) for row in self.rows]
            number_width = max(len(text.partition(" ")[0]) for text in result)
            texts.append([" " * (number_width - len(t.partition(" ")[0])) + t for t in result])
        widths = [max(map(len, names))] + [
            max(len(str(column)), *map(len, result)) for column, result in zip(self.columns, texts)
        ]
        heads = ["", *(str(c) if c is not None else "" for c in self.columns)]
        lines = ["  |  ".join(head.center(width) for head, width in zip(heads, widths))]
        line_width, threads_above = len(lines[0]), None
        for k, row in enumerate(self.rows):
            if row[0] != threads_above:
                threads_above = row[0]
                lines.append(f"{threads_above} threads: ".ljust(line_width, "-"))
            parts = [names[k].ljust(widths[0])]
            for column, result, width in zip(self.columns, texts, widths[1:]):
                cell, text = self.cells.get((row, column)), result[k].center(width)
                if cell is not None and self.style.colors:
                    text = _colored(text, cell.median, self._best(row, column))
                parts.append(text)
            lines.append("  |  ".join(parts))
        title = f" {self.results[0].label or ''} ".center(line_width - 2, "-")
        lines = [f"[{title}]", *lines, "", f"Times are in {unit_to_english(self.unit)}s ({self.unit})."]
        if self.style.warns and any(r.has_warnings for r in self.results):
            lines.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        return "\n".join(lines) + "\n"


class Compare:
    """Tables of measurements, one for each label; replicates of a task are merged.

    ValueError for what is no `Measurement`.

    >>> from flambeau.utils.benchmark import Compare, Measurement, TaskSpec
    >>> task = TaskSpec("", "", label="add", sub_label="small", description="mine")
    >>> print(str(Compare([Measurement(1, [2e-6], task)])).rstrip())
    [------ add -------]
                 |  mine
    1 threads: ---------
          small  |  2.0
    <BLANKLINE>
    Times are in microseconds (us).
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._style = _Style()
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        results = list(results)
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show only as many figures as mean something."""
        self._style = self._style._replace(trims=True)

    def colorize(self, rowwise: bool = False) -> None:
        """Color the best and the worst of each column, or of each row."""
        self._style = self._style._replace(colors="rows" if rowwise else "columns")

    def highlight_warnings(self) -> None:
        """Show how far the times spread where that is far."""
        self._style = self._style._replace(warns=True)

    def __str__(self) -> str:
        grouped: dict[str | None, list[Measurement]] = {}
        for r in Measurement.merge(self._results):
            grouped.setdefault(r.label, []).append(r)
        return "\n".join(_Table(result, self._style).render() for result in grouped.values())

    def print(self) -> None:
        """Print the tables."""
        print(str(self))
