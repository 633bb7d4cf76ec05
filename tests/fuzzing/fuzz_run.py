"""Makes random calls and checks each: values against the reference, and what holds for every operation.

    python fuzz_run.py --calls 3000 --seed 0 [--only REGEX] [--log FILE] [--tame]

For every call: the error, if any, is of a class that PyTorch raises and says something; results lie within their storage; the
arguments are as before (but for what is written in place); a second call gives the same bits; contiguous copies of the
arguments give the same values; `out=` gives the same elements; with gradients asked for, values are the same, gradients have
the shapes of what they belong to, do not depend on the layout, and agree with differences of the function in float64.

The call that runs is written to FILE first, so that a crash can be laid at its door.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import sys
import traceback
import warnings
from typing import Any

import fuzz_layers  # noqa: F401
import fuzz_more  # noqa: F401
import numpy as np
from fuzz_cases import CASES, Case
from fuzz_draw import Draw, Given

import flambeau

ERRORS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, OverflowError, AssertionError)
EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "complex64": 2.0**-24}
HOSTILE = (
    None,
    -1,
    2**31,
    2**62,
    2**63 - 1,
    -(2**63),
    2**64,
    float("nan"),
    "x",
    (),
    [],
    (-1, -1),
    (2**62, 4),
    object(),
)
MOST_BYTES = (
    4 << 30
)  # of address space, so that what asks for more than there is gets an error, not the machine
UNSET = ("empty",)  # what these hold is not set, so it is not compared


class Wrong(Exception):
    """A property that does not hold."""


def mapped(x: Any, what: Any) -> Any:
    """`x` with every Given in it replaced by what(given)."""
    if isinstance(x, Given):
        return what(x)
    if type(x) in (tuple, list):
        return type(x)(mapped(y, what) for y in x)
    return {k: mapped(v, what) for k, v in x.items()} if type(x) is dict else x


def leaves(x: Any, kind: type = flambeau.Tensor) -> list:
    if isinstance(x, kind):
        return [x]
    if isinstance(x, (tuple, list)):
        return [t for y in x for t in leaves(y, kind)]
    return [t for y in x.values() for t in leaves(y, kind)] if type(x) is dict else []


def dtype_name(t: Any) -> str:
    return str(t.dtype).partition(".")[2]


def values(t: Any) -> np.ndarray:
    t = t.detach()
    if t.dtype is flambeau.complex32:  # NumPy has no such dtype
        t = t.to(flambeau.complex64)
    return (t.to(flambeau.float32) if t.dtype in (flambeau.bfloat16, flambeau.float16) else t).cpu().numpy()


def function_of(place: str) -> Any:
    found: Any = flambeau
    for part in place.split("."):
        found = getattr(found, part)
    return found


# --- one call ------------------------------
class Call:
    """A drawn call, to be made with its tensors as they were drawn or otherwise."""

    def __init__(self, case: Case, d: Draw) -> None:
        self.case, self.draw = case, d
        self.args, self.kwargs = case.draw(d)
        self.function = function_of(case.place)
        self.in_place = (
            case.place.endswith("_") and not case.place.endswith("__") or case.place.endswith("__setitem__")
        )
        self.given: list[Given] = leaves((self.args, self.kwargs), Given)

    def __repr__(self) -> str:
        parts = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"{self.case.place}({', '.join(parts)})"

    def make(self, tensor: Any = lambda g: g.tensor, **more: Any) -> Any:
        """The result, for tensors made from what was drawn by `tensor`; of an operation in place, what was written."""
        args, kwargs = mapped(self.args, tensor), mapped(self.kwargs, tensor)
        flambeau.manual_seed(7)
        found = self.function(*args, **kwargs, **more)
        return args[0] if self.in_place else found


def inside(t: Any) -> bool:
    """Whether the elements lie within the storage."""
    count = 1
    last = t.storage_offset()
    for n, s in zip(t.shape, t.stride()):
        count *= n
        last += (n - 1) * s
    room = t.untyped_storage().nbytes()
    return t.numel() == count and (
        count == 0 or t.storage_offset() >= 0 and (last + 1) * t.element_size() <= room
    )


def same_bits(a: list, b: list) -> bool:
    return len(a) == len(b) and all(
        x.dtype == y.dtype
        and x.shape == y.shape
        and np.array_equal(values(x), values(y), equal_nan=values(x).dtype.kind in "fc")
        for x, y in zip(a, b)
    )


def close(got: np.ndarray, wanted: np.ndarray, epsilon: float, loose: float) -> bool:
    """Within some roundings of the largest element, NaN and infinities at the same places."""
    if got.shape != wanted.shape:
        return False
    if got.dtype == bool:
        got, wanted = got.astype("int8"), wanted.astype("int8")
    with np.errstate(all="ignore"):
        finite = np.isfinite(wanted)
        if not np.array_equal(got[~finite], wanted[~finite].astype(got.dtype), equal_nan=True):
            largest = {
                "f": np.finfo(np.float16 if epsilon > 1e-4 else np.float32).max,
                "c": np.finfo("float32").max,
            }
            if np.abs(wanted[finite]).max(initial=0) < largest.get(got.dtype.kind, np.inf):
                return False
        g, w = got[finite], wanted[finite]
        scale = np.maximum(np.abs(w), np.abs(w).max(initial=0) * 0.05) + 1.0
        return bool(np.all((np.abs(g - w) <= 4 * loose * epsilon * scale) | ~np.isfinite(g.astype(w.dtype))))


def check(call: Call) -> str:
    """ "ok" or the class of the error; raises Wrong."""
    case, d = call.case, call.draw
    original = original_copy if call.in_place else (lambda g: g.tensor)
    try:
        first = leaves(call.make(original))
    except ERRORS as error:
        if not str(error).strip():
            raise Wrong(f"{type(error).__name__} without a message") from error
        if case.reference is not None and complains_without_reason(call, error):
            raise Wrong(f"{type(error).__name__} where the reference has an answer: {error}") from error
        return type(error).__name__
    if not all(map(inside, first)):
        raise Wrong("a result reaches out of its storage")
    if not all(g.unchanged() for g in call.given):
        raise Wrong("an argument was written to")
    compare_with_reference(call, first)
    if case.place.rpartition(".")[2] in UNSET:
        return "ok"
    if not same_bits(first, leaves(call.make(original))):
        raise Wrong("a second call gives another result")
    epsilon = max([EPSILON.get(dtype_name(t), 2.0**-53) for t in first], default=0)
    plain = leaves(call.make(lambda g: g.tensor.detach().contiguous().clone()))
    for a, b in zip(first, plain) if "layout" not in case.but else ():
        if a.dtype != b.dtype or not close(values(a), values(b), epsilon, 40 * case.loose):
            raise Wrong("contiguous copies of the arguments give another result")
    if not call.in_place and len(first) == 1 and d.chance(0.3):
        check_out(call, first[0])
    check_keywords(call)
    if "layout" not in case.but and d.chance(0.5):
        check_gradients(call, first)
    return "ok"


def complains_without_reason(call: Call, error: Exception) -> bool:
    """Whether the reference takes arguments that the operation refuses, for another reason than their dtype."""
    if re.search(
        r"not implemented|dtype|can't be cast|cannot be cast|numel\(\) == 0|integer|bool|expected.*scalar type",
        str(error),
    ):
        return False
    try:
        expected(call)
    except Exception:
        return False
    return True


def expected(call: Call, integers: str = "") -> list[np.ndarray]:
    """The reference's results; `integers` names the dtype that integers are handed over as."""
    wide = {"f": "float64", "c": "complex128"} | ({k: integers for k in "iub"} if integers else {})
    array = lambda g: g.array.astype(wide.get(g.array.dtype.kind, g.array.dtype))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = call.case.reference(*mapped(call.args, array), **mapped(call.kwargs, array))
    found = list(map(np.asarray, found if isinstance(found, (tuple, list)) else (found,)))
    if not integers and any(
        f.dtype in ("float16", "float32") for f in found
    ):  # NumPy computes small integers in small floats
        return expected(call, "float64")
    return found


def compare_with_reference(call: Call, found: list) -> None:
    if call.case.reference is None:
        return
    try:
        wanted = expected(call)
    except Exception:
        return  # the reference refuses, as NumPy does an empty maximum: what holds for all is checked all the same
    if len(wanted) != len(found):
        raise Wrong(f"{len(found)} results, expected {len(wanted)}")
    for t, w in zip(found, wanted):
        epsilon = EPSILON.get(dtype_name(t), 2.0**-53)
        if any(g.tensor.dtype in (flambeau.float16, flambeau.bfloat16) for g in call.given):
            epsilon = max(epsilon, 2.0**-20)
        got = values(t)
        if got.dtype.kind == "f" and w.dtype.kind in "iu":  # NumPy stays with integers
            w = np.asarray(expected(call, "float64")[0])
        if got.shape != w.shape:
            raise Wrong(f"shape {got.shape}, expected {w.shape}")
        if got.dtype.kind in "biu":
            if w.dtype.kind in "biu" and not np.array_equal(got, w.astype(got.dtype)):
                raise Wrong(difference(got, w))
        elif not close(got, w, epsilon, call.case.loose):
            raise Wrong(difference(got, w))


def difference(got: np.ndarray, wanted: np.ndarray) -> str:
    """The first element that is most off."""
    with np.errstate(all="ignore"):
        off = np.abs(got.astype("complex128") - wanted.astype("complex128"))
    place = np.unravel_index(np.argmax(np.where(np.isnan(off), np.inf * (got != wanted), off)), got.shape)
    return f"at {tuple(map(int, place))}: {got[place]!r}, expected {wanted[place]!r}"


def check_keywords(call: Call) -> None:
    """No argument is silently ignored: one that does not exist, a device that there is not."""
    for name, value in (("nonsense", 1), ("device", "nowhere")):
        try:
            call.make(original_copy if call.in_place else lambda g: g.tensor, **{name: value})
        except (TypeError, RuntimeError):
            continue
        raise Wrong(f"{name}={value!r} is ignored")


def original_copy(g: Given) -> Any:
    return g.tensor.detach().clone()


def check_out(call: Call, first: Any) -> None:
    """`out=`, of the right shape in another layout, and of no elements."""
    shape = list(first.shape)
    turned = (
        flambeau.empty(shape[::-1], dtype=first.dtype).permute(*range(len(shape))[::-1])
        if shape
        else flambeau.empty(())
    )
    for out in (turned.to(first.dtype), flambeau.empty(0, dtype=first.dtype)):
        try:
            found = call.make(out=out)
        except TypeError:
            return  # it has none
        if found is not out or not same_bits([found], [first]):
            raise Wrong("out= holds another result")


def check_gradients(call: Call, first: list) -> None:
    """Gradients do not depend on the layout, fit their tensors, and agree with a difference quotient."""
    d = call.draw

    def history(plain: bool) -> tuple[list, list]:
        inputs: list = []

        def tensor(g: Given) -> Any:
            t = g.tensor.detach().contiguous().clone() if plain or call.in_place else g.tensor.detach()
            if not (t.is_floating_point() or t.is_complex()):
                return t
            inputs.append(t.requires_grad_())
            return t.clone() if call.in_place else t

        return inputs, leaves(call.make(tensor))

    inputs, results = history(False)
    if not inputs:
        return
    if not all(
        close(values(a), values(b), EPSILON.get(dtype_name(a), 2.0**-53), 40 * call.case.loose)
        for a, b in zip(results, first)
    ):
        raise Wrong("the result is another one when gradients are asked for")
    taped = [r for r in results if r.requires_grad]
    if not taped:
        return
    seeds = [
        d.hold(
            d.array(tuple(r.shape), "complex128" if r.is_complex() else "float64", -1, 1),
            "complex128" if r.is_complex() else "float64",
        ).tensor.to(r.dtype)
        for r in taped
    ]
    grads = flambeau.autograd.grad(taped, inputs, seeds, allow_unused=True)
    other_inputs, other_results = history(True)
    others = flambeau.autograd.grad(
        [r for r in other_results if r.requires_grad],
        other_inputs,
        [s.contiguous() for s in seeds],
        allow_unused=True,
    )
    for t, g, o in zip(inputs, grads, others):
        if (g is None) != (o is None):
            raise Wrong("whether there is a gradient depends on the layout")
        if g is None:
            continue
        if g.shape != t.shape or g.dtype != t.dtype or not inside(g):
            raise Wrong(f"the gradient of {list(t.shape)} {t.dtype} is {list(g.shape)} {g.dtype}")
        if not close(values(g), values(o), EPSILON.get(dtype_name(g), 2.0**-53), 400 * call.case.loose):
            raise Wrong("the gradient depends on the layout")
    if (
        not (call.in_place or "difference" in call.case.but)
        and all(t.dtype == flambeau.float64 for t in inputs)
        and all(r.dtype == flambeau.float64 for r in taped)
    ):
        check_difference(call, taped, seeds, inputs, grads)


def check_difference(call: Call, taped: list, seeds: list, inputs: list, grads: tuple) -> None:
    """The derivative in a random direction against differences from both sides; at a kink, where these differ, nothing is checked."""
    d = call.draw
    steps = [flambeau.from_numpy(d.array(tuple(t.shape), "float64", -1, 1)) for t in inputs]
    if not inputs or any(not bool(flambeau.isfinite(t).all()) for t in inputs):
        return

    def at(h: float) -> float:
        moved = iter(steps)
        wanted = lambda g: (
            (g.tensor.detach() + h * next(moved)).requires_grad_()
            if g.tensor.is_floating_point()
            else g.tensor
        )
        found = [r.detach() for r in leaves(call.make(wanted)) if r.requires_grad]
        return sum(float((f * s).sum()) for f, s in zip(found, seeds))

    slope = sum(float((g * s).sum()) for g, s in zip(grads, steps) if g is not None)
    middle = at(0.0)
    ahead, behind = (at(1e-6) - middle) / 1e-6, (middle - at(-1e-6)) / 1e-6
    scale = 1.0 + abs(slope) + abs(middle) + sum(float(f.detach().abs().sum()) for f in taped) * 0.1
    if not np.isfinite([ahead, behind, slope]).all() or abs(ahead - behind) > 1e-3 * scale:
        return
    if abs((ahead + behind) / 2 - slope) > 2e-3 * scale:
        raise Wrong(f"the derivative in a direction is {slope}, differences say {(ahead + behind) / 2}")


def spoil(call: Call) -> None:
    """Replace one argument by one that makes no sense."""
    args = list(call.args)
    args[call.draw.int(0, len(args) - 1)] = call.draw.one_of(*HOSTILE)
    call.args = tuple(args)


def check_spoilt(call: Call) -> str:
    """An error that says something, or an answer within its storage."""
    try:
        found = leaves(call.make())
    except (*ERRORS, AttributeError, MemoryError) as error:
        if not str(error).strip() and not isinstance(error, MemoryError):
            raise Wrong(f"{type(error).__name__} without a message") from error
        return type(error).__name__
    if not all(map(inside, found)):
        raise Wrong("a result reaches out of its storage")
    return "ok"


# --- many calls ------------------------------
def run(
    calls: int, seed: int, only: str = "", log: str = os.devnull, hostile: bool = True
) -> tuple[dict, list]:
    """How the calls ended, counted, and the descriptions of those that went wrong."""
    cases = [c for c in CASES if re.search(only, c.place)]
    ends: dict[str, int] = {}
    wrong: list[str] = []
    with open(log, "w") as record, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(calls):
            own = seed * 1_000_003 + number
            d = Draw(own)
            case = cases[number % len(cases)] if number < len(cases) else d.one_of(*cases)
            call = Call(case, d)
            spoilt = hostile and bool(call.args) and "endless" not in case.but and d.chance(0.1)
            if spoilt:
                spoil(call)
            record.seek(0)
            record.write(f"seed {own}: {call}".ljust(2000)[:2000])
            record.flush()
            try:
                end = check_spoilt(call) if spoilt else check(call)
            except (
                flambeau.linalg.LinAlgError,
                NotImplementedError,
            ) as error:  # of a gradient, where the value has an answer
                end = type(error).__name__
            except Exception as error:
                end = "wrong"
                what = (
                    str(error)
                    if isinstance(error, Wrong)
                    else "".join(traceback.format_exception(error)[-2:]).rstrip()
                )
                wrong.append(f"seed {own}: {call}\n    {what}")
            ends[end] = ends.get(end, 0) + 1
    return ends, wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="regular expression on the operation's public name")
    parser.add_argument("--log", default=os.devnull, help="file that holds the call that runs")
    parser.add_argument("--tame", action="store_true", help="no arguments that make no sense")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    ends, wrong = run(given.calls, given.seed, given.only, given.log, not given.tame)
    print(*wrong, sep="\n")
    print(f"{sum(ends.values())} calls of {len(CASES)} cases: {dict(sorted(ends.items()))}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
