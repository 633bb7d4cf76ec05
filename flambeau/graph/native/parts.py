"""What a library is made of: kernels and tiles, each once, and functions that launch them, as one LLVM module."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...codegen import schedule_cpu, target
from ...codegen.irtext import Function, Module, Value, i64
from ...codegen.tiles.register import Register
from ...core.base import forks
from ...core.base.stacks import deep


class Parts:
    """The module as it is written."""

    def __init__(self) -> None:
        self.triple = target.llvm().get_default_triple()
        self.module = Module(self.triple)
        self.texts: dict[
            str, tuple[str, bool]
        ] = {}  # by symbol: a module, and whether its loops are written as LLVM would leave them
        self.constants: dict[tuple[int, ...], Value] = {}

    def kernel(self, kernel: Any) -> str:
        """The symbol of a kernel of elements or rows."""
        return self.text_of_kernel(str(schedule_cpu.module_for(kernel, self.triple)))

    def text_of_kernel(self, text: str) -> str:
        """The symbol of a kernel whose module this is."""
        symbol = "kernel_" + hashlib.sha256(text.encode()).hexdigest()[:24]
        self.texts.setdefault(symbol, (text.replace("@kernel(", f"@{symbol}("), True))
        return symbol

    def tile(self, tile: Register) -> str:
        """The symbol of a register tile."""
        symbol = "tile_" + hashlib.sha256(tile.text("tile").encode()).hexdigest()[:24]
        if symbol not in self.texts:
            self.texts[symbol] = tile.text(symbol), False
        return symbol

    def numbers(self, values: Sequence[int]) -> Value:
        """The address of an array of these numbers, of 8 bytes each."""
        key = tuple(values)
        if key not in self.constants:
            name = f"@numbers{len(self.constants)}"
            listed = ", ".join(f"i64 {n}" for n in key)
            self.module.globals.append(
                f"{name} = private unnamed_addr constant [{len(key)} x i64] [{listed}], align 64"
            )
            self.constants[key] = Value("ptr", name)
        return self.constants[key]

    def function(self, name: str, arguments: Sequence[str]) -> tuple[Function, list[Value]]:
        """A function of addresses that returns nothing, and its arguments."""
        f = Function(
            self.module, f"define internal void @{name}({', '.join(f'ptr %{a}' for a in arguments)})"
        )
        return f, [Value("ptr", f"%{a}") for a in arguments]

    def object_code(self, exported: Collection[str]) -> bytes:
        """Object code for this processor, for the linker of shared libraries; other functions than those exported are its own."""
        return deep(self._object_code, exported)

    def _object_code(self, exported: Collection[str]) -> bytes:
        with forks.making:
            machine = target.host_machine("pic", "default")
            whole = target.optimised(str(self.module), machine)
            for symbol, (text, settled) in self.texts.items():
                part = target.simplified(text, machine) if settled else target.optimised(text, machine)
                _hide(part, (symbol,))
                whole.link_in(part)
            _hide(whole, exported)
            return machine.emit_object(whole)


def _hide(module: Any, shown: Collection[str]) -> None:
    for f in module.functions:
        if not f.is_declaration and f.name not in shown:
            f.linkage = "internal"


def invoke(f: Function, name: str, *arguments: Value) -> None:
    """Call a function of the same module."""
    f.do(f"call void @{name}({', '.join(map(str, arguments))})")


def at(f: Function, pointer: Value, offset: Value | int) -> Value:
    """So many bytes behind an address."""
    if isinstance(offset, int):
        return pointer if offset == 0 else f.gep("i8", pointer, i64(offset))
    return f.gep("i8", pointer, offset)


def stack_buffer(f: Function, kind: str, count: int) -> Value:
    """Memory on the stack, for as long as the function runs: it is taken where that begins."""
    name = "%" + f.fresh("buffer")
    f.blocks[0][1].insert(0, f"  {name} = alloca [{count} x {kind}], align 64")
    return Value("ptr", name)


def put(f: Function, array: Value, k: int, value: Value) -> None:
    """Number k of an array of words."""
    f.store(value, at(f, array, 8 * k), 8)


def nest(
    f: Function,
    sizes: Sequence[int],
    pointers: Sequence[Value],
    steps: Sequence[Sequence[int]],
    body: Callable[[list[Value], Value], None],
    number: Value | None = None,
) -> Value:
    """Loops of these sizes, the outermost first: `body` is given where each pointer stands, and the number of the turn.

    `steps` has, for each pointer, how many bytes it moves with each loop.
    """
    number = i64(0) if number is None else number
    if not sizes:
        body(list(pointers), number)
        return f.add(number, i64(1))
    count = len(pointers)

    def turn(_: Value, carried: list[Value]) -> list[Value]:
        after = nest(f, sizes[1:], carried[:count], [s[1:] for s in steps], body, carried[count])
        return [*(at(f, p, s[0]) for p, s in zip(carried, steps)), after]

    return f.loop(i64(0), i64(sizes[0]), i64(1), [*pointers, number], turn)[count]
