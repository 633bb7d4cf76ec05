"""Functions of a library as operations: operands checked, results allocated, the call, the derivative."""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...core.base.dtypes import by_name, dtype
from ...core.base.tensor import TensorBase
from ...core.make.create import empty
from ...core.tape.contexts import unrecorded
from ...kernels._bodies import place_of
from ...kernels._functions import Derivative, called, numbers_of
from ._sources import LIST, Prototype, read_list

_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5}  # as dlpack.h numbers kinds of elements
_BOOL = 6


_LITTLE = sys.byteorder == "little"


_TYPES: dict[str, Any] = {
    "o": ctypes.c_void_p,
    "r": ctypes.c_void_p,
    "d": ctypes.c_double,
    "f": ctypes.c_float,
    "l": ctypes.c_int64,
    "i": ctypes.c_int32,
    "b": ctypes.c_bool,
}
_BITS = {"l": 63, "i": 31}


@functools.cache
def _word_of(kind: dtype) -> int:
    """The word of a DLTensor that holds its dtype, without the number of dimensions that it holds, too."""
    name, bits = kind.name, 8 * kind.itemsize
    code = _BOOL if name == "bool" else _CODES[name.rstrip("0123456789")]
    return code << 32 | bits << 40 | 1 << 48 if _LITTLE else code << 24 | bits << 16 | 1


def described(t: TensorBase) -> array:
    """A DLTensor of the CPU in words of 8 bytes, sizes and strides behind it; it stands where the array's memory does.

    Words are data, device, dimensions and dtype, the addresses of sizes and strides, and an offset of no bytes.
    """
    shape = t.shape
    rank = len(shape)
    words = array("q", (t.data_ptr(), 1 if _LITTLE else 1 << 32, 0, 0, 0, 0, *shape, *t.stride()))
    at = words.buffer_info()[0]
    words[2] = _word_of(t.dtype) | (rank if _LITTLE else rank << 32)
    words[3], words[4] = at + 48, at + 48 + 8 * rank
    return words


class Rule(NamedTuple):
    """What the source does not say of a function."""

    results: Callable | None = None
    dtypes: Any = ("float32",)
    contiguous: bool = True
    defaults: Mapping[str, Any] = {}
    doc: str | None = None


def rule_of(who: str, rule: Any) -> Rule:
    """A rule from a dictionary of its parts, or from a docstring."""
    if rule is None or isinstance(rule, str):
        return Rule(doc=rule)
    if not isinstance(rule, Mapping):
        raise TypeError(f"{who}: a dictionary expected, got {type(rule).__name__}")
    strange = set(rule) - set(Rule._fields)
    if strange:
        raise TypeError(f"{who}: '{min(strange)}' is none of {', '.join(Rule._fields)}")
    return Rule(**rule)


class Library:
    """An opened library and where it came from."""

    def __init__(self, path: str, shown: str, listed: Sequence[Prototype] | None = None):
        self.shown = shown
        try:
            self.opened = ctypes.CDLL(path)
        except OSError as error:
            raise RuntimeError(f"{shown}: the library cannot be opened: {error}") from None
        self.functions = {p.name: p for p in (self.listed() if listed is None else listed)}

    def listed(self) -> list[Prototype]:
        """What the library says of itself."""
        tell = getattr(self.opened, LIST, None)
        if tell is None:
            raise RuntimeError(
                f"{self.shown} does not list its functions: give the text of its sources, or add the file that "
                "`python -m flambeau.utils.cpp_extension SOURCES` writes to the build"
            )
        tell.restype = ctypes.c_char_p
        return read_list(tell().decode())

    def operation(self, name: str, rule: Rule, module: str) -> Any:
        """A function as an operation."""
        prototype = self.functions[name]
        call = getattr(self.opened, prototype.symbol, None)
        if call is None:
            raise RuntimeError(f"{self.shown} has no function {name}, which its sources declare")
        call.argtypes, call.restype = [_TYPES[kind] for kind, _ in prototype.arguments], ctypes.c_char_p
        return _Function(self.shown, prototype, rule, call).operation(module)


class _Function:
    """A function of a library, its rule and its derivative."""

    def __init__(self, file: str, prototype: Prototype, rule: Rule, call: Callable):
        self.name, self.prototype, self.rule, self.function = prototype.name, prototype, rule, call
        self.who = f"the C function {self.name} ({file})"
        self.operands = tuple(n for kind, n in prototype.arguments if kind == "o")
        self.numbers = tuple((kind, n) for kind, n in prototype.arguments if kind not in "or")
        self.results = sum(kind == "r" for kind, _ in prototype.arguments)
        self.taken = self.read_dtypes(rule.dtypes)
        for n in rule.defaults:
            if n not in [m for _, m in self.numbers]:
                raise TypeError(f"{self.who}: defaults names '{n}', which is none of its numbers")
        self.derivative = Derivative(
            self.who, self.name, self.operands, [n for _, n in self.numbers], self.results
        )

    def read_dtypes(self, dtypes: Any) -> dict[str, tuple[dtype, ...]]:
        """For each operand the dtypes that it may be of."""
        each = dtypes if isinstance(dtypes, Mapping) else dict.fromkeys(self.operands, dtypes)
        result = {}
        for n in self.operands:
            some = each.get(n, ("float32",))
            some = (some,) if isinstance(some, (str, dtype)) else some
            try:
                result[n] = tuple(d if isinstance(d, dtype) else by_name[d] for d in some)
            except KeyError as error:
                raise ValueError(f"{self.who}: dtypes holds {error}, which is no dtype") from None
        return result

    def operation(self, module: str) -> Any:
        """The operation: operands and numbers in the order of the source, those with defaults last."""
        names = [
            n for _, n in self.prototype.arguments if n in self.operands or n in [m for _, m in self.numbers]
        ]
        names.sort(key=lambda n: n in self.rule.defaults)
        ends = {n: self.rule.defaults[n] for n in names if n in self.rule.defaults}
        spelled, namespace = numbers_of(names, list(ends.values()))
        handed = (
            f"({''.join(n + ', ' for n in self.operands)}), ({''.join(n + ', ' for _, n in self.numbers)})"
        )
        op = called(self.name, self.results, spelled, handed, self.run, **namespace)
        op.derivative, op.__doc__, op.__module__ = self.derivative.declare, self.rule.doc, module
        op.public_name = self.name
        return op

    def run(self, tensors: tuple, values: tuple) -> Any:
        """A call: every error comes before the function runs, but for those that it tells itself."""
        device = self.check(tensors)
        numbers = {n: self.number(kind, n, v) for (kind, n), v in zip(self.numbers, values)}
        outs = self.allocated(tensors, numbers, device)
        if device.type == "cpu":
            self.compute(tensors, outs, numbers)
        self.derivative.record(tensors, outs, numbers)
        return outs if len(outs) > 1 else outs[0]

    def check(self, tensors: tuple) -> Any:
        """The operands are tensors of the dtypes declared, all on the CPU or all without data."""
        device = None
        for n, t in zip(self.operands, tensors):
            if not isinstance(t, TensorBase):
                raise TypeError(f"{self.name}(): argument '{n}' must be Tensor, not {type(t).__name__}")
            device = t.device if device is None else device
            if t.device != device:
                raise RuntimeError(
                    f"{self.name}(): Expected all tensors to be on the same device, but found at least two devices, {device} and "
                    f"{t.device}!"
                )
            if device.type not in ("cpu", "meta"):
                raise NotImplementedError(
                    f"{self.who} runs on the CPU: argument '{n}' is on {device}; use tensor.cpu()"
                )
            if t.dtype not in self.taken[n]:
                wanted = " or ".join(d.name for d in self.taken[n])
                raise TypeError(f"{self.who}: argument '{n}' must be of dtype {wanted}, got {t.dtype.name}")
        return device

    def number(self, kind: str, n: str, value: Any) -> Any:
        """A Python number that fits the C type."""
        try:
            if isinstance(value, TensorBase):
                raise TypeError
            if kind in "df":
                return float(value)
            integer = operator.index(value)
        except TypeError:
            wanted = "a number" if kind in "df" else "an integer"
            raise TypeError(
                f"{self.name}(): argument '{n}' must be {wanted}, not {type(value).__name__}"
            ) from None
        if kind == "b":
            return bool(integer)
        if not -(1 << _BITS[kind]) <= integer < 1 << _BITS[kind]:
            raise OverflowError(
                f"{self.name}(): argument '{n}' must fit {_BITS[kind] + 1} bits, got {integer}"
            )
        return integer

    def allocated(self, tensors: tuple, numbers: dict, device: Any) -> tuple[TensorBase, ...]:
        """The results, not yet written."""
        first = tensors[0]
        if self.rule.results is None:
            return tuple(empty(first.shape, dtype=first.dtype, device=device) for _ in range(self.results))
        said = self.rule.results(*tensors, **numbers)
        where = f"{self.who}: `results` ({':'.join(map(str, place_of(self.rule.results)))})"
        each = said if self.results > 1 else [said]
        if not isinstance(each, (tuple, list)) or len(each) != self.results:
            raise RuntimeError(
                f"{where} must return {self.results} shapes, or pairs of a shape and a dtype, and returned {said!r}"
            )
        return tuple(self.result(where, one, first.dtype, device) for one in each)

    def result(self, where: str, said: Any, kind: dtype, device: Any) -> TensorBase:
        if isinstance(said, tuple) and len(said) == 2 and isinstance(said[1], dtype):
            said, kind = said
        if not isinstance(said, (tuple, list)) or any(type(n) is not int or n < 0 for n in said):
            raise RuntimeError(
                f"{where} must return a shape, or a pair of a shape and a dtype, and returned {said!r}"
            )
        if math.prod(said) >= 1 << 60:
            raise RuntimeError(f"{where} returned the shape {tuple(said)}, which no memory holds")
        return empty(tuple(said), dtype=kind, device=device)

    def compute(self, tensors: tuple, outs: tuple, numbers: dict) -> None:
        """The call itself, without Python's lock."""
        if self.rule.contiguous and not all(t.is_contiguous() for t in tensors):
            with unrecorded():
                tensors = tuple(t.contiguous() for t in tensors)
        reading, writing = iter(tensors), iter(outs)
        held, arguments = [], []  # memory that C reads during the call, and what it is called with
        for kind, n in self.prototype.arguments:
            if kind in "or":
                words = described(next(reading if kind == "o" else writing))
                held.append(words)
                arguments.append(words.buffer_info()[0])
            else:
                arguments.append(numbers[n])
        message = self.function(*arguments)
        if message is not None:
            raise RuntimeError(f"{self.who}: {message.decode(errors='replace')}")
