"""A plan as a picture (SVG): on the left the calls of the program, on the right the steps that compute them."""

from __future__ import annotations

from html import escape
from pathlib import Path

from .program import Call
from .report import Report, Step

ROW, WIDTH, GAP, TOP, LEFT = 26, 250, 150, 56, 60
COLOURS = {"kernel": "#f6c177", "product": "#9ccfd8", "call": "#d8d8e4"}


def svg(report: Report, title: str = "") -> str:
    """The text of a picture.

    >>> import flambeau as torch
    >>> from flambeau.graph.picture import svg
    >>> from flambeau.graph.explain import report
    >>> svg(report(lambda x: x.exp() + 1, torch.zeros(2))).count("<rect")
    4
    """
    return _Picture(report, title).text()


def save(report: Report, path: str | Path, title: str = "") -> None:
    """Write the picture to a file; OSError where that cannot be written.

    >>> import os, tempfile
    >>> import flambeau as torch
    >>> from flambeau.graph import picture
    >>> from flambeau.graph.explain import report
    >>> path = os.path.join(tempfile.mkdtemp(), "plan.svg")
    >>> picture.save(report(torch.exp, torch.zeros(2)), path)
    >>> os.path.exists(path)
    True
    """
    Path(path).write_text(svg(report, title), encoding="utf-8")


class _Picture:
    def __init__(self, report: Report, title: str) -> None:
        self.report, self.title = report, title
        self.steps = [s for s in report.steps if s.calls]
        calls = sorted((c for s in self.steps for c in s.calls), key=lambda c: c.number)
        self.rows: dict[Call, float] = {c: TOP + k * ROW for k, c in enumerate(calls)}
        self.tops: dict[Step, float] = {}
        at = float(TOP)
        for step in self.steps:
            self.tops[step] = at
            at += ROW * len(step.calls) + 14
        self.height = max(at, TOP + ROW * len(calls)) + 10
        self.shapes: list[str] = []

    def text(self) -> str:
        left, right = LEFT, LEFT + WIDTH + GAP
        self.label(
            left + WIDTH / 2, 36, f"{self.title + ': ' if self.title else ''}{len(self.rows)} calls", "middle"
        )
        self.label(right + WIDTH / 2, 36, f"{len(self.steps)} steps", "middle")
        for call, y in self.rows.items():
            for v in call.values():
                if v.root.call in self.rows:
                    self.curve(left, self.rows[v.root.call] + ROW / 2 - 2, y + ROW / 2 - 2, -1)
        for maker, reader, _ in self.report.edges():
            if maker in self.tops and reader in self.tops:
                self.curve(right + WIDTH, self.tops[maker] + ROW / 2, self.tops[reader] + ROW / 2, 1)
        for step, top in self.tops.items():
            colour = COLOURS[step.kind]
            self.box(right, top, ROW * len(step.calls) + 4, colour)
            for k, call in enumerate(step.calls):
                y = top + k * ROW
                self.box(left, self.rows[call], ROW - 4, colour)
                self.label(left + 8, self.rows[call] + 15, _shown(call))
                self.label(right + 8, y + 17, _shown(call))
                a, b = self.rows[call] + ROW / 2 - 2, y + ROW / 2
                self.shapes.append(
                    f'<path d="M{left + WIDTH} {a:g} C{left + WIDTH + 60} {a:g} {right - 60} {b:g} {right} {b:g}" '
                    f'fill="none" stroke="{colour}" stroke-width="2"/>'
                )
        for k, (kind, colour) in enumerate(COLOURS.items()):
            self.shapes.append(f'<circle cx="{LEFT + k * 90}" cy="12" r="6" fill="{colour}"/>')
            self.label(LEFT + k * 90 + 12, 16, kind)
        width = right + WIDTH + LEFT
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{self.height:g}" '
            f'viewBox="0 0 {width} {self.height:g}" font-family="monospace" font-size="12">\n'
            f'<rect width="{width}" height="{self.height:g}" fill="white"/>\n'
            + "\n".join(self.shapes)
            + "\n</svg>\n"
        )

    def box(self, x: float, y: float, height: float, colour: str) -> None:
        self.shapes.append(
            f'<rect x="{x}" y="{y:g}" width="{WIDTH}" height="{height:g}" rx="4" fill="{colour}" stroke="#555"/>'
        )

    def label(self, x: float, y: float, text: str, anchor: str = "start") -> None:
        self.shapes.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>')

    def curve(self, x: float, a: float, b: float, side: int) -> None:
        """What one reads of another, beside the boxes."""
        out = x + side * min(12 + abs(b - a) / 4, LEFT - 6)
        self.shapes.append(
            f'<path d="M{x:g} {a:g} C{out:g} {a:g} {out:g} {b:g} {x:g} {b:g}" fill="none" stroke="#999"/>'
        )


def _shown(call: Call) -> str:
    """The operation and what it gives, as long as a box is wide."""
    text = f"{call.name} {', '.join(f'{v.dtype.name}{list(v.shape)}' for v in call.results)}"
    return text if len(text) <= 33 else f"{text[:32]}…"
