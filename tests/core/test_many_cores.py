"""The work of 64 threads, counted: how many elements the busiest has, beside the mean, and that all of it is done."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau.core.base import parallel

F = flambeau.nn.functional
THREADS = 64


@pytest.fixture(autouse=True)
def threads():
    before = flambeau.get_num_threads()
    flambeau.set_num_threads(THREADS)
    yield
    flambeau.set_num_threads(before)


def excess(n: int, chunk: int, chunks: int) -> float:
    """Elements of the busiest thread over the mean, where all chunks take equally long."""
    return min(math.ceil(chunks / THREADS) * chunk, n) / (n / THREADS)


def large() -> dict:
    randn = flambeau.randn
    x, m, image, weight = randn(1 << 22), randn(2048, 2048), randn(16, 64, 56, 56), randn(64, 64, 3, 3)
    tall, up, head = randn(2048, 768), randn(768, 3072), randn(4, 12, 512, 64)
    places = flambeau.randint(0, 2048, (8192,))
    return {
        "add": lambda: x + x,
        "exp": lambda: x.exp(),
        "sum": lambda: x.sum(),
        "var": lambda: x.var(),
        "sum of rows": lambda: m.sum(1),
        "softmax": lambda: m.softmax(1),
        "layer_norm": lambda: F.layer_norm(m, (2048,)),
        "cumsum": lambda: m.cumsum(1),
        "sort": lambda: m.sort(1),
        "transposed": lambda: m.t().contiguous(),
        "embedding": lambda: F.embedding(places, m),
        "max_pool2d": lambda: F.max_pool2d(image, 3, 2, 1),
        "mm": lambda: tall @ up,
        "linear": lambda: F.linear(tall, up.view(3072, 768)),
        "conv2d": lambda: F.conv2d(image, weight, padding=1),
        "conv2d of 1 x 1": lambda: F.conv2d(image, weight[:, :, :1, :1]),
        "depthwise": lambda: F.conv2d(image, weight[:, :1], padding=1, groups=64),
        "attention": lambda: F.scaled_dot_product_attention(head, head, head),
    }


LARGE = large()


@pytest.mark.parametrize("name", LARGE)
def test_the_busiest_of_64_threads_has_little_more_than_the_mean(name):
    """In the range that takes longest by far; half as much again is what 45 chunks for 64 threads, or 65 to 86 of them, come to."""
    f = LARGE[name]
    f()
    found = parallel._rehearsed(f)
    assert found
    n, chunk, chunks, *_ = max(found, key=lambda r: r[3])
    assert chunks > 32 and excess(n, chunk, chunks) < 1.5, (n, chunk, chunks)
    assert chunks <= 4 * THREADS + 1 and (chunks - 1) * chunk < n <= chunks * chunk


@pytest.mark.parametrize("name", ["sum", "mm", "softmax", "conv2d"])
def test_one_thread_in_the_place_of_64_computes_the_same(name):
    """Bits depend on neither, so that what is counted is what runs."""
    results = []
    parallel._rehearsed(lambda: results.append(LARGE[name]()))
    np.testing.assert_array_equal(results[0].numpy(), LARGE[name]().numpy())


def test_ranges_that_are_not_worth_sharing_have_one_chunk():
    counts, threads = np.zeros(100, np.int64), np.zeros(100, np.int64)
    found = parallel._rehearsed(lambda: parallel._visit_range(counts, threads, 100))
    assert [r[:3] for r in found] == [(100, 100, 1)] and (counts == 1).all()


def test_chunks_are_those_of_the_pool_and_inner_ranges_belong_to_them():
    for n, grain, inner in [(1000, 1, 0), (1001, 7, 0), (12_345, 100, 0), (65, 1, 6), (257, 1, 0)]:
        counts, threads = np.zeros(n * max(inner, 1), np.int64), np.zeros(n * max(inner, 1), np.int64)
        visit = lambda: parallel._visit_range(counts, threads, grain, inner)  # noqa: B023, E731
        parallel._max_tasks()
        visit()
        cut = parallel._max_tasks()
        ((length, chunk, chunks, seconds, longest),) = parallel._rehearsed(visit)
        assert (length, chunks) == (n, cut) and chunk % grain == 0 and (counts == 2).all()
        assert 0 <= longest <= seconds and longest * THREADS >= seconds * 0.999


def test_nothing_is_rehearsed_afterwards_nor_by_another_thread():
    import threading

    def elsewhere():
        (flambeau.ones(1 << 20) + 1.0).sum()

    def both():
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join(60)

    assert parallel._rehearsed(both) == []
    with pytest.raises(ZeroDivisionError):
        parallel._rehearsed(lambda: 1 // 0)
    parallel._max_tasks()
    elsewhere()
    assert parallel._max_tasks() > 1


def test_more_ranges_than_there_is_room_for():
    x = flambeau.ones(1 << 16)
    out = flambeau.empty(1 << 16)

    def many():
        for _ in range(1100):
            flambeau.add(x, x, out=out)

    with pytest.raises(RuntimeError, match="1100 ranges"):
        parallel._rehearsed(many)
