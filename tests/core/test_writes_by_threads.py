"""Work on places and orders that threads share: values, the same bits for any number of threads, and that it is shared at all."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.core.base import parallel

RNG = np.random.default_rng(7)


def by_threads(function, *counts):
    """The result for each number of threads, and the most tasks that any of them had."""
    before, results, most = flambeau.get_num_threads(), [], 0
    for count in counts or (1, 2, 5):
        flambeau.set_num_threads(count)
        parallel._max_tasks()
        results.append(function())
        most = max(most, parallel._max_tasks())
    flambeau.set_num_threads(before)
    return results, most


def same_bits(results):
    first, *others = [np.asarray(r).tobytes() for r in results]
    assert all(other == first for other in others)


def added(base, dim, index, source):
    """`scatter_add` by NumPy, one element after another."""
    result = base.copy()
    places = list(np.indices(index.shape))
    places[dim] = index
    np.add.at(result, tuple(places), source[tuple(slice(n) for n in index.shape)])
    return result


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64"])
@pytest.mark.parametrize(
    "shape, dim", [((7, 300, 90), 0), ((30, 40, 170), 1), ((40, 30, 150), 2), ((500, 600), 0)]
)
def test_elements_are_added_in_order(shape, dim, dtype):
    base, source = ((RNG.standard_normal(shape) * 9).astype(dtype) for _ in range(2))
    index = RNG.integers(0, shape[dim], shape)
    a, i, b = map(flambeau.tensor, (base, index, source))
    results, tasks = by_threads(lambda: a.scatter_add(dim, i, b).numpy())
    same_bits(results)
    np.testing.assert_array_equal(results[0], added(base, dim, index, source))
    assert tasks > 1


@pytest.mark.parametrize("dim", [0, 1])
def test_the_last_of_equal_places_wins(dim):
    shape = (300, 400)
    source, index = RNG.standard_normal(shape), RNG.integers(0, 50, shape)
    expected = np.zeros(shape)
    for k in range(shape[dim]):
        chosen, at = np.take(index, k, dim), np.arange(shape[1 - dim])
        expected[(chosen, at) if dim == 0 else (at, chosen)] = np.take(source, k, dim)
    results, tasks = by_threads(
        lambda: flambeau.zeros(shape, dtype=flambeau.float64).scatter(
            dim, flambeau.tensor(index), flambeau.tensor(source)
        )
    )
    for result in results:
        np.testing.assert_array_equal(result.numpy(), expected)
    assert tasks > 1


def test_an_index_out_of_bounds_is_named_and_nothing_written():
    index = flambeau.zeros((400, 300), dtype=flambeau.int64)
    index[123, 4], index[399, 5] = 77, -3
    x = flambeau.zeros(60, 300)

    def refused():
        with pytest.raises(RuntimeError, match="index 77 is out of bounds for dimension 0 with size 60"):
            x.scatter_(0, index, flambeau.ones(400, 300))
        return x.sum().item()

    assert by_threads(refused)[0] == [0.0] * 3


def test_lines_that_lie_in_one_place_are_written_by_one_thread():
    source = flambeau.tensor(RNG.standard_normal((400, 300)).astype("float32"))
    index = flambeau.tensor(RNG.integers(0, 300, (400, 300)))

    def scattered():
        memory = flambeau.zeros(2000)
        memory.as_strided((400, 300), (1, 2)).scatter_add_(1, index, source)
        return memory.numpy()

    def put():
        memory = flambeau.zeros(2000)
        memory.as_strided((400, 300), (1, 2)).index_add_(0, index[:, 0], source)
        return memory.numpy()

    for function in (scattered, put):
        results, tasks = by_threads(function)
        same_bits(results)
        assert results[0].sum() != 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize(
    "shape, dim", [((50, 3000), 0), ((90, 40, 100), 1), ((70, 60, 40), 2), ((9, 10, 11, 200), 0)]
)
def test_parts_are_added_in_order(shape, dim, dtype):
    a, b = (flambeau.tensor(RNG.integers(-99, 99, shape)).to(getattr(flambeau, dtype)) for _ in range(2))
    index = RNG.integers(0, shape[dim], shape[dim])
    expected = np.moveaxis(a.double().numpy(), dim, 0).copy()
    np.add.at(expected, index, np.moveaxis(b.double().numpy(), dim, 0))
    results, tasks = by_threads(lambda: a.index_add(dim, flambeau.tensor(index), b))
    for result in results:
        rounded = flambeau.tensor(np.moveaxis(expected, 0, dim).copy()).to(a.dtype)
        assert flambeau.equal(result, rounded)
    assert tasks > 1


def test_many_rows_for_few_places():
    """As the gradient of an embedding has them: all threads read the places, each writes its own."""
    index, rows = RNG.integers(0, 7, 5000), RNG.standard_normal((5000, 24)).astype("float32")
    expected = np.zeros((7, 24), "float32")
    np.add.at(expected, index, rows)
    zeros = flambeau.zeros(7, 24)
    for call in (
        lambda: zeros.index_add(0, flambeau.tensor(index), flambeau.tensor(rows)),
        lambda: zeros.index_put((flambeau.tensor(index),), flambeau.tensor(rows), accumulate=True),
    ):
        results, tasks = by_threads(call)
        for result in results:
            np.testing.assert_array_equal(result.numpy(), expected)
        assert tasks > 1


def rows_to_sort(dtype):
    n = 100_003
    if dtype.startswith("float"):
        x = (RNG.standard_normal(n) * 50).astype(dtype)
        x[::11], x[5::13], x[1::101] = 0.0, -0.0, np.nan
        x[::997] = x[3::997] = np.inf
        return x
    if dtype == "bool":
        return RNG.integers(0, 2, n).astype(bool)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, n, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int64", "int32", "int16", "uint8", "uint64", "bool"]
)
def test_a_long_row_is_sorted_by_all(dtype, descending):
    x = rows_to_sort(dtype)
    values, places = flambeau.tensor(x).sort(descending=descending, stable=True)
    if descending:  # a stable order of the reversed row, read backwards
        expected = len(x) - 1 - np.argsort(x[::-1], kind="stable")[::-1]
    else:
        expected = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(places.numpy(), expected)
    assert values.numpy().tobytes() == x[expected].tobytes()
    results, tasks = by_threads(lambda: flambeau.tensor(x).argsort(descending=descending))
    same_bits(results)
    assert tasks > 4


def test_equal_elements_few_rows_and_first_places():
    x = np.stack([np.full(70_000, 3.0), np.arange(70_000.0)[::-1], RNG.integers(0, 9, 70_000).astype("d")])
    results, _ = by_threads(lambda: flambeau.tensor(x).argsort(1))
    same_bits(results)
    np.testing.assert_array_equal(results[-1].numpy(), np.argsort(x, 1, kind="stable"))
    (few, many), _ = by_threads(lambda: flambeau.tensor(x[2]).topk(30_000), 1, 4)
    assert flambeau.equal(few.indices, many.indices)
    np.testing.assert_array_equal(many.values.numpy(), np.sort(x[2])[::-1][:30_000])
    empty = flambeau.zeros(0, 70_000).argsort(1)
    assert empty.shape == (0, 70_000)


def test_random_numbers_are_shared_by_their_results():
    """Four numbers of a counter are four elements' work."""
    numbers, tasks = by_threads(
        lambda: flambeau.randn(400, 256, generator=flambeau.Generator().manual_seed(3)), 1, 4
    )
    same_bits(numbers)
    assert tasks >= 3
