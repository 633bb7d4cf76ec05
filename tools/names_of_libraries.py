"""Which names of PyTorch do other people's libraries mention, and which of them are missing here?

    python tools/names_of_libraries.py --fetch FOLDER   # downloads the libraries of tools/libraries.txt, without what they depend on
    python tools/names_of_libraries.py FOLDER           # prints what is missing, by number of libraries
    python tools/names_of_libraries.py FOLDER --write   # and writes tests/data/names_of_libraries.tsv, which a test reads

It needs torch 2.13 beside flambeau: a name counts where PyTorch has it. Names are looked up as programs do, under the drop-in. A name
is mentioned *at import* where importing its file looks it up (module level, class bodies, decorators, defaults, base classes,
annotations that are evaluated), *guarded* where that stands under `try … except ImportError`, `if hasattr`, a version or
`TYPE_CHECKING`, and *called* where a function looks it up. That a name is here says nothing of what it does.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import warnings
import zipfile
from typing import Any

from _mentions import CALLED, GUARDED, IMPORT, mentions

HERE = pathlib.Path(__file__).resolve().parent
LIBRARIES = HERE / "libraries.txt"
OUTPUT = HERE.parent / "tests" / "data" / "names_of_libraries.tsv"
_OUTSIDE = re.compile(
    r"(^|/)(tests?|testing|examples?|benchmarks?|docs|scripts|conftest\.py$|setup\.py$|test_[^/]*$)(/|$)"
)
_LARGEST = 30 << 20
_SAYS_WHY = re.compile(r" is not here: |\(docs/")


def listed() -> list[str]:
    """The libraries, as `name==version`."""
    lines = (line.partition("#")[0].strip() for line in LIBRARIES.read_text().splitlines())
    return [line for line in lines if line]


def fetch(folder: pathlib.Path) -> None:
    """Download each library's wheel for any platform, and nothing that it depends on."""
    for library in listed():
        name, _, version = library.partition("==")
        if not any(folder.glob(f"{re.sub('[-_.]+', '_', name)}-{version}-*.whl")):
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--only-binary=:all:",
                "--platform=any",
            ]
            subprocess.run([*command, "-d", str(folder), library], check=True)


def read(wheel: pathlib.Path) -> dict[str, str]:
    """The names that a library's own files mention, each with the earliest time: at import before guarded before called."""
    uses: dict[str, str] = {}
    order = (IMPORT, GUARDED, CALLED)
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if not member.endswith(".py") or _OUTSIDE.search(member):
                continue
            try:
                pairs = mentions(archive.read(member).decode("utf-8-sig"))
            except (SyntaxError, UnicodeDecodeError, RecursionError):  # templates, and Python 2
                continue
            for name, when in pairs:
                uses[name] = min(uses.get(name, CALLED), when, key=order.index)
    return uses


def requires_torch(wheel: pathlib.Path) -> bool:
    """Whether a wheel's metadata asks for PyTorch, or for what is nothing without it."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    return (
        re.search(
            r"^Requires-Dist: (torch|pytorch|lightning|timm|transformers|accelerate)", text, re.MULTILINE
        )
        is not None
    )


def reach(root: str, name: str) -> tuple[str, str]:
    """How far a name such as "torch.nn.Linear" leads, by attribute or by import, and what was said where it ended."""
    thing: Any = importlib.import_module(root)
    reached, *parts = name.split(".")
    for part in parts:
        try:
            thing = getattr(thing, part)
        except Exception as by_attribute:
            try:
                thing = importlib.import_module(f"{root}{reached.removeprefix('torch')}.{part}")
            except Exception as by_import:
                return reached, f"{by_attribute} | {by_import}"
        reached += f".{part}"
    return reached, ""


def _reach_all() -> None:
    """The child: names from standard input, answers to standard output."""
    warnings.simplefilter("ignore")
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what modules print as they are imported
    if importlib.util.find_spec("torch").origin.find("_shim") >= 0:  # type: ignore[union-attr]
        importlib.import_module("flambeau").as_torch()
    json.dump([reach("torch", name) for name in json.load(sys.stdin)], answer)
    answer.flush()
    os._exit(0)


def reach_in_process(names: list[str], dropin: bool) -> dict[str, tuple[str, str]]:
    """`reach` of each name in a process of its own: with PyTorch, or with this library under its name."""
    path = [str(HERE.parent)]
    if dropin:
        path.insert(0, str(HERE.parent / "flambeau" / "_compat" / "_shim"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(
        [sys.executable, __file__, "--reach"],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        env=environment,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(zip(names, map(tuple, json.loads(done.stdout)), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--fetch", action="store_true", help="download the libraries into the folder")
    parser.add_argument("--write", action="store_true", help=f"write {OUTPUT.relative_to(HERE.parent)}")
    parser.add_argument(
        "--least", type=int, default=1, help="print names that at least so many libraries mention"
    )
    parser.add_argument("--reach", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.reach:
        return _reach_all()
    if arguments.folder is None:
        parser.error("in which FOLDER are the libraries?")
    if arguments.fetch:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        return fetch(arguments.folder)
    # by name: libraries by when they look it up
    users: dict[str, dict[str, set[str]]] = collections.defaultdict(lambda: collections.defaultdict(set))
    wheels = [w for w in sorted(arguments.folder.glob("*.whl")) if w.stat().st_size < _LARGEST]
    without = []
    for wheel in wheels:
        uses = read(wheel)
        if not uses or not requires_torch(wheel):
            without.append(wheel.name.partition("-")[0])
        for name, when in uses.items():
            users[name][when].add(wheel.name.partition("-")[0])
    theirs = reach_in_process(sorted(users), dropin=False)
    real: dict[str, dict[str, set[str]]] = collections.defaultdict(lambda: collections.defaultdict(set))
    for name, times in users.items():
        for when, libraries in times.items():
            real[theirs[name][0]][when] |= libraries  # as far as PyTorch has it
    real.pop("torch", None)
    ours = reach_in_process(sorted(real), dropin=True)
    missing = {name for name, (_, said) in ours.items() if said}
    for when in (IMPORT, GUARDED, CALLED):
        rows = sorted(
            ((len(real[n][when]), n) for n in missing if real[n][when]), key=lambda row: (-row[0], row[1])
        )
        print(f"\n{when}: {len(rows)} names are missing")
        for count, name in rows:
            if count >= arguments.least:
                print(f"{count:4d} {name}  ({', '.join(sorted(real[name][when])[:4])})")
    silent = sorted(n for n in missing if not _SAYS_WHY.search(ours[n][1]))
    print(f"\nmissing without a reason: {len(silent)}")
    for name in silent:
        print(f"     {name}: {ours[name][1][:300]}")
    if without:
        print(f"\nthese do not ask for PyTorch: {' '.join(without)}")
    counts = [sum(bool(times[when]) for times in real.values()) for when in (IMPORT, GUARDED, CALLED)]
    print(
        f"\n{len(wheels)} libraries mention {len(real)} names ({', '.join(map(str, counts))} at import, guarded, called)"
    )
    unguarded = [n for n in missing if real[n][IMPORT]]
    print(f"names missing at import, unguarded: {len(unguarded)}")
    if arguments.write:
        lines = (
            "\t".join([name, *(str(len(real[name][when])) for when in (IMPORT, GUARDED, CALLED))])
            for name in sorted(real)
        )
        OUTPUT.write_text("# name\tlibraries at import\tguarded\tcalled\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
