"""Expressions as operators of ONNX: what a pointwise operation or a program along rows computes, as its declaration's traced body says.

A leaf broadcasts by itself, so an expression needs no shapes.  A fold is a reduction along the row's dimensions, which stay with size 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..codegen import expr as ex
from ..codegen.expr import Expr
from ..codegen.math import EXPANSIONS
from ._functions import WRITTEN
from ._writer import Value, Writer
from .errors import UnsupportedOperatorError

# What primitives and functions of expressions are in ONNX.
_OPERATORS = {
    **{"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "abs": "Abs", "floor": "Floor"},
    **{
        "ceil": "Ceil",
        "rint": "Round",
        "sqrt": "Sqrt",
        "min": "Min",
        "max": "Max",
        "eq": "Equal",
        "lt": "Less",
    },
    **{"le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"},
}
OF_FUNCTIONS = {
    **{"exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos"},
    **{"atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh"},
    **{"atanh": "Atanh", "sigmoid": "Sigmoid", "erf": "Erf", "pow": "Pow"},
}
_LOGIC = {"and": "And", "or": "Or", "xor": "Xor", "not": "Not"}
_FOLDS = {"add": "ReduceSum", "mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
_SHIFTS = {"shl": "LEFT", "lshr": "RIGHT"}


class Row:
    """The row that folds go along: dimensions counted from the right, and how many elements it has."""

    def __init__(self, dims: Sequence[int], count: int) -> None:
        self.dims, self.count = sorted(dims), count


class Body:
    """Writes expressions; `of` gives the value that a leaf stands for."""

    def __init__(self, g: Writer, of: Callable[[Expr], Value], row: Row | None = None) -> None:
        self.g, self.of, self.row = g, of, row
        self.values: dict[Expr, Value] = {}

    def write(self, roots: Sequence[Expr]) -> list[Value]:
        written = folded(_functions_written(roots))
        for e in ex.walk(written):
            if e not in self.values:
                self.values[e] = self.made(e)
        return [self.values[r] for r in written]

    def made(self, e: Expr) -> Value:
        g, args = self.g, [self.values[a] for a in e.args]
        if e.op in ("real", "imag") and args:
            return g.part(args[0], int(e.op == "imag"))
        if e.args and (ex.is_complex(e.dtype) or any(ex.is_complex(a.dtype) for a in e.args)):
            raise UnsupportedOperatorError("arithmetic of complex numbers")
        if e.op == "const":
            return g.number(e.value, e.dtype)
        if e.op == "fold":
            return self.fold(e, args)
        if e.op == "length":
            return g.size(self.along().count, "int64")
        if e.op.startswith("call:"):
            return self.call(e.op[5:], e, args)
        if e.op == "index" and e.value == 1 and len(self.along().dims) < 2:
            row = self.along()
            if not row.dims:
                return g.number(0, "int64")
            return g.unsqueeze(g.range(row.count), list(range(1, -row.dims[0])))
        if not e.args:
            return self.of(e)
        written = self.logic(e, args) or self.arithmetic(e, args)
        if written is None:
            raise UnsupportedOperatorError(f"the primitive '{e.op}' of {e.args[0].dtype}")
        return written

    def along(self) -> Row:
        if self.row is None:
            raise UnsupportedOperatorError("a fold outside of a row")
        return self.row

    # --- primitives ------------------------------
    def logic(self, e: Expr, args: list[Value]) -> Value | None:
        """Comparisons, choices, bits and conversions."""
        g, op = self.g, e.op
        if op in ("select", "rarely"):
            if e.dtype in ("int16", "uint16"):
                return g.cast(g.Where(args[0], g.wider(args[1]), g.wider(args[2])), e.dtype)
            return g.where(*args)
        if op == "cast":
            return g.cast(args[0], e.dtype)
        if op == "bitcast" and e.dtype == e.args[0].dtype:  # which only says that a number is not fixed
            return args[0]
        if op == "ne":
            if e.args[0] is e.args[1] and args[0].floating:
                return g.IsNaN(args[0])
            return g.Not(g.Equal(*args))
        if op in _LOGIC and e.args[0].dtype == "bool":
            return g.op(_LOGIC[op], *args)
        if op in _LOGIC:
            return g.op(f"Bitwise{_LOGIC[op]}", *args)
        if op in _SHIFTS and e.dtype in ex.UNSIGNED:
            return g.op("BitShift", *args, direction=_SHIFTS[op])
        if op in ("shl", "ashr") and e.dtype in ex.SIGNED:
            return self.shifted(e, args)
        return None

    def shifted(self, e: Expr, args: list[Value]) -> Value:
        """x · 2ⁿ, or ⌊x / 2ⁿ⌋ of a signed integer, for 0 ≤ n < 63."""
        g = self.g
        x, n = g.cast(args[0], "int64"), g.cast(args[1], "uint64")
        step = g.cast(g.BitShift(g.number(1, "uint64"), n, direction="LEFT"), "int64")
        if e.op == "shl":
            return g.cast(g.Mul(x, step), e.dtype)
        below = g.cast(g.And(g.Less(x, 0), g.Not(g.Equal(g.op("Mod", x, step, fmod=1), 0))), "int64")
        return g.cast(g.Sub(g.Div(x, step), below), e.dtype)

    def arithmetic(self, e: Expr, args: list[Value]) -> Value | None:
        g, op = self.g, e.op
        narrow = e.args[0].dtype in ("int8", "uint8", "int16", "uint16", "bool", "uint32")
        if narrow and op != "eq":
            args = [g.cast(a, "int64" if a.dtype == "uint32" else "int32") for a in args]
        result: Value | None = None
        if op in _OPERATORS:
            result = g.op(_OPERATORS[op], *args)
        elif op == "fma":
            result = g.Add(g.Mul(*args[:2]), args[2])
        elif op == "trunc":
            result = g.where(g.Less(args[0], 0), g.Ceil(args[0]), g.Floor(args[0]))
        elif op == "rem":
            result = g.op("Mod", *args, fmod=1)
        elif op == "copysign":
            size = g.Abs(args[0])
            result = g.where(negative(g, args[1]), g.Neg(size), size)
        return result if result is None or e.dtype == "bool" else g.cast(result, e.dtype)

    # --- functions ------------------------------
    def call(self, name: str, e: Expr, args: list[Value]) -> Value:
        if name in OF_FUNCTIONS:
            return self.g.op(OF_FUNCTIONS[name], *args)
        raise UnsupportedOperatorError(f"the function '{name}'")

    # --- folds ------------------------------
    def fold(self, e: Expr, args: list[Value]) -> Value:
        """A fold as ONNX's reduction; of no elements, what changes nothing."""
        g, rule, dims = self.g, e.value, self.along().dims
        combine = rule.combine
        if len(combine) == 2 and e.args[1].op == "index":
            return self.extreme(e, args)
        kind = combine[0].op if len(combine) == 1 else ""
        if kind in ("and", "or") and e.dtype == "bool":
            number = g.cast(args[0], "int32")
            return g.cast(g.reduce("ReduceMin" if kind == "and" else "ReduceMax", number, dims, True), "bool")
        if kind == "select" and combine[0].args[0].op in ("gt", "lt"):  # without those that are NaN
            result = "ReduceMax" if combine[0].args[0].op == "gt" else "ReduceMin"
            return g.reduce(result, args[0], dims, True)
        if kind not in _FOLDS:
            raise UnsupportedOperatorError(f"a fold by {kind or 'several states'}")
        if kind in ("add", "mul") and args[0].dtype in ("int8", "uint8", "int16", "uint16", "uint32"):
            return g.cast(g.reduce(_FOLDS[kind], g.cast(args[0], "int64"), dims, True), e.dtype)
        return g.cast(g.reduce(_FOLDS[kind], g.wider(args[0]), dims, True), e.dtype)

    def extreme(self, e: Expr, args: list[Value]) -> Value:
        """The largest or smallest element of a row, and where it first stands."""
        g, rule, dims = self.g, e.value, self.along().dims
        largest = any(
            x.op == "gt" and all(a.op == "state" and a.value in (0, 2) for a in x.args)
            for x in ex.walk([rule.combine[0]])
        )
        kind, x = "Max" if largest else "Min", g.wider(args[0])
        if not dims:
            return args[rule.which]
        if rule.which == 0:
            return g.cast(g.reduce(f"Reduce{kind}", x, dims, True), e.dtype)
        if len(dims) != 1:
            raise UnsupportedOperatorError("the place of an extreme element along several dimensions")
        return g.op(f"Arg{kind}", x, axis=dims[0], keepdims=1)


def express(g: Writer, function: Callable[..., Expr], values: Sequence[Value]) -> Value:
    """A function of expressions, of values."""
    leaves = [ex.make("operand", (), v.dtype, k) for k, v in enumerate(values)]
    return Body(g, lambda e: values[e.value]).write([function(*leaves)])[0]


def negative(g: Writer, x: Value) -> Value:
    """Whether numbers are below 0, or are -0."""
    return g.Less(g.where(g.Equal(x, 0), g.Reciprocal(x), x), 0)


def _functions_written(roots: Sequence[Expr]) -> list[Expr]:
    """Functions that ONNX has not, in those that it has."""
    result = list(roots)
    while True:
        replace: dict[Expr, Expr] = {}
        for e in ex.walk(result):
            if e.op.startswith("call:") and e.op[5:] not in OF_FUNCTIONS:
                written = WRITTEN.get(e.op[5:]) or EXPANSIONS[e.op[5:]]
                replace[e] = written(*e.args)
        if not replace:
            return result
        result = ex.substitute(result, _inner_first(replace))


_RULES: dict[str, Callable[..., Expr]] = {
    "add": ex.add,
    "sub": ex.sub,
    "mul": ex.mul,
    "div": ex.div,
    "neg": ex.neg,
}


def folded(roots: Sequence[Expr]) -> list[Expr]:
    """The expressions once numbers stand for parameters: sums and products of numbers are numbers."""
    new: dict[int, Expr] = {}
    for e in ex.walk(roots):
        args = tuple(new[id(a)] for a in e.args)
        if e.op in _RULES and not ex.is_complex(e.dtype):
            new[id(e)] = _RULES[e.op](*args)
        elif e.op == "cast" and not ex.is_complex(args[0].dtype):
            new[id(e)] = ex.cast(args[0], e.dtype)
        else:
            new[id(e)] = ex.remade(e, args) if e.args else e
    return [new[id(r)] for r in roots]


def _inner_first(replace: dict[Expr, Expr]) -> dict[Expr, Expr]:
    """Those whose arguments need no replacing: the others come when they are looked at again."""
    return {e: new for e, new in replace.items() if not any(x in replace for x in ex.walk(list(e.args)))}


def reached(roots: Sequence[Expr]) -> set[Expr]:
    """The leaves that an expression varies with beside its folds, whose results have one value a row."""
    result: set[Expr] = set()
    stack, seen = list(roots), set()
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if e.op == "fold":
            continue
        if not e.args and e.op not in ("const", "length"):
            result.add(e)
        stack.extend(e.args)
    return result
