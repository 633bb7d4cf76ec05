"""What `test_cuda_host.py` runs in a process of its own, on the fake driver: copies between devices, and events of several processes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import fake_cuda
import pytest

import flambeau

fake = fake_cuda.install()
cuda = flambeau.cuda
WAITER = """
import sys
import fake_cuda
fake = fake_cuda.install()
from flambeau import cuda
event = cuda.Event.from_ipc_handle("cuda:0", bytes.fromhex(sys.argv[1]))
print(event.query(), flush=True)
sys.stdin.readline()
stream = cuda.Stream()
event.wait(stream)  # a stream waits, and the host for the stream
stream.synchronize()
print(event.query(), flush=True)
event.synchronize()
event.record()
event.synchronize()
"""


@pytest.fixture(autouse=True)
def _settled():
    yield
    fake.set("delay", 0)
    cuda.synchronize("cuda:0")
    cuda.synchronize("cuda:1")


def test_copies_between_devices_do_not_go_by_the_host():
    x = flambeau.arange(6.0, device="cuda:0").reshape(2, 3)
    cuda.set_sync_debug_mode("error")  # nothing waits
    try:
        peers = fake.peers
        y = x.to("cuda:1")
        z = x.t()[1:].to("cuda:1")  # packed where it is
        flambeau.empty(2, 3, device="cuda:1").copy_(x)
        assert fake.peers == peers + 3
        empty = x[:0].to("cuda:1")
        assert fake.peers == peers + 3 and empty.device == y.device
    finally:
        cuda.set_sync_debug_mode("default")
    assert y.device == flambeau.device("cuda:1") and y.tolist() == x.tolist()
    assert z.tolist() == [[1.0, 4.0], [2.0, 5.0]]
    assert (y + 1).to("cuda:0").tolist() == (x + 1).tolist()


def test_copies_between_devices_keep_the_order_of_both():
    fake.set("delay", 2000)
    x = flambeau.zeros(1000, device="cuda:0")
    for k in range(5):
        x += 1
        y = x.to("cuda:1")
        x.fill_(k + 1)  # behind the copy
        x = y.add_(1).to("cuda:0").sub_(1)
        del y
    events = fake.events
    assert x.unique().tolist() == [5.0]
    gc.collect()
    assert fake.events <= events  # none is left behind


def test_a_copy_to_another_device_in_a_capture():
    x = flambeau.ones(3, device="cuda:0")
    made = cuda.CUDAGraph()
    with (
        pytest.raises(RuntimeError, match="not permitted when stream is capturing|INVALIDATED"),
        cuda.graph(made),
    ):
        x.to("cuda:1")
    made.reset()


def test_an_event_of_two_processes():
    event = cuda.Event(interprocess=True)
    cuda.synchronize()
    fake.set("delay", -1)
    x = flambeau.ones(3, device="cuda") + 1
    event.record()
    handle = event.ipc_handle()
    assert isinstance(handle, bytes) and len(handle) == 64 and handle == event.ipc_handle()
    waiter = subprocess.Popen(
        [sys.executable, "-c", WAITER, handle.hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert waiter.stdout.readline() == "False\n" and not event.query()
    fake.set("delay", 0)
    waiter.stdin.write("\n")
    waiter.stdin.flush()
    assert waiter.stdout.readline() == "True\n"
    assert waiter.wait(60) == 0
    assert event.query() and x.tolist() == [2.0] * 3
    event.synchronize()  # recorded there, too


def test_events_that_cannot_be_shared():
    with pytest.raises(RuntimeError, match="enable_timing must be False"):
        cuda.Event(enable_timing=True, interprocess=True)
    with pytest.raises(RuntimeError, match="must be made with interprocess=True"):
        cuda.Event().ipc_handle()
    with pytest.raises(TypeError, match="handle must be bytes, not str"):
        cuda.Event.from_ipc_handle(0, "event")
    with pytest.raises(ValueError, match="must have 64 bytes, got 5"):
        cuda.Event.from_ipc_handle(0, b"event")
    for hostile in (bytes(64), b"event /nowhere".ljust(64, b"\0"), os.urandom(64)):
        with pytest.raises(RuntimeError, match="cuIpcOpenEventHandle"):
            cuda.Event.from_ipc_handle("cuda:0", hostile)
    with pytest.raises(ValueError, match="Expected a cuda device"):
        cuda.Event.from_ipc_handle("cpu", bytes(64))
    unrecorded = cuda.Event(interprocess=True)
    assert len(unrecorded.ipc_handle()) == 64 and unrecorded.query()
    with pytest.raises(RuntimeError, match="the event belongs to cuda:0"):
        unrecorded.record(cuda.Stream("cuda:1"))
