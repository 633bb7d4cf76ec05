"""How much of what an operation is stands in its declaration: counted over the registry.

    python tools/facts.py [-v]

An operation is wholly one declaration where it has one of these forms, and its rule of `vmap` is one that declarations name:

    pointwise, rows     a body of expressions, from which kernels and derivatives follow
    leaf                a function and the formula of its derivative
    composite           a function over operations
    plain               a function without a derivative to declare: a view, a question, a draw, what makes tensors or is not differentiable

What is left is recorded by hand in compiled code, or has a rule of `vmap` that is a function of its own in `func`.  Public operations
are counted.
"""

from __future__ import annotations

import sys
from collections import Counter

from flambeau.core.call.leaf import LeafOp
from flambeau.core.call.pointwise import PointwiseOp
from flambeau.core.loops.rows import RowOp

from flambeau.operations.declare.registry import REGISTRY, Entry

# Kinds of functions that have nothing to differentiate, or are views, whose gradient is that of their geometry.
PLAIN = {"view", "question", "random", "creation", "error", "window", "conversion", "copy"}


def form(entry: Entry) -> str:
    """How the operation is declared."""
    op = entry.function
    if isinstance(op, PointwiseOp):
        return "pointwise"
    if isinstance(op, RowOp):
        return "rows"
    if isinstance(op, LeafOp):
        return "leaf"
    if getattr(op, "composite", None) is not None:
        return "composite"
    if entry.kind in PLAIN or not entry.differentiable:
        return "plain"
    return "recorded by hand"


def main(verbose: bool) -> None:
    """Print how many operations have each form, and which are left."""
    import flambeau

    flambeau.vmap(flambeau.neg)(flambeau.ones(1))  # its rules stand on operations once it is used

    counts: Counter[str] = Counter()
    left = []
    public = [entry for entry in REGISTRY.values() if entry.places]
    for entry in public:
        how = form(entry)
        counts[how] += 1
        if how == "recorded by hand":
            left.append((entry.name, how))
        elif getattr(entry.function, "mapped", None) is not None:
            counts["with a rule of vmap of its own"] += 1
            left.append((entry.name, f"{how}, with a rule of vmap of its own"))
    for how, count in counts.most_common():
        print(f"{how}: {count}")
    print(f"wholly one declaration: {len(public) - len(left)} of {len(public)}")
    if verbose:
        for name, why in left:
            print(f"    {name}: {why}")


if __name__ == "__main__":
    main("-v" in sys.argv[1:])
