"""What arrives in another process: tensors over the same memory, however they travel."""

from __future__ import annotations

import gc
import io
import multiprocessing as plain
import os
import pickle
import signal
import subprocess
import sys
import time
from multiprocessing.reduction import ForkingPickler

import pytest

import flambeau as torch
from flambeau import multiprocessing as mp
from flambeau import nn
from flambeau.multiprocessing import reductions

METHODS = ["fork", "spawn", "forkserver"]
WAIT = 60


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy("file_descriptor")


def named() -> list[str]:
    """Memory of this process that has a name, which somebody would have to remove; Python's locks and heaps have none any more."""
    with open("/proc/self/maps") as file:
        return [line for line in file if "/dev/shm/" in line and "/sem." not in line and "/pym-" not in line]


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def there_and_back(obj):
    """What a child that knows nothing of the object receives and sends back."""
    ours, theirs = mp.Pipe()
    process = mp.get_context("fork").Process(target=echo, args=(theirs, 1))
    process.start()
    ours.send(obj)
    found = ours.recv()
    process.join(WAIT)
    return found


def echo(connection, times):
    for _ in range(times):
        connection.send(connection.recv())


def through_a_pickle(obj):
    """The object as another process would see it: not found in the cache of storages."""
    ours, theirs = mp.Pipe()
    ours.send(obj)
    kept = dict(reductions.shared_cache)
    reductions.shared_cache.clear()
    try:
        return theirs.recv()
    finally:
        reductions.shared_cache.clear()
        reductions.shared_cache.update(kept)


# --- each way, each start method ------------------------------
def answer(given, requests, simple, connection, lock):
    with lock:
        given += 1
    x = requests.get(timeout=WAIT)
    x.mul_(2)
    simple.put(x[1:])
    y = connection.recv()
    y["a"].fill_(7)
    connection.send((y["a"], given))
    connection.close()


@pytest.mark.parametrize("method", METHODS)
def test_every_way_in_every_start_method(method):
    context = mp.get_context(method)
    requests, simple, lock = context.Queue(), context.SimpleQueue(), context.Lock()
    ours, theirs = context.Pipe()
    given = torch.zeros(3)
    process = context.Process(target=answer, args=(given.share_memory_(), requests, simple, theirs, lock))
    process.start()
    theirs.close()
    x, a = torch.arange(4.0), torch.zeros(2, 2, dtype=torch.int64)
    requests.put(x)
    ours.send({"a": a})
    part = simple.get()
    back, last = ours.recv()
    process.join(WAIT)
    assert process.exitcode == 0
    assert given.tolist() == [1, 1, 1] and x.tolist() == [0, 2, 4, 6] and a.tolist() == [[7, 7], [7, 7]]
    assert part.tolist() == [2, 4, 6] and part.untyped_storage() is x.untyped_storage()
    assert back.untyped_storage() is a.untyped_storage() and last.untyped_storage() is given.untyped_storage()


def total(x):
    return x.sum(), x


def test_pools(strategy):
    xs = [torch.full((3,), float(k)) for k in range(5)]
    with mp.get_context("fork").Pool(2) as pool:
        sums = pool.map(total, xs)
        with pytest.raises(RuntimeError, match="Cowardly"):
            pool.apply(total, (torch.ones(2, requires_grad=True) * 2,))
        assert [float(s) for s, _ in sums] == [0, 3, 6, 9, 12]
        assert all(y.untyped_storage() is x.untyped_storage() for x, (_, y) in zip(xs, sums, strict=True))
    with mp.Pool(1) as pool:
        assert pool.apply_async(total, (xs[2],)).get(WAIT)[0] == 6


def test_python_s_own_queues_carry_tensors():
    queue = plain.get_context("fork").SimpleQueue()
    x = torch.arange(3)
    queue.put(x)
    assert queue.get().untyped_storage() is x.untyped_storage()

    def send():
        queue.put(torch.ones(2))

    process = plain.get_context("fork").Process(target=send)
    process.start()
    process.join(WAIT)
    with pytest.raises(RuntimeError, match="fetched from the process that sent it"):
        queue.get()


# --- what travels ------------------------------
def tensors():
    base = torch.arange(24.0).reshape(2, 3, 4)
    yield base
    yield base[1:, ::2].transpose(0, 2)
    yield torch.tensor(3.5)
    yield torch.zeros(0, 3)
    yield torch.ones(2).expand(3, 2)
    yield torch.ones(3, requires_grad=True)
    yield torch.empty(2, 3, device="meta")
    for (
        name
    ) in "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split():
        yield torch.ones(3).to(getattr(torch, name))
    yield torch.ones(2, dtype=torch.complex64).conj()


@pytest.mark.parametrize("place", range(20))
def test_tensors_arrive_as_they_are(place, strategy):
    x = list(tensors())[place]
    y = through_a_pickle(x)
    assert (y.shape, y.stride(), y.dtype, y.device, y.requires_grad, y.storage_offset()) == (
        x.shape,
        x.stride(),
        x.dtype,
        x.device,
        x.requires_grad,
        x.storage_offset(),
    )
    if x.numel() and not x.is_meta:
        assert y.untyped_storage() is not x.untyped_storage() and y.is_shared() and x.is_shared()
        assert y.tolist() == x.tolist()
        with torch.no_grad():
            x.view_as(x)[(0,) * x.ndim] = 0
        assert y.tolist() == x.tolist()


class Named(torch.Tensor):
    pass


def test_leaves_parameters_modules_and_classes(strategy):
    weight = nn.Parameter(torch.ones(2, 2))
    weight.mark, weight.grad = "kept", torch.ones(2, 2)
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    model[2].weight = model[0].weight
    frozen = nn.Parameter(torch.arange(3), requires_grad=False)
    named = torch.ones(2).as_subclass(Named)
    buffer = nn.Buffer(torch.zeros(2), persistent=False)
    w, m, f, n, b = through_a_pickle((weight, model, frozen, named, buffer))
    assert type(w) is nn.Parameter and w.requires_grad and w.mark == "kept" and w.grad is None
    assert type(f) is nn.Parameter and not f.requires_grad and type(n) is Named
    assert type(b) is nn.Buffer and not b.persistent
    assert m[2].weight is m[0].weight and all(p.is_shared() for p in (*m.parameters(), *m.buffers()))
    with torch.no_grad():
        m[0].weight.fill_(3)
    assert model[2].weight.tolist() == [[3, 3], [3, 3]]
    x = torch.ones(4, 2)
    assert torch.equal(m.eval()(x), model.eval()(x))


def test_storages_travel():
    x = torch.arange(4)
    s, part, typed = through_a_pickle((x.untyped_storage(), x.untyped_storage()[8:16], x._typed_storage()))
    assert (
        s.is_shared()
        and typed.untyped() is s
        and typed.dtype is torch.int64
        and part.tolist() == [1] + [0] * 7
    )
    s.fill_(0)
    assert x.tolist() == [0] * 4


def test_one_memory_is_one_storage(strategy):
    """Sent together, one after the other, and back to where it came from."""
    x = torch.arange(6)
    a, (b, c) = through_a_pickle((x, [x, x[2:]]))
    assert a is b and a.untyped_storage() is c.untyped_storage()
    ours, theirs = mp.Pipe()
    ours.send(x), ours.send(x[1:])
    first, second = theirs.recv(), theirs.recv()
    assert first.untyped_storage() is second.untyped_storage() is x.untyped_storage()
    back = there_and_back(x)
    assert back.untyped_storage() is x.untyped_storage()


def test_what_is_computed_and_wants_a_gradient_stays():
    x = torch.ones(2, requires_grad=True)
    for queue in (mp.Queue(), mp.SimpleQueue(), mp.JoinableQueue()):
        with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf"):
            queue.put([x * 2])
        queue.put((x * 2).detach())
        assert queue.get().tolist() == [2, 2]
        queue.close()
    with pytest.raises(RuntimeError, match="Cowardly"):
        mp.Pipe()[0].send(x * 2)


def test_long_messages_with_many_storages():
    """More descriptors than one call of the system takes, more bytes than a socket holds."""
    queue = mp.get_context("fork").Queue()
    raw = os.urandom(3 << 20)
    xs = [torch.full((2,), float(k)) for k in range(600)]
    queue.put((raw, xs, "end"))
    queue.put("next")
    found, ys, end = queue.get(timeout=WAIT)
    assert found == raw and [float(y[0]) for y in ys] == list(range(600)) and end == "end"
    assert queue.get(timeout=WAIT) == "next"
    queue.close()


def test_bytes_and_objects_without_tensors():
    ours, theirs = mp.Pipe()
    ours.send_bytes(b"abc"), ours.send({"k": [1, 2]}), ours.send_bytes(b"")
    assert theirs.poll(WAIT) and theirs.recv_bytes() == b"abc" and theirs.recv() == {"k": [1, 2]}
    assert theirs.recv_bytes() == b"" and not theirs.poll()
    reader, writer = mp.Pipe(duplex=False)
    with pytest.raises(OSError, match="read-only"):
        reader.send(1)
    with pytest.raises(OSError, match="write-only"):
        writer.recv()
    writer.send_bytes(b"too long")
    with pytest.raises(OSError, match="bad message length"):
        reader.recv_bytes(3)


# --- ends ------------------------------
def put_and_die(queue):
    queue.put(torch.arange(1000.0))
    queue.put([torch.ones(3), 5])
    queue.close()
    queue.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_sender_has_sent_arrives():
    queue = mp.get_context("fork").Queue()
    process = mp.get_context("fork").Process(target=put_and_die, args=(queue,))
    process.start()
    process.join(WAIT)
    first, second = queue.get(timeout=WAIT), queue.get(timeout=WAIT)
    assert process.exitcode == -signal.SIGKILL and float(first.sum()) == 499500.0 and second[1] == 5
    assert first.is_shared() and not named()


def take_and_die(connection, times):
    for _ in range(times):
        connection.recv()
    os.kill(os.getpid(), signal.SIGKILL)


def test_ends_that_died_are_errors(strategy):
    through_a_pickle(torch.ones(1))  # a keeper is there, where one is needed
    count = descriptors()
    ours, theirs = mp.Pipe()
    for _ in range(3):
        ours.send(torch.ones(100))
    process = mp.get_context("fork").Process(target=take_and_die, args=(theirs, 1))
    process.start()
    theirs.close()
    process.join(WAIT)
    with pytest.raises((EOFError, ConnectionResetError)):
        ours.recv()
    with pytest.raises(BrokenPipeError):
        ours.send(torch.ones(100))
    ours.close(), process.close()
    assert descriptors() == count and not named()


def test_nothing_stays_open(strategy):
    ours, theirs = mp.Pipe()
    for k in range(101):
        ours.send([torch.ones(10), k])
        x, number = through_other_eyes(theirs)
        assert number == k and float(x.sum()) == 10
        del x
        if k == 0:
            before = descriptors()
    assert descriptors() == before


def through_other_eyes(connection):
    reductions.shared_cache.clear()
    return connection.recv()


def test_messages_that_nobody_reads_are_freed():
    before = descriptors()
    for _ in range(5):
        ours, theirs = mp.Pipe()
        ours.send([torch.ones(10)] * 3)
        ours.send(torch.ones(3))
        theirs.recv_bytes()  # takes the message, opens nothing
        theirs.send_bytes(b"")
        ours.recv_bytes()
        del ours, theirs
    from flambeau.multiprocessing._channels import here

    here.arrived = None
    assert descriptors() == before


def run(program: str) -> subprocess.CompletedProcess:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done


def test_a_receiver_without_descriptors_says_so():
    program = """
import os, resource, flambeau as t
from flambeau import multiprocessing as mp
ours, theirs = mp.Pipe()
ours.send([t.ones(2) for _ in range(20)]), ours.send("after")
pid = os.fork()
if pid == 0:
    mp.reductions.shared_cache.clear()
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 5, 100))
    try:
        theirs.recv()
    except RuntimeError as error:
        assert "file_descriptor" in str(error) and "20 shared storages" in str(error), error
        assert theirs.recv() == "after"
        os._exit(0)
    os._exit(1)
assert os.waitpid(pid, 0)[1] == 0
"""
    run(program)


def test_few_descriptors_serve_many_storages():
    program = """
import os, resource, flambeau as t
from flambeau import multiprocessing as mp
mp.set_sharing_strategy("file_system")
t.ones(1).share_memory_()
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8, 100))
xs = [t.full((2,), float(k)).share_memory_() for k in range(300)]
ours, theirs = mp.Pipe()
pid = os.fork()
if pid == 0:
    mp.reductions.shared_cache.clear()
    ys = theirs.recv()
    [y.add_(1) for y in ys]
    theirs.send(ys[7])
    os._exit(0)
ours.send(xs)
y = ours.recv()
assert os.waitpid(pid, 0)[1] == 0
assert y.untyped_storage() is xs[7].untyped_storage() and [float(x[0]) for x in xs] == list(range(1, 301))
"""
    run(program)


def keepers(folder: str) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with (
                open(f"/proc/{pid}/cmdline", "rb") as file,
                open(f"/proc/{pid}/environ", "rb") as environment,
            ):
                if b"/_keeper.py\0" in file.read() and folder.encode() in environment.read():
                    found.append(int(pid))
        except OSError:  # it has ended, or is another's
            continue
    return found


def test_memory_under_names_goes_with_its_users(tmp_path):
    """The keeper ends when its clients have been killed; a keeper that was killed is an error, not a hang."""
    program = f"""
import os, signal, sys, flambeau as t
from flambeau import multiprocessing as mp
mp.set_sharing_strategy("file_system")
x = t.ones(1000).share_memory_()
print(x.untyped_storage()._keeper.number, flush=True)
if sys.argv[1:] == ["keeper"]:
    pid = [p for p in os.listdir("/proc") if p.isdigit() and b"/_keeper.py\\0" in open(f"/proc/{{p}}/cmdline", "rb").read()
           and {str(tmp_path)!r}.encode() in open(f"/proc/{{p}}/environ", "rb").read()]
    os.kill(int(pid[0]), 9)
    pipe = mp.Pipe()
    for use in (t.ones(3).share_memory_, lambda: pipe[0].send(x)):
        try:
            use()
        except RuntimeError as error:
            assert "file_system" in str(error), error
        else:
            raise AssertionError
    assert float(x.sum()) == 1000 and not any("/dev/shm" in line for line in open("/proc/self/maps"))
else:
    os.kill(os.getpid(), 9)
"""
    environment = {**os.environ, "MARK": str(tmp_path)}
    for arguments, code in ((["keeper"], 0), ([], -signal.SIGKILL)):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=WAIT,
        )
        assert done.returncode == code and done.stdout.strip() == "1", done.stderr
    end = time.monotonic() + WAIT
    while keepers(str(tmp_path)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not keepers(str(tmp_path))


def test_what_an_ended_process_kept_under_names_arrives():
    """The only client of the keeper has gone when the receiver connects."""
    program = """
import os, flambeau as t
from flambeau import multiprocessing as mp
queue = mp.get_context("fork").SimpleQueue()
pid = os.fork()
if pid == 0:
    mp.set_sharing_strategy("file_system")
    queue.put(t.arange(4))
    os.kill(os.getpid(), 9)
os.waitpid(pid, 0)
x = queue.get()
assert x.tolist() == [0, 1, 2, 3] and x.untyped_storage()._keeper is not None
"""
    run(program)


def test_names_of_storages():
    x = torch.arange(4)
    manager, name, nbytes = x.untyped_storage()._share_filename_cpu_()
    other = torch.UntypedStorage._new_shared_filename_cpu(manager, name, nbytes)
    other.fill_(0)
    assert (
        x.tolist() == [0] * 4 and nbytes == 32 and torch.UntypedStorage._new_using_filename_cpu(8).is_shared()
    )
    for wrong in ((manager, b"999999", 8), (b"\0nobody", name, 8), (manager, name, 10**9)):
        with pytest.raises(RuntimeError):
            torch.UntypedStorage._new_shared_filename_cpu(*wrong)
    del x, other
    gc.collect()
    with pytest.raises(RuntimeError, match="kept no more"):
        torch.UntypedStorage._new_shared_filename_cpu(manager, name, nbytes)


# --- hostile handles ------------------------------
class Handle:
    """Pickles as a call of one of the functions that open handles."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class Number:
    """A duplicate that is any number."""

    def __init__(self, fd):
        self.fd = fd

    def detach(self):
        return self.fd


def memory(nbytes):
    fd = os.memfd_create("test")
    os.ftruncate(fd, nbytes)
    return fd


@pytest.mark.parametrize(
    "handle",
    [
        lambda: Handle(reductions._rebuild_beside, 0, 8),
        lambda: Handle(reductions._rebuild_beside, -1, 8),
        lambda: Handle(reductions.rebuild_storage_fd, Number(memory(8)), 4096),
        lambda: Handle(reductions.rebuild_storage_fd, Number(memory(8)), -1),
        lambda: Handle(reductions.rebuild_storage_fd, Number(memory(8)), 2**70),
        lambda: Handle(reductions.rebuild_storage_fd, Number(10**6), 8),
        lambda: Handle(reductions.rebuild_storage_fd, Number(os.open("/dev/null", os.O_RDONLY)), 8),
        lambda: Handle(reductions.rebuild_storage_filename, b"\0nobody", 1, (0, 0), 8),
    ],
)
def test_hostile_handles_are_errors(handle):
    before = descriptors()
    stream = io.BytesIO()
    ForkingPickler(stream, pickle.HIGHEST_PROTOCOL).dump(handle())
    with pytest.raises(RuntimeError):
        pickle.loads(stream.getvalue())
    assert descriptors() <= before + 1


def test_a_message_may_not_say_more_than_came_with_it():
    ours, theirs = mp.Pipe()
    x = torch.ones(2).share_memory_()
    for place, nbytes in ((0, 8), (0, 9), (1, 8), (5, 8)):
        ours.send([x, Handle(reductions._rebuild_beside, place, nbytes)])
        if (place, nbytes) == (0, 8):
            found, again = theirs.recv()
            assert found.untyped_storage() is again
        else:
            with pytest.raises(RuntimeError):
                theirs.recv()


# --- children ------------------------------
def learn(model, connection):
    x = torch.randn(64, 8)
    for _ in range(5):
        loss = (model(x) ** 2).mean()
        for p in model.parameters():
            p.grad = None
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(p.grad, alpha=0.1)
    connection.send((float(loss), [p.grad for p in model.parameters()], torch.get_num_threads()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_trains_what_is_shared(method):
    """Kernels, the pool's threads and the tape work in the child; the parent sees the steps."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    (model(torch.randn(512, 8)) ** 2).mean().backward()
    for p in model.parameters():
        p.share_memory_()
    before = [p.detach().clone() for p in model.parameters()]
    ours, theirs = mp.Pipe()
    process = mp.get_context(method).Process(target=learn, args=(model, theirs))
    process.start()
    loss, gradients, threads = ours.recv()
    process.join(WAIT)
    assert process.exitcode == 0 and loss > 0 and threads >= 1 and len(gradients) == 4
    assert all(not torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
    (model(torch.randn(512, 8)) ** 2).mean().backward()


@pytest.mark.parametrize(
    "make",
    [
        lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
        lambda ps: torch.optim.Adam(ps, lr=0.1),
        lambda ps: torch.optim.AdamW(ps, lr=0.1),
        lambda ps: torch.optim.RMSprop(ps, lr=0.1),
    ],
)
def test_steps_write_to_the_shared_memory(make):
    model = nn.Linear(4, 4)
    seen = []
    for p in model.parameters():
        p.share_memory_()
        seen.append(through_a_pickle(p))
    optimizer = make(model.parameters())
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    assert all(torch.equal(p, s) and p.is_shared() for p, s in zip(model.parameters(), seen, strict=True))


def descend(model, data, seed):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    x, y = data
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(150):
        chosen = torch.randint(0, len(x), (16,))
        optimizer.zero_grad()
        ((model(x[chosen]) - y[chosen]) ** 2).mean().backward()
        optimizer.step()


def test_several_processes_train_one_model():
    """Hogwild: each steps on the same parameters, with no lock."""
    torch.manual_seed(0)
    x, true = torch.randn(200, 5), torch.arange(5.0)
    data = x.share_memory_(), (x @ true).unsqueeze(1).share_memory_()
    model = nn.Linear(5, 1)
    for p in model.parameters():
        p.share_memory_()
    context = mp.get_context("fork")
    processes = [context.Process(target=descend, args=(model, data, seed)) for seed in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(WAIT)
    assert [process.exitcode for process in processes] == [0, 0]
    assert torch.allclose(model.weight, true, atol=0.05) and abs(float(model.bias)) < 0.05


def test_strategies():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    with pytest.raises(AssertionError, match="nothing"):
        mp.set_sharing_strategy("nothing")
    assert mp.get_sharing_strategy() == "file_descriptor"


def test_nothing_of_it_is_imported_at_start():
    program = """
import sys, flambeau
assert not [m for m in sys.modules if m.startswith(("multiprocessing", "flambeau.multiprocessing."))]
assert flambeau.multiprocessing.Process
import flambeau.multiprocessing.queue, flambeau.multiprocessing.pool, flambeau.multiprocessing.reductions
from flambeau.multiprocessing.spawn import ProcessRaisedException
"""
    run(program)


@pytest.mark.parametrize(
    "first",
    ["pool", "queue", "reductions", "spawn", "_channels", "_contexts", "_keeper", "_names", "_public"],
)
def test_any_of_its_modules_may_be_imported_first(first):
    program = f"""
import flambeau.multiprocessing.{first}
import flambeau, types
from flambeau.multiprocessing.spawn import ProcessRaisedException
mp = flambeau.multiprocessing
assert isinstance(mp.spawn, types.FunctionType), mp.spawn
assert isinstance(mp.Queue, types.FunctionType) and isinstance(mp.pool, types.ModuleType), mp.Queue
assert {{*mp.__all__}} <= {{*dir(mp)}}
from flambeau.multiprocessing import *
assert spawn is mp.spawn
"""
    run(program)


def test_a_spawned_script_gets_a_tensor(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        """
import flambeau
import flambeau.multiprocessing as mp

def fill(rank, x):
    x[rank] = rank + 1

if __name__ == "__main__":
    x = flambeau.zeros(2).share_memory_()
    mp.spawn(fill, (x,), nprocs=2)
    assert x.tolist() == [1.0, 2.0], x
"""
    )
    subprocess.run([sys.executable, str(script)], check=True, timeout=WAIT)


def test_everything_of_python_s_is_there():
    assert not [name for name in plain.__all__ if not hasattr(mp, name)]
    assert mp.get_start_method() == plain.get_start_method() and mp.Process is plain.Process
    with pytest.raises(ValueError):
        mp.get_context("nothing")
