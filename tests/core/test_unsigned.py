"""uint16, uint32 and uint64: the upper half of their range in every operation that has a kernel."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import flambeau

NAMES = ["uint16", "uint32", "uint64"]


def of(values, name):
    return flambeau.tensor(values, dtype=getattr(flambeau, name))


def edges(name):
    """Zero, one, both sides of the signed limit, and the largest number."""
    bits = 8 * getattr(flambeau, name).itemsize
    return [0, 1, 2**15, 2 ** (bits - 1) - 1, 2 ** (bits - 1), 2**bits - 1]


@pytest.mark.parametrize("name", NAMES)
def test_literals_items_and_numpy(name):
    values = edges(name)
    x = of(values, name)
    assert x.tolist() == values and [v.item() for v in x] == values
    assert x.numpy().dtype == np.dtype(name) and x.numpy().tolist() == values
    shared = flambeau.from_numpy(x.numpy())
    assert shared.dtype == x.dtype and shared.data_ptr() == x.data_ptr()
    assert flambeau.tensor(np.array(values, name)).dtype == x.dtype
    assert flambeau.tensor(np.array(values, name)[-1]).item() == values[-1]
    assert flambeau.frombuffer(bytearray(x.numpy().tobytes()), dtype=x.dtype).tolist() == values
    assert flambeau.full((2,), values[-1], dtype=x.dtype).tolist() == [values[-1]] * 2
    assert flambeau.zeros(2, dtype=x.dtype).fill_(values[-1]).tolist() == [values[-1]] * 2
    assert flambeau.full((1,), -1, dtype=x.dtype).item() == values[-1]  # as in C
    assert pickle.loads(pickle.dumps(x)).tolist() == values
    assert repr(x[:2]) == f"tensor([0, 1], dtype=flambeau.{name})"
    assert int(x[-1]) == values[-1] and float(x[-1]) == float(values[-1]) and bool(x[-1])
    assert not x.is_signed() and not x.dtype.is_signed and not x.is_floating_point()
    with pytest.raises((RuntimeError, ValueError), match="overflow|Overflow"):
        of([2 * values[-1]], name)


def test_negative_numbers_have_no_uint64():
    assert of([-1], "uint16").item() == 65535
    with pytest.raises(OverflowError, match="can't convert negative int to unsigned"):
        of([-1], "uint64")


@pytest.mark.parametrize("name", NAMES)
def test_conversions(name):
    values = edges(name)
    x = of(values, name)
    wide = np.array(values, name)
    for other in (
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint16",
        "uint32",
        "uint64",
        "float32",
        "float64",
    ):
        assert np.array_equal(x.to(getattr(flambeau, other)).numpy(), wide.astype(other)), other
        back = flambeau.from_numpy(np.array([0, 1, 100]).astype(other)).to(x.dtype)
        assert back.tolist() == np.array([0, 1, 100]).astype(other).astype(name).tolist()
    assert x.to(flambeau.complex128).real.tolist() == [float(v) for v in values]
    assert x.half().dtype == flambeau.float16 and x.bfloat16().float()[1] == 1
    large = flambeau.tensor([float(v) for v in values[:5]], dtype=flambeau.float64)
    assert large.to(x.dtype).tolist() == [int(v) & (2 ** (8 * x.itemsize) - 1) for v in large.tolist()]
    assert flambeau.tensor([-1, -2]).to(x.dtype).tolist() == [values[-1], values[-1] - 1]
    assert x.view(flambeau.uint8).numpy().tobytes() == wide.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_arithmetic_wraps_and_compares_without_signs(name):
    values = edges(name)
    x, a = of(values, name), np.array(values, name)
    y, b = of(values[::-1], name), np.array(values[::-1], name)
    for call in (
        *(
            lambda p, q: p + q,
            lambda p, q: p - q,
            lambda p, q: p * q,
            lambda p, q: p & q,
            lambda p, q: p | q,
            lambda p, q: p ^ q,
        ),
        *(
            lambda p, q: p < q,
            lambda p, q: p <= q,
            lambda p, q: p > q,
            lambda p, q: p >= q,
            lambda p, q: p == q,
            lambda p, q: p != q,
        ),
    ):
        found = call(x, y)
        expected = call(a, b)
        assert found.numpy().dtype == expected.dtype and np.array_equal(found.numpy(), expected)
    assert np.array_equal((x // y.clamp(min=1)).numpy(), a // b.clip(1))
    assert np.array_equal((x % y.clamp(min=1)).numpy(), a % b.clip(1))
    assert np.array_equal((~x).numpy(), ~a) and np.array_equal((x >> 1).numpy(), a >> 1)
    assert np.array_equal(flambeau.maximum(x, y).numpy(), np.maximum(a, b))
    assert np.array_equal(flambeau.minimum(x, y).numpy(), np.minimum(a, b))
    assert (
        (x + 1).dtype == x.dtype
        and (x * 1.5).dtype == flambeau.float32
        and (x / x.clamp(min=1)).dtype == flambeau.float32
    )
    assert np.array_equal(flambeau.sqrt(x).numpy(), np.sqrt(a.astype("float32")))
    assert flambeau.equal(x, x.clone()) and x.abs().tolist() == values


@pytest.mark.parametrize("name", NAMES)
def test_reductions_and_order(name):
    values = [5, edges(name)[-1], 0, edges(name)[-2], 7, 7]
    x, a = of(values, name), np.array(values, name)
    assert x.max().item() == a.max() and x.min().item() == 0 and x.argmax() == 1 and x.argmin() == 2
    assert x.max(0).indices == 1 and x.amax().dtype == x.dtype
    assert x.sort().values.tolist() == sorted(values) and x.sort(descending=True).indices[0] == 1
    assert x.sort().indices.tolist() == np.argsort(a, kind="stable").tolist()
    assert x.topk(2).values.tolist() == sorted(values)[-2:][::-1]
    assert x.sum().dtype == flambeau.int64 and x.prod().dtype == flambeau.int64
    assert of([1, 2, 3], name).sum() == 6 and of([1, 2, 3], name).prod() == 6
    assert of([1, 2, 3], name).cumsum(0).tolist() == [1, 3, 6]
    assert x.unique().tolist() == sorted(set(values)) and x.count_nonzero() == 5 and x.any() and not x.all()
    assert x.nonzero().numel() == 5
    assert np.array_equal(x.reshape(2, 3).t().contiguous().numpy(), a.reshape(2, 3).T)


@pytest.mark.parametrize("name", NAMES)
def test_places_and_joining(name):
    values = edges(name)
    x = of(values, name)
    i = flambeau.tensor([5, 0])
    assert (
        x[i].tolist() == [values[5], 0]
        and x.gather(0, i).tolist() == [values[5], 0]
        and x.take(i).tolist() == [values[5], 0]
    )
    assert flambeau.cat([x, x]).tolist() == values * 2 and flambeau.stack([x, x]).dtype == x.dtype
    assert flambeau.where(x > 1, x, 0 * x).tolist() == [v if v > 1 else 0 for v in values]
    assert x.masked_fill(x == 1, 9).tolist()[1] == 9
    y = of([0, 0, 0], name).index_put_((flambeau.tensor([1, 1]),), x[[5, 1]], accumulate=True)
    assert y.tolist() == [0, 0, 0]  # the largest number and one
    z = of([1, 1], name).scatter_reduce(0, flambeau.tensor([0, 0, 1]), x[3:], "amax")
    assert z.tolist() == [values[4], values[5]]
    assert of([1, 2], name).scatter_add(0, flambeau.tensor([0, 0]), x[1:3]).tolist() == [2 + values[2], 2]
    with pytest.raises(IndexError, match="tensors used as indices must be"):
        flambeau.zeros(3)[x]
    with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"):
        flambeau.cat([x, i])
    with pytest.raises(RuntimeError, match="Only Tensors of floating point"):
        flambeau.zeros(1, dtype=x.dtype, requires_grad=True)


@pytest.mark.parametrize("name", NAMES)
def test_factories_and_random(name):
    kind = getattr(flambeau, name)
    assert flambeau.arange(3, dtype=kind).tolist() == [0, 1, 2] and flambeau.eye(2, dtype=kind).tolist() == [
        [1, 0],
        [0, 1],
    ]
    assert sorted(flambeau.randperm(9, dtype=kind).tolist()) == list(range(9))
    x = flambeau.empty(1000, dtype=kind).random_()
    assert abs(x.double().mean() / 2.0 ** (8 * kind.itemsize) - 0.5) < 0.1
    assert flambeau.randint(5, (100,), dtype=kind).max() <= 4
    assert flambeau.empty(10, dtype=kind).bernoulli_(1.0).sum() == 10
    limits = flambeau.iinfo(kind)
    assert (limits.min, limits.max, limits.bits) == (0, edges(name)[-1], 8 * kind.itemsize)
    assert (flambeau.ones(2, 3, dtype=kind) @ flambeau.ones(3, 2, dtype=kind)).tolist() == [[3, 3], [3, 3]]


def test_numbers_beyond_int64_meet_uint64_alone():
    x = of([1, 2**64 - 1], "uint64")
    assert (x == 2**64 - 1).tolist() == [False, True] and (x - 2**63).tolist() == [2**63 + 1, 2**63 - 1]
    assert x.masked_fill(x == 1, 2**64 - 2).tolist() == [2**64 - 2, 2**64 - 1]
    assert (flambeau.ones(1) * 2**63).item() == 2.0**63
    for call in (
        lambda: flambeau.ones(1).long() + 2**63,
        lambda: x + 2**64,
        lambda: x - 2**64,
        lambda: of([1], "uint32") == 2**63,
    ):
        with pytest.raises(OverflowError, match="does not fit 64 bits"):
            call()
