"""Square roots of float32 by an estimate: the nearest number for every argument and every estimate, beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.codegen import expr as ex
from flambeau.codegen import kernels as kn
from flambeau.codegen import schedule_cpu, target

X86 = "x86_64-unknown-linux-gnu"


def same_bits(x: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        expected = np.sqrt(x)
    got = flambeau.sqrt(flambeau.from_numpy(x)).numpy()
    missing = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), missing)
    np.testing.assert_array_equal(got.view(np.int32)[~missing], expected.view(np.int32)[~missing])


def test_every_significand_of_both_parities_of_the_exponent():
    first, last = (int(np.float32(v).view(np.int32)) for v in (1.0, 4.0))
    for begin in range(first, last, 1 << 21):
        same_bits(np.arange(begin, begin + (1 << 21), dtype=np.int32).view(np.float32))


def test_every_exponent_with_signs_zeros_infinities_and_nan():
    random = np.random.default_rng(3)
    bits = random.integers(0, 1 << 23, (512, 1000), dtype=np.int64) + (np.arange(512)[:, None] << 23)
    ends = np.array([0, 1, (1 << 23) - 1], dtype=np.int64) + (np.arange(512)[:, None] << 23)
    numbers = np.concatenate([bits.ravel(), ends.ravel()]).astype(np.uint32).view(np.float32)
    same_bits(numbers)  # vectors of neighbouring exponents
    same_bits(random.permutation(numbers))  # of all


@pytest.mark.parametrize(
    "special", [0.0, -0.0, 1e-45, 1e-38, 2.0**-77, 2.0**-76, -1.0, np.inf, -np.inf, np.nan]
)
def test_one_special_number_among_others(special):
    for place in (0, 17, 40, 63, 66):
        x = np.linspace(0.5, 9.0, 67, dtype=np.float32)
        x[place] = special
        same_bits(x)


def test_small_numbers_where_they_are_taken_for_zeros():
    """No step of the estimate is subnormal, so nothing else changes."""
    x = (
        (np.random.default_rng(5).uniform(1, 4, 4096) * 4.0 ** np.arange(-63, 1)[:, None])
        .astype(np.float32)
        .ravel()
    )
    expected = np.sqrt(x)
    before = flambeau.from_numpy(x)
    if not flambeau.set_flush_denormal(True):
        pytest.skip("this processor computes with subnormal numbers")
    try:
        got = flambeau.sqrt(before)
    finally:
        flambeau.set_flush_denormal(False)
    np.testing.assert_array_equal(got.numpy(), expected)


def test_the_correction_is_exact_for_every_estimate():
    """Of roots that lie next to the middle between two numbers, with every y within 2^-14 of 1/sqrt(x)."""

    @flambeau.kernels.pointwise(dtypes=("float32",))
    def corrected(x, y):
        g, h = x * y, y * 0.5
        error = flambeau.kernels.fma(-h, g, 0.5)
        g, h = flambeau.kernels.fma(g, error, g), flambeau.kernels.fma(h, error, h)
        return flambeau.kernels.fma(flambeau.kernels.fma(-g, g, x), h, g)

    random = np.random.default_rng(7)
    middles = (2.0 * random.integers(1 << 23, 1 << 24, 2000) + 1) / 2**24  # of numbers from 1 to 2
    hard = np.concatenate(
        [np.float32(middles**2), np.float32([1 + 2.0**-23, 4 - 2.0**-22, 1, 2, 4 - 2.0**-21])]
    )
    middle = np.float32(1 / np.sqrt(hard.astype(np.float64)))
    for step in range(-1 << 11, (1 << 11) + 1, 16):
        steps = np.arange(step, step + 16, dtype=np.int32)
        y = (middle.view(np.int32)[:, None] + steps).view(np.float32)
        x = np.broadcast_to(hard[:, None], y.shape).copy()
        near = np.abs(y * np.sqrt(x.astype(np.float64)) - 1) <= 2.0**-14
        got = corrected(flambeau.from_numpy(x), flambeau.from_numpy(y)).numpy()
        np.testing.assert_array_equal(got[near], np.sqrt(x)[near])


def text_of(dtype: str, triple: str) -> str:
    operand = kn.Operand(dtype, kn.CONTIGUOUS)
    kernel = kn.Pointwise("root", (ex.sqrt(ex.input(0, dtype)),), (kn.CONTIGUOUS,), (operand,), ())
    return str(schedule_cpu.module_for(kernel, triple))


def test_which_code_has_the_estimate(monkeypatch):
    monkeypatch.setattr(target, "processor", lambda: ("x", "+avx2,+avx512f"))
    assert "rsqrt14" in text_of("float32", X86)
    assert "rsqrt14" not in text_of("float64", X86) and "rsqrt14" not in text_of(
        "float32", "aarch64-linux-gnu"
    )
    monkeypatch.setattr(target, "processor", lambda: ("x", "+avx2"))
    assert "rsqrt14" not in text_of("float32", X86)


def test_stacks_are_aligned_on_x86_alone():
    """Spilled vectors then lie within cache lines, wherever the caller's stack does."""
    column = kn.Operand("float32", kn.CONTIGUOUS)
    row = kn.Row("total", (kn.sum(ex.input(0, "float32")),), (kn.BROADCAST,), (column,), (), "r")
    for text in (
        lambda triple: text_of("float32", triple),
        lambda triple: str(schedule_cpu.module_for(row, triple)),
    ):
        assert "%scalars) alignstack(64) {" in text(X86)
        assert "%scalars) {" in text("aarch64-linux-gnu")
