"""Loading by workers: what comes out, what goes wrong, what is left behind."""

import collections
import contextlib
import ctypes
import faulthandler
import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref

import numpy as np
import pytest

import flambeau
from flambeau.utils import data
from flambeau.utils.data import DataLoader, get_worker_info
from flambeau.utils.data._utils import transport

LONG = 60  # seconds after which what should not hang is taken to hang; nothing here takes as long
BOTH = pytest.mark.parametrize("worker_type", ["process", "thread"])


def holdings():
    """What a process may leave behind: children, threads, descriptors, maps of batches."""
    gc.collect()
    children = open(f"/proc/self/task/{threading.get_native_id()}/children").read().split()
    threads = [t.name for t in threading.enumerate() if t.name.startswith("flambeau-data")]
    maps = [line for line in open("/proc/self/maps") if "flambeau-batch" in line]
    return children, threads, len(os.listdir("/proc/self/fd")), maps


@pytest.fixture(autouse=True)
def nothing_is_left():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        before = holdings()
        yield
        assert holdings() == before


class Samples(data.Dataset):
    """Sample i is what `function(i)` returns."""

    def __init__(self, n, function):
        self.n, self.function = n, function

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.function(i)


def lists(batch):
    if isinstance(batch, (flambeau.Tensor, np.ndarray)):
        return batch.tolist()
    if isinstance(batch, dict):
        return {key: lists(value) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(lists, batch))
    if isinstance(batch, (list, tuple)):
        return [lists(item) for item in batch]
    return batch


Pair = collections.namedtuple("Pair", "a b")
SAMPLES = {
    "number": lambda i: i,
    "text": lambda i: str(i),
    "small": lambda i: (flambeau.full((3,), float(i)), i),
    "large": lambda i: (flambeau.full((40, 100), float(i)), i),
    "array": lambda i: {"x": np.full((70, 80), i, np.float32), "y": np.int16(i)},
    "pair": lambda i: Pair(flambeau.full((5000,), i, dtype=flambeau.int16), [1.5, b"x"]),
    "empty": lambda i: flambeau.empty(0, 3),
    "view": lambda i: flambeau.arange(20000).reshape(100, 200)[:, i],
    "half": lambda i: flambeau.full((9000,), i, dtype=flambeau.bfloat16),
}


@BOTH
@pytest.mark.parametrize("samples", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 3, "shuffle": True},
        {"batch_sampler": [[3, 4], [0], [1, 2, 5]]},
        {"batch_size": None},
        {"batch_size": 4, "drop_last": True, "prefetch_factor": 1},
        {"batch_size": 3, "collate_fn": list, "persistent_workers": True},
    ],
    ids=["shuffled", "batch_sampler", "no batches", "drop_last", "collate_fn"],
)
def test_batches_are_those_made_without_workers(samples, options, worker_type):
    def passes(**more):
        flambeau.manual_seed(3)
        loader = DataLoader(Samples(10, samples), **more)
        return [[lists(batch) for batch in loader] for _ in range(2)]

    alone = {k: v for k, v in options.items() if k not in ("prefetch_factor", "persistent_workers")}
    assert passes(num_workers=2, worker_type=worker_type, **options) == passes(**alone)


class Kind(flambeau.Tensor):
    pass


def test_types_of_what_travels():
    def collate(samples):
        base = flambeau.arange(30000.0)
        parameter = flambeau.nn.Parameter(flambeau.ones(30000))
        named = base[3:7].as_subclass(Kind)
        named.note = "kept"
        return {
            "views": (base, base[5:]),
            "parameter": parameter,
            "kind": named,
            "array": np.asfortranarray(np.ones((200, 100))),
            "strings": np.array(["a", "b"]),
            "frozen": bytes(100000),
            "turned": flambeau.arange(30000).reshape(100, 300).T,
        }

    (batch,) = DataLoader([0], collate_fn=collate, num_workers=1)
    base, part = batch["views"]
    base[5] = -1
    assert part[0].item() == -1 and part.untyped_storage() is base.untyped_storage()
    assert type(batch["parameter"]) is flambeau.nn.Parameter and batch["parameter"].requires_grad
    assert (
        type(batch["kind"]) is Kind
        and batch["kind"].note == "kept"
        and batch["kind"].tolist() == [3, 4, 5, 6]
    )
    assert (
        batch["array"].flags.f_contiguous and batch["array"].flags.writeable and batch["array"].sum() == 20000
    )
    assert batch["strings"].tolist() == ["a", "b"] and batch["frozen"] == bytes(100000)
    assert batch["turned"].stride() == (1, 300) and batch["turned"][2, 1].item() == 302


def test_a_sample_of_a_large_tensor_travels_alone():
    """Not with the storage that it is a view of."""
    whole = flambeau.zeros(1000, 1000)
    loader = DataLoader(data.TensorDataset(whole), batch_size=None, num_workers=1)
    for (row,) in loader:
        assert row.untyped_storage().nbytes() == 4000


@BOTH
def test_batches_belong_to_who_holds_them(worker_type):
    """Memory is used again only when a batch is dropped, with views and arrays over it."""
    loader = DataLoader(
        Samples(60, lambda i: flambeau.full((5000,), float(i))),
        batch_size=2,
        num_workers=2,
        worker_type=worker_type,
    )
    parts = []
    for k, batch in enumerate(loader):
        if k % 3 == 0:
            parts.append((k, batch[0, 5:9]))
        if k % 3 == 1:
            parts.append((k, batch.numpy()[0]))
        batch += 0.5
    for k, part in parts:
        assert set(part.tolist()) == {2 * k + 0.5}


@pytest.mark.parametrize("options", [{}, {"collate_fn": list}], ids=str)
def test_rows_of_tensors(options):
    """TensorDataset makes its batches at once, into shared memory; a function of the program's gets the samples."""
    x, y = flambeau.arange(60000.0).reshape(6, 100, 100), flambeau.arange(6)
    w = flambeau.ones(6, 5000, requires_grad=True)
    dataset = data.TensorDataset(x[::2], y[::2])
    loader = DataLoader(data.Subset(dataset, [2, 0, -2]), batch_size=2, num_workers=2, **options)
    alone = DataLoader(data.Subset(dataset, [2, 0, -2]), batch_size=2, **options)
    assert lists(list(loader)) == lists(list(alone))
    with pytest.raises(RuntimeError, match="only leaf tensors"):
        list(DataLoader(data.TensorDataset(w), num_workers=1))


def test_memory_is_used_again():
    """A long pass maps a few blocks, not one a batch."""
    places = {
        batch.data_ptr()
        for batch in DataLoader(
            Samples(300, lambda i: flambeau.full((5000,), i)), batch_size=1, num_workers=2
        )
    }
    assert len(places) < 20


def test_memory_in_use_is_not_written_after_a_fork():
    """A child of this process sees the batch that was in use at the fork."""
    loader = DataLoader(Samples(40, lambda i: flambeau.full((5000,), i)), batch_size=1, num_workers=1)
    batches = iter(loader)
    batch = next(batches)
    child_reads, parent_writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(child_reads, 1)  # when the parent has gone on
        os._exit(0 if set(batch[0].tolist()) == {0} else 1)
    del batch
    rest = [other[0, 0].item() for other in batches]
    os.write(parent_writes, b"x")
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(child_reads), os.close(parent_writes)
    assert status == 0 and rest == list(range(1, 40))


def test_many_batches_are_kept_without_descriptors():
    loader = DataLoader(Samples(100, lambda i: flambeau.full((5000,), i)), num_workers=1)
    before = len(os.listdir("/proc/self/fd"))
    batches = list(loader)
    assert len(os.listdir("/proc/self/fd")) == before
    assert [batch[0, -1].item() for batch in batches] == list(range(100))


def test_blocks_where_the_system_has_neither_memfd_nor_fallocate(monkeypatch, tmp_path):
    """As on macOS: an unlinked file, long enough."""
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.delattr(os, "posix_fallocate")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fd = transport._anonymous_file(1 << 20)
    first, second = transport.Block(0, fd, 1 << 20), transport.Block(1, fd, 1 << 20)
    status = os.fstat(fd)
    os.close(fd)
    flambeau.from_numpy(seen(first)).fill_(7)
    assert seen(second).sum() == 7 << 20
    assert (status.st_size, status.st_nlink, os.listdir(tmp_path)) == (1 << 20, 0, [])


def seen(block):
    return np.frombuffer((ctypes.c_uint8 * block.size).from_address(block.address), np.uint8)


def test_messages_larger_than_any_buffer():
    index = list(range(100_000))
    loader = DataLoader(
        Samples(1, str), batch_sampler=[index] * 6, collate_fn="".join, num_workers=1, prefetch_factor=6
    )
    text = "".join(map(str, index))
    assert all(batch == text for batch in loader)


def test_a_batch_of_hundreds_of_tensors():
    many = [[flambeau.full((5000,), i) for i in range(600)]]
    (batch,) = DataLoader(many, batch_size=None, num_workers=1)
    assert [t[-1].item() for t in batch] == list(range(600))


# --- pinned memory ------------------------------


class Pinned:
    """A sample that tells which thread pinned it."""

    def __init__(self, i):
        self.i, self.thread = i, None

    def pin_memory(self):
        if self.i == 3:
            raise MemoryError("no pages to lock")
        self.thread = threading.current_thread().name
        return self


@BOTH
@pytest.mark.parametrize("persistent", [False, True])
def test_batches_are_pinned_by_a_thread(worker_type, persistent, monkeypatch):
    monkeypatch.setattr("flambeau.utils.data._utils.passes.accelerator_type", lambda: "cuda")
    loader = DataLoader(
        Samples(6, Pinned),
        batch_size=None,
        num_workers=2,
        pin_memory=True,
        worker_type=worker_type,
        persistent_workers=persistent,
    )
    for _ in range(2):
        batches = iter(loader)
        results = [next(batches) for _ in range(3)]
        with pytest.raises(MemoryError, match="no pages"):
            next(batches)
        results += batches
        assert [x.i for x in results] == [0, 1, 2, 4, 5]
        assert all(x.thread.startswith("flambeau-data-pin") for x in results)
    next(iter(loader))


# --- who a worker is ------------------------------


@BOTH
def test_what_a_worker_knows(worker_type):
    def seen(i):
        info = get_worker_info()
        return [
            info.id,
            info.num_workers,
            info.seed,
            info.dataset.n,
            info.worker_method,
            flambeau.get_num_threads(),
        ]

    loader = DataLoader(Samples(4, seen), batch_size=None, num_workers=2, worker_type=worker_type)
    results = list(loader)
    seed = results[0][2]
    assert [x[:4] for x in results] == [[i % 2, 2, seed + i % 2, 4] for i in range(4)]
    assert {x[4] for x in results} == {"thread" if worker_type == "thread" else "multiprocessing"}
    assert worker_type == "thread" or {x[5] for x in results} == {1}
    assert get_worker_info() is None


class Parts(data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, self.n, info.num_workers))

    def __len__(self):
        return self.n


@BOTH
@pytest.mark.parametrize("persistent", [False, True])
def test_iterable_datasets_in_parts(worker_type, persistent):
    loader = DataLoader(
        Parts(11), batch_size=2, num_workers=3, worker_type=worker_type, persistent_workers=persistent
    )
    for _ in range(3):
        assert lists(list(loader)) == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8]]
    loader = DataLoader(Parts(11), batch_size=2, num_workers=3, worker_type=worker_type, drop_last=True)
    assert lists(list(loader)) == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10]]
    loader = DataLoader(Parts(2), batch_size=None, num_workers=3, worker_type=worker_type, in_order=False)
    assert sorted(loader) == [0, 1]


@pytest.mark.filterwarnings(
    "ignore:Length of IterableDataset"
)  # pytest shows those beside the one looked for again
def test_copies_of_an_iterable_dataset_are_a_warning():
    class Whole(Parts):
        def __iter__(self):
            return iter(range(self.n))

    loader = DataLoader(Whole(3), num_workers=2)
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="reported as 3 batches, but 6.*each has a copy"):
        assert len(list(loader)) == 6


@BOTH
def test_in_any_order(worker_type):
    """With in_order=False a slow batch does not hold the others up."""
    reads, writes = os.pipe()

    def sample(i):
        if i == 0:
            os.read(reads, 1)
        return i

    loader = DataLoader(
        Samples(9, sample), batch_size=None, num_workers=2, in_order=False, worker_type=worker_type
    )
    results = []
    for i in loader:
        results.append(i)
        if len(results) == 4:
            os.write(writes, b"x")
    os.close(reads), os.close(writes)
    assert 0 not in results[:4] and sorted(results) == list(range(9))


# --- seeds ------------------------------


def draws(i):
    info = get_worker_info()
    if info.rng is not None:
        rng = info.rng
        return (
            rng.random_generator.random(),
            rng.numpy_generator.random(),
            flambeau.rand(2, generator=rng.torch_generator),
        )
    return random.random(), np.random.rand(), flambeau.rand(2)


@BOTH
@pytest.mark.parametrize("persistent", [False, True])
def test_the_same_seed_gives_the_same_batches(worker_type, persistent):
    def run(seed):
        generator = flambeau.Generator().manual_seed(seed)
        loader = DataLoader(
            Samples(8, draws),
            batch_size=2,
            num_workers=2,
            generator=generator,
            worker_type=worker_type,
            persistent_workers=persistent,
        )
        return lists([list(loader), list(loader)])

    first = run(1)
    assert first == run(1) != run(2)
    numbers = {tuple(batch[0]) for one in first for batch in one}
    assert len(numbers) == 8  # no worker and no pass draws what another drew


@BOTH
def test_worker_init_fn(worker_type):
    seen = []

    def begin(number):
        assert get_worker_info().id == number
        get_worker_info().dataset.mark = seen
        seen.append(number)

    loader = DataLoader(
        Samples(2, lambda i: len(seen)),
        batch_size=None,
        num_workers=1,
        worker_init_fn=begin,
        worker_type=worker_type,
        persistent_workers=True,
    )
    assert list(loader) == [1, 1] == list(loader)


# --- errors of the program's code ------------------------------


class Needs(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def failing(error):
    def sample(i):
        if i == 2:
            raise error
        return i

    return sample


@BOTH
@pytest.mark.parametrize(
    "error, raised, text",
    [
        (ValueError("odd one"), ValueError, "odd one"),
        (KeyError("name"), KeyError, "name"),
        (IndexError(7), IndexError, "7"),
        (Needs(1, 2), RuntimeError, "Caught Needs"),
        (StopIteration("early"), RuntimeError, "Samples.__getitem__, or collate_fn, raised StopIteration"),
        (SystemExit(3), RuntimeError, "Caught SystemExit"),
        (KeyboardInterrupt(), RuntimeError, "Caught KeyboardInterrupt"),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, BaseException) else None,
)
def test_errors_in_a_dataset(error, raised, text, worker_type):
    loader = DataLoader(Samples(5, failing(error)), batch_size=None, num_workers=2, worker_type=worker_type)
    batches = iter(loader)
    assert [next(batches), next(batches)] == [0, 1]
    with pytest.raises(raised) as caught:
        next(batches)
    message = str(caught.value)
    assert (
        text in message and "in DataLoader worker " in message and "in sample" in message and "\n" in message
    )
    assert list(batches) == [3, 4]  # the others are made


def test_errors_without_workers_are_themselves():
    error = ValueError("odd one")
    with pytest.raises(ValueError) as caught:
        list(DataLoader(Samples(5, failing(error))))
    assert caught.value is error
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        list(DataLoader(Samples(5, failing(StopIteration()))))


def _raise(*_):
    raise ValueError("no good")


@BOTH
@pytest.mark.parametrize(
    "options", [{"worker_init_fn": _raise}, {"collate_fn": _raise}], ids=lambda options: next(iter(options))
)
def test_errors_in_functions(options, worker_type):
    loader = DataLoader(Samples(4, int), num_workers=2, worker_type=worker_type, **options)
    batches = iter(loader)
    for _ in range(4):
        with pytest.raises(ValueError, match="no good"):
            next(batches)
    assert list(batches) == []


@BOTH
def test_errors_when_iteration_begins(worker_type):
    class Bad(data.IterableDataset):
        def __iter__(self):
            raise ValueError("no good")

    with pytest.raises(ValueError, match="no good"):
        list(DataLoader(Bad(), num_workers=1, worker_type=worker_type))


@BOTH
def test_errors_in_a_sampler_come_after_the_batches_before(worker_type):
    def sampler():
        yield from [0, 1, 2]
        raise LookupError("lost the way")

    results = []
    with pytest.raises(LookupError, match="lost the way"):
        for i in DataLoader(
            Samples(9, int), sampler=sampler(), batch_size=None, num_workers=2, worker_type=worker_type
        ):
            results.append(i)
    assert results == [0, 1, 2]


def test_what_cannot_be_pickled_is_an_error_in_its_turn():
    class Local(Exception):
        pass

    def sample(i):
        if i == 1:
            return lambda: i
        if i == 2:
            raise Local("of a class that nobody finds")
        return i

    batches = iter(DataLoader(Samples(4, sample), batch_size=None, num_workers=1))
    assert next(batches) == 0
    with pytest.raises((AttributeError, TypeError), match="lambda"):
        next(batches)
    with pytest.raises(RuntimeError, match="of a class that nobody finds"):
        next(batches)
    assert list(batches) == [3]


class Refuses:
    def __setstate__(self, state):
        raise OSError("not here")

    def __getstate__(self):
        return {"a": 1}


def test_what_cannot_be_unpickled_is_an_error_in_its_turn():
    loader = DataLoader(Samples(3, lambda i: Refuses() if i == 1 else i), batch_size=None, num_workers=1)
    batches = iter(loader)
    assert next(batches) == 0
    with pytest.raises(
        RuntimeError, match=r"worker 0 \(pid \d+\) cannot be unpickled here: OSError: not here"
    ):
        next(batches)
    assert list(batches) == [2]


# --- workers that die or hang ------------------------------


@pytest.mark.parametrize(
    "end, cause",
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by signal 9, SIGKILL"),
        (
            lambda: (faulthandler.disable(), os.kill(os.getpid(), signal.SIGSEGV)),
            "killed by signal 11, SIGSEGV",
        ),
        (lambda: os._exit(3), "exit code 3"),
    ],
    ids=["SIGKILL", "SIGSEGV", "_exit"],
)
@pytest.mark.parametrize("persistent", [False, True])
def test_a_worker_that_dies_is_an_error_that_names_it(end, cause, persistent):
    def sample(i):
        if i == 5:
            end()
        return i, os.getpid()

    loader = DataLoader(
        Samples(20, sample), batch_size=None, num_workers=2, persistent_workers=persistent, timeout=LONG
    )
    pids = {}
    with pytest.raises(RuntimeError, match="DataLoader worker.*exited unexpectedly") as caught:
        for i, pid in loader:
            pids[i] = pid
    assert f"(pid {pids[1]}, id 1)" in str(caught.value) and cause in str(caught.value)
    if persistent:
        loader.dataset.function = int
        assert list(loader) == list(range(20))


def test_an_idle_worker_that_dies():
    loader = DataLoader(Samples(4, int), batch_size=None, num_workers=2, persistent_workers=True)
    assert list(loader) == [0, 1, 2, 3]
    victim = loader._iterator._workers[1]
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    with pytest.raises(RuntimeError, match=f"pid {victim.pid}, id 1"):
        list(loader)
    assert list(loader) == [0, 1, 2, 3]


def test_a_dead_worker_whose_child_lives():
    """The child holds the other end of the socket: no end of file tells of the death."""

    def sample(i):
        if i == 1:
            if os.fork() == 0:
                with contextlib.suppress(BaseException):
                    time.sleep(3)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    batches = iter(DataLoader(Samples(3, sample), batch_size=None, num_workers=1, timeout=LONG))
    assert next(batches) == 0
    with pytest.raises(RuntimeError, match="SIGKILL"):
        next(batches)


@BOTH
@pytest.mark.parametrize("in_order", [True, False])
def test_a_hanging_worker(worker_type, in_order):
    reads, writes = os.pipe()

    def sample(i):
        if i == 1:
            os.read(reads, 1)
        return i

    loader = DataLoader(
        Samples(4, sample),
        batch_size=None,
        num_workers=2,
        timeout=0.3,
        worker_type=worker_type,
        in_order=in_order,
    )
    batches = iter(loader)
    results = []
    with pytest.raises(RuntimeError, match=r"timed out after 0.3 seconds: .*worker 1 \((pid|thread)"):
        while True:
            results.append(next(batches))
    os.write(writes, b"x")
    results += [
        next(batches) for _ in range(4 - len(results))
    ]  # it waits no longer than asked, and can go on
    assert sorted(results) == [0, 1, 2, 3]
    del batches
    os.close(reads), os.close(writes)


# --- what ends when ------------------------------


@BOTH
def test_iterators_that_are_left(worker_type):
    def make(**more):
        return DataLoader(
            Samples(50, lambda i: flambeau.full((5000,), i)), num_workers=2, worker_type=worker_type, **more
        )

    next(iter(make()))
    for batch in make():
        if len(batch):
            break
    del batch
    batches = (batch + 1 for batch in make())
    next(batches)
    del batches
    iter(make())
    loader = make(persistent_workers=True)
    next(iter(loader))
    del loader
    with contextlib.suppress(ZeroDivisionError):
        for _ in make():
            _ = 1 / 0


@BOTH
def test_loaders_within_loaders(worker_type):
    loader = DataLoader(Samples(3, int), batch_size=None, num_workers=2, worker_type=worker_type)
    assert [(a, b) for a in loader for b in loader] == [(a, b) for a in range(3) for b in range(3)]
    assert list(zip(loader, loader)) == [(0, 0), (1, 1), (2, 2)]


def test_persistent_workers_serve_one_iteration_at_a_time():
    loader = DataLoader(
        Samples(6, lambda i: (i, os.getpid())), batch_size=None, num_workers=2, persistent_workers=True
    )
    first = iter(loader)
    i, pid = next(first)
    second = list(loader)
    assert [i for i, _ in second] == list(range(6)) and second[0][1] == pid
    with pytest.raises(RuntimeError, match="ended when its DataLoader.*was iterated anew"):
        next(first)


@BOTH
def test_in_a_thread_and_from_several(worker_type):
    loader = DataLoader(Samples(10, int), batch_size=None, num_workers=2, worker_type=worker_type)
    results = []
    threads = [threading.Thread(target=lambda: results.append(list(loader))) for _ in range(3)]
    [t.start() for t in threads]
    [t.join(LONG) for t in threads]
    assert results == [list(range(10))] * 3


def test_a_fork_cannot_use_the_iterator_and_does_not_end_it():
    batches = iter(DataLoader(Samples(6, int), batch_size=None, num_workers=2))
    assert next(batches) == 0
    pid = os.fork()
    if pid == 0:
        try:
            next(batches)
        except RuntimeError as error:
            if "of which this is a fork" in str(error):
                del batches
                gc.collect()
                os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert list(batches) == [1, 2, 3, 4, 5]


@BOTH
def test_samplers_and_datasets_that_change_their_minds(worker_type):
    class Shrinks(Samples):
        def __getitem__(self, i):
            if i >= 3:
                raise IndexError(i)
            return i

    loader = DataLoader(Shrinks(5, int), batch_size=None, num_workers=2, worker_type=worker_type)
    batches = iter(loader)
    assert [next(batches) for _ in range(3)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(IndexError):
            next(batches)
    assert list(batches) == [] == list(batches)

    class Short(data.Sampler):
        def __iter__(self):
            return iter([1, 0])

        def __len__(self):
            return 10

    loader = DataLoader(Samples(5, int), sampler=Short(), num_workers=3, worker_type=worker_type)
    assert len(loader) == len(iter(loader)) == 10 and lists(list(loader)) == [[1], [0]]
    assert list(DataLoader(Samples(0, int), num_workers=2, worker_type=worker_type)) == []


def test_iterators_are_not_pickled():
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        iter(DataLoader([1])).__getstate__()


def run(program, *, fails=False, **more):
    """The output of a program in a process of its own."""
    text = (
        "import os, signal, sys, time\nimport flambeau\nfrom flambeau.utils.data import *\n"
        + textwrap.dedent(program)
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=LONG, env={**os.environ, **more}
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stdout + (done.stderr if fails else "")


FOREVER = """
    class Slow(Dataset):
        def __len__(self):
            return 1000
        def __getitem__(self, i):
            if i > 3:
                time.sleep(0.02)
            return flambeau.full((5000,), i)
    loader = DataLoader(Slow(), num_workers=2, worker_type=sys.argv[1] if len(sys.argv) > 1 else "process")
    batches = iter(loader)
    first = next(batches)
    print(*(w.pid for w in batches._workers), flush=True)
"""


def gone(pids, seconds=LONG):
    """Whether these processes end."""
    end = time.monotonic() + seconds
    while any(os.path.exists(f"/proc/{pid}") and "Z" not in state(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def state(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]
    return "Z"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_workers_end_with_a_process_that_is_ended(how, interruptible):
    program = textwrap.dedent(FOREVER) + "for _ in batches: pass\n"
    text = "import os, signal, sys, time\nimport flambeau\nfrom flambeau.utils.data import *\n" + program
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert len(pids) == 2
    if how == signal.SIGINT:  # as a terminal sends it: to all
        os.killpg(process.pid, how)
    else:
        process.send_signal(how)
    out, err = process.communicate(timeout=LONG)
    assert gone(pids)
    assert err.count("Traceback") == err.count("KeyboardInterrupt") == (1 if how == signal.SIGINT else 0)


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_the_interpreter_ends_with_workers(kind):
    program = (
        textwrap.dedent(FOREVER).replace("sys.argv[1]", repr(kind)).replace("if len(sys.argv) > 1", "if True")
    )
    program = program.replace("w.pid for w in batches._workers", "0,")
    out = run(program + "import atexit\natexit.register(lambda: print('orderly'))\n")
    assert "orderly" in out


def test_a_fork_that_exits_does_not_end_the_workers():
    run(
        """
        loader = DataLoader(range(100), batch_size=None, num_workers=2)
        batches = iter(loader)
        assert next(batches) == 0
        if os.fork() == 0:
            sys.exit()  # with atexit functions, multiprocessing's among them
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        assert list(batches) == list(range(1, 100))
        """
    )


def test_a_handler_for_termination_is_the_loaders_alone():
    out = run(
        """
        signal.signal(signal.SIGTERM, lambda *_: (print("saved", os.getpid(), flush=True), sys.exit(0)))
        class Two(Dataset):
            def __len__(self):
                return 100
            def __getitem__(self, i):
                if i == 9:
                    os.kill(os.getpid(), signal.SIGTERM)
                return i
        try:
            list(DataLoader(Two(), num_workers=1))
        except RuntimeError as error:
            assert "signal 15, SIGTERM" in str(error)
            print("named")
        """
    )
    assert out == "named\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start(method, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing, pickle, random
            import flambeau
            from flambeau.utils.data import DataLoader, Dataset, get_worker_info

            class Numbers(Dataset):
                def __init__(self, x):
                    self.x = x
                def __len__(self):
                    return len(self.x)
                def __getitem__(self, i):
                    return self.x[i], i, random.random()

            if __name__ == "__main__":
                x = flambeau.arange(40.0).reshape(10, 4).repeat(1, 2000)
                def run():
                    flambeau.manual_seed(4)
                    loader = DataLoader(Numbers(x), batch_size=2, shuffle=True, num_workers=2,
                                        multiprocessing_context={method!r})
                    return list(loader)
                batches = run()
                assert all(flambeau.equal(a, x[i]) for a, i, _ in batches)
                assert sorted(sum((i.tolist() for _, i, _ in batches), [])) == list(range(10))
                flambeau.manual_seed(4)
                context = multiprocessing.get_context("fork")
                forked = list(DataLoader(Numbers(x), batch_size=2, shuffle=True, num_workers=2, multiprocessing_context=context))
                assert [b[2].tolist() for b in batches] == [b[2].tolist() for b in forked]
                for name, options in {{
                    "dataset": {{"dataset": [lambda: 1]}},
                    "collate_fn": {{"collate_fn": lambda x: x}},
                    "worker_init_fn": {{"worker_init_fn": lambda x: x}},
                }}.items():
                    options.setdefault("dataset", [1, 2])
                    try:
                        list(DataLoader(num_workers=1, multiprocessing_context={method!r}, **options))
                    except (AttributeError, TypeError, pickle.PicklingError) as error:
                        assert f"get their {{name}} by pickle" in str(error) and "lambda" in str(error), error
                    else:
                        raise AssertionError(name)
                assert not multiprocessing.active_children()
                print("done")
            """
        )
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=LONG)
    assert done.stdout == "done\n" and not done.stderr, done.stderr


def test_no_memory_for_a_batch_is_an_error_of_the_batch(monkeypatch):
    def none(fd, start, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", none)
    batches = iter(
        DataLoader(Samples(2, lambda i: flambeau.zeros(9000 * (1 - i))), batch_size=None, num_workers=1)
    )
    with pytest.raises(OSError, match="No space left"):
        next(batches)
    assert next(batches).shape == (0,)


def test_no_descriptors_left_for_a_batch():
    """The memory of a batch comes as a descriptor, which the system leaves out where the process may have no more."""
    out = run(
        """
        import resource
        loader = DataLoader([flambeau.full((9000,), i) for i in range(40)], batch_size=20, collate_fn=list, num_workers=1)
        batches = iter(loader)
        open_now = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 3, open_now + 100))
        try:
            list(batches)
        except RuntimeError as error:
            print(error)
        del batches
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 100, open_now + 100))
        print(len(list(loader)))
        """
    )
    assert "too many open files" in out and out.endswith("2\n")


def test_no_place_to_map_a_batch_is_an_error_of_the_batch(monkeypatch):
    from flambeau.utils.data._utils import transport

    loader = DataLoader(
        Samples(3, lambda i: flambeau.full((9000 * (i != 1),), i)), batch_size=None, num_workers=1
    )
    batches = iter(loader)
    with monkeypatch.context() as patch:
        patch.setattr(transport, "_mmap", lambda *_: transport.ctypes.c_void_p(-1).value)
        with pytest.raises(RuntimeError, match="cannot be unpickled here: OSError.*cannot map"):
            next(batches)
    assert next(batches).shape == (0,)
    assert set(next(batches).tolist()) == {2}


def test_a_worker_that_never_comes_back_is_ended(monkeypatch):
    monkeypatch.setattr("flambeau.utils.data._utils.processes.GRACE", 0.1)

    def sample(i):
        while i:
            time.sleep(LONG)
        return i

    batches = iter(DataLoader(Samples(3, sample), batch_size=None, num_workers=1))
    assert next(batches) == 0
    pid = batches._workers[0].pid
    del batches
    assert not os.path.exists(f"/proc/{pid}")


def test_a_thread_that_never_comes_back_is_left_with_a_warning(monkeypatch):
    monkeypatch.setattr("flambeau.utils.data._utils.threads.GRACE", 0.1)
    come_back = threading.Event()

    def sample(i):
        if i:
            come_back.wait(LONG)
        return i

    batches = iter(DataLoader(Samples(3, sample), batch_size=None, num_workers=1, worker_type="thread"))
    assert next(batches) == 0
    (thread,) = batches._workers
    with pytest.warns(UserWarning, match="worker 0 .* is still in the dataset's code"):
        batches._shutdown_workers()
    come_back.set()
    thread.join(LONG)
    assert not thread.is_alive()


def test_too_many_workers_are_a_warning():
    with pytest.warns(UserWarning, match="will create 1000 worker processes"):
        DataLoader([1], num_workers=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DataLoader([1], num_workers=1000, worker_type="thread")


def test_a_loader_dies_with_its_last_reference():
    """No circle holds it, and with it its workers, until the garbage collector comes."""

    def children():
        return set(open(f"/proc/self/task/{threading.get_native_id()}/children").read().split())

    before = children()  # of other tests
    loader = DataLoader(Samples(4, int), num_workers=1, persistent_workers=True)
    next(iter(loader))
    assert children() > before
    gc.disable()
    try:
        dead = weakref.ref(loader)
        del loader
        assert dead() is None
        assert children() <= before
    finally:
        gc.enable()
