"""Forward mode, reverse mode, and each over each other are the same derivatives: of every operation and layer."""

from __future__ import annotations

import itertools
import math
import zlib

import derivatives
import pytest
import samples

import flambeau

WAYS = derivatives.FIRST + derivatives.SECOND
CASES = dict(derivatives.all_cases("float64", "contiguous"))


def agree(case, ways) -> None:
    found = derivatives.errors(case, ways)
    assert {w: e for w, e in found.items() if not derivatives.refused(e)} == {}


@pytest.mark.parametrize("name", CASES)
def test_every_way(name):
    case = CASES[name]()
    if case is not None:
        agree(case, [w for w in WAYS if w not in derivatives.NO_ADJOINT.get(name, ())])


def number_of(name: str) -> int:
    """Which of several things are done with a case: compiling kernels for all of them takes minutes."""
    return zlib.crc32(name.encode())


LAYOUTS = [layout for layout in samples.LAYOUTS if layout != "contiguous"]
LAID_OUT = {layout: dict(derivatives.all_cases("float64", layout)) for layout in LAYOUTS}


@pytest.mark.parametrize("name", [name for name in CASES if number_of(name) % 3 == 0])
def test_layouts(name):
    """A third of the cases, each in one layout, reverse against forward mode and one way more: as the name has it.

    `derivatives.py --layout` goes all ways with all cases.
    """
    number = number_of(name) // 3
    case = LAID_OUT[LAYOUTS[number % len(LAYOUTS)]][name]()
    if case is not None:
        ways = ("adjoint", WAYS[number // len(LAYOUTS) % len(WAYS)])
        agree(case, [w for w in ways if w not in derivatives.NO_ADJOINT.get(name, ())])


def test_differences_move_elements_where_they_lie():
    """What an argument says of the storage holds at every place that is compared; the rest of the storage stays."""
    for layout in LAYOUTS:
        memory = flambeau.arange(4.0, dtype=flambeau.float64)
        x = memory.reshape(2, 2).t() if layout == "transposed" else memory[::2]
        moved = derivatives.in_memory_of(x, x + 1)
        assert moved.stride() == x.stride() and (moved == x + 1).all() and memory.tolist() == [0, 1, 2, 3]
        read = lambda x: [x.as_strided((2,), (1,)).square()]
        found = derivatives.Derivatives(read, [x], True, layout)
        assert [float(e) for e in found.difference(read)[0]] == pytest.approx(
            [float(e) for e in found.along(read)[0]], abs=1e-6
        )
    with pytest.raises(derivatives.Wrong):
        derivatives.compare([product(1.0, 2.0)], [product(1.0, 2.1).numpy()])


COMPLEX = dict(derivatives.all_cases("complex128", "contiguous"))


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(name):
    """Where an operation takes them: the adjoint, and forward mode or forward over reverse, as the name has it."""
    try:
        case = COMPLEX[name]()
        ways = None if case is None else derivatives.Derivatives(*case).weights
    except (RuntimeError, ValueError, TypeError, NotImplementedError):
        return
    if ways:
        ways = ("adjoint", ("forward", "forward_over_reverse")[number_of(name) % 2])
        agree(case, [w for w in ways if w not in derivatives.NO_ADJOINT.get(name, ())])


def product(*values):
    return flambeau.tensor(values, dtype=flambeau.float64)


NORMS = {
    "norm": flambeau.linalg.vector_norm,
    "norm of complex": lambda x: flambeau.complex(x, x).norm(),
    "matrix norm": lambda x: flambeau.linalg.matrix_norm(x.reshape(2, 2)),
    "std": flambeau.std,
    "distance": lambda x: flambeau.dist(x, 2 * x),
    "distances": lambda x: flambeau.cdist(x.reshape(2, 2), x.reshape(2, 2)),
    "of nothing": lambda x: flambeau.linalg.norm(x[:0]) + 0 * x.sum(),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_where_a_norm_is_zero_its_derivative_is_in_every_mode(name, value):
    x = product(value, value, value, value)
    found, expected = flambeau.func.jacfwd(NORMS[name])(x), flambeau.func.jacrev(NORMS[name])(x)
    assert expected.isfinite().all() and flambeau.allclose(found, expected)


def test_products_over_places_have_second_derivatives_at_zero():
    index = flambeau.tensor([0, 0, 0, 1])
    for x, include in itertools.product(
        (product(2.0, 3.0, 0.5, 4.0), product(2.0, 0.0, 0.5, 0.0)), (True, False)
    ):
        first = product(1.5, 2.5)
        factors = first if include else flambeau.ones_like(first)

        def function(x, include=include, first=first):
            return first.scatter_reduce(0, index, x, "prod", include_self=include).sum()

        def plainly(x, factors=factors):
            return factors[0] * x[0] * x[1] * x[2] + factors[1] * x[3]

        for way in (flambeau.func.hessian, lambda f: flambeau.func.jacrev(flambeau.func.jacrev(f))):
            assert flambeau.allclose(way(function)(x), way(plainly)(x))
    twice = lambda x: product(1.0).scatter_reduce(0, flambeau.tensor([0, 0]), x, "prod").sum()
    with pytest.raises(RuntimeError, match="Double backward is unsupported"):
        flambeau.func.hessian(twice)(product(0.0, 0.0))


def test_sums_of_equal_exponentials():
    """log(eᵃ + eᵇ) is smooth where a = b."""
    for function, scale in ((flambeau.logaddexp, 1.0), (flambeau.logaddexp2, math.log(2.0))):
        found = flambeau.func.hessian(lambda x, f=function: f(x[0], x[1]))(product(1.0, 1.0))
        assert flambeau.allclose(found, scale * product(0.25, -0.25, -0.25, 0.25).reshape(2, 2))


def pushed(function):
    return lambda x: flambeau.func.jvp(function, (x,), (flambeau.ones_like(x),))[1]


@pytest.mark.parametrize("turns", list(itertools.product((pushed, flambeau.func.grad), repeat=3)))
def test_derivatives_in_any_order(turns):
    """Of both modes over each other; the third has more operands than a kernel takes.  The k-th of eˣ sin x is √2ᵏ eˣ sin(x + kπ/4)."""
    function = lambda x: x.exp() * x.sin()
    for k, turn in enumerate((*turns, turns[0])):
        expected = 2 ** (k / 2) * math.exp(0.3) * math.sin(0.3 + k * math.pi / 4)
        found = function(product(0.3)[0])
        assert math.isclose(found.item(), expected, rel_tol=1e-12) and not found.requires_grad
        function = turn(function)
