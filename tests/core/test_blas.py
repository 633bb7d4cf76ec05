"""Matrix products by the BLAS library: every layout and type, the same bits for any number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from flambeau.core.base import parallel
from flambeau.core.lib.products import blas

TYPES = ["f4", "f8", "c8", "c16"]
TOLERANCE = {"f4": 2e-6, "f8": 4e-15, "c8": 4e-6, "c16": 8e-15}
LAYOUTS = ["rows", "columns", "padded rows", "padded columns"]


@pytest.fixture(autouse=True)
def keep_num_threads():
    before = parallel.get_num_threads()
    yield
    parallel.set_num_threads(before)


def random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng([seed, *shape])
    values = generator.standard_normal(shape)
    return (values + 1j * generator.standard_normal(shape) if dtype[0] == "c" else values).astype(dtype)


def arranged(values: np.ndarray, layout: str) -> np.ndarray:
    """Returns the same matrix, laid out in memory by rows or columns, with or without a gap between them."""
    rows, columns = values.shape
    gap = 3 if layout.startswith("padded") else 0
    if layout.endswith("rows"):
        result = np.full((rows, columns + gap), np.nan, values.dtype)[:, :columns]
    else:
        result = np.full((columns, rows + gap), np.nan, values.dtype)[:, :rows].T
    result[...] = values
    return result


def assert_close(actual: np.ndarray, a: np.ndarray, b: np.ndarray, expected: np.ndarray) -> None:
    """Compares within the rounding of a sum of products, which grows with the products, not the sum."""
    dtype = f"{actual.dtype.kind}{actual.dtype.itemsize}"
    bound = TOLERANCE[dtype] * (1 + np.abs(a) @ np.abs(b) + np.abs(expected))
    assert (np.abs(actual - expected) <= bound).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("b_layout", LAYOUTS)
@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_values(dtype, a_layout, b_layout):
    for m, n, k in [
        (1, 1, 1),
        (4, 4, 4),
        (1, 7, 5),
        (7, 1, 5),
        (5, 6, 1),
        (1, 1, 9),
        (33, 17, 65),
        (130, 70, 300),
    ]:
        a = arranged(random((m, k), dtype), a_layout)
        b = arranged(random((k, n), dtype, 1), b_layout)
        out = np.full((m, n), np.nan, dtype)
        blas.matmul(a, b, out)
        assert_close(out, a, b, a @ b)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("m", "n", "k"), [(4, 4, 4), (1, 9, 5), (9, 1, 5), (200, 150, 100)])
def test_alpha_and_beta(dtype, m, n, k):
    a, b, before = random((m, k), dtype), random((k, n), dtype, 1), random((m, n + 2), dtype, 2)
    alpha, beta = (0.5 - 2j, 1.5 + 1j) if dtype[0] == "c" else (0.5, -1.5)
    whole = before.copy()
    blas.matmul(a, b, whole[:, :n], alpha, beta)
    assert_close(whole[:, :n], a, b, alpha * (a @ b) + beta * before[:, :n])
    assert (whole[:, n:] == before[:, n:]).all()  # the gap between the rows of out is left alone


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("m", "n"), [(3, 4), (1, 4), (3, 1), (1, 1)])
def test_a_sum_of_nothing(dtype, m, n):
    a, b = np.empty((m, 0), dtype), np.empty((0, n), dtype)
    before = random((m, n), dtype)
    out = before.copy()
    blas.matmul(a, b, out, 1, 2)
    np.testing.assert_array_equal(out, 2 * before)
    out[...] = np.nan
    blas.matmul(a, b, out)
    np.testing.assert_array_equal(out, np.zeros((m, n), dtype))


def test_an_empty_result():
    out = np.empty((0, 5))
    blas.matmul(np.ones((0, 3)), np.ones((3, 5)), out)
    assert out.size == 0


def test_not_a_number_passes_through():
    for m, n in [(3, 3), (1, 3), (3, 1)]:
        a = np.ones((m, 4))
        a[0, 2] = np.nan
        out = np.zeros((m, n))
        blas.matmul(a, np.zeros((4, n)), out)
        assert np.isnan(out[0]).all() and (out[1:] == 0).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("batch", "m", "n", "k"), [(1, 3, 4, 5), (500, 4, 4, 4), (6, 1, 7, 5), (3, 7, 1, 5), (4, 90, 80, 70)]
)
def test_batches(dtype, batch, m, n, k):
    a, b = random((batch, m, k), dtype), random((batch, k, n), dtype, 1)
    transposed = np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1)
    shared_a, shared_b = np.broadcast_to(a[:1], a.shape), np.broadcast_to(b[:1], b.shape)
    between = np.ascontiguousarray(a.transpose(1, 0, 2)).transpose(
        1, 0, 2
    )  # the batch is the middle axis in memory
    parallel.set_num_threads(2)
    for left, right in [
        (a, b),
        (a, transposed),
        (shared_a, b),
        (a, shared_b),
        (between, shared_b),
        (shared_a, shared_b),
    ]:
        out = np.full((batch, m, n), np.nan, dtype)
        blas.matmul(left, right, out)
        assert_close(out, left, right, left @ right)


SHAPES = [
    (4, 4, 4),
    (37, 513, 300),
    (64, 256, 784),
    (256, 256, 256),
    (100, 100, 2000),
    (130, 130, 1000),
    (2048, 64, 64),
    (64, 2048, 64),
    (700, 333, 555),
    (1, 2500, 400),
    (1, 400, 2500),
    (2500, 1, 400),
    (400, 1, 2500),
]


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_same_bits_for_any_number_of_threads(dtype, shape):
    m, n, k = shape
    a, b = random((m, k), dtype), random((k, n), dtype, 1)
    for right in (b, arranged(b, "columns")):
        results = []
        for threads in (1, 2, 3):
            parallel.set_num_threads(threads)
            out = np.full((m, n), np.nan, dtype)
            blas.matmul(a, right, out)
            results.append(out)
        assert_close(results[0], a, b, a @ b)
        assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


def test_products_of_several_python_threads_at_once():
    parallel.set_num_threads(2)
    a, b = random((200, 300), "f4"), random((300, 250), "f4", 1)
    expected = np.empty((200, 250), "f4")
    blas.matmul(a, b, expected)
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(20):
            out = np.full((200, 250), np.nan, "f4")
            blas.matmul(a, b, out)
            if not np.array_equal(out, expected):
                wrong.append(index)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_strides_that_must_be_copied_first_are_refused():
    square, out = np.ones((4, 4)), np.zeros((4, 4))
    both = np.ones((8, 8))[::2, ::2]
    repeated = np.broadcast_to(np.ones(4), (4, 4))
    for a, b in [(both, square), (square, both), (repeated, square), (square, repeated)]:
        with pytest.raises(ValueError, match="strides .* are not of a form a BLAS library can use"):
            blas.matmul(a, b, out)
    assert (out == 0).all()


def test_wrong_arguments():
    ones = np.ones((3, 3))
    with pytest.raises(TypeError, match="'d', 'd' and 'f'"):
        blas.matmul(ones, ones, np.ones((3, 3), "f4"))
    with pytest.raises(TypeError, match="of one type"):
        blas.matmul(*[np.ones((3, 3), int)] * 3)
    with pytest.raises(ValueError, match=r"\(1, 3, 3\) @ \(1, 4, 3\)"):
        blas.matmul(ones, np.ones((4, 3)), ones.copy())
    with pytest.raises(ValueError, match="2 or 3 dims"):
        blas.matmul(np.ones(3), ones, ones.copy())
    with pytest.raises(ValueError, match="rows of out must be contiguous"):
        blas.matmul(ones, ones, np.ones((3, 3)).T)
    with pytest.raises((ValueError, BufferError)):
        blas.matmul(ones, ones, np.broadcast_to(np.ones(3), (3, 3)))


def test_the_provider():
    name, path, config = blas.provider()
    assert name in ("mkl", "openblas")
    assert os.path.exists(path)
    assert {"mkl": "Math Kernel Library", "openblas": "OpenBLAS"}[name] in config


def test_the_choice_of_the_provider(monkeypatch):
    monkeypatch.setattr(blas, "_find_mkl", lambda: "here/libmkl_rt.so")
    monkeypatch.setattr(blas, "_find_openblas", lambda: "here/libscipy_openblas.so")
    assert blas._choose("") == blas._choose("mkl") == ("mkl", "here/libmkl_rt.so")
    assert blas._choose("openblas") == ("openblas", "here/libscipy_openblas.so")
    monkeypatch.setattr(blas, "_find_mkl", lambda: None)
    assert blas._choose("") == ("openblas", "here/libscipy_openblas.so")
    with pytest.raises(ImportError, match="pip install mkl"):
        blas._choose("mkl")
    monkeypatch.setattr(blas, "_find_openblas", lambda: None)
    with pytest.raises(ImportError, match="pip install scipy-openblas32"):
        blas._choose("")


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="reads Linux's /proc")
def test_the_library_is_opened_at_the_first_use_and_starts_no_threads():
    program = (
        "import os\n"
        "from flambeau.core.lib.products import blas\n"
        "loaded = lambda: any(name in open('/proc/self/maps').read() for name in ('openblas', 'mkl_rt'))\n"
        "threads = lambda: len(os.listdir('/proc/self/task'))\n"
        "assert not loaded()\n"
        "before = threads()\n"
        "blas.provider()\n"
        "assert loaded()\n"
        "assert threads() == before\n"
        "assert 'OPENBLAS_NUM_THREADS' not in os.environ\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=environment)
