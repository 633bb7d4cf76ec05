"""Algebra: formulas that say which expressions are simpler ones.

`EXACT` keeps bits for all numbers: zeros of both signs, infinities, denormal numbers, every rounding; one NaN is as good as another.
`FAST` does not; it is read where `use_fast_math` is requested.  What the constructors of expressions know by themselves is no formula
here: x * 1, x * -1, x / 1, x + -0.0, x - 0.0, -(-x), select(c, x, x), arithmetic of constants (`codegen/expr.py`).  x + 0.0 is no x: it
is 0.0 for -0.0.  Powers by 1 and 2 are products when they are called.

Formulas are applied to what a kernel computes, and to calls: one that gives what is there already is no call.

>>> from flambeau.codegen import expr as ex
>>> from flambeau.graph.passes.algebra import EXACT, FAST, simplified
>>> x = ex.input(0, "float32")
>>> simplified([ex.absolute(ex.absolute(x) * 1.0), ex.absolute(-x)], EXACT)
[abs(in0), abs(in0)]
>>> simplified([x / 3.0], EXACT), simplified([x / 3.0], FAST)
([div(in0, 3.0)], [mul(in0, 0.3333333432674408)])
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...codegen import expr as ex
from ...codegen.expr import Expr
from ..expressions import Leaves, Reader, Unfused, expressions, extremes_of, loop_of
from ..program import Call, Program, Value
from .standing import Standing

MOST_WORK = 12  # operations of an expression that calls behind it look into

Found = dict[str, Expr]


def _power_of_two(result: Found) -> bool:
    """Whether c and 1 / c are powers of two that have all their digits: then x / c and x * (1 / c) round the same number."""
    c = result["c"]
    least = {"float32": 2.0**-126, "float64": 2.0**-1022}.get(c.dtype)
    if least is None or not math.isfinite(c.value):
        return False
    return abs(math.frexp(c.value)[0]) == 0.5 and least <= abs(c.value) <= 1 / least


def _invertible(result: Found) -> bool:
    c = result["c"]
    if c.dtype not in ("float32", "float64") or c.value == 0 or not math.isfinite(c.value):
        return False
    return math.isfinite(ex.const(1 / c.value, c.dtype).value)


def _ordered(result: Found) -> bool:
    return result["a"].value < result["b"].value


def _signed(result: Found) -> bool:
    return ex.is_signed(result["x"].dtype)


def _comes_back(result: Found) -> bool:
    """Whether a conversion to a wider dtype and back gives each number of x."""
    x, wide = result["x"].dtype, result["wide"].dtype
    if result["back"].dtype != x or x == "bool":
        return False
    if ex.is_float(x) or not ex.is_float(wide):
        return ex.is_float(wide) == ex.is_float(x) and ex.BITS[x] < ex.BITS[wide]
    return ex.BITS[x] <= {"float32": 16, "float64": 32}.get(wide, 0)


class Formula(NamedTuple):
    """`text` is "left = right": x, y and z are any expressions, a, b and c constants.  `holds` looks at what they are."""

    text: str
    holds: Callable[[Found], bool] | None = None


EXACT = (
    Formula("abs(abs(x)) = abs(x)"),
    Formula("abs(-x) = abs(x)", _signed),
    Formula("x + -y = x - y"),
    Formula("x - -y = x + y"),
    Formula("max(x, x) = x"),
    Formula("min(x, x) = x"),
    Formula("max(max(x, y), y) = max(x, y)"),
    Formula("min(min(x, y), y) = min(x, y)"),
    Formula("min(max(min(max(x, a), b), a), b) = min(max(x, a), b)", _ordered),
    Formula("x & x = x"),
    Formula("x | x = x"),
    Formula("~~x = x"),
    Formula("floor(floor(x)) = floor(x)"),
    Formula("ceil(ceil(x)) = ceil(x)"),
    Formula("trunc(trunc(x)) = trunc(x)"),
    Formula("rint(rint(x)) = rint(x)"),
    Formula("x / c = x * (1 / c)", _power_of_two),
    Formula("back(wide(x)) = x", _comes_back),  # conversions
)
FAST = (
    *EXACT,
    Formula("x + 0 = x"),
    Formula("x * 0 = 0"),
    Formula("x - x = 0"),
    Formula("x / c = x * (1 / c)", _invertible),
    Formula("(x * a) * b = x * (a * b)"),
    Formula("(x + a) + b = x + (a + b)"),
    Formula("exp(log(x)) = x"),
    Formula("log(exp(x)) = x"),
)

_BINARY: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.BitAnd: "and",
    ast.BitOr: "or",
}
_UNARY: dict[type, str] = {ast.USub: "neg", ast.Invert: "not"}
_CALLED = {"exp": "call:exp", "log": "call:log", "back": "cast", "wide": "cast"}
_COMMUTE = ("add", "mul", "and", "or")
_BUILT: dict[str, Callable[..., Expr]] = {
    "add": ex.add,
    "sub": ex.sub,
    "mul": ex.mul,
    "div": ex.div,
    "neg": ex.neg,
    "select": ex.where,
}


class _Pattern(NamedTuple):
    """A side of a formula: an operation on patterns, a name, or a number."""

    op: str
    args: tuple[_Pattern, ...] = ()
    name: str = ""
    value: float = 0


def _pattern(node: Any) -> _Pattern:
    if isinstance(node, ast.Name):
        return _Pattern("any" if node.id in "xyz" else "const", name=node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return _Pattern("number", value=node.value)
    if isinstance(node, ast.UnaryOp):
        return _Pattern(_UNARY[type(node.op)], (_pattern(node.operand),))
    if isinstance(node, ast.BinOp):
        return _Pattern(_BINARY[type(node.op)], (_pattern(node.left), _pattern(node.right)))
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    name = node.func.id
    return _Pattern(_CALLED.get(name, name), tuple(map(_pattern, node.args)), name)


class _Rule(NamedTuple):
    left: _Pattern
    right: _Pattern
    holds: Callable[[Found], bool] | None


@functools.cache
def _rules(formulas: tuple[Formula, ...]) -> dict[str, list[_Rule]]:
    """The formulas by the operation on their left."""
    result: dict[str, list[_Rule]] = {}
    for text, holds in formulas:
        left, right = (_pattern(ast.parse(side.strip(), mode="eval").body) for side in text.split("="))
        result.setdefault(left.op, []).append(_Rule(left, right, holds))
    return result


def _matches(pattern: _Pattern, e: Expr, result: Found) -> bool:
    """Whether an expression has the form of a pattern; what its names stand for is entered in `found`."""
    if pattern.op in ("any", "const"):
        if pattern.op == "const" and e.op != "const":
            return False
        return result.setdefault(pattern.name, e) is e
    if pattern.op == "number":
        return e.op == "const" and e.value == pattern.value
    if e.op != pattern.op:
        return False
    if pattern.name:
        result[pattern.name] = e
    for args in (e.args, e.args[::-1]) if e.op in _COMMUTE else (e.args,):
        before = dict(result)
        if all(_matches(p, a, result) for p, a in zip(pattern.args, args, strict=True)):
            return True
        result.clear()
        result.update(before)
    return False


def _built(pattern: _Pattern, result: Found, dtype: str) -> Expr:
    if pattern.op in ("any", "const"):
        return result[pattern.name]
    if pattern.op == "number":
        return ex.const(pattern.value, dtype)
    return _made(pattern.op, tuple(_built(p, result, dtype) for p in pattern.args), dtype)


def _made(op: str, args: tuple[Expr, ...], dtype: str, value: object = None) -> Expr:
    """An expression as its constructor makes it."""
    if op in _BUILT and dtype in ("float32", "float64", *ex.SIGNED, *ex.UNSIGNED):
        return _BUILT[op](*args)
    if op == "cast" and (args[0].dtype == dtype or _converts(args[0], dtype)):
        return ex.cast(args[0], dtype)
    return ex.remade(ex.make(op, args, dtype, value), args)


def _converts(e: Expr, dtype: str) -> bool:
    """Whether it is a constant that a kernel would convert to the same number."""
    if e.op != "const" or dtype not in ("float32", "float64", *ex.SIGNED, *ex.UNSIGNED):
        return False
    if ex.is_float(e.dtype):
        return ex.is_float(dtype) or (e.value.is_integer() and ex.const(e.value, dtype).value == e.value)
    return not ex.is_float(dtype) or abs(e.value) <= 1 << 53


def simplified(roots: Sequence[Expr], formulas: Sequence[Formula]) -> list[Expr]:
    """The roots, where formulas (`EXACT` or `FAST`) and constructors say it in simpler terms; each fold stays one."""
    rules, new = _rules(tuple(formulas)), dict[Expr, Expr]()
    for e in ex.walk(roots):
        args = tuple([new[a] for a in e.args])
        new[e] = _rewritten(_made(e.op, extremes_of(e, args), e.dtype, e.value), rules)
    return [new[e] for e in roots]


def _rewritten(e: Expr, rules: Mapping[str, list[_Rule]]) -> Expr:
    while True:
        for rule in rules.get(e.op, ()):
            result: Found = {}
            if _matches(rule.left, e, result) and (rule.holds is None or rule.holds(result)):
                simpler = _built(rule.right, result, e.dtype)
                break
        else:
            return e
        if simpler is e:
            return e
        e = simpler


# --- calls ------------------------------
def simplify(program: Program, formulas: Sequence[Formula], is_dead: Callable[[Call], bool]) -> None:
    """Leave out elementwise calls that give what one of their operands, or what that is made of, holds.

    >>> import flambeau as torch
    >>> from flambeau.graph.passes.algebra import EXACT, simplify
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> program = Program(record(lambda x: (-(-x * 1.0)).abs().abs().double().float().sum(), torch.zeros(3))[0])
    >>> simplify(program, EXACT, lambda call: True)
    >>> [call.name for call in program.calls]
    ['abs', 'sum']
    """
    standing, leaves = Standing(program), Leaves()
    known: dict[Value, Expr] = {}  # what elements of values are, in terms of values that nothing writes to
    gone: set[Call] = set()
    for call in program.calls:
        loop = loop_of(call)
        if loop is None or loop.dims is not None or call.written or len(call.results) != 1:
            continue
        (result,) = call.results
        if any(map(program.is_written, (result, *call.values()))):
            continue
        try:
            found = expressions(call, Reader(known, leaves, loop), leaves, loop)
        except Unfused:
            continue
        (e,) = simplified(found, formulas)
        held = _holds(e, call, known, leaves)
        if held is not None and standing.may(standing.of(held), result):
            standing.put(standing.of(held), result)
            gone.add(call)
        if sum(1 for part in ex.walk([e]) if part.args) <= MOST_WORK:
            known[result] = e
    if gone:
        standing.enter()
        program.drop_dead(lambda call: call in gone or is_dead(call))


def _holds(e: Expr, call: Call, known: Mapping[Value, Expr], leaves: Leaves) -> Value | None:
    """The value that holds the elements of a call's result, which are `e`, in the same places: an operand, or one that it is made of."""
    shape = call.results[0].shape
    operands = call.values()
    made_of = [w for v in operands if v in known and v.call is not None for w in v.call.values()]
    for v in (*operands, *made_of):
        if known.get(v) is e and v.shape == shape:
            return v
    if e.op != "input":
        return None
    value, strides = leaves.read[e.value]
    own = value.strides
    while own and own[0] == 0:
        own = own[1:]
    return value if value.shape == shape and strides == own else None
