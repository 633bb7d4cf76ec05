"""Remote calls: what travels, errors, times, references and when their values die, ends of workers, and what is left of it all."""

from __future__ import annotations

import functools
import gc
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest
from worlds import Ended, results, started, world

import flambeau as torch
from flambeau import nn
from flambeau.distributed import optim, rpc
from flambeau.distributed.nn import RemoteModule
from flambeau.distributed.remote_device import _remote_device
from flambeau.futures import Future


def worker(fn):
    """A function of tests as a worker of a world, which ends when all have come to their end."""

    @functools.wraps(fn)
    def run(rank, size, path, *args, options=None, graceful=True):
        before = set(threading.enumerate())
        given = {"init_method": f"file://{path}", "rpc_timeout": 60.0, **(options or {})}
        rpc.init_rpc(
            f"w{rank}",
            rank=rank,
            world_size=size,
            rpc_backend_options=rpc.TensorPipeRpcBackendOptions(**given),
        )
        result = fn(rank, size, *args)
        rpc.shutdown(graceful)
        left = set(threading.enumerate()) - before
        assert not left, left
        assert not [link for link in gc.get_objects() if type(link) is socket.socket and link.fileno() >= 0]
        return result

    return run


def until(condition, seconds=30.0):
    """Wait for what comes in its own time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.005)


# functions that are called -------------------------------------------------------------------------------------------------
def name():
    return rpc.get_worker_info().name


def same(x):
    return x


def described(t):
    return type(t), t.dtype, tuple(t.shape), t.stride(), t.requires_grad, t.is_leaf, t._base is None


def add_one(t):
    t.add_(1)


def fails(text):
    raise ValueError(text)


class Two(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def fails_with_two():
    raise Two(1, 2)


def leaves():
    raise SystemExit(3)


def unpicklable():
    return threading.Lock()


def climb(depth):
    """A call of the other worker in a call, and so on."""
    return [] if depth == 0 else [name(), *rpc.rpc_sync(1 - rpc.get_worker_info().id, climb, (depth - 1,))]


class Unopenable:
    def __reduce__(self):
        return fails, ("cannot be opened",)


class Count:
    """A value that counts its calls, and of which it is counted how many live."""

    living = weakref.WeakSet()

    def __new__(cls, *args):
        made = super().__new__(cls)
        cls.living.add(made)
        return made

    def __init__(self, start=0):
        self.value = start

    def add(self, more):
        self.value += more
        return self.value

    @rpc.functions.async_execution
    def later(self, to):
        return rpc.rpc_async(to, same, (self.value,)).then(lambda done: done.wait() + 1)


def alive():
    gc.collect()
    return len(Count.living)


def counts():
    info = rpc._get_debug_info()
    return {key: int(info[key]) for key in ("num_owner_rrefs", "num_user_rrefs", "num_forks")}


held = []


def hold(rref):
    held.append(rref)


def use_and_drop(more):
    result = held[0].rpc_sync().add(more)
    held.clear()
    return result


def pass_on(to, rref):
    rpc.rpc_sync(to, hold, (rref,))


@rpc.functions.async_execution
def chained(to, x):
    return rpc.rpc_async(to, same, (x,)).then(lambda done: done.wait() * 2)


@rpc.functions.async_execution
def no_future():
    return 3


@rpc.functions.async_execution
def failing_future():
    future = Future()
    future.set_exception(KeyError("lost"))
    return future


released = threading.Event()


def wait_for_release():
    assert released.wait(60)
    return name()


def release():
    released.set()


def sleeper(seconds):
    time.sleep(seconds)
    return name()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


# what travels ----------------------------------------------------------------------------------------------------------------
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
]


@worker
def calls(rank, size):
    if rank:
        return
    # tensors
    for dtype in DTYPES:
        x = torch.arange(-6, 6).to(dtype).reshape(3, 4)
        views = [x, x.t(), x[::2, 1:], x[1, 2], x[:0], x.expand(2, 3, 4), torch.empty(0, 3, dtype=dtype)]
        for view, copies in zip(views, rpc.rpc_sync("w1", same, (views,)), strict=True):
            assert copies.dtype == dtype and torch.equal(copies, view)
    x = torch.zeros(2, 3, 4)
    assert rpc.rpc_sync(1, described, (x.permute(2, 0, 1),))[3] == x.permute(2, 0, 1).stride()
    assert rpc.rpc_sync(1, described, (x[:, ::2],))[2:4] == ((2, 2, 4), (8, 4, 1))
    z = torch.tensor([1 + 2j, 3 - 1j])
    assert torch.equal(rpc.rpc_sync(1, same, (z.conj(),)), z.conj())
    big = torch.arange(1 << 21, dtype=torch.float64)  # more than sockets hold
    assert torch.equal(rpc.rpc_sync(1, torch.flip, (big, [0])), torch.flip(big, [0]))
    many = [torch.full((k % 3,), float(k)) for k in range(1500)]  # more than a call of the system takes
    assert all(torch.equal(a, b) for a, b in zip(rpc.rpc_sync(1, same, (many,)), many, strict=True))
    # what a tensor is: a leaf outside of contexts, of one class with what it was
    leaf = torch.ones(2, requires_grad=True)
    assert rpc.rpc_sync(1, described, (leaf * 2,))[4:] == (True, True, True)
    assert rpc.rpc_sync(1, described, (nn.Parameter(leaf),))[0] is nn.Parameter
    one, two = rpc.rpc_sync(1, same, ((leaf, leaf),))
    assert one is two and one is not leaf
    sparse = torch.eye(3).to_sparse()
    assert torch.equal(rpc.rpc_sync(1, same, (sparse,)).to_dense(), torch.eye(3))
    layer = rpc.rpc_sync(1, same, (nn.Linear(2, 3),))
    assert [tuple(p.shape) for p in layer.parameters()] == [(3, 2), (3,)]
    # calls to oneself copy, too
    for to in ("w0", "w1"):
        t = torch.zeros(2)
        rpc.rpc_sync(to, add_one, (t,))
        assert t.tolist() == [0, 0]
    assert rpc.rpc_sync(rpc.get_worker_info(), name) == "w0"
    # ways to name a worker, arguments by name, methods, operations
    for to in ("w1", 1, rpc.get_worker_info("w1")):
        assert rpc.rpc_sync(to, name) == "w1"
    assert rpc.rpc_sync("w1", sorted, ([2, 1],), {"reverse": True}) == [2, 1]
    assert rpc.rpc_sync("w1", torch.Tensor.add, (torch.ones(2), 3)).tolist() == [4, 4]
    # many at once, from many threads
    futures = [rpc.rpc_async(k % 2, max, (k, 5)) for k in range(500)]
    assert [future.wait() for future in futures] == [max(k, 5) for k in range(500)]
    results = []
    threads = [
        threading.Thread(target=lambda k=k: results.append(rpc.rpc_sync("w1", same, (k,)))) for k in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(20))
    with rpc._wait_all():
        futures = [rpc.rpc_async("w1", same, (k,)) for k in range(3)]
    assert all(future.done() for future in futures)
    # a callback that calls
    future = rpc.rpc_async("w1", same, (2,)).then(lambda done: rpc.rpc_sync("w1", same, (done.wait() + 1,)))
    assert future.wait() == 3
    # calls in calls, more than there are threads; calls that wait for each other by other means
    assert climb(60) == ["w0", "w1"] * 30
    waiting = [rpc.rpc_async("w1", wait_for_release) for _ in range(12)]
    rpc.rpc_sync("w1", release)
    assert {future.wait() for future in waiting} == {"w1"}
    # functions that return Futures
    assert rpc.rpc_sync("w1", chained, ("w0", torch.ones(2))).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="must return a torch.futures.Future object, but got type int"):
        rpc.rpc_sync("w1", no_future)
    with pytest.raises(KeyError, match="lost"):
        rpc.rpc_sync("w1", failing_future)
    with pytest.raises(RuntimeError, match="but got type int"):
        rpc.remote("w1", no_future).to_here()


def test_calls(tmp_path):
    world(2, functools.partial(calls, options={"num_worker_threads": 4}), tmp_path / "store", form=False)


@worker
def errors(rank, size):
    if rank:
        return
    with pytest.raises(ValueError) as caught:
        rpc.rpc_sync("w1", fails, ("bad\nnews",))
    text = str(caught.value)
    assert text.startswith("On WorkerInfo(id=1, name=w1):\nValueError('bad\\nnews')\nTraceback")
    assert "in fails" in text and "bad\nnews" in text
    with pytest.raises(RuntimeError, match="Failed to create original exception type.*missing 1 required"):
        rpc.rpc_sync("w1", fails_with_two)
    with pytest.raises(RuntimeError, match="SystemExit"):
        rpc.rpc_sync("w1", leaves)
    with pytest.raises(TypeError, match="cannot pickle '_thread.lock' object"):
        rpc.rpc_sync("w1", unpicklable)
    with pytest.raises(ValueError, match="cannot be opened"):
        rpc.rpc_sync("w1", same, (Unopenable(),))
    with pytest.raises(ValueError, match="cannot be opened"):
        rpc.rpc_sync("w1", Unopenable)
    assert isinstance(rpc.rpc_async("w1", fails, ("x",)), Future)
    # before anything is sent
    sent = rpc._get_current_rpc_agent().sent
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        rpc.rpc_sync("w1", lambda: 1)
    for to in ("w7", 2, -1):
        with pytest.raises(RuntimeError, match=f"could not find destination (name|id) {to}"):
            rpc.rpc_sync(to, name)
    with pytest.raises(ValueError, match="Cannot get WorkerInfo from name None"):
        rpc.rpc_sync(None, name)
    with pytest.raises(TypeError, match="function should be callable"):
        rpc.rpc_sync("w1", 3)
    with pytest.raises(RuntimeError, match="RPC is already initialized"):
        rpc.init_rpc("w0", rank=0, world_size=2)
    assert rpc._get_current_rpc_agent().sent == sent
    # time
    with pytest.raises(RuntimeError, match=r"RPC to w1 ran for more than set timeout \(50 ms\)"):
        rpc.rpc_sync("w1", sleeper, (0.3,), timeout=0.05)
    assert rpc.rpc_sync("w1", sleeper, (0.05,), timeout=0) == "w1"
    slow = rpc.remote("w1", sleeper, (0.3,), timeout=0.05)
    until(lambda: slow._get_future().done())
    with pytest.raises(RuntimeError, match="ran for more than set timeout"):
        slow.to_here()
    assert not slow.confirmed_by_owner()
    assert rpc.get_rpc_timeout() == 60
    rpc._set_rpc_timeout(0.05)
    with pytest.raises(RuntimeError, match="50 ms"):
        rpc.rpc_sync("w1", sleeper, (0.3,))
    rpc._set_rpc_timeout(60)
    # a child is in no world, and leaves the parent's alone
    child = os.fork()
    if child == 0:
        try:
            rpc.rpc_sync("w1", name)
        except RuntimeError as error:
            os._exit("RPC has not been initialized" not in str(error))
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert rpc.rpc_sync("w1", name) == "w1"


def test_errors(tmp_path):
    world(2, errors, tmp_path / "store", form=False)


# references ------------------------------------------------------------------------------------------------------------------
@worker
def references(rank, size):
    if rank:
        return
    mine = rpc.RRef(Count(5))
    assert mine.is_owner() and mine.owner().name == mine.owner_name() == "w0" and mine.confirmed_by_owner()
    assert str(mine).startswith("OwnerRRef(GloballyUniqueId(created_on=0, local_id=")
    assert mine.local_value() is mine.to_here() and mine.rpc_sync().add(1) == 6
    theirs = rpc.remote("w1", Count, (10,))
    assert not theirs.is_owner() and theirs.owner().id == 1 and str(theirs).startswith("UserRRef(RRefId = ")
    with pytest.raises(RuntimeError, match="can't call localValue.*Call it on owner"):
        theirs.local_value()
    assert theirs.rpc_sync().add(1) == 11 and theirs.rpc_async().add(1).wait() == 12
    assert theirs.remote().add(1).to_here() == 13 and theirs.to_here().value == 13
    assert theirs.rpc_sync().later("w0") == 14 and theirs.remote().later("w2").to_here() == 14
    assert theirs.confirmed_by_owner()
    with pytest.raises(AttributeError, match="no_such"):
        theirs.rpc_sync().no_such()
    for copy in (pickle.dumps, __import__("copy").deepcopy):
        with pytest.raises(RuntimeError, match="rref can only be pickled when using RPC"):
            copy(theirs)
    assert rpc.rpc_sync("w1", same, (mine,)).local_value() is mine.local_value()
    lost = rpc.remote("w1", fails, ("no value",))
    with pytest.raises(ValueError, match="no value"):
        lost.to_here()
    until(lost._get_future().done)
    with pytest.raises(ValueError, match="no value"):
        rpc.rpc_sync("w2", same, (lost,))
    local = rpc.remote("w0", Count, (1,))
    assert local.is_owner() and local.local_value().value == 1
    # values die with their last user, wherever that is
    del local, lost
    until(lambda: alive() == 1)
    rpc.rpc_sync("w2", hold, (theirs,))
    rpc.rpc_sync("w2", pass_on, ("w0", theirs))
    rpc.rpc_sync("w2", pass_on, ("w1", theirs))  # to its owner
    del theirs
    gc.collect()
    assert rpc.rpc_sync("w1", alive) == 1
    for k, user in enumerate((2, 1, 0)):
        assert rpc.rpc_sync("w1", alive) == 1
        assert rpc.rpc_sync(user, use_and_drop, (1,)) == 14 + k
    until(lambda: rpc.rpc_sync("w1", alive) == 0)
    # dropped at once; used in a message and dropped; in a call that fails; in a reply that comes too late
    rpc.remote("w1", Count)
    rpc.rpc_async("w2", hold, (rpc.remote("w1", Count),)).wait()
    rpc.rpc_async("w1", hold, (rpc.remote("w1", Count),)).wait()
    for _ in range(20):
        rpc.rpc_sync("w2", same, (rpc.remote("w1", Count),))
        rpc.rpc_async("w2", same, (rpc.RRef(Count()),))
    for bad in (Unopenable(), threading.Lock()):
        for to in ("w1", "w2"):
            with pytest.raises((ValueError, TypeError)):
                rpc.rpc_sync(to, same, ((rpc.remote("w1", Count), rpc.RRef(Count()), bad),))
    with pytest.raises(RuntimeError, match="ran for more"):
        rpc.rpc_sync("w2", slowly, (rpc.remote("w1", Count),), timeout=0.02)
    rpc.rpc_sync("w1", held.clear)
    rpc.rpc_sync("w1", forget)
    rpc.rpc_sync("w2", forget)
    del mine
    for user in range(size):
        until(lambda user=user: rpc.rpc_sync(user, alive) == 0)
        until(lambda user=user: set(rpc.rpc_sync(user, counts).values()) == {0})
    agents = [rpc.rpc_sync(user, early) for user in range(size)]
    assert agents == [0] * size


def slowly(rref):
    time.sleep(0.2)
    return rref


def forget():
    held.clear()


def early():
    return len(rpc._get_current_rpc_agent().references.early)


def overtaken(rank, size, path):
    """Another worker's message with a reference arrives before the creator's, which makes the value."""
    worker(_overtaken)(rank, size, path)


def _overtaken(rank, size):
    from flambeau.distributed.rpc._references import NEWS, Id, Owned

    references = rpc._get_current_rpc_agent().references
    value, theirs, mine = Id(7, 0), Id(5, 0), Id(7, 1)
    references.reported(NEWS.pack(*value, *theirs, 5))
    owned = references.find(value)
    references.delete_fork(value, theirs)
    assert references.find(value) is owned
    references.reported(NEWS.pack(*value, *mine, 7))
    assert references.find(value) is owned
    references.delete_fork(value, Id(3, 3))  # before it is reported
    references.reported(NEWS.pack(*value, *Id(3, 3), 3))
    assert references.find(value) is owned and not references.early
    references.delete_fork(value, mine)
    assert not references.owned
    # one whose creator dies first
    references.reported(NEWS.pack(*value, *theirs, 5))
    references.died(7)
    references.delete_fork(value, theirs)
    assert not references.owned and isinstance(owned, Owned)


def test_messages_that_overtake(tmp_path):
    world(1, overtaken, tmp_path / "store", form=False)


def test_references(tmp_path):
    world(3, references, tmp_path / "store", form=False)


# trees of calls --------------------------------------------------------------------------------------------------------------
def tree(seed, depth):
    """A random tree of calls: what it comes to is known without them."""
    rng = random.Random(seed)
    total = torch.full((rng.randrange(4),), float(seed % 97)).sum()
    if depth == 0:
        return total
    parts = []
    for k in range(rng.randrange(1, 4)):
        to, way, below = rng.randrange(3), rng.randrange(4), (seed * 31 + k + 1, depth - 1)
        if way == 0:
            parts.append(rpc.rpc_sync(to, tree, below))
        elif way == 1:
            parts.append(rpc.rpc_async(to, tree, below))
        elif way == 2:
            parts.append(rpc.remote(to, tree, below))
        else:
            parts.append(rpc.remote(to, Count, (tree_alone(*below),)))
    for part in parts:
        if isinstance(part, Future):
            part = part.wait()
        elif isinstance(part, rpc.RRef):
            part = part.to_here()
            part = part.value if isinstance(part, Count) else part
        total = total + part
    return total


def tree_alone(seed, depth):
    rng = random.Random(seed)
    total = torch.full((rng.randrange(4),), float(seed % 97)).sum()
    if depth:
        for k in range(rng.randrange(1, 4)):
            rng.randrange(3), rng.randrange(4)
            total = total + tree_alone(seed * 31 + k + 1, depth - 1)
    return total


@worker
def trees(rank, size):
    for seed in range(rank, 30, size):  # all workers at once
        assert torch.equal(tree(seed, 3), tree_alone(seed, 3))


def test_trees_of_calls(tmp_path):
    world(3, functools.partial(trees, options={"num_worker_threads": 2}), tmp_path / "store", form=False)


# modules and parts of names --------------------------------------------------------------------------------------------------
def named(module):
    return type(module).__name__, module.on


@worker
def modules(rank, size):
    if rank:
        return
    module = RemoteModule("w1/cpu", nn.Linear, (2, 3), {"bias": False})
    assert isinstance(module, nn.Module)
    weight = module.remote_parameters()[0].to_here()
    x = torch.ones(4, 2)
    assert torch.equal(module(x), x @ weight.t()) and torch.equal(
        module.forward_async(x).wait(), x @ weight.t()
    )
    again = RemoteModule.init_from_module_rref("rank:1", module.get_module_rref())
    assert torch.equal(again(input=x), module(x))
    assert rpc.rpc_sync("w1", named, (module,)) == ("RemoteModule", "w1")
    assert torch.equal(rpc.rpc_sync("w1", same, (module,))(x), module(x))
    dropout = RemoteModule("w1", nn.Dropout, (1.0,))
    assert dropout(x).sum() == 0 and torch.equal(dropout.eval()(x), x) and not dropout.training
    assert dropout.train()(x).sum() == 0
    for refused in (
        "state_dict",
        "cuda",
        "to",
        "named_parameters",
        "zero_grad",
        "register_forward_hook",
        "float",
    ):
        with pytest.raises(ValueError, match=f"Method ``{refused}`` not supported for RemoteModule"):
            getattr(module, refused)()
    with pytest.raises(ValueError, match="use ``remote_parameters`` instead"):
        module.parameters()
    with pytest.raises(RuntimeError, match="Cannot pickle RemoteModule in python pickler"):
        pickle.dumps(module)
    with pytest.raises(ValueError, match="returns an instance of <class 'dict'>"):
        RemoteModule("w1", dict)(x)
    with pytest.raises(ValueError, match="Could not parse remote_device: w1/cpu/3"):
        RemoteModule("w1/cpu/3", nn.Linear, (2, 3))
    with pytest.raises(ValueError, match="names no worker"):
        RemoteModule("cpu", nn.Linear, (2, 3))
    with pytest.raises(TypeError, match=r"params_rref\[0\] must be a RRef"):
        optim.DistributedOptimizer(torch.optim.SGD, [x])


def test_remote_modules(tmp_path):
    world(2, modules, tmp_path / "store", form=False)


def test_names_of_devices():
    for text, name, rank, device in [
        ("w/cpu", "w", None, "cpu"),
        ("w", "w", None, "cpu"),
        ("rank:3/cpu", None, 3, "cpu"),
        ("rank:3", None, 3, "cpu"),
        ("cpu", None, None, "cpu"),
        ("cuda:1", None, None, "cuda:1"),
    ]:
        result = _remote_device(text)
        assert (result.worker_name(), result.rank(), str(result.device())) == (name, rank, device)
        assert result == _remote_device(text) and hash(result) == hash(_remote_device(text))
    for text in ("", "/cpu", "w/cpu/1", "rank:x/cpu", "a:b:c/cpu"):
        with pytest.raises(ValueError, match="Could not parse remote_device"):
            _remote_device(text)
    with pytest.raises(TypeError, match="Invalid type for remote_device"):
        _remote_device(3)


# the beginning and the end ---------------------------------------------------------------------------------------------------
def meet(rank, size, path, told, names, ranks):
    try:
        rpc.init_rpc(
            names[rank],
            rank=ranks[rank],
            world_size=told[rank],
            rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
                init_method=f"file://{path}", rpc_timeout=1.0 if max(ranks) < size - 1 else 20.0
            ),
        )
    except RuntimeError as error:
        assert not rpc._is_current_rpc_agent_set()
        return str(error)


@pytest.mark.parametrize(
    ("told", "names", "ranks", "message"),
    [
        ((2, 2), ("a", "a"), (0, 1), "ranks 0 and 1 have the same name 'a'"),
        ((2, 3), ("a", "b"), (0, 1), "world_size is . on rank . .*, and . on rank"),
        ((2, 2), ("a", "b"), (0, 0), "rank 0 is taken by another process|rank 1 did not come within"),
    ],
)
def test_workers_that_disagree(told, names, ranks, message, tmp_path):
    import re

    for result in world(2, meet, tmp_path / "store", told, names, ranks, form=False):
        assert re.search(message, result), result


@worker
def alone(rank, size):
    assert rpc.rpc_sync("w0", name) == "w0" and rpc.get_worker_info().id == 0
    assert rpc.remote("w0", Count, (3,)).to_here().value == 3


def several_times(rank, size, path):
    for _ in range(3):
        alone(rank, size, path)
    with pytest.raises(RuntimeError, match="RPC has not been initialized"):
        rpc.shutdown()


def test_a_world_of_one_several_times(tmp_path):
    world(1, several_times, tmp_path / "store", form=False)


@worker
def leave_late(rank, size):
    """Who comes late to the end is still served, and the end waits for calls between others."""
    if rank == 0:
        return None
    time.sleep(0.1)
    return [rpc.rpc_sync("w0", name), rpc.rpc_async("w0", rpc.rpc_sync, (2, sleeper, (0.2,))) and 1]


def references_after(rank, size, path):
    references = []
    worker(lambda rank, size: references.extend((rpc.RRef(1), rpc.remote(1, same, (2,)))))(rank, size, path)
    with pytest.raises(RuntimeError, match="RPC has not been initialized"):
        references[0].local_value()
    with pytest.raises(RuntimeError, match="has not been initialized|has been deleted"):
        references[1].to_here()


def test_the_end(tmp_path):
    assert world(3, leave_late, tmp_path / "store", form=False) == [None, ["w0", 1], ["w0", 1]]
    world(2, references_after, tmp_path / "other", form=False)


# faults ----------------------------------------------------------------------------------------------------------------------
def with_dead(rank, size, path, ready):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{path}")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=size, rpc_backend_options=options)
    if rank == 2:
        rpc.rpc_sync("w0", name)
        mine = rpc.remote("w0", Count)
        assert mine.to_here().value == 0
        threading.Event().wait()
    theirs = rpc.remote("w2", Count)
    assert theirs.to_here().value == 0
    if rank == 0:
        until(lambda: alive() == 1)  # worker 2 has it
    pending = rpc.rpc_async("w2", sleeper, (100.0,))
    if rank == 0:
        rpc.rpc_async("w2", die)
    with pytest.raises(RuntimeError, match="RPC to w2 failed: worker w2 died"):
        pending.wait()
    with pytest.raises(RuntimeError, match="RPC to w2 failed: worker w2 died"):
        rpc.rpc_sync("w2", name)
    with pytest.raises(RuntimeError, match="worker w2 died"):
        theirs.to_here()
    assert rpc.rpc_sync(1 - rank, name) == f"w{1 - rank}"
    until(lambda: alive() == 0)  # what the dead one had is free
    assert rpc._all_gather(rank, {"w0", "w1"}) == {"w0": 0, "w1": 1}
    rpc._barrier({"w0", "w1"})
    with pytest.raises(RuntimeError, match="worker w2 died|worker w. has shut down"):
        rpc.shutdown()
    assert not rpc._is_current_rpc_agent_set()


def test_a_worker_that_is_killed(tmp_path):
    result = world(3, with_dead, tmp_path / "store", None, form=False)
    assert isinstance(result[2], Ended) and result[2].code == -signal.SIGKILL and result[:2] == [None, None]


def address(rank):
    agent = rpc._get_current_rpc_agent()
    return agent._addresses[rank]


def is_cut_off(link):
    try:
        return link.recv(100) == b""
    except ConnectionResetError:
        return True


@worker
def with_strangers(rank, size, done):
    if rank:
        until(done.exists)
        return
    host, port = address(1)
    assert host == "127.0.0.1"
    for said in (b"GET / HTTP/1.1\r\n\r\n" * 9, bytes(44), os.urandom(4096)):
        with socket.create_connection((host, port), 20) as link:
            link.sendall(said)
            assert is_cut_off(link)
    waiting = socket.create_connection((host, port), 20)  # says nothing
    assert rpc.rpc_sync("w1", name) == "w1"
    # one that knows the secret and then speaks nonsense is a worker that is gone
    from flambeau.distributed.rpc import _connection

    secret = rpc._get_current_rpc_agent()._secret
    link = _connection.connect((host, port), 1, 0, secret, 20)
    link.sendall(b"nonsense" * 100)
    assert is_cut_off(link)
    link.close()
    waiting.close()
    with pytest.raises(ConnectionError, match="another program"):
        _connection.connect((host, port), 7, 0, secret, 20)
    done.touch()


def test_peers_that_speak_nonsense(tmp_path):
    strangers = functools.partial(with_strangers, graceful=False)
    world(2, strangers, tmp_path / "store", tmp_path / "done", form=False)


def frozen(rank, size, path):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{path}")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=size, rpc_backend_options=options)
    if rank == 1:
        threading.Event().wait()
    pid = rpc.rpc_sync("w1", os.getpid)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(RuntimeError, match="RPC to w1 ran for more than set timeout"):
        rpc.rpc_sync("w1", same, (torch.ones(1 << 24),), timeout=0.2)  # more than the system takes
    with pytest.raises(RuntimeError, match="w1 did not come within|calls of w0 are still underway"):
        rpc.shutdown(timeout=0.2)
    os.kill(pid, signal.SIGKILL)


def test_a_worker_that_is_frozen(tmp_path):
    with started(2, frozen, tmp_path / "store", form=False) as (processes, pipes):
        assert isinstance(results(processes, pipes)[1], Ended)


# the page of the documentation -------------------------------------------------------------------------------------------------
def test_the_program_of_the_page(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "rpc.md").read_text()
    (tmp_path / "server.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    command = page.partition("    python -m ")[2].partition("\n")[0]
    result = subprocess.run(
        [sys.executable, "-m", *command.split()], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    losses = result.stdout.partition("losses of the trainers: ")[2]
    assert len(losses.strip().strip("[]").split(",")) == 2, result.stdout


# what is refused without a world -----------------------------------------------------------------------------------------------
def test_without_a_world():
    for call in (rpc.get_worker_info, rpc.get_rpc_timeout, rpc.shutdown, lambda: rpc.RRef(1)):
        with pytest.raises(RuntimeError, match="RPC has not been initialized. Call .*init_rpc first"):
            call()
    with pytest.raises(TypeError, match="Argument backend must be a member of BackendType"):
        rpc.init_rpc("w0", backend=3, rank=0, world_size=1)
    with pytest.raises(TypeError, match="must be an instance of RpcBackendOptions"):
        rpc.init_rpc("w0", rank=0, world_size=1, rpc_backend_options=3)
    for bad in ("", "a b", "a" * 128, "a/b"):
        with pytest.raises(ValueError, match="name may have letters"):
            rpc.init_rpc(bad, rank=0, world_size=1)
    for options, error in [
        ({"num_worker_threads": 0}, ValueError),
        ({"rpc_timeout": -1}, ValueError),
        ({"rpc_timeout": "1"}, TypeError),
        ({"init_method": 3}, TypeError),
        ({"device_maps": {"w1": {0: 1}}}, NotImplementedError),
        ({"devices": [0]}, NotImplementedError),
    ]:
        with pytest.raises(error):
            rpc.TensorPipeRpcBackendOptions(**options)
    with pytest.raises(ValueError, match="rank parameter missing"):
        rpc.init_rpc(
            "w0",
            world_size=1,
            rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:1"),
        )
