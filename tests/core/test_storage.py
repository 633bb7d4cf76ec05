"""Storages: bytes and slices, files, memory that processes share, and what must never be touched."""

from __future__ import annotations

import copy
import gc
import mmap
import os
import pickle
import random
import resource
import subprocess
import sys

import numpy as np
import pytest
from flambeau.core.base.device import accelerator_type
from flambeau.core.base.memory import memory_stats

import flambeau as torch
from flambeau import UntypedStorage

TYPED = [
    (name, kind)
    for name, kind in vars(torch).items()
    if name.endswith("Storage") and hasattr(kind, "dtype") and name == kind.__name__
]


def named() -> list[str]:
    """Memory of this process that has a name, which somebody would have to remove; Python's locks have none any more."""
    with open("/proc/self/maps") as file:
        return [line for line in file if "/dev/shm/" in line and "/sem." not in line]


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


# --- bytes ------------------------------
def test_bytes_are_read_and_written():
    s = UntypedStorage([3] * 8)
    assert (len(s), s.size(), s.nbytes(), s.element_size()) == (8, 8, 8, 1) and s[1] == s[-1] == 3
    s[0] = 300
    s[2:4] = -1
    assert s.tolist() == list(s) == [44, 3, 255, 255, 3, 3, 3, 3]
    assert s.fill_(258) is s and s.tolist() == [2] * 8
    assert s.copy_(UntypedStorage(range(8))).tolist() == list(range(8))
    assert (
        s.device == torch.device("cpu") and s.get_device() == -1 and not s.is_cuda and s.new().nbytes() == 0
    )
    assert torch.is_storage(s) and not torch.is_storage(torch.ones(1))
    assert UntypedStorage(np.int64(3)).nbytes() == 3 and UntypedStorage([]).tolist() == []


@pytest.mark.parametrize(
    "wrong, error",
    [
        (lambda s: s[8], IndexError),
        (lambda s: s[-9], IndexError),
        (lambda s: s[::2], RuntimeError),
        (lambda s: s[::-1], RuntimeError),
        (lambda s: s["a"], TypeError),
        (lambda s: s[True], TypeError),
        (lambda s: s[2**70], IndexError),
        (lambda s: s.__setitem__(8, 1), IndexError),
        (lambda s: s.__setitem__(0, 1.5), RuntimeError),
        (lambda s: s.__setitem__(0, s), RuntimeError),
        (lambda s: s.fill_(1.5), RuntimeError),
        (lambda s: s.fill_(None), RuntimeError),
        (lambda s: s.copy_(UntypedStorage(3)), RuntimeError),
        (lambda s: s.copy_([1] * 8), TypeError),
        (lambda s: s.resize_(-1), RuntimeError),
        (lambda s: s.resize_(2**70), RuntimeError),
        (lambda s: s.resize_(2.0), TypeError),
        (lambda s: s[:3].byteswap(torch.int16), RuntimeError),
        (lambda s: UntypedStorage(-1), RuntimeError),
        (lambda s: UntypedStorage("ab"), TypeError),
        (lambda s: UntypedStorage(2.5), TypeError),
        (lambda s: UntypedStorage(True), TypeError),
        (lambda s: UntypedStorage(2**70), RuntimeError),
        (lambda s: s.type("Nothing"), TypeError),
        (lambda s: s._fd(), RuntimeError),
        (lambda s: UntypedStorage._shared(-1), RuntimeError),
        (lambda s: UntypedStorage._shared(2**70), RuntimeError),
        (lambda s: UntypedStorage._shared("a"), TypeError),
        (lambda s: UntypedStorage(4, device="meta")[0], NotImplementedError),
        (lambda s: UntypedStorage(4, device="meta").share_memory_(), NotImplementedError),
    ],
)
def test_what_is_wrong_is_refused(wrong, error):
    s = UntypedStorage(range(8))
    with pytest.raises(error):
        wrong(s)
    assert s.tolist() == list(range(8))


def test_slices_share():
    s = UntypedStorage(range(8))
    part = s[2:6]
    part[1:3][0] = 77
    assert s[3] == 77 and part.tolist() == [2, 77, 4, 5] and s[5:2].nbytes() == 0
    address = s.data_ptr()
    del s
    gc.collect()
    assert part.data_ptr() == address + 2 and part.tolist() == [2, 77, 4, 5]
    over = torch.empty(0, dtype=torch.uint8).set_(part)
    over.zero_()
    assert part.tolist() == [0] * 4


def test_writes_to_a_storage_are_seen_by_the_tape():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    z = y * y
    y.untyped_storage().fill_(0)
    with pytest.raises(RuntimeError, match="modified"):
        z.sum().backward()


def test_memory_that_is_read_only_is_not_written():
    with pytest.warns(UserWarning):
        s = torch.frombuffer(b"abcd", dtype=torch.uint8).untyped_storage()
    for write in (
        lambda: s.fill_(1),
        lambda: s.__setitem__(0, 1),
        lambda: s[1:].fill_(1),
        lambda: s.copy_(UntypedStorage(4)),
        lambda: s.byteswap(torch.int16),
    ):
        with pytest.raises(RuntimeError, match="read-only"):
            write()
    assert bytes(s.tolist()) == b"abcd"


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float32, torch.float64, torch.complex64])
def test_bytes_are_swapped(dtype):
    x = torch.arange(5).to(dtype)
    swapped = x.clone()
    swapped.untyped_storage().byteswap(dtype)
    assert swapped.numpy().tobytes() == x.numpy().byteswap().tobytes()


def test_buffers_are_copied():
    assert UntypedStorage.from_buffer(b"abc").tolist() == [97, 98, 99]
    assert UntypedStorage.from_buffer(b"abcd", "big", dtype=torch.int16).tolist() == [98, 97, 100, 99]
    assert UntypedStorage.from_buffer(b"abcd", count=2, offset=1, dtype=torch.uint8).tolist() == [98, 99]
    with pytest.raises(TypeError, match="byte_order"):
        UntypedStorage.from_buffer(b"abcd", dtype=torch.int16)
    for given in (
        {"byte_order": "odd"},
        {"offset": 5},
        {"offset": -1},
        {"count": 5},
        {"byte_order": "little", "dtype": torch.int32, "offset": 1},
    ):
        with pytest.raises(ValueError):
            UntypedStorage.from_buffer(b"abcd", **given)
    with pytest.raises(TypeError):
        UntypedStorage.from_buffer(3)


def test_copies_and_pickles_are_independent():
    s = UntypedStorage(range(4))
    for made in (s.clone(), copy.copy(s), copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
        made.fill_(9)
        assert s.tolist() == [0, 1, 2, 3] and made.tolist() == [9] * 4
    x = torch.arange(4)
    pair = copy.deepcopy([x, x[1:], x.untyped_storage()])
    pair[0][1] = 7
    assert pair[1][0] == 7 and pair[2] is pair[0].untyped_storage() and x[1] == 1
    assert s.cpu() is s and not s.is_pinned()
    if accelerator_type() is not None:
        assert s.pin_memory().tolist() == s.tolist()


# --- another size ------------------------------
def test_every_tensor_sees_another_size():
    x = torch.arange(3)
    row = x[1:]
    s = x.untyped_storage()
    assert s.resize_(2**20) is s and s.nbytes() == 2**20 and row.tolist() == [1, 2]
    row[0] = 5
    assert x.tolist() == [0, 5, 2] and row.untyped_storage() is s
    with pytest.raises(RuntimeError):
        s.resize_(8)
        x.as_strided((3,), (1,))


def test_a_shorter_storage_takes_no_memory_away():
    """FSDP's way of freeing memory: tensors stay over it, and must not end the process."""
    x = torch.ones(4 << 20)
    held = memory_stats()["allocated_bytes"]
    s = x.untyped_storage().resize_(0)
    assert s.nbytes() == 0 and memory_stats()["allocated_bytes"] == held
    assert float(x.sum()) == 0.0  # the system took the pages back
    s.resize_(16 << 20)
    assert x.fill_(2).sum() == 2 * (4 << 20)


def test_arrays_keep_the_memory_that_a_storage_leaves():
    x = torch.arange(4)
    array, view, part = x.numpy(), memoryview(x.untyped_storage()), x.untyped_storage()[8:16]
    x.untyped_storage().resize_(1 << 20)
    x.share_memory_()
    torch.full((4,), 9), torch.full((4,), 9)  # would take a block that was given back
    x[1] = 5
    assert array.tolist() == [0, 1, 2, 3] and view.cast("q").tolist() == [0, 1, 2, 3] and part[0] == 1
    capsule = x.__dlpack__()
    assert np.from_dlpack(x)[1] == 5 and capsule is not None


def test_memory_of_others_has_its_size():
    for s in (
        torch.from_numpy(np.ones(3)).untyped_storage(),
        UntypedStorage._shared(8),
        UntypedStorage(8)[2:],
    ):
        assert not s.resizable()
        with pytest.raises(RuntimeError, match="not resizable"):
            s.resize_(100)


def test_reading_a_byte_lends_nothing():
    """Only what goes on knowing the address keeps the memory that a storage leaves."""
    x = torch.arange(1 << 20)
    s = x.untyped_storage()
    s[0], s[1:9] = 7, 1
    held = memory_stats()["allocated_bytes"]
    assert s[0] == 7 and s.tolist()[8] == 1 and bytes(memoryview(s)[:1]) == b"\x07"
    x.share_memory_()
    assert memory_stats()["allocated_bytes"] <= held - (8 << 20)


# --- typed storages ------------------------------
@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize("name, kind", TYPED)
def test_old_names(name, kind):
    s = kind([1, 0, 1])
    assert type(s) is torch.TypedStorage and isinstance(s, kind) and s.dtype is kind.dtype
    assert s.tolist() == [1, 0, 1] and len(s) == 3 and s.nbytes() == 3 * kind.dtype.itemsize
    s[0], s[-1] = 0, 0
    assert list(s) == [0, 0, 0] and s.type() == f"flambeau.{name}" and s.pickle_storage_type() == name
    assert not any(isinstance(s, other) for _, other in TYPED if other is not kind)
    over = torch.empty(0, dtype=kind.dtype).set_(s)
    over.fill_(1)
    assert (
        s.tolist() == [1, 1, 1] and over.storage().data_ptr() == s.data_ptr() and over.storage_type() is kind
    )
    assert s.double().dtype is torch.float64 and s.float().untyped().data_ptr() != s.data_ptr()
    assert kind(wrap_storage=s.untyped()).data_ptr() == s.data_ptr() and kind().size() == 0
    assert s.share_memory_().is_shared() and kind._new_shared(2).is_shared()
    s.fill_(0)
    assert over.tolist() == [0, 0, 0]
    for made in (s.clone(), copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
        assert made.tolist() == s.tolist() and made.dtype is s.dtype and made.data_ptr() != s.data_ptr()
    assert kind.from_buffer(bytes(16), "little").size() == 16 // kind.dtype.itemsize


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_typed_storages_show_their_elements():
    described = "[flambeau.storage.TypedStorage(dtype=flambeau.{}, device={}) of size {}]"
    assert repr(torch.FloatStorage([1.0, 2.5])) == " 1.0\n 2.5\n" + described.format("float32", "cpu", 2)
    assert str(torch.BoolStorage([True])) == " True\n" + described.format("bool", "cpu", 1)
    assert str(torch.LongStorage()) == described.format("int64", "cpu", 0)
    assert str(torch.ones(2, device="meta").storage()) == "...\n" + described.format("float32", "meta", 2)


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_typed_storages_refuse():
    s = torch.FloatStorage(3)
    for wrong, error in (
        (lambda: s[1:2], RuntimeError),
        (lambda: s["a"], RuntimeError),
        (lambda: s[3], IndexError),
        (lambda: s.__setitem__(3, 1), IndexError),
        (lambda: s.__setitem__(0, s), RuntimeError),
        (lambda: torch.FloatStorage(3, dtype=torch.int8), RuntimeError),
        (lambda: torch.FloatStorage(3, 4), RuntimeError),
        (lambda: torch.FloatStorage({}), TypeError),
        (lambda: torch.FloatStorage(-1), RuntimeError),
        (lambda: torch.TypedStorage(wrap_storage=s.untyped()), RuntimeError),
        (lambda: torch.TypedStorage(wrap_storage=[1], dtype=torch.int8), TypeError),
        (lambda: torch.TypedStorage(2, dtype="float"), TypeError),
        (lambda: torch.TypedStorage.from_file("x"), RuntimeError),
        (lambda: s.to(device="nowhere"), RuntimeError),
    ):
        with pytest.raises(error):
            wrong()
    bytes_as = UntypedStorage([1, 2]).float()
    assert bytes_as.dtype is torch.float32 and bytes_as.tolist() == [1.0, 2.0]
    assert UntypedStorage([1, 2]).type("torch.IntStorage").tolist() == [1, 2]
    s[:] = 4
    assert s.tolist() == [4.0] * 3


def test_typed_storages_warn_once():
    program = "import flambeau as t, warnings; warnings.simplefilter('always'); t.ones(1).storage(); t.ones(1).storage().clone()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.count("TypedStorage is deprecated") == 1


# --- shared memory ------------------------------
def test_sharing_moves_every_tensor():
    x = torch.arange(6.0).requires_grad_()
    row, leaf = x.detach()[2:], x.detach()
    saved = (x * x).sum()  # the tape holds the storage
    assert not x.is_shared() and x.share_memory_() is x and x.share_memory_().is_shared()
    row[0] = 50
    assert x[2] == 50 and leaf.is_shared() and row.is_shared() and not named()
    with pytest.raises(RuntimeError, match="modified"):
        saved.backward()
    y = torch.arange(3.0, requires_grad=True)
    loss = (y * y).sum()
    y.share_memory_()
    loss.backward()
    assert y.grad.tolist() == [0, 2, 4] and not y.untyped_storage()[1:].is_shared()
    assert torch.ones(0).share_memory_().is_shared()


def test_a_descriptor_carries_the_memory():
    x = torch.arange(1000).share_memory_()
    s = x.untyped_storage()
    assert s._fd() == s._fd() and s._share_fd_cpu_() == (s._fd(), 8000)
    other = UntypedStorage._of_descriptor(os.dup(s._fd()), 8000)
    there = torch.empty(0, dtype=torch.int64).set_(other)
    there[3] = 77
    assert x[3] == 77 and other.is_shared() and other.data_ptr() != s.data_ptr()
    del x, s
    gc.collect()
    assert there[3] == 77 and int(there.sum()) == 499500 + 74
    again = UntypedStorage._new_shared_fd_cpu(other._fd(), 16)
    assert again.nbytes() == 16 and UntypedStorage._new_using_fd_cpu(8).tolist() == [0] * 8


def test_descriptors_are_closed():
    """So is one that cannot be mapped."""
    torch.ones(2).share_memory_()
    before = descriptors()
    for _ in range(50):
        x = torch.ones(100).share_memory_()
        UntypedStorage._of_descriptor(os.dup(x.untyped_storage()._fd()), 400)
        with pytest.raises(RuntimeError, match="smaller"):
            UntypedStorage._of_descriptor(os.dup(x.untyped_storage()._fd()), 4000)
    del x
    assert descriptors() == before


def test_a_descriptor_that_lies():
    """What would end the process at first touch is an error before."""
    s = UntypedStorage._shared(4096)
    for nbytes in (4097, 2**40, 2**63 - 1, -1):
        with pytest.raises(RuntimeError):
            UntypedStorage._new_shared_fd_cpu(s._fd(), nbytes)
    for nbytes in ("a", None, 2.0, True):
        with pytest.raises(TypeError):
            UntypedStorage._new_shared_fd_cpu(s._fd(), nbytes)
    reader, writer = os.pipe()
    closed = os.dup(reader)
    os.close(closed)
    for fd in (reader, closed, 10**6):
        with pytest.raises(RuntimeError):
            UntypedStorage._new_shared_fd_cpu(fd, 8)
    os.close(reader), os.close(writer)
    with pytest.raises(RuntimeError, match="descriptor"):
        UntypedStorage._new_shared_fd_cpu(2**40, 8)
    for change in (lambda: os.ftruncate(s._fd(), 10), lambda: os.ftruncate(s._fd(), 10**6)):
        with pytest.raises(OSError):
            change()  # sealed: nobody takes the pages away
    loose = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
    os.ftruncate(loose, 4096)
    kept = UntypedStorage._new_shared_fd_cpu(loose, 4096)
    with pytest.raises(OSError):
        os.ftruncate(loose, 0)
    os.close(loose)
    assert sum(kept.tolist()) == 0


def limited(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def test_no_room_is_an_error_that_tells_the_bytes():
    program = """
import resource, flambeau as t
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
x = t.arange(100_000)
for share in (x.share_memory_, lambda: t.UntypedStorage._shared(1 << 17), lambda: t.UntypedStorage._shared(1 << 60)):
    try:
        share()
    except t.OutOfMemoryError as error:
        print(error)
print(x.is_shared(), int(x.sum()), t.ones(100).share_memory_().is_shared())
"""
    out = limited(program)
    assert "800000 bytes" in out and "131072 bytes" in out and str(1 << 60) in out
    assert out.endswith("False 4999950000 True\n")


def test_no_more_descriptors_is_an_error_that_names_the_strategy():
    program = """
import os, resource, flambeau as t
t.ones(2).share_memory_()
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 10, 100))
kept = []
try:
    while True:
        kept.append(t.ones(2).share_memory_())
except RuntimeError as error:
    print(error, len(kept))
kept.clear()
print(t.ones(2).share_memory_().is_shared())
"""
    out = limited(program)
    assert "file_descriptor" in out and "set_sharing_strategy" in out and out.endswith("True\n")


def test_the_limit_holds_for_shared_memory():
    torch.cpu.set_memory_limit(memory_stats()["allocated_bytes"] + 1000)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            UntypedStorage._shared(1 << 20)
    finally:
        torch.cpu.set_memory_limit(None)


def test_a_child_sees_what_the_parent_writes():
    x = torch.zeros(4).share_memory_()
    pid = os.fork()
    if pid == 0:
        x[1] = 5
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0 and x.tolist() == [0, 5, 0, 0]


class Program:
    """A storage, tensors over it, and what every byte of it should be."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        n = self.random.choice([1, 5, 4096, 70_000, 3 << 20])
        self.storage = (
            UntypedStorage([0] * n) if n < 10 else torch.zeros(n, dtype=torch.uint8).untyped_storage()
        )
        self.model = bytearray(n)
        self.over = torch.empty(0, dtype=torch.uint8).set_(self.storage)
        self.former = []  # arrays and slices that kept what the storage left, and what is there

    def place(self):
        return self.random.randrange(len(self.model))

    def set_a_byte(self):
        k, value = self.place(), self.random.randrange(256)
        self.storage[k] = value
        self.model[k] = value

    def set_an_element(self):
        k, value = self.place(), self.random.randrange(256)
        self.over[k] = value
        self.model[k] = value

    def set_a_part(self):
        first, value = self.place(), self.random.randrange(256)
        last = first + self.random.randrange(len(self.model) - first + 1)
        self.storage[first:last] = value
        self.model[first:last] = bytes([value]) * (last - first)

    def grow_or_shrink(self):
        if self.storage.resizable():
            n = max(1, int(len(self.model) * self.random.choice([0.3, 0.9, 1, 1.2, 3])))
            n = min(n, 8 << 20)
            self.storage.resize_(n)
            old = bytes(self.model[:n])
            self.model = bytearray(old) + bytes(n - len(old))
            self.storage[len(old) :] = 0
            self.over.sum()  # it may lie over more than there is now
            self.over.set_(self.storage)

    def share(self):
        self.storage.share_memory_()
        assert self.over.is_shared()

    def lend(self):
        first = self.place()
        found = self.random.choice(
            [
                lambda: self.over.numpy()[first:],
                lambda: memoryview(self.storage)[first:],
                lambda: self.storage[first:],
            ]
        )()
        self.former.append((found, len(found)))

    def carry(self):
        if self.storage.is_shared():
            there = UntypedStorage._new_shared_fd_cpu(self.storage._fd(), self.storage.nbytes())
            k = self.place()
            there[k] = 99
            self.model[k] = 99

    def copy(self):
        for made in (self.storage.clone(), copy.deepcopy(self.over).untyped_storage()):
            assert bytes(memoryview(made)) == bytes(self.model) and not made.is_shared()
            made.fill_(1)

    def run(self, steps):
        actions = [
            *(self.set_a_byte, self.set_an_element, self.set_a_part, self.grow_or_shrink, self.share),
            *(self.lend, self.carry, self.copy),
        ]
        weights = [4, 4, 4, 3, 0.3, 2, 2, 1]
        for _ in range(steps):
            action = self.random.choices(actions, weights)[0]
            action()
            assert bytes(memoryview(self.storage)) == bytes(self.model), action.__name__
            torch.full(
                (len(self.model),), 171, dtype=torch.uint8
            )  # takes and spoils what was given back too early
            for found, n in self.former:
                assert len(found) == n and len(bytes(memoryview(found))) == n


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed):
    """Whatever is done in whatever order, every byte is what was last written, and nobody reads memory that is gone."""
    Program(seed).run(40)


# --- files ------------------------------
def test_files_are_mapped(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(b"12345678")
    own = UntypedStorage.from_file(str(path), False, 8)
    own[0] = 0
    assert path.read_bytes() == b"12345678" and own.filename == str(path) and not own.is_shared()
    both = UntypedStorage.from_file(path, shared=True, nbytes=12)
    both[0] = 65
    assert both.is_shared() and path.read_bytes() == b"A2345678" + bytes(4) and not both.resizable()
    assert (
        UntypedStorage.from_file(path).nbytes() == 12
        and UntypedStorage.from_file(path, True, 4).nbytes() == 4
    )
    assert UntypedStorage(3).filename is None
    x = torch.from_file(str(tmp_path / "new"), shared=True, size=3, dtype=torch.float64)
    x[:] = 2
    assert (tmp_path / "new").read_bytes() == np.full(3, 2.0).tobytes()
    assert torch.from_file(str(tmp_path / "new"), dtype=torch.float64).tolist() == [2, 2, 2]
    whole = torch.FloatStorage.from_file(str(path), True, 3)
    assert whole.size() == 3 and whole.filename == str(path)


def test_files_that_cannot_be_mapped(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(b"1234")
    before = descriptors()
    for given, told in (
        ((path, False, 5), "size <4> is smaller than the required mapping size <5>"),
        ((tmp_path / "none", False, 5), "No such file"),
        ((tmp_path, True, 5), "directory"),
        ((path, False, -1), "at least 0"),
        ((path, True, 2**63), "2\\^63"),
        (("/dev/full", True, 10), "cannot"),
    ):
        with pytest.raises(RuntimeError, match=told):
            UntypedStorage.from_file(*given)
    with pytest.raises(TypeError):
        UntypedStorage.from_file(path, False, 4.0)
    with pytest.raises(TypeError):
        UntypedStorage.from_file(3.5, False, 4)
    for wrong in ({"device": "meta"}, {"pin_memory": True}):
        with pytest.raises(RuntimeError):
            torch.from_file(str(path), size=1, **wrong)
    assert descriptors() == before and path.read_bytes() == b"1234"


def test_a_full_disk_is_no_signal(tmp_path):
    program = f"""
import resource, flambeau as t
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
try:
    t.UntypedStorage.from_file({str(tmp_path / "long")!r}, True, 1 << 20)
except t.OutOfMemoryError as error:
    print(error)
"""
    assert str(1 << 20) in limited(program)


def test_pages_are_there_before_they_are_touched():
    """Not at the first write, where a process would be ended."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    s = UntypedStorage._shared(64 * mmap.PAGESIZE)
    info = os.fstat(s._fd())
    assert info.st_blocks * 512 >= info.st_size == 64 * mmap.PAGESIZE
    made = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    s.fill_(1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - made < 8 and made >= before
