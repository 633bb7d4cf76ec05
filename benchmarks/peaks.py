"""What this machine can do: flops by type, bandwidth by level, the cost of an empty call.

    python benchmarks/peaks.py [--threads 2]

Small loops are written as LLVM IR and compiled as flambeau's own kernels are.  Flops: independent sums, all of them in
registers (24 with AVX-512 or NEON, 12 with AVX2), one fused step each in a turn.  Bandwidth: vectors of 64 bytes, eight a
turn, over and over memory that fills half of a level of cache (beyond the last: 128 MiB); `copy` counts bytes read and bytes
written.  Below the second level one, two and four streams side by side and stores that go round the caches are tried, too,
and the best is taken.  With several threads each has buffers of its own, and rates are sums.  `roofline.py` measures cases
of the libraries against these figures.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import itertools
import operator
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flambeau.codegen import target

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_count = iter(range(1 << 30))


class Step(NamedTuple):
    """An instruction `sum = step(sum, x, y)`: its vectors, what it asks of the processor, operations an instruction."""

    sums: str
    factors: str
    call: str
    feature: str
    work: int


def steps() -> dict[str, list[Step]]:
    """For each type the instructions that may be there, widest first."""

    def fused(lanes: int, kind: str, short: str, feature: str) -> Step:
        vector = f"<{lanes} x {kind}>"
        return Step(vector, vector, f"llvm.fma.v{lanes}{short}", feature, 2 * lanes)

    return {
        "float32": [
            fused(lanes, "float", "f32", f) for lanes, f in ((16, "avx512f"), (8, "fma"), (4, "neon"))
        ],
        "float64": [
            fused(lanes, "double", "f64", f) for lanes, f in ((8, "avx512f"), (4, "fma"), (2, "neon"))
        ],
        "bfloat16": [
            Step("<16 x float>", "<32 x bfloat>", "llvm.x86.avx512bf16.dpbf16ps.512", "avx512bf16", 64),
            Step("<4 x float>", "<8 x bfloat>", "llvm.aarch64.neon.bfmmla", "bf16", 32),
        ],
        "int8": [
            Step("<16 x i32>", "<64 x i8>", "llvm.x86.avx512.vpdpbusd.512", "avx512vnni", 128),
            Step("<8 x i32>", "<32 x i8>", "llvm.x86.avx512.vpdpbusd.256", "avxvnni", 64),
            Step("<4 x i32>", "<16 x i8>", "llvm.aarch64.neon.sdot.v4i32.v16i8", "dotprod", 32),
        ],
    }


def compiled(text: str, *arguments) -> Callable:
    """The function @loop of a module, as one of ctypes."""
    symbol = f"peak{os.getpid()}_{next(_count)}"
    address = target.load(target.host_object(text.replace("@loop(", f"@{symbol}(")), symbol)
    return ctypes.CFUNCTYPE(None, *arguments)(address)


def sums_loop(step: Step, sums: int) -> Callable:
    """@loop(turns, numbers): `sums` independent chains of the instruction, started from memory and stored in the end."""
    declared = f"declare {step.sums} @{step.call}({step.sums}, {step.factors}, {step.factors})"
    order = "({x}, {y}, {s})" if "fma" in step.call else "({s}, {x}, {y})"
    lines = [declared, "define void @loop(i64 %turns, ptr %at) {", "entry:"]
    lines += [f"  %x = load {step.factors}, ptr %at", "  %py = getelementptr i8, ptr %at, i64 64"]
    lines += [f"  %y = load {step.factors}, ptr %py"]
    for i in range(sums):
        lines += [f"  %p{i} = getelementptr i8, ptr %at, i64 {64 * (i + 2)}"]
        lines += [f"  %a{i} = load {step.sums}, ptr %p{i}"]
    lines += ["  br label %head", "head:", "  %t = phi i64 [ 0, %entry ], [ %next, %head ]"]
    for i in range(sums):
        lines.append(f"  %s{i} = phi {step.sums} [ %a{i}, %entry ], [ %r{i}, %head ]")
    for i in range(sums):
        three = order.format(x=f"{step.factors} %x", y=f"{step.factors} %y", s=f"{step.sums} %s{i}")
        lines.append(f"  %r{i} = call {step.sums} @{step.call}{three}")
    lines += ["  %next = add i64 %t, 1", "  %more = icmp slt i64 %next, %turns"]
    lines += ["  br i1 %more, label %head, label %done", "done:"]
    lines += [f"  store {step.sums} %r{i}, ptr %p{i}" for i in range(sums)]
    return compiled("\n".join([*lines, "  ret void", "}"]), ctypes.c_int64, ctypes.c_void_p)


def memory_loop(reads: bool, writes: bool, round_caches: bool, streams: int = 1) -> Callable:
    """@loop(passes, from, to, bytes): reads, writes or copies so many bytes, over and over, in so many streams side by side."""
    vector, each = "<16 x i32>", 8 // streams
    hint = ", align 64, !nontemporal !0" if round_caches else ", align 64"
    lines = ["!0 = !{i32 1}", "define void @loop(i64 %passes, ptr %from, ptr %to, i64 %bytes) {", "entry:"]
    lines += [f"  %part = udiv i64 %bytes, {streams}"]
    for j in range(streams):
        lines += [f"  %start{j} = mul i64 %part, {j}"]
        lines += [f"  %{end}{j} = getelementptr i8, ptr %{end}, i64 %start{j}" for end in ("from", "to")]
    lines += ["  br label %pass", "pass:", "  %k = phi i64 [ 0, %entry ], [ %k1, %end ]"]
    carried = range(8 if reads and not writes else 0)
    for i in carried:
        lines.append(f"  %b{i} = phi {vector} [ zeroinitializer, %entry ], [ %r{i}, %end ]")
    lines += ["  br label %head", "head:", "  %at = phi i64 [ 0, %pass ], [ %next, %head ]"]
    for i in carried:
        lines.append(f"  %s{i} = phi {vector} [ %b{i}, %pass ], [ %r{i}, %head ]")
    for i in range(8):
        stream = i // each
        lines.append(f"  %o{i} = add i64 %at, {64 * (i % each)}")
        if reads:
            lines += [f"  %p{i} = getelementptr i8, ptr %from{stream}, i64 %o{i}"]
            lines += [f"  %v{i} = load volatile {vector}, ptr %p{i}, align 64"]
        if writes:
            value = f"%v{i}" if reads else "zeroinitializer"
            lines += [f"  %q{i} = getelementptr i8, ptr %to{stream}, i64 %o{i}"]
            lines += [f"  store {vector} {value}, ptr %q{i}{hint}"]
        else:
            lines += [f"  %r{i} = xor {vector} %s{i}, %v{i}"]
    lines += [f"  %next = add i64 %at, {64 * each}", "  %more = icmp slt i64 %next, %part"]
    lines += ["  br i1 %more, label %head, label %end", "end:", "  %k1 = add i64 %k, 1"]
    lines += ["  %again = icmp slt i64 %k1, %passes"]
    # Without this the compiler would write only the last of all passes.
    lines += ['  call void asm sideeffect "", "~{memory}"()']
    lines += ["  br i1 %again, label %pass, label %done", "done:"]
    for i in carried:
        lines += [f"  %z{i} = getelementptr i8, ptr %to, i64 {64 * i}", f"  store {vector} %r{i}, ptr %z{i}"]
    return compiled(
        "\n".join([*lines, "  ret void", "}"]),
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
    )


def aligned_buffer(bytes: int):
    """So much memory, written once, and its first address divisible by 64."""
    buffer = ctypes.create_string_buffer(bytes + 4096)
    ctypes.memset(buffer, 0, bytes + 4096)
    return buffer, -(-ctypes.addressof(buffer) // 4096) * 4096


def race(loops: list[Callable[[int], object]], turns: int) -> float:
    """Seconds on the processor of the slowest of all loops, each in a thread of its own, for so many turns."""
    ready = threading.Barrier(len(loops))
    times: list[float] = []

    def run(loop: Callable[[int], object]) -> None:
        ready.wait()
        began = time.thread_time()  # what other programs take is not counted
        loop(turns)
        times.append(time.thread_time() - began)

    team = [threading.Thread(target=run, args=(loop,)) for loop in loops]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    return max(times)


def rate(work: float, make: Callable[[], Callable[[int], object]], threads: int) -> float:
    """Most work a second of `threads` threads, each with a loop of its own: the best of many short runs."""
    loops = [make() for _ in range(threads)]
    turns, length, runs = 1, 0.004, 16
    while min(race(loops, turns), race(loops, turns)) < length:
        turns *= 2
    return threads * work * turns / min(race(loops, turns) for _ in range(runs))


def flops(threads: int = 1) -> dict[str, float]:
    """Operations a second by type; a product added to a sum is two.  Types without an instruction of their own are absent."""
    features = {f[1:] for f in target.processor()[1].split(",") if f[0] == "+"}
    rates = {}
    for kind, choices in steps().items():
        step = next((s for s in choices if s.feature in features), None)
        if step is None:
            continue
        sums = 12 if step.feature in ("fma", "avxvnni") else 24
        loop = sums_loop(step, sums)

        def make(loop=loop, sums=sums) -> Callable[[int], object]:
            buffer, at = aligned_buffer(64 * (sums + 2))
            return lambda turns: (buffer, loop(turns, at))

        rates[kind] = rate(step.work * sums, make, threads)
    return rates


def levels() -> dict[str, int]:
    """Bytes of each level of cache that holds data, as the system tells, nearest first."""
    sizes = {}
    for folder in sorted(CACHES.glob("index*")):
        if (folder / "type").read_text().strip() != "Instruction":
            number, unit = re.fullmatch(r"(\d+)([KM]?)", (folder / "size").read_text().strip()).groups()
            sizes["L" + (folder / "level").read_text().strip()] = (
                int(number) << {"": 0, "K": 10, "M": 20}[unit]
            )
    return sizes or {"L1": 32 << 10, "L2": 512 << 10}


def bandwidths(threads: int = 1) -> dict[str, dict[str, float]]:
    """Bytes a second by level and direction."""
    directions = {"read": (True, False), "write": (False, True), "copy": (True, True)}
    rates: dict[str, dict[str, float]] = {}
    for name, size in {**levels(), "memory": 256 << 20}.items():
        rates[name] = {}
        far = name not in ("L1", "L2")
        for way, (reads, writes) in directions.items():
            part = size // 2 // (2 if way == "copy" else 1) // (threads if name == "L3" else 1) // 4096 * 4096
            ways = itertools.product(
                (1, 2, 4) if far else (1,), (False, True) if far and writes else (False,)
            )
            rates[name][way] = max(
                rate(
                    part * (reads + writes),
                    functools.partial(passing, reads, writes, part, around, streams),
                    threads,
                )
                for streams, around in ways
            )
    return rates


def passing(reads: bool, writes: bool, part: int, around: bool, streams: int) -> Callable[[int], object]:
    """A loop with memory of its own."""
    loop = memory_loop(reads, writes, around, streams)
    one, a = aligned_buffer(part)
    two, b = aligned_buffer(part) if reads and writes else (one, a)
    return lambda passes: (one, two, loop(passes, a, b, part))


def call() -> float:
    """Seconds of `lambda: f(a, b)` for a compiled function that does nothing."""
    f, a, b, best = operator.is_, object(), object(), 1.0
    empty = lambda: f(a, b)  # noqa: E731
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(10000):
            empty()
        best = min(best, (time.perf_counter() - began) / 10000)
    return best


class Peaks(NamedTuple):
    flops: dict[str, float]
    bandwidth: dict[str, dict[str, float]]
    capacity: dict[str, int]
    call: float

    def table(self) -> str:
        lines = [
            "| level | size | read, GB/s | write, GB/s | copy (read + written), GB/s |\n|---|---|---|---|---|"
        ]
        for name, ways in self.bandwidth.items():
            size = f"{self.capacity[name] >> 10} KiB" if name in self.capacity else ""
            lines.append(f"| {name} | {size} | " + " | ".join(f"{v / 1e9:.0f}" for v in ways.values()) + " |")
        lines.append("\n| type | peak, Gflop/s (Gop/s) |\n|---|---|")
        lines += [f"| {kind} | {v / 1e9:.0f} |" for kind, v in self.flops.items()]
        return "\n".join([*lines, f"\nAn empty call from Python: {self.call * 1e9:.0f} ns."])


def measured(threads: int = 1) -> Peaks:
    return Peaks(flops(threads), bandwidths(threads), levels(), call())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    print(measured(parser.parse_args().threads).table())
