"""Streaming stores: kernels that have them, and that large results are right whatever lies where."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.codegen import schedule_cpu
from flambeau.codegen.schedule_cpu_pointwise import STREAMING_BYTES
from flambeau.operations.declare import machine

LARGE = STREAMING_BYTES // 4 + 1003  # float32 elements, which are no whole number of vectors


@pytest.fixture
def modules(monkeypatch):
    """The LLVM modules, for x86-64, of the kernels that calls look up."""
    made: list[str] = []
    address = machine.address

    def seen(kernel):
        made.append(str(schedule_cpu.module_for(kernel, "x86_64-unknown-linux-gnu")))
        return address(kernel)

    monkeypatch.setattr(machine, "address", seen)
    return made


def test_short_bodies_have_a_streaming_loop_and_a_fence(modules):
    @flambeau.kernels.pointwise(dtypes=("float32",))
    def short(x, y):
        return x * y + x

    @flambeau.kernels.pointwise(dtypes=("float32",))
    def long(x, y):
        for _ in range(6):
            x = x * y + x
        return x

    x = flambeau.ones(8)
    short(x, x)
    assert "!nontemporal" in modules[-1] and modules[-1].count("call void @llvm.x86.sse.sfence") == 1
    long(x, x)
    assert "!nontemporal" not in modules[-1]


def test_other_processors_have_none(monkeypatch):
    kernels = []
    address = machine.address
    monkeypatch.setattr(machine, "address", lambda kernel: kernels.append(kernel) or address(kernel))

    @flambeau.kernels.pointwise(dtypes=("float32",))
    def short(x, y):
        return x * y + x

    short(flambeau.ones(8), flambeau.ones(8))
    assert kernels and "!nontemporal" not in str(schedule_cpu.module_for(kernels[-1], "aarch64-linux-gnu"))


@pytest.fixture(params=[1, 3])
def threads(request):
    before = flambeau.get_num_threads()
    flambeau.set_num_threads(request.param)
    yield
    flambeau.set_num_threads(before)


def test_results_where_they_lie(threads):
    x = np.random.default_rng(0).standard_normal(LARGE + 64, np.float32)
    a = flambeau.from_numpy(x)
    for begin in (0, 1, 15, 16):
        part = a[begin : begin + LARGE]
        wanted = x[begin : begin + LARGE]
        np.testing.assert_array_equal((part * 2.0).numpy(), wanted * 2)
        out = flambeau.full((LARGE + 64,), 7.0)
        flambeau.mul(part, 3.0, out=out[16 - begin : 16 - begin + LARGE])
        result = out.numpy()
        np.testing.assert_array_equal(result[16 - begin : 16 - begin + LARGE], wanted * 3)
        assert (result[: 16 - begin] == 7).all() and (result[16 - begin + LARGE :] == 7).all()


def test_over_an_operand(threads):
    x = np.random.default_rng(1).standard_normal(LARGE, np.float32)
    y = np.random.default_rng(2).standard_normal(LARGE, np.float32)
    a = flambeau.from_numpy(x.copy())
    a.mul_(2.0)
    a.add_(flambeau.from_numpy(y))
    b = flambeau.from_numpy(y.copy())
    flambeau.sub(a, b, out=b)
    np.testing.assert_array_equal(a.numpy(), x * 2 + y)
    np.testing.assert_array_equal(b.numpy(), (x * 2 + y) - y)


@pytest.mark.parametrize("kinds", [("float64", "bool"), ("float32", "float64"), ("bfloat16", "float32")])
def test_of_other_widths(kinds, threads):
    given, wanted = (getattr(flambeau, kind) for kind in kinds)
    count = 4 * LARGE + 5 if wanted is flambeau.bool else LARGE
    x = (flambeau.arange(count) % 3).to(given)
    np.testing.assert_array_equal(
        x.to(wanted).numpy(), (np.arange(count) % 3).astype(np.bool_ if kinds[1] == "bool" else kinds[1])
    )


def test_rows_and_two_results(threads):
    rows, n = 4099, 2051  # rows that begin anywhere
    x = np.random.default_rng(3).standard_normal((rows, n), np.float32)
    line = np.random.default_rng(4).standard_normal(n, np.float32)
    result = flambeau.from_numpy(x) + flambeau.from_numpy(line)
    np.testing.assert_array_equal(result.numpy(), x + line)
    mantissa, exponent = flambeau.frexp(flambeau.from_numpy(x))
    wanted = np.frexp(x)
    np.testing.assert_array_equal(mantissa.numpy(), wanted[0])
    np.testing.assert_array_equal(exponent.numpy(), wanted[1])


@pytest.mark.parametrize("rows, n", [(4096, 2064), (3001, 2807), (2816, 3001)])
def test_transposed(rows, n, threads):
    x = np.random.default_rng(5).standard_normal((rows, n), np.float32)
    a = flambeau.from_numpy(x)
    np.testing.assert_array_equal(a.t().contiguous().numpy(), x.T)
    np.testing.assert_array_equal((a.t() * 2 + 1).numpy(), x.T * np.float32(2) + np.float32(1))
    b = flambeau.from_numpy(np.ascontiguousarray(x.T))
    b.add_(a.t())
    np.testing.assert_array_equal(b.numpy(), x.T + x.T)
    out = flambeau.full((n + 1, rows + 16), 7.0)
    out[1:, 16:].copy_(a.t())
    np.testing.assert_array_equal(out.numpy()[1:, 16:], x.T)
    assert (out.numpy()[0] == 7).all() and (out.numpy()[:, :16] == 7).all()
