"""Sizes as archives write them, `Add(Symbol('s0', positive=True, integer=True), Integer(1))` or `s0 + 1`, both ways.

The parser is one of its own: it knows numbers, symbols, the functions of sizes and operators, and calls nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..._files.errors import Damaged
from ..._symbols import expressions
from ..._symbols.expressions import Call, Expr

MOST_CHARACTERS = 1 << 16
MOST_NESTED = 60
MOST_FACTORS = 16
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d*(?:[eE][-+]?\d+)?|\d+)|(?P<name>[A-Za-z_]\w*)|(?P<text>'[^'\\]*')|(?P<sign>\*\*|//|<=|>=|==|!=|[-+*/%(),=<>&|~]))"
)
_RANKS = [("|",), ("&",), ("==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/", "//", "%")]
_SIGNS = {
    "|": "Or",
    "&": "And",
    "==": "Equality",
    "!=": "Unequality",
    "<": "StrictLessThan",
    "<=": "LessThan",
    ">": "StrictGreaterThan",
    ">=": "GreaterThan",
    "+": "Add",
    "*": "Mul",
    "//": "FloorDiv",
    "%": "PythonMod",
    "**": "Pow",
}
# PyTorch's functions, and what they are here; others are kept as they are, since nothing is computed with them
_HERE = {
    "FloorDiv": "floordiv",
    "CleanDiv": "floordiv",
    "Mod": "mod",
    "PythonMod": "mod",
    "Min": "min",
    "Max": "max",
}
_THERE = {"floordiv": "FloorDiv", "mod": "PythonMod", "min": "Min", "max": "Max"}
_UNPARSED = frozenset(
    "Add Mul Pow Rational Float ModularIndexing Where CeilToInt FloorToInt CeilDiv LShift RShift PowByNatural FloatPow FloatTrueDiv "
    "IntTrueDiv IsNonOverlappingAndDenseIndicator TruncToFloat TruncToInt RoundToInt RoundDecimal ToFloat Identity Equality Unequality "
    "StrictLessThan LessThan StrictGreaterThan GreaterThan And Or Not Piecewise ExprCondPair Tuple Abs floor ceiling sqrt Eq Ne Lt Le Gt "
    "Ge OpaqueUnaryFn_sqrt OpaqueUnaryFn_log2 BitwiseFn_bitwise_and BitwiseFn_bitwise_or BitwiseFn_bitwise_xor".split()
)


@dataclass(frozen=True)
class UnparsedExpr:
    """An expression of functions that nothing is computed with here: its text, and the names in it."""

    text: str
    names: tuple[str, ...]
    kind: str = "int"  # or "float", "bool"

    def symbols(self) -> set[str]:
        """The names of its symbols."""
        return set(self.names)

    def value(self, sizes: Any) -> int:
        """Raises NotImplementedError."""
        raise NotImplementedError(f"{self.text} is no expression of sizes that is computed here")

    def __str__(self) -> str:
        return self.text


class _Parser:
    """A text, taken from left to right."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise Damaged(f"an expression of {len(text)} characters")
        self.text, self.tokens, at = text, [], 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.wrong()
            self.tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            at = match.end()
        self.at = self.depth = 0
        self.names: dict[str, None] = {}
        self.is_computed = True  # whether it is an expression that is computed here

    def wrong(self) -> Damaged:
        return Damaged(f"{self.text[:80]!r} is no expression of sizes")

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, *signs: str) -> str:
        """The next token, which must be one of these where any are given."""
        if self.at >= len(self.tokens) or (signs and self.peek() not in signs):
            raise self.wrong()
        self.at += 1
        return self.tokens[self.at - 1][1]

    def parse(self) -> Any:
        result = self.binary(0)
        if self.at != len(self.tokens):
            raise self.wrong()
        return result

    def binary(self, rank: int) -> Any:
        """Operands and operators of a rank and of those that bind firmer."""
        if rank == len(_RANKS):
            return self.signed()
        result = self.binary(rank + 1)
        while self.peek() in _RANKS[rank]:
            sign = self.take()
            other = self.binary(rank + 1)
            if sign == "-":
                sign, other = "+", self.combined("Mul", [expressions.number(-1), other])
            result = self.combined(_SIGNS.get(sign, "Div"), [result, other])
        return result

    def signed(self) -> Any:
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise Damaged("an expression of sizes is nested too deep")
        if self.peek() in ("-", "+", "~"):
            sign = self.take()
            inner = self.signed()
            result = inner if sign == "+" else self.combined("Mul", [expressions.number(-1), inner])
            self.is_computed = self.is_computed and sign != "~"
        else:
            result = self.atom()
            if self.peek() == "**":
                self.take()
                result = self.combined("Pow", [result, self.signed()])
        self.depth -= 1
        return result

    def atom(self) -> Any:
        if self.at >= len(self.tokens):
            raise self.wrong()
        kind, text = self.tokens[self.at]
        self.at += 1
        if text == "(":
            result = self.binary(0)
            self.take(")")
            return result
        if kind == "number":
            return self.number(text)
        if kind != "name":
            raise self.wrong()
        if self.peek() != "(":
            if text in ("true", "false", "True", "False"):
                self.is_computed = False
                return expressions.number(0)
            return self.symbol(text)
        return self.called(text)

    def called(self, name: str) -> Any:
        """`name(…)`: a symbol, a number, or a function of sizes."""
        self.take("(")
        if name == "Symbol":
            kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
            self.take()
            while self.peek() == ",":
                self.take()
                self.take()
                self.take("=")
                self.take("True", "False")
            self.take(")")
            if kind != "text" or not text[1:-1].isidentifier():
                raise self.wrong()
            return self.symbol(text[1:-1])
        if name == "Float":  # its text, and how exact it is
            while self.peek() != ")":
                self.take()
            self.take(")")
            self.is_computed = False
            return expressions.number(0)
        if name not in _HERE and name not in _UNPARSED and name != "Integer":
            raise Damaged(f"{name[:60]!r} is no function of sizes")
        args = []
        while self.peek() != ")":
            args.append(self.binary(0))
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        return self.combined(name, args)

    def number(self, text: str) -> Any:
        if "." in text or len(text) > 40:
            self.is_computed = False
            return expressions.number(0)
        return expressions.number(int(text))

    def symbol(self, name: str) -> Any:
        self.names[name] = None
        return expressions.symbol(name)

    def combined(self, name: str, args: list[Any]) -> Any:
        """A function of operands, where it is one of those that are computed here."""
        if not self.is_computed:
            return expressions.number(0)
        if name == "Integer" and len(args) == 1 and args[0].constant() is not None:
            return args[0]
        if name == "Add" and args:
            return sum(args[1:], args[0])
        if name == "Mul" and args and sum(len(a.terms) > 1 for a in args) <= MOST_FACTORS:
            result = args[0]
            for other in args[1:]:
                result = result * other
                if len(result.terms) > 256:
                    raise Damaged(f"{self.text[:80]!r} is a product of too many terms")
            return result
        if name == "Pow" and len(args) == 2 and 0 <= (args[1].constant() or 0) <= MOST_FACTORS:
            power = args[1].constant()
            if power is not None:
                return self.combined("Mul", [args[0]] * power) if power else expressions.number(1)
        if name in _HERE and (len(args) == 2 or (name in ("Min", "Max") and args)):
            result = args[0]
            for other in args[1:]:
                result = expressions.call(_HERE[name], result, other)
            return result
        self.is_computed = False
        return expressions.number(0)


def parsed(text: str) -> Any:
    """The expression of a text: a number, an `Expr`, or `UnparsedExpr` where it is of functions that are not computed here.

    Damaged for what is no expression.

    >>> from flambeau.export._pt2.texts import parsed
    >>> parsed("Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))")
    2*s0 + 1
    >>> parsed("2*(s0//3)").value({"s0": 7}), parsed("Integer(4)")
    (4, 4)
    """
    parser = _Parser(text)
    result = parser.parse()
    if not parser.is_computed:
        return UnparsedExpr(text, tuple(parser.names))
    constant = result.constant()
    return result if constant is None else constant


def written(size: Any) -> str:
    """An expression as archives have it.

    >>> from flambeau.export._pt2.texts import parsed, written
    >>> written(parsed("s0 - 1"))
    "Add(Symbol('s0', positive=True, integer=True), Integer(-1))"
    """
    if isinstance(size, UnparsedExpr):
        return size.text
    if isinstance(size, bool):
        return str(size).lower()
    if isinstance(size, int):
        return f"Integer({size})"
    if isinstance(size, float):
        return f"Float('{size!r}', precision=53)"
    return _joined("Add", [_product(product, c) for product, c in size.terms])


def _product(product: tuple, c: int) -> str:
    factors = [] if c == 1 and product else [f"Integer({c})"]
    for atom in dict.fromkeys(product):
        power = product.count(atom)
        text = _atom(atom)
        factors.append(text if power == 1 else f"Pow({text}, Integer({power}))")
    return _joined("Mul", factors)


def _joined(name: str, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{name}({', '.join(parts)})"


def _atom(atom: Any) -> str:
    if isinstance(atom, Call):
        return f"{_THERE[atom.kind]}({', '.join(map(written, atom.args))})"
    # sizes of inputs are at least 1 in PyTorch's graphs; those that follow from values may be 0
    unbacked = re.fullmatch(r"z?u\d+", atom) is not None
    return f"Symbol({atom!r}, {'' if unbacked else 'positive=True, '}integer=True)"


def expression(size: Any) -> Any:
    """A size of a recorded value as a number or an expression: what stands for a number says which (`node.expr`)."""
    if type(size) is int or isinstance(size, (Expr, UnparsedExpr)):
        return size
    node = getattr(size, "node", None)
    return size if node is None else getattr(node, "expr", size)
