"""Kernels for AArch64, compiled for NEON and SVE, linked and run under emulation, beside this processor's results.

    python tools/aarch64.py                          # every sample call and those below, NEON and SVE of 128, 256 and 512 bits
    python tools/aarch64.py --only 'softmax|conv' --ways neon

Needs Linux on x86-64 with `aarch64-linux-gnu-gcc` and `qemu-aarch64` (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross,
qemu-user).  Exit status 1 where a kernel does not compile, dies or differs by more than rounding.

The library runs here as if its processor had registers of 128 bits, so that it writes the code it writes on AArch64: tiles
and widths are chosen by the processor's features.  Each kernel's first calls are recorded: its text, its arguments, and the memory
around every pointer, in which it then runs once more here.  The same text is compiled for AArch64 and run on a copy of the
same memory by `aarch64.c`; what either has changed is compared.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BEFORE, AFTER = 8 << 10, 56 << 10  # bytes around a pointer that are kept
CALLS = 2  # of one kernel that are recorded
GENERAL = ("x86-64", "+sse4.2,+avx,+fma,+f16c")  # vectors of 128 bits, with fused steps
WAYS = {  # features, and bits of an SVE register
    "neon": ("+neon", 0),
    "sve": (
        "+sve",
        0,
    ),  # as for a processor whose vectors' length is not known: fixed ones in NEON's registers
    "sve128": ("+sve", 128),
    "sve256": ("+sve", 256),
    "sve512": ("+sve2,+bf16,+i8mm", 512),
}
TRIPLE = "aarch64-unknown-linux-gnu"


class Recording(NamedTuple):
    """One call: the kernel's number, arguments (places in the arena where they are pointers), memory before and after."""

    kernel: int
    integers: list[tuple[int, bool]]
    floats: list[int]
    moved: list[tuple[int, int]]
    before: bytes
    after: bytes


class Kernels:
    """The texts that were compiled here, and calls of them."""

    def __init__(self, target) -> None:
        self.texts: list[str] = []
        self.numbers: dict[str, int] = {}
        self.calls: list[Recording] = []
        self.callbacks: list = []
        self.why = ""  # what the program is doing
        self.sources: list[str] = []
        self.compile, self.load = target.host_object, target.load
        target.host_object, target.load = self.compiled, self.loaded

    def compiled(self, text: str, shared: bool = False) -> bytes:
        name = re.search(r"define void @(\w+)\(", text)
        assert name is not None, text[:200]
        self.numbers[name[1]] = len(self.texts)
        self.texts.append(text)
        self.sources.append(self.why)
        return self.compile(text, shared)

    def loaded(self, code: bytes, symbol: str) -> int:
        """Another address: a function that records and then calls the kernel."""
        address = self.load(code, symbol)
        number = self.numbers[symbol]
        arguments = signature(self.texts[number])
        kinds = {"float": ctypes.c_float, "double": ctypes.c_double}
        prototype = ctypes.CFUNCTYPE(None, *[kinds.get(kind, ctypes.c_uint64) for kind, _ in arguments])
        real, left = prototype(address), CALLS

        def called(*args) -> None:
            nonlocal left
            if left:
                left -= 1
                self.calls.append(record(number, self.texts[number], arguments, args, real))
            real(*args)

        wrapped = prototype(called)
        self.callbacks.append(wrapped)
        return ctypes.cast(wrapped, ctypes.c_void_p).value or 0


def signature(text: str) -> list[tuple[str, str]]:
    """Types and names of a kernel's arguments."""
    match = re.search(r"define void @\w+\(([^)]*)\)", text)
    assert match is not None
    return [(a.split()[0], a.split()[-1]) for a in match[1].split(",") if a.strip()]


def mappings() -> list[tuple[int, int]]:
    """Memory of this process that may be read and written."""
    ranges = []
    with open("/proc/self/maps") as file:
        for line in file:
            where, rights = line.split()[:2]
            begin, end = (int(x, 16) for x in where.split("-"))
            if rights.startswith("rw"):
                if ranges and ranges[-1][1] == begin:
                    ranges[-1] = (ranges[-1][0], end)
                else:
                    ranges.append((begin, end))
    return ranges


def record(
    number: int, text: str, arguments: Sequence[tuple[str, str]], args: Sequence, real: Callable
) -> Recording:
    """The call made in an arena: what it was given is copied there, and pointers point there."""
    mapped = mappings()

    def mapping_of(pointer: int) -> tuple[int, int] | None:
        k = bisect.bisect(mapped, (pointer, 1 << 64)) - 1
        return mapped[k] if k >= 0 and mapped[k][0] <= pointer < mapped[k][1] else None

    windows: list[tuple[int, int]] = []  # of memory as it lies here
    pointers: list[int] = []  # where one stands
    for (kind, name), value in zip(arguments, args):
        if kind != "ptr":
            continue
        within = mapping_of(value)
        if within is None:
            continue
        words = [
            int(k) for k in re.findall(rf"getelementptr (?:ptr|i64), ptr {re.escape(name)}, i64 (\d+)", text)
        ]
        if not words:
            windows.append((max(within[0], value - BEFORE), min(within[1], value + AFTER)))
            continue
        windows.append((value, value + 8 * (max(words) + 1)))
        for k in range(max(words) + 1):
            (pointer,) = struct.unpack("<Q", ctypes.string_at(value + 8 * k, 8))
            around = mapping_of(pointer)
            if around is not None:
                pointers.append(value + 8 * k)
                windows.append((max(around[0], pointer - BEFORE), min(around[1], pointer + AFTER)))
    spans: list[list[int]] = []
    for begin, end in sorted(windows):
        if spans and begin <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([begin, end])
    places, size = [], 0  # each span as far from a page's begin as it is here
    for begin, end in spans:
        at = size + (begin - size) % 4096
        places.append(at)
        size = at + end - begin

    def place(pointer: int) -> int:
        k = bisect.bisect(spans, [pointer, 1 << 64]) - 1
        return places[k] + pointer - spans[k][0]

    arena = bytearray(size)
    for (begin, end), at in zip(spans, places):
        arena[at : at + end - begin] = ctypes.string_at(begin, end - begin)
    moved = []
    for where in pointers:
        (pointer,) = struct.unpack("<Q", ctypes.string_at(where, 8))
        moved.append((place(where), place(pointer)))
        arena[place(where) : place(where) + 8] = struct.pack("<Q", place(pointer))
    integers, floats, here = [], [], []
    run = ctypes.create_string_buffer(size + 8192)
    base = -(-ctypes.addressof(run) // 4096) * 4096
    for (kind, _), value in zip(arguments, args):
        if kind == "float" or kind == "double":
            floats.append(struct.unpack("<Q", struct.pack("<d" if kind == "double" else "<f4x", value))[0])
            here.append(value)
        else:
            inside = kind == "ptr" and mapping_of(value) is not None
            integers.append((place(value) if inside else value, inside))
            here.append(base + place(value) if inside else value)
    ctypes.memmove(base, bytes(arena), size)
    for where, to in moved:
        ctypes.memmove(base + where, struct.pack("<Q", base + to), 8)
    real(*here)
    for where, to in moved:
        ctypes.memmove(base + where, struct.pack("<Q", to), 8)
    return Recording(number, integers, floats, moved, bytes(arena), ctypes.string_at(base, size))


# --- what is run ------------------------------
def programs(only: str) -> dict[str, Callable[[], object]]:
    """Sample calls of every operation, forward and backward, and products, convolutions and others of sizes that fill tiles."""
    sys.path.insert(0, str(ROOT / "tests" / "operations"))
    from samples import ALL, Operands, run

    import flambeau as t

    calls: dict[str, Callable[[], object]] = {}

    def both(f: Callable, *shapes: tuple[int, ...], **kw) -> Callable[[], None]:
        def go() -> None:
            leaves = [t.randn(s, **kw).requires_grad_() for s in shapes]
            f(*leaves).sum().backward()

        return go

    def sample(entry, text: str) -> Callable[[], None]:
        def go() -> None:
            results = run(entry, text, Operands(grad=True))
            wanted = [r for r in results if r.requires_grad and r.is_floating_point()]
            if wanted:
                with contextlib.suppress(NotImplementedError):  # it has no derivative
                    t.autograd.backward([r.sum() for r in wanted])

        return go

    for entry, text in ALL:
        calls[f"{entry.name}({text})"] = sample(entry, text)
    F = t.nn.functional
    for dtype in (t.float32, t.float64, t.float16, t.bfloat16):
        for m, k, n in ((1, 40, 24), (5, 33, 17), (16, 48, 40)):
            calls[f"product {m} {k} {n} {dtype}"] = both(lambda a, b: a @ b, (m, k), (k, n), dtype=dtype)
        calls[f"linear {dtype}"] = both(
            lambda x, w, b: F.linear(x, w, b).relu(), (9, 20), (13, 20), (13,), dtype=dtype
        )
    for name, x, w, options in (
        ("3x3", (1, 5, 9, 11), (12, 5, 3, 3), {"padding": 1}),
        ("1x1", (1, 9, 6, 7), (12, 9, 1, 1), {}),
        ("stride", (1, 3, 13, 13), (8, 3, 3, 3), {"stride": 2, "padding": 1}),
        ("depthwise", (1, 8, 10, 10), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
        ("dilated", (1, 4, 12, 12), (6, 4, 3, 3), {"dilation": 2}),
    ):
        for dtype in (t.float32, t.float64):
            calls[f"conv {name} {dtype}"] = both(
                lambda x, w, o=options: F.conv2d(x, w, **o), x, w, dtype=dtype
            )
    for causal in (False, True):
        calls[f"attention, causal {causal}"] = both(
            lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c),
            *[(1, 2, 19, 16)] * 3,
        )
    for length in (7, 100, 1000):
        for dim in (0, 1):
            shape = (length, 3) if dim == 0 else (3, length)
            calls[f"rows of {length}, dim {dim}"] = both(
                lambda x, d=dim: (
                    x.softmax(d) + x.log_softmax(d) + x.cumsum(d) + x.sum(d, True) + x.var(d, keepdim=True)
                ),
                shape,
            )
    return {name: f for name, f in calls.items() if re.search(only, name)}


# --- AArch64 ------------------------------
def machine_code(text: str, number: int, way: str, binding) -> bytes:
    """Object code of a kernel, with fixed vectors in SVE registers of so many bits."""
    from flambeau.codegen import target

    features, bits = WAYS[way]
    text = re.sub(r'target triple = "[^"]*"', f'target triple = "{TRIPLE}"', text)
    text = re.sub(r"define void @\w+\(([^)]*)\)", rf"define void @kernel{number}(\1)", text, count=1)
    if bits:
        scale = f"vscale_range({bits // 128},{bits // 128})"
        text = re.sub(r"(define void @\w+\([^)]*\))", rf"\1 {scale}", text)
    machine = binding.Target.from_triple(TRIPLE).create_target_machine(
        cpu="generic", features=features, opt=2, reloc="pic"
    )
    return machine.emit_object(target.optimised(text, machine))


def emulated(kernels: Kernels, way: str, folder: Path) -> tuple[list[tuple[int, bytes]], dict[int, str]]:
    """Status and memory after each call, and what did not compile."""
    from flambeau.codegen import target

    binding = target.llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    objects, refused = [], {}
    for number, text in enumerate(kernels.texts):
        try:
            code = machine_code(text, number, way, binding)
        except Exception as error:
            refused[number] = str(error)[:200]
            continue
        objects.append(folder / f"{number}.o")
        objects[-1].write_bytes(code)
    table = "".join(f"extern void kernel{n}(void);\n" for n in range(len(kernels.texts)) if n not in refused)
    entries = ", ".join("0" if n in refused else f"kernel{n}" for n in range(len(kernels.texts)))
    (folder / "table.c").write_text(f"{table}void (*kernels[])(void) = {{{entries}}};\n")
    (folder / "objects").write_text("\n".join(map(str, objects)))
    program = folder / "program"
    subprocess.run(
        [
            "aarch64-linux-gnu-gcc",
            "-O1",
            "-static",
            "-o",
            program,
            ROOT / "tools/aarch64.c",
            folder / "table.c",
        ]
        + [f"@{folder / 'objects'}", "-lm"],
        check=True,
    )
    selected = [c for c in kernels.calls if c.kernel not in refused]
    with open(folder / "calls", "wb") as file:
        for call in selected:
            head = (call.kernel, len(call.integers), len(call.floats), len(call.before), len(call.moved))
            file.write(struct.pack("<5Q", *head))
            for value, inside in call.integers:
                file.write(struct.pack("<QQ", value, inside))
            file.write(struct.pack(f"<{len(call.floats)}Q", *call.floats))
            for pair in call.moved:
                file.write(struct.pack("<QQ", *pair))
            file.write(call.before)
    bits = WAYS[way][1]
    processor = f"max,sve-default-vector-length={(bits or 256) // 8}"
    subprocess.run(
        ["qemu-aarch64", "-cpu", processor, program, folder / "calls", folder / "answers"],
        check=True,
        timeout=3000,
    )
    _overrides = []
    with open(folder / "answers", "rb") as file:
        for call in selected:
            (status,) = struct.unpack("<Q", file.read(8))
            _overrides.append((status, file.read(len(call.before))))
    return _overrides, refused


FLOATS = {  # as functions' names spell them, and the distance from 1 to the next number
    "double": ("f64", 2.0**-52),
    "float": ("f32", 2.0**-23),
    "half": ("f16", 2.0**-10),
    "bfloat": ("(?:bf16|i16)", 2.0**-7),
}


def numbers(memory: np.ndarray, kind: str) -> np.ndarray:
    if kind == "bfloat":
        return (memory.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return memory.view({"double": np.float64, "float": np.float32, "half": np.float16}[kind]).astype(
        np.float64
    )


def verdict(text: str, call: Recording, output: bytes) -> str:
    """ "same", "rounded" where elements differ in their last places (or in a NaN's bits), else a sentence."""
    before, ours, theirs = (np.frombuffer(m, np.uint8) for m in (call.before, call.after, output))
    differs = ours != theirs
    if not differs.any():
        return "same"
    result = "nothing of it is a float"
    for kind, (spelled, epsilon) in FLOATS.items():
        stores = rf"store <\d+ x {kind}>|store {kind} |masked\.(?:store|scatter)\.v\d+{spelled}"
        if not re.search(stores, text):
            continue
        size = {"double": 8, "float": 4}.get(kind, 2)
        whole = len(ours) // size * size
        places = np.unique(np.flatnonzero(differs[:whole]) // size)
        changed = np.unique(np.flatnonzero((ours != before)[:whole]) // size)
        with np.errstate(all="ignore"):
            a, b = numbers(ours[:whole], kind)[places], numbers(theirs[:whole], kind)[places]
            scale = np.nan_to_num(np.abs(numbers(ours[:whole], kind)[changed]), posinf=0.0).max(initial=0.0)
            near = np.abs(a - b) <= 8 * epsilon * np.maximum(np.abs(a), min(scale, 1e30) / 8)
            good = near | (np.isnan(a) & np.isnan(b)) | (a == b)
        if good.all():
            return "rounded"
        worst = int(np.flatnonzero(~good)[0])
        result = f"{int((~good).sum())} of {len(changed)} numbers ({kind}) differ: {a[worst]} here, {b[worst]} there"
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="regular expression on calls")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("-v", action="store_true", help="name what is only rounded alike, too")
    o = parser.parse_args()
    for tool in ("aarch64-linux-gnu-gcc", "qemu-aarch64"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is not installed")
    with tempfile.TemporaryDirectory() as name:
        os.environ["FLAMBEAU_CACHE_DIR"] = name  # everything is compiled anew
        from flambeau.codegen import target

        target.processor = lambda: GENERAL
        kernels = Kernels(target)
        import flambeau

        flambeau.set_num_threads(1)
        failed = []
        for title, program in programs(o.only).items():
            kernels.why = title
            try:
                program()
            except Exception as error:
                failed.append(f"{title}: {type(error).__name__}: {error}"[:200])
        print(
            f"{len(kernels.texts)} kernels, {len(kernels.calls)} calls; {len(failed)} programs did not run here"
        )
        print("\n".join(failed))
        wrong = 0
        for way in o.ways.split(","):
            folder = Path(name) / way
            folder.mkdir()
            _overrides, refused = emulated(kernels, way, folder)
            counts: Counter[str] = Counter()
            selected = [c for c in kernels.calls if c.kernel not in refused]
            for number, error in refused.items():
                print(f"{way}: does not compile: {kernels.sources[number]}: {error}")
            for call, (status, memory) in zip(selected, _overrides):
                text = kernels.texts[call.kernel]
                result = f"ended with status {status:#x}" if status else verdict(text, call, memory)
                counts[result if result in ("same", "rounded") else "wrong"] += 1
                if result != "same" and (result != "rounded" or o.v):
                    print(f"{way}: kernel {call.kernel} of {kernels.sources[call.kernel]}: {result}")
            wrong += len(refused) + counts["wrong"]
            print(
                f"{way}: {len(kernels.texts) - len(refused)} kernels compiled, {len(refused)} refused; calls: {dict(counts)}"
            )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
