"""What `test_cuda_host.py` runs in a process of its own, on the fake driver: a program's own allocator, no cache, and what the driver's
runtime library is called for.
"""

from __future__ import annotations

import ctypes
import gc
import subprocess
from pathlib import Path

import fake_cuda
import pytest

import flambeau

fake = fake_cuda.install()
cuda = flambeau.cuda
LIVE, BYTES, GIVEN, BACK, REFUSED, WRONG = range(6)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    made = tmp_path_factory.mktemp("allocator") / "allocator.so"
    source = Path(__file__).with_name("fake_allocator.c")
    subprocess.run(
        [fake_cuda.compiler() or "cc", "-shared", "-fPIC", "-o", str(made), str(source), "-ldl"], check=True
    )
    return str(made)


@pytest.fixture
def account(library):
    functions = ctypes.CDLL(library)
    functions.account.restype = ctypes.c_long
    yield functions
    functions.refuse(0)
    assert functions.account(WRONG) == 0


def allocator(library):
    return cuda.CUDAPluggableAllocator(library, "give", "take_back")


# The first test: no device may be in use when the allocator is chosen.
def test_all_memory_from_an_allocator(library, account):
    assert cuda.host_memory_stats() == {} and cuda.get_allocator_backend() == "native"
    for wrong in (None, object(), allocator(library).allocator()):
        with pytest.raises(
            TypeError, match=r"change_current_allocator\(\): allocator must be a CUDAPluggable"
        ):
            cuda.change_current_allocator(wrong)
    cuda.memory.change_current_allocator(allocator(library))
    x = flambeau.arange(1000, device="cuda")
    assert cuda.get_allocator_backend() == "pluggable" and account.account(LIVE) == 1
    assert account.account(BYTES) == cuda.memory_allocated() == cuda.memory_reserved() >= 8000
    assert (x + 1).sum().item() == 500_500
    given = account.account(GIVEN)
    y = x + 1
    place = y.data_ptr()
    del y
    assert account.account(GIVEN) == given + 1  # nothing is cached
    assert place not in {s["address"] for s in cuda.memory_snapshot()}
    with pytest.raises(RuntimeError, match="Can't swap an already initialized allocator"):
        cuda.change_current_allocator(allocator(library))
    with cuda.device(1):
        z = flambeau.ones(3, device="cuda")  # the allocator is told the device
    with cuda.caching_allocator_disabled():
        z += 1
    assert z.tolist() == [2] * 3
    account.refuse(1)
    with pytest.raises(cuda.OutOfMemoryError, match="CUDA out of memory. Tried to allocate 400 bytes"):
        flambeau.empty(100, device="cuda")
    account.refuse(0)
    assert cuda.memory_stats()["num_ooms"] == 1


def test_a_stream_that_still_uses_it(account):
    stream = cuda.Stream()
    x = flambeau.ones(1000, device="cuda")
    stream.wait_stream(cuda.current_stream())
    cuda.synchronize()
    fake.set("delay", -1)  # nothing runs
    with cuda.stream(stream):
        y = x + 1
    x.record_stream(stream)
    back = account.account(BACK)
    del x
    flambeau.empty(10, device="cuda")
    assert account.account(BACK) == back + 1  # of the new one alone
    fake.set("delay", 0)
    cuda.synchronize()
    flambeau.empty(10, device="cuda")
    assert account.account(BACK) == back + 3
    assert y.sum().item() == 2000


def test_a_tensor_that_dies_in_a_capture(account):
    flambeau.ones(3, device="cuda").add_(1)  # its kernels are made
    gc.collect()
    x, held = flambeau.ones(3, device="cuda"), []
    graph = cuda.CUDAGraph()
    back = account.account(BACK)
    with cuda.graph(graph):
        y = flambeau.ones(3, device="cuda").add_(1)
        del x
        held.append(account.account(BACK))
    assert held == [back] and account.account(BACK) == back + 1
    graph.replay()
    assert y.tolist() == [2] * 3


def test_a_pool_from_an_allocator(library, account):
    own = allocator(library).allocator()
    pool = cuda.MemPool(own)
    assert pool.allocator is own and cuda.MemPool().allocator is None
    given = account.account(GIVEN)
    with cuda.use_mem_pool(pool):
        x = flambeau.empty(100, device="cuda")
    assert account.account(GIVEN) == given + 1
    assert pool.snapshot()[0]["address"] == x.data_ptr()
    back = account.account(BACK)
    del x, pool
    gc.collect()
    cuda.empty_cache()
    assert account.account(BACK) == back + 1


def test_an_allocator_that_is_not_there(library, tmp_path):
    with pytest.raises(OSError, match="none.so"):
        cuda.CUDAPluggableAllocator(str(tmp_path / "none.so"), "give", "take_back")
    with pytest.raises(AttributeError, match="lend"):
        cuda.CUDAPluggableAllocator(library, "lend", "take_back")


# --- page-locked memory, and the runtime's calls ------------------------------
def test_page_locked_memory_is_counted():
    cuda.reset_peak_host_memory_stats()
    before = cuda.host_memory_stats()
    x = flambeau.ones(1000).pin_memory()
    y = flambeau.ones(10).pin_memory()
    del y
    after = cuda.host_memory_stats()

    def grown(name):
        return after[name] - before.get(name, 0)

    for blocks, nbytes in (("allocations", "allocated_bytes"), ("active_requests", "active_bytes")):
        assert [grown(f"{blocks}.{k}") for k in ("current", "peak", "allocated", "freed")] == [1, 2, 2, 1]
        assert [grown(f"{nbytes}.{k}") for k in ("current", "peak", "allocated", "freed")] == [
            4000,
            4040,
            4040,
            40,
        ]
    assert grown("num_host_alloc") == 2 and grown("num_host_free") == 1
    times = cuda.host_memory_stats_as_nested_dict()["host_alloc_time"]
    assert (
        times["min"] <= times["avg"] <= times["max"] <= times["total"]
        and times["count"] == after["num_host_alloc"]
    )
    cuda.reset_accumulated_host_memory_stats()
    cuda.memory.reset_peak_host_memory_stats()
    after = cuda.host_memory_stats()
    assert after["allocations.allocated"] == after["num_host_alloc"] == after["host_alloc_time.max"] == 0
    assert after["allocations.peak"] == after["allocations.current"] and x.is_pinned()


def test_the_runtimes_calls():
    runtime = cuda.cudart()
    assert runtime is cuda.cudart() and runtime.cudaMemGetInfo(0) == cuda.mem_get_info(0)
    cuda.check_error(runtime.cudaProfilerStart())
    assert fake.library.fake_profiled() == 1
    cuda.check_error(runtime.cudaProfilerStop())
    assert runtime.cudaProfilerStart() == runtime.cudaError.success
    cuda.check_error(runtime.cudaProfilerStop())
    with pytest.raises(cuda.CudaError, match=r"fake error \(1\)"):
        cuda.check_error(runtime.cudaProfilerStop())
    assert runtime.cudaGetErrorString(700) == "an illegal memory access was encountered"
    memory = flambeau.ones(1000)
    pinned = fake.pinned
    cuda.check_error(runtime.cudaHostRegister(memory.data_ptr(), 4000, 0))
    assert fake.pinned == pinned + 1
    assert runtime.cudaHostRegister(memory.data_ptr(), 4000, 0) == 1
    cuda.check_error(runtime.cudaHostUnregister(memory.data_ptr()))
    assert fake.pinned == pinned and runtime.cudaHostUnregister(memory.data_ptr()) == 1


def test_a_stream_of_the_runtimes():
    runtime = cuda.cudart()
    handle = ctypes.c_void_p()
    cuda.check_error(runtime.cudaStreamCreate(ctypes.addressof(handle)))
    stream = cuda.ExternalStream(handle.value)
    with cuda.stream(stream):
        x = flambeau.ones(3, device="cuda") + 1
    stream.synchronize()
    assert x.tolist() == [2] * 3
    del x
    cuda.empty_cache()
    cuda.check_error(runtime.cudaStreamDestroy(handle.value))
