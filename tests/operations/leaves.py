"""The contract of leaves and composites, searched for over the registry's sample calls.

A leaf is at most one node on the tape, which saves arguments and results and nothing else.  A composite calls operations and nothing
else.  `python tests/operations/leaves.py` prints who breaks it.
"""

from __future__ import annotations

import types
from collections.abc import Iterator

import samples

import flambeau
from flambeau.operations.declare.registry import COMPILED, REGISTRY
from flambeau.utils._python_dispatch import TorchDispatchMode

# Rooms whose compiled functions compute: what a composite calls of them is seen by nobody, but for those that only look at arguments.
LOOKING = ("check_filling", "check_number", "takes")
COMPUTING = tuple(f"flambeau.core.{room}" for room in ("lib", "loops", "places", "views", "make"))


def tensors(x: object) -> list:
    """The tensors in arguments or results."""
    if isinstance(x, flambeau.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for y in x for t in tensors(y)] if isinstance(x, (list, tuple)) else []


class Watcher(TorchDispatchMode):
    """Notes each leaf that makes more than a node, or saves other tensors than its arguments and results."""

    def __init__(self) -> None:
        self.faults: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, saved = kwargs or {}, []
        given = tensors((args, kwargs))
        before = [t.grad_fn for t in given]  # held, so that no other node has their identity
        with flambeau.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t), t)[1], lambda t: t):
            results = func(*args, **kwargs)
        found = tensors(results)
        known = {id(n) for n in before} | {id(t.grad_fn) for t in given}  # the latter of what was written to
        places = {t.untyped_storage().data_ptr() for t in given + found if t.numel()}
        if any(t.numel() and t.untyped_storage().data_ptr() not in places for t in saved):
            self.faults.add(f"{func.__name__} saves what is neither argument nor result")
        for node in (t.grad_fn for t in found if t.grad_fn is not None and id(t.grad_fn) not in known):
            edges = [n for n, _ in node.next_functions if n is not None]
            if any(id(n) not in known and not n.name().endswith("AccumulateGrad") for n in edges):
                self.faults.add(f"{func.__name__} is more than one node")
        return results


def both_passes(entry, text: str, operands: samples.Operands) -> None:
    """A sample call, its gradient and the gradient of that."""
    roots = samples.run(entry, text, operands)
    for again in (True, False):
        roots = [t for t in roots if t is not None and t.requires_grad and t.numel()]
        if not roots:
            return
        seeds = [flambeau.ones_like(t) for t in roots]
        roots = flambeau.autograd.grad(roots, operands.leaves, seeds, allow_unused=True, create_graph=again)


def leaf_faults() -> dict[str, set[str]]:
    """What leaves do that they must not, with the operations whose samples show it."""
    found: dict[str, set[str]] = {}
    for entry, text in samples.ALL:
        samples.run(entry, text, operands := samples.Operands(grad=True))
        again = samples.Operands(grad=True)
        for name in operands:
            again[name]  # made outside of the mode
        watcher = Watcher()
        try:
            with watcher:
                both_passes(entry, text, again)
        except NotImplementedError:  # no second derivative
            continue
        finally:
            for fault in watcher.faults:
                found.setdefault(fault, set()).add(entry.name)
    return found


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def below(function: types.FunctionType, seen: set) -> Iterator[str]:
    """What a function of Python, and those it calls, use of compiled functions that compute, and of the tape."""
    function = getattr(function, "__wrapped__", function)
    if function in seen:
        return
    seen.add(function)
    for cell in function.__closure__ or ():
        if isinstance(cell.cell_contents, types.FunctionType):
            yield from below(cell.cell_contents, seen)
    names = set(_names(function.__code__))
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, types.ModuleType) and value.__name__.startswith("flambeau.core"):
            used = [v for n in names if isinstance(v := getattr(value, n, None), COMPILED)]
        elif isinstance(value, COMPILED):
            used = [value]
        else:
            used = []
            if isinstance(value, types.FunctionType) and value.__module__.startswith("flambeau"):
                yield from below(value, seen)
        for v in used:
            where = str(v.__module__)
            if v.__name__ in LOOKING:
                continue
            if where.startswith(COMPUTING) or (where, v.__name__) == (
                "flambeau.core.tape.formulas",
                "record",
            ):
                yield f"{where}.{v.__name__}"


def composite_faults() -> dict[str, set[str]]:
    """What composites, and formulas of derivatives, call that is no operation, with the operations."""
    found: dict[str, set[str]] = {}
    for entry in REGISTRY.values():
        for body in (getattr(entry.function, "composite", None), getattr(entry.function, "formula", None)):
            if isinstance(body, types.FunctionType):
                for fault in below(body, set()):
                    found.setdefault(fault, set()).add(entry.name)
    return found


if __name__ == "__main__":
    for title, faults in (("leaves", leaf_faults()), ("composites", composite_faults())):
        print(f"{title}: {len(faults)}")
        for fault in sorted(faults):
            print(f"    {fault}: {' '.join(sorted(faults[fault]))}")
