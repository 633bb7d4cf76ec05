"""What `test_cuda_host.py` runs in a process of its own, on the fake driver: tensors of devices in several processes."""

from __future__ import annotations

import gc
import os
import pickle
import signal

import fake_cuda
import pytest

import flambeau
from flambeau import multiprocessing as mp
from flambeau.cuda import _shared

fake = fake_cuda.install()
cuda = flambeau.cuda


def worker(connection):
    """Does as it is told with what it has received last, and says what comes out."""
    held = {}
    while True:
        what, *given = connection.recv()
        if what == "keep":
            held["x"] = given[0]
            connection.send([t.tolist() for t in given])
        elif what == "add":
            held["x"].detach().add_(1)
            cuda.synchronize(held["x"].device)
            connection.send(fake.opened)
        elif what == "drop":
            del given
            held.clear()
            gc.collect()
            connection.send(fake.opened)
        elif what == "send back":
            try:
                connection.send(held["x"])
            except RuntimeError as error:
                connection.send(str(error))
        else:
            return


@pytest.fixture
def peer():
    here, there = mp.get_context("spawn").Pipe()
    process = mp.get_context("spawn").Process(target=worker, args=(there,), daemon=True)
    process.start()

    def ask(*message):
        here.send(message)
        assert here.poll(60)
        return here.recv()

    ask.process = process
    yield ask
    if process.is_alive():
        here.send(("end",))
        process.join(60)
    gc.collect()


def test_both_processes_see_what_either_writes(peer):
    x = flambeau.arange(6.0, device="cuda")
    row = x.view(2, 3)[1]
    fake.set("delay", 1000)
    x.mul_(2)  # queued still when it is received
    assert peer("keep", row, x) == [[6.0, 8.0, 10.0], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]]
    fake.set("delay", 0)
    assert peer("add") == 1  # opened once
    assert x.tolist() == [0.0, 2.0, 4.0, 7.0, 9.0, 11.0] == [*x[:3].tolist(), *row.tolist()]
    place = x.data_ptr()
    assert peer("keep", x) == [x.tolist()] and x.data_ptr() == place  # moved by the first message alone
    assert "received from another process" in peer("send back")


def test_the_sender_keeps_it_until_the_receiver_lets_go(peer):
    cuda.ipc_collect()
    x = flambeau.ones(1000, device="cuda:1")
    assert peer("keep", x, x)[0] == [1.0] * 1000
    place = x.data_ptr()
    del x
    gc.collect()
    cuda.ipc_collect()
    assert [s.data_ptr() for s, *_ in _shared.sent] == [place]
    with cuda.device(1), cuda.use_mem_pool(_shared._pools[1]):
        assert flambeau.empty(1000, device="cuda:1").data_ptr() != place
    assert peer("drop") == 0
    cuda.ipc_collect()
    assert _shared.sent == []


def test_a_parameter_and_what_it_is_sent_with(peer):
    w = flambeau.nn.Parameter(flambeau.ones(2, device="cuda"))
    assert peer("keep", w, w[:0].detach(), flambeau.ones(2)) == [[1.0, 1.0], [], [1.0, 1.0]]
    assert peer("add") == 1 and w.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="Cowardly refusing"):
        peer("keep", w * 2)


def test_a_receiver_that_is_killed(peer):
    x = flambeau.ones(4, device="cuda")
    peer("keep", x)
    os.kill(peer.process.pid, signal.SIGKILL)
    peer.process.join(60)
    x.add_(1)
    assert x.tolist() == [2.0] * 4
    _shared.sent.clear()


def test_what_comes_back_to_its_sender():
    x = flambeau.ones(4, device="cuda")
    y = pickle.loads(mp.reductions.ForkingPickler.dumps(x))
    assert y.data_ptr() == x.data_ptr() and y.untyped_storage() is x.untyped_storage()
    cuda.ipc_collect()
    assert _shared.sent == []


def test_what_cannot_be_received():
    ticket = flambeau.UntypedStorage([1])
    mark = cuda.Event(interprocess=True).ipc_handle()
    for hostile in (bytes(64), b"memory /nowhere 8".ljust(64, b"\0"), os.urandom(64)):
        with pytest.raises(RuntimeError, match="(cu|hip)IpcOpenMemHandle"):
            _shared.rebuild_storage(0, hostile, 8, mark, ticket)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        _shared.rebuild_storage(7, bytes(64), 8, mark, ticket)


def test_a_fork_after_use():
    x = flambeau.ones(4, device="cuda")
    child = os.fork()
    if child == 0:
        try:
            mp.reductions.ForkingPickler.dumps(x)
        except RuntimeError as error:
            os._exit(0 if "Cannot re-initialize CUDA in forked subprocess" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
