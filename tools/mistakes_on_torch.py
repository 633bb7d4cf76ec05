"""What errors say of usual mistakes, PyTorch's beside flambeau's.

    python tools/mistakes_on_torch.py             # a line for each, and the counts
    python tools/mistakes_on_torch.py -v          # with both messages
    python tools/mistakes_on_torch.py --worse -v  # those alone in which flambeau's is worse

The programs are those of `tests/usual_mistakes.py`, with what a message is to state: the operation or class that was called, the
argument, what it got, what it wanted or what to do.  A verdict compares three things: how many of these facts the message states; whether
an error is raised at all, and of the class that PyTorch has; how many frames stand behind the program's own lines (up to three are equal).
Better or equal is: no fact fewer, the same class or one of its subclasses, no more frames than PyTorch's or three.  Needs torch.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch

import flambeau

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from usual_mistakes import PRELUDE, mistakes, states  # noqa: E402

OWN = "<program>"
FEW = 3


class Said(NamedTuple):
    """What a library says of a program."""

    classes: tuple[str, ...]  # the error's, and those that it is derived from; none where there is no error
    text: str
    frames: int


def said(library: Any, program: str) -> Said:
    """What the library raises."""
    scope = {"t": library}
    exec(compile(PRELUDE, OWN, "exec"), scope)
    library.manual_seed(0)
    try:
        exec(compile(program, OWN, "exec"), scope)
    except Exception as error:
        stack = traceback.extract_tb(error.__traceback__)
        frames = sum(frame.filename not in (OWN, __file__) for frame in stack)
        text = "\n".join([str(error), *getattr(error, "__notes__", ())])
        return Said(tuple(c.__name__ for c in type(error).__mro__), text, frames)
    return Said((), "", 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-v", "--verbose", action="store_true", help="print both messages")
    parser.add_argument("--worse", action="store_true", help="only where flambeau is worse")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.pop("FLAMBEAU_TRACEBACK", None)
    better = worse = 0
    frames: tuple[list[int], list[int]] = ([], [])
    facts_stated, facts_of_torch, facts_in_all = 0, 0, 0
    every = [mistake for mistake in mistakes() if mistake[0] != "absent"]  # which PyTorch has
    for subject, _, facts, program in every:
        theirs, ours = said(torch, program), said(flambeau, program)
        of_theirs, of_ours = (sum(states(x.text, fact) for fact in facts) for x in (theirs, ours))
        reasons = []
        if of_ours < of_theirs:
            reasons.append(f"states {of_ours} of {len(facts)} facts, PyTorch {of_theirs}")
        if theirs.classes and theirs.classes[0] not in ours.classes:
            reasons.append(f"is {ours.classes[:1]}, PyTorch's {theirs.classes[:1]}")
        if ours.frames > max(FEW, theirs.frames):
            reasons.append(f"shows {ours.frames} frames, PyTorch {theirs.frames}")
        above = not reasons and (of_ours > of_theirs or ours.frames < theirs.frames)
        better, worse = better + above, worse + bool(reasons)
        facts_stated, facts_of_torch, facts_in_all = (
            facts_stated + of_ours,
            facts_of_torch + of_theirs,
            facts_in_all + len(facts),
        )
        frames[0].append(theirs.frames)
        frames[1].append(ours.frames)
        if reasons or not options.worse:
            verdict = "worse: " + ", ".join(reasons) if reasons else "better" if above else "equal"
            print(f"{subject}: {program.splitlines()[-1]}\n    {verdict}")
            if options.verbose:
                for name, x in (("PyTorch ", theirs), ("flambeau", ours)):
                    shown = x.text.replace("\n", "\n" + " " * 14)
                    print(
                        f"    {name} {x.classes[0] if x.classes else 'no error'}, {x.frames} frames: {shown}"
                    )
    total = len(every)
    print(
        f"\n{total} mistakes: flambeau better in {better}, equal in {total - better - worse}, worse in {worse}"
    )
    print(f"facts stated, of {facts_in_all}: PyTorch {facts_of_torch}, flambeau {facts_stated}")
    print(
        "frames behind the program's own, median and most: "
        + ", ".join(
            f"{n} {sorted(x)[total // 2]} and {max(x)}" for n, x in zip(("PyTorch", "flambeau"), frames)
        )
    )


if __name__ == "__main__":
    main()
