"""Expressions: each becomes a value with its type, its code and its Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..._tensor import Tensor
from .._text import number_text, quoted
from ._calls import Calls
from ._hosts import METHODS
from ._operators import host_call
from ._types import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    Dict,
    List,
    Optional,
    Tuple,
    Type,
    Union,
    filled,
    is_subtype,
    members_of,
    unified,
)
from ._values import NOTHING, Host, Iteration, Method, ModuleRef, Several, Simple, Value

_BINARY = {
    ast.Add: ("add", "+"),
    ast.Sub: ("sub", "-"),
    ast.Mult: ("mul", "*"),
    ast.Div: ("div", "/"),
    ast.FloorDiv: ("floordiv", "//"),
    ast.Mod: ("remainder", "%"),
    ast.Pow: ("pow", "**"),
    ast.MatMult: ("matmul", "@"),
    ast.BitAnd: ("__and__", "&"),
    ast.BitOr: ("__or__", "|"),
    ast.BitXor: ("__xor__", "^"),
    ast.LShift: ("__lshift__", "<<"),
    ast.RShift: ("__rshift__", ">>"),
}
_MAGIC = {
    "add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__", "floordiv": "__floordiv__", "remainder": "__mod__",
    "pow": "__pow__", "matmul": "__matmul__", "eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__",
    "ge": "__ge__",
}  # fmt: skip
_COMPARED = {
    ast.Eq: ("eq", "=="),
    ast.NotEq: ("ne", "!="),
    ast.Lt: ("lt", "<"),
    ast.LtE: ("le", "<="),
    ast.Gt: ("gt", ">"),
    ast.GtE: ("ge", ">="),
}
_OF_TENSORS = {
    "floordiv": "floor_divide",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
}
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_SCALARS = (INT, FLOAT, COMPLEX, NUMBER, BOOL)
_UNSUPPORTED = {
    ast.Lambda: "Lambda aren't supported",
    ast.Await: "await aren't supported",
    ast.Yield: "yield aren't supported",
    ast.YieldFrom: "yield from aren't supported",
    ast.NamedExpr: "NamedExpr aren't supported",
    ast.Set: "Set aren't supported",
    ast.SetComp: "SetComp aren't supported",
    ast.Starred: "Starred aren't supported",
    ast.FormattedValue: "FormattedValue aren't supported",
}


class Condition(NamedTuple):
    """A condition: its value, what it is where that is known, and what is known of variables where it holds and where it does not."""

    value: Simple
    static: bool | None = None
    then: dict[str, Type] = {}
    other: dict[str, Type] = {}


class Expressions(Calls):
    """The part of a function's compiler that reads expressions."""

    def simple(self, node: ast.expr, hint: Type | None = None) -> Simple:
        """An expression as a value with a type; an error for a module, a function and kin."""
        value = self.expression(node, hint)
        return self.as_simple(value, node)

    def as_simple(self, value: Value, node: ast.AST) -> Simple:
        """The value, where it has a type."""
        if isinstance(value, Simple):
            return value
        if isinstance(value, Several):
            parts = [self.as_simple(v, node) for v in value.items]
            return self.tuple_of(parts)
        if isinstance(value, Host):
            return self.refuse(
                f"{value.shown()} cannot be used as a value. Perhaps it is a closed over global variable? If so, please consider passing it in "
                "as an argument or use a local variable instead",
                node,
            )
        return self.refuse(f"{value.shown()} cannot be used as a value", node)

    def expression(self, node: ast.expr, hint: Type | None = None) -> Value:
        """What an expression is; `hint` is the type that is wanted of an empty list or dictionary."""
        if isinstance(node, ast.Constant):
            return self.constant(node)
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.expression(node.value), node.attr, node)
        if isinstance(node, ast.Call):
            return self.call(node, hint)
        if isinstance(node, ast.BinOp):
            return self.binary(node)
        if isinstance(node, ast.UnaryOp):
            return self.unary(node)
        if isinstance(node, (ast.BoolOp, ast.Compare)):
            return self.condition(node).value
        if isinstance(node, ast.IfExp):
            return self.ternary(node, hint)
        if isinstance(node, ast.Subscript):
            return self.subscript(node)
        if isinstance(node, ast.Tuple):
            return self.tuple_literal(node, hint)
        if isinstance(node, ast.List):
            return self.list_literal(node, hint)
        if isinstance(node, ast.Dict):
            return self.dict_literal(node, hint)
        if isinstance(node, ast.JoinedStr):
            return self.joined(node)
        if isinstance(node, (ast.ListComp, ast.DictComp, ast.GeneratorExp)):
            return self.comprehension(node, hint)
        what = _UNSUPPORTED.get(type(node), f"{type(node).__name__} aren't supported")
        return self.code.unsupported(what, node)

    # --- literals ------------------------------
    def constant(self, node: ast.Constant) -> Simple:
        value = node.value
        if value is Ellipsis:
            return self.refuse("an ellipsis stands in an index alone", node)
        if isinstance(value, bytes):
            return self.code.unsupported("bytes aren't supported", node)
        if type(value) is int and not -(1 << 63) <= value < 1 << 63:
            return self.refuse("Integral value out of range: integers have 64 bits", node)
        return self.literal(value)

    def literal(self, value: Any) -> Simple:
        """A number, a text or None as a value."""
        t = {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX, str: STR}.get(type(value), NONE)
        text = quoted(value) if t == STR else repr(value) if t in (BOOL, NONE) else number_text(value)
        py = repr(value)
        if t in (FLOAT, COMPLEX) and ("n" in py or "(" in py):  # inf, nan, complex
            py = self.unit.bind(value, "number")
        return Simple(text, py, t, value, small=t == INT and abs(value) < 1 << 48)

    def tuple_of(self, items: list[Simple]) -> Simple:
        """Values as a tuple."""
        text, py = ("".join(getattr(v, part) + ", " for v in items) for part in ("text", "py"))
        made = Simple(f"({text})", f"({py})", Tuple(*(v.type for v in items)), items=items)
        made.stable = all(v.stable for v in items)
        if all(v.is_constant for v in items):
            made.constant = tuple(v.constant for v in items)
        return made

    def tuple_literal(self, node: ast.Tuple, hint: Type | None) -> Value:
        inner = hint.plain.inner if hint is not None and hint.plain.kind == "Tuple" else ()
        hints = inner if len(inner) == len(node.elts) else [None] * len(node.elts)
        found = self.elements(node.elts, hints)
        if all(isinstance(v, Simple) for v in found):
            return self.tuple_of([self.as_simple(v, node) for v in found])
        return Several(found)

    def simples(self, nodes: list[ast.expr], hint: Type | None = None) -> list[Simple]:
        """Expressions as values, in order."""
        found = self.evaluated([lambda n=n: self.simple(n, hint) for n in nodes])
        return [v for v in found if isinstance(v, Simple)]

    def list_literal(self, node: ast.List, hint: Type | None) -> Simple:
        wanted = hint.plain.inner[0] if hint is not None and hint.plain.kind == "List" else None
        found = self.elements(node.elts, [wanted] * len(node.elts))
        return self.list_of([self.as_simple(v, node) for v in found], wanted, node)

    def elements(self, nodes: list[ast.expr], hints: Sequence[Type | None]) -> list[Value]:
        """The elements of a literal, those of `*x` among them."""
        parts = [n.value if isinstance(n, ast.Starred) else n for n in nodes]
        found = self.evaluated([lambda e=e, h=h: self.expression(e, h) for e, h in zip(parts, hints)])
        whole: list[Value] = []
        for node, value in zip(nodes, found):
            whole += self.spread(value, node) if isinstance(node, ast.Starred) else [value]
        return whole

    def list_of(self, items: list[Simple], wanted: Type | None, node: ast.AST) -> Simple:
        """Values as a list."""
        if not items:
            element = wanted or TENSOR
            return Simple(f"annotate(List[{element.text}], [])", "[]", List(element), items=[])
        element = items[0].type
        for item in items[1:]:
            element = unified(element, item.type) or Union(element, item.type)
        if wanted is not None and all(is_subtype(v.type, wanted) for v in items):
            element = wanted
        text, py = (f"[{', '.join(getattr(v, part) for v in items)}]" for part in ("text", "py"))
        if any(v.type != element for v in items):
            text = f"annotate(List[{element.text}], {text})"
        made = Simple(text, py, List(element), items=items)
        if all(v.is_constant for v in items):
            made.constant = [v.constant for v in items]
            made.stable = False
        return made

    def dict_literal(self, node: ast.Dict, hint: Type | None) -> Simple:
        wanted = hint.plain.inner if hint is not None and hint.plain.kind == "Dict" else ()
        if None in node.keys:
            return self.code.unsupported("** in a dictionary aren't supported", node)
        makers: list[Callable[[], Value]] = []
        for key, value in zip(node.keys, node.values):
            makers.append(lambda k=key: self.simple(k))
            makers.append(lambda v=value: self.simple(v, wanted[1] if wanted else None))
        found = [v for v in self.evaluated(makers) if isinstance(v, Simple)]
        keys, values = found[::2], found[1::2]
        if not keys:
            key, value = wanted or (STR, TENSOR)
            return Simple(f"annotate(Dict[{key.text}, {value.text}], {{}})", "{}", Dict(key, value))
        key, value = keys[0].type, values[0].type
        for k, v in zip(keys, values):
            if k.type != key:
                return self.refuse(f"Dict keys must be of one type: {key} and {k.type}", node)
            value = unified(value, v.type) or Union(value, v.type)
        if wanted and all(is_subtype(v.type, wanted[1]) for v in values):
            value = wanted[1]
        text, py = (
            "{" + ", ".join(f"{getattr(k, part)}: {getattr(v, part)}" for k, v in zip(keys, values)) + "}"
            for part in ("text", "py")
        )
        if any(v.type != value for v in values):
            text = f"annotate(Dict[{key.text}, {value.text}], {text})"
        return Simple(text, py, Dict(key, value))

    def joined(self, node: ast.JoinedStr) -> Simple:
        parts: list[str] = []
        values: list[ast.expr] = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(str(part.value))
            elif isinstance(part, ast.FormattedValue):
                if part.conversion != -1 or part.format_spec is not None:
                    what = "Don't support conversion in JoinedStr" if part.conversion != -1 else "Don't support formatting in JoinedStr"
                    return self.code.not_supported(what, node)
                parts.append("{}")
                values.append(part.value)
        return self.formatted(self.literal("".join(parts)), self.simples(values))

    def formatted(self, text: Simple, values: list[Simple]) -> Simple:
        """`"{}".format(…)`."""
        given, py = (", ".join(getattr(v, part) for v in (text, *values)) for part in ("text", "py"))
        return Simple(f"torch.format({given})", f"formatted({py})", STR)

    # --- names and attributes ------------------------------
    def name(self, node: ast.Name) -> Value:
        found = self.look_up(node.id)
        if found is not None:
            return found
        if node.id in self.absent:
            return self.refuse(self.absent[node.id], node)
        return self.outer(node.id, node)

    def item_of(self, value: Simple, k: int) -> Simple:
        """An item of a tuple."""
        if value.items is not None:
            return value.items[k]
        t = value.type.inner[k]
        return Simple(f"({value.text})[{k}]", f"{value.py}[{k}]", t, stable=value.stable)

    # --- operators ------------------------------
    def binary(self, node: ast.BinOp) -> Value:
        name, sign = _BINARY[type(node.op)]
        a, b = self.evaluated([lambda: self.expression(node.left), lambda: self.expression(node.right)])
        if isinstance(a, Several) and isinstance(b, Several) and name == "add":
            return Several([*a.items, *b.items])
        return self.operator(name, sign, self.as_simple(a, node.left), self.as_simple(b, node.right), node)

    def operator(self, name: str, sign: str, a: Simple, b: Simple, node: ast.AST) -> Simple:
        """`a + b`, and all that is like it."""
        if a.type.kind == "class":
            return self.invoke(Method(a, _MAGIC.get(name, name)), [b], {}, node)
        if a.type.kind == "Tuple" and b.type.kind == "Tuple" and name == "add":
            items = [self.item_of(self.held(v), k) for v in (a, b) for k in range(len(v.type.inner))]
            return self.tuple_of(items)
        if name == "remainder" and a.type == STR:
            values = b.items if b.type.kind == "Tuple" and b.items is not None else [b]
            given, py = (", ".join(getattr(v, part) for v in (a, *values)) for part in ("text", "py"))
            return Simple(f"torch.percentFormat({given})", f"percent_formatted({py})", STR)
        if TENSOR in (a.type, b.type):
            return self.tensor_operator(name, sign, a, b, node)
        return self.of_hosts(name, [a, b], {}, node)

    def tensor_operator(self, name: str, sign: str, a: Simple, b: Simple, node: ast.AST) -> Simple:
        py = f"({a.py} {sign} {b.py})"
        if a.type in _SCALARS and name != "matmul":
            text, t = self._turned(name, a, b), TENSOR
            if text is not None:
                return Simple(text, py, t)
        called = _OF_TENSORS.get(name, name)
        found = self.aten(called, [a, b], {}, node)
        return Simple(found.text, py, found.type)

    def _turned(self, name: str, a: Simple, b: Simple) -> str | None:
        """`2 - x` as code: the number is the second operand of what ATen has."""
        if name in _TURNED:
            return f"torch.{_TURNED[name]}({b.text}, {a.text})"
        if name in ("add", "mul", "__and__", "__or__", "__xor__"):
            return f"torch.{_OF_TENSORS.get(name, name)}({b.text}, {a.text})"
        if name == "sub":
            return f"torch.add(torch.neg({b.text}), {a.text})"
        if name == "div":
            return f"torch.mul(torch.reciprocal({b.text}), {a.text})"
        if name == "floordiv":
            return f"torch.floor_divide(torch.full_like({b.text}, {a.text}), {b.text})"
        return None

    def unary(self, node: ast.UnaryOp) -> Simple:
        if isinstance(node.op, ast.Not):
            return self.condition(node).value
        value = self.simple(node.operand)
        if isinstance(node.op, ast.UAdd):
            return self.code.unsupported("unary plus isn't supported", node)
        negates = isinstance(node.op, ast.USub)
        if negates and value.is_constant and type(value.constant) in (int, float):
            return self.literal(-value.constant)
        name, sign = ("neg", "-") if negates else ("bitwise_not", "~")
        if value.type.kind == "class":
            return self.invoke(Method(value, "__neg__" if negates else "__invert__"), [], {}, node)
        if value.type == TENSOR:
            return Simple(f"torch.{name}({value.text})", f"({sign}{value.py})", TENSOR)
        return self.of_hosts(name, [value], {}, node)

    def compared(self, node: ast.Compare) -> Condition:
        operands = [node.left, *node.comparators]
        if len(node.ops) > 1:
            return self._chain(node, operands)
        op = node.ops[0]
        if isinstance(op, (ast.Is, ast.IsNot)):
            return self.identity(node, isinstance(op, ast.Is))
        a, b = self.evaluated([lambda e=e: self.expression(e) for e in operands])
        if isinstance(op, (ast.In, ast.NotIn)):
            value = self.contained(a, b, isinstance(op, ast.NotIn), node)
            return Condition(value, value.constant if value.is_constant else None)
        if type(op) not in _COMPARED:
            return self.code.unsupported(f"{type(op).__name__} aren't supported", node)
        name, sign = _COMPARED[type(op)]
        first, second = self.as_simple(a, node.left), self.as_simple(b, node)
        if NONE in (first.type, second.type) and name in ("eq", "ne"):
            return self.identity(node, name == "eq")
        if first.type.kind == "enum":
            if first.type != second.type or name not in ("eq", "ne"):
                return self.refuse(f"Cannot compare {first.type} with {second.type}", node)
            return Condition(
                Simple(f"torch.{name}({first.text}, {second.text})", f"({first.py} {sign} {second.py})", BOOL)
            )
        static = self._known(name, first, second)
        if static is not None:
            return Condition(self.literal(static), static)
        return Condition(self.operator(name, sign, first, second, node))

    def _known(self, name: str, a: Simple, b: Simple) -> bool | None:
        """The outcome for values that are known, as the attributes of a module that are constants."""
        if not (a.is_constant and b.is_constant) or TENSOR in (a.type, b.type):
            return None
        if name == "eq":
            return bool(a.constant == b.constant)
        return bool(a.constant != b.constant) if name == "ne" else None

    def _chain(self, node: ast.Compare, operands: list[ast.expr]) -> Condition:
        """`a < b < c` as `a < b and b < c`."""
        parts: list[ast.expr] = []
        for k, op in enumerate(node.ops):
            parts.append(ast.copy_location(ast.Compare(operands[k], [op], [operands[k + 1]]), node))
        return self.condition(ast.copy_location(ast.BoolOp(ast.And(), parts), node))

    def contained(self, a: Value, b: Value, negated: bool, node: ast.AST) -> Simple:
        if isinstance(b, Several) and b.keys is not None:
            key = self.as_simple(a, node)
            found = key.is_constant and key.constant in b.keys
            return self.literal(found != negated)
        if isinstance(b, ModuleRef):
            key = self.as_simple(a, node)
            if b.kind.keys is not None and key.is_constant:
                return self.literal((key.constant in b.kind.keys) != negated)
        item, items = self.as_simple(a, node), self.as_simple(b, node)
        if items.type.kind == "class":
            value = self.invoke(Method(items, "__contains__"), [item], {}, node)
        elif items.type.kind == "Tuple":
            found = self.list_of([self.item_of(items, k) for k in range(len(items.type.inner))], None, node)
            value = self.of_hosts("__contains__", [found, item], {}, node)
        else:
            value = self.of_hosts("__contains__", [items, item], {}, node)
        if not negated:
            return value
        return Simple(f"torch.__not__({value.text})", f"(not {value.py})", BOOL)

    # --- conditions ------------------------------
    def condition(self, node: ast.expr) -> Condition:
        """An expression as a condition."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            found = self.condition(node.operand)
            static = None if found.static is None else not found.static
            value = found.value
            turned = Simple(f"torch.__not__({value.text})", f"(not {value.py})", BOOL) if static is None else self.literal(static)
            return Condition(turned, static, found.other, found.then)
        if isinstance(node, ast.BoolOp):
            return self.boolean(node)
        if isinstance(node, ast.Compare):
            return self.compared(node)
        if isinstance(node, ast.Call):
            found = self.asked(node)
            if found is not None:
                return found
        value = self.as_bool(self.expression(node), node)
        return Condition(value, value.constant if value.is_constant else None)

    def as_bool(self, value: Value, node: ast.AST) -> Simple:
        """A value as a condition."""
        found = self.as_simple(value, node)
        if found.type == BOOL:
            return found
        if found.type in (TENSOR, INT, FLOAT, NUMBER):
            if found.is_constant and found.type != TENSOR:
                return self.literal(bool(found.constant))
            return Simple(f"bool({found.text})", f"bool({found.py})", BOOL)
        if found.type.kind in ("List", "Dict", "str"):
            return Simple(f"torch.ne(torch.len({found.text}), 0)", f"bool({found.py})", BOOL)
        if found.type.kind == "class" and self.unit.class_of(found.type).has("__bool__"):
            return self.invoke(Method(found, "__bool__"), [], {}, node)
        return self.refuse(f"Could not cast value of type {found.type} to bool", node)

    def boolean(self, node: ast.BoolOp) -> Condition:
        """`a and b`: the second is computed where the first leaves it open."""
        is_and = isinstance(node.op, ast.And)
        first = self.condition(node.values[0])
        for part in node.values[1:]:
            first = self._both(first, part, is_and)
        return first

    def _both(self, first: Condition, node: ast.expr, is_and: bool) -> Condition:
        if first.static is not None and first.static != is_and:
            return Condition(self.literal(not is_and), not is_and)
        refined = first.then if is_and else first.other
        if first.static is not None:
            with self.refined(refined):
                second = self.condition(node)
            return second._replace(then={**first.then, **second.then} if is_and else {}, other={} if is_and else {**first.other, **second.other})
        self.depth += 1
        with self.captured() as lines, self.refined(refined):
            second = self.condition(node)
        self.depth -= 1
        if second.static is not None and second.static != is_and and not lines:
            return Condition(self.literal(not is_and), not is_and)
        name = self.fresh()
        value = first.value
        if any(line.py is not None for line in lines):
            self.take_branches(name, value, is_and, lines, second.value)
            made = Simple(name, name, BOOL, stable=True)
        else:
            self.take_branches(name, value, is_and, lines, second.value, python=False)
            made = Simple(name, f"({value.py} {'and' if is_and else 'or'} {second.value.py})", BOOL)
        if is_and:
            return Condition(made, None, {**first.then, **second.then}, {})
        return Condition(made, None, {}, {**first.other, **second.other})

    def take_branches(
        self, name: str, test: Simple, is_and: bool, lines: list[Any], value: Simple, python: bool = True
    ) -> None:
        """Write `name = test and value`, or with `or`, as a branch."""
        known = "False" if is_and else "True"
        given = (f"{name} = {value.text}", f"{name} = {value.py}" if python else None)
        settled = (f"{name} = {known}", f"{name} = {known}" if python else None)
        self.add(f"if {test.text}:", f"if {test.py}:" if python else None)
        self.depth += 1
        if is_and:
            self.lines += lines
        self.add(*(given if is_and else settled))
        self.depth -= 1
        self.add("else:", "else:" if python else None)
        self.depth += 1
        if not is_and:
            self.lines += lines
        self.add(*(settled if is_and else given))
        self.depth -= 1

    def identity(self, node: ast.Compare, same: bool) -> Condition:
        """`x is None`, and what is known of x from it."""
        left, right = node.left, node.comparators[0]
        if isinstance(left, ast.Constant) and left.value is None:
            left, right = right, left
        found = self.expression(left)
        other = self.expression(right)
        if not (isinstance(other, Simple) and other.type == NONE):
            if isinstance(found, Simple) and isinstance(other, Simple):
                return self._same_enum(found, other, same, node)
            return Condition(self.literal((found is other) == same), (found is other) == same)
        if not isinstance(found, Simple):
            return Condition(self.literal(not same), not same)
        members = members_of(found.type)
        if found.type == NONE or (NONE not in members and found.type != ANY):
            static = (found.type == NONE) == same
            return Condition(self.literal(static), static)
        rest = Union(*(m for m in members if m != NONE)) if found.type != ANY else None
        refined = {left.id: rest} if isinstance(left, ast.Name) and rest is not None else {}
        nothing = {left.id: NONE} if isinstance(left, ast.Name) and rest is not None else {}
        name, sign = ("__is__", "is") if same else ("__isnot__", "is not")
        value = Simple(f"torch.{name}({found.text}, None)", f"({found.py} {sign} None)", BOOL)
        return Condition(value, None, nothing if same else refined, refined if same else nothing)

    def _same_enum(self, a: Simple, b: Simple, same: bool, node: ast.AST) -> Condition:
        if a.type.kind == "enum" and a.type == b.type:
            name, sign = ("eq", "is") if same else ("ne", "is not")
            return Condition(Simple(f"torch.{name}({a.text}, {b.text})", f"({a.py} {sign} {b.py})", BOOL))
        name, sign = ("__is__", "is") if same else ("__isnot__", "is not")
        if a.type.kind not in ("List", "Dict", "class", "Tensor", "bool", "Optional"):
            return self.refuse(f"'is' compares None, objects and members of enumerations, got {a.type} and {b.type}", node)
        return Condition(Simple(f"torch.{name}({a.text}, {b.text})", f"({a.py} {sign} {b.py})", BOOL))

    def ternary(self, node: ast.IfExp, hint: Type | None) -> Value:
        """`a if c else b`."""
        test = self.condition(node.test)
        if test.static is not None:
            with self.refined(test.then if test.static else test.other):
                return self.expression(node.body if test.static else node.orelse, hint)
        found: list[tuple[Simple, list[Any]]] = []
        self.depth += 1
        for part, refined in ((node.body, test.then), (node.orelse, test.other)):
            with self.captured() as lines, self.refined(refined):
                value = self.simple(part, hint)
            found.append((value, lines))
        self.depth -= 1
        (yes, first), (no, second) = found
        t = unified(yes.type, no.type)
        if t is None and hint is not None and is_subtype(yes.type, hint) and is_subtype(no.type, hint):
            t = hint
        if t is None:
            return self.refuse(
                f"If-expression has type mismatch: its branches have type {yes.type} but also type {no.type}", node
            )
        python = any(line.py is not None for line in (*first, *second))
        name = self.fresh()
        for head, (value, lines) in zip((f"if {{}}:", "else:"), found):
            self.add(head.format(test.value.text), head.format(test.value.py) if python else None)
            self.lines += lines
            self.depth += 1
            text = value.text if value.type == t else f"annotate({t.text}, {value.text})"
            self.add(f"{name} = {text}", f"{name} = {value.py}" if python else None)
            self.depth -= 1
        py = name if python else f"({yes.py} if {test.value.py} else {no.py})"
        return Simple(name, py, t, stable=python)

    # --- comprehensions ------------------------------
    def comprehension(self, node: ast.ListComp | ast.DictComp | ast.GeneratorExp, hint: Type | None) -> Value:
        """`[f(x) for x in y]`, as a loop that appends."""
        if len(node.generators) != 1:
            return self.code.not_supported("Only a single generator is currently supported", node)
        generator = node.generators[0]
        if generator.ifs and isinstance(node, ast.DictComp):
            return self.code.not_supported("Comprehension ifs are not supported yet", node)
        if generator.ifs:
            return self.code.not_supported("Comprehension ifs are not supported yet", node)
        iterated = self.expression(generator.iter)
        unrolled = self.unrolled(iterated)
        if unrolled is not None and not isinstance(node, ast.DictComp):
            return self._unrolled_list(node, generator, unrolled, hint)
        made = self.fresh()
        wanted = hint.plain.inner if hint is not None and hint.plain.kind in ("List", "Dict") else ()
        result: list[Type] = []

        def body() -> None:
            if not isinstance(node, ast.DictComp):
                value = self.simple(node.elt, wanted[0] if wanted else None)
                result.append(List(wanted[0] if wanted and is_subtype(value.type, wanted[0]) else value.type))
                self.add(f"{self.fresh()} = torch.append({made}, {value.text})", f"{made}.append({value.py})")
            else:
                key, value = self.simples([node.key, node.value])
                result.append(Dict(key.type, value.type))
                self.add(f"torch._set_item({made}, {key.text}, {value.text})", f"{made}[{key.py}] = {value.py}")

        with self.captured() as lines:
            self.loop_over(iterated, generator.target, body, node, own_names=True)
        t = result[0]
        self.add(f"{made} = annotate({t.text}, {'[]' if t.kind == 'List' else '{}'})", f"{made} = {'[]' if t.kind == 'List' else '{}'}")
        self.lines += lines
        return Simple(made, made, t, stable=True)

    def _unrolled_list(self, node: ast.ListComp | ast.GeneratorExp, generator: ast.comprehension, items: list[Value], hint: Type | None) -> Value:
        wanted = hint.plain.inner[0] if hint is not None and hint.plain.kind == "List" else None

        def one(value: Value) -> Value:
            self.frames.append({})
            self.bind_target(generator.target, value, node, own_names=True)
            found = self.simple(node.elt, wanted)
            self.frames.pop()
            return found if found.stable else self.held(found)

        found = self.evaluated([lambda v=v: one(v) for v in items])
        return self.list_of([v for v in found if isinstance(v, Simple)], wanted, node)


__all__ = ["ANY", "METHODS", "NOTHING", "Condition", "Expressions", "Host", "Iteration", "Optional", "Tensor", "filled", "host_call"]
