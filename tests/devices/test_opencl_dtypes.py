"""Unsigned integers, float8 and complex32 on a device: the host's bits."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau

FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


@pytest.mark.parametrize("name", FLOAT8)
def test_float8_is_converted_to_the_same_bits(name):
    kind = getattr(flambeau, name)
    wild = np.random.default_rng(0).integers(0, 1 << 32, 4096, dtype=np.uint32).view(np.float32)
    host = flambeau.from_numpy(wild)
    ours, theirs = host.to(kind), host.to("opencl").to(kind)
    assert theirs.device.type == "opencl" and theirs.dtype == kind
    assert flambeau.equal(theirs.cpu().view(flambeau.uint8), ours.view(flambeau.uint8))
    assert np.array_equal(theirs.float().cpu().numpy(), ours.float().numpy(), equal_nan=True)
    joined = flambeau.cat([theirs, theirs.flip(0)])[::3]
    assert flambeau.equal(
        joined.cpu().view(flambeau.uint8), flambeau.cat([ours, ours.flip(0)])[::3].view(flambeau.uint8)
    )
    with pytest.raises(NotImplementedError, match=f"not implemented for '{name}'"):
        theirs + theirs


def test_complex32():
    x = flambeau.complex(flambeau.randn(3, 5), flambeau.randn(3, 5))
    y = x.to("opencl").t().chalf()
    assert flambeau.equal(y.cfloat().cpu(), x.t().chalf().cfloat())
    assert flambeau.equal((y * 2).cpu().cfloat(), (x.t().chalf() * 2).cfloat())


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_unsigned_integers(name):
    kind = getattr(flambeau, name)
    high = 2 ** (8 * kind.itemsize) - 1
    x = flambeau.tensor([1, 5, high // 2 + 1, high], dtype=kind)
    y = x.to("opencl")
    for call in (
        lambda t: t + t,
        lambda t: t * 3,
        lambda t: t > 5,
        lambda t: t // 3,
        lambda t: t >> 1,
        lambda t: t.max(),
        lambda t: t.sort().values,
        lambda t: t.float(),
        lambda t: t.double().to(kind) if name != "uint64" else t,
        lambda t: t[flambeau.tensor([3, 0]).to(t.device)],
        lambda t: flambeau.zeros(3, dtype=kind, device=t.device).fill_(high),
        lambda t: t.cumsum(0),
    ):
        assert flambeau.equal(call(y).cpu(), call(x))
    assert (
        flambeau.tensor([1e19], dtype=flambeau.float64).to("opencl").to(flambeau.uint64).cpu().item()
        == 10**19
    )
