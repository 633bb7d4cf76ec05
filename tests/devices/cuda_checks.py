"""What `test_cuda_host.py` runs in a process of its own, on the fake driver."""

from __future__ import annotations

import os
import signal

import fake_cuda
import pytest

import flambeau

fake = fake_cuda.install()
cuda = flambeau.cuda


@pytest.fixture(autouse=True)
def _settled():
    """Each test begins and ends with an idle device and an empty cache, and leaves nothing allocated."""
    cuda.synchronize()
    cuda.empty_cache()
    assert fake.live_blocks == 0
    yield
    fake.set("delay", 0)
    fake.set("limit", 0)
    cuda.synchronize()
    cuda.empty_cache()
    assert fake.live_blocks == 0 and cuda.memory_allocated() == 0 and cuda.memory_reserved() == 0


def test_what_the_device_is():
    assert cuda.is_available() and cuda.is_initialized() and cuda.device_count() == 2
    assert cuda.get_device_name(1) == "Fake 1" and cuda.get_device_name("cuda:0") == "Fake 0"
    assert cuda.get_device_capability() == (9, 0)
    told = cuda.get_device_properties()
    assert (told.multi_processor_count, told.total_memory) == (2, 1 << 33)
    assert told.warp_size == (64 if fake_cuda.is_hip() else 32)
    assert getattr(told, "gcnArchName", None) == ("gfx90a:sramecc+:xnack-" if fake_cuda.is_hip() else None)
    own = "gcnArchName='gfx90a:sramecc+:xnack-', " if fake_cuda.is_hip() else ""
    assert repr(told).startswith(
        f"DeviceProperties(name='Fake 0', major=9, minor=0, {own}total_memory=8192MB"
    )
    assert cuda.mem_get_info() == (1 << 33, 1 << 33)


def test_devices_that_are_not_there():
    with pytest.raises(RuntimeError, match="invalid device ordinal: cuda:2 .* 2 devices"):
        cuda.set_device(2)
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        cuda.get_device_name("cpu")


def test_the_current_device():
    assert cuda.current_device() == 0
    with cuda.device(1):
        assert cuda.current_device() == 1
        assert cuda.Stream().device == flambeau.device("cuda", 1)
        with cuda.device(-1):
            assert cuda.current_device() == 1
    assert cuda.current_device() == 0


def test_streams():
    stream = cuda.Stream()
    assert stream != cuda.current_stream() == cuda.default_stream()
    with cuda.stream(stream):
        assert cuda.current_stream() == stream
        with cuda.stream(None):
            assert cuda.current_stream() == stream
    assert cuda.current_stream() == cuda.default_stream()
    cuda.set_stream(stream)
    assert cuda.current_stream().cuda_stream == stream.cuda_stream != 0
    cuda.set_stream(cuda.default_stream())
    assert cuda.ExternalStream(stream.cuda_stream) == stream
    made = fake.streams
    assert len({cuda.Stream() for _ in range(40)}) == 32 and fake.streams - made <= 31
    assert cuda.Stream(priority=-1) not in {cuda.Stream() for _ in range(32)}


def test_events():
    fake.set("delay", 20_000)
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    assert end.query() and end.cuda_event == 0
    end.synchronize()
    with pytest.raises(ValueError, match="both events must be recorded"):
        begin.elapsed_time(end)
    begin.record()
    end.record()
    assert not end.query()
    with pytest.raises(RuntimeError, match="synchronize first"):
        begin.elapsed_time(end)
    end.synchronize()
    assert end.query() and begin.elapsed_time(end) >= 20
    with pytest.raises(ValueError, match="enable_timing"):
        begin.elapsed_time(cuda.Event())
    with pytest.raises(RuntimeError, match="the event belongs to cuda:0, the stream to cuda:1"):
        begin.record(cuda.Stream("cuda:1"))


def test_events_are_given_back():
    before = fake.events
    events = [cuda.Stream().record_event() for _ in range(5)]
    assert fake.events == before + 5
    del events
    assert fake.events == before


def test_a_stream_waits_for_another():
    fake.set("delay", 20_000)
    first, second = cuda.Stream(), cuda.Stream()
    done = first.record_event()
    second.wait_stream(first)
    after = second.record_event()
    after.synchronize()
    assert done.query() and first.query() and second.query()


def test_use_after_a_fork():
    child = os.fork()
    if child == 0:
        try:
            cuda.synchronize()
        except RuntimeError as error:
            os._exit(0 if "Cannot re-initialize CUDA in forked subprocess. To use CUDA" in str(error) else 1)
        os._exit(2)
    signal.alarm(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    signal.alarm(0)


def test_generators():
    flambeau.manual_seed(5)
    assert [g.initial_seed() for g in cuda.default_generators] == [5, 5]
    with cuda.device(1):
        cuda.manual_seed(6)
        assert cuda.initial_seed() == 6
    assert cuda.initial_seed() == 5 and flambeau.initial_seed() == 5
    assert flambeau.Generator("cuda:1").device == flambeau.device("cuda:1")
    host, saved = flambeau.get_rng_state(), cuda.get_rng_state_all()
    first, second = flambeau.rand(3, device="cuda:0"), flambeau.rand(3, device="cuda:1")
    assert not flambeau.equal(first.cpu(), second.cpu())
    assert flambeau.equal(flambeau.get_rng_state(), host)
    assert not flambeau.equal(cuda.get_rng_state("cuda:1"), saved[1])
    cuda.set_rng_state_all(saved)
    assert flambeau.equal(flambeau.rand(3, device="cuda:1").cpu(), second.cpu())
    with flambeau.random.fork_rng([1]):
        flambeau.rand(3, device="cuda:0"), flambeau.rand(3, device="cuda:1")
    assert cuda.get_rng_state(0).tolist() != saved[0].tolist()
    del first, second


def test_streams_and_events_of_any_device():
    stream, event = flambeau.Stream("cuda:1"), flambeau.Event("cuda", enable_timing=True)
    assert type(stream) is cuda.Stream and type(event) is cuda.Event
    assert type(flambeau.Stream()) is cuda.Stream and isinstance(event, flambeau.Event)
    assert stream.device == flambeau.device("cuda:1")
    with stream as inside:
        assert inside is stream and cuda.current_stream() == stream and cuda.current_device() == 1
        with stream:
            event.record()
    assert cuda.current_device() == 0 and cuda.current_stream() == cuda.default_stream()
    event.synchronize()
    assert event.query() and event.device == flambeau.device("cuda:1")
    assert cuda.get_stream_from_external(stream.cuda_stream, "cuda:1") == stream
    assert not cuda.is_current_stream_capturing()


def test_what_memory_was_used():
    cuda.reset_accumulated_memory_stats()
    cuda.reset_peak_memory_stats()
    x = flambeau.empty(1 << 18, device="cuda")
    y = flambeau.empty(1 << 18, device="cuda")
    del y
    told = cuda.memory_stats()
    assert (told["allocation.all.current"], told["allocation.all.peak"]) == (1, 2)
    assert (told["allocation.all.allocated"], told["allocation.all.freed"]) == (2, 1)
    assert told["allocated_bytes.all.allocated"] == 2 * told["allocated_bytes.all.current"] >= 2 << 20
    assert (told["num_alloc_retries"], told["num_ooms"], told["num_device_alloc"]) == (0, 0, 2)
    nested = cuda.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["peak"] == told["allocated_bytes.all.peak"]
    assert nested["num_ooms"] == 0
    summary = cuda.memory_summary()
    assert "device 0" in summary and "2048 KiB" in summary
    assert len({len(line) for line in summary.splitlines()}) == 1
    del x
    cuda.reset_accumulated_memory_stats()
    assert cuda.memory_stats()["allocation.all.allocated"] == 0
    for old, new in (("memory_cached", "memory_reserved"), ("max_memory_cached", "max_memory_reserved")):
        with pytest.warns(FutureWarning, match=new):
            assert getattr(cuda, old)() == getattr(cuda, new)()
    for old in ("reset_max_memory_allocated", "reset_max_memory_cached"):
        with pytest.warns(FutureWarning, match="reset_peak_memory_stats"):
            getattr(cuda, old)()


def test_blocks_that_streams_used_are_counted():
    stream = cuda.Stream()
    x = flambeau.empty(1 << 18, device="cuda")
    x.record_stream(stream)
    before = cuda.memory_stats()["allocation.all.current"]
    del x
    assert cuda.memory_stats()["allocation.all.current"] == before - 1
    cuda.synchronize()
    y = flambeau.empty(1 << 18, device="cuda")
    assert cuda.memory_stats()["allocation.all.current"] == before
    del y


def test_a_part_of_the_memory():
    assert cuda.get_per_process_memory_fraction() == 1.0
    cuda.set_per_process_memory_fraction(2.0**-10)  # 8 MiB
    try:
        assert cuda.get_per_process_memory_fraction() == 2.0**-10
        x = flambeau.empty(1 << 20, device="cuda")
        with pytest.raises(cuda.OutOfMemoryError):
            flambeau.empty(1 << 20, dtype=flambeau.float64, device="cuda")
        assert cuda.memory_stats()["num_ooms"] == 1
        del x
        y = flambeau.empty(1 << 21, device="cuda")  # what was cached is given back for it
        del y
    finally:
        cuda.set_per_process_memory_fraction(1.0)
    for wrong, error in ((1, TypeError), (1.5, ValueError), (float("nan"), ValueError)):
        with pytest.raises(error):
            cuda.set_per_process_memory_fraction(wrong)


def test_memory_for_other_libraries():
    stream = cuda.Stream()
    held = cuda.memory_allocated()
    blocks = [
        cuda.caching_allocator_alloc(1000),
        cuda.caching_allocator_alloc(5000, "cuda:0", stream),
        cuda.caching_allocator_alloc(1, 0, stream.cuda_stream),
    ]
    assert len(set(blocks)) == 3 and cuda.memory_allocated() > held
    assert cuda.current_stream() == cuda.default_stream()
    for block in blocks:
        cuda.caching_allocator_delete(block)
    with pytest.raises(ValueError, match="no block that was given out"):
        cuda.caching_allocator_delete(blocks[0])
    with pytest.raises(TypeError, match="stream must be"):
        cuda.caching_allocator_alloc(1, stream="first")
    assert cuda.memory_allocated() == held and cuda.get_allocator_backend() == "native"


def test_copies_that_the_host_waits_for():
    assert cuda.get_sync_debug_mode() == 0
    x = flambeau.ones(3, device="cuda")
    try:
        cuda.set_sync_debug_mode("warn")
        with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
            assert x.tolist() == [1.0, 1.0, 1.0]
        cuda.set_sync_debug_mode(2)
        with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
            x.cpu()
        y = x + 1  # waits for nothing
        cuda.synchronize()
        for wrong in ("never", 3, None):
            with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
                cuda.set_sync_debug_mode(wrong)
        assert cuda.get_sync_debug_mode() == 2
    finally:
        cuda.set_sync_debug_mode("default")
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_what_the_devices_can():
    if fake_cuda.is_hip():
        assert cuda.get_arch_list() == ["gfx90a", "gfx942", "gfx1100"] and cuda.get_gencode_flags() == ""
    else:
        assert cuda.get_arch_list() == ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100"]
        assert cuda.get_gencode_flags().endswith("-gencode compute=compute_100,code=sm_100")
    assert cuda.can_device_access_peer(0, 1) and not cuda.can_device_access_peer("cuda:1", 1)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        cuda.can_device_access_peer(0, 2)
    assert cuda.is_tf32_supported() != fake_cuda.is_hip() and cuda.is_bf16_supported(False)
    assert cuda.has_half and not cuda.has_magma
    cuda.ipc_collect()
    x = flambeau.empty(1, device="cuda:1")
    with cuda.device_of(x):
        assert cuda.current_device() == 1
        with cuda.device_of(flambeau.ones(1)):
            assert cuda.current_device() == 1
    assert cuda.current_device() == 0
    del x
    assert flambeau.device(1) == flambeau.device("cuda:1")


def test_the_accelerator_is_cuda():
    accelerator = flambeau.accelerator
    assert accelerator.current_accelerator() == flambeau.device("cuda")
    assert flambeau.get_device_module() is cuda
    assert accelerator.get_memory_info() == cuda.mem_get_info()
    assert accelerator.max_memory_reserved() == cuda.max_memory_reserved()
    accelerator.reset_accumulated_memory_stats()
    accelerator.empty_host_cache()
    assert flambeau.float32 in accelerator.get_device_capability()["supported_dtypes"]


def test_sensors(monkeypatch):
    """Through a stand-in for nvidia-ml-py, which counts devices without regard to CUDA_VISIBLE_DEVICES."""
    import sys
    import types

    class NVMLError(Exception):
        pass

    asked = []
    library = types.SimpleNamespace(
        NVMLError=NVMLError,
        NVML_TEMPERATURE_GPU=0,
        NVML_CLOCK_SM=1,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda k: asked.append(k) or k,
        nvmlDeviceGetHandleByUUID=lambda u: asked.append(u) or u,
        nvmlDeviceGetUtilizationRates=lambda h: types.SimpleNamespace(gpu=40, memory=20),
        nvmlDeviceGetMemoryInfo=lambda h: types.SimpleNamespace(used=77),
        nvmlDeviceGetTemperature=lambda h, which: 55,
        nvmlDeviceGetPowerUsage=lambda h: 90_000,
        nvmlDeviceGetClockInfo=lambda h, which: 1500 + which,
        nvmlDeviceGetComputeRunningProcesses=lambda h: [types.SimpleNamespace(pid=12, usedGpuMemory=None)],
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert (cuda.utilization(), cuda.memory_usage(), cuda.device_memory_used()) == (40, 20, 77)
    assert (cuda.temperature(1), cuda.power_draw("cuda:1"), cuda.clock_rate()) == (55, 90_000, 1501)
    assert asked == [0, 0, 0, 1, 1, 0]
    assert "GPU:0\nprocess         12 uses" in cuda.list_gpu_processes()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, GPU-abc")
    del asked[:]
    cuda.utilization(), cuda.utilization(1)
    assert asked == [5, "GPU-abc"]

    def broken():
        raise NVMLError

    library.nvmlInit = broken
    with pytest.raises(RuntimeError, match="driver can't be loaded"):
        cuda.utilization()
    assert "driver can't be loaded" in cuda.list_gpu_processes()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(ModuleNotFoundError, match="nvidia-ml-py"):
        cuda.temperature()
    assert cuda.list_gpu_processes().startswith("pynvml module not found")


def test_a_profiler_is_switched():
    import ctypes

    driver = ctypes.CDLL(fake_cuda.library())
    with pytest.raises(KeyError), cuda.profiler.profile():
        assert driver.fake_profiled() == 1
        raise KeyError
    assert driver.fake_profiled() == 0
    cuda.profiler.start()
    cuda.profiler.stop()
    with pytest.raises(RuntimeError, match="(CUDA error: cu|HIP error: hip)ProfilerStop: error 1"):
        cuda.profiler.stop()


def test_no_blocks_are_kept_without_the_cache():
    settled = cuda.memory_reserved()
    with cuda.caching_allocator_disabled():
        x = flambeau.ones(100_000, device="cuda")
        assert cuda.memory_reserved() > settled
        y = x + 1
        del x
        assert y[0].item() == 2
        live = fake.live_bytes
        place = y.data_ptr()
        del y
        assert fake.live_bytes < live and place not in {s["address"] for s in cuda.memory_snapshot()}
    x = flambeau.ones(100_000, device="cuda")
    reserved = cuda.memory_reserved()
    del x
    assert cuda.memory_reserved() == reserved
    cuda.caching_allocator_enable(False)
    x = flambeau.ones(100_000, device="cuda")  # new, although there is a free block
    del x
    cuda.caching_allocator_enable()
    assert cuda.memory_reserved() == reserved
    cuda.empty_cache()
