"""Passes of Fourier transforms: every factor, every way through the driver, and vectors of other widths."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import flambeau
from flambeau.codegen.tiles import transforms
from flambeau.core.lib import fourier

RNG = np.random.default_rng(5)
# Every factor, squares, few and many passes, less than a vector, primes (by a convolution), lengths that are cut for few rows,
# vectors of vectors, whose own elements are lanes, and halves of those.
LENGTHS = [
    *range(1, 18),
    23,
    26,
    32,
    33,
    49,
    64,
    97,
    100,
    128,
    192,
    243,
    256,
    360,
    512,
    625,
    768,
    997,
    1000,
    1001,
    1331,
    2048,
]
LONG = [2187, 2401, 4096, 5000, 30030, 65536]
TOLERANCE = {"complex128": 3e-15, "complex64": 8e-7}


def numbers(*shape, dtype="complex128"):
    real = RNG.standard_normal(shape)
    return (real + 1j * RNG.standard_normal(shape) if dtype[0] == "c" else real).astype(dtype)


def close(found, expected, dtype):
    """To the last digits of the largest number: as accurate as the theory of the transform has it."""
    error = np.abs(np.asarray(found) - expected).max() / max(np.abs(expected).max(), 1e-300)
    assert error < TOLERANCE[dtype] * 3


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize("n", [*LENGTHS, *LONG])
def test_rows(n, rows, dtype):
    if n in LONG and rows > 3:
        rows = 9
    a = numbers(rows, n, dtype=dtype)
    close(flambeau.fft.fft(flambeau.tensor(a)), np.fft.fft(a.astype("c16")), dtype)
    close(flambeau.fft.ifft(flambeau.tensor(a)), np.fft.ifft(a.astype("c16")), dtype)
    real = numbers(rows, n, dtype="float64" if dtype == "complex128" else "float32")
    half = np.fft.rfft(real.astype("d"))
    close(flambeau.fft.rfft(flambeau.tensor(real)), half, dtype)
    close(flambeau.fft.fft(flambeau.tensor(real)), np.fft.fft(real.astype("d")), dtype)
    # What is imaginary where a real signal's values are real is not looked at.
    half[:, 0] += 3j
    half[:, -1] += 2j if n % 2 == 0 else 0
    found = flambeau.fft.irfft(flambeau.tensor(half.astype(dtype)), n)
    close(found, np.fft.irfft(half.astype(dtype).astype("c16"), n), dtype)


@pytest.mark.parametrize(
    "shape, dim", [((5, 12, 7), 1), ((3, 40, 33), 1), ((100, 40), 0), ((4096, 3), 0), ((6, 5), 0)]
)
def test_side_by_side(shape, dim):
    a = numbers(*shape)
    close(flambeau.fft.fft(flambeau.tensor(a), dim=dim), np.fft.fft(a, axis=dim), "complex128")
    close(flambeau.fft.rfft(flambeau.tensor(a.real), dim=dim), np.fft.rfft(a.real, axis=dim), "complex128")
    axes = tuple(range(len(shape)))
    close(flambeau.fft.ifftn(flambeau.tensor(a)), np.fft.ifftn(a, axes=axes), "complex128")
    close(flambeau.fft.irfftn(flambeau.tensor(a)), np.fft.irfftn(a, axes=axes), "complex128")


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(3, 40, 16, 24), (2, 5, 90, 33), (50, 40, 17), (3, 7, 4097, 4)])
def test_images(shape, dtype):
    """Along their last two dimensions, some at a time, and in any order; lines that leave one to four signals over."""
    a = numbers(*shape, dtype=dtype)
    real = a.real.copy()
    for axes in ((-2, -1), (-1, -2)):
        close(flambeau.fft.fftn(flambeau.tensor(a), dim=axes), np.fft.fftn(a.astype("c16"), axes=axes), dtype)
        close(
            flambeau.fft.ifftn(flambeau.tensor(a), dim=axes), np.fft.ifftn(a.astype("c16"), axes=axes), dtype
        )
        half = np.fft.rfftn(real.astype("d"), axes=axes)
        close(flambeau.fft.rfftn(flambeau.tensor(real), dim=axes), half, dtype)
        given = flambeau.tensor(half.astype(dtype))
        found = flambeau.fft.irfftn(given, [shape[d] for d in axes], axes)
        close(found, real, dtype)
        assert flambeau.equal(given, flambeau.tensor(half.astype(dtype)))
    turned = flambeau.tensor(a).transpose(-1, -2)
    close(flambeau.fft.fft2(turned), np.fft.fft2(a.astype("c16").swapaxes(-1, -2)), dtype)


@pytest.mark.parametrize("rows", [1, 2, 5, 33])
@pytest.mark.parametrize("n", [32, 64, 128, 256, 1024])
def test_a_row_alone_has_the_same_bits(n, rows):
    """Whatever rows are transformed beside it."""
    a, x = numbers(rows, n, dtype="complex64"), numbers(rows, 2 * n, dtype="float32")
    a[rows // 2, 3] = x[rows // 2, 5] = np.nan
    half = flambeau.fft.rfft(flambeau.tensor(x))
    for call, given in (
        (flambeau.fft.fft, flambeau.tensor(a)),
        (flambeau.fft.rfft, flambeau.tensor(x)),
        (flambeau.fft.irfft, half),
    ):
        together = call(given)
        for k in range(rows):
            np.testing.assert_array_equal(
                together[k].numpy(), call(given[k : k + 1].repeat(rows, 1))[k].numpy()
            )


def test_lengths_left_to_scipy():
    """Large primes; and what is not is computed here."""
    a = numbers(2, 2003)
    assert not fourier.possible(2003, False, 2, True) and fourier.possible(2002, False, 2, True)
    close(flambeau.fft.fft(flambeau.tensor(a)), np.fft.fft(a), "complex128")
    close(flambeau.fft.rfft(flambeau.tensor(a.real)), np.fft.rfft(a.real), "complex128")
    close(flambeau.fft.irfft(flambeau.tensor(a), 4001), np.fft.irfft(a, 4001), "complex128")


def test_a_row_does_not_touch_another():
    """Neither with a NaN nor with a number of another size."""
    a = numbers(5, 60, dtype="float32")
    alone = flambeau.fft.rfft(flambeau.tensor(a[2:3].repeat(5, 0)))[0]
    a[1], a[3] = np.nan, 1e30
    assert flambeau.equal(flambeau.fft.rfft(flambeau.tensor(a))[2], alone)


@pytest.mark.parametrize("n", [997, 1000, 65536])
def test_bits_do_not_depend_on_threads(n):
    a, before = flambeau.tensor(numbers(7, n, dtype="complex64")), flambeau.get_num_threads()
    found = []
    for threads in (1, 3):
        flambeau.set_num_threads(threads)
        found.append(flambeau.fft.fft(a).numpy().tobytes())
    flambeau.set_num_threads(before)
    assert found[0] == found[1]


OTHER_WIDTH = """
import sys
import numpy as np
from flambeau.codegen.tiles import transforms
from flambeau.core.base.callbacks import callbacks
transforms.width = callbacks["transforms.width"] = lambda: int(sys.argv[1])
import flambeau
rng = np.random.default_rng(0)
for n in (5, 60, 97, 1001, 1024, 4096):
    for rows in (1, 9):
        a = rng.standard_normal((rows, n)) + 1j * rng.standard_normal((rows, n))
        for dtype, tolerance in (("complex64", 1e-6), ("complex128", 1e-14)):
            for x, y in ((flambeau.fft.fft(flambeau.tensor(a.astype(dtype))), np.fft.fft(a)),
                         (flambeau.fft.rfft(flambeau.tensor(a.astype(dtype).real.copy())), np.fft.rfft(a.real)),
                         (flambeau.fft.irfft(flambeau.tensor(a.astype(dtype)), 2 * n - 2), np.fft.irfft(a, 2 * n - 2)),
                         (flambeau.fft.fft(flambeau.tensor(a.astype(dtype)), dim=0), np.fft.fft(a, axis=0))):
                error = abs(x.numpy() - y).max() / abs(y).max()
                assert error < tolerance, (n, rows, dtype, error)
"""


@pytest.mark.parametrize("width", [16, 32])
def test_narrower_vectors(width):
    """The passes of other processors, run on this one."""
    subprocess.run([sys.executable, "-c", OTHER_WIDTH, str(width)], check=True, timeout=120)


def test_factors():
    for n in (1, 2, 60, 1000, 1024, 13 * 11 * 7):
        assert np.prod(fourier.factors(n), dtype=int) == n
    assert fourier.factors(17) is None
    assert set(transforms.FACTORS) == {r for r in range(2, 17) if fourier.factors(r) == [r]}
