"""How many of the names that projects take from PyTorch does flambeau have?

    python tools/parity_names.py [--missing] [--min-projects 2]

`names_of_projects.tsv` lists the public dotted names that some twenty projects built on PyTorch use (models, trainers, metrics,
explanation, checkpoints, examples), each with the number of projects and of uses.  A name counts where it can be reached as users
reach it: by attribute, or by importing the module it stands in.  That a name exists says nothing about what it does.  Needs no PyTorch.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import pathlib

TABLE = pathlib.Path(__file__).with_name("names_of_projects.tsv")


def reach(root: str, dotted: str) -> bool:
    """Whether `root` followed by the rest of a `torch.…` name can be reached."""
    thing, path = importlib.import_module(root), root
    for part in dotted.split(".")[1:]:
        path += "." + part
        try:
            thing = getattr(thing, part)
        except Exception:
            try:
                thing = importlib.import_module(path)
            except Exception:
                return False
    return True


def rows(least: int) -> list[tuple[int, int, str]]:
    """(projects, uses, name) of the names that at least `least` projects use."""
    lines = [line.split("\t") for line in TABLE.read_text().splitlines() if line[0] != "#"]
    return [(int(projects), int(uses), name) for projects, uses, name in lines if int(projects) >= least]


def namespace(name: str) -> str:
    """`torch.nn` of `torch.nn.Linear`; `torch` of what stands right there."""
    words = name.split(".")
    return ".".join(words[:2]) if len(words) > 2 else "torch"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--candidate", default="flambeau", help="the module under test (default: flambeau)")
    parser.add_argument("--missing", action="store_true", help="list the missing names, most used first")
    parser.add_argument(
        "--min-projects", type=int, default=1, help="least projects that use a name (default: 1)"
    )
    options = parser.parse_args()
    names = rows(options.min_projects)
    have = {name: reach(options.candidate, name) for _, _, name in names}
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for _, _, name in names:
        counts[namespace(name)][0] += have[name]
        counts[namespace(name)][1] += 1
    for space, (here, total) in sorted(counts.items(), key=lambda item: item[1][0] - item[1][1]):
        if here < total:
            print(f"{space:32s} {here:4d} of {total}")
    if options.missing:
        for projects, uses, name in sorted(names, key=lambda row: (-row[0], -row[1])):
            if not have[name]:
                print(f"{projects:3d} projects {uses:6d} uses  {name}")
    used, all_uses = sum(u for _, u, n in names if have[n]), sum(u for _, u, _ in names)
    print(f"{sum(have.values())} of {len(names)} names, {100 * used / all_uses:.1f} % of uses")


if __name__ == "__main__":
    main()
