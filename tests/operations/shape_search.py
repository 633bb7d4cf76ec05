"""Convolutions, pools, products and attention of small shapes against sums in float64, results and gradients.

    python tests/operations/shape_search.py --all            # some 30,000 shapes, minutes
    python tests/operations/shape_search.py --count 500 --only conv2d --seed 3

Each family has lists of sizes, strides, dilations, paddings, groups, dtypes and layouts; a case is one choice from each.  A family whose
choices are few tries them all, the others as many as it says, no two alike.  What is wrong is printed with its choices.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import math
import random
import re
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import flambeau as fb

LAYOUTS = ("plain", "plain", "last", "cut", "turned", "stepped", "expanded")
TOLERANCE = {
    "float64": 1e-11,
    "float32": 2e-4,
    "complex128": 1e-11,
    "complex64": 2e-4,
    "bfloat16": 0.04,
    "float16": 0.01,
}
COMPUTED = {"float16": "float32", "bfloat16": "float32"}


class Case(NamedTuple):
    """One call: its operands, what is differentiated, and the reference of (arrays, gradient of the result)."""

    operands: list[np.ndarray | None]
    call: Callable[..., Any]
    out: tuple[int, ...]
    reference: Callable[..., tuple[np.ndarray, list[np.ndarray]]]


class Family(NamedTuple):
    name: str
    count: int  # of cases in a whole search
    choices: dict[str, Any]
    build: Callable[..., Case | None]  # of the choices, by name; None where they do not go together


FAMILIES: list[Family] = []


def family(name: str, count: int, **choices: Any) -> Callable[[Callable], Callable]:
    choices.setdefault("dtype", ("float32", "float64"))

    def enter(build: Callable) -> Callable:
        FAMILIES.append(Family(name, count, choices, build))
        return build

    return enter


# --- operands ------------------------------
def laid(array: np.ndarray, layout: str) -> np.ndarray:
    """An array of these values (of one slice again and again where `expanded`), laid as said, with NaN wherever it is not."""
    if array.ndim == 0 or array.size == 0 or layout == "plain":
        return np.array(array, order="C")
    if layout == "last":
        order = (0, *range(2, array.ndim), 1) if array.ndim > 2 else range(array.ndim)
        return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
    if layout == "turned":
        return np.ascontiguousarray(array.T).T
    if layout == "expanded":
        wide = max(range(array.ndim), key=lambda d: (array.shape[d] > 1, -d))
        first = np.ascontiguousarray(array[(slice(None),) * wide + (slice(1),)])
        steps = [0 if d == wide else s for d, s in enumerate(first.strides)]
        return np.lib.stride_tricks.as_strided(first, array.shape, steps)
    step = 2 if layout == "stepped" else 1
    whole = np.full([n * step + 3 for n in array.shape], np.nan, array.dtype)
    found = whole[tuple(slice(1, 1 + n * step, step) for n in array.shape)]
    found[...] = array
    return found


def tensor(array: np.ndarray, layout: str, dtype: str, wanted: bool) -> tuple[fb.Tensor, np.ndarray]:
    """A leaf of these values in a layout, and the values it has."""
    kind = np.dtype(COMPUTED.get(dtype, dtype))
    array = laid(array.astype(kind), layout)
    found = fb.from_numpy(array).to(getattr(fb, dtype))
    if dtype in COMPUTED:
        array = found.to(getattr(fb, COMPUTED[dtype])).numpy()
    wide = np.complex128 if kind.kind == "c" else np.float64
    return found.requires_grad_(wanted), array.astype(wide)


def draw(rng: np.random.Generator, shape, dtype: str) -> np.ndarray:
    found = rng.standard_normal(shape)
    return found + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else found


# --- one case ------------------------------
def near(what: str, found: np.ndarray, want: np.ndarray, dtype: str) -> str | None:
    if found.shape != want.shape:
        return f"{what} has shape {found.shape}, not {want.shape}"
    if want.size == 0:
        return None
    scale = TOLERANCE[dtype] * max(1.0, np.abs(want).max())
    error = np.abs(found - want).max()
    return None if error <= scale else f"{what} is off by {error:.3g} of {np.abs(want).max():.3g}"


def tried(one: Family, given: dict[str, Any]) -> list[str] | None:
    """What is wrong with a case; None where the choices make no case."""
    rng = np.random.default_rng(zlib.crc32(repr(given).encode()))
    case = one.build(rng=rng, **given)
    if case is None:
        return None
    dtype, layout = given["dtype"], given.get("layout", "plain")
    layouts = [layout, given.get("second", "plain"), "plain", "plain"]
    leaves, arrays = [], []
    for array, lay in zip(case.operands, layouts):
        leaf, values = (None, None) if array is None else tensor(array, lay, dtype, True)
        leaves.append(leaf)
        arrays.append(values)
    sent, grad = tensor(draw(rng, case.out, dtype), given.get("sent", "plain"), dtype, False)
    wrong: list[str | None] = []
    try:
        found = case.call(*leaves)
        want, gradients = case.reference(*arrays, grad)
        if found.dtype is not sent.dtype:
            wrong.append(f"result is {found.dtype}")
        wrong.append(near("result", values_of(found), want, dtype))
        if tuple(found.shape) == case.out:
            found.backward(sent)
            for k, (leaf, into) in enumerate(zip((t for t in leaves if t is not None), gradients)):
                if leaf.grad is None:
                    wrong.append(f"gradient {k} is missing")
                else:
                    wrong.append(near(f"gradient {k}", values_of(leaf.grad), into, dtype))
            with fb.no_grad():
                again = values_of(case.call(*leaves))
            wrong.append(near("result without gradients", again, want, dtype))
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        wrong.append(f"{type(error).__name__}: {error} ({last.filename.rsplit('/', 1)[-1]}:{last.lineno})")
    return [w for w in wrong if w]


def values_of(found: fb.Tensor) -> np.ndarray:
    found = found.detach()
    return (found.float() if found.dtype in (fb.float16, fb.bfloat16) else found).numpy()


# --- the search ------------------------------
def cases(one: Family, seed: int) -> Iterator[dict[str, Any]]:
    """All choices where they are few, else drawn ones, no two alike."""
    names, lists = list(one.choices), [list(c) for c in one.choices.values()]
    total = math.prod(map(len, lists))
    rng = random.Random(f"{one.name} {seed}")
    seen: set[int] = set()
    order = iter(rng.sample(range(total), total)) if total <= 4 * one.count else None
    while len(seen) < total:
        number = next(order) if order is not None else rng.randrange(total)
        if number in seen:
            continue
        seen.add(number)
        picked = []
        for values in lists:
            number, k = divmod(number, len(values))
            picked.append(values[k])
        yield dict(zip(names, picked))


def search(
    one: Family, count: int, seed: int, trace: bool = False
) -> tuple[int, list[tuple[dict, list[str]]]]:
    """How many cases were tried, at most `count` and what was wrong with which."""
    done, wrong, drawn = 0, [], 0
    for given in cases(one, seed):
        drawn += 1
        if done >= count or drawn > 400 * count:
            break
        if trace:
            print(one.name, given, flush=True)
        found = tried(one, given)
        if found is None:
            continue
        done += 1
        if found:
            wrong.append((given, found))
    return done, wrong


def main() -> int:
    import shape_convolutions  # noqa: F401
    import shape_pools  # noqa: F401
    import shape_products  # noqa: F401

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="as many cases of each family as it says")
    parser.add_argument("--count", type=int, default=20, help="cases of each family otherwise")
    parser.add_argument("--only", default="", help="families whose names match")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trace", action="store_true", help="print each case before it runs")
    parser.add_argument("--show", type=int, default=3, help="wrong cases shown of each family")
    options = parser.parse_args()
    faulthandler.enable()
    totals = collections.Counter()
    print(f"{'family':32} {'shapes':>8} {'wrong':>6} {'s':>7}")
    for one in FAMILIES:
        if not re.search(options.only, one.name):
            continue
        began = time.monotonic()
        done, wrong = search(one, one.count if options.all else options.count, options.seed, options.trace)
        totals.update(shapes=done, wrong=len(wrong))
        print(f"{one.name:32} {done:8} {len(wrong):6} {time.monotonic() - began:7.1f}", flush=True)
        for given, found in wrong[: options.show]:
            print("   ", given, *found, sep="\n        ")
    print(f"{'in all':32} {totals['shapes']:8} {totals['wrong']:6}")
    return bool(totals["wrong"])


if __name__ == "__main__":
    sys.modules["shape_search"] = sys.modules["__main__"]
    sys.exit(main())
