"""Derivatives of a function in every mode, against differences of its values and of its gradients.

    python derivatives.py [--only REGEX] [--dtype float64|complex128] [--layout contiguous|transposed|sliced] [-v]

goes over all sample calls and layers, in all ways; `test_forward_and_reverse.py` over a part of them.

A function is one of tensors that returns a list of tensors.  Its results are weighted into one real number, with squares, so that
what is linear has a second derivative, too.
"""

from __future__ import annotations

import argparse
import functools
import re
import time
import warnings
from collections.abc import Callable, Iterator

import derivative_layers
import numpy as np
import samples

import flambeau
from flambeau.func import grad, jvp, vmap
from flambeau.func._refusals import NotForAllSlices

STEP = 1e-5
TOLERANCE = 2e-5


def number(x: flambeau.Tensor) -> flambeau.Tensor:
    return x.detach().resolve_conj().resolve_neg()


def random_like(x: flambeau.Tensor, rng) -> flambeau.Tensor:
    found = rng.standard_normal(x.shape)
    if x.is_complex():
        found = found + 1j * rng.standard_normal(x.shape)
    return flambeau.from_numpy(np.asarray(found)).to(x.dtype)


def in_memory_of(at: flambeau.Tensor, x: flambeau.Tensor) -> flambeau.Tensor:
    """The numbers of `x` in a copy of the storage of `at`, laid out as it is; what else lies there is as it was."""
    memory = at.detach().as_strided((at.untyped_storage().nbytes() // at.itemsize,), (1,), 0).clone()
    memory.as_strided(at.shape, at.stride(), at.storage_offset()).copy_(x)
    return memory.as_strided(at.shape, at.stride(), at.storage_offset())


def stacked_in_memory_of(at: flambeau.Tensor, xs: list) -> flambeau.Tensor:
    """Several of `in_memory_of` along a new first dimension."""
    each = [in_memory_of(at, x) for x in xs]
    memory = flambeau.stack(
        [x.as_strided((x.untyped_storage().nbytes() // x.itemsize,), (1,), 0) for x in each]
    )
    return memory.as_strided((len(each), *at.shape), (memory.shape[1], *at.stride()), at.storage_offset())


def differentiable(results: list) -> list:
    return [r for r in results if r.is_floating_point() or r.is_complex()]


def real_product(a, b) -> flambeau.Tensor:
    """The real part of Σ conj(a) b."""
    return (a.real * b.real + a.imag * b.imag).sum() if a.is_complex() else (a * b).sum()


def real_squares(x) -> flambeau.Tensor:
    return x.real.square() + x.imag.square() if x.is_complex() else x.square()


class Wrong(AssertionError):
    """A derivative that is not what differences say."""


class Derivatives:
    """A function at a place, along a direction, with weights of its results.

    Weights, and with them the gradients that come back, are laid out as the places are said to be; of the two directions one is.
    """

    def __init__(
        self, function: Callable, places: list, smooth: bool = True, layout: str = "contiguous", seed: int = 0
    ) -> None:
        rng = np.random.default_rng(seed)
        self.places, self.smooth = places, smooth
        self.every = tuple(range(len(places)))
        self.direction = [random_like(x, rng) for x in places]
        self.other = [samples.laid_out(random_like(x, rng), layout) for x in places]
        with flambeau.enable_grad():
            found = differentiable(function(*(in_memory_of(x, x).requires_grad_() for x in places)))
        recorded = [k for k, r in enumerate(found) if r.requires_grad]
        self.weights = [samples.laid_out(random_like(found[k], rng), layout) for k in recorded]

        endless = [~found[k].detach().isfinite() for k in recorded]

        def chosen(*xs):
            results = differentiable(function(*xs))
            return tuple(
                results[k].masked_fill(mask, 0) if mask.any() else results[k]
                for k, mask in zip(recorded, endless)
            )

        self.function = chosen

    def weighted(self, *xs) -> flambeau.Tensor:
        """The results as one number."""
        pairs = zip(self.function(*xs), self.weights)
        return sum(real_product(r, w) + 0.25 * real_product(r, r) for r, w in pairs)

    def linear(self, *xs) -> flambeau.Tensor:
        return sum(real_product(r, w) for r, w in zip(self.function(*xs), self.weights))

    def gradient(self, *xs) -> tuple:
        return grad(self.weighted, self.every)(*xs)

    def difference(self, function: Callable) -> list[np.ndarray]:
        """Of a function of the places, along the direction."""
        ends = []
        for sign in (1, -1):
            xs = [in_memory_of(x, x + sign * STEP * v) for x, v in zip(self.places, self.direction)]
            ends.append([number(r).numpy() for r in function(*xs)])
        with np.errstate(all="ignore"):
            return [(a - b) / (2 * STEP) for a, b in zip(*ends)]

    @functools.cached_property
    def second(self) -> list[np.ndarray]:
        """The second derivatives along the direction: of a function that is not smooth by reverse mode twice."""
        return self.difference(self.gradient) if self.smooth else arrays(self.twice_back())

    def along(self, function: Callable, places=None, direction=None) -> list:
        """The derivative along the direction, by forward mode."""
        places = self.places if places is None else places
        direction = self.direction if direction is None else direction
        return jvp(function, tuple(places), tuple(direction))[1]

    def twice_back(self) -> tuple:
        def product(*xs):
            return sum(real_product(g, v) for g, v in zip(self.gradient(*xs), self.direction))

        return grad(product, self.every)(*self.places)

    # --- what is compared ---
    def forward(self) -> None:
        """Values' tangents are differences of the values."""
        if self.smooth:
            compare(self.along(self.function), self.difference(self.function))

    def adjoint(self) -> None:
        """Reverse mode is the adjoint of forward mode."""
        left = sum(real_product(t, w) for t, w in zip(self.along(self.function), self.weights))
        back = grad(self.linear, self.every)(*self.places)
        compare([sum(real_product(g, v) for g, v in zip(back, self.direction))], arrays([left]))

    def reverse_over_reverse(self) -> None:
        compare(self.twice_back(), self.second)

    def forward_over_reverse(self) -> None:
        compare(self.along(self.gradient), self.second)

    def reverse_over_forward(self) -> None:
        compare(grad(lambda *xs: self.along(self.weighted, xs), self.every)(*self.places), self.second)

    def forward_over_forward(self) -> None:
        expected = sum(float((e.conj() * v.numpy()).real.sum()) for e, v in zip(self.second, self.direction))
        compare([self.along(lambda *xs: self.along(self.weighted, xs))], [np.array(expected)])

    def mapped_forward(self) -> None:
        """Along several directions at once as along each."""
        self.mapped(self.function)

    def mapped_forward_over_reverse(self) -> None:
        self.mapped(self.gradient)

    def mapped_forward_over_forward(self) -> None:
        self.mapped(lambda *xs: (self.along(self.weighted, xs),))

    def mapped_twice(self) -> None:
        """Along pairs of directions, by two mapped functions, one in the other."""
        ways = [self.direction, self.other]
        products = [arrays(self.along(self.gradient, direction=w)) for w in ways]
        inner = lambda a, v: sum(float((x.conj() * y.numpy()).real.sum()) for x, y in zip(a, v))
        expected = np.array([[inner(p, w) for p in products] for w in ways])
        stacked = [flambeau.stack(list(column)) for column in zip(*ways)]

        def row(*xs):
            return vmap(lambda *v: self.along(self.weighted, xs, v), randomness="same")(*stacked)

        found = vmap(lambda *v: self.along(row, direction=v), randomness="same")(*stacked)
        compare([found], [expected])

    def mapped_places(self) -> None:
        """At several places, along a direction each."""
        self.mapped_at_places(self.function)

    def mapped_places_of_gradients(self) -> None:
        self.mapped_at_places(self.gradient)

    def mapped(self, function: Callable) -> None:
        ways = [self.direction, self.other]
        expected = [np.stack(c) for c in zip(*(arrays(self.along(function, direction=w)) for w in ways))]
        stacked = [flambeau.stack(list(column)) for column in zip(*ways)]
        found = vmap(lambda *vs: tuple(self.along(function, direction=vs)), randomness="same")(*stacked)
        compare(found, expected)

    def mapped_at_places(self, function: Callable) -> None:
        n, ways = len(self.places), [self.direction, self.other]
        places = [self.places, [in_memory_of(x, x * 0.96875) for x in self.places]]
        each = [arrays(self.along(function, x, w)) for x, w in zip(places, ways)]
        given = [stacked_in_memory_of(c[0], list(c)) for c in zip(*places)]
        given += [flambeau.stack(list(c)) for c in zip(*ways)]
        found = vmap(lambda *xv: tuple(self.along(function, xv[:n], xv[n:])), randomness="same")(*given)
        compare(found, [np.stack(c) for c in zip(*each)])


FIRST = ("forward", "adjoint", "mapped_forward", "mapped_places")
SECOND = ("reverse_over_reverse", "forward_over_reverse", "reverse_over_forward", "forward_over_forward",
          "mapped_forward_over_reverse", "mapped_forward_over_forward", "mapped_twice", "mapped_places_of_gradients")  # fmt: skip


def arrays(tensors) -> list[np.ndarray]:
    return [number(t).numpy() for t in tensors]


def compare(found, expected) -> None:
    assert len(found) == len(expected), f"{len(found)} results, not {len(expected)}"
    for k, (a, b) in enumerate(zip(arrays(found), expected)):
        if a.shape != b.shape or np.iscomplexobj(a) != np.iscomplexobj(b):
            raise Wrong(f"result {k} is {a.dtype} {a.shape}, not {b.dtype} {b.shape}")
        known = np.isfinite(b)
        size = max(1.0, np.abs(b[known]).max(initial=0.0))
        off = np.abs(np.where(known, a, 0) - np.where(known, b, 0)).max(initial=0.0)
        if not off <= TOLERANCE * size:
            raise Wrong(f"result {k} is off by {off:.3g} of {size:.3g}")


# --- sample calls ------------------------------
# Derivatives by definition, not of the values: straight through roundings; none for a row of padding.
DEFINED = frozenset("fake_quantize_per_tensor_affine fake_quantize_per_channel_affine".split())
NO_ADJOINT = {"flat_embedding(table, words, 1)": ("adjoint", "forward_over_forward", "mapped_twice")}
# Vectors up to a factor of length 1: their lengths squared are told.
FREE = frozenset("eigh eig svd old_svd svd_lowrank pca_lowrank".split())
ABOVE_ONE = frozenset(("acosh",))  # what is not defined below
OPERANDS = {
    "i": [
        [0, 1, 2, 0],
        [2, 2, 0, 1],
        [1, 0, 1, 2],
    ],  # where two elements go to one place, derivatives are not defined
}
SEEN_AS = {  # what a function reads of an operand
    "spd": lambda x: (x + x.mH) / 2,
    "low": lambda x: x.tril(),
    "logp": lambda x: x.log_softmax(-1),
}


def sample_case(entry, text: str, dtype: str = "float64", layout: str = "contiguous"):
    """The call as a function of its floating-point operands, and these; None where it has none."""
    used = samples.Operands(layout)
    used.update({n: flambeau.tensor(x) for n, x in OPERANDS.items()})
    samples.run(entry, text, used)
    names = [n for n in moving(used) if not re.search(rf"\b{n}(\.mT)?\.detach\(\)", text)]
    if not names or not entry.differentiable:
        return None
    if dtype == "complex128" and all(used[n].is_complex() for n in names):
        return None
    rng = np.random.default_rng(5)
    for n in moving(used):
        x = number(used[n])
        x = x + flambeau.from_numpy(np.asarray(rng.uniform(-0.015, 0.015, x.shape)))  # no two are equal
        if dtype == "complex128" and not x.is_complex():
            x = flambeau.complex(x, flambeau.from_numpy(np.asarray(rng.uniform(-0.2, 0.2, x.shape))))
        x = SEEN_AS.get(n, lambda x: x)(x) + (entry.name in ABOVE_ONE)
        used[n] = placed(n, x, layout)
    given = dict(used)
    written = entry.function.__name__.endswith("_") or entry.name.endswith("in_place")
    copied = lambda n, x: placed(n, x * 1, layout) if written else x

    def function(*tensors):
        operands = samples.Operands(layout)
        operands.update(given)
        for n, x in zip(names, tensors):
            operands[n] = placed(n, SEEN_AS[n](x), layout) if n in SEEN_AS else copied(n, x)
        found = samples.run(entry, text, operands)
        return [real_squares(r) for r in found] if entry.name in FREE else found

    return function, [given[n] for n in names], entry.name not in DEFINED, layout


def placed(name: str, x: flambeau.Tensor, layout: str) -> flambeau.Tensor:
    return x if name == "pairs" else samples.laid_out(x, layout)  # view_as_complex takes no other


def moving(operands: dict) -> list[str]:
    """The names of operands that have derivatives."""
    kinds = (flambeau.float64, flambeau.complex128)
    return [n for n, x in operands.items() if isinstance(x, flambeau.Tensor) and x.dtype in kinds]


def sample_cases() -> Iterator[tuple]:
    for entry, text in samples.ALL:
        if entry.differentiable and entry.kind not in ("question", "creation"):
            yield entry, text


def errors(case, ways=FIRST + SECOND) -> dict:
    """The ways in which a case's derivatives do not agree, each with its error."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        derivatives = Derivatives(*case)
        for way in ways if derivatives.weights else ():
            try:
                getattr(derivatives, way)()
            except Exception as error:
                found[way] = error
    return found


def refused(error: Exception) -> bool:
    """Whether an operation says by name that it cannot."""
    text = str(error)
    return isinstance(error, (NotImplementedError, NotForAllSlices)) and (
        "the derivative for" in text or "shape depends on values" in text
    )


def layer_case(make: Callable, layout: str):
    function, places, *smooth = make()
    return function, [samples.laid_out(x, layout) for x in places], *(smooth or [True]), layout


def all_cases(dtype: str, layout: str) -> Iterator[tuple]:
    """Names, and what makes a case of each."""
    for name, make in derivative_layers.cases() if dtype == "float64" else ():
        yield name, lambda make=make: layer_case(make, layout)
    for entry, text in sample_cases():
        yield (
            f"{entry.name}({text})",
            lambda entry=entry, text=text: sample_case(entry, text, dtype, layout),
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--layout", default="contiguous")
    parser.add_argument("--way", default=",".join(FIRST + SECOND))
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    count = wrong = 0
    for name, make in all_cases(options.dtype, options.layout):
        if not re.search(options.only, name):
            continue
        start = time.perf_counter()
        try:
            case = make()
            found = {} if case is None else errors(case, options.way.split(","))
        except Exception as error:
            if options.v:
                print(f"{name} is not called: {type(error).__name__}: {str(error)[:130]}")
            continue
        count += case is not None
        for way, error in found.items():
            if refused(error) or way in NO_ADJOINT.get(name, ()):
                continue
            wrong += 1
            print(f"{name} [{way}] {type(error).__name__}: {str(error)[:230]}", flush=True)
        if options.v:
            print(f"{name}: {1000 * (time.perf_counter() - start):.0f} ms", flush=True)
    print(f"{count} cases, {wrong} disagree")


if __name__ == "__main__":
    main()
