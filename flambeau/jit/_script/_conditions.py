"""Comparisons and conditions: their values, and what they say of variables."""

from __future__ import annotations

import ast
from typing import Any

from ._calls import Calls
from ._types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    TENSOR,
    Union,
    members_of,
)
from ._values import Condition, Method, ModuleRef, Several, Simple, Value

_COMPARED = {
    ast.Eq: ("eq", "=="),
    ast.NotEq: ("ne", "!="),
    ast.Lt: ("lt", "<"),
    ast.LtE: ("le", "<="),
    ast.Gt: ("gt", ">"),
    ast.GtE: ("ge", ">="),
}


class Conditions(Calls):
    """The part of a function's compiler that reads conditions."""

    refined: Any

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
        static = self._constant_outcome(name, first, second)
        if static is not None:
            return Condition(self.literal(static), static)
        return Condition(self.operator(name, sign, first, second, node))

    def _constant_outcome(self, name: str, a: Simple, b: Simple) -> bool | None:
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
            result = key.is_constant and key.constant in b.keys
            return self.literal(result != negated)
        if isinstance(b, ModuleRef):
            key = self.as_simple(a, node)
            if b.kind.keys is not None and key.is_constant:
                return self.literal((key.constant in b.kind.keys) != negated)
        item, items = self.as_simple(a, node), self.as_simple(b, node)
        if items.type.kind == "class":
            value = self.invoke(Method(items, "__contains__"), [item], {}, node)
        elif items.type.kind == "Tuple":
            result = self.list_of([self.item_of(items, k) for k in range(len(items.type.inner))], None, node)
            value = self.of_hosts("__contains__", [result, item], {}, node)
        else:
            value = self.of_hosts("__contains__", [items, item], {}, node)
        value = self.as_simple(value, node)
        if not negated:
            return value
        return Simple(f"torch.__not__({value.text})", f"(not {value.py})", BOOL)

    # --- conditions ------------------------------
    def condition(self, node: ast.expr) -> Condition:
        """An expression as a condition."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            result = self.condition(node.operand)
            static = None if result.static is None else not result.static
            value = result.value
            turned = (
                Simple(f"torch.__not__({value.text})", f"(not {value.py})", BOOL)
                if static is None
                else self.literal(static)
            )
            return Condition(turned, static, result.other, result.then)
        if isinstance(node, ast.BoolOp):
            return self.boolean(node)
        if isinstance(node, ast.Compare):
            return self.compared(node)
        if isinstance(node, ast.Call):
            result = self.special_call(node)
            if result is not None:
                return result
        value = self.as_bool(self.expression(node), node)
        return Condition(value, value.constant if value.is_constant else None)

    def as_bool(self, value: Value, node: ast.AST) -> Simple:
        """A value as a condition."""
        result = self.as_simple(value, node)
        if result.type == BOOL:
            return result
        if result.type in (TENSOR, INT, FLOAT, NUMBER):
            if result.is_constant and result.type != TENSOR:
                return self.literal(bool(result.constant))
            return Simple(f"bool({result.text})", f"bool({result.py})", BOOL)
        if result.type.kind in ("List", "Dict", "str"):
            return Simple(f"torch.ne(torch.len({result.text}), 0)", f"bool({result.py})", BOOL)
        if result.type.kind == "class" and self.unit.class_of(result.type).has("__bool__"):
            return self.as_simple(self.invoke(Method(result, "__bool__"), [], {}, node), node)
        return self.refuse(f"Could not cast value of type {result.type} to bool", node)

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
            return second._replace(
                then={**first.then, **second.then} if is_and else {},
                other={} if is_and else {**first.other, **second.other},
            )
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
        constant = "False" if is_and else "True"
        assigned = (f"{name} = {value.text}", f"{name} = {value.py}" if python else None)
        settled = (f"{name} = {constant}", f"{name} = {constant}" if python else None)
        self.add(f"if {test.text}:", f"if {test.py}:" if python else None)
        self.depth += 1
        if is_and:
            self.lines += lines
        self.add(*(assigned if is_and else settled))
        self.depth -= 1
        self.add("else:", "else:" if python else None)
        self.depth += 1
        if not is_and:
            self.lines += lines
        self.add(*(settled if is_and else assigned))
        self.depth -= 1

    def identity(self, node: ast.Compare, same: bool) -> Condition:
        """`x is None`, and what is known of x from it."""
        left, right = node.left, node.comparators[0]
        if isinstance(left, ast.Constant) and left.value is None:
            left, right = right, left
        result = self.expression(left)
        other = self.expression(right)
        if not (isinstance(other, Simple) and other.type == NONE):
            if isinstance(result, Simple) and isinstance(other, Simple):
                return self._same_enum(result, other, same, node)
            return Condition(self.literal((result is other) == same), (result is other) == same)
        if not isinstance(result, Simple):
            return Condition(self.literal(not same), not same)
        members = members_of(result.type)
        if result.type == NONE or (NONE not in members and result.type != ANY):
            static = (result.type == NONE) == same
            return Condition(self.literal(static), static)
        rest = Union(*(m for m in members if m != NONE)) if result.type != ANY else None
        refined = {left.id: rest} if isinstance(left, ast.Name) and rest is not None else {}
        nothing = {left.id: NONE} if isinstance(left, ast.Name) and rest is not None else {}
        name, sign = ("__is__", "is") if same else ("__isnot__", "is not")
        value = Simple(f"torch.{name}({result.text}, None)", f"({result.py} {sign} None)", BOOL)
        return Condition(value, None, nothing if same else refined, refined if same else nothing)

    def _same_enum(self, a: Simple, b: Simple, same: bool, node: ast.AST) -> Condition:
        if a.type.kind == "enum" and a.type == b.type:
            name, sign = ("eq", "is") if same else ("ne", "is not")
            return Condition(Simple(f"torch.{name}({a.text}, {b.text})", f"({a.py} {sign} {b.py})", BOOL))
        name, sign = ("__is__", "is") if same else ("__isnot__", "is not")
        if a.type.kind not in ("List", "Dict", "class", "Tensor", "bool", "Optional"):
            return self.refuse(
                f"'is' compares None, objects and members of enumerations, got {a.type} and {b.type}", node
            )
        return Condition(Simple(f"torch.{name}({a.text}, {b.text})", f"({a.py} {sign} {b.py})", BOOL))
