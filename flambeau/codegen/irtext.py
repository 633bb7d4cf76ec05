"""A small writer of LLVM IR text.

LLVM's textual form is its one stable input format and quick to write: an instruction is an f-string.  A
`Value` pairs an SSA name with its type; a `Function` collects instructions and knows the block it is writing
to.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Value(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


def i64(n: int) -> Value:
    return Value("i64", str(n))


def i32(n: int) -> Value:
    return Value("i32", str(n))


def float_literal(value: float, kind: str) -> str:
    """LLVM writes floats as the hex bits of the double of the same value."""
    if kind == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if kind == "float" and value == value and abs(value) != float("inf"):
        value = struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class Module:
    """Functions, declarations and metadata of one compilation."""

    def __init__(self, triple: str = "", layout: str = ""):
        self.triple = triple
        self.head = [f'target triple = "{triple}"'] if triple else []
        if layout:
            self.head.append(f'target datalayout = "{layout}"')
        self.globals: list[str] = []
        self.declared: dict[str, str] = {}
        self.functions: list[Function] = []
        self.seldom: dict[
            tuple, list
        ] = {}  # unlikely values: how often they were needed, and the function for them

    def declare(self, name: str, result: str, arguments: Sequence[str], suffix: str = "") -> None:
        self.declared[name] = f"declare {result} @{name}({', '.join(arguments)}){suffix}"

    def __str__(self) -> str:
        parts = [*self.head, *self.globals, *self.declared.values(), *map(str, self.functions)]
        return "\n".join(parts) + "\n"


class Function:
    """The body of one function as it is written."""

    def __init__(self, module: Module, signature: str):
        self.module, self.signature = module, signature
        self.blocks: list[tuple[str, list[str]]] = [("entry", [])]
        self.count = 0
        module.functions.append(self)

    def __str__(self) -> str:
        body = "\n".join(f"{label}:\n" + "\n".join(lines) for label, lines in self.blocks)
        return f"{self.signature} {{\n{body}\n}}\n"

    @property
    def block(self) -> str:
        return self.blocks[-1][0]

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def start(self, label: str) -> None:
        self.blocks.append((label, []))

    def do(self, line: str) -> None:
        self.blocks[-1][1].append("  " + line)

    def op(self, type: str, text: str) -> Value:
        name = "%" + self.fresh("v")
        self.do(f"{name} = {text}")
        return Value(type, name)

    def binary(self, op: str, a: Value, b: Value) -> Value:
        return self.op(a.type, f"{op} {a}, {b.name}")

    def add(self, a: Value, b: Value) -> Value:
        return self.binary("add nsw", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        return self.binary("mul nsw", a, b)

    def call(
        self, result: str, name: str, *arguments: Value, suffix: str = "", convention: str = ""
    ) -> Value:
        """Declare `name` for these types and call it."""
        self.module.declare(name, convention + result, [a.type for a in arguments], suffix)
        text = f"call {convention}{result} @{name}({', '.join(map(str, arguments))})"
        if result == "void":
            self.do(text)
            return Value("void", "")
        return self.op(result, text)

    def load(self, type: str, pointer: Value, align: int) -> Value:
        return self.op(type, f"load {type}, {pointer}, align {align}")

    def store(self, value: Value, pointer: Value, align: int, streaming: bool = False) -> None:
        hint = ", !nontemporal !{i32 1}" if streaming else ""
        self.do(f"store {value}, {pointer}, align {align}{hint}")

    def gep(self, element: str, pointer: Value, index: Value) -> Value:
        return self.op(pointer.type, f"getelementptr {element}, {pointer}, {index}")

    def branch(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch_if(self, condition: Value, yes: str, no: str) -> None:
        self.do(f"br {condition}, label %{yes}, label %{no}")

    def coordinates(self, number: Value, sizes: Sequence[Value]) -> list[Value]:
        """Where an element, counted in row-major order, stands in each dimension; `sizes` are those of all but the first."""
        rest, inner = number, []
        for size in reversed(sizes):
            outer = self.binary("udiv", rest, size)
            inner.append(self.binary("sub", rest, self.binary("mul", outer, size)))
            rest = outer
        return [rest, *reversed(inner)]

    def loop(
        self,
        begin: Value,
        end: Value,
        step: Value,
        carried: Sequence[Value],
        body: Callable[[Value, list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """`for i in range(begin, end, step)` carrying values; returns what the last turn left.  May run zero
        times.
        """
        head, inside, after = self.fresh("head"), self.fresh("body"), self.fresh("after")
        before = self.block
        self.branch(head)
        self.start(head)
        i = Value("i64", "%" + self.fresh("i"))
        phis = [Value(v.type, "%" + self.fresh("c")) for v in carried]
        lines = self.blocks[-1][1]  # the phi nodes are filled in when the body's last block is known
        position = len(lines)
        self.branch_if(self.op("i1", f"icmp slt {i}, {end.name}"), inside, after)
        self.start(inside)
        new = list(body(i, phis))
        following = self.add(i, step)
        last = self.block
        self.branch(head)
        lines[position:position] = [
            f"  {p.name} = phi {p.type} [ {first.name}, %{before} ], [ {again.name}, %{last} ]"
            for p, first, again in zip([i, *phis], [begin, *carried], [following, *new])
        ]
        self.start(after)
        return phis

    def repeat(
        self,
        carried: Sequence[Value],
        holds: Callable[[list[Value]], Value],
        turn: Callable[[list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """`while holds(carried): carried = turn(carried)`; what `holds` computes is known in `turn`."""
        head, inside, after, before = self.fresh("head"), self.fresh("body"), self.fresh("after"), self.block
        self.branch(head)
        self.start(head)
        phis = [Value(v.type, "%" + self.fresh("c")) for v in carried]
        lines = self.blocks[-1][1]  # as in `loop`
        self.branch_if(holds(phis), inside, after)
        self.start(inside)
        new = list(turn(phis))
        last = self.block
        self.branch(head)
        lines[:0] = [
            f"  {p.name} = phi {p.type} [ {first.name}, %{before} ], [ {again.name}, %{last} ]"
            for p, first, again in zip(phis, carried, new)
        ]
        self.start(after)
        return phis

    def when(
        self, condition: Value, body: Callable[[], Sequence[Value]], otherwise: Sequence[Value] = ()
    ) -> list[Value]:
        """`if condition: body()`; returns the body's values, or `otherwise` where the condition is false."""
        yes, after, before = self.fresh("then"), self.fresh("after"), self.block
        self.branch_if(condition, yes, after)
        self.start(yes)
        values = list(body())
        last = self.block
        self.branch(after)
        self.start(after)
        return [
            self.op(v.type, f"phi {v.type} [ {v.name}, %{last} ], [ {o.name}, %{before} ]")
            for v, o in zip(values, otherwise)
        ]
