"""Type promotion for all pairs of dtypes, as PyTorch 2.13 has it, written out: a letter is the dtype of a result."""

from __future__ import annotations

import itertools

import pytest

import flambeau

LETTERS = {
    "?": "bool",
    "B": "uint8",
    "b": "int8",
    "h": "int16",
    "i": "int32",
    "q": "int64",
    "e": "float16",
    "g": "bfloat16",
    "f": "float32",
    "d": "float64",
    "F": "complex64",
    "D": "complex128",
}
DTYPES = [getattr(flambeau, name) for name in LETTERS.values()]

# Rows: the first operand, columns: the second, both with dimensions.
BOTH = [
    "?BbhiqegfdFD",
    "BBhhiqegfdFD",
    "bhbhiqegfdFD",
    "hhhhiqegfdFD",
    "iiiiiqegfdFD",
    "qqqqqqegfdFD",
    "eeeeeeeffdFD",
    "ggggggfgfdFD",
    "fffffffffdFD",
    "ddddddddddDD",
    "FFFFFFFFFDFD",
    "DDDDDDDDDDDD",
]
# The second operand has no dimensions: only a higher category counts.  (PyTorch gives float16 with complex numbers its
# complex32, which this library has not: complex64.)
ZERO_DIM = [
    "?BbhiqegfdFD",
    "BBBBBBegfdFD",
    "bbbbbbegfdFD",
    "hhhhhhegfdFD",
    "iiiiiiegfdFD",
    "qqqqqqegfdFD",
    "eeeeeeeeeeFF",
    "ggggggggggFF",
    "ffffffffffFF",
    "ddddddddddDD",
    "FFFFFFFFFFFF",
    "DDDDDDDDDDDD",
]
NUMBERS = {True: "?BbhiqegfdFD", 3: "qBbhiqegfdFD", 2.5: "ffffffegfdFD", 1j: "FFFFFFFFFDFD"}
CASTS = ["111111111111", *["011111111111"] * 5, *["000000111111"] * 4, *["000000000011"] * 2]
PAIRS = list(itertools.product(range(12), range(12)))


def dtype(letter):
    return getattr(flambeau, LETTERS[letter])


def of(d, dimensions=1):
    return flambeau.ones((2,) * dimensions, dtype=d)


@pytest.mark.parametrize("i, j", PAIRS)
def test_pairs(i, j):
    a, b = DTYPES[i], DTYPES[j]
    assert flambeau.promote_types(a, b) == dtype(BOTH[i][j])
    assert flambeau.result_type(of(a), of(b)) == dtype(BOTH[i][j])
    assert flambeau.result_type(of(a, 0), of(b, 0)) == dtype(BOTH[i][j])
    assert flambeau.result_type(of(a), of(b, 0)) == dtype(ZERO_DIM[i][j])
    assert flambeau.result_type(of(b, 0), of(a)) == dtype(ZERO_DIM[i][j])
    assert flambeau.can_cast(a, b) is (CASTS[i][j] == "1")


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers(number):
    for d, letter in zip(DTYPES, NUMBERS[number]):
        for dimensions in (0, 1):
            assert flambeau.result_type(of(d, dimensions), number) == dtype(letter)
            assert flambeau.result_type(number, of(d, dimensions)) == dtype(letter)


def test_operations_follow():
    for (i, a), (j, b) in itertools.product(enumerate(DTYPES[:10]), repeat=2):
        assert (of(a) * of(b)).dtype == dtype(BOTH[i][j])
        assert (of(a) * of(b, 0)).dtype == dtype(ZERO_DIM[i][j])
        if flambeau.can_cast(b, a):
            x = of(a)
            x *= of(b)
            assert x.dtype == a
        else:
            with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
                of(a).mul_(of(b))
            with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
                flambeau.mul(of(a), of(b), out=of(a))
