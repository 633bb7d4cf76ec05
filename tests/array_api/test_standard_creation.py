"""Arrays from nothing and from others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from standard_arrays import ALL, COMPLEXES, INTEGERS, NUMERIC, REALS, SHAPES, numbers, ours, same, xp


def test_ranges():
    cases = [
        (5,),
        (0,),
        (-3,),
        (2, 7),
        (7, 2),
        (2, 7, 2),
        (7, 2, -2),
        (7, 2, 2),
        (0, 1, 0.25),
        (1.5,),
        (3, 3),
        (-1, 4, 3),
    ]
    for case in cases:
        whole = all(isinstance(n, int) for n in case)
        same(xp.arange(*case), np.arange(*case, dtype="int64" if whole else "float32"))
        for dtype in ("int8", "uint16", "float64") if whole else ("float64",):
            wanted = np.arange(*case, dtype="float64")
            if dtype.startswith("u") and (wanted < 0).any():
                continue
            same(xp.arange(*case, dtype=getattr(xp, dtype)), wanted.astype(dtype))
    same(xp.arange(1, step=2, stop=6), np.arange(1, 6, 2))
    with pytest.raises(ValueError, match="step"):
        xp.arange(1, 2, 0)


@pytest.mark.parametrize("dtype", [None, *ALL])
def test_filled(dtype):
    given = {} if dtype is None else {"dtype": getattr(xp, dtype)}
    as_numpy = dtype or "float32"
    for shape in SHAPES:
        same(xp.zeros(shape, **given), np.zeros(shape, as_numpy))
        same(xp.ones(shape, **given), np.ones(shape, as_numpy))
        same(xp.full(shape, True if dtype == "bool" else 1, **given), np.ones(shape, dtype or "int64"))
        assert xp.empty(shape, **given).shape == shape
        like = xp.zeros(shape, dtype=xp.int8)
        for made, one in ((xp.ones_like, 1), (xp.zeros_like, 0)):
            same(made(like, **given), np.full(shape, one, dtype or "int8"))
        same(xp.full_like(like, 1, **given), np.full(shape, 1, dtype or "int8"))
        assert str(xp.empty_like(like, **given).dtype).endswith(dtype or "int8")
    same(xp.zeros(3), np.zeros(3, "float32"))
    for value, wanted in ((True, "bool"), (2, "int64"), (2.5, "float32"), (1j, "complex64")):
        same(xp.full((2,), value), np.full(2, value, wanted))
        same(xp.full(2, value), np.full(2, value, wanted))
    for size in (-1, (2, -1)):
        with pytest.raises((ValueError, RuntimeError)):
            xp.zeros(size)


def test_identities():
    for rows, columns, k in itertools.product((0, 1, 3), (None, 0, 2, 5), (-4, -1, 0, 1, 6)):
        same(xp.eye(rows, columns, k=k, dtype=xp.int16), np.eye(rows, columns, k=k, dtype="int16"))


def test_spaced():
    for start, stop, num, endpoint in itertools.product((0, -1.5), (1, 4.0), (0, 1, 2, 7), (True, False)):
        for dtype in REALS:
            wanted = np.linspace(start, stop, num, endpoint=endpoint, dtype=dtype)
            same(xp.linspace(start, stop, num, endpoint=endpoint, dtype=getattr(xp, dtype)), wanted)
    same(xp.linspace(0, 10, 11, dtype=xp.int32), np.arange(11, dtype="int32"))
    same(xp.linspace(0, 1 + 1j, 3), np.linspace(0, 1 + 1j, 3, dtype="complex64"))
    with pytest.raises(ValueError, match="num"):
        xp.linspace(0, 1, -1)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_grids(indexing):
    for sizes in ((), (3,), (2, 3), (2, 0), (2, 3, 4)):
        arrays = [np.arange(n) for n in sizes]
        found = xp.meshgrid(*map(ours, arrays), indexing=indexing)
        assert isinstance(found, list)
        for x, wanted in zip(found, np.meshgrid(*arrays, indexing=indexing), strict=True):
            same(x, wanted)
    with pytest.raises(ValueError, match="indexing"):
        xp.meshgrid(xp.ones(2), indexing="xz")
    with pytest.raises(ValueError, match="dtype"):
        xp.meshgrid(xp.ones(2), xp.arange(2))


def test_triangles():
    for dtype, shape, k in itertools.product(
        ("bool", "int8", "uint64", "complex64"), ((3, 4), (2, 3, 3), (0, 2)), (-2, 0, 1, 5)
    ):
        x = numbers(dtype, shape)
        same(xp.tril(ours(x), k=k), np.tril(x, k))
        same(xp.triu(ours(x), k=k), np.triu(x, k))


@pytest.mark.parametrize("dtype", ALL)
def test_from_arrays(dtype):
    for shape in SHAPES:
        x = numbers(dtype, shape)
        same(xp.asarray(x), x)
        if 0 not in shape[:-1]:  # nested lists cannot tell what follows a 0
            same(xp.asarray(x.tolist(), dtype=getattr(xp, dtype)), x)
        mine = ours(x)
        assert xp.asarray(mine) is mine
        for wanted in NUMERIC if dtype not in COMPLEXES else COMPLEXES:
            if not (dtype in REALS and wanted in INTEGERS):
                same(xp.asarray(mine, dtype=getattr(xp, wanted)), x.astype(wanted))


def test_numbers_have_default_dtypes():
    for given, wanted in (
        (True, "bool"),
        (3, "int64"),
        (3.5, "float32"),
        (1j, "complex64"),
        ([True, False], "bool"),
        ([1, 2], "int64"),
        ([1, 2.5], "float32"),
        ([[1], [2j]], "complex64"),
        ([], "float32"),
        (range(3), "int64"),
        ((1, (2)), "int64"),
    ):
        same(xp.asarray(given), np.asarray(given, wanted))
    assert xp.asarray(np.float64(1.5)).dtype == xp.float64 and xp.asarray(np.int8(1)).dtype == xp.int8
    with pytest.raises(OverflowError):
        xp.asarray(2**64)
    assert xp.asarray(2**64 - 1, dtype=xp.uint64).item() == 2**64 - 1


def test_copies_of_arrays():
    x = xp.zeros(3)
    assert xp.asarray(x, copy=False) is x
    made = xp.asarray(x, copy=True)
    made += 1
    array = np.zeros(3)
    shared, own = xp.asarray(array, copy=False), xp.asarray(array, copy=True)
    array[0] = 7
    assert x.tolist() == [0, 0, 0] and shared.tolist() == [7, 0, 0] and own.tolist() == [0, 0, 0]
    assert xp.asarray(array).tolist() == [7, 0, 0]
    for given, dtype in (
        (x, xp.int8),
        ([1, 2], None),
        (3, None),
        (np.arange(3)[::-1], None),
        (np.arange(3, dtype=">i4"), None),
    ):
        with pytest.raises(ValueError):
            xp.asarray(given, dtype=dtype, copy=False)


def test_memory_that_tensors_cannot_lie_over_is_copied():
    table = np.arange(12, dtype="int32").reshape(3, 4)
    unaligned = np.frombuffer(b"\0" + table.tobytes(), dtype="u1")[1:].view("int32")
    packed = np.zeros(3, dtype=[("a", "i1"), ("b", "f4")])
    for array in (
        table[::-1],
        table[:, ::-1],
        table[::-1, ::-2],
        table.astype(">i4"),
        table.T,
        unaligned,
        packed["b"],
    ):
        for copy in (None, True):
            same(xp.asarray(array, copy=copy), array.astype(array.dtype.newbyteorder("=")))
    broadcast = np.broadcast_to(np.asarray(3.0), (2, 3))  # read-only, too
    made = xp.asarray(broadcast)
    same(made, broadcast)
    made[0, 0] = 1
    assert made.sum() == 16 and broadcast[0, 0] == 3


def test_what_is_no_array_is_refused():
    for wrong in (None, "3", object(), ["a"], {1, 2}, np.asarray(["a"]), np.asarray([None])):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            xp.asarray(wrong)
    with pytest.raises((TypeError, ValueError)):
        xp.asarray([[1, 2], [3]])
