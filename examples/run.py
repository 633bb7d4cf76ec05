"""Run the examples one after another, and write the page that shows them.

    python examples/run.py             # all, with docs/gallery.md and its pictures
    python examples/run.py vae gan     # these again

An example is a folder with a `main.py`, a program of its own.  It prints the figure that it reached on its last line and ends with another
status than 0 where it misses its own bar; `--picture` says where its picture goes.  This program starts each in a process of its own, says
how long it took, and ends with another status than 0 where one failed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

try:
    from PIL import Image
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[examples]'")

HERE = Path(__file__).resolve().parent
NAMES = [
    *(
        "digits",
        "char_gpt",
        "g2p",
        "tree_lstm",
        "actor_critic",
        "vae",
        "gan",
        "time_series",
        "super_resolution",
        "graph_conv",
        "languages",
    ),
    *("hogwild", "scipy_layer", "own_kernel", "c_extension", "skorch", "captum", "spelling_bert"),
]  # in the order of the page


class Run(NamedTuple):
    """What became of one example."""

    name: str
    status: int
    figure: str
    seconds: float
    cpu_seconds: float


def run(name: str, picture: Path, options: list[str], limit: float) -> Run:
    """One example in a process of its own; status 124 where it ran out of time."""
    command = [sys.executable, str(HERE / name / "main.py"), "--picture", str(picture), *options]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    try:
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, timeout=limit, env={**os.environ, "MPLBACKEND": "Agg"}
        )
        status, printed = ended.returncode, ended.stdout
    except subprocess.TimeoutExpired as late:
        status, printed = 124, (late.stdout or b"").decode()
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    figure = printed.strip().rpartition("\n")[2] or "nothing was printed"
    return Run(name, status, figure, round(seconds, 1), round(used, 1))


def shrink(picture: Path, most: int = 60_000) -> None:
    """A palette of so many colours, and so much smaller, as it takes to fit into so many bytes."""
    drawn = Image.open(picture).convert("RGB")
    for scale, colours in ((1.0, 256), (1.0, 128), (0.85, 128), (0.75, 128), (0.65, 128), (0.5, 64)):
        image = drawn.resize([round(scale * side) for side in drawn.size], Image.Resampling.LANCZOS)
        image.quantize(colours).save(picture, optimize=True)
        if picture.stat().st_size <= most:
            return


def section(done: Run, pictures: str) -> str:
    """The example's own words, its figure, its picture."""
    what, *rest = ast.get_docstring(ast.parse((HERE / done.name / "main.py").read_text())).split("\n\n")
    told = [" ".join(part.split()) for part in rest if not part.startswith("    ")]
    command = f"python examples/{done.name}/main.py"
    return "\n\n".join(
        [
            f"## {done.name}",
            f"**{' '.join(what.split())}**",
            *told,
            f"![{done.name}]({pictures}/{done.name}.png)",
            f"> {done.figure}",
            f"`{command}`: {done.seconds:.0f} s, {done.cpu_seconds:.0f} s of CPU.  [Source](../examples/{done.name}/main.py)",
        ]
    )


def page(runs: list[Run], pictures: str) -> str:
    """Everything in Markdown; numbers and times are those of these runs."""
    total = sum(done.seconds for done in runs) / 60
    used = sum(done.cpu_seconds for done in runs) / 60
    rows = "\n".join(
        f"| [{d.name}](#{d.name}) | {d.figure} | {d.seconds:.0f} | {d.cpu_seconds:.0f} |" for d in runs
    )
    system = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    head = f"""# Gallery

Programs of one page each, on data that packages ship, with fixed seeds.  Each states the figure it must reach and fails where it
does not.  `make examples` runs all and writes this page; each figure, picture and time below is of such a run: {len(runs)} examples in
{total:.1f} minutes, {used:.1f} minutes of CPU ({system}).  CPU seconds are those of
all threads and processes together; where they are far below the seconds times the cores, the machine had other work.

| example | figure | s | CPU s |
|---|---|---|---|
{rows}
"""
    return "\n".join([head, *[section(done, pictures) + "\n" for done in runs]])


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", default=NAMES, help="which (default: all)")
    options.add_argument(
        "--quick", action="store_true", help="small runs, each with an easy figure, into ./gallery"
    )
    options.add_argument("--limit", type=float, default=600.0, help="seconds that each may take")
    args = options.parse_args()
    if unknown := set(args.names) - set(NAMES):
        options.error(f"no such example: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")

    pictures = Path("gallery") if args.quick else HERE.parent / "docs" / "gallery"
    pictures.mkdir(parents=True, exist_ok=True)
    notes, failed = pictures / "runs.json", []
    known = (
        {name: Run(*noted) for name, noted in json.loads(notes.read_text()).items()} if notes.exists() else {}
    )
    for name in (bar := tqdm(args.names)):
        bar.set_description(name)
        done = run(name, pictures / f"{name}.png", ["--quick"] if args.quick else [], args.limit)
        tqdm.write(
            f"{'ok    ' if done.status == 0 else 'FAILED'} {name} ({done.seconds:.0f} s): {done.figure}"
        )
        if done.status:
            failed.append(name)
        else:
            shrink(pictures / f"{name}.png")
            known = json.loads(notes.read_text()) if notes.exists() else {}
            notes.write_text(json.dumps({**known, name: done}, indent=1))
    known = json.loads(notes.read_text()) if notes.exists() else {}
    shown = [Run(*known[name]) for name in NAMES if name in known]
    pictures.with_suffix(".md").write_text(page(shown, pictures.name))
    print(pictures.with_suffix(".md"))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
