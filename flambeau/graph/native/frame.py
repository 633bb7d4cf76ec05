"""What a program in C calls: `name_run`, which checks what it is given, `name_load` and `name_unload` for the weights, descriptions.

The functions are instructions of the same module as the kernels.  Of the system they need `open`, `lseek`, `mmap`, `munmap`, `close`
and `memcmp`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...codegen.irtext import Function, Module, Value, i32, i64
from .parts import Parts, at, stack_buffer

ROW = "{ ptr, i64, ptr, i64 }"  # dtype, rank, shape, bytes
ALIGN = 64  # of the workspace, in bytes
CODES = (
    ("OK", "the results are written"),
    ("NULL_POINTER", "a null pointer where an address is wanted"),
    ("MISALIGNED", "an address that is no multiple of its element's size, or of the workspace's alignment"),
    ("NOT_LOADED", "the weights are not loaded"),
    ("CANNOT_OPEN", "the file of weights cannot be opened or mapped"),
    ("OTHER_WEIGHTS", "the file is not that of this library's weights"),
    ("OUT_OF_RANGE", "an index is out of range; what the outputs hold is to be thrown away"),
)
OK, NULL_POINTER, MISALIGNED, NOT_LOADED, CANNOT_OPEN, OTHER_WEIGHTS, OUT_OF_RANGE = range(7)


class Described(NamedTuple):
    """An input or an output: its dtype's name, shape, and bytes an element."""

    dtype: str
    shape: tuple[int, ...]
    size: int

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        count = self.size
        for n in self.shape:
            count *= n
        return count


class _Checked:
    """A function that returns a code, early where something is wrong."""

    def __init__(self, module: Module, signature: str) -> None:
        self.f = Function(module, signature)

    def require(self, condition: Value, code: int, clean: Callable[[], None] | None = None) -> None:
        """Go on where the condition holds."""
        bad, good = self.f.fresh("bad"), self.f.fresh("good")
        self.f.branch_if(condition, good, bad)
        self.f.start(bad)
        if clean is not None:
            clean()
        self.f.do(f"ret i32 {code}")
        self.f.start(good)

    def is_set(self, pointer: Value) -> Value:
        return self.f.op("i1", f"icmp ne {pointer}, null")

    def aligned(self, pointer: Value, to: int) -> Value:
        bits = self.f.op("i64", f"ptrtoint {pointer} to i64")
        return self.f.op("i1", f"icmp eq {self.f.binary('and', bits, i64(to - 1))}, 0")


def write_run(
    parts: Parts,
    name: str,
    inputs: Sequence[Described],
    outputs: Sequence[Described],
    workspace: int,
    is_weighted: bool,
    body: Callable[[Function, list[Value], list[Value], Value, Value, Value], None],
) -> None:
    """`body` is given the addresses of inputs, outputs, the workspace, the weights and the word for faults."""
    made = _Checked(parts.module, f"define i32 @{name}_run(ptr %inputs, ptr %outputs, ptr %workspace)")
    f, buffer = made.f, Value("ptr", "%workspace")
    addresses: list[list[Value]] = []
    for given, described in ((Value("ptr", "%inputs"), inputs), (Value("ptr", "%outputs"), outputs)):
        result: list[Value] = []
        if described:
            made.require(made.is_set(given), NULL_POINTER)
        for k, one in enumerate(described):
            result.append(f.load("ptr", at(f, given, 8 * k), 8))
            if one.nbytes:
                made.require(made.is_set(result[-1]), NULL_POINTER)
                made.require(made.aligned(result[-1], min(one.size, 8)), MISALIGNED)
        addresses.append(result)
    if workspace:
        made.require(made.is_set(buffer), NULL_POINTER)
        made.require(made.aligned(buffer, ALIGN), MISALIGNED)
    weights = Value("ptr", "null")
    if is_weighted:
        weights = f.op("ptr", f"load atomic ptr, ptr @{name}_weights acquire, align 8")
        made.require(made.is_set(weights), NOT_LOADED)
    fault = stack_buffer(f, "i64", 1)  # set by kernels that read indices
    f.store(i64(0), fault, 8)
    body(f, addresses[0], addresses[1], buffer, weights, fault)
    faults = f.load("i64", fault, 8)
    made.require(f.op("i1", f"icmp eq {faults}, 0"), OUT_OF_RANGE)
    f.do(f"ret i32 {OK}")


def write_load(parts: Parts, name: str, header: bytes, size: int) -> None:
    """`name_load(path)` maps the file for reading; `name_unload()` gives it back."""
    module = parts.module
    module.globals.append(f"@{name}_weights = internal global ptr null, align 8")
    text = "".join(f"\\{byte:02X}" for byte in header)
    module.globals.append(
        f'@{name}_header = private unnamed_addr constant [{len(header)} x i8] c"{text}", align 8'
    )
    module.declared["open"] = "declare i32 @open(ptr, i32, ...)"
    made = _Checked(module, f"define i32 @{name}_load(ptr %path)")
    f, path = made.f, Value("ptr", "%path")
    made.require(made.is_set(path), NULL_POINTER)
    file = f.op("i32", "call i32 (ptr, i32, ...) @open(ptr %path, i32 0)")

    def close() -> None:
        f.call("i32", "close", file)

    made.require(f.op("i1", f"icmp sge {file}, 0"), CANNOT_OPEN)
    length = f.call("i64", "lseek", file, i64(0), i32(2))
    made.require(f.op("i1", f"icmp eq {length}, {size}"), OTHER_WEIGHTS, close)
    memory = f.call("ptr", "mmap", Value("ptr", "null"), i64(size), i32(1), i32(2), file, i64(0))
    close()
    made.require(f.op("i1", f"icmp ne {memory}, inttoptr (i64 -1 to ptr)"), CANNOT_OPEN)

    def unmap() -> None:
        f.call("i32", "munmap", memory, i64(size))

    same = f.call("i32", "memcmp", memory, Value("ptr", f"@{name}_header"), i64(len(header)))
    made.require(f.op("i1", f"icmp eq {same}, 0"), OTHER_WEIGHTS, unmap)
    met = f.op("{ ptr, i1 }", f"cmpxchg ptr @{name}_weights, ptr null, {memory} acq_rel acquire, align 8")
    first = f.op("i1", f"extractvalue {met}, 1")
    made.require(first, OK, unmap)  # loaded by somebody else meanwhile: that one stays
    f.do(f"ret i32 {OK}")

    f = Function(module, f"define void @{name}_unload()")
    held = f.op("ptr", f"atomicrmw xchg ptr @{name}_weights, ptr null acq_rel, align 8")

    def give_back() -> list[Value]:
        f.call("i32", "munmap", held, i64(size))
        return []

    f.when(f.op("i1", f"icmp ne {held}, null"), give_back)
    f.do("ret void")


def write_descriptions(
    parts: Parts, name: str, inputs: Sequence[Described], outputs: Sequence[Described]
) -> None:
    """`name_inputs` and `name_outputs`, and `name_message(code)`."""
    module = parts.module
    texts: dict[str, str] = {}

    def text(what: str) -> str:
        if what not in texts:
            symbol = texts[what] = f"@{name}_text{len(texts)}"
            module.globals.append(
                f'{symbol} = private unnamed_addr constant [{len(what) + 1} x i8] c"{what}\\00"'
            )
        return texts[what]

    for kind, described in (("inputs", inputs), ("outputs", outputs)):
        rows = []
        for d in described:
            shape = parts.numbers(d.shape or (0,)).name
            rows.append(f"{ROW} {{ ptr {text(d.dtype)}, i64 {len(d.shape)}, ptr {shape}, i64 {d.nbytes} }}")
        if rows:
            module.globals.append(
                f"@{name}_{kind} = constant [{len(rows)} x {ROW}] [{', '.join(rows)}], align 8"
            )
    messages = ", ".join(f"ptr {text(message)}" for _, message in CODES)
    module.globals.append(f"@{name}_messages = private constant [{len(CODES)} x ptr] [{messages}], align 8")
    f = Function(module, f"define ptr @{name}_message(i32 %code)")
    known = f.op("i1", f"icmp ult i32 %code, {len(CODES)}")
    place = f.op("i64", "zext i32 %code to i64")
    result = f.when(
        known,
        lambda: [f.load("ptr", f.gep("ptr", Value("ptr", f"@{name}_messages"), place), 8)],
        [Value("ptr", text("no code of this library"))],
    )
    f.do(f"ret {result[0]}")
