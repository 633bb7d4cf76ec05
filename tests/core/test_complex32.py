"""complex32: pairs of float16, computed in complex64 and rounded once."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import flambeau


def of(*values):
    return flambeau.tensor(values, dtype=flambeau.complex32)


def test_parts_are_float16():
    x = of(1 + 2j, 0.5 - 1j)
    assert x.dtype == flambeau.chalf == flambeau.complex32 and x.itemsize == 4 and x.is_complex()
    assert x.tolist() == [1 + 2j, 0.5 - 1j] and x[0].item() == 1 + 2j
    parts = flambeau.view_as_real(x)
    assert parts.dtype == flambeau.float16 and parts.tolist() == [[1, 2], [0.5, -1]]
    assert flambeau.view_as_complex(parts).dtype == flambeau.complex32
    assert x.real.dtype == x.imag.dtype == flambeau.float16 and x.imag.tolist() == [2, -1]
    x.real[0] = 7
    assert x[0].item() == 7 + 2j
    half = flambeau.ones(2, dtype=flambeau.float16)
    assert flambeau.complex(half, half).dtype == flambeau.complex32
    assert (
        flambeau.complex(half, half, out=flambeau.empty(2, dtype=flambeau.complex32)).tolist() == [1 + 1j] * 2
    )
    with pytest.raises(RuntimeError, match="expected both inputs to be floating-point tensors"):
        flambeau.complex(x, half)
    assert (half * 1j).dtype == flambeau.complex32 and (half * 1j).tolist() == [1j, 1j]
    assert (
        flambeau.float16.to_complex() == flambeau.complex32
        and flambeau.complex32.to_real() == flambeau.float16
    )
    assert flambeau.finfo(flambeau.complex32) == flambeau.finfo(flambeau.float16)


def test_conversions_round_each_part():
    wild = np.random.default_rng(0).normal(size=500) * 10.0 ** np.random.default_rng(1).integers(-9, 9, 500)
    z = flambeau.from_numpy((wild + 1j * wild[::-1]).astype(np.complex64))
    with np.errstate(over="ignore"):
        expected = wild.astype(np.float32).astype(np.float16)
    assert np.array_equal(z.chalf().real.numpy(), expected) and np.array_equal(
        z.chalf().imag.numpy(), expected[::-1]
    )
    back = z.chalf().cfloat()
    assert back.dtype == flambeau.complex64 and np.array_equal(back.real.numpy(), expected.astype(np.float32))
    assert z.reshape(20, 25).t().chalf().shape == (25, 20)
    for other in (
        "bool",
        "uint8",
        "int64",
        "uint64",
        "float16",
        "bfloat16",
        "float64",
        "complex128",
        "float8_e5m2",
    ):
        x = flambeau.tensor([0.0, 1.0, 2.0]).to(getattr(flambeau, other))
        assert x.chalf().dtype == flambeau.complex32 and flambeau.equal(
            x.chalf().to(flambeau.complex64), x.to(flambeau.complex64)
        )
        assert flambeau.equal(x.chalf().to(x.dtype).float(), x.float())
    assert flambeau.full((), 1e9, dtype=flambeau.complex32).item().real == math.inf


def test_arithmetic():
    x, y = of(1 + 2j, 3 - 1j), of(2 - 1j, 1j)
    for call in (
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: -a,
        lambda a, b: a.exp(),
    ):
        found = call(x, y)
        assert found.dtype == flambeau.complex32
        assert flambeau.equal(found.cfloat(), call(x.cfloat(), y.cfloat()).chalf().cfloat())
    assert x.abs().dtype == flambeau.float16 and (x == x).all() and (x * 2).dtype == flambeau.complex32
    assert (x + flambeau.ones(2)).dtype == flambeau.complex64 and x.conj().tolist() == [1 - 2j, 3 + 1j]
    assert x.sum().item() == 4 + 1j and x.sum().dtype == flambeau.complex32
    assert (x.reshape(1, 2) @ y.reshape(2, 1)).item() == (1 + 2j) * (2 - 1j) + (3 - 1j) * 1j
    assert (
        x.clone().mul_(2).tolist() == [2 + 4j, 6 - 2j]
        and flambeau.zeros(2, dtype=x.dtype).copy_(x).tolist() == x.tolist()
    )
    assert flambeau.cat([x, x])[3].item() == 3 - 1j and x[flambeau.tensor([1])].tolist() == [3 - 1j]
    with pytest.raises(NotImplementedError, match="not implemented for 'complex32'"):
        flambeau.floor(x)
    assert repr(x) == "tensor([1.+2.j, 3.-1.j], dtype=flambeau.complex32)"
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()


def test_gradients():
    z = flambeau.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    (z.chalf() * of(2, 2)).cfloat().abs().pow(2).sum().backward()
    assert z.grad.dtype == flambeau.complex64 and z.grad.tolist() == [8 + 16j, 24 - 8j]
    half = flambeau.ones(2, dtype=flambeau.float16, requires_grad=True)
    flambeau.view_as_real(half * 1j).sum().backward()
    assert half.grad.dtype == flambeau.float16
