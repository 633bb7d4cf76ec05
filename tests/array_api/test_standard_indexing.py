"""Keys of the standard beside NumPy's, steps from the end among them, which PyTorch refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from standard_arrays import ours, same

import flambeau

SLICES = [
    slice(a, b, c)
    for a, b, c in itertools.product((None, 0, 2, -1, 9, -9), (None, 0, 3, -2, -9), (None, 2, -1, -2, -7))
]
TABLE = np.arange(24).reshape(4, 3, 2)
KEYS = (
    (slice(None, None, -1),),
    (slice(None, None, -1), slice(None, None, -2)),
    (1, slice(None, None, -1)),
    (slice(None, None, -1), 1, slice(None, None, -1)),
    (Ellipsis, slice(None, None, -1)),
    (None, slice(3, 0, -2), None, Ellipsis, slice(None, None, -1)),
    (slice(0, 0, -1), slice(1, 2)),
    (slice(2, None, -1), Ellipsis, 0),
)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_slices(size):
    x = np.arange(size)
    for key in SLICES:
        same(ours(x)[key], x[key])
        mine, wanted = ours(x), x.copy()
        mine[key], wanted[key] = 7, 7
        same(mine, wanted)
        values = np.arange(100, 100 + len(x[key]))
        mine[key], wanted[key] = ours(values), values
        same(mine, wanted)


@pytest.mark.parametrize("key", KEYS)
def test_keys(key):
    same(ours(TABLE)[key], TABLE[key])
    mine, wanted = ours(TABLE), TABLE.copy()
    mine[key] += 50
    wanted[key] += 50
    same(mine, wanted)
    values = np.arange(TABLE[key].shape[-1])  # broadcast
    mine[key], wanted[key] = ours(values), values
    same(mine, wanted)


def test_steps_from_the_end_and_index_tensors():
    where = np.asarray([0, 2, 2])
    same(ours(TABLE)[ours(where), ::-1], TABLE[where, ::-1])
    same(ours(TABLE)[::-1, ours(where)], TABLE[::-1, where])
    same(ours(TABLE)[::-1, ours(np.asarray([True, False, True]))], TABLE[::-1, [True, False, True]])
    with pytest.raises(ValueError, match="negative step"):
        ours(TABLE)[::-1, ours(where)] = 1


def test_steps_from_the_end_have_gradients():
    x = flambeau.arange(6.0, requires_grad=True)
    (x[::-2] * flambeau.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [0, 100, 0, 10, 0, 1]
    y = flambeau.zeros(4)
    value = flambeau.ones(3, requires_grad=True)
    y[:0:-1] = value * flambeau.tensor([1.0, 2.0, 3.0])
    y[1].backward()
    assert value.grad.tolist() == [0, 0, 3]


def test_steps_that_are_none():
    for size in (0, 3):
        with pytest.raises(ValueError, match="step"):
            flambeau.ones(size)[::0]
    with pytest.raises(IndexError):
        flambeau.tensor(1)[::-1]
    with pytest.raises(IndexError):
        flambeau.tensor(1)[::-1] = 2
    assert flambeau.ones(2, device="meta")[::-1].shape == (2,)
    assert flambeau.arange(3)[:: -(2**70)].tolist() == [2]
