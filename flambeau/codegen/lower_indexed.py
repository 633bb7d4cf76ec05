"""Indexed kernels to LLVM instructions: which values are the same in all lanes, which rise evenly, which are anything.

An integer that rises by the same step from lane to lane is a `Ramp`: its first value and the step.  Coordinates along the
lanes' axis are ramps, and so is what sums and products make of them; an element loaded at a ramp of step 1 is a vector
in memory, at a small known step every second (third …) element of one, else it is gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from . import access as memory
from . import expr as ex
from .expr import Expr
from .indexed import Indexed, Store
from .irtext import Function, Value, i64
from .lower import ITEMSIZE, MEMORY, Lowering, expanded

WIDE_STEPS = 4  # up to this step, whole vectors are loaded and elements picked from them


class Uniform(NamedTuple):
    value: Value


class Ramp(NamedTuple):
    first: Value
    step: Value


class Lanes(NamedTuple):
    value: Value


Form = Uniform | Ramp | Lanes


def known(v: Value) -> int | None:
    """The number, where the value is a literal."""
    return int(v.name) if v.name.lstrip("-").isdigit() else None


class Evaluation:
    """Writes the expressions of one kernel; a schedule supplies the operands and says where the place is."""

    def __init__(
        self,
        f: Function,
        kernel: Indexed,
        lanes: int | None,
        base: Sequence[Value],
        sizes: Sequence[Sequence[Value]],
        strides: Sequence[Sequence[Value]],
        extents: Sequence[Value],
        params: Sequence[Value],
        fault: Value,
    ):
        self.f, self.kernel, self.lanes = f, kernel, lanes
        self.base, self.sizes, self.strides, self.params, self.fault = base, sizes, strides, params, fault
        self.extents = extents
        self.scalar, self.vector = Lowering(f, None), Lowering(f, lanes)
        self.integer = "i32" if kernel.integer == "int32" else "i64"
        self.mask: Value | None = None
        self.scopes: list[dict[Expr, Form]] = []
        self.moving: dict[int, frozenset] = {}

    def serially(self, at: list[Form], ends: Sequence[Value], mask: Value | None) -> list[Value]:
        """The axes in which `at` has no place yet, in order, up to their ends; at each place the stores."""
        if len(at) < self.kernel.axes:
            turn = lambda i, _: self.serially([*at, Uniform(self.narrow(i))], ends, mask)
            self.f.loop(i64(0), ends[len(at)], i64(1), [], turn)
            return []
        self.place(at, mask)
        for number, store in enumerate(self.kernel.stores):
            self.store(number, store)
        return []

    def place(self, coordinates: Sequence[Form], mask: Value | None) -> None:
        """Begin a place (or a vector of them): `mask` tells the lanes that are places, None where all are."""
        self.mask = mask
        self.scopes = [
            {ex.make("coordinate", (), self.kernel.integer, d): c for d, c in enumerate(coordinates)}
        ]

    def narrow(self, v: Value) -> Value:
        """An i64 as wide as coordinates are."""
        if self.integer == "i64" or v.type == "i32":
            return v
        if known(v) is not None:
            return Value("i32", v.name)
        return self.f.op("i32", f"trunc {v} to i32")

    # --- forms ---
    def lanes_of(self, form: Form) -> Value:
        """The value in every lane (without lanes: the value)."""
        if isinstance(form, Uniform):
            return self.vector.splat(form.value)
        if isinstance(form, Lanes):
            return form.value
        bits = int(form.first.type[1:])
        offsets = self.vector.iota(bits)
        if known(form.step) != 1:
            offsets = self.f.binary("mul", offsets, self.vector.splat(form.step))
        return self.f.binary("add", self.vector.splat(form.first), offsets)

    def add(self, a: Form, b: Form) -> Form:
        if isinstance(a, Uniform) and isinstance(b, Uniform):
            return Uniform(self.plus(a.value, b.value))
        if isinstance(a, Lanes) or isinstance(b, Lanes):
            return Lanes(self.f.binary("add", self.lanes_of(a), self.lanes_of(b)))
        (a, sa), (b, sb) = (tuple(x) if isinstance(x, Ramp) else (x.value, None) for x in (a, b))
        step = sb if sa is None else sa if sb is None else self.plus(sa, sb)
        return Ramp(self.plus(a, b), step)

    def plus(self, a: Value, b: Value) -> Value:
        x, y = known(a), known(b)
        if x is not None and y is not None:
            return Value(a.type, str(x + y))
        return b if x == 0 else a if y == 0 else self.f.binary("add", a, b)

    def times(self, a: Value, b: Value) -> Value:
        x, y = known(a), known(b)
        if x is not None and y is not None:
            return Value(a.type, str(x * y))
        if x == 0 or y == 0:
            return Value(a.type, "0")
        return b if x == 1 else a if y == 1 else self.f.binary("mul", a, b)

    def mul(self, a: Form, b: Form) -> Form:
        if isinstance(a, Uniform) and isinstance(b, Uniform):
            return Uniform(self.times(a.value, b.value))
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Ramp) and isinstance(y, Uniform):
                return Ramp(self.times(x.first, y.value), self.times(x.step, y.value))
            if isinstance(y, Uniform) and known(y.value) == 1:
                return x
        return Lanes(self.f.binary("mul", self.lanes_of(a), self.lanes_of(b)))

    # --- expressions ---
    def form(self, e: Expr) -> Form:
        for scope in reversed(self.scopes):
            if e in scope:
                return scope[e]
        made = self.make(e)
        self.scopes[-1][e] = made
        return made

    def value(self, e: Expr) -> Value:
        return self.lanes_of(self.form(e))

    def make(self, e: Expr) -> Form:
        if e.op == "const":
            return Uniform(self.scalar.constant(e.value, e.dtype))
        if e.op == "param":
            return Uniform(self.params[e.value])
        if e.op == "size":
            operand, d = e.value
            return Uniform(self.sizes[operand][d])
        if e.op == "extent":
            return Uniform(self.extents[e.value])
        if e.op == "load":
            return self.load(e)
        if e.op == "loop":
            return self.loop(e)
        if e.op == "repeat":
            return self.repeat(e)
        if e.op == "checked":
            return self.check(e)
        args = [self.form(a) for a in e.args]
        if e.op == "rarely":
            e = ex.make("select", e.args, e.dtype)
        if not ex.is_float(e.dtype) and e.dtype != "bool" and e.op in ("add", "sub", "mul", "neg"):
            if e.op == "sub" and not isinstance(args[1], Lanes):
                return self.add(args[0], self.mul(args[1], self.minus_one(args[1])))
            if e.op == "neg" and not isinstance(args[0], Lanes):
                return self.mul(args[0], self.minus_one(args[0]))
            if e.op in ("add", "mul"):
                return self.add(*args) if e.op == "add" else self.mul(*args)
        if all(isinstance(a, Uniform) for a in args):
            return Uniform(self.scalar.one(e, [a.value for a in args]))
        if e.op == "cast" and isinstance(args[0], Ramp) and e.dtype in ("int32", "int64"):
            return Ramp(*(self.resized(v, e) for v in args[0]))
        return Lanes(self.vector.one(e, [self.lanes_of(a) for a in args]))

    def resized(self, v: Value, e: Expr) -> Value:
        to = MEMORY[e.dtype]
        return Value(to, v.name) if known(v) is not None else self.scalar.cast(v, e.args[0].dtype, e.dtype)

    def minus_one(self, form: Form) -> Uniform:
        return Uniform(Value((form.first if isinstance(form, Ramp) else form.value).type, "-1"))

    def check(self, e: Expr) -> Form:
        """The index; where it is out of bounds, the fault is noted and the index becomes -1, which no load reads."""
        index, bound = (self.form(a) for a in e.args)
        if isinstance(index, Uniform):
            i, low, bound_value = index.value, self.scalar, bound.value
        else:
            i, low, bound_value = self.lanes_of(index), self.vector, self.lanes_of(bound)
        fine = low.compare("ult", i, bound_value)
        bad = self.f.binary("xor", fine, low.constant(True, "bool"))
        if self.mask is not None and low is self.vector:
            bad = self.f.binary("and", bad, self.mask)
        some = bad if low.lanes is None else self.f.call("i1", f"llvm.vector.reduce.or.v{low.lanes}i1", bad)

        def note() -> list[Value]:
            self.f.store(i64(1), self.fault, 8)
            return []

        self.f.when(some, note)
        kept = low.select(fine, i, low.constant(-1, e.dtype))
        return Uniform(kept) if low is self.scalar else Lanes(kept)

    # --- memory ---
    def guard(self, e: Expr, valid: Form) -> Form:
        """`valid`, and that no checked index is out of bounds."""
        for a in e.args[:-1]:
            for c in ex.walk([a]):
                if c.op == "checked":
                    index = self.form(c)
                    low = self.scalar if isinstance(index, Uniform) else self.vector
                    zero = low.constant(0, c.dtype)
                    fine = low.compare("sge", index.value, zero)
                    fits = Uniform(fine) if low is self.scalar else Lanes(fine)
                    valid = self.both(valid, fits)
        return valid

    def both(self, a: Form, b: Form) -> Form:
        if isinstance(a, Uniform) and a.value.name == "true":
            return b
        if isinstance(a, Uniform) and isinstance(b, Uniform):
            return Uniform(self.f.binary("and", a.value, b.value))
        return Lanes(self.f.binary("and", self.lanes_of(a), self.lanes_of(b)))

    def offset(self, operand: int, at: Sequence[Expr]) -> Form:
        """How many elements the coordinates are from the operand's first."""
        out: Form = Uniform(Value(self.integer, "0"))
        for i, stride in zip(at, self.strides[operand]):
            out = self.add(out, self.mul(self.form(i), Uniform(stride)))
        return out

    def load(self, e: Expr) -> Form:
        offset = self.offset(e.value, e.args[:-1])
        valid = self.guard(e, self.form(e.args[-1]))
        return self.fetch(e.value, offset, valid)

    def fetch(self, operand: int, offset: Form, valid: Form) -> Form:
        dtype = self.kernel.memory[operand].dtype
        scalar, size, f = MEMORY[dtype], ITEMSIZE[dtype], self.f
        always = isinstance(valid, Uniform) and valid.value.name == "true"
        if isinstance(offset, Uniform):
            pointer = f.gep(scalar, self.base[operand], offset.value)
            condition = None if always else self.some(valid)

            def read() -> list[Value]:
                return [f.load(scalar, pointer, size)]

            zero = Value(scalar, "0" if scalar[0] == "i" else "0x0000000000000000")
            if scalar == "half":
                zero = Value(scalar, "0xH0000")
            if scalar == "i128":  # a vector on some targets
                zero = Value(scalar, "zeroinitializer")
            result = read()[0] if condition is None else f.when(condition, read, [zero])[0]
            return Uniform(self.scalar.from_memory(result, dtype))
        mask = None if always else self.lanes_of(valid)
        if self.mask is not None:
            mask = self.mask if mask is None else f.binary("and", mask, self.mask)
        if isinstance(offset, Ramp) and 1 <= (known(offset.step) or 0) <= WIDE_STEPS:
            pointer = f.gep(scalar, self.base[operand], offset.first)
            return Lanes(
                self.vector.from_memory(self.every(known(offset.step), scalar, size, pointer, mask), dtype)
            )
        result = memory.gather(f, scalar, self.lanes, self.pointers(operand, offset, scalar), size, mask)
        return Lanes(self.vector.from_memory(result, dtype))

    def every(self, step: int, scalar: str, size: int, pointer: Value, mask: Value | None) -> Value:
        """Elements `step` apart: those picked from a longer vector, of which nothing else is read under a mask."""
        f, n = self.f, self.lanes * step
        if step > 1:
            spread = ", ".join(f"i32 {k // step if k % step == 0 else self.lanes}" for k in range(n))
            kind = f"<{self.lanes} x i1>"
            mask = f.op(
                f"<{n} x i1>",
                f"shufflevector {mask or memory.every(self.lanes)}, {kind} zeroinitializer, <{n} x i32> <{spread}>",
            )
        result = memory.load(f, scalar, n, pointer, size, mask)
        if step == 1:
            return result
        picks = ", ".join(f"i32 {k * step}" for k in range(self.lanes))
        return f.op(
            self.vector.vector(scalar),
            f"shufflevector {result}, {result.type} poison, <{self.lanes} x i32> <{picks}>",
        )

    def pointers(self, operand: int, offset: Form, scalar: str) -> Value:
        result = self.f.gep(scalar, self.base[operand], self.lanes_of(offset))
        return Value(f"<{self.lanes} x ptr>", result.name)

    def some(self, condition: Form) -> Value:
        """Whether it holds in any lane."""
        if isinstance(condition, Uniform):
            return condition.value
        return self.f.call("i1", f"llvm.vector.reduce.or.v{self.lanes}i1", condition.value)

    def store(self, number: int, store: Store) -> None:
        """Write a result, combined with what is there if the store says so."""
        dtype, f = self.kernel.memory[number].dtype, self.f
        scalar, size = MEMORY[dtype], ITEMSIZE[dtype]
        offset = self.offset(number, store.at)
        probe = ex.make("load", (*store.at, ex.const(True, "bool")), dtype, number)
        valid = self.guard(probe, Uniform(Value("i1", "true")))
        value = self.form(store.value)
        if store.how != "set":
            old = self.fetch(number, offset, valid)
            e = ex.make(store.how, (store.value, store.value), dtype)
            low = self.scalar if isinstance(old, Uniform) and not self.lanes else self.vector
            value = Lanes(low.one(e, [self.lanes_of(old), self.lanes_of(value)]))
        if not self.lanes:
            pointer = f.gep(scalar, self.base[number], offset.value)

            def write() -> list[Value]:
                f.store(self.scalar.to_memory(value.value, dtype), pointer, size)
                return []

            if valid.value.name == "true":
                write()
            else:
                f.when(valid.value, write)
            return
        result = self.vector.to_memory(self.lanes_of(value), dtype)
        mask = None if isinstance(valid, Uniform) and valid.value.name == "true" else self.lanes_of(valid)
        if self.mask is not None:
            mask = self.mask if mask is None else f.binary("and", mask, self.mask)
        if isinstance(offset, Ramp) and known(offset.step) == 1:
            pointer = f.gep(scalar, self.base[number], offset.first)
            memory.store(f, scalar, self.lanes, result, pointer, size, mask)
            return
        memory.scatter(f, scalar, self.lanes, result, self.pointers(number, offset, scalar), size, mask)

    # --- loops ---
    def turns(self, e: Expr) -> frozenset:
        """The loop variables that an expression's value changes with."""
        result = self.moving.get(id(e))
        if result is None:
            result = frozenset((e.value,)) if e.op == "turn" else frozenset()
            inside = (e.value.condition, *e.value.new) if e.op == "repeat" else ()
            for a in (*e.args, *inside):
                result |= self.turns(a)
            if e.op == "loop":
                result -= frozenset(e.value.turns)
            self.moving[id(e)] = result
        return result

    def loop(self, e: Expr) -> Form:
        """All states of a loop at once; what does not change in it is computed before it."""
        rule = e.value
        n = len(rule.turns)
        extents, elements = e.args[:n], e.args[n:]
        bounds = []
        for extent in extents:
            bound = self.form(extent)
            if not isinstance(bound, Uniform):
                raise TypeError("a loop's length must be the same in every lane")
            bounds.append(self.scalar.cast(bound.value, extent.dtype, "int64"))
        own = frozenset(rule.turns)
        self.settle(elements, own)
        low = self.vector
        start = [low.constant(v.value, v.dtype) if v.op == "const" else self.value(v) for v in rule.init]

        def level(d: int, carried: list[Value]) -> list[Value]:
            if d == n:
                new = [self.value(x) for x in elements]
                leaves = {}
                for root in rule.combine:
                    for s in ex.walk([root]):
                        if s.op == "state":
                            leaves[s] = (carried + new)[s.value]
                return low.values(list(rule.combine), leaves)

            def body(i: Value, carried: list[Value]) -> list[Value]:
                turn = ex.make("turn", (), self.kernel.integer, rule.turns[d])
                self.scopes.append({turn: Uniform(self.narrow(i))})
                later = frozenset(rule.turns[d + 1 :])
                if later:
                    self.settle(elements, later)
                result = level(d + 1, carried)
                self.scopes.pop()
                return result

            return self.f.loop(i64(0), bounds[d], i64(1), carried, body)

        states = level(0, start)
        for k, v in enumerate(states):
            same = ex.make("loop", e.args, v_dtype(rule, k), rule._replace(which=k))
            self.scopes[-1][same] = Lanes(v) if self.lanes else Uniform(v)
        return self.scopes[-1][e]

    def repeat(self, e: Expr) -> Form:
        """All states of a `repeat` at once; what its body computes is known inside of it alone."""
        if self.lanes:
            raise TypeError(
                "repeat: a kernel of vectors has no loop of which each lane has its own number of turns"
            )
        rule = e.value
        state = [ex.make("carried", (), a.dtype, (rule.number, k)) for k, a in enumerate(e.args)]
        condition, *new = expanded([rule.condition, *rule.new])
        start = [self.value(a) for a in e.args]
        scope: dict[Expr, Form] = {}

        def holds(carried: list[Value]) -> Value:
            self.scopes.append(scope)
            scope.update((s, Uniform(v)) for s, v in zip(state, carried))
            return self.value(condition)

        def turn(carried: list[Value]) -> list[Value]:
            result = [self.value(n) for n in new]
            self.scopes.pop()
            return result

        states = self.f.repeat(start, holds, turn)
        for k, v in enumerate(states):
            same = ex.make("repeat", e.args, e.args[k].dtype, rule._replace(which=k))
            self.scopes[-1][same] = Uniform(v)
        return self.scopes[-1][e]

    def settle(self, roots: Sequence[Expr], turns: frozenset) -> None:
        """Compute now what under the roots does not change with those loop variables."""
        stack, seen = list(roots), set()
        while stack:
            e = stack.pop()
            if id(e) in seen or e.op in ("const", "state"):
                continue
            seen.add(id(e))
            if not self.turns(e) & turns and not self.unknown(e):
                self.form(e)
            else:
                stack += e.args

    def unknown(self, e: Expr) -> bool:
        """Whether the value needs a loop variable that has none yet."""
        return any(
            not any(ex.make("turn", (), self.kernel.integer, t) in s for s in self.scopes)
            for t in self.turns(e)
        )


def v_dtype(rule, k: int) -> str:
    return rule.combine[k].dtype


def expanded_kernel(kernel: Indexed) -> Indexed:
    """The kernel with its math functions written out in primitives."""
    if not any(e.op.startswith("call:") for e in ex.walk(kernel.roots())):
        return kernel
    new = iter(expanded(kernel.roots()))
    stores = tuple(s._replace(value=next(new), at=tuple(next(new) for _ in s.at)) for s in kernel.stores)
    return kernel._replace(stores=stores)
