"""Products that end in the pointwise calls that follow them."""

from __future__ import annotations

import numpy as np
import pytest
from flambeau.graph.runner import LoopStep, ProductStep

import flambeau
from flambeau.graph.lower import plan
from flambeau.graph.program import Program
from flambeau.graph.trace import record

F = flambeau.nn.functional


def numbers(*shape, seed=0, dtype=flambeau.float32):
    return flambeau.tensor(np.random.default_rng(seed).normal(size=shape)).to(dtype)


def planned(function, *tensors):
    return plan(Program(record(function, *tensors)[0]))


def kinds(runner):
    return [type(s) for s in runner.steps]


def check(function, *given, tolerance=1e-6):
    """The plan of one set of numbers, run on another."""
    others = [flambeau.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t + 1) for t in given]
    runner = planned(function, *others)
    found, expected = runner(*given), function(*given)
    assert found.shape == expected.shape and found.stride() == expected.stride()
    found, expected = found.double().numpy(), expected.double().numpy()
    scale = float(np.abs(expected).max(initial=1.0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)
    return runner


ENDINGS = {
    "relu": (lambda s: s.relu(), ()),
    "scaled": (lambda s: s * 0.25 - 1, ()),
    "a column's": (lambda s, b: (s - b).abs(), ("columns",)),
    "a row's": (lambda s, b: s * b, ("rows",)),
    "a residual": (lambda s, r: r - s * 0.5, ("both",)),
    "all": (lambda s, a, b, c: (s * a + b).clamp(min=0) + c, ("columns", "rows", "both")),
    "twice": (lambda s, r: (s + r) * s, ("both",)),
    "compared": (lambda s, r: flambeau.where(s > r, s, r), ("both",)),
}
SIZES = {"columns": lambda m, n: (n,), "rows": lambda m, n: (m, 1), "both": lambda m, n: (m, n)}


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
@pytest.mark.parametrize("ending", ENDINGS)
def test_what_follows_a_product_is_part_of_it(ending, dtype):
    body, reads = ENDINGS[ending]
    shapes = [SIZES[r](5, 7) for r in reads]
    given = [numbers(*s, seed=k, dtype=dtype) for k, s in enumerate([(5, 3), (3, 7), *shapes])]
    runner = check(lambda a, b, *rest: body(a @ b, *rest), *given)
    assert kinds(runner) == [ProductStep]


def test_programs_by_search():
    """Shapes, strides, empty sizes, stacks, addends and endings by chance."""
    random = np.random.default_rng(7)
    joined = 0
    for _ in range(150):
        m, k, n = (int(random.choice([0, 1, 2, 5, 17, 33])) for _ in range(3))
        stack = tuple(int(s) for s in random.choice([1, 2, 3], size=random.integers(0, 2)))
        dtype = flambeau.float32 if random.random() < 0.7 else flambeau.float64
        body, reads = ENDINGS[list(ENDINGS)[random.integers(len(ENDINGS))]]
        turned, biased, gaps = map(bool, random.random(3) < 0.4)
        a = numbers(*stack, m, k, seed=int(random.integers(99)), dtype=dtype)
        b = numbers(n, k, seed=1, dtype=dtype) if turned else numbers(k, n, seed=1, dtype=dtype)
        rest = []
        for r in reads:
            shape = (n,) if r == "columns" else (*stack, m, 1) if r == "rows" else (*stack, m, n)
            rest.append(numbers(*shape, seed=2, dtype=dtype))
            if gaps and r == "both":
                rest[-1] = numbers(*shape[:-1], n + 3, seed=3, dtype=dtype)[..., :n]
        bias = [numbers(n, seed=4, dtype=dtype)] if biased else []

        def program(a, b, *more, turned=turned, biased=biased, body=body):
            right = b.T if turned else b
            found = F.linear(a, right.T, more[0]) if biased else a @ right
            return body(found, *more[biased:])

        runner = check(program, a, b, *bias, *rest)
        joined += kinds(runner) == [ProductStep]
    assert joined > 50


def test_a_view_of_the_same_rows_is_no_obstacle():
    given = numbers(6, 4), numbers(5, 4, seed=1), numbers(2, 3, 5, seed=2)
    runner = check(lambda a, w, r: F.linear(a, w).view(2, 3, 5) + r, *given)
    assert kinds(runner) == [ProductStep]


def test_layers_one_after_another():
    def layers(x, *w):
        for one in w:
            x = F.linear(x, one).relu() + x
        return x

    runner = check(layers, numbers(9, 8), *(numbers(8, 8, seed=k) / 3 for k in range(1, 4)))
    assert kinds(runner) == [ProductStep] * 3


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, r: flambeau.stack([a @ b, (a @ b).relu()]),
        lambda a, b, r: (lambda s: s.relu() + s.exp().sum())(a @ b),
        lambda a, b, r: (a @ b).T + r.T,
        lambda a, b, r: (a @ b) + r[:1, :1],
        lambda a, b, r: (a @ b) + r.T.contiguous().T,
        lambda a, b, r: (a @ b).double() + r,
        lambda a, b, r: F.gelu(a @ b),
    ],
)
def test_what_does_not_fit_is_computed_apart(function):
    check(function, numbers(4, 3), numbers(3, 6, seed=1), numbers(4, 6, seed=2))


def test_a_product_that_others_read_stays():
    def program(a, b):
        s = a @ b
        return s, s.relu()

    given = numbers(4, 3), numbers(3, 6, seed=1)
    runner = planned(program, *given)
    assert kinds(runner) == [ProductStep, LoopStep]
    for a, b in zip(runner(*given), program(*given), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_write_between_comes_between():
    """What is written after the product, and read by the rest, is written between them."""

    def program(a, b, r):
        s = a @ b
        a.copy_(r[:, :3])
        return s + r * a.sum()

    a, b, r = numbers(4, 3), numbers(3, 6, seed=1), numbers(4, 6, seed=2)
    runner = planned(program, a.clone(), b, r)
    once, again = a.clone(), a.clone()
    np.testing.assert_allclose(runner(once, b, r).numpy(), program(again, b, r).numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(once.numpy(), again.numpy())


def test_a_sum_that_is_written_to_is_read_as_it_is():
    def program(a, b, r):
        s = a @ b
        found = s + r
        s.add_(1)
        return found * s

    check(program, numbers(4, 3), numbers(3, 6, seed=1), numbers(4, 6, seed=2))


def test_the_number_of_threads_does_not_count():
    given = numbers(150, 40), numbers(130, 40, seed=1), numbers(150, 130, seed=2)
    runner = planned(lambda x, w, r: F.linear(x, w).relu() + r, *given)
    assert kinds(runner) == [ProductStep]
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            flambeau.set_num_threads(threads)
            found.append(runner(*given).numpy())
    finally:
        flambeau.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, r: (a @ b).T + r,
        lambda a, b, r: (a @ b) + (a @ b).T,
        lambda a, b, r: (lambda s: s.T + s)(a @ b),
        lambda a, b, r: (lambda s: s.view(2, 18).T * 2 + s.view(18, 2))(a @ b),
    ],
)
def test_other_views_of_the_sums_are_read_from_memory(function):
    check(function, numbers(6, 3), numbers(3, 6, seed=1), numbers(6, 6, seed=2))
