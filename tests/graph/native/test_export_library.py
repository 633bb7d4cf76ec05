"""Libraries in this process: geometry of all kinds, what is checked at their boundary, and what is refused."""

from __future__ import annotations

import ctypes
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from library_cases import CONVOLUTIONS, ELEMENTS, PRODUCTS, TABLES, r

import flambeau as torch
from flambeau import nn
from flambeau.codegen import target
from flambeau.graph.native.frame import CODES
from flambeau.nn import functional as F

CODE = {name: k for k, (name, _) in enumerate(CODES)}


def exported(function: Any, args: tuple[Any, ...], folder: Path, name: str = "net") -> Any:
    return torch.compiler.export_library(function, args, folder / f"{name}.so")


class Loaded:
    """A library in this process."""

    def __init__(self, made: Any, load: bool = True) -> None:
        self.made, self.name = made, made.library.stem
        self.code = ctypes.CDLL(str(made.library))
        self.run = self.function("run")
        self.run.argtypes = [ctypes.c_void_p] * 3
        if load and made.weights is not None:
            assert self.load(made.weights) == CODE["OK"]

    def function(self, what: str) -> Any:
        return getattr(self.code, f"{self.name}_{what}")

    def load(self, path: Any) -> int:
        return self.function("load")(None if path is None else str(path).encode())

    def __call__(self, inputs: list[Any], outputs: list[Any]) -> int:
        held = torch.full((self.made.workspace + 64,), 0xA5, dtype=torch.uint8)
        room = (held.data_ptr() + 63) // 64 * 64
        return self.run(
            pointers([t.data_ptr() for t in inputs]), pointers([t.data_ptr() for t in outputs]), room
        )


def pointers(addresses: list[int | None]) -> Any:
    return (ctypes.c_void_p * max(len(addresses), 1))(*addresses)


def flat(x: Any) -> list[Any]:
    if isinstance(x, torch.Tensor):
        return [x]
    return [t for y in (x.values() if isinstance(x, dict) else x) for t in flat(y)]


def garbage(like: Any) -> Any:
    made = torch.empty(like.shape, dtype=like.dtype)
    ctypes.memset(made.data_ptr(), 0xA5, made.numel() * made.itemsize)
    return made


def raw(t: Any) -> bytes:
    own = t.contiguous()
    return ctypes.string_at(own.data_ptr(), own.numel() * own.itemsize)


def checked(function: Any, args: tuple[Any, ...], folder: Path, exactly: bool = True) -> None:
    """A library gives what an eager call does, for other elements than those of the export, twice."""
    library = Loaded(exported(function, args, folder))
    given = [t for t in args if isinstance(t, torch.Tensor)]
    for _ in range(2):
        for t in given:
            if t.dtype.is_floating_point and t.numel():
                t.copy_(torch.randn(t.shape))
        with torch.no_grad():
            wanted = flat(function(*args))
        found = [garbage(t) for t in wanted]
        before = [raw(t) for t in given]
        assert library(given, found) == CODE["OK"]
        assert [raw(t) for t in given] == before
        for a, b in zip(found, wanted, strict=True):
            if exactly:
                assert raw(a) == raw(b)
            else:
                torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("case", list(ELEMENTS))
def test_kernels_of_elements_rows_and_places_have_the_bits_of_eager_calls(case, tmp_path):
    checked(*ELEMENTS[case], tmp_path)


@pytest.mark.parametrize("case", list(PRODUCTS))
def test_products(case, tmp_path):
    checked(*PRODUCTS[case], tmp_path, exactly=False)


@pytest.mark.parametrize("case", list(TABLES))
def test_sums_by_tables(case, tmp_path):
    checked(*TABLES[case], tmp_path, exactly=False)


@pytest.mark.parametrize("case", list(CONVOLUTIONS))
def test_convolutions(case, tmp_path):
    net, x = CONVOLUTIONS[case]
    checked(nn.Sequential(net, nn.ReLU()).eval(), (x,), tmp_path, exactly=False)


def test_convolutions_of_images_in_other_orders_and_of_computed_weights(tmp_path):
    def turned(x, w):
        return F.conv2d(x.to(memory_format=torch.channels_last), w * 2), F.conv2d(x.mT, w, padding=1)

    checked(turned, (r(2, 3, 6, 7), r(8, 3, 3, 3)), tmp_path, exactly=False)


def test_weights_that_are_shared_strided_and_read_twice(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(12, 6))
            self.register_buffer("shift", torch.randn(6, 2).T[0])

        def forward(self, x):
            return (x @ self.weight.T).relu() @ self.weight + self.shift * self.weight[3]

    checked(Tied(), (r(4, 6),), tmp_path, exactly=False)


def test_numbers_and_flags_are_as_they_were(tmp_path):
    def scaled(x, by, turned):
        return x.T * by if turned else x

    library = Loaded(exported(scaled, (r(2, 3), 2.5, True), tmp_path))
    x, found = r(2, 3), torch.empty(3, 2)
    assert library([x], [found]) == CODE["OK"]
    assert torch.equal(found, x.T * 2.5)


# --- the boundary ------------------------------
@pytest.fixture
def net():
    return nn.Sequential(nn.Linear(3, 20), nn.Softmax(-1), nn.Linear(20, 2)).eval()


def test_a_caller_that_gives_something_wrong_is_told_so(net, tmp_path):
    library = Loaded(exported(net, (r(2, 3),), tmp_path))
    x, y = r(2, 3), torch.full((2, 2), 7.0)
    held = torch.empty(library.made.workspace + 128, dtype=torch.uint8)
    room = (held.data_ptr() + 63) // 64 * 64
    good = pointers([x.data_ptr()]), pointers([y.data_ptr()]), room
    cases = [
        ((None, *good[1:]), "NULL_POINTER"),
        ((good[0], None, room), "NULL_POINTER"),
        ((*good[:2], None), "NULL_POINTER"),
        ((pointers([None]), *good[1:]), "NULL_POINTER"),
        ((good[0], pointers([None]), room), "NULL_POINTER"),
        ((pointers([x.data_ptr() + 2]), *good[1:]), "MISALIGNED"),
        ((good[0], pointers([y.data_ptr() + 1]), room), "MISALIGNED"),
        ((*good[:2], room + 32), "MISALIGNED"),
    ]
    assert library.made.workspace > 0
    for given, code in cases:
        assert library.run(*given) == CODE[code]
        assert y.eq(7).all()
    assert library.run(*good) == CODE["OK"] and not y.eq(7).any()


def test_weights_are_taken_only_where_they_are_the_librarys(net, tmp_path):
    made = exported(net, (r(2, 3),), tmp_path)
    library = Loaded(made, load=False)
    x, y = r(2, 3), torch.empty(2, 2)
    assert library([x], [y]) == CODE["NOT_LOADED"]
    data = made.weights.read_bytes()
    wrong = tmp_path / "wrong"
    for other in (
        b"",
        data[:-1],
        data + b"\0",
        data[:100],
        b"\0" * len(data),
        data[:40] + bytes([data[40] ^ 1]) + data[41:],
    ):
        wrong.write_bytes(other)
        assert library.load(wrong) == CODE["OTHER_WEIGHTS"]
        assert library([x], [y]) == CODE["NOT_LOADED"]
    again = nn.Sequential(nn.Linear(3, 20), nn.Softmax(-1), nn.Linear(20, 2))
    assert library.load(exported(again, (r(2, 3),), tmp_path, "other").weights) == CODE["OTHER_WEIGHTS"]
    assert (
        library.load(tmp_path / "absent")
        == library.load(tmp_path / "absent" / "further")
        == CODE["CANNOT_OPEN"]
    )
    assert library.load(None) == CODE["NULL_POINTER"]
    for _ in range(2):
        assert library.load(made.weights) == CODE["OK"]
        assert library([x], [y]) == CODE["OK"]
    library.function("unload")()
    assert library([x], [y]) == CODE["NOT_LOADED"]
    library.function("unload")()
    assert library.load(made.weights) == library([x], [y]) == CODE["OK"]


def test_codes_have_messages(net, tmp_path):
    message = Loaded(exported(net, (r(2, 3),), tmp_path)).function("message")
    message.restype = ctypes.c_char_p
    for k, (_, text) in enumerate(CODES):
        assert message(k).decode() == text
    for k in (-1, len(CODES), 1 << 31):
        assert message(ctypes.c_int(k)).decode() == "no code of this library"


def test_an_index_out_of_range_is_a_code_and_reads_nothing(tmp_path):
    for dtype in (torch.int64, torch.int32):
        net = nn.Embedding(5, 3)
        library = Loaded(
            exported(net, (torch.tensor([1, 2], dtype=dtype),), tmp_path, f"net{dtype.itemsize}")
        )
        y = torch.empty(2, 3)
        for wrong in (5, -1, 1 << 30, -(1 << 30)):
            assert library([torch.tensor([0, wrong], dtype=dtype)], [y]) == CODE["OUT_OF_RANGE"]
        assert library([torch.tensor([0, 4], dtype=dtype)], [y]) == CODE["OK"]
        assert torch.equal(y, net.weight.detach()[[0, 4]])


def test_threads_call_and_load_at_the_same_time(net, tmp_path):
    made = exported(net, (r(2, 3),), tmp_path)
    library = Loaded(made, load=False)
    inputs = [r(2, 3) for _ in range(8)]
    with torch.no_grad():
        wanted = [net(x) for x in inputs]
    wrong: list[int] = []

    def work(k: int) -> None:
        if library.load(made.weights) != CODE["OK"]:
            wrong.append(k)
        y = torch.empty(2, 2)
        for _ in range(200):
            y.zero_()
            if library([inputs[k]], [y]) != CODE["OK"] or not torch.allclose(y, wanted[k], atol=1e-6):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_library_needs_the_c_library_alone(net, tmp_path):
    made = exported(net, (r(2, 3),), tmp_path)
    text = made.library.read_bytes()
    assert not re.search(rb"_?Py[A-Z_]|python|flambeau|blas|mkl_|gomp", text, re.IGNORECASE)
    own = {"net_run", "net_load", "net_unload", "net_message", "net_inputs", "net_outputs"}
    system = {"open", "lseek", "mmap", "munmap", "close", "memcmp", "bcmp", "memset", "memcpy", "memmove"}
    for section in target.llvm().ObjectFileRef.from_path(str(made.library)).sections():
        if section.name() == b".dynstr":  # of ELF: what it gives, and what it needs
            names = {n.decode() for n in section.data().split(b"\0") if n}
            rest = {n for n in names - own - system if not re.match(r"_|GLIBC|lib(c|m|gcc_s)\.|net\.so", n)}
            assert own <= names and rest == set()


def test_what_was_there_before_is_replaced(tmp_path):
    x, y = r(3), torch.empty(3)
    for by in (2.0, 3.0):
        made = exported(lambda t, by=by: t * by, (x,), tmp_path, f"net{int(by)}")
        assert made.weights is None and "_load" not in made.header.read_text()
        assert Loaded(made)([x], [y]) == CODE["OK"]
        assert torch.equal(y, x * by)
    first = exported(lambda t: t + 1, (x,), tmp_path).library.read_bytes()
    assert exported(lambda t: t + 2, (x,), tmp_path).library.read_bytes() != first
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == []


# --- what is refused ------------------------------
def sorts(x):
    y = x * 2
    return y.sort().values  # this line


REFUSED = {
    "a step without a kernel": (
        sorts,
        (r(3),),
        NotImplementedError,
        r"sort\(\) \(test_export_library.py:\d+\) has no generated kernel",
    ),
    "a scan": (lambda x: x.cumsum(0), (r(3),), NotImplementedError, r"cumsum\(\)"),
    "three dimensions": (nn.Conv3d(2, 2, 2), (r(1, 2, 3, 3, 3),), NotImplementedError, "no generated kernel"),
    "halves": (
        lambda x: x.bfloat16() @ x.bfloat16().T,
        (r(8, 8),),
        NotImplementedError,
        "no generated kernel",
    ),
    "random numbers": (lambda x: x + torch.rand(3), (r(3),), NotImplementedError, "no generated kernel"),
    "a look at a value": (
        lambda x: x + 1 if x.sum() > 0 else x,
        (r(3),),
        RuntimeError,
        "looks at a value of a tensor",
    ),
    "a write to an input": (lambda x: x.add_(1), (r(3),), RuntimeError, r"add_\(\).*writes to"),
    "a batch norm in training": (nn.BatchNorm1d(3), (r(4, 3),), RuntimeError, "eval"),
    "a result that is no tensor": (lambda x: (x + 1, 2.0), (r(3),), TypeError, "got float"),
    "no result": (lambda x: (), (r(3),), TypeError, "got tuple"),
    "nothing that can be called": (3, (r(3),), TypeError, "can be called"),
    "one argument for a tuple": (torch.relu, r(3), TypeError, "must be a tuple"),
    "complex": (
        lambda x: x.real,
        (torch.ones(2, dtype=torch.complex64),),
        RuntimeError,
        "real tensors on the CPU",
    ),
    "a strided argument": (lambda x: x + 1, (r(3, 4).T,), RuntimeError, "contiguous"),
    "an argument twice": (
        lambda x, y: x + y,
        (X := r(3), X),
        RuntimeError,
        "another tensor than those before",
    ),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_is_refused(case, tmp_path):
    function, args, error, text = REFUSED[case]
    with pytest.raises(error, match=text):
        exported(function, args, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["1net.so", "a-b.so", "", "net/x.so", "é.so"])
def test_names_that_are_none_in_c(name, tmp_path):
    with pytest.raises(ValueError, match="name that is one in C"):
        torch.compiler.export_library(lambda x: x + 1, (r(3),), f"{tmp_path}/{name}")


def test_without_a_linker_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(RuntimeError, match="no linker is found: install a C compiler"):
        exported(lambda x: x + 1, (r(3),), tmp_path)


def test_what_a_linker_says_is_told(tmp_path, monkeypatch):
    command = tmp_path / "wrong"
    command.write_text("#!/bin/sh\necho out of order >&2\nexit 3\n")
    command.chmod(0o755)
    monkeypatch.setenv("CC", str(command))
    with pytest.raises(RuntimeError, match=r"wrong -shared.* failed: out of order"):
        exported(lambda x: x + 1, (r(3),), tmp_path)
