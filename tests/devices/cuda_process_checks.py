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


def test_tensors_of_several_devices():
    comm = cuda.comm
    x = flambeau.arange(10.0).reshape(5, 2)
    places = [flambeau.device("cuda:0"), flambeau.device("cuda:1")]
    for copies in (
        comm.broadcast(x, [0, "cuda:1"]),
        comm.broadcast(x, out=[flambeau.empty(5, 2, device=p) for p in places]),
    ):
        assert [c.device for c in copies] == places and all(c.cpu().equal(x) for c in copies)
    assert comm.broadcast(copies[0], [0])[0] is copies[0]
    grid = comm.broadcast_coalesced([x, x[0]], iter([0, 1]))
    assert [[t.device.index for t in row] for row in grid] == [[0, 0], [1, 1]] and grid[1][1].tolist() == [
        0.0,
        1.0,
    ]
    cut = comm.scatter(x, [0, 1], streams=[cuda.Stream(0), None])
    cuda.synchronize(0)
    assert [c.shape[0] for c in cut] == [3, 2] and [c.device for c in cut] == places
    assert comm.gather(cut, destination="cpu").equal(x) and comm.gather(cut).device == places[0]
    assert comm.gather(cut, out=flambeau.empty(5, 2, device="cuda:1")).cpu().equal(x)
    with pytest.warns(FutureWarning, match="-1 to represent CPU"):
        assert comm.gather(cut, destination=-1).equal(x)
    uneven = comm.scatter(copies[0], [1, 0], [1, 4])
    assert [u.tolist() for u in uneven] == [x[:1].tolist(), x[1:].tolist()]
    given = [flambeau.empty(5, 1, device=p) for p in places]
    assert comm.scatter(x, out=given, dim=1)[1] is given[1] and given[1].cpu().equal(x[:, 1:])
    for total in (comm.reduce_add(copies), comm.reduce_add_coalesced([[c] for c in copies])[0]):
        assert total.device == places[0] and total.cpu().equal(2 * x)
    three = comm.reduce_add([copies[1], copies[1], copies[0]], 1)
    assert three.device == places[1] and three.cpu().equal(3 * x) and copies[1].cpu().equal(x)
    assert comm.reduce_add(copies[:1]) is copies[0]


def test_wrong_tensors_of_several_devices():
    comm, x = cuda.comm, flambeau.ones(4, device="cuda")
    for use, error, text in (
        (lambda: comm.broadcast(x), RuntimeError, "Exactly one of 'devices' and 'out'"),
        (lambda: comm.broadcast(x, ["cpu"]), ValueError, "Expected a cuda device"),
        (lambda: comm.broadcast(x, [5]), RuntimeError, "invalid device ordinal"),
        (lambda: comm.reduce_add([x, x.cpu()]), AssertionError, "input 1 is on CPU"),
        (lambda: comm.reduce_add([x, x[:2]]), ValueError, "got 2, but expected 4"),
        (lambda: comm.reduce_add([x, x], 1), RuntimeError, "on the same GPU with one of the tensors"),
        (lambda: comm.scatter(x), RuntimeError, "either 'devices' or 'out'"),
        (lambda: comm.scatter(x, [0], out=[x]), RuntimeError, "'devices' must not be specified"),
        (lambda: comm.scatter(x, None, [4], out=[x]), RuntimeError, "'chunk_sizes' must not be"),
        (lambda: comm.scatter(x, [0, 1], [1, 2]), RuntimeError, r"\[1, 2\] must add up to 4"),
        (lambda: comm.scatter(x, [0, 1], [4]), ValueError, "2 chunk_sizes expected"),
        (lambda: comm.scatter(x, [0], streams=[]), ValueError, "1 streams expected"),
        (lambda: comm.gather([x, x], destination=0, out=x), RuntimeError, "'destination' must not be"),
        (lambda: comm.gather([x, x], out=x), RuntimeError, r"of shape \(8,\), got \(4,\)"),
    ):
        with pytest.raises(error, match=text):
            use()


def test_an_event_of_two_processes():
    event = cuda.Event(interprocess=True)
    cuda.synchronize()
    fake.set("delay", -1)
    x = flambeau.ones(3, device="cuda") + 1
    event.record()
    handle = event.ipc_handle()
    assert isinstance(handle, bytes) and len(handle) == 64 and handle == event.ipc_handle()
    waiter = subprocess.Popen(
        [sys.executable, "-c", WAITER, handle.hex()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
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
        with pytest.raises(RuntimeError, match="(cu|hip)IpcOpenEventHandle"):
            cuda.Event.from_ipc_handle("cuda:0", hostile)
    with pytest.raises(ValueError, match="Expected a cuda device"):
        cuda.Event.from_ipc_handle("cpu", bytes(64))
    unrecorded = cuda.Event(interprocess=True)
    assert len(unrecorded.ipc_handle()) == 64 and unrecorded.query()
    with pytest.raises(RuntimeError, match="the event belongs to cuda:0"):
        unrecorded.record(cuda.Stream("cuda:1"))
