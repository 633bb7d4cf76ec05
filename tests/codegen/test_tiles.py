"""Operands that are contiguous along another dimension than the result's innermost are read in square tiles."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau

SHAPES = [(33, 47), (16, 16), (8, 100), (5, 200), (3, 40, 50), (2, 17, 3, 19), (1, 64, 1, 64)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int16", "int64", "bool"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_permutation(shape, dtype):
    """Copies, and sums with an operand that is not permuted, for whole tiles and for what is left at the edges."""
    values = (np.random.default_rng(0).standard_normal(shape) * 50).astype(dtype)
    given = flambeau.tensor(values)
    for order in itertools.permutations(range(len(shape))):
        expected = np.ascontiguousarray(values.transpose(order))
        permuted = given.permute(order)
        assert np.array_equal(permuted.contiguous().numpy(), expected)
        assert np.array_equal((permuted | flambeau.tensor(expected)).numpy() if dtype == "bool" else
                              (permuted + flambeau.tensor(expected)).numpy(),
                              expected if dtype == "bool" else expected + expected)  # fmt: skip


def test_a_dtype_that_changes_on_the_way():
    values = np.arange(40 * 33, dtype=np.int32).reshape(40, 33)
    copied = flambeau.tensor(values).t().to(flambeau.float64) / 2
    assert np.array_equal(copied.numpy(), values.T / 2)


def test_the_same_bits_for_any_number_of_threads():
    x = flambeau.randn(517, 611)
    before = flambeau.get_num_threads()
    found = []
    for threads in (1, 2, 5):
        flambeau.set_num_threads(threads)
        found.append((x.t() * 1.7).contiguous().numpy().tobytes())
    flambeau.set_num_threads(before)
    assert found[0] == found[1] == found[2]
