"""Scalar expressions: what one element of a kernel computes.

An operation's body is a Python function of scalars.  Calling it with `Expr` arguments records the expression;
the same recording serves every processor (`lower.py`), symbolic differentiation (`differentiate.py`) and the
key of the disk cache.  Expressions are typed, immutable and shared: building the same one twice gives the
same object, so common subexpressions are computed once.

Two levels of operations exist.  *Primitives* map to one LLVM instruction or intrinsic each.  *Math functions*
(`exp`, `erf` …) stay whole until lowering, so that they can be differentiated by rule; `math.py` expands
them.

>>> x = input(0, "float32")
>>> x * x + 1.0
add(mul(in0, in0), 1.0)
>>> (x * x) is (x * x)
True
"""

from __future__ import annotations

import math as _math
import operator as _operator
import struct
from collections.abc import Callable, Iterable, Iterator
from numbers import Number
from typing import Any

FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
BITS = {
    "bool": 1,
    "uint8": 8,
    "int8": 8,
    "uint16": 16,
    "int16": 16,
    "uint32": 32,
    "int32": 32,
    "uint64": 64,
    "int64": 64,
    "uint128": 128,  # moved only
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "complex64": 64,
    "complex128": 128,
}
PARTS = {"complex64": "float32", "complex128": "float64"}  # of what a complex number is a pair

# One LLVM instruction or intrinsic each; the second column is what the result's dtype is.
PRIMITIVES = {
    **dict.fromkeys(("add", "sub", "mul", "div", "rem", "neg", "abs", "min", "max", "fma"), "same"),
    **dict.fromkeys(("floor", "ceil", "rint", "trunc", "sqrt", "copysign"), "same"),
    **dict.fromkeys(("and", "or", "xor", "not", "shl", "lshr", "ashr", "mulhi"), "same"),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), "bool"),
    "select": "second",
    "rarely": "second",
    "cast": "given",
    "bitcast": "given",
    "real": "part",
    "imag": "part",
    "pair": "complex",
}
LEAVES = ("input", "output", "param", "const", "index", "fold")


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def is_complex(dtype: str) -> bool:
    return dtype in PARTS


def is_smooth(dtype: str) -> bool:
    """Whether values of the dtype have derivatives."""
    return dtype in FLOATS or dtype in PARTS


def part(dtype: str) -> str:
    """What a complex number is a pair of; any other dtype itself."""
    return PARTS.get(dtype, dtype)


def is_signed(dtype: str) -> bool:
    return dtype in FLOATS or dtype in SIGNED or dtype in PARTS


class Expr:
    """One node of an expression: an operation, its arguments, and the dtype of its value."""

    __slots__ = ("op", "args", "dtype", "value", "__weakref__")

    op: str
    args: tuple[Expr, ...]
    dtype: str
    value: Any  # leaves: the constant, or the number of the input or parameter; folds: see kernels.Fold

    def __repr__(self) -> str:
        if self.op == "const":
            return repr(self.value)
        if self.op in ("input", "param", "output"):
            return f"{ {'input': 'in', 'param': 'p', 'output': 'out'}[self.op] }{self.value}"
        if self.op in ("cast", "bitcast"):
            return f"{self.op}[{self.dtype}]({self.args[0]!r})"
        return f"{self.op}({', '.join(map(repr, self.args))})"

    # Arithmetic.  Python numbers take the dtype of the expression they meet.
    def __add__(self, other):
        return add(self, other)

    def __radd__(self, other):
        return add(other, self)

    def __sub__(self, other):
        return sub(self, other)

    def __rsub__(self, other):
        return sub(other, self)

    def __mul__(self, other):
        return mul(self, other)

    def __rmul__(self, other):
        return mul(other, self)

    def __truediv__(self, other):
        return div(self, other)

    def __rtruediv__(self, other):
        return div(other, self)

    def __mod__(self, other):
        """Of the divisor's sign, as Python's."""
        return call("remainder", *_pair("remainder", self, other))

    def __rmod__(self, other):
        return call("remainder", *_pair("remainder", other, self))

    def __neg__(self):
        return neg(self)

    def __pos__(self):
        return self

    def __abs__(self):
        return absolute(self)

    def __pow__(self, other):
        if isinstance(other, int) and 0 < other <= 4:
            return self if other == 1 else self * self ** (other - 1)
        return call("pow", *_pair("pow", self, other))

    def __rpow__(self, other):
        return call("pow", *_pair("pow", other, self))

    def __eq__(self, other):
        return compare("eq", self, other)

    def __ne__(self, other):
        return compare("ne", self, other)

    def __lt__(self, other):
        return compare("lt", self, other)

    def __le__(self, other):
        return compare("le", self, other)

    def __gt__(self, other):
        return compare("gt", self, other)

    def __ge__(self, other):
        return compare("ge", self, other)

    def __and__(self, other):
        return bitwise("and", self, other)

    def __or__(self, other):
        return bitwise("or", self, other)

    def __xor__(self, other):
        return bitwise("xor", self, other)

    def __invert__(self):
        return make("not", (self,), self.dtype)

    def __lshift__(self, other):
        return bitwise("shl", self, other)

    def __rshift__(self, other):
        """Arithmetic for signed integers, logical for unsigned ones."""
        return bitwise("ashr" if is_signed(self.dtype) else "lshr", self, other)

    __hash__ = object.__hash__

    def __bool__(self):
        raise TypeError("a traced value has no truth value: use where(condition, a, b) in place of if")

    def __float__(self):
        raise TypeError(
            "a traced value is no number yet: use functions of `kernels` in place of those of `math`"
        )

    __int__ = __index__ = __complex__ = __float__
    __array_ufunc__ = None  # NumPy's functions refuse it, and its numbers leave operators to us

    def __iter__(self):
        raise TypeError("a traced value is one number and cannot be iterated over")


_shared: dict[tuple, Expr] = {}
_leaves: dict[
    tuple, Expr
] = {}  # inputs, coordinates and their like, which are few: a kernel may be lowered long after it was traced


def make(op: str, args: tuple[Expr, ...], dtype: str, value: object = None) -> Expr:
    """The one expression of that form."""
    key = (op, tuple(map(id, args)), dtype, _bits_of(value))
    table = _shared if args or op == "const" else _leaves
    result = table.get(key)
    if result is None:
        result = table[key] = Expr.__new__(Expr)
        result.op, result.args, result.dtype, result.value = op, args, dtype, value
    return result


def _bits_of(value):
    """Tells -0.0 from 0.0, True from 1, and one NaN is as good as another."""
    if isinstance(value, float):
        return struct.pack("d", value)
    if isinstance(value, complex):
        return struct.pack("dd", value.real, value.imag)
    return (type(value).__name__, value)


def forget() -> None:
    """Drop the table of shared expressions; called when a kernel has been built."""
    _shared.clear()


# --- leaves ------------------------------
def input(number: int, dtype: str) -> Expr:
    """The element of input `number` at this place."""
    return make("input", (), dtype, number)


def param(number: int, dtype: str) -> Expr:
    """Scalar argument `number`, the same for all elements."""
    return make("param", (), dtype, number)


def index(axis: int = 0) -> Expr:
    """Where this element is: its number in the iteration (axis 0), or, in a row program, in its row (axis 1)."""
    return make("index", (), "int64", axis)


def const(value, dtype: str) -> Expr:
    """A constant; integers wrap to the dtype's width as in C."""
    if dtype == "bool":
        value = bool(value)
    elif is_complex(dtype):
        value = complex(value)
    elif is_float(dtype):
        value = float(value)
        if dtype == "float32" and _math.isfinite(value):
            try:
                value = struct.unpack("f", struct.pack("f", value))[0]
            except OverflowError:
                value = _math.copysign(_math.inf, value)
    else:
        bits = BITS[dtype]
        value = int(value) & ((1 << bits) - 1)
        if dtype in SIGNED and value >> (bits - 1):
            value -= 1 << bits
    return make("const", (), dtype, value)


def like(x: Expr, value) -> Expr:
    """`value` as an expression of x's dtype."""
    if isinstance(value, Expr):
        return value
    if not isinstance(value, Number):
        raise TypeError(
            f"a traced value meets a {type(value).__name__}, which is no number: make it an argument"
        )
    return const(value, x.dtype)


def _pair(op: str, a, b) -> tuple[Expr, Expr]:
    if not isinstance(a, Expr):
        a = like(b, a)
    b = like(a, b)
    if a.dtype != b.dtype and part(a.dtype) == part(b.dtype):
        whole = a.dtype if is_complex(a.dtype) else b.dtype
        a, b = cast(a, whole), cast(b, whole)
    if a.dtype != b.dtype:
        raise TypeError(f"{op}: the operands are {a.dtype} and {b.dtype}; cast one of them")
    return a, b


def is_const(x: Expr, value) -> bool:
    if is_complex(x.dtype):
        return x.op == "const" and x.value == value != 0
    return x.op == "const" and x.value == value and _math.copysign(1, x.value) == _math.copysign(1, value)


# --- primitives ------------------------------
_FOLD: dict[str, Callable] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _folded(op: str, a: Expr, b: Expr, dtype: str) -> Expr:
    """The operation, or the constant that it makes of constants."""
    if a.op == b.op == "const" and op in _FOLD and a.dtype != "bool":
        return const(_FOLD[op](a.value, b.value), dtype)
    return make(op, (a, b), dtype)


def add(a, b) -> Expr:
    a, b = _pair("add", a, b)
    if is_const(b, -0.0) or (not is_float(a.dtype) and is_const(b, 0)):
        return a
    return _folded("add", a, b, a.dtype)


def sub(a, b) -> Expr:
    a, b = _pair("sub", a, b)
    if is_const(b, 0):
        return a
    return _folded("sub", a, b, a.dtype)


def mul(a, b) -> Expr:
    a, b = _pair("mul", a, b)
    if is_const(b, 1):
        return a
    if is_const(a, 1):
        return b
    if is_const(a, -1) and is_signed(a.dtype):
        return neg(b)
    if is_const(b, -1) and is_signed(a.dtype):
        return neg(a)
    return _folded("mul", a, b, a.dtype)


def div(a, b) -> Expr:
    """Quotient; of integers, rounded towards zero (the caller rules out zero divisors)."""
    a, b = _pair("div", a, b)
    if is_const(b, 1):
        return a
    if a.op == b.op == "const" and is_float(a.dtype) and b.value != 0:
        return const(a.value / b.value, a.dtype)
    return make("div", (a, b), a.dtype)


def rem(a, b) -> Expr:
    """Remainder of the division rounded towards zero, of a's sign (integers only; floats: `call("fmod", …)`)."""
    a, b = _pair("rem", a, b)
    return make("rem", (a, b), a.dtype)


def neg(x: Expr) -> Expr:
    if x.op == "const":
        return const(-x.value, x.dtype)
    return x.args[0] if x.op == "neg" else make("neg", (x,), x.dtype)


def fma(a: Expr, b, c) -> Expr:
    """a·b + c, rounded once (floats)."""
    b, c = like(a, b), like(a, c)
    return make("fma", (a, b, c), a.dtype)


def minimum(a, b) -> Expr:
    """The smaller; NaN where either is NaN."""
    a, b = _pair("min", a, b)
    return make("min", (a, b), a.dtype)


def maximum(a, b) -> Expr:
    """The larger; NaN where either is NaN."""
    a, b = _pair("max", a, b)
    return make("max", (a, b), a.dtype)


def compare(op: str, a, b) -> Expr:
    """eq, lt … are False on NaN, ne is True."""
    a, b = _pair(op, a, b)
    if is_complex(a.dtype) and op not in ("eq", "ne"):
        raise TypeError(f"{op}: complex numbers have no order")
    return _folded(op, a, b, "bool")


def bitwise(op: str, a, b) -> Expr:
    a, b = _pair(op, a, b)
    return make(op, (a, b), a.dtype)


def where(condition: Expr, a, b) -> Expr:
    """a where the condition holds, else b; both are computed."""
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        raise TypeError("where: one of the two choices must be a traced value; write like(x, number)")
    a, b = _pair("where", a, b)
    if condition.op == "const":
        return a if condition.value else b
    return a if a is b else make("select", (condition, a, b), a.dtype)


def rarely(condition: Expr, a, b) -> Expr:
    """where(condition, a, b) for a condition that seldom holds: what only `a` needs is skipped where no lane
    needs it.
    """
    a, b = _pair("rarely", a, b)
    return make("rarely", (condition, a, b), a.dtype)


def cast(x: Expr, dtype: str) -> Expr:
    """Value conversion as in C; to bool: is not zero; from complex to real: the real part."""
    if x.dtype == dtype:
        return x
    if is_complex(dtype) and not is_complex(x.dtype):
        return pair(cast(x, PARTS[dtype]), const(0, PARTS[dtype]))
    if is_complex(x.dtype) and not is_complex(dtype) and dtype != "bool":
        return cast(real(x), dtype)
    if dtype == "bool":
        return compare("ne", cast(x, "float32") if x.dtype == "bfloat16" else x, 0)
    if (
        x.op == "const"
        and not is_complex(dtype)
        and (_math.isfinite(x.value) or is_float(dtype))
        and dtype not in ("float16", "bfloat16")
    ):
        return const(x.value, dtype)
    return make("cast", (x,), dtype)


def bitcast(x: Expr, dtype: str) -> Expr:
    """The same bits read as another dtype of the same width."""
    if BITS[x.dtype] != BITS[dtype]:
        raise TypeError(f"bitcast: {x.dtype} and {dtype} differ in width")
    return x if x.dtype == dtype else make("bitcast", (x,), dtype)


def _unary(op: str) -> Callable[[Expr], Expr]:
    def function(x: Expr) -> Expr:
        return make(op, (x,), x.dtype)

    function.__name__ = op
    return function


floor, ceil, rint, trunc, sqrt = map(_unary, ("floor", "ceil", "rint", "trunc", "sqrt"))


def absolute(x: Expr) -> Expr:
    """The distance from zero, a real number."""
    return make("abs", (x,), part(x.dtype))


def copysign(a: Expr, b) -> Expr:
    """|a| with b's sign bit."""
    a, b = _pair("copysign", a, b)
    return make("copysign", (a, b), a.dtype)


def mulhi(a: Expr, b) -> Expr:
    """Upper half of the double-width product of two uint32."""
    a, b = _pair("mulhi", a, b)
    return make("mulhi", (a, b), a.dtype)


def isnan(x: Expr) -> Expr:
    return compare("ne", x, x)


# --- complex numbers: `complex.py` writes everything but these three in real numbers ------------------------------
def real(z: Expr) -> Expr:
    """The real part; of a real number, itself."""
    if not is_complex(z.dtype):
        return z
    if z.op == "const":
        return const(z.value.real, PARTS[z.dtype])
    return z.args[0] if z.op == "pair" else make("real", (z,), PARTS[z.dtype])


def imag(z: Expr) -> Expr:
    """The imaginary part; of a real number, 0."""
    if not is_complex(z.dtype):
        return like(z, 0)
    if z.op == "const":
        return const(z.value.imag, PARTS[z.dtype])
    return z.args[1] if z.op == "pair" else make("imag", (z,), PARTS[z.dtype])


def pair(a: Expr, b: Expr) -> Expr:
    """The complex number a + bi."""
    dtype = "complex64" if a.dtype == "float32" else "complex128"
    if a.dtype != b.dtype or PARTS[dtype] != a.dtype:
        raise TypeError(f"pair: two float32 or two float64 expected, got {a.dtype} and {b.dtype}")
    if a.op == "real" and b.op == "imag" and a.args[0] is b.args[0]:
        return a.args[0]
    return make("pair", (a, b), dtype)


def conj(z: Expr) -> Expr:
    """The complex conjugate; a real number itself."""
    return pair(real(z), neg(imag(z))) if is_complex(z.dtype) else z


# --- math functions ------------------------------
def call(name: str, *args) -> Expr:
    """A math function by name: kept whole until lowering, where `math.EXPANSIONS[name]` writes it in
    primitives.
    """
    first = next(a for a in args if isinstance(a, Expr))
    args = tuple(like(first, a) for a in args)
    for a in args:
        if a.dtype != first.dtype or not is_smooth(a.dtype):
            raise TypeError(
                f"{name}: arguments of one floating-point dtype expected, got {[a.dtype for a in args]}"
            )
    return make("call:" + name, args, first.dtype)


# --- walking ------------------------------
def walk(roots: Iterable[Expr]) -> Iterator[Expr]:
    """Every expression under the roots once, arguments first."""
    seen: set[int] = set()
    result: list[Expr] = []
    waiting: list[Expr] = []  # those whose arguments are under way
    stack: list[Expr | None] = [*roots]  # None: all arguments of the last that waits are there
    stack.reverse()
    while stack:
        e = stack.pop()
        if e is None:
            result.append(waiting.pop())
        elif id(e) not in seen:
            seen.add(id(e))
            if e.args:
                waiting.append(e)
                stack.append(None)
                stack.extend(reversed(e.args))
            else:
                result.append(e)
    return iter(result)


def substitute(roots: list[Expr], replace: dict[Expr, Expr]) -> list[Expr]:
    """The roots with some subexpressions replaced by others."""
    new: dict[int, Expr] = {}
    by_id = {id(k): v for k, v in replace.items()}

    for e in walk(roots):
        if id(e) in by_id:
            new[id(e)] = by_id[id(e)]
        elif e.args:
            args = tuple([new[id(a)] for a in e.args])
            new[id(e)] = e if all(map(_operator.is_, args, e.args)) else remade(e, args)
        else:
            new[id(e)] = e
    return [new[id(r)] for r in roots]


def remade(e: Expr, args: tuple[Expr, ...]) -> Expr:
    """The same operation on other arguments."""
    if e.op == "pair":
        return pair(*args)
    if e.op in ("real", "imag"):
        return real(*args) if e.op == "real" else imag(*args)
    return make(e.op, args, e.dtype, e.value)


def text(roots: Iterable[Expr]) -> str:
    """A canonical spelling, a line a node: what the cache key hashes."""
    number: dict[int, int] = {}
    lines = []
    roots = list(roots)
    for e in walk(roots):
        number[id(e)] = len(number)
        value = e.value.hex() if isinstance(e.value, float) else e.value
        value = f"{value.real.hex()}{value.imag.hex()}" if isinstance(value, complex) else value
        lines.append(f"{e.op} {e.dtype} {value} {' '.join(str(number[id(a)]) for a in e.args)}")
    return "\n".join(lines + ["-> " + " ".join(str(number[id(r)]) for r in roots)])
