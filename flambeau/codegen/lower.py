"""Expressions to LLVM instructions, over one element (GPU) or a vector of lanes (CPU).

The same lowering serves every processor: nothing here knows of loops, threads or memory.  Rounding is decided
here and only here: no fast-math flags, and a fused multiply-add only where the expression says `fma`, so all
devices agree.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Iterator

from . import expr as ex
from . import roots
from .expr import BITS, Expr
from .irtext import Function, Value, float_literal

REGISTER = {
    "bool": "i1",
    "float16": "half",
    "bfloat16": "i16",
    "float32": "float",
    "float64": "double",
    "uint128": "i128",
    "complex64": "i64",  # one word in memory and in loops: see `_real`
    "complex128": "i128",
    **{d: f"i{BITS[d]}" for d in ex.SIGNED + ex.UNSIGNED},
}
MEMORY = {**REGISTER, "bool": "i8"}
ITEMSIZE = {d: max(BITS[d] // 8, 1) for d in BITS}
SHARED_FROM = (
    24  # expressions of an unlikely value from which kernels that need it often have a function for it
)
WRITTEN_OUT = 2  # how often it is written out before
_ICMP = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
_INTRINSIC = {"floor": "floor", "ceil": "ceil", "rint": "rint", "trunc": "trunc"}


class Lowering:
    """Writes expressions into a function; `lanes` is None for one element, else how many are computed at
    once.
    """

    def __init__(self, function: Function, lanes: int | None):
        self.f, self.lanes = function, lanes

    # --- types ---
    def vector(self, scalar: str) -> str:
        return f"<{self.lanes} x {scalar}>" if self.lanes else scalar

    def type(self, dtype: str) -> str:
        return self.vector(REGISTER[dtype])

    def suffix(self, dtype: str) -> str:
        """How intrinsics spell the type: f32, v16f32, v16i64."""
        scalar = {"float": "f32", "double": "f64", "half": "f16"}.get(REGISTER[dtype], REGISTER[dtype])
        return f"v{self.lanes}{scalar}" if self.lanes else scalar

    def constant(self, value, dtype: str) -> Value:
        scalar = REGISTER[dtype]
        if dtype == "bool":
            text = "true" if value else "false"
        else:
            text = float_literal(value, scalar) if ex.is_float(dtype) else str(value)
        return Value(self.type(dtype), f"splat ({scalar} {text})" if self.lanes else text)

    def splat(self, value: Value) -> Value:
        """One scalar value in every lane."""
        if not self.lanes:
            return value
        type = self.vector(value.type)
        one = self.f.op(type, f"insertelement {type} poison, {value}, i32 0")
        return self.f.op(type, f"shufflevector {one}, {type} poison, <{self.lanes} x i32> zeroinitializer")

    def iota(self, bits: int) -> Value:
        return Value(
            f"<{self.lanes} x i{bits}>", "<" + ", ".join(f"i{bits} {k}" for k in range(self.lanes or 1)) + ">"
        )

    # --- memory: what stands there and what is computed with differ only for bool ---
    def from_memory(self, value: Value, dtype: str) -> Value:
        if dtype != "bool":
            return value
        return self.f.op(
            self.type("bool"), f"icmp ne {value}, zeroinitializer" if self.lanes else f"icmp ne {value}, 0"
        )

    def to_memory(self, value: Value, dtype: str) -> Value:
        if dtype != "bool":
            return value
        type = self.vector("i8")
        return self.f.op(type, f"zext {value} to {type}")

    # --- expressions ---
    def values(self, roots: list[Expr], leaves: dict[Expr, Value]) -> list[Value]:
        """Instructions for the roots, given the values of their leaves; `leaves` also remembers what was
        computed.
        """
        roots = expanded(roots, leaves)
        for e in walk_until(roots, leaves):
            if e in leaves:
                continue
            if e.op == "const":
                leaves[e] = self.constant(e.value, e.dtype)
            elif e.op == "rarely":
                leaves[e] = self.rarely(e, leaves)
            else:
                leaves[e] = self.one(e, [leaves[a] for a in e.args])
        return [leaves[r] for r in roots]

    def one(self, e: Expr, args: list[Value]) -> Value:
        method = getattr(self, "_" + e.op, None)
        if method is not None:
            return method(e, *args)
        if e.op in _ICMP:
            return self._compare(e, *args)
        if e.op in _INTRINSIC:
            return self.intrinsic(_INTRINSIC[e.op], e.dtype, *args)
        raise TypeError(f"no lowering for {e.op} of {e.dtype}")

    def rarely(self, e: Expr, leaves: dict[Expr, Value]) -> Value:
        """A branch around the unlikely value, taken when any lane needs it."""
        condition, likely = leaves[e.args[0]], leaves[e.args[2]]
        needed = (
            self.f.call("i1", f"llvm.vector.reduce.or.v{self.lanes}i1", condition)
            if self.lanes
            else condition
        )

        def unlikely():
            return [self.select(condition, self.seldom(e.args[1], leaves), likely)]

        return self.f.when(needed, unlikely, [likely])[0]

    def seldom(self, root: Expr, leaves: dict[Expr, Value]) -> Value:
        """The unlikely value: written out, but a call of one function where a kernel has needed the like several times, so that
        bodies of many functions compile as fast as their likely parts.
        """
        within = list(walk_until([root], _Computed(leaves), unlikely=True))
        inside = {id(e) for e in within}
        given = list(dict.fromkeys(a for e in within for a in e.args if id(a) not in inside))
        if not self.lanes or len(within) < SHARED_FROM:
            return self.values([root], dict(leaves))[0]
        number = {id(a): k for k, a in enumerate((*given, *within))}
        key = tuple((e.op, e.dtype, ex._bits_of(e.value), *(number[id(a)] for a in e.args)) for e in within)
        known = self.f.module.seldom.setdefault((*(a.dtype for a in given), *key, self.lanes), [0, ""])
        known[0] += 1
        if known[0] <= WRITTEN_OUT:
            return self.values([root], dict(leaves))[0]
        values = [leaves[a] for a in given]
        if not known[1]:
            known[1] = self.outlined(root, given, values)
        result = self.type(root.dtype)
        return self.f.op(result, f"call {result} @{known[1]}({', '.join(map(str, values))})")

    def outlined(self, root: Expr, given: list[Expr], values: list[Value]) -> str:
        """A function of its own for an expression of given values; its name."""
        own = [Value(v.type, f"%a{k}") for k, v in enumerate(values)]
        name = f"seldom{len(self.f.module.functions)}"
        signature = (
            f"define internal {self.type(root.dtype)} @{name}({', '.join(map(str, own))}) cold noinline"
        )
        function = Function(self.f.module, signature)
        result = Lowering(function, self.lanes).values([root], dict(zip(given, own)))[0]
        function.do(f"ret {result}")
        return name

    def intrinsic(self, name: str, dtype: str, *args: Value) -> Value:
        return self.f.call(self.type(dtype), f"llvm.{name}.{self.suffix(dtype)}", *args)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.f.op(a.type, f"select {condition}, {a}, {b}")

    def compare(self, predicate: str, a: Value, b: Value, floating: bool = False) -> Value:
        return self.f.op(self.type("bool"), f"{'fcmp' if floating else 'icmp'} {predicate} {a}, {b.name}")

    def _arithmetic(self, e: Expr, a: Value, b: Value) -> Value:
        return self.f.binary(("f" if ex.is_float(e.dtype) else "") + e.op, a, b)

    _add = _sub = _mul = _arithmetic

    def _div(self, e: Expr, a: Value, b: Value) -> Value:
        if ex.is_float(e.dtype):
            return self.f.binary("fdiv", a, b)
        a, b = self._no_trap(e.dtype, a, b)
        return self.f.binary("sdiv" if ex.is_signed(e.dtype) else "udiv", a, b)

    def _rem(self, e: Expr, a: Value, b: Value) -> Value:
        a, b = self._no_trap(e.dtype, a, b)
        return self.f.binary("srem" if ex.is_signed(e.dtype) else "urem", a, b)

    def _no_trap(self, dtype: str, a: Value, b: Value) -> tuple[Value, Value]:
        """Integer division stops the program on x/0 and on MIN/-1: divide by 1 there (MIN/-1 is MIN, as it
        wraps).
        """
        one, zero = self.constant(1, dtype), self.constant(0, dtype)
        unsafe = self.compare("eq", b, zero)
        if ex.is_signed(dtype):
            lowest = self.constant(-(1 << (BITS[dtype] - 1)), dtype)
            overflow = self.f.binary(
                "and", self.compare("eq", a, lowest), self.compare("eq", b, self.constant(-1, dtype))
            )
            unsafe = self.f.binary("or", unsafe, overflow)
        return a, self.select(unsafe, one, b)

    def _neg(self, e: Expr, x: Value) -> Value:
        if ex.is_float(e.dtype):
            return self.f.op(x.type, f"fneg {x}")
        return self.f.binary("sub", self.constant(0, e.dtype), x)

    def _abs(self, e: Expr, x: Value) -> Value:
        if ex.is_float(e.dtype):
            return self.intrinsic("fabs", e.dtype, x)
        if not ex.is_signed(e.dtype):
            return x
        return self.f.call(x.type, f"llvm.abs.{self.suffix(e.dtype)}", x, Value("i1", "false"))

    def _pick(self, e: Expr, a: Value, b: Value) -> Value:
        order = {"max": "gt", "min": "lt"}[e.op]
        if not ex.is_float(e.dtype):
            sign = "s" if ex.is_signed(e.dtype) else "u"
            return self.select(self.compare(sign + order, a, b), a, b)
        if fixed(e.args[1]):  # looking for NaN in what is the same for all elements costs nothing
            a, b = b, a
        chosen = self.select(self.compare("o" + order, a, b, True), a, b)  # b where b is NaN
        missing = self.compare("uno", a, a, True)
        if not self.lanes or not any(map(fixed, e.args)):
            return self.select(missing, a, chosen)
        # With all bits set anything is NaN.  A selection would become one instruction of several with the one before it, which by
        # itself is a processor's maximum.
        word = self.vector(f"i{8 * ITEMSIZE[e.dtype]}")
        bits = self.f.op(word, f"bitcast {chosen} to {word}")
        bits = self.f.binary("or", bits, self.f.op(word, f"sext {missing} to {word}"))
        return self.f.op(a.type, f"bitcast {bits} to {a.type}")

    _min = _max = _pick

    def _fma(self, e: Expr, a: Value, b: Value, c: Value) -> Value:
        return self.intrinsic("fma", e.dtype, a, b, c)

    def _sqrt(self, e: Expr, x: Value) -> Value:
        by_estimate = e.dtype == "float32" and roots.estimates(self)
        return roots.root(self, x) if by_estimate else self.intrinsic("sqrt", e.dtype, x)

    def _copysign(self, e: Expr, a: Value, b: Value) -> Value:
        return self.intrinsic("copysign", e.dtype, a, b)

    def _bits(self, e: Expr, a: Value, b: Value) -> Value:
        return self.f.binary(e.op, a, b)

    _and = _or = _xor = _shl = _lshr = _ashr = _bits

    def _not(self, e: Expr, x: Value) -> Value:
        return self.f.binary("xor", x, self.constant(True if e.dtype == "bool" else -1, e.dtype))

    def _mulhi(self, e: Expr, a: Value, b: Value) -> Value:
        wide, half = self.vector("i64"), self.vector("i32")
        product = self.f.binary(
            "mul", self.f.op(wide, f"zext {a} to {wide}"), self.f.op(wide, f"zext {b} to {wide}")
        )
        return self.f.op(
            half, f"trunc {self.f.binary('lshr', product, self.constant(32, 'int64'))} to {half}"
        )

    def _compare(self, e: Expr, a: Value, b: Value) -> Value:
        dtype = e.args[0].dtype
        if ex.is_float(dtype):
            return self.compare("une" if e.op == "ne" else "o" + e.op, a, b, True)
        sign = "" if e.op in ("eq", "ne") else "s" if ex.is_signed(dtype) else "u"
        return self.compare(sign + e.op, a, b)

    def _select(self, e: Expr, condition: Value, a: Value, b: Value) -> Value:
        return self.select(condition, a, b)

    def _bitcast(self, e: Expr, x: Value) -> Value:
        to = self.type(e.dtype)
        return x if x.type == to else self.f.op(to, f"bitcast {x} to {to}")

    # A complex number travels as one word; its parts are the word's halves, the real one lower.
    def _half(self, e: Expr, z: Value, which: int) -> Value:
        n, scalar = self.lanes or 1, REGISTER[e.dtype]
        halves = self.f.op(f"<{2 * n} x {scalar}>", f"bitcast {z} to <{2 * n} x {scalar}>")
        if not self.lanes:
            return self.f.op(scalar, f"extractelement {halves}, i32 {which}")
        picks = ", ".join(f"i32 {2 * k + which}" for k in range(n))
        return self.f.op(
            self.type(e.dtype), f"shufflevector {halves}, {halves.type} poison, <{n} x i32> <{picks}>"
        )

    def _real(self, e: Expr, z: Value) -> Value:
        return self._half(e, z, 0)

    def _imag(self, e: Expr, z: Value) -> Value:
        return self._half(e, z, 1)

    def _pair(self, e: Expr, a: Value, b: Value) -> Value:
        n, scalar = self.lanes or 1, REGISTER[e.args[0].dtype]
        type = f"<{2 * n} x {scalar}>"
        if self.lanes:
            picks = ", ".join(f"i32 {k}, i32 {n + k}" for k in range(n))
            halves = self.f.op(type, f"shufflevector {a}, {b}, <{2 * n} x i32> <{picks}>")
        else:
            first = self.f.op(type, f"insertelement {type} poison, {a}, i32 0")
            halves = self.f.op(type, f"insertelement {first}, {b}, i32 1")
        return self.f.op(self.type(e.dtype), f"bitcast {halves} to {self.type(e.dtype)}")

    def _cast(self, e: Expr, x: Value) -> Value:
        return self.cast(x, e.args[0].dtype, e.dtype)

    def cast(self, x: Value, src: str, dst: str) -> Value:
        if src == dst:
            return x
        if dst == "bool":
            return self.compare(
                "une" if ex.is_float(src) else "ne", x, self.constant(0, src), ex.is_float(src)
            )
        if src == "bfloat16":
            return self.cast(self._from_bfloat16(x), "float32", dst)
        if dst == "bfloat16":
            return self._to_bfloat16(self.cast(x, src, "float32"))
        if {src, dst} == {"float16", "float64"} or (src == "float16" and not ex.is_float(dst)):
            return self.cast(self.cast(x, src, "float32"), "float32", dst)
        if dst == "float16" and not ex.is_float(src):
            return self.cast(self.cast(x, src, "float32"), "float32", dst)
        to = self.type(dst)
        if ex.is_float(src) and ex.is_float(dst):
            return self.f.op(to, f"{'fpext' if BITS[src] < BITS[dst] else 'fptrunc'} {x} to {to}")
        if ex.is_float(dst):
            return self.f.op(to, f"{'sitofp' if ex.is_signed(src) else 'uitofp'} {x} to {to}")
        if ex.is_float(src):  # narrow integers keep the low bits of a wider conversion, as C compilers do
            wide = "int64" if BITS[dst] > 32 or dst == "uint32" else "int32"
            y = self.f.op(self.type(wide), f"fptosi {x} to {self.type(wide)}")
            return self._to_uint64(x, src, y) if dst == "uint64" else self.cast(y, wide, dst)
        if BITS[src] == BITS[dst]:
            return x
        if BITS[src] > BITS[dst]:
            return self.f.op(to, f"trunc {x} to {to}")
        return self.f.op(to, f"{'sext' if ex.is_signed(src) else 'zext'} {x} to {to}")

    def _to_uint64(self, x: Value, src: str, low: Value) -> Value:
        """A float as uint64: from 2**63 on, the conversion to int64 of what is above it, and the highest bit."""
        half = self.constant(2.0**63, src)
        above = self.f.op(low.type, f"fptosi {self.f.binary('fsub', x, half)} to {low.type}")
        high = self.f.binary("xor", above, self.constant(-(2**63), "int64"))
        return self.select(self.compare("oge", x, half, True), high, low)

    def _from_bfloat16(self, x: Value) -> Value:
        wide, to = self.vector("i32"), self.vector("float")
        bits = self.f.op(wide, f"zext {x} to {wide}")
        return self.f.op(to, f"bitcast {self.f.binary('shl', bits, self.constant(16, 'int32'))} to {to}")

    def _to_bfloat16(self, x: Value) -> Value:
        """Nearest, ties to even, in integer arithmetic: the same bits everywhere; every NaN becomes 0x7FC0."""
        f, number = self.f, lambda v: self.constant(v, "int32")
        bits = f.op(self.vector("i32"), f"bitcast {x} to {self.vector('i32')}")
        odd = f.binary("and", f.binary("lshr", bits, number(16)), number(1))
        rounded = f.binary("lshr", f.binary("add", bits, f.binary("add", odd, number(0x7FFF))), number(16))
        chosen = self.select(self.compare("uno", x, x, True), number(0x7FC0), rounded)
        return f.op(self.vector("i16"), f"trunc {chosen} to {self.vector('i16')}")


class _Computed:
    """What has a value already, but for constants, which are as well written anew."""

    def __init__(self, leaves: Container[Expr]):
        self.leaves = leaves

    def __contains__(self, e: object) -> bool:
        return e in self.leaves and e.op != "const"  # type: ignore[attr-defined]


def walk_until(roots: list[Expr], known: Container[Expr], unlikely: bool = False) -> Iterator[Expr]:
    """Arguments first, not below what is known; with `unlikely` also those that are computed behind a branch."""
    seen: set[int] = set()
    stack = [(r, False) for r in reversed(roots)]
    while stack:
        e, ready = stack.pop()
        if ready:
            yield e
        elif id(e) not in seen and e not in known:
            seen.add(id(e))
            stack.append((e, True))
            needed = (e.args[2], e.args[0]) if e.op == "rarely" and not unlikely else reversed(e.args)
            stack.extend((a, False) for a in needed)


def settled(roots: list[Expr], known: Container[Expr]) -> list[Expr]:
    """The largest expressions under the roots that follow from what is known: those that a loop need not compute again."""
    ready: dict[int, bool] = {}

    def given(a: Expr) -> bool:
        return a in known or ready[id(a)]

    for e in walk_until(roots, known, unlikely=True):
        combines = e.op not in ("fold", "prefix") and REGISTER[e.dtype] != "i128"
        ready[id(e)] = e.op == "const" or (e.args != () and combines and all(map(given, e.args)))
    likely = [e for e in walk_until(roots, known) if not ready[id(e)]]
    reached = [*roots, *(a for e in likely for a in _needed(e))]
    return list(dict.fromkeys(a for a in reached if a not in known and ready[id(a)] and a.op != "const"))


def _needed(e: Expr) -> tuple[Expr, ...]:
    """The arguments, without those that are computed behind a branch."""
    return (e.args[0], e.args[2]) if e.op == "rarely" else e.args


def fixed(e: Expr) -> bool:
    """Whether an expression has one value for the whole kernel."""
    return e.op in ("const", "param") or (e.op == "cast" and fixed(e.args[0]))


@functools.cache
def _expansions() -> dict:
    """Math functions in primitives, which are written with what stands here; imported once, since the last finalisers cannot."""
    from .math import EXPANSIONS

    return EXPANSIONS


def expanded(roots: list[Expr], known: Container[Expr] = ()) -> list[Expr]:
    """The roots with their math functions written out in primitives, except below what is known."""
    if not any(e.op.startswith("call:") for e in walk_until(roots, known)):
        return roots
    expansions = _expansions()
    new: dict[int, Expr] = {}
    for e in walk_until(roots, known):
        args = tuple(new.get(id(a), a) for a in e.args)
        if e.op.startswith("call:"):
            body = expansions[e.op[5:]](*args)
            new[id(e)] = expanded([body], known)[0]
        else:
            new[id(e)] = (
                e if all(a is b for a, b in zip(args, e.args)) else ex.make(e.op, args, e.dtype, e.value)
            )
    return [new.get(id(r), r) for r in roots]
