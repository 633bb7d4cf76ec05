"""Type promotion for all pairs of dtypes, as PyTorch 2.13 has it, written out: a letter is the dtype of a result."""

from __future__ import annotations

import itertools

import pytest

import flambeau

LETTERS = {
    **{"?": "bool", "B": "uint8", "b": "int8", "h": "int16", "i": "int32", "q": "int64"},
    **{
        "H": "uint16",
        "I": "uint32",
        "Q": "uint64",
        "e": "float16",
        "g": "bfloat16",
        "f": "float32",
        "d": "float64",
    },
    **{"E": "complex32", "F": "complex64", "D": "complex128"},
    **{
        "1": "float8_e4m3fn",
        "2": "float8_e5m2",
        "3": "float8_e4m3fnuz",
        "4": "float8_e5m2fnuz",
        "5": "float8_e8m0fnu",
    },
    **{"6": "float4_e2m1fn_x2"},
}
DTYPES = [getattr(flambeau, name) for name in LETTERS.values()]

# Rows: the first operand, columns: the second, both with dimensions; "-" where they have no common dtype.  (PyTorch gives
# float4 with uint16 and its kin a float4, which computes nothing; here it is refused as with all other dtypes.)
BOTH = [
    "?Bbhiq---egfdEFD------",
    "BBhhiq---egfdEFD------",
    "bhbhiq---egfdEFD------",
    "hhhhiq---egfdEFD------",
    "iiiiiq---egfdEFD------",
    "qqqqqq---egfdEFD------",
    "------H--egfd---------",
    "-------I-egfd---------",
    "--------Qegfd---------",
    "eeeeeeeeeeffdEFD------",
    "gggggggggfgfdFFD------",
    "ffffffffffffdFFD------",
    "dddddddddddddDDD------",
    "EEEEEE---EFFDEFD------",
    "FFFFFF---FFFDFFD------",
    "DDDDDD---DDDDDDD------",
    "----------------1-----",
    "-----------------2----",
    "------------------3---",
    "-------------------4--",
    "--------------------5-",
    "---------------------6",
]
# The second operand has no dimensions: only a higher category counts.
ZERO_DIM = [
    "?Bbhiq---egfdEFD------",
    "BBBBBBBBBegfdEFD------",
    "bbbbbbbbbegfdEFD------",
    "hhhhhhhhhegfdEFD------",
    "iiiiiiiiiegfdEFD------",
    "qqqqqqqqqegfdEFD------",
    "HHHHHHHHHegfdEFD------",
    "IIIIIIIIIegfdEFD------",
    "QQQQQQQQQegfdEFD------",
    "eeeeeeeeeeeeeEEEeeeeee",
    "gggggggggggggFFFgggggg",
    "fffffffffffffFFFffffff",
    "dddddddddddddDDDdddddd",
    "EEEEEEEEEEEEEEEEEEEEEE",
    "FFFFFFFFFFFFFFFFFFFFFF",
    "DDDDDDDDDDDDDDDDDDDDDD",
    "1111111111111---111111",
    "2222222222222---222222",
    "3333333333333---333333",
    "4444444444444---444444",
    "5555555555555---555555",
    "6666666666666---666666",
]
NUMBERS = {
    True: "?BbhiqHIQegfdEFD123456",
    3: "qBbhiqHIQegfdEFD123456",
    2.5: "fffffffffegfdEFD123456",
    1j: "FFFFFFFFFEFFDEFD------",
}
CASTS = [
    "1111111111111111111111",
    "0111111111111111111111",
    "0111111111111111111111",
    "0111111111111111111111",
    "0111111111111111111111",
    "0111111111111111111111",
    "0111111111111111111111",
    "0111111111111111111111",
    "0111111111111111111111",
    "0000000001111111111111",
    "0000000001111111111111",
    "0000000001111111111111",
    "0000000001111111111111",
    "0000000000000111000000",
    "0000000000000111000000",
    "0000000000000111000000",
    "0000000001111111111111",
    "0000000001111111111111",
    "0000000001111111111111",
    "0000000001111111111111",
    "0000000001111111111111",
    "0000000001111111111111",
]
PAIRS = list(itertools.product(range(len(DTYPES)), range(len(DTYPES))))


def dtype(letter):
    return getattr(flambeau, LETTERS[letter])


def of(d, dimensions=1):
    return flambeau.zeros((2,) * dimensions, dtype=d)


def check(letter, promoted, *operands):
    """The function gives that letter's dtype, or refuses."""
    if letter != "-":
        assert promoted(*operands) == dtype(letter)
    else:
        with pytest.raises(
            RuntimeError, match="Promotion for .* is not supported, attempted to promote|Unknown"
        ):
            promoted(*operands)


@pytest.mark.parametrize("i, j", PAIRS)
def test_pairs(i, j):
    a, b = DTYPES[i], DTYPES[j]
    check(BOTH[i][j], flambeau.promote_types, a, b)
    check(BOTH[i][j], flambeau.result_type, of(a), of(b))
    check(BOTH[i][j], flambeau.result_type, of(a, 0), of(b, 0))
    check(ZERO_DIM[i][j], flambeau.result_type, of(a), of(b, 0))
    check(ZERO_DIM[i][j], flambeau.result_type, of(b, 0), of(a))
    assert flambeau.can_cast(a, b) is (CASTS[i][j] == "1")


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers(number):
    for d, letter in zip(DTYPES, NUMBERS[number]):
        for dimensions in (0, 1):
            check(letter, flambeau.result_type, of(d, dimensions), number)
            check(letter, flambeau.result_type, number, of(d, dimensions))


def test_operations_follow():
    for (i, a), (j, b) in itertools.product(enumerate(DTYPES[:13]), repeat=2):
        check(BOTH[i][j], lambda x, y: (x * y).dtype, of(a), of(b))
        check(ZERO_DIM[i][j], lambda x, y: (x * y).dtype, of(a), of(b, 0))
        if BOTH[i][j] == "-":
            continue
        if flambeau.can_cast(b, a):
            x = of(a)
            x *= of(b)
            assert x.dtype == a
        else:
            with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
                of(a).mul_(of(b))
            with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
                flambeau.mul(of(a), of(b), out=of(a))
