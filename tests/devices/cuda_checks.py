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
    assert (told.multi_processor_count, told.warp_size, told.total_memory) == (2, 32, 1 << 33)
    assert repr(told).startswith("DeviceProperties(name='Fake 0', major=9, minor=0, total_memory=8192MB")
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
            os._exit(0 if "in a forked subprocess" in str(error) else 1)
        os._exit(2)
    signal.alarm(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    signal.alarm(0)
