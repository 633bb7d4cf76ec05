"""Tensors on the fake driver: what `test_cuda_host.py` runs in a process of its own."""

from __future__ import annotations

import gc
import os
import sys

import fake_cuda
import numpy as np
import pytest

import flambeau

fake = fake_cuda.install()
cuda = flambeau.cuda
POISON = {"float32": -4.3160208e8, "int64": -3617008641903833651}  # bytes 0xCD


@pytest.fixture(autouse=True)
def _settled():
    """Each test leaves nothing allocated but the word in which kernels report indices out of bounds."""
    yield
    fake.set("delay", 0)
    fake.set("limit", 0)
    gc.collect()
    cuda.synchronize()
    cuda.empty_cache()
    assert (
        fake.live_blocks <= 1 and fake.live_bytes == cuda.memory_allocated() == cuda.memory_reserved() <= 64
    )


def numbers(*shape, dtype="float32"):
    values = np.random.default_rng(3).standard_normal(shape) * 3
    return flambeau.from_numpy(values).to(getattr(flambeau, dtype))


def same(actual, expected, tolerance=0.0):
    assert actual.device == flambeau.device("cuda", 0)
    np.testing.assert_allclose(actual.cpu().numpy(), expected.numpy(), rtol=tolerance, atol=tolerance)


# --- memory ------------------------------
def test_memory_is_counted_and_handed_on():
    before, asked = cuda.memory_allocated(), fake.allocations
    x = flambeau.empty(1000, device="cuda")
    held = cuda.memory_allocated() - before
    assert 4000 <= held <= 4096 and fake.live_bytes == cuda.memory_reserved() == cuda.memory_allocated()
    place = x.data_ptr()
    del x
    assert cuda.memory_allocated() == before and cuda.memory_reserved() == before + held
    y = flambeau.empty(1000, device="cuda")
    assert y.data_ptr() == place and fake.allocations == asked + 1
    told = cuda.memory_stats()
    assert told["allocated_bytes.all.current"] == cuda.memory_allocated()
    assert told["reserved_bytes.all.peak"] == cuda.max_memory_reserved() >= cuda.memory_reserved()
    del y
    cuda.empty_cache()
    assert cuda.memory_reserved() == cuda.memory_allocated() == before
    peak = cuda.max_memory_allocated()
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == before < peak


def test_new_memory_is_rubbish():
    for dtype, value in POISON.items():
        assert flambeau.empty(9, dtype=getattr(flambeau, dtype), device="cuda").cpu().tolist() == [value] * 9


def test_out_of_memory():
    fake.set("limit", 1 << 24)
    x = flambeau.empty(3 << 20, dtype=flambeau.uint8, device="cuda")
    saved = flambeau.empty(8 << 20, dtype=flambeau.uint8, device="cuda")
    del x
    # the three cached MiB have to be given back for this one
    y = flambeau.empty(6 << 20, dtype=flambeau.uint8, device="cuda")
    assert cuda.memory_reserved() <= 1 << 24
    with pytest.raises(cuda.OutOfMemoryError, match=f"cannot allocate {6 << 20} bytes on cuda:0"):
        flambeau.empty(6 << 20, dtype=flambeau.uint8, device="cuda")
    assert y.fill_(3).sum().item() == 3 * (6 << 20)  # and work goes on
    assert saved.numel() == 8 << 20


def test_memory_of_a_stream_stays_with_it():
    stream = cuda.Stream()
    with cuda.stream(stream):
        x = flambeau.empty(5000, device="cuda")
    place = x.data_ptr()
    del x
    assert flambeau.empty(5000, device="cuda").data_ptr() != place
    with cuda.stream(stream):
        assert flambeau.empty(5000, device="cuda").data_ptr() == place


def test_recorded_streams_keep_memory():
    stream, events = cuda.Stream(), fake.events
    x = flambeau.ones(5000, device="cuda")
    place = x.data_ptr()
    cuda.synchronize()
    fake.set("delay", 100_000)
    with cuda.stream(stream):
        y = x + 1
    x.record_stream(stream)
    del x
    other = flambeau.empty(5000, device="cuda").fill_(7)
    assert other.data_ptr() != place
    stream.synchronize()
    again = flambeau.empty(5000, device="cuda")
    assert again.data_ptr() == place and fake.events == events
    assert y.cpu().tolist() == [2.0] * 5000
    with pytest.raises(RuntimeError, match="record_stream.* must be on a cuda device, got cpu"):
        flambeau.ones(2).record_stream(stream)


# --- copies ------------------------------
@pytest.mark.parametrize("n", [0, 1, 1 << 18, (1 << 20) + 3, 5 * (1 << 20) + 1])
def test_copies(n):
    """Longer than one piece of pinned memory, and than all sixteen."""
    x = flambeau.arange(n, dtype=flambeau.float32)
    y = x.to("cuda")
    x.zero_()  # its values have been read by then
    z = y.clone()
    y.zero_()
    assert z.cpu().equal(flambeau.arange(n, dtype=flambeau.float32))


def test_copies_do_not_overtake_kernels():
    fake.set("delay", 2000)
    x = flambeau.zeros(100, device="cuda")
    for k in range(20):
        x += flambeau.full((100,), float(k)).to("cuda")
    assert x.cpu().tolist() == [190.0] * 100


def test_streams_order_what_is_told_to_wait():
    stream = cuda.Stream()
    fake.set("delay", 5000)
    x = flambeau.ones(1000, device="cuda")
    for _ in range(5):
        x = x * 2
    stream.wait_stream(cuda.current_stream())
    with cuda.stream(stream):
        y = x + 1
        x.record_stream(stream)
    cuda.current_stream().wait_stream(stream)
    same(y * 1, flambeau.full((1000,), 33.0))


# --- kernels ------------------------------
def test_arguments_of_every_kind():
    """Addresses, sizes and strides, and scalars of four and eight bytes."""
    for dtype, scalar in (("float32", 0.1), ("float64", 0.1), ("int64", 1 << 40), ("int8", 5)):
        x = numbers(6, 7, dtype=dtype)
        y = x.to("cuda")
        same(y[::2, 1:].t() * scalar + y[0, 0], x[::2, 1:].t() * scalar + x[0, 0])


def test_arguments_are_those_of_the_launch():
    fake.set("delay", 20_000)
    x = flambeau.zeros(10, device="cuda")
    sums = [x + k for k in range(5)]  # all queued before the first runs
    assert [s[0].item() for s in sums] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_rows_with_barriers():
    x = numbers(5, 700)
    y = x.to("cuda")
    same(flambeau.softmax(y, 1), flambeau.softmax(x, 1), 1e-6)
    same(y.sum(), x.sum(), 1e-3)
    assert y.argmax(1).cpu().equal(x.argmax(1))
    same(y.cumsum(1), x.cumsum(1), 1e-3)


def test_random_numbers_are_the_cpu_s():
    flambeau.manual_seed(5)
    x = flambeau.rand(100, device="cuda")
    flambeau.manual_seed(5)
    same(x, flambeau.rand(100))


def test_an_index_out_of_bounds_is_reported():
    x, index = flambeau.arange(5.0, device="cuda"), flambeau.tensor([0, 9], device="cuda")
    y = x.gather(0, index)
    with pytest.raises(IndexError, match="out of bounds on cuda:0"):
        cuda.synchronize()
    cuda.synchronize()
    assert y.shape == (2,)


def test_a_step_of_training():
    losses = []
    for place in ("cpu", "cuda"):
        flambeau.manual_seed(0)
        net = flambeau.nn.Sequential(
            flambeau.nn.Linear(7, 9), flambeau.nn.GELU(), flambeau.nn.LayerNorm(9), flambeau.nn.Linear(9, 3)
        ).to(place)
        optimiser = flambeau.optim.Adam(net.parameters(), lr=1e-2)
        x, y = numbers(8, 7).to(place), numbers(8, 3).to(place)
        for _ in range(5):
            optimiser.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            optimiser.step()
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert fake.gemms > 0


# --- products ------------------------------
FORMS = {
    "plain": lambda x: x,
    "transposed": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
    "rows apart": lambda x: flambeau.cat([x, x], -1)[..., : x.shape[-1]],
    "scattered": lambda x: flambeau.cat([x, x], -1)[..., ::2][..., : x.shape[-1]],
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "shapes",
    [((3, 4), (4, 5)), ((1, 4), (4, 5)), ((3, 4), (4, 1)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5))],
)
def test_products(dtype, shapes):
    tolerance = {"float64": 1e-12, "float16": 1e-2, "bfloat16": 0.1}.get(dtype, 1e-4)
    before = fake.gemms
    for left in FORMS.values():
        for right in FORMS.values():
            a, b = left(numbers(*shapes[0], dtype=dtype)), right(numbers(*shapes[1], dtype=dtype))
            actual = left(a.to("cuda")) @ right(b.to("cuda"))
            expected = left(a) @ right(b)
            if dtype in ("float16", "bfloat16"):
                actual, expected = actual.float(), expected.float()
            same(actual, expected, tolerance)
    assert fake.gemms - before >= 9


def test_products_that_add():
    a, b, c = numbers(3, 4), numbers(4, 5), numbers(3, 5)
    moved = [x.to("cuda") for x in (c, a, b)]
    same(flambeau.addmm(*moved, alpha=2, beta=0.5), flambeau.addmm(c, a, b, alpha=2, beta=0.5), 1e-5)
    same(moved[1].t() @ moved[0], a.t() @ c, 1e-5)


def test_use_after_a_fork():
    x = flambeau.ones(3, device="cuda")
    cuda.synchronize()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 2
        try:
            x.add_(1)
        except RuntimeError as error:
            status = 0 if "in forked subprocess" in str(error) else 1
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert x.cpu().tolist() == [1.0] * 3


@pytest.mark.parametrize("wanted", [False, True])
def test_compiled_modules_run_as_they_are(wanted):
    """Plans are the CPU's: a module on a device runs operation by operation, with gradients, too."""
    flambeau.manual_seed(0)
    net = (
        flambeau.nn.Sequential(flambeau.nn.Linear(4, 3), flambeau.nn.GELU()).to("cuda").requires_grad_(wanted)
    )
    x = flambeau.randn(2, 4, device="cuda")
    compiled = flambeau.compile(net)
    for _ in range(3):
        y = compiled(x)
        assert y.requires_grad == wanted and flambeau.equal(y, net(x))
    if wanted:
        y.sum().backward()
        assert net[0].weight.grad.is_cuda
