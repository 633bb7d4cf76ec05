"""What `test_cuda_host.py` runs in a process of its own, on the fake driver: cuBLASLt, and which library computes a product."""

from __future__ import annotations

import json
import os
import subprocess
import sys

os.environ["FLAMBEAU_LIBCUBLASLT"] = os.environ["FLAMBEAU_LIBCUDA"]  # before the first product

import fake_cuda
import numpy as np
import pytest
from flambeau.core.base.device import find_device

import flambeau
from flambeau.codegen import cache
from flambeau.devices import cublaslt
from flambeau.devices.product_ways import Ways

fake = fake_cuda.install()
cuda = flambeau.cuda
prefer = flambeau.backends.cuda.preferred_blas_library
LIBRARY, EPILOGUE, KERNEL = range(3)


@pytest.fixture(autouse=True)
def _settled(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    prefer("default")
    yield
    prefer("default")
    fake.set("lt_delay", 0)


def draws(*shape, dtype=flambeau.float32, seed=0):
    values = np.random.default_rng([seed, *shape]).integers(-3, 4, shape).astype(np.float64)
    return flambeau.tensor(values, dtype=dtype), values


def counted(act):
    """What it gives, and how many products each library computed."""
    before = fake.gemms, fake.lts
    result = act()
    cuda.synchronize()
    return result, fake.gemms - before[0], fake.lts - before[1]


DTYPES = [flambeau.float32, flambeau.float64, flambeau.float16, flambeau.bfloat16]


@pytest.mark.parametrize("dtype", [*DTYPES, flambeau.complex64, flambeau.complex128])
def test_products_by_it(dtype):
    prefer("cublaslt")
    (a, x), (b, y) = draws(5, 7, dtype=dtype), draws(7, 3, dtype=dtype, seed=1)
    for left, right, wanted in (
        (a, b, x @ y),
        (b.T, a.T, (x @ y).T),
        (a[1:, :5], b[:5], x[1:, :5] @ y[:5]),
    ):
        got, gemms, lts = counted(lambda left=left, right=right: left.cuda() @ right.cuda())
        assert (gemms, lts) == (0, 1) and np.array_equal(got.cpu().to(flambeau.complex128).numpy(), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_bias_as_it_writes(dtype):
    prefer("cublaslt")
    (a, x), (w, y), (bias, z) = (
        draws(5, 7, dtype=dtype),
        draws(3, 7, dtype=dtype, seed=1),
        draws(3, dtype=dtype, seed=2),
    )
    a, w, bias = (t.cuda() for t in (a, w, bias))
    launches = fake.launches
    got, gemms, lts = counted(lambda: flambeau.nn.functional.linear(a, w, bias))
    # double has no epilogue: the bias is copied, and cuBLASLt does not take the product
    assert (gemms, lts) == ((1, 0) if dtype is flambeau.float64 else (0, 1))
    assert (fake.launches == launches) == (dtype is not flambeau.float64)
    assert np.array_equal(got.double().cpu().numpy(), x @ y.T + z)
    got, _, _ = counted(lambda: flambeau.addmm(bias, a, w.T, alpha=2))
    assert np.array_equal(got.double().cpu().numpy(), 2 * (x @ y.T) + z)


def test_addends_that_are_no_bias():
    prefer("cublaslt")
    (a, x), (b, y) = draws(5, 5), draws(5, 5, seed=1)
    (row, r), (whole, w) = draws(5, seed=2), draws(5, 5, seed=3)
    a, b, row, whole = (t.cuda() for t in (a, b, row, whole))
    for addend, values, beta in (
        (whole, w, 1),
        (row[:, None], r[:, None], 1),
        (row, r, 3),
        (whole[:, 0], w[:, 0], 1),
    ):
        got = flambeau.addmm(addend, a, b, beta=beta)
        assert np.array_equal(got.cpu().numpy(), x @ y + beta * values)
    whole.addmm_(a, b)
    assert np.array_equal(whole.cpu().numpy(), x @ y + w)


def test_stacks():
    prefer("cublaslt")
    (a, x), (b, y), (w, z), (bias, v) = (
        draws(4, 5, 6),
        draws(4, 6, 3, seed=1),
        draws(2, 6, seed=2),
        draws(2, seed=3),
    )
    got, gemms, lts = counted(lambda: a.cuda() @ b.cuda())
    assert (gemms, lts) == (0, 1) and np.array_equal(got.cpu().numpy(), x @ y)
    got, gemms, lts = counted(lambda: flambeau.nn.functional.linear(a.cuda(), w.cuda(), bias.cuda()))
    assert (gemms, lts) == (0, 1) and np.array_equal(got.cpu().numpy(), x @ z.T + v)


def test_small_products_are_not_measured():
    a, w, bias = (draws(*shape)[0].cuda() for shape in ((5, 7), (3, 7), (3,)))
    assert counted(lambda: a @ w.T)[1:] == (1, 0)
    assert counted(lambda: flambeau.nn.functional.linear(a, w, bias))[1:] == (0, 1)  # no copy of the bias


def large(n):
    return flambeau.ones(n, 256, device="cuda"), flambeau.ones(256, 256, device="cuda")


@pytest.mark.parametrize(("delay", "way"), [(300_000, LIBRARY), (-300_000, EPILOGUE)])
def test_the_fastest_is_kept(delay, way, tmp_path, monkeypatch):
    """One library is slow; our own kernel, which the fake driver runs on the host, is slower than the other."""
    on = find_device("cuda", 0)
    n = 256 + (way == EPILOGUE)
    a, b = large(n)
    from flambeau.core.base.callbacks import callbacks

    real = callbacks["device.multiply"]
    fake.set("lt_delay", delay)
    monkeypatch.setitem(
        callbacks,
        "device.multiply",
        lambda *given: (fake.set("delay", 300_000), real(*given), cuda.synchronize(), fake.set("delay", 0)),
    )
    got, gemms, lts = counted(lambda: a @ b)
    assert gemms >= 5 and lts >= 5 and got.min().item() == got.max().item() == 256
    got, gemms, lts = counted(lambda: a @ b)
    assert (gemms, lts) == ((1, 0) if way == LIBRARY else (0, 1)) and got[0, 0].item() == 256
    description = (*on.product_description(n, 256, 256),)
    assert Ways(on.fingerprint, cublaslt.find_library().version).measured[description] == way
    prefer("cublas")
    assert counted(lambda: a @ b)[1:] == (1, 0)
    prefer("cublaslt")
    assert counted(lambda: a @ b)[1:] == (0, 1)


def test_what_is_on_disk(tmp_path, monkeypatch):
    ways = Ways("a card", 1)
    assert ways.measured == {}
    ways.keep((1, 2, 3), EPILOGUE)
    Ways("a card", 1).keep((4, 5, 6), KERNEL)
    ways.keep((1, 2, 3), LIBRARY)  # what stands there goes before
    assert Ways("a card", 1).measured == ways.measured == {(1, 2, 3): EPILOGUE, (4, 5, 6): KERNEL}
    assert Ways("a card", 2).measured == Ways("another", 1).measured == {}
    for content in (b"", b"[", b"3", b"[[1, 2]]", b'[[["x"], 1]]', json.dumps([[[1], 17]]).encode()):
        cache.write(ways.digest, content)
        assert Ways("a card", 1).measured == {}


def test_nothing_is_measured_in_a_capture():
    a, b = large(300)
    stream = cuda.Stream()
    with cuda.stream(stream):
        a @ b[:, :3]  # the libraries are opened
    graph = cuda.CUDAGraph()
    before = fake.gemms, fake.lts
    with cuda.graph(graph, stream=stream):
        c = a @ b
    assert fake.gemms - before[0] == 1 and fake.lts == before[1]
    graph.replay()
    assert c.sum().item() == 300 * 256 * 256
    prefer("cublaslt")
    other = cuda.CUDAGraph()
    with cuda.graph(other, stream=stream):
        d = a @ b  # without a workspace, which does not outlive a capture
    other.replay()
    assert flambeau.equal(c, d)


def test_gradients_by_it():
    prefer("cublaslt")
    layer = flambeau.nn.Linear(6, 4, device="cuda")
    x = flambeau.randn(5, 6, device="cuda", requires_grad=True)
    layer(x).square().sum().backward()
    there = flambeau.nn.Linear(6, 4)
    there.load_state_dict({k: v.cpu() for k, v in layer.state_dict().items()})
    y = x.detach().cpu().requires_grad_()
    there(y).square().sum().backward()
    for ours, theirs in (
        (x.grad, y.grad),
        (layer.weight.grad, there.weight.grad),
        (layer.bias.grad, there.bias.grad),
    ):
        flambeau.testing.assert_close(ours.cpu(), theirs)


def test_the_switch():
    kind = type(prefer())
    assert [each.name for each in kind] == [
        "Default",
        "Cublas",
        "Cublaslt",
        "Ck",
    ] and prefer().name == "Default"
    assert prefer("hipblaslt") is kind.Cublaslt and prefer() is kind.Cublaslt
    assert prefer(kind.Cublas) is kind.Cublas
    with pytest.raises(
        RuntimeError, match="Unknown input value. Choose from: default, cublas, hipblas, cublaslt, hipblaslt"
    ):
        prefer("mkl")
    with pytest.raises(RuntimeError, match="Unknown input value type."):
        prefer(1)
    with pytest.raises(RuntimeError, match="Composable Kernel"):
        prefer("ck")


def test_plans_are_given_back():
    library = cublaslt.find_library()
    objects = fake.library.fake_lt_objects()
    del library
    assert fake.library.fake_lt_objects() == objects


def test_a_library_that_is_something_else():
    program = "import fake_cuda; fake_cuda.install(); import flambeau; x = flambeau.ones(2, 2, device='cuda'); x @ x"
    environment = os.environ | {"FLAMBEAU_LIBCUBLASLT": "libc.so.6", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120
    )
    assert "libc.so.6 has no cublasLtGetVersion: cuBLASLt 12 or 13 is wanted" in done.stderr


def test_a_library_that_has_no_algorithm():
    program = """
import fake_cuda
fake = fake_cuda.install()
import flambeau
flambeau.backends.cuda.preferred_blas_library("cublaslt")
x = flambeau.ones(2, 2, device="cuda")
y = flambeau.nn.functional.linear(x, x, x[0])
print(y.tolist(), fake.gemms, fake.lts)
"""
    environment = os.environ | {"FAKE_LT_NONE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "[[3.0, 3.0], [3.0, 3.0]] 1 0\n", done.stderr
