"""Expressions over sizes: sums of products of symbols with whole coefficients, and floor division, remainder, least and largest of such.

An expression is held in one form, so equal polynomials are equal objects; `str` writes it as PyTorch does (`3*s77 + 1`, `(s77//2)`).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..core.base import display

Number = float  # a bound, which may be infinite
Ranges = Mapping[str, tuple[Number, Number]]


class Call(NamedTuple):
    """What is no polynomial: `floordiv`, `mod`, `min`, `max` of two expressions."""

    kind: str
    args: tuple[Expr, Expr]

    def value(self, sizes: Mapping[str, int]) -> int:
        """The number for given sizes; ZeroDivisionError where it has none."""
        a, b = (e.value(sizes) for e in self.args)
        return _computed(self.kind, a, b)

    def __str__(self) -> str:
        a, b = self.args
        if self.kind in ("min", "max"):
            return f"{self.kind.capitalize()}({a}, {b})"
        sign = "//" if self.kind == "floordiv" else "%"
        return (
            f"({_grouped(a)}{sign}{_grouped(b)})" if sign == "//" else f"({_grouped(a)} {sign} {_grouped(b)})"
        )


def _computed(kind: str, a: int, b: int) -> int:
    if kind in ("min", "max"):
        return min(a, b) if kind == "min" else max(a, b)
    return a // b if kind == "floordiv" else a % b


Atom = str | Call
Product = tuple[Atom, ...]  # sorted; () is the number one


class Expr:
    """A sum of products: `terms` has each product's coefficient, none of them 0.

    >>> from flambeau._symbols.expressions import symbol
    >>> s, t = symbol("s0"), symbol("s1")
    >>> print((s + 1) * (s - 1) + t * 0, (s + 1) // 2, (4 * s) // 2)
    s0**2 - 1 ((s0 + 1)//2) 2*s0
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Product, int]) -> None:
        self.terms = tuple(sorted(((p, c) for p, c in terms.items() if c), key=_order))
        self._hash = hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.constant() == other
        return isinstance(other, Expr) and self.terms == other.terms

    # --- what it is ---
    def constant(self) -> int | None:
        """The number, where there are no symbols."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def symbols(self) -> set[str]:
        """The names that it reads."""
        result: set[str] = set()
        for product, _ in self.terms:
            for atom in product:
                result |= {atom} if isinstance(atom, str) else set().union(*(e.symbols() for e in atom.args))
        return result

    def value(self, sizes: Mapping[str, int]) -> int:
        """The number for given sizes; KeyError for a symbol without one."""
        total = 0
        for product, c in self.terms:
            for atom in product:
                c *= sizes[atom] if isinstance(atom, str) else atom.value(sizes)
            total += c
        return total

    def replaced(self, by: Mapping[str, Expr]) -> Expr:
        """The expression with others in the place of symbols."""
        if not by or self.symbols().isdisjoint(by):
            return self
        total = number(0)
        for product, c in self.terms:
            part = number(c)
            for atom in product:
                if isinstance(atom, str):
                    part = part * by.get(atom, symbol(atom))
                else:
                    part = part * call(atom.kind, *(e.replaced(by) for e in atom.args))
            total = total + part
        return total

    def bounds(self, ranges: Ranges) -> tuple[Number, Number]:
        """The least and the largest value that the ranges of its symbols allow; it may be less than that."""
        low: Number = 0
        high: Number = 0
        for product, c in self.terms:
            a: Number = 1
            b: Number = 1
            for atom in product:
                x, y = (
                    ranges.get(atom, (0, math.inf)) if isinstance(atom, str) else _call_bounds(atom, ranges)
                )
                ends = [_times(p, q) for p in (a, b) for q in (x, y)]
                a, b = min(ends), max(ends)
            low += _times(c, a if c > 0 else b)
            high += _times(c, b if c > 0 else a)
        return low, high

    def linear_in(self, name: str) -> int | None:
        """The coefficient of a symbol that stands alone in one term and nowhere else; None for any other."""
        result = None
        for product, c in self.terms:
            if product == (name,):
                result = c
            elif any(
                name == atom if isinstance(atom, str) else any(name in e.symbols() for e in atom.args)
                for atom in product
            ):
                return None
        return result

    # --- arithmetic ---
    def __add__(self, other: Expr | int) -> Expr:
        terms = dict(self.terms)
        for product, c in _expr(other).terms:
            terms[product] = terms.get(product, 0) + c
        return Expr(terms)

    __radd__ = __add__

    def __neg__(self) -> Expr:
        return Expr({p: -c for p, c in self.terms})

    def __sub__(self, other: Expr | int) -> Expr:
        return self + -_expr(other)

    def __rsub__(self, other: int) -> Expr:
        return _expr(other) - self

    def __mul__(self, other: Expr | int) -> Expr:
        terms: dict[Product, int] = {}
        for p, c in self.terms:
            for q, d in _expr(other).terms:
                product = tuple(sorted((*p, *q), key=str))
                terms[product] = terms.get(product, 0) + c * d
        return Expr(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Expr | int) -> Expr:
        return call("floordiv", self, _expr(other))

    def __rfloordiv__(self, other: int) -> Expr:
        return call("floordiv", _expr(other), self)

    def __mod__(self, other: Expr | int) -> Expr:
        return call("mod", self, _expr(other))

    def __rmod__(self, other: int) -> Expr:
        return call("mod", _expr(other), self)

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return str(self.terms[0][0][0])
        text = ""
        for product, c in sorted(
            self.terms, key=lambda term: (not term[0], term[1] < 0)
        ):  # what is taken off comes last
            part = _product_text(product, abs(c))
            text += (" - " if c < 0 else " + ") + part if text else ("-" if c < 0 else "") + part
        return text

    def __repr__(self) -> str:
        return str(self)


def _order(term: tuple[Product, int]) -> Any:
    product, _ = term
    return not product, -len(product), [str(a) for a in product]


def _product_text(product: Product, c: int) -> str:
    if not product:
        return str(c)
    parts = [] if c == 1 else [str(c)]
    for atom in dict.fromkeys(product):
        text = (
            atom if isinstance(atom, str) else f"({atom})" if atom.kind in ("floordiv", "mod") else str(atom)
        )
        power = product.count(atom)
        parts.append(text if power == 1 else f"{text}**{power}")
    return "*".join(parts)


def _grouped(e: Expr) -> str:
    """The text of an operand: in parentheses unless it is a number or a symbol."""
    text = str(e)
    if (
        text.isalnum()
        or len(e.terms) == 1
        and len(e.terms[0][0]) == 1
        and not isinstance(e.terms[0][0][0], str)
    ):
        return text
    return f"({text})"


def _times(a: Number, b: Number) -> Number:
    return 0 if a == 0 or b == 0 else a * b


def _call_bounds(atom: Call, ranges: Ranges) -> tuple[Number, Number]:
    (a, b), (c, d) = (e.bounds(ranges) for e in atom.args)
    if atom.kind == "min":
        return min(a, c), min(b, d)
    if atom.kind == "max":
        return max(a, c), max(b, d)
    if c <= 0:
        return -math.inf, math.inf
    if atom.kind == "mod":
        return 0, d - 1
    low = _floor(a, d if a >= 0 else c)
    return low, _floor(b, c if b >= 0 else d)


def _floor(a: Number, b: Number) -> Number:
    if math.isinf(a):
        return a
    return (0 if a >= 0 else -1) if math.isinf(b) else a // b


def _expr(x: Expr | int) -> Expr:
    return x if isinstance(x, Expr) else number(x)


def number(n: int) -> Expr:
    """A number as an expression."""
    return Expr({(): int(n)})


def symbol(name: str) -> Expr:
    """A symbol as an expression."""
    return Expr({(name,): 1})


def call(kind: str, a: Expr, b: Expr) -> Expr:
    """`floordiv`, `mod`, `min` or `max` of two expressions, in simpler terms where there are any."""
    x, y = a.constant(), b.constant()
    if x is not None and y is not None and not (y == 0 and kind in ("floordiv", "mod")):
        return number(_computed(kind, x, y))
    if kind in ("min", "max"):
        if a == b:
            return a
        a, b = sorted((a, b), key=lambda e: (e.constant() is None, str(e)))
        return Expr({(Call(kind, (a, b)),): 1})
    if y == 1:
        return a if kind == "floordiv" else number(0)
    if y is not None and y > 0:  # the terms that it divides come out
        whole = {p: c // y for p, c in a.terms if c % y == 0}
        rest = Expr({p: c for p, c in a.terms if c % y})
        if whole:
            inner = number(0) if not rest.terms else call(kind, rest, b)
            return Expr(whole) + inner if kind == "floordiv" else inner
        common = math.gcd(y, *(c for _, c in a.terms))
        if common > 1:
            inner = call(kind, Expr({p: c // common for p, c in a.terms}), number(y // common))
            return inner if kind == "floordiv" else inner * common
    if y is None and (quotient := _divided(a, b)) is not None:
        return quotient if kind == "floordiv" else number(0)
    return Expr({(Call(kind, (a, b)),): 1})


def _divided(a: Expr, b: Expr) -> Expr | None:
    """a / b where b is one product that divides every term; None otherwise."""
    if len(b.terms) != 1:
        return None
    product, c = b.terms[0]
    result: dict[Product, int] = {}
    for p, d in a.terms:
        left = list(p)
        for atom in product:
            if atom not in left:
                return None
            left.remove(atom)
        if d % c:
            return None
        result[tuple(left)] = d // c
    return Expr(result)


def parsed(text: str) -> Expr:
    """The expression of a text such as `str` writes, or PyTorch's files hold.

    ValueError for anything else.

    >>> from flambeau._symbols.expressions import parsed
    >>> parsed("s1 + 2*s0*(s0//2) - Min(5, s1)").value({"s0": 5, "s1": 7})
    22
    """
    try:
        return _parsed(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, KeyError, RecursionError) as error:
        raise ValueError(f"{display.NAME}: {text!r} is no expression of sizes") from error


_OPERATORS = {
    ast.Add: "__add__",
    ast.Sub: "__sub__",
    ast.Mult: "__mul__",
    ast.FloorDiv: "__floordiv__",
    ast.Mod: "__mod__",
}
_FUNCTIONS = {
    "FloorDiv": "floordiv",
    "CleanDiv": "floordiv",
    "Mod": "mod",
    "PythonMod": "mod",
    "Min": "min",
    "Max": "max",
}


def _parsed(node: ast.expr) -> Expr:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return number(node.value)
    if isinstance(node, ast.Name):
        return symbol(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_parsed(node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant):
        result, base = number(1), _parsed(node.left)
        power = node.right.value
        for _ in range(min(power if isinstance(power, int) else 1, 16)):
            result = result * base
        return result
    if isinstance(node, ast.BinOp):
        return getattr(_parsed(node.left), _OPERATORS[type(node.op)])(_parsed(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        args = [_parsed(a) for a in node.args]
        name = node.func.id
        if name not in _FUNCTIONS or len(args) < 2:
            raise SyntaxError
        result = args[0]
        for other in args[1:]:
            result = call(_FUNCTIONS[name], result, other)
        return result
    raise SyntaxError
