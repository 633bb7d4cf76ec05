"""The core's loops over places beside the bodies that devices run: the same bits, whatever the dtype and the strides."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fb
from flambeau.operations.moving import device_bodies as places

rng = np.random.default_rng(11)
MOVED = [
    fb.bool,
    fb.uint8,
    fb.float16,
    fb.int32,
    fb.float32,
    fb.int64,
    fb.float64,
    fb.complex64,
    fb.complex128,
]
COMBINED = [fb.uint8, fb.int16, fb.int32, fb.int64, fb.float32, fb.float64]
SHAPES = [((9,), 0), ((5, 7), 0), ((5, 7), 1), ((3, 4, 6), 1)]


def drawn(shape: tuple[int, ...], dtype: fb.dtype) -> fb.Tensor:
    return fb.tensor(rng.uniform(-3, 3, (*shape, 2))).to(dtype)[..., 0]  # the last dimension has gaps


def drawn_index(shape: tuple[int, ...], bound: int, low: int = 0) -> fb.Tensor:
    return fb.tensor(rng.integers(low, bound, (*shape, 2)))[..., 0]


def same_bits(a: fb.Tensor, b: fb.Tensor) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.contiguous().numpy().tobytes() == b.contiguous().numpy().tobytes()


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_gather_and_scatter(shape, dim, dtype):
    x, values, index = drawn(shape, dtype), drawn(shape, dtype), drawn_index(shape, shape[dim])
    same_bits(x.gather(dim, index), places.gather(x, dim, index))
    a, b = x.clone(), x.clone()
    a.scatter_(dim, index, values)
    places.write_at(b, values, index, dim, "set")
    same_bits(a, b)


@pytest.mark.parametrize("dtype", COMBINED, ids=str)
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize(
    ("reduce", "how"), [("sum", "add"), ("prod", "mul"), ("amin", "min"), ("amax", "max")]
)
def test_combining(shape, dim, dtype, reduce, how):
    x, values, index = drawn(shape, dtype), drawn(shape, dtype), drawn_index(shape, shape[dim])
    a, b = x.clone(), x.clone()
    a.scatter_reduce_(dim, index, values, reduce)
    places.write_at(b, values, index, dim, how)
    same_bits(a, b)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_several_indices(used, dtype):
    x = drawn((3, 4, 5), dtype).transpose(0, 1)
    indices = [
        drawn_index((2, 6), x.shape[d], -x.shape[d]) if d in used else None for d in range(max(used) + 1)
    ]
    key = tuple(slice(None) if i is None else i for i in indices)
    same_bits(x[key], places.get(x, indices, True))
    values = drawn(tuple(x[key].shape), dtype)
    a, b = x.clone(), x.clone()
    a[key] = values
    places.put(b, indices, values, False, True)
    same_bits(a, b)
    if dtype in COMBINED and None not in indices:
        a.index_put_(indices, values, accumulate=True)
        places.put(b, indices, values, True, True)
        same_bits(a, b)


@pytest.mark.parametrize("n", [0, 1, 8, 1000])
def test_every_axis_in_order(n):
    """No axis is left that could be shared: all places are written, not only the first."""
    index, values = drawn_index((n,), 5), drawn((n,), fb.float32)
    want = np.zeros(5, "float32")
    np.add.at(want, index.numpy(), values.numpy())
    found = fb.zeros(5)
    places.write_at(found, values, index, 0, "add")
    np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("layout", ["plain", "transposed", "strided"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_lines_of_every_layout_are_numpys(dim, layout):
    """Lines have loops of their own for the usual steps; the indices, the source and the places may each have others."""
    shape = (5, 6, 40)
    lay = {
        "plain": lambda t: t,
        "transposed": lambda t: t.transpose(0, 2).contiguous().transpose(0, 2),
        "strided": lambda t: fb.stack([t, t], -1)[..., 0],
    }[layout]
    for dtype in ("uint8", "int16", "float32", "float64", "complex128"):
        x, source = (rng.integers(0, 100, shape).astype(dtype) for _ in range(2))
        line = np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(3)])
        index = rng.permuted(np.broadcast_to(line, shape), axis=dim)
        for at in (fb.tensor(index), lay(fb.tensor(index))):
            given, other = lay(fb.tensor(x)), lay(fb.tensor(source))
            np.testing.assert_array_equal(given.gather(dim, at).numpy(), np.take_along_axis(x, index, dim))
            wanted = x.copy()
            np.put_along_axis(wanted, index, source, dim)
            np.testing.assert_array_equal(given.scatter(dim, at, other).numpy(), wanted)
            np.put_along_axis(wanted, index, np.take_along_axis(x, index, dim) + source, dim)
            np.testing.assert_array_equal(given.scatter_add(dim, at, other).numpy(), wanted)


def test_indices_outside_are_refused_before_anything_is_written():
    x = fb.zeros(3, 4)
    for bad in (4, -1, 2**62, -(2**62), -(2**63)):
        for at in (fb.tensor([[0, 1], [2, bad]]), fb.tensor([[0, 2], [1, bad]]).t()):
            with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds"):
                x.scatter_(1, at, fb.ones(2, 2))
            with pytest.raises(RuntimeError, match="out of bounds"):
                x.gather(1, at)
    assert not x.any()


def test_lines_of_any_length():
    """Lines are read and written several elements in a turn: each rest, each width, and an index outside at each place."""
    rng = np.random.default_rng(9)
    for dtype in ("uint8", "int16", "float32", "float64", "complex128"):
        for n in range(1, 14):
            x = rng.integers(0, 100, (3, 17)).astype(dtype)
            index, rows = rng.integers(0, 17, (3, n)), fb.tensor(x)
            np.testing.assert_array_equal(
                rows.gather(1, fb.tensor(index)).numpy(), np.take_along_axis(x, index, 1)
            )
            np.testing.assert_array_equal(rows.index_select(1, fb.tensor(index[0])).numpy(), x[:, index[0]])
            wanted, source = x.copy(), rng.integers(0, 100, (3, n)).astype(dtype)
            for row, column in np.ndindex(3, n):  # the last of equal indices wins
                wanted[row, index[row, column]] = source[row, column]
            np.testing.assert_array_equal(
                rows.scatter(1, fb.tensor(index), fb.tensor(source)).numpy(), wanted
            )
            for at in range(n):
                for bad in (17, -1, -(2**63), 2**63 - 1):
                    outside = index.copy()
                    outside[1, at] = bad
                    with pytest.raises(RuntimeError, match="out of bounds"):
                        rows.gather(1, fb.tensor(outside))
