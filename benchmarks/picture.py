"""Draw pictures of the README and the docs: the ratios of RESULTS.md, what the README's tour learns, a plan.

    python benchmarks/picture.py speed             # writes docs/pictures/speed.svg from the table in benchmarks/RESULTS.md
    python benchmarks/picture.py tour              # runs the README's examples and writes docs/pictures/tour.svg
    python benchmarks/picture.py plan              # runs the examples of docs/graphs.md and writes docs/pictures/plan.svg
    python benchmarks/picture.py speed --check     # exit status 1 where the file is not what would be written

A dot of `speed` is one case of `versus.py`, a bar the geometric mean of its group.  Needs no PyTorch.
"""

from __future__ import annotations

import argparse
import doctest
import itertools
import math
import re
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
SECTION = "## Side by side, 1 thread"
MEANING = {
    "overhead": "tiny tensors",
    "pointwise": "exp, add, gelu …",
    "reduction": "sum, argmax, var …",
    "rows": "softmax, layer norm",
    "movement": "copy, index, sort, random",
    "gemm": "matrix products",
    "conv": "convolutions",
    "train": "training steps",
}
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #333 }
.small { font-size: 11px; fill: #666 }
.line { stroke: #ccc } .one { stroke: #888; stroke-width: 1.5 }
.mean { fill: #e4572e } .case { fill: #2e86ab; fill-opacity: .55 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .small { fill: #aaa } .line { stroke: #444 } .one { stroke: #999 } .case { fill: #6cc0e5 }
}
</style>"""


def ratios() -> dict[str, list[float]]:
    """Group → ratios of its cases, from the first section of RESULTS.md."""
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text()
    section = text[text.index(SECTION) :].split("\n### ")[0]
    groups: dict[str, list[float]] = {}
    for group, ratio in re.findall(r"^\| (\w+)\.\S+ \|.*\| ([\d.]+) \|$", section, re.MULTILINE):
        groups.setdefault(group, []).append(float(ratio))
    return groups


def speed() -> str:
    """PyTorch's time / flambeau's on a logarithmic axis, a line of dots for each group."""
    left, right, top, step, least, most = 200, 740, 48, 34, 0.8, 40.0
    groups = ratios()
    bottom = top + step * len(groups)

    def x(ratio: float) -> float:
        return left + (right - left) * math.log(ratio / least) / math.log(most / least)

    cases = sum(map(len, groups.values()))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {bottom + 44}" width="800" role="img">',
        "<title>PyTorch's time divided by flambeau's, by group of cases</title>",
        STYLE,
        f'<text x="20" y="24">How many times as fast as PyTorch 2.13, {cases} cases, CPU, 1 thread</text>',
    ]
    for tick in (1, 2, 4, 8, 16, 32):
        kind = "one" if tick == 1 else "line"
        out.append(
            f'<line class="{kind}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top - 8}" y2="{bottom}"/>'
        )
        out.append(
            f'<text class="small" x="{x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick}×</text>'
        )
    for n, (group, values) in enumerate(groups.items()):
        y = top + step * n + step // 2
        mean = statistics.geometric_mean(values)
        out.append(f'<text x="20" y="{y - 1}">{group}</text>')
        out.append(f'<text class="small" x="20" y="{y + 13}">{MEANING[group]}</text>')
        out += [f'<circle class="case" cx="{x(value):.1f}" cy="{y}" r="4"/>' for value in values]
        out.append(f'<rect class="mean" x="{x(mean) - 2:.1f}" y="{y - 12}" width="4" height="24" rx="2"/>')
        out.append(f'<text x="{right + 10}" y="{y + 4}">{mean:.2f}</text>')
    out.append(
        f'<text class="small" x="20" y="{bottom + 36}">A dot is a case; a bar, with its number, the geometric mean '
        "of its group. Source: benchmarks/RESULTS.md.</text>"
    )
    return "\n".join([*out, "</svg>", ""])


def names_of(page: Path) -> dict[str, Any]:
    """What the examples of a page have made in the end."""
    examples = doctest.DocTestParser().get_doctest(page.read_text(), {}, page.name, str(page), 0)
    failed, _ = doctest.DocTestRunner().run(examples, clear_globs=False)
    if failed:
        sys.exit(f"the examples of {page.name} fail")
    return examples.globs


def plan() -> str:
    """The plan of the block in docs/graphs.md."""
    from flambeau.graph.explain import report
    from flambeau.graph.picture import svg

    names = names_of(ROOT / "docs" / "graphs.md")
    return svg(report(names["block"], *names["given"]), "block")


def tour() -> str:
    """The points of the README's tour, over what its network says of every place."""
    names = names_of(ROOT / "README.md")
    torch, size, cells = names["torch"], 360, 60
    places = torch.linspace(-1, 1, cells)
    grid = torch.cartesian_prod(places, places)
    with torch.no_grad():
        chance = names["net"](grid).softmax(1)[:, 1].reshape(cells, cells).tolist()
    side = size / cells
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" width="{size}" role="img">',
        "<title>Points in and outside of a ring, over what the network of the tour has learned</title>",
        f'<rect width="{size}" height="{size}" fill="#fff"/>',
    ]
    for i, column in enumerate(chance):  # runs of places where it says the same
        start = 0
        for said, run in itertools.groupby(column, lambda c: round(0.75 * c, 1)):
            length = len(list(run))
            if said:
                where = f'x="{i * side:.0f}" y="{start * side:.0f}" width="{side:.0f}" height="{length * side:.0f}"'
                out.append(f'<rect {where} fill="#e4572e" fill-opacity="{said}"/>')
            start += length
    for (px, py), within in zip(names["points"].tolist()[:400], names["ring"].tolist()):
        fill = "#7a1f08" if within else "#2e86ab"
        out.append(
            f'<circle cx="{(px + 1) / 2 * size:.0f}" cy="{(py + 1) / 2 * size:.0f}" r="2.5" fill="{fill}"/>'
        )
    return "\n".join([*out, "</svg>", ""])


PICTURES = {"speed": speed, "tour": tour, "plan": plan}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("picture", choices=tuple(PICTURES), help="which of them")
    parser.add_argument("--check", action="store_true", help="compare with the file in place of writing it")
    options = parser.parse_args()
    path = FOLDER / f"{options.picture}.svg"
    text = PICTURES[options.picture]()
    if options.check:
        return 0 if path.read_text() == text else 1
    path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
