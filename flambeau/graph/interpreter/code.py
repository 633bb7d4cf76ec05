"""Code objects as lists of instructions with their handlers, lines and handlers of exceptions."""

from __future__ import annotations

import dis
import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, NamedTuple

GENERATOR, ASYNCHRONOUS = 0x20, 0x80 | 0x100 | 0x200  # bits of `co_flags`
VARIADIC, KEYWORDS = 0x04, 0x08

NULL: Any = type(
    "NULL", (), {"__repr__": lambda self: "NULL"}
)()  # an empty place on the stack, or an unbound local


class Instruction(NamedTuple):
    """An instruction: `target` is the index of the one that it jumps to, `guarded` the exception handler that covers it."""

    name: str
    run: Callable[..., Any] | None
    arg: int
    value: Any
    target: int
    line: int
    guarded: tuple[int, int, bool] | None  # index, depth of the stack, whether the place is pushed
    offset: int


_decoded: weakref.WeakKeyDictionary[CodeType, list[Instruction]] = weakref.WeakKeyDictionary()


def decode(code: CodeType, handlers: dict[str, Callable[..., Any]]) -> list[Instruction]:
    """The instructions of a code object, each with its function of `handlers` or None."""
    made = _decoded.get(code)
    if made is None:
        made = _decoded[code] = _decode(code, handlers)
    return made


def _decode(code: CodeType, handlers: dict[str, Callable[..., Any]]) -> list[Instruction]:
    plain = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
    index = {i.offset: k for k, i in enumerate(plain)}
    covered = [
        (start, end, (index[target], depth, lasti)) for start, end, target, depth, lasti in _exceptions(code)
    ]
    lines = {start: line for start, line in dis.findlinestarts(code)}
    line, made = code.co_firstlineno, []
    for i in plain:
        line = lines.get(i.offset) or line
        target = index[i.argval] if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs else -1
        guarded = next((where for start, end, where in reversed(covered) if start <= i.offset < end), None)
        made.append(
            Instruction(
                i.opname, handlers.get(i.opname), i.arg or 0, i.argval, target, line, guarded, i.offset
            )
        )
    return made


def _exceptions(code: CodeType) -> Iterator[tuple[int, int, int, int, bool]]:
    """The exception table: start, end and target as offsets in bytes, depth of the stack, whether the place is pushed."""
    data = iter(code.co_exceptiontable)

    def number(first: int) -> int:
        value = first & 63
        while first & 64:
            first = next(data)
            value = value << 6 | first & 63
        return value

    for first in data:
        start = number(first) * 2
        length, target, depth = number(next(data)) * 2, number(next(data)) * 2, number(next(data))
        yield start, start + length, target, depth >> 1, bool(depth & 1)


class Frame:
    """A call that is interpreted."""

    __slots__ = (
        "at",
        "caller",
        "cells",
        "code",
        "function",
        "globals",
        "instructions",
        "locals",
        "names",
        "sent",
        "stack",
    )

    def __init__(self, function: Any, code: CodeType, instructions: list[Instruction]) -> None:
        self.function, self.code, self.globals = function, code, function.__globals__
        self.instructions, self.at = instructions, 0
        self.locals: dict[str, Any] = {}
        self.stack: list[Any] = []
        self.names: tuple[str, ...] = ()  # of keyword arguments of the next call
        self.caller: Frame | None = None

    @property
    def line(self) -> int:
        return self.instructions[max(self.at - 1, 0)].line

    def pop(self, count: int) -> list[Any]:
        """The topmost values, in the order in which they were pushed."""
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values


def bind(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The locals of a call's frame; None where the arguments do not fit."""
    code = function.__code__
    count, named = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    result = dict(zip(names[:count], args))
    rest = count + named
    if len(args) > count:
        if not code.co_flags & VARIADIC:
            return None
    if code.co_flags & VARIADIC:
        result[names[rest]] = tuple(args[count:])
        rest += 1
    accepted = names[code.co_posonlyargcount : count + named]
    extra: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name in accepted:
            if name in result:
                return None
            result[name] = value
        elif code.co_flags & KEYWORDS:
            extra[name] = value
        else:
            return None
    if code.co_flags & KEYWORDS:
        result[names[rest]] = extra
    defaults = function.__defaults__ or ()
    for name, value in zip(names[count - len(defaults) : count], defaults):
        result.setdefault(name, value)
    for name, value in (function.__kwdefaults__ or {}).items():
        result.setdefault(name, value)
    return result if all(name in result for name in names[: count + named]) else None
