"""Shapes, places, order and sets beside NumPy's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from standard_arrays import ALL, COMPLEXES, INTEGERS, REALS, SHAPES, numbers, ours, pairs, same, xp

SOME = ("bool", "uint16", "int64", "float32", "complex128")


def all_of(dtypes=SOME, shapes=SHAPES):
    for dtype, shape in itertools.product(dtypes, shapes):
        yield numbers(dtype, shape)


def test_broadcasts():
    for shapes in (((2, 1), (3,)), ((), (2, 3)), ((0, 1), (1, 4)), ((5,),)):
        arrays = [numbers("int8", s) for s in shapes]
        for found, wanted in zip(
            xp.broadcast_arrays(*map(ours, arrays)), np.broadcast_arrays(*arrays), strict=True
        ):
            same(found, wanted)
    for x in all_of():
        same(xp.broadcast_to(ours(x), (2, *x.shape)), np.broadcast_to(x, (2, *x.shape)))
    for shape, to in (((3,), (4,)), ((2, 3), (3,)), ((2,), (-1,)), ((1,), (-1, 2)), ((0,), (2,))):
        with pytest.raises(ValueError):
            xp.broadcast_to(xp.ones(shape), to)
    with pytest.raises((ValueError, RuntimeError)):
        xp.broadcast_arrays(xp.ones(2), xp.ones(3))


def test_joined():
    for a, b in pairs(ALL):
        x, y = numbers(a, (2, 3)), numbers(b, (2, 3))
        same(xp.stack([ours(x), ours(y)], axis=-1), np.stack([x, y], axis=-1))
        for axis in (0, 1, -1, -2, None):
            same(xp.concat((ours(x), ours(y)), axis=axis), np.concatenate((x, y), axis=axis))
    x = numbers("int8", (2, 0))
    same(xp.concat([ours(x), ours(x)], axis=1), np.concatenate([x, x], axis=1))
    same(xp.concat([xp.asarray(1), xp.ones((2, 2), dtype=xp.int8)], axis=None), np.ones(5, "int64"))
    for wrong in (
        [xp.ones(0), xp.ones((2, 2))],
        [xp.ones((2, 3)), xp.ones((3, 2))],
        [xp.ones((0,)), xp.ones((0, 2))],
    ):
        with pytest.raises(ValueError, match="concat"):
            xp.concat(wrong)
    for wrong in (xp.asarray(1), 3):
        with pytest.raises((TypeError, IndexError, RuntimeError)):
            xp.concat([wrong, wrong])
    with pytest.raises(IndexError):
        xp.concat([xp.ones(2)], axis=1)


def test_axes_moved():
    for x in all_of():
        rank = x.ndim
        for axis in range(-rank - 1, rank + 1):
            same(xp.expand_dims(ours(x), axis=axis), np.expand_dims(x, axis))
        for axis in (None, *range(-rank, rank), tuple(range(rank))):
            same(xp.flip(ours(x), axis=axis), np.flip(x, axis=axis))
        for order in itertools.permutations(range(rank)):
            same(xp.permute_dims(ours(x), order), np.transpose(x, order))
        for source, target in itertools.product(range(-rank, rank), repeat=2):
            same(xp.moveaxis(ours(x), source, target), np.moveaxis(x, source, target))
        for a, b in itertools.combinations(range(rank), 2):
            same(
                xp.moveaxis(ours(x), (a, b), (b, 0 if b else 1)) if b else ours(x),
                np.moveaxis(x, (a, b), (b, 0 if b else 1)) if b else x,
            )
        single = tuple(a for a in range(rank) if x.shape[a] == 1)
        same(xp.squeeze(ours(x), single), np.squeeze(x, single) if single else x)
        if rank >= 2:
            same(xp.matrix_transpose(ours(x)), np.matrix_transpose(x))
            same(ours(x).mT, np.matrix_transpose(x))
    for axis in (-4, 3):
        with pytest.raises(IndexError):
            xp.expand_dims(xp.ones((2, 2)), axis=axis)
    with pytest.raises(ValueError, match="size 2"):
        xp.squeeze(xp.ones((1, 2)), 1)
    with pytest.raises(IndexError):
        xp.squeeze(xp.ones((1, 2)), 2)
    with pytest.raises(ValueError):
        xp.matrix_transpose(xp.ones(2))


def test_repeated():
    for x in all_of():
        for times in (0, 1, 3):
            same(xp.repeat(ours(x), times), np.repeat(x, times))
            for axis in range(-x.ndim, x.ndim):
                same(xp.repeat(ours(x), times, axis=axis), np.repeat(x, times, axis=axis))
        for axis in range(x.ndim):
            counts = np.arange(x.shape[axis], dtype="uint8") % 3
            same(xp.repeat(ours(x), ours(counts), axis=axis), np.repeat(x, counts, axis=axis))
        same(xp.repeat(ours(x), xp.asarray([2])), np.repeat(x, 2))
        for times in ((), (2,), (1, 2), (2, 0, 1), (1, 2, 1, 2)):
            same(xp.tile(ours(x), times), np.tile(x, times))
    with pytest.raises((ValueError, RuntimeError)):
        xp.repeat(xp.ones(2), -1)


def test_reshaped():
    for x in all_of():
        for copy in (None, True, False):
            same(xp.reshape(ours(x), (-1,) if x.size else (0,), copy=copy), x.reshape(-1))
    x = xp.zeros((2, 3))
    view, copied = xp.reshape(x, (6,), copy=False), xp.reshape(x, (6,), copy=True)
    x += 1
    assert view.tolist() == [1] * 6 and copied.tolist() == [0] * 6
    with pytest.raises(ValueError, match="copy=False"):
        xp.reshape(xp.permute_dims(x, (1, 0)), (6,), copy=False)
    with pytest.raises((ValueError, RuntimeError)):
        xp.reshape(x, (4,))


def test_rolled():
    for x in all_of():
        for shift in (-2, 0, 1, 7):
            same(xp.roll(ours(x), shift), np.roll(x, shift))
            for axis in range(-x.ndim, x.ndim):
                same(xp.roll(ours(x), shift, axis=axis), np.roll(x, shift, axis=axis))
        if x.ndim > 1:
            same(xp.roll(ours(x), (1, 2), axis=(0, 1)), np.roll(x, (1, 2), axis=(0, 1)))
            same(xp.roll(ours(x), 1, axis=(0, -1)), np.roll(x, 1, axis=(0, -1)))


def test_parts():
    for x in all_of(shapes=SHAPES[1:]):
        for axis in range(-x.ndim, x.ndim):
            found = xp.unstack(ours(x), axis=axis)
            assert isinstance(found, tuple)
            for part, wanted in zip(found, np.unstack(x, axis=axis), strict=True):
                same(part, wanted)
    with pytest.raises(IndexError):
        xp.unstack(xp.ones(2), axis=1)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(name):
    for x in all_of(INTEGERS + REALS, [s for s in SHAPES if 0 not in s]):
        for axis, keepdims in itertools.product((None, *range(-x.ndim, x.ndim)), (False, True)):
            same(
                getattr(xp, name)(ours(x), axis=axis, keepdims=keepdims),
                getattr(np, name)(x, axis=axis, keepdims=keepdims),
            )


def test_places():
    for x in all_of(shapes=SHAPES[1:]):
        for found, wanted in zip(xp.nonzero(ours(x)), np.nonzero(x), strict=True):
            same(found, wanted)
    with pytest.raises(ValueError, match="nonzero"):
        xp.nonzero(xp.asarray(1))
    for a, b in pairs(ALL):
        x, y, where = numbers(a, (2, 3)), numbers(b, (3,)), numbers("bool", (2, 1))
        same(xp.where(ours(where), ours(x), ours(y)), np.where(where, x, y))
    for x, number in ((xp.ones(2, dtype=xp.float64), 3), (xp.ones(2, dtype=xp.int8), 3), (xp.ones(2), 2.5)):
        assert xp.where(xp.asarray([True, False]), x, number).dtype == x.dtype
        assert xp.where(xp.asarray([True, False]), number, x).tolist() == [number, 1]
    assert xp.where(xp.asarray([True, False]), 1, 2).tolist() == [1, 2]


@pytest.mark.parametrize("side", ["left", "right"])
def test_searches(side):
    for a, b in pairs(INTEGERS + REALS):
        x, y = np.sort(numbers(a, (7,))), numbers(b, (2, 3))
        same(xp.searchsorted(ours(x), ours(y), side=side), np.searchsorted(x, y, side=side))
        mixed = x[::-1].copy()
        order = np.argsort(mixed, stable=True)
        same(
            xp.searchsorted(ours(mixed), ours(y), side=side, sorter=ours(order)),
            np.searchsorted(mixed, y, side=side, sorter=order),
        )
    same(xp.searchsorted(xp.ones((0,)), xp.ones(2), side=side), np.zeros(2, "int64"))
    with pytest.raises(ValueError, match="side"):
        xp.searchsorted(xp.ones(2), xp.ones(2), side="middle")


@pytest.mark.parametrize("descending", [False, True])
def test_order(descending):
    for x in all_of(INTEGERS + REALS):
        for axis in range(-x.ndim, x.ndim):
            turned = np.flip(x, axis=axis) if descending else x
            places = np.argsort(turned, axis=axis, stable=True)
            if descending:
                places = np.flip(x.shape[axis] - 1 - places, axis=axis)
            same(xp.argsort(ours(x), axis=axis, descending=descending), places)
            same(xp.sort(ours(x), axis=axis, descending=descending), np.take_along_axis(x, places, axis))
    assert xp.sort(xp.asarray([xp.nan, 1.0])).tolist()[0] == 1.0
    with pytest.raises(IndexError):
        xp.sort(xp.ones(2), axis=1)


def test_taken():
    for x in all_of(shapes=[s for s in SHAPES if s and 0 not in s]):
        for axis in range(-x.ndim, x.ndim):
            n = x.shape[axis]
            for places in ([0], [n - 1, 0, -1], []):
                for dtype in ("int64", "int8"):
                    where = np.asarray(places, dtype)
                    same(xp.take(ours(x), ours(where), axis=axis), np.take(x, where, axis=axis))
            order = np.argsort(np.abs(x), axis=axis)
            same(xp.take_along_axis(ours(x), ours(order), axis=axis), np.take_along_axis(x, order, axis))
            same(
                xp.take_along_axis(ours(x), ours(order - n), axis=axis),
                np.take_along_axis(x, order - n, axis),
            )
    same(xp.take(xp.asarray([3, 4]), xp.asarray([1])), np.asarray([4]))
    x, where = numbers("float32", (3, 4)), np.asarray([[0], [2], [1]])
    same(xp.take_along_axis(ours(x), ours(where)), np.take_along_axis(x, where, -1))
    same(
        xp.take_along_axis(ours(x), xp.asarray([[1, 0, 2, 3]]), axis=0 - 1),
        np.take_along_axis(x, np.broadcast_to([[1, 0, 2, 3]], (3, 4)), -1),
    )
    with pytest.raises(ValueError, match="axis"):
        xp.take(ours(x), xp.asarray([0]))
    with pytest.raises(IndexError):
        xp.take(ours(x), xp.asarray([3]), axis=0)


@pytest.mark.parametrize("dtype", ALL)
def test_sets(dtype):
    for shape in (*SHAPES, (40,)):
        x = numbers(dtype, shape, low=-2, high=3)
        if dtype in REALS + COMPLEXES:
            x = np.asarray(np.round(x), dtype)
        values, indices, inverse, counts = np.unique_all(x)
        found = xp.unique_all(ours(x))
        assert found._fields == ("values", "indices", "inverse_indices", "counts")
        for mine, wanted in zip(found, (values, indices, inverse, counts), strict=True):
            same(mine, wanted)
        assert xp.unique_counts(ours(x))._fields == ("values", "counts")
        assert xp.unique_inverse(ours(x))._fields == ("values", "inverse_indices")
        same(xp.unique_counts(ours(x)).counts, counts)
        same(xp.unique_inverse(ours(x)).inverse_indices, inverse)
        same(xp.unique_values(ours(x)), values)


def test_sets_of_nan_and_zeros():
    for dtype in REALS + COMPLEXES:
        x = xp.asarray([xp.nan, 1, xp.nan, 0.0, -0.0], dtype=getattr(xp, dtype))
        found = xp.unique_all(x)
        assert found.counts.tolist() == [2, 1, 1, 1] and found.indices.tolist() == [3, 1, 0, 2]
        assert found.inverse_indices.tolist() == [2, 1, 3, 0, 0]
        assert xp.isnan(found.values).tolist() == [False, False, True, True]
    assert COMPLEXES
